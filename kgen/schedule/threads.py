"""Targets without work-items: a thread runs each work-group, and loops over its work-items."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from kgen.analysis.axes import has_axes, has_item_loops
from kgen.errors import ScheduleError
from kgen.ir.data import Iname
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import GroupInameTag, ItemLoopTag, LocalInameTag, LocalInameTagBase
from kgen.ir.types import AddressSpace

__all__ = [
    "check_values_stay",
    "items_as_loops",
]


def items_as_loops(kernel: PreparedKernel) -> PreparedKernel:
    """Return the kernel with work-items as loops, if threads run work-groups without them.

    ::

        for i_outer, i_inner: g.0, l.0    =>    for i_outer: g.0
                                                    for i_inner
    """
    items = [name for name in kernel.inames if kernel.has_tag(name, LocalInameTagBase)]
    if not items or not has_item_loops(kernel):
        return kernel
    inames = {
        name: _as_loop(iname) if name in items else iname for name, iname in kernel.inames.items()
    }
    return PreparedKernel(kernel.copy(inames=inames))


def _as_loop(iname: Iname) -> Iname:
    """Replace a work-item tag; remember the loop along ``l.0``."""
    tags = iname.tags_of_type(LocalInameTagBase)
    loop = iname.without_tags(tags)
    return loop.copy(tags=loop.tags | {ItemLoopTag()}) if LocalInameTag(0) in tags else loop


def check_values_stay(kernel: LoopKernel) -> LoopKernel:
    """Reject temporaries that would carry values from one work-group to the next, as in loops.

    These are private or local, and set both inside a loop over work-groups and outside it:
    each thread has its own. Accumulators of reductions are such, and are not in *kernel* yet.
    """
    if not (has_item_loops(kernel) and has_axes(kernel)):
        return kernel
    groups = frozenset(iname for iname in kernel.inames if kernel.has_tag(iname, GroupInameTag))
    for name, writers in sorted(kernel.writers.items()):
        temporary = kernel.temporary_variables.get(name)
        if temporary is None or temporary.address_space == AddressSpace.GLOBAL:
            continue
        insns = [kernel.id_to_insn[insn_id] for insn_id in writers]
        for outer, inner in itertools.permutations(insns, 2):
            between = groups & (inner.within_inames - outer.within_inames)
            if between and groups & outer.within_inames <= inner.within_inames:
                raise _carried(name, outer, inner, between)
    return kernel


def _carried(
    name: str, outer: InstructionBase, inner: InstructionBase, between: Collection[str]
) -> ScheduleError:
    loops = ", ".join(f"'{iname}'" for iname in sorted(between))
    return ScheduleError(
        f"temporary '{name}' carries values from one iteration of {loops} to the next",
        where=f"instructions '{outer.id}' and '{inner.id}'",
        because=f"threads run the iterations at the same time, each with its own '{name}', which "
        f"'{outer.id}' sets",
        hint=f"put '{outer.id}' into the loop if '{name}' starts anew there; else "
        "untag_inames(...), or a reduction or scan: sum(...)",
    )
