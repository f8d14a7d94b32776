"""One statement of the instruction language: an instruction, a rule, or a block delimiter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

import pymbolic.primitives as p

from kgen.errors import KernelError, KgenError
from kgen.ir.assignee import assignee_name
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, Reduction, as_term
from kgen.ir.language.expressions import ExpressionParser, negated, parse_type
from kgen.ir.language.options import parse_options
from kgen.ir.language.tokens import NotParsable
from kgen.ir.types import auto

__all__ = [
    "AssignStatement",
    "CloseBlock",
    "MarkStatement",
    "OpenBlock",
    "RuleStatement",
    "Statement",
    "parse_statement",
]


@dataclass(frozen=True)
class AssignStatement:
    """``assignees = expression {options}``; no assignees for a call by itself."""

    assignees: tuple[Expr, ...]
    temp_var_types: tuple[Any, ...]
    expression: Expr
    options: Mapping[str, Any]


@dataclass(frozen=True)
class MarkStatement:
    """``... word {options}``, the word one of gbarrier, lbarrier, nop."""

    word: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class RuleStatement:
    """``name(arguments) := expression``."""

    rule: SubstitutionRule


@dataclass(frozen=True)
class OpenBlock:
    """``for``, ``if``, ``elif``, ``else`` or ``with``."""

    word: str
    inames: tuple[str, ...] = ()
    condition: Expr = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CloseBlock:
    """``end``, or ``end i``."""

    inames: tuple[str, ...] = ()


Statement: TypeAlias = AssignStatement | MarkStatement | RuleStatement | OpenBlock | CloseBlock

_BLOCK_WORD = re.compile(r"(for|if|elif|else|end|with)\b(?!\s*(?:[-+*/:]?=(?!=)|\[))")
_NAMES = re.compile(r"\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*")
_MARK = re.compile(r"\.\.\.\s*(\w*)\s*")
_RULE = re.compile(r"([A-Za-z_]\w*)\s*(\(([^()]*)\))?\s*:=")
_LABEL = re.compile(r"\w+\s*:(?!=)")
_MARKS: Final = ("gbarrier", "lbarrier", "nop")


@lru_cache(maxsize=8192)
def parse_statement(text: str) -> Statement:
    """Read one statement; raises :class:`NotParsable` with the offset in *text*."""
    if block := _BLOCK_WORD.match(text):
        return _block(text, block[1], block.end())
    if text.startswith("..."):
        return _mark(text)
    if rule := _RULE.match(text):
        return _rule(text, rule)
    return _assignment(text)


def _block(text: str, word: str, at: int) -> Statement:
    if word in ("if", "elif"):
        parser = ExpressionParser(text, at)
        condition = parser.expression()
        parser.expect_end()
        return OpenBlock(word, condition=condition)
    if word == "with":
        start = text.find("{", at)
        if start < 0 or text[at:start].strip() or not text.endswith("}"):
            raise NotParsable("expected options after 'with'", at, "write with {dep=..., tags=...}")
        return OpenBlock(word, options=parse_options(text, start + 1, len(text) - 1))
    names = _NAMES.fullmatch(text, at)
    inames = tuple(name.strip() for name in names[1].split(",")) if names else ()
    if not names and (text[at:].strip() or word == "for"):
        _reject_head(text, word, at)
    if word == "end":
        return CloseBlock(inames)
    if word == "else" and inames:
        raise NotParsable("expected nothing after 'else'", at, "write elif condition")
    return OpenBlock(word, inames)


def _reject_head(text: str, word: str, at: int) -> NoReturn:
    """Reject invalid text after 'for', 'else' or 'end', at the first token that is not a name."""
    start = _NAMES.match(text, at) if word == "for" else None
    wrong = start.end() if start else at
    rest = text[wrong:].lstrip()
    expected = {"for": "names", "else": "nothing"}.get(word, "nothing or names")
    hint = f"a line ends after '{word}'"
    if word == "for" and rest in (":", "{", "do") and start:
        hint = f"write for {start[1]}, and 'end' on a line after the last instruction of the loop"
    elif word == "for":
        hint = "write for i, j, with the values of i and j in the domain: { [i, j]: 0<=i,j<n }"
    elif rest.startswith("//"):
        hint = "comments begin with '#'"
    elif word == "else" and rest.startswith("if"):
        hint = "write elif condition"
    raise NotParsable(f"expected {expected} after '{word}', found {rest!r}", wrong, hint)


def _options(text: str) -> tuple[int, dict[str, Any]]:
    """Return the position of a statement's options, and the parsed options."""
    if not text.endswith("}"):
        return len(text), {}
    start = text.rfind("{")
    if start < 0:
        raise NotParsable("'}' closes nothing", len(text) - 1)
    return start, parse_options(text, start + 1, len(text) - 1)


