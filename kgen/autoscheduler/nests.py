"""Loop nests of a kernel: loops around loops, their lengths, the strides of accesses."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

from kgen.analysis.access import Access, collect_accesses
from kgen.autoscheduler.steps import Step, step
from kgen.errors import KgenError
from kgen.ir.affine import simplify
from kgen.ir.data import ArrayArg
from kgen.ir.expr import Expr, is_constant, is_zero, minus, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import HARDWARE_AXES, InameImplementationTag
from kgen.ir.types import AddressSpace
from kgen.schedule.tree import (
    Loop,
    Node,
    Schedule,
    insn_ids,
    loops_in,
)
from kgen.schedule.tree import (
    Sequence as InOrder,
)
from kgen.statistics.stepping import stride_along
from kgen.statistics.trips import trip_count
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["Factor", "Nest", "find_nests"]

#: The assumed trip count of a loop whose length depends on a call.
OPEN_TRIPS = 256
#: The assumed trip count of a loop whose length depends on data.
DATA_TRIPS = 8
#: Shorter loops are not cut into tiles.
LONG = 64


@dataclass(frozen=True)
class Factor:
    """An array that is read along a sum and another loop; along the last of *axes* contiguously.

    ``name`` is that of the array, unless it is also read along a third loop: ``a[i, k]*a[j, k]``.
    """

    name: str
    access: Access
    axes: tuple[str, str]

    @property
    def array(self) -> str:
        """The name of the array."""
        return self.access.array

    @property
    def has_own_array(self) -> bool:
        """Tell whether this is the only factor that reads the array."""
        return self.name == self.array

    def fetch(self, swept: Sequence[str], *names: Sequence[str], **options: Any) -> Step:
        """Return the step that fetches what this factor reads; *names* are those of the loops."""
        if self.has_own_array:
            return step(add_prefetch, self.array, swept, *names, **options)
        rule = f"{self.name}_fetch_rule"
        return step(add_prefetch, str(self.access), swept, *names, rule_name=rule, **options)


@dataclass(frozen=True)
class Nest:
    """Loops without anything between them (the *band*), outermost first, and what they contain.

    ``given`` is the kernel as it was given, ``kernel`` the prepared one, with the loops and
    instructions of reductions. ``around`` are the loops that the nest is in, ``before`` and
    ``after`` the instructions on both sides of it there. ``means`` are stated mean trip counts.
    """

    given: LoopKernel
    kernel: PreparedKernel
    band: tuple[str, ...]
    body: Node
    around: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    means: Mapping[str, int] = field(default_factory=dict)
    _strides: dict[tuple[Access, str], Expr] = field(default_factory=dict, compare=False)

    @cached_property
    def insn_ids(self) -> tuple[str, ...]:
        """The instructions, those of reductions among them."""
        return insn_ids(self.body)

    @cached_property
    def instructions(self) -> tuple[InstructionBase, ...]:
        """The instructions of the kernel as it was given."""
        known = self.given.id_to_insn
        return tuple(known[name] for name in self.insn_ids if name in known)

    @cached_property
    def inner(self) -> tuple[str, ...]:
        """The loops inside of the band, each once."""
        return tuple(dict.fromkeys(loop.iname for loop in loops_in(self.body)))

    @cached_property
    def inames(self) -> tuple[str, ...]:
        """All loops of the nest that the kernel has as it was given."""
        return tuple(name for name in (*self.band, *self.inner) if name in self.given.inames)

    @property
    def is_alone(self) -> bool:
        """Tell whether the kernel has no other instructions."""
        return len(self.instructions) == len(self.given.instructions)

    @property
    def inside(self) -> tuple[str, ...]:
        """The loops inside of the band that the kernel has as it was given."""
        return tuple(name for name in self.inames if name not in self.band)

    @cached_property
    def reduced(self) -> frozenset[str]:
        """The loops over which instructions of the kernel reduce."""
        return frozenset(n for insn in self.given.instructions for n in insn.reduction_inames())

    def is_free(self, iname: str) -> bool:
        """Tell whether the kernel leaves open how a loop is implemented."""
        known = self.given.inames
        return iname in known and not self.given.has_tag(iname, InameImplementationTag)

    def stays_inside(self, iname: str, unrolled: Collection[str] = ()) -> bool:
        """Tell whether no order changes if a loop is unrolled: of a sum, or of the innermost."""
        inside = self.inames[self.inames.index(iname) + 1 :]
        return iname in self.reduced or all(name in unrolled for name in inside)

    @cached_property
    def is_on_axes(self) -> bool:
        """Whether the user has put loops of the nest on hardware axes."""
        loops = {
            n for insn in self.instructions for n in insn.within_inames | insn.reduction_inames()
        }
        return any(self.given.has_tag(name, HARDWARE_AXES) for name in loops)

    # -- lengths ----------------------------------------------------------------------------

    def trips(self, iname: str) -> int | None:
        """Return the maximum trip count of a loop, if it is a number."""
        try:
            found = trip_count(self.kernel, iname).value
        except KgenError:
            return None
        return int(found) if found is not None and is_constant(found) else None

    @property
    def has_free_sums(self) -> bool:
        """Whether the loops inside the band are reductions whose terms have any order."""
        return self.reduced.issuperset(self.inside) and all(map(self.is_free, self.inside))

    def begins_at_zero(self, iname: str) -> bool:
        """Tell whether the first value of a loop variable is always 0."""
        return is_zero(self.kernel.get_iname_bounds(iname).lower)

    def is_data(self, iname: str) -> bool:
        """Tell whether the trip count of a loop depends on data."""
        return bool(trip_count(self.kernel, iname).data)

    def expected_trips(self, inames: Iterable[str]) -> int:
        """Return the product of the trip counts of loops, with estimates for unknown ones."""
        return math.prod(self._expected(name) for name in inames)

    def _expected(self, iname: str) -> int:
        usual = DATA_TRIPS if self.is_data(iname) else OPEN_TRIPS
        return self.means.get(iname) or self.trips(iname) or usual

    def divides(self, length: int, iname: str) -> bool:
        """Tell whether a trip count is proved to be a multiple of a number."""
        return self.kernel.get_iname_bounds(iname).is_multiple_of(length)

    # -- accesses ---------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Accesses to arrays in memory, each place once."""
        insns = [self.kernel.id_to_insn[name] for name in self.insn_ids]
        found = (a for a in collect_accesses(self.kernel, insns) if self._is_in_memory(a.array))
        return tuple(dict.fromkeys(found))

    def _is_in_memory(self, name: str) -> bool:
        return bool(self.kernel.array_vars[name].address_space == AddressSpace.GLOBAL)

    def stride(self, access: Access, iname: str) -> Expr:
        """Return the stride of an access along a loop; ``None`` if it depends on data."""
        key = access, iname
        if key not in self._strides:
            try:
                self._strides[key] = stride_along(self.kernel, access, iname)
            except KgenError:
                self._strides[key] = None
        return self._strides[key]

    def is_unit(self, access: Access, iname: str) -> bool:
        """Tell whether an access is contiguous along a loop."""
        stride = self.stride(access, iname)
        return is_constant(stride) and abs(stride) == 1

    def is_uniform(self, access: Access, iname: str) -> bool:
        """Tell whether an access is uniform along a loop: it refers to one element."""
        stride = self.stride(access, iname)
        return stride is not None and is_zero(stride)

    def unit_score(self, iname: str) -> int:
        """Count the accesses that are contiguous along a loop; writes count twice."""
        return sum(1 + a.is_write for a in self.accesses if self.is_unit(a, iname))

    def lane(self, among: Sequence[str]) -> str | None:
        """Return the loop along which most accesses are contiguous, the innermost of several."""
        best = max(reversed(among), key=self.unit_score, default=None)
        return best if best is not None and self.unit_score(best) else None

    def itemsize(self) -> int:
        """Return the bytes of the largest element that is accessed."""
        arrays = (self.kernel.array_vars[access.array] for access in self.accesses)
        return max((array.dtype.itemsize for array in arrays), default=8)

    def are_in_vectors(self) -> bool:
        """Tell whether elements of all accesses have a type of which there are vectors."""
        dtypes = {self.kernel.array_vars[access.array].dtype.dtype for access in self.accesses}
        return all(map(_has_vectors, dtypes))

    def is_only_read(self, name: str) -> bool:
        """Tell whether an array is an argument that nothing writes."""
        array = self.kernel.array_vars[name]
        return isinstance(array, ArrayArg) and name not in self.kernel.writers

    def read_again(self, inner: Sequence[str]) -> list[str]:
        """Return arrays of which several loops of known length read the same row."""
        lengths = {self.trips(name) for name in inner}
        if len(lengths) != 1 or None in lengths:
            return []
        found: dict[str, list[tuple[Expr, ...]]] = {}
        for access in self.accesses:
            if not access.is_write and self.is_only_read(access.array):
                found.setdefault(access.array, []).append(access.index or ())
        return [array for array, some in found.items() if _are_one_row(some, inner)]

    def are_vectors(self, lanes: int) -> bool:
        """Tell whether adjacent elements along inner loops form aligned vectors of some length."""
        return all(self._is_vector(a, k, lanes) for k in self.inner for a in self.accesses)

    def _is_vector(self, access: Access, k: str, lanes: int) -> bool:
        if self.is_uniform(access, k):
            return True
        dtype = self.kernel.array_vars[access.array].dtype.dtype
        strides = [self.stride(access, name) for name in self.band]
        return (
            _has_vectors(dtype)
            and access.index is not None
            and access.index[-1] == p.Variable(k)
            and self.begins_at_zero(k)
            and self.is_unit(access, k)
            and all(is_constant(one) and one % lanes == 0 for one in strides)
        )

    def are_neighbours_read(self, iname: str) -> bool:
        """Tell whether iterations of a loop read elements that others nearby read as well."""
        reads = [access for access in self.accesses if not access.is_write]
        return any(
            one.array == other.array and _is_shifted(one, other, iname)
            for one, other in combinations(reads, 2)
        )

    @cached_property
    def is_stream(self) -> bool:
        """Whether the innermost loop processes whole arrays, and no others are written."""
        writes = [access for access in self.accesses if access.is_write]
        arrays = [access.array for access in self.accesses]
        if self.inner or self.around or not writes or len(set(arrays)) != len(arrays):
            return False
        lane = self.band[-1]
        if not self.is_free(lane) or not self.are_long(lane):
            return False
        return (
            all(self.is_unit(a, lane) or self.is_uniform(a, lane) for a in self.accesses)
            and all(self.is_unit(a, lane) for a in writes)
            and all(not self.given.readers.get(a.array) for a in writes)
            and all(len(self.given.writers[a.array]) == 1 for a in writes)
            and not any(insn.predicates for insn in self.instructions)
        )

    def least_size(self, most: int) -> tuple[str | None, int] | None:
        """Return the parameter, and its least value, with which arrays have a number of bytes.

        The arrays are those that are accessed along the innermost loop; the parameter is ``None``
        if they always have as many bytes. Nothing is returned if the size depends on several
        parameters.
        """
        moving = [a.array for a in self.accesses if not self.is_uniform(a, self.band[-1])]
        each = sum(self.kernel.array_vars[name].dtype.itemsize for name in moving)
        trips: list[Any] = [trip_count(self.kernel, name).value for name in self.band]
        if None in trips:
            return None
        names = variable_names(*trips)
        if len(names) > 1:
            return None

        def are_large(size: Any) -> bool:
            lengths = (evaluate(one, dict.fromkeys(names, size)) for one in trips)
            return bool(each * math.prod(lengths) >= most)

        top = 1
        while not are_large(top):
            top *= 2
            if top > most:
                return None
        if not names:
            return None, 0
        (name,) = names
        return str(name), bisect_left(range(top), True, key=are_large)

    def find_product(self, loops: Sequence[str]) -> tuple[str, str, str, str] | None:
        """Return rows, columns and sum of a matrix product, and the factor that is read in panels.

        Rows ``i``, columns ``j`` and the sum over ``k`` are told by the accesses: one array is read
        along ``k`` and ``j``, adjacent elements along one of them, whatever ``i`` is.
        """
        j = self.lane(loops)
        if j is None or len(self.inner) != 1 or len(loops) < 2:
            return None
        (k,) = self.inner
        if k not in self.reduced or not self.is_free(k) or not self.are_long(j, k):
            return None
        for along, across in ((j, k), (k, j)):
            for access in self.accesses:
                is_panel = self.is_unit(access, along) and not self.is_uniform(access, across)
                if not is_panel or access.is_write or not self.is_only_read(access.array):
                    continue
                rows = [n for n in loops if n != j and self.is_uniform(access, n)]
                rows = [n for n in rows if self.are_long(n)]
                if rows:
                    factors = self.factors(rows[-1], j, k).values()
                    panels = (f.name for f in factors if f.array == access.array and j in f.axes)
                    return rows[-1], j, k, next(panels)
        return None

    def find_scan(self) -> tuple[str, list[str]] | None:
        """Return the loop with which the range of the only reduction grows, and its instruction."""
        if len(self.inner) != 1 or not self.reduced.issuperset(self.inner):
            return None
        (k,) = self.inner
        bounding = [name for name in self.band if self._bounds(name, k)]
        reducing = [str(insn.id) for insn in self.instructions if insn.reduction_inames()]
        if len(bounding) != 1 or not all(map(self.is_free, (k, *bounding))):
            return None
        return bounding[0], reducing

    def _bounds(self, outer: str, inner: str) -> bool:
        """Tell whether the length of a loop depends on the variable of one around it."""
        found = trip_count(self.kernel, inner, (outer,))
        return found.value is not None and outer in variable_names(found.value)

    def are_long(self, *inames: str) -> bool:
        """Tell whether loops may have the length of a tile, independent of data."""
        return all((self.trips(n) or LONG) >= LONG and not self.is_data(n) for n in inames)

    def factors(self, i: str, j: str, k: str) -> dict[str, Factor]:
        """Return the arrays that are read along a sum and one of two other loops, by name.

        An array that is read along both, as in ``a[i, k]*a[j, k]``, is two factors.
        """
        found: dict[tuple[str, str], Access] = {}
        for access in self.accesses:
            if not access.is_write and self.is_only_read(access.array):
                along = [name for name in (i, j) if not self.is_uniform(access, name)]
                if len(along) == 1 and not self.is_uniform(access, k):
                    found.setdefault((access.array, along[0]), access)
        arrays = [array for array, _ in found]
        factors = []
        for (array, loop), access in found.items():
            first, last = sorted((loop, k), key=partial(self.is_unit, access))
            name = array if arrays.count(array) == 1 else f"{array}_{loop}"
            factors.append(Factor(name, access, (first, last)))
        return {factor.name: factor for factor in factors}

    def deeper(self) -> Iterator[Nest]:
        """Yield the nests inside of the band."""
        around = (*self.around, *self.band)
        yield from _nests(self.given, self.kernel, self.body, around, self.means)


