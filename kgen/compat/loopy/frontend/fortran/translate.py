"""Subroutines of Fortran as kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import islpy as isl
import pymbolic.primitives as p

from kgen.compat.loopy.frontend.fortran.declarations import declare, resolve_arrays
from kgen.compat.loopy.frontend.fortran.parser import Name, Reference, parse_list
from kgen.compat.loopy.frontend.fortran.source import Statement, refused
from kgen.compat.loopy.frontend.fortran.values import LOGICAL, Array, Scope, Value, as_type
from kgen.compat.loopy.symbolic import condition_to_set
from kgen.errors import KgenSyntaxError
from kgen.ir.affine import simplify
from kgen.ir.data import ArrayArg, GlobalArg, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr, minus, variable_names
from kgen.ir.instruction import Assignment

__all__ = ["Subroutine", "subroutines_of"]

_HEAD: Final = re.compile(r"subroutine\s+(\w+)\s*(?:\(([^()]*)\))?", re.IGNORECASE)
_END: Final = re.compile(r"end(?:\s*subroutine(?:\s+\w+)?)?", re.IGNORECASE)
_DO: Final = re.compile(r"do\s+(?:(\d+)\s*,?\s*)?([a-z]\w*)\s*=\s*(.*)", re.IGNORECASE)
_END_DO: Final = re.compile(r"end\s*do", re.IGNORECASE)
_IF: Final = re.compile(r"(else\s*)?if\s*(\(.*)", re.IGNORECASE)
_ELSE: Final = re.compile(r"else", re.IGNORECASE)
_END_IF: Final = re.compile(r"end\s*if", re.IGNORECASE)
_NOTHING: Final = re.compile(r"continue|return", re.IGNORECASE)
_EQUALS: Final = re.compile(r"(?<![=/<>])=(?!=)")
_TAGGED: Final = re.compile(r"(begin|end)\s+tagged\s*:\s*(\w+)", re.IGNORECASE)


@dataclass(frozen=True)
class _Loop:
    """A loop that is open: its variable, iname, and the names that its bounds read.

    Instructions in it begin with number *start*; a statement with its *label* ends it.
    """

    name: str
    iname: str
    bounds: frozenset[str]
    start: int
    label: str | None


@dataclass(frozen=True)
class _Domain:
    """The loops of a perfect nest, their conditions, and the instructions in them."""

    inames: tuple[str, ...]
    conditions: tuple[Expr, ...]
    instructions: range = range(0)

    def reads(self, names: set[str]) -> bool:
        """Tell whether a bound reads one of some variables."""
        return not names.isdisjoint(variable_names(*self.conditions))

    def to_set(self) -> Any:
        """Return the isl set, or ``None`` if a bound is not affine."""
        names = sorted(set(variable_names(*self.conditions)) - set(self.inames))
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=self.inames, params=names)
        return condition_to_set(space, p.LogicalAnd(self.conditions))


@dataclass
class _Branch:
    """An if that is open: the conditions of its branches until now."""

    outer: frozenset[Expr]
    conditions: list[str]


@dataclass
class Subroutine:
    """A subroutine whose statements become instructions."""

    name: str
    arguments: tuple[str, ...]
    first: int
    scope: Scope = field(default_factory=Scope)
    domains: list[_Domain] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    instructions: list[Assignment] = field(default_factory=list)
    blocks: list[_Loop | _Branch] = field(default_factory=list)
    predicates: frozenset[Expr] = frozenset()
    tags: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    is_declaring: bool = True

    def __post_init__(self) -> None:
        self.scope.arguments = [self.scope.spelled(name).lower() for name in self.arguments]

    @property
    def loops(self) -> list[_Loop]:
        """The open loops, outermost first."""
        return [block for block in self.blocks if isinstance(block, _Loop)]

    # -- statements --------------------------------------------------------------------------------

    def read(self, statement: Statement) -> None:
        """Translate a statement."""
        try:
            self._read(statement)
            self._end_labelled(statement)
        except KgenSyntaxError as error:
            error.name_place(f"line {statement.line}: {statement.text}")
            raise

    def _read(self, statement: Statement) -> None:
        if statement.is_directive:
            return self._set_tag(statement)
        if self.is_declaring:
            if declare(self.scope, statement):
                return None
            resolve_arrays(self.scope)
            self.is_declaring = False
        text = statement.text
        if found := _DO.fullmatch(text):
            return self._begin_loop(found[2], found[3], found[1])
        if found := _IF.fullmatch(text):
            return self._branch(statement, found[2], found[1] is not None)
        if _END_DO.fullmatch(text):
            return self._end_loop()
        if _ELSE.fullmatch(text):
            return self._otherwise()
        if _END_IF.fullmatch(text):
            return self._end_branch()
        if _NOTHING.fullmatch(text):
            return None
        return self._assign(statement)

    def _set_tag(self, statement: Statement) -> None:
        found = _TAGGED.fullmatch(statement.text)
        if found is None:
            raise refused(statement, "this directive is not known", "begin tagged: NAME")
        if found[1].lower() == "begin":
            self.tags.append(found[2])
        elif self.tags[-1:] == [found[2]]:
            self.tags.pop()
        else:
            raise refused(statement, f"no 'begin tagged: {found[2]}' is open")

    def _assign(self, statement: Statement) -> None:
        target, equals, value = _sides(statement.text)
        if not equals:
            word = statement.text.split("(")[0].split()[0]
            hint = "read are declarations, assignments, 'do', 'if', 'continue' and a last 'return'"
            raise refused(statement, f"'{word}' is not supported", hint)
        trees = parse_list(target)
        if len(trees) != 1 or not isinstance(trees[0], Name | Reference):
            raise KgenSyntaxError(f"'{target.strip()}' cannot be assigned to")
        self._check_target(trees[0].name)
        place = self.scope.of(trees[0])
        self._add(place.expr, as_type(self.scope.value(value), place.dtype))

    def _check_target(self, name: str) -> None:
        lower = name.lower()
        if lower in self.scope.values:
            raise KgenSyntaxError(f"'{name}' is a constant or the variable of a loop")
        if any(self.scope.spelled(name) in loop.bounds for loop in self.loops):
            raise KgenSyntaxError(f"'{name}' is assigned in a loop that it bounds")
        if self.scope.spelled(name) in self.scope.inames:
            raise KgenSyntaxError(f"'{name}' is the variable of a loop elsewhere")
        self.assigned.add(self.scope.spelled(name))

    def _add(self, place: Expr, value: Expr) -> None:
        number = self.first + len(self.instructions)
        self.instructions.append(
            Assignment(
                place,
                value,
                id=f"insn{number}",
                within_inames=frozenset(loop.iname for loop in self.loops),
                within_inames_is_final=True,
                predicates=self.predicates,
                tags=tuple(self.tags),
            )
        )

    # -- loops -------------------------------------------------------------------------------------

    def _begin_loop(self, name: str, text: str, label: str | None) -> None:
        bounds = [self.scope.of(tree) for tree in parse_list(text)]
        if len(bounds) not in (2, 3) or any(bound.dtype.kind != "i" for bound in bounds):
            raise KgenSyntaxError("a loop has two integers as bounds, and may have one as its step")
        lower, upper, step = (*(bound.expr for bound in bounds), 1)[:3]
        if not isinstance(step, int) or step == 0:
            raise KgenSyntaxError("the step of a loop is a constant", hint="write the number")
        if name.lower() in self.scope.values:
            raise KgenSyntaxError(
                f"'{name}' is the variable of a loop around this one, or constant"
            )
        iname = self._iname(self.scope.spelled(name))
        distance = minus(upper, lower) if step > 0 else minus(lower, upper)
        self.domains.append(_domain(iname, simplify(distance), abs(step)))
        value = simplify(p.Sum((lower, p.Product((step, p.Variable(iname))))))
        self.scope.values[name.lower()] = Value(value, self.scope.type_of(name))
        self.scope.inames.add(iname)
        names = frozenset(variable_names(lower, upper))
        self.blocks.append(_Loop(name.lower(), iname, names, len(self.instructions), label))

    def _iname(self, name: str) -> str:
        known = {*self.scope.inames, *self.scope.spellings.values()}
        if name not in self.scope.inames | self.assigned:
            return name
        return next(new for k in range(1, len(known) + 2) if (new := f"{name}_{k}") not in known)

    def _end_loop(self) -> None:
        loop = self.blocks.pop() if self.blocks else None
        if not isinstance(loop, _Loop):
            raise KgenSyntaxError("'end do' without 'do'")
        del self.scope.values[loop.name]
        self.scope.ended.add(loop.name)
        self._close_domain(loop)

    def _end_labelled(self, statement: Statement) -> None:
        """End the loops that end with the label of a statement."""
        label = statement.label
        if label is not None and not any(loop.label == label for loop in self.loops):
            raise refused(statement, "only the last statement of a loop can have a label")
        while label is not None and self.loops and self.loops[-1].label == label:
            self._end_loop()

    def _close_domain(self, loop: _Loop) -> None:
        """Put the loops of a perfect nest in one domain, for those that join or tile them."""
        at = next(k for k, domain in enumerate(self.domains) if domain.inames[0] == loop.iname)
        own, body = self.domains[at], range(loop.start, len(self.instructions))
        inner = self.domains[at + 1] if at + 1 < len(self.domains) else None
        if inner is not None and inner.instructions == body and not inner.reads(self.assigned):
            del self.domains[at + 1]
            own = _Domain((*own.inames, *inner.inames), own.conditions + inner.conditions)
        self.domains[at] = replace(own, instructions=body)

    # -- branches ----------------------------------------------------------------------------------

    def _branch(self, statement: Statement, text: str, is_else: bool) -> None:
        condition, rest = _in_brackets(text)
        if is_else:
            self._otherwise()
        else:
            self.blocks.append(_Branch(self.predicates, []))
        branch = self.blocks[-1]
        assert isinstance(branch, _Branch)
        branch.conditions.append(self._condition(condition))
        self.predicates |= {p.Variable(branch.conditions[-1])}
        if rest.lower() != "then":
            self._read(Statement(rest, statement.line))
            self._end_branch()

    def _condition(self, text: str) -> str:
        taken = set(self.scope.spellings.values())
        count = len(self.conditions)
        name = next(new for k in range(count, 10**6) if (new := f"loopy_cond{k}") not in taken)
        self.conditions.append(name)
        self.scope.spelled(name)
        self._add(p.Variable(name), self.scope.value(text).expr)
        return name

    def _otherwise(self) -> None:
        branch = self.blocks[-1] if self.blocks else None
        if not isinstance(branch, _Branch):
            raise KgenSyntaxError("'else' without 'if'")
        others = {p.LogicalNot(p.Variable(name)) for name in branch.conditions}
        self.predicates = branch.outer | others

    def _end_branch(self) -> None:
        branch = self.blocks.pop() if self.blocks else None
        if not isinstance(branch, _Branch):
            raise KgenSyntaxError("'end if' without 'if'")
        self.predicates = branch.outer

    # -- the kernel --------------------------------------------------------------------------------

    def end(self, statement: Statement) -> None:
        """Check that all blocks are closed, and that all variables have values."""
        if self.blocks or self.tags:
            raise refused(statement, "the subroutine ends inside of a block")
        known = self.assigned.union(map(self.scope.spelled, self.scope.arguments))
        if unknown := sorted(self.scope.read - known):
            raise KgenSyntaxError(
                f"'{unknown[0]}' is read in '{self.name}', and never assigned",
                hint="assign it, or make it an argument",
            )

    def data(self) -> list[ArrayArg | ValueArg | TemporaryVariable]:
        """Declare arguments and temporaries."""
        written = {name for insn in self.instructions for name in insn.assignee_var_names()}
        found = [self._argument(name, written) for name in self.scope.arguments]
        found += [TemporaryVariable(name, LOGICAL) for name in self.conditions]
        own = (*self.scope.arrays, *(name for name in self.scope.types))
        return found + [
            self._temporary(name)
            for name in dict.fromkeys(own)
            if name not in self.scope.arguments and self.scope.spelled(name) in written
        ]

    def _argument(self, name: str, written: set[str]) -> ArrayArg | ValueArg | TemporaryVariable:
        spelled = self.scope.spelled(name)
        array = self.scope.arrays.get(name)
        if array is not None:
            return GlobalArg(spelled, array.dtype, shape=array.shape, order="F")
        if spelled in written:
            return GlobalArg(spelled, self.scope.type_of(name), shape=())
        return ValueArg(spelled, self.scope.type_of(name))

    def _temporary(self, name: str) -> TemporaryVariable:
        spelled = self.scope.spelled(name)
        array = self.scope.arrays.get(name) or Array(self.scope.type_of(name), (), ())
        if None in array.shape:
            raise KgenSyntaxError(f"'{spelled}' is no argument, and needs the length of all axes")
        return TemporaryVariable(spelled, array.dtype, shape=array.shape, order="F")


def subroutines_of(statements: Sequence[Statement]) -> Iterator[Subroutine]:
    """Translate all subroutines of a source text."""
    current: Subroutine | None = None
    first = 0
    for statement in statements:
        head = _HEAD.fullmatch(statement.text)
        if current is None:
            if head is None or statement.is_directive:
                raise refused(statement, "only subroutines are read")
            names = [name.strip() for name in (head[2] or "").split(",")]
            current = Subroutine(head[1], tuple(filter(None, names)), first)
        elif _END.fullmatch(statement.text) and not statement.is_directive:
            current.end(statement)
            first += len(current.instructions)
            yield current
            current = None
        else:
            current.read(statement)
    if current is not None:
        raise KgenSyntaxError(f"the subroutine '{current.name}' has no 'end'")


def _domain(iname: str, distance: Expr, step: int) -> _Domain:
    """Return the domain of one loop, whose variable begins with 0."""
    own = p.Variable(iname)
    steps = own if step == 1 else p.Product((step, own))
    conditions = (p.Comparison(0, "<=", own), p.Comparison(steps, "<=", distance))
    domain = _Domain((iname,), conditions)
    if domain.to_set() is None:
        raise KgenSyntaxError(
            "a bound of this loop is not a linear function of sizes and loop variables",
            hint="assign it to a variable before the loop",
        )
    return domain


def _sides(text: str) -> tuple[str, str, str]:
    """Split an assignment at its ``=``, the first one that is in no brackets.

    >>> _sides("a(max(i, 1)) = b == c")
    ('a(max(i, 1)) ', '=', ' b == c')
    """
    for found in _EQUALS.finditer(text):
        left = text[: found.start()]
        if left.count("(") == left.count(")"):
            return left, "=", text[found.end() :]
    return text, "", ""


def _in_brackets(text: str) -> tuple[str, str]:
    """Split a text at the bracket that closes the first one."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return text[1:at], text[at + 1 :].strip()
    raise KgenSyntaxError(f"a bracket of '{text}' is never closed")
