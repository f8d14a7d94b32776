"""Arrays of the host between zones of memory that no kernel may write."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["GuardedArray", "guarded"]

_ZONE, _ALIGNMENT, _MARK = 4096, 64, 0xC5


class GuardedArray(NamedTuple):
    """A copy of an array, and the memory around it."""

    array: np.ndarray[Any, Any]
    zones: tuple[np.ndarray[Any, Any], ...] = ()

    @property
    def is_intact(self) -> bool:
        """Tell whether nothing was written before or behind the array."""
        return all(bool((zone == _MARK).all()) for zone in self.zones)


def guarded(value: np.ndarray[Any, Any]) -> GuardedArray:
    """Copy an array between guard zones; as it is where its elements do not lie side by side.

    >>> copy = guarded(np.arange(3.0))
    >>> copy.array, copy.is_intact
    (array([0., 1., 2.]), True)
    """
    is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    if not (is_fortran or value.flags.c_contiguous) or value.nbytes == 0:
        return GuardedArray(value.copy(order="K"))
    memory = np.full(value.nbytes + 2 * _ZONE + _ALIGNMENT, _MARK, np.uint8)
    start = _ZONE + -(memory.ctypes.data + _ZONE) % _ALIGNMENT
    stop = start + value.nbytes
    array = (
        memory[start:stop].view(value.dtype).reshape(value.shape, order="F" if is_fortran else "C")
    )
    array[...] = value
    return GuardedArray(array, (memory[:start], memory[stop:]))
