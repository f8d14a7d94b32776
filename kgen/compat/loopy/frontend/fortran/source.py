"""Statements of Fortran source text, parsed by fparser, and directives in its comments."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

from kgen.errors import KgenSyntaxError
from kgen.ir.optional import load

__all__ = ["Statement", "blocks_of_loopy", "nodes_of", "parts_of", "refused", "statements_of"]

#: A comment with instructions for the translator, such as ``!$loopy begin tagged: init``.
_DIRECTIVE: Final = re.compile(r"\s*[!cC*]\$loopy\b(.*)", re.IGNORECASE)
#: In fixed form, the column of the mark of continuation lines, and the first one after statements.
_MARK, _END = 5, 72
#: The line that a message of fparser's log is about: its number, its text, and what is wrong.
_LOGGED: Final = re.compile(r"^ *(\d+):(.*) <== (.*)$", re.MULTILINE)
#: fparser reads '1 2' as '12', in free form, too.
_SPLIT_NUMBER: Final = re.compile(r"\d\s+\d")
#: fparser has one table of symbols, and one logger, for all threads.
_LOCK: Final = threading.Lock()


@dataclass(frozen=True)
class Statement:
    """A statement with its parse tree, or the text of a directive, and its first line."""

    text: str
    line: int
    label: str | None = None
    node: Any = None

    @property
    def kind(self) -> str:
        """The name of fparser's class; ``"Directive"`` for a directive."""
        return "Directive" if self.node is None else type(self.node).__name__

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts of the statement."""
        return parts_of(self.node)


def refused(statement: Statement, what: str, hint: str | None = None) -> KgenSyntaxError:
    """Return the error that a statement is not in the subset that kgen reads.

    >>> print(refused(Statement("unroll", 3), "this directive is not known"))
    line 3: this directive is not known
      where: !$loopy unroll
    """
    where = ("!$loopy " if statement.node is None else "") + statement.text
    return _error(statement.line, what, where, hint)


def _error(line: int, what: str, where: str, hint: str | None = None) -> KgenSyntaxError:
    return KgenSyntaxError(f"line {line}: {what}", line=line, where=where, hint=hint)


def parts_of(node: Any) -> tuple[Any, ...]:
    """Return the parts of a node; that of a name is its text."""
    return tuple(node.items) if hasattr(node, "items") else (node.string,)


def nodes_of(node: Any) -> tuple[Any, ...]:
    """Return the nodes of a list; none for ``None``, and a single node for itself."""
    if node is None:
        return ()
    return tuple(node.items) if type(node).__name__.endswith("_List") else (node,)


def statements_of(source: str, free_form: bool) -> list[Statement]:
    r"""Parse source text, and return its statements and directives in order.

    >>> text = "subroutine f ! one\n  a = 1 + &\n    2; b = a\n!$loopy unroll\nend\n"
    >>> for one in statements_of(text, free_form=True):
    ...     print(one.line, one.kind, one.text)
    1 Subroutine_Stmt subroutine f
    2 Assignment_Stmt a = 1 +     2
    2 Assignment_Stmt b = a
    4 Directive unroll
    5 End_Subroutine_Stmt end
    """
    lines = source.splitlines()
    directives = [
        Statement(found[1].strip(), number)
        for number, line in enumerate(lines, 1)
        if (found := _DIRECTIVE.match(line))
    ]
    text = "\n".join(lines if free_form else map(_fixed_line, lines))
    with _LOCK:
        statements = _parsed(text, free_form)
    return sorted([*statements, *directives], key=lambda one: one.line)


def _fixed_line(line: str) -> str:
    """Return a line as fparser reads fixed form: without the columns that nobody reads."""
    if line.startswith(("c", "C", "*", "!")):
        return line
    line = line.expandtabs(8)[:_END]
    is_first = line[_MARK : _MARK + 1] == "0"
    return f"{line[:_MARK]} {line[_MARK + 1 :]}" if is_first else line


def _parsed(text: str, free_form: bool) -> list[Statement]:
    items = _items(_reader(text, free_form))
    if not items:
        return []
    reader = _reader(text, free_form)
    try:
        tree = _parser()(reader)
    except load("fparser.two.utils").FparserException as error:
        raise _misplaced(reader, items, error) from None
    found = [_statement(node) for node in _leaves(tree)]
    for k, item in enumerate(items):  # what is before a main program is not in the tree
        if k >= len(found) or found[k].line != item.span[0]:
            raise _error(item.span[0], "only subroutines are read", item.line)
    return found


def _reader(text: str, free_form: bool) -> Any:
    reader = load("fparser.common.readfortran").FortranStringReader(text, ignore_comments=True)
    reader.set_format(load("fparser.common.sourceinfo").FortranFormat(free_form, False))
    reader.exit_on_error = False
    return reader


def _items(reader: Any) -> list[Any]:
    """Read all statements as texts. What fparser only logs is an error, too."""
    items = []
    with _Log() as log:
        for item in reader:
            if item.reader is not reader:
                line = reader.linecount
                raise _error(line, "'include' is not supported", reader.source_lines[line - 1])
            if reader.format.is_free and _SPLIT_NUMBER.search(item.line):
                raise _wrong(item.span[0], item.line, "a number has no blanks in it")
            items.append(item)
    for message in log.messages:
        number, where, reason = _LOGGED.findall(message)[0]
        raise _wrong(int(number), where.strip(), reason)
    return items


class _Log(logging.Handler):
    """Keep what fparser logs, and let nobody else see it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.logger = logging.getLogger("fparser")
        self.propagate = self.logger.propagate

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> Self:
        self.logger.propagate = False
        self.logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self)
        self.logger.propagate = self.propagate


@cache
def _factory() -> Any:
    return load("fparser.two.parser").ParserFactory().create(std="f2008")


def _parser() -> Any:
    """Return fparser's parser, which knows no names of other programs."""
    parser = _factory()
    load("fparser.two.symbol_table").SYMBOL_TABLES.clear()
    return parser


def _misplaced(reader: Any, items: Sequence[Any], error: Exception) -> KgenSyntaxError:
    """Return the error of the last statement that the parser has read."""
    last = reader.linecount
    item = next((one for one in items if one.span[0] <= last <= one.span[1]), items[-1])
    reason = str(error).partition(">>>")[2].partition("\n")[2].strip()
    return _wrong(item.span[0], item.line, reason)


def _wrong(line: int, where: str, reason: str) -> KgenSyntaxError:
    return KgenSyntaxError(
        f"line {line}: this is not Fortran, or not expected here",
        line=line,
        where=where,
        because=reason or None,
        hint=None if reason else "check brackets, and that each 'do' and 'if' has its 'end'",
    )


def _leaves(node: Any) -> Iterator[Any]:
    """Yield the statements of a block."""
    for child in node.content:
        if hasattr(child, "content"):
            yield from _leaves(child)
        else:
            yield child


def _statement(node: Any) -> Statement:
    item = node.item
    label = None if item.label is None else str(item.label)
    return Statement(item.line, item.span[0], label, node)


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
                raise refused(Statement(words[0], number), "blocks do not nest")
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
        raise _error(number, "lines of a '!$loopy' block begin with '!'", text)
    return text[2:] if text.startswith("! ") else text[1:]
