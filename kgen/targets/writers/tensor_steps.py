"""Steps of tensor cores: the instruction, its factors, and the sums that a lane holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import cgen
from pymbolic.mapper.stringifier import PREC_NONE

from kgen.analysis.products import Factors, TensorLoops, tensor_factors, tensor_loops
from kgen.ast.nodes import Run
from kgen.ir.expr import Expr, substitute
from kgen.ir.fragments import BLOCK, ROW_GROUPS, TensorShape
from kgen.ir.instruction import Assignment
from kgen.targets.definitions import helper_function
from kgen.targets.preamble import Need
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["Step", "device_function", "numbers_of", "step_of"]


@dataclass(frozen=True)
class Step:
    """One step of an instruction, the writer of its expressions, and the values of its loops."""

    writer: ExpressionWriter
    values: Mapping[str, Expr]
    insn: Assignment
    loops: TensorLoops
    factors: Factors

    @property
    def shape(self) -> TensorShape:
        """The shape of the product that a step computes."""
        return self.loops.shape

    @cached_property
    def sums(self) -> tuple[str, ...]:
        """The sums that a lane holds."""
        return tuple(self._sum(number) for number in range(self.shape.c.count))

    def _sum(self, number: int) -> str:
        row, column = self.shape.c.at_lane_zero(number)
        values = {self.loops.column: column % BLOCK}
        if self.loops.row is not None:
            values[self.loops.row] = row // ROW_GROUPS
        if self.loops.block is not None:
            values[self.loops.block] = column // BLOCK
        place = substitute(self.insn.assignee, values)
        return self.writer.rec(place, PREC_NONE, self.writer.typer(place))


def step_of(writer: ExpressionWriter, run: Run) -> Step:
    """Return a step of the code tree."""
    insn = writer.kernel.id_to_insn[run.insn_id]
    assert isinstance(insn, Assignment)
    loops = tensor_loops(writer.kernel, insn)
    assert loops is not None
    factors = tensor_factors(loops, insn, writer.typer)
    assert factors is not None
    return Step(writer, run.values, insn, loops, factors)


def device_function(head: str, name: str, parameters: Sequence[str], *body: str) -> Need:
    """Return the definition of a function of a few statements."""
    declared = [cgen.Value(*each.rsplit(" ", 1)) for each in parameters]
    head = f"static __device__ inline {head}"
    return helper_function(head, name, declared, map(cgen.Statement, body))


def numbers_of(first: int, count: int) -> str:
    """Return the list of *count* operands of an instruction."""
    return f"{{{', '.join(f'%{first + n}' for n in range(count))}}}"
