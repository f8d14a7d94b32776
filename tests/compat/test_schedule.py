"""Items of linearized kernels, as loopy.schedule has them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import kgen.compat.loopy as lp
from kgen.compat.loopy.schedule import (
    Barrier,
    BeginBlockItem,
    EndBlockItem,
    EnterLoop,
    ScheduleItem,
)
from kgen.compat.loopy.schedule.tools import get_loop_tree, get_partial_loop_nest_tree
from kgen.compat.loopy.schedule.tree import Tree

TYPES = {"a": "f4"}


def items_of(unit: lp.TranslationUnit) -> tuple[ScheduleItem, ...]:
    linearized = lp.linearize(lp.add_dtypes(unit, TYPES))["loopy_kernel"].linearization
    assert linearized is not None
    return linearized


def test_blocks_begin_and_end_in_pairs() -> None:
    items = items_of(lp.make_kernel("{ [i]: 0 <= i < 8 }", "b[i] = a[i]", target=lp.CTarget()))
    kinds = [(isinstance(item, BeginBlockItem), isinstance(item, EndBlockItem)) for item in items]
    begins, ends, neither = (True, False), (False, True), (False, False)
    assert kinds == [begins, begins, neither, ends, ends]


def test_barriers_say_what_asks_for_them_and_of_which_memory() -> None:
    text = "b[i] = a[i]\n... gbarrier {id=wait}\nc[j] = b[7 - j]"
    unit = lp.make_kernel("{ [i, j]: 0 <= i, j < 8 }", text, seq_dependencies=True)
    unit = lp.tag_inames(unit, "i:g.0, j:g.0")
    assert [item for item in items_of(unit) if isinstance(item, Barrier)] == [
        Barrier(
            comment="", synchronization_kind="global", mem_kind="global", originating_insn_id="wait"
        )
    ]


def test_local_barriers() -> None:
    text = "<> t[i] = a[i]\n... lbarrier {id=wait, mem_kind=local}\nb[j] = t[7 - j]"
    unit = lp.make_kernel("{ [i, j]: 0 <= i, j < 8 }", text, seq_dependencies=True)
    unit = lp.set_temporary_address_space(unit, "t", "local")
    items = items_of(lp.tag_inames(unit, "i:l.0, j:l.0"))
    assert [item for item in items if isinstance(item, Barrier)] == [
        Barrier("requested by 'wait'", "local", "local", "wait")
    ]


def test_items_are_copied_with_changes() -> None:
    assert EnterLoop("i").copy(iname="j") == EnterLoop("j")
    assert Barrier("", "local", "local").copy(mem_kind="global").mem_kind == "global"


# -- trees of loops ------------------------------------------------------------------------------


def kernel_of(text: str, **settings: Any) -> lp.LoopKernel:
    unit = lp.make_kernel("{ [i, j, k, l]: 0 <= i, j, k, l < 6 }", text, **settings)
    return unit.default_entrypoint


def paths(tree: Tree[Any]) -> list[tuple[Any, ...]]:
    """Return the nodes from the root to each leaf, without the root."""
    leaves = [node for node in tree.nodes() if tree.is_leaf(node)]
    return sorted((*reversed(tree.ancestors(leaf)), leaf)[1:] for leaf in leaves)


@pytest.mark.parametrize(
    ("domain", "priority", "expected"),
    [
        ("{ [i, j]: 0 <= i, j < 6 }", "", ("i", "j")),
        ("{ [i, j]: 0 <= i, j < 6 }", "j,i", ("j", "i")),
        (["{ [j]: 0 <= j < 6 }", "[j] -> { [i]: 0 <= i <= j }"], "", ("j", "i")),
    ],
)
def test_a_tree_of_loops_is_in_the_order_of_priorities_and_domains(
    domain: Any, priority: str, expected: tuple[str, ...]
) -> None:
    unit = lp.make_kernel(domain, "a[i, j] = 1", loop_priority=priority)
    assert paths(get_loop_tree(unit.default_entrypoint)) == [expected]


def test_a_tree_has_no_loops_of_reductions() -> None:
    knl = kernel_of("a[i, j] = sum(l, c[l])\nb[i, k] = 2")
    assert paths(get_loop_tree(knl)) == [("i", "j"), ("i", "k")]


def test_loops_of_all_instructions_are_around_those_of_some() -> None:
    tree = get_partial_loop_nest_tree(kernel_of("a[i, j] = 1\nb[i, k] = 2\nc[l] = 3"))
    i, j, k, loop = map(frozenset, "ijkl")
    assert sorted(paths(tree), key=str) == sorted([(i, j), (i, k), (loop,)], key=str)
    with pytest.raises(lp.LoopyError, match="no loop is around all of these"):
        get_partial_loop_nest_tree(kernel_of("a[i, j] = 1\nb[j, k] = 2\nc[k, i] = 3"))


def test_loops_on_axes_are_in_no_tree() -> None:
    unit = lp.make_kernel("{ [i, j]: 0 <= i, j < 6 }", "a[i, j] = 1")
    knl = lp.tag_inames(unit, "i:g.0").default_entrypoint
    assert paths(get_loop_tree(knl)) == [("j",)]
    assert paths(get_partial_loop_nest_tree(knl)) == [(frozenset("j"),)]


def test_nodes_of_a_tree_are_moved_and_replaced() -> None:
    tree = Tree.from_root("r").add_node("a", "r").add_node("b", "a").add_node("c", "r")
    assert (tree.parent("r"), tree.ancestors("b"), tree.depth("b")) == (None, ("a", "r"), 2)
    assert paths(tree.move_node("c", "b")) == [("a", "b", "c")]
    assert paths(tree.replace_node("a", "d")) == [("c",), ("d", "b")]
    assert list(tree.nodes()) == ["r", "a", "b", "c"]
    assert importlib.import_module("kgen.schedule.tree").Tree is Tree
    assert "d" not in tree


def test_a_tree_rejects_unknown_and_second_nodes() -> None:
    tree = Tree.from_root("r").add_node("alpha", "r")
    with pytest.raises(KeyError, match="'alpa' is not in the tree\n  hint: did you mean 'alpha'"):
        tree.children("alpa")
    with pytest.raises(ValueError, match="'alpha' is in the tree already"):
        tree.add_node("alpha", "r")
    with pytest.raises(ValueError, match="cannot be moved below 'alpha'"):
        tree.move_node("r", "alpha")
