"""The data type of any expression of a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import pymbolic.primitives as p

from kgen.errors import KgenError, TypeInferenceFailure, counted, near_names
from kgen.ir.analyses import Analysis
from kgen.ir.constants import CONSTANTS
from kgen.ir.data import ArrayBase
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    Reduction,
    SubArrayRef,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    TypedLiteral,
    is_constant,
    to_text,
)
from kgen.ir.functions import FUNCTIONS, Function, find_function, known_function_names
from kgen.ir.integer_values import integer_operands, integer_value
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import CALL_FORMS
from kgen.ir.promotion import (
    UNDECIDED,
    Literal,
    Operand,
    adapt,
    arithmetic,
    common,
    integer_literal,
    literal_type,
    modular,
    plain,
    settle,
    without_opaque,
)
from kgen.ir.types import BOOL8, FLOAT32, FLOAT64, INT32, UINT64, NumpyType, to_kgen_type
from kgen.ir.vector_values import numbers_of

__all__ = ["ExpressionTyper", "UnknownType"]

#: The type of a call or reduction with several results.
Types: TypeAlias = tuple[NumpyType, ...]
_Result: TypeAlias = Operand | Types


class UnknownType(TypeInferenceFailure):
    """The type of a variable that is still unknown; ``variable`` is its name."""

    def __init__(self, what: str, variable: str, **labels: str) -> None:
        super().__init__(what, **labels)
        self.variable = variable


class _Typed(NamedTuple):
    """The types of expressions, by id, and the types of variables that they depend on."""

    types: Mapping[str, NumpyType | None]
    context: tuple[Any, ...]
    known: Mapping[int, tuple[Expr, _Result]]

    def known_with(
        self, types: Mapping[str, NumpyType | None], context: tuple[Any, ...]
    ) -> Mapping[int, tuple[Expr, _Result]]:
        """Return the types of expressions that are valid for these *types* of variables."""
        if self.context != context:
            return {}
        is_same = all(types.get(name, dtype) == dtype for name, dtype in self.types.items())
        return self.known if is_same else {}


class ExpressionTyper:
    """Find the types of expressions: ``typer(expr)``, a tuple if there are several results.

    *types* are the types of variables by name, if more is known than the kernel's
    declarations. Results are cached per expression object; those passed on by
    :meth:`leave_to` are valid for copies in which no variable has another type. Python numbers
    adapt to the other operands (:mod:`kgen.ir.promotion`), and so do functions of these:
    ``typer.beside(expr, dtype)`` is the type in which *expr* is computed beside a *dtype*.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        types: Mapping[str, Operand] | None = None,
        find: Callable[[LoopKernel, str], Function | None] = find_function,
    ) -> None:
        self.kernel = kernel
        self.types: Mapping[str, Operand] = {} if types is None else types
        self.find = find
        self._declared = _declared_types(kernel)
        # By id, since Product((2, a)) == Product((2.0, a)); the expression is kept alive.
        self._known: dict[int, tuple[Expr, _Result]] = {}
        left: _Typed | None = kernel.typed
        if left is not None and types is None:
            self._known.update(left.known_with(self._declared, _context(kernel, find)))

    def __call__(self, expr: Expr) -> Any:
        """Return the type of *expr*, or the tuple of its types.

        Raises :class:`TypeInferenceFailure`; :class:`UnknownType` if the type of a variable
        is missing.
        """
        result = self.result(expr)
        return result if isinstance(result, tuple) else settle(result)

    def beside(self, expr: Expr, dtype: NumpyType) -> NumpyType:
        """Return the type in which *expr* is computed as an operand beside a *dtype*.

        This is its own type, unless it consists only of Python numbers: ``2.5`` beside a float64.
        """
        known = self._known.get(id(expr))
        if known is not None and type(known[1]) is NumpyType:
            return known[1]
        result = self.operand(expr)
        return adapt(result, dtype) if isinstance(result, Literal) else result

    def leave_to(self, kernel: LoopKernel) -> None:
        """Pass cached types on to the typers of *kernel*, whose types are known."""
        context = _context(kernel, self.find)
        kernel.keep_typed(_Typed(_declared_types(kernel), context, self._known))

    def forget(self) -> None:
        """Clear the cache, after *types* have changed."""
        self._known.clear()

    def operand(self, expr: Expr) -> Operand:
        """Return the type of *expr*, possibly an adapting one; rejects several results."""
        result = self.result(expr)
        if isinstance(result, tuple):
            raise self.failure(
                f"'{to_text(expr)}' has {counted(len(result), 'value')} and is used as a single "
                "value",
                "assign it to as many variables first: a, b = ...",
            )
        return result

    def result(self, expr: Expr) -> _Result:
        """Return the type of *expr*, possibly an adapting one, or several."""
        found = self._known.get(id(expr))
        if found is not None:
            return found[1]
        if is_constant(expr):
            try:
                return literal_type(expr)
            except TypeInferenceFailure as err:
                raise self.failure(str(err)) from None
        method = _METHODS.get(type(expr)) or _inherited(type(expr))
        if method is None:
            raise self.failure(
                f"an expression of type '{type(expr).__name__}' has no data type",
                "replace it by known operations with map_instructions before types are needed",
            )
        result = method(self, expr)
        self._known[id(expr)] = (expr, result)
        return result

    def failure(self, what: str, hint: str | None = None) -> TypeInferenceFailure:
        """Make an error that names the kernel; callers add the instruction."""
        return TypeInferenceFailure(what, kernel=self.kernel.name, hint=hint)

    def _combined(
        self, combine: Callable[..., Operand], expr: Expr, operands: tuple[Expr, ...]
    ) -> Operand:
        types: Sequence[Operand] = [self.operand(operand) for operand in operands]
        if isinstance(expr, p.Sum):
            types = modular(types)
        elif isinstance(expr, p.Product):  # in -200*u, the number is subtracted, not in u*(-200)
            types = [*modular(types)[:1], *types[1:]]
        if not types:
            raise self.failure(f"'{type(expr).__name__}' has no operands: {expr!r}")
        if combine is arithmetic and isinstance(expr, _OF_VECTORS):
            vector = self._vector_type(expr, types)
            if vector is not None:
                return vector
        try:
            result = combine(*types)
        except TypeInferenceFailure as err:
            self._reject_vectors(expr, operands)
            what = f"in '{to_text(expr)}': {err}"
            raise self.failure(what, "cast one of the operands") from None
        if isinstance(result, Literal) and result.kind == "i" and combine is arithmetic:
            return self._computed(expr, types)
        if combine is arithmetic and settle(result).dtype.kind == "V":
            self._reject_vectors(expr, operands)
        return result

    def _computed(self, expr: Expr, operands: Sequence[Operand]) -> Operand:
        """Return the type of an operation on Python integers, with the value that Python computes.

        A value of more than 64 bits has the type of the widest integers, which it does not fit;
        it may be an operand of another operation (``2**64 - 1``), or be computed as a real number.
        """
        values = [operand.value for operand in operands if isinstance(operand, Literal)]
        integers = [value for value in values if isinstance(value, int)]
        if len(integers) < len(operands):
            return arithmetic(*operands)
        if isinstance(expr, p.Power) and integers[1] < 0:
            return Literal("f", FLOAT64)
        value = integer_value(expr, integers)
        if value is None:
            raise self.failure(
                f"'{to_text(expr)}' is too large for every type of numbers", "use a smaller number"
            )
        return integer_literal(value)

    def _vector_type(self, expr: Expr, types: Sequence[Operand]) -> NumpyType | None:
        """Return the vector type of an operation, if at least one operand is a vector."""
        if not self.kernel.target.has_vector_arithmetic:
            return None
        vectors = {t: n for t in types if isinstance(t, NumpyType) and (n := numbers_of(t.dtype))}
        if not vectors:
            return None
        if len(vectors) > 1:
            shown = " and ".join(sorted(str(vector.dtype) for vector in vectors))
            raise self.failure(f"in '{to_text(expr)}': vectors of several types, {shown}")
        ((vector, (base, count)),) = vectors.items()
        if count == 3:  # a structure in memory, for which no language has operators
            return None
        if isinstance(expr, p.Quotient) and base.kind != "f":
            raise self.failure(f"in '{to_text(expr)}': vectors of integers have no quotient")
        for operand in types:
            number = settle(operand)
            if number != vector and number.kind not in ("iuf" if base.kind == "f" else "iu"):
                raise self.failure(
                    f"in '{to_text(expr)}': {number.dtype} does not fit a vector of {base}",
                    f"cast it: cast({base}, ...)",
                )
        return vector

    def _reject_vectors(self, expr: Expr, operands: Iterable[Expr]) -> None:
        for operand in operands:
            dtype = self.operand(operand)
            if isinstance(dtype, NumpyType) and numbers_of(dtype.dtype) is not None:
                text = to_text(operand)
                raise self.failure(
                    f"in '{to_text(expr)}': '{text}' is a vector, and vectors have no arithmetic",
                    f"compute with its components: make_float2({text}.x + 1, {text}.y + 1)",
                )

    # -- variables ------------------------------------------------------------------------

    def _variable(self, expr: p.Variable) -> _Result:
        return self.variable(expr.name)

    def variable(self, name: str) -> _Result:
        """Return the type of a variable; for an array that of its elements."""
        kernel = self.kernel
        known = self.types.get(name) or self._declared.get(name)
        if known is not None:
            return known if isinstance(known, Literal) else plain(known)
        declared = kernel.variable(name)
        if declared is None:
            return self._symbol(name)
        hint = (
            f"add_dtypes(kernel, {{'{name}': numpy.float64}}), or declare it: "
            f"{type(declared).__name__}('{name}', dtype=...)"
        )
        what = f"the type of '{name}' is not known"
        raise UnknownType(what, name, kernel=self.kernel.name, hint=hint)

    def _symbol(self, name: str) -> _Result:
        rule = self.kernel.substitutions.get(name)
        if rule is not None:
            return self.result(rule.expand(()))
        found = self.kernel.mangled_symbol(name)
        if found is not None and isinstance(found[0], NumpyType):
            return found[0]
        if name in CONSTANTS:
            return NumpyType(CONSTANTS[name].dtype)
        names = {*self.kernel.arg_dict, *self.kernel.temporary_variables, *self.kernel.inames}
        what, hint = f"there is no variable '{name}'", near_names(name, names)
        raise UnknownType(what, name, kernel=self.kernel.name, hint=hint)

    def _element(self, expr: p.Subscript | LinearSubscript) -> _Result:
        return self.result(expr.aggregate)

    def _part_of_array(self, expr: SubArrayRef) -> _Result:
        return self.result(expr.subscript)

    def _field(self, expr: p.Lookup) -> _Result:
        dtype = settle(self.operand(expr.aggregate)).dtype
        if dtype.fields is None or expr.name not in dtype.fields:
            raise self.failure(
                f"'{to_text(expr.aggregate)}' of type {dtype} has no field '{expr.name}'",
                near_names(expr.name, dtype.fields or ()),
            )
        return NumpyType(dtype.fields[expr.name][0])

    def _hardware_axis(self, expr: Expr) -> _Result:
        return INT32

    def _cast(self, expr: TypeCast) -> _Result:
        return cast("NumpyType", expr.type)

    def _typed_literal(self, expr: TypedLiteral) -> _Result:
        return cast("NumpyType", expr.type)

    def _nan(self, expr: p.NaN) -> _Result:
        declared: NumpyType | None = to_kgen_type(expr.data_type)
        return declared or Literal("f", FLOAT32)

    # -- operations -------------------------------------------------------------------------

    def _sum(self, expr: p.Sum) -> _Result:
        # a + b + c + ... may be nested to the left as deep as it is long
        spine = [expr]
        while children := spine[-1].children:
            first = children[0]
            if not isinstance(first, p.Sum) or id(first) in self._known:
                break
            spine.append(first)
        result: Operand
        while True:
            top = spine.pop()
            result = self._combined(arithmetic, top, top.children)
            if not spine:
                return result
            self._known[id(top)] = (top, result)

    def _arithmetic(self, expr: p.Product | p.BitwiseOr) -> _Result:
        return self._combined(arithmetic, expr, expr.children)

    def _fraction(self, expr: Any) -> _Result:
        return self._combined(arithmetic, expr, (expr.numerator, expr.denominator))

    def _integer_fraction(self, expr: Any) -> _Result:
        top, bottom = (self.operand(part) for part in (expr.numerator, expr.denominator))
        is_zero = _is_integer(bottom) and self._constant(expr.denominator) == 0
        if is_zero and (_is_integer(top) or top == BOOL8):
            raise self.failure(
                f"in '{to_text(expr)}': an integer is divided by zero",
                "divide by another number, or by 0.0 for infinity or nan",
            )
        return self._combined(arithmetic, expr, (expr.numerator, expr.denominator))

    def _quotient(self, expr: p.Quotient) -> _Result:
        parts = (self.operand(expr.numerator), self.operand(expr.denominator))
        if all(_is_integer(part) for part in parts):
            are_numbers = all(isinstance(part, Literal) for part in parts)
            return Literal("f", FLOAT64) if are_numbers else FLOAT64
        top, bottom = parts
        if isinstance(top, Literal) and top.is_mixed and _is_integer(bottom):
            return Literal(top.kind, settle(common(top, FLOAT64)), is_mixed=True)  # 3.0*i/n
        return self._fraction(expr)

    def _power(self, expr: p.Power) -> _Result:
        self._check_exponent(expr, expr.base, expr.exponent)
        return self._combined(arithmetic, expr, (expr.base, expr.exponent))

    def _check_exponent(self, expr: Expr, base: Expr, exponent: Expr) -> None:
        """Reject a negative power of an integer, whose fraction would be lost."""
        if isinstance(exponent, int) and exponent >= 0:
            return
        dtype, power = self.operand(base), self.operand(exponent)
        if not (_is_integer(dtype) or dtype == BOOL8) or not _is_integer(power):
            return
        if isinstance(expr, p.Power) and isinstance(dtype, Literal) and isinstance(power, Literal):
            return  # a number, as in Python
        value = self._constant(exponent)
        if value is not None and value < 0:
            text = to_text(base)
            raise self.failure(
                f"'{to_text(expr)}' is a negative power of an integer, which would be truncated",
                f"cast it: cast(float64, {text})**({value})",
            )

    def _shift(self, expr: p.LeftShift | p.RightShift) -> _Result:
        return self._integers(expr, (expr.shiftee, expr.shift), widest=0)

    def _bitwise(self, expr: p.BitwiseAnd) -> _Result:
        if expr.children and all(self.operand(child) == BOOL8 for child in expr.children):
            return BOOL8
        return self._integers(expr, expr.children)

    def _bitwise_not(self, expr: p.BitwiseNot) -> _Result:
        return self._integers(expr, (expr.child,))

    def _integers(
        self, expr: Expr, operands: tuple[Expr, ...], widest: int | None = None
    ) -> _Result:
        """Return the type of bits: numpy's if it is an integer, else the unsigned operand's.

        *widest* is the operand that decides instead if numpy has no integer type.
        """
        for operand in operands:
            dtype = self.operand(operand)
            if not _is_integer(dtype):
                hint = f"cast it: cast(int32, {to_text(operand)})"
                if isinstance(expr, p.BitwiseXor):
                    hint += "; or write '**' for a power"
                raise self.failure(
                    f"'{to_text(expr)}' operates on the bits of integers, but "
                    f"'{to_text(operand)}' is {settle(dtype).dtype}",
                    hint,
                )
        if isinstance(expr, p.LeftShift | p.RightShift):
            self._check_shift(expr)
        result = self._combined(arithmetic, expr, operands)
        if _is_integer(result):
            return result
        return UINT64 if widest is None else self.operand(operands[widest])

    def _constant(self, expr: Expr) -> int | None:
        """Return the value of an integer constant, of any type: ``cast(int32, 2) - 2l``."""
        dtype = self.operand(expr)
        if isinstance(dtype, Literal):
            return dtype.value if isinstance(dtype.value, int) else None
        if dtype.kind not in "iu":
            return None
        value: int | None = None
        if isinstance(expr, np.integer):
            value = int(expr)
        elif isinstance(expr, TypedLiteral):
            value = int(expr.value)
        elif isinstance(expr, TypeCast):
            value = self._constant(expr.child)
        elif parts := integer_operands(expr):
            values = [self._constant(part) for part in parts]
            known = [each for each in values if each is not None]
            is_natural = not isinstance(expr, p.Power | p.LeftShift | p.RightShift)
            if len(known) == len(values) and (is_natural or known[-1] >= 0):
                with contextlib.suppress(ZeroDivisionError):
                    value = integer_value(expr, known)
        if value is None:
            return None
        bits: int = 8 * dtype.itemsize
        wrapped = value % (1 << bits)
        return wrapped - (1 << bits) if dtype.kind == "i" and wrapped >> (bits - 1) else wrapped

    def _check_shift(self, expr: p.LeftShift | p.RightShift) -> None:
        """Reject a shift by a constant for which the result is undefined in C."""
        count, bits = self._constant(expr.shift), self.operand(expr.shiftee)
        if count is None:
            return
        width = None if isinstance(bits, Literal) else max(32, 8 * bits.itemsize)
        if count < 0 or (width is not None and count >= width):
            limits = "a number of bits that is not negative"
            if width is not None:
                limits = (
                    f"a number of bits from 0 to {width - 1}, or cast '{to_text(expr.shiftee)}'"
                )
            raise self.failure(f"'{to_text(expr)}' shifts by {count} bits", f"shift by {limits}")

    def _truth(self, expr: Expr) -> _Result:
        return BOOL8

    def _if(self, expr: p.If) -> _Result:
        return self._combined(common, expr, (expr.then, expr.else_))

    def _extremum(self, expr: p.Min | p.Max) -> _Result:
        self._reject_vectors(expr, expr.children)
        return self._combined(common, expr, expr.children)

    def _tuple(self, expr: tuple[Expr, ...]) -> _Result:
        return tuple(settle(self.operand(part)) for part in expr)

    def _reduction(self, expr: Reduction) -> _Result:
        parts: list[Operand] = []
        for part in expr.exprs:
            if isinstance(part, Reduction) and part.is_tuple_typed:
                inner = self._reduction(part)
                parts += inner if isinstance(inner, tuple) else (UNDECIDED,)
            else:
                parts.append(self.operand(part))
                if not self.kernel.target.has_vector_arithmetic:
                    self._reject_vectors(expr, (part,))
        if UNDECIDED in parts:
            return UNDECIDED
        operands = tuple(settle(part) for part in parts)
        try:
            results = cast("Types", expr.operation.result(operands))
        except TypeInferenceFailure as err:
            raise self.failure(f"in '{to_text(expr)}': {err}", "cast it, or use a part") from None
        return results if expr.is_tuple_typed else results[0]

    def _call(self, expr: p.Call) -> _Result:
        symbol = expr.function
        name = symbol.name if isinstance(symbol, p.Variable) else to_text(symbol)
        rule = self.kernel.substitutions.get(name)
        if rule is not None:
            return self.result(rule.expand(expr.parameters))
        function = self.find(self.kernel, name)
        if function is None:
            known = known_function_names(self.kernel)
            raise self.failure(f"there is no function '{name}'", _function_hint(name, known))
        operands = [self.operand(argument) for argument in expr.parameters]
        if type(function) is Function and name in FUNCTIONS:
            self._reject_vectors(expr, expr.parameters)
            if name == "pow" and len(operands) == 2:
                self._check_exponent(expr, *expr.parameters)
        try:
            return _result_of(function, operands)
        except TypeInferenceFailure as err:
            raise self.failure(
                f"in '{to_text(expr)}': {err}", "pass other arguments, or cast them"
            ) from None


