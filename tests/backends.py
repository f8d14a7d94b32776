"""The backends on which tests run kernels: the host, OpenCL, CUDA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import kgen as lp

__all__ = ["BACKENDS", "DEVICES", "Backend", "NarrowBarriers"]


@dataclass(frozen=True)
class Backend:
    """Where a kernel runs: its target, and what its calls begin with.

    ``device(knl, a=x)`` calls *knl* there, whatever its own target is, unless that is one of this
    backend, with settings of its own.
    """

    target: type[Any]
    leading: tuple[Any, ...] = ()

    def __call__(self, unit: lp.TranslationUnit, *args: Any, **arguments: Any) -> Any:
        """Run *unit*; return the event and the results."""
        if not isinstance(unit.target, self.target):
            unit = unit.copy(target=self.target())
        return unit(*self.leading, *args, **arguments)


#: By name, which is a marker; what each needs of the fixtures: a function that asks for one.
BACKENDS: dict[str, Callable[[Callable[[str], Any]], Backend]] = {
    "c": lambda fixture: Backend(lp.ExecutableCTarget),
    "opencl": lambda fixture: Backend(lp.PyOpenCLTarget, (fixture("opencl_queue"),)),
    "cuda": lambda fixture: _on_cuda(fixture("cuda_context")),
}
#: Those with work-items.
DEVICES = ("opencl", "cuda")


@dataclass(frozen=True)
class NarrowBarriers(lp.CudaTarget):
    """CUDA where barriers of a warp are of four work-items, so that small groups have several."""

    barrier_width: ClassVar[int | None] = 4


def _on_cuda(context: Any) -> Backend:
    """Return what runs kernels in the context that is current."""
    return Backend(lp.PyCudaTarget)
