"""Random kernels that read neighbours: what windows keep from one iteration to the next."""

from __future__ import annotations

from tests.random import choices
from tests.random.choices import Draw
from tests.random.program import ArrayDecl, Program

__all__ = ["draw_window_program"]

#: Where the loop runs along which neighbours are read, and what is assumed.
_DOMAINS = (
    ("0 <= z < n", "n >= 0"),
    ("0 <= z < n", "n >= 1"),
    ("1 <= z < n - 1", "n >= 0"),
    ("0 <= z and x <= z < n", "n >= 0"),
    ("0 <= z < n and z <= x + 3", "n >= 0"),
    ("0 <= z < 4", "n >= 4"),
)
#: Subscripts that move with the loop, by one, by two, or backwards, all below 2*n + 4.
_SUBSCRIPTS = ("z + {}", "z + {}", "z + {}", "2*z + {}", "n - z + {}", "2*n - 2*z + {}")


def draw_window_program(draw: Draw) -> Program:
    """Draw sums of neighbours in ``z``, and in ``x``, of which there are a few."""
    length = draw(choices.integers(2, 5))
    bounds, assumptions = draw(choices.sampled_from(_DOMAINS))
    subscript = draw(choices.sampled_from(_SUBSCRIPTS))
    reads = [_read(draw, subscript) for _ in range(draw(choices.integers(2, 4)))]
    domains = [f"{{ [z, x] : {bounds} and 0 <= x < {length} }}"]
    if draw(choices.integers(0, 3)) == 0:
        domains.append(f"{{ [r] : 0 <= r < {draw(choices.integers(2, 3))} }}")
        reads.append(f"sum(r, c[r]*a[{subscript.format('r')}, x])")
    lines = [f"b[z, x] = {' + '.join(reads)} {{id=s0}}"]
    if draw(choices.integers(0, 3)) == 0:
        lines.append(f"d[z, x] = 2*{_read(draw, subscript)} + b[z, x] {{id=s1, dep=s0}}")
    arrays = (
        ArrayDecl("a", "int32", ("2*n + 4", str(length + 2))),
        ArrayDecl("b", "int32", ("n", str(length))),
        ArrayDecl("c", "int32", ("3",)),
        ArrayDecl("d", "int32", ("n", str(length))),
    )
    text = " ".join(lines)
    used = tuple(array for array in arrays if f"{array.name}[" in text)
    return Program(tuple(domains), tuple(lines), used, assumptions)


def _read(draw: Draw, subscript: str) -> str:
    """Draw a neighbour, with a factor."""
    z, x = draw(choices.integers(0, 3)), draw(choices.integers(0, 2))
    factor = draw(choices.sampled_from(("", "2*", "3*")))
    return f"{factor}a[{subscript.format(z)}, x + {x}]"