def _are_one_row(found: Sequence[tuple[Expr, ...]], inner: Sequence[str]) -> bool:
    """Tell whether subscripts, more than one, are those of a row along one of some loops each."""
    loops = {p.Variable(name) for name in inner}
    ends = {index[-1] for index in found if index}
    return len(found) > 1 and ends <= loops and len({index[:-1] for index in found}) == 1


def _has_vectors(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iuf" and dtype.itemsize in (4, 8)


def _is_shifted(one: Access, other: Access, iname: str) -> bool:
    """Tell whether two subscripts differ by numbers only, and by one along a loop."""
    if one.index is None or other.index is None or len(one.index) != len(other.index):
        return False
    pairs = list(zip(one.index, other.index, strict=True))
    by = [simplify(minus(after, before)) for before, after in pairs]
    moved = (iname in variable_names(before) for before, _ in pairs)
    is_along = any(here and not is_zero(step) for here, step in zip(moved, by, strict=True))
    return is_along and all(map(is_constant, by))


def find_nests(
    given: LoopKernel, kernel: PreparedKernel, schedule: Schedule, means: Mapping[str, int]
) -> Iterator[Nest]:
    """Yield the outermost nests of a kernel in order; *means* are mean trip counts of loops."""
    for launch, around in schedule.launches_in_loops:
        yield from _nests(given, kernel, launch.body, around, means)


def _nests(
    given: LoopKernel,
    kernel: PreparedKernel,
    node: Node,
    around: tuple[str, ...],
    means: Mapping[str, int],
) -> Iterator[Nest]:
    children = node.children if isinstance(node, InOrder) else (node,)
    for k, child in enumerate(children):
        if not isinstance(child, Loop):
            continue
        band, body = _band(child)
        sides = (
            tuple(n for other in some for n in insn_ids(other) if n in given.id_to_insn)
            for some in (children[:k], children[k + 1 :])
        )
        yield Nest(given, kernel, band, body, around, next(sides), next(sides), means)


def _band(loop: Loop) -> tuple[tuple[str, ...], Node]:
    """Return perfectly nested loops, from one inwards."""
    names = [loop.iname]
    body = loop.body
    while isinstance(body, Loop):
        names.append(body.iname)
        body = body.body
    return tuple(names), body
