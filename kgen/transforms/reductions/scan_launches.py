"""Launches of scans across work-groups: which scans share them, and where values are set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from kgen.ir.closure import closure
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AxisTag, LocalInameTagBase
from kgen.ir.types import AddressSpace
from kgen.transforms.loops.rename import duplicate_inames
from kgen.transforms.reductions.builder import GroupScan

__all__ = ["arrange_launches", "keep_parallel"]

#: The dependencies of each instruction, by id.
Dependencies = Mapping[str, Set[str]]


def arrange_launches(kernel: LoopKernel, scans: Sequence[GroupScan]) -> LoopKernel:
    """Let scans share launches, and begin in the launch of the loop that stores their results.

    Private values do not outlive a launch.
    """
    return _begin_with_loops(_share_launches(kernel, scans)) if scans else kernel


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
            order = _Order(kernel, loops, _merged(kernel, together))
            if not any(map(order.is_in_cycle, first.barriers)):
                renamed, dependencies = together, order.dependencies
                break
        else:
            alone.append(scan)
    kept = (insn for insn in kernel.instructions if insn.id not in renamed)
    return kernel.copy(instructions=[_depending(insn, dependencies) for insn in kept])


def _merged(kernel: LoopKernel, renamed: Mapping[str, str]) -> Dependencies:
    """Return the dependencies if some instructions become others."""
    found: dict[str, set[str]] = {}
    for insn in kernel.instructions:
        name = renamed.get(str(insn.id), str(insn.id))
        found.setdefault(name, set()).update(renamed.get(n, n) for n in insn.depends_on)
    return found


def _begin_with_loops(kernel: LoopKernel) -> LoopKernel:
    """Set what a loop reads after all barriers for which the loop waits."""
    dependencies = {str(insn.id): set(insn.depends_on) for insn in kernel.instructions}
    for barrier in kernel.instructions:
        if barrier.is_global_barrier:
            order = _Order(kernel, barrier.within_inames, dependencies)
            for name in _set_too_early(kernel, order, str(barrier.id)):
                dependencies[name].add(str(barrier.id))
    return kernel.copy(instructions=[_depending(i, dependencies) for i in kernel.instructions])


def _set_too_early(kernel: LoopKernel, order: _Order, barrier: str) -> list[str]:
    """Return what sets values before a barrier that a loop, which reads them, waits for."""
    of_launch = {
        name
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space in (AddressSpace.PRIVATE, AddressSpace.LOCAL)
    }
    waiting = [
        writer
        for name in sorted(of_launch)
        for reader in kernel.readers.get(name, ())
        for writer in kernel.writers.get(name, ())
        if order.loops_of(reader) - order.loops_of(writer) and barrier in order.before(reader)
    ]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop()
        is_late = barrier in order.before(name) or name in order.before(barrier)
        if name not in found and not is_late:
            found[name] = None
            read = kernel.id_to_insn[name].read_dependency_names() & of_launch
            waiting += (writer for each in sorted(read) for writer in kernel.writers.get(each, ()))
    return list(found)


def _depending(insn: InstructionBase, dependencies: Dependencies) -> InstructionBase:
    needed = frozenset(dependencies[str(insn.id)])
    return insn if needed == insn.depends_on else insn.copy(depends_on=needed)


class _Order:
    """The order of instructions inside some loops: what waits for a loop waits for all of it."""

    def __init__(
        self, kernel: LoopKernel, around: frozenset[str], dependencies: Dependencies
    ) -> None:
        self.kernel, self.dependencies = kernel, dependencies
        self._inside = {
            name: insns
            for name, insns in kernel.iname_to_insns().items()
            if name not in around and not kernel.has_tag(name, AxisTag)
        }
        self._before: dict[str, Set[str]] = {}

    def loops_of(self, name: str) -> frozenset[str]:
        """Return the plain loops around an instruction."""
        return self.kernel.id_to_insn[name].within_inames & self._inside.keys()

    def before(self, name: str) -> Set[str]:
        """Return what must precede an instruction, or the loop that it is in; with that loop."""
        if name not in self._before:
            self._before[name] = closure([name], self._needed).keys()
        return self._before[name]

    def is_in_cycle(self, name: str) -> bool:
        """Tell whether an instruction waits for itself."""
        return name in closure(self.dependencies[name], self._needed)

    def _needed(self, name: str) -> Iterator[str]:
        yield from self.dependencies[name]
        for loop in self.loops_of(name):
            yield from self._inside[loop]
