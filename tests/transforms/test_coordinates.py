"""Loops in any new coordinates visit the same points, each of them once."""

from __future__ import annotations

from functools import partial
from typing import Any

import islpy as isl
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kgen as lp
from kgen.ir.sets.quasi_affine import pw_aff_from_expr
from tests.transforms.helpers import kernel_of

DOMAINS = (
    ["{[i, j]: 0 <= i < n and 0 <= j < 6}"],
    ["{[i, j]: 0 <= i < n and 0 <= j < 6 and j <= i}"],
    ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 6 and j <= i}"],
    ["{[i]: -3 <= i < n and i mod 2 = 0}", "{[j]: 1 <= j < 7}"],
)


def visited(kernel: lp.LoopKernel) -> tuple[isl.Set, bool]:
    """Return the elements of ``a`` that are written, and whether each is once."""
    insn = kernel.id_to_insn["insn"]
    domain = kernel.domain_of(tuple(sorted(insn.within_inames)))
    (place,) = insn.assignees
    first, *rest = (pw_aff_from_expr(domain.get_space(), part) for part in place.index_tuple)
    relation = isl.Map.from_pw_aff(first)
    for other in rest:
        relation = relation.flat_range_product(isl.Map.from_pw_aff(other))
    relation = relation.intersect_domain(domain)
    return relation.range(), bool(relation.is_injective())


def split(pick: int, length: int, program: Any) -> Any:
    return lp.split_iname(program, nth_iname(program, pick), length)


def chunk(pick: int, count: int, program: Any) -> Any:
    return lp.chunk_iname(program, nth_iname(program, pick), count)


def turn(pick: int, shift: int, program: Any) -> Any:
    name = nth_iname(program, pick)
    return lp.affine_map_inames(program, name, f"{name}_t", f"{name}_t = {shift} - {name}")


def join(pick: int, other: int, program: Any) -> Any:
    return lp.join_inames(program, [nth_iname(program, pick), nth_iname(program, other)])


def copy(pick: int, suffix: int, program: Any) -> Any:
    return lp.duplicate_inames(program, nth_iname(program, pick), None, suffix=f"_c{suffix}")


def nth_iname(program: Any, pick: int) -> str:
    names = sorted(kernel_of(program).inames)
    return names[pick % len(names)]


STEPS = st.builds(
    partial, st.sampled_from([split, chunk, turn, join, copy]), st.integers(0, 5), st.integers(1, 5)
)


@settings(max_examples=60)
@example(DOMAINS[2], [partial(split, 0, 1), partial(join, 0, 2)])
@given(st.sampled_from(DOMAINS), st.lists(STEPS, min_size=1, max_size=4))
def test_every_point_is_visited_once(domains: list[str], steps: list[Any]) -> None:
    knl = lp.make_kernel(domains, "a[i + 3, j] = 0", [lp.GlobalArg("a", shape="n + 3, 8"), ...])
    expected, _ = visited(kernel_of(knl))
    for step in steps:
        try:
            knl = step(knl)
        except lp.TransformError:  # such as a join without constant bounds
            continue
    found, is_once = visited(kernel_of(knl))
    assert found.is_equal(expected)
    assert is_once
