"""Short constructors for Python syntax trees, and compiling a tree to a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pymbolic.interop.ast import PymbolicToASTMapper

from kgen.ir.expr import Expr, TruncQuotient, TruncRemainder

__all__ = [
    "PREFIX",
    "all_of",
    "any_of",
    "assign",
    "attribute",
    "builtin",
    "call",
    "compare",
    "const",
    "define",
    "do",
    "either",
    "from_expr",
    "function_of",
    "if_",
    "item",
    "lambda_of",
    "name",
    "named",
    "negate",
    "return_",
    "to_code",
    "to_text",
    "tuple_",
]

_OPERATORS: Mapping[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "is": ast.Is,
    "is not": ast.IsNot,
}


#: The prefix of all names in a function other than arguments of a kernel.
PREFIX: Final = "_kg_"

#: Python's builtins in functions; they have other names, since an argument may be called ``len``.
_BUILTINS: Final = {
    PREFIX + function.__name__: function
    for function in (
        AttributeError,
        Exception,
        IndexError,
        int,
        isinstance,
        len,
        max,
        min,
        range,
        repr,
        type,
    )
}


def builtin(text: str) -> ast.Name:
    """Return the expression for Python's builtin *text* in functions."""
    assert PREFIX + text in _BUILTINS
    return name(PREFIX + text)


def name(text: str) -> ast.Name:
    """``text``."""
    return ast.Name(text, ast.Load())


def const(value: Any) -> ast.Constant:
    """Return a number, a text or ``None``."""
    return ast.Constant(value)


def attribute(value: ast.expr, text: str) -> ast.expr:
    """``value.text``."""
    return ast.Attribute(value, text, ast.Load())


def item(value: ast.expr, index: int) -> ast.expr:
    """``value[index]``."""
    return ast.Subscript(value, const(index), ast.Load())


def call(function: ast.expr, *args: ast.expr, **keywords: ast.expr) -> ast.expr:
    """``function(*args, **keywords)``."""
    return ast.Call(function, list(args), [ast.keyword(k, v) for k, v in keywords.items()])


def compare(left: ast.expr, *rest: Any) -> ast.expr:
    """``left < a <= b``, given as ``compare(left, "<", a, "<=", b)``."""
    operators = [_OPERATORS[text]() for text in rest[::2]]
    return ast.Compare(left, operators, list(rest[1::2]))


def all_of(conditions: Iterable[ast.expr]) -> ast.expr:
    """Return ``a and b``; a single one is itself, none is ``True``."""
    return _joined(ast.And(), list(conditions), const(True))


def any_of(conditions: Iterable[ast.expr]) -> ast.expr:
    """Return ``a or b``; a single one is itself, none is ``False``."""
    return _joined(ast.Or(), list(conditions), const(False))


def either(value: ast.expr, other: ast.expr) -> ast.expr:
    """``value or other``."""
    return ast.BoolOp(ast.Or(), [value, other])


def _joined(operator: ast.boolop, parts: list[ast.expr], empty: ast.expr) -> ast.expr:
    if len(parts) < 2:
        return parts[0] if parts else empty
    return ast.BoolOp(operator, parts)


def negate(condition: ast.expr) -> ast.expr:
    """``not condition``."""
    return ast.UnaryOp(ast.Not(), condition)


def tuple_(parts: Iterable[ast.expr]) -> ast.expr:
    """Return ``(a, b)``."""
    return ast.Tuple(list(parts), ast.Load())


def assign(target: str, value: ast.expr) -> ast.stmt:
    """``target = value``."""
    return ast.Assign([ast.Name(target, ast.Store())], value)


def named(target: str, value: ast.expr) -> ast.expr:
    """``(target := value)``."""
    return ast.NamedExpr(ast.Name(target, ast.Store()), value)


def do(value: ast.expr) -> ast.stmt:
    """Return the statement that evaluates *value*."""
    return ast.Expr(value)


def if_(condition: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt] | None = None) -> ast.If:
    """``if condition: body``, with an ``else`` if given."""
    return ast.If(condition, body, orelse or [])


def return_(value: ast.expr) -> ast.stmt:
    """``return value``."""
    return ast.Return(value)


