"""Expressions of Fortran as expressions of kgen, with their types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pymbolic.primitives as p

from kgen.compat.loopy.frontend.fortran.source import nodes_of, parts_of
from kgen.errors import KgenSyntaxError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, TypeCast, minus
from kgen.ir.types import NumpyType

__all__ = ["LOGICAL", "Array", "Axis", "Dtype", "Scope", "Value", "as_type", "dtype_of"]

Dtype: TypeAlias = np.dtype[Any]
#: The bounds of an axis of an array, as nodes of fparser's tree.
Axis: TypeAlias = tuple[Any, Any]

INT: Final = np.dtype(np.int32)
REAL: Final = np.dtype(np.float32)
DOUBLE: Final = np.dtype(np.float64)
LOGICAL: Final = np.dtype(np.bool_)


@dataclass(frozen=True)
class Value:
    """An expression of kgen, and its type in Fortran."""

    expr: Expr
    dtype: Dtype


@dataclass(frozen=True)
class Array:
    """The type of an array, its lower bounds, and its extents; ``None`` for an extent ``*``."""

    dtype: Dtype
    lower: tuple[Expr, ...]
    shape: tuple[Expr | None, ...]


@dataclass
class Scope:
    """The meaning of names, all in lower case.

    ``axes`` are those of arrays as they are declared, ``arrays`` what they mean.
    ``spellings`` are the names as their first occurrence has them. ``values`` are those of
    constants, and of the variables of the loops around an expression; ``ended`` are those of
    other loops. ``inames``, and ``sizes`` of arrays, are never negative; ``read`` has all variables
    that occur. ``accessed`` are subscripts of the statement that is read, and the extents of the
    axes.
    """

    types: dict[str, Dtype] = field(default_factory=dict)
    axes: dict[str, tuple[Axis, ...]] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    inames: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    accessed: list[tuple[Expr, Expr | None]] = field(default_factory=list)
    arguments: Collection[str] = ()
    is_typed: bool = False

    def spelled(self, name: str) -> str:
        """Return a name in its first spelling."""
        return self.spellings.setdefault(name.lower(), name)

    def type_of(self, name: str) -> Dtype:
        """Return the type of a variable, which its first letter has if it is not declared."""
        lower = name.lower()
        if lower not in self.types:
            if self.is_typed:
                raise KgenSyntaxError(f"'{name}' has no type, and 'implicit none' is in effect")
            self.types[lower] = INT if "i" <= lower[0] <= "n" else REAL
        return self.types[lower]

    def of(self, node: Any) -> Value:
        """Return the value of an expression, which is a node of fparser's tree."""
        match type(node).__name__, parts_of(node):
            case "Int_Literal_Constant" | "Real_Literal_Constant" | "Logical_Literal_Constant", _:
                return self.literal(*node.items)
            case "Name", (name,):
                return self.variable(name)
            case "Part_Ref" | "Intrinsic_Function_Reference" | "Structure_Constructor", _:
                return self.reference(str(node.items[0]), nodes_of(node.items[1]))
            case "Parenthesis", (_, inner, _):
                return self.of(inner)
            case _, (str() as word, operand) if word.lower() in _SIGNS:
                return _SIGNS[word.lower()](self.of(operand))
            case _, (left, str() as word, right) if word.lower() in _OPERATORS:
                return self.binary(_OPERATORS[word.lower()], self.of(left), self.of(right))
            case "Subscript_Triplet", _:
                raise KgenSyntaxError(
                    "sections of arrays are not supported", hint="write a do loop"
                )
        raise KgenSyntaxError(f"'{node}' is not supported")

    def literal(self, text: str, kind: str | None) -> Value:
        """Return the value of a number, or of ``.true.`` and ``.false.``.

        >>> Scope().literal("1.5D0", None)
        Value(expr=1.5, dtype=dtype('float64'))
        """
        text = text.lower()
        if "true" in text or "false" in text:
            return Value("true" in text, LOGICAL)
        size = 4 if kind is None else self.size_of(kind)
        if text.isdigit():
            return Value(int(text), dtype_of("integer", size))
        size = 8 if "d" in text else size
        return Value(float(text.replace("d", "e")), dtype_of("real", size))

    def size_of(self, kind: str) -> int:
        """Return the number that a kind is, such as ``8`` or a constant."""
        size = int(kind) if kind.isdigit() else self.variable(kind).expr
        if not isinstance(size, int):
            raise KgenSyntaxError(f"the kind '{kind}' is not a constant", hint="write the number")
        return size

    def variable(self, name: str) -> Value:
        """Return the value of a name without subscripts."""
        lower = name.lower()
        if lower in self.values:
            return self.values[lower]
        if lower in self.arrays:
            raise KgenSyntaxError(f"'{name}' is an array", hint="write a do loop over its elements")
        if lower in self.ended:
            raise KgenSyntaxError(f"the loop over '{name}' has ended, and its value is not known")
        self.read.add(self.spelled(name))
        return Value(p.Variable(self.spelled(name)), self.type_of(name))

    def reference(self, spelled: str, nodes: Sequence[Any]) -> Value:
        """Return the value of an element of an array, or of a call."""
        name = spelled.lower()
        if name in self.arrays:
            return self.element(spelled, nodes)
        items = [self.of(_kind(node) if name in _CONVERSIONS else node) for node in nodes]
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](self, items)
        if name in self.types and name not in self.arguments:
            call = p.Variable(self.spelled(spelled))(*(item.expr for item in items))
            return Value(call, self.types[name])
        raise KgenSyntaxError(
            f"'{spelled}' is neither an array nor a known function",
            hint=f"declare an array, 'real*8 {spelled}(n)', or the type of a function",
        )

    def element(self, name: str, nodes: Sequence[Any]) -> Value:
        """Return an element of an array; subscripts of kgen begin with 0."""
        array = self.arrays[name.lower()]
        if len(nodes) != len(array.lower):
            raise KgenSyntaxError(
                f"'{name}' has {len(array.lower)} axes, and {len(nodes)} subscripts"
            )
        index = [
            simplify(minus(self.of(node).expr, lower))
            for node, lower in zip(nodes, array.lower, strict=True)
        ]
        self.accessed += zip(index, array.shape, strict=True)
        self.read.add(self.spelled(name))
        return Value(p.Subscript(p.Variable(self.spelled(name)), tuple(index)), array.dtype)

    def binary(self, operator: str, left: Value, right: Value) -> Value:
        """Return the result of an operator on two values."""
        if operator in ("and", "or"):
            kind = p.LogicalAnd if operator == "and" else p.LogicalOr
            return Value(kind((left.expr, right.expr)), LOGICAL)
        a, b = _fitted(left, right), _fitted(right, left)
        if operator not in _ARITHMETIC:
            return Value(p.Comparison(a, operator, b), LOGICAL)
        is_whole_power = operator == "**" and right.dtype.kind == "i"
        dtype = left.dtype if is_whole_power else _joined(left.dtype, right.dtype)
        expr = _ARITHMETIC[operator](self, a, b, dtype)
        is_sum = dtype.kind == "i" and operator in "+-*"
        return Value(simplify(expr) if is_sum else expr, dtype)

    def quotient(self, a: Expr, b: Expr, dtype: Dtype) -> Expr:
        """Return a quotient, which Fortran truncates for integers."""
        if dtype.kind != "i":
            return p.Quotient(a, b)
        if self.is_count(a) and self.is_count(b):
            return p.FloorDiv(a, b)
        differ = p.Comparison(a, "<", 0)
        if not self.is_count(b):
            differ = p.Comparison(differ, "!=", p.Comparison(b, "<", 0))
        negative = p.Product((-1, p.FloorDiv(p.Product((-1, a)), b)))
        return p.If(differ, negative, p.FloorDiv(a, b))

    def remainder(self, a: Expr, b: Expr, dtype: Dtype) -> Expr:
        """Return a remainder, which has the sign of *a* in Fortran."""
        if dtype.kind != "i":
            return p.Variable("fmod")(a, b)
        if self.is_count(a) and self.is_count(b):
            return p.Remainder(a, b)
        return minus(a, p.Product((b, self.quotient(a, b, dtype))))

    def is_count(self, expr: Expr) -> bool:
        """Tell whether an integer is never negative, such as a sum of loop variables and sizes."""
        match expr:
            case p.Variable():
                return expr.name in self.inames or expr.name in self.sizes
            case p.Sum() | p.Product():
                return all(map(self.is_count, expr.children))
            case p.FloorDiv() | p.Remainder():
                return self.is_count(expr.numerator) and self.is_count(expr.denominator)
        return isinstance(expr, int) and expr >= 0


