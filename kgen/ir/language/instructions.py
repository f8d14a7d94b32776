"""The instruction language: text and objects to instructions and substitution rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymbolic.primitives as p

from kgen.errors import KernelError, KgenError
from kgen.ir.assignee import assignee_name
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.instruction import (
    BarrierInstruction,
    InstructionBase,
    NoOpInstruction,
    SourceSpan,
    make_assignment,
)
from kgen.ir.language.expressions import check_operands
from kgen.ir.language.options import Fields, merge, merge_inner
from kgen.ir.language.statements import (
    AssignStatement,
    CloseBlock,
    MarkStatement,
    OpenBlock,
    RuleStatement,
    Statement,
    parse_statement,
)
from kgen.ir.language.tokens import NotParsable, syntax_error
from kgen.ir.ordered_set import OrderedSet

__all__ = ["items_of", "parse_instructions", "statements"]


def parse_instructions(
    given: Any,
) -> tuple[list[InstructionBase], dict[str, SubstitutionRule]]:
    """Read instructions and rules from text, objects, or a list that mixes them.

    A block opened in one text may end in a later one; objects in between belong to it.
    Ids, dependencies and inames are as written: nothing is resolved yet.

    Raises :class:`KgenSyntaxError` with line, column and a caret.
    """
    reader = _Reader()
    for item in items_of(given):
        if isinstance(item, str):
            reader.read_text(item)
        elif isinstance(item, InstructionBase):
            check_operands(item.expressions(), f"instruction '{item}'")
            reader.add(item, item)
        elif isinstance(item, SubstitutionRule):
            reader.add_rule(item)
        else:
            raise KernelError(
                f"an instruction is text, an Assignment or another instruction object, or a "
                f"SubstitutionRule, not {type(item).__name__}"
            )
    reader.finish()
    return reader.instructions, reader.rules


def items_of(given: Any) -> Iterable[Any]:
    """Return the texts and objects that instructions are given as."""
    return given if isinstance(given, Iterable) and not isinstance(given, str) else [given]


@dataclass
class _Block:
    """An open block: the options that it adds to instructions inside, and where it was opened."""

    word: str
    inames: tuple[str, ...]
    fields: Fields
    source: str
    at: int
    #: the negated conditions of the branches before this one
    rejected: list[p.LogicalNot] = field(default_factory=list)
    #: how many instructions there were before the first branch
    first: int = 0


class _Reader:
    def __init__(self) -> None:
        self.instructions: list[InstructionBase] = []
        self.rules: dict[str, SubstitutionRule] = {}
        self._blocks: list[_Block] = []
        #: the combined options of all open blocks; empty when none is open
        self._inherited: Fields = {}

    def read_text(self, source: str) -> None:
        """Read all statements of *source*."""
        line, counted = 1, 0
        for at, text in statements(source):
            line += source.count("\n", counted, at)
            counted = at
            try:
                self._take(parse_statement(text), source, at, SourceSpan(text, line))
            except NotParsable as err:
                raise syntax_error(source, err, at) from None

    def finish(self) -> None:
        """Reject blocks that are still open."""
        if self._blocks:
            block = self._blocks[-1]
            error = NotParsable(f"this '{block.word}' has no 'end'", block.at)
            raise syntax_error(block.source, error)

    # -- instructions -------------------------------------------------------------------

    def _take(self, statement: Statement, source: str, at: int, span: SourceSpan) -> None:
        match statement:
            case AssignStatement():
                self._assign(statement, span)
            case OpenBlock():
                self._open(statement, source, at)
            case CloseBlock():
                self._close(statement)
            case RuleStatement():
                self.add_rule(statement.rule)
            case MarkStatement():
                fields = self._fields(statement.options)
                if statement.word == "nop":
                    self.instructions.append(NoOpInstruction(**fields, span=span))
                else:
                    kind = "global" if statement.word == "gbarrier" else "local"
                    self.instructions.append(
                        BarrierInstruction(synchronization_kind=kind, **fields, span=span)
                    )

    def _fields(self, own: Any) -> Fields:
        if not self._inherited:
            return dict(own)
        fields = dict(self._inherited)
        merge_inner(fields, own)
        return fields

    def _assign(self, statement: AssignStatement, span: SourceSpan) -> None:
        fields = self._fields(statement.options)
        if kind := fields.get("atomicity"):
            fields["atomicity"] = tuple(kind(assignee_name(lhs)) for lhs in statement.assignees)
        self.instructions.append(
            make_assignment(
                statement.assignees,
                statement.expression,
                statement.temp_var_types,
                span=span,
                **fields,
            )
        )

    def add(self, insn: InstructionBase, source: InstructionBase) -> None:
        """Add an object, with the options of the blocks around it."""
        changes = {name: value for name, value in self._inherited.items() if name != "atomicity"}
        fields: Fields = {name: getattr(insn, name) for name in changes}
        merge(fields, changes)
        self.instructions.append(insn.copy(**fields) if fields else insn)

    def add_rule(self, rule: SubstitutionRule) -> None:
        """Add a substitution rule."""
        if rule.name in self.rules:
            raise KgenError(
                f"there are two substitution rules '{rule.name}'\n  hint: rename one of them"
            )
        self.rules[rule.name] = rule

    # -- blocks -------------------------------------------------------------------------

    def _open(self, statement: OpenBlock, source: str, at: int) -> None:
        word, fields = statement.word, dict(statement.options)
        rejected: list[p.LogicalNot] = []
        first = len(self.instructions)
        if word in ("elif", "else"):
            rejected, first = self._end_branch(word)
        if word in ("for", "with") and "id" in fields and isinstance(fields["id"], str):
            raise NotParsable(
                "an id belongs to one instruction", 0, "write id_prefix=... after 'with'"
            )
        if word == "for":
            for name in statement.inames:
                if any(name in block.inames for block in self._blocks):
                    raise NotParsable(f"the loop over '{name}' is already open", 0)
            fields = {
                "within_inames": frozenset(statement.inames),
                "within_inames_is_final": True,
            }
        conditions: list[Expr] = list(rejected)
        if word in ("if", "elif"):
            conditions.append(statement.condition)
        if conditions:
            fields["predicates"] = OrderedSet(conditions)
        if word in ("if", "elif"):
            rejected = [*rejected, p.LogicalNot(statement.condition)]
        self._blocks.append(_Block(word, statement.inames, fields, source, at, rejected, first))
        self._inherit()

    def _end_branch(self, word: str) -> tuple[list[p.LogicalNot], int]:
        if not self._blocks or self._blocks[-1].word not in ("if", "elif"):
            raise NotParsable(f"'{word}' without 'if'", 0)
        block = self._blocks.pop()
        return block.rejected, block.first

    def _close(self, statement: CloseBlock) -> None:
        if not self._blocks:
            raise NotParsable("'end' without 'for', 'if' or 'with'", 0)
        block = self._blocks[-1]
        for name in statement.inames:
            if name not in block.inames:
                opened = " ".join([block.word, ", ".join(block.inames)]).strip()
                raise NotParsable(f"'end {name}' does not match '{opened}'", 0)
        self._blocks.pop()
        self._inherit()
        if block.word in ("if", "elif", "else"):
            branches = [form for negated in block.rejected for form in (negated, negated.child)]
            _reject_changed_conditions(self.instructions[block.first :], frozenset(branches))

    def _inherit(self) -> None:
        self._inherited = {}
        for block in self._blocks:
            merge_inner(self._inherited, block.fields)


def _reject_changed_conditions(
    insns: Sequence[InstructionBase], conditions: frozenset[Expr]
) -> None:
    """Reject branches in which an instruction changes one of their *conditions* for a later one.

    Each instruction has its own copy of the condition, evaluated when the instruction runs.
    Conditions inside of the branches are evaluated after what precedes them.
    """
    read = frozenset(variable_names(*conditions))
    for at, insn in enumerate(insns):
        written = read.intersection(insn.assignee_var_names())
        for later in insns[at + 1 :] if written else ():
            for condition in later.predicates:
                if condition not in conditions or written.isdisjoint(variable_names(condition)):
                    continue
                if not _exclude_each_other(insn, later, written):
                    raise _changed_condition(insn, later, condition)


def _changed_condition(
    insn: InstructionBase, later: InstructionBase, condition: Expr
) -> KernelError:
    text = to_text(condition.child if isinstance(condition, p.LogicalNot) else condition)
    one, other = (str(each).partition("  {")[0] for each in (insn, later))
    return KernelError(
        f"'{one}' changes a value that the condition of '{other}' reads",
        because=f"'{text}' is evaluated separately for each of the two",
        hint=f"store its value first: <> kept = {text}, then 'if kept'",
    )


def _exclude_each_other(
    one: InstructionBase, other: InstructionBase, written: frozenset[str]
) -> bool:
    """Tell whether a condition that does not read *written* holds for one of the two only."""
    return any(
        mine == p.LogicalNot(theirs) or theirs == p.LogicalNot(mine)
        for mine in one.predicates
        for theirs in other.predicates
        if written.isdisjoint(variable_names(mine))
    )


def statements(source: str) -> Iterator[tuple[int, str]]:
    """Cut *source* into statements, with their places: lines, or several that are joined.

    A bracket that is open or a backslash joins lines.
    """
    at, start, depth = 0, -1, 0
    for line in source.split("\n"):
        code = line.split("#", 1)[0] if "#" in line else line
        if not code.strip() and (start < 0 or "#" in line):
            at += len(line) + 1
            continue
        begin = at if start < 0 else start
        depth += sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
        end = at + len(code)
        at += len(line) + 1
        if depth > 0 or code.rstrip().endswith("\\"):
            start = begin
            continue
        text = source[begin:end]
        if start >= 0 and "#" in text:
            text = _without_comments(text)
        lead = len(text) - len(text.lstrip())
        yield begin + lead, text.strip()
        start, depth = -1, 0
    if start >= 0:
        raise syntax_error(
            source, NotParsable("this bracket is never closed", _unclosed(source, start))
        )


def _without_comments(text: str) -> str:
    """Replace comments by blanks, which preserves offsets."""
    lines = (line.partition("#") for line in text.split("\n"))
    return "\n".join(code + " " * (len(sign) + len(note)) for code, sign, note in lines)


def _unclosed(source: str, start: int) -> int:
    """Return the place of the first bracket after *start* that is never closed."""
    text = _without_comments(source[start:])
    opened: list[int] = []
    for k, sign in enumerate(text):
        if sign in "([{":
            opened.append(k)
        elif sign in ")]}" and opened:
            opened.pop()
    return start + (opened[0] if opened else max(len(text.rstrip()) - 1, 0))
