"""Tiles of an array that are fetched together: their elements, and their halos."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import dist
from typing import Any, ClassVar

import pymbolic.primitives as p
from constantdict import constantdict

from kgen.draw.instances import Element, Instance, Instances
from kgen.draw.picture import Picture
from kgen.draw.text import params_text
from kgen.errors import near_names
from kgen.ir.checked import checked
from kgen.ir.expr import variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LocalInameTag
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit

__all__ = ["Prefetch", "Tile", "prefetch"]

Point = tuple[int, ...]
#: The loops around a tile, their values, and the work-group.
TileKey = tuple[tuple[str, ...], Point, Point]
#: An array, the subscripts of an element, and the tile that it was fetched for.
Copy = tuple[str, Point, TileKey | None]


@dataclass(frozen=True, kw_only=True)
class Tile:
    """The elements that are fetched together, for the values ``at`` of the enclosing loops.

    ``core`` has the elements with the subscripts that the tile's work-items write; if there are
    none, as in a matrix product, all elements.
    """

    at: Mapping[str, int]
    elements: frozenset[Point]
    core: frozenset[Point]

    @property
    def halo(self) -> frozenset[Point]:
        """Return the fetched elements outside of the core."""
        return self.elements - self.core

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the length of the tile along each axis."""
        return extents_of(self.elements)


@dataclass(frozen=True, kw_only=True)
class Prefetch(Picture):
    """All tiles of an array that a kernel fetches into one temporary."""

    plotter: ClassVar[str] = "prefetches"

    kernel_name: str
    params: Mapping[str, int]
    fetch: str
    array: str
    tiles: tuple[Tile, ...]

    @cached_property
    def times(self) -> Mapping[Point, int]:
        """The number of tiles that fetch each element."""
        return Counter(element for tile in self.tiles for element in tile.elements)

    @property
    def middle(self) -> Tile:
        """The tile that is shown in detail: the largest one, near the middle."""
        largest = max(len(tile.elements) for tile in self.tiles)
        candidates = [tile for tile in self.tiles if len(tile.elements) == largest]
        centre = _centre(self.times)
        return min(candidates, key=lambda tile: dist(_centre(tile.elements), centre))

    def __str__(self) -> str:
        return "\n".join(_text(self))


@checked
def prefetch(
    program: TranslationUnit | LoopKernel,
    fetch: str,
    params: Mapping[str, int] | None = None,
    *,
    entrypoint: str | None = None,
) -> Prefetch:
    """Find the tiles of an array that are fetched into a temporary, and their halos.

    *fetch* is the temporary, such as ``a_fetch`` of :func:`add_prefetch`.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i]: 1 <= i < n - 1 }", "b[i] = a[i-1] + a[i] + a[i+1]",
    ...     [lp.GlobalArg("a, b", "float32", shape="n"), ...], target=lp.OpenCLTarget())
    >>> knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    >>> knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.auto")
    >>> print(lp.draw.prefetch(knl, "a_fetch", {"n": 10}))
    a_fetch in kgen_kernel, n = 10: 3 tiles of a
      6 elements in a tile, 2 of them in its halo
      on average, each element is fetched 1.4 times
      i_outer = 1: '#' core, '+' halo, '.' in other tiles
        ...+####+.

    Raises :class:`KgenError` if the temporary is not a copy of elements of an array.
    """
    instances = Instances(program, params or {}, entrypoint)
    tracer = _Tracer(instances, fetch)
    for instance in tracer.instances_of_interest():
        tracer.visit(instance)
    return tracer.picture()


@dataclass
class _Growing:
    """A tile whose elements are being found."""

    elements: set[Point] = field(default_factory=set)
    written: set[Point] = field(default_factory=set)
    distances: set[Point] = field(default_factory=set)


