"""Values that read what nothing writes, which a bounding box may not compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.footprints import Footprints
from kgen.analysis.instances import bound, element_name, elements_of
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.expr import Expr, subscript
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    dim_names,
    from_named,
    param_names,
    project_out_params,
    to_named,
    union_of,
    with_params,
)
from kgen.ir.sets.quasi_affine import set_from_condition

__all__ = ["without_undefined"]


def without_undefined(
    kernel: LoopKernel,
    value: Expr,
    outer: Collection[str],
    footprint: Set,
    elements: Set,
    swept: Mapping[str, str],
) -> Set:
    """Remove the elements whose *value* reads what nothing writes; all of *footprint* stay.

    *value* is a function of the dimensions of both sets and of the loops in *outer*. *swept* maps
    the swept loops that bound its reductions to dimensions. A copy of an element is not removed,
    since nothing reads it. Reads of elements that depend on data are assumed to be right.
    """
    for read in _reads(kernel, value, (*outer, *swept)):
        for loops in (outer, ()):
            undefined = _undefined(kernel, read, loops, footprint, swept)
            if undefined is not None and undefined.is_disjoint(footprint):
                elements = elements.subtract(undefined)
                break
    return elements


def _reads(kernel: LoopKernel, value: Expr, loops: Sequence[str]) -> list[Access]:
    """Return the reads in *value* of arrays that only instructions write, except a mere copy."""
    insn = Assignment(p.Variable(""), value, id="", within_inames=frozenset(loops))
    known = kernel.temporary_variables
    return [
        access
        for access in collect_accesses(kernel, [insn])
        if access.array in known
        and known[access.array].initializer is None
        and value != subscript(p.Variable(access.array), access.index or ())
    ]


def _undefined(
    kernel: LoopKernel,
    read: Access,
    outer: Collection[str],
    footprint: Set,
    swept: Mapping[str, str],
) -> Set | None:
    """Return the elements for which *read* reads what no iteration inside *outer* writes.

    ``None`` if that depends on data.
    """
    written = _written(kernel, read.array, outer)
    axes = dim_names(footprint)
    reached = None if written is None else _reached(kernel, read, axes, swept)
    if written is None or reached is None:
        return None
    kept = {*axes, *param_names(footprint), *kernel.all_params()}
    missing = reached.intersect_params(kernel.assumptions.params()).subtract(written)
    missing = project_out_params(missing, [n for n in param_names(missing) if n not in kept])
    return from_named(missing, axes)


def _written(kernel: LoopKernel, array: str, outer: Collection[str]) -> Set | None:
    """Return what the writers write in an iteration of *outer*; ``None`` if data decide."""
    footprints = Footprints.of(kernel)
    parts = []
    for access in footprints.accesses_to(array):
        if access.is_write:
            named, is_exact = elements_of(kernel, footprints, access)
            if not is_exact:
                return None
            gone = [name for name in access.place.inames if name not in outer]
            parts.append(project_out_params(named, gone))
    return union_of(parts)


def _reached(
    kernel: LoopKernel, read: Access, axes: Sequence[str], swept: Mapping[str, str]
) -> Set | None:
    """Return the loops, axes and elements of a read; ``None`` if a subscript is not affine."""
    if read.index is None:
        return None
    footprints = Footprints.of(kernel)
    named = with_params(to_named(kernel.domain_of(read.place.inames)), axes)
    for loop, axis in swept.items():
        named = bound(named, loop, p.Variable(axis))
    for condition in read.place.conditions:
        named = _where(footprints.with_params(named, condition), condition)
    try:
        for k, index in enumerate(read.index):
            named = bound(footprints.with_params(named, index), element_name(k), index)
    except ExpressionToAffineConversionError:
        return None
    return named


def _where(named: Set, condition: Expr) -> Set:
    """Intersect with a condition, unless data decide."""
    try:
        return named.intersect(set_from_condition(named.get_space(), condition))
    except ExpressionToAffineConversionError:
        return named
