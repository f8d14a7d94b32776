"""CUDA graphs: all launches of a call as one."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kgen.runtime.bound import Calls
from kgen.runtime.cuda_driver import check

__all__ = ["CudaGraph", "GraphMaker"]

#: ``CUstreamCaptureMode``: calls of other threads do not affect the capture.
_RELAXED: Final = 2


@dataclass(frozen=True, kw_only=True)
class GraphMaker:
    """The functions of a runtime that make graphs.

    ``bind`` checks a call, and returns its launches, its outputs and the memory of launches.
    ``stream`` is a private stream, and ``address_of`` returns the address of any stream.
    ``event_in`` makes an event in a stream.
    """

    driver: Any
    bind: Callable[[Mapping[str, Any]], tuple[Calls, Mapping[str, Any], Any]]
    stream: Any
    address_of: Callable[[Any], int]
    event_in: Callable[[Any], Any]


class CudaGraph:
    """The launches of a call as a CUDA graph: ``graph = executor.capture(a=x, out=y)``.

    ``graph(stream)`` launches it without checks, on the current contents of the arrays; with
    ``event=True`` it returns an event. ``graph(stream, a=z)`` and ``graph.update(a=z)`` replace
    some arguments from then on, and check the call again; other arguments remain unchanged.
    ``outputs`` are the written arrays, by name.
    """

    def __init__(self, made: GraphMaker, arguments: Mapping[str, Any]) -> None:
        self._made = made
        self._arguments: Mapping[str, Any] = {}
        self._launch = made.driver.cuGraphLaunch
        self._executable = 0
        self.outputs: Mapping[str, Any] = {}
        self.update(**arguments)

    def __call__(self, stream: Any = None, *, event: bool = False, **arguments: Any) -> Any:
        """Make all launches in *stream*, which may come from any library."""
        if arguments:
            self.update(**arguments)
        error = self._launch(self._executable, self._made.address_of(stream))
        if error:
            check(self._made.driver, "cuGraphLaunch", error)
        return self._made.event_in(stream) if event else None

    def update(self, **arguments: Any) -> None:
        """Replace some arguments; raises the errors of a call with them."""
        given = {**self._arguments, **self.outputs, **arguments}
        calls, outputs, kept = self._made.bind(given)
        graph = self._record(calls)
        try:
            if not self._becomes(graph):
                self._instantiate(graph)
        finally:
            self._made.driver.cuGraphDestroy(graph)
        self._arguments, self.outputs, self._kept = given, outputs, kept

    def _record(self, calls: Calls) -> ctypes.c_void_p:
        """Return a graph of launches."""
        driver, graph = self._made.driver, ctypes.c_void_p()
        own = self._made.address_of(self._made.stream)
        stream = ctypes.c_void_p(own)
        check(driver, "cuStreamBeginCapture", driver.cuStreamBeginCapture_v2(stream, _RELAXED))
        try:
            for function, (grid, parameters) in calls:
                function(grid, own, *parameters)
        except BaseException:
            driver.cuStreamEndCapture(stream, ctypes.byref(graph))
            driver.cuGraphDestroy(graph)
            raise
        error = driver.cuStreamEndCapture(stream, ctypes.byref(graph))
        check(driver, "cuStreamEndCapture", error)
        return graph

    def _becomes(self, graph: ctypes.c_void_p) -> bool:
        """Update the executable graph to *graph*; tell whether that is possible in place."""
        if not self._executable:
            return False
        result = (ctypes.c_void_p * 3)()  # CUgraphExecUpdateResultInfo
        executable = ctypes.c_void_p(self._executable)
        error = self._made.driver.cuGraphExecUpdate_v2(executable, graph, ctypes.byref(result))
        return int(error) == 0

    def _instantiate(self, graph: ctypes.c_void_p) -> None:
        driver, executable = self._made.driver, ctypes.c_void_p()
        flags = ctypes.c_ulonglong(0)
        error = driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, flags)
        check(driver, "cuGraphInstantiate", error)
        weakref.finalize(self, driver.cuGraphExecDestroy, executable).atexit = False
        self._executable = executable.value or 0
