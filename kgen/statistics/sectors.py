"""Memory traffic: sectors of global memory per warp, bank conflicts of local memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.banks import BANK_BYTES, BANKS, bank_passes
from kgen.analysis.footprints import Footprints
from kgen.errors import ExpressionToAffineConversionError, KernelError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, substitute
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    fix_param_values,
    isl_int,
    n_dims,
    name_dims,
    only_dim,
    project_out_dims,
    with_dims,
)
from kgen.ir.sets.effort import limited
from kgen.ir.sets.names import SetName
from kgen.ir.sets.quasi_affine import pw_aff_from_expr
from kgen.ir.tags import LocalInameTag, VectorizeTag
from kgen.statistics.count import count
from kgen.statistics.descriptors import CountGranularity
from kgen.statistics.interval import Interval, value_of
from kgen.statistics.memory import memory_of, moving
from kgen.statistics.runs import Runs, with_unused_axes

__all__ = [
    "BANK_PASS",
    "SECTOR",
    "Traffic",
    "count_bank_passes",
    "count_footprint_sectors",
    "count_sectors",
    "evaluated",
]

#: The bytes of a sector, the unit in which global memory is moved.
SECTOR = 32
#: The bytes of local memory that are accessed in one pass over the banks.
BANK_PASS = BANKS * BANK_BYTES


@dataclass(frozen=True)
class Traffic:
    """The cost of one access of an instruction in a call.

    ``requests``: the number of accesses by warps; ``units``: the number of sectors, or of passes
    over the banks.
    """

    insn_id: str
    array: str
    direction: str
    requests: Any
    units: Any


@limited("counting sectors", KernelError)
def count_sectors(
    kernel: LoopKernel, params: Mapping[str, int], subgroup_size: int = 32
) -> tuple[Traffic, ...]:
    """Count the sectors of global memory that each access of a prepared kernel moves.

    For each access by a warp, the distinct sectors that its work-items access are counted, with all
    lanes of their vectors: exactly, from the access relation, for the sizes *params*. Arrays begin
    at a sector. For data-dependent subscripts, the number is an interval: from one sector to one
    for each work-item.
    """
    counter = _SectorCounter(kernel, params, subgroup_size)
    return tuple(counter.of(access) for access in _distinct(kernel, "global"))


@limited("counting sectors", KernelError)
def count_footprint_sectors(kernel: LoopKernel, params: Mapping[str, int]) -> Any:
    """Count the sectors of global memory that a prepared kernel reads, and that it writes.

    Each sector counts once: this is the least that memory must move. ``None`` if subscripts depend
    on data, or strides have no value.
    """
    footprints = Footprints.of(kernel)
    touched: dict[tuple[str, bool], Set] = {}
    for access in _distinct(kernel, "global"):
        elements = footprints.touched(access)
        if elements is None:
            return None
        key = (access.array, access.is_write)
        touched[key] = touched[key].union(elements) if key in touched else elements
    try:
        sectors = [
            _sectors_of(kernel, array, elements.coalesce(), params)
            for (array, _), elements in touched.items()
        ]
    except ExpressionToAffineConversionError:
        return None
    return sum((evaluated(count(each), params, kernel) for each in sectors), start=0)


def _sectors_of(kernel: LoopKernel, array: str, elements: Set, params: Mapping[str, int]) -> Set:
    """Return the sectors that elements of an array are in.

    Elements are easier for isl than iterations: these have quotients for each loop that was split.
    """
    names = [SetName.ELEMENT.at(axis) for axis in range(n_dims(elements))]
    index = tuple(p.Variable(name) for name in names)
    elements = fix_param_values(name_dims(elements, names), params)
    offset = _offset(kernel, array, index, params)
    return only_dim(_with_floor(elements, SetName.SECTOR, offset, SECTOR), SetName.SECTOR)


def _offset(
    kernel: LoopKernel, name: str, index: tuple[Expr, ...], params: Mapping[str, int]
) -> Expr:
    """Return the bytes from the start of an array to an element."""
    array = kernel.array_vars[name]
    steps = zip(index, array.fixed_strides, strict=True)
    number = p.Sum(tuple(p.Product((axis, stride)) for axis, stride in steps))
    values = {name: params[name] for name in params if name not in kernel.inames}
    return simplify(substitute(p.Product((array.dtype.itemsize, number)), values))


def _distinct(kernel: LoopKernel, memory: str) -> tuple[Access, ...]:
    """Return the accesses to a memory; repeated loads of an instruction count once."""
    found = (
        a
        for a in collect_accesses(kernel, moving(kernel.instructions))
        if memory_of(kernel, a.array) == memory
    )
    return tuple({(a.insn_id, a.array, a.index, a.is_write, a.place): a for a in found}.values())


class _SectorCounter:
    """Counts sectors; equal accesses are counted once."""

    def __init__(self, kernel: LoopKernel, params: Mapping[str, int], subgroup_size: int) -> None:
        self.kernel = kernel
        self.params = params
        self.size = subgroup_size
        self.footprints = Footprints.of(kernel)
        self.runs = Runs(kernel, subgroup_size, redundant=True)
        self._known: dict[Any, Any] = {}

    def of(self, access: Access) -> Traffic:
        """Count the sectors of one access."""
        requests = self._number(self.runs.at(access.place, CountGranularity.SUBGROUP))
        key = (access.place, access.array, access.index)
        if key not in self._known:
            self._known[key] = self._sectors(access, requests)
        direction = "store" if access.is_write else "load"
        return Traffic(access.insn_id, access.array, direction, requests, self._known[key])

    def _number(self, counted: Any) -> Any:
        return evaluated(counted, self.params, self.kernel)

    def _sectors(self, access: Access, requests: Any) -> Any:
        relation = self._accessed(access)
        if relation is None:
            at_most = self._number(self.runs.at(access.place, CountGranularity.WORKITEM))
            low = requests.low if isinstance(requests, Interval) else requests
            high = at_most.high if isinstance(at_most, Interval) else at_most
            return Interval(low, high, (f"which elements '{access}' accesses depends on data",))
        groups = self._number(self.runs.unused_groups(access.place.inames))
        return self._number(count(relation)) * groups

    def _accessed(self, access: Access) -> Set | None:
        """Return ``{ [outer loops, warp, sector] }``; ``None`` if it depends on data."""
        kernel = self.kernel
        domain, exact = self.footprints.domain(access.place)
        if access.index is None or not exact:
            return None
        offset = _offset(kernel, access.array, access.index, self.params)
        domain = fix_param_values(domain, self.params)
        lids = {
            tag.axis: name
            for name in access.place.inames
            for tag in kernel.iname_tags_of_type(name, LocalInameTag)
        }
        sizes = kernel.grid.locals
        domain = with_unused_axes(domain, lids, sizes)
        terms = (
            p.Product((prod(sizes[:axis]), p.Sum((p.Variable(name), _minus(kernel, name)))))
            for axis, name in sorted(lids.items())
        )
        domain = _with_floor(domain, SetName.WARP, p.Sum((0, *terms)), self.size)
        try:
            domain = _with_floor(domain, SetName.SECTOR, offset, SECTOR)
        except ExpressionToAffineConversionError:
            return None
        lanes = (n for n in access.place.inames if kernel.has_tag(n, VectorizeTag))
        return project_out_dims(domain, (*lids.values(), *lanes))


def _minus(kernel: LoopKernel, iname: str) -> Expr:
    return p.Product((-1, kernel.axes[iname].first)) if iname in kernel.axes else 0


def _with_floor(domain: Set, name: str, expr: Expr, divisor: int) -> Set:
    """Add a dimension that is ``floor(expr / divisor)``."""
    domain = with_dims(domain, (name,))
    value = pw_aff_from_expr(domain.get_space(), expr)
    whole = value.scale_down_val(isl_int(divisor)).floor()
    return domain.intersect(pw_aff_from_expr(domain.get_space(), p.Variable(name)).eq_set(whole))


def evaluated(counted: Any, params: Mapping[str, int], kernel: LoopKernel) -> Any:
    """Return the number, or the interval of numbers, that a count is for some parameters.

    Raises :class:`KernelError` for a parameter that has no value.
    """
    try:
        return value_of(counted, params)
    except KeyError as err:
        raise KernelError(
            f"the count depends on {err}, which has no value",
            kernel=kernel.name,
            hint="give it among the parameters: {'n': 1024, ...}",
        ) from None


# -- local memory ---------------------------------------------------------------------------


@limited("counting bank conflicts", KernelError)
def count_bank_passes(
    kernel: LoopKernel, params: Mapping[str, int], subgroup_size: int = 32
) -> tuple[Traffic, ...]:
    """Count the passes over the banks of local memory of a prepared kernel's accesses.

    A warp needs one pass, and another one for each additional word that its work-items access in
    the same of the 32 banks of four bytes. If a stride is not a number, an access takes between one
    pass and one for each work-item of a warp.
    """
    runs = Runs(kernel, subgroup_size, redundant=True)
    found = []
    for access in _distinct(kernel, "local"):
        counted = runs.at(access.place, CountGranularity.SUBGROUP)
        requests = evaluated(counted, params, kernel)
        passes = bank_passes(kernel, access, params, subgroup_size)
        if passes is None:
            reason = f"how '{access}' steps through banks is not known"
            units: Any = Interval(1, subgroup_size, (reason,)) * requests
        else:
            units = requests * passes
        direction = "store" if access.is_write else "load"
        found.append(Traffic(access.insn_id, access.array, direction, requests, units))
    return tuple(found)