def _function_hint(name: str, known: Collection[str]) -> str:
    """Return a hint to the intended function for an unknown name."""
    if name in CALL_FORMS:
        return f"parse the expression by kgen.symbolic.parse: other parsers read '{name}' as a call"
    module, _, plain = name.rpartition(".")
    if plain in known and module:
        return f"write {plain}(...), without '{module}.'"
    with contextlib.suppress(KgenError):
        if module and to_kgen_type(plain) is not None:
            return f"cast(np.{plain}, x) converts a number"
    return f"{near_names(plain, known)} (register_callable adds others)"


def _declared_types(kernel: LoopKernel) -> Mapping[str, NumpyType | None]:
    """Return the types of loop variables, parameters, arguments and temporaries, if known."""
    return kernel.analyses.answer(_DECLARED, None, lambda: _find_declared_types(kernel))


_DECLARED = Analysis[Mapping[str, NumpyType | None]](
    LoopKernel, "args", "temporary_variables", "inames", "domains", "index_dtype"
)


def _find_declared_types(kernel: LoopKernel) -> Mapping[str, NumpyType | None]:
    variables = {**kernel.arg_dict, **kernel.temporary_variables}
    types: dict[str, NumpyType | None] = {name: one.dtype for name, one in variables.items()}
    for name in kernel.all_params():
        if types.get(name) is None and not isinstance(variables.get(name), ArrayBase):
            types[name] = kernel.index_dtype
    types.update(dict.fromkeys(kernel.inames, kernel.index_dtype))
    return types


