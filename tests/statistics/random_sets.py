"""Random parametric sets with floors and strides, for the tests of counting."""

from __future__ import annotations

import random

import islpy as isl

_PARAM = isl.dim_type.param


def random_set(seed: int) -> isl.Set:
    """Make a bounded set of 2 to 5 dimensions and 0 to 2 parameters."""
    rng = random.Random(seed)
    dims = [f"i{k}" for k in range(rng.randint(2, 5))]
    params = ["n", "m"][: rng.randint(0, 2)]
    pieces = [_piece(rng, dims, params) for _ in range(rng.choice((1, 1, 1, 2)))]
    return isl.Set(f"[{', '.join(params)}] -> {{ {'; '.join(pieces)} }}")


def _piece(rng: random.Random, dims: list[str], params: list[str]) -> str:
    conditions = []
    for k, dim in enumerate(dims):
        outer = dims[:k]
        low = rng.choice(["0", str(rng.randint(-3, 3)), *outer[-1:]])
        size = rng.choice([str(rng.randint(0, 6)), *params, *params])
        ends = [f"{low} + {rng.randint(0, 5)}", size, *(f"{name} + 2" for name in outer[-1:])]
        conditions.append(f"{low} <= {dim} < {rng.choice(ends)}")
        kind = rng.random()
        others = [*outer, *params]
        if kind < 0.15:
            conditions.append(f"{dim} mod {rng.randint(2, 5)} = {rng.randint(0, 1)}")
        elif kind < 0.3 and others:
            other, divisor = rng.choice(others), rng.randint(2, 5)
            conditions.append(f"{dim} <= floor(({rng.randint(1, 3)}{other} + 1)/{divisor})")
        elif kind < 0.4 and others:
            other = rng.choice(others)
            conditions.append(f"{rng.randint(1, 4)}{dim} >= {rng.randint(1, 3)}{other} - 2")
        elif kind < 0.5 and outer:
            conditions.append(f"({dim} + {rng.choice(outer)}) mod {rng.randint(2, 4)} = 0")
        elif kind < 0.57 and outer:
            conditions.append(f"2{dim} = 3{rng.choice(outer)} + {rng.randint(0, 1)}")
        elif kind < 0.62 and outer:
            conditions.append(f"4{rng.choice(outer)} <= {dim}")
    return f"[{', '.join(dims)}] : {' and '.join(conditions)}"


def fix_params(points: isl.Set, values: dict[str, int]) -> isl.Set:
    """Give the parameters of a set values."""
    for name, value in values.items():
        points = points.fix_val(_PARAM, points.find_dim_by_name(_PARAM, name), value)
    return points


def random_params(points: isl.Set, rng: random.Random) -> dict[str, int]:
    """Return values for the parameters of a set: small ones, where formulas go wrong."""
    names = (points.get_dim_name(_PARAM, k) for k in range(points.dim(_PARAM)))
    return {str(name): rng.randint(-1, rng.choice((4, 14))) for name in names}
