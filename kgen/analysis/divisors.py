"""Divisors that are zero in an iteration of a loop."""

from __future__ import annotations

from typing import TypeAlias

import pymbolic.primitives as p

from kgen.analysis.access import Place, PlaceMapper
from kgen.analysis.footprints import Footprints
from kgen.analysis.operands import nodes_of
from kgen.analysis.points import describe, example
from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.errors import KernelError
from kgen.ir.expr import Expr, to_text, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import settle
from kgen.ir.sets.dims import to_named

__all__ = ["check_divisors"]

_Division: TypeAlias = p.FloorDiv | p.Remainder


def check_divisors(kernel: LoopKernel) -> LoopKernel:
    """Reject quotients and remainders of integers whose divisor is zero; return *kernel*.

    The divisor is an affine function of loop variables, in an iteration that surely reaches it.
    Processors end the process then, or go on with any number. Divisors with arguments or data are
    not checked. Raises :class:`KernelError` with the iteration.
    """
    finder = _Finder(kernel)
    for insn in kernel.instructions:
        if any(isinstance(node, _Division) for node in nodes_of(insn)):
            finder.check(insn)
    return kernel


class _Finder(PlaceMapper):
    """Finds divisors that are zero, by the iterations that reach them."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel)
        self.typer = ExpressionTyper(kernel)
        self.insn: InstructionBase | None = None

    def check(self, insn: InstructionBase) -> None:
        """Reject divisors in an instruction."""
        self.insn = insn
        place = self.visit_predicates(insn)
        for expr in (*insn.read_exprs(), *insn.assignees):
            self.rec(expr, place)

    def is_visited(self, condition: Expr) -> bool:
        """Tell whether a condition reads data, or has a divisor that is not a constant."""
        nodes = walk(condition)
        divisors = [node.denominator for node in nodes if isinstance(node, _Division)]
        return bool(variable_names(*divisors)) or super().is_visited(condition)

    def map_floor_div(self, expr: p.FloorDiv, place: Place) -> None:
        self._check_division(expr, place)

    def map_remainder(self, expr: p.Remainder, place: Place) -> None:
        self._check_division(expr, place)

    def _is_whole(self, expr: _Division) -> bool:
        """Tell whether the result is an integer: quotients of other numbers may be infinite."""
        try:
            return settle(self.typer.operand(expr)).dtype.kind in "iu"
        except UnknownType:
            return False

    def _check_division(self, expr: _Division, place: Place) -> None:
        self.rec(expr.numerator, place)
        self.rec(expr.denominator, place)
        names = variable_names(expr.denominator)
        if not names or not set(names) <= set(place.inames) or not self._is_whole(expr):
            return
        is_zero = p.Comparison(expr.denominator, "==", 0)
        reached = Place(place.inames, (*place.conditions, is_zero))
        domain, is_exact = Footprints.of(self.kernel).domain(reached)
        domain = domain.intersect_params(self.kernel.assumptions.params())
        if not is_exact or domain.is_empty():
            return
        assert self.insn is not None
        divisor = to_text(expr.denominator)
        raise KernelError(
            f"'{to_text(expr)}' divides by zero",
            kernel=self.kernel.name,
            where=f"instruction '{self.insn}'",
            point=f"{describe(example(to_named(domain)))}: '{divisor}' is 0",
            hint=f"leave this iteration out of the loop, or guard it: if {divisor} != 0",
        )
