"""Reductions over parallel loops: what runs where, and how the parts come together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymbolic.primitives as p

from kgen.analysis.domains import bounds_of
from kgen.errors import StaticValueFindingError, TransformError, message
from kgen.ir.assignee import assignee_name
from kgen.ir.atomicity import AtomicInit
from kgen.ir.expr import Expr, Reduction, is_zero, to_text, variable_names
from kgen.ir.grid import Axis
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import (
    AxisTag,
    ConcurrentTag,
    GroupInameTag,
    HardwareConcurrentTag,
    IlpBaseTag,
    LocalInameTag,
    LocalInameTagBase,
    UnrollTag,
)
from kgen.ir.types import AddressSpace, auto
from kgen.transforms.reduction_groups import join_groups
from kgen.transforms.reduction_loops import Place
from kgen.transforms.reduction_tree import Lanes, join_lanes

if TYPE_CHECKING:
    from kgen.transforms.reduction_context import Context
    from kgen.transforms.reduction_realizer import Realizer

__all__ = ["Interleaved", "Spread", "accumulate_in_parallel", "find_spread", "run_once"]


@dataclass(frozen=True)
class Interleaved:
    """Loops whose instances have an accumulator each: ``ilp``, or a reduction's loop outside."""

    inames: tuple[str, ...]
    first: tuple[int, ...]
    shape: tuple[int, ...]
    is_unrolled: bool = True

    def every(
        self, realizer: Realizer, totals: Sequence[Expr]
    ) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
        """Make loops over all entries; return their inames, and the entries in them."""
        tags = (UnrollTag(),) if self.is_unrolled else ()
        inames = tuple(
            realizer.loops.new_range(f"{name}_each", 0, extent, *tags)
            for name, extent in zip(self.inames, self.shape, strict=True)
        )
        realizer.types.update((name, realizer.kernel.index_dtype) for name in inames)
        index = tuple(map(p.Variable, inames))
        return inames, tuple(p.Subscript(total, index) for total in totals)

    def own(self, totals: Sequence[Expr], copies: Mapping[str, str]) -> tuple[Expr, ...]:
        """Return the entries that the instances of the loops update."""
        index = tuple(
            _shifted(p.Variable(copies.get(name, name)), first)
            for name, first in zip(self.inames, self.first, strict=True)
        )
        return tuple(p.Subscript(total, index) for total in totals)


@dataclass(frozen=True)
class Spread:
    """How a reduction is spread: over work-items, work-groups, interleaved instances.

    ``left`` are the loops around it on the same hardware axes. What it computes is the same
    in all of their iterations, so it runs outside of them.
    """

    lanes: Lanes | None
    groups: Mapping[str, GroupInameTag]
    interleaved: Interleaved | None
    left: frozenset[str]
    is_atomic: bool


def find_spread(realizer: Realizer, reduction: Reduction, context: Context) -> Spread | None:
    """Find how *reduction* runs in parallel; ``None`` for one that is a loop."""
    kernel = realizer.kernel
    tags = {
        name: tag
        for name in reduction.inames
        if name in kernel.inames
        for tag in kernel.iname_tags_of_type(name, ConcurrentTag)
    }
    if not tags:
        return None
    if not kernel.target.has_hardware_axes:
        tags = {n: t for n, t in tags.items() if not isinstance(t, HardwareConcurrentTag)}
        if not tags:
            return None
    _refuse_tags(kernel, reduction, tags, context)
    on_axes = {name: tag for name, tag in tags.items() if isinstance(tag, AxisTag)}
    local = {name: tag for name, tag in on_axes.items() if isinstance(tag, LocalInameTag)}
    group = {name: tag for name, tag in on_axes.items() if isinstance(tag, GroupInameTag)}
    ilp = tuple(name for name, tag in tags.items() if isinstance(tag, IlpBaseTag))
    _refuse_order(kernel, reduction, tags, context)
    left = _loops_left(realizer, reduction, on_axes, context)
    lanes = _lanes(realizer, reduction, local, context) if local else None
    interleaved = _interleaved(realizer, ilp, context) if ilp else None
    is_atomic = bool(group) and _is_atomic(reduction, context)
    return Spread(lanes, group, interleaved, left, is_atomic)


