"""Typed expressions as C text with numpy's semantics."""

from __future__ import annotations

import cmath
from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper import Mapper
from pymbolic.mapper.stringifier import (
    PREC_BITWISE_OR,
    PREC_CALL,
    PREC_COMPARISON,
    PREC_IF,
    PREC_LOGICAL_AND,
    PREC_LOGICAL_OR,
    PREC_NONE,
    PREC_PRODUCT,
    PREC_SUM,
    PREC_UNARY,
)

from kgen.analysis.range import Ranges, Sizes
from kgen.analysis.signs import Signs
from kgen.analysis.typing import ExpressionTyper
from kgen.ast.nodes import DeviceFunction
from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.data import ArrayArg
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    TaggedVariable,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
    is_constant,
    substitute,
    to_text,
    variable_names,
)
from kgen.ir.integer_values import integer_operands
from kgen.ir.promotion import Literal, common, settle
from kgen.ir.sets.interval import Interval
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import UseStreamingLoadTag
from kgen.ir.types import BOOL8, INT32, INT64, NumpyType
from kgen.ir.vector_values import lane_of, numbers_of
from kgen.targets.base import CFamilyLanguage, ComplexStyle
from kgen.targets.conversions import is_promoted_to_int, real_part
from kgen.targets.preamble import Preamble
from kgen.targets.vector_types import VectorType
from kgen.targets.writers.access import AccessWriter
from kgen.targets.writers.calls import CallWriter
from kgen.targets.writers.chains import chain_text, truncated
from kgen.targets.writers.complex import cast_complex, stem
from kgen.targets.writers.constants import decided, evaluated, integer_constant
from kgen.targets.writers.index_parts import IndexParts
from kgen.targets.writers.indices import IntegerWriter, parenthesized
from kgen.targets.writers.literals import digits_type, literal, typed_integer
from kgen.targets.writers.negations import is_extremum_of_branches
from kgen.targets.writers.site import EmissionSite, HardwareIndices
from kgen.targets.writers.terms import signed_terms

__all__ = ["ExpressionWriter"]

#: The largest exponent written as a product, and the most operands that its base may have.
_UNROLLED_POWERS: Final = 4
_OPERANDS_OF_BASE: Final = 8
#: The helper functions for powers of bases that should be evaluated only once.
_POWERS: Final = {2: "square", 3: "cube", 4: "fourth_power"}
#: Operations whose result may exceed the range of a type narrower than int.
_CHANGING: Final = (p.Sum, p.Product, p.LeftShift, p.BitwiseNot)
_BYTE: Final = NumpyType(np.dtype(np.uint8))
#: The precedence of operators that are always parenthesized as operands, to avoid surprises in C.
_LOOSE: Final = PREC_NONE + 1


