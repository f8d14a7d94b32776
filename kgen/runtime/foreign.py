"""Arrays of other libraries: their memory, on the host and on devices, without a copy."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np

from kgen.ir.types import BFLOAT16, read_type

__all__ = ["CudaMemory", "cuda_memory", "host_array"]

#: The kinds of memory in DLPack that the host can read: its own, and that pinned for CUDA or ROCm.
_HOST_MEMORY: Final = frozenset({1, 3, 11})


def host_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a view of an array of another library; ``None`` if it is not an array on the host.

    Arrays are objects with ``__array_interface__``, with DLPack's methods, and buffers, such as
    those of :mod:`array`, ctypes and :class:`bytes`. Nothing is copied.

    >>> import array
    >>> numbers = array.array("d", [1, 2])
    >>> view = host_array(numbers)
    >>> view[1] = 5
    >>> numbers, host_array([1, 2])
    (array('d', [1.0, 5.0]), None)
    """
    if isinstance(value, type):  # has the attributes that its instances have
        return None
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    device = getattr(value, "__dlpack_device__", None)
    if device is not None:
        return _of_dlpack(value) if device()[0] in _HOST_MEMORY else None
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        return None


def _of_dlpack(value: Any) -> np.ndarray[Any, Any]:
    array = np.from_dlpack(value)
    if array.flags.writeable:
        return array
    try:
        value.__dlpack__(max_version=(1, 0))
    except TypeError:  # before version 1.0 nothing was read-only, which numpy takes all to be
        return np.asarray(_Writable(array))
    return array


class _Writable:
    """The memory of an array, to be written as well."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


@dataclass(frozen=True, kw_only=True)
class CudaMemory:
    """An array on a CUDA device; *owner* keeps its memory, *stream* may still write it."""

    address: int
    shape: tuple[int, ...]
    #: in bytes
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any
    stream: int | None = None


def cuda_memory(value: Any, stream: int) -> CudaMemory | None:
    """Return the CUDA memory of an array of another library; ``None`` if it has none.

    Such arrays have ``__cuda_array_interface__``, or DLPack's methods; of these, data that are
    complete in *stream* are requested.
    """
    if type(value).__module__ == "torch":
        found = _of_tensor(value)
        if found is not None:
            return found
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        shape, dtype = tuple(interface["shape"]), _numpy_type(value, interface["typestr"])
        return CudaMemory(
            address=interface["data"][0] or 0,
            shape=shape,
            strides=tuple(interface.get("strides") or _in_order(shape, dtype.itemsize)),
            dtype=dtype,
            owner=value,
            stream=interface.get("stream"),
        )
    device = getattr(value, "__dlpack_device__", None)
    if device is None or device()[0] != _CUDA:
        return None
    return _read_capsule(value.__dlpack__(stream=stream))


def _of_tensor(tensor: Any) -> CudaMemory | None:
    """Return the memory of a PyTorch tensor, whose interface takes longer than a launch.

    ``None`` for those that the interface must explain: without CUDA memory or a type of numpy, with
    gradients, sparse, or to be negated.
    """
    torch = sys.modules["torch"]
    if not tensor.is_cuda or tensor.layout is not torch.strided:
        return None
    dtype = _type_of_tensor(tensor.dtype)
    if dtype is None or tensor.requires_grad or tensor.is_neg():
        return None
    return CudaMemory(
        address=tensor.data_ptr(),
        shape=tuple(tensor.shape),
        strides=tuple([step * dtype.itemsize for step in tensor.stride()]),
        dtype=dtype,
        owner=tensor,
    )


@cache
def _type_of_tensor(dtype: Any) -> np.dtype[Any] | None:
    """Return numpy's type for one of PyTorch's.

    ``None`` for types that numpy lacks, and for complex ones, whose tensors may be marked as
    conjugated.
    """
    name = str(dtype).removeprefix("torch.")
    if name == BFLOAT16:
        bfloat16: np.dtype[Any] = read_type(BFLOAT16, "an array").numpy_dtype
        return bfloat16
    try:
        found = np.dtype(name)
    except TypeError:
        return None
    return found if found.kind in "biuf" else None


def _numpy_type(value: Any, typestr: str) -> np.dtype[Any]:
    """Return the type of elements: numpy has no bfloat16, whose elements are raw bytes there."""
    dtype = np.dtype(typestr)
    is_bfloat16 = dtype.kind == "V" and str(getattr(value, "dtype", "")).endswith(BFLOAT16)
    return read_type(BFLOAT16, "an array").numpy_dtype if is_bfloat16 else dtype


def _in_order(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C's order, in bytes."""
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))[: len(shape)]


_CUDA: Final = 2
#: Kinds of numbers in DLPack.
_KINDS: Final = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(ctypes.Structure):
    """``DLTensor`` of ``dlpack.h``."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype = ctypes.c_void_p
_pointer_in.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _read_capsule(capsule: Any) -> CudaMemory:
    """Return the content of a DLPack capsule, which is freed with the capsule."""
    tensor = _Tensor.from_address(_pointer_in(capsule, b"dltensor"))
    if tensor.code not in _KINDS or tensor.lanes != 1:
        raise TypeError("its elements are of a type that numpy does not have")
    dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = _in_order(shape, dtype.itemsize)
    if tensor.strides:
        strides = tuple(dtype.itemsize * stride for stride in tensor.strides[: tensor.ndim])
    address = (tensor.data or 0) + tensor.byte_offset
    return CudaMemory(address=address, shape=shape, strides=strides, dtype=dtype, owner=capsule)
