"""Iterations of a kernel: their tiles, their order, and the dependences between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import pymbolic.primitives as p

from kgen.draw.instances import Element, Instance, Instances
from kgen.draw.picture import Picture
from kgen.draw.text import join_numbers, params_text
from kgen.errors import near_names
from kgen.ir.checked import checked
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import read_expression
from kgen.ir.sets.dims import dim_names
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.transforms.loops.rewrite import in_present_inames

__all__ = ["Dependence", "Iteration", "Iterations", "iterations"]


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """An instance of an instruction, and its position in the picture.

    ``order`` counts steps of time; instances that run concurrently, in several work-items, have the
    same one. ``tile`` has the values of the loops over tiles.
    """

    insn_id: str
    position: tuple[int, ...]
    tile: tuple[int, ...]
    order: int
    group: tuple[int, ...] = ()
    item: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """An iteration that must run after another one, both given by number.

    ``kind`` is ``flow`` (a read after a write), ``anti`` (a write after a read) or ``output`` (a
    write after a write).
    """

    source: int
    sink: int
    kind: str
    array: str


@dataclass(frozen=True, kw_only=True)
class Iterations(Picture):
    """The iterations of instructions in one, two or three dimensions.

    ``tiled_by`` are the loops over tiles. Dependences are those through memory: from the last write
    before a read, and from the reads and the write before a write.
    """

    plotter: ClassVar[str] = "iterations"

    kernel_name: str
    params: Mapping[str, int]
    axes: tuple[str, ...]
    tiled_by: tuple[str, ...]
    points: tuple[Iteration, ...]
    dependences: tuple[Dependence, ...]

    @property
    def distances(self) -> Mapping[tuple[str, str, tuple[int, ...]], int]:
        """The number of dependences of each kind, array and distance."""
        return Counter((d.kind, d.array, self.distance(d)) for d in self.dependences)

    def distance(self, dependence: Dependence) -> tuple[int, ...]:
        """Return the distance vector of a dependence, from its source to its sink."""
        source, sink = (self.points[k].position for k in (dependence.source, dependence.sink))
        return tuple(b - a for a, b in zip(source, sink, strict=True))

    def slices(self) -> Mapping[int | None, tuple[int, ...]]:
        """Return the numbers of iterations by their place on the third axis, if there is one."""
        found: dict[int | None, list[int]] = {}
        for number, point in enumerate(self.points):
            found.setdefault(point.position[2] if len(self.axes) > 2 else None, []).append(number)
        return {place: tuple(numbers) for place, numbers in sorted(found.items(), key=str)}

    def __str__(self) -> str:
        return "\n".join(_text(self))


@checked
def iterations(
    program: TranslationUnit | LoopKernel,
    params: Mapping[str, int] | None = None,
    axes: Sequence[str] | None = None,
    *,
    insns: str | Sequence[str] | None = None,
    tiles: Sequence[str] | None = None,
    at: Mapping[str, int] | None = None,
    entrypoint: str | None = None,
) -> Iterations:
    """Return the iterations of instructions in the order of the schedule, for given sizes.

    :arg params: the values of the kernel's parameters
    :arg axes: one to three loops, as they are now or as they were before transformations, or
        expressions of them: ``("i", "j")``. By default the first loops of the kernel as it was
        written that are around the instructions.
    :arg insns: ids of instructions; by default, of those in the loops of the axes, the one with the
        most loops; an instruction that the user wrote is preferred to a fetch
    :arg tiles: the loops over tiles; by default those that advance an axis by more than one
    :arg at: values of loops: the picture has only the iterations with these values

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i, j]: 1 <= i < n and 0 <= j < n }", "a[i, j] = a[i-1, j] + 1",
    ...     [lp.GlobalArg("a", "float32", shape="n, n"), ...], target=lp.CTarget())
    >>> knl = lp.split_iname(knl, "j", 2)
    >>> knl = lp.prioritize_loops(knl, "j_outer,i,j_inner")
    >>> print(lp.draw.iterations(knl, {"n": 4}, ("i", "j")))
    iterations of 'insn' in kgen_kernel, n = 4: order, tiles by j_outer
             j =  0    1 |  2    3
      i = 1       0    1 |  6    7
          2       2    3 |  8    9
          3       4    5 | 10   11
    dependences by distance (i, j)
      flow    a  (1, 0)  8 times

    Raises :class:`KgenError` if a parameter has no value, if loops depend on data, and for more
    instances than fit into a picture.
    """
    instances = Instances(program, params or {}, entrypoint)
    finder = _Finder(instances, dict(at or {}), insns, axes)
    return finder.picture(tiles)


class _Finder:
    """Finds the iterations and dependences of a picture."""

    def __init__(
        self,
        instances: Instances,
        at: Mapping[str, int],
        insns: str | Sequence[str] | None,
        axes: Sequence[str] | None,
    ) -> None:
        self.instances = instances
        self.kernel = instances.kernel
        self.at = {name: (self._expression(name), value) for name, value in at.items()}
        given = None if axes is None else {text: self._expression(text) for text in axes}
        self.insns = self._chosen(insns, variable_names(*(given or {}).values()))
        if given is None:
            given = {name: self._expression(name) for name in self._default_axes()[:3]}
        self.axes = given

    def _chosen(
        self, insns: str | Sequence[str] | None, names: Iterable[str]
    ) -> tuple[InstructionBase, ...]:
        """Return the instructions of the picture, which are in the loops *names*."""
        loops = self.kernel.all_inames().intersection(names)
        every = [self.kernel.id_to_insn[visit.insn_id] for visit in self.instances.visits]
        scheduled = {str(insn.id): insn for insn in every}
        wanted = [insns] if isinstance(insns, str) else insns
        for name in wanted or ():
            if name not in scheduled:
                raise self.instances.error(
                    f"there is no instruction '{name}'", hint=near_names(name, scheduled)
                )
        chosen = every if wanted is None else [scheduled[name] for name in wanted]
        inside = [insn for insn in chosen if loops <= insn.within_inames]
        if not inside or (wanted is not None and len(inside) < len(chosen)):
            raise self.instances.error(
                f"the loops {', '.join(map(repr, sorted(loops)))} are not around "
                + (f"'{chosen[0].id}'" if wanted else "any one instruction"),
                hint="choose axes among the loops around the instructions, and the instructions "
                "with insns=...",
            )
        most = max(inside, key=lambda insn: (self._is_written(insn), len(insn.within_inames)))
        return (most,) if wanted is None else tuple(inside)

    def _is_written(self, insn: InstructionBase) -> bool:
        """Tell whether the user wrote an instruction, or one whose id begins its id."""
        origin = self.kernel.origin or self.kernel
        return any(str(insn.id).startswith(str(written.id)) for written in origin.instructions)

    def _expression(self, text: str) -> Expr:
        """Return an axis in terms of the kernel's current loops."""
        expr = in_present_inames(self.kernel, read_expression(text, "an axis"))
        for name in variable_names(expr):
            if name not in self.kernel.inames and name not in self.instances.params:
                known = {*self.kernel.inames, *self._old_names()}
                raise self.instances.error(
                    f"there is no loop '{name}'", hint=near_names(name, known)
                )
        return expr

    def _old_names(self) -> list[str]:
        return [name for step in self.kernel.applied_iname_rewrites for name in step]

    def _default_axes(self) -> list[str]:
        """Return the original loops that still enclose all instructions."""
        around = frozenset.intersection(*(insn.within_inames for insn in self.insns))
        origin = self.kernel.origin or self.kernel
        kept: list[str] = []
        covered: set[str] = set()
        written = [name for domain in origin.domains for name in dim_names(domain)]
        for name in (*written, *self.kernel.inames):
            names = set(variable_names(in_present_inames(self.kernel, p.Variable(name))))
            if names <= around and covered.isdisjoint(names):
                kept.append(name)
                covered |= names
        return kept

    def picture(self, tiles: Sequence[str] | None) -> Iterations:
        """Find iterations and dependences."""
        exprs = list(self.axes.values())
        if not 1 <= len(exprs) <= 3:
            raise self.instances.error(
                f"a picture has one to three axes, not {len(exprs)}",
                hint="name them: axes=('i', 'j')" if self.kernel.inames else "it has no loops",
            )
        for name in tiles or ():
            if name not in self.kernel.all_inames():
                raise self.instances.error(
                    f"there is no loop '{name}'", hint=near_names(name, self.kernel.all_inames())
                )
        tiled_by = self._strided(exprs) if tiles is None else tuple(tiles)
        shown = [(k, one) for k, one in enumerate(self.instances.in_order) if self._is_in(one)]
        if not shown:
            raise self.instances.error(
                f"'{self.insns[0].id}' has no iterations there",
                because="for these sizes its loops are empty, or no iteration has the values of "
                "at=",
            )
        numbers = {k: number for number, (k, _) in enumerate(shown)}
        steps = {time: k for k, time in enumerate(dict.fromkeys(one.time for _, one in shown))}
        points = tuple(
            Iteration(
                insn_id=one.insn_id,
                position=tuple(self.instances.number(expr, one.point) for expr in exprs),
                tile=tuple(one.point[name] for name in tiled_by if name in one.point),
                order=steps[one.time],
                group=one.group,
                item=one.item,
            )
            for _, one in shown
        )
        found = (
            Dependence(source=numbers[source], sink=numbers[sink], kind=kind, array=array)
            for source, sink, kind, array in _dependences(self.instances)
            if source in numbers and sink in numbers
        )
        return Iterations(
            kernel_name=self.kernel.name,
            params=self.instances.params,
            axes=tuple(self.axes),
            tiled_by=tiled_by,
            points=points,
            dependences=tuple(found),
        )

    def _is_in(self, instance: Instance) -> bool:
        if all(insn.id != instance.insn_id for insn in self.insns):
            return False
        values = ((self.instances.value(e, instance.point), v) for e, v in self.at.values())
        return all(mine is None or mine == value for mine, value in values)

    def _strided(self, exprs: Sequence[Expr]) -> tuple[str, ...]:
        """Return the loops whose steps advance one of the axes by more than one."""
        names = [name for insn in self.insns for name in self.instances.loops_of(insn)]
        return tuple(
            name
            for name in dict.fromkeys(names)
            if any(self._step(expr, name) > 1 for expr in exprs)
        )

    def _step(self, expr: Expr, name: str) -> int:
        origin = dict.fromkeys(self.kernel.inames, 0)
        values = (self.instances.number(expr, {**origin, name: k}) for k in (0, 1))
        return abs(next(values) - next(values))


