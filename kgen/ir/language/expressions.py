"""kgen's expression language: text to pymbolic nodes.

The grammar and the precedences are Python's, extended by reductions, casts, typed literals, tagged
variables, linear subscripts and sub-array references. (``pymbolic.parser`` reads
``2*i//3`` as ``2*(i//3)`` and ``not a == b`` as ``(not a) == b``, nests a sum as deep as it is
long, and takes ten times as long.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NoReturn, cast

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.errors import KernelError, KgenError, near_names
from kgen.ir.checked import unfit
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    Reduction,
    SubArrayRef,
    TaggedVariable,
    TypeCast,
    TypedLiteral,
    as_term,
    is_constant,
    walk,
)
from kgen.ir.language.tokens import NotParsable, Token, parse_number, syntax_error, tokenize
from kgen.ir.reductions import REDUCTIONS, find_reduction_op, parse_reduction_op
from kgen.ir.tags import to_tags
from kgen.ir.types import KgenType, to_kgen_type

__all__ = [
    "CALL_FORMS",
    "ExpressionParser",
    "parse",
    "parse_expression",
    "parse_type",
    "read_expression",
]


_DTYPE = re.compile(r"(?:np:)?dtype\(\s*(['\"])(.*)\1\s*\)|(?:np\.|numpy\.|np:)?([\w.]+)")


@lru_cache(maxsize=256)
def parse_type(text: str) -> KgenType:
    """Read a numpy type name: ``float32``, ``np.float32``, ``"float32"``...

    >>> parse_type("np.float64") == parse_type("float")
    True
    """
    name = text.strip()
    if name[:1] in ("'", '"') and name[-1:] == name[:1]:
        name = name[1:-1].strip()
    match = _DTYPE.fullmatch(name)
    if match is None:
        raise KgenError(f"'{text.strip()}' does not name a data type")
    found: KgenType = to_kgen_type(match[2] or match[3])
    return found


# -- the grammar --------------------------------------------------------------------


class _Names(tuple[Expr, ...]):
    """``[i, j]`` before a colon or in a reduction."""


def negated(expr: Expr) -> Expr:
    """Return the term of a sum that subtracts *expr*, a negative number or product.

    Integers 0 keep the sign apart: ``x - 0`` is -0.0 if ``x`` is. So do negations: in ``x - (-u)``,
    ``-u`` wraps if it is unsigned.
    """
    if is_constant(expr) and not _is_integer_zero(expr):
        return -expr
    if isinstance(expr, TypedLiteral) and expr.type.kind != "u" and expr.value:
        return TypedLiteral(-expr.value, expr.type)
    if isinstance(expr, p.Product):
        first, *others = expr.children
        if isinstance(first, int | float) and first > 0:
            return p.Product((-first, *others))
    return p.Product((-1, expr))


def _opposite(expr: Expr) -> Expr:
    """Return ``-expr`` as a value of its own: of several factors, the whole product is negated."""
    if _is_integer_zero(expr):
        return expr
    if isinstance(expr, p.Product) and len(expr.children) > 2:
        return p.Product((-1, expr))
    return negated(expr)


def _is_integer_zero(expr: Expr) -> bool:
    return isinstance(expr, int) and not expr


_QUOTIENTS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "/": p.Quotient,
    "//": p.FloorDiv,
    "%": p.Remainder,
    "<<": p.LeftShift,
    ">>": p.RightShift,
}

_NARY: Final[dict[str, type[Any]]] = {
    "or": p.LogicalOr,
    "and": p.LogicalAnd,
    "|": p.BitwiseOr,
    "^": p.BitwiseXor,
    "&": p.BitwiseAnd,
}

_OR, _AND, _COMPARISON, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT = range(1, 10)

#: The precedences of operators, as in Python.
_BINDING: Final = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARISON),
    "|": _BIT_OR,
    "^": _BIT_XOR,
    "&": _BIT_AND,
    **dict.fromkeys(("<<", ">>"), _SHIFT),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT),
}

_PREFIXES: Final = frozenset(("-", "+", "~", "not", "["))
_KEYWORDS: Final = frozenset(("and", "or", "else"))
#: Forms that look like calls of functions; parsers of other languages read calls.
CALL_FORMS: Final = frozenset(("cast", "cse", "if", "reduce", "simul_reduce"))


#: Spellings of other languages, and kgen's equivalents.
_HINTS: Final = {
    "&": "'and' joins conditions; one '&' joins the bits of integers",
    "|": "'or' joins conditions; one '|' joins the bits of integers",
    "!": "a condition is negated by 'not'",
    "?": "a choice reads: a if condition else b",
    ":": "a line ends after 'if condition'; 'end' closes the block",
    "{": "a line ends after 'if condition'; 'end' closes the block",
    ";": "each instruction has a line of its own",
    "@": "a product of matrices reads: sum(k, a[i, k]*b[k, j])",
    "for": "a sum over a loop reads: sum(i, a[i]), where the domain has 'i'",
    "then": "a line ends after 'if condition'",
}


class ExpressionParser:
    """A cursor on the tokens of *text* that reads expressions.

    A caller that reads statements reads ``token`` and calls ``advance`` in between.
    """

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self._tokens = tokenize(text, start)
        self._next = 0
        self.token = self._tokens[0]

    # -- stepping -----------------------------------------------------------------------

    def advance(self) -> Token:
        """Step over the current token and return it."""
        token = self.token
        self._next += 1
        self.token = self._tokens[self._next]
        return token

    def take(self, text: str) -> bool:
        """Step over *text* if it comes next, and tell whether it did."""
        if self.token.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str) -> Token:
        """Step over *text*, or raise an error."""
        if self.token.text != text:
            self.reject(f"expected '{text}'")
        return self.advance()

    def reject(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise an error: the current token is not the expected *what*."""
        token = self.token
        if token.kind == "string":
            found, hint = token.text, hint or "expressions cannot contain text"
        else:
            found = "the end" if token.kind == "end" else f"'{token.text}'"
        raise NotParsable(f"{what}, found {found}", token.at, hint or _HINTS.get(token.text))

    def expect_end(self) -> None:
        """Reject remaining tokens."""
        if self.token.kind != "end":
            self.reject("expected an operator or the end")

    # -- expressions --------------------------------------------------------------------

    def expression_list(self) -> Expr:
        """Read expressions separated by commas: one as itself, several as a tuple."""
        first = self.expression()
        if self.token.text != ",":
            return first
        parts = [first]
        while self.take(","):
            if self.token.text in (")", "]", "=") or self.token.kind == "end":
                break
            parts.append(self.expression())
        return tuple(parts)

    def expression(self) -> Expr:
        """Read one expression, ``a if condition else b`` included."""
        left = self._operators(_OR)
        if self.token.text != "if" or self.token.kind != "name":
            return left
        self.advance()
        condition = self._operators(_OR)
        self.expect("else")
        return p.If(condition, left, self.expression())

    def _operators(self, least: int) -> Expr:
        """Read operands joined by operators that bind at least as tightly as *least*."""
        at = self.token.at
        left = self.operand()
        if isinstance(left, tuple) and (least > _OR or self.token.text in _BINDING):
            self._reject_values(left, at)
        while (binding := _BINDING.get(self.token.text, 0)) >= least:
            if binding == _SUM:
                left = self._sum(left)
            elif binding == _PRODUCT:
                left = self._product(left)
            elif binding == _COMPARISON:
                left = self._comparison(left)
            elif binding == _SHIFT:
                left = _QUOTIENTS[self.advance().text](left, self._operators(_SUM))
            else:
                sign = self.token.text
                parts = [left]
                while self.take(sign):
                    parts.append(self._operators(binding + 1))
                left = _NARY[sign](tuple(parts))
        return left

    def _sum(self, first: Expr) -> Expr:
        terms = [first]
        while (sign := self.token.text) == "+" or sign == "-":
            self.advance()
            term = self._operators(_PRODUCT)
            terms.append(as_term(term) if sign == "+" else negated(term))
        return p.Sum(tuple(terms))

    def _product(self, left: Expr) -> Expr:
        while _BINDING.get(sign := self.token.text, 0) == _PRODUCT:
            if sign == "*":
                factors = [left]
                while self.take("*"):
                    factors.append(self._value())
                left = p.Product(tuple(factors))
            else:
                self.advance()
                left = _QUOTIENTS[sign](left, self._value())
        return left

    def _value(self) -> Expr:
        """Read an operand that is a single value."""
        at = self.token.at
        value = self.operand()
        if isinstance(value, tuple):
            self._reject_values(value, at)
        return value

    def _reject_values(self, values: tuple[Expr, ...], at: int) -> NoReturn:
        count = f"{len(values)} values" if len(values) != 1 else "a list of values"
        raise NotParsable(
            f"an operator takes one value on each side, not {count}",
            at,
            "write an expression for each value",
        )

    def _comparison(self, left: Expr) -> Expr:
        """Read a comparison; ``a < b < c`` means ``a < b and b < c``."""
        parts = []
        while _BINDING.get(self.token.text, 0) == _COMPARISON:
            sign = self.advance().text
            right = self._operators(_COMPARISON + 1)
            parts.append(p.Comparison(left, sign, right))
            left = right
        return parts[0] if len(parts) == 1 else p.LogicalAnd(tuple(parts))

    def operand(self) -> Expr:
        """Read one operand with its signs, power and postfixes."""
        kind, text, at = self.token
        if kind == "number":
            base = parse_number(self.advance())
        elif text in _PREFIXES:
            return self._prefixed()
        elif kind == "name" and text not in _KEYWORDS:
            self.advance()
            base = self._name(text, at)
        elif text == "(":
            self.advance()
            base = () if self.token.text == ")" else self.expression_list()
            self.expect(")")
        else:
            self.reject("expected an expression")
        following = self.token.text
        if following in ("(", "[", "."):
            base = self._postfixes(base)
            following = self.token.text
        if following == "**":
            if isinstance(base, tuple):
                self._reject_values(base, at)
            self.advance()
            return p.Power(base, self._value())
        return base

    def _prefixed(self) -> Expr:
        if self.token.text == "[":
            return self._bracketed()
        sign = self.advance().text
        if sign == "not":
            return p.LogicalNot(self._operators(_COMPARISON))
        operand = self._value()
        if sign == "-":
            return _opposite(operand)
        return p.BitwiseNot(operand) if sign == "~" else operand

    def _name(self, text: str, at: int) -> Expr:
        if "$" in text:
            name, *tags = text.split("$")
            return TaggedVariable(name, to_tags(tags))
        if text in ("True", "False"):
            return text == "True"
        if self.token.text == "(":
            if text == "if":
                return self._if_call(at)
            if text == "cast":
                return self._cast()
            if text == "cse":
                return self._common_subexpression(at)
            if text in ("reduce", "simul_reduce"):
                return self._named_reduction(at, text == "simul_reduce")
            if text in REDUCTIONS or find_reduction_op(text) is not None:
                return self._reduction_or_call(text, at)
        return p.Variable(text)

    def _postfixes(self, base: Expr) -> Expr:
        while True:
            _, text, at = self.token
            if text == "(":
                args, keywords = self._arguments()
                if keywords:
                    base = p.CallWithKwargs(base, args, constantdict(keywords))
                else:
                    base = p.Call(base, args)
            elif text == "[":
                if isinstance(base, p.Subscript | LinearSubscript):
                    raise NotParsable(
                        "an element of an array has no subscripts", at, "write a[i, j] for a[i][j]"
                    )
                self.advance()
                if self.token.text == "[" and self.token.at == at + 1:
                    self.advance()
                    base = LinearSubscript(base, self.expression())
                    self.expect("]")
                else:
                    base = p.Subscript(base, self._index())
                self.expect("]")
            elif text == ".":
                self.advance()
                if self.token.kind != "name":
                    self.reject("expected a name after '.'")
                base = p.Lookup(base, self.advance().text)
            else:
                return base

    def _index(self) -> Expr:
        parts = [self._index_of_axis()]
        while self.take(","):
            if self.token.text == "]":
                break
            parts.append(self._index_of_axis())
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _index_of_axis(self) -> Expr:
        """Read an index, or a slice ``start:stop:step``, any part of which may be missing."""
        parts: list[Expr | None] = [None if self.token.text == ":" else self.expression()]
        while len(parts) < 3 and self.take(":"):
            parts.append(None if self.token.text in (":", ",", "]") else self.expression())
        return parts[0] if len(parts) == 1 else p.Slice(cast("Any", tuple(parts)))

    def _arguments(self) -> tuple[tuple[Expr, ...], dict[str, Expr]]:
        self.expect("(")
        args: list[Expr] = []
        keywords: dict[str, Expr] = {}
        while self.token.text != ")":
            if self.token.kind == "name" and self._tokens[self._next + 1].text == "=":
                name = self.advance().text
                self.advance()
                keywords[name] = self.expression()
            elif keywords:
                self.reject("expected a keyword argument")
            else:
                args.append(self.expression())
            if not self.take(","):
                break
        self.expect(")")
        return tuple(args), keywords

    def _bracketed(self) -> Expr:
        """Read ``[i, j]``, and ``[i, j]: a[i, j]`` or, one element, ``[]: a[0]``."""
        at = self.expect("[").at
        parts: list[Expr] = []
        while self.token.text != "]":
            parts.append(self.expression())
            if not self.take(","):
                break
        self.expect("]")
        if not self.take(":"):
            return _Names(parts)
        if not all(isinstance(part, p.Variable) for part in parts):
            raise NotParsable("the swept loop variables of a sub-array reference are names", at)
        place = self.token.at
        array = self.operand()
        if not isinstance(array, p.Subscript):
            raise NotParsable(
                "a sub-array reference ends in an array element",
                place,
                "write it as [i, j]: a[i, j]",
            )
        return SubArrayRef(tuple(parts), array)

    # -- calls with a meaning of their own ----------------------------------------------

    def _if_call(self, at: int) -> Expr:
        args, _ = self._arguments()
        if len(args) != 3:
            raise NotParsable("'if' takes a condition and two values", at, "write if(c, a, b)")
        return p.If(*args)

    def _common_subexpression(self, at: int) -> Expr:
        args, _ = self._arguments()
        prefix = args[1].name if len(args) == 2 and isinstance(args[1], p.Variable) else None
        if len(args) != 1 + (prefix is not None):
            raise NotParsable("'cse' takes an expression, and a name", at, "write cse(a[i] + 1, t)")
        return p.CommonSubexpression(args[0], prefix, p.cse_scope.EVALUATION)

    def _cast(self) -> Expr:
        self.expect("(")
        at, depth = self.token.at, 0
        while (text := self.token.text) != "," or depth:
            if self.token.kind == "end":
                self.reject("expected a type and a value", "write cast(np.float32, x)")
            depth += (text in ("(", "[")) - (text in (")", "]"))
            self.advance()
        try:
            kind = parse_type(self.text[at : self.token.at])
        except KgenError as err:
            raise NotParsable(str(err), at) from None
        self.expect(",")
        child = self.expression()
        self.expect(")")
        return TypeCast(kind, child)

    def _named_reduction(self, at: int, simultaneous: bool) -> Expr:
        """``reduce(op, inames, expr)``."""
        hint = "write reduce(sum, [i, j], a[i, j])"
        self.expect("(")
        operation = self.token
        name = self._operation(hint)
        if find_reduction_op(name) is None:
            raise NotParsable(
                f"'{name}' is not a reduction operation", operation.at, near_names(name, REDUCTIONS)
            )
        args: list[Expr] = []
        while self.take(","):
            args.append(self.expression())
        self.expect(")")
        if not args:
            raise NotParsable(f"the reduction '{name}' lacks its loop variables", at, hint)
        return _reduction(name, args[0], args[1:], simultaneous, at)

    def _operation(self, hint: str) -> str:
        """``sum``, ``segmented(sum)``, or either one quoted."""
        if self.token.kind not in ("name", "string"):
            self.reject("expected the name of a reduction operation", hint)
        name = self.advance().text.strip("'\"")
        if not self.take("("):
            return name
        inner = self._operation(hint)
        self.expect(")")
        return f"{name}({inner})"

    def _reduction_or_call(self, name: str, at: int) -> Expr:
        """``op(inames, expr)``; ``max(a, b)`` remains a call that resolve_reductions may turn."""
        args, keywords = self._arguments()
        if keywords:
            raise NotParsable(f"the reduction '{name}' takes no keyword arguments", at)
        if name in ("min", "max") and not (args and isinstance(args[0], tuple)):
            return p.Call(p.Variable(name), args)
        if not args:
            raise NotParsable(
                f"the reduction '{name}' lacks its loop variables", at, f"write {name}(i, a[i])"
            )
        return _reduction(name, args[0], args[1:], False, at)


