"""Families of schedules for matrix products on tensor cores: by warps, and by warpgroups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kgen.autoscheduler.choices import GROUPS, Choices, Configuration, Values, launch_bounds
from kgen.autoscheduler.machine import Machine
from kgen.autoscheduler.nests import Factor, Nest
from kgen.autoscheduler.steps import Step, step
from kgen.transforms.loops.split import join_inames, split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.reductions.tensorize import tensorize
from kgen.transforms.storage.array_axes import split_array_axis
from kgen.transforms.storage.async_copies import async_copy
from kgen.transforms.storage.declarations import align_temporaries, tag_array_axes
from kgen.transforms.storage.pipeline import pipeline

__all__ = ["product_on_tensor_cores"]

#: The bytes of an asynchronous copy, and of a line of local memory in a swizzle.
_VECTOR: Final = 16
_LINE: Final = 128
#: The work-items of a warp, and of a warpgroup, which has four of them.
_WARP: Final = 32
_GROUP: Final = 128
#: The rows of a step of a warpgroup; terms of a sum that are fetched for it.
_ROWS: Final = 64
_TERMS: Final = 64
#: The maximum registers of a work-item for sums.
_SUMS: Final = 128
#: The registers of a work-item beside its sums.
_OTHERS: Final = 80
#: The number of tile columns that groups process together, sharing rows in the cache.
_PANEL: Final = 4


def product_on_tensor_cores(
    machine: Machine, nest: Nest, i: str, j: str, k: str, panel: str, precision: str | None
) -> Choices | None:
    """Return the schedules of a product for tensor cores; ``None`` if they do not support it.

    Factors are read along the sum or across it, and all tiles are whole. Those of float32 need a
    *precision*, as for :func:`tensorize`.
    """
    factors = nest.factors(i, j, k)
    others = [name for name, factor in factors.items() if i in factor.axes]
    if len(factors) != 2 or len(others) != 1:
        return None
    arrays = [nest.kernel.array_vars[factor.array] for factor in factors.values()]
    types = {array.dtype.numpy_dtype for array in arrays}
    capability = machine.capability or (0, 0)
    if len(types) > 1 or len([i for i in nest.instructions if k in i.reduction_inames()]) != 1:
        return None
    dtype = types.pop()
    precision = precision if dtype == np.float32 else None
    product = _Product(nest, i, j, k, panel, others[0], dtype, factors, precision)
    if product.is_half and capability[0] == 9:
        return _of_warpgroups(machine, product)
    shape = product.shape_of_warps(capability)
    return None if shape is None else _of_warps(machine, product, shape)


@dataclass(frozen=True)
class _Product:
    """Rows, columns and sum of a product, and its factors."""

    nest: Nest
    i: str
    j: str
    k: str
    panel: str
    other: str
    dtype: np.dtype[Any]
    factors: Mapping[str, Factor]
    precision: str | None

    @property
    def is_half(self) -> bool:
        return self.dtype.name in ("float16", "bfloat16")

    @property
    def insn(self) -> str:
        """The instruction with the sum; others use it."""
        return next(str(i.id) for i in self.nest.instructions if self.k in i.reduction_inames())

    @property
    def batch(self) -> list[str]:
        return [name for name in self.nest.band if name not in (self.i, self.j)]

    def shape_of_warps(self, capability: tuple[int, int]) -> str | None:
        """Return the shape of a step of a warp for the factors."""
        if self.is_half and capability >= (8, 0):
            return "m16n8k16"
        if self.precision is not None and capability >= (8, 0):
            return "m16n8k8"
        if self.dtype == np.float64 and capability[0] == 9:
            return "m16n8k8"
        return "m8n8k4" if self.dtype == np.float64 and capability >= (8, 0) else None

    def rounding(self) -> dict[str, str]:
        """Return the argument of :func:`tensorize` for factors of float32."""
        return {} if self.precision is None else {"precision": self.precision}

    def padding(self, array: str) -> int:
        """Return by how many elements the rows of a tile are longer, for lanes to use all banks.

        The lanes of a warp load elements of 8 lines and 4 terms, in rows along the sum or across.
        """
        along = self.factors[array].axes[1] == self.k
        return 4 if along or self.dtype == np.float64 else 8

    def whole(self, name: str, values: Values) -> Values:
        """Return the lengths of tiles that divide the length of a loop."""
        return tuple(value for value in values if self.nest.divides(value, name))

    def in_order(self, array: str, loops: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the parts of the two loops of a factor, in the order of its axes."""
        return [part for name in self.factors[array].axes for part in loops[name]]

    def on_batch(self) -> list[Step]:
        """Put the innermost loop over products on an axis."""
        free = [name for name in self.batch if self.nest.is_free(name)]
        return [step(tag_inames, f"{free[-1]}:g.2")] if free else []

    def fetch(self, array: str, around: str, swept: Sequence[str]) -> Step:
        names = self.axes(array)
        options = {"default_tag": None, "fetch_outer_inames": ",".join((*self.batch, around))}
        tile = f"{array}_tile"
        return self.factors[array].fetch(swept, names, temporary_name=tile, **options)

    def axes(self, array: str) -> list[str]:
        """Return the loops of a fetch, along the axes of an array."""
        rest = len(self.factors[array].access.index or ()) - 2
        return [*(f"{array}_plane_{n}" for n in range(rest)), f"{array}_row", f"{array}_column"]

    def copied(self, stages: int, ahead: int | None) -> list[Step]:
        """Copy tiles asynchronously, some of them ahead."""
        rules = f"{self.other}_fetch_rule, {self.panel}_fetch_rule"
        return [
            step(async_copy, rules),
            step(pipeline, f"{self.k}_outer", stages, ahead=ahead),
        ]