def _mark(text: str) -> Statement:
    match = _MARK.match(text)
    word = match[1] if match else ""
    end, options = _options(text)
    if match is None or word not in _MARKS or match.end() < end:
        raise NotParsable("'...' is followed by gbarrier, lbarrier or nop", 0)
    if "mem_kind" in options and word == "nop":
        raise NotParsable("mem_kind is an option of barriers", end)
    if "atomicity" in options:
        raise NotParsable("atomic is an option of assignments", end)
    return MarkStatement(word, options)


def _rule(text: str, match: re.Match[str]) -> Statement:
    arguments = [name.strip() for name in (match[3] or "").split(",") if name.strip()]
    for name in arguments:
        if not name.isidentifier():
            raise NotParsable(f"'{name}' is not a name for an argument of a rule", match.start(3))
    parser = ExpressionParser(text, match.end())
    expression = parser.expression()
    parser.expect_end()
    return RuleStatement(SubstitutionRule(match[1], tuple(arguments), expression))


def _assignment(text: str) -> Statement:
    end, options = _options(text)
    if "mem_kind" in options:
        raise NotParsable("mem_kind is an option of barriers", end)
    parser = ExpressionParser(text if end == len(text) else text[:end])
    places: list[tuple[int, Any, Expr]] = []
    while True:
        kind = _declared_type(parser) if parser.token.text == "<" else None
        places.append((parser.token.at, kind, parser.operand()))
        if not parser.take(","):
            break
    sign = parser.token.text
    if parser.token.kind == "end" and len(places) == 1 and isinstance(places[0][2], p.Call):
        return AssignStatement((), (), places[0][2], options)
    if sign not in _INCREMENTS and sign != "=":
        _reject_sign(parser, text)
    for at, _, lhs in places:
        _check_assignee(lhs, at)
    parser.advance()
    at = parser.token.at
    expression = parser.expression_list()
    parser.expect_end()
    _, kind, first = places[0]
    if sign in _INCREMENTS:
        if len(places) > 1 or kind is not None:
            raise NotParsable(f"'{sign}' updates one existing variable", 0)
        expression = _INCREMENTS[sign](first, expression)
    is_call = isinstance(expression, p.Call | p.CallWithKwargs | Reduction)
    if isinstance(expression, tuple) or (len(places) > 1 and not is_call):
        raise NotParsable(
            f"{len(places)} variables are assigned, which only a call or a reduction can do"
            if len(places) > 1
            else "several values are assigned to one variable",
            at,
            "write an instruction for each",
        )
    return AssignStatement(
        tuple(lhs for _, _, lhs in places),
        tuple(kind for _, kind, _ in places),
        expression,
        options,
    )


_INCREMENTS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "+=": lambda a, b: p.Sum((a, as_term(b))),
    "-=": lambda a, b: p.Sum((a, negated(b))),
    "*=": lambda a, b: p.Product((a, b)),
    "/=": p.Quotient,
}


def _reject_sign(parser: ExpressionParser, text: str) -> None:
    hint = "an instruction is an assignment, a call, a rule, '... nop', for, if, with or end"
    word = text.split(maxsplit=1)[0]
    if _LABEL.match(text):
        hint = "the id of an instruction follows it: {id=...}"
    elif word in _OTHER_WORDS:
        hint = f"write {_OTHER_WORDS[word]}"
    elif text.startswith("<") and parser.token.kind == "end":
        hint = "a temporary is declared where it gets a value, or by a TemporaryVariable"
    elif parser.token.text == ":=":
        hint = "':=' defines a substitution rule, which has no type"
    elif parser.token.kind == "name" and _TYPE.fullmatch(word):
        hint = "a temporary is declared as <> name = ... or <float32> name = ..."
    elif parser.token.text == "==":
        hint = "an assignment has one '='"
    elif parser.token.text in ("+", "-"):
        hint = f"an update reads: a[i] {parser.token.text}= 1"
    parser.reject("expected '='", hint)


#: The names of blocks in other languages.
_OTHER_WORDS: Final = {"elseif": "elif", "elsif": "elif", "endif": "end", "endfor": "end"}


#: Words that declare variables elsewhere, most of which are types here.
_TYPE = re.compile(r"(u?int|float|complex)\d*|bool|char|double|long|short|unsigned")


def _declared_type(parser: ExpressionParser) -> Any:
    """Read ``<>`` or ``<float32>`` and return ``auto`` or the type."""
    start = parser.advance().at + 1
    while parser.token.text != ">":
        if parser.token.kind == "end":
            parser.reject("expected '>'", "a temporary is declared as <> name or <float32> name")
        parser.advance()
    name = parser.text[start : parser.advance().at].strip()
    if not name:
        return auto
    try:
        return parse_type(name)
    except KgenError as err:
        raise NotParsable(str(err), start, "write <> to have the type inferred") from None


def _check_assignee(lhs: Expr, at: int) -> None:
    try:
        assignee_name(lhs)
    except KernelError as err:
        what, _, hint = str(err).partition("\n  hint: ")
        raise NotParsable(what, at, hint) from None