def as_type(value: Value, dtype: Dtype) -> Expr:
    """Return a value as it is stored in a variable; reals are truncated for an integer."""
    if dtype.kind == "i" and value.dtype.kind in "fc":
        return TypeCast(NumpyType(dtype), value.expr)
    return value.expr


def dtype_of(base: str, size: int) -> Dtype:
    """Return a type of Fortran.

    >>> dtype_of("real", 8)
    dtype('float64')
    """
    if size not in _SIZES[base]:
        raise KgenSyntaxError(f"kgen has no type for this kind of {base}")
    return LOGICAL if base == "logical" else np.dtype(f"{base[0].replace('r', 'f')}{size}")


_SIZES: Final = {"integer": (1, 2, 4, 8), "real": (2, 4, 8), "complex": (8, 16), "logical": (4,)}


def _kind(node: Any) -> Any:
    """Return the number in ``kind=8``, and other arguments as they are."""
    is_kind = type(node).__name__ == "Actual_Arg_Spec" and str(node.items[0]).lower() == "kind"
    return node.items[1] if is_kind else node


def _fitted(value: Value, other: Value) -> Expr:
    """Return a value beside another one; kgen gives a plain number the type of what is beside."""
    if isinstance(value.expr, float) and value.dtype == DOUBLE and other.dtype.name not in _WIDE:
        return np.float64(value.expr)
    return value.expr