def _dependences(instances: Instances) -> Iterator[tuple[int, int, str, str]]:
    """Yield pairs of dependent instances, by number, in the order of execution."""
    written: dict[Any, int] = {}
    read: dict[Any, dict[int, None]] = {}
    found: dict[tuple[int, int, str, str], None] = {}
    for number, instance in enumerate(instances.in_order):
        for element in instances.elements(instance):
            key = (element.array, instances.owner(element.array, instance), element.index)
            if element.is_write:
                if _has_places(instances, element):
                    found.update(
                        ((k, number, "anti", element.array), None) for k in read.get(key, ())
                    )
                    if key in written:
                        found[written[key], number, "output", element.array] = None
                written[key] = number
                read[key] = {}
            else:
                if key in written:
                    found[written[key], number, "flow", element.array] = None
                read.setdefault(key, {})[number] = None
    return (each for each in found if each[0] != each[1])


def _has_places(instances: Instances, element: Element) -> bool:
    """Tell whether an array is not private: each iteration may reuse private variables."""
    return bool(instances.space_of(element.array) != AddressSpace.PRIVATE)


def _text(found: Iterations) -> Iterator[str]:
    names = ", ".join(
        f"'{name}'" for name in dict.fromkeys(point.insn_id for point in found.points)
    )
    tiles = f", tiles by {', '.join(found.tiled_by)}" if found.tiled_by else ""
    params = params_text(found.params)
    yield f"iterations of {names} in {found.kernel_name}{params}: order{tiles}"
    for place, numbers in found.slices().items():
        if place is not None:
            yield f"  {found.axes[2]} = {place}"
        yield from _grid(found, numbers)
    if found.dependences:
        yield f"dependences by distance ({', '.join(found.axes)})"
        for (kind, array, distance), count in sorted(found.distances.items()):
            yield f"  {kind:6}  {array}  ({', '.join(map(str, distance))})  {count} times"


