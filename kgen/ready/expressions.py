"""Expressions of C as expressions of kgen, with the types and conversions of C."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pycparser import c_ast

from kgen.errors import near_names
from kgen.ir.expr import Expr, TypeCast, minus, walk
from kgen.ir.vector_values import numbers_of
from kgen.ready.c_functions import FUNCTIONS, Value, as_condition, as_number, converted
from kgen.ready.c_text import inexpressible, parse_expression, type_of
from kgen.ready.c_types import NAMED_TYPES, Dtype, arithmetic, promoted

__all__ = ["ExpressionReader", "Scope", "assigned_value", "to_condition", "to_index", "to_value"]

_BOOL: Final = np.dtype(np.bool_)
_INT: Final = np.dtype(np.int32)
_LONG: Final = np.dtype(np.int64)
#: Makes the access to an element of an array, by name and index.
Access = Callable[[str, Expr], Expr]


def _plain_access(array: str, index: Expr) -> Expr:
    return p.Variable(array)[index]


@dataclass(frozen=True)
class Scope:
    """The meaning of names: numbers with their values, arrays with the types of their elements.

    ``access`` makes the access to an element; ``functions`` are those of the preamble;
    ``constants`` are the arrays that are declared ``const``.
    """

    numbers: Mapping[str, Value]
    arrays: Mapping[str, Dtype]
    functions: Mapping[str, c_ast.FuncDef] = field(default_factory=dict)
    access: Access = _plain_access
    constants: frozenset[str] = frozenset()

    def element(self, array: str, index: Expr) -> Expr:
        """Return the access to an element by an index of any integer type."""
        return self.access(array, to_index(index))

    def with_numbers(self, numbers: Mapping[str, Value]) -> Scope:
        """Return a scope with more numbers."""
        return dataclasses.replace(self, numbers={**self.numbers, **numbers})


def to_value(text: str, what: str, scope: Scope, dtype: Dtype | None = None) -> Expr:
    """Return the expression of kgen for a C expression, converted to *dtype*.

    >>> index = {"i": Value(p.Variable("i"), np.dtype(np.int64))}
    >>> scope = Scope(index, {"x": np.dtype(np.float32)})
    >>> str(to_value("2*x[i] > 1 ? x[i] : 0", "map_expr", scope))
    'x[i] if 2.0*x[i] > 1.0 else 0.0'
    """
    value = ExpressionReader(scope).value(parse_expression(text, what))
    return value.expr if dtype is None else converted(value, dtype).expr


def to_condition(text: str, what: str, scope: Scope) -> Expr:
    """Return the condition that a C expression is not zero."""
    return ExpressionReader(scope).condition(parse_expression(text, what))


class ExpressionReader:
    """Translates expressions in one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def value(self, node: c_ast.Node) -> Value:
        """Return the value of an expression."""
        find = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if find is None:
            raise inexpressible(
                node,
                f"{type(node).__name__} is used where a value is expected",
                "write arithmetic, comparisons, casts, ?:, elements x[i] and calls",
            )
        value: Value = find(node)
        return value

    def condition(self, node: c_ast.Node) -> Expr:
        """Return the condition that an expression is not zero."""
        return as_condition(self.value(node))

    # -- leaves ---------------------------------------------------------------------------

    def of_constant(self, node: Any) -> Value:
        return _constant(node)

    def of_id(self, node: Any) -> Value:
        found = self.scope.numbers.get(node.name)
        if found is not None:
            return found
        if node.name in _NAMED_CONSTANTS:
            return _NAMED_CONSTANTS[node.name]
        if node.name in self.scope.arrays:
            raise inexpressible(
                node, f"the array '{node.name}' is used as a number", f"write {node.name}[i]"
            )
        known = [*self.scope.numbers, *self.scope.arrays]
        raise inexpressible(
            node, f"there is no argument '{node.name}'", near_names(node.name, known)
        )

    def of_arrayref(self, node: Any) -> Value:
        array, index = self.place(node)
        return Value(self.scope.access(array, index), self.scope.arrays[array])

    def place(self, node: Any) -> tuple[str, Expr]:
        """Return the array and the index of an element."""
        name = node.name.name if isinstance(node.name, c_ast.ID) else None
        if name not in self.scope.arrays:
            raise inexpressible(
                node,
                "the subscripted expression is not one of the arrays "
                + ", ".join(f"'{array}'" for array in self.scope.arrays),
                "declare it as a pointer among the arguments: float *x",
            )
        index = self.value(node.subscript)
        if index.dtype.kind not in "iub":
            raise inexpressible(
                node,
                f"the subscript of '{name}' is of the type {index.dtype}",
                "cast it to an integer: x[(int) k]",
            )
        return str(name), to_index(as_number(index).expr)

    def of_structref(self, node: Any) -> Value:
        value, part = self.value(node.name), node.field.name
        if value.dtype.kind == "c" and part in ("real", "imag", "x", "y"):
            return FUNCTIONS["real" if part in ("real", "x") else "imag"](value)
        numbers = numbers_of(value.dtype)
        if numbers is None or value.dtype.fields is None or part not in value.dtype.fields:
            raise inexpressible(
                node,
                f"'.{part}' of a value of the type {value.dtype}",
                "parts are .real and .imag of complex numbers, .x .y .s0 of vectors; pass each "
                "field of a structure as a separate array",
            )
        names = value.dtype.names or ()
        lane = part if part in names else f"s{'xyzw'.index(part)}"
        return Value(p.Lookup(value.expr, lane), numbers[0])

    # -- operators ------------------------------------------------------------------------

    def of_unaryop(self, node: Any) -> Value:
        if node.op == "!":
            return Value(p.LogicalNot(self.condition(node.expr)), _BOOL)
        if node.op == "sizeof":
            dtype = type_of(node.expr, "the operand of sizeof")
            return Value(np.uint64(dtype.itemsize), np.dtype(np.uint64))
        make = {"-": _minus, "+": _plus, "~": _inverted}.get(node.op)
        if make is None:
            what = {"&": "the address of a value", "*": "the target of a pointer"}
            raise inexpressible(
                node,
                f"{what.get(node.op, f'the operator {node.op}')} is used inside an expression",
                "write x[k] for elements, and changes such as k += 1 as statements of their own",
            )
        return make(as_number(self.value(node.expr)))

    def of_binaryop(self, node: Any) -> Value:
        if node.op in ("&&", "||"):
            operands = (self.condition(node.left), self.condition(node.right))
            kind = p.LogicalAnd if node.op == "&&" else p.LogicalOr
            return Value(kind(operands), _BOOL)
        one, other = self.value(node.left), self.value(node.right)
        return _binary(node.op, as_number(one), as_number(other), node)

    def of_ternaryop(self, node: Any) -> Value:
        condition = self.condition(node.cond)
        one, other = as_number(self.value(node.iftrue)), as_number(self.value(node.iffalse))
        dtype = one.dtype if one.dtype == other.dtype else arithmetic(one.dtype, other.dtype)
        return Value(
            p.If(condition, converted(one, dtype).expr, converted(other, dtype).expr), dtype
        )

    def of_cast(self, node: Any) -> Value:
        dtype = type_of(node.to_type.type, "a cast")
        if numbers_of(dtype) is not None:
            parts = node.expr.exprs if isinstance(node.expr, c_ast.ExprList) else [node.expr]
            name = next(name for name, known in NAMED_TYPES.items() if known == dtype)
            return FUNCTIONS[f"make_{name}"](*map(self.value, parts))
        return converted(self.value(node.expr), dtype)

    def of_exprlist(self, node: Any) -> Value:
        raise inexpressible(
            node, "two expressions are joined by a comma", "write two statements, each with ;"
        )

    def of_assignment(self, node: Any) -> Value:
        raise inexpressible(
            node,
            "an assignment is used inside an expression",
            "write it as a separate statement",
        )

    # -- calls ----------------------------------------------------------------------------

    def of_funccall(self, node: Any) -> Value:
        name = node.name.name if isinstance(node.name, c_ast.ID) else "?"
        parameters = list(node.args.exprs) if node.args is not None else []
        if name in self.scope.functions:
            return self.inlined(node, self.scope.functions[name], parameters)
        if name.startswith("atom"):
            raise inexpressible(
                node,
                f"'{name}' has no value, or is not a known function",
                "write atomic_add(&x[k], value); as a statement; to number elements, use a scan",
            )
        make = FUNCTIONS.get(name)
        if make is None:
            hint = f"{near_names(name, FUNCTIONS)}; or define it in the preamble"
            raise inexpressible(node, f"there is no function '{name}'", hint)
        values = [as_number(self.value(parameter)) for parameter in parameters]
        try:
            return make(*values)
        except (TypeError, ValueError, IndexError):
            raise inexpressible(
                node, f"'{name}' does not take {len(values)} such arguments", "see its definition"
            ) from None

    def inlined(self, node: Any, function: Any, parameters: Sequence[Any]) -> Value:
        """Return the value that a function of the preamble returns."""
        declared = function.decl.type.args.params if function.decl.type.args else []
        declared = [one for one in declared if one.name is not None]
        name = function.decl.name
        if len(declared) != len(parameters):
            raise inexpressible(
                node,
                f"'{name}' takes {len(declared)} arguments and is given {len(parameters)}",
                "pass one for each",
            )
        numbers: dict[str, Value] = {}
        arrays: dict[str, str] = {}
        for one, given in zip(declared, parameters, strict=True):
            if isinstance(one.type, c_ast.PtrDecl):
                if not isinstance(given, c_ast.ID) or given.name not in self.scope.arrays:
                    raise inexpressible(
                        given, f"'{name}' takes an array as '{one.name}'", "pass its name alone"
                    )
                arrays[one.name] = given.name
            else:
                dtype = type_of(one.type, f"argument '{one.name}' of '{name}'")
                numbers[one.name] = converted(self.value(given), dtype)
        inside = dataclasses.replace(
            self.scope,
            numbers=numbers,
            arrays={own: self.scope.arrays[given] for own, given in arrays.items()},
            functions={key: f for key, f in self.scope.functions.items() if key != name},
            access=lambda array, index: self.scope.access(arrays[array], index),
        )
        result = type_of(function.decl.type.type, f"the result of '{name}'")
        returned = _returned(inside, list(function.body.block_items or ()), function)
        return converted(returned, result)


