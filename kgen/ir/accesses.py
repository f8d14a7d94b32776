"""Which array elements an instruction reads and writes, as subscript tuples."""

from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.ir.expr import Expr, WalkMapper, variable_names
from kgen.ir.instruction import CInstruction, InstructionBase, MultiAssignmentBase


@dataclass(frozen=True)
class ArrayAccess:
    """One access: ``index`` is the subscript tuple, empty for a variable without one.

    ``is_exact`` is false where the subscript is not known (C snippets, linear subscripts).
    """

    name: str
    index: tuple[Expr, ...]
    is_write: bool
    is_exact: bool = True


class _Collector(WalkMapper):
    def __init__(self) -> None:
        self.found: dict[ArrayAccess, None] = {}
        self.is_write = False

    def add(self, name: str, index: tuple[Expr, ...], *, is_exact: bool = True) -> None:
        self.found[ArrayAccess(name, index, self.is_write, is_exact)] = None

    def map_variable(self, expr: p.Variable, *args: object) -> None:
        self.add(expr.name, ())

    def map_subscript(self, expr: p.Subscript, *args: object) -> None:
        is_write, self.is_write = self.is_write, False
        for index in expr.index_tuple:
            self.rec(index)
        self.is_write = is_write
        if isinstance(expr.aggregate, p.Variable):
            self.add(expr.aggregate.name, expr.index_tuple)
        else:
            self.rec(expr.aggregate)

    def map_linear_subscript(self, expr: object, *args: object) -> None:
        is_write, self.is_write = self.is_write, False
        self.rec(expr.index)  # type: ignore[attr-defined]
        self.is_write = is_write
        self.add(expr.aggregate.name, (), is_exact=False)  # type: ignore[attr-defined]

    def map_call(self, expr: p.Call, *args: object) -> None:
        for parameter in expr.parameters:
            self.rec(parameter)


def accesses_of(insn: InstructionBase) -> tuple[ArrayAccess, ...]:
    """Return the accesses of *insn*, writes first, each once, scalars included."""
    collector = _Collector()
    collector.is_write = True
    for lhs in insn.assignees:
        collector.rec(lhs)
    collector.is_write = False
    if isinstance(insn, MultiAssignmentBase):
        collector.rec(insn.expression)
    if isinstance(insn, CInstruction):
        for name in sorted(insn.read_variables):
            collector.add(name, (), is_exact=False)
        for name in variable_names(*(expr for _, expr in insn.iname_exprs)):
            collector.add(name, ())
    for condition in insn.sorted_predicates:
        collector.rec(condition)
    return tuple(collector.found)
