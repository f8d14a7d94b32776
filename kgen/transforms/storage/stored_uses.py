"""Uses of a rule that are to read stored values: found, marked, and replaced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.access import Access, Place
from kgen.analysis.footprints import Footprints
from kgen.analysis.swept import Axis, first_outside, swept_footprint
from kgen.errors import TransformError, message
from kgen.ir.affine import simplify
from kgen.ir.data import SubstitutionRule, TemporaryVariable
from kgen.ir.expr import Expr, NameMapper, TaggedVariable, subscript, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.match import ConcreteMatchable, parse_stack_match
from kgen.transforms.array_accesses import ArrayAccessMapper, Index
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import (
    NothingSelectedError,
    taken_names,
)
from kgen.transforms.storage.storing import Uses
from kgen.transforms.uses import rules_of

__all__ = [
    "Marked",
    "stored_reader",
    "given_access",
    "leave_uncovered",
    "mark_uses",
]

#: an instruction, and where in the storage it uses the rule
_Use = tuple[str, tuple[Expr, ...]]


@dataclass(frozen=True)
class Marked:
    """A kernel with the uses of a rule replaced by elements of an array *name*."""

    kernel: LoopKernel
    name: str
    users: tuple[InstructionBase, ...]
    rule_stays: bool


def mark_uses(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    uses: Uses,
    axes: Sequence[str],
    left: Collection[_Use] = (),
) -> Marked:
    """Replace uses of a rule by elements of a new array, one axis for each of *axes*.

    Those in *left* stay as they are.
    """
    name = UniqueNameGenerator(set(taken_names(kernel)))(f"{rule.name}_uses")
    marker = _UseMarker(kernel, rule, uses, axes, name, left)
    instructions = tuple(marker.mark(insn) for insn in kernel.instructions)
    if not marker.users:
        raise NothingSelectedError(
            message(
                f"no use of rule '{rule.name}' is meant",
                kernel=kernel.name,
                hint="look at within=..., and at tags such as 'name$tag'",
            )
        )
    array = TemporaryVariable(name)
    rules = rules_of(kernel.substitutions, instructions)
    changed = kernel.copy(
        instructions=instructions,
        temporary_variables={**kernel.temporary_variables, name: array},
    )
    return Marked(changed, name, tuple(marker.users), rule.name in rules)


def leave_uncovered(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    uses: Uses,
    axes: Sequence[str],
    marked: Marked,
    stored: Sequence[Access],
    outer: Collection[str],
) -> Marked:
    """Mark only the uses that *stored* covers in each iteration of the loops in *outer*.

    Where it covers none, all stay marked, for whoever asks for more than one of them.
    """
    dims = [Axis(f"{axis}'", uses.valid_along(axis, f"{axis}'")) for axis in axes]
    given = swept_footprint(marked.kernel, stored, outer, dims)
    plain = [Axis(dim.name) for dim in dims]

    def is_covered(access: Access) -> bool:
        if not set(outer) <= set(access.place.inames):
            return False
        try:
            used = swept_footprint(kernel, [access], outer, plain)
        except TransformError:  # a subscript that is not affine
            return False
        return first_outside(kernel, used, given) is None

    left: set[_Use] = set()
    some = marked
    while True:
        accesses = Footprints.of(some.kernel).accesses[some.name]
        uncovered = [access for access in accesses if not is_covered(access)]
        if not uncovered:
            return some
        more = {(a.insn_id, a.index) for a in uncovered if a.index is not None} - left
        if len(uncovered) == len(accesses) or not more:
            return marked
        left |= more
        some = mark_uses(kernel, rule, uses, axes, left)  # around those left, others have changed


class _UseMarker(NameMapper):
    """Replaces the uses of a rule by elements of an array."""

    def __init__(
        self,
        kernel: LoopKernel,
        rule: SubstitutionRule,
        uses: Uses,
        axes: Sequence[str],
        name: str,
        left: Collection[_Use],
    ) -> None:
        super().__init__(rule.name)
        self.left = left
        self.kernel = kernel
        self.rule = rule
        self.tags = uses.tags
        self.test = parse_stack_match(uses.within)
        self.axes = axes
        self.name = name
        self.insn: InstructionBase | None = None
        self.users: list[InstructionBase] = []

    def mark(self, insn: InstructionBase) -> InstructionBase:
        """Replace the uses in an instruction, and remember it if there are any."""
        if self.rule.name not in insn.mentioned:
            return insn
        self.insn = insn
        return insn.with_transformed_expressions(self.rec)

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return self._use(expr, expr, ()) if expr.name == self.rule.name else expr

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any) -> Expr:
        return self.map_variable(expr, *args)

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        operands = self.map_tuple(expr.parameters, *args)
        use = expr if operands is expr.parameters else p.Call(expr.function, operands)
        if isinstance(expr.function, p.Variable) and expr.function.name == self.rule.name:
            return self._use(use, expr.function, operands)
        return use

    def _use(self, use: Expr, name: p.Variable, operands: tuple[Expr, ...]) -> Expr:
        tags = name.tags if isinstance(name, TaggedVariable) else frozenset()
        assert self.insn is not None
        stack = (ConcreteMatchable(self.rule.name, tags),)
        if not self.tags <= tags or not self.test(self.kernel, self.insn, stack):
            return use
        index = index_along(self.kernel, self.rule, self.axes, operands)
        if self.left:
            place = tuple(expand_expression(self.kernel, part) for part in index)
            if (self.insn.id, place) in self.left:
                return use
        if not self.users or self.users[-1] is not self.insn:
            self.users.append(self.insn)
        return subscript(p.Variable(self.name), index)


def index_along(
    kernel: LoopKernel, rule: SubstitutionRule, axes: Sequence[str], operands: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """Return the position of a use of a rule along the axes of its storage."""
    if len(operands) != len(rule.arguments):
        raise TransformError(
            message(
                f"rule '{rule}' takes {len(rule.arguments)} arguments, not {len(operands)}",
                kernel=kernel.name,
            )
        )
    at = dict(zip(rule.arguments, operands, strict=True))
    return tuple(at[axis] if axis in at else p.Variable(axis) for axis in axes)


def given_access(
    kernel: LoopKernel, rule: SubstitutionRule, axes: Sequence[str], operands: tuple[Expr, ...]
) -> Access:
    """Return what a use that the caller wrote down stands for, in all loops that it names."""
    index = index_along(kernel, rule, axes, operands)
    names = variable_names(*(part for part in index if part is not None))
    inames = sorted(kernel.inames.keys() & set(names), key=kernel.iname_order.__getitem__)
    return Access("", rule.name, index, False, Place(tuple(inames)))


def stored_reader(
    marked: Marked, target: str, kept: Sequence[tuple[int, Expr]]
) -> ArrayAccessMapper:
    """Return what replaces the elements of the marking array by those of the storage."""

    def read(variable: p.Variable, index: Index) -> Expr:
        return subscript(p.Variable(target), tuple(simplify(index[k] - low) for k, low in kept))

    return ArrayAccessMapper(marked.kernel, {marked.name: read})
