"""The match language: selecting instructions, and uses of rules.

``id:load* and (writes:a or not tag:slow)`` as text, or the same from the classes here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from pytools.tag import Tag

from kgen.errors import KgenError
from kgen.ir.language.tokens import NotParsable, syntax_error

if TYPE_CHECKING:
    from kgen.ir.instruction import InstructionBase
    from kgen.ir.kernel import LoopKernel

__all__ = [
    "All",
    "And",
    "ConcreteMatchable",
    "ConcreteStackMatch",
    "GlobMatchExpressionBase",
    "Id",
    "InKernel",
    "Iname",
    "Match",
    "MatchExpressionBase",
    "Not",
    "ObjTagged",
    "Or",
    "Reads",
    "StackMatch",
    "Tagged",
    "Writes",
    "parse_match",
    "parse_stack_match",
    "read_match",
]

#: Tells whether a pattern selects an instruction of a kernel, or a use of a rule.
Match: TypeAlias = "Callable[[LoopKernel, Any], bool]"

#: Tells the same of an expression in an instruction, inside a stack of rules.
StackMatch: TypeAlias = "Callable[[LoopKernel, InstructionBase, Sequence[ConcreteMatchable]], bool]"


@dataclass(frozen=True)
class ConcreteMatchable:
    """A use of a substitution rule: the rule's name and the tags of the use."""

    id: str
    tags: frozenset[Tag] = frozenset()


# -- expressions --------------------------------------------------------------------


class MatchExpressionBase:
    """A condition on instructions; ``&``, ``|`` and ``~`` combine conditions."""

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        """Tell whether the pattern selects *matchable* of *kernel*."""
        raise NotImplementedError

    def __and__(self, other: MatchExpressionBase) -> And:
        return And((self, other))

    def __or__(self, other: MatchExpressionBase) -> Or:
        return Or((self, other))

    def __invert__(self) -> Not:
        return Not(self)


@dataclass(frozen=True)
class All(MatchExpressionBase):
    """``all``, ``*`` or ``...``: everything."""

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        return True

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True)
class _Several(MatchExpressionBase):
    children: Sequence[MatchExpressionBase]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))

    def _joined(self, word: str) -> str:
        return f"({f' {word} '.join(map(str, self.children))})"


class And(_Several):
    """All conditions hold."""

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        return all(child(kernel, matchable) for child in self.children)

    def __str__(self) -> str:
        return self._joined("and")


class Or(_Several):
    """A condition holds."""

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        return any(child(kernel, matchable) for child in self.children)

    def __str__(self) -> str:
        return self._joined("or")


@dataclass(frozen=True)
class Not(MatchExpressionBase):
    """The condition does not hold."""

    child: MatchExpressionBase

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        return not self.child(kernel, matchable)

    def __str__(self) -> str:
        return f"(not {self.child})"


@lru_cache(maxsize=1024)
def _compiled(glob: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(glob)).match


