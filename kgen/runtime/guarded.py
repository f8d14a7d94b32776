"""Arrays between guard zones, which detect writes outside the arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["MARK", "ZONE", "Guarded", "is_marked", "on_host"]

#: The size of a zone in bytes, a multiple of the alignment of sub-buffers, and the fill byte.
ZONE: Final = 4096
MARK: Final = 0xC5
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Guarded:
    """An array on a device; ``is_intact()`` tells whether its guard zones are unchanged."""

    array: Any
    is_intact: Callable[[], bool]


def is_marked(*zones: np.ndarray[Any, Any]) -> bool:
    """Tell whether guard zones still have their initial contents."""
    return all(bool((zone == MARK).all()) for zone in zones)


def on_host(value: np.ndarray[Any, Any]) -> Guarded:
    """Copy a numpy array, with guard zones if it is contiguous.

    >>> copy = on_host(np.arange(3.0))
    >>> copy.array, copy.is_intact()
    (array([0., 1., 2.]), True)
    """
    is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    if not (is_fortran or value.flags.c_contiguous) or value.nbytes == 0:
        return Guarded(value.copy(order="K"), lambda: True)
    memory = np.empty(value.nbytes + 2 * ZONE + _ALIGNMENT, np.uint8)
    start = ZONE + -(memory.ctypes.data + ZONE) % _ALIGNMENT
    stop = start + value.nbytes
    memory[:start] = memory[stop:] = MARK
    order = "F" if is_fortran else "C"
    array = memory[start:stop].view(value.dtype).reshape(value.shape, order=order)
    array[...] = value
    return Guarded(array, lambda: is_marked(memory[:start], memory[stop:]))