def _context(kernel: LoopKernel, find: Any) -> tuple[Any, ...]:
    """Return the data that determine the types of functions and of other symbols."""
    return find, kernel.target, kernel.functions, kernel.substitutions, kernel.symbol_manglers


def _is_integer(operand: Operand) -> bool:
    return operand.kind == "i" if isinstance(operand, Literal) else operand.is_integral()


def _result_of(function: Function, operands: list[Operand]) -> _Result:
    numbers = without_opaque(operands)
    known = [operand for operand in numbers if not isinstance(operand, Literal)]
    if function.fixed is not None or not operands:
        dtypes = function.settled(operands)
    elif known:
        dtypes = function.adapted(operands, settle(common(*known)))
    elif function.adapts and UNDECIDED in operands:
        return UNDECIDED
    elif function.adapts:
        dtypes = tuple(settle(operand) for operand in operands)
    else:
        dtypes = function.adapted(operands, settle(common(*numbers)))
    results = function.types_for(dtypes)[1]
    if not results:
        raise TypeInferenceFailure(f"'{function.name}' does not specify the type of a result: -1")
    if len(results) > 1:
        return results
    (result,) = results
    if known or not function.adapts:
        return result
    return Literal({"b": "i", "u": "i"}.get(result.kind, result.kind), result)


