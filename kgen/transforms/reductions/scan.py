"""Detecting scans: proofs that reductions grow with an enclosing loop."""

from __future__ import annotations

from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.analysis.prefixes import (
    Growth,
    bounding_loops,
    growth_of,
    has_one_step,
    may_exceed,
)
from kgen.errors import ReductionIsNotTriangularError, TransformError
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import Expr, LinearSubscript, Reduction, to_text, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet
from kgen.ir.tags import AxisTag, ConcurrentTag, GroupInameTag, LocalInameTag
from kgen.transforms.reductions.builder import AccumulatorBuilder
from kgen.transforms.reductions.site import Site

__all__ = ["Scan", "ScanPolicy", "plan_scan"]


@dataclass(frozen=True)
class ScanPolicy:
    """Which reductions become scans: all that can (*automatic*), or all (*forced*), with errors.

    Scans along one of the loops *together* also run along the other one, the second, inner one.
    """

    automatic: bool = False
    forced: bool = False
    outer_iname: str | None = None
    together: tuple[str, str] | None = None

    @property
    def is_idle(self) -> bool:
        """Tell whether no scan is wanted."""
        return not (self.automatic or self.forced)


@dataclass(frozen=True)
class Scan:
    """How a reduction runs along loops: over work-groups, then plain ones, then work-items.

    In the lexicographic order of ``groups``, ``turns``, ``lane`` and ``items`` each step adds
    ``pieces``: domains of the loops over its new elements. The values of ``lane``, a loop over
    work-items, are ``lanes``, the first and the last; ``rows`` are those of the other loops over
    work-items. ``items`` are plain loops inside it: each work-item has several consecutive steps.
    """

    groups: tuple[str, ...]
    turns: tuple[str, ...]
    lane: str | None
    items: tuple[str, ...]
    pieces: tuple[BasicSet, ...]
    rows: dict[str, tuple[int, int]]
    lanes: tuple[int, int] | None

    @property
    def count(self) -> int:
        """The number of work-items of a group that work on it."""
        return 1 if self.lanes is None else self.lanes[1] - self.lanes[0] + 1

    @property
    def sweep(self) -> tuple[str, ...]:
        """All loops along which it runs, in order."""
        lane = () if self.lane is None else (self.lane,)
        return (*self.groups, *self.turns, *lane, *self.items)


def plan_scan(
    builder: AccumulatorBuilder, reduction: Reduction, site: Site, wishes: ScanPolicy
) -> Scan | None:
    """Prove that *reduction* is a scan and return how it runs, or raise an error.

    ``None`` if it remains a reduction.
    """
    if wishes.is_idle or site.place.inames != site.insn.within_inames:
        return None
    if has_one_step(builder.kernel, site.within, reduction.inames):
        return None
    try:
        return _plan(builder, reduction, site, wishes)
    except TransformError:
        if wishes.forced:
            raise
        return None


def _plan(
    builder: AccumulatorBuilder, reduction: Reduction, site: Site, wishes: ScanPolicy
) -> Scan:
    kernel = builder.kernel
    _reject_parallel_values(reduction, site, kernel)
    sweep = _sweep(kernel, reduction, site, wishes)
    _reject_uses_of_sweep(builder, reduction, site, sweep)
    _reject_changing_bounds(reduction, site, sweep, kernel)
    _reject_stores_inside(reduction, site, sweep, kernel)
    lane = _lane(reduction, site, sweep, kernel)
    rows = {} if lane is None else _rows(reduction, site, kernel)
    lanes = {lane: rows.pop(lane)} if lane is not None else {}
    for order in _orders(sweep, kernel):
        growth = growth_of(kernel, site.within, order, reduction.inames, lanes)
        if growth.lost is None:
            break
    else:
        raise _not_monotonic(growth, reduction, site, sweep)
    first = sum(_is_on(kernel, name, GroupInameTag) for name in order)
    at = len(order) if lane is None else order.index(lane)
    return Scan(
        groups=order[:first],
        turns=order[first:at],
        lane=lane,
        items=order[at + 1 :],
        pieces=growth.pieces,
        rows=rows,
        lanes=lanes[lane] if lane is not None else None,
    )


def _orders(sweep: tuple[str, ...], kernel: LoopKernel) -> tuple[tuple[str, ...], ...]:
    """Return the orders in which the loops can run: work-groups first, on targets that have them.

    Each work-item has several consecutive steps, or the steps are distributed cyclically.
    """
    groups = tuple(name for name in sweep if kernel.has_tag(name, GroupInameTag))
    lanes = tuple(name for name in sweep if kernel.has_tag(name, LocalInameTag))
    plain = tuple(name for name in sweep if name not in groups and name not in lanes)
    in_a_row = (*groups, *(name for name in sweep if name not in groups))
    as_declared = () if kernel.target.has_hardware_axes else (sweep,)
    return tuple(dict.fromkeys((*as_declared, in_a_row, (*groups, *plain, *lanes))))