_WIDE: Final = ("float64", "complex128")


def _joined(one: Dtype, other: Dtype) -> Dtype:
    """Return the type of a sum: reals stay as wide as they are beside integers."""
    if one.kind == "i" and other.kind != "i":
        return other
    if other.kind == "i" and one.kind != "i":
        return one
    return np.result_type(one, other)


def _negative(value: Value) -> Value:
    is_number = isinstance(value.expr, int | float)
    expr: Expr = -value.expr if is_number else p.Product((-1, value.expr))
    return Value(simplify(expr) if value.dtype.kind == "i" else expr, value.dtype)


_SIGNS: Final[Mapping[str, Callable[[Value], Value]]] = {
    "-": _negative,
    "+": lambda value: value,
    ".not.": lambda value: Value(p.LogicalNot(value.expr), LOGICAL),
}

#: Operators by their names in Python.
_OPERATORS: Final = {
    **{name: name for name in ("+", "-", "*", "/", "**", "==", "<", "<=", ">", ">=")},
    "/=": "!=",
    ".eq.": "==",
    ".ne.": "!=",
    ".lt.": "<",
    ".le.": "<=",
    ".gt.": ">",
    ".ge.": ">=",
    ".and.": "and",
    ".or.": "or",
    ".eqv.": "==",
    ".neqv.": "!=",
}

_ARITHMETIC: Final[Mapping[str, Callable[[Scope, Expr, Expr, Dtype], Expr]]] = {
    "+": lambda _, a, b, __: p.Sum((a, b)),
    "-": lambda _, a, b, __: minus(a, b),
    "*": lambda _, a, b, __: p.Product((a, b)),
    "**": lambda _, a, b, __: p.Power(a, b),
    "/": Scope.quotient,
}

# -- functions -----------------------------------------------------------------------------------

_Function: TypeAlias = Callable[[Scope, Sequence[Value]], Value]


def _checked(name: str, items: Sequence[Value], least: int, most: int | None) -> None:
    if len(items) < least or (most is not None and len(items) > most):
        raise KgenSyntaxError(f"'{name}' is called with {len(items)} arguments")


