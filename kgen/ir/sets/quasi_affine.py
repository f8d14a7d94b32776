"""Quasi-affine expressions and conditions: pymbolic to isl, and back."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import islpy as isl
import pymbolic.primitives as p
from pymbolic.mapper import Mapper

from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.affine import move_to_sides
from kgen.ir.expr import Expr, TypeCast, TypedLiteral, is_constant, to_text
from kgen.ir.integer_values import integer_operands, integer_value
from kgen.ir.sets.dims import Set, isl_int
from kgen.ir.sets.domain import Aff, PwAff

_PARAM = isl.dim_type.param
_SET = isl.dim_type.set
_DIV = isl.dim_type.div


class _NotAffine(Exception):
    """The reason why an expression is not affine; never leaves this module."""


class _AffMaker(Mapper["Aff | PwAff", []]):
    """Convert an expression over the dimensions and parameters of a local space.

    Functions of one piece stay an ``Aff``, on which isl is several times as fast.
    """

    def __init__(self, space: isl.LocalSpace) -> None:
        self.space = space

    def handle_unsupported_expression(self, expr: Any, *args: Any) -> Aff | PwAff:
        raise _NotAffine(f"'{to_text(expr)}' is data, or not a sum of multiples")

    map_algebraic_leaf = map_quotient = map_comparison = handle_unsupported_expression
    map_logical_and = map_logical_or = map_logical_not = handle_unsupported_expression
    map_tuple = handle_unsupported_expression

    def map_constant(self, expr: Any) -> Aff | PwAff:
        if not cmath.isfinite(expr) or int(expr.real) != expr:
            raise _NotAffine(f"{expr} is not an integer")
        value = isl_int(int(expr.real))
        return isl.Aff.val_on_domain(self.space, value)

    def map_power(self, expr: Expr) -> Aff | PwAff:
        """Convert an operation that is affine only if all operands are constants."""
        values: list[int] = []
        for operand in integer_operands(expr):
            value = self.rec(operand)
            if not _is_number(value):
                return self.handle_unsupported_expression(expr)
            values.append(_number(value))
        if isinstance(expr, p.Power) and values[1] < 0:
            return self.handle_unsupported_expression(expr)
        result = integer_value(expr, values)
        return (
            self.handle_unsupported_expression(expr)
            if result is None
            else self.map_constant(result)
        )

    map_bitwise_and = map_bitwise_or = map_bitwise_xor = map_bitwise_not = map_power

    def map_left_shift(self, expr: Any) -> Aff | PwAff:
        return self.rec(p.Product((expr.shiftee, p.Power(2, expr.shift))))

    def map_right_shift(self, expr: Any) -> Aff | PwAff:
        return self.rec(p.FloorDiv(expr.shiftee, p.Power(2, expr.shift)))

    def map_variable(self, expr: p.Variable) -> Aff | PwAff:
        space = self.space.get_space()
        for kind in (_SET, _PARAM):
            at = space.find_dim_by_name(kind, expr.name)
            if at >= 0:
                return isl.Aff.var_on_domain(self.space, kind, at)
        raise _NotAffine(f"'{expr.name}' is neither a loop variable nor a parameter")

    map_tagged_variable = map_variable

    def map_sum(self, expr: p.Sum) -> Aff | PwAff:
        total = self.rec(expr.children[0])
        for child in expr.children[1:]:
            one, other = _alike(total, self.rec(child))
            total = one.add(other)
        return total

    def map_product(self, expr: p.Product) -> Aff | PwAff:
        total = self.rec(expr.children[0])
        for child in expr.children[1:]:
            factor = self.rec(child)
            if not (total.is_cst() or factor.is_cst()):
                raise _NotAffine("it has a product of two variables")
            one, other = _alike(total, factor)
            total = one.mul(other)
        return total

    def map_floor_div(self, expr: p.FloorDiv) -> Aff | PwAff:
        return self.rec(expr.numerator).scale_down_val(self._divisor(expr.denominator)).floor()

    map_trunc_quotient = map_floor_div

    def map_remainder(self, expr: p.Remainder) -> Aff | PwAff:
        return self.rec(expr.numerator).mod_val(self._divisor(expr.denominator))

    map_trunc_remainder = map_remainder

    def _divisor(self, expr: Expr) -> isl.Val:
        if not is_constant(expr):
            value = self.rec(expr)
            expr = _number(value) if _is_number(value) else expr
        return _divisor(expr)

    def map_min(self, expr: p.Min) -> PwAff:
        best = as_pw_aff(self.rec(expr.children[0]))
        for child in expr.children[1:]:
            best = best.min(as_pw_aff(self.rec(child)))
        return best

    def map_max(self, expr: p.Max) -> PwAff:
        best = as_pw_aff(self.rec(expr.children[0]))
        for child in expr.children[1:]:
            best = best.max(as_pw_aff(self.rec(child)))
        return best

    def map_call(self, expr: p.Call) -> PwAff:
        name = getattr(expr.function, "name", None)
        if name == "min":
            return self.map_min(p.Min(expr.parameters))
        if name == "abs" and len(expr.parameters) == 1:
            operand: Any = expr.parameters[0]
            return self.map_max(p.Max((operand, p.Product((-1, operand)))))
        if name == "max":
            return self.map_max(p.Max(expr.parameters))
        raise _NotAffine(f"it calls '{to_text(expr.function)}'")

    def map_if(self, expr: p.If) -> PwAff:
        holds = _to_set(self.space, expr.condition).indicator_function()
        then, else_ = as_pw_aff(self.rec(expr.then)), as_pw_aff(self.rec(expr.else_))
        return isl.PwAff.cond(holds, then, else_)

    def map_type_cast(self, expr: TypeCast) -> Aff | PwAff:
        if not expr.type.is_integral() or expr.type.itemsize < 4:
            raise _NotAffine(f"it converts to {expr.type}")
        return self.rec(expr.child)

    def map_typed_literal(self, expr: TypedLiteral) -> Aff | PwAff:
        return self.rec(expr.value)


def _is_number(value: Aff | PwAff) -> bool:
    return isinstance(value, isl.Aff) and bool(value.is_cst())


def _number(value: Aff | PwAff) -> int:
    """Return the value of a constant function."""
    assert isinstance(value, isl.Aff)
    return int(value.get_constant_val().to_python())


def as_pw_aff(value: Aff | PwAff) -> PwAff:
    """Return *value* as a piecewise function."""
    return value if isinstance(value, isl.PwAff) else isl.PwAff.from_aff(value)


def _alike(one: Aff | PwAff, other: Aff | PwAff) -> tuple[Any, Any]:
    """Return both in the form that isl needs for one operation."""
    if type(one) is type(other):
        return one, other
    return as_pw_aff(one), as_pw_aff(other)


def compare(left: Aff | PwAff, relation: str, right: Aff | PwAff) -> Set:
    """Return where a relation between two functions is true: ``eq_set``, ``lt_set``, ``ne_set``."""
    one, other = _alike(left, right)
    result: Set = getattr(one, relation)(other)
    return result


def aff_from_expr(space: isl.Space, expr: Expr) -> Aff | PwAff:
    """Convert *expr* over the dimensions and parameters of *space* (a set space).

    Raises :class:`ExpressionToAffineConversionError` for expressions that are not quasi-affine.
    """
    try:
        return _AffMaker(isl.LocalSpace.from_space(space))(expr)
    except _NotAffine as err:
        raise ExpressionToAffineConversionError(f"'{to_text(expr)}' is not affine: {err}") from None


def pw_aff_from_expr(space: isl.Space, expr: Expr) -> PwAff:
    """Convert *expr* as :func:`aff_from_expr` does, to a piecewise function."""
    return as_pw_aff(aff_from_expr(space, expr))


def map_from_exprs(space: isl.Space, exprs: Sequence[Expr]) -> isl.Map:
    """Return ``{ [dimensions] -> [values of exprs] }`` over the dimensions of *space*.

    Raises :class:`ExpressionToAffineConversionError` for expressions that are not quasi-affine.
    """
    values = [aff_from_expr(space, expr) for expr in exprs]
    target = space.from_domain().add_dims(isl.dim_type.out, len(values))
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(values))
    for value in values:
        if isinstance(value, isl.Aff):
            affs = affs.add(value)
    if affs.n_aff() == len(values):
        return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(target, affs))
    pieces = isl.PwAffList.alloc(isl.DEFAULT_CONTEXT, len(values))
    for value in values:
        pieces = pieces.add(as_pw_aff(value))
    return isl.Map.from_multi_pw_aff(isl.MultiPwAff.from_pw_aff_list(target, pieces))


def _divisor(expr: Expr) -> isl.Val:
    if not is_constant(expr) or int(expr) != expr or expr <= 0:
        raise _NotAffine(f"the divisor '{to_text(expr)}' is not a positive integer")
    return isl_int(int(expr))


def set_from_condition(space: isl.Space, condition: Expr) -> Set:
    """Convert a condition over the dimensions of *space* to the set where it is true."""
    try:
        return _to_set(isl.LocalSpace.from_space(space), condition)
    except _NotAffine as err:
        raise ExpressionToAffineConversionError(
            f"the condition '{to_text(condition)}' is not affine: {err}"
        ) from None


_RELATIONS = {
    "<": "lt_set",
    "<=": "le_set",
    ">": "gt_set",
    ">=": "ge_set",
    "==": "eq_set",
    "!=": "ne_set",
}


def _to_set(ls: isl.LocalSpace, condition: Expr) -> Set:
    match condition:
        case bool():
            universe = isl.Set.universe(ls.get_space())
            return universe if condition else isl.Set.empty(ls.get_space())
        case p.Comparison():
            make = _AffMaker(ls)
            relation = _RELATIONS[str(condition.operator)]
            return compare(make(condition.left), relation, make(condition.right))
        case p.LogicalAnd() | p.LogicalOr():
            is_and = isinstance(condition, p.LogicalAnd)
            if not condition.children:
                return _to_set(ls, is_and)
            total, *sets = (_to_set(ls, child) for child in condition.children)
            for one in sets:
                total = total.intersect(one) if is_and else total.union(one)
            return total
        case p.LogicalNot():
            return _to_set(ls, condition.child).complement()
    raise _NotAffine(f"'{to_text(condition)}' is not a comparison")


def aff_to_expr(aff: isl.Aff) -> Expr:
    """Convert an isl quasi-affine expression to pymbolic.

    isl may write ``m // 9`` as ``m - (8*m + 8) // 9``, which overflows earlier than ``m``, so
    multiples of a divisor are moved out of the division.
    """
    if aff.is_cst():
        number = aff.get_constant_val()
        if number.is_int():
            return int(number.to_python())
    terms, constant, denominator = _linear_parts(aff)
    total = _to_sum(terms, constant)
    return total if denominator == 1 else p.FloorDiv(total, denominator)


def _linear_parts(aff: isl.Aff) -> tuple[dict[Expr, int], int, int]:
    """Return coefficients by variable or quotient, a constant, and the common divisor."""
    denominator = aff.get_denominator_val()
    scaled = aff.scale_val(denominator)
    terms: dict[Expr, int] = {}
    for kind in (isl.dim_type.in_, _PARAM):
        for k in range(aff.dim(kind)):
            coefficient = int(scaled.get_coefficient_val(kind, k).to_python())
            if coefficient:
                _add_term(terms, p.Variable(str(aff.get_dim_name(kind, k))), coefficient)
    constant = int(scaled.get_constant_val().to_python())
    for k in range(aff.dim(_DIV)):
        coefficient = int(scaled.get_coefficient_val(_DIV, k).to_python())
        if coefficient:
            constant += coefficient * _add_quotient(terms, aff.get_div(k), coefficient)
    return terms, constant, int(denominator.to_python())


def _add_term(terms: dict[Expr, int], atom: Expr, coefficient: int) -> None:
    terms[atom] = terms.get(atom, 0) + coefficient
    if not terms[atom]:
        del terms[atom]


def _add_quotient(terms: dict[Expr, int], quotient: isl.Aff, factor: int) -> int:
    """Add *factor* times a floor division; return the integer that it contributes."""
    inside, constant, divisor = _linear_parts(quotient)
    whole, rest = divmod(constant, divisor)
    left: dict[Expr, int] = {}
    for atom, coefficient in inside.items():
        times = -((divisor - 2 * coefficient) // (2 * divisor))  # rounds halves down
        if times:
            _add_term(terms, atom, factor * times)
        if coefficient != times * divisor:
            left[atom] = coefficient - times * divisor
    if not left:
        return whole
    if next(iter(left.values())) < 0:  # floor(-x/d) = -floor((x + d - 1)/d)
        left = {atom: -coefficient for atom, coefficient in left.items()}
        rest, factor = divisor - 1 - rest, -factor
    _add_term(terms, p.FloorDiv(_to_sum(left, rest), divisor), factor)
    return whole


def _to_sum(terms: Mapping[Expr, int], constant: int) -> Expr:
    """Write a linear form, positive terms first."""
    parts = [_times(coefficient, atom) for atom, coefficient in terms.items()]
    parts.sort(key=_is_negative)
    if constant or not parts:
        parts.append(constant)
    return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))


def _is_negative(term: Expr) -> bool:
    factor: Any = term.children[0] if isinstance(term, p.Product) else 1
    return isinstance(factor, int) and factor < 0


def _times(coefficient: int, expr: Expr) -> Expr:
    return expr if coefficient == 1 else p.Product((coefficient, expr))


def qpolynomial_to_expr(qpoly: isl.QPolynomial) -> Expr:
    """Convert an isl quasi-polynomial, such as a count, to an integer expression.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=j<=i<n }", "out[i, j] = 2.5*i", target=lp.CTarget())
    >>> ((_, count),) = lp.get_op_map(unit, subgroup_size=1).items()
    >>> ((_, qpoly),) = count.get_pieces()
    >>> print(qpolynomial_to_expr(qpoly))
    (n + n*n) // 2
    """
    terms = [(Fraction(str(term.get_coefficient_val())), term) for term in qpoly.get_terms()]
    divisor = math.lcm(*(coefficient.denominator for coefficient, _ in terms))
    space = qpoly.get_domain_space()
    parts = [_term_to_expr(space, int(factor * divisor), term) for factor, term in terms]
    total: Expr = parts[0] if len(parts) == 1 else p.Sum(tuple(parts)) if parts else 0
    return total if divisor == 1 else p.FloorDiv(total, divisor)


def _term_to_expr(space: isl.Space, coefficient: int, term: isl.Term) -> Expr:
    """Return a coefficient times powers of parameters, variables and quotients."""
    factors: list[Expr] = [] if coefficient == 1 else [coefficient]
    for kind in (_PARAM, _SET):
        for index in range(term.dim(kind)):
            name = p.Variable(str(space.get_dim_name(kind, index)))
            factors += [name] * term.get_exp(kind, index)
    for index in range(term.dim(_DIV)):
        quotient = aff_to_expr(term.get_div(index))
        factors += [quotient] * term.get_exp(_DIV, index)
    return factors[0] if len(factors) == 1 else p.Product(tuple(factors)) if factors else 1


def conditions_of(domain: Set) -> tuple[Expr, ...]:
    """Write a set as conditions on its parameters and dimensions, which are all true in it.

    ``{ : n >= 1 and n mod 4 = 0 }`` gives ``n >= 1`` and ``n % 4 == 0``.
    """
    pieces = domain.coalesce().compute_divs().get_basic_sets()
    if not pieces:
        return (p.Comparison(1, "==", 0),)
    if len(pieces) == 1:
        return _conditions_of_piece(pieces[0])
    return (p.LogicalOr(tuple(p.LogicalAnd(_conditions_of_piece(piece)) for piece in pieces)),)


def _conditions_of_piece(piece: isl.BasicSet) -> tuple[Expr, ...]:
    result: list[Expr] = []
    for constraint in piece.get_constraints():
        if constraint.is_div_constraint():
            continue
        value = aff_to_expr(constraint.get_aff())
        condition = move_to_sides(value, "==" if constraint.is_equality() else ">=", 0)
        if not isinstance(condition, bool):
            result.append(condition)
    return tuple(dict.fromkeys(sorted(result, key=to_text)))
