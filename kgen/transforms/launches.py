"""Launches: setting values in the launch of the loop that reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set

from kgen.ir.closure import closure
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AxisTag
from kgen.ir.types import AddressSpace

__all__ = ["Dependencies", "Order", "begin_with_loops", "depending"]

#: The dependencies of each instruction, by id.
Dependencies = Mapping[str, Set[str]]


def begin_with_loops(kernel: LoopKernel, names: Collection[str] | None = None) -> LoopKernel:
    """Set what a loop reads after all barriers for which the loop waits.

    Private and local values do not outlive a launch. *names* are the arrays that loops read; by
    default all such temporaries.
    """
    if not any(insn.is_global_barrier for insn in kernel.instructions):
        return kernel
    of_launch = {
        name
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space in (AddressSpace.PRIVATE, AddressSpace.LOCAL)
    }
    dependencies = {str(insn.id): set(insn.depends_on) for insn in kernel.instructions}
    for barrier in kernel.instructions:
        if barrier.is_global_barrier:
            order = Order(kernel, barrier.within_inames, dependencies)
            early = _set_too_early(kernel, order, str(barrier.id), names or of_launch, of_launch)
            for name in early:
                dependencies[name].add(str(barrier.id))
    return kernel.copy(instructions=[depending(i, dependencies) for i in kernel.instructions])


def _set_too_early(
    kernel: LoopKernel, order: Order, barrier: str, names: Collection[str], of_launch: Set[str]
) -> list[str]:
    """Return what sets values before a barrier that a loop, which reads them, waits for."""
    waiting = [
        writer
        for name in sorted(names)
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


def depending(insn: InstructionBase, dependencies: Dependencies) -> InstructionBase:
    """Return an instruction with new dependencies."""
    needed = frozenset(dependencies[str(insn.id)])
    return insn if needed == insn.depends_on else insn.copy(depends_on=needed)


class Order:
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