def _inherited(kind: type[Any]) -> Callable[[ExpressionTyper, Any], _Result] | None:
    """Return the method for the nearest known base of a node type."""
    for base in kind.__mro__[1:]:
        method = _METHODS.get(base)
        if method is not None:
            return method
    return None


#: Operators that work on vectors component by component.
_OF_VECTORS: Final = (p.Sum, p.Product, p.Quotient)

_METHODS: dict[type[Any], Callable[[ExpressionTyper, Any], _Result]] = {
    p.Variable: ExpressionTyper._variable,
    p.Subscript: ExpressionTyper._element,
    LinearSubscript: ExpressionTyper._element,
    SubArrayRef: ExpressionTyper._part_of_array,
    p.Lookup: ExpressionTyper._field,
    GroupHardwareAxisIndex: ExpressionTyper._hardware_axis,
    LocalHardwareAxisIndex: ExpressionTyper._hardware_axis,
    TypeCast: ExpressionTyper._cast,
    TypedLiteral: ExpressionTyper._typed_literal,
    p.NaN: ExpressionTyper._nan,
    p.Sum: ExpressionTyper._sum,
    p.Product: ExpressionTyper._arithmetic,
    p.Quotient: ExpressionTyper._quotient,
    p.FloorDiv: ExpressionTyper._integer_fraction,
    p.Remainder: ExpressionTyper._integer_fraction,
    TruncQuotient: ExpressionTyper._integer_fraction,
    TruncRemainder: ExpressionTyper._integer_fraction,
    p.Power: ExpressionTyper._power,
    p.LeftShift: ExpressionTyper._shift,
    p.RightShift: ExpressionTyper._shift,
    p.BitwiseAnd: ExpressionTyper._bitwise,
    p.BitwiseOr: ExpressionTyper._bitwise,
    p.BitwiseXor: ExpressionTyper._bitwise,
    p.BitwiseNot: ExpressionTyper._bitwise_not,
    p.Comparison: ExpressionTyper._truth,
    p.LogicalAnd: ExpressionTyper._truth,
    p.LogicalOr: ExpressionTyper._truth,
    p.LogicalNot: ExpressionTyper._truth,
    p.If: ExpressionTyper._if,
    p.Min: ExpressionTyper._extremum,
    p.Max: ExpressionTyper._extremum,
    tuple: ExpressionTyper._tuple,
    Reduction: ExpressionTyper._reduction,
    p.Call: ExpressionTyper._call,
}
