"""Whether hardware axes must be distinguished from loops where a thread runs a whole group."""

from __future__ import annotations

from collections.abc import Sequence

from kgen.analysis.address_space import infer_address_spaces
from kgen.errors import KgenError, ScheduleError
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import GroupInameTag, LocalInameTagBase
from kgen.ir.types import AddressSpace
from kgen.schedule.order import order_kernel
from kgen.schedule.place import check_axes, launches_of, schedule_kernel
from kgen.schedule.threads import items_as_loops
from kgen.transforms.loops.auto_axes import assign_auto_axes
from kgen.transforms.storage.privatize import users_of

__all__ = ["with_work_items"]


def with_work_items(kernel: LoopKernel) -> LoopKernel:
    """Return a typed kernel for a target on which its hardware axes are right.

    Where a thread runs all work-items of a group, each axis of them is a loop like others, if that
    is the same: if no work-item waits for others, or has values of its own behind that loop, and if
    the loops can be nested; or if work-items, which repeat what is outside of their loops, would
    wait only for other loops to end. So are the axes of groups if one thread runs all of them.
    Otherwise the target is one that tells work-items, and groups, apart.
    """
    items = frozenset(name for name in kernel.inames if kernel.has_tag(name, LocalInameTagBase))
    groups = frozenset[str]()
    if not kernel.target.has_hardware_axes:
        groups = frozenset(name for name in kernel.inames if kernel.has_tag(name, GroupInameTag))
    has_loops = bool(items | groups) and not kernel.target.has_work_items
    target = kernel.target.with_work_items() if has_loops else None
    if target is None:
        return kernel
    apart = kernel.copy(target=target)
    return apart if _differs(kernel, apart, items, groups) else kernel


def _differs(
    kernel: LoopKernel, apart: LoopKernel, items: frozenset[str], groups: frozenset[str]
) -> bool:
    silenced = (*apart.silenced_warnings, "write_race*")  # there are warnings where code is made
    on_axes = infer_address_spaces(assign_auto_axes(apart.copy(silenced_warnings=silenced)))
    if _keeps_values(on_axes, items) or any(_passes_on(on_axes, name, groups) for name in groups):
        return True
    can_be_nested = _can_be_nested(kernel)
    if can_be_nested and not items:
        return False
    try:
        launches = tuple(launches_of(on_axes))
    except KgenError:
        return not can_be_nested or _shares_memory(on_axes)
    if can_be_nested and not any(waits for _, waits in launches):
        return False
    return not _is_right_in_loops(kernel, on_axes, launches, items)


def _is_right_in_loops(
    kernel: LoopKernel,
    on_axes: LoopKernel,
    launches: Sequence[tuple[tuple[str, ...], bool]],
    items: frozenset[str],
) -> bool:
    """Tell whether only plain loops over work-items are right, although some wait for others.

    Work-items would repeat what is outside of these loops, and writes shared memory. Where they
    wait, each loop is complete before another one reads what it writes, and reads nothing of that.
    """
    try:
        if not any(_leaves_axes_unused(on_axes, insns) for insns, _ in launches):
            return False
        loops = PreparedKernel(_with_sums(infer_address_spaces(kernel)))
        schedule_kernel(loops, sequential_axes=not kernel.target.has_hardware_axes)
    except KgenError:
        return False
    waiting = [insns for insns, waits in launches if waits]
    return not any(_reads_own(on_axes, name, insns) for name in items for insns in waiting)


def _leaves_axes_unused(kernel: LoopKernel, insns: tuple[str, ...]) -> bool:
    """Tell whether a launch writes shared memory without an axis that it has."""
    try:
        check_axes(kernel, insns)
    except ScheduleError:
        return True
    return False


def _reads_own(kernel: LoopKernel, iname: str, insns: tuple[str, ...]) -> bool:
    """Tell whether a launch reads, or overwrites, in a loop what the loop writes for all."""
    inside = kernel.iname_to_insns()[iname].intersection(insns)
    private = {
        name
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space == AddressSpace.PRIVATE
    }
    return any(
        inside.intersection(kernel.readers.get(name, ())) or len(inside.intersection(writers)) > 1
        for name, writers in kernel.writers.items()
        if name not in private and inside.intersection(writers)
    )


def _can_be_nested(kernel: LoopKernel) -> bool:
    """Tell whether the loops on axes can be plain loops."""
    try:
        loops = items_as_loops(PreparedKernel(_with_sums(kernel)))
        order_kernel(loops, sequential_axes=not kernel.target.has_hardware_axes)
    except ScheduleError:
        return False
    return True


def _with_sums(kernel: LoopKernel) -> LoopKernel:
    """Add instructions for reductions in loops that other instructions have, which they share."""
    loops = frozenset[str]().union(*(insn.within_inames for insn in kernel.instructions))
    make_id = kernel.get_instruction_id_generator()
    instructions: list[InstructionBase] = []
    for insn in kernel.instructions:
        shared = loops & insn.reduction_inames()
        if shared:
            update = insn.copy(
                id=make_id(f"{insn.id}_sum"), within_inames=insn.within_inames | shared
            )
            instructions.append(update)
        more = {str(insn.id) for insn in instructions[-1:] if shared}
        instructions.append(insn.copy(depends_on=insn.depends_on | more))
    return kernel.copy(instructions=instructions)


def _keeps_values(kernel: LoopKernel, items: frozenset[str]) -> bool:
    """Tell whether private values set in a loop over work-items are used outside of it."""
    temporaries = {
        name: temporary
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space == AddressSpace.PRIVATE
    }
    for name, users in users_of(kernel, temporaries).items():
        writers = [kernel.id_to_insn[insn_id] for insn_id in kernel.writers.get(name, ())]
        around = frozenset[str]().union(*(insn.within_inames & items for insn in writers))
        if not all(around <= insn.within_inames for insn in users):
            return True
    return False


def _passes_on(kernel: LoopKernel, iname: str, groups: frozenset[str]) -> bool:
    """Tell whether values set in a loop over groups get into another loop on the same axis.

    Each group has its own: in plain loops, the other loop would find those of the last group.
    """
    tags = kernel.iname_tags_of_type(iname, GroupInameTag)
    others = {
        name for name in groups - {iname} if kernel.iname_tags_of_type(name, GroupInameTag) == tags
    }
    if not others:
        return False
    own = {
        name: temporary
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space != AddressSpace.GLOBAL
    }
    users = users_of(kernel, own)
    reached = [insn for insn in kernel.instructions if iname in insn.within_inames]
    seen: set[str] = set()
    while reached:
        names = own.keys() & frozenset(reached.pop().assignee_var_names()) - seen
        seen |= names
        outside = [i for name in names for i in users.get(name, ()) if iname not in i.within_inames]
        if any(others & insn.within_inames for insn in outside):
            return True
        reached += outside
    return False


def _shares_memory(kernel: LoopKernel) -> bool:
    return any(
        isinstance(insn, BarrierInstruction) and insn.synchronization_kind == "local"
        for insn in kernel.instructions
    ) or any(
        temporary.address_space == AddressSpace.LOCAL
        for temporary in kernel.temporary_variables.values()
    )
