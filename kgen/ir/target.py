"""The part of a target that the IR knows: its name and the device that runs its code."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kgen.errors import InvocationError


@dataclass(frozen=True)
class TargetBase:
    """The base class of targets.

    A target that can run code names the module that does so; it is loaded on the first
    call, so that code generation needs no driver and no optional package.

    >>> import kgen as lp
    >>> lp.OpenCLTarget() == lp.OpenCLTarget(), lp.OpenCLTarget().has_hardware_axes
    (True, True)
    >>> lp.OpenCLTarget().load_runtime()
    Traceback (most recent call last):
        ...
    kgen.errors.InvocationError: OpenCLTarget generates code but does not run it
      hint: ExecutableCTarget, PyOpenCLTarget, PyCudaTarget do: unit.copy(target=...)
    """

    #: The module with ``make_executor(unit, *args, **kwargs)``; ``None``: cannot run.
    runtime_module: ClassVar[str | None] = None
    #: The operators ``+ - * /`` work on vectors, and on vectors and numbers.
    has_vector_arithmetic: ClassVar[bool] = False
    #: How many work-items run in step; ``None`` where the language does not say.
    warp_size: ClassVar[int | None] = None
    #: Those read each other's values without local memory.
    exchanges_lanes: ClassVar[bool] = False
    #: nvcc compiles the code, and says what it needs of a device.
    is_compiled_by_nvcc: ClassVar[bool] = False
    #: Calls begin with the queue of a device.
    runs_in_queue: ClassVar[bool] = False

    @property
    def has_hardware_axes(self) -> bool:
        """Tell whether work-groups exist; where they do not, hardware axes are loops."""
        return False

    @property
    def has_work_items(self) -> bool:
        """Tell whether work-groups have work-items; where they do not, their axes are loops."""
        return self.has_hardware_axes

    @property
    def known_callables(self) -> Mapping[str, Any]:
        """The functions that only this target has, or has in its own way, as ScalarCallables."""
        return {}

    def load_runtime(self) -> Any:
        """Import and return the module that runs this target's code, or raise an error."""
        if self.runtime_module is None:
            raise InvocationError(
                f"{type(self).__name__} generates code but does not run it\n"
                "  hint: ExecutableCTarget, PyOpenCLTarget, PyCudaTarget do: unit.copy(target=...)"
            )
        try:
            return importlib.import_module(self.runtime_module)
        except ImportError as err:
            if err.name is not None and err.name.startswith("kgen"):
                raise
            raise InvocationError(
                f"{type(self).__name__} cannot run its code here: {err}\n"
                "  hint: install what is missing, or unit.copy(target=lp.ExecutableCTarget())"
            ) from None