def _reduction(
    name: str, inames: Expr, operands: Iterable[Expr], simultaneous: bool, at: int
) -> Reduction:
    names = tuple(inames) if isinstance(inames, tuple) else (inames,)
    if not all(type(n) is p.Variable for n in names):
        raise NotParsable(
            f"the first operand of the reduction '{name}' is not the name of a loop variable",
            at,
            f"write {name}(i, a[i]), or {name}((i, j), a[i, j]), to say which loops it runs over",
        )
    parts = tuple(operands)
    operation = parse_reduction_op(name)
    count = operation.arg_count
    if len(parts) == 1 and isinstance(parts[0], tuple):
        parts = parts[0]
    is_whole = len(parts) == 1 and isinstance(parts[0], Reduction)
    if len(parts) != count and not (is_whole and parts[0].operation.arg_count == count):
        raise NotParsable(
            f"the reduction '{name}' takes {count} operand{'s' if count > 1 else ''} after its "
            f"loop variables, not {len(parts)}",
            at,
            f"several loop variables go into parentheses: {name}((i, j), ...)",
        )
    return Reduction(
        operation,
        tuple(n.name for n in names),
        parts if count > 1 else parts[0],
        simultaneous,
    )


def parse_expression(text: str) -> Expr:
    """Read an expression as :func:`parse` does, but raise :class:`NotParsable`."""
    parser = ExpressionParser(text)
    result = parser.expression_list()
    parser.expect_end()
    return tuple(result) if isinstance(result, _Names) else result


