"""Expressions: mapper base classes that support kgen's nodes, and common queries."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
import pymbolic.mapper as pm
import pymbolic.primitives as p
from constantdict import constantdict
from pytools.tag import Tag

from kgen.ir.nodes import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    Reduction,
    StringifyMapper,
    SubArrayRef,
    TaggedVariable,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
    to_text,
)

__all__ = [
    "CombineMapper",
    "Expr",
    "GroupHardwareAxisIndex",
    "IdentityMapper",
    "LinearSubscript",
    "LocalHardwareAxisIndex",
    "NameMapper",
    "Reduction",
    "StringifyMapper",
    "SubArrayRef",
    "SubstitutionMapper",
    "TaggedVariable",
    "TypeCast",
    "TruncQuotient",
    "TruncRemainder",
    "TypedLiteral",
    "WalkMapper",
    "as_term",
    "contains_reduction",
    "flatten",
    "flatten_product",
    "flatten_sum",
    "is_constant",
    "is_negation",
    "is_zero",
    "minus",
    "names_in",
    "same_objects",
    "subscript",
    "substitute",
    "tags_of",
    "to_text",
    "variable_names",
    "walk",
]


class _NodesOfKgen:
    """The rebuilding methods for kgen's nodes; mixed into an identity mapper."""

    rec: Callable[..., Any]

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any, **kwargs: Any) -> Expr:
        return expr

    def map_typed_literal(self, expr: Any, *args: Any, **kwargs: Any) -> Expr:
        return expr

    map_group_hardware_axis_index = map_typed_literal
    map_local_hardware_axis_index = map_typed_literal

    def map_trunc_quotient(
        self, expr: TruncQuotient | TruncRemainder, *args: Any, **kwargs: Any
    ) -> Expr:
        old = (expr.numerator, expr.denominator)
        new = tuple(self.rec(part, *args, **kwargs) for part in old)
        return expr if same_objects(new, old) else type(expr)(*new)

    map_trunc_remainder = map_trunc_quotient

    def map_type_cast(self, expr: TypeCast, *args: Any, **kwargs: Any) -> Expr:
        child = self.rec(expr.child, *args, **kwargs)
        return expr if child is expr.child else TypeCast(expr.type, child)

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        parts = tuple(self.rec(part, *args, **kwargs) for part in expr.exprs)
        if same_objects(parts, expr.exprs):
            return expr
        return expr.over(expr.inames, parts)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any, **kwargs: Any) -> Expr:
        subscript = self.rec(expr.subscript, *args, **kwargs)
        return expr if subscript is expr.subscript else SubArrayRef(expr.swept_inames, subscript)

    def map_linear_subscript(self, expr: LinearSubscript, *args: Any, **kwargs: Any) -> Expr:
        old = (expr.aggregate, expr.index)
        new = tuple(self.rec(part, *args, **kwargs) for part in old)
        return expr if same_objects(new, old) else LinearSubscript(*new)

    def map_tuple(self, expr: tuple[Expr, ...], *args: Any, **kwargs: Any) -> Expr:
        parts = tuple(self.rec(part, *args, **kwargs) for part in expr)
        return expr if same_objects(parts, expr) else parts


def same_objects(new: Sequence[Any], old: Sequence[Any]) -> bool:
    """Tell whether two sequences of one length hold the very same objects.

    Equality would not suffice: ``Product((2, a)) == Product((2.0, a))``.
    """
    return all(map(operator.is_, new, old))


class IdentityMapper(_NodesOfKgen, pm.IdentityMapper):  # type: ignore[type-arg]
    """Rebuild an expression; the base of all mappers that change expressions.

    Unchanged parts stay the same objects, and so keep their cached facts.
    """

    def map_sum(self, expr: p.Sum, *args: Any, **kwargs: Any) -> Expr:
        result: Expr = super().map_sum(expr, *args, **kwargs)
        if result is expr or not any(map(is_negation, result.children)):
            return result
        pairs = list(zip(result.children, expr.children, strict=True))
        added = (new if is_negation(old) else as_term(new) for new, old in pairs[1:])
        return p.Sum((pairs[0][0], *added))


