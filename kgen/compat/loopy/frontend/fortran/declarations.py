"""Declarations of Fortran: types, arrays, constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pymbolic.primitives as p

from kgen.compat.loopy.frontend.fortran.parser import Name, Range, Reference, Tree, parse_list
from kgen.compat.loopy.frontend.fortran.source import Statement, refused
from kgen.compat.loopy.frontend.fortran.values import Array, Dtype, Scope, Value
from kgen.errors import KgenSyntaxError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, minus

__all__ = ["declare", "resolve_arrays"]

_TYPE: Final = re.compile(
    r"(integer|real|double\s*precision|complex|logical)(?!\w)\s*(?:\*\s*(\d+)|\(([^()]*)\))?\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(
    r",\s*(?:dimension\s*\((?P<axes>(?:[^()]|\([^()]*\))*)\)|intent\s*\(\s*(?:in|out|inout)\s*\)"
    r"|(?P<parameter>parameter)|external)\s*",
    re.IGNORECASE,
)
_DIMENSION: Final = re.compile(r"dimension\b\s*(?:::)?(.*)", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"parameter\s*\((.*)\)", re.IGNORECASE)
_IGNORED: Final = re.compile(r"(external|intrinsic|intent|use\s+iso_c_binding)\b", re.IGNORECASE)
_NONE: Final = re.compile(r"implicit\s+none", re.IGNORECASE)
_SIZES: Final = {"integer": (1, 2, 4, 8), "real": (2, 4, 8), "complex": (8, 16), "logical": (4,)}


def declare(scope: Scope, statement: Statement) -> bool:
    """Read a declaration into *scope*; tell whether the statement is one."""
    text = statement.text
    if _NONE.fullmatch(text):
        scope.is_typed = True
    elif found := _PARAMETER.fullmatch(text):
        _set_constants(scope, found[1])
    elif found := _DIMENSION.match(text):
        for entity in _entities(found[1]):
            _declare_entity(scope, entity, None, None)
    elif (found := _TYPE.match(text)) and not text[found.end(1) :].lstrip().startswith("="):
        _declare_type(scope, statement, found)
    else:
        return bool(_IGNORED.match(text))
    return True


def _declare_type(scope: Scope, statement: Statement, found: re.Match[str]) -> None:
    dtype = _dtype(scope, statement, found)
    rest, axes, is_constant = found[4], None, False
    while attribute := _ATTRIBUTE.match(rest):
        axes = attribute["axes"] or axes
        is_constant = is_constant or attribute["parameter"] is not None
        rest = rest[attribute.end() :]
    if rest.startswith(","):
        raise refused(statement, "this attribute is not supported")
    for entity in _entities(rest.removeprefix("::")):
        _declare_entity(scope, entity, dtype, axes)
    if is_constant:
        _set_constants(scope, rest.removeprefix("::"))


def _dtype(scope: Scope, statement: Statement, found: re.Match[str]) -> Dtype:
    base = re.sub(r"\s", "", found[1].lower())
    if base == "doubleprecision":
        return np.dtype(np.float64)
    size = {"complex": 8}.get(base, 4)
    if found[2]:
        size = int(found[2])
    elif found[3]:
        kind = scope.value(found[3].split("=")[-1]).expr
        size = kind * (2 if base == "complex" else 1) if isinstance(kind, int) else 0
    if size not in _SIZES[base]:
        raise refused(statement, f"kgen has no type for this kind of {base}")
    return np.dtype(np.bool_ if base == "logical" else f"{base[0].replace('r', 'f')}{size}")


def _entities(text: str) -> Iterator[str]:
    """Split at the commas that are in no brackets."""
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _declare_entity(scope: Scope, text: str, dtype: Dtype | None, axes: str | None) -> None:
    (tree,) = parse_list(text.partition("=")[0])
    if not isinstance(tree, Name | Reference):
        raise KgenSyntaxError(f"'{text.strip()}' declares nothing")
    name = tree.name.lower()
    scope.spelled(tree.name)
    if dtype is not None:
        scope.types[name] = dtype
    extents = tree.items if isinstance(tree, Reference) else parse_list(axes or "")
    if extents:
        scope.axes[name] = extents


def resolve_arrays(scope: Scope) -> None:
    """Determine the shapes of arrays, whose sizes may be declared after them."""
    for name, extents in scope.axes.items():
        lower, shape = zip(*(_axis(scope, extent) for extent in extents), strict=True)
        scope.arrays[name] = Array(scope.type_of(name), lower, shape)
        scope.sizes.update(extent.name for extent in shape if isinstance(extent, p.Variable))


def _axis(scope: Scope, tree: Tree) -> tuple[Expr, Expr | None]:
    """Return the lower bound of an axis, and its extent."""
    if not isinstance(tree, Range):
        return 1, simplify(scope.of(tree).expr)
    lower = 1 if tree.first is None else scope.of(tree.first).expr
    if tree.last is None:
        return lower, None
    return lower, simplify(p.Sum((minus(scope.of(tree.last).expr, lower), 1)))


def _set_constants(scope: Scope, text: str) -> None:
    for entity in _entities(text):
        name, equals, value = entity.partition("=")
        if not equals:
            raise KgenSyntaxError(f"the constant '{name.strip()}' has no value")
        dtype = scope.type_of(scope.spelled(name.strip()))
        scope.values[name.strip().lower()] = Value(scope.value(value).expr, dtype)
