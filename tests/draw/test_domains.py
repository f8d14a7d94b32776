"""Iterations: their places, tiles and order, and the dependences between them."""

from __future__ import annotations

import re

import pytest

import kgen as lp
from tests.draw.kernels import product, stencil, wave


def test_places_and_order_are_those_of_the_loops() -> None:
    found = lp.draw.iterations(wave(), {"m": 4, "n": 6})
    assert found.axes == ("t", "i")
    expected = [(t, i) for t in range(1, 4) for i in range(1, 5)]
    assert [point.position for point in found.points] == expected
    assert [point.order for point in found.points] == list(range(12))


def test_dependences_are_those_of_a_simulation() -> None:
    found = lp.draw.iterations(wave(), {"m": 4, "n": 6})
    edges = {
        (found.points[d.source].position, found.points[d.sink].position, d.kind)
        for d in found.dependences
    }
    places = [point.position for point in found.points]
    assert edges == {
        ((t - 1, i + k), (t, i), "flow")
        for t, i in places
        for k in (-1, 0, 1)
        if (t - 1, i + k) in places
    }


def test_anti_and_output_dependences() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < 3 and 0 <= j < 2 }",
        "a[i] = a[i + 1] + j",
        [lp.GlobalArg("a", "float64", shape=4)],
        target=lp.CTarget(),
    )
    knl = lp.prioritize_loops(knl, "i,j")
    found = lp.draw.iterations(knl).distances
    assert found["anti", "a", (1, 0)] == 2  # read in (i, 1), overwritten in (i + 1, 0)
    assert found["anti", "a", (1, -1)] == 2  # and so it is in (i, 0), and (i, 1)
    assert found["output", "a", (0, 1)] == 3


def test_tiles_of_split_loops() -> None:
    knl = lp.split_iname(wave(), "i", 3)
    knl = lp.prioritize_loops(knl, "t,i_outer,i_inner")
    found = lp.draw.iterations(knl, {"m": 3, "n": 9}, ("t", "i"))
    assert found.tiled_by == ("i_outer",)
    assert all(point.tile == (point.position[1] // 3,) for point in found.points)


def test_work_items_run_at_the_same_time() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "a[i] = i", target=lp.OpenCLTarget())
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    found = lp.draw.iterations(knl, {"n": 10})
    assert {point.order for point in found.points} == {0}
    assert [(p.group, p.item) for p in found.points] == [((i // 4,), (i % 4,)) for i in range(10)]


def test_a_third_axis_makes_slices() -> None:
    found = lp.draw.iterations(product(), {"n": 3})
    assert found.axes == ("i", "j", "k")
    assert {place: len(numbers) for place, numbers in found.slices().items()} == {0: 9, 1: 9, 2: 9}
    one = lp.draw.iterations(product(), {"n": 3}, ("i", "j"), at={"k": 1})
    assert [point.position for point in one.points] == [(i, j) for i in range(3) for j in range(3)]


def test_axes_may_be_expressions() -> None:
    found = lp.draw.iterations(wave(), {"m": 4, "n": 5}, ("t + i", "t"))
    assert found.points[0].position == (2, 1)


def test_the_instruction_is_one_in_the_loops_of_the_axes() -> None:
    found = lp.draw.iterations(stencil(), {"n": 10})
    assert found == lp.draw.iterations(stencil(), {"n": 10}, ("i", "j"))
    assert {point.insn_id for point in found.points} == {"insn"}
    assert found.tiled_by == ("i_outer", "j_outer")
    with pytest.raises(lp.KgenError, match="'i_inner', 'i_outer' are not around 'a_fetch_rule'"):
        lp.draw.iterations(stencil(), {"n": 10}, ("i",), insns="a_fetch_rule")


def test_text_of_a_triangle() -> None:
    knl = lp.make_kernel("{ [i, j]: 0 <= j <= i < 3 }", "a[i, j] = 1", target=lp.CTarget())
    text = str(lp.draw.iterations(knl, axes=("i", "j")))
    assert text.splitlines()[1:] == [
        "         j = 0   1   2",
        "  i = 0      0",
        "      1      1   2",
        "      2      3   4   5",
    ]


def test_what_a_condition_excludes_is_not_there() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 6 }", "if i % 2 == 1\n    a[i] = 1\nend", target=lp.CTarget()
    )
    assert [p.position for p in lp.draw.iterations(knl).points] == [(1,), (3,), (5,)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"params": {"n": 5}}, "depend on 'm', which has no value"),
        ({"params": {"m": 4, "n": 5}, "axes": ("x",)}, "there is no loop 'x'"),
        ({"params": {"m": 4, "n": 5}, "insns": "isn"}, "did you mean 'insn'?"),
        (
            {"params": {"m": 4, "n": 5}, "axes": ("t", "i", "t+i", "t-i")},
            "one to three axes, not 4",
        ),
        ({"params": {"m": 4, "n": 5}, "tiles": ("t_outer",)}, "there is no loop 't_outer'"),
        ({"params": {"m": 1, "n": 5}}, "'insn' has no iterations there"),
        ({"params": {"m": 4000, "n": 5000}}, "choose smaller sizes"),
    ],
)
def test_what_cannot_be_drawn(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(message)):
        lp.draw.iterations(wave(), **arguments)  # type: ignore[arg-type]
