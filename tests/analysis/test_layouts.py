"""Layouts of arrays in which elements share storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.expr import to_text
from kgen.lowering import generate_module


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


def copy_of(strides: Any, target: Any, text: str = "out[i, j] = a[i, j]") -> Any:
    out = lp.GlobalArg("out", np.float32, shape="n, m", strides=strides, is_input=False)
    args = [lp.GlobalArg("a", np.float32, shape="n, m"), out, ...]
    return lp.make_kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", text, args, target=target)


@pytest.mark.parametrize(
    ("strides", "sizes", "pair"),
    [
        ((4, 1), (3, 5), r"out\[0, 4\] and out\[1, 0\]"),
        ((1, 2), (3, 5), r"out\[0, 1\] and out\[2, 0\]"),
        ("m - 2, 1", (2, 6), r"out\[0, 4\] and out\[1, 0\]"),
        ((4, 1), (3, 4), None),
        ((4, 1), (1, 9), None),
        ((-4, 1), (3, 4), None),
        ("m + 2, 1", (2, 6), None),
    ],
)
@pytest.mark.parametrize("is_passed", [False, True])
def test_outputs_of_any_size_have_separate_elements(
    strides: Any, sizes: tuple[int, int], pair: str | None, is_passed: bool
) -> None:
    knl = copy_of(strides, lp.ExecutableCTarget())
    a = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    passed = {}
    if is_passed and pair is not None:
        steps = (sizes[1] - 2, 1) if isinstance(strides, str) else strides
        memory = np.zeros(99, np.float32)
        passed["out"] = np.lib.stride_tricks.as_strided(memory, sizes, [4 * s for s in steps])
    if pair is None:
        np.testing.assert_array_equal(knl(a=a)[1][0], a)
    else:
        with pytest.raises(lp.InvocationError, match=pair):
            knl(a=a, **passed)


def test_outputs_on_devices_have_separate_elements(device: Any) -> None:
    knl = copy_of((4, 1), lp.PyOpenCLTarget())
    with pytest.raises(lp.InvocationError, match=r"out\[0, 4\] and out\[1, 0\]"):
        device(knl, a=np.ones((3, 5), np.float32))


def test_rows_may_overlap_where_nothing_is_written() -> None:
    """The first three entries of each row fit, whatever its length is."""
    text = "out[i, j] = a[i, j]   {if=j < 3}"
    knl = lp.set_options(copy_of((4, 1), lp.ExecutableCTarget(), text), fill_value=0)
    a = np.arange(18, dtype=np.float32).reshape(3, 6)
    np.testing.assert_array_equal(knl(a=a)[1][0][:, :3], a[:, :3])


@pytest.mark.parametrize("target", [lp.CTarget(), lp.PyOpenCLTarget(), lp.CudaTarget()])
def test_programs_of_all_targets_state_the_sizes(target: Any) -> None:
    knl = lp.add_dtypes(copy_of((4, 1), target), {"a": np.float32})
    module = generate_module(knl.default_entrypoint)
    assert "m < 5" in " ".join(map(to_text, module.conditions))
