"""Expressions of C as expressions of kgen, with the types and conversions of C."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pycparser import c_ast

from kgen.errors import counted, near_names
from kgen.ir.expr import Expr, TypeCast, minus, walk
from kgen.ir.vector_values import numbers_of
from kgen.ready.c_functions import (
    FUNCTIONS,
    Value,
    as_condition,
    as_number,
    chosen,
    converted,
    leaves_of,
    stored_at,
    zero_of,
)
from kgen.ready.c_text import inexpressible, nodes_of, parse_expression, type_of
from kgen.ready.c_types import NAMED_TYPES, Dtype, arithmetic, promoted
from kgen.ready.structures import fields_of, is_structure, type_text

__all__ = [
    "ExpressionReader",
    "Scope",
    "as_assignment",
    "assigned_value",
    "to_condition",
    "to_index",
    "to_value",
    "to_values",
]

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
    ``constants`` are the arrays that are declared ``const``, ``types`` those of the preamble.
    """

    numbers: Mapping[str, Value]
    arrays: Mapping[str, Dtype]
    functions: Mapping[str, c_ast.FuncDef] = field(default_factory=dict)
    access: Access = _plain_access
    constants: frozenset[str] = frozenset()
    types: Mapping[str, Dtype] = field(default_factory=dict)

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
    reader, node = ExpressionReader(scope), parse_expression(text, what, tuple(scope.types))
    return reader.scalar(node).expr if dtype is None else reader.fitted(node, dtype).expr


def to_values(text: str, what: str, scope: Scope, dtype: Dtype) -> tuple[Expr, ...]:
    """Return the numbers of the value of a C expression: one, or those of a structure."""
    node = parse_expression(text, what, tuple(scope.types))
    return tuple(leaf.expr for leaf in leaves_of(ExpressionReader(scope).fitted(node, dtype)))


