"""Streams of other libraries on CUDA: their handles, and the order of work in them."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, Final

from kgen.errors import InvocationError
from kgen.runtime.cuda_driver import check, is_capturing

__all__ = ["handle_of", "identity_of", "private_stream", "put_in_order"]

#: Attributes in which libraries have the address of a stream: PyTorch, CuPy, pycuda and numba.
_HANDLES: Final = ("cuda_stream", "ptr", "handle")
_DISABLE_TIMING: Final = 2
#: A stream that does not wait for the default one, nor that for it.
_NON_BLOCKING: Final = 1


def handle_of(stream: Any) -> int:
    """Return the address of a stream: ``None`` is the default one, numbers are addresses.

    Objects tell theirs by ``__cuda_stream__``, or as PyTorch's, CuPy's, pycuda's and numba's do.
    Raises :class:`InvocationError` for others.

    >>> handle_of(None), handle_of(1)
    (0, 1)
    """
    if stream is None or type(stream) is int:
        return stream or 0
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


def identity_of(driver: Any, stream: int) -> tuple[int, int] | None:
    """Return the address and the number of a stream; ``None`` while it is being captured.

    The number is that of no other stream, also after its end; before CUDA 12 there is none.
    """
    number = ctypes.c_ulonglong()
    find = getattr(driver, "cuStreamGetId", None)
    if find is None or is_capturing(driver, stream):
        return None
    if find(ctypes.c_void_p(stream), ctypes.byref(number)):
        return None
    return stream, number.value


def put_in_order(driver: Any, first: int, then: int) -> None:
    """Make later work of the stream *then* wait for the current work of the stream *first*."""
    event = ctypes.c_void_p()
    check(driver, "cuEventCreate", driver.cuEventCreate(ctypes.byref(event), _DISABLE_TIMING))
    try:
        recorded = driver.cuEventRecord(event, ctypes.c_void_p(first))
        check(driver, "cuEventRecord", recorded)
        waited = driver.cuStreamWaitEvent(ctypes.c_void_p(then), event, 0)
        check(driver, "cuStreamWaitEvent", waited)
    finally:
        driver.cuEventDestroy_v2(event)


@contextlib.contextmanager
def private_stream(driver: Any) -> Iterator[int]:
    """Make a stream for a block, in the context that is current, and yield its address."""
    stream = ctypes.c_void_p()
    check(driver, "cuStreamCreate", driver.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING))
    try:
        yield stream.value or 0
    finally:
        driver.cuStreamDestroy_v2(stream)