def _is_possible(params: Mapping[str, Values]) -> bool:
    return all(params.values())


# -- warpgroups ------------------------------------------------------------------------------------


def _of_warpgroups(machine: Machine, product: _Product) -> Choices | None:
    i, j, k = product.i, product.j, product.k
    params: dict[str, Values] = {
        f"{i}_tile": product.whole(i, (64, 128, 256)),
        f"{j}_tile": product.whole(j, (64, 128, 256)),
        f"{k}_tile": product.whole(k, (_TERMS,)),
        f"{j}_panel": _panels(product),
        "stages": (2, 3, 4, 5, 6),
        "ahead": (1, 2, 3, 4),
    }
    if not _is_possible(params):
        return None
    tiles = f"{i}_tile + {j}_tile"
    restrictions = (
        "ahead < stages",
        f"{i}_tile * {j}_tile <= {_ROWS * 2 * 256}",
        f"stages * {k}_tile * ({tiles}) * {product.dtype.itemsize} <= {machine.local_memory}",
    )
    sides = {name: params[f"{name}_tile"] for name in (i, j)}
    first = {
        f"{i}_tile": min(128, sides[i][-1]),
        f"{j}_tile": sides[j][-1],
        f"{k}_tile": _TERMS,
        f"{j}_panel": max(n for n in params[f"{j}_panel"] if n <= _PANEL),
        "stages": 4,
        "ahead": 2,
    }
    return Choices(params, restrictions, _OfWarpgroups(product).steps, first, are_right=True)


def _panels(product: _Product) -> Values:
    """Return the possible numbers of tile columns in a band; batches need the third axis."""
    several = () if product.batch else (2, _PANEL, 8)
    return (1, *(n for n in several if product.nest.divides(n * 256, product.j)))


