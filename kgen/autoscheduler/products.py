"""Families of schedules for matrix products: tiles, panels, sums in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, Final

from kgen.autoscheduler.choices import (
    GROUPS,
    Choices,
    Configuration,
    Values,
    fitting,
    launch_bounds,
    most_items,
    powers,
)
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Factor, Nest
from kgen.autoscheduler.steps import Step, step
from kgen.autoscheduler.threads import packed_panel, product_steps
from kgen.ir.expr import variable_names
from kgen.ir.types import AddressSpace
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.storage.array_axes import split_array_axis
from kgen.transforms.storage.banks import add_padding_to_avoid_bank_conflicts
from kgen.transforms.storage.declarations import align_temporaries, tag_array_axes
from kgen.transforms.storage.pipeline import pipeline
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["has_whole_tiles", "product_on_items", "product_on_threads"]

#: The maximum bytes of sums in registers; more would be spilled.
_REGISTERS = 512
_VECTOR = 16
#: The registers of a work-item beside its sums: a part of each tile, and addresses.
_OTHER_REGISTERS = 56
#: The number of work-groups from which on most of a large device is busy.
_GROUPS: Final = 128


def product_on_threads(nest: Nest, i: str, j: str, k: str, panel: str) -> Choices:
    """Return the schedules of a product for threads: tiles, rows of sums, packed panels."""
    factors = nest.factors(i, j, k)
    others = [name for name in factors if name != panel]
    fetches = {f"fetch_{name}": (False, True) for name in (panel, *others)}
    params: dict[str, Values] = {
        f"{i}_tile": fitting(nest, i, powers(16, 512)),
        f"{i}_each": (1, 2, 4, 6, 8, 12, 16),
        f"{j}_tile": fitting(nest, j, powers(16, 256)),
        f"{k}_tile": fitting(nest, k, powers(64, 512)),
        **fetches,
    }

    def steps(config: Configuration) -> Sequence[Step]:
        each = config[f"{i}_each"]
        sizes = config[f"{i}_tile"], each, config[f"{j}_tile"], config[f"{k}_tile"]
        result = product_steps(nest, (i, j, k), sizes)
        rows = [f"{i}_inner"] if each == 1 else [f"{i}_inner_outer", f"{i}_inner_inner"]
        swept = {i: rows, j: [f"{j}_inner"], k: [f"{k}_inner"]}
        for factor in factors.values():
            if config[f"fetch_{factor.name}"] and factor.name == panel:
                result += packed_panel(nest, (i, j, k), panel)
            elif config[f"fetch_{factor.name}"]:
                names = [name for axis in factor.axes for name in swept[axis]]
                outer = f"{i}_outer,{j}_outer,{k}_outer"
                result.append(factor.fetch(names, default_tag=None, fetch_outer_inames=outer))
        return result

    start = {f"{i}_tile": 256, f"{i}_each": 8, f"{j}_tile": 32, f"{k}_tile": 256}
    first = {n: v if v in params[n] else params[n][-1] for n, v in start.items()}
    first |= {name: name == f"fetch_{panel}" for name in fetches}
    restrictions = (f"{i}_tile % {i}_each == 0", f"{i}_tile * {j}_tile <= 65536")
    return Choices(params, restrictions, steps, first)


def has_whole_tiles(nest: Nest, i: str, j: str, k: str) -> bool:
    """Tell whether the tiles of a matrix product are known to be whole."""
    return nest.divides(64, i) and nest.divides(64, j) and nest.divides(16, k)


def product_on_items(
    machine: Machine, nest: Nest, i: str, j: str, k: str, panel: str
) -> Choices | None:
    """Return the schedules of a product for work-items: tiles in local memory and registers.

    Each work-item has ``i_each`` x ``j_each`` sums, in pieces of *lanes* adjacent elements, of
    which neighbours have the next ones. Tiles are fetched in vectors of *lanes*. Those of factors
    whose adjacent elements are along the sum, ``a[i, k]`` or ``b[j, k]``, can be transposed. Tiles
    that may be partial can have code of their own (*slabs*). On CUDA, launch bounds state how many
    *groups* a multiprocessor holds.
    """
    factors = nest.factors(i, j, k)
    if len(factors) != 2:
        return None
    other = next(array for array in factors if array != panel)
    turned = [array for array in (other, panel) if factors[array].axes[1] == k]
    size = nest.itemsize()
    most = _VECTOR // size or 1
    lengths = [nest.trips(name) for name in (i, j, k)]
    is_whole = has_whole_tiles(nest, i, j, k)
    is_even = all(nest.divides(most, name) for name in (i, j, k))
    params: dict[str, Values] = {
        f"{i}_items": (4, 8, 16, 32),
        f"{j}_items": (8, 16, 32),
        f"{i}_each": powers(1, 16),
        f"{j}_each": powers(1, 16),
        f"{k}_tile": (8, 16, 32),
        "lanes": powers(1, most) if is_even else (1,),
        **{f"turn_{array}": (False, True) for array in turned},
        "registers": (False, True) if is_even else (False,),
        f"{k}_unroll": (False, True),
        "stages": (1, 2, 3),
    }
    if not is_whole:
        params["slabs"] = (False, True)
    if machine.registers is not None and nest.is_alone:
        params["groups"] = GROUPS
    items = f"{i}_items * {j}_items"
    tiles = {name: f"{name}_items * {name}_each" for name in (i, j)}
    limit = most_items(machine)
    restrictions = [
        f"{machine.warp} <= {items} <= {limit}",
        f"{i}_each * {j}_each * {size} <= {_REGISTERS}",
        f"stages * {k}_tile * ({tiles[i]} + {tiles[j]}) * {size} <= {machine.local_memory}",
        f"{i}_each % lanes == 0 and {j}_each % lanes == 0 or lanes == 1 or not registers",
        "lanes > 1 or not registers",
        f"{tiles[j]} % lanes == 0 and {k}_tile % lanes == 0",
    ]
    if "groups" in params:
        words = f"{i}_each * {j}_each * {max(1, size // 4)} + {_OTHER_REGISTERS}"
        restrictions.append(f"groups * {items} * ({words}) <= {machine.registers}")
    restrictions += [f"({tiles[n]} * {k}_tile // lanes) % ({items}) == 0" for n in (i, j)]
    for name, trips in zip((i, j), lengths, strict=False):
        if trips is not None and trips % 64 == 0:
            restrictions.append(f"{trips} % ({tiles[name]}) == 0")
    if lengths[2] is not None and lengths[2] % 32 == 0:
        restrictions.append(f"{lengths[2]} % {k}_tile == 0")
    family = _ProductOnItems(nest, i, j, k, (other, panel), tuple(turned), factors)
    first = _first(machine, nest, (i, j, k), params, turned, is_panel_turned=panel in turned)
    return Choices(params, tuple(restrictions), family.steps, first, are_right=is_whole)


def _first(
    machine: Machine,
    nest: Nest,
    loops: tuple[str, str, str],
    params: Mapping[str, Values],
    turned: Sequence[str],
    *,
    is_panel_turned: bool,
) -> dict[str, Any]:
    """Return the configuration from which searches start."""
    i, j, k = loops
    size, is_whole = nest.itemsize(), has_whole_tiles(nest, i, j, k)
    sums = _sums_along(nest, i), _sums_along(nest, j)
    lanes = params["lanes"][-1]
    bytes_of_tiles = 16 * 16 * size * sum(sums)
    first: dict[str, Any] = {f"{i}_items": 16, f"{j}_items": 16}
    first |= {f"{i}_each": sums[0], f"{j}_each": sums[1]}
    first |= {f"{k}_tile": 16, f"{k}_unroll": is_whole, "lanes": min(lanes, *sums)}
    first |= {f"turn_{array}": True for array in turned}
    first["registers"] = params["registers"][-1] and _VECTOR // size > 1
    first["stages"] = 2 if is_whole and 2 * bytes_of_tiles < machine.local_memory else 1
    if not is_whole:
        first["slabs"] = True
    if "groups" not in params:
        return first
    if is_whole and size == 4:
        return first | _items_and_sums(nest, i, j, turned)
    if is_whole and not is_panel_turned and 6 * bytes_of_tiles <= machine.usual_local_memory:
        first["stages"] = 3
    return first | {"groups": int(is_panel_turned)}


def _items_and_sums(nest: Nest, i: str, j: str, turned: Sequence[str]) -> dict[str, Any]:
    """Return the work-items, and the sums of each, that were the fastest on an H200.

    They are for whole tiles of elements of four bytes; docs/benchmarks_gpu.md has the rates.
    """
    trips = [nest.trips(name) for name in nest.band]
    count = prod(n for n in trips if n is not None) if None not in trips else inf
    is_large = count >= 128 * 128 * _GROUPS and nest.divides(128, i) and nest.divides(128, j)
    if is_large and len(turned) == 2:
        return {"groups": 1}
    if is_large:
        longer = j if turned else i
        return {f"{longer}_items": 8, f"{longer}_each": 16, "groups": 2}
    sums = {f"{i}_each": 8 if count >= 64 * 64 * _GROUPS else 4, f"{j}_each": 8}
    return {f"{i}_items": 8, f"{j}_items": 8, **sums, "groups": 2}


def _sums_along(nest: Nest, name: str) -> int:
    """Return how many sums a work-item has along a loop.

    They are four where tiles may be partial: in those, each sum has conditions of its own, and a
    larger tile takes too long.
    """
    if nest.itemsize() > _VECTOR // 2:
        return 4
    if nest.divides(64, name):
        return 8 if nest.divides(128, name) else 4
    return 8 if nest.divides(16, name) and (nest.trips(name) or 512) >= 512 else 4


@dataclass(frozen=True)
class _ProductOnItems:
    """A product on work-items; ``arrays`` are the names of its factors, and of their tiles."""

    nest: Nest
    i: str
    j: str
    k: str
    arrays: tuple[str, str]
    turned: tuple[str, ...]
    factors: Mapping[str, Factor]

    def steps(self, config: Configuration) -> Sequence[Step]:
        """Return the steps of a configuration."""
        k = self.k
        result = [*self._split(self.i, 1, config), *self._split(self.j, 0, config)]
        result.append(step(split_iname, k, config[f"{k}_tile"], **self._slabs(config)))
        result += self._batch()
        for array in self.arrays:
            result += self._fetch(array, config)
        if config["registers"]:
            for array in self.arrays:
                result += self._hold(array, config)
        if config[f"{k}_unroll"]:
            result.append(step(tag_inames, f"{k}_inner:unr"))
        for array in self.turned:
            if config[f"turn_{array}"]:
                result.append(step(add_padding_to_avoid_bank_conflicts, f"{array}_tile"))
        if config["stages"] > 1:
            tiles = ", ".join(f"{array}_tile" for array in self.arrays)
            result.append(step(pipeline, f"{k}_outer", config["stages"], tiles))
        return result + launch_bounds(config)

    def _batch(self) -> list[Step]:
        rest = [n for n in self.nest.band if n not in (self.i, self.j) and self.nest.is_free(n)]
        return [step(tag_inames, f"{rest[-1]}:g.2")] if rest else []

    def _piece(self, name: str, config: Configuration) -> int:
        """Return the number of adjacent sums of a work-item."""
        return int(min(config["lanes"], config[f"{name}_each"]))

    def _split(self, name: str, axis: int, config: Configuration) -> list[Step]:
        items, each = config[f"{name}_items"], config[f"{name}_each"]
        piece = self._piece(name, config)
        near = f"{name}_near"
        options = {"outer_tag": f"g.{axis}", "inner_iname": near, **self._slabs(config)}
        result = [step(split_iname, name, items * each, **options)]
        if each > piece:
            pieces = {"outer_iname": f"{name}_piece", "inner_iname": f"{name}_part"}
            result.append(step(split_iname, near, items * piece, outer_tag="ilp", **pieces))
            near = f"{name}_part"
        names = {"outer_iname": f"{name}_item", "inner_iname": f"{name}_sum"}
        tags = {"outer_tag": f"l.{axis}", "inner_tag": "ilp"}
        return [*result, step(split_iname, near, piece, **names, **tags)]

    def _slabs(self, config: Configuration) -> dict[str, Any]:
        """Return the option of a split by which the last tile has code of its own."""
        return {"slabs": (0, 1)} if config.get("slabs") else {}

    def _pieces(self, name: str, config: Configuration) -> list[str]:
        """Return the loop over the pieces that a work-item has, if there are several."""
        several = config[f"{name}_each"] > self._piece(name, config)
        return [f"{name}_piece"] if several else []

    def _outer(self) -> str:
        batch = [n for n in self.nest.band if n not in (self.i, self.j)]
        return ",".join((*batch, f"{self.i}_outer", f"{self.j}_outer", f"{self.k}_outer"))

    def _swept(self, array: str, config: Configuration) -> list[str]:
        (name,) = set(self.factors[array].axes) - {self.k}
        return [*self._pieces(name, config), f"{name}_item", f"{name}_sum", f"{self.k}_inner"]

    def _axes(self, array: str, names: Mapping[str, str]) -> list[str]:
        """Return names for the loops of a fetch along the axes of an array."""
        indices = self.factors[array].access.index or ()
        found = [set(variable_names(index)) & names.keys() for index in indices]
        return [
            names[min(loops)] if loops else f"{array}_plane_{axis}"
            for axis, loops in enumerate(found)
        ]

    def _fetch(self, array: str, config: Configuration) -> list[Step]:
        """Let all work-items fetch a tile, adjacent vectors by adjacent work-items."""
        rows, columns = f"{array}_row", f"{array}_column"
        axes = self.factors[array].axes
        i, j = self.i, self.j
        items, width = config[f"{i}_items"] * config[f"{j}_items"], config[f"{j}_items"]
        result = [
            self.factors[array].fetch(
                self._swept(array, config),
                self._axes(array, dict(zip(axes, (rows, columns), strict=True))),
                default_tag=None,
                fetch_outer_inames=self._outer(),
                temporary_name=f"{array}_tile",
                temporary_address_space=AddressSpace.LOCAL,
            )
        ]
        if array in self.turned and config[f"turn_{array}"]:
            result.append(step(tag_array_axes, f"{array}_tile", "N0,N1"))
        if config["lanes"] > 1:
            result.append(step(split_iname, columns, config["lanes"], inner_tag="vec"))
            columns = f"{columns}_outer"
        flat = f"{array}_flat"
        result.append(step(join_inames, [rows, columns], flat))
        result.append(step(split_iname, flat, items, outer_tag="unr", inner_iname=f"{array}_turn"))
        tags = {"outer_tag": "l.1", "inner_tag": "l.0"}
        result.append(step(split_iname, f"{array}_turn", width, **tags))
        return result

    def _hold(self, array: str, config: Configuration) -> list[Step]:
        """Load a work-item's part of a tile into registers, as vectors."""
        (name,) = set(self.factors[array].axes) - {self.k}
        axis = self.factors[array].axes.index(name)
        tile = f"{array}_tile"
        length = config[f"{name}_items"] * self._piece(name, config)
        pieces = self._pieces(name, config)
        loads = [f"{array}_{part}" for part in (["piece"] if pieces else []) + ["sum"]]
        outer = f"{self._outer()},{self.k}_inner,{self.i}_item,{self.j}_item"
        result = [step(align_temporaries, tile, _VECTOR)]
        if pieces:
            result.append(step(split_array_axis, tile, axis, length))
        held = {"temporary_name": f"{array}_held", "fetch_outer_inames": outer}
        names = [*([f"{array}_step"] if axis == 1 else []), *loads]
        swept = [*pieces, f"{name}_sum"]
        result.append(step(add_prefetch, tile, swept, names, default_tag=None, **held))
        tags = dict.fromkeys(loads, "unr") | {f"{array}_sum": "vec"}
        return [*result, step(tag_inames, tags)]
