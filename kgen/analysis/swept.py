"""Footprints over sweep inames, and their bounding boxes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.domains import replace_dims
from kgen.analysis.footprints import Footprints
from kgen.errors import StaticValueFindingError, TransformError
from kgen.ir.expr import Expr, is_zero, to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    dim_names,
    from_named,
    in_names,
    in_to_params,
    involved_params,
    isl_int,
    n_dims,
    name_dims,
    only_dim,
    project_out_dims,
    project_out_params,
    project_out_unused_params,
    rename_dims,
    to_named,
    union_of,
    with_dims,
)
from kgen.ir.sets.domain import dim_max, dim_min, sample_point, static_bounds, static_value
from kgen.ir.sets.effort import answer
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.sets.quasi_affine import aff_to_expr, conditions_of, set_from_condition

__all__ = ["Axis", "Box", "box_of", "first_outside", "swept_footprint", "valid_elements"]


@dataclass(frozen=True)
class Axis:
    """An axis of the storage: its name, and the conditions under which an element exists."""

    name: str
    valid: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Box:
    """The elements to store, counted from the least one along each axis.

    ``domain`` has the axes longer than 1 as dimensions, from 0 to less than their
    extents; ``conditions``, on these and on the enclosing loops, select the stored elements.
    """

    lower: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    domain: BasicSet | None
    conditions: tuple[Expr, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are longer than 1."""
        return tuple(k for k, extent in enumerate(self.extents) if extent != 1)

    def with_outer(self, around: Set, outer: Sequence[str]) -> Set:
        """Return the loops of ``domain`` with those in *outer*, which run over *around*."""
        assert self.domain is not None
        named = to_named(self.domain).intersect(to_named(around))
        return from_named(named, (*outer, *dim_names(self.domain)))


def swept_footprint(
    kernel: LoopKernel, accesses: Sequence[Access], outer: Collection[str], axes: Sequence[Axis]
) -> Set:
    """Return the footprint of *accesses*: ``[params, outer] -> { [axes] }``.

    All loops except those in *outer* are swept. ``None`` in an access represents all valid
    elements along an axis. Raises :class:`TransformError` for a subscript that is not affine.
    """
    footprints = Footprints.of(kernel)
    parts: list[Set] = []
    for place, index in dict.fromkeys((access.place, access.index) for access in accesses):
        assert index is not None
        known = Access("", "", tuple(i for i in index if i is not None), False, place)
        relation = footprints.relation(known)
        if relation is None:
            shown = ", ".join(":" if i is None else to_text(i) for i in index)
            raise TransformError(
                f"the elements that '[{shown}]' accesses are not known",
                kernel=kernel.name,
                because="a subscript is not affine in loop variables and sizes",
                hint="leave this use out with within=...",
            )
        inames = in_names(relation)
        touched = in_to_params(relation, inames).range()
        touched = project_out_params(touched, [name for name in inames if name not in outer])
        for k, part in enumerate(index):
            if part is None:
                touched = with_dims(touched, (axes[k].name,), k)
        parts.append(name_dims(touched, [axis.name for axis in axes]).coalesce())
    total = union_of(parts)
    assert total is not None
    return total.intersect(valid_elements(kernel, total, axes))


def valid_elements(kernel: LoopKernel, like: Set, axes: Sequence[Axis]) -> Set:
    """Return all elements that exist, in the space of *like*."""
    footprints = Footprints.of(kernel)
    total = isl.Set.universe(like.get_space())
    for condition in (condition for axis in axes for condition in axis.valid):
        total = footprints.with_params(total, condition)
        total = total.intersect(set_from_condition(total.get_space(), condition))
    return total


