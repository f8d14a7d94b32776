"""Loops over work-items: where they end, what they share, and their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

import kgen as lp
from kgen.ast.items import with_item_loops
from kgen.ast.nodes import print_tree
from kgen.lowering import lower

TILE = lp.TemporaryVariable("t", np.float64, shape=16, address_space="local")


def loops(code: str, size: str = "16", tags: str = "i:l.0", **more: Any) -> str:
    """Return the code tree of a group of 16 work-items ``i``, of which *size* have instances."""
    arrays = [lp.GlobalArg("a, b", np.float64, shape=16), TILE]
    domains = [f"{{ [i]: 0 <= i < 16 and i < {size} }}", "{ [k]: 0 <= k < m }"]
    target = lp.CTarget(work_items=True)
    knl = lp.make_kernel(domains, code, [*arrays, "..."], target=target, **more)
    lowered = lower(lp.tag_inames(knl, tags).default_entrypoint)
    _, (function,) = with_item_loops(lowered.kernel, lowered.functions)
    assert function.locals == ()
    return print_tree(function.body)


def test_conditions_are_bounds_and_whole_groups_have_none() -> None:
    assert (
        loops("b[i] = a[i] {id=w}", "n")
        == """\
if n >= 16
  simd lid0 = 0 .. 16
    w(i=lid0)
else
  simd lid0 = 0 .. n
    w(i=lid0)"""
    )


def test_statements_that_share_no_value_have_loops_of_their_own() -> None:
    text = loops("t[i] = a[i] {id=one}\nb[i] = a[i] {id=two}")
    assert text == "simd lid0 = 0 .. 16\n  one(i=lid0)\nsimd lid0 = 0 .. 16\n  two(i=lid0)"


def test_a_value_stays_in_one_loop() -> None:
    text = loops("<> x = a[i] {id=x}\nb[i] = x {id=b}")
    assert text == "simd lid0 = 0 .. 16\n  x(i=lid0)\n  b(i=lid0)"


def test_values_pass_barriers_in_arrays() -> None:
    text = loops("<> x = a[i] {id=x}\nt[i] = x {id=t}\nb[i] = x + t[15 - i] {id=b}")
    loop = "simd lid0 = 0 .. 16\n  {}(lid0=lid0, i=lid0)"
    assert text == "\n".join((loop, loop, loop)).format("x", "t", "b")


def test_loops_of_instructions_are_outside() -> None:
    text = loops("b[i] = a[i] {id=w}\nfor k\n  b[i] = b[i] + k {id=add, dep=w}\nend", "n")
    assert text.endswith("  for k = 0 .. m\n    simd lid0 = 0 .. n\n      add(i=lid0)")


def test_bounds_that_differ_are_inside() -> None:
    domains = ["{ [i]: 0 <= i < 16 }", "{ [k]: 0 <= k < i }"]
    arrays = lp.GlobalArg("a, b", np.float64, shape=16)
    code = "for i, k\n  b[i] = b[i] + a[k] {id=w}\nend"
    knl = lp.make_kernel(domains, code, [arrays, "..."], target=lp.CTarget(work_items=True))
    loops = [
        line for line in lp.generate_body(lp.tag_inames(knl, "i:l.0")).split("\n") if "for" in line
    ]
    assert loops[0] == "  for (int lid0 = 0; lid0 < 16; ++lid0)"
    assert loops[1] == "    for (int k = 0; k < lid0; ++k)"
