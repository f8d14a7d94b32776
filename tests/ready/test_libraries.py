"""Arrays of other libraries in calls of ready kernels."""

from __future__ import annotations

import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.algorithm import RadixSort, copy_if
from kgen.elementwise import ElementwiseKernel
from kgen.linalg import einsum, matmul, transpose
from kgen.reduction import ReductionKernel
from kgen.scan import ExclusiveScanKernel, GenericScanKernel, InclusiveScanKernel

AXPY = ElementwiseKernel("float a, float *x, float *y", "y[i] = a*x[i] + y[i]")
SUM = ReductionKernel(np.float32, "0", "a+b", arguments="float *x")


class Tensor:
    """An array of a library that has nothing but DLPack and the array API's namespace."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda given: Tensor(np.from_dlpack(given).copy()))

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


def tensor(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


def check(found: Any, expected: Any) -> None:
    assert isinstance(found, Tensor)
    np.testing.assert_array_equal(found.values, expected)


def test_elements_are_written_in_place() -> None:
    x, y = tensor(1, 2, 3), tensor(4, 5, 6)
    AXPY(2, x, y)
    check(y, [6, 9, 12])
    AXPY(1, y, y)
    check(y, [12, 18, 24])
    AXPY(1, np.ones(3, np.float32), y)
    check(y, [13, 19, 25])


def test_results_are_of_the_kind_of_the_first_array() -> None:
    x = tensor(3, 1, 2)
    check(SUM(x), 6)
    check(SUM(Tensor(np.ones((2, 3), np.float32)), axis=0), [2, 2, 2])
    check(InclusiveScanKernel(np.float32, "a+b")(x), [3, 4, 6])
    check(ExclusiveScanKernel(np.float32, "a+b", "0")(x), [0, 3, 4])
    out, count, _ = copy_if(x, "ary[i] > f[i]", [("f", tensor(2, 2, 1))])
    check(count, 2)
    check(Tensor(out.values[:2]), [3, 2])
    keys = Tensor(np.array([3, 1, 2], np.uint32))
    (found,), _ = RadixSort("uint *x", "x[i]", ["x"])(keys)
    check(found, [1, 2, 3])


def test_products() -> None:
    a = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    check(matmul(a, transpose(a)), [[5, 14], [14, 50]])
    check(einsum("ij->i", a), [3, 12])


def test_results_are_stored_where_the_caller_says() -> None:
    x, out = tensor(3, 1, 2), tensor(0, 0, 0)
    total = Tensor(np.zeros((), np.float32))
    assert SUM(x, out=total) is total
    check(total, 6)
    assert InclusiveScanKernel(np.float32, "a+b")(x, out) is out
    check(out, [3, 4, 6])
    knl = GenericScanKernel(
        np.float32, "float *x, float *y", "x[i]", "a+b", "0", "y[i] = prev_item"
    )
    knl(x, out)
    check(out, [0, 3, 4])
    square = Tensor(np.zeros((3, 3), np.float32))
    assert einsum("i,j->ij", x, x, out=square) is square
    check(square, np.outer([3, 1, 2], [3, 1, 2]))


def test_buffers_have_results_of_numpy() -> None:
    result = SUM(array.array("f", [1, 2, 3]))
    assert type(result) is np.ndarray
    assert result == 6
    x = memoryview(bytearray(12)).cast("f")
    AXPY(1, array.array("f", [1, 2, 3]), x)
    assert x.tolist() == [1, 2, 3]


def test_with_a_queue_arrays_of_the_host_go_to_its_device(opencl_queue: Any) -> None:
    y = tensor(4, 5)
    AXPY(2, tensor(1, 2), y, queue=opencl_queue)
    check(y, [6, 9])


CALLS: list[Callable[[Any], Any]] = [
    SUM,
    lambda x: AXPY(1, np.ones(2, np.float32), x),
    transpose,
    lambda x: copy_if(x, "ary[i] > 0"),
]


@pytest.mark.parametrize("value", [[1.0, 2.0], 3.0, None, "x"])
def test_what_is_no_array_is_rejected(value: Any) -> None:
    for call in CALLS:
        with pytest.raises(lp.InvocationError, match="is passed for the array"):
            call(value)


def test_memory_that_a_library_does_not_give_is_rejected() -> None:
    class Guarded(Tensor):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("it requires grad")

    with pytest.raises(lp.InvocationError, match=r"argument 'x', a .*Guarded, .* requires grad"):
        SUM(Guarded([1, 2]))