@dataclass(frozen=True)
class _OfWarpgroups:
    product: _Product

    def steps(self, config: Configuration) -> Sequence[Step]:
        """Return the steps of a configuration: a warpgroup for each 64 rows of a tile."""
        p = self.product
        i, j, k = p.i, p.j, p.k
        groups, width = config[f"{i}_tile"] // _ROWS, config[f"{j}_tile"]
        result = [
            *self._rows(config[f"{i}_tile"]),
            step(split_iname, j, width, inner_iname=f"{j}_column"),
            step(split_iname, k, config[f"{k}_tile"]),
            step(split_iname, f"{k}_inner", 16, inner_iname=f"{k}_term", outer_tag="unr"),
            *self._placed(config[f"{j}_panel"]),
            *p.on_batch(),
        ]
        around = self._around(config[f"{j}_panel"])
        terms = [f"{k}_inner_outer", f"{k}_term"]
        rows = [f"{i}_group", f"{i}_row"] if groups > 1 else [f"{i}_row"]
        parts = {i: rows, j: [f"{j}_column"], k: terms}
        lengths = {i: config[f"{i}_tile"], j: width, k: _TERMS}
        for array in (p.other, p.panel):
            swept, columns = p.in_order(array, parts), lengths[p.factors[array].axes[1]]
            result += self._fetch(array, around, swept, columns, groups)
        names = f"{p.other}_tile, {p.panel}_tile"
        result += [
            step(tensorize, p.insn, f"{i}_row, {j}_column, {k}_term", f"m64n{width}k16"),
            step(align_temporaries, names, 1024),
            step(tag_array_axes, names, f"swizzle:{_LINE}"),
        ]
        return result + p.copied(config["stages"], config["ahead"])

    def _rows(self, tile: int) -> list[Step]:
        """Map 64 rows of a tile to each warpgroup."""
        i = self.product.i
        if tile == _ROWS:
            return [step(split_iname, i, tile, inner_iname=f"{i}_row")]
        names = {"outer_iname": f"{i}_group", "inner_iname": f"{i}_row"}
        return [
            step(split_iname, i, tile),
            step(split_iname, f"{i}_inner", _ROWS, outer_tag="l.1", **names),
        ]

    def _placed(self, panel: int) -> list[Step]:
        """Map tiles to groups in bands: down a few columns of tiles, then down the next ones."""
        i, j = self.product.i, self.product.j
        if panel == 1:
            return [step(tag_inames, f"{i}_outer:g.1, {j}_outer:g.0")]
        return [
            step(split_iname, f"{j}_outer", panel, outer_tag="g.2", inner_tag="g.0"),
            step(tag_inames, f"{i}_outer:g.1"),
        ]

    def _around(self, panel: int) -> str:
        p = self.product
        columns = [f"{p.j}_outer"] if panel == 1 else [f"{p.j}_outer_outer", f"{p.j}_outer_inner"]
        return ",".join((f"{p.i}_outer", *columns, f"{p.k}_outer"))

    def _fetch(
        self, array: str, around: str, swept: Sequence[str], columns: int, groups: int
    ) -> list[Step]:
        """Fetch a tile, in parts whose rows are lines of a swizzle."""
        p, column, item = self.product, f"{array}_column", f"{array}_item"
        part = _LINE // p.dtype.itemsize
        lanes = _VECTOR // p.dtype.itemsize
        result = [p.fetch(array, around, swept)]
        order = [f"{array}_row", f"{array}_vector"]
        if columns > part:
            result += [
                step(split_array_axis, f"{array}_tile", 1, part),
                step(tag_array_axes, f"{array}_tile", "N1, N2, N0"),
                step(split_iname, column, part, inner_iname=f"{array}_part"),
            ]
            order.insert(0, f"{column}_outer")
            column = f"{array}_part"
        options = {"outer_iname": f"{array}_vector", "inner_iname": f"{array}_lane"}
        result += [
            step(split_iname, column, lanes, inner_tag="vec", **options),
            step(join_inames, order, item),
            step(split_iname, item, _GROUP, inner_tag="l.0"),
        ]
        if groups > 1:
            tags = {"inner_tag": "l.1", "outer_tag": "unr"}
            result.append(step(split_iname, f"{item}_outer", groups, **tags))
        else:
            result.append(step(tag_inames, f"{item}_outer:unr"))
        return result


# -- warps -----------------------------------------------------------------------------------------


def _of_warps(machine: Machine, product: _Product, shape: str) -> Choices | None:
    i, j, k = product.i, product.j, product.k
    size = product.dtype.itemsize
    depths = (16, 32, 64) if product.is_half else (8, 16, 32)
    params: dict[str, Values] = {
        f"{i}_tile": product.whole(i, (64, 128, 256)),
        f"{j}_tile": product.whole(j, (64, 128, 256)),
        f"{k}_tile": product.whole(k, depths),
        f"{i}_warps": (1, 2, 4),
        f"{j}_warps": (1, 2, 4),
        "stages": (2, 3, 4),
    }
    if not _is_possible(params):
        return None
    tiles, warps = f"{i}_tile + {j}_tile", f"{i}_warps * {j}_warps"
    restrictions = (
        f"{i}_tile * {j}_tile * {max(4, size)} // ({warps} * {_WARP}) <= {4 * _SUMS}",
        f"stages * {k}_tile * ({tiles}) * {size} <= {machine.local_memory}",
        f"{warps} >= 4",
        f"{i}_tile >= 16 * {i}_warps and {j}_tile >= 8 * {j}_warps",
        *(f"{n}_tile * {k}_tile % ({warps} * {_WARP * _VECTOR // size}) == 0" for n in (i, j)),
    )
    if machine.registers is not None and product.nest.is_alone:
        params["groups"] = GROUPS
        words = f"{i}_tile * {j}_tile * {max(4, size) // 4}"
        registers = f"{words} + {warps} * {_WARP * _OTHERS}"
        restrictions += (f"groups * ({registers}) <= {machine.registers}",)
    is_wide = product.is_half or product.precision == "tf32"
    first = {
        f"{i}_tile": min(128, params[f"{i}_tile"][-1]),
        f"{j}_tile": min(128 if is_wide else 64, params[f"{j}_tile"][-1]),
        f"{k}_tile": min(16 if size == 8 else 32, params[f"{k}_tile"][-1]),
        f"{i}_warps": 2,
        f"{j}_warps": 4 if is_wide else 2,
        "stages": 3,
    }
    if "groups" in params:
        first["groups"] = 2 if size == 8 else 0
    return Choices(params, restrictions, _OfWarps(product, shape).steps, first, are_right=True)