def to_condition(text: str, what: str, scope: Scope) -> Expr:
    """Return the condition that a C expression is not zero."""
    return ExpressionReader(scope).condition(parse_expression(text, what, tuple(scope.types)))


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
        return as_condition(self.scalar(node))

    def scalar(self, node: c_ast.Node) -> Value:
        """Return the value of an expression that is not a structure."""
        value = self.value(node)
        if value.parts is not None:
            fields = ", ".join(f".{name}" for name in fields_of(value.dtype))
            raise inexpressible(
                node,
                f"a {type_text(value.dtype)} is used as a number",
                f"use one of its fields: {fields}",
            )
        return value

    def number(self, node: c_ast.Node) -> Value:
        """Return the value of an expression; 0 or 1 for a condition."""
        return as_number(self.scalar(node))

    def fitted(self, node: c_ast.Node, dtype: Dtype) -> Value:
        """Return the value of an expression, converted to a type.

        Structures are converted to others that have fields of the same names.
        """
        value = self.value(node)
        if not _are_alike(value.dtype, dtype):
            raise inexpressible(
                node,
                f"a {type_text(value.dtype)} is used as a {type_text(dtype)}",
                "make such a value by a function of the preamble, or as (TYPE) {first, second}",
            )
        return converted(value, dtype)

    def initial(self, node: Any, dtype: Dtype) -> Value:
        """Return what an initializer ``= 1`` or ``= {1, 2}`` says; zero without one."""
        if node is None:
            return zero_of(dtype)
        if not isinstance(node, c_ast.InitList):
            return self.fitted(node, dtype)
        if not is_structure(dtype):
            raise inexpressible(node, "a number is initialized by a list", "write float s = 0;")
        value, kinds = zero_of(dtype), fields_of(dtype)
        for position, one in enumerate(node.exprs):
            is_named = isinstance(one, c_ast.NamedInitializer)
            name = one.name[0].name if is_named else [*kinds, None][min(position, len(kinds))]
            if name not in kinds:
                raise inexpressible(
                    one,
                    f"a {type_text(dtype)} has no field for this value",
                    f"its fields are {', '.join(kinds)}",
                )
            part = self.initial(one.expr if is_named else one, kinds[name])
            value = value.with_part([name], part)
        return value

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
        return stored_at(self.scope.access(array, index), self.scope.arrays[array])

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
        index = self.scalar(node.subscript)
        if index.dtype.kind not in "iub":
            raise inexpressible(
                node,
                f"the subscript of '{name}' is of the type {index.dtype}",
                "cast it to an integer: x[(int) k]",
            )
        return str(name), to_index(as_number(index).expr)

    def of_structref(self, node: Any) -> Value:
        value, part = self.value(node.name), node.field.name
        if value.parts is not None:
            if part not in fields_of(value.dtype):
                raise inexpressible(
                    node,
                    f"a {type_text(value.dtype)} has no field '{part}'",
                    near_names(part, fields_of(value.dtype)),
                )
            return value.part(part)
        if value.dtype.kind == "c" and part in ("real", "imag", "x", "y"):
            return FUNCTIONS["real" if part in ("real", "x") else "imag"](value)
        numbers = numbers_of(value.dtype)
        if numbers is None or value.dtype.fields is None or part not in value.dtype.fields:
            raise inexpressible(
                node,
                f"'.{part}' of a value of the type {value.dtype}",
                "parts are .real and .imag of complex numbers, .x .y .s0 of vectors, and fields of "
                "structures",
            )
        names = value.dtype.names or ()
        lane = part if part in names else f"s{'xyzw'.index(part)}"
        return Value(p.Lookup(value.expr, lane), numbers[0])

    # -- operators ------------------------------------------------------------------------

    def of_unaryop(self, node: Any) -> Value:
        if node.op == "!":
            return Value(p.LogicalNot(self.condition(node.expr)), _BOOL)
        if node.op == "sizeof":
            dtype = type_of(node.expr, "the operand of sizeof", self.scope.types)
            return Value(np.uint64(dtype.itemsize), np.dtype(np.uint64))
        make = {"-": _minus, "+": _plus, "~": _inverted}.get(node.op)
        if make is None:
            what = {"&": "the address of a value", "*": "the target of a pointer"}
            raise inexpressible(
                node,
                f"{what.get(node.op, f'the operator {node.op}')} is used inside an expression",
                "write x[k] for elements, and changes such as k += 1 as statements of their own",
            )
        return make(self.number(node.expr))

    def of_binaryop(self, node: Any) -> Value:
        if node.op in ("&&", "||"):
            operands = (self.condition(node.left), self.condition(node.right))
            kind = p.LogicalAnd if node.op == "&&" else p.LogicalOr
            return Value(kind(operands), _BOOL)
        return _binary(node.op, self.number(node.left), self.number(node.right), node)

    def of_ternaryop(self, node: Any) -> Value:
        condition = self.condition(node.cond)
        one = self.value(node.iftrue)
        other = self.value(node.iffalse)
        if one.parts is not None or other.parts is not None:
            other = self.fitted(node.iffalse, one.dtype)
        return chosen(condition, one, other)

    def of_cast(self, node: Any) -> Value:
        dtype = type_of(node.to_type.type, "a cast", self.scope.types)
        if numbers_of(dtype) is not None:
            parts = node.expr.exprs if isinstance(node.expr, c_ast.ExprList) else [node.expr]
            name = next(name for name, known in NAMED_TYPES.items() if known == dtype)
            return FUNCTIONS[f"make_{name}"](*map(self.value, parts))
        return self.fitted(node.expr, dtype)

    def of_compoundliteral(self, node: Any) -> Value:
        return self.initial(node.init, type_of(node.type.type, "a value", self.scope.types))

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
        values = [self.number(parameter) for parameter in parameters]
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
                f"'{name}' takes {counted(len(declared), 'argument')} and is given "
                f"{len(parameters)}",
                "pass one for each",
            )
        numbers: dict[str, Value] = {}
        arrays: dict[str, tuple[str, Expr]] = {}
        for one, given in zip(declared, parameters, strict=True):
            if isinstance(one.type, c_ast.PtrDecl):
                arrays[one.name] = self.pointer(given, f"'{name}' takes an array as '{one.name}'")
            else:
                dtype = type_of(one.type, f"argument '{one.name}' of '{name}'", self.scope.types)
                numbers[one.name] = self.fitted(given, dtype)

        def access(array: str, index: Expr) -> Expr:
            given, start = arrays[array]
            return self.scope.access(given, index if start == 0 else to_index(start + index))

        inside = dataclasses.replace(
            self.scope,
            numbers=numbers,
            arrays={own: self.scope.arrays[given] for own, (given, _) in arrays.items()},
            functions={key: f for key, f in self.scope.functions.items() if key != name},
            access=access,
        )
        result = type_of(function.decl.type.type, f"the result of '{name}'", self.scope.types)
        returned = _Body(function, result).returned(inside, list(function.body.block_items or ()))
        return converted(returned, result)

    def pointer(self, node: Any, what: str) -> tuple[str, Expr]:
        """Return the array and the index to which ``x``, ``x + k`` or ``&x[k]`` points."""
        match node:
            case c_ast.ID() if node.name in self.scope.arrays:
                return node.name, 0
            case c_ast.BinaryOp(op="+", left=c_ast.ID() as array):
                return self.place(c_ast.ArrayRef(array, node.right, node.coord))
            case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef()):
                return self.place(node.expr)
        raise inexpressible(node, what, "pass its name alone, or &x[k]")