@dataclass(frozen=True)
class GlobMatchExpressionBase(MatchExpressionBase):
    """A name matches *glob*, in which ``*`` matches any text and ``?`` one character."""

    glob: str

    def __post_init__(self) -> None:
        if not isinstance(self.glob, str):
            raise KgenError(
                f"the pattern of {type(self).__name__} is text, not {self.glob!r}\n"
                "  hint: Id('load*'), Tagged('slow'); ObjTagged takes a tag itself"
            )

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        fits = _compiled(self.glob)
        return any(fits(name) is not None for name in self.names(kernel, matchable))

    def names(self, kernel: LoopKernel, matchable: Any) -> Sequence[str] | frozenset[str]:
        """Return the names of which at least one must match."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{_WORD_OF[type(self)]}:{self.glob}"


class Id(GlobMatchExpressionBase):
    """``id:GLOB``: the id of an instruction, or the name of a rule."""

    def names(self, kernel: LoopKernel, matchable: Any) -> Sequence[str]:
        return (str(matchable.id),)


class Writes(GlobMatchExpressionBase):
    """``writes:GLOB``: a variable that an instruction writes."""

    def names(self, kernel: LoopKernel, matchable: Any) -> Sequence[str]:
        return () if isinstance(matchable, ConcreteMatchable) else matchable.assignee_var_names()


class Reads(GlobMatchExpressionBase):
    """``reads:GLOB``: a variable that an instruction reads."""

    def names(self, kernel: LoopKernel, matchable: Any) -> frozenset[str]:
        if isinstance(matchable, ConcreteMatchable):
            return frozenset()
        found: frozenset[str] = matchable.read_dependency_names()
        return found


class Iname(GlobMatchExpressionBase):
    """``iname:GLOB``: a loop around an instruction."""

    def names(self, kernel: LoopKernel, matchable: Any) -> frozenset[str]:
        if isinstance(matchable, ConcreteMatchable):
            return frozenset()
        found: frozenset[str] = matchable.within_inames
        return found


class InKernel(GlobMatchExpressionBase):
    """``in_kernel:GLOB``: the name of the kernel."""

    def names(self, kernel: LoopKernel, matchable: Any) -> Sequence[str]:
        return (kernel.name,)


class Tagged(GlobMatchExpressionBase):
    """``tag:GLOB``: the text of a tag."""

    def names(self, kernel: LoopKernel, matchable: Any) -> Sequence[str]:
        return [str(tag) for tag in matchable.tags]


@dataclass(frozen=True)
class ObjTagged(MatchExpressionBase):
    """The tag itself is among the tags."""

    tag: Tag

    def __call__(self, kernel: LoopKernel, matchable: Any) -> bool:
        return self.tag in matchable.tags


_TERMS: Final[dict[str, type[GlobMatchExpressionBase]]] = {
    "id": Id,
    "writes": Writes,
    "reads": Reads,
    "iname": Iname,
    "tag": Tagged,
    "in_kernel": InKernel,
}
_WORD_OF: Final = {kind: word for word, kind in _TERMS.items()}


# -- reading ------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(?P<term>\w+):(?P<glob>[\w.*?$@!\[\]-]+)"
    r"|(?P<all>\.\.\.|\*|all\b)|(?P<word>and|or|not)\b|(?P<sign>[()>$])|(?P<bad>\S))"
)

_HINT = "write, for example, id:load* and (writes:a or not tag:slow)"


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = [m for m in _TOKEN.finditer(text) if m[0].strip()]
        self.end = len(text)
        self.next = 0

    def peek(self) -> re.Match[str] | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def take(self, text: str) -> bool:
        token = self.peek()
        if token is not None and token[0].strip() == text:
            self.next += 1
            return True
        return False

    def reject(self, what: str) -> NoReturn:
        token = self.peek()
        if token is None:
            raise NotParsable(f"{what}, found the end", self.end, _HINT)
        at = token.end() - len(token[0].lstrip())
        raise NotParsable(f"{what}, found '{token[0].strip()}'", at, _HINT)

    def any_of(self) -> MatchExpressionBase:
        children = [self.all_of()]
        while self.take("or"):
            children.append(self.all_of())
        return children[0] if len(children) == 1 else Or(children)

    def all_of(self) -> MatchExpressionBase:
        children = [self.one()]
        while self.take("and"):
            children.append(self.one())
        return children[0] if len(children) == 1 else And(children)

    def one(self) -> MatchExpressionBase:
        if self.take("not"):
            return Not(self.one())
        if self.take("("):
            inner = self.any_of()
            if not self.take(")"):
                self.reject("expected ')'")
            return inner
        token = self.peek()
        if token is not None and token["all"]:
            self.next += 1
            return All()
        if token is None or token["term"] not in _TERMS:
            self.reject(f"expected one of {', '.join(f'{word}:' for word in _TERMS)}")
        self.next += 1
        return _TERMS[token["term"]](token["glob"])


@lru_cache(maxsize=1024)
def read_match(text: str) -> MatchExpressionBase:
    """Read a match expression as :func:`parse_match` does, but raise :class:`NotParsable`."""
    reader = _Reader(text)
    if reader.peek() is None:
        return All()
    found = reader.any_of()
    if reader.peek() is not None:
        reader.reject("expected 'and', 'or' or the end")
    return found


def parse_match(expr: Any) -> Match:
    """Read a match expression; ``None`` and the empty text match everything.

    >>> print(parse_match("id:yoink and (not writes:a_temp or tag:input)"))
    (id:yoink and ((not writes:a_temp) or tag:input))

    Raises :class:`KgenSyntaxError` with the column. A pattern that matches nothing is valid.
    """
    if expr is None:
        return All()
    if isinstance(expr, str):
        try:
            return read_match(expr)
        except NotParsable as err:
            raise syntax_error(expr, err) from None
    if not callable(expr) or isinstance(expr, type):
        raise KgenError(
            f"a match expression is text, or a function of kernel and instruction, not {expr!r}\n"
            "  hint: 'id:NAME', 'writes:NAME', 'reads:NAME', 'iname:NAME' or 'tag:NAME', joined by "
            "'and', 'or' and 'not'"
        )
    if not isinstance(expr, MatchExpressionBase):
        _require_two_parameters(expr)
    found: Match = expr
    return found


def _require_two_parameters(test: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(test)
    except ValueError:  # of a function in C, for example
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise KgenError(
            f"a match function is called with kernel and instruction, and takes {signature}\n"
            "  hint: lambda kernel, insn: insn.id == 'NAME'"
        ) from None


# -- stacks -------------------------------------------------------------------------


@dataclass(frozen=True)
class ConcreteStackMatch:
    """A pattern on an instruction and the rules that enclose an expression.

    ``None`` in *levels* stands for any number of levels; *is_closed* demands that nothing
    follows.
    """

    levels: tuple[Match | None, ...]
    is_closed: bool = False

    def __call__(
        self, kernel: LoopKernel, insn: InstructionBase, stack: Sequence[ConcreteMatchable]
    ) -> bool:
        """Tell whether the pattern selects expressions of *insn* inside the rules *stack*."""
        return self._matches(kernel, (insn, *stack), 0, 0)

    def _matches(self, kernel: LoopKernel, items: Sequence[Any], level: int, at: int) -> bool:
        if level == len(self.levels):
            return at == len(items) or not self.is_closed
        pattern = self.levels[level]
        if pattern is None:
            return any(
                self._matches(kernel, items, level + 1, later)
                for later in range(at, len(items) + 1)
            )
        return (
            at < len(items)
            and pattern(kernel, items[at])
            and self._matches(kernel, items, level + 1, at + 1)
        )


@lru_cache(maxsize=1024)
def _parse_stack(text: str) -> ConcreteStackMatch:
    reader = _Reader(text)
    levels: list[Match | None] = []
    is_closed = False
    try:
        while reader.peek() is not None:
            levels.append(None if reader.take("...") else reader.any_of())
            if reader.take("$"):
                is_closed = True
                break
            if not reader.take(">"):
                break
        if reader.peek() is not None:
            reader.reject("expected '>', '$' or the end")
    except NotParsable as err:
        raise syntax_error(text, err) from None
    return ConcreteStackMatch(tuple(levels), is_closed)


def parse_stack_match(smatch: str | Match | ConcreteStackMatch | None) -> StackMatch:
    """Read a pattern such as ``id:insn > ... > id:rule $``, outermost first.

    ``...`` stands for any number of levels, ``$`` for the innermost one. A plain match
    expression is about the instruction.
    """
    if smatch is None:
        return ConcreteStackMatch(())
    if isinstance(smatch, ConcreteStackMatch):
        return smatch
    if isinstance(smatch, str):
        return _parse_stack(smatch)
    return ConcreteStackMatch((parse_match(smatch),))
