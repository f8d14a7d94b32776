"""The exported kernels, with the host program and the code of each target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from kgen.errors import CodegenError, TypeInferenceFailure, near_names
from kgen.exporters.opencl_target import StandaloneOpenCLTarget
from kgen.exporters.requests import Exportable, always_runs, may_run, variants_by_name
from kgen.host.program import HostProgram
from kgen.host.variants import Variant
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.lowering import generate_module
from kgen.targets.base import Target
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.module import ArgumentInfo, Module
from kgen.targets.opencl import OpenCLTarget

__all__ = ["TARGETS", "Choice", "ExportedKernel", "TargetCode", "exported_kernels"]

#: The targets for which code can be exported.
TARGETS: Final = ("c", "opencl", "cuda")


@dataclass(frozen=True, kw_only=True)
class TargetCode:
    """The code of a kernel for one target, and the host program that runs it.

    ``build_options`` are passed to the compiler of the target. ``for_pocl`` is different code for
    OpenCL, which PoCL compiles correctly.
    """

    module: Module
    host: HostProgram
    build_options: tuple[str, ...] = ()
    for_pocl: Module | None = None


@dataclass(frozen=True, kw_only=True)
class ExportedKernel:
    """A kernel of an exported library: ``name`` is that of its function in C.

    ``codes`` is its code by target. All have the same arguments. If a call chooses from variants,
    the code is that of one with temporaries, if there is one.
    """

    name: str
    unit: TranslationUnit
    entrypoint: str
    codes: Mapping[str, TargetCode]
    #: the name in C++ and in messages: that of several kernels, if their types differ
    title: str
    #: by target: the variants that a call chooses from, if there are several
    choices: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)

    @property
    def host(self) -> HostProgram:
        """The host program of any target; the arguments are the same for all targets."""
        return next(iter(self.codes.values())).host

    @property
    def arguments(self) -> tuple[ArgumentInfo, ...]:
        """The arguments of a call: arrays and all numbers, even those that follow from arrays."""
        return tuple(a for a in self.host.arguments if not (a.is_array and a.is_temporary))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A variant of a kernel for one target; it runs for sizes of ``condition`` on ``device``.

    ``None`` means all sizes, or all devices of the target.
    """

    kernel: ExportedKernel
    condition: Expr | None
    device: str | None


def exported_kernels(programs: Exportable, targets: Sequence[str]) -> tuple[ExportedKernel, ...]:
    """Generate the code of all entry points of *programs* for *targets*, sorted by name.

    Raises :class:`CodegenError` for two kernels of one name, unknown types, arguments that
    functions in C cannot have, and variants with different arguments.
    """
    found: dict[str, ExportedKernel] = {}
    for name, variants in variants_by_name(programs):
        for kernel in _kernels_of(name, variants, targets):
            if kernel.name in found:
                raise CodegenError(
                    "two kernels of an export have this name",
                    kernel=kernel.name,
                    hint="make one of them with another name=...",
                )
            found[kernel.name] = kernel
            _check_arguments(kernel)
    if not found:
        raise CodegenError("there is nothing to export", hint="pass a program, or several")
    return tuple(found[name] for name in sorted(found))


def _kernels_of(
    name: str, variants: Sequence[Variant], targets: Sequence[str]
) -> Iterator[ExportedKernel]:
    """Generate the code of variants; yield a kernel for each combination of types."""
    made: list[tuple[Variant, ExportedKernel]] = []
    for variant in variants:
        (entrypoint,) = variant.program.entrypoints
        wanted = [target for target in targets if may_run(variant.device, target)]
        codes = {target: _code(variant.program, entrypoint, target) for target in wanted}
        if codes:
            kernel = ExportedKernel(
                name=name,
                unit=variant.program,
                entrypoint=entrypoint,
                codes=codes,
                title=name,
            )
            made.append((variant, kernel))
    if not made:
        raise _incomplete(name, targets)
    for _, kernel in made[1:]:
        _check_same(made[0][1], kernel, _TYPELESS)
    by_types: dict[tuple[str, ...], list[tuple[Variant, ExportedKernel]]] = {}
    for variant, kernel in made:
        types = tuple(arg.dtype.name for arg in kernel.arguments)
        by_types.setdefault(types, []).append((variant, kernel))
    suffixes = _suffixes(list(by_types))
    for types, members in by_types.items():
        full_name = "_".join([name, *suffixes[types]])
        yield _with_choices(full_name, name, members, targets)