def _returned(scope: Scope, statements: list[Any], function: Any) -> Value:
    """Return the result of a function made of declarations, ``if`` and ``return``."""
    if not statements:
        raise inexpressible(
            function,
            f"'{function.decl.name}' may end without a return",
            "end each branch with return",
        )
    (first, *rest) = statements
    translator = ExpressionReader(scope)
    match first:
        case c_ast.Return() if first.expr is not None:
            return translator.value(first.expr)
        case c_ast.Compound():
            return _returned(scope, [*(first.block_items or ()), *rest], function)
        case c_ast.If():
            one = _returned(scope, [first.iftrue, *rest], function)
            after = [first.iffalse, *rest] if first.iffalse is not None else rest
            other = _returned(scope, after, function)
            one, other = as_number(one), as_number(other)
            dtype = one.dtype if one.dtype == other.dtype else arithmetic(one.dtype, other.dtype)
            parts = converted(one, dtype).expr, converted(other, dtype).expr
            return Value(p.If(translator.condition(first.cond), *parts), dtype)
        case c_ast.Decl() if first.init is not None and isinstance(first.type, c_ast.TypeDecl):
            dtype = type_of(first.type, f"'{first.name}'")
            value = converted(translator.value(first.init), dtype)
            return _returned(scope.with_numbers({first.name: value}), rest, function)
        case c_ast.Assignment() if isinstance(first.lvalue, c_ast.ID):
            name = first.lvalue.name
            value = converted(assigned_value(translator, first), scope.numbers[name].dtype)
            return _returned(scope.with_numbers({name: value}), rest, function)
        case _:
            raise inexpressible(
                first,
                f"'{function.decl.name}' has a statement other than a declaration, if or return",
                "functions of the preamble are inlined: float f(float x) { return x*x; }",
            )


