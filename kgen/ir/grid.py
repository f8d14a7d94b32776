"""Hardware axes: how many groups, how many work-items, and where each axis starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl
import pymbolic.primitives as p

from kgen.errors import StaticValueFindingError, message
from kgen.ir.domain import SET_DIM, PwAff, dim_max, dim_min, param_names, static_value
from kgen.ir.expr import Expr, is_zero
from kgen.ir.quasi_affine import aff_to_expr
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel


@dataclass(frozen=True)
class Grid:
    """The launch configuration of a kernel.

    ``group_counts`` and ``local_sizes`` are isl functions of the parameters; ``groups`` and
    ``locals`` the same as expressions and numbers; ``first`` is the value of each
    hardware-tagged iname at index 0 of its axis.
    """

    group_counts: tuple[PwAff, ...]
    local_sizes: tuple[PwAff, ...]
    groups: tuple[Expr, ...]
    locals: tuple[int, ...]
    first: Mapping[str, Expr]


def grid_of(kernel: LoopKernel) -> Grid:
    """Find the extent of every hardware axis: the largest among the inames tagged with it.

    Raises :class:`StaticValueFindingError` for a work-group size that is not a constant.
    """
    first: dict[str, Expr] = {}
    extents: dict[type[AxisTag], dict[int, list[PwAff]]] = {GroupInameTag: {}, LocalInameTag: {}}
    for iname in sorted(kernel.inames, key=kernel.iname_order.__getitem__):
        for kind, per_axis in extents.items():
            for tag in kernel.iname_tags_of_type(iname, kind):
                extent, start = _extent(kernel, iname, kind is LocalInameTag)
                per_axis.setdefault(tag.axis, []).append(extent)
                first[iname] = start
    counts = _per_axis(kernel, extents[GroupInameTag], "work-groups")
    sizes = _per_axis(kernel, extents[LocalInameTag], "work-items")
    return Grid(
        tuple(counts),
        tuple(sizes),
        tuple(aff_to_expr(_aff(count)) for count in counts),
        tuple(int(_aff(size).get_constant_val().to_python()) for size in sizes),
        first,
    )


def _aff(value: PwAff) -> isl.Aff:
    return value.get_pieces()[0][1]


def _extent(kernel: LoopKernel, iname: str, must_be_constant: bool) -> tuple[PwAff, Expr]:
    domain = kernel.domain_of((iname,))
    what = f"the extent of the hardware axis of iname '{iname}' in kernel '{kernel.name}'"
    outer = [n for n in param_names(domain) if n in kernel.inames]
    for name in outer:  # an axis is as long as its longest instance
        at = domain.find_dim_by_name(isl.dim_type.param, name)
        end = domain.dim(SET_DIM)
        domain = domain.move_dims(SET_DIM, end, isl.dim_type.param, at, 1)
    low = static_value(dim_min(domain, iname), kernel.assumptions, largest=False, what=what)
    start = isl.PwAff.from_aff(low)
    extent = dim_max(domain, iname).sub(start).add_constant_val(_ONE)
    if must_be_constant:
        named = domain
        span = named.intersect_params(kernel.assumptions)
        shifted = extent.intersect_domain(span.params())
        top = shifted.max_val()
        if not top.is_int():
            raise StaticValueFindingError(
                message(
                    f"the number of work-items for iname '{iname}' is not a constant",
                    kernel=kernel.name,
                    because=f"its extent is {extent}",
                    hint=f"split_iname(kernel, '{iname}', 128, inner_tag='l.0', outer_tag='g.0')",
                )
            )
        size = isl.Aff.val_on_domain(isl.LocalSpace.from_space(low.get_domain_space()), top)
        return isl.PwAff.from_aff(size), aff_to_expr(low)
    best = static_value(extent, kernel.assumptions, largest=True, what=what)
    return isl.PwAff.from_aff(best), aff_to_expr(low)


_ONE = isl.Val.one(isl.DEFAULT_CONTEXT)


def _per_axis(kernel: LoopKernel, per_axis: Mapping[int, list[PwAff]], what: str) -> list[PwAff]:
    if not per_axis:
        return []
    space = kernel.assumptions.get_space()
    one = isl.PwAff.from_aff(isl.Aff.val_on_domain(isl.LocalSpace.from_space(space), _ONE))
    result = []
    for axis in range(max(per_axis) + 1):
        values = per_axis.get(axis, [one])
        total = values[0]
        for value in values[1:]:
            total = total.max(value)
        best = static_value(
            total,
            kernel.assumptions,
            largest=True,
            what=f"the number of {what} along axis {axis} of kernel '{kernel.name}'",
        )
        result.append(isl.PwAff.from_aff(best))
    return result


def has_offset(grid: Grid, iname: str) -> bool:
    """Tell whether index 0 of the axis of *iname* stands for a value other than 0."""
    return not is_zero(grid.first[iname])


def at_axis(grid: Grid, iname: str, axis_index: Expr) -> Expr:
    """Return the value of *iname* at index *axis_index* of its axis."""
    return p.Sum((axis_index, grid.first[iname])) if has_offset(grid, iname) else axis_index
