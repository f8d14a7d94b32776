"""Reductions over parallel loops: their levels, and how partial results are combined."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kgen.analysis.address_space import infer_address_spaces
from kgen.errors import StaticValueFindingError
from kgen.ir.atomicity import AtomicInit
from kgen.ir.expr import Expr, Reduction, to_text, variable_names
from kgen.ir.grid import Axis
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import (
    HARDWARE_AXES,
    AxisTag,
    ConcurrentTag,
    GroupInameTag,
    IlpBaseTag,
    LocalInameTag,
    LocalInameTagBase,
    VectorizeTag,
)
from kgen.ir.types import AddressSpace, auto
from kgen.transforms.reductions.builder import Accumulated, AccumulatorBuilder
from kgen.transforms.reductions.groups import combine_groups
from kgen.transforms.reductions.loop import Interleaved, accumulate_in_loop, loops_of_threads
from kgen.transforms.reductions.loops import Place
from kgen.transforms.reductions.site import Site
from kgen.transforms.reductions.tree import combine_lanes
from kgen.transforms.reductions.warps import Lanes

__all__ = ["Distribution", "accumulate_in_parallel", "find_distribution", "run_once"]


#: The tags of loops whose instances have their own accumulators, in one work-item.
_INTERLEAVED: Final = (IlpBaseTag, VectorizeTag)

#: The address spaces in which all work-items see the elements that one of them has written.
_SHARED: Final = (AddressSpace.LOCAL, AddressSpace.GLOBAL)


@dataclass(frozen=True)
class Distribution:
    """How a reduction is distributed: over work-items, work-groups, interleaved instances or lanes.

    ``left`` are the enclosing loops on the same hardware axes. The result is the same in all of
    their iterations, so the reduction runs outside them.
    """

    lanes: Lanes | None
    groups: Mapping[str, GroupInameTag]
    interleaved: Interleaved | None
    left: frozenset[str]
    is_atomic: bool


def find_distribution(
    builder: AccumulatorBuilder, reduction: Reduction, site: Site
) -> Distribution | None:
    """Find how *reduction* runs in parallel; ``None`` if it runs as a loop."""
    kernel = builder.kernel
    tags = {
        name: tag
        for name in reduction.inames
        if name in kernel.inames
        for tag in kernel.iname_tags_of_type(name, ConcurrentTag)
    }
    if not tags:
        return None
    if not kernel.target.has_work_items:
        loops = LocalInameTagBase if kernel.target.has_hardware_axes else HARDWARE_AXES
        tags = {n: t for n, t in tags.items() if not isinstance(t, loops)}
        if not tags:
            return None
    _reject_tags(reduction, tags, site)
    on_axes = {name: tag for name, tag in tags.items() if isinstance(tag, AxisTag)}
    local = {name: tag for name, tag in on_axes.items() if isinstance(tag, LocalInameTag)}
    group = {name: tag for name, tag in on_axes.items() if isinstance(tag, GroupInameTag)}
    ilp = tuple(name for name, tag in tags.items() if isinstance(tag, _INTERLEAVED))
    _reject_order(reduction, tags, site)
    left = _loops_left(builder, reduction, on_axes, site)
    lanes = _lanes(builder, reduction, local, site) if local else None
    interleaved = _interleaved(builder, ilp, site) if ilp else None
    is_atomic = bool(group) and _is_atomic(reduction, site)
    return Distribution(lanes, group, interleaved, left, is_atomic)


def accumulate_in_parallel(
    builder: AccumulatorBuilder, reduction: Reduction, spread: Distribution, site: Site
) -> Accumulated:
    """Append the instructions that compute *reduction*.

    The result is the same in all work-items, of all groups.

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
    loops = builder.loops
    origins = {loops.origin(name) for name in spread.left}
    place = Place(site.place.inames - origins, site.place.renamed)
    around = dataclasses.replace(site, within=site.within - spread.left, place=place)
    serial = accumulate_in_loop(builder, reduction, around, spread.interleaved)
    totals, waits = serial.values, list(serial.writers)
    shared = "simul_reduce" if reduction.allow_simultaneous else around.sharers
    copies = loops.loops_for(reduction, around.place, shared, str(site.insn.id))
    if spread.interleaved is not None:
        own = around.inside(loops_of_threads(builder, reduction, copies))
        totals, waits = _combine_instances(
            builder, reduction, own, spread.interleaved, totals, waits
        )
    if spread.lanes is not None:
        waits = combine_lanes(builder, reduction, around, spread.lanes, totals, waits)
        builder.use_axes({loops.lane(tag, 1): tag for tag, _ in spread.lanes.axes})
    if spread.groups:
        groups = {copies.get(name, name): tag for name, tag in spread.groups.items()}
        if spread.is_atomic:
            builder.use_axes(groups)
        else:
            totals, waits = combine_groups(
                builder, reduction, around, groups, spread.lanes, totals, waits
            )
            builder.use_axes({loops.lane(tag, 1): tag for tag in groups.values()})
    builder.note_writers(totals, waits)
    return Accumulated(totals, (*serial.writers, *waits))


