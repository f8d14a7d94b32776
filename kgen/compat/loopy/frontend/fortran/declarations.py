"""Declarations of Fortran: types, arrays, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pymbolic.primitives as p

from kgen.compat.loopy.frontend.fortran.source import Statement, nodes_of, parts_of
from kgen.compat.loopy.frontend.fortran.values import Array, Axis, Dtype, Scope, Value, dtype_of
from kgen.errors import KgenSyntaxError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, minus

__all__ = ["declare", "resolve_arrays"]

#: Statements and attributes that say nothing about types, values and shapes.
_IGNORED: Final = ("External_Stmt", "Intrinsic_Stmt", "Intent_Stmt")
_IGNORED_ATTRIBUTES: Final = ("INTENT", "EXTERNAL")
_DOUBLE: Final = {"DOUBLE PRECISION": ("real", 8), "DOUBLE COMPLEX": ("complex", 16)}
_NUMBERS: Final = ("INTEGER", "REAL", "COMPLEX", "LOGICAL")


def declare(scope: Scope, statement: Statement) -> bool:
    """Read a declaration into *scope*; tell whether the statement is one."""
    match statement.kind, statement.parts:
        case "Implicit_Stmt", ("NONE",):
            scope.is_typed = True
        case "Parameter_Stmt", (_, constants):
            for constant in nodes_of(constants):
                name, value = constant.items
                _set_constant(scope, str(name), value)
        case "Dimension_Stmt", (entities,):
            for name, axes in entities:
                scope.axes[scope.spelled(str(name)).lower()] = _axes(axes)
        case "Type_Declaration_Stmt", (kind, attributes, entities):
            _declare_type(scope, _dtype(scope, kind), nodes_of(attributes), nodes_of(entities))
        case "Use_Stmt", (_, _, module, *_):
            return str(module).lower() == "iso_c_binding"
        case _:
            return statement.kind in _IGNORED
    return True


def _declare_type(
    scope: Scope, dtype: Dtype, attributes: Sequence[Any], entities: Sequence[Any]
) -> None:
    axes: tuple[Axis, ...] = ()
    is_constant = False
    for attribute in attributes:
        word = str(parts_of(attribute)[0])
        if word == "DIMENSION":
            axes = _axes(attribute.items[1])
        elif word == "PARAMETER":
            is_constant = True
        elif word not in _IGNORED_ATTRIBUTES:
            raise KgenSyntaxError(f"the attribute '{attribute}' is not supported")
    for entity in entities:
        spelled, own_axes, length, value = entity.items
        name = scope.spelled(str(spelled)).lower()
        scope.types[name] = dtype
        if extents := _axes(own_axes) or axes:
            scope.axes[name] = extents
        if length is not None:
            raise KgenSyntaxError(f"'{entity}' is not supported", hint="write the kind at the type")
        if is_constant:
            _set_constant(scope, str(spelled), value and value.items[1])
        elif value is not None:
            raise KgenSyntaxError(
                f"'{spelled}' has an initial value, and is no constant",
                hint="assign it in a statement, or make it a 'parameter'",
            )


def _dtype(scope: Scope, kind: Any) -> Dtype:
    base, selector = parts_of(kind)
    if base in _DOUBLE:
        return dtype_of(*_DOUBLE[base])
    if base not in _NUMBERS:
        raise KgenSyntaxError(f"kgen has no type for '{kind}'")
    unit = 2 if base == "COMPLEX" else 1
    if selector is None:
        return dtype_of(base.lower(), 4 * unit)
    mark, number = selector.items[:2]
    size = scope.of(number).expr
    if not isinstance(size, int):
        size = 0
    return dtype_of(base.lower(), size if mark == "*" else size * unit)


def _axes(shape: Any) -> tuple[Axis, ...]:
    """Return the bounds of the axes in a declaration; ``None`` for one that is not there."""
    if type(shape).__name__ == "Assumed_Size_Spec":
        others, lower = shape.items
        return (*_axes(others), (lower, None))
    return tuple(axis.items for axis in nodes_of(shape))


def resolve_arrays(scope: Scope) -> None:
    """Determine the shapes of arrays, whose sizes may be declared after them."""
    for name, axes in scope.axes.items():
        lower, shape = zip(*(_axis(scope, axis) for axis in axes), strict=True)
        scope.arrays[name] = Array(scope.type_of(name), lower, shape)
        scope.sizes.update(extent.name for extent in shape if isinstance(extent, p.Variable))


def _axis(scope: Scope, axis: Axis) -> tuple[Expr, Expr | None]:
    """Return the lower bound of an axis, and its extent."""
    first, last = axis
    lower = 1 if first is None else scope.of(first).expr
    if last is None:
        return lower, None
    extent = scope.of(last).expr
    return lower, simplify(extent if lower == 1 else p.Sum((minus(extent, lower), 1)))


def _set_constant(scope: Scope, name: str, value: Any) -> None:
    if value is None:
        raise KgenSyntaxError(f"the constant '{name}' has no value")
    dtype = scope.type_of(scope.spelled(name))
    scope.values[name.lower()] = Value(scope.of(value).expr, dtype)
