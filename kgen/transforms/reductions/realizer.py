"""Replacing reductions by accumulators, one instruction at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pymbolic.primitives as p

from kgen.errors import TransformError, counted, naming_place
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    contains_reduction,
    is_constant,
    to_text,
    variable_names,
)
from kgen.ir.instruction import CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.ordered_set import OrderedSet
from kgen.transforms.reductions.builder import Accumulated, AccumulatorBuilder, LoopRenamer
from kgen.transforms.reductions.loop import accumulate_in_loop
from kgen.transforms.reductions.loops import Place, ReductionLoops
from kgen.transforms.reductions.parallel import accumulate_in_parallel, find_distribution, run_once
from kgen.transforms.reductions.per_iteration import (
    accumulate_per_iteration,
    find_interchanged_loops,
)
from kgen.transforms.reductions.scan import ScanPolicy, plan_scan
from kgen.transforms.reductions.scan_steps import accumulate_scan
from kgen.transforms.reductions.site import Site

__all__ = ["Realizer"]


class Realizer:
    """Replaces the reductions of instructions by accumulators.

    :arg nested: replace reductions inside others, too
    :arg types_needed: reject operands of unknown types; else accumulators have no type if the
        operation starts with the same value for all types
    :arg makes_arrays: a reduction whose loop is outside some enclosing loops has an accumulator
        for each of their iterations
    """

    def __init__(
        self,
        kernel: LoopKernel,
        *,
        nested: bool,
        wishes: ScanPolicy,
        types_needed: bool,
        makes_arrays: bool,
    ) -> None:
        self.makes_arrays = makes_arrays
        self.nested = nested
        self.wishes = wishes
        self.builder = AccumulatorBuilder(kernel, self._realize_operands, types_needed=types_needed)
        #: further instructions that an instruction was replaced by
        self.parts: dict[str, tuple[str, ...]] = {}

    def realize(self, insn: InstructionBase) -> list[InstructionBase]:
        """Return the instructions that replace *insn*; the last ones write what it wrote."""
        with naming_place("instruction", insn):
            return self._realize(insn)

    def _realize(self, insn: InstructionBase) -> list[InstructionBase]:
        plain = OrderedSet(self._before_reductions(insn.predicates))
        site = Site(
            insn,
            insn.within_inames,
            plain,
            insn.depends_on,
            Place(insn.within_inames),
            sharers=(insn.id, plain),
        )
        waits: list[str] = []
        for condition in insn.predicates - plain:
            operands = _Operands(self, site)
            site = self.guarded(site, operands.rec(condition))
            waits += operands.waits
        if plain != insn.predicates:
            insn = insn.copy(predicates=site.predicates)
        if isinstance(insn, CallInstruction) and isinstance(insn.expression, Reduction):
            return self._with_accumulators(self._realize_several(insn, site.after(waits)))
        operands = _Operands(self, site)
        changed = insn.with_transformed_expressions(operands.rec)
        depends_on = site.depends_on.union(waits, operands.waits)
        return self._with_accumulators([changed.copy(depends_on=depends_on)])

    def accumulate(self, reduction: Reduction, site: Site) -> Accumulated:
        """Append the instructions that compute *reduction*, as its loops require."""
        builder = self.builder
        reduction = builder.loops.expanded(reduction)
        if not reduction.inames:
            operands, site = self._realize_operands(reduction, reduction.exprs, site)
            return Accumulated(operands, tuple(sorted(site.depends_on)))
        scan = plan_scan(builder, reduction, site, self.wishes)
        if scan is not None:
            return accumulate_scan(builder, reduction, scan, site)
        spread = find_distribution(builder, reduction, site)
        if spread is not None:
            return accumulate_in_parallel(builder, reduction, spread, site)
        apart = find_interchanged_loops(builder, reduction, site) if self.makes_arrays else None
        if apart is not None:
            return accumulate_per_iteration(builder, reduction, apart, site)
        return accumulate_in_loop(builder, reduction, site)

    def guarded(self, site: Site, condition: Expr) -> Site:
        """Return the same place, where values matter only under a condition on accumulators."""
        return site.guarded(condition, self.builder.writers_of(condition))

    def _before_reductions(self, conditions: Iterable[Expr]) -> Iterator[Expr]:
        """Yield the conditions to evaluate before the first one that has a reduction.

        Later ones may read elements only if that holds; but those that read none may come first.
        """
        are_first = True
        arrays = self.builder.kernel.array_vars.keys()
        for condition in conditions:
            if contains_reduction(condition):
                are_first = False
            elif are_first or arrays.isdisjoint(variable_names(condition)):
                yield condition

    def _with_accumulators(self, insns: list[InstructionBase]) -> list[InstructionBase]:
        """Return all new instructions, *insns* the last ones."""
        emitted = self.builder.take_emitted()
        kernel = self.builder.kernel
        return [*emitted.instructions, *(run_once(kernel, insn, emitted.axes) for insn in insns)]

    def _realize_several(self, insn: CallInstruction, site: Site) -> list[InstructionBase]:
        """Make ``a, b = argmin(...)`` one assignment per place."""
        found = self.accumulate(insn.expression, site)
        if len(found.values) != len(insn.assignees):
            raise TransformError(
                f"'{to_text(insn.expression)}' has {counted(len(found.values), 'value')} "
                "and is assigned "
                f"to {len(insn.assignees)} places",
                where=f"instruction '{insn.id}'",
            )
        first = str(insn.id)
        ids = [first, *(self.builder.new_id(first) for _ in found.values[1:])]
        self.parts[first] = tuple(ids[1:])
        operands = _Operands(self, site)
        places = [operands.rec(place) for place in insn.assignees]
        behind = site.after([*found.writers, *operands.waits])
        return [
            behind.assign(insn_id, place, value).copy(temp_var_type=kind)
            for insn_id, place, kind, value in zip(
                ids, places, insn.temp_var_types, found.values, strict=True
            )
        ]

    def _realize_operands(
        self, reduction: Reduction, operands: tuple[Expr, ...], site: Site
    ) -> tuple[tuple[Expr, ...], Site]:
        """Replace the reductions in the operands of another one."""
        if not self.nested:
            kept = _Kept(self.builder.loops, site.place, str(site.insn.id))
            return tuple(map(kept.rec, operands)), site
        site, operands = self._only_where_it_counts(reduction, operands, site)
        inner = _Operands(self, site)
        operands = tuple(value for operand in operands for value in inner.values(operand))
        return operands, site.after(inner.waits)

    def _only_where_it_counts(
        self, reduction: Reduction, operands: tuple[Expr, ...], site: Site
    ) -> tuple[Site, tuple[Expr, ...]]:
        """Guard a step that otherwise changes nothing by the condition of a reduction inside it.

        ``sum(j, if(i != j, sum(k, a[j, k]), 0))`` steps under ``i != j``.
        """
        match operands:
            case (p.If(then=then, condition=condition, else_=other),) if (
                is_constant(other)
                and contains_reduction(then)
                and not contains_reduction(condition)
                and other
                == self.builder.starts(reduction, self.builder.operand_types(operands[0]))[0]
            ):
                return self.guarded(site, condition), (then,)
        return site, operands


class _Kept(IdentityMapper):
    """Gives loops to the reductions that stay inside one that is replaced."""

    def __init__(self, loops: ReductionLoops, place: Place, insn_id: str) -> None:
        super().__init__()
        self.loops = loops
        self.place = place
        self.insn_id = insn_id

    def map_reduction(self, expr: Reduction) -> Expr:
        copies = self.loops.loops_kept(expr, self.place, self.insn_id)
        rename = LoopRenamer({old: p.Variable(new) for old, new in copies.items()})
        inner = _Kept(self.loops, self.place.inside(expr.inames, copies), self.insn_id)
        inames = tuple(copies.get(name, name) for name in expr.inames)
        return expr.over(inames, tuple(inner.rec(rename(part)) for part in expr.exprs))


class _Operands(IdentityMapper):
    """Replaces the reductions in the expressions at one place.

    ``waits`` are the ids of the instructions that the new expressions depend on.
    """

    def __init__(self, realizer: Realizer, site: Site) -> None:
        super().__init__()
        self.realizer = realizer
        self.site = site
        self.waits: list[str] = []

    def values(self, operand: Expr) -> tuple[Expr, ...]:
        """Return an operand of a reduction, or one for each value of a reduction inside."""
        if not isinstance(operand, Reduction):
            return (self.rec(operand),)
        found = self.realizer.accumulate(operand, self.site)
        self.waits += found.writers
        return tuple(found.values)

    def map_reduction(self, expr: Reduction) -> Expr:
        found = self.realizer.accumulate(expr, self.site)
        self.waits += found.writers
        if len(found.values) > 1:
            raise TransformError(
                f"'{to_text(expr)}' has {counted(len(found.values), 'value')} and is used as a "
                "single value",
                kernel=self.realizer.builder.kernel.name,
                where=f"instruction '{self.site.insn.id}'",
                hint="assign it to as many variables first: a, b = ...",
            )
        return self.realizer.builder.results(expr, found.values)[0]

    def map_if(self, expr: p.If) -> Expr:
        if not contains_reduction(expr):
            return expr
        condition = self.rec(expr.condition)
        then = self._under(condition, expr.then)
        return p.If(condition, then, self._under(p.LogicalNot(condition), expr.else_))

    def map_logical_and(self, expr: p.LogicalAnd | p.LogicalOr) -> Expr:
        if not contains_reduction(expr):
            return expr
        known = type(expr)(())
        for child in expr.children:
            condition = p.LogicalNot(known) if isinstance(known, p.LogicalOr) else known
            known = type(expr)((*known.children, self._under(condition, child)))
        return known

    map_logical_or = map_logical_and

    def _under(self, condition: Expr, expr: Expr) -> Expr:
        """Replace the reductions in *expr*, whose value matters only if *condition* holds."""
        if not contains_reduction(expr):
            return expr
        inner = _Operands(self.realizer, self.realizer.guarded(self.site, condition))
        result = inner.rec(expr)
        self.waits += inner.waits
        return result
