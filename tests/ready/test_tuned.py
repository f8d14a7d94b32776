"""Ready kernels whose schedules are found by measurement."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.elementwise import ElementwiseKernel
from kgen.ready.tuned import Tunable
from kgen.reduction import ReductionKernel
from kgen.scan import InclusiveScanKernel

AXPY = ("float a, float *x, float *y", "y[i] = a*x[i] + y[i]")


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as found:
        yield found


def chosen(kernel: Tunable) -> list[dict[str, Any]]:
    """Return the schedules that calls have chosen."""
    names = ("chunk", "lanes", "rows", "group_size", "items")
    return [{k: v for k, v in key[2:] if k in names} for key in kernel._executors]


def test_calls_take_what_a_tune_found(executor: Executor, tmp_path: Path) -> None:
    x, y = np.arange(70_000, dtype=np.float32), np.ones(70_000, np.float32)
    kernel, file = ElementwiseKernel(*AXPY), tmp_path / "records"
    result = kernel.tune(2, x, y, records=file, evaluations=2, executor=executor)
    assert (y == 1).all()
    other = ElementwiseKernel(*AXPY, wisdom=file)
    for one in (kernel, other):
        one(2, x, y)
        assert chosen(one) == [result.best.configuration]
    np.testing.assert_array_equal(y, 4 * x + 1)


def test_another_operation_or_layout_has_its_own(executor: Executor, tmp_path: Path) -> None:
    x, file = np.ones((300, 200), np.float32), tmp_path / "records"
    total = ReductionKernel(np.float32, "0", "a+b", arguments="float *x")
    result = total.tune(x, axis=0, records=file, evaluations=2, executor=executor)
    assert list(result.best.configuration) == ["lanes"]
    np.testing.assert_array_equal(total(x, axis=0), x.sum(axis=0))
    total(x, axis=1)
    assert chosen(total) == [result.best.configuration, {}]
    largest = ReductionKernel(np.float32, "0", "max(a, b)", arguments="float *x", wisdom=file)
    largest(x, axis=0)
    assert chosen(largest) == [{}]


def test_scans_on_opencl(executor: Executor, opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    x = array.to_device(opencl_queue, np.arange(50_000))
    scan = InclusiveScanKernel(np.int64, "a+b")
    result = scan.tune(x, evaluations=2, executor=executor)
    np.testing.assert_array_equal(scan(x).get(), np.cumsum(np.arange(50_000)))
    assert chosen(scan)[0] == result.best.configuration


def test_few_elements_have_one_schedule() -> None:
    with pytest.raises(lp.KgenError, match=r"nothing to tune\n.*pass larger arrays"):
        InclusiveScanKernel(np.int32, "a+b").tune(np.arange(9, dtype=np.int32))
