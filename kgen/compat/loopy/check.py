"""loopy.check: checks of kernels, which kgen makes during code generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgen.analysis import bounds, ordering
from kgen.analysis.access import collect_accesses
from kgen.analysis.infer import infer_types
from kgen.analysis.shapes import infer_argument_shapes
from kgen.analysis.typing import ExpressionTyper
from kgen.compat.renamed import refuser
from kgen.errors import KernelError, KgenIndexError, ScheduleError, message, near_names
from kgen.ir.expr import to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import dim_names, param_names
from kgen.ir.tags import AxisTag, ConcurrentTag, InameImplementationTag
from kgen.ir.unit import TranslationUnit, kernels_of
from kgen.lowering import prepare, schedule_prepared
from kgen.schedule.place import axes_of_instruction
from kgen.transforms.expressions.rules import expand_subst
from kgen.transforms.select import check_dependencies_exist, check_ids_unique
from kgen.transforms.statements import inames_outside
from kgen.transforms.uses import without_unused_inames

__all__ = [
    "check_bounds",
    "check_for_data_dependent_parallel_bounds",
    "check_for_double_use_of_hw_axes",
    "check_for_duplicate_insn_ids",
    "check_for_inactive_iname_access",
    "check_for_integer_subscript_indices",
    "check_for_unused_inames",
    "check_for_write_races",
    "check_insn_attributes",
    "check_loop_priority_inames_known",
    "check_multiple_tags_allowed",
    "check_variable_access_ordered",
    "pre_schedule_checks",
]

__getattr__ = refuser("generate_code_v2 makes all checks, and reports violations")


def pre_schedule_checks(
    kernel: LoopKernel, callables_table: Mapping[str, Any] | None = None
) -> None:
    """Raise an error for what is wrong with a kernel whatever its order: types, bounds, names.

    Functions and kernels that it calls are its own, whatever *callables_table* has.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<9 }", "out[i] = a[i+1]", [lp.GlobalArg("a", "f4", shape=9), ...])
    >>> pre_schedule_checks(unit.default_entrypoint)
    Traceback (most recent call last):
        ...
    kgen.errors.KgenIndexError: in kernel 'kgen_kernel': 'a[i + 1]' is outside of array 'a'...
    """
    prepare(kernel)


# -- accesses -----------------------------------------------------------------------------------


def _with_known_types(kernel: LoopKernel) -> LoopKernel:
    """Return a kernel without rules, with the shapes and types that are known."""
    return infer_types(infer_argument_shapes(expand_subst(kernel)), complete=False)


def check_bounds(t_unit: TranslationUnit) -> None:
    """Raise :class:`KgenIndexError` for an access outside of its array.

    >>> import kgen as lp
    >>> check_bounds(lp.make_kernel("{ [i]: 0<=i<9 }", "out[i] = a[i+1]"))
    """
    for kernel in kernels_of(t_unit):
        bounds.check_bounds(_with_known_types(kernel))


def check_for_integer_subscript_indices(t_unit: TranslationUnit) -> None:
    """Raise :class:`KgenIndexError` for a subscript that is no integer.

    >>> import kgen as lp
    >>> check_for_integer_subscript_indices(
    ...     lp.make_kernel("{ [i]: 0<=i<9 }", "out[i] = a[0.5*i]"))
    Traceback (most recent call last):
        ...
    kgen.errors.KgenIndexError: in kernel 'kgen_kernel': the subscript '0.5*i' of 'a' is a...
    """
    for kernel in map(_with_known_types, kernels_of(t_unit)):
        typer = ExpressionTyper(kernel)
        for access in collect_accesses(kernel):
            for index in access.index or ():
                dtype = typer(index)
                if not dtype.is_integral():
                    raise KgenIndexError(
                        f"the subscript '{to_text(index)}' of '{access.array}' is a "
                        f"{dtype.numpy_dtype}",
                        kernel=kernel.name,
                        where=f"instruction '{kernel.id_to_insn[access.insn_id]}'",
                    )


def check_variable_access_ordered(kernel: LoopKernel) -> None:
    """Raise :class:`VariableAccessNotOrdered` if the order of two accesses is undefined.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<9 }", ["a[i] = 1 {id=x}", "a[i] = 2 {id=y, dep=x}"])
    >>> check_variable_access_ordered(unit.default_entrypoint)
    """
    ordering.check_accesses_ordered(kernel)


def check_for_write_races(kernel: LoopKernel) -> None:
    """Raise :class:`WriteRaceError` for work-items that write different values to an element.

    If that depends on data, there is a :class:`WriteRaceConditionWarning`. All types must be known.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<8 }", "a[0] = i", target=lp.OpenCLTarget())
    >>> check_for_write_races(lp.tag_inames(unit, "i:l.0").default_entrypoint)
    Traceback (most recent call last):
        ...
    kgen.errors.WriteRaceError: in kernel 'kgen_kernel': instruction 'insn' writes elements of...
    """
    schedule_prepared(prepare(kernel), has_axes=kernel.target.has_hardware_axes)


# -- loops --------------------------------------------------------------------------------------


def check_for_double_use_of_hw_axes(t_unit: TranslationUnit) -> None:
    """Raise :class:`ScheduleError` for two loops on one hardware axis around an instruction.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<8 }", "a[i, j] = 1")
    >>> check_for_double_use_of_hw_axes(lp.tag_inames(unit, "i:l.0, j:l.1"))
    """
    for kernel in kernels_of(t_unit):
        tag_of = {n: tag for n in kernel.inames for tag in kernel.iname_tags_of_type(n, AxisTag)}
        for insn in kernel.instructions:
            axes_of_instruction(kernel, insn, tag_of)


def check_for_data_dependent_parallel_bounds(kernel: LoopKernel) -> None:
    """Raise :class:`ScheduleError` for a parallel loop with bounds that the kernel computes.

    >>> import kgen as lp
    >>> text = ["<> m = l[0]", "out[i] = 1"]
    >>> knl = lp.make_kernel("[m] -> { [i]: 0<=i<m }", text, [lp.GlobalArg("l", "int32", 1), ...])
    >>> check_for_data_dependent_parallel_bounds(lp.tag_inames(knl, "i:l.0").default_entrypoint)
    Traceback (most recent call last):
        ...
    kgen.errors.ScheduleError: in kernel 'kgen_kernel': the parallel loop 'i' has bounds with 'm'...
    """
    written = kernel.get_written_variables()
    for domain in kernel.domains:
        computed = sorted(written.intersection(param_names(domain)))
        for iname in dim_names(domain) if computed else ():
            if kernel.has_tag(iname, ConcurrentTag):
                raise ScheduleError(
                    f"the parallel loop '{iname}' has bounds with '{computed[0]}', which the "
                    "kernel computes",
                    kernel=kernel.name,
                )


def check_loop_priority_inames_known(kernel: LoopKernel) -> None:
    """Raise :class:`KernelError` for priorities of loops that the kernel does not have.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<8 }", "a[i, j] = 1")
    >>> check_loop_priority_inames_known(lp.prioritize_loops(unit, "j,i").default_entrypoint)
    """
    for nest in kernel.loop_priority:
        for name in nest:
            if name not in kernel.inames:
                raise KernelError(
                    f"loop_priority has '{name}', which is no iname",
                    kernel=kernel.name,
                    hint=near_names(name, kernel.inames),
                )


def check_multiple_tags_allowed(kernel: LoopKernel) -> None:
    """Raise :class:`KernelError` for a loop that is implemented in two ways.

    >>> import kgen as lp
    >>> unit = lp.tag_inames(lp.make_kernel("{ [i]: 0<=i<8 }", "a[i] = 1"), "i:l.0")
    >>> check_multiple_tags_allowed(unit.default_entrypoint)
    """
    for name in kernel.inames:
        tags = sorted(map(str, kernel.iname_tags_of_type(name, InameImplementationTag)))
        if len(tags) > 1:
            raise KernelError(
                f"iname '{name}' is implemented as {', '.join(tags)}", kernel=kernel.name
            )


def check_for_inactive_iname_access(kernel: LoopKernel) -> None:
    """Raise :class:`KernelError` for a loop variable that is used outside of its loop.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<8 }", "a[i] = 1").default_entrypoint
    >>> out = [insn.copy(within_inames=frozenset()) for insn in knl.instructions]
    >>> check_for_inactive_iname_access(knl.copy(instructions=out))
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: in kernel 'kgen_kernel': 'insn' uses 'i' outside of its loop
    """
    for insn in kernel.instructions:
        for name in sorted(inames_outside(kernel, insn) - insn.sub_array_ref_inames()):
            raise KernelError(f"'{insn.id}' uses '{name}' outside of its loop", kernel=kernel.name)


def check_for_unused_inames(kernel: LoopKernel) -> None:
    """Warn of loops that no instruction is in, and that bound no other loop.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<8 }", "a[i] = 1")
    >>> check_for_unused_inames(unit.default_entrypoint)
    """
    rest = without_unused_inames(kernel, tuple(kernel.inames)).inames
    for name in kernel.inames:
        if name not in rest:
            text = message(
                f"no instruction is in loop '{name}'",
                kernel=kernel.name,
                hint="remove_unused_inames(kernel)",
            )
            kernel.warn(text, f"unused_iname({name})")


# -- instructions -------------------------------------------------------------------------------


def check_for_duplicate_insn_ids(knl: LoopKernel) -> None:
    """Raise :class:`KernelError` for two instructions with one id.

    >>> import kgen as lp
    >>> check_for_duplicate_insn_ids(
    ...     lp.make_kernel("{ [i]: 0<=i<8 }", "a[i] = 1").default_entrypoint)
    """
    check_ids_unique(knl)


def check_insn_attributes(kernel: LoopKernel) -> None:
    """Raise :class:`KernelError` for a dependency on an instruction that does not exist.

    >>> import kgen as lp
    >>> check_insn_attributes(lp.make_kernel("{ [i]: 0<=i<8 }", "a[i] = 1").default_entrypoint)
    """
    check_dependencies_exist(kernel)
