"""Integer expressions as C text: subscripts, loop bounds, values of loop variables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, TypeAlias
from weakref import WeakMethod

import numpy as np
import pymbolic.primitives as p
from pymbolic import evaluate
from pymbolic.mapper.stringifier import (
    PREC_CALL,
    PREC_IF,
    PREC_LOGICAL_OR,
    PREC_NONE,
    PREC_PRODUCT,
    PREC_SUM,
    PREC_UNARY,
)

from kgen.analysis.range import Ranges, is_int32
from kgen.errors import CodegenError
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    IdentityMapper,
    LocalHardwareAxisIndex,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    is_constant,
    variable_names,
    walk,
)
from kgen.ir.types import INT32, INT64, NumpyType
from kgen.targets.base import CFamilyLanguage
from kgen.targets.preamble import Preamble
from kgen.targets.writers.helpers import helper_name, helper_need
from kgen.targets.writers.literals import integer_text
from kgen.targets.writers.negations import hidden, is_reversed, with_sign
from kgen.targets.writers.site import EmissionSite
from kgen.targets.writers.terms import negated, signed_terms

__all__ = ["IntegerWriter", "parenthesized"]

#: Writes expressions other than integer arithmetic, such as array elements and calls, given
#: the expression and the precedence of the enclosing operator.
Fallback: TypeAlias = Callable[[Expr, int], str]


def parenthesized(text: str, own: int, enclosing: int) -> str:
    """Put *text* in parentheses if its operator binds less tightly than the enclosing one."""
    return f"({text})" if enclosing > own else text


_INTEGERS = (int, np.integer)

#: Subscripts without arithmetic, which keep the width of their type.
_VALUES = (p.Variable, p.Subscript, GroupHardwareAxisIndex, LocalHardwareAxisIndex)


def _is_number(expr: Expr) -> bool:
    """Tell whether *expr* consists of numbers only, for example after a substitution."""
    if isinstance(expr, p.Sum | p.Product):
        return all(map(_is_number, expr.children))
    return isinstance(expr, _INTEGERS)


def _operands(expr: p.Min | p.Max) -> list[Expr]:
    """Return the operands of a minimum, and of minima among them."""
    operands: list[Expr] = []
    for child in expr.children:
        operands += _operands(child) if type(child) is type(expr) else [child]
    return operands


def _has_split_group(index: Expr) -> bool:
    """Tell whether a sum has a group index and another part of the loop that it was split from.

    For example ``3200*gid(0) + 100*i + j``, which is ``100*(32*gid(0) + i) + j``.
    """
    terms = [_scaled(term) for term in index.children] if isinstance(index, p.Sum) else []
    groups = [factor for factor, term in terms if isinstance(term, GroupHardwareAxisIndex)]
    inner = [factor for factor, term in terms if not is_constant(term)]
    return len(groups) == 1 and any(1 < b < groups[0] and groups[0] % b == 0 for b in inner)


def _scaled(term: Expr) -> tuple[int, Expr]:
    """Return the constant factor of a term, and the remaining factor."""
    match term:
        case p.Product((int(factor), other)):
            return factor, other
    return 1, term


def _is_long_value(arg: ArrayArg | ValueArg) -> bool:
    dtype = arg.dtype
    is_integer = isinstance(arg, ValueArg) and dtype is not None and dtype.is_integral()
    return is_integer and dtype.itemsize > INT32.itemsize


class IntegerWriter:
    """Writes integer expressions for one function.

    ``long_names`` are the variables of 64 bits. With *wide*, expressions are computed in 64
    bits: the first factor of each product and the first term of each sum are cast. Further
    terms of a sum are not cast if *ranges* proves that they fit in 32 bits.
    """

    def __init__(
        self,
        target: CFamilyLanguage,
        site: EmissionSite,
        ranges: Ranges,
        preamble: Preamble,
        fallback: Fallback,
        type_of: Callable[[Expr], NumpyType],
    ) -> None:
        self.target = target
        self.signs = site.signs
        self.sizes = site.sizes
        self.ranges = ranges
        self.preamble = preamble
        self._fallback = WeakMethod(fallback)  # weak: its owner refers to this writer
        self.type_of = type_of
        self.long_names = {arg.name for arg in ranges.kernel.args if _is_long_value(arg)}
        #: Loop variables and sizes, which may be int32.
        self.whole_names = ranges.kernel.all_inames() | ranges.kernel.all_params()
        self._are_int32: dict[str, bool] = {}
        self.indices = site.indices
        self._texts: dict[str, str] = {}

    def at(self, site: EmissionSite, fallback: Fallback) -> IntegerWriter:
        """Return the same writer for another site."""
        writer = IntegerWriter.__new__(IntegerWriter)
        facts = {"signs": site.signs, "sizes": site.sizes, "indices": site.indices}
        writer.__dict__.update(self.__dict__, **facts, _fallback=WeakMethod(fallback))
        return writer

    def _other(self, expr: Expr, prec: int) -> str:
        """Write an expression other than integer arithmetic."""
        fallback = self._fallback()
        assert fallback is not None
        return fallback(expr, prec)

    def text(self, expr: Expr, prec: int = PREC_NONE, *, wide: bool = False) -> str:
        """Write *expr* as an operand of an operator of precedence *prec*."""
        if isinstance(expr, _INTEGERS):
            text = integer_text(self.target, int(expr))
            return parenthesized(text, PREC_UNARY if expr < 0 else PREC_CALL, prec)
        if wide and _is_number(expr):  # literals take no cast
            return self.text(int(evaluate(expr)), prec)
        method = _METHODS.get(type(expr))
        if method is not None:
            return method(self, expr, prec, wide)
        return self._leaf(self._other(expr, PREC_UNARY if wide else prec), prec, wide)

    def _leaf(self, text: str, prec: int, wide: bool) -> str:
        if not wide:
            return text
        self.preamble.add(*self.target.type_needs.get(INT64.dtype, ()))
        return parenthesized(f"({self.target.type_name(INT64)}) {text}", PREC_UNARY, prec)

    def _variable(self, expr: p.Variable, prec: int, wide: bool) -> str:
        text = self._texts.get(expr.name)
        if text is None:
            text = self._texts[expr.name] = self._other(expr, PREC_CALL)
        return self._leaf(text, prec, wide and expr.name not in self.long_names)

    def _sum(self, expr: p.Sum, prec: int, wide: bool) -> str:
        terms = signed_terms(expr.children)
        casts = self._casts(terms) if wide else repeat(False)
        parts: list[str] = []
        for (is_negative, term), cast in zip(terms, casts, strict=False):
            text = self.text(term, PREC_PRODUCT if is_negative else PREC_SUM, wide=cast)
            if parts:
                parts.append(" - " if is_negative else " + ")
            parts.append(negated(text) if is_negative and not parts else text)
        return parenthesized("".join(parts), PREC_SUM, prec)

    def _casts(self, terms: list[tuple[bool, Expr]]) -> list[bool]:
        """Tell which terms must be computed in 64 bits so that the sum is."""
        products = [self._may_overflow(term) for _, term in terms]
        casts = [
            is_long or self.overflows(term)
            for is_long, (_, term) in zip(products, terms, strict=True)
        ]
        if not any(products[:2]) and not any(self._is_long_name(term) for _, term in terms[:2]):
            # one operand of 64 bits makes the sum 64 bits wide; literals take no cast
            casts[next((at for at, (_, term) in enumerate(terms) if not _is_number(term)), 0)] = (
                True
            )
        return casts

    def subscript(self, index: Expr, *, fits: bool, is_updated: bool) -> str:
        """Write the linear index of an element; *fits* means that all indices fit in 32 bits.

        *is_updated* means that the kernel writes and reads the array. On GPUs older than
        Blackwell, nvcc 13.0 takes elements with 32-bit subscripts such as ``-2*i - 2`` for others
        than those with constant subscripts; see ``docs/nvcc.md``.
        """
        is_mistaken = is_updated and self.target.mistakes_reversed and self._is_mistaken(index)
        return self.text(index, wide=is_mistaken or self._is_wide(index, fits))

    def _is_mistaken(self, index: Expr) -> bool:
        """Tell whether the compiler may reduce a subscript to a multiple and a constant.

        It may do so when it unrolls loops, but not if an index of the launch, or a size, is added.
        """
        if not is_reversed(index):
            return False
        terms = signed_terms(index.children if isinstance(index, p.Sum) else (index,))
        added = walk(*(term for is_negative, term in terms if not is_negative))
        sizes = self.ranges.kernel.all_params()
        return not any(
            isinstance(node, GroupHardwareAxisIndex | LocalHardwareAxisIndex)
            or (isinstance(node, p.Variable) and node.name in sizes)
            for node in added
        )

    def _is_wide(self, index: Expr, fits: bool) -> bool:
        """Tell whether a subscript or an intermediate result may exceed 32 bits.

        For example ``13*i - 13*n + j``, where ``i`` and ``n`` are large and nearly equal.
        """
        if isinstance(index, _VALUES):
            return False
        if self.target.has_long_split_groups and _has_split_group(index):
            return True
        found, has_large = self.ranges.survey(index)
        if not has_large and (fits or is_int32(found)):
            return False
        return not fits or self.overflows(index) or self._has_large_product(index)

    def _has_large_product(self, index: Expr) -> bool:
        """Tell whether a term may overflow although the sum fits, as terms may be negative."""
        terms = index.children if isinstance(index, p.Sum) else ()
        terms = tuple(term for term in terms if not is_constant(term))
        found = [self.ranges.interval(term) for term in terms]
        if len(terms) < 2 or all(each.is_at_least(0) for each in found):
            return False  # no term is larger than the index
        return any(
            isinstance(term, p.Product) and each.count is not None and not is_int32(each)
            for term, each in zip(terms, found, strict=True)
        )

    def overflows(self, expr: Expr) -> bool:
        """Tell whether an intermediate result of *expr* may exceed 32 bits.

        For example ``(n + m) / 2 - n``, with large ``n`` and ``m``. Data have their types' ranges.
        """
        return self.sizes.has_large_steps(expr)

    def _may_overflow(self, term: Expr) -> bool:
        return isinstance(term, p.Product) and not self.ranges.fits(term)

    def is_int32_index(self, name: str) -> bool:
        """Tell whether a loop variable or size is int32, unless it is known to need 64 bits."""
        found = self._are_int32.get(name)
        if found is None:
            is_index = name in self.whole_names and name not in self.ranges.kernel.array_vars
            found = self._are_int32[name] = is_index and self.type_of(p.Variable(name)) == INT32
        return found

    def _has_long_name(self, group: GroupHardwareAxisIndex) -> bool:
        return group.axis < len(self.target.group_index) and (
            self.target.group_index[group.axis] in self.long_names
        )

    def _is_long_name(self, expr: Expr) -> bool:
        return isinstance(expr, p.Variable) and expr.name in self.long_names

    def _product(self, expr: p.Product, prec: int, wide: bool) -> str:
        ((is_negative, rest),) = signed_terms((expr,))
        if is_negative:
            text = negated(self.text(rest, PREC_PRODUCT, wide=wide))
            return parenthesized(text, PREC_PRODUCT, prec)
        wide = wide and not any(map(self._is_long_name, expr.children[:2]))
        factors: list[str] = []
        for factor in expr.children:
            inner = PREC_UNARY if factors else PREC_PRODUCT
            factors.append(self.text(factor, inner, wide=wide))
            wide = wide and _is_number(factor)
        return parenthesized(" * ".join(factors), PREC_PRODUCT, prec)

    def _quotient(self, expr: TruncQuotient | p.FloorDiv, prec: int, wide: bool) -> str:
        return self._divided(expr, " / ", prec, wide)

    def _remainder(self, expr: TruncRemainder | p.Remainder, prec: int, wide: bool) -> str:
        return self._divided(expr, " % ", prec, wide)

    def _divided(self, expr: Any, sign: str, prec: int, wide: bool) -> str:
        top = self.text(expr.numerator, PREC_PRODUCT, wide=wide)
        den = self.text(expr.denominator, PREC_UNARY)
        return parenthesized(top + sign + den, PREC_PRODUCT, prec)

    def _floor_div(self, expr: p.FloorDiv, prec: int, wide: bool) -> str:
        if self.signs.divides_as_in_c(expr.numerator, expr.denominator):
            return self._quotient(expr, prec, wide)
        return self._help("floor_div", (expr.numerator, expr.denominator), wide)

    def _modulo(self, expr: p.Remainder, prec: int, wide: bool) -> str:
        if self.signs.divides_as_in_c(expr.numerator, expr.denominator):
            return self._remainder(expr, prec, wide)
        return self._help("mod", (expr.numerator, expr.denominator), wide)

    def _minimum(self, expr: p.Min, prec: int, wide: bool) -> str:
        return self._extremum("min", expr, wide)

    def _maximum(self, expr: p.Max, prec: int, wide: bool) -> str:
        return self._extremum("max", expr, wide)

    def _either(self, expr: p.If, prec: int, wide: bool) -> str:
        if not wide:
            return self._other(expr, prec)
        if _is_number(expr.then) and _is_number(expr.else_):  # literals take no cast
            return self._leaf(self._other(expr, PREC_UNARY), prec, True)
        condition = self._other(expr.condition, PREC_LOGICAL_OR)
        then = self.text(expr.then, PREC_LOGICAL_OR, wide=True)
        other = self.text(expr.else_, PREC_IF, wide=True)
        return parenthesized(f"{condition} ? {then} : {other}", PREC_IF, prec)

    def _other_operation(self, expr: Expr, prec: int, wide: bool) -> str:
        """Write a function, power or bitwise operation, in 64 bits if any step needs them."""
        if self.overflows(expr):
            expr = _Widener(self)(expr)
            wide = wide and self.type_of(expr) != INT64
        return self._leaf(self._other(expr, PREC_UNARY if wide else prec), prec, wide)

    def _extremum(self, name: str, expr: p.Min | p.Max, wide: bool) -> str:
        dtype = self._type_of(expr, wide)
        if name not in self.target.functions.integer:
            return self._help(name, expr.children, wide)
        operands = _operands(expr)
        texts = [self._of_type(operand, dtype) for operand in operands]
        if dtype == INT32 and (len(operands) > 2 or any(map(self._is_computed, operands))):
            texts = list(map(self._with_sign, operands, texts))
        return self._nested(name, texts)

    def _is_computed(self, expr: Expr) -> bool:
        """Tell whether *expr* uses a variable that may itself be a minimum, or a negated value."""
        temporaries = self.ranges.kernel.temporary_variables
        return any(name in temporaries for name in variable_names(expr))

    def _with_sign(self, operand: Expr, text: str) -> str:
        if self._is_computed(operand):
            return hidden(self.target, self.preamble, text)
        return with_sign(self.target, self.preamble, self.ranges.kernel, operand, text)

    def _nested(self, name: str, texts: list[str]) -> str:
        result = texts[0]
        for text in texts[1:]:
            result = f"{name}({result}, {text})"
        return result

    def _of_type(self, expr: Expr, dtype: NumpyType) -> str:
        """Write an argument of an overloaded function, with exactly the type *dtype*."""
        is_long = dtype == INT64
        if self.overflows(expr):
            return self.text(expr, wide=True)
        if is_long and self._type_of(expr, False) != INT64:
            return self._leaf(self.text(expr, PREC_UNARY), PREC_NONE, True)
        return self.text(expr)

    def _help(self, name: str, operands: tuple[Expr, ...], wide: bool) -> str:
        casts = [self.overflows(operand) for operand in operands]
        is_long = wide or any(casts) or any(self.is_long(operand) for operand in operands)
        dtype = INT64 if is_long else INT32
        self.preamble.add(helper_need(self.target, name, dtype))
        self.preamble.add(*self.target.type_needs.get(dtype.dtype, ()))
        texts = [self.text(o, wide=cast) for o, cast in zip(operands, casts, strict=True)]
        return self._nested(helper_name(name, dtype), texts)

    def _type_of(self, expr: Expr, wide: bool) -> NumpyType:
        return INT64 if wide or self.is_long(expr) or self.overflows(expr) else INT32

    def is_long(self, expr: Expr) -> bool:
        """Tell whether *expr* or a part of it has 64 bits."""
        match expr:
            case p.Variable():
                return expr.name in self.long_names or self.type_of(expr).itemsize > 4
            case int() | np.integer():
                return not -(2**31) <= expr < 2**31
            case GroupHardwareAxisIndex():
                return self._has_long_name(expr)
            case LocalHardwareAxisIndex():
                return False
            case p.Sum() | p.Product() | p.Min() | p.Max():
                return any(self.is_long(child) for child in expr.children)
            case p.If():
                return self.is_long(expr.then) or self.is_long(expr.else_)
            case p.FloorDiv() | p.Remainder() | TruncQuotient() | TruncRemainder():
                return self.is_long(expr.numerator) or self.is_long(expr.denominator)
        return self.type_of(expr).itemsize > 4

    def _group(self, expr: GroupHardwareAxisIndex, prec: int, wide: bool) -> str:
        if self.indices.group == self.target.group_index:
            self.preamble.add(*self.target.group_needs)
        wide = wide and not self._has_long_name(expr)
        return self._axis("g", self.indices.group, expr.axis, prec, wide)

    def _local(self, expr: LocalHardwareAxisIndex, prec: int, wide: bool) -> str:
        if self.indices.local == self.target.local_index:
            self.preamble.add(*self.target.local_needs)
        return self._axis("l", self.indices.local, expr.axis, prec, wide)

    def _axis(self, kind: str, names: tuple[str, ...], axis: int, prec: int, wide: bool) -> str:
        if axis >= len(names):
            known = ", ".join(f"'{kind}.{k}'" for k in range(len(names)))
            raise CodegenError(
                f"there is no hardware axis '{kind}.{axis}' in {self.target.language}",
                kernel=self.ranges.kernel.name,
                because=f"its axes are {known}" if known else "it has no hardware axes",
                hint="tag the loop with another axis; join_inames makes one loop of two",
            )
        if wide:
            return self._leaf(names[axis], prec, True)
        return parenthesized(names[axis], PREC_UNARY if " " in names[axis] else PREC_CALL, prec)


class _Widener(IdentityMapper):
    """Casts sizes and loop variables in operations whose intermediate results may exceed 32 bits.

    Other operations keep their types, such as those in arguments of functions.
    """

    def __init__(self, integers: IntegerWriter) -> None:
        super().__init__()
        self.overflows = integers.overflows
        self.names = integers.whole_names

    def map_variable(self, expr: p.Variable) -> Expr:
        return TypeCast(INT64, expr) if expr.name in self.names else expr

    def map_call(self, expr: p.Call) -> Expr:
        if not self.overflows(expr):
            return expr
        return p.Call(expr.function, tuple(map(self.rec, expr.parameters)))

    def map_subscript(self, expr: p.Subscript) -> Expr:
        return expr  # subscripts are written separately


_Method: TypeAlias = Callable[[IntegerWriter, Any, int, bool], str]
_METHODS: dict[type[Any], _Method] = {
    p.Variable: IntegerWriter._variable,
    p.Sum: IntegerWriter._sum,
    p.Product: IntegerWriter._product,
    TruncQuotient: IntegerWriter._quotient,
    TruncRemainder: IntegerWriter._remainder,
    p.FloorDiv: IntegerWriter._floor_div,
    p.Remainder: IntegerWriter._modulo,
    p.If: IntegerWriter._either,
    p.Min: IntegerWriter._minimum,
    p.Max: IntegerWriter._maximum,
    **dict.fromkeys(
        (
            p.Call,
            p.Power,
            p.LeftShift,
            p.RightShift,
            p.BitwiseAnd,
            p.BitwiseOr,
            p.BitwiseXor,
            p.BitwiseNot,
        ),
        IntegerWriter._other_operation,
    ),
    GroupHardwareAxisIndex: IntegerWriter._group,
    LocalHardwareAxisIndex: IntegerWriter._local,
}
