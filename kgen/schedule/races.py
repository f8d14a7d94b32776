"""Races within an instruction: an element written, or also read, by several work-items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

from kgen.analysis.access import Access
from kgen.analysis.axes import has_item_loops
from kgen.analysis.dependences import (
    by_priority,
    describe_violation,
    in_lexicographic_order,
    share_iterations,
    shared_loops,
)
from kgen.analysis.instances import axis_name, bound, elements_of, relate_sides
from kgen.analysis.loop_bounds import data_in_bounds
from kgen.analysis.points import describe_pair, example
from kgen.errors import (
    ExpressionToAffineConversionError,
    ScheduleError,
    WriteRaceConditionWarning,
    WriteRaceError,
    is_silenced,
    message,
)
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import Expr, WalkMapper, substitute, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.sets.dims import Set, project_out_params, rename_param, union_of
from kgen.ir.sets.names import PAIR, SetName, Side
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import GroupInameTag, IlpBaseTag, VectorizeTag
from kgen.ir.types import AddressSpace
from kgen.schedule.conflicts import Conflicts
from kgen.schedule.interchange import has_order
from kgen.schedule.nesting import LoopNesting

__all__ = [
    "Race",
    "RaceKind",
    "find_races",
    "race_text",
    "check_races",
    "check_copies_independent",
]


class RaceKind(Enum):
    """The kind of a race: a write by several work-items, or by one in several parallel iterations.

    Or a write of elements that another work-item reads with the same instruction.
    """

    CERTAIN = "different work-items write different values"
    SAME_VALUE = "different work-items write the same element, possibly with the same value"
    POSSIBLE = "whether different work-items meet depends on data"
    READ = "it may read them before or after these writes"
    MAY_READ = "whether other work-items write what it reads depends on data"
    IN_COPIES = "copies of the instruction write different values, and only the last one is kept"

    @property
    def is_certain(self) -> bool:
        """Tell whether the code would certainly be wrong."""
        return self in (RaceKind.CERTAIN, RaceKind.READ)


@dataclass(frozen=True)
class Race:
    """A write of one element by several work-items, or one that others read; with an example."""

    access: Access
    kind: RaceKind
    point: str


def check_races(conflicts: Conflicts, insn_ids: Iterable[str]) -> bool:
    """Reject instructions with which work-items write different values to one element.

    Nor may they read what others write with the same instruction, which no barrier
    separates. If the overlap, or the difference of values, depends on data, there
    is a :class:`WriteRaceConditionWarning`; ``write_race(id)`` in ``silenced_warnings`` asserts
    that one instruction has no race, and so does atomic access.

    Returns whether there is no race, by proof or by assertion. Raises
    :class:`WriteRaceError` with both work-items.
    """
    kernel = conflicts.kernel
    is_free = True
    for race in find_races(conflicts, insn_ids):
        silencer = f"write_race({race.access.insn_id})"
        if is_silenced(silencer, kernel.silenced_warnings):
            continue
        is_free = False
        text = race_text(kernel, race)
        if race.kind.is_certain:
            raise WriteRaceError(f"{text}; add '{silencer}' to silenced_warnings to allow it")
        if has_item_loops(kernel):
            text += "\n  therefore, one thread runs all work-groups, in order"
        kernel.warn(text, silencer, WriteRaceConditionWarning)
    return is_free


def check_copies_independent(kernel: PreparedKernel, insn_ids: Sequence[str]) -> None:
    """Reject loops that are tagged as independent, but whose iterations depend on each other.

    All copies of an instruction run before those of the next one of *insn_ids*: instances of the
    next one in an earlier iteration come after those of the first in a later one. An iteration is
    that of all copied loops around both. Copies are also inside all other
    loops, including those that would be inside a loop that is not copied.
    """
    copied = [n for n in kernel.iname_order if kernel.has_tag(n, (IlpBaseTag, VectorizeTag))]
    if not copied:
        return
    conflicts = Conflicts(kernel)
    written = _accesses_to_written(conflicts)
    accesses = [access for name in insn_ids for access in written.get(name, ())]
    _check_loops_inside(conflicts, copied, accesses)
    for k, first in enumerate(accesses):
        loops = kernel.id_to_insn[first.insn_id].within_inames.intersection(copied)
        for second in accesses[k + 1 :] if loops else ():
            if first.insn_id == second.insn_id or first.array != second.array:
                continue
            both = loops & kernel.id_to_insn[second.insn_id].within_inames
            around = by_priority(kernel, [n for n in copied if n in both])
            found = _where_swapped(conflicts, around, first, second)
            if found is not None:
                copies = f"of '{first.insn_id}' run before those of '{second.insn_id}'"
                raise _swapped(kernel, second, first, *found, copies)


def _check_loops_inside(
    conflicts: Conflicts, copied: Sequence[str], accesses: Sequence[Access]
) -> None:
    """Reject copied loops that would have to stay outside others if they were not copied."""
    kernel = conflicts.kernel
    nesting = LoopNesting(kernel, sequential_axes=False, with_copies=True)
    different = {(a.array, a.index, a.is_write, a.insn_id): a for a in accesses}
    for first, then in product(different.values(), repeat=2):
        if first.array != then.array or not has_order(kernel, first, then):
            continue
        loops = shared_loops(kernel, first, then)
        crossed = [n for n in loops if not share_iterations(n, first, then)]
        if len(crossed) < 2 or not any(n in copied for n in crossed):
            continue
        try:
            around = nesting.loops_around(kernel.id_to_insn[first.insn_id])
        except ScheduleError:  # without copies, the loops do not nest
            continue
        order = [name for name in around if name in crossed]
        found = _where_inside(conflicts, order, copied, first, then)
        if found is not None:
            outer, inner, point = found
            copies = f"run in each iteration of '{inner}'"
            swap = (
                f"prioritize_loops(kernel, '{inner},{outer}'), if '{inner}' is meant to be outside"
            )
            raise _swapped(kernel, first, then, outer, point, copies, f"; or {swap}")


def _where_inside(
    conflicts: Conflicts, order: Sequence[str], copied: Sequence[str], first: Access, then: Access
) -> tuple[str, str, str] | None:
    """Return where *then* would come before *first* if the *copied* loops were inside others.

    Returns the copied loop, the loop that is around it now, and an example.
    """
    inside = [name for name in order if name not in copied]
    if list(order) == [*inside, *(name for name in order if name in copied)]:
        return None
    both = _pairs_in(conflicts, first, then, order)
    if both is None:
        return None
    for outer, earlier in zip(order, in_lexicographic_order(both, order), strict=True):
        for inner, turned in zip(
            inside, in_lexicographic_order(earlier, inside, Side.SECOND, Side.FIRST), strict=True
        ):
            if not turned.is_empty():
                return outer, inner, describe_violation(conflicts.kernel, turned, first, then)
    return None


def _pairs_in(
    conflicts: Conflicts, first: Access, then: Access, loops: Sequence[str]
) -> Set | None:
    """Return the overlapping pairs of iterations, in one iteration of the loops around *loops*.

    ``None`` if that depends on data: the tag states that iterations are independent.
    """
    sides = []
    for access, suffix in zip((first, then), PAIR, strict=True):
        named, is_exact = elements_of(conflicts.kernel, conflicts.footprints, access)
        if not is_exact:
            return None
        for name in access.place.inames:
            named = rename_param(named, name, name + suffix)
        sides.append(named)
    both = sides[0].intersect(sides[1])
    for name in shared_loops(conflicts.kernel, first, then):
        if name not in loops:
            both = relate_sides(both, name, "eq_set")
    return both


def _swapped(
    kernel: PreparedKernel,
    first: Access,
    then: Access,
    iname: str,
    point: str,
    copies: str,
    or_else: str = "",
) -> ScheduleError:
    return ScheduleError(
        f"iterations of loop '{iname}' depend on each other: "
        f"'{first.insn_id}' {_verb(first)} '{first}', and later "
        f"'{then.insn_id}' {_verb(then)} '{then}'",
        point=point,
        because=f"with the tag '{_tag_text(kernel, iname)}' all copies {copies}",
        hint=f"tag '{iname}' as 'unr', which keeps the order of iterations{or_else}",
    )


def _accesses_to_written(conflicts: Conflicts) -> dict[str, dict[Access, None]]:
    """Return the accesses to arrays that the kernel writes, private ones too, by instruction."""
    found: dict[str, dict[Access, None]] = {}
    for name, accesses in conflicts.footprints.accesses.items():
        if name in conflicts.kernel.writers:
            for access in accesses:
                found.setdefault(access.insn_id, {})[access] = None
    return found


def _verb(access: Access) -> str:
    return "writes" if access.is_write else "reads"


def _tag_text(kernel: PreparedKernel, iname: str) -> str:
    (tag,) = kernel.iname_tags_of_type(iname, (IlpBaseTag, VectorizeTag))
    return str(tag)


def _where_swapped(
    conflicts: Conflicts, loops: Sequence[str], first: Access, second: Access
) -> tuple[str, str] | None:
    """Return where *second* accesses an element in an earlier iteration of *loops* than *first*.

    Returns the first of the loops in which they differ, and an example.
    """
    crossed = [n for n in loops if not share_iterations(n, first, second)]
    if not crossed or not (first.is_write or second.is_write):
        return None
    if conflicts.may_pass(first, second):
        return None
    both = _pairs_in(conflicts, second, first, crossed)
    if both is None:
        return None
    for name, swapped in zip(crossed, in_lexicographic_order(both, crossed), strict=True):
        if not swapped.is_empty():
            return name, describe_pair(example(swapped), unit="a copy")
    return None


def race_text(kernel: PreparedKernel, race: Race) -> str:
    """Return the text: what races with what, and where."""
    access = race.access
    if race.kind is RaceKind.IN_COPIES:
        verb = "writes"
        where = "in several iterations that are declared independent of each other"
        hint = (
            "use the loops tagged 'ilp' or 'vec' in the subscripts, or tag them 'unr', which keeps "
            "their order"
        )
    elif race.kind in (RaceKind.READ, RaceKind.MAY_READ):
        verb = "may read" if race.kind is RaceKind.MAY_READ else "reads"
        where = "that it writes in other work-items"
        hint = (
            f"write to another array than '{access.array}'; or read into a temporary first, in a "
            "separate instruction, so that a barrier can be between the two"
        )
    else:
        verb = "may write" if race.kind is RaceKind.POSSIBLE else "writes"
        where = "from several work-items"
        hint = (
            "use all inames on hardware axes in the subscripts, split the reduction, or make it "
            "atomic, so that each work-item writes its own elements"
        )
    return message(
        f"instruction '{access.insn_id}' {verb} elements of '{access.array}' {where}",
        kernel=kernel.name,
        where=f"'{kernel.id_to_insn[access.insn_id]}'",
        point=race.point,
        because=race.kind.value,
        hint=hint,
    )


def find_races(conflicts: Conflicts, insn_ids: Iterable[str]) -> Iterator[Race]:
    """Yield the writes of instructions in which several work-items may overlap."""
    for insn_id in insn_ids:
        insn = conflicts.kernel.id_to_insn[insn_id]
        if getattr(insn, "atomicity", ()) or insn_id in {n for n, _ in insn.no_sync_with}:
            continue
        for access in conflicts.accesses.get(insn_id, ()):
            if access.is_write:
                race = _race(conflicts, insn, access) or _race_with_reads(conflicts, access)
                if race is not None:
                    yield race


def _race_with_reads(conflicts: Conflicts, write: Access) -> Race | None:
    """Return where a work-item reads what another one writes with the same instruction."""
    kernel = conflicts.kernel
    loops = tuple(iname for iname in write.place.inames if iname not in kernel.axes)
    for read in conflicts.accesses[write.insn_id]:
        is_other = read.array == write.array and read.index != write.index
        if not is_other or read.is_write or len(loops) == len(write.place.inames):
            continue
        found = conflicts.between(write, read, loops, None)
        if found is not None:
            exact = (elements_of(kernel, conflicts.footprints, x)[1] for x in (write, read))
            return Race(write, RaceKind.READ if all(exact) else RaceKind.MAY_READ, found.point)
    return None


def _race(conflicts: Conflicts, insn: InstructionBase, access: Access) -> Race | None:
    axes = _axes_that_meet(conflicts.kernel, access)
    if axes:
        is_injective = conflicts.is_injective(access)
        if not is_injective:
            race = _Pairs(conflicts, insn, access, axes).race(is_injective is None)
            if race is not None:
                return race
    copied = _copied(conflicts.kernel, access)
    if not copied or conflicts.is_one_to_one(access):
        return None
    return _Pairs(conflicts, insn, access, copied).race_of_copies()


def _axes_that_meet(kernel: PreparedKernel, access: Access) -> tuple[str, ...]:
    """Return the inames on axes along which work-items share the array."""
    space = kernel.array_vars[access.array].address_space
    return tuple(
        iname
        for iname in access.place.inames
        if iname in kernel.axes
        and not (space == AddressSpace.LOCAL and isinstance(kernel.axes[iname].tag, GroupInameTag))
    )


def _copied(kernel: PreparedKernel, access: Access) -> tuple[str, ...]:
    """Return the inames tagged as independent whose iterations run in one work-item.

    Temporaries get an entry for each of these.
    """
    if access.array in kernel.temporary_variables:
        return ()
    tags = (IlpBaseTag, VectorizeTag)
    return tuple(iname for iname in access.place.inames if kernel.has_tag(iname, tags))


class _Pairs:
    """Two instances of an instruction that write one element, and differ in the inames *apart*.

    Each iname occurs twice, with the suffixes ``.a`` and ``.b``.
    """

    def __init__(
        self,
        conflicts: Conflicts,
        insn: InstructionBase,
        access: Access,
        apart: tuple[str, ...],
    ) -> None:
        self.kernel = conflicts.kernel
        self.insn = insn
        self.access = access
        self.apart = apart
        footprints = conflicts.footprints
        self.is_exact = footprints.domain(access.place)[1]
        named, _ = elements_of(self.kernel, footprints, access)
        self.named = footprints.with_params(named, *insn.expressions())

    def race(self, is_unknown: bool) -> Race | None:
        pairs = self._pairs()
        if pairs.is_empty():
            return None
        varying = self._with_other_values(pairs)
        if is_unknown or not self.is_exact:
            if not self._reads_data_to_write():
                return None
            shown = varying or pairs
            kind = RaceKind.POSSIBLE if varying is not None or self._is_private() else None
            return None if kind is None else Race(self.access, kind, self._describe(shown))
        if varying is not None:
            return Race(self.access, RaceKind.CERTAIN, self._describe(varying))
        return Race(self.access, RaceKind.SAME_VALUE, self._describe(pairs))

    def race_of_copies(self) -> Race | None:
        """Return a certain race between iterations that run in one work-item."""
        pairs = self._pairs()
        if pairs.is_empty() or not self.is_exact or self._reads_data_to_write():
            return None
        varying = self._with_other_values(pairs)
        if varying is None:
            return None
        point = describe_pair(example(varying), unit="a copy")
        return Race(self.access, RaceKind.IN_COPIES, point)

    def _pairs(self) -> Set:
        one, other = self._side(Side.FIRST), self._side(Side.SECOND)
        both = one.intersect(other)
        for iname in self.access.place.inames:
            if iname not in self.apart:
                both = bound(both, Side.FIRST.of(iname), p.Variable(Side.SECOND.of(iname)))
        different = union_of(
            bound(both, Side.FIRST.of(iname), p.Variable(Side.SECOND.of(iname)), "ne_set")
            for iname in self.apart
        )
        assert different is not None
        return different

    def _side(self, suffix: str) -> Set:
        named = self.named
        for iname in self.access.place.inames:
            named = rename_param(named, iname, iname + suffix)
        return named

    def _with_other_values(self, pairs: Set) -> Set | None:
        """Return the part of *pairs* that writes different values, as far as can be determined."""
        finder = _Operands(self.kernel)
        for expr in self.insn.read_exprs():
            finder(expr)
        fed_back = {name for name in finder.arrays if not self._is_own(name)}
        if self.access.array in finder.arrays or self._is_fed_back(fed_back):
            return pairs  # one writes what the other reads
        inames = self.access.place.inames
        sides = [{n: p.Variable(n + suffix) for n in inames} for suffix in PAIR]
        for operand in finder.found:
            one, other = (substitute(operand, side) for side in sides)
            try:
                part = _unequal(pairs, one, other)
            except ExpressionToAffineConversionError:
                if not set(self.apart).isdisjoint(variable_names(operand)):
                    return pairs
                continue
            if not part.is_empty():
                return part
        return None

    def _is_own(self, name: str) -> bool:
        """Tell whether each instance, run by a different work-item, has its own array."""
        array = self.kernel.array_vars.get(name)
        is_private = getattr(array, "address_space", None) == AddressSpace.PRIVATE
        return is_private and self.kernel.axes.keys() >= set(self.apart)

    def _is_fed_back(self, operands: set[str]) -> bool:
        """Tell whether operands are written in the same loops, by dependents of the instruction.

        If its iterations run sequentially, each then has a different value.
        """
        kernel = self.kernel
        writers = (kernel.id_to_insn[w] for name in operands for w in kernel.writers.get(name, ()))
        return any(
            not writer.within_inames.isdisjoint(self.apart)
            and self.insn.id in ancestors(kernel, writer)
            for writer in writers
        )

    def _is_private(self) -> bool:
        """Tell whether the value is computed from private data of each work-item."""
        return any(map(self._is_own, variable_names(*self.insn.read_exprs())))

    def _reads_data_to_write(self) -> bool:
        """Tell whether the element written depends on data, beyond products of loop variables."""
        place, arrays = self.access.place, self.kernel.array_vars
        deciding = (*(self.access.index or ()), *place.conditions)
        return (
            self.access.index is None
            or any(name in arrays for name in variable_names(*deciding))
            or any(data_in_bounds(self.kernel, iname) for iname in place.inames)
        )

    def _describe(self, pairs: Set) -> str:
        point = example(pairs)
        for iname in self.apart:
            axis = self.kernel.axes[iname]
            for suffix in PAIR:
                value = evaluate(axis.first, point)
                point[axis_name(axis.tag) + suffix] = point[iname + suffix] - value
        return describe_pair(point)


def _unequal(pairs: Set, one: Expr, other: Expr) -> Set:
    different = bound(bound(pairs, SetName.VALUE, one), SetName.VALUE, other, "ne_set")
    return project_out_params(different, (SetName.VALUE,))


class _Operands(WalkMapper):
    """Collects the operands of a value: subscripts of elements read, and plain variables."""

    def __init__(self, kernel: PreparedKernel) -> None:
        self.kernel = kernel
        self.found: dict[Expr, None] = {}
        self.arrays: set[str] = set()

    def map_variable(self, expr: p.Variable, *args: object) -> None:
        if expr.name in self.kernel.inames:
            self.found[expr] = None
        elif expr.name in self.kernel.array_vars:
            self.arrays.add(expr.name)

    def map_subscript(self, expr: p.Subscript, *args: object) -> None:
        if isinstance(expr.aggregate, p.Variable):
            self.arrays.add(expr.aggregate.name)
        for index in expr.index_tuple:
            self.found[index] = None
