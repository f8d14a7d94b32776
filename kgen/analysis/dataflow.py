"""What each element of a result is computed from: expressions, and the elements they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.instances import bound, element_name
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.expr import Expr, IdentityMapper, Reduction, substitute, to_text, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.domain import Set, from_named, param_names, project_out_named, to_named
from kgen.ir.sets.names import SetName
from kgen.ir.sets.quasi_affine import set_from_condition

__all__ = ["Flow", "UndecidedError", "flows_of"]

_PARAM = isl.dim_type.param


class UndecidedError(Exception):
    """Says why the flow of data is not known."""


@dataclass(frozen=True)
class Flow:
    """How instances of an instruction compute elements of an array.

    ``text`` is the expression without subscripts; ``relation`` has the element written and,
    in the order of the text, all subscripts and other integers, as parameters
    ``.element0``, ``.value0``, ... ``is_exact``: each instance has values of its own.
    """

    array: str
    text: str
    relation: Set
    is_exact: bool


def flows_of(kernel: LoopKernel) -> Iterator[Flow]:
    """Give how the arguments that *kernel* writes come from those that it reads.

    Temporaries are replaced by what was assigned to them. Raises :class:`UndecidedError`
    where there is no single assignment, or where something is not affine.
    """
    for insn in kernel.instructions:
        for name in insn.assignee_var_names():
            if name not in kernel.temporary_variables:
                yield _Tracer(kernel).trace(insn)


class _Tracer(IdentityMapper):
    """Replace what is read by placeholders, and note the values of all subscripts."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.named: Set = isl.Set("{ : }")
        self.inames: set[str] = set()
        self.n_values = 0
        self.n_copies = 0

    def trace(self, insn: InstructionBase) -> Flow:
        kernel = self.kernel
        if not isinstance(insn, Assignment):
            raise UndecidedError(f"instruction '{insn.id}' is not an assignment")
        names = insn.within_inames | insn.reduction_inames()
        own = tuple(sorted(names, key=kernel.iname_order.__getitem__))
        self.inames = set(own)
        self.named = to_named(kernel.domain_of(own).intersect_params(kernel.assumptions))
        self._hold(insn)
        for axis, index in enumerate(index_of(insn.assignee)):
            self.named = self._bound(element_name(axis), index)
        text = to_text(self.rec(insn.expression))
        fresh = [name for name in self.inames if name not in own]
        named = project_out_named(self.named, sorted(fresh))
        values = [n for n in param_names(named) if n.startswith((SetName.ELEMENT, SetName.VALUE))]
        is_exact = _is_injective(named, list(own), values)
        array = assignee_name(insn.assignee)
        return Flow(array, text, project_out_named(named, own), is_exact)

    def _hold(self, insn: InstructionBase) -> None:
        """Keep only the instances for which the conditions of *insn* hold."""
        for condition in insn.sorted_predicates:
            try:
                self.named = self.named.intersect(
                    set_from_condition(self.named.get_space(), condition)
                )
            except ExpressionToAffineConversionError:
                raise UndecidedError(
                    f"the condition '{to_text(condition)}' of '{insn.id}' is not affine"
                ) from None

    def _bound(self, name: str, value: Expr) -> Set:
        try:
            return bound(self.named, name, value)
        except ExpressionToAffineConversionError as err:
            raise UndecidedError(str(err)) from None

    def _note(self, value: Expr) -> None:
        self.named = self._bound(SetName.VALUE.at(self.n_values), value)
        self.n_values += 1

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        names = variable_names(expr)
        is_integer = self.inames.intersection(names) and not any(
            name in self.kernel.array_vars for name in names
        )
        if is_integer and not isinstance(expr, Reduction | p.Call | p.If | p.Comparison):
            try:
                self._note(expr)
            except UndecidedError:
                return super().rec(expr, *args, **kwargs)
            return p.Variable("#")
        return super().rec(expr, *args, **kwargs)

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return self._read(expr.name, ()) if expr.name in self.kernel.array_vars else expr

    def map_subscript(self, expr: p.Subscript, *args: Any) -> Expr:
        assert isinstance(expr.aggregate, p.Variable)
        return self._read(expr.aggregate.name, expr.index_tuple)

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        operation = str(expr.operation)
        inner = [self.rec(part) for part in expr.exprs]
        only: Any = inner[0]
        if isinstance(only, p.Call) and only.function == p.Variable(operation):
            inner = list(only.parameters)  # a sum of sums
        return p.Call(p.Variable(operation), tuple(inner))

    def _read(self, name: str, index: tuple[Expr, ...]) -> Expr:
        temporary = self.kernel.temporary_variables.get(name)
        if temporary is None or temporary.initializer is not None:
            for part in index:
                self._note(part)
            return p.Variable(f"{name}[]")
        return self._assigned(name, index)

    def _assigned(self, name: str, index: tuple[Expr, ...]) -> Expr:
        """Return what the instruction that assigned the element of a temporary computed."""
        writers = self.kernel.writers.get(name, ())
        insn = self.kernel.id_to_insn[writers[0]] if len(writers) == 1 else None
        if not isinstance(insn, Assignment) or insn.predicates or self.n_copies > 64:
            raise UndecidedError(f"temporary '{name}' has no single assignment for all of it")
        inames = insn.within_inames | insn.reduction_inames()
        own = tuple(sorted(inames, key=self.kernel.iname_order.__getitem__))
        self.n_copies += 1
        shared = insn.within_inames & self.inames
        if insn.reduction_inames() & self.inames:
            raise UndecidedError(f"the reduction in '{insn.id}' is inside of one over the same")
        fresh = {n: f"{n}.{self.n_copies}" for n in own if n in insn.within_inames - shared}
        before = self.named
        domain = to_named(self.kernel.domain_of(own))
        for old, new in fresh.items():
            domain = domain.set_dim_name(_PARAM, domain.find_dim_by_name(_PARAM, old), new)
        self.named = self.named.intersect(domain)
        self.inames.update(fresh.values(), insn.reduction_inames())
        renamed = {old: p.Variable(new) for old, new in fresh.items()}
        for k, (mine, wanted) in enumerate(zip(index_of(insn.assignee), index, strict=True)):
            self.named = self._bound(SetName.SOUGHT.at(k), substitute(mine, renamed))
            self.named = self._bound(SetName.SOUGHT.at(k), wanted)
            self.named = project_out_named(self.named, (SetName.SOUGHT.at(k),))
        added = sorted({*fresh.values(), *insn.reduction_inames()})
        if not before.is_subset(project_out_named(self.named, added)):
            raise UndecidedError(f"'{name}' is read in another iteration than it is assigned in")
        return self.rec(substitute(insn.expression, renamed))


def _is_injective(named: Set, inames: list[str], values: list[str]) -> bool:
    """Tell whether no two instances have the same values."""
    wrapped = isl.Map.from_range(from_named(named, [*inames, *values]))
    moved = wrapped.move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, len(inames))
    return bool(moved.is_injective())
