"""Accesses of sub-groups: elements, transactions, and the banks of local memory."""

from __future__ import annotations

import re

import pytest

import kgen as lp
from kgen.ir.target import TargetBase
from tests.draw.kernels import product, stencil, transpose


def test_rows_and_columns() -> None:
    knl = lp.split_iname(product(), "i", 32, outer_tag="g.0", inner_tag="l.0")
    (load,) = lp.draw.accesses(knl, "a", {"n": 64}, group=(1,), at={"k": 3, "j": 5}).requests
    assert [touch.element for touch in load.touches] == [(32 + lane, 3) for lane in range(32)]
    assert len(load.transactions) == 32
    assert load.used == pytest.approx(4 / 32)
    (uniform,) = lp.draw.accesses(knl, "b", {"n": 64}).requests
    assert {touch.element for touch in uniform.touches} == {(0, 0)}


def test_transactions_are_counted_as_statistics_do() -> None:
    knl = lp.split_iname(product(), "j", 32, outer_tag="g.0", inner_tag="l.0")
    (store,) = lp.draw.accesses(knl, "c", {"n": 64}).requests
    assert list(store.transactions) == [0, 1, 2, 3]
    assert store.used == 1.0


def test_second_sub_group() -> None:
    knl = lp.split_iname(product(), "j", 64, outer_tag="g.0", inner_tag="l.0")
    (store,) = lp.draw.accesses(knl, "c", {"n": 64}, subgroup=1).requests
    assert [(t.lane, t.item, t.element) for t in store.touches] == [
        (lane, (32 + lane,), (0, 32 + lane)) for lane in range(32)
    ]


def test_a_fetch_by_strided_loops() -> None:
    (load,) = lp.draw.accesses(stencil(), "a", {"n": 66}, group=(2, 1)).requests
    rows = {(item[1], item[0]): t.element for t in load.touches for item in [t.item]}
    assert rows[0, 0] == (3, 15)  # the row and the column in front of the tile
    assert rows[3, 7] == (6, 22)
    assert len(load.touches) == 32


def test_places_in_memory_follow_the_layout() -> None:
    knl = lp.tag_array_axes(product(), "a", "N0, N1")
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    found = lp.draw.accesses(knl, "a", {"n": 64})
    assert found.strides == (4, 256)
    assert found.offset((3, 2)) == 3 * 4 + 2 * 256
    assert len(found.requests[0].transactions) == 4


def test_iterations_stand_for_work_items_on_hosts() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[2*i] = a[i]", [lp.GlobalArg("a", "float32"), ...],
        target=lp.CTarget(),
    )  # fmt: skip
    found = lp.draw.accesses(knl, "out", {"n": 20})
    assert found.unit == "iteration"
    assert found.requests[0].transaction == 64
    assert str(found).splitlines()[2] == "  out[0..14]   iterations 0-7"


def test_banks_with_and_without_padding() -> None:
    assert lp.draw.banks(transpose(), "a_fetch").passes == (1, 32)
    assert lp.draw.banks(transpose(padding=1), "a_fetch").passes == (1, 1)


def test_words_of_a_bank() -> None:
    found = lp.draw.banks(transpose(), "a_fetch", insn="insn")
    (load,) = found.requests
    assert found.words(load) == {0: frozenset(range(0, 1024, 32))}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lp.draw.accesses(stencil(), "c", {"n": 66}), "there is no array 'c'"),
        (
            lambda: lp.draw.accesses(stencil(), "b", {"n": 66}, group=(90, 0)),
            "not accessed in this place",
        ),
        (lambda: lp.draw.accesses(stencil(), "b", {"n": 66}, group=(1,)), "has 2 axes, not 1"),
        (lambda: lp.draw.banks(stencil(), "b", {"n": 66}), "'b' is not in local memory"),
    ],
)
def test_what_cannot_be_drawn(call: object, message: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(message)):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("target", "count", "size"),
    [(lp.ExecutableCTarget(), 2, 64), (lp.ISPCTarget(), 2, 64), (lp.OpenCLTarget(), 4, 32)],
)
def test_what_is_read_twice_is_one_access(target: TargetBase, count: int, size: int) -> None:
    args = [lp.GlobalArg("a", "float32"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < 32 }", "out[i] = a[i]*a[i]", args, target=target)
    (load,) = lp.draw.accesses(knl, "a").requests
    assert (len(load.touches), len(load.transactions), load.transaction) == (32, count, size)
