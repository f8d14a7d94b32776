"""Items of linearized kernels, as loopy.schedule has them."""

from __future__ import annotations

import kgen.compat.loopy as lp
from kgen.compat.loopy.schedule import (
    Barrier,
    BeginBlockItem,
    EndBlockItem,
    EnterLoop,
    ScheduleItem,
)

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
