"""Families of schedules for loops of independent iterations, and for sums over one loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kgen.analysis.access import Access
from kgen.autoscheduler.choices import (
    Choices,
    Configuration,
    Values,
    fitting,
    most_items,
    powers,
)
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.rows import (
    GROUP,
    has_ascending_rows,
    lanes_of_sums,
    terms_at_once,
    with_even_rows,
)
from kgen.autoscheduler.stated import Stated
from kgen.autoscheduler.steps import Step, step
from kgen.autoscheduler.vectors import lanes_of
from kgen.ir.expr import variable_names
from kgen.ir.target import Execution
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import prioritize_loops, tag_inames
from kgen.transforms.storage.declarations import set_options
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["iterations_on_items", "iterations_on_threads", "sum_of_all"]

#: The maximum trip count of loops that may be unrolled.
_SHORT = range(2, 33)
#: The terms of a row that a work-item adds in an iteration.
_TERMS = (1, 2, 4, 5, 8)
#: The axes of a work-group.
AXES = 3


def sum_of_all(machine: Machine, nest: Nest) -> Choices | None:
    """Return the schedules of a sum over one loop."""
    (i, *others), inner = nest.band, nest.inner
    if i not in nest.reduced or others or inner or not nest.is_free(i):
        return None
    return _sum_on_items(machine, i) if machine.kind is Execution.ITEMS else _sum_on_threads(i)


def _sum_on_threads(i: str) -> Choices:
    params = {f"{i}_each": powers(8, 128), f"{i}_block": powers(64, 4096)}

    def steps(config: Configuration) -> Sequence[Step]:
        return (
            step(set_options, insert_gbarriers=True),
            step(split_iname, i, config[f"{i}_each"], inner_tag="ilp.seq"),
            step(split_iname, f"{i}_outer", config[f"{i}_block"], outer_tag="g.0"),
        )

    return Choices(params, (), steps, {f"{i}_each": 32, f"{i}_block": 512})


def _sum_on_items(machine: Machine, i: str) -> Choices:
    params = {
        f"{i}_items": powers(64, 1024),
        f"{i}_groups": powers(128, 8192),
        f"{i}_each": powers(1, 8),
    }

    def steps(config: Configuration) -> Sequence[Step]:
        each = config[f"{i}_each"]
        lanes = (step(split_iname, i, each, inner_tag="ilp"),) if each > 1 else ()
        name = f"{i}_outer" if lanes else i
        return (
            *lanes,
            step(split_iname, name, config[f"{i}_items"], inner_tag="l.0"),
            step(split_iname, f"{name}_outer", config[f"{i}_groups"], inner_tag="g.0"),
        )

    first = {f"{i}_items": 256, f"{i}_groups": 1024, f"{i}_each": 1}
    return Choices(params, (f"{i}_items <= {most_items(machine)}",), steps, first)


# -- common to both kinds of devices -------------------------------------------------------------


@dataclass(frozen=True)
class _Iterations:
    """Independent iterations of the loops *chosen*, in their order from the outside in."""

    nest: Nest
    chosen: tuple[str, ...]

    @cached_property
    def lane(self) -> str:
        """The loop over adjacent elements, else the innermost one."""
        return self.nest.lane(self.chosen) or self.chosen[-1]

    @cached_property
    def short(self) -> list[str]:
        """Loops that may be unrolled."""
        nest = self.nest
        rest = [name for name in nest.inames if name not in self.chosen and nest.is_free(name)]
        return [n for n in rest if (nest.trips(n) or 0) in _SHORT and nest.stays_inside(n)]

    @cached_property
    def far(self) -> dict[str, tuple[str, ...]]:
        """Arrays that are read along another loop than that of the result, and their loops."""
        nest = self.nest
        across = [name for name in self.chosen if name != self.lane]
        return {
            access.array: self.loops_of(access)
            for access in nest.accesses
            if not nest.is_unit(access, self.lane)
            and nest.is_only_read(access.array)
            and any(nest.is_unit(access, name) for name in across)
        }

    @cached_property
    def reused(self) -> dict[str, tuple[str, ...]]:
        """Arrays of which iterations share elements, and the loops of their tiles."""
        reads: dict[str, list[Access]] = {}
        for access in self.nest.accesses:
            if not access.is_write and access.index and self.nest.is_only_read(access.array):
                reads.setdefault(access.array, []).append(access)
        several = {array: some[0] for array, some in reads.items() if len(some) > 2}
        return {a: used for a, access in several.items() if (used := self.loops_of(access))}

    def loops_of(self, access: Access) -> tuple[str, ...]:
        """Return the loops on which the subscripts of an access depend."""
        names = variable_names(*(access.index or ()))
        return tuple(name for name in self.chosen if name in names)

    def unrolled(self, config: Configuration) -> Iterator[Step]:
        """Yield the steps that unroll short loops."""
        for name in self.short:
            if config[f"{name}_unroll"]:
                yield step(tag_inames, f"{name}:unr")

    def switches(self, arrays: Mapping[str, Any]) -> dict[str, Values]:
        """Return the parameters that choose fetches and unrolled loops."""
        names = [f"fetch_{array}" for array in arrays]
        return dict.fromkeys([*names, *(f"{name}_unroll" for name in self.short)], (False, True))


# -- threads -------------------------------------------------------------------------------------


def iterations_on_threads(nest: Nest, loops: Sequence[str]) -> Choices:
    """Return the schedules of independent iterations for threads: blocks, orders, tiles, copies."""
    family = _OnThreads(nest, tuple(name for name in loops if nest.is_free(name))[:3])
    chosen, params = family.chosen, family.params
    first: dict[str, Any] = {name: values[0] for name, values in params.items()}
    outermost = next((name for name in chosen if name != family.lane), chosen[0])
    first[f"{outermost}_block"] = params[f"{outermost}_block"][-1]
    return Choices(params, tuple(family.restrictions()), family.steps, first)


@dataclass(frozen=True)
class _OnThreads(_Iterations):
    @cached_property
    def sums(self) -> list[str]:
        """Loops that are added up in several independent sums."""
        inner = [n for n in self.nest.inner if n in self.nest.reduced and self.nest.is_free(n)]
        return [name for name in inner if name not in self.short]

    @property
    def params(self) -> dict[str, Values]:
        """The parameters; a block of 0 means that a loop is not split."""
        lengths = {True: (16, 64, 256, 1024, 4096, 16384), False: (1, 4, 16, 64, 256)}
        params: dict[str, Values] = {
            f"{name}_block": (0, *fitting(self.nest, name, lengths[name == self.lane]))
            for name in self.chosen
        }
        if len(self.chosen) > 1:
            turned = [self.chosen[k:] + self.chosen[:k] for k in range(len(self.chosen))]
            orders = dict.fromkeys((*turned, self.chosen[::-1]))
            params["order"] = tuple(map(",".join, orders))
        params |= self.switches(self.far)
        return params | dict.fromkeys((f"{name}_sums" for name in self.sums), (1, 8, 16, 32))

    def restrictions(self) -> Iterator[str]:
        """Yield the restrictions of configurations."""
        yield f"{' + '.join(f'{name}_block' for name in self.chosen)} > 0"
        for array, used in self.far.items():
            area = " * ".join(f"{name}_block" for name in used)
            yield f"not fetch_{array} or {area} <= 65536"
            yield from (f"not fetch_{array} or {name}_block > 1" for name in used)

    def steps(self, config: Configuration) -> Sequence[Step]:
        """Return the steps of a configuration."""
        inner = {n: f"{n}_inner" if config[f"{n}_block"] > 1 else n for n in self.chosen}
        spread = [name for name in reversed(self.chosen) if config[f"{name}_block"]]
        result = [self._on_axis(n, config[f"{n}_block"], axis) for axis, n in enumerate(spread)]
        counts = ((name, config[f"{name}_sums"]) for name in self.sums)
        result += [step(split_iname, n, c, inner_tag="ilp.seq") for n, c in counts if c > 1]
        for array, used in self.far.items():
            if config[f"fetch_{array}"]:
                swept = [inner[name] for name in used]
                result.append(step(add_prefetch, array, swept, default_tag=None))
        order = [n for n in config.get("order", "").split(",") if n and config[f"{n}_block"] != 1]
        if len(order) > 1:
            result.append(step(prioritize_loops, ",".join(inner[name] for name in order)))
        return (*result, *self.unrolled(config))

    def _on_axis(self, name: str, block: int, axis: int) -> Step:
        if block == 1:
            return step(tag_inames, f"{name}:g.{axis}")
        return step(split_iname, name, block, outer_tag=f"g.{axis}")


# -- work-items ----------------------------------------------------------------------------------


def iterations_on_items(
    machine: Machine, stated: Stated, nest: Nest, loops: Sequence[str], *, are_typed: bool
) -> Choices:
    """Return the schedules of independent iterations for work-items: groups, copies, tiles.

    Several work-items may add up a row, or share the entries of all rows evenly. If the types of
    all arguments are known, work-items may access vectors.
    """
    free = [name for name in loops if nest.is_free(name)]
    lane = nest.lane(free) or free[-1]
    others = sorted((n for n in free if n != lane), key=lambda n: nest.trips(n) is not None)
    is_even = has_ascending_rows(stated, nest, loops)
    lanes = lanes_of(nest, loops) if are_typed else 1
    family = _OnItems(nest, (lane, *others[:2]), machine, is_even, lanes)
    params = family.params
    first: dict[str, Any] = {name: values[0] for name, values in params.items()}
    shared = lanes_of_sums(machine, nest, loops) if family.sums and not is_even else 0
    rows = [machine.warp, 8, 4] if others else [machine.most_items]
    if shared:
        rows = [machine.most_items // shared, 1]
    together = dict.fromkeys(family.sums, max(1, shared))
    wanted = {**dict(zip(family.chosen, rows, strict=False)), **together}
    if is_even:
        first[f"{family.sums[0]}_balanced"] = True
        wanted[lane] = GROUP
    for name in [*family.chosen, *family.sums[:1]]:
        sizes = params[f"{name}_items"]
        first[f"{name}_items"] = min((abs(size - wanted[name]), size) for size in sizes)[1]
    if shared and family.terms:
        first[family.terms] = terms_at_once(nest, family.sums[0])
    if family.has_vectors:
        first[family.width] = lanes
    return Choices(params, tuple(family.restrictions()), family.steps, first)


@dataclass(frozen=True)
class _OnItems(_Iterations):
    machine: Machine
    #: whether all entries of rows may be shared evenly
    is_even: bool
    #: the elements of vectors along the lanes; 1 if there are none
    vector: int

    @property
    def width(self) -> str:
        """The parameter for the elements of a vector."""
        return f"{self.lane}_lanes"

    @cached_property
    def has_vectors(self) -> bool:
        """Whether vectors of all arrays are aligned: no elements are shared with neighbours."""
        return self.vector > 1 and not self.tiled

    @cached_property
    def sums(self) -> tuple[str, ...]:
        """Loops of sums that several work-items may share: an axis must be left for them."""
        is_free = self.nest.has_free_sums and len(self.chosen) < AXES and not self.short
        return self.nest.inside if is_free else ()

    @property
    def lanes(self) -> str:
        """The parameter for the work-items of a sum."""
        return f"{self.sums[0]}_items"

    @property
    def terms(self) -> str:
        """The parameter for the terms in an iteration, if the length depends on data; or empty."""
        is_data = bool(self.sums) and all(map(self.nest.is_data, self.sums))
        return f"{self.sums[0]}_each" if is_data else ""

    @cached_property
    def tiled(self) -> dict[str, tuple[str, ...]]:
        """Arrays that work-groups may fetch, and the loops of their tiles."""
        return self.far | self.reused

    @property
    def params(self) -> dict[str, Values]:
        """The parameters."""
        params: dict[str, Values] = {}
        for name in self.chosen:
            least = 1 if self.sums else 8
            counts = powers(least, 256) if name == self.lane else powers(1, 32)
            params[f"{name}_items"] = fitting(self.nest, name, counts)
            params[f"{name}_each"] = fitting(self.nest, name, (1, 2, 4, 8))
        if self.has_vectors:
            params[self.width] = powers(1, self.vector)
        if self.sums:
            params[self.lanes] = fitting(self.nest, self.sums[0], powers(1, 256))
        if self.terms:
            params[self.terms] = _TERMS
        if self.is_even:
            params[f"{self.sums[0]}_balanced"] = (False, True)
        return params | self.switches(self.tiled)

    def restrictions(self) -> Iterator[str]:
        """Yield the restrictions of configurations."""
        items = " * ".join(f"{name}_items" for name in (*self.chosen, *self.sums[:1]))
        yield f"{items} <= {most_items(self.machine)}"
        yield f"{' * '.join(f'{name}_each' for name in self.chosen)} <= 16"
        warp = self.machine.warp
        if all((self.nest.trips(name) or warp) >= warp for name in self.chosen):
            yield f"{items} >= {warp}"
        size = self.nest.itemsize()
        for array, used in self.tiled.items():
            area = " * ".join(f"({name}_items * {name}_each + 2)" for name in used)
            yield f"not fetch_{array} or {area} * {size} <= {self.machine.local_memory}"
            yield from (f"not fetch_{array} or {name}_items > 1" for name in self.chosen)
            if self.sums:
                yield f"not fetch_{array} or {self.lanes} == 1"
        if self.is_even:
            switch = f"not {self.sums[0]}_balanced"
            yield f"{switch} or {self.lanes} * {self.terms} * {self.lane}_each == 1"
            yield from (f"{switch} or not fetch_{array}" for array in self.tiled)

    def steps(self, config: Configuration) -> Sequence[Step]:
        """Return the steps of a configuration."""
        if self.is_even and config[f"{self.sums[0]}_balanced"]:
            rows, size = f"{self.lane}, {self.sums[0]}", config[f"{self.lane}_items"]
            return with_even_rows(self.nest.given, rows, size)
        lanes = config[self.lanes] if self.sums else 1
        result = [
            one
            for axis, name in enumerate(self.chosen)
            for one in self._on_axes(name, axis, axis + (lanes > 1), config)
        ]
        if lanes > 1:
            result += [step(split_iname, name, lanes, inner_tag="l.0") for name in self.sums]
        if self.terms and config[self.terms] > 1:
            rest = [f"{name}_outer" if lanes > 1 else name for name in self.sums]
            result += [step(split_iname, n, config[self.terms], inner_tag="unr") for n in rest]
        for array, used in self.tiled.items():
            if config[f"fetch_{array}"]:
                swept = [part for name in used for part in self._parts(name, config)]
                result.append(step(add_prefetch, array, swept))
        return (*result, *self.unrolled(config))

    def _parts(self, name: str, config: Configuration) -> list[str]:
        """Return the loops of a work-group that a loop was split into."""
        parts = [f"{name}_inner_outer", f"{name}_inner_inner"]
        return parts if config[f"{name}_each"] > 1 else [f"{name}_inner"]

    def _on_axes(self, name: str, axis: int, local: int, config: Configuration) -> Iterator[Step]:
        """Yield the steps for one loop: along the lanes, adjacent iterations stay adjacent."""
        items, each = config[f"{name}_items"], config[f"{name}_each"]
        group, item = f"g.{axis}", f"l.{local}"
        lanes = config.get(self.width, 1) if name == self.lane else 1
        if lanes > 1:
            yield step(split_iname, name, items * each * lanes, outer_tag=group)
            inner = f"{name}_inner"
            if each > 1:
                yield step(split_iname, inner, items * lanes, outer_tag="ilp")
                inner = f"{inner}_inner"
            yield step(split_iname, inner, lanes, outer_tag=item, inner_tag="vec")
            return
        if each == 1:
            yield step(split_iname, name, items, outer_tag=group, inner_tag=item)
            return
        yield step(split_iname, name, items * each, outer_tag=group)
        length = items if name == self.lane else each
        tags = ("ilp", item) if name == self.lane else (item, "ilp")
        options = {"outer_tag": tags[0], "inner_tag": tags[1]}
        yield step(split_iname, f"{name}_inner", length, **options)
