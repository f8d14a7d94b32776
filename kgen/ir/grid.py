"""Hardware axes: the numbers of work-groups and work-items, and where each axis starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import islpy as isl
import pymbolic.primitives as p

from kgen.errors import StaticValueFindingError
from kgen.ir.analyses import AnalysisCache
from kgen.ir.expr import Expr, is_zero, variable_names
from kgen.ir.sets.dims import (
    Set,
    are_bounded,
    dim_names,
    isl_int,
    param_names,
    params_to_dims,
    project_out_params,
)
from kgen.ir.sets.domain import Aff, PwAff, dim_max, dim_min, static_bounds, static_value
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.sets.quasi_affine import aff_to_expr
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel


@dataclass(frozen=True)
class Axis:
    """An iname on a hardware axis: its number of values, and the one at index 0.

    ``extent`` and ``length`` are the number of values, as an isl function and as an expression.
    """

    tag: AxisTag
    extent: PwAff
    length: Expr
    first: Expr

    @property
    def size(self) -> int:
        """The number of values, for a work-item axis of constant size."""
        assert isinstance(self.length, int)
        return self.length


@dataclass(frozen=True)
class Grid:
    """The launch configuration of a kernel, or of one of its launches.

    ``group_counts`` and ``local_sizes`` are isl functions of the parameters; ``groups`` and
    ``locals`` the same as expressions and numbers.
    """

    group_counts: tuple[PwAff, ...]
    local_sizes: tuple[PwAff, ...]
    groups: tuple[Expr, ...]
    locals: tuple[int, ...]

    @cached_property
    def analyses(self) -> AnalysisCache:
        """Cached analysis results of this grid."""
        return AnalysisCache(Grid)


def axes_of(kernel: LoopKernel) -> dict[str, Axis]:
    """Return all inames on hardware axes.

    Raises :class:`StaticValueFindingError` for a work-group size that is not a constant.
    """
    axes: dict[str, Axis] = {}
    ranges: dict[tuple[Set, bool], tuple[PwAff, Expr, Expr]] = {}
    for iname in kernel.in_order(kernel.inames):
        for tag in kernel.iname_tags_of_type(iname, (GroupInameTag, LocalInameTag)):
            key = kernel.domain_of((iname,)), isinstance(tag, LocalInameTag)
            if key not in ranges:
                ranges[key] = _range(kernel, iname, *key)
            axes[iname] = Axis(tag, *ranges[key])
    return axes


def grid_of(kernel: LoopKernel, axes: Iterable[Axis]) -> Grid:
    """Make the grid that *axes* need: each axis as long as the longest iname on it.

    If none is the longest for all parameters, the length is a maximum of expressions.
    """
    counts = _per_axis(kernel, axes, GroupInameTag)
    sizes = _per_axis(kernel, axes, LocalInameTag)
    return Grid(
        tuple(count for count, _ in counts),
        tuple(size for size, _ in sizes),
        tuple(length for _, length in counts),
        tuple(int(length) for _, length in sizes),
    )


def _range(
    kernel: LoopKernel, iname: str, domain: Set, must_be_constant: bool
) -> tuple[PwAff, Expr, Expr]:
    """Return the number of values, as a function and as an expression, and the smallest value."""
    domain = _without_data(kernel, domain, iname)
    what = f"the extent of the hardware axis of iname '{iname}' in kernel '{kernel.name}'"
    outer = [n for n in param_names(domain) if n in kernel.inames]
    domain = params_to_dims(domain, outer)  # an axis is as long as its longest instance

    def first(values: Set) -> PwAff:
        return dim_min(values, iname)

    low = _static_end(first, domain, kernel.assumptions, largest=False, what=what)
    if must_be_constant:
        top = LoopRange(domain, iname, kernel.assumptions).largest_extent(low)
        if top is None:
            raise StaticValueFindingError(
                f"the number of work-items for iname '{iname}' is not a constant",
                kernel=kernel.name,
                where=_instruction_in(kernel, iname),
                because=f"its extent is {_length(domain, iname, low)}",
                hint=_hint_for_items(kernel, domain, iname),
            )
        top = max(top, 1)
        space = isl.LocalSpace.from_space(low.get_domain_space())
        size = isl.Aff.val_on_domain(space, isl_int(top))
        return isl.PwAff.from_aff(size), top, aff_to_expr(low)

    def extent(values: Set) -> PwAff:
        return _length(values, iname, low)

    best = _static_end(extent, domain, kernel.assumptions, largest=True, what=what)
    length = aff_to_expr(best)
    for name in variable_names(length):
        if name in kernel.temporary_variables:
            raise _computed_on_device(kernel, iname, name)
    return isl.PwAff.from_aff(best), length, aff_to_expr(low)


def _static_end(
    end: Callable[[Set], PwAff], domain: Set, assumptions: Set, *, largest: bool, what: str
) -> Aff:
    """Return a bound of the values in a domain: one function for all parameters.

    If there is none, as with strides, return a bound of all values between, which may be wider:
    conditions leave out the rest of the axis.
    """
    for bound in static_bounds(end(domain), assumptions, largest=largest):
        return bound
    between = domain.remove_divs()
    if all(are_bounded(between, name) for name in dim_names(between)):
        for bound in static_bounds(end(between), assumptions, largest=largest):
            return bound
    return static_value(end(domain), assumptions, largest=largest, what=what)


def _without_data(kernel: LoopKernel, domain: Set, iname: str) -> Set:
    """Return the values of *iname* for any computed data, if they are bounded."""
    data = [name for name in param_names(domain) if name in kernel.temporary_variables]
    wider = project_out_params(domain, data)
    return wider if all(are_bounded(wider, iname)) else domain


def _hint_for_items(kernel: LoopKernel, domain: Set, iname: str) -> str:
    (tag,) = kernel.iname_tags_of_type(iname, LocalInameTag)
    is_computed = not kernel.temporary_variables.keys().isdisjoint(param_names(domain))
    is_in_groups = any(
        kernel.has_tag(name, GroupInameTag)
        for insn in kernel.instructions
        if iname in insn.within_inames
        for name in insn.within_inames
    )
    outer = "" if is_computed or is_in_groups else ", outer_tag='g.0'"
    hint = f"split_iname(kernel, '{iname}', 128, inner_tag='{tag}'{outer}) instead of the tag"
    return f"{hint}; or bound '{iname}' by a number as well" if is_computed else hint


def _instruction_in(kernel: LoopKernel, iname: str) -> str | None:
    inside = (str(insn.id) for insn in kernel.instructions if iname in insn.within_inames)
    return next((f"instruction '{insn_id}', in '{iname}'" for insn_id in inside), None)


def _computed_on_device(kernel: LoopKernel, iname: str, name: str) -> StaticValueFindingError:
    return StaticValueFindingError(
        f"the number of work-groups for iname '{iname}' depends on '{name}', which the kernel "
        "computes",
        kernel=kernel.name,
        where=_instruction_in(kernel, iname),
        because=f"'{name}' is written by {', '.join(kernel.writers.get(name, ('nothing',)))}, "
        "but the host needs it to launch the groups",
        hint=f"bound '{iname}' by an argument as well ('{iname} < n' in its domain), pass "
        f"'{name}' as an argument, or tag other loops with hardware axes",
    )


def _length(domain: Set, iname: str, low: Aff) -> PwAff:
    """Return the number of values from *low* on as a function of the parameters."""
    return dim_max(domain, iname).sub(isl.PwAff.from_aff(low)).add_constant_val(_ONE)


_ONE = isl.Val.one(isl.DEFAULT_CONTEXT)


def _per_axis(
    kernel: LoopKernel, axes: Iterable[Axis], kind: type[AxisTag]
) -> list[tuple[PwAff, Expr]]:
    per_axis: dict[int, list[Axis]] = {}
    for axis in axes:
        if isinstance(axis.tag, kind):
            per_axis.setdefault(axis.tag.axis, []).append(axis)
    space = kernel.assumptions.get_space()
    one = isl.PwAff.from_aff(isl.Aff.val_on_domain(isl.LocalSpace.from_space(space), _ONE))
    result = []
    for number in range(max(per_axis, default=-1) + 1):
        inames = per_axis.get(number, [])
        if len(inames) <= 1:
            result.append((inames[0].extent, inames[0].length) if inames else (one, 1))
            continue
        total = inames[0].extent
        for axis in inames[1:]:
            total = total.max(axis.extent)
        best = next(iter(static_bounds(total, kernel.assumptions, largest=True)), None)
        if best is None:
            lengths = dict.fromkeys(axis.length for axis in inames)
            result.append((total, p.Max(tuple(lengths))))
        else:
            result.append((isl.PwAff.from_aff(best), aff_to_expr(best)))
    return result


def at_axis(axis: Axis, axis_index: Expr) -> Expr:
    """Return the value of an iname at index *axis_index* of its axis."""
    return axis_index if is_zero(axis.first) else p.Sum((axis_index, axis.first))