@lru_cache(maxsize=8192)
def names_in(expr: Expr) -> frozenset[str]:
    """Return the names of all variables and functions in an expression."""
    if isinstance(expr, p.Sum | p.Product):
        return frozenset[str]().union(*map(names_in, expr.children))
    functions = [node.function for node in walk(expr) if isinstance(node, p.Call)]
    return frozenset(variable_names(expr, *functions))


class NameMapper(IdentityMapper):
    """Rebuild expressions around some variables or functions; other terms and factors stay.

    In a sum of n terms of which one has the name, the others cost nothing: prefetching n arrays
    of it one by one takes time that grows little faster than n.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = frozenset(names)

    def map_sum(self, expr: p.Sum, *args: Any, **kwargs: Any) -> Expr:
        if self.names.isdisjoint(names_in(expr)):
            return expr
        return super().map_sum(expr, *args, **kwargs)

    def map_product(self, expr: p.Product, *args: Any, **kwargs: Any) -> Expr:
        if self.names.isdisjoint(names_in(expr)):
            return expr
        return super().map_product(expr, *args, **kwargs)


class _Asked:
    """A function of variables, in the form of a mapping of their names."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def get(self, name: str, default: Expr = None) -> Expr:
        """Return the replacement of the variable *name*."""
        new = self.function(p.Variable(name))
        return default if new is None else new


class SubstitutionMapper(IdentityMapper):
    """Replace variables by name, subscripted or not, but not function names.

    Instead of a mapping, a function may be given, as pymbolic's ``make_subst_func`` returns one: it
    is called for each variable and subscript, and returns its replacement, or ``None``.

    >>> from pymbolic.mapper.substitutor import make_subst_func
    >>> replaced = SubstitutionMapper(make_subst_func({"x": 2, p.Variable("a")[0]: 3}))
    >>> str(replaced(p.Variable("x") * p.Variable("a")[0] * p.Variable("a")[1]))
    '2*3*a[1]'
    """

    def __init__(self, replacements: Mapping[str, Expr] | Callable[[Expr], Expr | None]) -> None:
        super().__init__()
        is_function = not isinstance(replacements, Mapping)
        self.replacements: Any = _Asked(replacements) if is_function else replacements
        self.subst_func: Any = replacements if is_function else None

    def rec_arith(self, expr: Expr, *args: Any, **kwargs: Any) -> Expr:
        return self.rec(expr, *args, **kwargs)  # non-numbers are rejected with their instruction

    def map_subscript(self, expr: p.Subscript, *args: Any, **kwargs: Any) -> Expr:
        new = None if self.subst_func is None else self.subst_func(expr)
        return super().map_subscript(expr, *args, **kwargs) if new is None else new

    def map_variable(self, expr: p.Variable, *args: Any, **kwargs: Any) -> Expr:
        return self.replacements.get(expr.name, expr)

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any, **kwargs: Any) -> Expr:
        new = self.replacements.get(expr.name, expr)
        return TaggedVariable(new.name, expr.tags) if type(new) is p.Variable else new

    def map_call(self, expr: p.Call, *args: Any, **kwargs: Any) -> Expr:
        operands = self.map_tuple(expr.parameters, *args, **kwargs)
        return expr if operands is expr.parameters else p.Call(expr.function, operands)

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        renamed = []
        for iname in expr.inames:
            new = self.replacements.get(iname)
            renamed.append(new.name if isinstance(new, p.Variable) else iname)
        parts = tuple(self.rec(part, *args, **kwargs) for part in expr.exprs)
        if tuple(renamed) == expr.inames and same_objects(parts, expr.exprs):
            return expr
        return expr.over(tuple(renamed), parts)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any, **kwargs: Any) -> Expr:
        old = (*expr.swept_inames, expr.subscript)
        *swept, subscript = new = tuple(self.rec(part, *args, **kwargs) for part in old)
        return expr if same_objects(new, old) else SubArrayRef(tuple(swept), subscript)


