"""Execution counts of instructions, from the domains of the enclosing loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.access import Place
from kgen.analysis.footprints import Footprints
from kgen.errors import InvalidValueError, KernelError
from kgen.ir.expr import minus, to_text, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    add_axis,
    bound_dim,
    involved_dims,
    isl_int,
    param_names,
    param_polynomial,
    params_space,
    project_out_dims,
    project_out_params,
    rows_of,
    with_dims,
    with_params,
)
from kgen.ir.sets.effort import isl_limit
from kgen.ir.sets.names import SetName
from kgen.ir.sets.quasi_affine import pw_aff_from_expr
from kgen.ir.tags import GroupInameTag, LocalInameTag
from kgen.ir.target import WARP_SIZE
from kgen.statistics.count import count
from kgen.statistics.descriptors import CountGranularity
from kgen.statistics.interval import Interval

__all__ = ["Count", "Runs", "SubgroupSize", "resolve_subgroup_size", "with_unused_axes"]

#: A count as a function of parameters: exact, or between two.
Count: TypeAlias = isl.PwQPolynomial | Interval

#: The sizes of sub-groups that callers may give.
SubgroupSize: TypeAlias = int | str | None


def resolve_subgroup_size(kernel: LoopKernel, given: SubgroupSize) -> int:
    """Return the size of a sub-group: the given one, or that of the target.

    Raises :class:`InvalidValueError` if neither is known and *given* is not ``'guess'``.
    """
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    if given not in (None, "guess"):
        raise InvalidValueError(
            f"the sub-group size is a positive number, None or 'guess', not {given!r}",
            kernel=kernel.name,
        )
    if kernel.target.warp_size is not None:
        return kernel.target.warp_size
    has_items = any(kernel.has_tag(iname, LocalInameTag) for iname in kernel.inames)
    if given == "guess" or not has_items:
        return WARP_SIZE  # without work-items each sub-group has one of them
    raise InvalidValueError(
        "the sub-group size is not given, and the target has none",
        kernel=kernel.name,
        hint="pass subgroup_size=32, or subgroup_size='guess'",
    )


@dataclass(frozen=True)
class _Data:
    """Loops with data-dependent trip counts, and the loops that must be counted with them."""

    loops: tuple[str, ...]
    inames: frozenset[str]


class Runs:
    """Counts the executions of the instructions of a prepared kernel, and caches the results."""

    def __init__(self, kernel: LoopKernel, subgroup_size: int, *, redundant: bool = False) -> None:
        self.kernel = kernel
        self.subgroup_size = subgroup_size
        self.redundant = redundant
        self.footprints = Footprints.of(kernel)
        self.space = _space(kernel)
        self._known: dict[tuple[Place, str], Count] = {}

    def at(self, place: Place, granularity: str, times: int = 1) -> Count:
        """Return how often work-items, sub-groups or work-groups execute a place.

        The count is multiplied by *times*, the number of events there.
        """
        found = self._known.get((place, granularity))
        if found is None:
            with isl_limit("counting runs of instructions", self.kernel, KernelError):
                found = self._known[place, granularity] = self._find(place, granularity)
        return found if times == 1 else found * times

    def _find(self, place: Place, granularity: str) -> Count:
        domain, exact = self.footprints.domain(place)
        data = self._data_loops(place.inames, domain)
        conditions = [
            to_text(c)
            for c in place.conditions
            if any(name in self.kernel.array_vars for name in variable_names(c))
        ]
        if data is None:
            result = self._of_domain(domain, place.inames, granularity)
        else:
            result = self._with_data(domain, place.inames, data, granularity)
        if not exact and (conditions or data is None):
            reason = f"whether {' and '.join(conditions)} holds depends on data"
            low = result.low if isinstance(result, Interval) else result
            result = Interval(low * 0, *_high_and(result, reason))
        return result

    # -- affine loops -----------------------------------------------------------------------

    def _of_domain(self, domain: Set, inames: tuple[str, ...], granularity: str) -> Count:
        axes = {
            tag.axis: name
            for name in inames
            for tag in self.kernel.iname_tags_of_type(name, LocalInameTag)
        }
        if self.redundant:
            domain = with_unused_axes(domain, axes, self.kernel.grid.locals)
        if granularity != CountGranularity.WORKITEM:
            domain = self._by_group(domain, axes, granularity)
        counted = self._aligned(count(domain))
        return counted * self.unused_groups(inames) if self.redundant else counted

    def _by_group(self, domain: Set, axes: Mapping[int, str], granularity: str) -> Set:
        """Replace the work-items of a domain by their sub-groups, or by their group.

        Work-items are numbered along axis 0 first; each sub-group has consecutive ones.
        """
        if granularity == CountGranularity.WORKGROUP or not axes:
            return project_out_dims(domain, axes.values())
        sizes = self.kernel.grid.locals
        if prod(sizes) <= self.subgroup_size:
            return project_out_dims(domain, axes.values())
        domain = with_dims(domain, (SetName.SUBGROUP,))
        space = domain.get_space()
        number = isl.PwAff.from_aff(isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space)))
        for axis, name in sorted(axes.items()):
            first = self.kernel.axes[name].first if name in self.kernel.axes else 0
            index = pw_aff_from_expr(space, minus(p.Variable(name), first))
            number = number.add(index.scale_val(isl_int(prod(sizes[:axis]))))
        whole = number.scale_down_val(isl_int(self.subgroup_size)).floor()
        same = pw_aff_from_expr(space, p.Variable(SetName.SUBGROUP)).eq_set(whole)
        return project_out_dims(domain.intersect(same), axes.values())

    def unused_groups(self, inames: tuple[str, ...]) -> Count:
        """Return the number of work-groups along the axes that *inames* do not use."""
        used = {
            tag for name in inames for tag in self.kernel.iname_tags_of_type(name, GroupInameTag)
        }
        factor: Count = isl.PwQPolynomial.from_qpolynomial(
            isl.QPolynomial.one_on_domain(self.space)
        )
        for axis, extent in enumerate(self.kernel.grid.group_counts):
            if GroupInameTag(axis) not in used:
                factor = factor * self._aligned(isl.PwQPolynomial.from_pw_aff(extent))
        return factor

    # -- loops over data --------------------------------------------------------------------

    def _data_loops(self, inames: tuple[str, ...], domain: Set) -> _Data | None:
        """Find the loops with data-dependent bounds, and the loops that depend on them."""
        kernel = self.kernel
        data = {name for name in param_names(domain) if name in kernel.array_vars}
        if not data:
            return None
        loops = tuple(
            name
            for name in inames
            if data & set(param_names(kernel.domains[kernel.home_domain[name]]))
        )
        tied = set(loops)
        for name in sorted(data):
            for writer in kernel.writers.get(name, ()):
                tied |= kernel.id_to_insn[writer].within_inames & set(inames)
        grown = True
        while grown:
            grown = False
            for constraint in rows_of(domain):
                inside = set(involved_dims(constraint))
                if inside & tied and not inside <= tied:
                    tied |= inside
                    grown = True
        return _Data(loops, frozenset(tied))

    def _with_data(
        self, domain: Set, inames: tuple[str, ...], data: _Data, granularity: str
    ) -> Count:
        """Multiply the exact count of the other loops by a parameter for those over data."""
        name = "n_" + "_".join(data.loops)
        space = with_params(self.space, (name,))
        trips = isl.PwQPolynomial.from_qpolynomial(param_polynomial(space, name))
        rest = _without_data(project_out_dims(domain, sorted(data.inames)), self.kernel)
        others = tuple(iname for iname in inames if iname not in data.inames)
        result = _in_space(self._of_domain(rest, others, granularity), space) * trips
        together = [n for n in sorted(data.inames) if self.kernel.has_tag(n, LocalInameTag)]
        if granularity == CountGranularity.WORKITEM or not together:
            return result
        reason = (
            f"how many work-items of '{together[0]}' run '{data.loops[0]}' together depends on data"
        )
        return Interval(result * 0, *_high_and(result, reason))

    def _aligned(self, counted: Count) -> Count:
        """Give a count the parameters of the kernel."""
        return _in_space(counted, self.space)


def _in_space(counted: Count, space: isl.Space) -> Count:
    if isinstance(counted, Interval):
        low, high = _in_space(counted.low, space), _in_space(counted.high, space)
        return Interval(low, high, counted.reasons)
    # the parameters of the second come first
    return counted + isl.PwQPolynomial.zero(add_axis(space))


def _high_and(result: Count, reason: str) -> tuple[isl.PwQPolynomial, tuple[str, ...]]:
    if isinstance(result, Interval):
        return result.high, (*result.reasons, reason)
    return result, (reason,)


def _space(kernel: LoopKernel) -> isl.Space:
    names = (n for n in kernel.all_params() if n not in kernel.temporary_variables)
    return params_space(sorted(names))


def with_unused_axes(domain: Set, axes: dict[int, str], sizes: Iterable[int]) -> Set:
    """Add the local axes that are not in *axes* to these, and to a domain."""
    for number, size in enumerate(sizes):
        if number not in axes:
            axes[number] = SetName.UNUSED.at(number)
            domain = with_dims(domain, (axes[number],))
            domain = bound_dim(domain, axes[number], 0, size - 1)
    return domain


def _without_data(domain: Set, kernel: LoopKernel) -> Set:
    return project_out_params(domain, kernel.array_vars.keys() & param_names(domain))
