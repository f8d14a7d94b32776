"""The instances of a kernel for given sizes, in the order of its schedule, with their accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict
from pymbolic.mapper.evaluator import EvaluationMapper, UnknownVariableError

from kgen.analysis.access import Access, collect_accesses, index_sources
from kgen.errors import KgenError, TypeInferenceFailure, near_names
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, fix_param_values, involved_params
from kgen.ir.sets.points import TooManyPointsError, points_of
from kgen.ir.types import AddressSpace, auto
from kgen.ir.unit import TranslationUnit
from kgen.lowering import lower
from kgen.schedule.execution import Execution
from kgen.schedule.tree import Schedule
from kgen.schedule.visits import Visit
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["Element", "Instance", "Instances", "lowered_parts"]

#: The maximum number of instances in a picture: with more, it takes minutes and is unreadable.
MOST = 20_000

Point = tuple[int, ...]


@dataclass(frozen=True)
class Instance:
    """One execution of an instruction: the values of its loops, its work-item, and its time.

    ``time`` has positions in the schedule and iterations, from the outside in. ``group`` and
    ``item`` are the indices on hardware axes; without axes they are empty.
    """

    insn_id: str
    point: Mapping[str, int]
    group: Point
    item: Point
    time: Point


@dataclass(frozen=True)
class Element:
    """One element that an instance reads or writes, by one of its accesses."""

    array: str
    index: Point
    is_write: bool
    access: Access


def lowered_parts(
    program: TranslationUnit | LoopKernel, entrypoint: str | None = None
) -> tuple[LoopKernel, Schedule]:
    """Return a kernel as code generation schedules it, and its schedule.

    Types that cannot be inferred are ``float64``, or ``int32`` for subscripts.
    """
    kernel = inlined_kernel(program, entrypoint)
    try:
        lowered = lower(kernel)
    except TypeInferenceFailure:
        read = kernel.get_read_variables()
        indices = index_sources(kernel)
        lowered = lower(
            kernel,
            {
                arg.name: np.int32 if arg.name in indices else np.float64
                for arg in kernel.args
                if arg.name in read and arg.dtype in (None, auto)
            },
        )
    return lowered.whole, lowered.schedule


class Instances(Execution):
    """Finds the instances of a program for the values *params* of its parameters."""

    def __init__(
        self,
        program: TranslationUnit | LoopKernel,
        params: Mapping[str, int],
        entrypoint: str | None = None,
    ) -> None:
        super().__init__(*lowered_parts(program, entrypoint), has_axes=True)
        self.params = dict(params)
        self._strides: dict[str, Point] = {}
        self._accesses: dict[str, tuple[Access, ...]] = {}
        self._known_ranges: dict[Any, list[tuple[str, int] | range]] = {}
        if fix_param_values(self.kernel.assumptions, self.params).is_empty():
            text = ", ".join(f"{name} = {value}" for name, value in self.params.items())
            raise self.error(
                f"the kernel does not support {text}",
                because=f"it assumes {self.kernel.assumptions}",
            )

    def error(self, what: str, **labels: Any) -> KgenError:
        """Return an error that names the kernel."""
        return KgenError(what, kernel=self.kernel.name, **labels)

    @cached_property
    def in_order(self) -> tuple[Instance, ...]:
        """All instances: first by time, then by work-item."""
        return self.where(lambda insn, domain: domain)

    def where(self, restrict: Callable[[InstructionBase, Set], Set]) -> tuple[Instance, ...]:
        """Return instances in order, in the domains to which *restrict* restricts them."""
        found = [one for visit in self.visits for one in self._of(visit, restrict)]
        return tuple(sorted(found, key=lambda one: (one.time, one.group, one.item)))

    def _of(
        self, visit: Visit, restrict: Callable[[InstructionBase, Set], Set]
    ) -> Iterator[Instance]:
        """Find the instances of an instruction at one place of the schedule."""
        insn = self.kernel.id_to_insn[visit.insn_id]
        names = self.loops_of(insn)
        domain = fix_param_values(self.kernel.domain_of(names), self.params)
        domain = restrict(insn, domain)
        if domain.is_empty():
            return
        for name in involved_params(domain):
            if name not in self.params:
                self._reject_size(name, f"the loops around '{insn.id}'")
        try:
            points = points_of(domain, MOST, slack=256)
        except TooManyPointsError as err:
            raise self.error(
                f"the instances of '{insn.id}' cannot be drawn",
                because=str(err),
                hint=f"choose smaller sizes, for at most {MOST} instances",
            ) from None
        for values in points:
            point = constantdict(zip(names, values, strict=True))
            if all(self.value(test, point) is not False for test in insn.predicates):
                time = tuple(self.time_of(visit, point.__getitem__))
                for group in self._indices(insn, point, is_group=True):
                    for item in self._indices(insn, point, is_group=False):
                        yield Instance(str(insn.id), point, group, item, time)

    def _reject_size(self, name: str, what: str) -> None:
        is_size = name in self.kernel.arg_dict and name not in self.kernel.get_written_variables()
        raise self.error(
            f"{what} depend on '{name}', which has no value",
            hint=f"give it a value: {{'{name}': 16}}"
            if is_size
            else "draw a kernel without such loops",
        )

    def loops_of(self, insn: InstructionBase) -> tuple[str, ...]:
        """Return the loops around an instruction, in the kernel's order."""
        return self.kernel.in_order(insn.within_inames)

    def _indices(
        self, insn: InstructionBase, point: Mapping[str, int], *, is_group: bool
    ) -> Iterator[Point]:
        """Yield the work-groups, or work-items, that run an instance."""
        ranges = self._ranges(insn, is_group)
        return product(*(_at(given, point) for given in ranges))

    def _ranges(self, insn: InstructionBase, is_group: bool) -> list[tuple[str, int] | range]:
        """Return, for each axis, its loop and the start of that; or the indices without a loop.

        On an axis that an instruction does not use, these are all indices if it writes elements
        that each index owns, or else the first.
        """
        key = (insn.id, is_group)
        if key not in self._known_ranges:
            used = self.axes_of(insn)
            is_own = self.writes_own(insn)
            grid = self.kernel.grid_of_launch(self.launch_of(insn))
            found: list[tuple[str, int] | range] = []
            for number, extent in enumerate(grid.groups if is_group else grid.locals):
                if (is_group, number) in used:
                    name, axis = used[is_group, number]
                    found.append((name, self.number(axis.first, {})))
                else:
                    found.append(range(self.number(extent, {}) if is_own else 1))
            self._known_ranges[key] = found
        return self._known_ranges[key]

    # -- expressions ----------------------------------------------------------------------------

    def value(self, expr: Expr, point: Mapping[str, int]) -> Any:
        """Return the value of an expression at an instance; ``None`` if it depends on data."""
        if isinstance(expr, int):
            return expr
        if isinstance(expr, p.Variable):
            return point.get(expr.name, self.params.get(expr.name))
        try:
            return EvaluationMapper({**self.params, **point})(expr)
        except (UnknownVariableError, NotImplementedError, ValueError, TypeError, AttributeError):
            return None

    def number(self, expr: Expr, point: Mapping[str, int]) -> int:
        """Return the value of an expression that does not depend on data.

        Raises :class:`KgenError` if it needs a parameter that has no value.
        """
        found = self.value(expr, point)
        if found is None:
            missing = variable_names(expr) - self.params.keys() - point.keys()
            self._reject_size(min(missing, default=to_text(expr)), f"the values of {to_text(expr)}")
        return int(found)

    # -- accesses -------------------------------------------------------------------------------

    def elements(self, instance: Instance) -> Iterator[Element]:
        """Yield the accesses of an instance, reads first, except data-dependent ones."""
        for access in self.accesses_of(instance.insn_id):
            index = self.element(access, instance.point)
            if index is not None:
                yield Element(access.array, index, access.is_write, access)

    def accesses_of(self, insn_id: str) -> tuple[Access, ...]:
        """Return the accesses of an instruction, each once, reads first."""
        if insn_id not in self._accesses:
            found = dict.fromkeys(collect_accesses(self.kernel, [self.kernel.id_to_insn[insn_id]]))
            self._accesses[insn_id] = tuple(sorted(found, key=lambda access: access.is_write))
        return self._accesses[insn_id]

    def element(self, access: Access, point: Mapping[str, int]) -> Point | None:
        """Return the subscripts of an access at an instance; ``None`` if they depend on data."""
        if access.index is None:
            return None
        tests = (self.value(test, point) for test in access.place.conditions)
        index = tuple(self.value(axis, point) for axis in access.index)
        if None in index or False in tests:
            return None
        return tuple(map(int, index))

    def owner(self, array: str, instance: Instance) -> tuple[Point, ...]:
        """Return the owner of the copy of an array that an instance uses: its group, or itself."""
        space = self.space_of(array)
        if space == AddressSpace.GLOBAL:
            return ()
        return (instance.group,) if space == AddressSpace.LOCAL else (instance.group, instance.item)

    # -- memory ---------------------------------------------------------------------------------

    def require_array(self, name: str) -> ArrayBase:
        """Return an array, or raise :class:`KgenError` with similar names."""
        found = self.kernel.array_vars.get(name)
        if found is None:
            raise self.error(
                f"there is no array '{name}'", hint=near_names(name, self.kernel.array_vars)
            )
        return found

    def offset(self, array: ArrayBase, index: Point) -> int:
        """Return the offset of an element in bytes."""
        return sum(k * step for k, step in zip(index, self.strides(array), strict=True))

    def strides(self, array: ArrayBase) -> Point:
        """Return the stride of each axis in bytes."""
        if array.name not in self._strides:
            self._strides[array.name] = tuple(
                array.dtype.itemsize * self.number(stride, {}) for stride in array.fixed_strides
            )
        return self._strides[array.name]


def _at(given: tuple[str, int] | range, point: Mapping[str, int]) -> Iterable[int]:
    """Return the indices on an axis at an instance."""
    return given if isinstance(given, range) else (point[given[0]] - given[1],)
