"""Barriers of warps: where all that meet are in one warp, and only there."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.expr import substitute
from kgen.ir.language.expressions import parse
from kgen.ir.types import Memory, Reach
from kgen.lowering import prepare
from kgen.schedule.place import schedule_kernel
from kgen.schedule.separation import find_unsynchronized
from kgen.schedule.sync import Span, choose_barriers
from tests.cuda_host import HostCuda, LaunchMemoryTarget
from tests.mutation.mutants import with_weak_barriers
from tests.reference import Evaluator

AXES = "xyz"
NEAR = (Reach.WARP, Reach.GROUP)


def exchange(
    sizes: Sequence[int], reads: Sequence[str], target: lp.TargetBase | None = None
) -> lp.TranslationUnit:
    """Make work-items write an element each, and read one or more."""
    names, own = AXES[: len(sizes)], ", ".join(AXES[: len(sizes)])
    bounds = " and ".join(f"0 <= {n} < {size}" for n, size in zip(names, sizes, strict=True))
    value = " + ".join(f"t[{read}]" for read in reads)
    knl = lp.make_kernel(
        f"{{ [g, {own}]: 0 <= g < 4 and {bounds} }}",
        f"t[{own}] = a[g, {own}] {{id=write}}\nout[g, {own}] = {value} {{id=read, dep=write}}",
        [lp.TemporaryVariable("t", address_space=lp.AddressSpace.LOCAL), ...],
        target=target or LaunchMemoryTarget(),
    )
    tags = ", ".join(f"{n}:l.{axis}" for axis, n in enumerate(names))
    return lp.tag_inames(lp.add_dtypes(knl, {"a": np.float32}), f"g:g.0, {tags}")


def barriers(knl: lp.TranslationUnit) -> list[str]:
    lines = lp.generate_body(knl).splitlines()
    return [line.strip().partition("(")[0] for line in lines if "sync" in line or "barrier" in line]


CASES = [
    ((32, 4), "31 - x, y", "__syncwarp"),
    ((32, 4), "x, 3 - y", "__syncthreads"),
    ((64,), "32*(x // 32) + 31 - x % 32", "__syncwarp"),
    ((64,), "63 - x", "__syncthreads"),
    ((8, 4, 2), "7 - x, 3 - y, z", "__syncwarp"),
    ((8, 4, 2), "x, y, 1 - z", "__syncthreads"),
    ((16, 3), "15 - x, y", "__syncwarp"),
    ((16, 4), "x, 2*(y // 2) + 1 - y % 2", "__syncwarp"),
    ((40, 4), "39 - x, y", "__syncthreads"),
    ((5, 6), "4 - x, 5 - y", "__syncwarp"),
]


@pytest.mark.parametrize(("sizes", "read", "barrier"), CASES)
def test_the_distance_of_work_items_decides(
    sizes: tuple[int, ...], read: str, barrier: str
) -> None:
    assert barriers(exchange(sizes, [read])) == [barrier]
    assert barriers(exchange(sizes, [read], lp.OpenCLTarget())) == ["barrier"]


@pytest.mark.parametrize(("sizes", "read", "barrier"), CASES)
def test_so_it_is_for_each_of_them(sizes: tuple[int, ...], read: str, barrier: str) -> None:
    def warp(at: Sequence[int]) -> int:
        return int(np.ravel_multi_index(tuple(reversed(at)), tuple(reversed(sizes)))) // 32

    index = [parse(part) for part in read.split(", ")]
    are_near = True
    for at in itertools.product(*map(range, sizes)):
        values = dict(zip(AXES, at, strict=False))
        read_from = [int(Evaluator({}, lambda *_: 0, None)(substitute(e, values))) for e in index]
        are_near &= warp(at) == warp(read_from)
    assert are_near == (barrier == "__syncwarp")


def test_one_barrier_is_enough_for_both_distances() -> None:
    assert barriers(exchange((32, 4), ["31 - x, y", "x, 3 - y"])) == ["__syncthreads"]


def chain(target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    """Make rows exchange values before columns do."""
    local = lp.AddressSpace.LOCAL
    knl = lp.make_kernel(
        "{ [g, x, y]: 0 <= g < 4 and 0 <= x < 32 and 0 <= y < 4 }",
        """
        t[x, y] = a[g, x, y]          {id=first}
        u[x, y] = t[31 - x, y]        {id=second, dep=first}
        out[g, x, y] = u[x, 3 - y]    {dep=second}
        """,
        [lp.TemporaryVariable(name, address_space=local) for name in "tu"] + [...],
        target=target or LaunchMemoryTarget(),
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    return lp.tag_inames(knl, "g:g.0, x:l.0, y:l.1")


def test_each_barrier_is_as_weak_as_can_be() -> None:
    assert lp.generate_body(chain()) == CHAIN


CHAIN = """\
  extern __shared__ __align__(1024) unsigned char kgen_shared[];
  float *const t = (float *) &kgen_shared[0];
  float *const u = (float *) &kgen_shared[512];

  t[4 * lid(x) + lid(y)] = a[128 * gid(x) + 4 * lid(x) + lid(y)];
  __syncwarp();  // for t (second depends on first)
  u[4 * lid(x) + lid(y)] = t[lid(y) - 4 * lid(x) + 124];
  __syncthreads();  // for u (insn depends on second)
  out[128 * gid(x) + 4 * lid(x) + lid(y)] = u[4 * lid(x) - lid(y) + 3];"""


#: Kernels that exchange values, and the shapes of their arrays.
PROGRAMS = [(chain(), (4, 32, 4)), *((exchange(s, [r]), (4, *s)) for s, r, _ in CASES)]


@pytest.mark.parametrize("unit", [unit for unit, _ in PROGRAMS])
def test_a_weaker_barrier_is_found(unit: lp.TranslationUnit) -> None:
    kernel = prepare(unit.default_entrypoint)
    schedule = schedule_kernel(kernel)
    assert not list(find_unsynchronized(kernel, schedule))
    for reason, weak in with_weak_barriers(schedule):
        assert list(find_unsynchronized(kernel, weak)), reason


@pytest.mark.parametrize(("unit", "shape"), PROGRAMS)
def test_warps_run_apart(unit: lp.TranslationUnit, shape: Any, tmp_path: Path) -> None:
    a = np.random.default_rng(1).random(shape, dtype=np.float32)
    out = np.zeros_like(a)
    assert HostCuda(unit, tmp_path)({"a": a, "out": out}, order="any")
    np.testing.assert_array_equal(out, unit.copy(target=lp.ExecutableCTarget())(a=a)[1][0])


@pytest.mark.parametrize(("unit", "shape"), PROGRAMS)
def test_they_wait_on_cuda(unit: lp.TranslationUnit, shape: Any, cuda_context: Any) -> None:
    a = np.random.default_rng(1).random(shape, dtype=np.float32)
    expected = unit.copy(target=lp.ExecutableCTarget())(a=a)[1][0]
    np.testing.assert_array_equal(unit.copy(target=lp.PyCudaTarget())(a=a)[1][0], expected)


def test_they_are_counted_apart() -> None:
    counts = lp.get_synchronization_map(exchange((32, 4), ["31 - x, y"]))
    assert counts[lp.Sync("barrier_warp", "kgen_kernel")].eval_with_dict({}) == 1
    assert lp.Sync("barrier_local", "kgen_kernel") not in counts


@pytest.mark.parametrize("seed", range(60))
def test_the_fewest_barriers_of_the_group_are_chosen(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    spans = [
        Span(rng.randrange(count), rng.randrange(count), Memory.LOCAL, "", rng.choice(NEAR))
        for _ in range(rng.randint(0, 6))
    ]
    chosen = choose_barriers(spans, count)
    for span in spans:
        assert any(span.holds(k) and span.reach <= reach for k, reach in chosen.items())
    of_group = [k for k, reach in chosen.items() if reach is Reach.GROUP]
    far = [span for span in spans if span.reach is Reach.GROUP]
    for fewer in itertools.combinations(range(count), max(len(of_group) - 1, 0)):
        assert not of_group or not all(any(span.holds(k) for k in fewer) for span in far)