def box_of(
    kernel: LoopKernel,
    footprint: Set,
    outer: Collection[str],
    *,
    whole_box: bool,
    existing: Set | None = None,
    has_more: bool = False,
    wider: Set | None = None,
    sized: bool = False,
    what: str,
) -> Box:
    """Return the storage that holds a footprint, and which elements to fill in.

    These are the footprint itself, if it is a box or that of one access; all *existing* elements
    of its bounding box with *whole_box*; or, for a convex footprint, that box if all of
    it exists and *has_more* elements than are accessed, otherwise its guarded part. Where there is
    a hole, they are the box of a *wider* footprint, if all of that exists. Extents are
    constants; with *sized*, others may be functions of the sizes. Raises
    :class:`StaticValueFindingError` for a box without such extents, and
    :class:`TransformError`, with an element that is not accessed, if there is a hole.
    """
    around = kernel.domain_of(tuple(sorted(outer)))
    context = to_named(around).params().intersect(kernel.assumptions)
    footprint = footprint.intersect_params(context)
    if footprint.is_empty():
        raise TransformError(
            f"{what} access no elements",
            kernel=kernel.name,
            because="their loops are empty, or their conditions are never true",
            hint="leave out this step: there is nothing to store",
        )
    spare = None
    if existing is not None and has_more:
        elsewhere = isl.Set.universe(existing.get_space()).intersect_params(context.complement())
        spare = existing.union(elsewhere)
    if wider is not None:
        wider = wider.intersect_params(context)
    elements, hull = _as_loops(footprint, spare, wider, whole_box=whole_box, what=what)
    touched = isl.Set.from_basic_set(hull)
    is_all = hull is elements
    if existing is not None and whole_box:
        elements, touched, is_all = _existing_part(elements, existing, context)
    stored = isl.Set.from_basic_set(elements)
    lower: list[Expr] = []
    extents: list[Expr] = []
    for name in dim_names(footprint):
        least, extent = _bounds(kernel, stored, name, context, outer if sized else None, what)
        lower.append(least)
        extents.append(extent)
    moves = dict(zip(dim_names(footprint), lower, strict=True))
    elements = _counted(elements, moves, extents)
    kept = n_dims(elements)
    within = isl.Set.from_basic_set(elements).gist_params(context).coalesce()
    if not kept:
        return Box(tuple(lower), tuple(extents), None, conditions_of(within.params()))
    pieces = within.get_basic_sets()
    loops = pieces[0] if len(pieces) == 1 else elements  # isl may split what strides are taken from
    known = isl.Set.from_basic_set(elements).intersect_params(context)
    conditions: tuple[Expr, ...] = ()
    if not is_all:
        parts = (_counted(part, moves, extents) for part in touched.get_basic_sets())
        counted = union_of(map(isl.Set.from_basic_set, parts))
        assert counted is not None
        conditions = conditions_of(counted.gist(known))
    return Box(tuple(lower), tuple(extents), project_out_unused_params(loops), conditions)


def _existing_part(box: BasicSet, existing: Set, context: Set) -> tuple[BasicSet, Set, bool]:
    """Return loops over the existing elements of a box, these, and whether the loops are exact."""
    part = isl.Set.from_basic_set(box).intersect(existing)
    pieces = part.get_basic_sets()
    if len(pieces) > 1:
        part = part.intersect_params(context).coalesce()
        pieces = part.get_basic_sets()
    return (pieces[0], part, True) if len(pieces) == 1 else (box, part, False)


def first_outside(kernel: LoopKernel, one: Set, other: Set) -> dict[str, int] | None:
    """Return a point of *one*, with parameters by name, that is not in *other*, or ``None``."""
    missing = one.intersect_params(kernel.assumptions).subtract(other)
    return sample_point(missing)


def _bounds(
    kernel: LoopKernel,
    footprint: Set,
    name: str,
    context: Set,
    outer: Collection[str] | None,
    what: str,
) -> tuple[Expr, Expr]:
    """Return the least element along an axis, and the largest extent.

    If the least one is ``max(0, 8*i - 1)``, elements are counted from ``8*i - 1``, the start that
    gives the smallest extent. Given the enclosing loops, *outer*, the extent may depend on sizes.
    """
    shown = f"the least element of axis '{name}' that {what} access"
    lower = dim_min(footprint, name)
    found: list[tuple[int, Expr]] = []
    for least in static_bounds(lower, context, largest=False):
        extent = LoopRange(footprint, name, context).largest_extent(least)
        if extent is not None:
            found.append((extent, aff_to_expr(least)))
    if found:
        count, start = min(found, key=lambda way: way[0])
        return start, count
    first = static_value(lower, context, largest=False, what=shown)
    if outer is not None:
        return aff_to_expr(first), _sized_extent(kernel, footprint, name, first, outer, what)
    most = dim_max(footprint, name).sub(isl.PwAff.from_aff(first))
    raise StaticValueFindingError(
        f"a constant extent of axis '{name}' was not found",
        because=f"{what} access as many elements along it as '{most.coalesce()}' and 1",
        hint=_bounding_hint(kernel, most),
    )


