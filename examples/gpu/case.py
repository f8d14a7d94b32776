"""
What the schedules share
========================

What the examples for GPUs share: a kernel, its schedule, its data, and what it is held to.

Prints the CUDA code of an example; on a device it runs the example for a small size instead, and
compares the result with numpy's:

    python examples/gpu/case.py softmax
    python examples/gpu/case.py softmax --device opencl
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kgen as lp

Arrays = Mapping[str, np.ndarray[Any, Any]]


def outputs_of(program: lp.TranslationUnit) -> dict[str, lp.ArrayArg]:
    """Return the arrays that a program returns, by name."""
    args = program.default_entrypoint.args
    return {a.name: a for a in args if isinstance(a, lp.ArrayArg) and a.is_output}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel for one size, and the best schedule that is known for it.

    *kernel* makes the kernel without a schedule for a size and a target, *schedule* adds the
    schedule. *inputs* draws arrays, *expected* computes the result in numpy, or a part of it.
    *work* is what a call has to do at least: bytes read and written, or operations, as *unit* says.
    """

    title: str
    kernel: Callable[[int, Any], lp.TranslationUnit]
    schedule: Callable[[lp.TranslationUnit], lp.TranslationUnit]
    inputs: Callable[[np.random.Generator, int], Arrays]
    expected: Callable[[Arrays], np.ndarray[Any, Any]]
    work: Callable[[int], float]
    unit: str = "GB/s"
    #: the size that is timed, and one that is quick to check
    size: int
    small: int
    tolerance: float = 1e-4
    #: what of the result *expected* computes
    compared: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] = lambda found: found
    #: the result's name
    result: str = "out"
    #: what autoschedule is told about the data
    stated: Mapping[str, Any] = field(default_factory=dict)
    #: the same in PyTorch, with the arrays as tensors
    peer: Callable[[Any, Mapping[str, Any]], Callable[[], object]] | None = None

    def scheduled(self, size: int, target: Any) -> lp.TranslationUnit:
        """Return the kernel with its schedule."""
        return self.schedule(self.kernel(size, target))

    def error_of_small(self, target: Any, *queue: Any) -> float:
        """Run the schedule for the small size, and return the error of its result."""
        given = self.inputs(np.random.default_rng(1), self.small)
        program = self.scheduled(self.small, target)
        found = dict(zip(outputs_of(program), program(*queue, **given)[1], strict=True))
        return self.error(np.asarray(found[self.result]), given)

    def error(self, found: np.ndarray[Any, Any], arrays: Arrays) -> float:
        """Return the largest error of a result, relative to the largest number in it."""
        expected, found = self.expected(arrays), self.compared(found).astype(np.float64)
        scale = max(1e-30, float(np.max(np.abs(expected))))
        return float(np.max(np.abs(found - expected))) / scale


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("example", metavar="NAME", help="softmax, product, ...")
    parser.add_argument("--device", choices=("none", "opencl", "cuda"), default="none")
    options = parser.parse_args()
    target: Any = lp.PyCudaTarget()
    queue: tuple[Any, ...] = ()
    if options.device == "opencl":
        import pyopencl as cl

        target, queue = lp.PyOpenCLTarget(), (cl.CommandQueue(cl.create_some_context(False)),)
    for case in importlib.import_module(options.example).CASES:
        if options.device == "none":
            print(f"// {case.title}, n = {case.size}")
            print(lp.generate_code_v2(case.scheduled(case.size, lp.CudaTarget())).device_code())
            continue
        error = case.error_of_small(target, *queue)
        print(f"{case.title}, n = {case.small}: error {error:.1e}, limit {case.tolerance:.0e}")
        assert error <= case.tolerance


if __name__ == "__main__":
    main()
