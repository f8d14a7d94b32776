"""What is exported: kernels with the host program and the code of each target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kgen.errors import CodegenError, TypeInferenceFailure
from kgen.exporters.opencl_target import StandaloneOpenCLTarget
from kgen.host.program import HostProgram
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.lowering import generate_module
from kgen.targets.c import CTarget, CWithGNULibcTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.module import ArgumentInfo, Module
from kgen.targets.opencl import OpenCLTarget

__all__ = ["TARGETS", "ExportedKernel", "TargetCode", "exported_kernels"]

#: What code can be exported for.
TARGETS: Final = ("c", "opencl", "cuda")


@dataclass(frozen=True, kw_only=True)
class TargetCode:
    """The code of a kernel for one target, and what the host does to run it.

    ``build_options`` are passed to the compiler of the target. ``for_pocl`` is other code for
    OpenCL, which PoCL compiles rightly.
    """

    module: Module
    host: HostProgram
    build_options: tuple[str, ...] = ()
    for_pocl: Module | None = None


@dataclass(frozen=True, kw_only=True)
class ExportedKernel:
    """A kernel of an exported library: ``name`` is that of its function in C.

    ``codes`` is its code by target. All have the same arguments.
    """

    name: str
    unit: TranslationUnit
    entrypoint: str
    codes: Mapping[str, TargetCode]

    @property
    def host(self) -> HostProgram:
        """The host program of any target, whose arguments are those of all."""
        return next(iter(self.codes.values())).host

    @property
    def arguments(self) -> tuple[ArgumentInfo, ...]:
        """What a caller passes: arrays, and all numbers, those that follow from arrays as well."""
        return tuple(a for a in self.host.arguments if not (a.is_array and a.is_temporary))


def exported_kernels(
    programs: Iterable[TranslationUnit], targets: Iterable[str]
) -> tuple[ExportedKernel, ...]:
    """Generate the code of all entry points of *programs* for *targets*, sorted by name.

    Raises :class:`CodegenError` for two kernels of one name, types that are not known, and what
    no function in C can be passed.
    """
    found: dict[str, ExportedKernel] = {}
    for unit in programs:
        for name in sorted(unit.entrypoints):
            if name in found:
                raise CodegenError(
                    "two kernels of an export have this name",
                    kernel=name,
                    hint="make one of them with another name=...",
                )
            codes = {target: _code(unit, name, target) for target in targets}
            found[name] = ExportedKernel(name=name, unit=unit, entrypoint=name, codes=codes)
            _check_arguments(found[name])
    return tuple(found[name] for name in sorted(found))


def _code(unit: TranslationUnit, entrypoint: str, target: str) -> TargetCode:
    chosen = unit.target
    unit = unit.copy(target=_target(chosen, target))
    kernel = unit[entrypoint]
    module = _module(unit, entrypoint)
    restrict = kernel.options.restrict
    host = HostProgram.of(module, (), kernel.all_params(), restrict=restrict)
    options = module.build_options
    if isinstance(chosen, _KINDS[target]):
        options = (*options, *kernel.options.build_options)
    for_pocl = None
    if isinstance(unit.target, OpenCLTarget):
        for_pocl = _module(unit.copy(target=replace(unit.target, suits_pocl=True)), entrypoint)
    return TargetCode(module=module, host=host, build_options=options, for_pocl=for_pocl)


def _module(unit: TranslationUnit, entrypoint: str) -> Module:
    try:
        return generate_module(unit, entrypoint)
    except TypeInferenceFailure as failure:
        raise CodegenError(
            "an exported kernel has one type for each argument",
            kernel=entrypoint,
            because=str(failure),
            hint='state the types: add_dtypes(knl, {"a": numpy.float32})',
        ) from failure


#: The targets whose build options are those of each kind of export.
_KINDS: Final[Mapping[str, type[TargetBase]]] = {
    "c": CTarget,
    "opencl": OpenCLTarget,
    "cuda": CudaTarget,
}


def _target(chosen: TargetBase, target: str) -> TargetBase:
    """Return the target of the code: the program's own, where it is of that kind."""
    if target == "c":
        gnu = isinstance(chosen, CWithGNULibcTarget)
        return (CWithGNULibcTarget if gnu else CTarget)(function_specifiers="static")
    if target == "opencl":
        limits = chosen.limits() if isinstance(chosen, OpenCLTarget) else None
        return StandaloneOpenCLTarget(device_limits=limits)
    return replace(chosen, extern_c=True) if isinstance(chosen, CudaTarget) else CudaTarget()


def _check_arguments(kernel: ExportedKernel) -> None:
    """Reject arguments that a function in C cannot have."""
    for arg in kernel.arguments:
        if not arg.is_array and arg.dtype.kind not in "biufc":
            raise CodegenError(
                f"a value of type {arg.dtype} cannot be passed to an exported function",
                kernel=kernel.name,
                where=f"argument '{arg.name}'",
                hint="pass it in an array with one element",
            )


#: The C type of each type of numbers; those of complex numbers are the library's own.
_C_TYPES: Final[Mapping[str, str]] = {
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
}


def c_type(namespace: str, dtype: np.dtype[Any]) -> str:
    """Return the C type of a number, or of the elements of an array."""
    if dtype.kind == "c":
        return f"{namespace}_{dtype.name}"
    return _C_TYPES.get(dtype.name, "void")