def accumulate_in_parallel(
    realizer: Realizer, reduction: Reduction, spread: Spread, context: Context
) -> tuple[Expr, ...]:
    """Append the instructions that compute *reduction*; return what holds the results.

    That is the same in all work-items, of all groups.

    ::

        out = sum((k, i), a[k, i])   # i: l.0, 4 work-items

        acc = 0
        for k
          acc = acc + a[k, i]
        end k
        red[lane - 2] = acc          # lane >= 2
        ... lbarrier
        acc = acc + red[lane]        # lane < 2
        red[2 + lane] = acc          # lane < 2
        ... lbarrier
        acc = red[2] + red[3]
        out = acc                    # lane = 0
    """
    loops = realizer.loops
    origins = {loops.origin(name) for name in spread.left}
    place = Place(context.place.inames - origins, context.place.renamed)
    around = dataclasses.replace(context, within=context.within - spread.left, place=place)
    totals = realizer.accumulate(reduction, around, spread.interleaved)
    waits = [realizer.update_of[assignee_name(total)] for total in totals]
    if spread.interleaved is not None:
        totals, waits = _join_instances(
            realizer, reduction, around, spread.interleaved, totals, waits
        )
    if spread.lanes is not None:
        waits = join_lanes(realizer, reduction, around, spread.lanes, totals, waits)
        context.axes.update((loops.lane(tag, 1), tag) for tag, _ in spread.lanes.axes)
    if spread.groups:
        shared = "simul_reduce" if reduction.allow_simultaneous else around.sharers
        copies = loops.loops_for(reduction, around.place, shared, str(context.insn.id))
        groups = {copies.get(name, name): tag for name, tag in spread.groups.items()}
        if spread.is_atomic:
            context.axes.update(groups)
        else:
            totals, waits = join_groups(
                realizer, reduction, around, groups, spread.lanes, totals, waits
            )
            context.axes.update((loops.lane(tag, 1), tag) for tag in groups.values())
    realizer.update_of.update(
        (assignee_name(total), wait) for total, wait in zip(totals, waits, strict=True)
    )
    context.updates.extend(waits)
    return totals


def run_once(
    kernel: LoopKernel, insn: InstructionBase, axes: Mapping[str, AxisTag]
) -> InstructionBase:
    """Let *insn* run for one index of each of *axes*, if others would see it run more often.

    Every work-item has a private result; memory that is shared, one work-item writes.
    """
    around = {tag for name in insn.within_inames for tag in kernel.inames[name].tags}
    missing = {name for name, tag in axes.items() if tag not in around}
    if not missing or not _writes_shared(kernel, insn):
        return insn
    return insn.copy(within_inames=insn.within_inames | missing)


def _writes_shared(kernel: LoopKernel, insn: InstructionBase) -> bool:
    """Tell whether *insn* writes to memory of several work-items."""
    places = zip(insn.assignee_var_names(), insn.assignee_subscript_deps(), strict=True)
    for name, indices in places:
        space = getattr(kernel.array_vars.get(name), "address_space", AddressSpace.PRIVATE)
        if space in (AddressSpace.GLOBAL, AddressSpace.LOCAL):
            return True
        if space is auto and any(
            kernel.has_tag(index, LocalInameTagBase) for index in indices & kernel.inames.keys()
        ):
            return True
    return False


# -- what a reduction asks for ----------------------------------------------------------------