class _Body:
    """The body of a function of the preamble, which is inlined; *dtype* is that of its result."""

    def __init__(self, function: Any, dtype: Dtype) -> None:
        self.function = function
        self.dtype = dtype

    def returned(self, scope: Scope, statements: Sequence[Any]) -> Value:
        """Return the result of statements, one of which returns."""
        for position, node in enumerate(statements):
            rest = statements[position + 1 :]
            match node:
                case c_ast.Return() if node.expr is not None:
                    return ExpressionReader(scope).fitted(node.expr, self.dtype)
                case c_ast.Compound() if _may_return(node):
                    return self.returned(scope, [*_items(node), *rest])
                case c_ast.If() if _may_return(node):
                    condition = ExpressionReader(scope).condition(node.cond)
                    one = self.returned(scope, [*_items(node.iftrue), *rest])
                    other = self.returned(scope, [*_items(node.iffalse), *rest])
                    return chosen(condition, one, other)
            scope = self.after(scope, node)
        raise inexpressible(
            self.function,
            f"'{self.function.decl.name}' may end without a return",
            "end each branch with return",
        )

    def after(self, scope: Scope, node: Any) -> Scope:
        """Return the values of variables after a statement that does not return."""
        reader = ExpressionReader(scope)
        match node:
            case c_ast.EmptyStatement():
                return scope
            case c_ast.Compound():
                return self.after_block(scope, _items(node))
            case c_ast.If():
                condition = reader.condition(node.cond)
                one = self.after_block(scope, _items(node.iftrue)).numbers
                other = self.after_block(scope, _items(node.iffalse)).numbers
                return scope.with_numbers(
                    {
                        name: converted(chosen(condition, one[name], other[name]), value.dtype)
                        for name, value in scope.numbers.items()
                        if one[name] is not other[name]
                    }
                )
            case c_ast.Decl() if isinstance(node.type, c_ast.TypeDecl):
                dtype = type_of(node.type, f"'{node.name}'", scope.types)
                return scope.with_numbers({node.name: reader.initial(node.init, dtype)})
            case c_ast.UnaryOp(op="++" | "p++" | "--" | "p--"):
                return self.after(scope, as_assignment(node))
            case c_ast.Assignment():
                name, path = _path_of(node.lvalue)
                if name is not None and name in scope.numbers:
                    place = reader.value(node.lvalue)
                    changed = scope.numbers[name].with_part(
                        path, assigned_value(reader, node, place.dtype)
                    )
                    return scope.with_numbers({name: changed})
        raise inexpressible(
            node,
            f"'{self.function.decl.name}' has a statement other than a declaration, an assignment "
            "to a variable or a field, if or return",
            "functions of the preamble are inlined: float f(float x) { return x*x; }",
        )

    def after_block(self, scope: Scope, statements: Sequence[Any]) -> Scope:
        """Return the values after a block, whose declarations end with it."""
        inside, hidden = scope, dict[str, Value]()
        for node in statements:
            if isinstance(node, c_ast.Decl) and node.name not in hidden:
                hidden |= {n: v for n, v in inside.numbers.items() if n == node.name}
            inside = self.after(inside, node)
        values = {**inside.numbers, **hidden}
        return scope.with_numbers({name: values[name] for name in scope.numbers})


def _items(node: Any) -> list[Any]:
    """Return the statements of a block or a branch."""
    if node is None:
        return []
    return list(node.block_items or ()) if isinstance(node, c_ast.Compound) else [node]


def _may_return(node: Any) -> bool:
    return any(isinstance(inner, c_ast.Return) for inner in nodes_of(node))


