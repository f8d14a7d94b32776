"""Layouts of arrays in which elements share storage."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


def lowered(layout: str, name: str) -> str:
    """Return the code of a copy through a temporary, one of whose arrays has a layout."""
    declared = [
        lp.GlobalArg("a, out", np.float32, shape="8, 3"),
        lp.TemporaryVariable("t", np.float32, shape="8, 3"),
        ...,
    ]
    text = "t[i, j] = a[i, j] {id=t}\nout[k, m] = t[k, m] {dep=t}"
    unit = lp.make_kernel("{ [i, j, k, m]: 0 <= i, k < 8 and 0 <= j, m < 3 }", text, declared)
    return lp.generate_body(lp.tag_array_axes(unit.copy(target=lp.CTarget()), name, layout))


@pytest.mark.parametrize("name", ["t", "out"])
@pytest.mark.parametrize(
    ("layout", "elements"),
    [
        ("stride:1, stride:1", r"\[0, 1\] and \w+\[1, 0\]"),
        ("stride:0, N0", r"\[0, 0\] and \w+\[1, 0\]"),
        ("stride:2, stride:1", r"\[0, 2\] and \w+\[1, 0\]"),
        ("stride:1, stride:7", r"\[0, 1\] and \w+\[7, 0\]"),
    ],
)
def test_written_elements_in_one_place_are_named(layout: str, elements: str, name: str) -> None:
    with pytest.raises(lp.KernelError, match=f"elements of '{name}' share storage") as error:
        lowered(layout, name=name)
    assert error.match(rf"{name}{elements} are in one place")


@pytest.mark.parametrize("layout", ["N0, N1", "stride:2, stride:17", "stride:4, stride:1"])
@pytest.mark.parametrize("name", ["t", "out"])
def test_gaps_and_interleaved_rows_are_layouts(layout: str, name: str) -> None:
    assert f"{name}[" in lowered(layout, name=name)


def test_elements_that_are_only_read_may_share_storage() -> None:
    assert "a[j]" in lowered("stride:0, stride:1", name="a")


def test_open_sizes_are_taken_as_two() -> None:
    args = [lp.GlobalArg("a, out", np.float32, shape="n, m"), ...]
    knl = lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", "out[i, j] = a[i, j]", args)
    lp.generate_body(lp.tag_array_axes(knl, "out", "stride:100, stride:1"))
    with pytest.raises(lp.KernelError, match="share storage"):
        lp.generate_body(lp.tag_array_axes(knl, "out", "stride:1, stride:1"))


def test_elements_that_are_not_written_do_not_count() -> None:
    """Four diagonals of a matrix fit into this storage: [i, j] is at 4*i + (j - i)."""
    band = lp.GlobalArg("out", np.float32, shape="8, 8", strides=(3, 1))
    for least, is_shared in ((-2, False), (-3, True)):
        domain = f"{{ [i, j]: 0 <= i, j < 8 and {least} <= j - i <= 1 }}"
        knl = lp.make_kernel(domain, "out[i, j] = i", [band, ...])
        if is_shared:
            with pytest.raises(lp.KernelError, match="share storage"):
                lp.generate_body(knl)
        else:
            assert "out[3 * i + j]" in lp.generate_body(knl)