def _refuse_tags(
    kernel: LoopKernel,
    reduction: Reduction,
    tags: Mapping[str, ConcurrentTag],
    context: Context,
) -> None:
    owner: dict[ConcurrentTag, str] = {}
    for name, tag in tags.items():
        if not isinstance(tag, LocalInameTag | GroupInameTag | IlpBaseTag):
            kin = "'l.0'" if isinstance(tag, LocalInameTagBase) else "'ilp'"
            raise _refusal(
                kernel,
                context,
                f"the reduction over iname '{name}' cannot run as '{tag}'",
                f"tag_inames(kernel, {{'{name}': {kin}}})",
            )
        other = owner.setdefault(tag, name)
        if other != name and isinstance(tag, AxisTag):
            raise _refusal(
                kernel,
                context,
                f"the reduction '{to_text(reduction)}' has two loops on one hardware axis: "
                f"'{other}' and '{name}' are both tagged '{tag}'",
                "tag one of them with another axis, or leave it a loop",
            )


def _refuse_order(
    kernel: LoopKernel,
    reduction: Reduction,
    tags: Mapping[str, ConcurrentTag],
    context: Context,
) -> None:
    """Refuse to change the order of what does not commute: groups, then work-items, then loops."""
    if reduction.operation.is_commutative:
        return
    ranks = [
        0 if isinstance(tag, GroupInameTag) else 1 if isinstance(tag, LocalInameTag) else 2
        for tag in (tags.get(name) for name in reduction.inames)
    ]
    ilp = [name for name, tag in tags.items() if isinstance(tag, IlpBaseTag)]
    if ranks != sorted(ranks) or ilp:
        raise _refusal(
            kernel,
            context,
            f"the reduction '{to_text(reduction)}' keeps the order of its operands, and the "
            f"parallel loops {', '.join(map(repr, tags))} would change it",
            "name the parallel loops first: work-groups, work-items, then plain loops",
        )


def _loops_left(
    realizer: Realizer,
    reduction: Reduction,
    on_axes: Mapping[str, AxisTag],
    context: Context,
) -> frozenset[str]:
    """Return the loops around on the same axes, of which the reduction may not depend."""
    kernel, loops = realizer.kernel, realizer.loops
    taken = set(on_axes.values())
    origins = {name: loops.origin(name) for name in sorted(context.within)}
    left = {
        name: origin
        for name, origin in origins.items()
        if not taken.isdisjoint(kernel.inames[origin].tags)
    }
    used = variable_names(*reduction.exprs, *context.predicates)
    bounds = kernel.with_outer_inames(frozenset(reduction.inames))
    for name, origin in left.items():
        if name in used or origin in bounds:
            (tag,) = kernel.iname_tags_of_type(origin, AxisTag)
            raise _refusal(
                kernel,
                context,
                f"the reduction '{to_text(reduction)}' runs on the hardware axis '{tag}', and "
                f"depends on the loop '{origin}' around it, which is on the same axis",
                f"tag '{origin}' or the loop of the reduction with another axis",
            )
    _refuse_divergence(realizer, reduction, taken, left.values(), context)
    return frozenset(left)


def _refuse_divergence(
    realizer: Realizer,
    reduction: Reduction,
    taken: set[AxisTag],
    left: object,
    context: Context,
) -> None:
    """Refuse conditions, bounds and operands that each work-item has its own value of."""
    kernel = realizer.kernel
    private = {
        name: temporary
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space not in (AddressSpace.LOCAL, AddressSpace.GLOBAL)
    }
    params = {
        name
        for iname in kernel.with_outer_inames(frozenset(map(realizer.loops.origin, context.within)))
        for name in kernel.domain_parameters(iname)
    }
    control = {*variable_names(*context.predicates), *params}
    shared = realizer.loops.loops_shared(reduction, str(context.insn.id))
    for name in sorted(private.keys() & {*control, *variable_names(*reduction.exprs)}):
        for writer in kernel.writers.get(name, ()):
            within = kernel.id_to_insn[writer].within_inames
            on_axis = [n for n in sorted(within) if not taken.isdisjoint(kernel.inames[n].tags)]
            if not on_axis or (name not in control and shared.issuperset(on_axis)):
                continue
            if name in control:
                what = f"the reduction '{to_text(reduction)}' is under divergent control flow: "
            else:
                what = f"the reduction '{to_text(reduction)}' reads a value of other work-items: "
            raise _refusal(
                kernel,
                context,
                f"{what}'{name}' differs between the work-items of '{on_axis[0]}', which "
                "have to work together",
                f"let '{name}' be computed outside of '{on_axis[0]}', or store it in an array "
                f"with one entry per value of '{on_axis[0]}'",
            )


