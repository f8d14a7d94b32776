"""Arrays of other libraries as arguments, without a copy."""

from __future__ import annotations

import array
import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.runtime.foreign import cuda_memory, host_array


class Exporter:
    """What has DLPack's methods and nothing else, as of version 1."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


class OldExporter(Exporter):
    """The same before version 1, which does not know of memory that is only read."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.values.__dlpack__()


class OnDevice(OldExporter):
    """An array that says that it is on a CUDA device."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class Interface:
    """What has an ``__array_interface__``."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


A = np.arange(5.0)
FORMS = [
    Exporter,
    OldExporter,
    Interface,
    memoryview,
    lambda values: array.array("d", values),
    lambda values: (ctypes.c_double * len(values))(*values),
]


@pytest.fixture
def knl() -> Any:
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[i] = c*a[i] + 1", target=lp.ExecutableCTarget()
    )


@pytest.mark.parametrize("form", FORMS)
def test_arrays_of_other_libraries_are_read_and_written(
    knl: Any, form: Callable[[Any], Any]
) -> None:
    out = form(np.zeros(5))
    _, (first,) = knl(a=A, c=2.0)  # the next call begins with the code for numpy's arrays
    for _ in range(2):
        _, (result,) = knl(a=form(A), c=2.0, out=out)
        assert result is out
        np.testing.assert_array_equal(host_array(out), first)


def test_results_by_name_are_what_was_passed(knl: Any) -> None:
    out = Exporter(np.zeros(5))
    _, results = lp.set_options(knl, return_dict=True)(a=Exporter(A), c=2.0, out=out)
    assert results == {"out": out}


def test_numbers_may_be_in_arrays_without_axes(knl: Any) -> None:
    _, (result,) = knl(a=A, c=Exporter(np.array(2.0)))
    np.testing.assert_array_equal(result, 2 * A + 1)


def test_memory_that_may_only_be_read_is_not_written(knl: Any) -> None:
    _, (result,) = knl(a=bytes(3), c=np.uint8(1))
    assert result.tolist() == [1, 1, 1]
    with pytest.raises(lp.InvocationError, match="argument 'out' is read-only"):
        knl(a=bytes(3), c=np.uint8(1), out=bytes(3))


def test_arrays_of_devices_are_no_arrays_of_the_host(knl: Any) -> None:
    with pytest.raises(lp.InvocationError, match="argument 'a' is an array, not a value of type"):
        knl(a=OnDevice(A), c=2.0)


def test_memory_that_a_library_does_not_give_is_rejected(knl: Any) -> None:
    class Guarded(Exporter):
        def __dlpack__(self, **kwargs: Any) -> Any:
            raise BufferError("it requires grad")

    with pytest.raises(lp.InvocationError, match=r"argument 'a', a .*Guarded, .* requires grad"):
        knl(a=Guarded(A), c=2.0)


def test_opencl_takes_arrays_of_the_host(knl: Any, opencl_queue: Any) -> None:
    out = Exporter(np.zeros(5))
    _, (result,) = knl.copy(target=lp.PyOpenCLTarget())(opencl_queue, a=Exporter(A), c=2.0, out=out)
    assert result is out
    np.testing.assert_array_equal(out.values, 2 * A + 1)


def test_dlpack_describes_strided_memory_on_cuda_devices() -> None:
    values = np.arange(24, dtype=np.int16).reshape(4, 6)[1:, ::2]
    memory = cuda_memory(OnDevice(values), 1)
    assert memory is not None
    assert (memory.shape, memory.strides, memory.dtype) == ((3, 3), values.strides, values.dtype)
    assert memory.address == values.__array_interface__["data"][0]


def test_the_cuda_array_interface_describes_memory() -> None:
    interface = {"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "stream": 7}
    tensor = SimpleNamespace(__cuda_array_interface__={**interface, "strides": None})
    memory = cuda_memory(tensor, 1)
    assert memory is not None
    assert (memory.address, memory.strides, memory.stream) == (4096, (12, 4), 7)
    assert cuda_memory(A, 1) is None


def test_tensors_of_bfloat16_are_no_bytes() -> None:
    pytest.importorskip("ml_dtypes")
    interface = {"shape": (3,), "typestr": "<V2", "data": (64, False), "version": 2}
    tensor = SimpleNamespace(__cuda_array_interface__=interface, dtype="torch.bfloat16")
    memory = cuda_memory(tensor, 1)
    assert memory is not None
    assert (memory.dtype.name, memory.strides) == ("bfloat16", (2,))


class Tensor(SimpleNamespace):
    """What the memory of a dense tensor of PyTorch is read from."""

    __module__ = "torch"

    @property
    def __cuda_array_interface__(self) -> Any:
        return {"shape": (1,), "typestr": "<f8", "data": (8, False), "strides": None}


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({}, 4096),
        ({"requires_grad": True}, 8),
        ({"layout": "sparse"}, 8),
        ({"is_neg": lambda: True}, 8),
        ({"dtype": "torch.complex64"}, 8),
        ({"dtype": "torch.qint8"}, 8),
        ({"is_cuda": False}, 8),
    ],
)
def test_tensors_are_read_without_their_interface(
    changes: dict[str, Any], address: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(strided="strided"))
    described = {
        "is_cuda": True,
        "layout": "strided",
        "dtype": "torch.float32",
        "requires_grad": False,
        "is_neg": lambda: False,
        "data_ptr": lambda: 4096,
        "shape": (2, 3),
        "stride": lambda: (1, 2),
    }
    memory = cuda_memory(Tensor(**{**described, **changes}), 1)
    assert memory is not None
    assert memory.address == address
    if not changes:
        assert (memory.shape, memory.strides, memory.dtype.name) == ((2, 3), (4, 8), "float32")