class ExpressionWriter(Mapper[str, [int, NumpyType]]):
    """Writes the expressions of one kernel.

    ``rec(expr, prec, beside)`` is the text of *expr* as an operand of an operator of
    precedence *prec*; Python numbers in it adapt to the type *beside*. The C expression has the
    type ``typer.beside(expr, beside)``; operands are cast where C would compute in another type
    than numpy.
    """

    def __init__(self, kernel: DeviceKernel, target: CFamilyLanguage, preamble: Preamble) -> None:
        self.kernel = kernel
        self.target = target
        self.preamble = preamble
        self.typer = ExpressionTyper(kernel)
        indices = HardwareIndices(target.group_index, target.local_index)
        self.site = EmissionSite(Signs(kernel), Sizes.of(kernel), indices)
        ranges = Ranges.of(kernel)
        self.integers = IntegerWriter(target, self.site, ranges, preamble, self._plain, self.typer)
        self.accesses = AccessWriter(kernel, self.integers, self.site)
        #: The text and precedence of each Python number beside a type, except 0 and -0.0.
        self._numbers: dict[tuple[type[Any], Any, NumpyType], tuple[str, int]] = {}
        self._type_names: dict[NumpyType, str] = {}
        self._base: Self | None = None
        self._statements: dict[frozenset[str], Self] = {}

    def at(self, site: EmissionSite) -> Self:
        """Return the writer of the expressions at another site."""
        if site is self.site:
            return self
        if site.values:
            return self.at(site.with_values({}))._with_values(site.values)
        writer = self._new(site)
        writer.integers = self.integers.at(site, writer._plain)
        writer.accesses = self.accesses.at(site, writer.integers)
        return writer

    def statement(
        self, site: EmissionSite, inames: frozenset[str], values: Mapping[str, Expr]
    ) -> Self:
        """Return the writer of a statement at *site*, inside *inames* with the given *values*."""
        writer = self._statements.get(inames) if site is self.site else None
        if writer is None:
            writer = self.at(site.statement(inames))
            if site is self.site:
                self._statements[inames] = writer
        return writer._with_values(values) if values else writer

    def _with_values(self, values: Mapping[str, Expr]) -> Self:
        """Return a writer that substitutes *values* for loop variables in subscripts and bounds."""
        writer = self._new(self.site.with_values(values))
        writer.accesses = self.accesses.at(writer.site, self.integers)
        writer._base = self  # keeps the base alive: its integer writer only refers to it weakly
        return writer

    def _new(self, site: EmissionSite) -> Self:
        writer = self.__class__.__new__(self.__class__)
        writer.__dict__.update(self.__dict__, site=site, _statements={})
        return writer

    def for_function(self, function: DeviceFunction | None) -> Self:
        """Return the writer of the expressions of a function; ``None`` means the host function."""
        streaming = frozenset() if function is None else self._streaming(function)
        return self.at(self.site._replace(streaming=streaming)) if streaming else self

    def _streaming(self, function: DeviceFunction) -> frozenset[str]:
        """Return the arrays that *function* reads by streaming loads.

        It must not write them, under any name, since nvcc moves some of these loads over stores.
        """
        if self.target.streaming_load is None or not self.kernel.options.restrict:
            return frozenset()
        insns = [self.kernel.id_to_insn[name] for name in function.insn_ids]
        written = {name for insn in insns for name in insn.assignee_var_names()}
        return frozenset(
            arg.name
            for arg in self.kernel.args
            if isinstance(arg, ArrayArg)
            and arg.tags_of_type(UseStreamingLoadTag)
            and arg.name not in written
            and arg.shape != ()
            and self.target.has_streaming_load(arg.dtype.dtype)
        )

    def divergent(self, site: EmissionSite, *conditions: Expr) -> EmissionSite:
        """Return the site of statements whose guards or trip counts are *conditions* at *site*."""
        return site

    @property
    def calls(self) -> CallWriter:
        """The writer of calls."""
        return CallWriter(self)

    @property
    def indices(self) -> IndexParts:
        """The finder of index parts of expressions."""
        return IndexParts(self.integers, self.site)

    def __call__(self, expr: Expr, prec: int, beside: NumpyType) -> str:
        """Write *expr*; types without a method of their own use the slower general dispatch."""
        method = getattr(self, getattr(expr, "mapper_method", "map_foreign"), None)
        if method is None:
            return super().__call__(expr, prec, beside)
        text: str = method(expr, prec, beside)
        return text

    rec = __call__

    # -- entry ----------------------------------------------------------------------------

    def declared_type(self, name: str, dtype: NumpyType) -> str:
        """Return the type with which a variable of the generated code is declared."""
        return self.type_name(dtype)

    def place(self, expr: Expr, value: Expr, dtype: NumpyType) -> str:
        """Write the left-hand side of an assignment of *value*, of type *dtype*."""
        return self.rec(expr, PREC_NONE, dtype)

    def located(self, access: p.Subscript | LinearSubscript) -> str:
        """Write an element whose address is taken."""
        if assignee_name(access) in self.site.streaming:
            return self.accesses.element(access)
        return self.rec(access, PREC_CALL, self.typer(access))

    def loaded(self, name: str, pointer: str, vector: VectorType | None = None) -> str:
        """Write a load of what *pointer*, to elements of an array, points to: maybe a *vector*."""
        if name not in self.site.streaming:
            return f"*{pointer}"
        if vector is None or not vector.needs:
            return f"{self.target.streaming_load}({pointer})"
        need = self.target.streaming_load_of_parts
        assert need is not None
        self.preamble.add(need)
        return f"{need.key}<int{vector.alignment // 4}>({pointer})"

    def streamed(self, place: Expr, value: Expr, dtype: NumpyType) -> str | None:
        """Write a streaming store; ``None`` if the language has none for this left-hand side."""
        texts = self.rec(place, PREC_NONE, dtype), self.assigned(value, dtype)
        return f"{self.target.streaming_store}(&{texts[0]}, {texts[1]})"

    def operand_of_atomic(self, expr: Expr, dtype: NumpyType) -> str:
        """Write the operand that a work-item passes to an atomic function."""
        return self.converted(expr, dtype, PREC_NONE)

    def type_name(self, dtype: NumpyType) -> str:
        """Return the name of a type, and record the headers that it needs."""
        name = self._type_names.get(dtype)
        if name is None:
            self.preamble.seen_dtypes.add(dtype)
            self.preamble.add(*self.target.needs_of(dtype.dtype))
            name = self.target.type_name(dtype, kernel=self.kernel.name)
            self._type_names[dtype] = name
        return name

    def assigned(self, expr: Expr, dtype: NumpyType) -> str:
        """Write *expr* as the right-hand side of an assignment, which converts to *dtype*."""
        if dtype.kind == "V" and is_constant(expr):  # the initial value of a reduction
            return self._vector_of(expr, dtype)
        own = self.own_type(expr, dtype)
        if own.is_complex() or dtype.is_complex():
            return self.cast(expr, own, dtype, PREC_NONE)
        if dtype.kind == "b" and own.is_half:
            return self.cast(expr, own, dtype, PREC_NONE)
        if dtype.kind == "b" and own not in (dtype, BOOL8):
            return f"{self.rec(expr, PREC_BITWISE_OR, own)} != 0"
        return self.rec(expr, PREC_UNARY if self.is_cut(expr, own, dtype) else PREC_NONE, dtype)

    def is_cut(self, expr: Expr, own: NumpyType, dtype: NumpyType) -> bool:
        """Tell whether *expr* must be truncated to its type before it is converted to *dtype*."""
        while isinstance(expr, TypeCast):
            expr = expr.child
        is_wider = is_promoted_to_int(own) and dtype.itemsize > own.itemsize
        return is_wider and isinstance(expr, _CHANGING)

    def _vector_of(self, number: Any, dtype: NumpyType) -> str:
        """Write a vector whose components all equal *number*."""
        numbers, vector = numbers_of(dtype.dtype), self.target.vector_of(dtype.dtype)
        assert numbers is not None
        assert vector is not None
        base, count = numbers
        return vector.value([self._literal(number, NumpyType(base), PREC_NONE)] * count)

    def condition(self, expr: Expr) -> str:
        """Write *expr* as the condition of a branch."""
        return self.truth(expr, PREC_NONE)

    def truth(self, expr: Expr, prec: int) -> str:
        """Write *expr* as an operand in a boolean context: any nonzero value is true."""
        own = self.own_type(expr, INT32)
        if own.is_integral():
            return self.rec(expr, prec, INT32)
        return self.truth(p.Comparison(expr, "!=", 0), prec)

    def own_type(self, expr: Expr, beside: NumpyType) -> NumpyType:
        """Return the type of the text of *expr* beside a type.

        Operations on real numbers stay real beside a complex one: ``2.0f / 3.0f * z``.
        """
        if beside.kind != "c" or (is_constant(expr) and not isinstance(expr, _REAL)):
            return self.typer.beside(expr, beside)
        operand = self.typer.operand(expr)
        is_real = isinstance(operand, Literal) and operand.kind != "c"
        return self.typer.beside(expr, real_part(beside) if is_real else beside)

    def converted(self, expr: Expr, wanted: NumpyType, prec: int) -> str:
        """Write *expr* with a cast to *wanted* unless that is its type."""
        return self.cast(expr, self.own_type(expr, wanted), wanted, prec)

    def text_type(self, expr: Expr, own: NumpyType) -> NumpyType:
        """Return the type of the text of *expr* in the target language; its kgen type is *own*.

        An integer literal that fits has the type int, whatever the type of the number.
        """
        value = integer_constant(expr) if own.is_integral() else None
        return own if value is None else digits_type(value, own)

    def exact(self, expr: Expr, wanted: NumpyType, prec: int) -> str:
        """Write *expr* as an operand whose type is *wanted* in the target language, too."""
        value = integer_constant(expr) if wanted.is_integral() else None
        if value is None or is_promoted_to_int(wanted) or digits_type(value, wanted) == wanted:
            return self.converted(expr, wanted, prec)
        self.type_name(wanted)
        return parenthesized(*typed_integer(self.target, value, wanted), prec)

    def cast(self, expr: Expr, own: NumpyType, wanted: NumpyType, prec: int) -> str:
        """Write *expr*, which is of type *own*, converted to the type *wanted*."""
        if own == wanted:
            return self.rec(expr, prec, own)
        if wanted.kind == "b":
            return self.rec(p.Comparison(expr, "!=", 0), prec, wanted)
        if is_constant(expr) and (wanted.is_complex() or not isinstance(expr, complex)):
            return self._literal(expr, wanted, prec)
        text = self.rec(expr, PREC_UNARY, own)
        return self.cast_text(text, own, wanted, prec)

    def cast_text(
        self, text: str, own: NumpyType, wanted: NumpyType, prec: int = PREC_UNARY
    ) -> str:
        """Convert *text*, an operand of type *own*, to the type *wanted*."""
        name = self.type_name(wanted)
        if own.is_complex() or wanted.is_complex():
            return parenthesized(*cast_complex(self.target, text, own, wanted), prec)
        return parenthesized(f"({name}) {text}", PREC_UNARY, prec)

    def _plain(self, expr: Expr, prec: int) -> str:
        """Write a part of an integer expression in which loop variables are already substituted."""
        return self.rec(expr, prec, INT32)

    # -- leaves ---------------------------------------------------------------------------

    def map_constant(self, expr: Any, enclosing_prec: int, beside: NumpyType) -> str:
        if not expr or type(expr) not in _REAL:
            return self._literal(expr, self.own_type(expr, beside), enclosing_prec)
        key = type(expr), expr, beside
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = self._constant(expr, self.own_type(expr, beside))
        return parenthesized(*known, enclosing_prec)

    def map_typed_literal(self, expr: TypedLiteral, enclosing_prec: int, beside: NumpyType) -> str:
        return self._literal(expr.value, expr.type, enclosing_prec)

    def map_nan(self, expr: p.NaN, enclosing_prec: int, beside: NumpyType) -> str:
        return self._literal(float("nan"), self.typer.beside(expr, beside), enclosing_prec)

    def _literal(self, value: Any, dtype: Any, prec: int) -> str:
        return parenthesized(*self._constant(value, dtype), prec)

    def _constant(self, value: Any, dtype: Any) -> tuple[str, int]:
        """Write a number as a *dtype*: the text and its precedence."""
        self.type_name(dtype)
        written = literal(self.target, value, dtype)
        if not cmath.isfinite(value):
            self.preamble.add(*self.target.math_needs)
        return written

    def map_variable(self, expr: p.Variable, enclosing_prec: int, beside: NumpyType) -> str:
        name = expr.name
        if name in self.site.values:
            return self._value(expr, self.site.values[name], enclosing_prec)
        array = self.kernel.array_vars.get(name)
        if array is not None:
            if self.site.texts and expr in self.site.texts:
                return self.site.texts[expr]
            return self.accesses.scalar(array)
        if self.kernel.symbol_manglers and name not in self.kernel.all_variable_names():
            found = self.kernel.mangled_symbol(name)
            return name if found is None else found[1]
        return name

    def _value(self, variable: p.Variable, value: Expr, prec: int) -> str:
        """Write the value of a loop variable, in the variable's type."""
        dtype = self.typer(variable)
        if dtype == INT64:  # its operands, such as hardware axes, may be narrower
            return self.integers.text(value, prec, wide=True)
        if not self.integers.overflows(value):
            return self.integers.text(value, prec)
        return self.cast_text(self.integers.text(value, PREC_UNARY, wide=True), INT64, dtype, prec)

    def map_tagged_variable(
        self, expr: TaggedVariable, enclosing_prec: int, beside: NumpyType
    ) -> str:
        return self.map_variable(expr, enclosing_prec, beside)

    def map_subscript(self, expr: p.Subscript, enclosing_prec: int, beside: NumpyType) -> str:
        if self.site.texts and expr in self.site.texts:
            return self.site.texts[expr]
        if expr.index == ():
            name = assignee_name(expr)
            if name not in self.kernel.array_vars:  # x[()] where x is a scalar
                return self.map_variable(p.Variable(name), enclosing_prec, beside)
        return self._element(expr)

    def map_linear_subscript(
        self, expr: LinearSubscript, enclosing_prec: int, beside: NumpyType
    ) -> str:
        if self.site.texts and expr in self.site.texts:
            return self.site.texts[expr]
        return self._element(expr)

    def _element(self, access: p.Subscript | LinearSubscript) -> str:
        """Write an element that is read or written.

        In lanes, a ``bool`` is written as a byte, which gcc can vectorize.
        """
        text = self.accesses.element(access)
        name = assignee_name(access)
        if name in self.site.streaming:
            vector = self.target.vector_of(self.kernel.array_vars[name].dtype.dtype)
            return self.loaded(name, f"&{text}", vector)
        if not self.site.in_lanes or self.kernel.array_vars[name].dtype != BOOL8:
            return text
        is_written = name in self.kernel.get_written_variables()
        return f"*({self.type_name(_BYTE)} {'' if is_written else 'const '}*) &{text}"

    def map_group_hardware_axis_index(
        self, expr: Expr, enclosing_prec: int, beside: NumpyType
    ) -> str:
        return self.integers.text(expr, enclosing_prec)

    map_local_hardware_axis_index = map_group_hardware_axis_index

    def map_type_cast(self, expr: TypeCast, enclosing_prec: int, beside: NumpyType) -> str:
        wanted = expr.type
        assert isinstance(wanted, NumpyType)
        return self.cast(expr.child, self.own_type(expr.child, wanted), wanted, enclosing_prec)

    def map_lookup(self, expr: p.Lookup, enclosing_prec: int, beside: NumpyType) -> str:
        dtype = self.typer.beside(expr.aggregate, beside).dtype
        vector = self.target.vector_of(dtype)
        field = expr.name if vector is None else vector.lanes[lane_of(dtype, expr.name)]
        return f"{self.rec(expr.aggregate, PREC_CALL, beside)}.{field}"

    # -- arithmetic -----------------------------------------------------------------------

    def _number(self, expr: Expr, result: NumpyType) -> int | None:
        """Return the value of an expression of Python integers that is computed as in Python.

        Beside a real number, for example, ``1 // 3`` is 0.0; beside a uint8, ``300 - 50`` is 250.
        """
        operand = self.typer.operand(expr)
        if not isinstance(operand, Literal):
            return None
        if result.is_integral() and self._fits(expr, result):
            return None
        value = operand.value if result.is_integral() else evaluated(expr, {})
        return value if isinstance(value, int) else None

    def _fits(self, expr: Expr, dtype: NumpyType) -> bool:
        """Tell whether *dtype* holds an expression of Python integers, and all its operands."""
        operand = self.typer.operand(expr)
        value = operand.value if isinstance(operand, Literal) else None
        limits = np.iinfo(dtype.dtype)
        if not isinstance(value, int):
            return True
        return limits.min <= value <= limits.max and all(
            self._fits(part, dtype) for part in integer_operands(expr)
        )

    def _number_text(self, expr: Expr, result: NumpyType, prec: int) -> str | None:
        """Write an operation on Python integers that is an integer itself."""
        number = self._number(expr, result) if result.is_integral() else None
        return None if number is None else self._literal(number, result, prec)

    def _whole_text(self, expr: Expr, result: NumpyType, prec: int) -> str | None:
        """Write a sum or product that is a number, or a part of an index."""
        text = self._number_text(expr, result, prec)
        index = self.indices.index(expr) if text is None and result == INT32 else None
        return text if index is None else self.integers.text(index, prec)

    def map_sum(self, expr: p.Sum, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        text = self._whole_text(expr, result, enclosing_prec)
        if text is not None:
            return text
        first, *terms = signed_terms(self.indices.led_by_index(_unnested(expr)))
        parts = [("-" if first[0] else "", first[1])]
        parts += [("-" if is_negative else "+", term) for is_negative, term in terms]
        return chain_text(self, parts, result, PREC_SUM, enclosing_prec)

    def map_product(self, expr: p.Product, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        text = self._whole_text(expr, result, enclosing_prec)
        if text is not None:
            return text
        ((is_negative, positive),) = signed_terms((expr,))
        is_whole = is_negative and expr.children[0] == -1 and len(expr.children) == 2
        is_chain = isinstance(positive, p.Product) and not is_whole  # -(a*b) is not (-a)*b
        first, *rest = positive.children if is_chain else (positive,)
        parts = [("-" if is_negative else "", first), *(("*", factor) for factor in rest)]
        if len(rest) == 1 and isinstance(first, float) and first == 1:
            parts, rest = [("", rest[0])], []
        only = None if rest else result  # 1.0*i is real although i is an integer
        return chain_text(self, parts, result, PREC_PRODUCT, enclosing_prec, first_as=only)

    def map_quotient(self, expr: p.Quotient, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        operands = (expr.numerator, expr.denominator)
        are_integers = all(self.own_type(part, result).is_integral() for part in operands)
        parts = [("", expr.numerator), ("/", expr.denominator)]
        return chain_text(
            self,
            parts,
            result,
            PREC_PRODUCT,
            enclosing_prec,
            first_as=result if are_integers else None,
        )

    def map_floor_div(self, expr: p.FloorDiv, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        number = self._number(expr, result)
        if number is not None:
            return self._literal(number, result, enclosing_prec)
        return self._divided(expr, "/", "floor_div", enclosing_prec, result)

    def map_remainder(self, expr: p.Remainder, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        text = self._number_text(expr, result, enclosing_prec)
        if text is not None:
            return text
        return self._divided(expr, "%", "mod", enclosing_prec, result)

    def _divided(self, expr: Any, sign: str, helper: str, prec: int, result: NumpyType) -> str:
        operands = (expr.numerator, expr.denominator)
        index = self.indices.known_quotient(expr) if result == INT32 else None
        if index is not None:
            return self.integers.text(index, prec)
        index = self.indices.long_quotient(expr) if result == INT32 else None
        if index is not None:
            text = self.integers.text(index, PREC_UNARY, wide=True)
            return self.cast_text(text, INT64, INT32, prec)
        if result.kind == "u" or (
            result.is_integral() and self.site.signs.divides_as_in_c(*operands, self.site.inames)
        ):
            return self._divided_by_c(expr, sign, prec, result)
        return self.calls.of_type(helper, operands, result, prec)

    def map_trunc_quotient(
        self, expr: TruncQuotient, enclosing_prec: int, beside: NumpyType
    ) -> str:
        return self._divided_by_c(expr, "/", enclosing_prec, self.typer.beside(expr, beside))

    def map_trunc_remainder(
        self, expr: TruncRemainder, enclosing_prec: int, beside: NumpyType
    ) -> str:
        return self._divided_by_c(expr, "%", enclosing_prec, self.typer.beside(expr, beside))

    def _divided_by_c(self, expr: Any, sign: str, prec: int, result: NumpyType) -> str:
        parts = [("", expr.numerator), (sign, expr.denominator)]
        return chain_text(self, parts, result, PREC_PRODUCT, prec)

    def map_power(self, expr: p.Power, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        text = self._number_text(expr, result, enclosing_prec)
        if text is not None:
            return text
        exponent: Any = expr.exponent
        if result.is_complex() and is_constant(exponent) and exponent == 0:
            return self.exact(1, result, enclosing_prec)
        if isinstance(exponent, int | np.integer) and abs(int(exponent)) <= _UNROLLED_POWERS:
            is_real = not result.is_integral()
            exponent = int(exponent)
            # for a complex 0, the power functions return NaN
            is_cheap = abs(exponent) == 1 or result.is_complex()
            is_cheap = is_cheap or _count_operands(expr.base) <= _OPERANDS_OF_BASE
            if is_cheap and (exponent > 0 or (is_real and exponent < 0)):
                factors = (expr.base,) * abs(exponent)
                if exponent == 1:
                    return self.exact(expr.base, result, enclosing_prec)
                product: Expr = p.Product(factors) if len(factors) > 1 else expr.base
                whole = product if exponent > 0 else p.Quotient(1, product)
                return self.rec(whole, enclosing_prec, result)
            if is_real and exponent < 0:
                positive = p.Power(expr.base, -exponent)
                return self.rec(p.Quotient(1, positive), enclosing_prec, result)
            if exponent > 0 and result.kind in "iuf":
                base = self.converted(expr.base, result, PREC_NONE)
                return self.calls.helper(_POWERS[exponent], (base,), result)
        return self.calls.of_type("pow", (expr.base, exponent), result, enclosing_prec)

    # -- bits -----------------------------------------------------------------------------

    def map_left_shift(self, expr: p.LeftShift, enclosing_prec: int, beside: NumpyType) -> str:
        return self._shifted(expr, "<<", enclosing_prec, beside)

    def map_right_shift(self, expr: p.RightShift, enclosing_prec: int, beside: NumpyType) -> str:
        return self._shifted(expr, ">>", enclosing_prec, beside)

    def _shifted(self, expr: Any, sign: str, prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        number = self._number(expr, result)
        if number is not None:
            return self._literal(number, result, prec)
        bits = self.exact(expr.shiftee, result, PREC_UNARY)
        text = f"{bits} {sign} {self.rec(expr.shift, PREC_UNARY, INT32)}"
        return truncated(self, text, result, _LOOSE, prec)

    def map_bitwise_and(self, expr: p.BitwiseAnd, enclosing_prec: int, beside: NumpyType) -> str:
        return self._bitwise(expr, "&", enclosing_prec, beside)

    def map_bitwise_or(self, expr: p.BitwiseOr, enclosing_prec: int, beside: NumpyType) -> str:
        return self._bitwise(expr, "|", enclosing_prec, beside)

    def map_bitwise_xor(self, expr: p.BitwiseXor, enclosing_prec: int, beside: NumpyType) -> str:
        return self._bitwise(expr, "^", enclosing_prec, beside)

    def _bitwise(self, expr: Any, sign: str, prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        number = self._number(expr, result)
        if number is not None:
            return self._literal(number, result, prec)
        first, *rest = expr.children
        parts = [("", first), *((sign, child) for child in rest)]
        text = chain_text(self, parts, result, PREC_UNARY, PREC_NONE)
        return parenthesized(text, _LOOSE, prec)

    def map_bitwise_not(self, expr: p.BitwiseNot, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        number = self._number(expr, result)
        if number is not None:
            return self._literal(number, result, enclosing_prec)
        text = "~" + self.exact(expr.child, result, PREC_UNARY)
        return truncated(self, text, result, PREC_UNARY, enclosing_prec)

    # -- conditions -----------------------------------------------------------------------

    def map_comparison(self, expr: p.Comparison, enclosing_prec: int, beside: NumpyType) -> str:
        sides, indices = (expr.left, expr.right), self.indices
        if all(indices.is_plain(side) for side in sides):
            texts = (
                self.integers.text(side, PREC_BITWISE_OR, wide=self.integers.overflows(side))
                for side in sides
            )
            text = f" {expr.operator} ".join(texts)
            return parenthesized(text, PREC_COMPARISON, enclosing_prec)
        joined = settle(common(*(self.typer.operand(side) for side in sides)))
        if joined.is_complex():
            return self._complex_comparison(expr, joined, enclosing_prec)
        write = [self.converted, self.converted]
        types = [self.own_type(side, joined) for side in sides]
        seen = [self.text_type(side, dtype) for side, dtype in zip(sides, types, strict=True)]
        if not self.target.conversions.fit(seen[0], seen[1], joined):
            at = 0 if seen[0] != joined else 1
            types[at], write[at] = joined, self.exact
        if not self.target.conversions.mixes(*seen):
            types, write = [joined, joined], [self.exact, self.exact]
        left, right = (
            self.integers.text(substitute(side, self.site.values), PREC_BITWISE_OR, wide=True)
            if dtype == INT32 and indices.may_overflow(side)
            else write_side(side, dtype, PREC_BITWISE_OR)
            for side, dtype, write_side in zip(sides, types, write, strict=True)
        )
        return parenthesized(f"{left} {expr.operator} {right}", PREC_COMPARISON, enclosing_prec)

    def _complex_comparison(self, expr: p.Comparison, joined: NumpyType, prec: int) -> str:
        if self.target.complex_style is not ComplexStyle.FUNCTIONS:
            left, right = (
                self.converted(side, joined, PREC_BITWISE_OR) for side in (expr.left, expr.right)
            )
            return parenthesized(f"{left} {expr.operator} {right}", PREC_COMPARISON, prec)
        sides = zip(*(self._parts(side, joined) for side in (expr.left, expr.right)), strict=True)
        word = " && " if expr.operator == "==" else " || "
        text = word.join(f"{left} {expr.operator} {right}" for left, right in sides)
        return parenthesized(text, _LOOSE, prec)

    def _parts(self, expr: Expr, joined: NumpyType) -> tuple[str, str]:
        """Write the real and the imaginary part of a number as operands."""
        part = real_part(joined)
        own = self.own_type(expr, joined)
        if own.is_complex():
            text = self.rec(expr, PREC_NONE, own)
            return f"{stem(own)}_real({text})", f"{stem(own)}_imag({text})"
        return self.converted(expr, part, PREC_BITWISE_OR), self._literal(0, part, PREC_CALL)

    def map_logical_and(self, expr: p.LogicalAnd, enclosing_prec: int, beside: NumpyType) -> str:
        return self._logical(expr, " && ", PREC_LOGICAL_AND, enclosing_prec)

    def map_logical_or(self, expr: p.LogicalOr, enclosing_prec: int, beside: NumpyType) -> str:
        return self._logical(expr, " || ", PREC_LOGICAL_OR, enclosing_prec)

    def _logical(self, expr: Any, sign: str, own_prec: int, prec: int) -> str:
        neutral = isinstance(expr, p.LogicalAnd)
        known = [self.decision(child) for child in expr.children]
        if (not neutral) in known:
            return str(int(not neutral))
        children = [c for c, value in zip(expr.children, known, strict=True) if value is None]
        if not children:
            return str(int(neutral))
        if len(children) == 1:
            (child,) = children
            is_truth = isinstance(child, _TRUTHS)
            return self.truth(child if is_truth else p.Comparison(child, "!=", 0), prec)
        text = sign.join(self.truth(child, PREC_COMPARISON) for child in children)
        return parenthesized(text, own_prec, prec)

    def decision(self, condition: Expr) -> bool | None:
        """Return whether a condition holds for all values of loops here; ``None`` if unknown."""
        loops = self.kernel.all_inames()

        def values_of(difference: Expr) -> Interval:
            if not loops.issuperset(variable_names(difference)):
                return Interval()
            known = self.site.signs.interval
            return known(simplify(difference, self.site.values, known))

        return decided(condition, self.site.values, values_of)

    def map_logical_not(self, expr: p.LogicalNot, enclosing_prec: int, beside: NumpyType) -> str:
        text = "!" + self.truth(expr.child, PREC_UNARY)
        return parenthesized(text, PREC_UNARY, enclosing_prec)

    def map_if(self, expr: p.If, enclosing_prec: int, beside: NumpyType) -> str:
        result = self.typer.beside(expr, beside)
        known = self.decision(expr.condition)
        if known is not None:
            return self.converted(expr.then if known else expr.else_, result, enclosing_prec)
        condition = self.truth(expr.condition, PREC_LOGICAL_OR)
        branches = (expr.then, expr.else_)
        types = [self.own_type(branch, result) for branch in branches]
        seen = list(map(self.text_type, branches, types))
        write = self.converted
        conversions = self.target.conversions
        if (
            result.is_complex()
            or not conversions.mixes(*seen)
            or conversions.joined(*seen) != result
        ):
            types, write = [result, result], self.exact
        then = write(expr.then, types[0], PREC_LOGICAL_OR)
        other = write(expr.else_, types[1], PREC_IF)
        if result == INT32 and is_extremum_of_branches(expr):
            then, other = map(self.calls.with_sign, branches, (then, other))
        return parenthesized(f"{condition} ? {then} : {other}", PREC_IF, enclosing_prec)

    # -- calls ----------------------------------------------------------------------------

    def map_call(self, expr: p.Call, enclosing_prec: int, beside: NumpyType) -> str:
        return self.calls.call(expr, enclosing_prec, beside)

    def map_min(self, expr: p.Min, enclosing_prec: int, beside: NumpyType) -> str:
        return self.calls.extremum("min", expr.children, self.typer.beside(expr, beside))

    def map_max(self, expr: p.Max, enclosing_prec: int, beside: NumpyType) -> str:
        return self.calls.extremum("max", expr.children, self.typer.beside(expr, beside))

    def handle_unsupported_expression(self, expr: Any, *args: Any, **kwargs: Any) -> str:
        raise CodegenError(
            f"an expression of type '{type(expr).__name__}' cannot be written in "
            f"{self.target.language}: {to_text(expr)}",
            hint="replace it by known operations with map_instructions",
        )

    map_call_with_kwargs: Any = handle_unsupported_expression
    map_derivative: Any = handle_unsupported_expression
    map_list: Any = handle_unsupported_expression
    map_rational: Any = handle_unsupported_expression
    map_slice: Any = handle_unsupported_expression
    map_substitution: Any = handle_unsupported_expression
    map_tuple: Any = handle_unsupported_expression


_CHAINS = (p.Sum, p.Product)
_REAL = (int, float)
_AXES = (GroupHardwareAxisIndex, LocalHardwareAxisIndex)
#: Expressions whose value is 0 or 1.
_TRUTHS = (p.Comparison, p.LogicalAnd, p.LogicalOr, p.LogicalNot)
_WHOLE = (int, *_AXES)


def _unnested(expr: p.Sum) -> tuple[Expr, ...]:
    """Return the terms of a sum, flattening sums nested on the left, without recursion."""
    tails: list[tuple[Expr, ...]] = []
    children: tuple[Expr, ...] = expr.children
    while isinstance(children[0], p.Sum):
        tails.append(children[1:])
        children = children[0].children
    return (*children, *(term for tail in reversed(tails) for term in tail))


def _count_operands(expr: Expr) -> int:
    """Count the operands of sums and products, which a compiler evaluates only once.

    Anything but a variable, an element or a number counts as more than the limit.
    """
    if isinstance(expr, _CHAINS):
        return sum(map(_count_operands, expr.children))
    if isinstance(expr, p.Variable | p.Subscript) or is_constant(expr):
        return 1
    return _OPERANDS_OF_BASE + 1
