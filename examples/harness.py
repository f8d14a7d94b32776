"""
What the examples share
=======================

What the examples share: the device of the command line, times, the check, the picture.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import kgen as lp

ROUNDS = 5


def parse(doc: str | None, arguments: Sequence[str], **sizes: int) -> argparse.Namespace:
    """Read ``--device``, ``--picture`` and an option for each of the *sizes*, such as ``--n``."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=layout)
    parser.add_argument("--device", choices=("c", "opencl", "cuda"), default="c")
    picture = "draw the result: into this file, or in a window"
    parser.add_argument("--picture", metavar="FILE", nargs="?", const="", help=picture)
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size, help="default: %(default)s")
    return parser.parse_args(arguments)


@dataclass(frozen=True)
class Device:
    """Where kernels run.

    *target* is what they are made for, *array* copies an array of numpy to the device, *wait*
    returns when all launches are done.
    """

    target: Any
    array: Callable[[Any], Any] = np.array
    wait: Callable[[], object] = lambda: None
    queue: tuple[Any, ...] = ()

    @property
    def is_host(self) -> bool:
        """Tell whether kernels run on the threads of the host, as C."""
        return isinstance(self.target, lp.ExecutableCTarget)

    def run(self, knl: lp.TranslationUnit, **arguments: Any) -> Any:
        """Call a kernel; return its results, or the result if there is one."""
        _, results = knl(*self.queue, **arguments)
        return results[0] if len(results) == 1 else results

    def on_host(self, array: Any) -> Any:
        """Return an array of the device as one of numpy."""
        return array.get() if hasattr(array, "get") else array

    def compare(self, what: str, ours: Callable[[], object], numpys: Callable[[], object]) -> None:
        """Print the times of kgen and numpy for the same work."""

        def work_and_wait() -> None:
            ours()
            self.wait()

        seconds, numpy_seconds = best_seconds(work_and_wait), best_seconds(numpys)
        times = f"kgen {1e3 * seconds:.3g} ms, numpy {1e3 * numpy_seconds:.3g} ms"
        print(f"{what}: {times}: {numpy_seconds / seconds:.3g} times as fast")


def best_seconds(work: Callable[[], object]) -> float:
    """Return the least time of some calls, after one that compiles."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def open_device(name: str) -> Device:
    """Return the device ``c``, ``opencl`` or ``cuda``."""
    if name == "c":
        return Device(lp.ExecutableCTarget())
    if name == "cuda":
        import pycuda.autoprimaryctx
        from pycuda import gpuarray

        print(f"on {pycuda.autoprimaryctx.device.name()}")
        context = pycuda.autoprimaryctx.context
        return Device(lp.PyCudaTarget(), gpuarray.to_gpu, context.synchronize)
    import pyopencl as cl
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    print(f"on {queue.device.name}, {queue.device.platform.name}")
    to_device = lambda array: cl.array.to_device(queue, array)  # noqa: E731
    return Device(lp.PyOpenCLTarget(), to_device, queue.finish, (queue,))


def alternate(step: Callable[[Any, Any], object], steps: int, this: Any, other: Any) -> Any:
    """Do steps from one array into the other, which take turns; return the last state."""
    for _ in range(steps):
        step(this, other)
        this, other = other, this
    return this


def check(what: str, error: float, limit: float) -> None:
    """Print the error; end the program where it is above the limit."""
    print(f"{what}: error {error:.1e}, limit {limit:.0e}")
    if not error <= limit:
        sys.exit(f"{what}: the error is above the limit")


def distance(found: Any, expected: Any) -> float:
    """Return the largest difference of two arrays, relative to the largest expected value."""
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def draw(file: str | None, paint: Callable[[Any], object]) -> None:
    """Let *paint* draw with ``matplotlib.pyplot``, if asked for; show the figure, or save it."""
    if file is None:
        return
    try:
        from matplotlib import pyplot
    except ImportError:
        print(f"no picture in {file}: matplotlib is not installed")
        return
    paint(pyplot)
    if not file:
        pyplot.show()
        return
    pyplot.savefig(file, dpi=150, bbox_inches="tight")
    print(f"picture: {file}")