class CombineMapper(pm.CombineMapper):  # type: ignore[type-arg]
    """Fold an expression bottom-up; the base of analyses."""

    def map_typed_literal(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return self.combine(())

    map_group_hardware_axis_index = map_typed_literal
    map_local_hardware_axis_index = map_typed_literal

    def map_trunc_quotient(self, expr: TruncQuotient, *args: Any, **kwargs: Any) -> Any:
        return self.combine(
            [self.rec(expr.numerator, *args, **kwargs), self.rec(expr.denominator, *args, **kwargs)]
        )

    map_trunc_remainder = map_trunc_quotient

    def map_type_cast(self, expr: TypeCast, *args: Any, **kwargs: Any) -> Any:
        return self.rec(expr.child, *args, **kwargs)

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Any:
        return self.combine([self.rec(part, *args, **kwargs) for part in expr.exprs])

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any, **kwargs: Any) -> Any:
        return self.rec(expr.subscript, *args, **kwargs)

    def map_linear_subscript(self, expr: LinearSubscript, *args: Any, **kwargs: Any) -> Any:
        return self.combine(
            [self.rec(expr.aggregate, *args, **kwargs), self.rec(expr.index, *args, **kwargs)]
        )

    def map_tuple(self, expr: tuple[Expr, ...], *args: Any, **kwargs: Any) -> Any:
        return self.combine([self.rec(part, *args, **kwargs) for part in expr])


class WalkMapper(pm.WalkMapper):  # type: ignore[type-arg]
    """Visit every node, for its effect on the mapper."""

    def map_typed_literal(self, expr: Any, *args: Any, **kwargs: Any) -> None:
        self.visit(expr, *args, **kwargs)

    map_group_hardware_axis_index = map_typed_literal
    map_local_hardware_axis_index = map_typed_literal

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any, **kwargs: Any) -> None:
        self.map_variable(expr, *args, **kwargs)

    def map_trunc_quotient(self, expr: TruncQuotient, *args: Any, **kwargs: Any) -> None:
        if self.visit(expr, *args, **kwargs):
            self.rec(expr.numerator, *args, **kwargs)
            self.rec(expr.denominator, *args, **kwargs)

    map_trunc_remainder = map_trunc_quotient

    def map_type_cast(self, expr: TypeCast, *args: Any, **kwargs: Any) -> None:
        if self.visit(expr, *args, **kwargs):
            self.rec(expr.child, *args, **kwargs)

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> None:
        if self.visit(expr, *args, **kwargs):
            for part in expr.exprs:
                self.rec(part, *args, **kwargs)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any, **kwargs: Any) -> None:
        if self.visit(expr, *args, **kwargs):
            self.rec(expr.subscript, *args, **kwargs)

    def map_linear_subscript(self, expr: LinearSubscript, *args: Any, **kwargs: Any) -> None:
        if self.visit(expr, *args, **kwargs):
            self.rec(expr.aggregate, *args, **kwargs)
            self.rec(expr.index, *args, **kwargs)

    def map_tuple(self, expr: tuple[Expr, ...], *args: Any, **kwargs: Any) -> None:
        for part in expr:
            self.rec(part, *args, **kwargs)


#: Testing a tuple of types is five times as fast as testing a union.
_NUMBERS = (int, float, complex, np.generic)

#: The fields of a node that hold expressions, if not all do. Functions are not variables.
_CHILDREN: dict[type[Any], tuple[str, ...]] = {
    p.Variable: (),
    TaggedVariable: (),
    TypedLiteral: (),
    GroupHardwareAxisIndex: (),
    LocalHardwareAxisIndex: (),
    p.Call: ("parameters",),
    p.CallWithKwargs: ("parameters", "kw_parameters"),
    p.CommonSubexpression: ("child",),
    p.Comparison: ("left", "right"),
    p.Lookup: ("aggregate",),
    p.NaN: (),
    Reduction: ("expr",),
    SubArrayRef: ("subscript",),
    TypeCast: ("child",),
}


@lru_cache(maxsize=256)
def _children_of(kind: type[Any]) -> Callable[[Expr], Any] | None:
    """Return a getter of the expressions in a node, several as a tuple; ``None`` for leaves."""
    if not issubclass(kind, p.ExpressionNode):
        return None
    names = _CHILDREN.get(kind)
    if names is None:
        names = tuple(field.name for field in dataclasses.fields(cast("Any", kind)))
    return operator.attrgetter(*names) if names else None