def _sized_extent(
    kernel: LoopKernel,
    footprint: Set,
    name: str,
    least: isl.Aff,
    outer: Collection[str],
    what: str,
) -> Expr:
    """Return how many elements there are from *least* on, for all iterations of *outer*."""
    extent = dim_max(footprint, name).sub(isl.PwAff.from_aff(least)).add_constant_val(isl_int(1))
    graph = project_out_params(isl.Set.from_pw_aff(extent), outer)
    counts = name_dims(graph, (name,)).coalesce()
    shown = f"the number of elements of axis '{name}' that {what} access"
    most = static_value(dim_max(counts, name), kernel.assumptions, largest=True, what=shown)
    return aff_to_expr(most)


def _bounding_hint(kernel: LoopKernel, extent: isl.PwAff) -> str:
    """Return how to bound a number of elements."""
    ways = [
        "split the loop that is swept, and sweep the inner one",
        "name the loops around it: fetch_outer_inames in add_prefetch, precompute_outer_inames",
    ]
    for _, aff in extent.get_pieces():
        for name in involved_params(aff):
            if name not in kernel.inames:
                ways.insert(0, f"bound the size: assume(kernel, '{name} <= 16')")
                return "; or ".join(ways)
    return "; or ".join(ways)


def _as_loops(
    footprint: Set, spare: Set | None, wider: Set | None, *, whole_box: bool, what: str
) -> tuple[BasicSet, BasicSet]:
    """Return loops over a superset of a footprint, and the elements to store in them.

    One access may have any convex footprint; several together are stored in a box.
    """
    pieces = footprint.get_basic_sets()
    if len(pieces) == 1 and not whole_box:
        return pieces[0], pieces[0]
    box = _bounding_box(footprint)
    whole = isl.Set.from_basic_set(box)
    if whole_box or answer(lambda: whole.is_subset(footprint)):
        return box, box
    hull = answer(footprint.convex_hull)
    if hull is None:  # of what holds without quotients that have no formula
        hull = answer(footprint.remove_unknown_divs().convex_hull)
    held = whole if hull is None else isl.Set.from_basic_set(hull)
    missing = answer(lambda: held.subtract(footprint))
    #: whether there are holes: unknown if isl exceeds its budget
    has_holes = None if missing is None else answer(lambda: not missing.is_empty())
    is_hull = hull is not None and has_holes is not None
    if spare is not None and not (is_hull and has_holes) and whole.is_subset(spare):
        return box, box
    if hull is not None and has_holes is False:
        return box, hull
    if spare is not None and wider is not None:
        more = _bounding_box(wider)
        if answer(lambda: isl.Set.from_basic_set(more).is_subset(spare)):
            return more, more
    point = None if missing is None else answer(lambda: sample_point(missing))
    because = "isl takes too long to find out whether all elements between are accessed"
    if point is not None:
        element = ", ".join(str(point[name]) for name in dim_names(footprint))
        where = ", ".join(f"{k} = {v}" for k, v in point.items() if k not in dim_names(footprint))
        because = f"element [{element}] lies between the others, and is not accessed"
        because += f", for {where}" if where else ""
    raise TransformError(
        f"the elements that {what} access have gaps between them"
        if is_hull
        else f"the elements that {what} access do not form a box, and are too complex to describe",
        because=because,
        hint="pass fetch_bounding_box=True to store their whole bounding box",
    )


def _bounding_box(footprint: Set) -> BasicSet:
    """Return the product of the projections on the axes."""
    names = dim_names(footprint)
    box = isl.Set.universe(footprint.get_space())
    for k, name in enumerate(names):
        one = only_dim(footprint, name).remove_divs().coalesce()
        side = with_dims(isl.Set.from_basic_set(one.simple_hull()), names[k + 1 :])
        box = box.intersect(with_dims(side, names[:k], 0))
    (piece,) = box.get_basic_sets()
    return piece


def _from_zero(elements: BasicSet, lower: Mapping[str, Expr]) -> BasicSet:
    """Shift each axis so that its least element is 0."""
    for name, least in lower.items():
        if not is_zero(least):
            elements = _moved(elements, name, least)
    return elements


def _counted(elements: BasicSet, lower: Mapping[str, Expr], extents: Sequence[Expr]) -> BasicSet:
    """Count from the least elements along the axes that are longer than 1; drop the others."""
    elements = _from_zero(elements, lower)
    single = [n for n, extent in zip(dim_names(elements), extents, strict=True) if extent == 1]
    return project_out_dims(elements, reversed(single))


def _moved(elements: BasicSet, name: str, least: Expr) -> BasicSet:
    new = f"{name}'"
    elements = replace_dims(elements, {name: p.Sum((p.Variable(new), least))}, (new,))
    return rename_dims(elements, {new: name})
