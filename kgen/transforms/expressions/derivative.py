"""Derivatives of expressions: the rules of calculus, node by node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import pymbolic.primitives as p
from pymbolic.mapper import Mapper

from kgen.errors import TransformError
from kgen.ir.expr import Expr, Reduction, TypeCast, TypedLiteral, is_constant, is_zero, to_text
from kgen.ir.types import NumpyType

__all__ = ["Differentiator", "reads_of"]

Leaf = Callable[[str, tuple[Expr, ...]], Expr]


def reads_of(expr: Expr) -> frozenset[str]:
    """Return the variables whose values are numbers in *expr*, not in subscripts or conditions.

    >>> from kgen.ir.language.expressions import parse
    >>> sorted(reads_of(parse("a[n] * b if c < 0 else 2")))
    ['a', 'b']
    """
    found: dict[str, None] = {}

    def note(name: str, index: tuple[Expr, ...]) -> Expr:
        found[name] = None
        return 1

    Differentiator(note, lenient=True)(expr)
    return frozenset(found)


class Differentiator(Mapper[Expr, []]):
    """Writes derivatives: ``Differentiator(leaf)(expr)``.

    ``leaf(name, index)`` is the derivative of a variable or of an element of an array. What is
    0 is left out. A *lenient* one goes on where there is no derivative, into all operands.

    >>> from kgen.ir.language.expressions import parse
    >>> leaf = lambda name, index: p.Variable("d" + name) if name == "x" else 0
    >>> to_text(Differentiator(leaf)(parse("c*sin(x)**2")))
    'c*2*sin(x)*cos(x)*dx'
    """

    def __init__(self, leaf: Leaf, lenient: bool = False) -> None:
        super().__init__()
        self.leaf, self.lenient = leaf, lenient

    def _unknown(self, expr: Expr, *parts: Expr) -> Expr:
        """Reject an operation without a derivative, unless its operands are constant."""
        derivatives = [self(part) for part in parts]
        if not self.lenient and not all(map(is_zero, derivatives)):
            raise TransformError(f"there is no derivative of '{to_text(expr)}'")
        return 0

    # -- leaves ----------------------------------------------------------------------------

    def map_constant(self, expr: Any) -> Expr:
        return 0

    def map_typed_literal(self, expr: TypedLiteral) -> Expr:
        return 0

    def map_nan(self, expr: p.NaN) -> Expr:
        return 0

    def map_variable(self, expr: p.Variable) -> Expr:
        return self.leaf(expr.name, ())

    map_tagged_variable = map_variable

    def map_subscript(self, expr: p.Subscript) -> Expr:
        if not isinstance(expr.aggregate, p.Variable):
            return self._unknown(expr, expr.aggregate)
        return self.leaf(expr.aggregate.name, expr.index_tuple)

    def map_linear_subscript(self, expr: Any) -> Expr:
        return self._unknown(expr, expr.aggregate)

    map_lookup = map_linear_subscript

    def map_sub_array_ref(self, expr: Any) -> Expr:
        return self._unknown(expr, expr.subscript)

    # -- arithmetic ---------------------------------------------------------------------------

    def map_sum(self, expr: p.Sum) -> Expr:
        return _sum(*(self.rec(child) for child in expr.children))

    def map_product(self, expr: p.Product) -> Expr:
        factors = expr.children
        return _sum(
            *(
                _product(*factors[:k], self.rec(factor), *factors[k + 1 :])
                for k, factor in enumerate(factors)
            )
        )

    def map_quotient(self, expr: p.Quotient) -> Expr:
        above, below = expr.numerator, expr.denominator
        first, second = self.rec(above), self.rec(below)
        if is_zero(second):
            return 0 if is_zero(first) else p.Quotient(first, below)
        top = _sum(_product(first, below), _product(-1, above, second))
        return p.Quotient(top, p.Power(below, 2))

    def map_power(self, expr: p.Power) -> Expr:
        return self._power(expr, expr.base, expr.exponent)

    def _power(self, expr: Expr, base: Expr, exponent: Expr) -> Expr:
        of_base, of_exponent = self.rec(base), self.rec(exponent)
        less = exponent - 1 if is_constant(exponent) else p.Sum((exponent, -1))
        lower: Expr = p.Power(base, less)
        if is_constant(less) and less in (0, 1):
            lower = 1 if less == 0 else base
        terms = [_product(exponent, lower, of_base)]
        if not is_zero(of_exponent):
            terms.append(_product(expr, _call("log", base), of_exponent))
        return _sum(*terms)

    def map_floor_div(self, expr: p.FloorDiv) -> Expr:
        # constant between its jumps; reads count all the same
        return _none(self.rec(expr.numerator), self.rec(expr.denominator))

    def map_remainder(self, expr: p.Remainder) -> Expr:
        above, below = expr.numerator, expr.denominator
        return _sum(self.rec(above), _product(-1, p.FloorDiv(above, below), self.rec(below)))

    def map_trunc_quotient(self, expr: Any) -> Expr:
        return self._unknown(expr, expr.numerator, expr.denominator)

    map_trunc_remainder = map_trunc_quotient

    def map_bitwise_and(self, expr: Any) -> Expr:
        return self._unknown(expr, *expr.children)

    map_bitwise_or = map_bitwise_xor = map_bitwise_and

    def map_bitwise_not(self, expr: p.BitwiseNot) -> Expr:
        return self._unknown(expr, expr.child)

    def map_left_shift(self, expr: Any) -> Expr:
        return self._unknown(expr, expr.shiftee, expr.shift)

    map_right_shift = map_left_shift

    def map_type_cast(self, expr: TypeCast) -> Expr:
        inner = self.rec(expr.child)
        is_integral = isinstance(expr.type, NumpyType) and expr.type.is_integral()
        return 0 if is_integral or is_zero(inner) else TypeCast(expr.type, inner)

    # -- choices -----------------------------------------------------------------------------

    def map_comparison(self, expr: p.Comparison) -> Expr:
        return 0

    def map_logical_and(self, expr: Any) -> Expr:
        return 0

    map_logical_or = map_logical_not = map_logical_and

    def map_if(self, expr: p.If) -> Expr:
        return _if(expr.condition, self.rec(expr.then), self.rec(expr.else_))

    def map_min(self, expr: p.Min) -> Expr:
        return self._extremum(expr.children, "<=")

    def map_max(self, expr: p.Max) -> Expr:
        return self._extremum(expr.children, ">=")

    def _extremum(self, operands: tuple[Expr, ...], operator: str) -> Expr:
        """Choose the derivative of the first operand that is not beaten by a later one."""
        first, *rest = operands
        if not rest:
            return self.rec(first)
        beats = [p.Comparison(first, operator, other) for other in rest]
        condition = beats[0] if len(beats) == 1 else p.LogicalAnd(tuple(beats))
        return _if(condition, self.rec(first), self._extremum(tuple(rest), operator))

    # -- calls and reductions ------------------------------------------------------------------

    def map_reduction(self, expr: Reduction) -> Expr:
        if isinstance(expr.expr, tuple) or str(expr.operation) != "sum":
            return self._unknown(expr, *expr.exprs)
        inner = self.rec(expr.expr)
        return 0 if is_zero(inner) else Reduction(expr.operation, expr.inames, inner)

    def map_call(self, expr: p.Call) -> Expr:
        name = expr.function.name if isinstance(expr.function, p.Variable) else "?"
        operands = expr.parameters
        if name in ("min", "max", "fmin", "fmax"):
            return self._extremum(operands, "<=" if name.endswith("min") else ">=")
        if name == "pow":
            return self._power(expr, *operands)
        if name in _STEPS:
            return _none(*map(self.rec, operands))
        if name in _LINEAR:
            inner = self.rec(operands[0])
            return 0 if is_zero(inner) else _call(name, inner)
        partial = _PARTIAL.get(name)
        if partial is None:
            return self._unknown(expr, *operands)
        inner_derivatives = [self.rec(operand) for operand in operands]
        if all(map(is_zero, inner_derivatives)):
            return 0
        if name in _OF_ORDER and not is_zero(inner_derivatives[0]):
            return self._unknown(expr, operands[0])
        factors = partial(*operands)
        return _sum(*(_product(*pair) for pair in zip(factors, inner_derivatives, strict=True)))

    def map_call_with_kwargs(self, expr: p.CallWithKwargs) -> Expr:
        return self._unknown(expr, *expr.parameters, *expr.kw_parameters.values())


# -- sums and products without what is neutral -------------------------------------------------


def _none(*derivatives: Expr) -> Expr:
    return 0


def _sum(*terms: Expr) -> Expr:
    kept = tuple(term for term in terms if not is_zero(term))
    return (kept[0] if len(kept) == 1 else p.Sum(kept)) if kept else 0


def _product(*factors: Expr) -> Expr:
    if any(map(is_zero, factors)):
        return 0
    kept: list[Expr] = []
    for factor in factors:
        if isinstance(factor, p.Product):
            kept.extend(factor.children)
        elif not (is_constant(factor) and factor == 1):
            kept.append(factor)
    return (kept[0] if len(kept) == 1 else p.Product(tuple(kept))) if kept else 1


def _if(condition: Expr, then: Expr, else_: Expr) -> Expr:
    return 0 if is_zero(then) and is_zero(else_) else p.If(condition, then, else_)


def _call(name: str, *operands: Expr) -> Expr:
    return p.Call(p.Variable(name), operands)


def _over(below: Expr) -> Expr:
    return p.Quotient(1, below)


def _minus(expr: Expr) -> Expr:
    return p.Product((-1, expr))


def _square(expr: Expr) -> Expr:
    return p.Power(expr, 2)


def _one_plus(expr: Expr) -> Expr:
    return p.Sum((1, expr))


def _one_minus(expr: Expr) -> Expr:
    return p.Sum((1, _minus(expr)))


def _sqrt(expr: Expr) -> Expr:
    return _call("sqrt", expr)


def _exp_of_square(x: Expr) -> Expr:
    return _call("exp", _minus(_square(x)))


#: Constant between jumps.
_STEPS: Final = frozenset(
    (
        *("ceil", "floor", "rint", "round", "trunc", "nearbyint", "lrint", "lround", "llrint"),
        *("llround", "ilogb", "logb", "isnan", "isinf", "isfinite", "isnormal", "signbit"),
    )
)
#: Their derivative is their value for the derivative.
_LINEAR: Final = frozenset(("real", "imag", "conj"))
#: Functions of an order, which is no variable of calculus, and a number.
_OF_ORDER: Final = frozenset(("bessel_jn", "bessel_yn"))


def _bessel(kind: str) -> Callable[[Expr, Expr], tuple[Expr, ...]]:
    def partial(n: Expr, x: Expr) -> tuple[Expr, ...]:
        below, above = (_call(kind, p.Sum((n, by)), x) for by in (-1, 1))
        return 0, p.Product((0.5, p.Sum((below, _minus(above)))))

    return partial


def _of_hypot(x: Expr, y: Expr) -> tuple[Expr, ...]:
    length = _call("hypot", x, y)
    return p.Quotient(x, length), p.Quotient(y, length)


def _of_atan2(y: Expr, x: Expr) -> tuple[Expr, ...]:
    length = p.Sum((_square(x), _square(y)))
    return p.Quotient(x, length), p.Quotient(_minus(y), length)


def _of_fmod(x: Expr, y: Expr) -> tuple[Expr, ...]:
    return 1, _minus(_call("trunc", p.Quotient(x, y)))


def _of_fdim(x: Expr, y: Expr) -> tuple[Expr, ...]:
    is_more = p.Comparison(x, ">", y)
    return p.If(is_more, 1, 0), p.If(is_more, -1, 0)


def _sign(x: Expr) -> Expr:
    return p.If(p.Comparison(x, "<", 0), -1, 1)


#: The partial derivatives by name.
_PARTIAL: Final[Mapping[str, Callable[..., tuple[Expr, ...]]]] = {
    "abs": lambda x: (_sign(x),),
    "acos": lambda x: (_minus(_over(_sqrt(_one_minus(_square(x))))),),
    "acosh": lambda x: (_over(_sqrt(p.Sum((_square(x), -1)))),),
    "asin": lambda x: (_over(_sqrt(_one_minus(_square(x)))),),
    "asinh": lambda x: (_over(_sqrt(_one_plus(_square(x)))),),
    "atan": lambda x: (_over(_one_plus(_square(x))),),
    "atan2": _of_atan2,
    "atanh": lambda x: (_over(_one_minus(_square(x))),),
    "bessel_j0": lambda x: (_minus(_call("bessel_j1", x)),),
    "bessel_j1": lambda x: (_bessel("bessel_jn")(1, x)[1],),
    "bessel_jn": _bessel("bessel_jn"),
    "bessel_y0": lambda x: (_minus(_call("bessel_y1", x)),),
    "bessel_y1": lambda x: (_bessel("bessel_yn")(1, x)[1],),
    "bessel_yn": _bessel("bessel_yn"),
    "cbrt": lambda x: (_over(p.Product((3, _square(_call("cbrt", x))))),),
    "cos": lambda x: (_minus(_call("sin", x)),),
    "cosh": lambda x: (_call("sinh", x),),
    "erf": lambda x: (p.Product((2 / math.sqrt(math.pi), _exp_of_square(x))),),
    "erfc": lambda x: (p.Product((-2 / math.sqrt(math.pi), _exp_of_square(x))),),
    "exp": lambda x: (_call("exp", x),),
    "exp2": lambda x: (p.Product((math.log(2), _call("exp2", x))),),
    "expm1": lambda x: (_call("exp", x),),
    "fabs": lambda x: (_sign(x),),
    "fdim": _of_fdim,
    "fma": lambda a, b, c: (b, a, 1),
    "fmod": _of_fmod,
    "hypot": _of_hypot,
    "log": lambda x: (_over(x),),
    "log10": lambda x: (_over(p.Product((math.log(10), x))),),
    "log1p": lambda x: (_over(_one_plus(x)),),
    "log2": lambda x: (_over(p.Product((math.log(2), x))),),
    "rsqrt": lambda x: (p.Product((-0.5, p.Quotient(_call("rsqrt", x), x))),),
    "sin": lambda x: (_call("cos", x),),
    "sinh": lambda x: (_call("cosh", x),),
    "sqrt": lambda x: (p.Quotient(0.5, _sqrt(x)),),
    "tan": lambda x: (_one_plus(_square(_call("tan", x))),),
    "tanh": lambda x: (_one_minus(_square(_call("tanh", x))),),
}