def assigned_value(translator: ExpressionReader, node: Any) -> Value:
    """Return the value that an assignment stores; ``x += 1`` is an assignment, too."""
    value = translator.value(node.rvalue)
    if node.op == "=":
        return value
    old = translator.value(node.lvalue)
    return _binary(node.op[:-1], as_number(old), as_number(value), node)


# -- operators -----------------------------------------------------------------------------------


def _minus(value: Value) -> Value:
    dtype = promoted(value.dtype)
    return Value(_negated(converted(value, dtype).expr, dtype), dtype)


def _negated(operand: Expr, dtype: Dtype) -> Expr:
    if isinstance(operand, np.generic) and dtype.kind != "u":
        return dtype.type(-operand.item())
    return p.Product((-1, operand))


def _plus(value: Value) -> Value:
    return converted(value, promoted(value.dtype))


def _inverted(value: Value) -> Value:
    dtype = promoted(value.dtype)
    return Value(p.BitwiseNot(converted(value, dtype).expr), dtype)


_COMPARISONS: Final = ("<", "<=", ">", ">=", "==", "!=")
_BITWISE: Final = {"&": p.BitwiseAnd, "|": p.BitwiseOr, "^": p.BitwiseXor}


def _binary(operator: str, one: Value, other: Value, node: Any) -> Value:
    """Return the result of a binary operator on two numbers."""
    dtype = arithmetic(one.dtype, other.dtype)
    if operator in ("<<", ">>"):
        dtype = promoted(one.dtype)
        a, b = converted(one, dtype).expr, converted(other, promoted(other.dtype)).expr
        return Value((p.LeftShift if operator == "<<" else p.RightShift)(a, b), dtype)
    a, b = converted(one, dtype).expr, converted(other, dtype).expr
    if operator in _COMPARISONS:
        return Value(p.Comparison(a, operator, b), _BOOL)
    if operator in _BITWISE:
        return Value(_BITWISE[operator]((a, b)), dtype)
    if operator == "%" and dtype.kind not in "iu":
        raise inexpressible(node, f"'%' of a value of the type {dtype}", "write fmod(a, b)")
    return Value(_ARITHMETIC[operator](a, b, dtype), dtype)


