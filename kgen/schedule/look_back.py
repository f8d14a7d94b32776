"""Work-groups that look back: checks that each waits only for groups with smaller numbers.

Groups are numbered in starting order, so all groups that a group waits for have started, and
make progress; the one with the smallest number waits for none. If each publishes what others wait
for before it waits itself, all groups terminate, in whatever order the device runs them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgen.analysis.access import Access
from kgen.analysis.instances import axis_name, relate_sides
from kgen.analysis.points import describe_pair, example
from kgen.errors import ScheduleError
from kgen.ir.instruction import InstructionBase
from kgen.ir.sets.dims import Set, param_names, project_out_params
from kgen.ir.sets.names import Side
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import GroupInameTag, LookBackTag, PublishTag
from kgen.ir.types import AddressSpace
from kgen.schedule.conflicts import Conflicts
from kgen.schedule.tree import Launch
from kgen.schedule.visits import Visit, visits_of

__all__ = ["check_look_backs"]

_HINT = "transform the kernel before realize_reduction(..., force_scan=True)"


def check_look_backs(kernel: PreparedKernel, launches: tuple[Launch, ...]) -> None:
    """Reject look-backs in which a group may deadlock, or not wait for the elements it reads.

    Raises :class:`ScheduleError`.
    """
    waiting = [insn for insn in kernel.instructions if insn.tags_of_type(LookBackTag)]
    publishing = [insn for insn in kernel.instructions if insn.tags_of_type(PublishTag)]
    for insn in (*waiting, *publishing):
        if not kernel.target.looks_back:
            raise _error(
                kernel,
                insn,
                "looks back at other work-groups",
                f"on {type(kernel.target).__name__}, groups cannot wait for each other",
                "give the kernel its target before realize_reduction",
            )
    for launch in launches if waiting else ():
        check = _Check(kernel, launch)
        for insn in waiting:
            if insn.id in check.visits:
                check.look_back(insn)


def _error(
    kernel: PreparedKernel, insn: InstructionBase, what: str, because: str, hint: str = _HINT
) -> ScheduleError:
    return ScheduleError(
        f"'{insn.id}' {what}",
        kernel=kernel.name,
        where=f"instruction '{insn}'",
        because=because,
        hint=hint,
    )


class _Check:
    """Checks the look-backs of a launch."""

    def __init__(self, kernel: PreparedKernel, launch: Launch) -> None:
        self.kernel = kernel
        self.visits: dict[str, Visit] = {}
        for visit in visits_of((launch.body,)):
            self.visits.setdefault(visit.insn_id, visit)
        self.conflicts = Conflicts(kernel)

    def look_back(self, insn: InstructionBase) -> None:
        """Check an instruction of a look-back: its reads from other groups, and their order."""
        if insn.predicates and self._reads(insn):
            raise _error(self.kernel, insn, "waits under a condition", "not all work-items wait")
        for access in self._reads(insn):
            publishers = [*self._publishers(insn, access)]
            if not publishers:
                because = f"nothing publishes '{access.array}' in the same launch"
                raise _error(self.kernel, insn, f"waits for '{access}'", because)
            for publisher, published in publishers:
                self._check_order(insn, publisher)
                self._check_groups(insn, access, published)
            self._check_published(insn, access, [published for _, published in publishers])

    def _reads(self, insn: InstructionBase) -> list[Access]:
        return [
            access
            for access in self.conflicts.accesses.get(str(insn.id), ())
            if not access.is_write
            and self.kernel.array_vars[access.array].address_space == AddressSpace.GLOBAL
        ]

    def _publishers(
        self, insn: InstructionBase, access: Access
    ) -> Iterator[tuple[InstructionBase, Access]]:
        """Yield the publishers of elements that others wait for; reject other writers."""
        for name in self.kernel.writers.get(access.array, ()):
            writer = self.kernel.id_to_insn[name]
            tags = writer.tags_of_type(PublishTag)
            if not tags:
                because = f"'{name}' writes '{access.array}' and does not publish it"
                raise _error(self.kernel, insn, f"waits for '{access}'", because)
            if name in self.visits and any(tag.is_total for tag in tags):
                for written in self.conflicts.accesses.get(name, ()):
                    if written.is_write and written.array == access.array:
                        yield writer, written

    def _check_order(self, insn: InstructionBase, publisher: InstructionBase) -> None:
        """Reject waiting before publishing, and publishing twice or not at all."""
        mine, theirs = self.visits[str(insn.id)], self.visits[str(publisher.id)]
        if theirs.position > mine.position:
            because = f"its group publishes by '{publisher.id}' only later: all of them wait"
            raise _error(self.kernel, insn, "waits for other work-groups", because)
        if publisher.predicates:
            because = f"'{publisher.id}' publishes under a condition"
            raise _error(self.kernel, insn, "waits for other work-groups", because)
        if theirs.loops:
            because = f"'{publisher.id}' publishes in the loop '{theirs.loops[-1][1]}', repeatedly"
            raise _error(self.kernel, insn, "waits for other work-groups", because)

    def _check_groups(self, insn: InstructionBase, access: Access, published: Access) -> None:
        """Reject waiting for a group whose number is not smaller."""
        both = self._of(published, Side.FIRST).intersect(self._of(access, Side.SECOND))
        axes = {a.tag for a in self.kernel.axes.values() if isinstance(a.tag, GroupInameTag)}
        for tag in sorted(axes, key=lambda tag: -tag.axis):
            self._reject_waiting(insn, relate_sides(both, axis_name(tag), "gt_set"))
            both = relate_sides(both, axis_name(tag), "eq_set")
        self._reject_waiting(insn, both)

    def _reject_waiting(self, insn: InstructionBase, bad: Set) -> None:
        if not bad.is_empty():
            because = f"it waits for a group that begins later: {describe_pair(example(bad))}"
            raise _error(self.kernel, insn, "waits for other work-groups", because)

    def _check_published(
        self, insn: InstructionBase, access: Access, published: list[Access]
    ) -> None:
        """Reject waiting for elements that no group publishes."""
        wanted = self._elements(self._of(access, Side.FIRST))
        for each in published:
            wanted = wanted.subtract(self._elements(self._of(each, Side.FIRST)))
        if not wanted.is_empty():
            because = f"no group publishes what it reads: {describe_pair(example(wanted))}"
            raise _error(self.kernel, insn, f"waits for '{access}'", because)

    def _of(self, access: Access, side: Side) -> Set:
        return self.conflicts.accessed(access, side)

    def _elements(self, named: Set) -> Set:
        """Return only the elements, whatever group accesses them."""
        axes = [n for n in param_names(named) if n.endswith(Side.FIRST)]
        return project_out_params(named, axes)
