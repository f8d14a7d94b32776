"""Conflicts: accesses of different work-items to the same element, decided by isl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import NamedTuple

import pymbolic.primitives as p

from kgen.analysis.access import Access, Place, PlaceMapper
from kgen.analysis.fields import are_apart
from kgen.analysis.footprints import Footprints, split_constant
from kgen.analysis.held import is_held
from kgen.analysis.instances import (
    axis_name,
    bound,
    elements_around,
    elements_of,
    in_same_iteration,
    relate,
    relate_sides,
)
from kgen.analysis.points import describe_pair, example
from kgen.analysis.products import tensor_loops
from kgen.errors import is_silenced
from kgen.ir.assignee import index_of
from kgen.ir.atomicity import AtomicInit
from kgen.ir.expr import is_zero, minus, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment
from kgen.ir.sets.dims import (
    Map,
    Set,
    bound_param,
    in_names,
    in_to_params,
    param_names,
    project_out_params,
    rename_param,
    to_named,
    union_of,
    with_params,
)
from kgen.ir.sets.names import PAIR, SetName, Side
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import GroupInameTag, LocalInameTag, LookBackTag, PublishTag
from kgen.ir.target import WARP_SIZE
from kgen.ir.types import AddressSpace, Reach
from kgen.schedule.lanes import is_factor

#: The number of accesses that are tested together before they are tested in pairs.
_MANY = 5


@dataclass(frozen=True)
class Conflict:
    """Two accesses that different work-items may make to one element, with an example."""

    first: Access
    second: Access
    reach: Reach
    where: Set

    @property
    def point(self) -> str:
        """One pair of conflicting work-items."""
        return describe_pair(example(self.where))


class Conflicts:
    """The accesses of a kernel to shared memory, and their conflicts.

    Two accesses conflict if, for equal iterations of some loops, two different work-items
    of one group (of the device, for global memory) access one element, and one writes it.
    A subscript that is not affine may be any element. Work-items of one warp are told from others
    if *launch*, the instructions of a launch, gives the size of its groups.
    """

    def __init__(self, kernel: PreparedKernel, launch: Iterable[str] | None = None) -> None:
        self.kernel = kernel
        self._width = kernel.target.barrier_width if launch is not None else None
        self._group = () if launch is None else kernel.grid_of_launch(launch).locals
        self.footprints = Footprints.of(kernel)
        self._memo: dict[object, Conflict | None] = {}
        self._kinds: dict[Access, tuple[str, int]] = {}
        self._shapes: dict[object, int] = {}
        self._injective: dict[object, bool | None] = {}
        self._apart: dict[tuple[Map, tuple[int, ...]], bool] = {}
        self._sets: dict[tuple[int, str, Around], tuple[Set, int]] = {}
        # with the names of parameters, which isl's hash omits
        self._numbers: dict[tuple[tuple[str, ...], Set], int] = {}

    @cached_property
    def accesses(self) -> dict[str, tuple[Access, ...]]:
        """Accesses by instruction, only to arrays that work-items share and write."""
        found: dict[str, dict[Access, None]] = {}
        for name, accesses in self.footprints.accesses.items():
            space = self.kernel.array_vars[name].address_space
            shared = space in (AddressSpace.LOCAL, AddressSpace.GLOBAL)
            if shared and name in self.kernel.writers and not is_held(self.kernel, name):
                for access in accesses:
                    found.setdefault(access.insn_id, {})[access] = None
        return {insn_id: tuple(accesses) for insn_id, accesses in found.items()}

    def between(
        self,
        one: Access,
        other: Access,
        equal: tuple[str, ...],
        ascending: str | None,
    ) -> Conflict | None:
        """Return a conflict of access *one* with the later *other*, or ``None``.

        The loops *equal* are at the same iteration, *ascending* is at a later one in *other*.
        isl is queried once for all accesses to the same elements in the same iterations of these.
        """
        if self.may_pass(one, other):
            return None
        if one == other and self.is_one_to_one(one):
            return None
        key = self._key(one, other, equal, ascending)
        if key not in self._memo:
            first, second = one, other
            if one.array != other.array:  # in one storage: any two elements may overlap
                first, second = replace(one, index=None), replace(other, index=None)
            self._memo[key] = self._conflict(first, second, equal, ascending)
        found = self._memo[key]
        return None if found is None else Conflict(one, other, found.reach, found.where)

    def are_distant(
        self,
        one: Access,
        other: Access,
        equal: tuple[str, ...],
        loop: str,
        inside: Iterable[str],
    ) -> bool:
        """Tell whether an iteration of *loop* lies between any two in which the accesses conflict.

        This is an iteration in which some of the instructions *inside* the loop have instances
        in the same group. ``t[k % 2]`` is written again two iterations later.
        """
        mentioned = variable_names(*(one.index or ()), *(other.index or ()))
        if one.array != other.array or loop not in mentioned:
            return False
        around = Around(equal, loop, self._is_local(one.array))
        both = self._accessed_by_both(one, other, around)
        between = self._iterations(around, tuple(inside))
        for early, late in ((Side.FIRST, Side.BETWEEN), (Side.BETWEEN, Side.SECOND)):
            between = relate(between, early.of(loop), late.of(loop), "lt_set")
        between = project_out_params(between, [Side.BETWEEN.of(loop)])
        return self._find_conflict(both.subtract(between), around, loop) is None

    def _iterations(self, around: Around, insn_ids: tuple[str, ...]) -> Set:
        """Return the iterations, called ``.m``, in which instructions of a group have instances.

        The group is that of ``.a``. Work-items without instances reach barriers as well.
        """
        parts: list[Set] = []
        mapper = PlaceMapper(self.kernel)
        insns = (self.kernel.id_to_insn[insn_id] for insn_id in insn_ids)
        for place in dict.fromkeys(map(mapper.visit_predicates, insns)):
            domain, _ = self.footprints.domain(place)
            named = to_named(domain.intersect_params(self.kernel.assumptions))
            named = self._seen_from(named, place, Side.BETWEEN, around)
            for name in param_names(named):
                if SetName.ITEM.names(name):
                    named = project_out_params(named, [name])
                elif SetName.GROUP.names(name) and name.endswith(Side.BETWEEN):
                    first = Side.FIRST.of(name.removesuffix(Side.BETWEEN))
                    named = rename_param(named, name, first)
            parts.append(named)
        union = union_of(parts)
        assert union is not None
        return union

    def may_pass(self, one: Access, other: Access) -> bool:
        """Tell whether two accesses need no order.

        It is declared so, both are atomic updates, or they are to different fields of elements.
        """
        if are_apart(self.kernel, one, other):
            return True
        if self._is_exempt(one.insn_id, other.insn_id) or self._is_awaited(one, other):
            return True
        return self._is_atomic_update(one) and self._is_atomic_update(other)

    def _key(
        self, one: Access, other: Access, equal: tuple[str, ...], ascending: str | None
    ) -> object:
        around = Around(equal, ascending, self._is_local(one.array))
        _, first = self._accessed(one, Side.FIRST, around)
        _, second = self._accessed(other, Side.SECOND, around)
        return first, second, one.array == other.array, ascending

    def is_race_of_one(self, found: Conflict) -> bool:
        """Tell whether an instruction may conflict with itself, at data-dependent elements.

        It may then do so in one iteration as well, for which there is a warning. The same applies
        if the user has stated that its work-items may write one element.
        """
        if self._is_accepted(found):
            return True
        both = (found.first, found.second)
        unknown = any(self.footprints.relation(access) is None for access in both)
        return found.first.insn_id == found.second.insn_id and unknown

    def _is_accepted(self, found: Conflict) -> bool:
        """Tell whether the conflict is a race of one instruction between groups, and silenced."""
        insn_id = found.first.insn_id
        if found.reach is not Reach.DEVICE or found.second.insn_id != insn_id:
            return False
        return is_silenced(f"write_race({insn_id})", self.kernel.silenced_warnings)

    def kind(self, access: Access) -> tuple[str, int]:
        """Return the array of an access, and a number for its place and subscripts."""
        found = self._kinds.get(access)
        if found is None:
            shape = self._shape(access), self._is_local(access.array)
            number = self._shapes.setdefault(shape, len(self._shapes))
            found = self._kinds[access] = access.array, number
        return found

    def view(self, access: Access, loops: tuple[str, ...]) -> tuple[str, int]:
        """Return what an access is to, and a number for its footprint per iteration of *loops*.

        Accesses with equal results have the same conflicts, with regard to shared loops.
        """
        around = Around(loops, None, self._is_local(access.array))
        name = ".".join((access.array, *access.fields))
        return name, self._accessed(access, Side.FIRST, around)[1]

    def never_meet(
        self, one: Access, other: Access, equal: tuple[str, ...], ascending: str | None
    ) -> bool:
        """Tell whether accesses of these kinds are known not to conflict."""
        key = self._key(one, other, equal, ascending)
        return key in self._memo and self._memo[key] is None

    def none_conflict(
        self, accesses: Iterable[Access], equal: tuple[str, ...], ascending: str | None
    ) -> bool:
        """Tell whether no accesses to one array conflict, by their bounding boxes.

        Accesses whose subscripts differ by constants share a box: isl is queried about pairs of
        boxes instead of accesses, if there are enough of them.
        """
        groups: dict[object, list[Access]] = {}
        for access in accesses:
            if access.index is None:
                return False
            bases = tuple(split_constant(subscript)[0] for subscript in access.index)
            groups.setdefault((access.place, bases), []).append(access)
        distinct = {(access.place, access.index) for group in groups.values() for access in group}
        if len(distinct) < max(_MANY, 2 * len(groups)):
            return False
        boxes = []
        for group in groups.values():
            around = Around(equal, ascending, self._is_local(group[0].array))
            named = elements_around(self.kernel, self.footprints, group)
            a, b = (self._seen_by_lanes(named, group[0], s, around) for s in PAIR)
            boxes.append((a, b, any(access.is_write for access in group), around))
        return all(
            self._find_conflict(one.intersect(other), around, ascending) is None
            for one, _, writes, around in boxes
            for _, other, too, _ in boxes
            if writes or too
        )

    def storage(self, access: Access) -> object:
        """Return a key that accesses which may overlap share: their storage, or a part of it."""
        base = getattr(self.kernel.array_vars[access.array], "base_storage", None)
        if base is not None:
            return "storage", base
        return access.array, self.footprints.part(access)

    def _is_atomic_update(self, access: Access) -> bool:
        """Tell whether *access* is part of an atomic update, which does not race with others."""
        insn = self.kernel.id_to_insn[access.insn_id]
        if not isinstance(insn, Assignment) or insn.assignee_var_names()[0] != access.array:
            return False
        if not insn.atomicity or any(isinstance(a, AtomicInit) for a in insn.atomicity):
            return False
        if access.index is None:
            return access.is_write
        return access.index == index_of(insn.assignee)

    def is_injective(self, access: Access) -> bool | None:
        """Tell whether, for fixed loops, each work-item accesses its own elements.

        In local memory, each work-item of a group. ``None`` if it depends on data.
        """
        key = self.kind(access)[1]
        if key not in self._injective:
            self._injective[key] = self._find_injective(access)
        return self._injective[key]

    def is_one_to_one(self, access: Access) -> bool:
        """Tell whether each instance of an access (in a group, if local) has its own element."""
        key = ("all loops", self.kind(access)[1])
        if key not in self._injective:
            self._injective[key] = self._find_injective(access, loops_differ=True)
        return bool(self._injective[key])

    def _find_injective(self, access: Access, *, loops_differ: bool = False) -> bool | None:
        relation = self.footprints.relation(access)
        if relation is None:
            return None
        is_local = self._is_local(access.array)
        fixed = []
        for name in access.place.inames:
            axis = self.kernel.axes.get(name)
            is_loop = axis is None and not loops_differ
            is_group = axis is not None and is_local and isinstance(axis.tag, GroupInameTag)
            if is_loop or is_group:
                fixed.append(name)
        if self._tells_apart(relation, fixed):
            return True
        return False if self.footprints.domain(access.place)[1] else None

    def _tells_apart(self, relation: Map, fixed: Sequence[str]) -> bool:
        """Tell whether no two points with equal coordinates *fixed* map to one element."""
        key = relation, tuple(map(in_names(relation).index, fixed))  # equal in many loops
        found = self._apart.get(key)
        if found is None:
            relation = in_to_params(relation, fixed).intersect_params(self.kernel.assumptions)
            found = self._apart[key] = bool(relation.is_injective())
        return found

    def _is_local(self, array: str) -> bool:
        return bool(self.kernel.array_vars[array].address_space == AddressSpace.LOCAL)

    def _shape(self, access: Access) -> object:
        return access.place, access.index, access.fields, is_factor(self.kernel, access)

    def _is_exempt(self, first: str, second: str) -> bool:
        """Tell whether ``no_sync_with`` states that no barrier is needed."""
        return any(
            other in {name for name, _ in self.kernel.id_to_insn[one].no_sync_with}
            for one, other in ((first, second), (second, first))
        )

    def _is_awaited(self, one: Access, other: Access) -> bool:
        """Tell whether work-groups look back in *other* at values that *one* publishes."""
        if not (self.kernel.target.looks_back and one.is_write and not other.is_write):
            return False
        published = self.kernel.id_to_insn[one.insn_id].tags_of_type(PublishTag)
        awaited = self.kernel.id_to_insn[other.insn_id].tags_of_type(LookBackTag)
        return not {tag.scan for tag in published}.isdisjoint(tag.scan for tag in awaited)

    def _conflict(
        self,
        one: Access,
        other: Access,
        equal: tuple[str, ...],
        ascending: str | None,
    ) -> Conflict | None:
        around = Around(equal, ascending, self._is_local(one.array))
        both = self._accessed_by_both(one, other, around)
        found = self._find_conflict(both, around, ascending)
        return None if found is None else Conflict(one, other, *found)

    def _find_conflict(
        self, both: Set, around: Around, ascending: str | None
    ) -> tuple[Reach, Set] | None:
        """Return where different work-items of *both* access one element, and their reach."""
        if ascending is not None:
            both = relate_sides(both, ascending, "lt_set")
        tags = [axis.tag for axis in self.kernel.axes.values()]
        locals_ = sorted({axis_name(tag) for tag in tags if isinstance(tag, LocalInameTag)})
        if around.one_group:
            return self._find_in_group(both, locals_)
        groups = sorted({axis_name(tag) for tag in tags if isinstance(tag, GroupInameTag)})
        far = _some_differ(both, groups)
        if far is not None:
            return Reach.DEVICE, far
        return self._find_in_group(in_same_iteration(both, groups), locals_)

    def _find_in_group(self, both: Set, locals_: Sequence[str]) -> tuple[Reach, Set] | None:
        """Return where work-items of a group meet: of two warps, if any do."""
        apart = _some_differ(both, locals_)
        if apart is None:
            return None
        far = apart if self._width is None else self._find_in_warps(both, self._width)
        return (Reach.WARP, apart) if far is None else (Reach.GROUP, far)

    def _find_in_warps(self, both: Set, width: int) -> Set | None:
        """Return where work-items of two warps meet, which are numbered along the first axis."""
        names = [axis_name(LocalInameTag(axis)) for axis in range(len(self._group))]
        sizes = list(accumulate(self._group, mul, initial=1))
        numbered = list(zip(names, sizes, strict=False))
        far = _some_differ(both, [n for n, size in numbered if size % width == 0])
        inner = {n: size for n, size in numbered if size % width}
        if far is not None or sizes[len(inner)] <= width:
            return far
        for side in PAIR:
            both = with_params(both, [side.of(name) for name in inner])
            items = [p.Product((size, p.Variable(side.of(n)))) for n, size in inner.items()]
            warp = p.FloorDiv(p.Sum(tuple(items)), width)
            both = bound(both, side.of(SetName.WARP), warp)
        return _some_differ(both, [SetName.WARP])

    def accessed(self, access: Access, side: Side) -> Set:
        """Return the named set over hardware axes, with the names of *side*, and elements."""
        return self._accessed(access, side, Around((), None, self._is_local(access.array)))[0]

    def _accessed_by_both(self, one: Access, other: Access, around: Around) -> Set:
        first, _ = self._accessed(one, Side.FIRST, around)
        second, _ = self._accessed(other, Side.SECOND, around)
        return first.intersect(second)

    def _accessed(self, access: Access, side: Side, around: Around) -> tuple[Set, int]:
        """Return the named set over loops, hardware axes and elements, and its number.

        Dimensions that may differ between two accesses have *side* in their names.
        """
        key = (self.kind(access)[1], side, around)
        found = self._sets.get(key)
        if found is None:
            named = self._compute_accessed(access, side, around)
            content = param_names(named), named
            number = self._numbers.setdefault(content, len(self._numbers))
            found = self._sets[key] = named, number
        return found

    def _compute_accessed(self, access: Access, side: Side, around: Around) -> Set:
        named, _ = elements_of(self.kernel, self.footprints, access)
        return self._seen_by_lanes(named, access, side, around)

    def _seen_by_lanes(self, named: Set, access: Access, side: Side, around: Around) -> Set:
        """Return the elements accessed; for a factor on tensor cores, by any of the lanes."""
        named = self._seen_from(named, access.place, side, around)
        if is_factor(self.kernel, access):
            for axis, count in enumerate(self._items(access)):
                lane = side.of(axis_name(LocalInameTag(axis)))
                others = with_params(project_out_params(named, [lane]), [lane])
                named = bound_param(others, lane, 0, count - 1)
        return named

    def _items(self, access: Access) -> tuple[int, ...]:
        """Return how many work-items, along the first axes, compute a product together."""
        loops = tensor_loops(self.kernel, self.kernel.id_to_insn[access.insn_id])
        return (WARP_SIZE,) if loops is None else loops.items

    def _seen_from(self, named: Set, place: Place, side: Side, around: Around) -> Set:
        """Rename the loops and hardware axes of a place according to what two accesses share."""
        for iname in place.inames:
            if iname in around.equal:
                continue
            if iname == around.ascending:
                named = rename_param(named, iname, side.of(iname))
                continue
            on = self.kernel.axes.get(iname)
            if on is not None:
                is_group = isinstance(on.tag, GroupInameTag)
                name = axis_name(on.tag)
                if not (is_group and around.one_group):
                    name = side.of(name)
                if is_zero(on.first):
                    named = rename_param(named, iname, name)
                    continue
                index = minus(p.Variable(iname), on.first)
                named = bound(self.footprints.with_params(named, index), name, index)
            named = project_out_params(named, [iname])
        return named


class Around(NamedTuple):
    """The iterations that two accesses share: of the loops *equal*, optionally of the group.

    One of them is at a later iteration of the loop *ascending*.
    """

    equal: tuple[str, ...]
    ascending: str | None
    one_group: bool


def _some_differ(named: Set, axes: Sequence[str]) -> Set | None:
    """Return the part of *named* where two work-items differ along an axis, if not empty."""
    for axis in axes:
        part = relate_sides(named, axis, "ne_set")
        if not part.is_empty():
            return part
    return None
