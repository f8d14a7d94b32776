"""Times beside that of a copy: their numbers, and where the arrays come from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.performance.bench import place_arguments


def axpy(target: Any, **types: str) -> Any:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "y[i] = s*x[i] + y[i]", target=target, name="axpy")
    knl = lp.add_dtypes(knl, types)
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def test_bytes_are_those_of_arrays_read_and_written() -> None:
    knl = axpy(lp.ExecutableCTarget(), x="float32", y="float64")
    found = lp.bench(knl, {"n": 1000, "s": 2.0}, rounds=3)
    assert isinstance(found, lp.Timing)
    assert found.bytes == 1000 * (4 + 8 + 8)
    assert (found.kernel_name, len(found.seconds)) == ("axpy", 3)
    assert min(found.seconds) <= found.median_s <= max(found.seconds)
    assert json.loads(found.to_json())["of_copy"] == found.copy_s / found.median_s


def test_arrays_of_the_caller_give_sizes_and_types() -> None:
    x = np.ones(500, np.float32)
    found = lp.bench(axpy(lp.ExecutableCTarget()), {"x": x, "y": x.copy(), "s": 2.0}, rounds=1)
    assert found.bytes == 3 * x.nbytes


def test_arrays_are_on_the_device(opencl_queue: Any) -> None:
    knl = axpy(lp.PyOpenCLTarget(), x="float32", y="float32")
    x = np.arange(64, dtype=np.float32)
    placed = place_arguments(knl, {"n": 64, "s": np.float32(2), "x": x}, opencl_queue)
    assert (placed["x"].get() == x).all()
    assert placed["y"].shape == (64,)
    found = lp.bench(knl, {"n": 64, "s": np.float32(2), "x": x}, opencl_queue, rounds=1)
    assert opencl_queue.device.name.strip() in found.device


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"n": 8}, "no value for argument 's'"), ({"n": 8, "s": 1.0, "z": 1}, "no argument 'z'")],
)
def test_bad_arguments_are_rejected(arguments: dict[str, Any], text: str) -> None:
    knl = axpy(lp.ExecutableCTarget(), x="float32", y="float32", s="float32")
    with pytest.raises(lp.KgenError, match=text):
        lp.bench(knl, arguments)


def test_there_is_a_round() -> None:
    with pytest.raises(lp.KgenError, match="not in 0"):
        lp.bench(axpy(lp.ExecutableCTarget()), {}, rounds=0)
