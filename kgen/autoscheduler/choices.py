"""Families of schedules: parameters, their values, and the steps of each configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.steps import Step, step
from kgen.transforms.storage.declarations import set_launch_bounds

__all__ = [
    "GROUPS",
    "Choices",
    "Configuration",
    "Values",
    "fitting",
    "launch_bounds",
    "most_items",
    "next_power",
    "powers",
]

Values: TypeAlias = tuple[Any, ...]
Configuration: TypeAlias = Mapping[str, Any]

#: The numbers of work-groups that a multiprocessor should hold at once; 0 leaves that to the
#: compiler. Even 1 changes how ptxas allocates registers.
GROUPS: Final[Values] = (0, 1, 2)


@dataclass(frozen=True)
class Choices:
    """Schedules of one nest: the values of parameters, restrictions, and the steps of each.

    ``first`` are the values around which single changes are proved right, unless all *are_right*
    that satisfy the restrictions.
    """

    params: Mapping[str, Values]
    restrictions: tuple[str, ...]
    steps: Callable[[Configuration], Sequence[Step]]
    first: Configuration
    are_right: bool = False

    def without(self, dropped: Mapping[str, Values]) -> Choices:
        """Return this with fewer values of some parameters."""
        params = {
            name: tuple(v for v in values if v not in dropped.get(name, ()))
            for name, values in self.params.items()
        }
        return Choices(params, self.restrictions, self.steps, self.first)


def powers(first: int, last: int) -> Values:
    """Return the powers of two from one to another.

    >>> powers(2, 16)
    (2, 4, 8, 16)
    """
    return tuple(1 << k for k in range(first.bit_length() - 1, last.bit_length()))


def next_power(number: int) -> int:
    """Return the least power of two that is not less than a number.

    >>> next_power(5)
    8
    """
    return 1 << max(0, number - 1).bit_length()


def fitting(nest: Nest, iname: str, values: Values) -> Values:
    """Replace the values that exceed the trip count of a loop by the trip count."""
    trips = nest.trips(iname)
    kept = tuple(v for v in values if trips is None or v <= trips)
    if trips is None or trips in kept or trips > values[-1]:
        return kept
    return (*kept, trips)


def launch_bounds(config: Configuration) -> list[Step]:
    """Return the step for the parameter ``groups``, one of :data:`GROUPS`, if it is chosen."""
    groups = config.get("groups", 0)
    return [step(set_launch_bounds, min_groups=groups)] if groups else []


def most_items(machine: Machine) -> int:
    """Return the maximum number of work-items of a group."""
    return 1024 if machine.limits is None else machine.limits.work_items
