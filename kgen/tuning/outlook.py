"""Estimates of a kernel's time before it is compiled, to order and prune a space."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgen.ir.target import WARP_SIZE
from kgen.ir.types import AddressSpace
from kgen.performance.model import Work, find_work
from kgen.performance.occupancy import occupancy_of
from kgen.statistics.programs import prepared_kernel
from kgen.tuning.derived import bytes_of_arrays, number_of
from kgen.tuning.space import SearchSpace
from kgen.tuning.task import Task

__all__ = ["Outlook", "Outlooks"]

#: Registers of a work-item in addition to those of its arrays.
_REGISTERS = 32
#: The occupancy that is enough to hide latencies.
_ENOUGH = 0.25
#: The fraction of time added for each parameter that differs from the first configuration.
_STEP = 1.1


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The launch of a kernel, its memory, and the work of a call.

    ``items`` are the work-items of a group along each axis, ``groups`` the groups; ``local`` are
    bytes of a group, ``private`` those of a work-item.
    """

    items: tuple[int, ...] = ()
    groups: tuple[int | None, ...] = ()
    local: int = 0
    private: int = 0
    work: Work | None = None

    @property
    def parts(self) -> Mapping[str, object]:
        """The effects of a parameter: on the launch, on memory, on traffic and operations."""
        return {
            "launch": (self.items, self.groups),
            "memory": (self.local, self.private),
            "work": None if self.work is None else tuple(sorted(self.work.times_s.items())),
        }

    @property
    def expected_s(self) -> float:
        """A time to order configurations by: the roofline's, scaled by estimated slowdowns.

        These are lanes of warps without a work-item, and too few work-items to hide latencies.
        Without a roofline it has no unit.

        >>> Outlook(items=(256,)).expected_s, Outlook(items=(16,)).expected_s
        (1.0, 2.0)
        """
        least = 1.0 if self.work is None else self.work.expected_s
        if not self.items:
            return least
        items = math.prod(self.items)
        lanes = items / (math.ceil(items / WARP_SIZE) * WARP_SIZE)
        registers = _REGISTERS + math.ceil(self.private / 4)
        held = occupancy_of(registers, self.local, items).fraction
        return math.inf if held == 0 else least / (lanes * min(1.0, held / _ENOUGH))


class Outlooks:
    """The outlooks of a search space, each computed on demand from a configuration's kernel.

    :arg start: the row that configurations are compared with
    """

    def __init__(self, task: Task, space: SearchSpace, start: int = 0) -> None:
        self.task, self.space, self.start = task, space, start
        self.of = functools.cache(self._of)

    def _of(self, row: int) -> Outlook | None:
        """Return the outlook of a row; ``None`` if it has no kernel."""
        sizes, limits = self.task.problem.sizes, self.task.limits
        try:
            program = self.task.kernel(self.space[row])
            kernel = prepared_kernel(program)
            grid = kernel.grid if kernel.axes else None
            return Outlook(
                items=() if grid is None else tuple(grid.locals),
                groups=() if grid is None else tuple(number_of(n, sizes) for n in grid.groups),
                local=sum(bytes_of_arrays(kernel, AddressSpace.LOCAL).values()),
                private=sum(bytes_of_arrays(kernel, AddressSpace.PRIVATE).values()),
                work=None if limits is None else find_work(program, sizes, limits),
            )
        except Exception:  # a function of the user: it fails again, with its message, if measured
            return None

    def bound(self, row: int) -> float:
        """Return seconds that a row takes at least, by the roofline of its kernel."""
        found = self.of(row)
        return 0.0 if found is None or found.work is None else found.work.least_s

    def priority(self, row: int) -> float:
        """Return the priority of a row; rows with smaller numbers should be measured first.

        That is the expected time; each parameter that differs from the start counts as 10 %. Rows
        without a kernel come last.
        """
        found = self.of(row)
        places = self.space.indices
        steps = int((places[row] != places[self.start]).sum())
        return math.inf if found is None else found.expected_s * _STEP**steps

    def groups(self) -> list[Sequence[str]]:
        """Return groups of parameters, by the effect of changing each one alone at the start.

        Those that change the launch come first, then those that change the memory of a group or
        item, then the traffic and operations, then all others, and those that no restriction lets
        change alone. Parameters that change several of these are in the first group.
        """
        found: dict[str, list[str]] = {part: [] for part in (*Outlook().parts, "")}
        for name, values in self.space.tune_params.items():
            if len(values) > 1:
                found[self._part(name)].append(name)
        return [group for group in found.values() if group]

    def _part(self, name: str) -> str:
        """Return the first part of the outlook that a parameter changes; none for nothing."""
        base = (self.of(self.start) or Outlook()).parts
        others = [place for place, other in enumerate(self.space.names) if other != name]
        near, places = self.space.neighbors(self.start), self.space.indices
        is_alone = (places[near][:, others] == places[self.start, others]).all(axis=1)
        changed = (self.of(int(row)) for row in near[is_alone])
        known = next((one.parts for one in changed if one is not None), base)
        return next((part for part in base if known[part] != base[part]), "")