def _less(a: Expr, b: Expr, dtype: Dtype) -> Expr:
    if dtype.kind == "V":
        return minus(a, b)
    return p.Sum((a, _negated(b, dtype)))


def _quotient(a: Expr, b: Expr, dtype: Dtype) -> Expr:
    """Return a quotient; C truncates that of integers, where kgen rounds down."""
    if dtype.kind not in "iu":
        return p.Quotient(a, b)
    if dtype.kind == "u" or _is_count(a):
        return p.FloorDiv(a, b)
    return p.If(
        _have_other_signs(a, b, dtype),
        p.Product((-1, p.FloorDiv(p.Product((-1, a)), b))),
        p.FloorDiv(a, b),
    )


def _remainder(a: Expr, b: Expr, dtype: Dtype) -> Expr:
    """Return a remainder, which has the sign of *a* in C and that of *b* in kgen."""
    if dtype.kind == "u" or _is_count(a):
        return p.Remainder(a, b)
    return p.Sum((a, p.Product((-1, b, _quotient(a, b, dtype)))))


def _is_count(expr: Expr) -> bool:
    """Tell whether an expression is an index or a size, which are never negative."""
    if isinstance(expr, TypeCast):
        return _is_count(expr.child)
    return isinstance(expr, p.Variable) and expr.name in _COUNTS


def _have_other_signs(a: Expr, b: Expr, dtype: Dtype) -> Expr:
    zero = dtype.type(0)
    if isinstance(b, np.generic):
        return p.Comparison(a, "<" if b.item() > 0 else ">", zero)
    return p.Comparison(p.Comparison(a, "<", zero), "!=", p.Comparison(b, "<", zero))


_ARITHMETIC: Final[dict[str, Callable[[Expr, Expr, Dtype], Expr]]] = {
    "+": lambda a, b, _: p.Sum((a, b)),
    "-": _less,
    "*": lambda a, b, _: p.Product((a, b)),
    "/": _quotient,
    "%": _remainder,
}


