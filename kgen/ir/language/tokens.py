"""Tokens of kgen's text languages, and errors that show the position in the text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from kgen.errors import KgenSyntaxError
from kgen.ir.expr import Expr, TypedLiteral
from kgen.ir.types import NumpyType, to_kgen_type

__all__ = ["NotParsable", "Token", "parse_number", "syntax_error", "tokenize"]


class NotParsable(Exception):
    """A syntax error at an offset of a text; callers add the line."""

    def __init__(self, what: str, at: int, hint: str | None = None) -> None:
        super().__init__(what, at, hint)
        self.what, self.at, self.hint = what, at, hint


def syntax_error(source: str, error: NotParsable, offset: int = 0) -> KgenSyntaxError:
    """Lay out *error* with its line and column in *source*, and a caret below the place.

    *offset* is the position in *source* of the text with the error.
    """
    at = min(error.at + offset, len(source))
    line = source.count("\n", 0, at) + 1
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    shown = source[start : end if end >= 0 else len(source)].rstrip()
    column = at - start + 1
    margin = len(shown) - len(shown.lstrip())
    rows = [
        f"line {line}, column {column}: {error.what}",
        "    " + shown[margin:],
        "    " + " " * max(column - 1 - margin, 0) + "^",
    ]
    if error.hint:
        rows.append(f"  hint: {error.hint}")
    return KgenSyntaxError("\n".join(rows), line=line, column=column)


class Token(NamedTuple):
    """A piece of text: its kind (name, number, string, op, end), itself, and its offset."""

    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r"""
    (?P<skip> (?: [ \t\r\n] | \\[ \t]*\r?\n | \#[^\n]* )+ )
  | (?P<name> [A-Za-z_]\w* (?: \$\w+ )* )
  | (?P<number> 0[xX][0-9a-fA-F]+ [uUlL]*
      | (?: \d+\.\d* | \.\d+ ) (?: [eE][+-]?\d+ )? [A-Za-z]*
      | \d+ [eE][+-]?\d+ [A-Za-z]*
      | \d+ [A-Za-z]* )
  | (?P<string> "[^"\n]*" | '[^'\n]*' )
  | (?P<op> \*\* | // | << | >> | <= | >= | == | != | := | [-+*/]= | . )
    """,
    re.VERBOSE | re.ASCII,
)


def tokenize(text: str, start: int) -> list[Token]:
    """Split *text* from *start* on into tokens; the last one has the kind ``end``."""
    tokens = [
        Token(kind, match[0], match.start())
        for match in _TOKEN.finditer(text, start)
        if (kind := match.lastgroup) != "skip" and kind is not None
    ]
    tokens.append(Token("end", "", len(text)))
    return tokens


_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|[\d.]+(?:[eE][+-]?\d+)?)([A-Za-z]*)")

#: C's suffixes, and ``d`` for double; with ``j`` for imaginary ones.
_SUFFIXES: Final = {
    "f": "float32",
    "d": "float64",
    "jf": "complex64",
    "jd": "complex128",
    "u": "uint32",
    "l": "int64",
    "ul": "uint64",
    "lu": "uint64",
}


def _typed_integer(token: Token, value: int, dtype: NumpyType) -> TypedLiteral:
    if value > np.iinfo(dtype.dtype).max:
        raise NotParsable(f"'{token.text}' is too large for {dtype.dtype}", token.at)
    return TypedLiteral(value, dtype)


def parse_number(token: Token) -> Expr:
    """Return the value of a number: typed when it has a suffix, else a Python number."""
    match = _LITERAL.fullmatch(token.text)
    assert match is not None
    digits, suffix = match[1], match[2].lower()
    is_hexadecimal = digits[1:2] in ("x", "X")
    is_integer = is_hexadecimal or digits.isdigit()
    if not suffix:
        return int(digits, 16 if is_hexadecimal else 10) if is_integer else float(digits)
    if suffix == "j":
        return complex(0, float(digits))
    name = _SUFFIXES.get(suffix, "")
    if not name or (name.endswith(("32", "64")) and "int" in name and not is_integer):
        raise NotParsable(
            f"'{token.text}' is not a number",
            token.at,
            "literals may end in f, d, j, jf or jd, and integers in u, l or ul",
        )
    if "int" in name:
        number = int(digits, 16 if is_hexadecimal else 10)
        return _typed_integer(token, number, to_kgen_type(name))
    value = complex(0, float(digits)) if "j" in suffix else float(digits)
    return TypedLiteral(np.dtype(name).type(value).item(), to_kgen_type(name))
