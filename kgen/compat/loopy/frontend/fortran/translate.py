"""Subroutines of Fortran as kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import islpy as isl
import pymbolic.primitives as p

from kgen.compat.loopy.frontend.fortran.calls import Call, Passed, Section, instruction_of
from kgen.compat.loopy.frontend.fortran.declarations import declare, resolve_arrays
from kgen.compat.loopy.frontend.fortran.source import Statement, nodes_of, parts_of, refused
from kgen.compat.loopy.frontend.fortran.values import LOGICAL, Array, Scope, Value, as_type
from kgen.compat.loopy.symbolic import condition_to_set
from kgen.errors import KgenSyntaxError
from kgen.ir.affine import simplify
from kgen.ir.data import ArrayArg, GlobalArg, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr, minus, variable_names
from kgen.ir.instruction import Assignment, CallInstruction
from kgen.ir.kernel import LoopKernel

__all__ = ["Subroutine", "subroutines_of"]

_READ: Final = (
    "read are declarations, assignments, 'do', 'if', 'call', 'continue' and a last 'return'"
)
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
    """An if that is open: the conditions of its branches until now; ``else`` is the last one."""

    outer: frozenset[Expr]
    conditions: list[str]
    is_last: bool = False


@dataclass
class Subroutine:
    """A subroutine whose statements become instructions."""

    name: str
    arguments: tuple[str, ...]
    first: int
    scope: Scope = field(default_factory=Scope)
    domains: list[_Domain] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    lent: set[str] = field(default_factory=set)
    instructions: list[Assignment | CallInstruction | Call] = field(default_factory=list)
    blocks: list[_Loop | _Branch] = field(default_factory=list)
    predicates: frozenset[Expr] = frozenset()
    tags: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    certain: list[tuple[Expr, Expr | None]] = field(default_factory=list)
    is_declaring: bool = True
    has_returned: bool = False

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
            self._check_label(statement)
            self._read(statement)
            self._end_labelled(statement)
        except KgenSyntaxError as error:
            error.name_place(f"line {statement.line}: {statement.text}")
            raise

    def _read(self, statement: Statement) -> None:
        if statement.node is None:
            return self._set_tag(statement)
        if self.is_declaring:
            if declare(self.scope, statement):
                return None
            resolve_arrays(self.scope)
            self.is_declaring = False
        if self.has_returned:
            raise refused(statement, "a statement after 'return' is not supported", _READ)
        read = _STATEMENTS.get(statement.kind)
        if read is None:
            what = statement.kind.removesuffix("_Stmt").lower().replace("_", " ")
            raise refused(statement, f"'{what}' is not supported", _READ)
        return read(self, statement, *statement.parts)

    def _return(self, statement: Statement, *_: Any) -> None:
        if self.blocks:
            raise refused(statement, "'return' is not supported in a block", _READ)
        self.has_returned = True

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

    def _assign(self, _: Statement, target: Any, __: Any, value: Any) -> None:
        if type(target).__name__ not in ("Name", "Part_Ref"):
            raise KgenSyntaxError(f"'{target}' cannot be assigned to")
        self._check_target(str(parts_of(target)[0]))
        place = self.scope.of(target)
        self._add(place.expr, as_type(self.scope.of(value), place.dtype))

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
        self._note_subscripts()
        self.instructions.append(Assignment(place, value, **self._fields()))

    def _fields(self) -> dict[str, Any]:
        """Return the fields of the next instruction."""
        return {
            "id": f"insn{self.first + len(self.instructions)}",
            "within_inames": frozenset(loop.iname for loop in self.loops),
            "within_inames_is_final": True,
            "predicates": self.predicates,
            "tags": tuple(self.tags),
        }

    def _note_subscripts(self) -> None:
        """Keep the subscripts of a statement that is always executed."""
        if not self.loops and not self.predicates:
            self.certain += self.scope.accessed
        self.scope.accessed.clear()

    def assumptions(self) -> isl.Set | None:
        """Return what holds for arguments since subscripts are inside of arrays."""
        fixed = {self.scope.spelled(name) for name in self.scope.arguments} - self._written()
        found = None
        for index, extent in self.certain:
            if extent is None:
                continue
            names = sorted(variable_names(index, extent))
            if not names or not fixed.issuperset(names):
                continue
            space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=names)
            inside = (p.Comparison(0, "<=", index), p.Comparison(index, "<", extent))
            one = condition_to_set(space, p.LogicalAnd(inside))
            if one is not None:
                found = one.params() if found is None else found.intersect(one.params())
        return found

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, statement: Statement, name: Any, arguments: Any) -> None:
        passed = tuple(self._passed(node) for node in nodes_of(arguments))
        self._note_subscripts()
        bounds = frozenset[str]().union(self.scope.inames, *(loop.bounds for loop in self.loops))
        call = Call(statement, str(name).lower(), passed, self._fields(), bounds)
        self.assigned.update(call.assignee_var_names())
        values = (one.expr for one in passed if isinstance(one, Value))
        self.lent.update(expr.name for expr in values if isinstance(expr, p.Variable))
        self.instructions.append(call)

    @property
    def calls(self) -> list[Call]:
        """The calls of other subroutines."""
        return [insn for insn in self.instructions if isinstance(insn, Call)]

    def resolve(self, callees: Mapping[str, tuple[Sequence[str], LoopKernel]]) -> None:
        """Make instructions of calls: of *callees*, their arguments and kernels."""
        found = (
            instruction_of(insn, *callees[insn.name]) if isinstance(insn, Call) else insn
            for insn in self.instructions
        )
        self.instructions = [insn for insn in found if insn is not None]

    def _passed(self, node: Any) -> Passed:
        """Return an argument of a call: an array, a section of one, or a value."""
        kind, parts = type(node).__name__, parts_of(node)
        name = str(parts[0]).lower()
        if kind == "Name" and name in self.scope.arrays:
            return self._section(str(parts[0]), [None] * len(self.scope.arrays[name].shape))
        if kind == "Part_Ref" and name in self.scope.arrays:
            subscripts = nodes_of(parts[1])
            if any(type(one).__name__ == "Subscript_Triplet" for one in subscripts):
                return self._section(str(parts[0]), subscripts)
        return self.scope.of(node)

    def _section(self, name: str, subscripts: Sequence[Any]) -> Section:
        """Return a section of an array; ``None`` among the subscripts is a whole axis."""
        array = self.scope.arrays[name.lower()]
        if len(subscripts) != len(array.lower):
            raise KgenSyntaxError(
                f"'{name}' has {len(array.lower)} axes, and {len(subscripts)} subscripts"
            )
        index: list[Expr] = []
        inames: list[str] = []
        for node, lower, extent in zip(subscripts, array.lower, array.shape, strict=True):
            if node is not None and type(node).__name__ != "Subscript_Triplet":
                index.append(simplify(minus(self.scope.of(node).expr, lower)))
                self.scope.accessed.append((index[-1], extent))
                continue
            first, last, step = (None, None, None) if node is None else node.items
            if last is None and extent is None:
                raise KgenSyntaxError(f"the length of '{name}' is not known", hint="write the end")
            start = 0 if first is None else minus(self.scope.of(first).expr, lower)
            end = minus(extent, 1) if last is None else minus(self.scope.of(last).expr, lower)
            stride = 1 if step is None else self.scope.of(step).expr
            if not isinstance(stride, int) or stride < 1:
                raise KgenSyntaxError("the step of a section is a positive constant")
            iname = self._part_iname()
            self.domains.append(_domain(iname, simplify(minus(end, start)), stride))
            inames.append(iname)
            index.append(simplify(p.Sum((start, p.Product((stride, p.Variable(iname)))))))
        return Section(self.scope.spelled(name), tuple(index), tuple(inames))

    def _part_iname(self) -> str:
        """Return the name of a variable that varies in a section."""
        known = {*self.scope.inames, *self.scope.spellings.values()}
        name = next(new for k in range(10**6) if (new := f"loopy_part{k}") not in known)
        self.scope.inames.add(name)
        return name

    # -- loops -------------------------------------------------------------------------------------

    def _begin_labelled(self, statement: Statement, _: Any, label: Any, control: Any) -> None:
        self._begin_loop(statement, None, control, str(label))

    def _begin_loop(
        self, statement: Statement, _: Any, control: Any, label: str | None = None
    ) -> None:
        counter = control and control.items[1]
        if counter is None:
            raise refused(statement, "only loops with a variable are supported", "do i = 1, n")
        name, bounds = str(counter[0]), [self.scope.of(node) for node in counter[1]]
        if any(bound.dtype.kind != "i" for bound in bounds):
            raise KgenSyntaxError("the bounds of a loop and its step are integers")
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

    def _end_loop(self, *_: Any) -> None:
        loop = self.blocks.pop() if self.blocks else None
        if not isinstance(loop, _Loop):
            raise KgenSyntaxError("a loop ends that is not the innermost block")
        del self.scope.values[loop.name]
        self.scope.ended.add(loop.name)
        self._close_domain(loop)

    def _check_label(self, statement: Statement) -> None:
        label = statement.label
        if label is not None and not any(loop.label == label for loop in self.loops):
            raise refused(statement, "only the last statement of a loop can have a label")

    def _end_labelled(self, statement: Statement) -> None:
        """End the loops that end with the label of a statement."""
        label = statement.label
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

    def _begin_branch(self, _: Statement, condition: Any) -> None:
        self.blocks.append(_Branch(self.predicates, []))
        self._take_branch(condition)

    def _next_branch(self, _: Statement, condition: Any, __: Any) -> None:
        self._leave_branch()
        self._take_branch(condition)

    def _take_branch(self, condition: Any) -> None:
        branch = self._open_branch()
        branch.conditions.append(self._condition(condition))
        self.predicates |= {p.Variable(branch.conditions[-1])}

    def _one_line(self, statement: Statement, condition: Any, action: Any) -> None:
        self._begin_branch(statement, condition)
        self._read(replace(statement, node=action))
        self._end_branch()

    def _open_branch(self) -> _Branch:
        branch = self.blocks[-1]
        assert isinstance(branch, _Branch)
        return branch

    def _condition(self, node: Any) -> str:
        taken = set(self.scope.spellings.values())
        count = len(self.conditions)
        name = next(new for k in range(count, 10**6) if (new := f"loopy_cond{k}") not in taken)
        self.conditions.append(name)
        self.scope.spelled(name)
        self._add(p.Variable(name), self.scope.of(node).expr)
        return name

    def _leave_branch(self) -> None:
        branch = self._open_branch()
        if branch.is_last:
            raise KgenSyntaxError("there is an 'else' before")
        others = {p.LogicalNot(p.Variable(name)) for name in branch.conditions}
        self.predicates = branch.outer | others

    def _otherwise(self, *_: Any) -> None:
        self._leave_branch()
        self._open_branch().is_last = True

    def _end_branch(self, *_: Any) -> None:
        self.predicates = self._open_branch().outer
        self.blocks.pop()

    # -- the kernel --------------------------------------------------------------------------------

    def end(self, statement: Statement) -> None:
        """Check that all blocks are closed, and that all variables have values."""
        if self.blocks or self.tags:
            raise refused(statement, "the subroutine ends inside of a block")
        known = self.assigned.union(self.lent, map(self.scope.spelled, self.scope.arguments))
        if unknown := sorted(self.scope.read - known):
            raise KgenSyntaxError(
                f"'{unknown[0]}' is read in '{self.name}', and never assigned",
                hint="assign it, or make it an argument",
            )

    def data(self) -> list[ArrayArg | ValueArg | TemporaryVariable]:
        """Declare arguments and temporaries."""
        written = self._written()
        found = [self._argument(name, written) for name in self.scope.arguments]
        found += [TemporaryVariable(name, LOGICAL) for name in self.conditions]
        own = (*self.scope.arrays, *(name for name in self.scope.types))
        return found + [
            self._temporary(name)
            for name in dict.fromkeys(own)
            if name not in self.scope.arguments and self.scope.spelled(name) in written
        ]

    def _written(self) -> set[str]:
        return {name for insn in self.instructions for name in insn.assignee_var_names()}

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


#: How statements in a subroutine are read, with their parts, by the names of fparser's classes.
_STATEMENTS: Final[Mapping[str, Callable[..., None]]] = {
    "Assignment_Stmt": Subroutine._assign,
    "Nonlabel_Do_Stmt": Subroutine._begin_loop,
    "Label_Do_Stmt": Subroutine._begin_labelled,
    "End_Do_Stmt": Subroutine._end_loop,
    "If_Stmt": Subroutine._one_line,
    "If_Then_Stmt": Subroutine._begin_branch,
    "Else_If_Stmt": Subroutine._next_branch,
    "Else_Stmt": Subroutine._otherwise,
    "End_If_Stmt": Subroutine._end_branch,
    "Call_Stmt": Subroutine._call,
    "Continue_Stmt": lambda *_: None,
    "Return_Stmt": Subroutine._return,
}


def subroutines_of(statements: Sequence[Statement]) -> Iterator[Subroutine]:
    """Translate all subroutines of a source text."""
    current: Subroutine | None = None
    first = 0
    for statement in statements:
        if current is None:
            current = _head(statement, first)
        elif statement.kind == "End_Subroutine_Stmt":
            current.end(statement)
            first += len(current.instructions)
            yield current
            current = None
        else:
            current.read(statement)


def _head(statement: Statement, first: int) -> Subroutine:
    if statement.kind != "Subroutine_Stmt":
        raise refused(statement, "only subroutines are read")
    prefix, name, arguments, suffix = statement.parts
    names = tuple(map(str, nodes_of(arguments)))
    if "*" in names or suffix or str(prefix or "pure").lower() != "pure":
        raise refused(statement, "only 'subroutine' and 'pure subroutine' are supported")
    return Subroutine(str(name), names, first)


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