def _not_monotonic(
    growth: Growth, reduction: Reduction, site: Site, sweep: tuple[str, ...]
) -> ReductionIsNotTriangularError:
    assert growth.lost is not None
    names = reduction.inames
    earlier = "an earlier step of " + ", ".join(f"'{name}'" for name in sweep)
    values = ", ".join(f"{name} = {growth.lost[name]}" for name in names)
    here = ", ".join(f"{n} = {v}" for n, v in growth.lost.items() if n not in names)
    return _not_a_scan(
        reduction,
        site,
        f"{values} counts at {earlier}, but not at {here}",
        "bound the loop by what grows: 0 <= j <= i",
    )


def _is_on(kernel: LoopKernel, name: str, kind: type[AxisTag]) -> bool:
    """Tell whether a loop is on a hardware axis of a target that has them."""
    has_axis = kernel.target.has_hardware_axes
    if issubclass(kind, LocalInameTag):
        has_axis = kernel.target.has_work_items
    return has_axis and kernel.has_tag(name, kind)


def _sweep(
    kernel: LoopKernel, reduction: Reduction, site: Site, wishes: ScanPolicy
) -> tuple[str, ...]:
    """Return the loops over which the reduction is a scan, outermost first."""
    wanted = wishes.outer_iname
    if wanted is not None:
        if wanted not in site.within:
            raise _not_a_scan(reduction, site, f"it is not inside the loop '{wanted}'")
        found: tuple[str, ...] = (wanted,)
    else:
        found = bounding_loops(kernel, site.within, reduction.inames)
        if wishes.together is not None and site.within.issuperset(wishes.together):
            found = _with_both(found, *wishes.together)
    if not found:
        raise _not_a_scan(
            reduction,
            site,
            "no loop around it bounds it: it has the same value at every step",
            "choose instructions: realize_reduction(..., insn_id_filter='id')",
        )
    on_axes = (LocalInameTag, GroupInameTag) if wishes.forced else LocalInameTag
    for name in found:
        for tag in kernel.iname_tags_of_type(name, ConcurrentTag):
            if not isinstance(tag, on_axes):
                raise site.error(
                    f"the scan '{to_text(reduction)}' cannot run along '{name}', tagged '{tag}'",
                    f"leave '{name}' sequential, or tag it l.0 or g.0; to recompute the "
                    "preceding part in every group, name the loop inside it: "
                    "force_outer_iname_for_scan='...'",
                )
    return found


def _with_both(names: tuple[str, ...], outer: str, inner: str) -> tuple[str, ...]:
    """Return loops, of which one is *outer* or *inner*, with the other one next to it."""
    both = {outer: (outer, inner), inner: ()} if outer in names else {inner: (outer, inner)}
    return tuple(new for name in names for new in both.get(name, (name,)))


def _lane(
    reduction: Reduction, site: Site, sweep: tuple[str, ...], kernel: LoopKernel
) -> str | None:
    """Return the loop of *sweep* that is over work-items, if there is one."""
    lanes = [name for name in sweep if _is_on(kernel, name, LocalInameTag)]
    if len(lanes) > 1:
        raise site.error(
            f"the scan '{to_text(reduction)}' runs along {len(lanes)} axes of work-items: "
            + ", ".join(f"'{name}'" for name in lanes),
            "join them: join_inames(...)",
        )
    if site.predicates and any(_is_on(kernel, name, AxisTag) for name in sweep):
        raise site.error(
            f"the scan '{to_text(reduction)}' over work-items is under a condition",
            "assign it to a temporary without a condition first",
        )
    return lanes[0] if lanes else None


def _reject_parallel_values(reduction: Reduction, site: Site, kernel: LoopKernel) -> None:
    """Reject a scan whose own loop is parallel: a step combines its new elements in order."""
    for name in reduction.inames:
        for tag in kernel.iname_tags_of_type(name, ConcurrentTag):
            raise site.error(
                f"the loop '{name}' of the scan '{to_text(reduction)}' is tagged '{tag}'",
                f"untag_inames(kernel, '{name}', ...), and tag the loop that the scan runs along",
            )


def _reject_uses_of_sweep(
    builder: AccumulatorBuilder, reduction: Reduction, site: Site, sweep: tuple[str, ...]
) -> None:
    """Reject operands that differ from step to step, and such conditions."""
    kernel = builder.kernel
    used = set(variable_names(*reduction.exprs)).intersection(sweep)
    if used:
        raise _not_a_scan(
            reduction,
            site,
            f"what it combines depends on '{min(used)}', the loop that it runs along",
        )
    changing = {*sweep, *kernel.get_written_variables(), *builder.temporaries}
    for condition in site.predicates:
        named = changing.intersection(variable_names(condition))
        if named:
            raise site.error(
                f"the scan '{to_text(reduction)}' is under the condition '{to_text(condition)}', "
                f"which may change along '{sweep[-1]}'",
                "assign the scan to a temporary without a condition first",
            )


