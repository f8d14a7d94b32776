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
        "[islice_2]: y[islice_2] = f([islice]: a[islice, i], "
        "[islice_0, islice_1]: a[islice_0, 2 + islice_1])"
    )
    assert insn.within_inames == {"i"}


@pytest.mark.parametrize(
    ("piece", "reference", "domain"),
    [
        (":", "[islice]: a[islice]", "[n] -> { [islice] : 0 <= islice < n }"),
        ("2:", "[islice]: a[2 + islice]", "[n] -> { [islice] : 0 <= islice <= -3 + n }"),
        (":m", "[islice]: a[islice]", "[m] -> { [islice] : 0 <= islice < m }"),
        ("::2", "[islice]: a[2*islice]", "[n] -> { [islice] : islice >= 0 and 2islice < n }"),
        ("1:7:3", "[islice]: a[1 + 3*islice]", "{ [islice] : 0 <= islice <= 1 }"),
        ("7:-1:-1", "[islice]: a[7 - islice]", "{ [islice] : 0 <= islice <= 7 }"),
        ("7:1:-3", "[islice]: a[7 - 3*islice]", "{ [islice] : 0 <= islice <= 1 }"),
        ("::-1", "[islice]: a[n - 1 - islice]", "[n] -> { [islice] : 0 <= islice < n }"),
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
        ("y[:] = f(a)", "y[islice_0] = f([islice]: a[islice])"),
        ("y[i] = f(a, a[i], n)", "f([islice]: a[islice], a[i], n)"),
        ("y[i] = f(s)", "y[i] = f(s)"),
    ],
)
def test_an_array_without_subscripts_is_passed_whole(text: str, read: str) -> None:
    shapes = GlobalArg("y", shape="n"), GlobalArg("a", shape="n"), GlobalArg("s", shape=())
    assert read in str(make(text, *shapes).instructions[0])