def _elementwise(name: str, own: str, kind: Literal["", "real", "part"] = "") -> _Function:
    """Make a function of one argument: its name in kgen, and the type of its result."""

    def call(_: Scope, items: Sequence[Value]) -> Value:
        _checked(name, items, 1, 1)
        dtype = items[0].dtype
        if dtype.kind == "c" and kind:
            dtype = np.dtype(np.float64 if dtype.itemsize == 16 else np.float32)
        if dtype.kind == "i" and kind != "part":
            raise KgenSyntaxError(f"'{name}' of an integer is not defined", hint="dble(...)")
        return Value(p.Variable(own)(items[0].expr), dtype)

    return call


def _conversion(name: str, default: Dtype) -> _Function:
    def call(_: Scope, items: Sequence[Value]) -> Value:
        _checked(name, items, 1, 2)
        dtype = default
        if len(items) == 2:
            kind = items[1].expr
            if kind not in (1, 2, 4, 8) or default.kind + str(kind) in ("f1", "f2"):
                raise KgenSyntaxError(f"{kind} is not a kind of number")
            dtype = np.dtype(f"{default.kind}{kind}")
        value = items[0].expr
        if items[0].dtype.kind == "c":
            value = p.Variable("real")(value)
        return Value(TypeCast(NumpyType(dtype), value), dtype)

    return call


def _kind_of(_: Scope, items: Sequence[Value]) -> Value:
    _checked("kind", items, 1, 1)
    dtype = items[0].dtype
    if dtype.kind == "b":
        raise KgenSyntaxError("'kind' of a logical is not supported")
    return Value(dtype.itemsize // (2 if dtype.kind == "c" else 1), INT)


def _folded(name: str, own: str) -> _Function:
    def call(_: Scope, items: Sequence[Value]) -> Value:
        _checked(name, items, 2, None)
        dtype = reduce(_joined, (item.dtype for item in items))
        whole = Value(None, dtype)
        exprs = [_fitted(item, whole) for item in items]
        return Value(reduce(p.Variable(own), exprs), dtype)

    return call


def _binary(name: str, own: Callable[[Scope, Expr, Expr, Dtype], Expr]) -> _Function:
    def call(scope: Scope, items: Sequence[Value]) -> Value:
        _checked(name, items, 2, 2)
        one, other = items
        dtype = _joined(one.dtype, other.dtype)
        return Value(own(scope, _fitted(one, other), _fitted(other, one), dtype), dtype)

    return call


def _called(own: str) -> Callable[[Scope, Expr, Expr, Dtype], Expr]:
    return lambda _, a, b, __: p.Variable(own)(a, b)


_MATHEMATICAL: Final = (
    *("sqrt", "exp", "log", "log10", "erf", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh"),
)

_CONVERSIONS: Final[Mapping[str, _Function]] = {
    **{name: _conversion(name, REAL) for name in ("real", "float")},
    **{name: _conversion(name, DOUBLE) for name in ("dble", "dfloat")},
    **{name: _conversion(name, INT) for name in ("int", "ifix", "idint")},
}

#: Intrinsic functions by their names, with the names of Fortran 77 for double precision.
_FUNCTIONS: Final[Mapping[str, _Function]] = {
    **{name: _elementwise(name, name) for name in _MATHEMATICAL},
    **{f"d{name}": _elementwise(f"d{name}", name) for name in _MATHEMATICAL},
    **{name: _elementwise(name, "abs", "part") for name in ("abs", "dabs", "iabs")},
    "aimag": _elementwise("aimag", "imag", "real"),
    "conjg": _elementwise("conjg", "conj"),
    **_CONVERSIONS,
    "kind": _kind_of,
    **{name: _folded(name, "max") for name in ("max", "dmax1", "amax1", "max0")},
    **{name: _folded(name, "min") for name in ("min", "dmin1", "amin1", "min0")},
    **{name: _binary(name, Scope.remainder) for name in ("mod", "dmod", "amod")},
    **{name: _binary(name, _called("copysign")) for name in ("sign", "dsign")},
    **{name: _binary(name, _called("atan2")) for name in ("atan2", "datan2")},
}
