"""Reads of elements that no instruction has written, as far as isl can determine."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pymbolic.primitives as p

from kgen.analysis.access import Access, Place
from kgen.analysis.instances import Instances, axis_name, bound, element_name, relate
from kgen.analysis.points import describe, example
from kgen.analysis.written import is_read_as_written
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.data import ArrayArg, TemporaryVariable
from kgen.ir.expr import subscript, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment
from kgen.ir.sets.dims import (
    Set,
    from_named,
    largest_value,
    param_names,
    project_out_params,
    with_params,
)
from kgen.ir.sets.effort import answer
from kgen.ir.sets.names import SetName, Side
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import GroupInameTag
from kgen.schedule.tree import Schedule, insn_ids
from kgen.schedule.visits import Visit, visits_of

__all__ = ["Undefined", "find_undefined"]

#: The budget of isl operations for a read, a few seconds: more than for other questions whose
#: answer may be unknown, as the answer can be an error.
_MOST: Final = 500_000


@dataclass(frozen=True)
class Undefined:
    """A read of elements that were never written; *point* is ``None`` if that is unknown.

    *always* if it happens for all sizes for which the read exists at all, except some small
    ones. *elsewhere* if some instruction writes such elements, but later, or in another
    work-item; *foreign* if it is certainly in another one. *stale* is the instruction that wrote
    such an element last, only in another work-item, after this one got its value. *is_unused* if
    the read is a copy, and nothing reads what it copies.
    """

    read: Access
    point: str | None
    element: tuple[int, ...] = ()
    always: bool = True
    elsewhere: bool = True
    foreign: bool = False
    stale: str | None = None
    is_unused: bool = False


def find_undefined(
    kernel: PreparedKernel, schedule: Schedule, *, has_axes: bool = True
) -> Iterator[Undefined]:
    """Yield the reads of elements that were never written, and those that are undecided.

    These include reads of a value that another work-item overwrote in its own copy, and reads
    whose values are unused.
    """
    return _Finder(kernel, schedule, has_axes).find()


#: Where a read is undefined; otherwise, what is known of it.
_Answer: TypeAlias = tuple[str, tuple[int, ...], bool, bool] | Literal["defined", "unused", "open"]


class _Finder:
    def __init__(self, kernel: PreparedKernel, schedule: Schedule, has_axes: bool) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.instances = Instances(kernel, has_axes=has_axes)
        self.memo: dict[object, _Answer] = {}

    def find(self) -> Iterator[Undefined]:
        kernel = self.kernel
        accesses = self.instances.footprints.accesses
        names = [
            n for n, array in sorted(kernel.array_vars.items()) if _must_be_written(kernel, array)
        ]
        if not names:
            return
        self.visits = {visit.insn_id: visit for visit in visits_of(self.schedule.steps)}
        for name in names:
            mine = accesses.get(name, ())
            writes = [access for access in mine if access.is_write]
            for access in mine:
                if not access.is_write and access.insn_id in self.visits:
                    found = self._answer(access, self._check(access, writes))
                    yield from found
                    if all(one.is_unused for one in found):
                        yield from self._answer(access, self._stale(access, writes))

    def _answer(self, read: Access, found: Iterator[Undefined]) -> tuple[Undefined, ...]:
        """Return what is *found* for a read; it is undecided if that takes isl too long."""
        every = answer(lambda: tuple(found), _MOST)
        return (Undefined(read, None),) if every is None else every

    def _check(self, read: Access, writes: list[Access]) -> Iterator[Undefined]:
        at = self.visits[read.insn_id]
        if any(self._surely_before(write, read, at) for write in writes):
            return
        if read.index is None or not self.instances.footprints.domain(read.place)[1]:
            yield self._foreign(read, writes) or Undefined(read, None)
            return
        earlier = [w for w in writes if self._may_be_before(w, at)]
        everywhere = tuple((w.place, w.index) for w in writes)
        shapes = (everywhere, self._shapes(earlier, at))
        copy = self._copy_of(read)
        stored = None if copy is None else (copy.array, copy.index)
        key = (read.place, read.index, at.loops, shapes, self._space(read), stored)
        if key not in self.memo:
            self.memo[key] = self._undefined(read, earlier, writes, at)
        found = self.memo[key]
        if not isinstance(found, str):
            yield Undefined(read, *found)
        elif found != "defined":
            yield Undefined(read, None, is_unused=found == "unused")

    def _space(self, access: Access) -> object:
        return getattr(self.kernel.array_vars[access.array], "address_space", None)

    def _shapes(self, writes: list[Access], at: Visit) -> object:
        return tuple(
            (w.place, w.index, visit.loops, visit.position < at.position)
            for w in writes
            for visit in (self.visits[w.insn_id],)
        )

    def _surely_before(self, write: Access, read: Access, at: Visit) -> bool:
        """Tell, without isl, whether the same element was written immediately before."""
        visit = self.visits.get(write.insn_id)
        return (
            visit is not None
            and visit.position < at.position
            and write.index is not None
            and write.index == read.index
            and set(write.place.inames) <= set(read.place.inames)
            and set(write.place.conditions) <= set(read.place.conditions)
        )

    def _may_be_before(self, write: Access, at: Visit) -> bool:
        visit = self.visits.get(write.insn_id)
        if visit is None:
            return False
        return visit.position < at.position or bool(visit.shared_loops(at))

    def _undefined(
        self, read: Access, earlier: list[Access], writes: list[Access], at: Visit
    ) -> _Answer:
        """Return a point and an element that *read* reads and none of *earlier* writes.

        Also returns whether there is one for all sizes, and whether *writes* has a write of any
        such element. Without such a point, returns what is known of the read. Data-dependent parts
        of the writes are considered last.
        """
        loops = tuple(name for _, name in at.loops)
        left, is_exact = self.instances.touched(read, loops)
        if not is_exact:
            return "open"
        left = everything = self._in_grid(left, read, earlier)
        if left.is_empty():
            return "defined"
        certain = [write for write in earlier if self._is_certain(write)]
        for some_writes in (certain, [write for write in earlier if write not in certain]):
            for written in (self._written_at_once, self._written_before):
                for write in some_writes:
                    some = written(write, at)
                    if some is None:
                        continue
                    if left.is_subset(some):
                        return "defined" if some_writes is certain else "open"
                    left = left.subtract(some)
        copy = self._copy_of(read)
        if copy is not None and self._is_never_read(copy, left, loops):
            return "unused"
        always = _is_most(self._sizes(left), self._sizes(everything))
        return *_point_in(left, read), always, self._is_written(left, writes, _naxes(read))

    def _is_certain(self, write: Access) -> bool:
        """Tell whether neither the execution of a write nor its element depends on data."""
        return write.index is not None and self.instances.touched(write, ())[1]

    def _copy_of(self, read: Access) -> Access | None:
        """Return the element of a temporary that *read* is copied to, if it is only copied."""
        insn = self.kernel.id_to_insn[read.insn_id]
        if not isinstance(insn, Assignment):
            return None
        if not isinstance(insn.assignee, p.Variable | p.Subscript):
            return None
        if insn.expression != subscript(p.Variable(read.array), read.index or ()):
            return None
        others = (*index_of(insn.assignee), *(read.index or ()), *insn.predicates)
        into = self.kernel.temporary_variables.get(assignee_name(insn.assignee))
        if into is None or into.base_storage is not None or read.array in variable_names(*others):
            return None
        accesses = self.instances.footprints.accesses[into.name]
        return next(one for one in accesses if one.is_write and one.insn_id == read.insn_id)

    def _is_never_read(self, copy: Access, where: Set, loops: tuple[str, ...]) -> bool:
        """Tell whether no instruction reads what *copy* stores in the iterations *where*."""

        def only(named: Set, kept: Collection[str]) -> Set:
            params = {*kept, *self.kernel.all_params()}
            return project_out_params(named, [n for n in param_names(named) if n not in params])

        elements = [element_name(axis) for axis in range(_naxes(copy))]
        stored = self.instances.touched(copy, loops)[0].intersect(only(where, loops))
        return all(
            read.index is not None
            and only(stored, elements).is_disjoint(
                only(self.instances.touched(read, ())[0], elements)
            )
            for read in self.instances.footprints.accesses[copy.array]
            if not read.is_write
        )

    def _foreign(self, read: Access, writes: list[Access]) -> Undefined | None:
        """Return a read under a data-dependent condition of elements that only others write.

        Whatever the data, such an element has no value.
        """
        footprints = self.instances.footprints
        plain = replace(read, place=Place(read.place.inames))
        if not self.instances.touched(plain, ())[1] or footprints.relation(read) is None:
            return None
        left = everything = self._in_grid(self.instances.touched(read, ())[0], read, writes)
        for write in writes:
            left = left.subtract(self.instances.touched(write, ())[0])
        if left.is_empty() or not _is_most(self._sizes(left), self._sizes(everything)):
            return None
        if not self._is_written(left, writes, _naxes(read)):
            return None
        return Undefined(read, *_point_in(left, read), foreign=True)

    def _is_written(self, left: Set, writes: list[Access], naxes: int) -> bool:
        """Tell whether any of *writes*, ignoring conditions, writes elements of *left*."""
        kept = {*self.kernel.all_params(), *(element_name(axis) for axis in range(naxes))}

        def elements(named: Set) -> Set:
            return project_out_params(named, [n for n in param_names(named) if n not in kept])

        missing = elements(left)
        free = [replace(write, place=Place(write.place.inames)) for write in writes]
        return any(
            not missing.intersect(elements(self.instances.touched(write, ())[0])).is_empty()
            for write in free
        )

    def _stale(self, read: Access, writes: list[Access]) -> Iterator[Undefined]:
        """Yield a read of an element that other work-items, but not its own, wrote last.

        In the original kernel, loops over work-items are sequential: there, a loop on
        an axis reads what another loop on that axis wrote. With their own copies, work-items
        do not see these writes, and read their previous values. This is intended if the subscript
        of a write does not depend on the loop: then each work-item has its own value.
        """
        at = self.visits[read.insn_id]
        loops = tuple(name for _, name in at.loops)
        for write in writes:
            apart = self._axes_apart(read, write)
            if not apart or not self._may_be_before(write, at):
                continue
            if not all(map(self._is_affine, (read, write))):
                continue
            left = self._left_stale(read, write, writes, apart)
            copy = self._copy_of(read)
            if left.is_empty() or (copy is not None and self._is_never_read(copy, left, loops)):
                continue
            yield Undefined(read, *_point_in(left, read), foreign=True, stale=write.insn_id)
            return

    def _axes_apart(self, read: Access, write: Access) -> frozenset[str]:
        """Return the axes on which *write* distributes elements by a loop that *read* is not in."""
        mine = self._loops_on_axes(read)
        named = variable_names(*(write.index or ()))
        theirs = self._loops_on_axes(write).items()
        return frozenset(n for n, iname in theirs if mine.get(n) != iname and iname in named)

    def _is_affine(self, access: Access) -> bool:
        """Tell whether data may decide only if an access happens, but not its element."""
        return self.instances.touched(replace(access, place=Place(access.place.inames)), ())[1]

    def _left_stale(
        self, read: Access, write: Access, writes: list[Access], apart: frozenset[str]
    ) -> Set:
        """Return where *read* reads what *write* wrote elsewhere, and no later write here."""
        at, then = self.visits[read.insn_id], self.visits[write.insn_id]
        left = self.instances.touched(read, tuple(name for _, name in at.loops))[0]
        left = self._in_grid(left, read, writes)
        left = left.intersect(self._written_in(write, Side.WRITER, apart))
        left = _in_order(left, (then, Side.WRITER), (at, ""))
        for other in (write, *writes):
            visit = self.visits.get(other.insn_id)
            if visit is None or left.is_empty():
                continue
            own = self._written_in(other, Side.BETWEEN, frozenset())
            own = _in_order(own, (visit, Side.BETWEEN), (at, ""))
            own = _in_order(own, (then, Side.WRITER), (visit, Side.BETWEEN), or_equal=True)
            left = left.subtract(project_out_params(own, _names_on(own, Side.BETWEEN)))
        return project_out_params(left, _names_on(left, Side.WRITER))

    def _written_in(self, write: Access, side: Side, apart: frozenset[str]) -> Set:
        """Return what *write* writes per iteration: in any work-item on the axes *apart*."""
        visit = self.visits[write.insn_id]
        named = self.instances.touched(write, tuple(name for _, name in visit.loops), side)[0]
        axes = self._loops_on_axes(write)
        for name in axes.keys() - apart:
            named = relate(named, side.of(name), name, "eq_set")
        return project_out_params(named, [side.of(name) for name in axes])

    def _loops_on_axes(self, access: Access) -> dict[str, str]:
        """Return the loops around an access, by the axes along which copies are separate."""
        owners = self.instances.owner_axes(access.array, access.place.inames)
        return {axis_name(axis.tag): iname for iname, axis in owners.items()}

    def _sizes(self, named: Set) -> Set:
        """Return the sizes for which a set is nonempty."""
        params = self.kernel.all_params()
        return project_out_params(named, [n for n in param_names(named) if n not in params])

    def _in_grid(self, left: Set, read: Access, earlier: list[Access]) -> Set:
        """Bound the axes that a writer uses but *read* does not: all work-items of these read."""
        mine = {axis_name(self.instances.axes[i].tag) for i in self._owners(read)}
        for write in earlier:
            for iname in self._owners(write):
                axis = self.instances.axes[iname]
                name = axis_name(axis.tag)
                if name in mine:
                    continue
                mine.add(name)
                grid = self.kernel.grid_of_launch(self._launch_of(read))
                sizes = grid.groups if isinstance(axis.tag, GroupInameTag) else grid.locals
                left = bound(with_params(left, (name,)), name, 0, "ge_set")
                if axis.tag.axis < len(sizes):
                    try:
                        left = bound(left, name, sizes[axis.tag.axis], "lt_set")
                    except ExpressionToAffineConversionError:
                        left = left.intersect(left.complement())
        return left

    def _owners(self, access: Access) -> Iterable[str]:
        return self.instances.owner_axes(access.array, access.place.inames)

    def _launch_of(self, access: Access) -> tuple[str, ...]:
        for launch in self.schedule.launches:
            found = insn_ids(launch.body)
            if access.insn_id in found:
                return found
        raise AssertionError(access.insn_id)

    def _written_at_once(self, write: Access, at: Visit) -> Set | None:
        """Return what *write* may have written in the same iteration of the shared loops."""
        visit = self.visits[write.insn_id]
        if visit.position >= at.position:
            return None
        return self.instances.touched(write, visit.shared_loops(at))[0]

    def _written_before(self, write: Access, at: Visit) -> Set | None:
        """Return what *write* may have written in an earlier iteration."""
        shared = self.visits[write.insn_id].shared_loops(at)
        if not shared:
            return None
        equal, _ = self.instances.touched(write, shared, Side.WRITER)
        for iname in self._owners(write):
            name = axis_name(self.instances.axes[iname].tag)
            equal = relate(equal, Side.WRITER.of(name), name, "eq_set")
            equal = project_out_params(equal, (Side.WRITER.of(name),))
        result = equal.intersect(equal.complement())
        for iname in shared:
            result = result.union(relate(equal, Side.WRITER.of(iname), iname, "lt_set"))
            equal = relate(equal, Side.WRITER.of(iname), iname, "eq_set")
        return project_out_params(result, [Side.WRITER.of(iname) for iname in shared])


def _in_order(
    named: Set, one: tuple[Visit, str], other: tuple[Visit, str], *, or_equal: bool = False
) -> Set:
    """Intersect with *one* before *other*; each has names of loops with a suffix."""
    (first, suffix), (second, other_suffix) = one, other
    result = named.intersect(named.complement())
    for iname in first.shared_loops(second):
        pair = iname + suffix, iname + other_suffix
        result = result.union(relate(named, *pair, "lt_set"))
        named = relate(named, *pair, "eq_set")
    is_before = first.position < second.position or (or_equal and first == second)
    return result.union(named) if is_before else result


def _names_on(named: Set, side: Side) -> list[str]:
    return [name for name in param_names(named) if name.endswith(side)]


def _naxes(read: Access) -> int:
    return len(read.index or ())


def _point_in(left: Set, read: Access) -> tuple[str, tuple[int, ...]]:
    """Return where a read in *left* happens, and the element that it reads there."""
    point = example(left)
    element = tuple(point.pop(element_name(axis)) for axis in range(_naxes(read)))
    return describe(point), element


def _is_most(some: Set, sizes: Set) -> bool:
    """Tell whether *some* are all of *sizes*, or all in which none is small.

    Kernels may be valid for multiples of their tiles; those for small sizes use one work-item.
    """
    others = sizes.subtract(some)
    if others.is_empty():
        return True
    names = param_names(others)
    every = from_named(sizes, names)
    endless = [name for name in names if largest_value(every, name).is_infty()]
    for name in endless:
        others = relate(others, SetName.LEAST, name, "le_set")
    least = largest_value(from_named(others, (*names, SetName.LEAST)), SetName.LEAST)
    return bool(endless) and not least.is_infty()


def _must_be_written(kernel: PreparedKernel, array: object) -> bool:
    """Tell whether only instructions give *array* its values.

    Temporaries that share storage get none from each other. An argument is such an array if the
    user states that it is not an input, and reads it.
    """
    if isinstance(array, TemporaryVariable):
        return array.initializer is None
    return (
        isinstance(array, ArrayArg)
        and array.is_input is False
        and is_read_as_written(kernel, array.name)
    )