def _grid(found: Iterations, numbers: Sequence[int]) -> Iterator[str]:
    """Write the order of iterations at their places; `|` and `-` are between tiles."""
    points = [found.points[number] for number in numbers]
    two = len(found.axes) > 1
    cells: dict[tuple[int, int], list[int]] = {}
    tiles: dict[tuple[int, int], tuple[int, ...]] = {}
    for point in points:
        place = point.position[:2] if two else (0, point.position[0])
        cells.setdefault((place[0], place[1]), []).append(point.order)
        tiles[place[0], place[1]] = point.tile
    rows, columns = (sorted({place[k] for place in cells}) for k in (0, 1))
    texts = {place: join_numbers(orders) for place, orders in cells.items()}
    width = max(map(len, (*texts.values(), *map(str, columns))))
    down, across = found.axes[:2] if two else ("", found.axes[0])
    left = max(len(f"{down} = {row}") for row in rows) if two else 0
    head = f"{across} = ".rjust(left + 4 + len(f"{across} = "))
    yield head + _row([str(column) for column in columns], width, _bars(tiles, rows, columns))
    for number, row in enumerate(rows):
        label = "" if not two else f"{down} = {row}" if number == 0 else str(row)
        shown = [texts.get((row, column), "") for column in columns]
        start = f"  {label:>{left}}".ljust(len(head))
        yield (start + _row(shown, width, _bars(tiles, [row], columns))).rstrip()


def _bars(
    tiles: Mapping[tuple[int, int], tuple[int, ...]], rows: Sequence[int], columns: Sequence[int]
) -> list[bool]:
    """Tell in front of which columns another tile begins, in any of the rows."""
    return [
        any(
            (row, before) in tiles
            and (row, column) in tiles
            and tiles[row, before] != tiles[row, column]
            for row in rows
        )
        for before, column in pairwise(columns)
    ]


def _row(cells: Sequence[str], width: int, bars: Sequence[bool]) -> str:
    texts = [f"{cell:>{width}}" for cell in cells]
    parts = [f"{' |' if bar else '  '} {text}" for bar, text in zip(bars, texts[1:], strict=True)]
    return texts[0] + "".join(parts)