def _suffixes(types: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return suffixes that distinguish combinations of types: the differing types, each once.

    >>> _suffixes([("float32", "float32", "int32"), ("float64", "float64", "int32")])
    {('float32', 'float32', 'int32'): ('float32',), ('float64', 'float64', 'int32'): ('float64',)}
    """
    columns = dict.fromkeys(zip(*types, strict=True))
    kept = [column for column in columns if len(set(column)) > 1]
    return {row: tuple(column[k] for column in kept) for k, row in enumerate(types)}


def _with_choices(
    name: str,
    title: str,
    members: Sequence[tuple[Variant, ExportedKernel]],
    targets: Sequence[str],
) -> ExportedKernel:
    """Return one kernel for variants with arguments of the same types."""
    first = members[0][1]
    for _, kernel in members[1:]:
        _check_same(first, kernel, (*_TYPELESS, *_LAYOUT))
    codes: dict[str, TargetCode] = {}
    choices: dict[str, tuple[Choice, ...]] = {}
    for target in targets:
        found = _choices(name, members, target)
        having = [c.kernel.codes[target] for c in found if c.kernel.codes[target].host.buffers]
        codes[target] = having[0] if having else found[0].kernel.codes[target]
        if len(found) > 1:
            choices[target] = found
    return replace(first, name=name, title=title, codes=codes, choices=choices)


def _choices(
    name: str, members: Sequence[tuple[Variant, ExportedKernel]], target: str
) -> tuple[Choice, ...]:
    """Return the variants for a target, up to the first one that is for all calls."""
    found: list[Choice] = []
    for number, (variant, kernel) in enumerate(members):
        if target not in kernel.codes:
            continue
        _check_condition(variant, kernel)
        choice = Choice(
            kernel=replace(kernel, name=f"{name}_variant{number}"),
            condition=variant.condition,
            device=None if always_runs(variant.device, target) else variant.device,
        )
        found.append(choice)
        if choice.condition is None and choice.device is None:
            return tuple(found)
    raise _incomplete(name, [target])


def _incomplete(name: str, targets: Sequence[str]) -> CodegenError:
    return CodegenError(
        f"no variant handles all calls on {' or '.join(targets)}",
        kernel=name,
        because="a call runs the first variant that handles it, and there may be none",
        hint="put a variant without when= and device= last",
    )


#: The attributes that variants of a kernel share, and further ones if their types are equal.
_TYPELESS: Final = ("name", "is_array", "is_input", "is_output")
_LAYOUT: Final = ("shape", "strides")


def _check_same(one: ExportedKernel, other: ExportedKernel, fields: Sequence[str]) -> None:
    """Reject variants whose arguments differ in one of *fields*."""
    names = [", ".join(arg.name for arg in kernel.arguments) for kernel in (one, other)]
    difference = None
    if names[0] != names[1]:
        difference = f"one has the arguments {names[0]}; the other {names[1]}"
    for a, b in zip(one.arguments, other.arguments, strict=False):
        for name in fields:
            values = getattr(a, name), getattr(b, name)
            if difference is None and values[0] != values[1]:
                shown = [_shown(value) for value in values]
                difference = (
                    f"'{name}' of '{a.name}' is {shown[0]} in one, and {shown[1]} in the other"
                )
    if difference is not None:
        raise CodegenError(
            "two variants have different arguments",
            kernel=one.name,
            because=difference,
            hint="declare the same arguments in the same order: set_argument_order(knl, ...)",
        )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(to_text, value))})"
    return str(value)


def _check_condition(variant: Variant, kernel: ExportedKernel) -> None:
    """Reject a condition on anything except integer arguments."""
    if variant.condition is None:
        return
    integers = {arg.name for arg in kernel.arguments if arg.dtype.kind in "iu" and not arg.is_array}
    for name in variable_names(variant.condition):
        if name not in integers:
            raise CodegenError(
                f"'{name}' in the condition '{variant.when}' is not an integer argument",
                kernel=kernel.name,
                hint=near_names(name, integers),
            )


def _code(unit: TranslationUnit, entrypoint: str, target: str) -> TargetCode:
    own = unit.target if unit.target.family == target else None
    unit = unit.copy(target=_target(own or _DEFAULTS[target]))
    kernel = unit[entrypoint]
    module = _module(unit, entrypoint, target)
    restrict = kernel.options.restrict
    host = HostProgram.of(module, (), kernel.all_params(), restrict=restrict)
    options = module.build_options
    if own is not None:
        options = (*options, *kernel.options.build_options)
        if own.compiler is not None:
            options += tuple(f"-D{name}" for name in own.compiler.defines)
            options += tuple(f"-l{name}" for name in own.compiler.libraries)
    suited = unit.target.having(suits_pocl=True, sub_group_size=None)
    for_pocl = _module(unit.copy(target=suited), entrypoint, target) if suited.suits_pocl else None
    return TargetCode(module=module, host=host, build_options=options, for_pocl=for_pocl)


def _module(unit: TranslationUnit, entrypoint: str, target: str) -> Module:
    try:
        return generate_module(unit, entrypoint)
    except TypeInferenceFailure as failure:
        raise CodegenError(
            f"it cannot be exported for the target '{target}'",
            kernel=entrypoint,
            because=str(failure),
        ) from failure


#: The targets of exported code for programs with a target of another language.
_DEFAULTS: Final[Mapping[str, Target]] = {
    "c": CTarget(threads=None),
    "opencl": OpenCLTarget(),
    "cuda": CudaTarget(),
}


def _target(chosen: TargetBase) -> TargetBase:
    """Return the target of the code of a library for a program with the target *chosen*."""
    if chosen.family == "opencl":
        limits = chosen.limits() if isinstance(chosen, Target) else None
        shared = {one.name: getattr(chosen, one.name) for one in fields(OpenCLTarget)}
        return StandaloneOpenCLTarget(device_limits=limits, **shared)
    return chosen.exported()


def _check_arguments(kernel: ExportedKernel) -> None:
    """Reject arguments that a function in C cannot have."""
    for arg in kernel.arguments:
        if not arg.is_array and arg.dtype.kind != "c" and arg.dtype.name not in _C_TYPES:
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
