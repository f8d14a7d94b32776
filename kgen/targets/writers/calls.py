"""Calls of functions as C text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_CALL, PREC_NONE, PREC_PRODUCT, PREC_UNARY

from kgen.errors import CodegenError, counted, near_names
from kgen.ir.callables import ScalarCallable
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.functions import (
    BUILT_INS,
    SEVERAL,
    Function,
    LaneFunction,
    RandomFunction,
    RegisteredFunction,
    Reinterpretation,
    VectorMaker,
)
from kgen.ir.instruction import Assignment, CallInstruction
from kgen.ir.promotion import Literal, common, settle, without_opaque
from kgen.ir.types import FLOAT32, INT32, NumpyType
from kgen.targets.base import ComplexStyle
from kgen.targets.conversions import is_promoted_to_int, real_part
from kgen.targets.functions import C_FUNCTIONS, GNU_FUNCTIONS
from kgen.targets.lane_functions import lane_name
from kgen.targets.preamble import SeenFunction
from kgen.targets.writers.complex import stem
from kgen.targets.writers.complex_functions import INVERSES, inverse_need
from kgen.targets.writers.context import WriterContext
from kgen.targets.writers.helpers import (
    dot_product,
    find_helper,
    helper_name,
    helper_need,
    reinterpretation,
)
from kgen.targets.writers.indices import parenthesized
from kgen.targets.writers.negations import with_sign
from kgen.targets.writers.overloads import overloaded
from kgen.targets.writers.random123 import RandomWriter
from kgen.targets.writers.user_calls import UserCallWriter, assign_returned

__all__ = ["CallWriter", "is_statement"]

_WITH_RESULTS: Final = (RandomFunction, RegisteredFunction)


class CallWriter:
    """Writes the calls in the expressions of *writer*."""

    def __init__(self, writer: WriterContext) -> None:
        self.writer = writer
        self.target = writer.target

    @cached_property
    def users(self) -> UserCallWriter:
        """The writer of calls of user-defined functions."""
        return UserCallWriter(self.writer)

    def call(self, expr: p.Call, prec: int, beside: NumpyType) -> str:
        """Write a call of a known function, with arguments converted to its types."""
        name = expr.function.name if isinstance(expr.function, p.Variable) else "?"
        function = self.writer.typer.find(self.writer.kernel, name)
        if function is None:
            raise self._unknown(name, to_text(expr))
        dtypes = self._operand_types(function, expr, beside)
        if name in ("min", "max"):
            return self.extremum(name, expr.parameters, dtypes[0])
        if name in ("real", "imag", "conj", "abs") and not dtypes[0].is_complex():
            plain = self._of_real(name, expr.parameters[0], dtypes[0], prec)
            if plain is not None:
                return plain
        special = self._special(function, expr, dtypes, prec)
        if special is not None:
            return special
        return self._of_numbers(function, expr, dtypes, prec)

    def _special(
        self, function: Function, expr: p.Call, dtypes: tuple[NumpyType, ...], prec: int
    ) -> str | None:
        """Write a call that is not one of a numeric function by name; ``None`` for the others."""
        if isinstance(function, VectorMaker):
            return self._vector(function.vector, expr, dtypes)
        if isinstance(function, RegisteredFunction):
            return self.users.inside(function, expr, dtypes, prec)
        if isinstance(function, LaneFunction):
            return self._of_lane(function.name, expr, dtypes)
        if isinstance(function, Reinterpretation):
            return self._reinterpreted(function.wanted, expr, dtypes)
        if function.name == "select":
            other, value, choice = expr.parameters
            chosen = p.If(p.Comparison(choice, "!=", 0), value, other)
            return self.writer.converted(chosen, dtypes[0], prec)
        if function.name == "dot":
            return self._dot(expr, dtypes, *function.result(dtypes))
        return None

    def _of_numbers(
        self, function: Function, expr: p.Call, dtypes: tuple[NumpyType, ...], prec: int
    ) -> str:
        """Write a call of a numeric function, in float32 if there is none for 16 bits."""
        wide = tuple(map(self._computed_in, dtypes))
        if wide == dtypes:
            needs_type = function.name in BUILT_INS or any(map(is_promoted_to_int, dtypes))
            write = (
                self._overloaded if needs_type else partial(self.writer.converted, prec=PREC_NONE)
            )
            texts = list(map(write, expr.parameters, dtypes))
            return self.named(function.name, texts, dtypes[0], prec)
        text = self.named(function.name, self._converted(expr, wide), wide[0], PREC_UNARY)
        (result,), (given,) = function.result(dtypes), function.result(wide)
        return text if result == given else self.writer.cast_text(text, given, result, prec)

    def _computed_in(self, dtype: NumpyType) -> NumpyType:
        """Return the type whose functions compute those of *dtype*."""
        return FLOAT32 if dtype.is_half and not self.target.has_half_functions else dtype

    def of_texts(self, name: str, texts: Sequence[str], dtype: NumpyType) -> str:
        """Write a call with operands that are text, and a result, of one type."""
        wide = self._computed_in(dtype)
        if wide == dtype:
            return self.named(name, texts, dtype)
        cast = self.writer.cast_text
        text = self.named(name, [cast(text, dtype, wide) for text in texts], wide, PREC_UNARY)
        return cast(text, wide, dtype)

    def of_type(
        self, name: str, operands: Sequence[Expr], dtype: NumpyType, prec: int = PREC_CALL
    ) -> str:
        """Write a call with operands, and a result, of one type."""
        wide = self._computed_in(dtype)
        texts = [self.writer.converted(operand, wide, PREC_NONE) for operand in operands]
        if wide == dtype:
            is_helper = dtype.is_integral() and name != "pow"
            write = self.helper if is_helper else self.named
            return write(name, texts, dtype)
        text = self.named(name, texts, wide, PREC_UNARY)
        return self.writer.cast_text(text, wide, dtype, prec)

    def _vector(self, made: NumpyType, expr: p.Call, dtypes: tuple[NumpyType, ...]) -> str:
        """Write a vector value."""
        self.writer.type_name(made)
        vector = self.target.vector_of(made.dtype)
        assert vector is not None
        if is_promoted_to_int(dtypes[0]):  # C++ requires the exact type of numbers in braces
            return vector.value(
                self._overloaded(argument, dtype)
                for argument, dtype in zip(expr.parameters, dtypes, strict=True)
            )
        return vector.value(self._converted(expr, dtypes))

    def _reinterpreted(self, wanted: NumpyType, expr: p.Call, dtypes: tuple[NumpyType, ...]) -> str:
        """Reinterpret the bits of a number as another number."""
        (text,) = self._converted(expr, dtypes)
        if dtypes[0] == wanted:
            return text
        made = self.writer.type_name(wanted)
        if self.target.reinterprets:
            return f"as_{made}({self._overloaded(expr.parameters[0], dtypes[0])})"
        need = reinterpretation(self.target, dtypes[0], wanted)
        self.writer.preamble.add(need)
        return f"{need.key}({text})"

    def _dot(self, expr: p.Call, dtypes: tuple[NumpyType, ...], number: NumpyType) -> str:
        """Write the dot product of two vectors."""
        texts = ", ".join(self._converted(expr, dtypes))
        vector = self.target.vector_of(dtypes[0].dtype)
        if self.target.has_vector_arithmetic and vector is not None and len(vector.lanes) != 3:
            return f"dot({texts})"
        self.writer.type_name(dtypes[0])
        need = dot_product(self.target, dtypes[0], number)
        self.writer.preamble.add(need)
        return f"{need.key}({texts})"

    def _of_lane(self, name: str, expr: p.Call, dtypes: tuple[NumpyType, ...]) -> str:
        """Write the value of another lane; of a complex number, both parts in turn."""
        mask, value, distance = expr.parameters
        dtype = dtypes[1]
        masks = (
            [self.writer.converted(mask, dtypes[0], PREC_NONE)] if self.target.masks_lanes else []
        )
        last = self.writer.converted(distance, dtypes[2], PREC_NONE)
        if not dtype.is_complex():
            text = self.writer.converted(value, dtype, PREC_NONE)
            return self.named(name, [*masks, text, last], dtype)
        part = real_part(dtype)
        text = self.writer.converted(value, dtype, PREC_CALL)
        parts = (
            self.named(name, [*masks, f"{text}.{side}()", last], part) for side in ("real", "imag")
        )
        return f"{self.writer.type_name(dtype)}({', '.join(parts)})"

    def instruction(
        self, insn: Assignment | CallInstruction, places: Sequence[tuple[str, NumpyType]]
    ) -> list[cgen.Generable] | None:
        """Write a call whose results are stored to *places*; ``None`` if it has no such code.

        The types of places must be those of the results unless these are assigned: the first
        result of a function is its value, and it gets pointers to the places of the others.
        """
        expr = insn.expression
        name = expr.function.name if isinstance(expr.function, p.Variable) else "?"
        function = self.writer.typer.find(self.writer.kernel, name)
        if function is None or not (name in SEVERAL or isinstance(function, _WITH_RESULTS)):
            return None
        dtypes = self._operand_types(function, expr, INT32)
        # a function without declared result types stores the types of its places
        results = function.result(dtypes) or tuple(dtype for _, dtype in places)
        if isinstance(function, RegisteredFunction):
            text, is_returned = self.users.statement(function, insn, dtypes)
            stored = slice(1, None) if is_returned else slice(None)
            if places:
                self._reject_other_types(insn, places[stored], results[stored])
            if not is_returned:
                return [cgen.Statement(text)]
            return [assign_returned(self.writer, *places[0], text, results[0])]
        if name == "make_tuple":
            return self._assign_each(insn, places)
        self._reject_other_types(insn, places, results)
        names = [place for place, _ in places]
        if name == "sincos" and "sincos" not in self.target.functions.real:
            return self._sine_and_cosine(insn, names, dtypes)
        if isinstance(function, RandomFunction):
            writer = RandomWriter(self.writer, self.named)
            return [writer.draw(function.generator, expr.parameters, names)]
        texts = self._converted(expr, dtypes)
        pointers = [f"&{place}" for place in names[1:]]
        return [cgen.Assign(names[0], self.named(name, [*texts, *pointers], dtypes[0]))]

    def _sine_and_cosine(
        self,
        insn: Assignment | CallInstruction,
        names: Sequence[str],
        dtypes: tuple[NumpyType, ...],
    ) -> list[cgen.Generable]:
        """Write two calls, which compilers combine into one."""
        if insn.assignee_var_names()[0] in variable_names(*insn.expression.parameters):
            raise CodegenError(
                "the sine is assigned before the cosine of the same argument is computed",
                where=to_text(insn.expression),
                hint="assign it to a temporary first: <> s, c[i] = sincos(...)",
            )
        texts = self._converted(insn.expression, dtypes)
        return [
            cgen.Assign(place, self.named(function, texts, dtypes[0]))
            for place, function in zip(names, ("sin", "cos"), strict=True)
        ]

    def _assign_each(
        self, insn: Assignment | CallInstruction, places: Sequence[tuple[str, NumpyType]]
    ) -> list[cgen.Generable]:
        """Write ``a, b = make_tuple(x, y)`` as an assignment to each place, one after the other."""
        operands = insn.expression.parameters
        if len(operands) != len(places):
            raise CodegenError(
                f"{counted(len(operands), 'value')} cannot be assigned to "
                f"{counted(len(places), 'place')}",
                where=to_text(insn.expression),
            )
        names = insn.assignee_var_names()
        for k, operand in enumerate(operands):
            overwritten = {*names[:k]}.intersection(variable_names(operand))
            if overwritten:
                raise CodegenError(
                    f"'{min(overwritten)}' is assigned before '{to_text(operand)}' is evaluated",
                    where=to_text(insn.expression),
                    hint="assign the values to temporaries first: <> a = ...",
                )
        return [
            cgen.Assign(place, self.writer.converted(operand, dtype, PREC_NONE))
            for (place, dtype), operand in zip(places, operands, strict=True)
        ]

    def _reject_other_types(
        self,
        insn: Assignment | CallInstruction,
        places: Sequence[tuple[str, NumpyType]],
        results: Sequence[NumpyType],
    ) -> None:
        """Reject places whose types differ from the results that are stored there."""
        for (place, dtype), result in zip(places, results, strict=True):
            if dtype != result:
                raise CodegenError(
                    f"'{place}' is {dtype.dtype}, but '{insn.expression.function}' stores "
                    f"{result.dtype} there",
                    where=to_text(insn.expression),
                    hint="assign the results to temporaries first: <> a, <> b = ...",
                )

    def _converted(self, expr: p.Call, dtypes: tuple[NumpyType, ...]) -> list[str]:
        return [
            self.writer.converted(argument, dtype, PREC_NONE)
            for argument, dtype in zip(expr.parameters, dtypes, strict=True)
        ]

    def _operand_types(
        self, function: Function, expr: p.Call, beside: NumpyType
    ) -> tuple[NumpyType, ...]:
        """Return the types that the arguments are converted to."""
        typer = self.writer.typer
        operands = [typer.operand(argument) for argument in expr.parameters]
        if function.fixed is not None or not operands:
            return function.types_for(function.settled(operands))[0]
        numbers = without_opaque(operands)
        known = [operand for operand in numbers if not isinstance(operand, Literal)]
        if known:
            nearby = settle(common(*known))
        elif function.adapts:
            nearby = typer.beside(expr, beside)
        else:
            nearby = settle(common(*numbers))
        return function.types_for(function.adapted(operands, nearby))[0]

    def _of_real(self, name: str, operand: Expr, dtype: NumpyType, prec: int) -> str | None:
        """Write an operation on a real operand that needs no call."""
        if name == "imag":
            return self.writer.converted(0, dtype, prec)
        if name == "abs" and dtype.kind not in "ub":
            return None
        return self.writer.converted(operand, dtype, prec)

    def _overloaded(self, operand: Expr, dtype: NumpyType) -> str:
        """Write an argument of an overloaded function."""
        return overloaded(self.writer, operand, dtype, PREC_NONE)

    def extremum(self, name: str, operands: Sequence[Expr], dtype: NumpyType) -> str:
        """Write the smallest or largest of any number of operands."""
        wide = self._computed_in(dtype)
        texts = [self._overloaded(operand, wide) for operand in operands]
        if wide == INT32:
            texts = list(map(self.with_sign, operands, texts))
        result = texts[0]
        for text in texts[1:]:
            result = self.named(name, (result, text), wide)
        return result if wide == dtype else self.writer.cast_text(result, wide, dtype)

    def with_sign(self, operand: Expr, text: str) -> str:
        """Return the text of a 32-bit operand of a minimum such that compilers keep its sign."""
        return with_sign(self.target, self.writer.preamble, self.writer.kernel, operand, text)

    def named(
        self, name: str, texts: Sequence[str], dtype: NumpyType, prec: int = PREC_CALL
    ) -> str:
        """Write a call; *dtype* is the type of the first of the arguments, which match."""
        pattern = self._pattern(name, dtype)
        if pattern is None or (name == "pow" and dtype.is_complex()):
            return self.helper(name, texts, dtype)
        spelled = pattern.format(f="f" if _is_single(dtype) else "", t=stem(dtype))
        dtypes = (dtype,) * len(texts)
        seen = SeenFunction(name, spelled, dtypes, self._result_types(name, dtypes))
        self.writer.preamble.seen_functions.add(seen)
        if self.writer.site.in_lanes and (need := self.target.lane_function(spelled)):
            self.writer.preamble.add(need)
            spelled = lane_name(spelled)
        return parenthesized(f"{spelled}({', '.join(texts)})", _precedence_of(spelled), prec)

    def _result_types(self, name: str, dtypes: tuple[NumpyType, ...]) -> tuple[NumpyType, ...]:
        function = self.writer.typer.find(self.writer.kernel, name)
        return dtypes[:1] if function is None else function.result(dtypes)

    def helper(self, name: str, texts: Sequence[str], dtype: NumpyType) -> str:
        """Write a call of a helper function, which is defined before the code."""
        has_inverses = self.target.complex_style is not ComplexStyle.BUILTIN
        if has_inverses and dtype.is_complex() and name in INVERSES:
            self.writer.type_name(dtype)
            self.writer.preamble.add(inverse_need(self.target, name, dtype))
            return f"{helper_name(name, dtype)}({', '.join(texts)})"
        if find_helper(self.target, name, dtype) is None:
            raise self._unknown(name, f"{name}({', '.join(texts)})", dtype)
        self.writer.type_name(dtype)
        if dtype.kind == "f":
            self.writer.preamble.add(*self.target.math_needs)
        self.writer.preamble.add(helper_need(self.target, name, dtype))
        return f"{helper_name(name, dtype)}({', '.join(texts)})"

    def _pattern(self, name: str, dtype: NumpyType) -> str | None:
        functions, preamble = self.target.functions, self.writer.preamble
        self.writer.type_name(dtype)
        if dtype.is_complex():
            pattern = functions.complex.get(name)
        elif dtype.is_integral() and name in ("abs", "max", "min", "mul_hi", "pow"):
            pattern = functions.integer.get(name, {}).get(dtype.dtype.name)
        else:
            pattern = functions.real.get(name)
            preamble.add(*self.target.math_needs)
        preamble.add(*functions.needs.get(pattern or "", ()))
        return pattern

    def _unknown(self, name: str, call: str, dtype: NumpyType | None = None) -> CodegenError:
        of_type = "" if dtype is None else f" of {dtype.dtype}"
        functions = self.target.functions
        known = functions.real if dtype is None or not dtype.is_complex() else functions.complex
        if functions is C_FUNCTIONS and name in GNU_FUNCTIONS.real:
            of_type = ""
            hint = "GNU's library has it: choose ExecutableCWithGNULibcTarget() or "
            hint += "CWithGNULibcTarget() as target"
        else:
            hint = near_names(name, known)
        return CodegenError(
            f"{self.target.language} has no function '{name}'{of_type}", where=call, hint=hint
        )


def is_statement(writer: WriterContext, expr: Expr) -> bool:
    """Tell whether *expr* calls a user-defined function that writes its own statements."""
    if not isinstance(expr, p.Call) or not isinstance(expr.function, p.Variable):
        return False
    function = writer.typer.find(writer.kernel, expr.function.name)
    return isinstance(function, RegisteredFunction) and (
        type(function.registered).emit_call_insn is not ScalarCallable.emit_call_insn
    )


def _precedence_of(spelled: str) -> int:
    """Return the precedence of the operator that precedes the name of a function."""
    if " " not in spelled:
        return PREC_CALL
    if spelled.startswith("("):
        return PREC_UNARY
    return PREC_PRODUCT if " / " in spelled else PREC_NONE + 1


def _is_single(dtype: NumpyType) -> bool:
    return dtype.dtype.name in ("float32", "complex64")
