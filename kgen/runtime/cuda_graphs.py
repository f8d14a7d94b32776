"""CUDA graphs: all launches of a call as one."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kgen.runtime.bound import Calls
from kgen.runtime.cuda_driver import RELAXED, check, current_context, in_context

__all__ = ["CudaGraph", "Executable", "GraphMaker", "record"]


def record(driver: Any, stream: int, enqueue: Callable[[], None]) -> ctypes.c_void_p:
    """Return a graph of the launches that *enqueue* makes in a private stream."""
    graph, own = ctypes.c_void_p(), ctypes.c_void_p(stream)
    check(driver, "cuStreamBeginCapture", driver.cuStreamBeginCapture_v2(own, RELAXED))
    try:
        enqueue()
    except BaseException:
        driver.cuStreamEndCapture(own, ctypes.byref(graph))
        driver.cuGraphDestroy(graph)
        raise
    error = driver.cuStreamEndCapture(own, ctypes.byref(graph))
    check(driver, "cuStreamEndCapture", error)
    return graph


class Executable:
    """A graph that can be launched, by its ``handle``; belongs to the context that is current.

    The driver keeps what is running until it ends.
    """

    def __init__(self, driver: Any, graph: ctypes.c_void_p) -> None:
        self._driver = driver
        context, executable = current_context(driver), ctypes.c_void_p()
        flags = ctypes.c_ulonglong(0)
        error = driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, flags)
        check(driver, "cuGraphInstantiate", error)
        release = driver.cuGraphExecDestroy
        weakref.finalize(self, in_context, driver, context, release, executable).atexit = False
        self.handle = executable.value or 0

    def becomes(self, graph: ctypes.c_void_p) -> bool:
        """Change it to another graph; tell whether that is possible in place."""
        result = (ctypes.c_void_p * 3)()  # CUgraphExecUpdateResultInfo
        executable = ctypes.c_void_p(self.handle)
        error = self._driver.cuGraphExecUpdate_v2(executable, graph, ctypes.byref(result))
        return int(error) == 0


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
        self._executable: Executable | None = None
        self.outputs: Mapping[str, Any] = {}
        self.update(**arguments)

    def __call__(self, stream: Any = None, *, event: bool = False, **arguments: Any) -> Any:
        """Make all launches in *stream*, which may come from any library."""
        if arguments:
            self.update(**arguments)
        assert self._executable is not None  # since __init__
        error = self._launch(self._executable.handle, self._made.address_of(stream))
        if error:
            check(self._made.driver, "cuGraphLaunch", error)
        return self._made.event_in(stream) if event else None

    def update(self, **arguments: Any) -> None:
        """Replace some arguments; raises the errors of a call with them."""
        given = {**self._arguments, **self.outputs, **arguments}
        calls, outputs, kept = self._made.bind(given)
        graph = self._record(calls)
        try:
            if self._executable is None or not self._executable.becomes(graph):
                self._executable = Executable(self._made.driver, graph)
        finally:
            self._made.driver.cuGraphDestroy(graph)
        self._arguments, self.outputs, self._kept = given, outputs, kept

    def _record(self, calls: Calls) -> ctypes.c_void_p:
        """Return a graph of launches."""
        own = self._made.address_of(self._made.stream)

        def enqueue() -> None:
            for function, (grid, parameters) in calls:
                function(grid, own, *parameters)

        return record(self._made.driver, own, enqueue)
