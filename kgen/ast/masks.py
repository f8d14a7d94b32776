"""Functions in vectorized loops with conditions: separate loops compute their values."""

from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper
from kgen.ast.expr import conjunction, negation
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, IdentityMapper, variable_names, walk
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.ir.types import AddressSpace, NumpyType
from kgen.schedule.lanes import dependence_in, has_lanes, is_lane_call, is_simd

__all__ = ["mask_lanes"]


def mask_lanes(kernel: PreparedKernel) -> PreparedKernel:
    """Move calls of functions in lanes to separate loops without conditions.

    gcc does not vectorize a loop with both. Lanes in which the condition is false compute
    the function of 1.

    ::

        simd v                         simd v
          if c[v]: b[v] = exp(a[v])      x[v] = a[v] if c[v] else 1
                                  =>   simd v
                                         y[v] = exp(x[v])
                                       simd v
                                         if c[v]: b[v] = y[v]
    """
    if not has_lanes(kernel) or kernel.options.trace_assignments:
        return kernel
    masker = _Masker(kernel)
    instructions = [part for insn in kernel.instructions for part in masker.parts_of(insn)]
    if not masker.made:
        return kernel
    temporaries = {**kernel.temporary_variables, **masker.made}
    return PreparedKernel(kernel.copy(instructions=instructions, temporary_variables=temporaries))


class _Masker:
    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.typer = ExpressionTyper(kernel)
        self.new_name = kernel.get_var_name_generator()
        self.new_id = kernel.get_instruction_id_generator()
        self.made: dict[str, TemporaryVariable] = {}

    def parts_of(self, insn: InstructionBase) -> Iterator[InstructionBase]:
        """Yield the instructions that replace one instruction."""
        lanes = [name for name in insn.within_inames if is_simd(self.kernel, name)]
        if (
            len(lanes) == 1
            and isinstance(insn, Assignment)
            and self._is_mixed(insn)
            and dependence_in(self.kernel, lanes[0], (insn.id,)) is None
        ):
            values = self.kernel.get_iname_bounds(lanes[0]).interval
            if values.low is not None and values.high is not None:
                length = values.high - values.low + 1
                index = p.Sum((p.Variable(lanes[0]), -values.low)) if values.low else None
                mapper = _CallsApart(self, insn, index or p.Variable(lanes[0]), length)
                yield from mapper.parts()
                return
        yield insn

    def _is_mixed(self, insn: Assignment) -> bool:
        """Tell whether an instruction has calls and conditions, where conditions have no calls."""
        choices = [node for node in walk(insn.expression) if isinstance(node, p.If)]
        conditions = (*insn.predicates, *(node.condition for node in choices))
        is_plain = not insn.atomicity and not self._has_calls(*conditions)
        return bool(conditions) and is_plain and self._has_calls(insn.expression)

    def _has_calls(self, *exprs: Expr) -> bool:
        return any(is_lane_call(self.kernel, node) for node in walk(*exprs))


class _CallsApart(IdentityMapper):
    """Replaces calls of functions by their values, computed from guarded operands."""

    def __init__(self, masker: _Masker, insn: Assignment, index: Expr, length: int) -> None:
        super().__init__()
        self.masker, self.insn = masker, insn
        self.index, self.length = index, length
        self.around: list[Expr] = list(insn.predicates)
        self.before: list[Assignment] = []

    def parts(self) -> Iterator[Assignment]:
        """Yield the instructions that compute the values, and the one that uses them."""
        expression = self(self.insn.expression)
        yield from self.before
        behind = self.insn.depends_on | {part.id for part in self.before}
        yield self.insn.copy(expression=expression, depends_on=behind)

    def map_if(self, expr: p.If) -> Expr:
        around = self.around
        self.around = [*around, expr.condition]
        then = self.rec(expr.then)
        self.around = [*around, negation(expr.condition)]
        otherwise = self.rec(expr.else_)
        self.around = around
        return p.If(expr.condition, then, otherwise)

    def map_call(self, expr: p.Call) -> Expr:
        if not self._is_apart(expr):
            return p.Call(expr.function, tuple(map(self.rec, expr.parameters)))
        return self._apart(expr, p.Call(expr.function, tuple(map(self._guarded, expr.parameters))))

    def map_power(self, expr: p.Power) -> Expr:
        if not self._is_apart(expr):
            return p.Power(self.rec(expr.base), self.rec(expr.exponent))
        return self._apart(expr, p.Power(self._guarded(expr.base), self._guarded(expr.exponent)))

    def _is_apart(self, expr: p.Call | p.Power) -> bool:
        is_call = is_lane_call(self.masker.kernel, expr)
        return is_call and self.masker.typer(expr).dtype.kind == "f"

    def _apart(self, expr: Expr, value: Expr) -> Expr:
        return self._store(value, self.masker.typer(expr))

    def _guarded(self, operand: Expr) -> Expr:
        """Return an operand that can be computed in all lanes, without conditions inside."""
        value = self.rec(operand)
        has_conditions = any(isinstance(node, p.If) for node in walk(value))
        reads = any(name in self.masker.kernel.array_vars for name in variable_names(value))
        if not (has_conditions or (self.around and reads)):
            return value
        guarded = p.If(conjunction(self.around), value, 1) if self.around else value
        return self._store(guarded, self.masker.typer(operand))

    def _store(self, value: Expr, dtype: NumpyType) -> Expr:
        """Add an instruction that computes *value* in all lanes, and return its result."""
        name = str(self.masker.new_name(f"{self.insn.assignee_var_names()[0]}_lane"))
        self.masker.made[name] = TemporaryVariable(
            name, dtype, shape=(self.length,), address_space=AddressSpace.PRIVATE
        )
        place = p.Subscript(p.Variable(name), (self.index,))
        stored = self.insn.copy(
            id=str(self.masker.new_id(f"{self.insn.id}_lane")),
            assignee=place,
            expression=value,
            predicates=frozenset(),
            depends_on=self.insn.depends_on | {part.id for part in self.before},
            tags=frozenset(),
        )
        self.before.append(stored)
        return place
