"""Barriers that are kept apart from the branches around them."""

from __future__ import annotations

import itertools
import random

import pymbolic.primitives as p

import kgen as lp
from kgen.ast.nodes import Block, Comment, For, If, Node, Run, print_tree
from kgen.ast.separate import has_fragile_barriers, separate_barriers
from kgen.ir.expr import LocalHardwareAxisIndex
from kgen.ir.tree import Barrier, children_of, has_barrier
from kgen.ir.types import INT32, Memory

BARRIER = Barrier(Memory.LOCAL, "for t")
POSITIVE = p.Comparison(p.Variable("n"), ">", 0)


def test_branches_with_barriers_end_with_one() -> None:
    tree = If(POSITIVE, Block((BARRIER, Run("s", {}))), Run("other", {}))
    assert print_tree(separate_barriers(tree)).splitlines() == [
        "if n > 0",
        "  barrier local  # for t",
        "  s()",
        "  barrier local  # ends the guarded region",
        "else",
        "  other()",
    ]


def test_conditions_of_barriers_alone_are_left_out() -> None:
    work, other = Run("s", {}), Run("other", {})
    guarded = If(POSITIVE, Block((BARRIER, If(POSITIVE, BARRIER))))
    tree = Block((work, guarded, other, If(POSITIVE, BARRIER, other)))
    lines = print_tree(separate_barriers(tree)).splitlines()
    assert lines[:4] == ["s()", "barrier local  # for t", "barrier local  # for t", "other()"]
    assert lines[4] == "if n > 0"


def test_branches_with_barriers_begin_with_one() -> None:
    body = Block((Run("s", {}), BARRIER))
    lines = print_tree(separate_barriers(If(POSITIVE, body))).splitlines()
    assert lines[1:3] == ["  barrier local  # begins the guarded region", "  s()"]


def test_barriers_begin_and_end_branches_and_begin_and_follow_loops() -> None:
    """In random trees."""
    rng = random.Random(12)

    def draw(depth: int) -> Node:
        kind = rng.choice(["run", "barrier", "if", "else", "for"]) if depth else "run"
        if kind in ("run", "barrier"):
            return Run("s", {}) if kind == "run" else BARRIER
        body = Block(tuple(draw(depth - 1) for _ in range(rng.randint(1, 3))))
        if kind == "for":
            return For("i", INT32, 0, 4, 1, body)
        return If(POSITIVE, body, draw(depth - 1) if kind == "else" else None)

    def check(node: Node) -> None:
        for child in children_of(node):
            inside = child.children if isinstance(child, Block) else (child,)
            if isinstance(node, For | If) and has_barrier(child):
                assert isinstance(inside[0], Barrier)
                assert isinstance(node, For) or isinstance(inside[-1], Barrier)
            for first, second in itertools.pairwise(inside):
                if isinstance(first, For) and has_barrier(first):
                    assert isinstance(second, Barrier)
            check(child)

    for _ in range(300):
        check(separate_barriers(Block((Run("s", {}), draw(4)))))


def test_loops_with_barriers_begin_with_one() -> None:
    body = Block((Run("s", {}), BARRIER))
    lines = print_tree(separate_barriers(For("i", INT32, 0, 4, 1, body))).splitlines()
    assert lines[1:3] == ["  barrier local  # begins an iteration", "  s()"]
    for same in (Block((Run("s", {}),)), Block((BARRIER, Run("s", {})))):
        loop = For("i", INT32, 0, 4, 1, same)
        assert separate_barriers(loop) == loop


def test_loops_with_barriers_are_followed_by_one() -> None:
    loop = For("i", INT32, 0, 2, 1, Block((BARRIER, Run("s", {}))))
    after = Comment("reads t", Run("other", {}))
    for first in (loop, For("k", INT32, 0, 2, 1, loop)):
        lines = print_tree(separate_barriers(Block((first, after)))).splitlines()
        assert lines[-3:] == ["barrier local  # follows the loop", *lines[-2:]]
    for same in (loop, Block((loop, BARRIER)), Block((Run("s", {}), loop))):
        assert separate_barriers(same) == same


def test_barriers_are_fragile_in_loops_that_ask_for_the_iteration() -> None:
    for first, is_fragile in ((p.Variable("i"), True), (p.Variable("n"), False)):
        for axis in (0, LocalHardwareAxisIndex(0)):
            guarded = If(p.Comparison(first + axis, ">=", 1), Run("s", {}))
            loop = For("i", INT32, 0, 2, 1, Block((BARRIER, guarded)))
            assert has_fragile_barriers(loop, 64) == (is_fragile and axis == 0)


def test_code_says_nothing_of_it_unless_asked() -> None:
    local = lp.TemporaryVariable("t", "int32", shape=4, address_space=lp.AddressSpace.LOCAL)
    code = ["t[i] = i {inames=i:k}", "a[k, j] = t[3 - j] {inames=j:k}"]
    knl = lp.make_kernel("{[k, i, j]: 0 <= k < n and 0 <= i, j < 4}", code, [local, ...])
    knl = lp.add_dtypes(lp.tag_inames(knl, "i:l.0, j:l.0"), {"a": "float32"})
    knl = lp.split_iname(knl, "k", 4, slabs=(0, 1))
    apart = knl.copy(target=lp.PyOpenCLTarget(suits_pocl=True))
    end = "    barrier(CLK_LOCAL_MEM_FENCE);  // ends the guarded region\n  }"
    assert [lp.generate_body(unit).count(end) for unit in (knl, apart)] == [0, 1]


def test_variables_have_a_value_beside_the_condition_that_sets_them() -> None:
    """PoCL 3.1 computes with other values of ``x``, and only if the process has luck."""
    local = lp.TemporaryVariable("t", "int32", shape=4, address_space=lp.AddressSpace.LOCAL)
    code = "<> x = a[i] {if=i<n}\nt[i] = i {id=t}\nout[i] = x + t[3 - i] {if=i<n}"
    given = [local, lp.ValueArg("n", "int32"), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", code, given, seq_dependencies=True)
    knl = lp.add_dtypes(lp.tag_inames(knl, "i:l.0"), {"a": "int32"})
    apart = knl.copy(target=lp.PyOpenCLTarget(suits_pocl=True))
    assert ["  int x = 0;\n" in lp.generate_body(unit) for unit in (knl, apart)] == [False, True]


def test_barriers_are_fragile_where_code_follows_a_way_around() -> None:
    guarded = If(POSITIVE, BARRIER)
    assert not has_fragile_barriers(Block((Run("s", {}), guarded)), 64)
    assert has_fragile_barriers(Block((guarded, Run("s", {}))), 64)


def test_barriers_are_fragile_beside_conditions_on_data_in_turn() -> None:
    data = p.Comparison(p.Subscript(p.Variable("a"), 0), ">", 0)
    alone = If(data, Run("s", {}), None, reads_data=True)
    in_turn = If(p.LogicalAnd((POSITIVE, data)), Run("s", {}), None, reads_data=True)
    assert [has_fragile_barriers(Block((BARRIER, node)), 64) for node in (alone, in_turn)] == [
        False,
        True,
    ]
    assert not has_fragile_barriers(in_turn, 64)


def test_barriers_are_fragile_in_small_groups_with_conditions_in_loops() -> None:
    for first, is_fragile in ((p.Variable("i"), True), (p.Variable("n"), False)):
        guarded = If(p.Comparison(first, ">=", 1), Run("s", {}))
        code = Block((BARRIER, For("i", INT32, 0, 2, 1, guarded)))
        found = [has_fragile_barriers(code, n_items) for n_items in (2, 3)]
        assert found == [is_fragile, False]
