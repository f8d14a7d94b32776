"""Linearization: the order of launches, loops, instructions and barriers on a target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any

from kgen.analysis.axes import has_axes
from kgen.errors import CodegenError, KernelError, ScheduleError
from kgen.ir.checked import checked
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.kernel import LoopKernel
from kgen.ir.linearization import (
    Barrier,
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    RunInstruction,
    ScheduleItem,
)
from kgen.ir.tree import Barrier as BarrierNode
from kgen.ir.tree import children_of
from kgen.ir.types import Reach
from kgen.ir.unit import CallableKernel, TranslationUnit
from kgen.lowering import prepare, schedule_prepared
from kgen.schedule.tree import HostLoop, Loop, Node, Run, Step
from kgen.targets.base import Target
from kgen.transforms.programs.inline import inline_all_calls

__all__ = [
    "find_most_recent_global_barrier",
    "get_global_barrier_order",
    "get_one_linearized_kernel",
    "get_subkernel_to_insn_id_map",
    "get_subkernels",
    "has_hardware_axes",
    "linearize",
]


@checked
def linearize(t_unit: TranslationUnit) -> TranslationUnit:
    """Linearize the entry points of a program; see :func:`get_one_linearized_kernel`.

    Calls inline functions, so these have no order. In a program without entry points, they do.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<n }", [
    ...     "t[i] = 2*a[i] {id=first}",
    ...     "... gbarrier {id=wait, dep=first}",
    ...     "out[j] = t[n-1-j] {id=second, dep=wait}",
    ... ], [lp.GlobalArg("a", "float32"), ...])
    >>> linearize(unit)["kgen_kernel"].linearization is not None
    True
    """
    table = t_unit.callables_table
    chosen = t_unit.entrypoints or table.keys()
    return t_unit.map_kernels(
        lambda kernel: get_one_linearized_kernel(kernel, table) if kernel.name in chosen else kernel
    )


@checked
def get_one_linearized_kernel(
    kernel: LoopKernel, callables_table: Mapping[str, Any] | None = None
) -> LoopKernel:
    """Prepare and linearize a kernel; printing the result shows the order.

    The order is deterministic. Only this kernel has it: transformations
    discard it, until this is called again.

    :arg callables_table: the kernels that it may call, ``program.callables_table``, which
        are inlined

    Raises :class:`ScheduleError`, or a subclass, if there is no order.

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]", [GlobalArg("a", np.float32), ...])
    >>> knl = get_one_linearized_kernel(knl.default_entrypoint)
    >>> print(knl.stringify("LINEARIZATION"))  # doctest: +ELLIPSIS
    ---...
    LINEARIZATION:
       0: CALL KERNEL kgen_kernel
       1:     for i
       2:       b[i] = 2*a[i]  {id=insn}
       3:     end i
       4: RETURN FROM KERNEL kgen_kernel
    ---...
    """
    table = {**(callables_table or {}), kernel.name: CallableKernel(kernel)}
    unit = TranslationUnit(
        callables_table=table, entrypoints=frozenset({kernel.name}), target=kernel.target
    )
    kernel = prepare(inline_all_calls(unit, kernel.name))
    kernel, schedule = schedule_prepared(kernel, has_axes=has_hardware_axes(kernel))
    return kernel.copy(linearization=tuple(_items(schedule.steps)))


def has_hardware_axes(kernel: LoopKernel) -> bool:
    """Tell whether the kernel's target has work-groups and work-items; reject other targets."""
    if not isinstance(kernel.target, Target):
        raise CodegenError(f"{type(kernel.target).__name__} does not generate code")
    return has_axes(kernel)


def _items(steps: Iterable[Step]) -> Iterator[ScheduleItem]:
    for step in steps:
        if isinstance(step, HostLoop):
            yield EnterLoop(step.iname)
            yield from _items(step.steps)
            yield LeaveLoop(step.iname)
            continue
        for insn_id in step.barriers:
            yield Barrier("", "global", "global", insn_id)
        yield CallKernel(step.name)
        yield from _items_of(step.body)
        yield ReturnFromKernel(step.name)


def _items_of(node: Node) -> Iterator[ScheduleItem]:
    match node:
        case Run():
            yield from map(RunInstruction, node.insn_ids)
        case Loop():
            yield EnterLoop(node.iname)
            yield from _items_of(node.body)
            yield LeaveLoop(node.iname)
        case BarrierNode():
            kind = "warp" if node.reach is Reach.WARP else "local"
            yield Barrier(node.reason, kind, str(node.memory), node.insn_id)
        case _:
            yield from chain.from_iterable(map(_items_of, children_of(node)))