class _Tracer:
    """Follows elements of arrays that are copied to temporaries, and read from them."""

    def __init__(self, instances: Instances, fetch: str) -> None:
        self.instances = instances
        self.fetch = fetch
        temporaries = instances.kernel.temporary_variables
        if fetch not in temporaries:
            raise instances.error(
                f"there is no temporary '{fetch}'", hint=near_names(fetch, temporaries)
            )
        #: the source of each element of a temporary, and the tile that it was fetched for
        self.copies: dict[Any, Copy] = {}
        self.tiles: dict[TileKey | None, _Growing] = {}
        self.array = ""

    def instances_of_interest(self) -> tuple[Instance, ...]:
        """Return the instances that fetch, and those that write results of a tile."""
        kernel = self.instances.kernel
        fetchers: set[str] = set()
        wanted = [self.fetch]
        while wanted:
            name = wanted.pop()
            for insn_id in kernel.writer_map().get(name, frozenset()) - fetchers:
                fetchers.add(insn_id)
                read = kernel.id_to_insn[insn_id].dependency_names()
                wanted += read & kernel.temporary_variables.keys()
        users = {
            insn.id
            for insn in kernel.instructions
            if self.fetch in insn.dependency_names()
            and kernel.temporary_variables.keys().isdisjoint(insn.assignee_var_names())
        }
        return self.instances.where(
            lambda insn, domain: domain if insn.id in fetchers | users else domain.subtract(domain)
        )

    def _tile(self, element: Element, instance: Instance) -> TileKey:
        """Return the loops around a whole tile, with their values, and the work-group.

        These are all loops except those over its elements; a remainder chooses a buffer.
        """
        kernel = self.instances.kernel
        axes = (axis for axis in element.access.index or () if not isinstance(axis, p.Remainder))
        inside = set(variable_names(*axes))
        is_local = self.instances.space_of(self.fetch) == AddressSpace.LOCAL
        names = tuple(
            name
            for name in instance.point
            if name not in inside and not (is_local and kernel.has_tag(name, LocalInameTag))
        )
        return names, tuple(instance.point[name] for name in names), instance.group

    def visit(self, instance: Instance) -> None:
        """Record what an instance copies, or computes from copies."""
        elements = list(self.instances.elements(instance))
        read = dict.fromkeys(self._origin(e, instance) for e in elements if not e.is_write)
        sources = [source for source in read if source is not None]
        for element in elements:
            if not element.is_write:
                continue
            if element.array in self.instances.kernel.temporary_variables:
                if len(sources) == 1:
                    self._copy(element, instance, sources[0])
            else:
                self._use(element, sources)

    def _key(self, element: Element, instance: Instance) -> Any:
        return element.array, self.instances.owner(element.array, instance), element.index

    def _origin(self, element: Element, instance: Instance) -> Copy | None:
        if element.array in self.instances.kernel.temporary_variables:
            return self.copies.get(self._key(element, instance))
        return element.array, element.index, None

    def _copy(self, element: Element, instance: Instance, source: Copy) -> None:
        array, index, tile = source
        if element.array == self.fetch:
            self.array = array
            tile = self._tile(element, instance)
            self.tiles.setdefault(tile, _Growing()).elements.add(index)
        self.copies[self._key(element, instance)] = (array, index, tile)

    def _use(self, element: Element, sources: list[Copy]) -> None:
        """Record the elements that an instance computes from elements of a tile."""
        for array, index, tile in sources:
            if array == self.array and tile in self.tiles and len(index) == len(element.index):
                growing = self.tiles[tile]
                growing.written.add(element.index)
                growing.distances.add(
                    tuple(a - b for a, b in zip(index, element.index, strict=True))
                )

    def picture(self) -> Prefetch:
        """Return the tiles."""
        if not self.tiles:
            raise self.instances.error(
                f"'{self.fetch}' is not a copy of elements of an array",
                hint="name a temporary that add_prefetch or precompute created from an array",
            )
        full = max(self.tiles.values(), key=lambda tile: len(tile.elements))
        is_stencil = all(tile.distances <= full.distances for tile in self.tiles.values())
        tiles = (
            Tile(
                at=constantdict(zip(key[0], key[1], strict=True)),
                elements=frozenset(tile.elements),
                core=frozenset(tile.elements & tile.written if is_stencil else tile.elements)
                or frozenset(tile.elements),
            )
            for key, tile in self.tiles.items()
            if key is not None
        )
        return Prefetch(
            kernel_name=self.instances.kernel.name,
            params=self.instances.params,
            fetch=self.fetch,
            array=self.array,
            tiles=tuple(tiles),
        )


def _centre(elements: Iterable[Point]) -> tuple[float, ...]:
    return tuple((min(axis) + max(axis)) / 2 for axis in zip(*elements, strict=True))


def extents_of(elements: frozenset[Point]) -> tuple[int, ...]:
    """Return the lengths of the smallest box around elements.

    >>> extents_of(frozenset({(1, 4), (2, 8)}))
    (2, 5)
    """
    return tuple(max(axis) - min(axis) + 1 for axis in zip(*elements, strict=True))


def plane_of(found: Prefetch) -> tuple[Point, dict[tuple[int, int], Point]]:
    """Return all subscripts except the last two, and the drawn elements.

    A picture has the last two axes; the others have the values in the middle of the tile.
    """
    elements = sorted(found.middle.elements)
    front = elements[len(elements) // 2][:-2]
    every = (element for element in found.times if element[:-2] == front)
    return front, {_place(element): element for element in every}


def _place(element: Point) -> tuple[int, int]:
    row, column = (0, *element)[-2:]
    return row, column


def _text(found: Prefetch) -> Iterator[str]:
    tile = found.middle
    count = len(found.tiles)
    params = params_text(found.params)
    plural = "" if count == 1 else "s"
    yield f"{found.fetch} in {found.kernel_name}{params}: {count} tile{plural} of {found.array}"
    extents = tile.extents
    shape = f" ({' x '.join(map(str, extents))})" if len(extents) > 1 else ""
    yield f"  {len(tile.elements)} elements{shape} in a tile, {len(tile.halo)} of them in its halo"
    average = sum(found.times.values()) / len(found.times)
    yield f"  on average, each element is fetched {average:.2g} times"
    values = ", ".join(f"{name} = {value}" for name, value in tile.at.items())
    yield f"  {values or 'the tile'}: '#' core, '+' halo, '.' in other tiles"
    _, places = plane_of(found)
    rows, columns = (sorted({place[k] for place in places}) for k in (0, 1))
    for row in range(rows[0], rows[-1] + 1):
        line = (places.get((row, column)) for column in range(columns[0], columns[-1] + 1))
        yield ("    " + "".join(_sign(tile, element) for element in line)).rstrip()


def _sign(tile: Tile, element: Point | None) -> str:
    if element is None:
        return " "
    return "#" if element in tile.core else "+" if element in tile.elements else "."