def walk(*exprs: Expr) -> Iterator[Expr]:
    """Yield all nodes, outer ones first, in order of appearance, except functions.

    >>> i = p.Variable("i")
    >>> [str(node) for node in walk(p.Sum((p.Variable("f")(i), 2)))]
    ['f(i) + 2', 'f(i)', 'i', '2']
    """
    stack = list(exprs[::-1])
    while stack:
        top = stack.pop()
        kind: Any = type(top)
        if kind is tuple:
            stack.extend(top[::-1])
        elif kind is constantdict:  # the keyword arguments of a call
            stack.extend(tuple(top.values())[::-1])
        else:
            yield top
            children = _children_of(kind)
            if children is not None:
                stack.append(children(top))


def variable_names(*exprs: Expr) -> tuple[str, ...]:
    """Return the names of all variables in *exprs*, in order of appearance.

    Reduction inames count, function names do not.
    """
    if len(exprs) == 1:
        return _variable_names(exprs[0])
    return tuple(dict.fromkeys(name for expr in exprs for name in _variable_names(expr)))


@lru_cache(maxsize=8192)
def _variable_names(expr: Expr) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for node in walk(expr):
        if isinstance(node, p.Variable):
            names[node.name] = None
        elif isinstance(node, Reduction):
            names.update(dict.fromkeys(node.inames))
        elif isinstance(node, SubArrayRef):
            names.update(dict.fromkeys(v.name for v in node.swept_inames))
    return tuple(names)


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """Replace the variables named in *replacements*."""
    return SubstitutionMapper(replacements)(expr) if replacements else expr


def tags_of(variable: p.Variable) -> frozenset[Tag]:
    """Return the tags of a variable that may be a :class:`TaggedVariable`."""
    return variable.tags if isinstance(variable, TaggedVariable) else frozenset()


def subscript(array: Expr, index: tuple[Expr, ...]) -> Expr:
    """Return an element of *array*; *array* itself if there are no subscripts.

    >>> print(subscript(p.Variable("a"), (p.Variable("i"), 0)), subscript(p.Variable("b"), ()))
    a[i, 0] b
    """
    if not index:
        return array
    return p.Subscript(array, index if len(index) > 1 else index[0])


def minus(value: Expr, other: Expr) -> Expr:
    """Return ``value - other``, not simplified: pymbolic has no node for differences.

    >>> print(minus(p.Variable("i"), p.Variable("j")))
    i + (-1)*j
    """
    return p.Sum((value, p.Product((-1, other))))


def is_negation(expr: Expr) -> bool:
    """Tell whether *expr* is ``-x`` or ``-2*x``, which is subtracted if it is a term of a sum."""
    if not isinstance(expr, p.Product) or len(expr.children) < 2:
        return False
    first = expr.children[0]
    return type(first) is int and first < 0


def as_term(expr: Expr) -> Expr:
    """Return *expr* as a term that is added to others.

    A negation becomes a sum of its own: ``x + (-u)`` is not ``x - u`` if ``u`` is unsigned and
    ``x`` is wider, since ``-u`` wraps in the type of ``u``.

    >>> u = p.Variable("u")
    >>> print(to_text(p.Sum((1, as_term(-u)))), "and", to_text(p.Sum((1, -u))))
    1 + (-u) and 1 - u
    """
    return p.Sum((expr,)) if is_negation(expr) else expr


def contains_reduction(expr: Expr) -> bool:
    """Tell whether a :class:`Reduction` is anywhere in *expr*."""
    return any(isinstance(node, Reduction) for node in walk(expr))


def is_constant(expr: Expr) -> bool:
    """Tell whether *expr* is a plain number."""
    return isinstance(expr, _NUMBERS)


def is_zero(expr: Expr) -> bool:
    """Tell whether *expr* is the number 0."""
    return is_constant(expr) and bool(expr == 0)


def flatten_sum(expr: Expr) -> tuple[Expr, ...]:
    """Return the terms of a sum, nested sums opened.

    >>> i = p.Variable("i")
    >>> flatten_sum(p.Sum((p.Sum((i, 1)), 2)))
    (Variable('i'), 1, 2)
    """
    return flatten(p.Sum, expr)


def flatten_product(expr: Expr) -> tuple[Expr, ...]:
    """Return the factors of a product, nested products opened."""
    return flatten(p.Product, expr)


def flatten(kind: type[Any], expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of an operation, nested ones of the same kind opened."""
    stack, parts = [expr], []
    while stack:
        top = stack.pop()
        if isinstance(top, kind):
            stack.extend(reversed(top.children))
        else:
            parts.append(top)
    return tuple(parts)
