"""Calls of user-defined functions, as their hooks build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import cgen
import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict
from pymbolic.mapper.c_code import CCodeMapper
from pymbolic.mapper.stringifier import PREC_CALL, PREC_NONE, PREC_UNARY

from kgen.analysis.parts import get_arg_descriptor_for_expression
from kgen.errors import CodegenError
from kgen.ir.arg_descriptors import ArgDescriptor
from kgen.ir.assignee import assignee_name
from kgen.ir.callables import ScalarCallable
from kgen.ir.expr import Expr, LinearSubscript, SubArrayRef, TypeCast, TypedLiteral, to_text
from kgen.ir.functions import RegisteredFunction
from kgen.ir.instruction import Assignment, CallInstruction
from kgen.ir.promotion import settle
from kgen.ir.types import FLOAT64, NumpyType, to_kgen_type
from kgen.targets.preamble import Need, Rank, SeenFunction
from kgen.targets.writers.context import WriterContext
from kgen.targets.writers.indices import parenthesized
from kgen.targets.writers.overloads import overloaded

__all__ = ["CodeExpression", "CodeMapper", "UserCallWriter"]


@p.expr_dataclass()
class KernelExpression(p.ExpressionNode):
    """An expression of the kernel within code: converted to *dtype*, or an assignee's address."""

    expr: Expr
    dtype: NumpyType | None = None
    is_address: bool = False


@dataclass(frozen=True)
class CodeExpression:
    """An expression of the kernel as code: ``expr`` is a node that calls can contain."""

    expr: KernelExpression
    printer: _CodePrinter

    def __str__(self) -> str:
        return self.printer(self.expr)


class CodeMapper:
    """The mapper that hooks use to convert expressions of the kernel to code.

    *addressed* are assignees that are replaced by their addresses.
    """

    def __init__(self, writer: WriterContext, addressed: Sequence[Expr] = ()) -> None:
        self.writer = writer
        self.addressed = addressed

    def __call__(
        self, expr: Expr, prec: Any = None, type_context: Any = None, needed_dtype: Any = None
    ) -> CodeExpression:
        """Return *expr* as code, converted to *needed_dtype* if that is given.

        *prec* and *type_context* are ignored: parentheses and types follow from the context.
        """
        return CodeExpression(self.rec(expr, type_context, needed_dtype), _CodePrinter(self.writer))

    def rec(self, expr: Expr, type_context: Any = None, needed_type: Any = None) -> Any:
        """Return *expr* as a node of code, converted to *needed_type* if that is given."""
        if isinstance(expr, KernelExpression):
            return expr
        if isinstance(expr, SubArrayRef) or any(expr is place for place in self.addressed):
            return KernelExpression(expr, None, True)
        return KernelExpression(expr, to_kgen_type(needed_type))

    def infer_type(self, expr: Expr) -> NumpyType:
        """Return the type of an expression of the kernel."""
        dtype: NumpyType = self.writer.typer(expr)
        return dtype


class UserCallWriter:
    """Writes calls of registered functions for *writer*."""

    def __init__(self, writer: WriterContext) -> None:
        self.writer = writer
        self.kernel = writer.kernel
        self.printer = _CodePrinter(writer)

    def inside(
        self, function: RegisteredFunction, expr: p.Call, dtypes: tuple[NumpyType, ...], prec: int
    ) -> str:
        """Write a call within an expression, as ``emit_call`` returns it."""
        called = self._specialized(function, expr.parameters, (), dtypes)
        code = called.emit_call(
            expression_to_code_mapper=CodeMapper(self.writer),
            expression=expr,
            target=self.writer.target,
        )
        self._note(called, code, dtypes)
        return self.printer(code, prec)

    def statement(
        self,
        function: RegisteredFunction,
        insn: Assignment | CallInstruction,
        dtypes: tuple[NumpyType, ...],
    ) -> tuple[str, bool]:
        """Write the call of an instruction, as ``emit_call_insn`` returns it.

        Also tells whether its value is the first result.
        """
        passed = (*insn.expression.parameters, *insn.assignees)
        called = self._specialized(function, insn.expression.parameters, insn.assignees, dtypes)
        passes_arrays = any(isinstance(place, SubArrayRef) for place in passed)
        code, is_returned = called.emit_call_insn(
            insn=insn,
            target=self.writer.target,
            expression_to_code_mapper=CodeMapper(
                self.writer, insn.assignees if passes_arrays else ()
            ),
        )
        self._note(called, code, dtypes)
        return self.printer(code), is_returned

    def _specialized(
        self,
        function: RegisteredFunction,
        parameters: Sequence[Expr],
        places: Sequence[Expr],
        dtypes: tuple[NumpyType, ...],
    ) -> ScalarCallable:
        """Return the callable for the types and shapes of a call."""
        describe = partial(get_arg_descriptor_for_expression, self.kernel)
        descriptors: dict[int | str, ArgDescriptor] = dict(enumerate(map(describe, parameters)))
        descriptors |= {-1 - k: describe(place) for k, place in enumerate(places)}
        called = function.registered.specialized(dtypes)
        return called.with_descrs(descriptors, constantdict())[0]

    def _note(self, called: ScalarCallable, code: Any, dtypes: tuple[NumpyType, ...]) -> None:
        """Add the preamble of code that calls a function."""
        preamble, target = self.writer.preamble, self.writer.target
        for key, text in called.generate_preambles(target):
            preamble.add(Need(Rank.USER, str(key), text.strip("\n")))
        symbol = getattr(code, "function", None)
        spelled = symbol.name if isinstance(symbol, p.Variable) else called.name
        if {spelled, spelled.removesuffix("f")} & target.functions.real.keys():
            preamble.add(*target.math_needs)
        preamble.seen_functions.add(SeenFunction(called.name, spelled, dtypes, called.result_types))


