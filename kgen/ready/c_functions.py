"""Functions that C expressions call: their counterparts in kgen, and their result types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pymbolic.primitives as p

from kgen.ir.expr import Expr, TypeCast
from kgen.ir.types import NumpyType
from kgen.ir.vector_values import numbers_of
from kgen.ready.c_types import NAMED_TYPES, Dtype, arithmetic, promoted
from kgen.ready.structures import fields_of, is_structure, leaf_types

__all__ = [
    "FUNCTIONS",
    "Value",
    "as_condition",
    "as_number",
    "chosen",
    "converted",
    "from_leaves",
    "leaves_of",
    "stored_at",
    "zero_of",
]

_INT: Final = np.dtype(np.int32)
_BOOL: Final = np.dtype(np.bool_)
_DOUBLE: Final = np.dtype(np.float64)


@dataclass(frozen=True)
class Value:
    """An expression of kgen with the type that it has in C; conditions are of numpy's bool.

    A structure has the values of its fields as ``parts``, in their order. Its expression is the
    variable or element where it is stored; ``None`` for a structure that is not in memory.
    """

    expr: Expr
    dtype: Dtype
    parts: tuple[Value, ...] | None = None

    def part(self, name: str) -> Value:
        """Return the value of a field of a structure."""
        assert self.parts is not None
        return self.parts[list(fields_of(self.dtype)).index(name)]

    def with_part(self, path: Sequence[str], value: Value) -> Value:
        """Return a structure in which a field, or a field of a field, has another value."""
        if not path:
            return value
        assert self.parts is not None
        parts = [
            part.with_part(path[1:], value) if name == path[0] else part
            for name, part in zip(fields_of(self.dtype), self.parts, strict=True)
        ]
        return Value(None, self.dtype, tuple(parts))


def stored_at(place: Expr, dtype: Dtype) -> Value:
    """Return the value of a variable or of an element of an array.

    >>> [str(part.expr) for part in stored_at(p.Variable("r"), np.dtype("f4,i4")).parts]
    ['r.f0', 'r.f1']
    """
    if not is_structure(dtype):
        return Value(place, dtype)
    parts = (stored_at(p.Lookup(place, name), kind) for name, kind in fields_of(dtype).items())
    return Value(place, dtype, tuple(parts))


def leaves_of(value: Value) -> tuple[Value, ...]:
    """Return the values of all numbers of a structure; a number itself."""
    if value.parts is None:
        return (value,)
    return tuple(leaf for part in value.parts for leaf in leaves_of(part))


def from_leaves(dtype: Dtype, exprs: Iterable[Expr]) -> Value:
    """Return the value of some type whose numbers are *exprs*.

    >>> leaves_of(from_leaves(np.dtype("f4,i4"), [1, 2]))[1]
    Value(expr=2, dtype=dtype('int32'), parts=None)
    """
    return _from_leaves(dtype, iter(exprs))


def _from_leaves(dtype: Dtype, exprs: Iterator[Expr]) -> Value:
    if not is_structure(dtype):
        return Value(next(exprs), dtype)
    parts = tuple(_from_leaves(kind, exprs) for kind in fields_of(dtype).values())
    return Value(None, dtype, parts)


def zero_of(dtype: Dtype) -> Value:
    """Return the value of a type in which all numbers are zero."""
    return from_leaves(dtype, [_zero(kind) for kind in leaf_types(dtype)])


def _zero(dtype: Dtype) -> Expr:
    if numbers_of(dtype) is None:
        return dtype.type(0)
    name = next(name for name, known in NAMED_TYPES.items() if known == dtype)
    return FUNCTIONS[f"make_{name}"](Value(np.int32(0), _INT)).expr


def chosen(condition: Expr, one: Value, other: Value) -> Value:
    """Return ``condition ? one : other``, of operands whose types C allows there."""
    if one.parts is not None and other.parts is not None:
        pairs = zip(one.parts, other.parts, strict=True)
        return Value(None, one.dtype, tuple(chosen(condition, a, b) for a, b in pairs))
    if one == other:
        return one
    one, other = as_number(one), as_number(other)
    dtype = one.dtype if one.dtype == other.dtype else arithmetic(one.dtype, other.dtype)
    parts = converted(one, dtype).expr, converted(other, dtype).expr
    return Value(p.If(condition, *parts), dtype)


def as_number(value: Value) -> Value:
    """Return 0 or 1 for a condition, which C computes with as an int."""
    if value.dtype != _BOOL or isinstance(value.expr, p.Variable | p.Subscript):
        return value
    return Value(p.If(value.expr, np.int32(1), np.int32(0)), _INT)


def as_condition(value: Value) -> Expr:
    """Return a condition that is true if the value is not zero."""
    if value.dtype == _BOOL:
        return value.expr
    return p.Comparison(value.expr, "!=", value.dtype.type(0))


def converted(value: Value, dtype: Dtype) -> Value:
    """Return a value in another type, as C's casts convert.

    >>> print(converted(Value(np.int32(2), np.dtype(np.int32)), np.dtype(np.float32)).expr)
    2.0
    """
    if value.parts is not None:
        if value.dtype == dtype:
            return value
        kinds = fields_of(dtype).values()
        parts = (converted(part, kind) for part, kind in zip(value.parts, kinds, strict=True))
        return Value(None, dtype, tuple(parts))
    if value.dtype == dtype or numbers_of(dtype) is not None:
        return Value(value.expr, dtype)
    if dtype == _BOOL:
        return Value(as_condition(value), dtype)
    value = as_number(value)
    if isinstance(value.expr, np.generic) and not _is_lossy(value.expr, dtype):
        return Value(value.expr.astype(dtype), dtype)
    return Value(TypeCast(NumpyType(dtype), value.expr), dtype)


def _is_lossy(number: np.generic, dtype: Dtype) -> bool:
    """Tell whether converting a constant is left to the code, as C leaves it to the device."""
    return dtype.kind in "iu" and number.dtype.kind in "fc"


Arguments = Sequence[Value]
Maker = Callable[..., Value]


def _call(name: str, arguments: Arguments, dtype: Dtype) -> Expr:
    return p.Variable(name)(*(converted(argument, dtype).expr for argument in arguments))


def _joined(arguments: Arguments) -> Dtype:
    found = promoted(arguments[0].dtype)
    for argument in arguments[1:]:
        found = arithmetic(found, argument.dtype)
    return found


def _real(name: str) -> Maker:
    """Return a function of real or complex numbers; integers are converted to double."""

    def make(*arguments: Value) -> Value:
        joined = _joined(arguments)
        dtype = _DOUBLE if joined.kind in "iu" else joined
        return Value(_call(name, arguments, dtype), dtype)

    return make


def _single(name: str) -> Maker:
    """Return a function of C that computes in float: ``sinf``."""
    dtype = np.dtype(np.float32)
    return lambda *arguments: Value(_call(name, arguments, dtype), dtype)


def _joining(name: str) -> Maker:
    """Return a function whose result has the common type of its operands."""

    def make(*arguments: Value) -> Value:
        dtype = _joined(arguments)
        return Value(_call(name, arguments, dtype), dtype)

    return make


def _test(name: str) -> Maker:
    def make(argument: Value) -> Value:
        dtype = _DOUBLE if argument.dtype.kind in "iu" else argument.dtype
        return Value(_call(name, [argument], dtype), _BOOL)

    return make


def _part(name: str) -> Maker:
    """Return a function of complex numbers with a real result."""

    def make(argument: Value) -> Value:
        dtype = promoted(argument.dtype)
        real = np.dtype(dtype.type(0).real.dtype)
        return Value(p.Variable(name)(as_number(argument).expr), real)

    return make


def _abs(argument: Value) -> Value:
    return _part("abs")(argument) if argument.dtype.kind == "c" else _joining("abs")(argument)


def _clamp(value: Value, low: Value, high: Value) -> Value:
    return _joining("min")(_joining("max")(value, low), high)


def _fused(one: Value, other: Value, added: Value) -> Value:
    dtype = _joined([one, other, added])
    if dtype.kind in "iuc":
        return _sum(_product(one, other), added)
    return _real("fma")(one, other, added)


def _ldexp(value: Value, exponent: Value) -> Value:
    dtype = _DOUBLE if promoted(value.dtype).kind in "iu" else value.dtype
    power = converted(exponent, _INT).expr
    return Value(p.Variable("ldexp")(converted(value, dtype).expr, power), dtype)


def _conversion(dtype: Dtype) -> Maker:
    return lambda argument: converted(argument, dtype)


def _vector(name: str, dtype: Dtype) -> Maker:
    numbers = numbers_of(dtype)
    assert numbers is not None
    number, count = numbers

    def make(*arguments: Value) -> Value:
        parts = arguments * count if len(arguments) == 1 else arguments
        return Value(_call(f"make_{name}", parts, number), dtype)

    return make


# -- complex numbers of pyopencl ---------------------------------------------------------------


def _sum(*terms: Value) -> Value:
    dtype = _joined(terms)
    return Value(p.Sum(tuple(converted(term, dtype).expr for term in terms)), dtype)


def _difference(one: Value, other: Value) -> Value:
    return _sum(one, _negative(other))


def _negative(value: Value) -> Value:
    dtype = promoted(value.dtype)
    return Value(p.Product((-1, converted(value, dtype).expr)), dtype)


def _product(one: Value, other: Value) -> Value:
    dtype = _joined([one, other])
    return Value(p.Product((converted(one, dtype).expr, converted(other, dtype).expr)), dtype)


def _quotient(one: Value, other: Value) -> Value:
    dtype = _joined([one, other])
    return Value(p.Quotient(converted(one, dtype).expr, converted(other, dtype).expr), dtype)


def _of_complex(dtype: Dtype) -> dict[str, Maker]:
    """Return pyopencl's functions for one type of complex numbers, by name without prefix."""
    imaginary = Value(dtype.type(1j), dtype)

    def from_parts(real: Value, imag: Value) -> Value:
        return _sum(converted(real, dtype), _product(imaginary, imag))

    def absolute_squared(z: Value) -> Value:
        real, imag = _part("real")(z), _part("imag")(z)
        return _sum(_product(real, real), _product(imag, imag))

    arithmetic_of: dict[str, Maker] = {
        "new": from_parts,
        "fromreal": _conversion(dtype),
        "cast": _conversion(dtype),
        "neg": _negative,
        "conj": _joining("conj"),
        "real": _part("real"),
        "imag": _part("imag"),
        "abs": _part("abs"),
        "abs_squared": absolute_squared,
        **dict.fromkeys(("add", "addr", "radd"), _sum),
        **dict.fromkeys(("sub", "subr", "rsub"), _difference),
        **dict.fromkeys(("mul", "mulr", "rmul"), _product),
        **dict.fromkeys(("divide", "divider", "rdivide"), _quotient),
        **dict.fromkeys(("pow", "powr", "rpow"), _real("pow")),
    }
    functions = ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt")
    return arithmetic_of | {name: _real(name) for name in functions}


