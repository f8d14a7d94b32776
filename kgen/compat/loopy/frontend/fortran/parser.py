"""Expressions of Fortran: their text as trees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from kgen.errors import KgenSyntaxError

__all__ = ["Binary", "Name", "Number", "Range", "Reference", "Tree", "Unary", "parse_list"]


@dataclass(frozen=True)
class Number:
    """A literal: its digits, ``"e"`` or ``"d"`` if it is real, and its kind, if it has one.

    ``.true.`` is the number ``1`` of the ``exponent`` ``"logical"``.
    """

    digits: str
    exponent: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Name:
    """A variable or an array."""

    name: str


@dataclass(frozen=True)
class Reference:
    """An element of an array, or a call of a function."""

    name: str
    items: tuple[Tree, ...]


@dataclass(frozen=True)
class Unary:
    """``-``, ``+`` or ``not``."""

    operator: str
    operand: Tree


@dataclass(frozen=True)
class Binary:
    """Two operands, and an operator as in Python."""

    operator: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class Range:
    """``first:last``, or ``*`` without both; in declarations, and as a section of an array."""

    first: Tree | None
    last: Tree | None


Tree: TypeAlias = Number | Name | Reference | Unary | Binary | Range

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.(?!\s*[a-z]+\s*\.)\d*|\.\d+|\d+)(?:[ed][+-]?\d+)?(?:_\w+)?)"
    r"|(?P<name>[a-z]\w*)|(?P<operator>\.[a-z]+\.|\*\*|==|/=|<=|>=|[-+*/<>(),:=]))",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"([\d.]+)(?:([ed])([+-]?\d+))?(?:_(\w+))?", re.IGNORECASE)

#: Operators of Fortran by their names in Python.
_SPELLINGS: Final = {
    ".eq.": "==",
    ".ne.": "!=",
    "/=": "!=",
    ".lt.": "<",
    ".le.": "<=",
    ".gt.": ">",
    ".ge.": ">=",
    ".and.": "and",
    ".or.": "or",
    ".not.": "not",
    ".eqv.": "==b",
    ".neqv.": "!=b",
}
#: How tightly operators bind; ``**`` binds to the right, and signs as sums do.
_LEVELS: Final = {
    **dict.fromkeys(("==b", "!=b"), 1),
    "or": 2,
    "and": 3,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 5),
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/"), 7),
    "**": 8,
}
_NOT_LEVEL: Final = 4


def parse_list(text: str) -> tuple[Tree, ...]:
    """Parse expressions separated by commas.

    >>> parse_list("a(i) .lt. b, 1d0")[0]
    Binary(operator='<', left=Reference(name='a', items=(Name(name='i'),)), right=Name(name='b'))
    """
    parser = _Parser(tuple(_tokens(text)), text)
    found = parser.items() if text.strip() else ()
    if parser.next:
        raise parser.unexpected()
    return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise KgenSyntaxError(f"{text[at:].strip()[:10]!r} in {text!r} is not understood")
        kind = found.lastgroup or ""
        value = found[kind]
        if kind == "operator":
            value = _SPELLINGS.get(value.lower(), value.lower())
        yield kind, value
        at = found.end()


class _Parser:
    """A parser by precedence, over the tokens of *text*."""

    def __init__(self, tokens: tuple[tuple[str, str], ...], text: str) -> None:
        self.tokens, self.text, self.at = tokens, text, 0

    @property
    def next(self) -> str:
        """The text of the next token, empty at the end."""
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def unexpected(self) -> KgenSyntaxError:
        """Return the error about the next token."""
        found = f"'{self.next}'" if self.next else "the end"
        return KgenSyntaxError(f"{found} is not expected in '{self.text.strip()}'")

    def take(self, value: str) -> bool:
        """Skip the next token if it is *value*."""
        found = self.next == value
        self.at += found
        return found

    def items(self) -> tuple[Tree, ...]:
        """Parse expressions separated by commas."""
        found = [self.item()]
        while self.take(","):
            found.append(self.item())
        return tuple(found)

    def item(self) -> Tree:
        """Parse an expression or a range."""
        if self.take("*"):
            return Range(None, None)
        first = None if self.next == ":" else self.expression(0)
        if not self.take(":"):
            assert first is not None
            return first
        if self.take("*"):
            return Range(first, None)
        return Range(first, None if self.next in ("", ",", ")") else self.expression(0))

    def expression(self, level: int) -> Tree:
        """Parse an expression whose operators bind tighter than *level*."""
        left = self.prefix()
        while (own := _LEVELS.get(self.next, -1)) > level:
            operator = self.next
            self.at += 1
            left = Binary(operator, left, self.expression(own - (operator == "**")))
        return left

    def prefix(self) -> Tree:
        """Parse a sign, ``.not.``, or an operand."""
        for operator in ("-", "+"):
            if self.take(operator):
                return Unary(operator, self.expression(_LEVELS["-"]))
        if self.take("not"):
            return Unary("not", self.expression(_NOT_LEVEL))
        return self.operand()

    def operand(self) -> Tree:
        """Parse a literal, a name, a reference, or an expression in brackets."""
        if self.take("("):
            found = self.expression(0)
            self.close()
            return found
        if self.next in (".true.", ".false."):
            self.at += 1
            return Number(str(int(self.tokens[self.at - 1][1] == ".true.")), "logical")
        kind, text = self.tokens[self.at] if self.next else ("", "")
        if kind not in ("number", "name"):
            raise self.unexpected()
        self.at += 1
        return _number(text) if kind == "number" else self.reference(text)

    def reference(self, name: str) -> Tree:
        """Parse what follows a name."""
        if not self.take("("):
            return Name(name)
        items = () if self.next == ")" else self.items()
        self.close()
        return Reference(name, items)

    def close(self) -> None:
        """Skip a closing bracket, which must be there."""
        if not self.take(")"):
            raise self.unexpected()


def _number(text: str) -> Number:
    found = _NUMBER.fullmatch(text)
    assert found is not None
    digits, letter, power, kind = found.groups()
    is_real = letter is not None or "." in digits
    exponent = (letter or "e").lower() if is_real else ""
    return Number(digits + (f"e{power}" if letter else ""), exponent, (kind or "").lower())