def run_once(
    kernel: LoopKernel, insn: InstructionBase, axes: Mapping[str, AxisTag]
) -> InstructionBase:
    """Let *insn* run for one index of each of *axes*, if it would otherwise run more often.

    Every work-item has a private result; one work-item writes shared memory.
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


# -- requirements of a reduction --------------------------------------------------------------


def _reject_tags(
    reduction: Reduction,
    tags: Mapping[str, ConcurrentTag],
    site: Site,
) -> None:
    owner: dict[ConcurrentTag, str] = {}
    for name, tag in tags.items():
        if not isinstance(tag, (LocalInameTag, GroupInameTag, *_INTERLEAVED)):
            kin = "'l.0'" if isinstance(tag, LocalInameTagBase) else "'ilp'"
            raise site.error(
                f"the reduction over iname '{name}' cannot run as '{tag}'",
                f"tag_inames(kernel, {{'{name}': {kin}}})",
            )
        other = owner.setdefault(tag, name)
        if other != name and isinstance(tag, AxisTag):
            raise site.error(
                f"the reduction '{to_text(reduction)}' has two loops on one hardware axis: "
                f"'{other}' and '{name}' are both tagged '{tag}'",
                "tag one of them with another axis, or leave it a loop",
            )


def _reject_order(
    reduction: Reduction,
    tags: Mapping[str, ConcurrentTag],
    site: Site,
) -> None:
    """Reject reordering of non-commutative operations: groups, then work-items, then loops."""
    if reduction.operation.is_commutative:
        return
    ranks = [
        0 if isinstance(tag, GroupInameTag) else 1 if isinstance(tag, LocalInameTag) else 2
        for tag in (tags.get(name) for name in reduction.inames)
    ]
    ilp = [name for name, tag in tags.items() if isinstance(tag, _INTERLEAVED)]
    if ranks != sorted(ranks) or ilp:
        raise site.error(
            f"the reduction '{to_text(reduction)}' keeps the order of its operands, and the "
            f"parallel loops {', '.join(map(repr, tags))} would change it",
            "name the parallel loops first: work-groups, work-items, then plain loops",
        )


def _loops_left(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    on_axes: Mapping[str, AxisTag],
    site: Site,
) -> frozenset[str]:
    """Return the enclosing loops on the same axes, on which the reduction must not depend."""
    kernel, loops = builder.kernel, builder.loops
    taken = set(on_axes.values())
    origins = {name: loops.origin(name) for name in sorted(site.within)}
    left = {
        name: origin
        for name, origin in origins.items()
        if not taken.isdisjoint(kernel.inames[origin].tags)
    }
    used = variable_names(*reduction.exprs, *site.predicates)
    bounds = kernel.with_outer_inames(frozenset(reduction.inames))
    for name, origin in left.items():
        if name in used or origin in bounds:
            (tag,) = kernel.iname_tags_of_type(origin, AxisTag)
            raise site.error(
                f"the reduction '{to_text(reduction)}' runs on the hardware axis '{tag}', and "
                f"depends on the loop '{origin}' around it, which is on the same axis",
                f"tag '{origin}' or the loop of the reduction with another axis",
            )
    _reject_divergence(builder, reduction, taken, site)
    return frozenset(left)


def _reject_divergence(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    taken: set[AxisTag],
    site: Site,
) -> None:
    """Reject conditions, bounds and operands that differ between work-items."""
    kernel = builder.kernel
    private = {
        name: temporary
        for name, temporary in kernel.temporary_variables.items()
        if temporary.address_space not in _SHARED
    }
    params = {
        name
        for iname in kernel.with_outer_inames(frozenset(map(builder.loops.origin, site.within)))
        for name in kernel.domain_parameters(iname)
    }
    control = {*variable_names(*site.predicates), *params}
    shared = builder.loops.loops_shared(reduction, str(site.insn.id))
    for name in sorted(private.keys() & {*control, *variable_names(*reduction.exprs)}):
        for writer in kernel.writers.get(name, ()):
            within = kernel.id_to_insn[writer].within_inames
            on_axis = [n for n in sorted(within) if not taken.isdisjoint(kernel.inames[n].tags)]
            if not on_axis or (name not in control and shared.issuperset(on_axis)):
                continue
            if infer_address_spaces(kernel).temporary_variables[name].address_space in _SHARED:
                continue
            if name in control:
                what = f"the reduction '{to_text(reduction)}' is under divergent control flow: "
            else:
                what = f"the reduction '{to_text(reduction)}' reads a value of other work-items: "
            raise site.error(
                f"{what}'{name}' differs between the work-items of '{on_axis[0]}', which must "
                "cooperate",
                f"compute '{name}' outside '{on_axis[0]}', or store it in an array with one "
                f"entry per value of '{on_axis[0]}'",
            )


def _lanes(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    local: Mapping[str, LocalInameTag],
    site: Site,
) -> Lanes:
    """Return the axes of work-items; the axis that is combined first is the first one."""
    sizes = {name: axis_of(builder, name, site).size for name in local}
    if reduction.operation.is_commutative:
        ordered = sorted(local, key=lambda name: local[name].axis)
    else:
        ordered = [name for name in reversed(reduction.inames) if name in local]
    return Lanes(tuple((local[name], sizes[name]) for name in ordered))


def axis_of(builder: AccumulatorBuilder, iname: str, site: Site) -> Axis:
    """Return the hardware axis of *iname*, or raise an error if its size is not a constant."""
    kernel = builder.kernel
    try:
        return kernel.axes[builder.loops.origin(iname)]
    except StaticValueFindingError as err:
        raise StaticValueFindingError(f"{err}\n  where: instruction '{site.insn.id}'") from None


def _interleaved(builder: AccumulatorBuilder, inames: tuple[str, ...], site: Site) -> Interleaved:
    kernel = builder.kernel
    first, shape = [], []
    for name in inames:
        bounds = kernel.get_iname_bounds(name)
        if not bounds.is_constant:
            (tag,) = kernel.iname_tags_of_type(name, _INTERLEAVED)
            raise site.error(
                f"the loop '{name}' of a reduction is tagged '{tag}' and runs "
                f"{to_text(bounds.extent)} times, which is not a constant",
                f"split_iname(kernel, '{name}', 4, inner_tag='{tag}')",
            )
        first.append(bounds.lower)
        shape.append(bounds.extent)
    lanes = frozenset(name for name in inames if kernel.has_tag(name, VectorizeTag))
    return Interleaved(inames, tuple(first), tuple(shape), lanes=lanes)


def _is_atomic(reduction: Reduction, site: Site) -> bool:
    """Tell whether the groups may each update the result: ``x = x + sum(...)  {atomic}``."""
    insn = site.insn
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


def _combine_instances(
    builder: AccumulatorBuilder,
    reduction: Reduction,
    around: Site,
    interleaved: Interleaved,
    entries: Sequence[Expr],
    waits: list[str],
) -> tuple[tuple[Expr, ...], list[str]]:
    """Combine the entries of interleaved instances; return the totals and dependencies."""
    suffix = "_".join(reduction.inames)
    dtypes = builder.accumulator_types(entries)
    totals = tuple(builder.temporary(f"acc_{suffix}", dtype) for dtype in dtypes)
    prefix = f"{around.insn.id}_{suffix}_init"
    neutral = builder.starts(reduction, dtypes)
    starts = builder.assign(around, totals, neutral, (), prefix)
    inames, each = interleaved.every(builder, entries, are_combined=True)
    inner = around.inside(inames).after([*starts, *waits])
    return totals, builder.combine(reduction, totals, each, dtypes, inner)
