"""Arrays of other libraries in calls of ready kernels: views, and results of the same type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from kgen.errors import InvocationError, KgenError
from kgen.ir.types import BFLOAT16
from kgen.runtime.foreign import host_array
from kgen.targets.cuda import PyCudaTarget

__all__ = ["is_native", "like", "native", "viewed"]

_CUDA: Final = PyCudaTarget()
#: Kinds of memory in DLPack that belong to CUDA.
_CUDA_MEMORY: Final = frozenset({2, 13})

#: How libraries allocate memory on the device of an array, by name.
_ALLOCATORS: Final[Mapping[str, Callable[[Any, Any, int], Any]]] = {
    "torch": lambda torch, array, n: torch.empty(n, dtype=torch.uint8, device=array.device),
    "cupy": lambda cupy, array, n: cupy.empty(n, np.uint8),
    "numba": lambda numba, array, n: numba.cuda.device_array(n, np.uint8),
}
#: How libraries take over an array of pycuda.
_FROM_CUDA: Final[Mapping[str, Callable[[Any, Any, Any], Any]]] = {
    "torch": lambda torch, array, result: _to_torch(torch, array.device, result),
    "cupy": lambda cupy, array, result: cupy.asarray(result),
    "numba": lambda numba, array, result: numba.cuda.as_cuda_array(result),
}


def _to_torch(torch: Any, device: Any, result: Any) -> Any:
    """Return a pycuda array as a PyTorch tensor, which takes numpy's types, but not bfloat16.

    If the array fills a tensor of bytes that was allocated for it, return a view of that tensor,
    which is faster.
    """
    memory = result.base
    if type(memory) is torch.Tensor and memory.dtype is torch.uint8 and result.flags.c_contiguous:
        dtype = getattr(torch, result.dtype.name, None)
        if dtype is not None and (memory.data_ptr(), len(memory)) == (result.ptr, result.nbytes):
            return memory.view(dtype).view(result.shape)
    if result.dtype.name != BFLOAT16:
        return torch.as_tensor(result, device=device)
    return torch.as_tensor(result.view(np.int16), device=device).view(torch.bfloat16)


def is_native(value: Any) -> bool:
    """Tell whether a value is an array of numpy, pyopencl or pycuda.

    >>> is_native(np.zeros(3)), is_native(np.float32(3)), is_native(memoryview(b"abc"))
    (True, False, False)
    """
    return isinstance(value, np.ndarray) or hasattr(value, "base_data") or hasattr(value, "gpudata")


def viewed(kernel: str, name: str, value: Any, stream: Any = None) -> Any:
    """Return an array as one of numpy, pyopencl or pycuda, of the same memory.

    ``None`` for a value that is not an array.

    >>> viewed("k", "x", memoryview(b"abc")), viewed("k", "x", np.float32(3))
    (array([97, 98, 99], dtype=uint8), None)
    """
    if is_native(value):
        return value
    if isinstance(value, np.generic | bool | int | float | complex | str):
        return None
    try:
        return _on_cuda(value, stream) if _is_on_cuda(value) else host_array(value)
    except KgenError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        kind = f"{type(value).__module__}.{type(value).__name__}"
        raise InvocationError(
            f"the memory of argument '{name}', a {kind}, cannot be used: {error}",
            kernel=kernel,
            hint="pass a copy of it",
        ) from error


def _is_on_cuda(value: Any) -> bool:
    # PyTorch's tensors have "is_cuda", which is much faster than their interface
    if getattr(value, "is_cuda", None) is True or hasattr(value, "__cuda_array_interface__"):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and device()[0] in _CUDA_MEMORY


def _on_cuda(value: Any, stream: Any) -> Any:
    name, library = _library_of(value)
    make = _ALLOCATORS.get(name)
    allocator = None if make is None else lambda n_bytes: make(library, value, n_bytes)
    return _CUDA.load_runtime().as_array(value, stream, allocator)


def native(
    kernel: str, given: Mapping[str, Any], names: Iterable[str], stream: Any = None
) -> dict[str, Any]:
    """Return the arguments of a call, where the arrays *names* are numpy's, pyopencl's or pycuda's.

    An array that is passed twice remains one array.
    """
    views = dict(given)
    made: dict[int, Any] = {}
    for name in names:
        value = given[name]
        if is_native(value):
            continue
        if id(value) not in made:
            made[id(value)] = viewed(kernel, name, value, stream)
        if made[id(value)] is None:
            raise InvocationError(
                f"a value of the type '{type(value).__name__}' is passed for the array '{name}'",
                kernel=kernel,
                hint="pass an array: of numpy, pyopencl, pycuda, PyTorch, CuPy, with DLPack...",
            )
        views[name] = made[id(value)]
    return views


def like(kernel: str, array: Any, result: Any) -> Any:
    """Return a result as an array of the library of another array, without a copy.

    The library is found by ``__array_namespace__`` of its arrays, or it is PyTorch, CuPy or numba.
    For others, such as memoryviews, the results are arrays of numpy.

    >>> like("k", np.zeros(3), np.ones(2))
    array([1., 1.])
    """
    if is_native(array) or not is_native(result):
        return result
    name, library = _library_of(array)
    try:
        if hasattr(result, "gpudata"):
            take = _FROM_CUDA.get(name)
            return result if take is None else take(library, array, result)
        take_host = getattr(library, "from_dlpack", None)
        return result if take_host is None else take_host(result)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvocationError(
            f"a result of the type {result.dtype} cannot be an array of {name}: {error}",
            kernel=kernel,
            hint="pass arrays of numpy: numpy.asarray(...)",
        ) from error


def _library_of(value: Any) -> tuple[str, Any]:
    """Return the package that an array is from, by name, and its functions."""
    name = type(value).__module__.partition(".")[0]
    functions = getattr(value, "__array_namespace__", None)
    if functions is not None:
        return name, functions()
    return name, sys.modules.get(name)
