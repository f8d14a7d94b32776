"""Expressions as ISPC text: uniform and varying values, and booleans as numbers."""

from __future__ import annotations

from typing import Any, Final, Self

import pymbolic.primitives as p
from pymbolic.mapper.stringifier import (
    PREC_BITWISE_OR,
    PREC_IF,
    PREC_LOGICAL_OR,
    PREC_NONE,
    PREC_UNARY,
)

from kgen.analysis.range import index_type
from kgen.ast.nodes import DeviceFunction
from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.expr import Expr, LocalHardwareAxisIndex, minus
from kgen.ir.types import INT64, AddressSpace, NumpyType
from kgen.targets.ispc.variability import Variability
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.indices import parenthesized
from kgen.targets.writers.site import EmissionSite, HardwareIndices

__all__ = ["ISPCExpressionWriter"]

_TRUTHS: Final = (p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot)


class ISPCExpressionWriter(ExpressionWriter):
    """Writes expressions of ISPC.

    A store to a uniform place happens once, regardless of which lanes run, and needs a uniform
    value. So if only some lanes run, or the value is varying, the subscript is made varying. A
    truth value is 0 or 1 only if it is written as ``a < b ? 1 : 0``.
    """

    variability: Variability
    #: The next expression is used in a boolean context.
    _is_condition = False

    def for_function(self, function: DeviceFunction | None) -> Self:
        variability = Variability(self.kernel, function)
        local = self.target.local_index if variability.has_lanes else ("0", "0", "0")
        indices = HardwareIndices(self.target.group_index, local)
        writer = self.at(self.site._replace(indices=indices))
        writer.variability = variability
        for name in () if function is None else function.temporaries:
            temporary = self.kernel.temporary_variables[name]
            if temporary.base_storage is not None:
                raise CodegenError(
                    f"temporary '{name}' shares the storage '{temporary.base_storage}', for "
                    "which ISPC has no code",
                    hint="drop alias_temporaries, or base_storage=",
                )
        return writer

    def divergent(self, site: EmissionSite, *conditions: Expr) -> EmissionSite:
        varies = any(map(self.variability.is_varying, conditions))
        return site._replace(is_divergent=True) if varies else site

    def is_varying(self, expr: Expr) -> bool:
        """Tell whether lanes may have different values of *expr* at the current site."""
        return self.variability.is_varying(expr, self.site.values)

    def declared_type(self, name: str, dtype: NumpyType) -> str:
        word = "varying" if self.is_varying(p.Variable(name)) else "uniform"
        return f"{word} {self.type_name(dtype)}"

    # -- places --------------------------------------------------------------------------------

    def place(self, expr: Expr, value: Expr, dtype: NumpyType) -> str:
        text = self.rec(expr, PREC_NONE, dtype)
        memory, bracket, index = text.partition("[")
        name = assignee_name(expr)
        temporary = self.kernel.temporary_variables.get(name)
        is_own = temporary is not None and temporary.address_space == AddressSpace.PRIVATE
        if not bracket or is_own or any(map(self.is_varying, index_of(expr))):
            return text
        if not self.site.is_divergent and not self.is_varying(value):
            return text
        return f"{memory}[{self._per_lane(index.removesuffix(']'), index_type(self.kernel, name))}]"

    def _per_lane(self, text: str, dtype: NumpyType) -> str:
        operand = text if text.replace("_", "").isalnum() else f"({text})"
        return f"(varying {self.type_name(dtype)}) {operand}"

    def streamed(self, place: Expr, value: Expr, dtype: NumpyType) -> str | None:
        """Write a streaming store of one element, or of adjacent elements by the lanes."""
        text = self.rec(place, PREC_NONE, dtype)
        if not self.variability.has_lanes:
            return f"streaming_store(&{text}, {self.converted(value, dtype, PREC_NONE)})"
        index = self.accesses.linear_index(place)
        first = simplify(minus(index, LocalHardwareAxisIndex(0)))
        if self.site.is_divergent or self.variability.is_varying(first):
            return None
        memory = text.partition("[")[0]
        fits = index_type(self.kernel, assignee_name(place)) != INT64
        base = f"&{memory}[{self.integers.subscript(first, fits=fits, is_updated=False)}]"
        return f"streaming_store({base}, {self.operand_of_atomic(value, dtype)})"

    def operand_of_atomic(self, expr: Expr, dtype: NumpyType) -> str:
        if not self.variability.has_lanes or self.is_varying(expr):
            return self.converted(expr, dtype, PREC_NONE)
        return f"(varying {self.type_name(dtype)}) {self.converted(expr, dtype, PREC_UNARY)}"

    # -- truth ---------------------------------------------------------------------------------

    def truth(self, expr: Expr, prec: int) -> str:
        self._is_condition = isinstance(expr, _TRUTHS)
        return super().truth(expr, prec)

    def map_comparison(self, expr: p.Comparison, enclosing_prec: int, beside: NumpyType) -> str:
        return self._as_number(super().map_comparison, expr, enclosing_prec, beside)

    def map_logical_and(self, expr: p.LogicalAnd, enclosing_prec: int, beside: NumpyType) -> str:
        return self._as_number(super().map_logical_and, expr, enclosing_prec, beside)

    def map_logical_or(self, expr: p.LogicalOr, enclosing_prec: int, beside: NumpyType) -> str:
        return self._as_number(super().map_logical_or, expr, enclosing_prec, beside)

    def map_logical_not(self, expr: p.LogicalNot, enclosing_prec: int, beside: NumpyType) -> str:
        return self._as_number(super().map_logical_not, expr, enclosing_prec, beside)

    def _as_number(self, write: Any, expr: Expr, prec: int, beside: NumpyType) -> str:
        is_condition, self._is_condition = self._is_condition, False
        if is_condition:
            text: str = write(expr, prec, beside)
            return text
        return parenthesized(f"{write(expr, PREC_LOGICAL_OR, beside)} ? 1 : 0", PREC_IF, prec)

    def assigned(self, expr: Expr, dtype: NumpyType) -> str:
        own = self.own_type(expr, dtype)
        if dtype.kind == "b" and own.kind != "b":
            return f"{self.rec(expr, PREC_BITWISE_OR, own)} != 0 ? 1 : 0"
        return super().assigned(expr, dtype)

    def cast_text(
        self, text: str, own: NumpyType, wanted: NumpyType, prec: int = PREC_UNARY
    ) -> str:
        if wanted.kind == "b" and own.kind != "b":
            return parenthesized(f"{text} != 0 ? 1 : 0", PREC_IF, prec)
        return super().cast_text(text, own, wanted, prec)