_REAL: Final = """
    sqrt cbrt rsqrt pow exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2
    sinh cosh tanh asinh acosh atanh hypot erf erfc tgamma lgamma floor ceil round trunc
    rint fmod remainder fabs copysign fmin fmax fma nextafter logb
"""
_AS_THEY_ARE: Final = ("exp", "log", "sin", "cos", "tan", "sqrt", "rsqrt", "exp2", "log2", "log10")

#: The functions that compute the value of a call, by name.
FUNCTIONS: Final[dict[str, Maker]] = {
    **{name: _real(name) for name in _REAL.split()},
    **{f"{name}f": _single(name) for name in _REAL.split()},
    **{f"native_{name}": _real(name) for name in _AS_THEY_ARE},
    **{f"half_{name}": _real(name) for name in _AS_THEY_ARE},
    **{name: _test(name) for name in ("isnan", "isinf", "isfinite", "isnormal", "signbit")},
    **{name: _part(name) for name in ("real", "imag")},
    **{f"convert_{name}": _conversion(dtype) for name, dtype in NAMED_TYPES.items()},
    **{
        f"convert_{name}": _conversion(np.dtype(dtype))
        for name, dtype in {
            "char": np.int8,
            "short": np.int16,
            "int": np.int32,
            "long": np.int64,
            "float": np.float32,
            "double": np.float64,
        }.items()
    },
    **{
        f"make_{name}": _vector(name, dtype)
        for name, dtype in NAMED_TYPES.items()
        if numbers_of(dtype) is not None
    },
    **{
        f"{prefix}_{name}": make
        for prefix, dtype in (("cfloat", np.complex64), ("cdouble", np.complex128))
        for name, make in _of_complex(np.dtype(dtype)).items()
    },
    "min": _joining("min"),
    "max": _joining("max"),
    "abs": _abs,
    "labs": _abs,
    "conj": _joining("conj"),
    "norm": _of_complex(np.dtype(np.complex128))["abs_squared"],
    "mad": _fused,
    "clamp": _clamp,
    "ldexp": _ldexp,
}
