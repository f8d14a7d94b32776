"""Masked arrays are refused: a kernel would compute with what the mask hides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import InvocationError, KernelError

TARGETS = [lp.ExecutableCTarget(), lp.PyOpenCLTarget()]


@pytest.fixture(params=TARGETS, ids=["c", "opencl"])
def run(request: pytest.FixtureRequest) -> Any:
    """Return a function that doubles an array."""
    unit = lp.make_kernel(
        "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a,out", "float64", shape="n"), ...]
    ).copy(target=request.param)
    if isinstance(request.param, lp.ExecutableCTarget):
        return unit
    queue = request.getfixturevalue("opencl_queue")
    return lambda **arguments: unit(queue, **arguments)


@pytest.mark.parametrize("mask", [np.ma.nomask, [False, True, False]])
@pytest.mark.parametrize("name", ["a", "out"])
def test_masked_arrays_are_refused_by_name(run: Any, name: str, mask: Any) -> None:
    given: dict[str, Any] = {"a": np.arange(3.0), "out": np.zeros(3)}
    masked = {**given, name: np.ma.MaskedArray(given[name], mask)}
    for arguments in (masked, given, masked):  # before code is there, and with it
        if arguments is given:
            run(**given)
            continue
        with pytest.raises(InvocationError, match=f"argument '{name}' is a masked array"):
            run(**arguments)


def test_masked_initializers_are_refused() -> None:
    with pytest.raises(KernelError, match="initializer of 't' is a masked array"):
        lp.TemporaryVariable("t", initializer=np.ma.masked_less(np.arange(3.0), 1), read_only=True)


class Tagged(np.ndarray[Any, Any]):
    """An array with the same elements."""


@pytest.mark.parametrize("kind", [Tagged, np.memmap, np.rec.recarray])
def test_other_subclasses_are_their_elements(run: Any, kind: Any) -> None:
    _, (out,) = run(a=np.arange(3.0).view(kind))
    np.testing.assert_array_equal(np.asarray(out), [0, 2, 4])
