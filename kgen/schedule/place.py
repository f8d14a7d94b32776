"""Launches and hardware axes: where group and work-item indices become known."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from kgen.analysis.axes import has_item_loops
from kgen.analysis.instances import hint_for_axis
from kgen.errors import ScheduleError
from kgen.ir.expr import Expr, GroupHardwareAxisIndex, LocalHardwareAxisIndex
from kgen.ir.fields import replace
from kgen.ir.grid import at_axis
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import (
    HARDWARE_AXES,
    AutoFitLocalInameTag,
    AxisTag,
    GroupInameTag,
    LocalInameTag,
)
from kgen.ir.tree import Barrier, has_barrier
from kgen.ir.types import AddressSpace
from kgen.schedule.copies import check_copies
from kgen.schedule.host import on_device
from kgen.schedule.lanes import has_lanes, join_lanes
from kgen.schedule.look_back import check_look_backs
from kgen.schedule.order import GlobalBarrier, Item, LaunchLoop, order_kernel
from kgen.schedule.races import check_copies_independent
from kgen.schedule.storage import check_storage
from kgen.schedule.sync import insert_barriers
from kgen.schedule.threads import items_as_loops
from kgen.schedule.tree import (
    Bind,
    HostLoop,
    Launch,
    Loop,
    Node,
    Run,
    Schedule,
    Sequence,
    Step,
    insn_ids,
    sequence,
)


def schedule_kernel(kernel: PreparedKernel, *, sequential_axes: bool = False) -> Schedule:
    """Make the schedule of a typed kernel without reductions.

    Groups become known at the root of each launch, work-items below every barrier.
    *sequential_axes*: the target has no hardware axes, and tagged loops are plain loops. If it has
    work-groups without work-items, only work-item loops are plain loops.

    Raises :class:`ScheduleError`.
    """
    sequential_items = has_item_loops(kernel)
    if not sequential_items:
        _check_tags(kernel)
    ends_axes = sequential_items and _has_barrier_on_axes(kernel)
    loops = kernel if sequential_axes else items_as_loops(kernel)
    items = order_kernel(
        kernel if ends_axes else loops, sequential_axes=sequential_axes and not ends_axes
    )
    cut = Schedule(tuple(_steps(items, kernel.name, itertools.count())))
    device = on_device(loops, cut.host_inames)
    check_storage(device, cut.launches)
    check_copies(kernel)
    check_look_backs(kernel, cut.launches)
    for launch in cut.launches:
        check_copies_independent(device, insn_ids(launch.body))
    if ends_axes:
        cut = cut.map_launches(lambda launch: _ordered(device, launch, sequential_axes))
    if has_lanes(device):
        cut = cut.map_launches(lambda launch: replace(launch, body=join_lanes(device, launch.body)))
    if sequential_axes:
        return cut
    return cut.map_launches(lambda launch: _with_axes(device, launch))


def launches_of(kernel: LoopKernel) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the instructions of each launch, and whether work-items wait for each other in it.

    The kernel is typed, and may have reductions. Raises the errors of :func:`schedule_kernel` for
    conflicts between work-groups, and :class:`ScheduleError` for a sum over a loop with a global
    barrier inside, which no code has until sums are realized.
    """
    items = order_kernel(PreparedKernel(kernel), sequential_axes=False)
    cut = Schedule(tuple(_steps(items, kernel.name, itertools.count())))
    for insn in kernel.instructions:
        for name in sorted(insn.reduction_inames() & cut.host_inames):
            raise ScheduleError(
                f"'{insn.id}' reduces over loop '{name}', which has a global barrier inside",
                kernel=kernel.name,
                hint="realize_reduction(kernel)",
            )
    device = on_device(PreparedKernel(kernel), cut.host_inames)
    for launch in cut.launches:
        yield insn_ids(launch.body), has_barrier(insert_barriers(device, launch.body)[0])


def _steps(items: Iterable[Item], name: str, numbers: Iterator[int]) -> Iterator[Step]:
    """Split a body at its global barriers, and around loops that contain some."""
    barriers: list[str] = []
    part: list[Node] = []
    for item in (*items, None):
        if item is not None and not isinstance(item, GlobalBarrier | LaunchLoop):
            part.append(item)
            continue
        if part:
            number = next(numbers)
            yield Launch(
                f"{name}_{number - 1}" if number else name, sequence(tuple(part)), tuple(barriers)
            )
            barriers, part = [], []
        if isinstance(item, GlobalBarrier):
            barriers.append(item.insn_id)
        elif isinstance(item, LaunchLoop):
            inner = tuple(_steps(item.children, name, numbers))
            if inner:
                yield HostLoop(item.iname, inner)


def _with_axes(kernel: PreparedKernel, launch: Launch) -> Launch:
    """Insert barriers into a launch, and bind its hardware axes."""
    ids = insn_ids(launch.body)
    check_axes(kernel, ids)
    body, has_no_races = insert_barriers(kernel, launch.body)
    bound = _bind(kernel, GroupInameTag, _place(kernel, body), ids)
    is_serial = kernel.target.loops_over_items and not has_no_races
    return Launch(launch.name, bound, launch.barriers, is_serial)


