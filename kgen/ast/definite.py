"""Definite assignment: no value is read in the code before the code assigns it.

The schedule determines which instances of instructions run, and that each reads what others wrote.
The code evaluates more than their right-hand sides: bounds of loops, conditions, subscripts. A
guard that is too far inside lets it read values that were never set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TypeAlias

import pymbolic.primitives as p

from kgen.ast.expr import conjunction, conjuncts, disjunction, negation
from kgen.ast.facts import Facts
from kgen.ast.nodes import DeviceFunction, For, If, Let, Node, Run, runs_in, variables_in
from kgen.ast.verify import differs_in_group
from kgen.errors import CodegenError
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    IdentityMapper,
    LocalHardwareAxisIndex,
    is_constant,
    minus,
    substitute,
    to_text,
    variable_names,
)
from kgen.ir.instruction import InstructionBase
from kgen.ir.sets import dims
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import children_of
from kgen.ir.types import AddressSpace
from kgen.schedule.to_isl import axis_context

__all__ = ["check_definite_assignment", "find_assigned_by_data"]

#: A conjunction of conditions.
_Way: TypeAlias = frozenset[Expr]


def check_definite_assignment(
    kernel: DeviceKernel, function: DeviceFunction, unproved: Set[tuple[str, str]]
) -> DeviceFunction:
    """Return *function* if it reads no value before it is set.

    This is checked for private and local temporaries, for arrays as a whole. *unproved* are
    instructions and what they read although it is not proved to be written, which the user
    asserts, as for data-dependent conditions; but not for the bounds of loops around.
    """
    find_assigned_by_data(kernel, function, unproved)
    return function


def find_assigned_by_data(
    kernel: DeviceKernel, function: DeviceFunction, unproved: Set[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    """Return instructions, and what each or a loop around it reads, that the user asserts is set.

    Raises the errors of :func:`check_definite_assignment`.
    """
    tracked = _tracked(kernel)
    if not tracked:
        return ()
    checker = _Checker(kernel, function, tracked, unproved)
    if checker.finds_all_set(function.body, set()):
        return ()
    checker.visit(function.body, Facts(lambda: _known_at_root(kernel, function)), frozenset())
    return tuple(checker.vouched)


def _known_at_root(kernel: DeviceKernel, function: DeviceFunction) -> dims.Set:
    grid = kernel.grid_of_launch(function.insn_ids)
    axes: list[Expr] = [GroupHardwareAxisIndex(k) for k in range(len(function.groups))]
    axes += [LocalHardwareAxisIndex(k) for k in range(len(function.locals))]
    return kernel.assumptions.intersect(axis_context(grid, axes)).params()


def _tracked(kernel: DeviceKernel) -> frozenset[str]:
    return frozenset(
        name
        for name, temporary in kernel.temporary_variables.items()
        if temporary.initializer is None and temporary.address_space != AddressSpace.GLOBAL
    )


class _Checker:
    """Visits nodes in execution order.

    ``ways`` has the conditions under which each name has been set so far, in terms of
    the loop variables around the current node. Conditions on variables of loops that
    have ended are dropped; ``trips`` are the conditions under which such loops ran at all. The
    check of the schedule, which knows elements, covers later reads of instructions.

    ``vouched`` has the names that an instruction, or a loop around it, reads and that are set
    under data-dependent conditions.
    """

    def __init__(
        self,
        kernel: DeviceKernel,
        function: DeviceFunction,
        tracked: frozenset[str],
        unproved: Set[tuple[str, str]],
    ) -> None:
        self.kernel = kernel
        self.function = function
        self.tracked = tracked
        self.unproved = unproved
        self.ways: dict[str, set[_Way]] = {}
        self.added: list[tuple[str, _Way]] = []
        self.uses: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {}
        self.trips: set[Expr] = set()
        self.vouched: dict[tuple[str, str], None] = {}

    def finds_all_set(self, node: Node, known: set[str]) -> bool:
        """Tell whether all names read at *node* and below are set in the enclosing scopes.

        This ignores conditions, and is true for nearly all code. *known* has the names set before,
        and receives those that *node* sets.
        """
        used: Iterable[Expr] = ()
        reads: Iterable[str] = ()
        writes: Iterable[str] = ()
        match node:
            case For():
                used = (node.first, node.stop)
            case Let():
                used = (node.value,)
            case If():
                used = (node.condition,)
            case Run():
                used = node.values.values()
                reads, writes = self._uses(node.insn_id)
        if not known.issuperset(self.tracked.intersection((*reads, *variable_names(*used)))):
            return False
        known.update(writes)
        is_scope = isinstance(node, If) or (isinstance(node, For) and not _always_runs(node))
        return all(
            self.finds_all_set(child, set(known) if is_scope else known)
            for child in children_of(node)
        )

    def visit(self, node: Node, facts: Facts, path: _Way) -> None:
        """Check *node* and its children, under the conditions *path*."""
        match node:
            case For():
                self._read(node, (node.first, node.stop), facts, path)
                inside = _iterations(node)
                first = len(self.added)
                for name, way in self._set_below(node):  # by the previous iteration
                    self._add(name, path | way)
                self.visit(node.body, facts.with_(*inside), path.union(inside))
                self._leave(node.iname, first, self._ran(node))
            case Let():
                self._read(node, (node.value,), facts, path)
                equal = p.Comparison(p.Variable(node.name), "==", node.value)
                first = len(self.added)
                self.visit(node.body, facts.with_(equal), path | {equal})
                self._leave(node.name, first)
            case If():
                self._visit_if(node, facts, path)
            case Run():
                self._visit_run(node, facts, path)
            case _:
                for child in children_of(node):
                    self.visit(child, facts, path)

    def _visit_if(self, node: If, facts: Facts, path: _Way) -> None:
        inside, known = facts, path
        for part in conjuncts(node.condition):
            self._read(node, (part,), inside, known)
            inside, known = inside.with_(part), known | {part}
        self.visit(node.body, inside, known)
        if node.orelse is not None:
            opposite = negation(node.condition)
            self.visit(node.orelse, facts.with_(opposite), path | {*conjuncts(opposite)})

    def _visit_run(self, run: Run, facts: Facts, path: _Way) -> None:
        reads, writes = self._uses(run.insn_id)
        self._read(run, run.values.values(), facts, path)
        for name in reads:
            if not self._is_set(run, name, facts, path):
                self._check_choices(run, name, facts, path)
        for name in writes:
            self._add(name, path)

    def _uses(self, insn_id: str) -> tuple[frozenset[str], tuple[str, ...]]:
        """Return the tracked names that an instruction reads, and those that it writes."""
        if insn_id not in self.uses:
            insn = self.kernel.id_to_insn[insn_id]
            writes = tuple(n for n in insn.assignee_var_names() if n in self.tracked)
            self.uses[insn_id] = self.tracked & insn.read_dependency_names(), writes
        return self.uses[insn_id]

    def _add(self, name: str, way: _Way) -> None:
        temporary = self.kernel.temporary_variables[name]
        if temporary.address_space == AddressSpace.LOCAL:  # other work-items may have set it
            way = frozenset(c for c in way if not differs_in_group(c))
        ways = self.ways.setdefault(name, set())
        if way not in ways:
            ways.add(way)
            self.added.append((name, way))

    def _leave(self, variable: str, first: int, ran: _Way = frozenset()) -> None:
        """Drop conditions on the variable of a loop that ended, for names set in it if it *ran*."""
        inside, self.added = self.added[first:], self.added[:first]
        for name, way in inside:
            self.ways[name].discard(way)
            self._add(name, self._without({variable}, way) | ran)

    def _set_below(self, loop: For) -> Iterator[tuple[str, _Way]]:
        """Yield the names set in the body of a loop, with the conditions from outside."""
        found = dict.fromkeys(self._set_in(loop.body, frozenset()))
        inner = {loop.iname, *variables_in(loop.body)}
        yield from ((name, self._without(inner, way)) for name, way in found)

    def _set_in(self, node: Node, way: _Way) -> Iterator[tuple[str, _Way]]:
        if isinstance(node, Run):
            yield from ((name, way) for name in self._uses(node.insn_id)[1])
        for child in children_of(node):
            inside = way
            if isinstance(node, If) and child is node.body:
                inside = way | {*conjuncts(node.condition)}
            elif isinstance(node, For):
                inside = way | self._ran(node)
            yield from self._set_in(child, inside)

    def _without(self, names: Set[str], way: _Way) -> _Way:
        return frozenset(c for c in way if names.isdisjoint(variable_names(c)))

    def _ran(self, loop: For) -> _Way:
        """Return the condition under which a loop has an iteration; empty if it always has."""
        if _always_runs(loop):
            return frozenset()
        has_trip = p.Comparison(loop.first, "<", loop.stop)
        self.trips.add(has_trip)
        return frozenset({has_trip})

    # -- reads ------------------------------------------------------------------------------

    def _read(self, node: Node, exprs: Iterable[Expr], facts: Facts, path: _Way) -> None:
        for name in self.tracked.intersection(variable_names(*exprs)):
            self._check(node, name, facts, path)

    def _check_choices(self, run: Run, name: str, facts: Facts, path: _Way) -> None:
        """Check where *run* reads a name, under the conditions of ``then if ... else ...``."""
        for chosen in _choices(self.kernel.id_to_insn[run.insn_id], name):
            conditions = [substitute(condition, run.values) for condition in chosen]
            self._check(run, name, facts.with_(*conditions), path.union(conditions))

    def _check(self, node: Node, name: str, facts: Facts, path: _Way) -> None:
        if not self._is_set(node, name, facts, path) and not facts.are_contradictory():
            raise self._error(node, name)

    def _is_set(self, node: Node, name: str, facts: Facts, path: _Way) -> bool:
        ways = self.ways.get(name, set())
        if any(way <= path for way in ways):
            return True
        if isinstance(node, Run):
            ways = {way - self.trips for way in ways}
            if any(way <= path for way in ways):
                return True
        ids = [run.insn_id for run in runs_in(node)]
        unproved = next((i for i in ids if (i, name) in self.unproved), None)
        if unproved is not None:
            self.vouched[unproved, name] = None
            return True
        certain = [way - path for way in ways if all(facts.decides(c) for c in way - path)]
        if _hold(certain, facts):
            return True
        if not isinstance(node, Run) and not _has_all_guards(node, path):
            return False
        is_set = _hold([[c for c in way - path if facts.decides(c)] for way in ways], facts)
        if is_set:
            self.vouched[runs_in(node)[0].insn_id, name] = None
        return is_set

    def _error(self, node: Node, name: str) -> CodegenError:
        insn_id = runs_in(node)[0].insn_id
        return CodegenError(
            f"the code reads '{name}' in '{_text(node)}' where it has not been set",
            kernel=self.kernel.name,
            where=f"instruction '{self.kernel.id_to_insn[insn_id]}'",
            because="the assignment is under a condition, or in a loop that may have no "
            "iterations, and the read is not",
            hint=f"let '{', '.join(self.kernel.writers.get(name, ('nothing',)))}' run in every "
            f"iteration in which '{insn_id}' or a loop around it runs; if it already does, "
            "please report this as a bug in kgen",
        )


def _always_runs(loop: For) -> bool:
    """Tell whether a loop has an iteration for all parameters: its bounds are constants."""
    return all(map(is_constant, (loop.first, loop.stop))) and bool(loop.first < loop.stop)


def _iterations(loop: For) -> list[Expr]:
    """Return the constraints on the variable of a loop in its iterations."""
    index = p.Variable(loop.iname)
    bounds = [p.Comparison(index, ">=", loop.first), p.Comparison(index, "<", loop.stop)]
    if loop.step == 1:
        return bounds
    ahead = minus(index, loop.first)
    return [*bounds, p.Comparison(p.Remainder(ahead, loop.step), "==", 0)]


def _hold(ways: Iterable[Iterable[Expr]], facts: Facts) -> bool:
    """Tell whether *facts* imply the conditions of one of *ways*."""
    where = disjunction([conjunction(list(way)) for way in ways])
    return where is True or (where is not False and facts.imply(where))


class _Choices(IdentityMapper):
    """Finds the conditions of ``then if condition else ...`` around reads of a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.conditions: tuple[Expr, ...] = ()
        self.found: list[tuple[Expr, ...]] = []

    def map_variable(self, expr: p.Variable) -> Expr:
        if expr.name == self.name:
            self.found.append(self.conditions)
        return expr

    def map_if(self, expr: p.If) -> Expr:
        self.rec(expr.condition)
        around = self.conditions
        for chosen, value in (
            (expr.condition, expr.then),
            (negation(expr.condition), expr.else_),
        ):
            self.conditions = (*around, *conjuncts(chosen))
            self.rec(value)
        self.conditions = around
        return expr


def _choices(insn: InstructionBase, name: str) -> list[tuple[Expr, ...]]:
    choices = _Choices(name)
    for expr in insn.expressions():
        choices(expr)
    return choices.found


def _text(node: Node) -> str:
    match node:
        case For():
            return f"for {node.iname} = {to_text(node.first)} .. {to_text(node.stop)}"
        case Let():
            return f"{node.name} = {to_text(node.value)}"
        case If():
            return f"if {to_text(node.condition)}"
        case Run():
            return node.insn_id
    raise AssertionError(node)


def _has_all_guards(node: Node, path: _Way) -> bool:
    """Tell whether *path* has all inner conditions that could stand around *node*."""
    inner = {*variables_in(node)}

    def is_bare(below: Node) -> bool:
        if isinstance(below, Run):
            return True
        if isinstance(below, If) and below is not node:
            own = conjuncts(below.condition)
            if any(inner.isdisjoint(variable_names(c)) and c not in path for c in own):
                return False
        return any(map(is_bare, children_of(below)))

    return is_bare(node)
