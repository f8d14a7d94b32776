"""Assignments whose iterations overwrite each other, such as sums without an accumulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.analysis.access import Place
from kgen.analysis.footprints import Footprints
from kgen.analysis.points import describe_pair, example
from kgen.errors import ExpressionToAffineConversionError, is_silenced, message
from kgen.ir.affine import linear_form
from kgen.ir.analyses import Analysis
from kgen.ir.construction.dependencies import instruction_reads
from kgen.ir.expansion import RuleExpander
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    Reduction,
    WalkMapper,
    substitute,
    to_text,
    variable_names,
    walk,
)
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.dims import Set, rename_dims, to_named, with_params
from kgen.ir.sets.effort import answer
from kgen.ir.sets.names import PAIR
from kgen.ir.sets.quasi_affine import aff_from_expr, compare
from kgen.ir.tags import ConcurrentTag
from kgen.ir.types import AddressSpace

__all__ = ["Overwrite", "find_overwrites", "warn_of_overwrites"]


@dataclass(frozen=True)
class Overwrite:
    """An assignment, loops whose iterations write one element, and two such iterations."""

    insn: Assignment
    loops: tuple[str, ...]
    point: str


def warn_of_overwrites(kernel: LoopKernel, loop: str | None = None) -> None:
    """Warn of assignments by which iterations of a *loop* overwrite each other's values.

    By default of any loop. ``overwritten(id)`` in ``silenced_warnings`` states that only the last
    value is needed.
    """
    for found in find_overwrites(kernel):
        if loop is not None and loop not in found.loops:
            continue
        names = ", ".join(f"'{name}'" for name in found.loops)
        loops = f"loop {names}" if len(found.loops) == 1 else f"loops {names}"
        place = to_text(found.insn.assignee)
        text = message(
            f"iterations of {loops} overwrite each other's '{place}'",
            kernel=kernel.name,
            where=f"instruction '{found.insn}'",
            point=found.point,
            because="they assign different values to one element, and only the last one is kept",
            hint=_hint(found, place),
        )
        kernel.warn(text, f"overwritten({found.insn.id})")


def _hint(found: Overwrite, place: str) -> str:
    """Return how to sum the values, and how to keep all of them."""
    if frozenset(variable_names(found.insn.assignee)).isdisjoint(found.loops):
        loops = ", ".join(found.loops)
        of_loops = loops if len(found.loops) == 1 else f"[{loops}]"
        total = f"'{place} = sum({of_loops}, ...)'"
    else:
        total = f"'{place} = {place} + ...'"
    return f"{total} adds them up; another subscript for each iteration keeps them all"


def find_overwrites(kernel: LoopKernel) -> Iterator[Overwrite]:
    """Yield the assignments to elements that other iterations assign different values to.

    Exempt are local memory, of which each work-group has its own, accumulations, bounds of
    loops, elements that instructions in the loop or reductions over it read, assignments under
    conditions that depend on the loop, atomic ones, and parallel loops, whose races are errors.
    isl is only queried if subscripts do not obviously distinguish iterations.
    """
    for insn in kernel.instructions:
        if isinstance(insn, Assignment) and not _is_exempt(kernel, insn):
            found = _find_overwrite(kernel, insn)
            if found is not None:
                yield found


def _is_exempt(kernel: LoopKernel, insn: Assignment) -> bool:
    """Tell whether *insn* accumulates, sets bounds of loops, or is silenced."""
    names = {*insn.read_dependency_names(), *kernel.all_params()}
    temporary = kernel.temporary_variables.get(insn.assignee_var_names()[0])
    return (
        bool(insn.atomicity)
        or (temporary is not None and temporary.address_space == AddressSpace.LOCAL)
        or not names.isdisjoint(insn.assignee_var_names())
        or is_silenced(f"write_race({insn.id})", kernel.silenced_warnings)
    )


def _find_overwrite(kernel: LoopKernel, insn: Assignment) -> Overwrite | None:
    index = _index_of(insn.assignee)
    if index is None or insn.within_inames <= {at.name for at in index if type(at) is p.Variable}:
        return None
    loops = _undetermined(_candidates(kernel, insn), index)
    return answer(lambda: _overwrite(kernel, insn, index, loops)) if loops else None


def _index_of(place: Expr) -> tuple[Expr, ...] | None:
    if isinstance(place, p.Variable):
        return ()
    if isinstance(place, p.Subscript) and isinstance(place.aggregate, p.Variable):
        return place.index_tuple
    return None


def _candidates(kernel: LoopKernel, insn: Assignment) -> tuple[str, ...]:
    """Return the sequential loops around *insn* whose iterations may write the same element."""
    array = insn.assignee_var_names()[0]
    conditions = frozenset(variable_names(*insn.predicates))
    deciding = conditions.union(*insn.assignee_subscript_deps())
    names = _LoopNames.of(kernel)
    return tuple(
        iname
        for iname in kernel.in_order(insn.within_inames)
        if not kernel.has_tag(iname, ConcurrentTag)
        and iname not in conditions
        and array not in names.read[iname]
        and deciding.isdisjoint(names.written[iname])
    )


class _LoopNames:
    """The names that the instructions in each loop read, also through rules, and write.

    The operands of a reduction are read in its loops.
    """

    def __init__(self, kernel: LoopKernel) -> None:
        self.read: dict[str, set[str]] = {iname: set() for iname in kernel.inames}
        self.written: dict[str, set[str]] = {iname: set() for iname in kernel.inames}
        expander = RuleExpander(kernel.substitutions)
        for insn in kernel.instructions:
            written = insn.assignee_var_names()
            by_rules = instruction_reads(kernel, insn).difference(written)
            for iname in insn.within_inames:
                self.read[iname].update(insn.read_dependency_names(), by_rules)
                self.written[iname].update(written)
            self._add_operands(insn, expander)

    def _add_operands(self, insn: InstructionBase, expander: RuleExpander) -> None:
        if not insn.has_reductions and not expander.rules:
            return
        for expr in insn.expressions():
            for node in walk(expander.rec(expr, ())):
                if isinstance(node, Reduction):
                    read = mentions_of(*node.exprs).variables
                    for iname in node.inames:
                        self.read[iname].update(read)

    @classmethod
    def of(cls, kernel: LoopKernel) -> _LoopNames:
        return kernel.analyses.answer(_LOOP_NAMES, None, lambda: cls(kernel))


_LOOP_NAMES = Analysis[_LoopNames](LoopKernel)


def _undetermined(loops: tuple[str, ...], index: tuple[Expr, ...]) -> tuple[str, ...]:
    """Return the *loops* whose variables are not obviously determined by the subscripts."""
    rest = set(loops)
    axes = [(set(variable_names(axis)) & rest, _linear_names(axis)) for axis in index]
    while True:
        known = {
            name
            for names, linear in axes
            if len(names & rest) == 1
            for name in names & rest
            if name in linear
        }
        if not known:
            return tuple(name for name in loops if name in rest)
        rest -= known


def _linear_names(axis: Expr) -> set[str]:
    """Return the variables that occur in an integer expression only as a multiple."""
    atoms = [atom for _, atom in linear_form(axis).terms]
    others = {n for a in atoms if not isinstance(a, p.Variable) for n in variable_names(a)}
    return {a.name for a in atoms if isinstance(a, p.Variable)} - others


def _overwrite(
    kernel: LoopKernel, insn: Assignment, index: tuple[Expr, ...], loops: tuple[str, ...]
) -> Overwrite | None:
    """Find loops of which two iterations only differ in the value: single ones, then all."""
    found = {name: _meeting(kernel, insn, index, (name,)) for name in loops}
    points = {name: pairs for name, pairs in found.items() if pairs is not None}
    if not points and len(loops) > 1:
        pairs = _meeting(kernel, insn, index, loops)
        if pairs is not None:
            return Overwrite(insn, loops, _described(pairs))
    if not points:
        return None
    return Overwrite(insn, tuple(points), _described(next(iter(points.values()))))


def _described(pairs: Set) -> str:
    return describe_pair(example(pairs), unit="an iteration")


def _meeting(
    kernel: LoopKernel, insn: Assignment, index: tuple[Expr, ...], loops: Sequence[str]
) -> Set | None:
    """Return pairs of iterations that differ in *loops*, and assign other values to one element."""
    place = Place(kernel.in_order(insn.within_inames))
    domain, is_exact = Footprints.of(kernel).domain(place)
    named = to_named(domain.intersect_params(kernel.assumptions))
    sides = (rename_dims(named, {n: f"{n}{s}" for n in loops}) for s in PAIR)
    one, other = sides
    pairs = one.intersect(other)
    try:
        for axis in index:
            if not frozenset(variable_names(axis)).isdisjoint(loops):
                pairs = pairs.intersect(_related(pairs, axis, loops, "eq_set"))
    except ExpressionToAffineConversionError:
        return None
    differing = _Differing(kernel, insn, loops, pairs)
    differing.look_into(insn.expression)
    return None if not is_exact or differing.found.is_empty() else differing.found


def _related(pairs: Set, expr: Expr, loops: Iterable[str], relation: str) -> Set:
    """Return where the values of *expr* in two iterations satisfy a relation."""
    one, other = (
        substitute(expr, {name: p.Variable(f"{name}{suffix}") for name in loops}) for suffix in PAIR
    )
    space = with_params(pairs, variable_names(one, other)).get_space()
    return compare(aff_from_expr(space, one), relation, aff_from_expr(space, other))


class _Differing(WalkMapper):
    """Finds pairs of iterations in which an expression reads different elements or indices."""

    def __init__(
        self, kernel: LoopKernel, insn: Assignment, loops: Sequence[str], pairs: Set
    ) -> None:
        self.kernel = kernel
        self.insn = insn
        self.loops = loops
        self.pairs = pairs
        self.found = pairs.subtract(pairs)
        self.inside: frozenset[str] = frozenset()  # temporaries that are being expanded

    def _compare(self, expr: Expr) -> None:
        if frozenset(variable_names(expr)).isdisjoint(self.loops):
            return
        try:
            differ = _related(self.pairs, expr, self.loops, "ne_set")
        except ExpressionToAffineConversionError:
            self.rec(expr)
        else:
            self.found = self.found.union(self.pairs.intersect(differ))

    def look_into(self, expr: Expr) -> None:
        """Compare the operands of *expr*, with rules expanded, in the two iterations."""
        self.rec(RuleExpander(self.kernel.substitutions).rec(expr, ()))

    def map_variable(self, expr: p.Variable) -> None:
        if expr.name in self.loops:
            self._compare(expr)
        elif expr.name in self.kernel.temporary_variables:
            self._temporary(expr.name)

    map_tagged_variable = map_variable

    def _temporary(self, name: str) -> None:
        """Compare the values assigned to a temporary that no other instruction changes."""
        if name in self.inside:
            return
        writers = [self.kernel.id_to_insn[writer] for writer in self.kernel.writers.get(name, ())]
        writer = writers[0] if len(writers) == 1 else None
        if not isinstance(writer, Assignment):
            return
        written = _LoopNames.of(self.kernel).written
        reads = writer.read_dependency_names()
        if writer.within_inames <= self.insn.within_inames and all(
            reads.isdisjoint(written[iname]) for iname in self.loops
        ):
            around, self.inside = self.inside, self.inside | {name}
            self.look_into(writer.expression)
            self.inside = around

    def map_subscript(self, expr: p.Subscript) -> None:
        for index in expr.index_tuple:
            self._compare(index)

    def map_linear_subscript(self, expr: LinearSubscript) -> None:
        self._compare(expr.index)

    def map_call(self, expr: p.Call) -> None:
        for argument in expr.parameters:
            self.rec(argument)
