"""Memory traffic: the work-item that accesses each element, and the memory transactions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import ClassVar

from kgen.analysis.access import Access
from kgen.draw.instances import Instance, Instances
from kgen.draw.picture import Picture
from kgen.draw.text import join_numbers, params_text
from kgen.ir.checked import checked
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, bound_dim
from kgen.ir.sets.points import first_points
from kgen.ir.tags import GroupInameTag, LocalInameTag
from kgen.ir.unit import TranslationUnit

__all__ = ["Accesses", "Request", "Selector", "Touch", "accesses"]


@dataclass(frozen=True, kw_only=True)
class Touch:
    """One lane that accesses one element; ``offset`` counts bytes from the start of the array.

    ``lane`` is the number of a work-item in its sub-group. If a kernel has no work-items, it counts
    iterations of the innermost loop.
    """

    lane: int
    item: tuple[int, ...]
    element: tuple[int, ...]
    offset: int


@dataclass(frozen=True, kw_only=True)
class Request:
    """The elements that a sub-group accesses at once, by one access of an instruction.

    ``itemsize`` and ``transaction``, the size of a memory transaction, are in bytes.
    """

    insn_id: str
    text: str
    direction: str
    itemsize: int
    transaction: int
    touches: tuple[Touch, ...]
    values: Mapping[str, int]

    @property
    def transactions(self) -> Mapping[int, tuple[Touch, ...]]:
        """Return the lanes that need each transaction, by number from the start of the array."""
        found: dict[int, list[Touch]] = {}
        for touch in self.touches:
            first, last = touch.offset, touch.offset + self.itemsize - 1
            for number in range(first // self.transaction, last // self.transaction + 1):
                found.setdefault(number, []).append(touch)
        return {number: tuple(found[number]) for number in sorted(found)}

    @property
    def used(self) -> float:
        """The fraction of the moved bytes that belong to accessed elements."""
        moved = self.transaction * len(self.transactions)
        return self.itemsize * len({touch.offset for touch in self.touches}) / moved


@dataclass(frozen=True, kw_only=True)
class Accesses(Picture):
    """The accesses of a sub-group to an array, each at one time.

    ``unit`` is the kind of lanes: work-items, or iterations on hosts. ``strides`` are those of the
    array in bytes.
    """

    plotter: ClassVar[str] = "traffic"

    kernel_name: str
    params: Mapping[str, int]
    array: str
    unit: str
    strides: tuple[int, ...]
    requests: tuple[Request, ...]

    def offset(self, element: tuple[int, ...]) -> int:
        """Return the offset of an element in bytes."""
        return sum(index * step for index, step in zip(element, self.strides, strict=True))

    def __str__(self) -> str:
        return "\n".join(_text(self))


@checked
def accesses(
    program: TranslationUnit | LoopKernel,
    array: str,
    params: Mapping[str, int] | None = None,
    *,
    insn: str | None = None,
    group: tuple[int, ...] | None = None,
    subgroup: int = 0,
    subgroup_size: int = 32,
    at: Mapping[str, int] | None = None,
    entrypoint: str | None = None,
) -> Accesses:
    """Return the elements of an array that a sub-group accesses, and the memory transactions.

    Arrays begin at a transaction: 32 bytes (a sector) on GPUs, 64 (a cache line) on hosts. On
    hosts, and in kernels without work-items, the iterations of the innermost loop replace them.

    :arg params: the values of the kernel's parameters
    :arg insn: the id of an instruction; by default all that access the array
    :arg group: the index of the work-group; by default the first
    :arg subgroup: which of the sub-groups of the group
    :arg at: the values of sequential loops; by default their first iteration

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i, j]: 0 <= i, j < 64 }", "b[j, i] = a[i, j]",
    ...     [lp.GlobalArg("a", "float32", shape="64, 64"), ...], target=lp.OpenCLTarget())
    >>> knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    >>> print(lp.draw.accesses(knl, "b"))
    store b[j, i_inner + i_outer*8] by 'insn', j = 0
      8 work-items, 1 transaction of 32 bytes, 100 % used
      b[0, 0..7]  work-items 0-7

    Raises :class:`KgenError` for unknown names, and if no work-item accesses the array there.
    """
    selector = Selector(Instances(program, params or {}, entrypoint), subgroup_size)
    return selector.accesses(array, insn, group, subgroup, dict(at or {}))


class Selector:
    """Finds the accesses of a sub-group at one time."""

    def __init__(self, instances: Instances, subgroup_size: int) -> None:
        self.instances = instances
        self.size = subgroup_size
        kernel = instances.kernel
        on_device = kernel.target.has_hardware_axes
        self.has_items = bool(kernel.grid.locals) and on_device
        self.transaction = kernel.target.transaction

    def accesses(
        self,
        array: str,
        insn: str | None,
        group: tuple[int, ...] | None,
        subgroup: int,
        at: Mapping[str, int],
    ) -> Accesses:
        """Return the accesses of the sub-group."""
        axes = len(self.instances.kernel.grid.groups)
        if group is not None and len(group) != axes:
            raise self.instances.error(
                f"the index of a work-group has {axes} axes, not {len(group)}",
                hint=f"group={(0,) * axes}",
            )
        requests = tuple(self.requests(array, insn, group, subgroup, at))
        if not requests:
            raise self.instances.error(
                f"'{array}' is not accessed in this place",
                because="no instance has this group, this sub-group and these values of loops, "
                "or subscripts depend on data",
            )
        return Accesses(
            kernel_name=self.instances.kernel.name,
            params=self.instances.params,
            array=array,
            unit="work-item" if self.has_items else "iteration",
            strides=self.instances.strides(self.instances.require_array(array)),
            requests=requests,
        )

    def requests(
        self,
        array: str,
        insn: str | None,
        group: tuple[int, ...] | None,
        subgroup: int,
        at: Mapping[str, int],
    ) -> Iterator[Request]:
        """Find the requests of a sub-group, one for each access."""
        declared = self.instances.require_array(array)
        chosen: dict[Access, list[Instance]] = {}
        for instance in self.instances.where(partial(self._restrict, array, insn, group, at)):
            if self._is_in(instance, group, subgroup):
                for access in self.instances.accesses_of(instance.insn_id):
                    if access.array == array:
                        chosen.setdefault(access, []).append(instance)
        for access, instances in chosen.items():
            lanes = self._numbered(instances)
            touches = tuple(self._touch(access, lane, one) for lane, one in lanes)
            kept = tuple(touch for touch in touches if touch is not None)
            if kept:
                yield Request(
                    insn_id=access.insn_id,
                    text=str(access),
                    direction="store" if access.is_write else "load",
                    itemsize=declared.dtype.itemsize,
                    transaction=self.transaction,
                    touches=kept,
                    values=self._shared(instances[0], lanes),
                )

    def _is_in(self, instance: Instance, group: tuple[int, ...] | None, subgroup: int) -> bool:
        if not self.has_items:
            return True
        wanted = (0,) * len(instance.group) if group is None else tuple(group)
        return self._number(instance) // self.size == subgroup and instance.group == wanted

    def _restrict(
        self,
        array: str,
        chosen: str | None,
        group: tuple[int, ...] | None,
        at: Mapping[str, int],
        insn: InstructionBase,
        domain: Set,
    ) -> Set:
        """Return the iterations of an instruction in a group, in the first pass of other loops."""
        if chosen not in (None, insn.id) or array not in insn.mentioned:
            return domain.subtract(domain)
        for name in self.instances.loops_of(insn):
            value = at.get(name, self._index_of_group(name, group))
            if value is not None:
                domain = bound_dim(domain, name, value, value)
        return first_points(domain, self._lanes(insn))

    def _lanes(self, insn: InstructionBase) -> list[str]:
        """Return the loops whose iterations run concurrently: over work-items, or the innermost."""
        loops = self.instances.loops_of(insn)
        if self.has_items:
            kernel = self.instances.kernel
            return [name for name in loops if kernel.has_tag(name, LocalInameTag)]
        visits = (visit for visit in self.instances.visits if visit.insn_id == insn.id)
        return [visit.loops[-1][1] for visit in visits if visit.loops][:1]

    def _index_of_group(self, name: str, group: tuple[int, ...] | None) -> int | None:
        """Return the value of a loop over work-groups; ``None`` for other loops."""
        axis = self.instances.axes.get(name)
        if axis is None or not isinstance(axis.tag, GroupInameTag):
            return None
        index = 0 if group is None else group[axis.tag.axis]
        return self.instances.number(axis.first, {}) + index

    def _number(self, instance: Instance) -> int:
        sizes = self.instances.kernel.grid.locals
        return sum(prod(sizes[:axis]) * index for axis, index in enumerate(instance.item))

    def _numbered(self, instances: list[Instance]) -> list[tuple[int, Instance]]:
        """Return instances with their lanes."""
        if not self.has_items:
            return list(enumerate(instances[: self.size]))
        return sorted(
            ((self._number(one) % self.size, one) for one in instances), key=operator.itemgetter(0)
        )

    def _touch(self, access: Access, lane: int, instance: Instance) -> Touch | None:
        element = self.instances.element(access, instance.point)
        if element is None:
            return None
        offset = self.instances.offset(self.instances.require_array(access.array), element)
        return Touch(lane=lane, item=instance.item, element=element, offset=offset)

    def _shared(self, first: Instance, lanes: list[tuple[int, Instance]]) -> dict[str, int]:
        """Return the values of sequential loops that all lanes share."""
        axes = self.instances.axes if self.has_items else {}
        return {
            name: value
            for name, value in first.point.items()
            if name not in axes and all(one.point[name] == value for _, one in lanes)
        }


def heading(found: Accesses, request: Request) -> tuple[str, str]:
    """Describe a request and its cost in two lines."""
    count = len(request.transactions)
    plural = "" if count == 1 else "s"
    title = (
        f"{request.direction} {request.text} by '{request.insn_id}'{params_text(request.values)}"
    )
    cost = (
        f"{len(request.touches)} {found.unit}s, {count} transaction{plural} of "
        f"{request.transaction} bytes, {100 * request.used:.0f} % used"
    )
    return title, cost


def _text(found: Accesses) -> Iterator[str]:
    for request in found.requests:
        first, second = heading(found, request)
        yield from (first, f"  {second}")
        names = [(_elements(found.array, ts), ts) for ts in request.transactions.values()]
        width = max(len(name) for name, _ in names)
        for name, touches in names:
            lanes = join_numbers(touch.lane for touch in touches)
            yield f"  {name:{width}}  {found.unit}{'s' if len(touches) > 1 else ''} {lanes}"


def _elements(array: str, touches: tuple[Touch, ...]) -> str:
    """Write the elements of a transaction: the values on each axis as a range."""
    axes = zip(*(touch.element for touch in touches), strict=True)
    ranges = [(min(values), max(values)) for values in axes]
    texts = [str(low) if low == high else f"{low}..{high}" for low, high in ranges]
    return f"{array}[{', '.join(texts)}]" if texts else array
