"""The part of a target that the IR knows: its name and the device that runs its code."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from abc import ABCMeta
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Self

import numpy as np
from constantdict import constantdict

from kgen.errors import InvocationError, KgenError, near_names

#: The number of work-items in lockstep on NVIDIA's devices; assumed for others.
WARP_SIZE: Final = 32


class Execution(Enum):
    """How a device runs work-groups."""

    #: no work-groups: a plain function
    SERIAL = "one thread"
    #: a thread for each work-group
    THREADS = "threads"
    #: many work-items for each work-group, which run in lockstep
    ITEMS = "work-items"


class _TargetMeta(ABCMeta):
    """The metaclass of targets: rejects settings that do not exist or cannot be changed."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:
        fixed: Mapping[str, tuple[Any, str]] = cls.fixed_settings  # type: ignore[attr-defined]
        known = cls.__signature__.parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in known.values())
        for name in () if takes_any else settings.keys() - known.keys():
            if name not in fixed:
                raise KgenError(
                    f"{cls.__name__} has no setting '{name}'", hint=near_names(name, known)
                )
            only, hint = fixed[name]
            value = settings.pop(name)
            if value != only:
                raise KgenError(
                    f"{cls.__name__} always has {name}={only!r}, not {value!r}", hint=hint
                )
        return super().__call__(*args, **settings)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The settings of a target, for :func:`inspect.signature`."""
        return _signature_of(cls.__init__)  # type: ignore[misc]


@functools.cache
def _signature_of(init: Callable[..., None]) -> inspect.Signature:
    """Return the signature of a class from that of its initializer."""
    _, *settings = inspect.signature(init).parameters.values()
    return inspect.Signature(settings)


@dataclass(frozen=True)
class TargetBase(metaclass=_TargetMeta):
    """The base class of targets.

    A target that can run code names the module that does so; the module is loaded on the first
    call, so code generation needs no driver and no optional package.

    >>> import kgen as lp
    >>> lp.OpenCLTarget() == lp.OpenCLTarget(), lp.OpenCLTarget().has_hardware_axes
    (True, True)
    >>> lp.OpenCLTarget().load_runtime()
    Traceback (most recent call last):
        ...
    kgen.errors.InvocationError: OpenCLTarget generates code but does not run it
      hint: ExecutableCTarget, PyOpenCLTarget, PyCudaTarget do: unit.copy(target=...)
    """

    #: The language in lower case, as options of exports and of the command line have it.
    family: ClassVar[str] = ""
    #: Settings of loopy's targets that have a fixed value here: that value, and a hint.
    fixed_settings: ClassVar[Mapping[str, tuple[Any, str]]] = constantdict()
    #: The module with ``make_executor(unit, *args, **kwargs)``; ``None``: cannot run.
    runtime_module: ClassVar[str | None] = None
    #: The operators ``+ - * /`` work on vectors, and on vectors and numbers.
    has_vector_arithmetic: ClassVar[bool] = False
    #: Loops tagged ``vec`` stay loops, which the compiler vectorizes.
    has_simd_loops: ClassVar[bool] = False
    #: The real functions for which lanes of such loops call a vector library.
    lane_functions: ClassVar[frozenset[str]] = frozenset()
    #: Lanes of such loops can use streaming stores, if an instruction asks for that.
    streams_lanes: ClassVar[bool] = False
    #: The number of work-items in lockstep; ``None`` if the language does not define it.
    warp_size: ClassVar[int | None] = None
    #: The numpy kinds of numbers that these work-items can exchange without memory.
    exchanged_kinds: ClassVar[str] = ""
    #: The number of work-items that can wait for each other, and not for the rest of the group.
    barrier_width: ClassVar[int | None] = None
    #: Functions that exchange values between lanes take a mask of these lanes.
    masks_lanes: ClassVar[bool] = False
    #: nvcc compiles the code, and reports its resource use.
    is_compiled_by_nvcc: ClassVar[bool] = False
    #: asynchronous ways to copy from global to local memory
    async_copies: ClassVar[frozenset[str]] = frozenset()
    #: Work-groups can wait for values written by groups that started before them.
    looks_back: ClassVar[bool] = False
    #: Functions can allocate private and local arrays whose sizes depend on arguments.
    allocates_arrays: ClassVar[bool] = False
    #: Warps multiply matrices, whose elements their lanes hold.
    has_tensor_cores: ClassVar[bool] = False
    #: The 32-bit registers of a multiprocessor, if launch bounds limit those of work-items.
    registers: ClassVar[int | None] = None
    #: The bytes of a memory transaction: a cache line, or a sector of a GPU.
    transaction: ClassVar[int] = 64
    #: The first argument of calls is a device's queue.
    runs_in_queue: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, (value, _) in vars(cls).get("fixed_settings", {}).items():
            setattr(cls, name, value)

    @property
    def has_hardware_axes(self) -> bool:
        """Tell whether there are work-groups; otherwise, hardware axes are loops."""
        return False

    @property
    def has_work_items(self) -> bool:
        """Tell whether work-groups have work-items; otherwise, work-item axes are loops."""
        return self.has_hardware_axes

    @property
    def execution(self) -> Execution:
        """The way in which the device runs work-groups."""
        return Execution.ITEMS if self.has_hardware_axes else Execution.SERIAL

    @property
    def exchange_width(self) -> int | None:
        """The number of adjacent work-items that exchange values in registers, or ``None``."""
        return self.warp_size if self.exchanged_kinds else None

    @property
    def compiler(self) -> Any:
        """The C compiler and its flags, if the target has its own."""
        return None

    @property
    def fast_math(self) -> bool:
        """Tell whether the compiler may change the order of arithmetic."""
        return False

    @property
    def suits_pocl(self) -> bool:
        """Tell whether the code avoids constructs that PoCL miscompiles."""
        return False

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability of an NVIDIA device, if the target specifies it."""
        return None

    def having(self, **settings: Any) -> Self:
        """Return the target with other settings; those that it does not have are ignored.

        >>> import kgen as lp
        >>> lp.CudaTarget().having(min_groups=2).min_groups
        2
        >>> lp.OpenCLTarget().having(min_groups=2) == lp.OpenCLTarget()
        True
        """
        known = settings.keys() & {field.name for field in dataclasses.fields(self)}
        changes = {name: settings[name] for name in known}
        return dataclasses.replace(self, **changes) if changes else self

    def exported(self) -> TargetBase:
        """Return the target of the same code in a library."""
        return self

    def find_device(self) -> Any:
        """Return the pyopencl.Device that calls run on, if the target chooses one."""
        return None

    @property
    def loops_over_items(self) -> bool:
        """Tell whether a thread runs the work-items of a group, in loops between barriers."""
        return False

    def with_work_items(self) -> TargetBase | None:
        """Return the target for kernels whose work-items wait for each other.

        This differs from the target itself if its work-item axes can be ordinary loops.
        """
        return None

    @property
    def known_callables(self) -> Mapping[str, Any]:
        """The functions that expressions can call, by name, as ScalarCallables."""
        return {}

    def structure_name(self, dtype: np.dtype[Any]) -> str | None:
        """Return the name of a structure in the target's language, if it has structures."""
        return None

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