@dataclass(frozen=True)
class _OfWarps:
    product: _Product
    shape: str

    def steps(self, config: Configuration) -> Sequence[Step]:
        """Return the steps of a configuration: each warp has a part of a tile."""
        p = self.product
        i, j, k = p.i, p.j, p.k
        rows, columns, depth = _lengths(self.shape)
        result = []
        for name, length, axis in ((i, rows, 1), (j, columns, 0)):
            tile = config[f"{name}_tile"]
            each = tile // config[f"{name}_warps"]
            result += [
                step(split_iname, name, tile, outer_tag=f"g.{axis}"),
                step(split_iname, f"{name}_inner", each, outer_iname=f"{name}_warp"),
                step(tag_inames, f"{name}_warp:l.{axis + 1}"),
                step(
                    split_iname,
                    f"{name}_inner_inner",
                    length,
                    outer_iname=f"{name}_step",
                    inner_iname=f"{name}_sum",
                    outer_tag="ilp",
                ),
            ]
        result += [
            step(split_iname, k, config[f"{k}_tile"]),
            step(split_iname, f"{k}_inner", depth, inner_iname=f"{k}_term", outer_tag="unr"),
            *p.on_batch(),
        ]
        terms = [f"{k}_inner_outer", f"{k}_term"]
        parts = {i: self._parts(i), j: self._parts(j), k: terms}
        for array in (p.other, p.panel):
            result += self._fetch(array, p.in_order(array, parts), config)
        names = f"{p.other}_tile, {p.panel}_tile"
        result += [
            step(tensorize, p.insn, f"{i}_sum, {j}_sum, {k}_term", self.shape, **p.rounding()),
            step(align_temporaries, names, _VECTOR),
        ]
        return result + p.copied(config["stages"], None) + launch_bounds(config)

    def _parts(self, name: str) -> list[str]:
        return [f"{name}_warp", f"{name}_step", f"{name}_sum"]

    def _fetch(self, array: str, swept: Sequence[str], config: Configuration) -> list[Step]:
        """Fetch a tile, in an order in which the lanes of a warp read from all banks."""
        p, column, item = self.product, f"{array}_column", f"{array}_item"
        size, length = p.dtype.itemsize, config[f"{p.factors[array].axes[1]}_tile"]
        around = f"{p.i}_outer,{p.j}_outer,{p.k}_outer"
        layout = (
            f"swizzle:{max(_LINE, size * length)}"
            if p.is_half
            else f"stride:{length + p.padding(array)}, stride:1"
        )
        result = [p.fetch(array, around, swept)]
        result.append(step(split_iname, column, _VECTOR // size, inner_tag="vec"))
        result.append(step(join_inames, [f"{array}_row", f"{column}_outer"], item))
        counts = (_WARP, config[f"{p.j}_warps"], config[f"{p.i}_warps"])
        for axis, count in enumerate(counts):
            result.append(step(split_iname, item + axis * "_outer", count, inner_tag=f"l.{axis}"))
        return [*result, step(tag_array_axes, f"{array}_tile", layout)]


def _lengths(shape: str) -> tuple[int, int, int]:
    """Return rows, columns and terms of a shape.

    >>> _lengths("m16n8k16")
    (16, 8, 16)
    """
    rows, _, rest = shape[1:].partition("n")
    columns, _, depth = rest.partition("k")
    return int(rows), int(columns), int(depth)
