"""The entry points for users: ``make_kernel`` and ``make_function``."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from kgen.analysis.overwrites import warn_of_overwrites
from kgen.analysis.shapes import infer_argument_shapes, infer_constant_shapes
from kgen.errors import (
    InvocationError,
    KernelError,
    KgenError,
    message,
    naming_kernel,
    near_names,
)
from kgen.ir.checked import check_arguments
from kgen.ir.construction.macros import Macros
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.data import SubstitutionRule, TemporaryVariable
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.options import DuplicateInamesTag
from kgen.ir.sets.effort import isl_limit
from kgen.ir.target import TargetBase
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.targets.c import ExecutableCTarget
from kgen.targets.opencl import PyOpenCLTarget
from kgen.transforms.loops.rename import duplicate_inames
from kgen.transforms.programs.params import fix_used_parameters
from kgen.version import MOST_RECENT_LANGUAGE_VERSION

__all__ = [
    "default_target",
    "installed_target",
    "make_function",
    "make_kernel",
    "set_default_target",
]


class _Chosen:
    """What programs have chosen for all kernels that they make from then on."""

    target: Callable[[], TargetBase] | None = None


def set_default_target(target: Callable[[], TargetBase] | None) -> None:
    """Choose the target of kernels that are made without one; ``None`` chooses kgen's own.

    >>> from kgen.targets.c import CTarget
    >>> set_default_target(CTarget)
    >>> make_kernel("{ [i]: 0<=i<4 }", "a[i] = i").target == CTarget()
    True
    >>> set_default_target(None)
    """
    _Chosen.target = target


def default_target() -> TargetBase:
    """Return the chosen target, or else what :func:`installed_target` returns."""
    return installed_target() if _Chosen.target is None else _Chosen.target()


@lru_cache(maxsize=1)
def installed_target() -> TargetBase:
    """Return OpenCL through pyopencl if that is installed, else the host's C compiler."""
    if importlib.util.find_spec("pyopencl") is not None:
        return PyOpenCLTarget()
    return ExecutableCTarget()