# -- questions ---------------------------------------------------------------------------------


@checked
def get_subkernels(kernel: LoopKernel) -> tuple[str, ...]:
    """Return the names of the launches of a linearized kernel, in order.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<n }", [
    ...     "t[i] = 2*a[i] {id=first}",
    ...     "... gbarrier {id=wait, dep=first}",
    ...     "out[j] = t[n-1-j] {id=second, dep=wait}",
    ... ], [lp.GlobalArg("a", "float32"), ...])
    >>> get_subkernels(linearize(unit)["kgen_kernel"])
    ('kgen_kernel', 'kgen_kernel_0')
    """
    return tuple(
        item.kernel_name for item in _linearization(kernel) if isinstance(item, CallKernel)
    )


@checked
def get_subkernel_to_insn_id_map(kernel: LoopKernel) -> dict[str, frozenset[str]]:
    """Return the instructions that each launch of a linearized kernel runs.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<n }", [
    ...     "t[i] = 2*a[i] {id=first}",
    ...     "... gbarrier {id=wait, dep=first}",
    ...     "out[j] = t[n-1-j] {id=second, dep=wait}",
    ... ], [lp.GlobalArg("a", "float32"), ...])
    >>> get_subkernel_to_insn_id_map(linearize(unit)["kgen_kernel"])["kgen_kernel_0"]
    frozenset({'second'})
    """
    found: dict[str, frozenset[str]] = {}
    launch = ""
    for item in _linearization(kernel):
        if isinstance(item, CallKernel):
            launch = item.kernel_name
            found[launch] = frozenset()
        elif isinstance(item, RunInstruction):
            found[launch] |= {item.insn_id}
    return found


def _linearization(kernel: LoopKernel) -> tuple[ScheduleItem, ...]:
    if kernel.linearization is None:
        raise KernelError(
            "the kernel has no order yet",
            kernel=kernel.name,
            hint="get_one_linearized_kernel(kernel, program.callables_table)",
        )
    return kernel.linearization


@checked
def get_global_barrier_order(kernel: LoopKernel) -> tuple[str, ...]:
    """Return the ids of the global barriers, in dependency order.

    Raises :class:`ScheduleError` for two barriers of which neither depends on the other.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<n }", [
    ...     "t[i] = 2*a[i] {id=first}",
    ...     "... gbarrier {id=wait, dep=first}",
    ...     "out[j] = t[n-1-j] {id=second, dep=wait}",
    ... ], [lp.GlobalArg("a", "float32"), ...])
    >>> get_global_barrier_order(unit["kgen_kernel"])
    ('wait',)
    """
    barriers = [str(insn.id) for insn in kernel.instructions if insn.is_global_barrier]
    before = {name: ancestors(kernel, kernel.id_to_insn[name]) for name in barriers}
    ordered = sorted(barriers, key=lambda name: sum(b in before[name] for b in barriers))
    for one, other in pairwise(ordered):
        if one not in before[other]:
            raise ScheduleError(
                f"global barriers '{one}' and '{other}' have no order",
                kernel=kernel.name,
                because="neither depends on the other",
                hint=f"add_dependency(kernel, 'id:{other}', 'id:{one}')",
            )
    return tuple(ordered)


@checked
def find_most_recent_global_barrier(kernel: LoopKernel, insn_id: str) -> str | None:
    """Return the last global barrier on which an instruction depends, if there is one.

    Raises :class:`ScheduleError` if the barriers have no order.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<n }", [
    ...     "t[i] = 2*a[i] {id=first}",
    ...     "... gbarrier {id=wait, dep=first}",
    ...     "out[j] = t[n-1-j] {id=second, dep=wait}",
    ... ], [lp.GlobalArg("a", "float32"), ...])
    >>> find_most_recent_global_barrier(unit["kgen_kernel"], "second")
    'wait'
    """
    if insn_id not in kernel.id_to_insn:
        raise KernelError(f"there is no instruction '{insn_id}'", kernel=kernel.name)
    before = ancestors(kernel, kernel.id_to_insn[insn_id])
    return next((b for b in reversed(get_global_barrier_order(kernel)) if b in before), None)
