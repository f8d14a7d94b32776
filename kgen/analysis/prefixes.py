"""Reductions whose range grows with a loop: the values that each iteration adds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.domains import equation_set
from kgen.errors import TransformError
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    bound_dim,
    dim_names,
    dims_to_params,
    free_dim,
    from_named,
    name_dims,
    pairs_of,
    project_out_unused_params,
    relation_from,
    to_named,
)
from kgen.ir.sets.domain import as_basic_set, sample_point

__all__ = [
    "Growth",
    "bounding_loops",
    "domain_at",
    "domain_inside",
    "growth_of",
    "has_one_step",
    "lane_domain",
    "may_exceed",
]


@dataclass(frozen=True)
class Growth:
    """The new values at each step; ``lost`` is a point where a value is dropped again.

    Each of the *pieces* is a domain of the reduction's loops, whose parameters are the enclosing
    loops; at each step, the pieces are disjoint.
    """

    pieces: tuple[BasicSet, ...]
    lost: Mapping[str, int] | None


def bounding_loops(
    kernel: LoopKernel, around: Collection[str], inames: Sequence[str]
) -> tuple[str, ...]:
    """Return those of the loops *around* that the values of *inames* depend on, in order."""
    names = kernel.in_order(around)
    domain = kernel.domain_of((*names, *inames)).intersect_params(kernel.assumptions)
    loops = kernel.domain_of(names)
    found = []
    for name in names:
        product = to_named(free_dim(domain, name)).intersect(to_named(loops))
        if not product.is_subset(to_named(domain)):
            found.append(name)
    return tuple(found)


def has_one_step(kernel: LoopKernel, around: Collection[str], inames: Sequence[str]) -> bool:
    """Tell whether the loops *around* that share domains with *inames* run once each."""
    homes = {kernel.home_domain[name] for name in kernel.with_outer_inames(frozenset(inames))}
    shared = {name for home in homes for name in dim_names(kernel.domains[home])}
    names = kernel.in_order(shared.intersection(around))
    domain = kernel.domain_of(names).intersect_params(kernel.assumptions)
    return bool(names) and isl.Map.from_range(domain).is_single_valued()


def may_exceed(kernel: LoopKernel, loop: str, iname: str) -> bool:
    """Tell whether *iname* may be larger than *loop*, which bounds it."""
    domain = kernel.domain_of((loop, iname)).intersect_params(kernel.assumptions)
    ahead = isl.Constraint.ineq_from_names(domain.get_space(), {iname: 1, loop: -1, 1: -1})
    return not domain.add_constraint(ahead).is_empty()


def growth_of(
    kernel: LoopKernel,
    around: Collection[str],
    sweep: Sequence[str],
    inames: Sequence[str],
    lanes: Mapping[str, tuple[int, int]] | None = None,
) -> Growth:
    """Return the values that a reduction over *inames* adds at each step of the loops *sweep*.

    Steps are in lexicographic order. The loops *lanes*, each with a first and a last value, may
    take all of these at every step: nothing is new where they have no step.
    """
    others = kernel.in_order(set(around) - set(sweep))
    values = _relation(kernel, others, sweep, inames)
    steps = dims_to_params(kernel.domain_of((*others, *sweep)), others)
    later = isl.Map.lex_gt(steps.get_space())
    later = later.intersect_domain(steps).intersect_range(steps)
    before = later.apply_range(values)
    lost = before.subtract(values).intersect_params(kernel.assumptions)
    if not lost.is_empty():
        return Growth((), sample_point(pairs_of(lost)))
    new = _in_one(values.subtract(before).intersect_params(kernel.assumptions).coalesce())
    known = steps
    for lane, bounds in (lanes or {}).items():
        known = _all_lanes(known, lane, *bounds)
    new = new.intersect_domain(steps).gist_domain(known).gist_params(kernel.assumptions)
    flat = dims_to_params(pairs_of(new), sweep)
    parts = flat.coalesce().get_basic_sets()
    if len(parts) > 1:
        parts = flat.make_disjoint().get_basic_sets()
    pieces = [_with_few_params(part.remove_redundancies(), inames) for part in parts]
    return Growth(tuple(sorted(pieces, key=str)), None)


def lane_domain(lane: str, first: int, last: int) -> BasicSet:
    """Return the domain of a loop from *first* to *last*."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[lane])
    return (
        isl.BasicSet.universe(space)
        .add_constraint(isl.Constraint.ineq_from_names(space, {lane: 1, 1: -first}))
        .add_constraint(isl.Constraint.ineq_from_names(space, {lane: -1, 1: last}))
    )


def _in_one(relation: isl.Map) -> isl.Map:
    """Return the simple hull of a relation, which is one piece, if it is not larger."""
    hull = isl.Map.from_basic_map(relation.simple_hull())
    return hull if hull.is_subset(relation) else relation


def domain_inside(kernel: LoopKernel, around: Collection[str], inames: Sequence[str]) -> BasicSet:
    """Return the values of *inames* inside the loops *around*, which are its parameters.

    Raises :class:`TransformError` if they have gaps that no loop bounds describe.
    """
    names = kernel.in_order(around)
    domain = dims_to_params(kernel.domain_of((*names, *inames)), names)
    outside = dims_to_params(kernel.domain_of(names), names).params()
    outside = outside.intersect(kernel.assumptions.params())
    # a loop that never runs still has an end
    own = kernel.domain_of(tuple(inames))
    domain = own if outside.is_empty() else domain.gist_params(outside)
    if len(domain.coalesce().get_basic_sets()) > 1:
        loops = ", ".join(map(repr, inames))
        raise TransformError(
            f"the iterations of {loops} inside {', '.join(map(repr, names))} have gaps",
            because=f"they are {domain.coalesce()}",
            hint=f"take the sums over {loops} and over the loops that these depend on in "
            "another order, or none of them apart",
        )
    return _with_few_params(as_basic_set(domain).remove_redundancies(), inames)


def domain_at(domain: BasicSet, iname: str, value: Expr) -> BasicSet:
    """Return *domain* with its only loop *iname* fixed to *value*."""
    params = [name for name in variable_names(value) if name not in dim_names(domain)]
    found = equation_set((iname,), params, [(p.Variable(iname), value)])
    return as_basic_set(from_named(to_named(domain).intersect(to_named(found)), (iname,)))


def _all_lanes(steps: Set, lane: str, first: int, last: int) -> Set:
    """Extend a loop to all values, wherever it has one."""
    return bound_dim(free_dim(steps, lane), lane, first, last)


def _relation(
    kernel: LoopKernel, others: Sequence[str], sweep: Sequence[str], inames: Sequence[str]
) -> isl.Map:
    """Return the values of *inames* at each step of *sweep*; other loops are parameters."""
    domain = dims_to_params(kernel.domain_of((*others, *sweep, *inames)), others)
    return relation_from(domain, len(sweep))


def _with_few_params(part: BasicSet, inames: Sequence[str]) -> BasicSet:
    """Name the dimensions, and drop unused parameters."""
    return project_out_unused_params(name_dims(part, inames))