def make_kernel(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str = "kgen_kernel",
    target: TargetBase | None = None,
    assumptions: Any = None,
    options: Any = None,
    default_order: Any = None,
    default_offset: Any = None,
    fixed_parameters: Mapping[str, Any] | None = None,
    defines: Mapping[str, Any] | None = None,
    seq_dependencies: bool = False,
    temporary_variables: Mapping[str, TemporaryVariable] | None = None,
    substitutions: Mapping[str, SubstitutionRule] | None = None,
    loop_priority: Any = None,
    iname_slab_increments: Mapping[str, tuple[int, int]] | None = None,
    applied_iname_rewrites: Iterable[Mapping[Any, Any]] | None = (),
    index_dtype: Any = None,
    silenced_warnings: Any = (),
    preambles: Iterable[tuple[str, str]] | None = (),
    preamble_generators: Iterable[Callable[..., Any]] | None = (),
    symbol_manglers: Iterable[Callable[..., Any]] | None = (),
    tags: Any = None,
    lang_version: Any = None,
    **unknown: Any,
) -> TranslationUnit:
    r"""Make a program with one kernel from its loop domains and instructions.

    >>> knl = make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]")
    >>> print(*knl["kgen_kernel"].args, sep="\n")
    a: type: <auto/runtime>, shape: (n), dim_tags: (N0:stride:1) in aspace: global
    n: ValueArg, type: <auto/runtime>
    out: type: <auto/runtime>, shape: (n), dim_tags: (N0:stride:1) out aspace: global

    :arg domains: the values of the loop variables (*inames*): a set in isl's notation, an
        islpy or namedisl set, or a list of these. Names that are not loop variables are
        parameters. A domain is nested in another one if it uses a loop variable, or a
        temporary, of that domain as a parameter.
    :arg instructions: text, or a list of texts, :class:`Assignment` and other instruction
        objects, and :class:`SubstitutionRule`. One line holds one instruction::

            lhs[i, j] = expression {id=name, dep=other*:another, ...}
            <float32> temporary = expression         # <> to have the type inferred
            lhs[i] += expression
            a[i], b[i] = function(c[i])
            rule(x, y) := expression
            for i, j ... end
            if condition ... elif condition ... else ... end
            with {dep=..., inames=..., ...} ... end
            ... gbarrier, ... lbarrier, ... nop

        Instructions are **unordered** unless one depends on another: by ``dep=``, or because
        it reads a variable that exactly one instruction writes (``dep=*...`` turns this off).
        The options are ``id id_prefix dep dep_query nosync nosync_query priority inames if
        tags groups conflicts atomic mem_kind dup``.
    :arg kernel_data: arguments and temporaries in the order of the generated function: a list
        of :class:`GlobalArg`, :class:`ConstantArg`, :class:`ValueArg`,
        :class:`TemporaryVariable`, names (whose other properties are inferred) and ``...`` (infer
        all others); or a text of names. By default, all are inferred.
    :arg name: the name of the kernel, and of the generated function
    :arg target: the target of the code; by default :func:`default_target`
    :arg assumptions: constraints on the parameters, such as ``"n >= 1 and n mod 4 = 0"``
    :arg options: an :class:`Options`, a dict, or text ``"return_dict,no_numpy"``
    :arg default_order: the layout of arrays without a declared one, ``"C"`` or ``"F"``
    :arg default_offset: the offset of inferred arrays: 0, or ``auto`` for one passed in calls
    :arg fixed_parameters: values of parameters and arguments, as :func:`fix_parameters` takes
        them; names that the kernel does not have are ignored
    :arg defines: macros: a name is replaced by its value, as ``NAME`` or ``${NAME}``, in
        instructions and domains that are texts, and in shapes and strides. There is a copy of an
        instruction for each value of a list: ``{"J": [1, 2]}``
    :arg seq_dependencies: make every instruction depend on the one before it
    :arg temporary_variables, substitutions: additional declarations, by name
    :arg loop_priority: nestings, outer loops first: ``"i,j"`` or a set of tuples
    :arg iname_slab_increments: ``{iname: (first, last)}`` iterations with their own code
    :arg applied_iname_rewrites: values ``{iname: expression}`` of inames that transformations have
        replaced, as ``kernel.applied_iname_rewrites`` of another kernel: for footprints that name
        them, as ``add_prefetch`` takes them
    :arg index_dtype: the integer type of loop variables, by default ``int32``
    :arg silenced_warnings: names of warnings to silence, or patterns (``"write_race*"``):
        a list, or a text separated by semicolons
    :arg preambles: ``(tag, code)`` pairs inserted before the code, each tag once
    :arg lang_version: the version of the language of the text: ``(2018, 2)``,
        the only one, or an older version, all of which it includes

    Raises :class:`KgenSyntaxError` (with line and column) for text that does not parse,
    :class:`KernelError` for parts that contradict each other,
    :class:`StaticValueFindingError` if an array has no single size for all parameters.
    """
    kernel = _make_checked(
        domains,
        instructions,
        kernel_data,
        name=name,
        target=target,
        assumptions=assumptions,
        options=options,
        default_order=default_order,
        default_offset=default_offset,
        fixed_parameters=fixed_parameters,
        defines=defines,
        seq_dependencies=seq_dependencies,
        temporary_variables=temporary_variables,
        substitutions=substitutions,
        loop_priority=loop_priority,
        iname_slab_increments=iname_slab_increments,
        applied_iname_rewrites=applied_iname_rewrites,
        index_dtype=index_dtype,
        silenced_warnings=silenced_warnings,
        preambles=preambles,
        preamble_generators=preamble_generators,
        symbol_manglers=symbol_manglers,
        tags=tags,
        lang_version=lang_version,
        **unknown,
    )
    return _unit_of(kernel, frozenset((name,)))


def make_function(
    domains: Any,
    instructions: Any,
    kernel_data: Any = None,
    *,
    name: str = "kgen_kernel",
    target: TargetBase | None = None,
    fixed_parameters: Mapping[str, Any] | None = None,
    defines: Mapping[str, Any] | None = None,
    lang_version: Any = None,
    **settings: Any,
) -> TranslationUnit:
    """Make a kernel that other kernels call, and that is not an entry point.

    >>> double = make_function("{ [i]: 0 <= i < 16 }", "y[i] = 2*x[i]", name="double")
    >>> double["double"].name, sorted(double.entrypoints)
    ('double', [])

    It takes the arguments of :func:`make_kernel`, and raises the same errors.
    """
    kernel = _make_checked(
        domains,
        instructions,
        kernel_data,
        name=name,
        target=target,
        fixed_parameters=fixed_parameters,
        defines=defines,
        lang_version=lang_version,
        **settings,
    )
    return _unit_of(kernel, frozenset())


def _unit_of(kernel: LoopKernel, entrypoints: frozenset[str]) -> TranslationUnit:
    return TranslationUnit(
        callables_table={kernel.name: CallableKernel(kernel)},
        entrypoints=entrypoints,
        target=kernel.target,
    )