class _CodePrinter(CCodeMapper):
    """Prints the results of hooks: pymbolic nodes whose names are those of the code."""

    def __init__(self, writer: WriterContext) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.writer = writer
        self.kernel = writer.kernel

    def map_kernel_expression(self, expr: KernelExpression, enclosing_prec: int) -> str:
        """Write an expression of the kernel."""
        writer = self.writer
        if expr.is_address:
            return parenthesized("&" + self._place(expr.expr), PREC_UNARY, enclosing_prec)
        if expr.dtype is not None and isinstance(expr.expr, TypedLiteral | TypeCast):
            return overloaded(writer, expr.expr, expr.dtype, enclosing_prec)
        if expr.dtype is not None:
            return writer.converted(expr.expr, expr.dtype, enclosing_prec)
        own = settle(writer.typer.operand(expr.expr))
        return writer.rec(expr.expr, enclosing_prec, own)

    def _place(self, expr: Expr) -> str:
        """Write an assignee, or the first element of a part of an array."""
        writer = self.writer
        if not isinstance(expr, SubArrayRef):
            return writer.rec(expr, PREC_CALL, writer.typer(expr))
        swept = [var.name for var in expr.swept_inames]
        for iname in swept:
            if self.kernel.get_iname_bounds(iname).interval.low != 0:
                raise CodegenError(
                    f"the loop '{iname}' of '{to_text(expr)}' does not start at 0",
                    hint=f"add the first value of '{iname}' to the subscript",
                )
        array = self.kernel.array_vars[assignee_name(expr)]
        if array.name in writer.accesses.images:
            raise CodegenError(
                f"'{to_text(expr)}' is part of an image, which has no address",
                hint=f"declare '{array.name}' as a GlobalArg",
            )
        values = {**writer.site.values, **dict.fromkeys(swept, 0)}
        site = writer.site._replace(inames=writer.site.inames | set(swept), values=values)
        writer = writer.at(site)
        return writer.accesses.element(expr.subscript)

    def map_constant(self, expr: Any, enclosing_prec: int) -> str:
        """Write a number: an integer with its digits, another one as a double."""
        if isinstance(expr, int | np.integer):
            return parenthesized(
                str(int(expr)), PREC_UNARY if expr < 0 else PREC_CALL, enclosing_prec
            )
        own = NumpyType(expr.dtype) if isinstance(expr, np.generic) else FLOAT64
        return self.writer.rec(expr, enclosing_prec, own)

    def map_variable(self, expr: p.Variable, enclosing_prec: int) -> str:
        """Write a name of the code, an array of the kernel as a pointer, a number as its value."""
        array = self.kernel.array_vars.get(expr.name)
        if array is not None and array.num_user_axes():
            return self.writer.accesses.pointer(array)
        if expr.name not in self.kernel.all_variable_names():
            return expr.name
        return self.writer.rec(expr, enclosing_prec, self.writer.typer(expr))

    def map_call(self, expr: p.Call, enclosing_prec: int) -> str:
        """Write a call, or the address of a place."""
        if expr.function == p.Variable("&"):
            (place,) = expr.parameters
            if isinstance(place, KernelExpression) and place.is_address:
                return self.rec(place, enclosing_prec)
            element = place.expr if isinstance(place, KernelExpression) else None
            if isinstance(element, p.Subscript | LinearSubscript):
                text = f"&{self.writer.located(element)}"
            else:
                text = f"&{self.rec(place, PREC_CALL)}"
            return parenthesized(text, PREC_UNARY, enclosing_prec)
        symbol = expr.function
        name = symbol.name if isinstance(symbol, p.Variable) else self.rec(symbol, PREC_CALL)
        return f"{name}({', '.join(self.rec(o, PREC_NONE) for o in expr.parameters)})"


def assign_returned(
    writer: WriterContext, place: str, dtype: NumpyType, text: str, own: NumpyType
) -> cgen.Assign:
    """Assign the value that a call returns, of type *own*, to an assignee of type *dtype*."""
    if own != dtype:
        text = f"{text} != 0" if dtype.kind == "b" else writer.cast_text(text, own, dtype)
    return cgen.Assign(place, text)
