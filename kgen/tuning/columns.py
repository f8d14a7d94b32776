"""Expressions in Python's syntax, evaluated for whole columns of values exactly as Python would."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["FUNCTIONS", "SUPPORTED", "Table", "column_of", "evaluate", "truth_of"]

Array: TypeAlias = NDArray[Any]

#: The functions that an expression may call.
FUNCTIONS: Mapping[str, Any] = {
    **{f.__name__: f for f in (abs, all, any, bool, divmod, float, int, len, max, min, pow)},
    **{f.__name__: f for f in (round, str, sum)},
    **{f"math.{name}": getattr(math, name) for name in dir(math) if name[0] != "_"},
}

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
#: Operations that numpy computes like Python for 64-bit integers, without overflow.
_EXACT = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_ORDERED = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SAFE = 2**62
#: Operations on floats, and on integers up to this size, if no divisor is zero.
_ROUNDED = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_FLOATS = 2**53
_SELECTED: Mapping[str, Callable[[Any, Any], Any]] = {"min": np.minimum, "max": np.maximum}


@dataclass(frozen=True)
class Column:
    """One value for each row, and for integers their limits: ``low <= values <= high``.

    Truth values, integers that fit in 64 bits, and floats are numpy's; all else are objects.
    """

    values: Array
    low: int = 0
    high: int = 1

    @property
    def is_integer(self) -> bool:
        return self.values.dtype.kind in "bi"

    @property
    def is_float(self) -> bool:
        return self.values.dtype.kind == "f"

    @property
    def fits_float(self) -> bool:
        """Whether each value is a float, or an integer that is one exactly."""
        return self.is_float or (self.is_integer and max(-self.low, self.high) <= _FLOATS)

    @property
    def integers(self) -> Array:
        """The values, of 64 bits: a truth value is 0 or 1."""
        return self.values.astype(np.int64, copy=False)

    @property
    def floats(self) -> Array:
        return self.values.astype(np.float64, copy=False)

    @property
    def objects(self) -> Array:
        """The values as objects of Python."""
        return self.values.astype(object, copy=False)

    def take(self, rows: Array | slice) -> Column:
        return Column(self.values[rows], self.low, self.high)


def column_of(values: Sequence[Any]) -> Column:
    """Return the column of values of Python.

    >>> [column_of(values).values.dtype.kind for values in ([2, 8], [True], [1.5], ["x"], [1, 1.5])]
    ['i', 'b', 'f', 'O', 'O']
    """
    kinds = set(map(type, values))
    if kinds == {bool}:
        return Column(np.array(values, bool))
    if kinds == {float}:
        return Column(np.array(values, np.float64))
    if kinds == {int} and min(values) > -_SAFE and max(values) < _SAFE:
        return Column(np.array(values, np.int64), min(values), max(values))
    return Column(np.fromiter(values, object, len(values)))


@dataclass(frozen=True)
class Table:
    """Columns of equal length by name; columns of a part are computed on first access."""

    columns: Mapping[str, Column]
    count: int
    rows: Array | None = None

    def __getitem__(self, name: str) -> Column:
        column = self.columns[name]
        return column if self.rows is None else column.take(self.rows)

    def take(self, rows: Array) -> Table:
        """Return the table of some rows."""
        chosen = rows if self.rows is None else self.rows[rows]
        return Table(self.columns, len(rows), chosen)

    def first_row(self) -> str:
        """Return the values of the first row as text."""
        row = self.take(np.arange(1))
        values = {name: row[name].objects[0] for name in sorted(self.columns)}
        return ", ".join(f"{name} = {value!r}" for name, value in values.items())


def truth_of(column: Column) -> NDArray[np.bool_]:
    """Return for each value whether it is true."""
    return column.values.astype(bool, copy=False)


def evaluate(node: ast.expr, table: Table) -> Column:
    """Evaluate an expression for each row of a table.

    Operands after ``and``, ``or`` and ``if`` are evaluated for those rows only for which Python
    evaluates them. Exceptions of Python for a row are raised.

    >>> table = Table({"a": column_of([1, 2, 3]), "b": column_of([0, 1, 2])}, 3)
    >>> evaluate(ast.parse("b != 0 and a % b == 0", mode="eval").body, table).values
    array([False,  True, False])
    """
    return _EVALUATED[type(node)](node, table)


def _objectwise(function: Callable[..., Any], *columns: Column) -> Column:
    rows = zip(*(column.objects.tolist() for column in columns), strict=True)
    return column_of([function(*row) for row in rows])


def _repeated(value: Any, count: int) -> Column:
    column = column_of([value])
    return Column(np.broadcast_to(column.values, (count,)), column.low, column.high)


def _constant(node: ast.Constant, table: Table) -> Column:
    return _repeated(node.value, table.count)


def _name(node: ast.Name, table: Table) -> Column:
    return table[node.id]


def _limits(kind: type[ast.operator], left: Column, right: Column) -> tuple[int, int]:
    """Return limits of the results of an exact operation."""
    if kind is ast.Mod:
        return min(right.low, 0), max(right.high, 0)
    if kind is ast.FloorDiv:
        size = max(abs(left.low), abs(left.high))
        return -size, size
    operation = _BINARY[kind]
    corners = [operation(x, y) for x in (left.low, left.high) for y in (right.low, right.high)]
    return min(corners), max(corners)


def _binary(node: ast.BinOp, table: Table) -> Column:
    left, right = evaluate(node.left, table), evaluate(node.right, table)
    kind = type(node.op)
    found = None
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) or right.values.all():
        found = _in_numpy(kind, left, right)
    return _objectwise(_BINARY[kind], left, right) if found is None else found


def _in_numpy(kind: type[ast.operator], left: Column, right: Column) -> Column | None:
    """Apply an operation to columns if numpy computes what Python does."""
    if kind in _EXACT and left.is_integer and right.is_integer:
        low, high = _limits(kind, left, right)
        if low > -_SAFE and high < _SAFE:
            return Column(_BINARY[kind](left.integers, right.integers), low, high)
    has_floats = kind is ast.Div or left.is_float or right.is_float
    if kind in _ROUNDED and has_floats and left.fits_float and right.fits_float:
        with np.errstate(all="ignore"):
            return Column(_BINARY[kind](left.floats, right.floats))
    return None


def _unary(node: ast.UnaryOp, table: Table) -> Column:
    operand = evaluate(node.operand, table)
    if isinstance(node.op, ast.Not):
        return Column(~truth_of(operand))
    if operand.is_integer and isinstance(node.op, ast.USub):
        return Column(-operand.integers, -operand.high, -operand.low)
    return _objectwise(_UNARY[type(node.op)], operand)


def _compare_pair(op: ast.cmpop, left: Column, right: Column) -> Column:
    function = _COMPARED[type(op)]
    if isinstance(op, _ORDERED) and left.is_integer and right.is_integer:
        return Column(function(left.integers, right.integers))
    if isinstance(op, _ORDERED) and left.fits_float and right.fits_float:
        return Column(function(left.floats, right.floats))
    return _objectwise(function, left, right)


def _compare(node: ast.Compare, table: Table) -> Column:
    return _chain(evaluate(node.left, table), node.ops, node.comparators, table)


def _chain(
    left: Column, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr], table: Table
) -> Column:
    """Compare in a chain: ``a < b < c`` is ``a < b and b < c``, with *b* evaluated once."""
    right = evaluate(comparators[0], table)
    result = _compare_pair(ops[0], left, right)
    rows = np.flatnonzero(truth_of(result))
    if len(ops) == 1 or not len(rows):
        return result
    rest = _chain(right.take(rows), ops[1:], comparators[1:], table.take(rows))
    return _merged(result, rows, rest)


def _merged(base: Column, rows: Array, chosen: Column) -> Column:
    """Return *base* with other values in some rows."""
    if not len(rows):
        return base
    if len(rows) == len(base.values):
        return chosen
    same = base.values.dtype == chosen.values.dtype
    values = base.values.copy() if same else base.objects.copy()
    values[rows] = chosen.values if same else chosen.objects
    return Column(values, min(base.low, chosen.low), max(base.high, chosen.high))


def _and_or(node: ast.BoolOp, table: Table) -> Column:
    result = evaluate(node.values[0], table)
    for operand in node.values[1:]:
        true = truth_of(result)
        rows = np.flatnonzero(true if isinstance(node.op, ast.And) else ~true)
        if len(rows):
            result = _merged(result, rows, evaluate(operand, table.take(rows)))
    return result


def _if(node: ast.IfExp, table: Table) -> Column:
    true = truth_of(evaluate(node.test, table))
    yes, no = np.flatnonzero(true), np.flatnonzero(~true)
    if not len(no):
        return evaluate(node.body, table)
    otherwise = evaluate(node.orelse, table.take(no))
    if not len(yes):
        return otherwise
    base = _merged(_repeated(None, table.count), no, otherwise)
    return _merged(base, yes, evaluate(node.body, table.take(yes)))


def _call(node: ast.Call, table: Table) -> Column:
    name = ast.unparse(node.func)
    columns = [evaluate(arg, table) for arg in node.args]
    if name in _SELECTED and len(columns) > 1 and all(c.values.dtype == np.int64 for c in columns):
        function = FUNCTIONS[name]
        low, high = (function(getattr(c, side) for c in columns) for side in ("low", "high"))
        return Column(reduce(_SELECTED[name], (c.values for c in columns)), low, high)
    return _objectwise(FUNCTIONS[name], *columns)


def _attribute(node: ast.Attribute, table: Table) -> Column:
    return _repeated(FUNCTIONS[ast.unparse(node)], table.count)


def _subscript(node: ast.Subscript, table: Table) -> Column:
    return _objectwise(operator.getitem, evaluate(node.value, table), evaluate(node.slice, table))


def _display(
    kind: Callable[[tuple[Any, ...]], Any], node: ast.Tuple | ast.List | ast.Set, table: Table
) -> Column:
    if all(isinstance(item, ast.Constant) for item in node.elts):
        return _repeated(kind(ast.literal_eval(ast.Tuple(node.elts, ast.Load()))), table.count)
    return _objectwise(lambda *items: kind(items), *(evaluate(e, table) for e in node.elts))


_EVALUATED: Mapping[type[ast.expr], Callable[[Any, Table], Column]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.BoolOp: _and_or,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.IfExp: _if,
    ast.List: partial(_display, list),
    ast.Name: _name,
    ast.Set: partial(_display, set),
    ast.Subscript: _subscript,
    ast.Tuple: partial(_display, tuple),
    ast.UnaryOp: _unary,
}

#: The kinds of expressions that are evaluated.
SUPPORTED = frozenset(_EVALUATED)