def _reject_changing_bounds(
    reduction: Reduction, site: Site, sweep: tuple[str, ...], kernel: LoopKernel
) -> None:
    """Reject bounds that differ from step to step for other reasons than the loop itself."""
    inside = [node for node in walk(*reduction.exprs) if isinstance(node, Reduction)]
    inames = {name for node in (reduction, *inside) for name in node.inames}
    changing = kernel.writers.keys() & {
        param
        for name in kernel.with_outer_inames(frozenset(inames))
        for param in kernel.domain_parameters(name)
    }
    for param in sorted(changing):
        for name in kernel.writers[param]:
            if not kernel.id_to_insn[name].within_inames.isdisjoint(sweep):
                raise _not_a_scan(
                    reduction,
                    site,
                    f"its bounds depend on '{param}', which instruction '{name}' sets in the "
                    f"loop '{sweep[-1]}', which it runs along",
                )
    for node in inside:
        around = site.within.union(inames.difference(node.inames))
        for name in bounding_loops(kernel, around, node.inames):
            if name in sweep:
                raise _not_a_scan(
                    reduction,
                    site,
                    f"what it combines, '{to_text(node)}', has bounds that depend on '{name}', "
                    "the loop that it runs along",
                )


def _reject_stores_inside(
    reduction: Reduction, site: Site, sweep: tuple[str, ...], kernel: LoopKernel
) -> None:
    """Reject operands that the same loops overwrite: each value is read once, at its step."""
    before = ancestors(kernel, kernel.id_to_insn[str(site.insn.id)])
    for array in dict.fromkeys(variable_names(*reduction.exprs)):
        for name in kernel.writers.get(array, ()):
            writer = kernel.id_to_insn[name]
            if writer.within_inames.isdisjoint(sweep):
                continue
            if name not in before or not _is_stored_in_step(
                kernel, reduction, sweep, writer, array
            ):
                raise site.error(
                    f"instruction '{name}' writes '{array}', which the scan "
                    f"'{to_text(reduction)}' reads, in the loop that it runs along",
                    f"store what each step adds in that step ({array}[i] = ...) and let the scan "
                    f"wait for it (dep={name}), or store to another array",
                )


def _is_stored_in_step(
    kernel: LoopKernel,
    reduction: Reduction,
    sweep: tuple[str, ...],
    writer: InstructionBase,
    array: str,
) -> bool:
    """Tell whether each step stores an element that only it and later steps read.

    That holds if a subscript of the written element is the loop variable, the same subscript of the
    read element is the variable of the reduction, and the latter is never greater than the former.
    """
    if len(sweep) > 1 or len(reduction.inames) > 1:
        return False
    (loop,), (iname,) = sweep, reduction.inames
    written = [index_of(lhs) for lhs in writer.assignees if assignee_name(lhs) == array]
    elements = [node for node in walk(*reduction.exprs) if _is_element_of(node, array)]
    if not elements or any(isinstance(node, LinearSubscript) for node in elements):
        return False
    read = [index_of(node) for node in elements]
    shared = [
        axis
        for axis in range(len(written[0]))
        if all(index[axis] == p.Variable(loop) for index in written)
        and all(index[axis] == p.Variable(iname) for index in read)
    ]
    return bool(shared) and not may_exceed(kernel, loop, iname)


def _is_element_of(node: Expr, array: str) -> bool:
    return isinstance(node, p.Subscript | LinearSubscript) and assignee_name(node) == array


def _rows(reduction: Reduction, site: Site, kernel: LoopKernel) -> dict[str, tuple[int, int]]:
    """Return the first and the last value of each loop over work-items."""
    sizes: dict[str, tuple[int, int]] = {}
    for name in kernel.in_order(site.within):
        if not kernel.has_tag(name, LocalInameTag):
            continue
        values = kernel.get_iname_bounds(name).interval
        if values.low is None or values.high is None:
            raise site.error(
                f"the number of work-items along '{name}' is not fixed, which the scan "
                f"'{to_text(reduction)}' over work-items needs",
                f"split_iname(kernel, '{name}', 128, inner_tag='l.0'), or fix_parameters(...)",
            )
        sizes[name] = values.low, values.high
    return sizes


def _not_a_scan(
    reduction: Reduction,
    site: Site,
    why: str,
    hint: str | None = None,
) -> ReductionIsNotTriangularError:
    return ReductionIsNotTriangularError(
        f"the reduction '{to_text(reduction)}' is not a scan",
        where=f"instruction '{site.insn.id}'",
        because=why,
        hint=hint,
    )
