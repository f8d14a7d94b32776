"""Repeated calls on CUDA that one kernel computes: its launch, without choosing it again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kgen.ready.products import ALIGNMENT

__all__ = ["Launch", "SingleLaunches", "layouts_on_cuda"]

#: The number of calls that are kept.
_MOST: Final = 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a call: its executor, its operands, the array passed as *out*, its result."""

    run: Callable[..., Any]
    operands: Sequence[Any]
    out: Any
    found: Any


def layouts_on_cuda(arrays: Sequence[Any]) -> tuple[Hashable, ...] | None:
    """Return what the choice of a kernel depends on; ``None`` if calls are not to be kept.

    These are calls without memory on CUDA, and those of an array that is passed twice.
    """
    if not all(getattr(array, "gpudata", None) for array in arrays):
        return None
    if len({id(array) for array in arrays}) < len(arrays):
        return None
    return tuple([(x.shape, x.strides, x.dtype, x.ptr % ALIGNMENT) for x in arrays])


class SingleLaunches:
    """The executors of calls that took a single launch, and the operands that each reads, in order.

    The keys contain everything on which the choice of kernels depends.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Callable[..., Any], list[int]]] = {}

    def find(
        self, key: Hashable, operands: Sequence[Any]
    ) -> tuple[Callable[..., Any], list[Any]] | None:
        """Return the executor that computes a call, and its operands."""
        known = self._known.get(key)
        if known is None:
            return None
        run, places = known
        return run, [operands[place] for place in places]

    def keep(
        self, key: Hashable, launch: Launch, operands: Sequence[Any], out: Any, found: Any
    ) -> None:
        """Keep the only launch of a call if it reads the *operands* and writes the result *found*.

        A call that copied operands or its result is not kept.
        """
        is_whole = launch.found is found if out is None else launch.out is out
        places = {id(operand): place for place, operand in enumerate(operands)}
        if is_whole and all(id(operand) in places for operand in launch.operands):
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = launch.run, [places[id(operand)] for operand in launch.operands]