def read_expression(given: Any, what: str) -> Expr:
    """Return the expression that a caller passes for *what*: text, a number or an expression.

    >>> read_expression("n + 1", "offset"), read_expression(3, "offset")
    (Sum((Variable('n'), 1)), 3)
    >>> read_expression(None, "offset")
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: the offset is text, a number or an expression, not None
    """
    if isinstance(given, str):
        return parse(given)
    if isinstance(given, p.ExpressionNode) or is_constant(given):
        check_operands(given, what)
        return given
    raise unfit(what, "text, a number or an expression", given)


def check_operands(expr: Expr, what: str) -> None:
    """Reject an expression that contains objects other than expressions.

    >>> check_operands(p.Sum((p.Variable("i"), "j")), "instruction 'insn'")
    Traceback (most recent call last):
        ...
    kgen.errors.KernelError: 'j' in instruction 'insn' is not an expression
      hint: names are pymbolic.primitives.Variable('i'), and kgen.symbolic.parse('i + 1') reads text
    """
    n_open = 0  # ends that slices leave out
    for node in walk(expr):
        if isinstance(node, p.Subscript) and is_constant(node.aggregate):
            raise KernelError(
                f"{node.aggregate!r} in {what} has subscripts, and is no array",
                hint="an element is pymbolic.primitives.Variable('a')[i]",
            )
        if isinstance(node, p.Slice):
            n_open += node.children.count(None)
        elif node is None and n_open:
            n_open -= 1
        elif not (isinstance(node, p.ExpressionNode) or is_constant(node)):
            raise KernelError(
                f"{node!r} in {what} is not an expression",
                hint="names are pymbolic.primitives.Variable('i'), and "
                "kgen.symbolic.parse('i + 1') reads text",
            )


@lru_cache(maxsize=4096)
def parse(expr_str: str) -> Expr:
    """Read an expression; several, separated by commas, as a tuple.

    >>> parse("2*i//3 + 1")
    Sum((FloorDiv(Product((2, Variable('i'))), 3), 1))

    Raises :class:`KgenSyntaxError` with line, column and a caret.
    """
    try:
        return parse_expression(expr_str)
    except NotParsable as err:
        raise syntax_error(expr_str, err) from None