def to_index(expr: Expr) -> Expr:
    """Return a subscript without conversions: in kgen, subscripts are integers of sufficient width.

    >>> from kgen.ir.types import INT64
    >>> str(to_index(p.Sum((TypeCast(INT64, p.Variable("i")), np.int64(1)))))
    'i + 1'
    """
    match expr:
        case TypeCast() if expr.type.kind in "iu" and _is_affine(expr.child):
            return to_index(expr.child)
        case np.integer():
            return int(expr)
        case p.Sum():
            return p.Sum(tuple(map(to_index, expr.children)))
        case p.Product():
            return p.Product(tuple(map(to_index, expr.children)))
        case p.FloorDiv() | p.Remainder():
            return type(expr)(to_index(expr.numerator), to_index(expr.denominator))
    return expr


def _is_affine(expr: Expr) -> bool:
    """Tell whether an expression has only variables, integers, sums and products."""
    kinds = p.Variable | p.Sum | p.Product | TypeCast | int | np.integer
    return all(isinstance(node, kinds) for node in walk(expr))


# -- constants -----------------------------------------------------------------------------------


def _constant(node: Any) -> Value:
    text = node.value.replace("'", "") if node.type != "char" else node.value
    if node.type == "char":
        return Value(np.int32(ord(text[1:-1].encode().decode("unicode_escape"))), _INT)
    if node.type == "string":
        raise inexpressible(node, "an expression contains a string", "write numbers")
    is_hexadecimal = text[:2] in ("0x", "0X")
    if "float" in node.type or "double" in node.type:
        is_single = text[-1] in "fF"
        digits = text.rstrip("fFlL")
        number = float.fromhex(digits) if is_hexadecimal else float(digits)
        dtype = np.dtype(np.float32 if is_single else np.float64)
        return Value(dtype.type(number), dtype)
    digits = text.rstrip("uUlL")
    suffix = text[len(digits) :].lower()
    is_octal = digits[:1] == "0" and len(digits) > 1 and digits[1] in "01234567"
    number = int(digits, 8 if is_octal else 0)
    dtype = _integer_type(number, suffix, is_hexadecimal or is_octal)
    return Value(dtype.type(number), dtype)


def _integer_type(number: int, suffix: str, may_be_unsigned: bool) -> Dtype:
    """Return the first type that an integer constant of C fits."""
    for dtype in map(np.dtype, (np.int32, np.uint32, np.int64, np.uint64)):
        if "u" in suffix and dtype.kind != "u":
            continue
        if "u" not in suffix and dtype.kind == "u" and not may_be_unsigned:
            continue
        if "l" in suffix and dtype.itemsize < _LONG.itemsize:
            continue
        if number < 2 ** (8 * dtype.itemsize - (dtype.kind == "i")):
            return dtype
    return np.dtype(np.uint64)


_NAMED_CONSTANTS: Final = {
    "true": Value(True, _BOOL),
    "false": Value(False, _BOOL),
    "M_PI": Value(np.float64(np.pi), np.dtype(np.float64)),
    "M_PI_F": Value(np.float32(np.pi), np.dtype(np.float32)),
    "M_E": Value(np.float64(np.e), np.dtype(np.float64)),
    "INFINITY": Value(np.float32(np.inf), np.dtype(np.float32)),
    "NAN": Value(np.float32(np.nan), np.dtype(np.float32)),
    "FLT_MAX": Value(np.finfo(np.float32).max, np.dtype(np.float32)),
    "FLT_MIN": Value(np.finfo(np.float32).tiny, np.dtype(np.float32)),
    "FLT_EPSILON": Value(np.finfo(np.float32).eps, np.dtype(np.float32)),
    "DBL_MAX": Value(np.finfo(np.float64).max, np.dtype(np.float64)),
    "DBL_MIN": Value(np.finfo(np.float64).tiny, np.dtype(np.float64)),
    "DBL_EPSILON": Value(np.finfo(np.float64).eps, np.dtype(np.float64)),
    **{
        f"{prefix}_{end.upper()}": Value(
            np.dtype(dtype).type(getattr(np.iinfo(dtype), end)), np.dtype(dtype)
        )
        for prefix, dtype in (("INT", np.int32), ("LONG", np.int64))
        for end in ("max", "min")
    },
    "UINT_MAX": Value(np.uint32(2**32 - 1), np.dtype(np.uint32)),
    "ULONG_MAX": Value(np.uint64(2**64 - 1), np.dtype(np.uint64)),
}
_COUNTS: Final = ("i", "n", "N")