def define(
    function: str,
    positional: Iterable[str],
    optional: Iterable[str],
    more: tuple[str, str],
    body: list[ast.stmt],
) -> ast.FunctionDef:
    """``def function(positional=None, /, *more, optional=None, **more): body``."""
    leading, keywords = list(positional), list(optional)
    arguments = ast.arguments(
        posonlyargs=[ast.arg(text) for text in leading],
        args=[],
        vararg=ast.arg(more[0]),
        kwonlyargs=[ast.arg(text) for text in keywords],
        kw_defaults=[const(None) for _ in keywords],
        kwarg=ast.arg(more[1]),
        defaults=[const(None) for _ in leading],
    )
    return ast.FunctionDef(function, arguments, body, [])


def to_text(tree: ast.FunctionDef) -> str:
    """Print a function, for a reader."""
    return ast.unparse(ast.fix_missing_locations(tree))


def to_code(tree: ast.FunctionDef) -> CodeType:
    """Compile the definition of a function."""
    module = ast.fix_missing_locations(ast.Module([tree], type_ignores=[]))
    return compile(module, f"<kgen {tree.name}>", "exec")


def function_of(function: str, code: CodeType, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the *function* that *code* defines, with the globals *names*."""
    scope: dict[str, Any] = {**_BUILTINS, **names}
    exec(code, scope)  # noqa: S102, a tree of ours
    defined: Callable[..., Any] = scope[function]
    return defined


def lambda_of(parameters: Iterable[str], parts: Iterable[ast.expr]) -> Callable[..., Any]:
    """Return ``lambda *parameters, /: parts``, which returns a tuple.

    >>> lambda_of(["a", "b"], [call(builtin("type"), name("b")), name("a")])(1, 2.0)
    (<class 'float'>, 1)
    """
    arguments = ast.arguments(
        posonlyargs=[ast.arg(text) for text in parameters],
        args=[],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, tuple_(parts))))
    made: Callable[..., Any] = eval(compile(tree, "<kgen>", "eval"), dict(_BUILTINS))  # noqa: S307, a tree of ours
    return made


class _ToPython(PymbolicToASTMapper):
    """Write integer expressions in Python, where ``//`` and ``%`` mean what they do here."""

    def map_constant(self, expr: Any, *args: Any) -> ast.expr:
        return super().map_constant(expr.item() if isinstance(expr, np.generic) else expr)

    def map_variable(self, expr: p.Variable, *args: Any) -> ast.expr:
        return name(expr.name)  # the base class gives it no context, which compile() asks for

    def map_min(self, expr: p.Min, *args: Any) -> ast.expr:
        return call(builtin("min"), *(self.rec(child) for child in expr.children))

    def map_max(self, expr: p.Max, *args: Any) -> ast.expr:
        return call(builtin("max"), *(self.rec(child) for child in expr.children))

    def map_if(self, expr: p.If, *args: Any) -> ast.expr:
        return ast.IfExp(self.rec(expr.condition), self.rec(expr.then), self.rec(expr.else_))

    def map_comparison(self, expr: p.Comparison, *args: Any) -> ast.expr:
        operator = getattr(expr.operator, "value", expr.operator)
        return compare(self.rec(expr.left), operator, self.rec(expr.right))

    def map_logical_and(self, expr: p.LogicalAnd, *args: Any) -> ast.expr:
        return all_of(self.rec(child) for child in expr.children)

    def map_logical_or(self, expr: p.LogicalOr, *args: Any) -> ast.expr:
        return any_of(self.rec(child) for child in expr.children)

    def map_logical_not(self, expr: p.LogicalNot, *args: Any) -> ast.expr:
        return negate(self.rec(expr.child))

    def map_trunc_quotient(self, expr: TruncQuotient, *args: Any) -> ast.expr:
        return self._truncated(expr, ast.FloorDiv())

    def map_trunc_remainder(self, expr: TruncRemainder, *args: Any) -> ast.expr:
        return self._truncated(expr, ast.Mod())

    def _truncated(self, expr: TruncQuotient | TruncRemainder, operator: ast.operator) -> ast.expr:
        """Write C's division by a positive number: divide the magnitude, restore the sign."""
        above, below = self.rec(expr.numerator), self.rec(expr.denominator)
        positive = ast.BinOp(above, operator, below)
        opposite = ast.BinOp(ast.UnaryOp(ast.USub(), above), operator, below)
        negative = ast.UnaryOp(ast.USub(), opposite)
        return ast.IfExp(compare(above, ">=", const(0)), positive, negative)


_TO_PYTHON = _ToPython()


def from_expr(expr: Expr) -> ast.expr:
    """Write an integer expression as Python's."""
    written: ast.expr = _TO_PYTHON(expr)
    return written
