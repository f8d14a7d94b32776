"""Inference of the address spaces of temporaries: private, local or global."""

from __future__ import annotations

from kgen.analysis.access import collect_accesses
from kgen.errors import ExpressionToAffineConversionError, WriteRaceConditionWarning
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import pairs_of, project_out_dims, relation_from, with_params
from kgen.ir.sets.quasi_affine import map_from_exprs
from kgen.ir.tags import GroupInameTag, LocalInameTag, LocalInameTagBase
from kgen.ir.types import AddressSpace, auto


def infer_address_spaces(kernel: LoopKernel) -> LoopKernel:
    """Infer the address space of every temporary that is ``auto``.

    A temporary that is written in parallel, at subscripts that depend on the work-item's
    index, is shared by the work-group, or, if the subscripts also depend on the group's index,
    by all groups; every other temporary is private. A temporary with an initializer is a table in
    device memory.
    """
    undecided = [
        temporary
        for _, temporary in sorted(kernel.temporary_variables.items())
        if temporary.address_space is auto
    ]
    if not undecided:
        return kernel
    parallel = frozenset(name for name in kernel.inames if kernel.has_tag(name, LocalInameTagBase))
    decided = dict(kernel.temporary_variables)
    for temporary in undecided:
        space = _space_of(kernel, temporary, parallel)
        decided[temporary.name] = temporary.copy(address_space=space)
    return kernel.copy(temporary_variables=decided)


def _space_of(
    kernel: LoopKernel, temporary: TemporaryVariable, parallel: frozenset[str]
) -> AddressSpace:
    if temporary.initializer is not None:
        return AddressSpace.GLOBAL
    writers = [kernel.id_to_insn[n] for n in kernel.writers.get(temporary.name, ())]
    if any(_writes_for_other_groups(kernel, insn, temporary.name) for insn in writers):
        return AddressSpace.GLOBAL
    if not parallel:
        return AddressSpace.PRIVATE
    wants_local = False
    for insn in writers:
        around = insn.within_inames & parallel
        indexed = _distinguished_inames(kernel, insn, around, temporary.name)
        if not indexed:
            continue
        racing = sorted(around - indexed)
        if racing:
            kernel.warn(
                f"in kernel {kernel.name}: instruction '{insn.id}' looks invalid: it assigns to "
                f"indices based on local IDs, but its temporary '{temporary.name}' cannot be "
                f"made local because a write race across the iname(s) '{', '.join(racing)}' "
                "would emerge. (Do you need to add an extra iname to your prefetch?)",
                f"write_race_local({insn.id})",
                WriteRaceConditionWarning,
            )
            return AddressSpace.PRIVATE
        wants_local = True
    return AddressSpace.LOCAL if wants_local else AddressSpace.PRIVATE


def _writes_for_other_groups(kernel: LoopKernel, insn: InstructionBase, name: str) -> bool:
    """Tell whether work-groups write their own elements, and each work-item once.

    If work-items would write the same element, each has its own copy.
    """
    indices = insn.within_inames & insn.subscripts_of(name)
    local_axes = {
        iname: tag.axis
        for iname in kernel.inames
        for tag in kernel.iname_tags_of_type(iname, LocalInameTag)
    }
    own = {axis for iname, axis in local_axes.items() if iname in indices}
    return own.issuperset(local_axes.values()) and any(
        kernel.has_tag(iname, GroupInameTag) for iname in indices
    )


def _distinguished_inames(
    kernel: LoopKernel, insn: InstructionBase, around: frozenset[str], array: str
) -> frozenset[str]:
    """Return the inames of *around* whose values the written elements of *array* determine."""
    names = insn.subscripts_of(array)
    given = kernel.in_order(insn.within_inames & names)
    others = around - names
    if not given or not others:
        return around & names
    elements = [
        access.index
        for access in collect_accesses(kernel, (insn,))
        if access.array == array and access.is_write and access.index is not None
    ]
    return around & names | {
        name
        for name in others
        if all(_is_determined(kernel, name, given, index) for index in elements)
    }


def _is_determined(
    kernel: LoopKernel, name: str, given: tuple[str, ...], index: tuple[Expr, ...]
) -> bool:
    """Tell whether an element determines the iteration of *name* that writes it, as t[j], j = i."""
    points = kernel.domain_of((*given, name))
    points = with_params(points, (n for n in variable_names(*index) if n not in given))
    try:
        relation = map_from_exprs(points.get_space(), index).intersect_domain(points)
    except ExpressionToAffineConversionError:
        return bool(relation_from(points, len(given)).is_single_valued())
    return bool(relation_from(project_out_dims(pairs_of(relation), given), 1).is_injective())