def _path_of(node: Any) -> tuple[str | None, list[str]]:
    """Return the variable of ``a.b.c``, and the names of the fields."""
    path: list[str] = []
    while isinstance(node, c_ast.StructRef) and node.type == ".":
        path.insert(0, node.field.name)
        node = node.name
    return (node.name if isinstance(node, c_ast.ID) else None), path


def as_assignment(node: Any) -> Any:
    """Return ``x += 1`` for ``++x``."""
    one = c_ast.Constant("int", "1", node.coord)
    return c_ast.Assignment("+=" if "+" in node.op else "-=", node.expr, one, node.coord)


def assigned_value(reader: ExpressionReader, node: Any, dtype: Dtype) -> Value:
    """Return the value that an assignment stores in a place of some type, also ``x += 1``."""
    if node.op == "=":
        return reader.fitted(node.rvalue, dtype)
    value, old = reader.number(node.rvalue), reader.number(node.lvalue)
    return converted(_binary(node.op[:-1], old, value, node), dtype)


def _are_alike(one: Dtype, other: Dtype) -> bool:
    """Tell whether both types are numbers, or structures with the same fields."""
    if not is_structure(one) or not is_structure(other):
        return is_structure(one) == is_structure(other)
    a, b = fields_of(one), fields_of(other)
    return list(a) == list(b) and all(_are_alike(a[name], b[name]) for name in a)


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


def _floats(suffix: str, prefix: str, dtype: Any) -> dict[str, Value]:
    """Return the constants of ``math.h`` and ``float.h`` in one type of real numbers."""
    info, dtype = np.finfo(dtype), np.dtype(dtype)
    numbers = {f"M_{name}{suffix}": number for name, number in _MATHEMATICAL.items()}
    numbers |= {
        f"{prefix}_MAX": info.max,
        f"{prefix}_MIN": info.tiny,
        f"{prefix}_EPSILON": info.eps,
    }
    return {name: Value(dtype.type(number), dtype) for name, number in numbers.items()}


_MATHEMATICAL: Final = {
    "PI": math.pi,
    "PI_2": math.pi / 2,
    "PI_4": math.pi / 4,
    "1_PI": 1 / math.pi,
    "2_PI": 2 / math.pi,
    "2_SQRTPI": 2 / math.sqrt(math.pi),
    "E": math.e,
    "LOG2E": 1 / math.log(2),
    "LOG10E": 1 / math.log(10),
    "LN2": math.log(2),
    "LN10": math.log(10),
    "SQRT2": math.sqrt(2),
    "SQRT1_2": math.sqrt(0.5),
}


def _limits(prefix: str, dtype: Any) -> dict[str, Value]:
    """Return the constants of ``limits.h`` and ``stdint.h`` for a type of integers."""
    info, dtype = np.iinfo(dtype), promoted(np.dtype(dtype))
    ends = {"MAX": info.max, "MIN": info.min}
    return {
        f"{prefix}_{end}": Value(dtype.type(number), dtype)
        for end, number in ends.items()
        if number != 0
    }


_NAMED_CONSTANTS: Final = {
    "true": Value(True, _BOOL),
    "false": Value(False, _BOOL),
    **_floats("", "DBL", np.float64),
    **_floats("_F", "FLT", np.float32),
    **{
        name: Value(np.float32(number), np.dtype(np.float32))
        for name, number in {
            "INFINITY": np.inf,
            "HUGE_VALF": np.inf,
            "NAN": np.nan,
            "MAXFLOAT": float(np.finfo(np.float32).max),
        }.items()
    },
    "HUGE_VAL": Value(np.float64(np.inf), np.dtype(np.float64)),
    "CHAR_BIT": Value(np.int32(8), _INT),
    **{
        name: value
        for prefix, dtype in {
            "CHAR": np.int8,
            "SCHAR": np.int8,
            "SHRT": np.int16,
            "INT": np.int32,
            "LONG": np.int64,
            "LLONG": np.int64,
            "UCHAR": np.uint8,
            "USHRT": np.uint16,
            "UINT": np.uint32,
            "ULONG": np.uint64,
            "ULLONG": np.uint64,
            "SIZE": np.uint64,
            **{f"INT{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
            **{f"UINT{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
        }.items()
        for name, value in _limits(prefix, dtype).items()
    },
}
_COUNTS: Final = ("i", "n", "N")
