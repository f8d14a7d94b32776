"""Statements of Fortran source text, in free and in fixed form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kgen.errors import KgenSyntaxError

__all__ = ["Statement", "blocks_of_loopy", "refused", "statements_of"]

#: A comment with instructions for the translator, such as ``!$loopy begin tagged: init``.
_DIRECTIVE: Final = re.compile(r"\s*[!cC*]\$loopy\b(.*)", re.IGNORECASE)
_STRING: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_LABEL: Final = re.compile(r"(\d+)\s+(?=\S)")
#: In fixed form, the column of the mark of continuation lines, and the columns of statements.
_MARK, _BODY = 5, slice(6, 72)


@dataclass(frozen=True)
class Statement:
    """A statement, or the text of a directive, with the number of its first line."""

    text: str
    line: int
    is_directive: bool = False
    label: str | None = None


@dataclass(frozen=True)
class _Piece:
    """A line without its comment; ``continues`` the one before, or ``goes_on`` in the next one."""

    text: str
    line: int
    continues: bool = False
    goes_on: bool = False
    is_directive: bool = False


def refused(statement: Statement, what: str, hint: str | None = None) -> KgenSyntaxError:
    """Return the error that a statement is not in the subset that kgen reads.

    >>> print(refused(Statement("goto 10", 3), "'goto' is not supported"))
    line 3: 'goto' is not supported
      where: goto 10
    """
    where = ("!$loopy " if statement.is_directive else "") + statement.text
    return KgenSyntaxError(
        f"line {statement.line}: {what}", line=statement.line, where=where, hint=hint
    )


def statements_of(source: str, free_form: bool) -> list[Statement]:
    r"""Split source text into statements, without comments.

    >>> [s.text for s in statements_of("a = 1 + & ! one\n  & 2; b = '!'\n", free_form=True)]
    ['a = 1 + 2', "b = '!'"]
    >>> [s.text for s in statements_of("c note\n      a = 1 +\n     &    2\n", free_form=False)]
    ['a = 1 + 2']
    """
    lines = enumerate(source.splitlines(), 1)
    return list(_joined(map(_free_piece if free_form else _fixed_piece, lines)))


def _free_piece(numbered: tuple[int, str]) -> _Piece:
    number, line = numbered
    if directive := _DIRECTIVE.match(line):
        return _Piece(directive[1].strip(), number, is_directive=True)
    text = _without_comment(line).strip()
    continues, goes_on = text.startswith("&"), text.endswith("&")
    return _Piece(text.strip("&").strip(), number, continues, goes_on)


def _fixed_piece(numbered: tuple[int, str]) -> _Piece:
    number, line = numbered
    if directive := _DIRECTIVE.match(line):
        return _Piece(directive[1].strip(), number, is_directive=True)
    if line[:1] in tuple("cC*!"):
        return _Piece("", number)
    line = _without_comment(line.expandtabs(8))
    continues = line[_MARK : _MARK + 1].strip() not in ("", "0")
    label = "" if continues else line[:_MARK]
    return _Piece(f"{label.strip()} {line[_BODY]}".strip(), number, continues)


def _without_comment(line: str) -> str:
    """Cut a line at the first ``!`` that is not in a string."""
    masked = _STRING.sub(lambda found: "x" * len(found[0]), line)
    return line[: masked.find("!")] if "!" in masked else line


def _joined(pieces: Iterable[_Piece]) -> Iterator[Statement]:
    """Join continuation lines, and split lines with several statements."""
    text, start, goes_on = "", 0, False
    for piece in pieces:
        if piece.is_directive:
            yield from _split(text, start)
            yield Statement(piece.text, piece.line, is_directive=True)
            text, goes_on = "", False
        elif piece.text and text and (goes_on or piece.continues):
            text, goes_on = f"{text} {piece.text}", piece.goes_on
        elif piece.text:
            yield from _split(text, start)
            text, start, goes_on = piece.text, piece.line, piece.goes_on
    yield from _split(text, start)


def _split(text: str, line: int) -> Iterator[Statement]:
    for part in text.split(";") if ";" in _STRING.sub("", text) else [text]:
        part = part.strip()
        if part:
            label = _LABEL.match(part)
            rest = part[label.end() :] if label else part
            yield Statement(rest, line, label=label[1] if label else None)


def blocks_of_loopy(source: str) -> tuple[str, list[str]]:
    r"""Separate the blocks ``!$loopy begin`` to ``!$loopy end`` of comments from the source.

    >>> blocks_of_loopy("end\n!$loopy begin\n! x = 1\n!$loopy end\n")
    ('end\n', ['x = 1'])
    """
    rest: list[str] = []
    blocks: list[list[str]] = []
    inside = False
    for number, line in enumerate(source.splitlines(), 1):
        directive = _DIRECTIVE.match(line)
        words = directive[1].split() if directive else None
        if words in (["begin"], ["end"]):
            if inside is (words == ["begin"]):
                raise refused(Statement(words[0], number, is_directive=True), "blocks do not nest")
            inside = not inside
            blocks += [[]] if inside else []
        elif inside:
            blocks[-1].append(_uncommented(line, number))
        else:
            rest.append(line + "\n")
    if inside:
        raise KgenSyntaxError("'!$loopy begin' has no '!$loopy end'")
    return "".join(rest), ["\n".join(block) for block in blocks]


def _uncommented(line: str, number: int) -> str:
    text = line.strip()
    if text and not text.startswith("!"):
        raise refused(Statement(text, number), "lines of a '!$loopy' block begin with '!'")
    return text[2:] if text.startswith("! ") else text[1:]
