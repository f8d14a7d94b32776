"""Quotients and remainders of which bounds of variables leave one value."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.analysis.signs import Signs
from kgen.ast.divisions import fold_divisions
from kgen.ast.nodes import Block, If, Run, print_tree
from kgen.ir.affine import move_to_sides, simplify
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, TruncQuotient, TruncRemainder
from kgen.ir.stages import DeviceKernel, PreparedKernel
from tests.oracle import Evaluator

LID = LocalHardwareAxisIndex(0)


def axis_of(size: int) -> DeviceKernel:
    knl = lp.make_kernel(f"{{[i, j]: 0 <= i < {size} and -6 <= j < 9}}", "out[i, j + 6] = 1")
    return DeviceKernel(PreparedKernel(lp.tag_inames(knl, "i:l.0")["kgen_kernel"]))


def folded(condition: Expr, **values: Expr) -> str:
    node = fold_divisions(If(condition, Run("s", values)), axis_of(120))
    return print_tree(node)


def test_guards_that_always_hold_are_left_out() -> None:
    guard = p.Comparison(p.FloorDiv(LID + 200, 160), "<", 2)
    assert folded(guard, i=p.Remainder(LID, 128), k=p.FloorDiv(LID, 128)) == "s(i=lid(0), k=0)"
    assert folded(p.LogicalNot(guard)).startswith("if")
    never = p.Comparison(TruncQuotient(LID, 120), ">=", 1)
    assert fold_divisions(If(never, Run("s", {})), axis_of(120)) == Block(())


def test_multiples_of_quotients_are_near_the_dividend() -> None:
    multiple = 4 * p.FloorDiv(LID + 1, 4)
    assert folded(p.Comparison(multiple, "<", LID + 2), i=LID) == "s(i=lid(0))"
    never = p.Comparison(multiple + 3, "<", LID)
    assert fold_divisions(If(never, Run("s", {})), axis_of(120)) == Block(())
    assert folded(p.Comparison(multiple, "<", LID + 1)).startswith("if")


@pytest.mark.parametrize("seed", range(40))
def test_only_what_always_holds_is_left_out(seed: int) -> None:
    rng = random.Random(seed)
    kinds = (p.FloorDiv, p.Remainder, TruncQuotient, TruncRemainder)
    quotient = rng.choice(kinds)(rng.randint(1, 3) * LID + rng.randint(0, 9), rng.randint(2, 9))
    left = rng.randint(-9, 9) * quotient + rng.randint(-3, 3) * LID
    operator = rng.choice(("<", "<=", ">", ">=", "==", "!="))
    guard = p.Comparison(left, operator, rng.randint(-40, 40))
    values = {bool(Evaluator({}, (0,), (lid,))(guard)) for lid in range(120)}
    code = fold_divisions(If(guard, Run("s", {})), axis_of(120))
    if not isinstance(code, If):
        assert values == {code != Block(())}
        return
    for lid in range(120):
        ran = Evaluator({}, (0,), (lid,))(code.condition)
        assert bool(ran) == bool(Evaluator({}, (0,), (lid,))(guard))


def test_guards_bound_the_axis_below_them() -> None:
    guard = p.Comparison(TruncQuotient(LID + 80, 120), "<", 1)
    text = folded(guard, i=p.FloorDiv(LID + 40, 40), k=TruncRemainder(LID + 40, 80))
    assert text == "if lid(0) < 40\n  s(i=1, k=lid(0) + 40)"


def test_the_other_branch_has_the_opposite_bound() -> None:
    guard = p.Comparison(LID, "<", 40)
    branches = Run("s", {"i": p.FloorDiv(LID, 40)}), Run("t", {"k": p.Remainder(LID + 40, 80)})
    text = print_tree(fold_divisions(If(guard, *branches), axis_of(80)))
    assert text == "if lid(0) < 40\n  s(i=0)\nelse\n  t(k=lid(0) - 40)"


@pytest.mark.parametrize("bound", range(1, 7))
@pytest.mark.parametrize("offset", range(4))
def test_both_branches_read_their_elements(bound: int, offset: int, device: Any) -> None:
    text = f"""
    for i
        if i >= {bound}
            out[i] = a[(i + {offset}) % {bound + 1}]
        else
            out[i] = -a[(i + {offset}) % {bound}]
        end
    end
    """
    data = [lp.GlobalArg("a", shape="8"), "..."]
    knl = lp.make_kernel("{[i]: 0 <= i < 7}", text, data, target=lp.PyOpenCLTarget())
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    a, i = np.arange(1, 9), np.arange(7)
    _, (out,) = device(knl, a=a)
    assert np.array_equal(
        out, np.where(i >= bound, a[(i + offset) % (bound + 1)], -a[(i + offset) % bound])
    )


def test_subscripts_of_work_items_have_no_division_that_is_known() -> None:
    text = "out[i] = a[i // 32] + a[i % 32] + b[(i // 8) % 4] * (i % 32)"
    knl = lp.make_kernel("{[i]: 0 <= i < 64}", text, [lp.GlobalArg("a,b", shape=None), ...])
    knl = lp.add_dtypes(knl, {"a": "float32", "b": "float32"}).copy(target=lp.OpenCLTarget())
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    value = "a[gid(0)] + a[lid(0)] + b[lid(0) / 8] * lid(0)"
    assert lp.generate_body(knl).strip() == f"out[32 * gid(0) + lid(0)] = {value};"


def draw_index(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice((LID, p.Variable("j"), rng.randint(-20, 20)))
    inner, which = draw_index(rng, depth - 1), rng.randrange(6)
    if which == 0:
        return p.Sum((inner, draw_index(rng, depth - 1)))
    if which == 1:
        return p.Product((rng.randint(-3, 40), inner))
    kind = (p.FloorDiv, p.Remainder, TruncQuotient, TruncRemainder)[which - 2]
    return kind(inner, rng.choice((1, 2, 3, 8, 16, 40)))


def value_of(expr: Expr, i: int, j: int) -> int:
    return int(Evaluator({"j": j}, (), (i,))(expr))


@pytest.mark.parametrize("seed", range(150))
def test_simplified_divisions_have_the_same_values(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice((1, 3, 8, 17, 32))
    expr, bound = draw_index(rng, rng.randint(1, 4)), rng.randint(-3, 4)
    sign = rng.choice(("<", "<=", ">", ">=", "==", "!="))
    signs = Signs(axis_of(size))
    simple = simplify(expr, None, signs.interval)
    guard = move_to_sides(expr, sign, bound)
    for i in range(size):
        for j in range(-6, 9):
            want = value_of(expr, i, j)
            assert value_of(simple, i, j) == want, (expr, simple)
            decided = value_of(p.Comparison(want, sign, bound), i, j)
            assert value_of(guard, i, j) == decided, (expr, guard)
