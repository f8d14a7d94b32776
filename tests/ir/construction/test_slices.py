"""Slices in calls."""

from __future__ import annotations

from typing import Any

import pytest

from kgen.errors import KernelError
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.target import TargetBase


def make(text: str, *data: Any) -> LoopKernel:
    return make_loop_kernel(
        "{ [i]: 0 <= i < 4 }", text, [*data, ...], name="k", target=TargetBase()
    )


def test_a_slice_becomes_a_loop_over_the_axis() -> None:
    shapes = GlobalArg("y", shape="n"), GlobalArg("a", shape="n, 8")
    kernel = make("y[:] = f(a[:, i], a[:, 2:6])", *shapes)
    (insn,) = kernel.instructions
    assert str(insn).split("  {")[0] == (
        "[i_0]: y[i_0] = f([i_1]: a[i_1, i], [i_2, i_3]: a[i_2, 2 + i_3])"
    )
    assert insn.within_inames == {"i"}


@pytest.mark.parametrize(
    ("piece", "reference", "domain"),
    [
        (":", "[i_0]: a[i_0]", "[n] -> { [i_0] : 0 <= i_0 < n }"),
        ("2:", "[i_0]: a[2 + i_0]", "[n] -> { [i_0] : 0 <= i_0 <= -3 + n }"),
        (":m", "[i_0]: a[i_0]", "[m] -> { [i_0] : 0 <= i_0 < m }"),
        ("::2", "[i_0]: a[2*i_0]", "[n] -> { [i_0] : i_0 >= 0 and 2i_0 < n }"),
        ("1:7:3", "[i_0]: a[1 + 3*i_0]", "{ [i_0] : 0 <= i_0 <= 1 }"),
        ("7:-1:-1", "[i_0]: a[7 - i_0]", "{ [i_0] : 0 <= i_0 <= 7 }"),
        ("7:1:-3", "[i_0]: a[7 - 3*i_0]", "{ [i_0] : 0 <= i_0 <= 1 }"),
        ("::-1", "[i_0]: a[n - 1 - i_0]", "[n] -> { [i_0] : 0 <= i_0 < n }"),
    ],
)
def test_limits(piece: str, reference: str, domain: str) -> None:
    kernel = make(f"f(a[{piece}])", GlobalArg("a", shape="n"))
    assert str(kernel.instructions[0]).startswith(f"f({reference})")
    assert str(kernel.domains[1]) == domain


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("f(b[:])", "the end of 'b[:]' is not known"),
        ("f(b[::-1])", "the end of 'b[::-1]' is not known"),
        ("f(a[::i])", "is not a number, or 0"),
        ("f(a[::0])", "is not a number, or 0"),
        ("b[:] = 1", "slices are only allowed as arguments"),
        ("b[i] = sum(i, a[:])", "slices are only allowed as arguments"),
    ],
)
def test_refusals(text: str, what: str) -> None:
    with pytest.raises(KernelError) as caught:
        make(text, GlobalArg("a", shape="n"))
    assert what in str(caught.value)
    assert f"line 1: {text}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("y[:] = f(a)", "y[i_0] = f([i_1]: a[i_1])"),
        ("y[i] = f(a, a[i], n)", "f([i_0]: a[i_0], a[i], n)"),
        ("y[i] = f(s)", "y[i] = f(s)"),
    ],
)
def test_an_array_without_subscripts_is_passed_whole(text: str, read: str) -> None:
    shapes = GlobalArg("y", shape="n"), GlobalArg("a", shape="n"), GlobalArg("s", shape=())
    assert read in str(make(text, *shapes).instructions[0])


def test_loops_of_slices_have_names_that_nothing_else_has() -> None:
    shapes = GlobalArg("y", shape="n"), GlobalArg("a", shape="n")
    kernel = make("y[:] = f(a[:], i_0 + i_2(n)) {if=i_4 > 0}", *shapes)
    assert sorted(kernel.inames) == ["i", "i_1", "i_3"]
