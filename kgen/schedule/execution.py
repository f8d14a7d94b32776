"""The execution of a scheduled kernel: the time and the work-item of each instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import pymbolic.primitives as p

from kgen.analysis.fields import separate_fields
from kgen.analysis.typing import ExpressionTyper
from kgen.errors import TypeInferenceFailure
from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable, ValueArg
from kgen.ir.expr import Expr
from kgen.ir.grid import Axis
from kgen.ir.instruction import Assignment, CallInstruction, CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import GroupInameTag
from kgen.ir.types import AddressSpace, NumpyType
from kgen.schedule.tree import Schedule, insn_ids
from kgen.schedule.visits import Visit, visits_of

__all__ = ["AxisKey", "Execution", "is_integer", "is_integer_type", "is_size"]

T = TypeVar("T")

#: A hardware axis: whether it is a group axis, and its number.
AxisKey = tuple[bool, int]


class Execution:
    """The computing instructions of a prepared and scheduled kernel, in order.

    Without hardware axes (*has_axes*), loops on them run sequentially.
    """

    #: instructions that have instances
    kinds: ClassVar[tuple[type[InstructionBase], ...]] = (Assignment, CallInstruction, CInstruction)

    def __init__(self, kernel: LoopKernel, schedule: Schedule, *, has_axes: bool) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.axes = kernel.axes if has_axes else {}
        self.typer = ExpressionTyper(kernel)
        self.visits = [
            visit
            for visit in visits_of(schedule.steps)
            if isinstance(kernel.id_to_insn[visit.insn_id], self.kinds)
        ]
        self._first: dict[int, int] = {}
        for visit in self.visits:
            for number, _ in visit.loops:
                self._first.setdefault(number, visit.position)

    def time_of(self, visit: Visit, value_of: Callable[[str], T]) -> list[int | T]:
        """Return the time of an instance: positions and iterations, from the outside in."""
        time: list[int | T] = []
        for number, iname in visit.loops:
            time += (self._first[number], value_of(iname))
        return [*time, visit.position]

    # -- work-items --------------------------------------------------------------------------

    def axes_of(self, insn: InstructionBase) -> dict[AxisKey, tuple[str, Axis]]:
        """Return the loops around an instruction that are on hardware axes, by axis."""
        return {
            (isinstance(axis.tag, GroupInameTag), axis.tag.axis): (name, axis)
            for name, axis in self.axes.items()
            if name in insn.within_inames
        }

    def launch_of(self, insn: InstructionBase) -> tuple[str, ...]:
        """Return the instructions of the launch in which *insn* is."""
        launches = (insn_ids(launch.body) for launch in self.schedule.launches)
        return next(ids for ids in launches if insn.id in ids)

    def temporary(self, name: str) -> TemporaryVariable | None:
        """Return a temporary, ``None`` for an argument."""
        return self.kernel.temporary_variables.get(name)

    def space_of(self, name: str) -> Any:
        """Return the address space of an array."""
        variable = self.temporary(name)
        return AddressSpace.GLOBAL if variable is None else variable.address_space

    def writes_own(self, insn: InstructionBase) -> bool:
        """Tell whether an instruction writes private data of each work-item, or of each group."""
        own = (AddressSpace.PRIVATE, AddressSpace.LOCAL)
        return any(self.space_of(name) in own for name in insn.assignee_var_names())

    # -- types -------------------------------------------------------------------------------

    def has_separate_fields(self, place: Expr) -> bool:
        """Tell whether *place* is an element, or a field of structures that share no bytes."""
        if not isinstance(place, p.Lookup):
            return True
        try:
            around = self.typer(place.aggregate)
        except TypeInferenceFailure:
            return False
        return (
            isinstance(around, NumpyType)
            and place.name in separate_fields(around.dtype)
            and self.has_separate_fields(place.aggregate)
        )

    def holds_integers(self, place: Expr) -> bool:
        """Tell whether a variable, an element, or a field of it is declared as an integer."""
        if isinstance(place, p.Lookup):
            return not self.is_real(place)
        return is_integer(self.kernel, assignee_name(place))

    def is_real(self, expr: Expr) -> bool:
        """Tell whether an expression may be a non-integer."""
        try:
            return not is_integer_type(self.typer(expr))
        except TypeInferenceFailure:
            return True


def is_integer(kernel: LoopKernel, name: str) -> bool:
    """Tell whether a variable is declared with an integer type."""
    variable = kernel.array_vars.get(name) or kernel.arg_dict.get(name)
    return is_integer_type(getattr(variable, "dtype", None))


def is_size(kernel: LoopKernel, name: str) -> bool:
    """Tell whether *name* is an integer that callers pass."""
    return isinstance(kernel.arg_dict.get(name), ValueArg) and is_integer(kernel, name)


def is_integer_type(dtype: Any) -> bool:
    """Tell whether *dtype* is a known integer type."""
    return isinstance(dtype, NumpyType) and dtype.is_integral()
