"""Functions that expressions can call, and the types of their operands and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from kgen.errors import TypeInferenceFailure
from kgen.ir.callables import ScalarCallable
from kgen.ir.expr import Expr
from kgen.ir.promotion import UNDECIDED, Literal, Operand, adapt, arithmetic, common, settle
from kgen.ir.random123 import GENERATORS, Generator
from kgen.ir.types import FLOAT32, FLOAT64, INT32, INT64, UINT32, NumpyType
from kgen.ir.vector_values import NUMBER_NAMES, VECTOR_MAKERS, numbers_of

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel

__all__ = [
    "BUILT_INS",
    "BuiltInCallable",
    "Reinterpretation",
    "FUNCTIONS",
    "EXCHANGE",
    "Function",
    "LANES_OF_ROW",
    "LANE_BEFORE",
    "LaneFunction",
    "RandomFunction",
    "RegisteredFunction",
    "SEVERAL",
    "VectorMaker",
    "find_function",
    "is_of_lane",
    "known_function_names",
]

Types: TypeAlias = tuple[NumpyType, ...]


@dataclass(frozen=True)
class Function:
    """A function that every target can call, by its name in expressions.

    ``operands(dtypes)`` returns the types that arguments of the types *dtypes* are converted to
    before the call, or raises an error; ``result(operands)`` returns the types of the results.
    ``arg_count`` is ``None`` for one or more arguments. ``adapts``: the result of
    literals is a literal: ``sqrt(2.0)`` beside a float64 is computed in float64. ``fixed`` are the
    operand types that do not depend on the arguments.
    """

    name: str
    arg_count: int | None
    operands: Callable[[Types], Types]
    result: Callable[[Types], Types]
    adapts: bool = False
    fixed: Types | None = None

    def settled(self, operands: Sequence[Operand]) -> Types:
        """Return the types of arguments if only the function determines those of literals."""
        wanted = self.fixed or ()
        return tuple(
            wanted[k] if operand == UNDECIDED and k < len(wanted) else settle(operand)
            for k, operand in enumerate(operands)
        )

    def adapted(self, operands: Sequence[Operand], dtype: NumpyType) -> Types:
        """Return the types of arguments, with literals adapted to *dtype*."""
        return tuple(adapt(o, dtype) if isinstance(o, Literal) else o for o in operands)

    def types_for(self, dtypes: Types) -> tuple[Types, Types]:
        """Return the types of the converted arguments and those of the results.

        Raises :class:`TypeInferenceFailure` for a wrong number of arguments or an unsupported
        type.

        >>> FUNCTIONS["atan2"].types_for((INT32, INT32))
        ((np:dtype('float64'), np:dtype('float64')), (np:dtype('float64'),))
        """
        if len(dtypes) != self.arg_count and (self.arg_count is not None or not dtypes):
            takes = "one argument or more"
            if self.arg_count is not None:
                takes = f"{self.arg_count} argument{'' if self.arg_count == 1 else 's'}"
            raise TypeInferenceFailure(f"'{self.name}' takes {takes}, not {len(dtypes)}")
        try:
            operands = self.operands(dtypes)
        except TypeInferenceFailure as err:
            raise TypeInferenceFailure(f"'{self.name}' {err}") from None
        return operands, self.result(operands)


# -- types that arguments are converted to ---------------------------------------------


def _joined(dtypes: Types) -> NumpyType:
    return settle(common(*dtypes))


def _complex_or_real(dtypes: Types) -> Types:
    joined = _joined(dtypes)
    return (FLOAT64 if joined.is_integral() else joined,) * len(dtypes)


def _real(dtypes: Types) -> Types:
    joined = _joined(dtypes)
    if joined.is_complex():
        raise TypeInferenceFailure("does not take complex numbers")
    return (FLOAT64 if joined.is_integral() else joined,) * len(dtypes)


def _single(dtypes: Types) -> Types:
    """Return real types of at least 32 bits, which results stored through pointers have."""
    return tuple(FLOAT32 if dtype.is_half else dtype for dtype in _real(dtypes))


def _ordered(dtypes: Types) -> Types:
    joined = _joined(dtypes)
    if joined.is_complex():
        raise TypeInferenceFailure("does not take complex numbers, which have no order")
    return (joined,) * len(dtypes)


def _number(dtypes: Types) -> Types:
    return (settle(arithmetic(*dtypes)),) * len(dtypes)


def _as_given(dtypes: Types) -> Types:
    return dtypes


def _real_and_int(dtypes: Types) -> Types:
    return (*_real(dtypes[:1]), INT32)


def _order_and_double(dtypes: Types) -> Types:
    _real(dtypes)
    return (INT32, FLOAT64)


def _double(dtypes: Types) -> Types:
    _real(dtypes)
    return (FLOAT64,)


# -- types of results --------------------------------------------------------------------


def _first(operands: Types) -> Types:
    return operands[:1]


def _last(operands: Types) -> Types:
    return operands[-1:]


def _part(operands: Types) -> Types:
    (operand,) = operands
    if operand.is_complex():
        return (NumpyType(np.dtype(f"f{operand.itemsize // 2}")),)
    return operands


def _int32(operands: Types) -> Types:
    return (INT32,)


def _int64(operands: Types) -> Types:
    return (INT64,)


_COMPLEX = "acos acosh asin asinh atan atanh cos cosh exp log sin sinh sqrt tan tanh"
_REAL = (
    "cbrt ceil erf erfc exp2 expm1 fabs floor lgamma log10 log1p log2 logb nearbyint rint round "
    "rsqrt tgamma trunc"
)
_REAL_2 = "atan2 copysign fdim fmax fmin fmod hypot nextafter remainder"

#: By name. A target must be able to call each of them.
FUNCTIONS: Final[Mapping[str, Function]] = {
    function.name: function
    for function in (
        *(Function(name, 1, _complex_or_real, _first, adapts=True) for name in _COMPLEX.split()),
        *(Function(name, 1, _real, _first, adapts=True) for name in _REAL.split()),
        *(Function(name, 2, _real, _first, adapts=True) for name in _REAL_2.split()),
        *(Function(name, None, _ordered, _first, adapts=True) for name in ("max", "min")),
        *(
            Function(name, 1, _real, _int32)
            for name in ("ilogb", "isfinite", "isinf", "isnan", "isnormal", "signbit")
        ),
        *(Function(name, 1, _real, _int64) for name in ("llrint", "llround", "lrint", "lround")),
        Function("fma", 3, _real, _first, adapts=True),
        Function("pow", 2, _number, _first, adapts=True),
        *(Function(name, 2, _real_and_int, _first, adapts=True) for name in ("ldexp", "scalbn")),
        Function("abs", 1, _number, _part, adapts=True),
        Function("real", 1, _as_given, _part, adapts=True),
        Function("imag", 1, _as_given, _part, adapts=True),
        Function("conj", 1, _as_given, _first, adapts=True),
        Function("bessel_jn", 2, _order_and_double, _last),
        Function("bessel_yn", 2, _order_and_double, _last),
        *(Function(name, 1, _double, _first) for name in ("bessel_j0", "bessel_j1")),
        *(Function(name, 1, _double, _first) for name in ("bessel_y0", "bessel_y1")),
    )
}


# -- functions for graphics and bits -----------------------------------------------------


def _integers(dtypes: Types) -> Types:
    for dtype in dtypes:
        if dtype.kind not in "iu":
            raise TypeInferenceFailure(f"takes integers, not {dtype.dtype}")
    return (dtypes[0],) * len(dtypes)


def _only_float32(dtypes: Types) -> Types:
    joined = _joined(dtypes)
    if joined.kind not in "biuf" or (joined.kind == "f" and joined != FLOAT32):
        raise TypeInferenceFailure(
            f"takes float32, not {joined.dtype}\n"
            "  hint: convert the arguments: cast(np.float32, ...)"
        )
    return (FLOAT32,) * len(dtypes)


def _choice(dtypes: Types) -> Types:
    if not dtypes[2].is_integral():
        raise TypeInferenceFailure(f"selects by an integer, not by {dtypes[2].dtype}")
    return (*((_joined(dtypes[:2]),) * 2), dtypes[2])


def _vectors(dtypes: Types) -> Types:
    numbers = numbers_of(dtypes[0].dtype)
    if dtypes[0] != dtypes[-1] or numbers is None:
        shown = ", ".join(str(dtype.dtype) for dtype in dtypes)
        raise TypeInferenceFailure(f"takes two vectors of one type, not ({shown})")
    if NumpyType(numbers[0]).kind != "f" or numbers[1] > 4:
        raise TypeInferenceFailure(
            f"takes vectors of 2 to 4 floats, not of {numbers[1]} {numbers[0]}"
        )
    return dtypes


def _number_of_vector(operands: Types) -> Types:
    numbers = numbers_of(operands[0].dtype)
    assert numbers is not None
    return (NumpyType(numbers[0]),)


@dataclass(frozen=True)
class Reinterpretation(Function):
    """``as_int(x)``: the bits of a number as a number of another type."""

    wanted: NumpyType = field(kw_only=True)

    @classmethod
    def of(cls, name: str, wanted: NumpyType) -> Reinterpretation:
        """Return the function *name*, whose result has the type *wanted*."""

        def operands(dtypes: Types) -> Types:
            (given,) = dtypes
            if given.kind not in "iuf" or given.itemsize != wanted.itemsize:
                raise TypeInferenceFailure(
                    f"takes a number of {wanted.itemsize} bytes, not {given.dtype}"
                )
            return dtypes

        return cls(name, 1, operands, lambda _: (wanted,), wanted=wanted)


_NATIVE = "cos exp exp2 exp10 log log2 log10 recip rsqrt sin sqrt tan"

#: Functions with the names of OpenCL C, which every C-family target has: by name.
BUILT_INS: Final[Mapping[str, Function]] = {
    function.name: function
    for function in (
        Function("clamp", 3, _ordered, _first, adapts=True),
        *(Function(name, 3, _real, _first, adapts=True) for name in ("mad", "mix", "smoothstep")),
        Function("step", 2, _real, _first, adapts=True),
        *(Function(name, 1, _real, _first, adapts=True) for name in ("sign", "degrees", "radians")),
        *(Function(name, 1, _integers, _first) for name in ("popcount", "clz")),
        Function("rotate", 2, _integers, _first),
        Function("select", 3, _choice, _first),
        Function("dot", 2, _vectors, _number_of_vector),
        *(Function(f"native_{name}", 1, _only_float32, _first) for name in _NATIVE.split()),
        *(Function(f"native_{name}", 2, _only_float32, _first) for name in ("divide", "powr")),
        *(
            Reinterpretation.of(f"as_{name}", NumpyType(np.dtype(dtype)))
            for name, dtype in NUMBER_NAMES.items()
        ),
    )
}


#: Functions with several results: ``m, e = frexp(x)``, in C's order: the value, then the results
#: that it stores.
SEVERAL: Final[Mapping[str, Function]] = {
    function.name: function
    for function in (
        Function("frexp", 1, _single, lambda operands: (operands[0], INT32)),
        Function("modf", 1, _single, lambda operands: (operands[0], operands[0])),
        Function("make_tuple", None, _as_given, _as_given),
        Function("remquo", 2, _single, lambda operands: (operands[0], INT32)),
        Function("sincos", 1, _single, lambda operands: (operands[0], operands[0])),
    )
}


@dataclass(frozen=True)
class LaneFunction(Function):
    """``exchange_lanes(lanes, value, distance)``: the *value* of another lane of a warp.

    All lanes of a bit mask must run it.
    """

    @classmethod
    def of(cls, name: str) -> LaneFunction:
        """Return the function *name*."""
        return cls(name, 3, lambda given: (UINT32, given[1], INT32), lambda operands: operands[1:2])


#: The value of the lane whose number is the own number xor *distance*.
EXCHANGE: Final = LaneFunction.of("exchange_lanes")
#: The value of the lane whose number is the own number minus *distance*, or else the own value.
LANE_BEFORE: Final = LaneFunction.of("lane_before")
#: ``lanes_of_row(first_row, others)``: the mask of the own row of lanes, which is that of the
#: first row, shifted by the bits of the own number that are in *others*.
LANES_OF_ROW: Final = Function(
    "lanes_of_row", 2, lambda _: (UINT32, UINT32), lambda _: (UINT32,), fixed=(UINT32, UINT32)
)
#: Functions for exchanges between lanes, for transformations; users do not call them.
_OF_LANES: Final = {function.name: function for function in (EXCHANGE, LANE_BEFORE, LANES_OF_ROW)}


def is_of_lane(expr: Expr) -> bool:
    """Tell whether *expr* is the value of another lane."""
    if not isinstance(expr, p.Call) or not isinstance(expr.function, p.Variable):
        return False
    return isinstance(_OF_LANES.get(expr.function.name), LaneFunction)


@dataclass(frozen=True)
class RegisteredFunction(Function):
    """A function that a user registered."""

    registered: ScalarCallable = field(kw_only=True)

    @classmethod
    def of(cls, registered: ScalarCallable) -> RegisteredFunction:
        """Return the function for calls of *registered*."""
        return cls(
            registered.name,
            None,
            lambda dtypes: registered.specialized(dtypes).operand_types,
            lambda dtypes: registered.specialized(dtypes).result_types,
            registered=registered,
        )

    def types_for(self, dtypes: Types) -> tuple[Types, Types]:
        """Return the types of the converted arguments and those of the results."""
        called = self.registered.specialized(dtypes)
        return called.operand_types, called.result_types

    def adapted(self, operands: Sequence[Operand], dtype: NumpyType) -> Types:
        """Leave integers unchanged: the function sees that ``f(2, x)`` has one."""
        is_integer = [isinstance(operand, Literal) and operand.kind == "i" for operand in operands]
        return tuple(
            settle(operand) if as_it_is else converted
            for operand, as_it_is, converted in zip(
                operands, is_integer, super().adapted(operands, dtype), strict=True
            )
        )


@dataclass(frozen=True)
class BuiltInCallable(ScalarCallable):
    """A function that a target has, as its ``known_callables`` list it.

    Calls of it are the same without it. ``pattern`` is the name of the function on real numbers in
    the target's code, with the suffix ``{f}`` for float32.

    >>> root = BuiltInCallable("sqrt", pattern="sqrt{f}").specialized((FLOAT32,))
    >>> root.name_in_target, root.result_types
    ('sqrtf', (np:dtype('float32'),))
    """

    pattern: str = ""

    def with_types(
        self, arg_id_to_dtype: Mapping[int | str, NumpyType], clbl_inf_ctx: Any
    ) -> tuple[ScalarCallable, Any]:
        """Return the function for the given types of arguments."""
        given = [arg_id_to_dtype[k] for k in range(len(arg_id_to_dtype)) if k in arg_id_to_dtype]
        operands, results = _OF_TARGETS[self.name].types_for(tuple(given))
        types = {**dict(enumerate(operands)), **{-1 - k: dtype for k, dtype in enumerate(results)}}
        name = self.pattern.format(f="f" if operands[0] == FLOAT32 else "")
        if operands[0].is_complex():
            name = self.name
        return self.copy(arg_id_to_dtype=types, name_in_target=name), clbl_inf_ctx

    @classmethod
    def of(cls, patterns: Mapping[str, str]) -> dict[str, BuiltInCallable]:
        """Return the functions among the names of *patterns*."""
        known = patterns.keys() & _OF_TARGETS.keys()
        return {name: cls(name, pattern=patterns[name]) for name in sorted(known)}


_OF_TARGETS: Final[Mapping[str, Function]] = {**FUNCTIONS, **BUILT_INS, **SEVERAL}


@dataclass(frozen=True)
class VectorMaker(Function):
    """A function that makes a vector: ``make_uint4(a, b, c, d)``."""

    vector: NumpyType = field(kw_only=True)

    @classmethod
    def of(cls, name: str, vector: NumpyType) -> VectorMaker:
        """Return the function *name*, whose result is a *vector*."""
        numbers = numbers_of(vector.dtype)
        assert numbers is not None
        fixed = (NumpyType(numbers[0]),) * numbers[1]

        def operands(dtypes: Types) -> Types:
            for given in dtypes:
                if given.kind not in "biuf":
                    raise TypeInferenceFailure(f"takes real numbers, not {given.dtype}")
            return fixed

        return cls(name, len(fixed), operands, lambda _: (vector,), fixed=fixed, vector=vector)


@dataclass(frozen=True)
class RandomFunction(Function):
    """A random number generator: ``result, next_counter = philox4x32(counter, key)``."""

    generator: Generator = field(kw_only=True)

    @classmethod
    def of(cls, generator: Generator) -> RandomFunction:
        """Return the function for calls of *generator*."""

        def operands(dtypes: Types) -> Types:
            for what, dtype, wanted in zip(("counter", "key"), dtypes, fixed, strict=True):
                is_number = wanted.is_integral() and dtype.is_integral()
                if dtype != wanted and not is_number:
                    raise TypeInferenceFailure(
                        f"takes a {what} of the type of {_maker_of(wanted)}, not {dtype.dtype}"
                    )
            return fixed

        fixed = (generator.counter_type, generator.key_type)
        results = (generator.result_type, generator.counter_type)
        return cls(generator.name, 2, operands, lambda _: results, fixed=fixed, generator=generator)


def _maker_of(dtype: NumpyType) -> str:
    """Return the name of the function that makes values of a type."""
    return next((n for n, made in VECTOR_MAKERS.items() if made == dtype), dtype.dtype.name)


@cache
def _special(name: str) -> Function | None:
    if name in VECTOR_MAKERS:
        return VectorMaker.of(name, VECTOR_MAKERS[name])
    if name in GENERATORS:
        return RandomFunction.of(GENERATORS[name])
    return _OF_LANES.get(name) or SEVERAL.get(name)


def find_function(kernel: LoopKernel, name: str) -> Function | None:
    """Return the function that *name* means in a call in *kernel*, or ``None``."""
    registered = kernel.functions.get(name) or kernel.target.known_callables.get(name)
    if registered is not None and not isinstance(registered, BuiltInCallable):
        return RegisteredFunction.of(registered)
    return FUNCTIONS.get(name) or BUILT_INS.get(name) or _special(name)


def known_function_names(kernel: LoopKernel) -> tuple[str, ...]:
    """Return the names that calls in *kernel* may use, for messages."""
    own = (*kernel.functions, *kernel.target.known_callables)
    return tuple(dict.fromkeys((*_OF_TARGETS, *VECTOR_MAKERS, *GENERATORS, *own)))
