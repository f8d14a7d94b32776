"""Reductions replaced by accumulators, instruction after instruction."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.typing import ExpressionTyper
from kgen.errors import TransformError, message
from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    SubstitutionMapper,
    contains_reduction,
    is_constant,
    to_text,
    variable_names,
)
from kgen.ir.instruction import CallInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import BOOL8, AddressSpace, KgenType
from kgen.transforms.reduction_apart import accumulate_apart, find_apart
from kgen.transforms.reduction_context import Context
from kgen.transforms.reduction_loops import Place, ReductionLoops
from kgen.transforms.reduction_parallel import (
    Interleaved,
    accumulate_in_parallel,
    find_spread,
    run_once,
)
from kgen.transforms.scan import ScanWishes, plan_scan
from kgen.transforms.scan_groups import GroupScan
from kgen.transforms.scan_steps import accumulate_scan
from kgen.transforms.select import taken_names

__all__ = ["Realizer"]


class _Copier(SubstitutionMapper):
    """Puts copies in the place of inames, but not of those that a reduction inside has again."""

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        others = {n: new for n, new in self.replacements.items() if n not in expr.inames}
        if len(others) < len(self.replacements):
            return IdentityMapper.map_reduction(_Copier(others), expr)
        return super().map_reduction(expr, *args)


class Realizer(IdentityMapper):
    """Replaces reductions by their accumulators: ``rec(expr, context)``."""

    def __init__(
        self, kernel: LoopKernel, *, nested: bool, wishes: ScanWishes, makes_arrays: bool
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.makes_arrays = makes_arrays
        self.nested = nested
        self.wishes = wishes
        self.loops = ReductionLoops(kernel)
        self.types: dict[str, Any] = {}
        self.typer = ExpressionTyper(kernel, self.types)
        self.temporaries: dict[str, TemporaryVariable] = {}
        #: further instructions that an instruction was replaced by
        self.parts: dict[str, tuple[str, ...]] = {}
        #: scans across work-groups
        self.scans: list[GroupScan] = []
        #: copies of loops that are inside of those of reductions
        self.apart: dict[Hashable, dict[str, str]] = {}
        #: other instructions that changed
        self.moved: dict[str, InstructionBase] = {}
        self._names = UniqueNameGenerator(set(taken_names(kernel)))
        self.new_id = kernel.get_instruction_id_generator()
        self.update_of: dict[str, str] = {}
        #: the steps of reductions over work-items, counted from 1
        self.step_of: dict[str, int] = {}

    def realize(self, insn: InstructionBase) -> list[InstructionBase]:
        """Return the instructions that replace *insn*; the last ones write what it wrote."""
        self.typer.insn = insn
        plain = frozenset(c for c in insn.predicates if not contains_reduction(c))
        context = Context(
            insn,
            insn.within_inames,
            plain,
            insn.depends_on,
            Place(insn.within_inames),
            sharers=(insn.id, plain),
        )
        for condition in insn.sorted_predicates:
            if condition not in plain:
                context = self._guarded(context, self.rec(condition, context))
        if plain != insn.predicates:
            insn = insn.copy(predicates=context.predicates)
        if isinstance(insn, CallInstruction) and isinstance(insn.expression, Reduction):
            return self._realize_several(insn, context)
        changed = insn.with_transformed_expressions(lambda expr: self.rec(expr, context))
        depends_on = context.depends_on.union(context.updates)
        return self._joined(context, [changed.copy(depends_on=depends_on)])

    def _joined(self, context: Context, insns: list[InstructionBase]) -> list[InstructionBase]:
        """Return all new instructions, *insns* the last ones.

        The steps of several reductions over work-items take turns, so that they share
        barriers.
        """
        if not context.axes:
            return [*context.out, *insns]
        context.out.sort(key=lambda new: self.step_of.get(str(new.id), 0))
        return [*context.out, *(run_once(self.kernel, insn, context.axes) for insn in insns)]

    def _realize_several(self, insn: CallInstruction, context: Context) -> list[InstructionBase]:
        """Make ``a, b = argmin(...)`` one assignment per place."""
        values = self._accumulate(insn.expression, context)
        if len(values) != len(insn.assignees):
            raise TransformError(
                message(
                    f"'{to_text(insn.expression)}' has {len(values)} values and is assigned "
                    f"to {len(insn.assignees)} places",
                    kernel=self.kernel.name,
                    where=f"instruction '{insn.id}'",
                )
            )
        first = str(insn.id)
        ids = [first, *(self.new_id(first) for _ in values[1:])]
        self.parts[first] = tuple(ids[1:])
        places = zip(ids, insn.assignees, insn.temp_var_types, values, strict=True)
        return self._joined(
            context,
            [
                context.assign(insn_id, self.rec(place, context), value, *context.updates).copy(
                    temp_var_type=kind
                )
                for insn_id, place, kind, value in places
            ],
        )

    # -- expressions --------------------------------------------------------------------------

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        context: Context = args[0]
        values = self._accumulate(expr, context)
        if len(values) > 1:
            raise TransformError(
                message(
                    f"'{to_text(expr)}' has {len(values)} values and is used as one",
                    kernel=self.kernel.name,
                    where=f"instruction '{context.insn.id}'",
                    hint="assign it to as many variables first: a, b = ...",
                )
            )
        return values[0]

    def map_if(self, expr: p.If, *args: Any) -> Expr:
        if not contains_reduction(expr):
            return expr
        condition = self.rec(expr.condition, *args)
        then = self._under(condition, expr.then, args[0])
        return p.If(condition, then, self._under(p.LogicalNot(condition), expr.else_, args[0]))

    def map_logical_and(self, expr: p.LogicalAnd, *args: Any) -> Expr:
        if not contains_reduction(expr):
            return expr
        known: list[Expr] = []
        for child in expr.children:
            known.append(self._under(p.LogicalAnd(tuple(known)), child, args[0]))
        return p.LogicalAnd(tuple(known))

    def map_logical_or(self, expr: p.LogicalOr, *args: Any) -> Expr:
        if not contains_reduction(expr):
            return expr
        known: list[Expr] = []
        for child in expr.children:
            known.append(self._under(p.LogicalNot(p.LogicalOr(tuple(known))), child, args[0]))
        return p.LogicalOr(tuple(known))

    def _under(self, condition: Expr, expr: Expr, context: Context) -> Expr:
        """Realize the reductions in *expr*, which counts only where *condition* holds."""
        if not contains_reduction(expr):
            return expr
        return self.rec(expr, self._guarded(context, condition))

    def _guarded(self, context: Context, condition: Expr) -> Context:
        updates = self.update_of
        wait_for = {updates[name] for name in variable_names(condition) if name in updates}
        return context.guarded(condition, wait_for)

    # -- accumulators -------------------------------------------------------------------------

    def _accumulate(self, reduction: Reduction, context: Context) -> tuple[Expr, ...]:
        """Append the instructions that compute *reduction*; return the accumulators."""
        scan = plan_scan(self, reduction, context)
        if scan is not None:
            return accumulate_scan(self, reduction, scan, context)
        spread = find_spread(self, reduction, context)
        if spread is not None:
            return accumulate_in_parallel(self, reduction, spread, context)
        if self.makes_arrays:
            apart = find_apart(self, reduction, context)
            if apart is not None:
                return accumulate_apart(self, reduction, apart, context)
        return self.accumulate(reduction, context)

    def accumulate(
        self,
        reduction: Reduction,
        context: Context,
        interleaved: Interleaved | None = None,
        renamed: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Expr, ...]:
        """Append the loops that compute *reduction*; return the accumulators.

        Those are arrays, one entry per instance, for instances that run *interleaved*. Loops
        around that are *renamed* are inside of its own.
        """
        found = self.typer(reduction)
        dtypes: tuple[KgenType, ...] = found if isinstance(found, tuple) else (found,)
        shared = "simul_reduce" if reduction.allow_simultaneous else context.sharers
        root, suffix = str(context.insn.id), "_".join(reduction.inames)
        copies = self.loops.loops_for(reduction, context.place, shared, root)
        inside = self.loops.loops_shared(reduction, root)
        outside = context.without(self.inside(inside, context.depends_on))
        outside = outside.outside_of(frozenset(renamed.values()))
        self.types.update((new, self.kernel.index_dtype) for new in copies.values())
        shape = () if interleaved is None else interleaved.shape
        totals = tuple(self.temporary(f"acc_{suffix}", dtype, shape) for dtype in dtypes)
        accumulators: tuple[Expr, ...] = totals
        neutral = reduction.operation.neutral(dtypes)
        if interleaved is None:
            starts = self.assign(outside, totals, neutral, (), f"{root}_{suffix}_init")
        else:
            inames, each = interleaved.every(self, totals)
            outside = dataclasses.replace(outside, within=outside.within.union(inames))
            starts = self.assign(outside, each, neutral, (), f"{root}_{suffix}_init")
            accumulators = interleaved.own(totals, {**copies, **renamed})
        inner = dataclasses.replace(
            context,
            within=context.within.union(copies.get(name, name) for name in reduction.inames),
            place=context.place.inside(reduction.inames, copies),
            sharers=starts[0],
            out=[],
            updates=[],
        )
        replaced = {old: p.Variable(new) for old, new in (*renamed.items(), *copies.items())}
        copier = _Copier(replaced)
        operands = tuple(copier(part) for part in reduction.exprs) if replaced else reduction.exprs
        context.updates.extend(
            self.add_up(reduction, accumulators, operands, inner, context, starts)
        )
        return totals

    def assign(
        self,
        context: Context,
        places: Sequence[Expr],
        values: Sequence[Expr],
        wait_for: Collection[str],
        id_prefix: str,
    ) -> list[str]:
        """Append one assignment per place; return their ids."""
        ids: list[str] = []
        for place, value in zip(places, values, strict=True):
            ids.append(self.new_id(id_prefix))
            context.out.append(context.assign(ids[-1], place, value, *wait_for))
        return ids

    def add_up(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: tuple[Expr, ...],
        inner: Context,
        context: Context,
        wait_for: Collection[str],
    ) -> list[str]:
        """Append what combines the accumulators with the operands in the loop of *inner*.

        It waits for the instructions *wait_for*; return the ids of those that write the
        accumulators.
        """
        types = tuple(self.typer(operand) for operand in operands)
        if self.nested:
            (inner, operands) = self._only_where_it_counts(reduction, operands, inner)
            operands = tuple(self.rec(operand, inner) for operand in operands)
        context.out.extend(inner.out)
        inner = dataclasses.replace(
            inner, depends_on=inner.depends_on.union(wait_for, inner.updates), out=context.out
        )
        return self.combine(reduction, accumulators, operands, types, inner)

    def _only_where_it_counts(
        self, reduction: Reduction, operands: tuple[Expr, ...], inner: Context
    ) -> tuple[Context, tuple[Expr, ...]]:
        """Let a step that else changes nothing wait for the condition of a reduction inside.

        ``sum(j, if(i != j, sum(k, a[j, k]), 0))`` steps under ``i != j``.
        """
        match operands:
            case (p.If(then=then, condition=condition, else_=other),) if (
                is_constant(other)
                and contains_reduction(then)
                and not contains_reduction(condition)
                and other == reduction.operation.neutral([self.typer(operands[0])])[0]
            ):
                return self._guarded(inner, condition), (then,)
        return inner, operands

    def combine(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: Sequence[Expr],
        types: Sequence[KgenType],
        context: Context,
    ) -> list[str]:
        """Append one step, of operands of some *types*; return what writes the accumulators."""
        prefix = f"{context.insn.id}_{'_'.join(reduction.inames)}"
        if len(accumulators) == 1:
            last = self._update(reduction, accumulators, operands, context, prefix)
        else:
            last = self._update_together(reduction, accumulators, operands, types, context, prefix)
        self.update_of.update(
            (assignee_name(accumulator), insn_id)
            for accumulator, insn_id in zip(accumulators, last, strict=True)
        )
        return last

    def inside(self, loops: frozenset[str], insn_ids: frozenset[str]) -> frozenset[str]:
        """Return those instructions that are inside of one of the *loops*."""
        insns = (self.kernel.id_to_insn.get(name) for name in insn_ids)
        return frozenset(str(i.id) for i in insns if i is not None and i.within_inames & loops)

    def _update(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: Sequence[Expr],
        context: Context,
        prefix: str,
    ) -> list[str]:
        dtypes = [self.types[assignee_name(accumulator)] for accumulator in accumulators]
        (value,) = reduction.operation.combine(accumulators, operands, dtypes)
        update = self.new_id(f"{prefix}_update")
        context.out.append(context.assign(update, accumulators[0], value))
        return [update]

    def _update_together(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: Sequence[Expr],
        types: Sequence[KgenType],
        context: Context,
        prefix: str,
    ) -> list[str]:
        """Update accumulators of which each new value may need the old values of all.

        So all new values but the last one are computed before any is stored. Where all of
        them are taken or none is, whether they are is found out once.
        """
        suffix = "_".join(reduction.inames)
        out, done = context.out, []
        held: list[Expr] = []
        for operand, dtype in zip(operands, types, strict=True):
            if not isinstance(operand, p.Variable) and not is_constant(operand):
                target = self.temporary(f"operand_{suffix}", dtype)
                done.append(self.new_id(f"{prefix}_operand"))
                out.append(context.assign(done[-1], target, operand))
                operand = target
            held.append(operand)
        names = [assignee_name(accumulator) for accumulator in accumulators]
        dtypes = [self.types[name] for name in names]
        combined = reduction.operation.combine(accumulators, held, dtypes)
        condition = _choice(combined, accumulators)
        if condition is not None:
            target = self.temporary(f"takes_{suffix}", BOOL8)
            chosen = self.new_id(f"{prefix}_takes")
            out.append(context.assign(chosen, target, condition, *done))
            taking = context.guarded(target, (*done, chosen))
            new_values = [value.then for value in combined]
            return self.assign(taking, accumulators, new_values, (), f"{prefix}_update")
        *values, last = combined
        new: list[Expr] = []
        for name, value in zip(names, values, strict=False):
            target = self.temporary(f"new_{name}", self.types[name])
            computed = self.new_id(f"{prefix}_new")
            out.append(context.assign(computed, target, value, *done))
            done.append(computed)
            new.append(target)
        updates = []
        for accumulator, value in zip(reversed(accumulators), (last, *reversed(new)), strict=True):
            updates.append(self.new_id(f"{prefix}_update"))
            out.append(context.assign(updates[-1], accumulator, value, *done))
            done.append(updates[-1])
        return updates[::-1]

    def move(
        self, insn: InstructionBase, left: Collection[str], renamed: Mapping[str, str]
    ) -> None:
        """Take an instruction out of some loops, and give it copies of others."""
        before = self.moved.get(str(insn.id), insn)
        within = before.within_inames.difference(left, renamed).union(renamed.values())
        copier = _Copier({old: p.Variable(new) for old, new in renamed.items()})
        changed = before.with_transformed_expressions(copier)
        self.moved[str(insn.id)] = changed.copy(within_inames=within)

    def temporary(
        self,
        name: str,
        dtype: KgenType,
        shape: tuple[int, ...] = (),
        address_space: AddressSpace = AddressSpace.PRIVATE,
    ) -> p.Variable:
        """Make a temporary with a name based on *name*."""
        name = self._names(name)
        self.types[name] = dtype
        self.temporaries[name] = TemporaryVariable(
            name, dtype=dtype, shape=shape, address_space=address_space
        )
        return p.Variable(name)


def _choice(values: Sequence[Expr], old: Sequence[Expr]) -> Expr | None:
    """Return the condition under which all *values* are new ones, if they else are the *old*."""
    conditions = {
        value.condition if isinstance(value, p.If) and value.else_ == before else None
        for value, before in zip(values, old, strict=True)
    }
    return conditions.pop() if len(conditions) == 1 else None