def _make_checked(
    domains: Any,
    instructions: Any,
    kernel_data: Any,
    *,
    name: str,
    target: TargetBase | None,
    fixed_parameters: Mapping[str, Any] | None,
    defines: Mapping[str, Any] | None,
    lang_version: Any,
    **settings: Any,
) -> LoopKernel:
    """Make a kernel from checked arguments."""
    _reject_later_language(lang_version)
    unknown = sorted(set(settings) - _SETTINGS)
    if unknown:
        raise InvocationError(
            f"make_kernel has no argument '{unknown[0]}'\n"
            f"  hint: {near_names(unknown[0], _SETTINGS | _OWN_SETTINGS)}"
        )
    if target is not None and not isinstance(target, TargetBase):
        raise KgenError(
            f"a target is an object such as lp.PyOpenCLTarget(), not {target!r}\n  hint: call "
            "the class: target=lp.ExecutableCTarget()"
        )
    mappings = {"fixed_parameters": fixed_parameters, "defines": defines}
    check_arguments(make_function, (None, None), mappings)
    if defines:
        with naming_kernel(name):
            macros = Macros(defines)
            instructions = macros.in_instructions(instructions)
            domains, kernel_data = macros.in_domains(domains), macros.in_data(kernel_data)
    own = {"name": name, "target": target or default_target(), **settings}
    check_arguments(
        make_loop_kernel, (domains, instructions, kernel_data), own, called="make_kernel"
    )
    kernel = make_loop_kernel(
        domains,
        instructions,
        kernel_data,
        **own,
    )
    kernel = _with_duplicated_inames(kernel)
    if kernel.loop_priority:
        kernel = kernel.copy(loop_priority=_known_priorities(kernel))
    if fixed_parameters:
        kernel = fix_used_parameters(kernel, fixed_parameters)
    with isl_limit("finding the shapes of arguments", kernel, KernelError):
        kernel = infer_constant_shapes(infer_argument_shapes(kernel))
        warn_of_overwrites(kernel)
    return kernel


def _known_priorities(kernel: LoopKernel) -> tuple[tuple[str, ...], ...]:
    """Return the nestings without names that are no inames, of which the kernel warns."""
    for name in dict.fromkeys(chain.from_iterable(kernel.loop_priority)):
        if name not in kernel.inames:
            text = message(
                f"loop_priority has '{name}', which is no iname",
                kernel=kernel.name,
                because="a priority is advice, and holds for the other loops",
                hint=near_names(name, kernel.inames),
            )
            kernel.warn(text, f"no_such_loop({name})")
    known = (tuple(n for n in names if n in kernel.inames) for names in kernel.loop_priority)
    return tuple(names for names in known if len(names) > 1)


def _with_duplicated_inames(kernel: LoopKernel) -> LoopKernel:
    """Duplicate the inames in the instructions' ``dup`` options."""
    wanted = [
        (insn.id, tag)
        for insn in kernel.instructions
        for tag in insn.tags
        if isinstance(tag, DuplicateInamesTag)
    ]
    if not wanted:
        return kernel
    tags = {tag for _, tag in wanted}
    kernel = kernel.map_instructions(lambda insn: insn.copy(tags=insn.tags - tags))
    for insn_id, tag in sorted(wanted, key=str):
        old, new = zip(*tag.inames, strict=True)
        kernel = duplicate_inames(kernel, old, f"id:{insn_id}", new)
    return kernel


def _reject_later_language(lang_version: Any) -> None:
    """Reject invalid versions of the language, and versions after the current one."""
    if lang_version is None:
        return
    numbers = tuple(lang_version) if isinstance(lang_version, tuple | list) else ()
    if not numbers or not all(isinstance(n, int) for n in numbers):
        what = f"lang_version is {lang_version!r}, which is not a version"
    elif numbers <= MOST_RECENT_LANGUAGE_VERSION:
        return
    else:
        what = f"the language has no version {'.'.join(map(str, numbers))}"
    newest = tuple(MOST_RECENT_LANGUAGE_VERSION)
    raise KgenError(f"{what}\n  hint: leave it out, or pass lang_version={newest}")


_OWN_SETTINGS = frozenset(("name", "target", "fixed_parameters", "defines", "lang_version"))
_SETTINGS = frozenset(inspect.signature(make_loop_kernel).parameters) - {
    "domains",
    "instructions",
    "kernel_data",
    *_OWN_SETTINGS,
}