def _lanes(
    realizer: Realizer,
    reduction: Reduction,
    local: Mapping[str, LocalInameTag],
    context: Context,
) -> Lanes:
    """Return the axes of work-items, the one whose neighbours are combined first in front."""
    sizes = {name: axis_of(realizer, name, context).size for name in local}
    if reduction.operation.is_commutative:
        ordered = sorted(local, key=lambda name: local[name].axis)
    else:
        ordered = [name for name in reversed(reduction.inames) if name in local]
    return Lanes(tuple((local[name], sizes[name]) for name in ordered))


def axis_of(realizer: Realizer, iname: str, context: Context) -> Axis:
    """Return the hardware axis of *iname*, or refuse: its size is not a constant."""
    kernel = realizer.kernel
    try:
        return kernel.axes[realizer.loops.origin(iname)]
    except StaticValueFindingError as err:
        raise StaticValueFindingError(f"{err}\n  where: instruction '{context.insn.id}'") from None


def _interleaved(realizer: Realizer, inames: tuple[str, ...], context: Context) -> Interleaved:
    kernel = realizer.kernel
    first, shape = [], []
    for name in inames:
        bounds = bounds_of(
            kernel.domain_of((name,)), name, kernel.assumptions, kernel.inames.keys()
        )
        if not (isinstance(bounds.lower, int) and isinstance(bounds.extent, int)):
            raise _refusal(
                kernel,
                context,
                f"the loop '{name}' of a reduction is tagged 'ilp' and runs "
                f"{to_text(bounds.extent)} times, which is not a constant",
                f"split_iname(kernel, '{name}', 4, inner_tag='ilp')",
            )
        first.append(bounds.lower)
        shape.append(bounds.extent)
    return Interleaved(inames, tuple(first), tuple(shape))


def _is_atomic(reduction: Reduction, context: Context) -> bool:
    """Tell whether the groups may each update the result: ``x = x + sum(...)  {atomic}``."""
    insn = context.insn
    if not isinstance(insn, Assignment) or not insn.atomicity:
        return False
    if any(isinstance(atomicity, AtomicInit) for atomicity in insn.atomicity):
        return False
    if reduction.operation.arg_count > 1 or not reduction.operation.is_commutative:
        return False
    updates = (
        reduction.operation.combine([one], [other])[0]
        for one, other in ((insn.assignee, reduction), (reduction, insn.assignee))
    )
    return any(insn.expression == update for update in updates)


def _join_instances(
    realizer: Realizer,
    reduction: Reduction,
    around: Context,
    interleaved: Interleaved,
    entries: Sequence[Expr],
    waits: list[str],
) -> tuple[tuple[Expr, ...], list[str]]:
    """Combine the entries of interleaved instances; return the totals and what to wait for."""
    suffix = "_".join(reduction.inames)
    dtypes = [realizer.types[assignee_name(entry)] for entry in entries]
    totals = tuple(realizer.temporary(f"acc_{suffix}", dtype) for dtype in dtypes)
    prefix = f"{around.insn.id}_{suffix}_init"
    neutral = reduction.operation.neutral(dtypes)
    starts = realizer.assign(around, totals, neutral, (), prefix)
    inames, each = interleaved.every(realizer, entries)
    inner = dataclasses.replace(
        around,
        within=around.within.union(inames),
        depends_on=around.depends_on.union(starts, waits),
    )
    return totals, realizer.combine(reduction, totals, each, dtypes, inner)


def _shifted(expr: Expr, first: Expr) -> Expr:
    return expr if is_zero(first) else p.Sum((expr, p.Product((-1, first))))


def _refusal(kernel: LoopKernel, context: Context, what: str, hint: str) -> TransformError:
    where = f"instruction '{context.insn.id}'"
    return TransformError(message(what, kernel=kernel.name, where=where, hint=hint))
