"""Streams of other libraries on CUDA: their handles, and work of ours in their order."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from kgen.errors import InvocationError

__all__ = ["handle_of", "in_order_of", "load_driver"]

#: Attributes in which libraries have the address of a stream: PyTorch, CuPy, pycuda and numba.
_HANDLES: Final = ("cuda_stream", "ptr", "handle")
_DISABLE_TIMING: Final = 2


@cache
def load_driver() -> Any:
    """Return the functions of CUDA's driver."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def handle_of(stream: Any) -> int:
    """Return the address of a stream: ``None`` is the default one, numbers are addresses.

    Objects tell theirs by ``__cuda_stream__``, or as PyTorch's, CuPy's, pycuda's and numba's do.
    Raises :class:`InvocationError` for others.

    >>> handle_of(None), handle_of(1)
    (0, 1)
    """
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    found = protocol() if callable(protocol) else protocol
    if found is not None:
        return int(found[1])
    places = (getattr(stream, name, None) for name in _HANDLES)
    value = next((place for place in places if place is not None), stream)
    value = getattr(value, "value", value)  # of a ctypes.c_void_p
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    kind = f"{type(stream).__module__}.{type(stream).__name__}"
    raise InvocationError(
        f"'stream' is a {kind}, which has no address of a CUDA stream",
        hint="pass a stream of pycuda, PyTorch, CuPy or numba, an object with __cuda_stream__, "
        "or a number",
    )


@contextlib.contextmanager
def in_order_of(driver: Any, other: int, own: int) -> Iterator[None]:
    """Let work in the stream *own* be work in the stream *other*.

    It waits for what is in that before, and what comes later waits for it. That holds while
    *other* is being captured, too: the work becomes a part of the graph.
    """
    _order(driver, first=other, then=own)
    try:
        yield
    finally:
        _order(driver, first=own, then=other)


def _order(driver: Any, first: int, then: int) -> None:
    """Let what comes into the stream *then* wait for what is in the stream *first*."""
    event = ctypes.c_void_p()
    _check("cuEventCreate", driver.cuEventCreate(ctypes.byref(event), _DISABLE_TIMING))
    try:
        _check("cuEventRecord", driver.cuEventRecord(event, ctypes.c_void_p(first)))
        _check("cuStreamWaitEvent", driver.cuStreamWaitEvent(ctypes.c_void_p(then), event, 0))
    finally:
        driver.cuEventDestroy_v2(event)


def _check(function: str, error: int) -> None:
    if error:
        raise InvocationError(
            f"{function} failed with error {error} of CUDA",
            hint="the stream must be one of the current context, and still exist",
        )
