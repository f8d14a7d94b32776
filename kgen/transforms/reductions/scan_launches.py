"""Launches of scans across work-groups, and the loops in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from kgen.ir.construction.dependencies import ancestors
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LocalInameTagBase
from kgen.transforms.launches import Dependencies, Order, begin_with_loops, depending
from kgen.transforms.loops.rename import duplicate_inames
from kgen.transforms.reductions.builder import GroupScan

__all__ = ["arrange_launches", "keep_parallel"]


def arrange_launches(kernel: LoopKernel, scans: Sequence[GroupScan]) -> LoopKernel:
    """Let scans share launches, and begin in the launch of the loop that stores their results.

    Private values do not outlive a launch.
    """
    return begin_with_loops(_share_launches(kernel, scans)) if scans else kernel


def keep_parallel(before: LoopKernel, after: LoopKernel) -> LoopKernel:
    """Keep loops over work-items in launches that precede their scan, which runs in order.

    On targets without work-items, a scan along such a loop takes its tag. If the loop was also in
    earlier launches of another scan, it would be around global barriers.
    """
    tags = {
        name: tag
        for name in before.iname_order
        for tag in before.iname_tags_of_type(name, LocalInameTagBase)
        if not after.has_tag(name, LocalInameTagBase)
    }
    barriers = [insn for insn in after.instructions if tags and insn.is_global_barrier]
    for barrier in barriers:
        earlier = ancestors(after, barrier)
        loops = [name for name in tags if _is_around(after, name, str(barrier.id), earlier)]
        if loops:
            within = " or ".join(f"id:{name}" for name in sorted(earlier))
            after = duplicate_inames(after, loops, within, tags={n: tags[n] for n in loops})
    return after


def _is_around(kernel: LoopKernel, loop: str, barrier: str, earlier: Set[str]) -> bool:
    """Tell whether a loop has instructions before and after a barrier outside it."""
    inside = kernel.iname_to_insns()[loop]
    return (
        barrier not in inside
        and not inside.isdisjoint(earlier)
        and any(barrier in ancestors(kernel, kernel.id_to_insn[name]) for name in inside)
    )


def _share_launches(kernel: LoopKernel, scans: Sequence[GroupScan]) -> LoopKernel:
    """End the launches of scans together, unless one of them needs the result of another scan."""
    renamed: dict[str, str] = {}
    dependencies = _merged(kernel, renamed)
    alone: list[GroupScan] = []
    for scan in scans:
        loops = kernel.id_to_insn[scan.barriers[0]].within_inames
        for first in alone:
            if kernel.id_to_insn[first.barriers[0]].within_inames != loops:
                continue
            together = renamed | dict(zip(scan.barriers, first.barriers, strict=True))
            order = Order(kernel, loops, _merged(kernel, together))
            if not any(map(order.is_in_cycle, first.barriers)):
                renamed, dependencies = together, order.dependencies
                break
        else:
            alone.append(scan)
    kept = (insn for insn in kernel.instructions if insn.id not in renamed)
    return kernel.copy(instructions=[depending(insn, dependencies) for insn in kept])


def _merged(kernel: LoopKernel, renamed: Mapping[str, str]) -> Dependencies:
    """Return the dependencies if some instructions become others."""
    found: dict[str, set[str]] = {}
    for insn in kernel.instructions:
        name = renamed.get(str(insn.id), str(insn.id))
        found.setdefault(name, set()).update(renamed.get(n, n) for n in insn.depends_on)
    return found
