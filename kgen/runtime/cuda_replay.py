"""Repeated calls on CUDA: launches that are packed once, and soon become one graph."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, Self

from kgen.errors import InvocationError
from kgen.runtime.cuda_driver import (
    PackedCall,
    check,
    current_context,
    enqueue_all,
    in_stream,
    is_capturing,
    reject,
    unaffected_by_captures,
)
from kgen.runtime.cuda_graphs import Executable, record
from kgen.runtime.cuda_streams import private_stream

__all__ = ["Replay"]

#: The replay from which several launches are one graph. It takes as long to make as some dozens of
#: launches, so that it is not for calls that are made only twice, such as one after a warm-up.
_FIRST_OF_GRAPH: Final = 3


class Replay:
    """Makes the launches of a call again, in one stream: ``replay()``.

    The launches are packed, for the context that is current, and for a stream, which is not being
    captured when they are made. From the third replay on, several launches are one CUDA graph.
    Nothing but addresses and numbers is stored, and *used*: what launches need, such as the memory
    of temporaries, which lives as long as the replay.
    """

    def __init__(
        self,
        driver: Any,
        packed: Sequence[PackedCall],
        used: Any,
        kernel: str,
        stream: int = 0,
    ) -> None:
        self._driver = driver
        self._stream = stream
        self._packed = tuple(packed)
        self._single = _bound(packed[0]) if len(packed) == 1 else None
        self._used = used
        self._kernel = kernel
        self._context = current_context(driver)
        self._current = ctypes.c_void_p()
        self._to_current = ctypes.byref(self._current)
        self._n_replays = 0
        self._graph: Executable | None = None
        # two threads may not launch a graph at once, nor mix launches that use the same temporaries
        self._lock = threading.Lock()

    @classmethod
    def of_all(cls, replays: Iterable[Self], kernel: str) -> Self:
        """Return the replay of all launches of some in one stream, in their order."""
        parts = list(replays)
        packed = [one for part in parts for one in part._packed]
        used = [part._used for part in parts]
        return cls(parts[0]._driver, packed, used, kernel, parts[0]._stream)

    def __call__(self) -> None:
        """Make the launches; a graph is launched only in its context, as others are."""
        single = self._single
        if single is not None:
            error = single()
            if error:
                reject(self._driver, self._packed[0], error, self._kernel)
            return
        with self._lock:
            is_here = self._is_here()
            if is_here and self._graph is None and self._is_due():
                self._graph = self._captured()
            if is_here and self._graph is not None:
                error = self._driver.cuGraphLaunch(self._graph.handle, self._stream)
                if error:
                    check(self._driver, "cuGraphLaunch", error, kernel=self._kernel)
                return
            enqueue_all(self._driver, self._packed, self._kernel)

    def _is_here(self) -> bool:
        """Tell whether the current context is that of the launches."""
        error = self._driver.cuCtxGetCurrent(self._to_current)
        return not error and self._current.value == self._context

    def _is_due(self) -> bool:
        """Count a replay; tell whether a graph is made for it.

        None is made while the caller captures a stream for which this one, the default one, waits.
        """
        if self._n_replays == _FIRST_OF_GRAPH - 1 and is_capturing(self._driver, self._stream):
            return False
        self._n_replays += 1
        return self._n_replays == _FIRST_OF_GRAPH

    def _captured(self) -> Executable | None:
        """Return the graph of all launches; ``None`` if the driver refuses to make one."""
        try:
            with unaffected_by_captures(self._driver), private_stream(self._driver) as stream:
                graph = record(self._driver, stream, lambda: self._enqueue_in(stream))
                try:
                    return Executable(self._driver, graph)
                finally:
                    self._driver.cuGraphDestroy(graph)
        except InvocationError:
            return None

    def _enqueue_in(self, stream: int) -> None:
        """Make the launches in another stream."""
        try:
            there = [in_stream(one, stream) for one in self._packed]
            enqueue_all(self._driver, there, self._kernel)
        finally:
            for one in self._packed:
                in_stream(one, self._stream)


def _bound(packed: PackedCall) -> partial[int]:
    """Return a function that makes one launch, and returns the driver's error."""
    enqueue, *arguments, _ = packed
    return partial(enqueue, *arguments)