def _ordered(kernel: PreparedKernel, launch: Launch, sequential_axes: bool) -> Launch:
    """Order a launch again, with work-items as loops, which end with the launch."""
    ids = frozenset(insn_ids(launch.body))
    only = [
        insn.copy(depends_on=insn.depends_on & ids)
        for insn in kernel.instructions
        if insn.id in ids
    ]
    part = PreparedKernel(kernel.copy(instructions=only))
    items = order_kernel(part, sequential_axes=sequential_axes)
    (ordered,) = _steps(items, launch.name, itertools.count())
    assert isinstance(ordered, Launch)
    return Launch(launch.name, ordered.body, launch.barriers)


def _has_barrier_on_axes(kernel: PreparedKernel) -> bool:
    has_barrier = any(insn.is_global_barrier for insn in kernel.instructions)
    return has_barrier and any(kernel.has_tag(n, HARDWARE_AXES) for n in kernel.inames)


def _place(kernel: PreparedKernel, node: Node) -> Node:
    """Bind the work-item indices around maximal parts without a barrier."""
    if not has_barrier(node):
        return _bind(kernel, LocalInameTag, node, insn_ids(node))
    match node:
        case Loop():
            return replace(node, body=_place(kernel, node.body))
        case Sequence():
            children: list[Node] = []
            free: list[Node] = []
            for child in node.children:
                if not has_barrier(child):
                    free.append(child)
                    continue
                if free:
                    children.append(_place(kernel, sequence(tuple(free))))
                    free = []
                children.append(_place(kernel, child))
            if free:
                children.append(_place(kernel, sequence(tuple(free))))
            return Sequence(tuple(children))
        case Barrier() | Run() | Bind():
            return node


def _bind(
    kernel: PreparedKernel,
    kind: type[GroupInameTag] | type[LocalInameTag],
    body: Node,
    insns: Iterable[str],
) -> Node:
    index = GroupHardwareAxisIndex if kind is GroupInameTag else LocalHardwareAxisIndex
    axes: dict[str, Expr] = {}
    for insn_id in insns:
        for iname in kernel.id_to_insn[insn_id].within_inames:
            for tag in kernel.iname_tags_of_type(iname, kind):
                axes[iname] = at_axis(kernel.axes[iname], index(tag.axis))
    if not axes:
        return body
    ordered = kernel.in_order(axes)
    return Bind(tuple((iname, axes[iname]) for iname in ordered), body)


# -- checks ------------------------------------------------------------------------------


def _check_tags(kernel: PreparedKernel) -> None:
    for iname in sorted(kernel.inames):
        if kernel.has_tag(iname, AutoFitLocalInameTag):
            raise ScheduleError(
                f"iname '{iname}' is tagged 'l.auto', but no axis was chosen for it",
                kernel=kernel.name,
                hint=f"tag_inames(kernel, '{iname}:l.0')",
            )


def check_axes(kernel: LoopKernel, insns: tuple[str, ...]) -> None:
    """Reject writes to shared memory by instructions that leave a hardware axis unused.

    These are the axes of one launch, which runs *insns*.
    """
    tag_of = {iname: axis.tag for iname, axis in kernel.axes_around(insns).items()}
    used_groups = {tag.axis for tag in tag_of.values() if isinstance(tag, GroupInameTag)}
    used_locals = {tag.axis for tag in tag_of.values() if isinstance(tag, LocalInameTag)}
    if not tag_of:
        return
    for insn in map(kernel.id_to_insn.__getitem__, insns):
        mine = axes_of_instruction(kernel, insn, tag_of)
        if insn.id in {name for name, _ in insn.no_sync_with}:
            continue  # stated to need no order with itself
        spaces = {_space(kernel, name) for name in insn.assignee_var_names()}
        missing = [
            f"g.{axis}"
            for axis in sorted(used_groups - {t.axis for t in mine if isinstance(t, GroupInameTag)})
            if AddressSpace.GLOBAL in spaces
        ] + [
            f"l.{axis}"
            for axis in sorted(used_locals - {t.axis for t in mine if isinstance(t, LocalInameTag)})
            if AddressSpace.GLOBAL in spaces or AddressSpace.LOCAL in spaces
        ]
        if missing:
            inames = [name for name, tag in sorted(tag_of.items()) if str(tag) in missing]
            raise ScheduleError(
                f"instruction '{insn.id}' writes '{insn.assignee_var_names()[0]}' without "
                f"using hardware axes {', '.join(missing)}",
                where=str(insn.span or insn),
                because="every work-item along those axes would write the same elements",
                hint=hint_for_axis(kernel, insn, inames),
            )


def axes_of_instruction(
    kernel: LoopKernel, insn: InstructionBase, tag_of: Mapping[str, AxisTag]
) -> dict[AxisTag, str]:
    """Return the hardware axes that an instruction uses, and the iname on each.

    Raises :class:`ScheduleError` for two inames on one axis.
    """
    mine: dict[AxisTag, str] = {}
    for iname in sorted(insn.within_inames & tag_of.keys()):
        other = mine.setdefault(tag_of[iname], iname)
        if other != iname:
            raise ScheduleError(
                f"inames '{other}' and '{iname}' of instruction '{insn.id}' are both on the "
                f"hardware axis '{tag_of[iname]}'",
                kernel=kernel.name,
                where=str(insn.span or insn),
                hint="move one of them to another axis, or the instruction out of its loop: "
                f"tag_inames(kernel, '{iname}:unused.{str(tag_of[iname])[0]}', force=True)",
            )
    return mine


def _space(kernel: LoopKernel, name: str) -> AddressSpace:
    array = kernel.array_vars.get(name)
    space = getattr(array, "address_space", AddressSpace.PRIVATE)
    return space if isinstance(space, AddressSpace) else AddressSpace.PRIVATE
