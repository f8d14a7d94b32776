"""Matrix products in full tiles: their axes, the choice of tiles, zero-padded copies."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.ready.places import MAX_NARROW, Place, as_axes, capability_of
from kgen.ready.snippet import allocator_of, call_options
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.storage.padding import add_padding
from kgen.transforms.storage.precompute import precompute

__all__ = [
    "ALIGNMENT",
    "Product",
    "Tiled",
    "Tiles",
    "choose_tiles",
    "copied",
    "in_tiles",
    "is_dense",
    "read_product",
]


@dataclass(frozen=True)
class Product:
    """The axes of a sum of products of two arrays, by their roles in a matrix product.

    The first factor is operand number ``first``.
    """

    first: int
    batch: str
    rows: str
    columns: str
    terms: str
    lengths: Mapping[str, int]

    @cached_property
    def factors(self) -> tuple[str, str]:
        """The axes of both factors, in order."""
        return self.batch + self.rows + self.terms, self.batch + self.terms + self.columns

    @cached_property
    def result(self) -> str:
        """The axes of the result."""
        return self.batch + self.rows + self.columns

    @cached_property
    def is_plain(self) -> bool:
        """Whether there is one axis for rows, columns and terms, and one for products at most."""
        return len(self.rows + self.columns + self.terms) == 3 and len(self.batch) <= 1

    def length(self, names: str) -> int:
        """Return the number of elements along some axes."""
        return math.prod(self.lengths[name] for name in names)


def read_product(spec: str, shapes: Sequence[Sequence[int]]) -> Product | None:
    """Return an Einstein summation as a matrix product; ``None`` if it is not one.

    >>> found = read_product("kj,ik->ji", [(5, 7), (3, 5)])
    >>> found.first, found.factors, found.result
    (0, ('jk', 'ki'), 'ji')
    """
    left, _, result = spec.partition("->")
    inputs = left.split(",")
    if len(inputs) != 2 or any(len(set(names)) < len(names) for names in inputs):
        return None
    lengths: dict[str, int] = {}
    for names, shape in zip(inputs, shapes, strict=True):
        for name, length in zip(names, shape, strict=True):
            if lengths.setdefault(name, length) != length:
                return None
    a, b = inputs
    own = [
        "".join(n for n in result if n in one and n not in other) for one, other in ((a, b), (b, a))
    ]
    batch = "".join(n for n in result if n in a and n in b)
    terms = "".join(n for n in a if n in b and n not in result)
    if not (all(own) and terms) or set(a + b) - set(batch + terms + own[0] + own[1]):
        return None
    first = 0 if result.index(own[0][0]) < result.index(own[1][0]) else 1
    return Product(first, batch, own[first], own[1 - first], terms, lengths)


# -- tiles -----------------------------------------------------------------------------------------

#: Lengths of tiles: rows, columns, and terms of a sum.
_WARPGROUPS: Final = ((128, 64), (256, 128, 64), 64)
_WARPS: Final = ((128, 64), (128, 64), 32)
_DOUBLE: Final = ((128, 64), (64,), 16)
_ITEMS: Final = ((128, 64), (128, 64), 16)
#: Work-groups that a device runs at once.
_AT_ONCE: Final = 132
#: Products of fewer steps, or with more than half of zeros, are left to smaller tiles.
_FEWEST: Final = 2**18
_MOST_ZEROS: Final = 2.0
#: The number of columns of tiles that warpgroups process together; terms fetched at once.
_WIDE: Final = 256
_PANEL: Final = 4 * _WIDE
_DEPTH: Final = 32
#: The terms of each of several sums, at least.
_LONG: Final = 1024
#: The groups along the second and third axis, at most.
_MOST_GROUPS: Final = 2**16 - 1


@dataclass(frozen=True)
class Tiles:
    """Tile sizes: the lengths of rows, columns and terms are padded to multiples of these."""

    rows: int
    columns: int
    terms: int

    def padded(self, product: Product) -> tuple[int, int, int]:
        """Return the lengths of whole tiles."""
        pairs = zip(
            (product.rows, product.columns, product.terms),
            (self.rows, self.columns, self.terms),
            strict=True,
        )
        rows, columns, terms = (-(-product.length(names) // side) * side for names, side in pairs)
        return rows, columns, terms


def choose_tiles(
    product: Product, dtype: np.dtype[Any], capability: tuple[int, int] | None
) -> Tiles | None:
    """Return the tiles with which a product takes the least time; ``None`` if it is too small.

    >>> lengths = {"i": 1000, "j": 37, "k": 4000}
    >>> choose_tiles(Product(0, "", "i", "k", "j", lengths), np.dtype("f4"), None)
    Tiles(rows=128, columns=128, terms=16)
    """
    steps = math.prod(product.lengths.values())
    n_products = product.length(product.batch)
    if steps < _FEWEST or n_products > _MOST_GROUPS:
        return None
    heights, widths, depth = _sides(dtype, capability)
    best = min(
        (Tiles(height, width, depth) for height in heights for width in widths),
        key=lambda tiles: _cost(product, tiles, heights[0], widths[0]),
    )
    rows, columns, terms = best.padded(product)
    if rows * columns * terms * n_products > _MOST_ZEROS * steps:
        return None
    return best if rows // best.rows <= _MOST_GROUPS else None


def _sides(
    dtype: np.dtype[Any], capability: tuple[int, int] | None
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    known = capability or (0, 0)
    if dtype.name in ("float16", "bfloat16") and known >= (8, 0):
        return _WARPGROUPS if known[0] == 9 else _WARPS
    return _DOUBLE if dtype == np.float64 and known >= (8, 0) else _ITEMS


def _cost(product: Product, tiles: Tiles, height: int, width: int) -> float:
    """Return the time of a product: of groups that run sequentially.

    Larger tiles read less per sum.
    """
    rows, columns, _ = tiles.padded(product)
    n_groups = rows // tiles.rows * (columns // tiles.columns) * product.length(product.batch)
    area = tiles.rows * tiles.columns
    reuse = area / (tiles.rows + tiles.columns) / (height * width / (height + width))
    return -(-n_groups // _AT_ONCE) * area / (1 + reuse)


# -- arrays in whole tiles -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """A product of two arrays as one of matrices whose rows, columns and terms are whole tiles.

    ``inputs`` are the axes of both arrays, ``names`` those of the result, in the requested order.
    """

    product: Product
    tiles: Tiles
    inputs: Sequence[str]
    names: str

    @cached_property
    def spec(self) -> str:
        """The product of matrices, or of a batch of them."""
        return "abc,acd->abd" if self.product.batch else "ab,bc->ac"

    @cached_property
    def multiples(self) -> tuple[tuple[str, int], ...]:
        """Known divisors of the padded lengths: the tile sizes, or multiples of them."""
        _, columns, terms = self.tiles.padded(self.product)
        is_wide = self.tiles.columns == _WIDE and columns % _PANEL == 0
        is_deep = self.tiles.terms < _DEPTH and terms % _DEPTH == 0
        sides = (
            self.tiles.rows,
            _DEPTH if is_deep else self.tiles.terms,
            _PANEL if is_wide else self.tiles.columns,
        )
        return tuple(zip("bcd" if self.product.batch else "abc", sides, strict=True))

    @cached_property
    def parts(self) -> int:
        """The number of partial sums of a long sum, if the result has few tiles."""
        of = self.product
        if of.batch or not of.is_plain:
            return 1
        rows, columns, _ = self.tiles.padded(of)
        n_groups = rows // self.tiles.rows * (columns // self.tiles.columns)
        terms = of.length(of.terms)
        parts = 1
        while (
            2 * parts * n_groups <= _AT_ONCE
            and terms >= 2 * parts * _LONG
            and terms % (2 * parts) == 0
        ):
            parts *= 2
        return parts

    @cached_property
    def exact(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of both factors and of the result."""
        of = self.product
        return self._shapes(*map(of.length, (of.rows, of.columns, of.terms)))

    @cached_property
    def whole(self) -> tuple[tuple[int, ...], ...]:
        """These shapes, rounded up to whole tiles."""
        return self._shapes(*self.tiles.padded(self.product))

    def _shapes(self, rows: int, columns: int, terms: int) -> tuple[tuple[int, ...], ...]:
        batch = (self.product.length(self.product.batch),) if self.product.batch else ()
        return (*batch, rows, terms), (*batch, terms, columns), (*batch, rows, columns)


@dataclass(frozen=True)
class Tiled:
    """A product of two arrays in whole tiles, with its padded inputs and its result."""

    plan: _Plan
    place: Place
    operands: Sequence[Any]
    dtype: np.dtype[Any]

    def in_parts(self) -> tuple[str, list[Any]]:
        """Return the specification and the operands with an axis of parts, the first one."""
        plan, product = self.plan, self.plan.product
        free = next(letter for letter in string.ascii_letters if letter not in product.lengths)
        each = product.length(product.terms) // plan.parts
        operands = []
        for names, array in zip(plan.inputs, self.operands, strict=True):
            axis = names.index(product.terms)
            shape = (*array.shape[:axis], plan.parts, each, *array.shape[axis + 1 :])
            operands.append(as_axes(self.place, array, shape))
        left = ",".join(names.replace(product.terms, free + product.terms) for names in plan.inputs)
        return f"{left}->{free}{plan.names}", operands

    def packed(self) -> list[Any]:
        """Return both factors: unchanged if they fit, otherwise copies padded with zeros."""
        first = self.plan.product.first
        return [self._packed(first, 0), self._packed(1 - first, 1)]

    def _packed(self, operand: int, factor: int) -> Any:
        array, plan = self.operands[operand], self.plan
        names, wanted = plan.inputs[operand], plan.product.factors[factor]
        whole, is_plain = plan.whole[factor], plan.product.is_plain
        if names != wanted or not is_dense(array, self.dtype):
            order = [names.index(name) for name in wanted]
            shape = whole if is_plain else [array.shape[axis] for axis in order]
            array = copied(self.place, array, order, shape, self.dtype)
        if not is_plain:
            array = array.reshape(plan.exact[factor])
        if tuple(array.shape) != whole:
            array = copied(self.place, array, range(len(whole)), whole, self.dtype)
        return array

    def takes(self, out: Any, dtype: Any) -> bool:
        """Tell whether the product itself can write an array."""
        product = self.plan.product
        if out is None or not product.is_plain or self.plan.names != product.result:
            return False
        return is_dense(out, dtype) and tuple(out.shape) == self.plan.whole[2]

    def unpacked(self, found: Any, out: Any) -> Any:
        """Return a result without its padding, its axes in the order of their names."""
        of, names, exact = self.plan.product, self.plan.names, self.plan.exact[2]
        if not of.is_plain:
            if tuple(found.shape) != exact:
                found = copied(self.place, found, range(len(exact)), exact, found.dtype)
            found = found.reshape(exact := tuple(of.lengths[name] for name in of.result))
        if out is None and names == of.result and tuple(found.shape) == exact:
            return found
        order = [of.result.index(name) for name in names]
        return copied(self.place, found, order, [exact[k] for k in order], found.dtype, out)


def in_tiles(
    place: Place, spec: str, operands: Sequence[Any], dtype: np.dtype[Any]
) -> Tiled | None:
    """Return an Einstein summation as a product in whole tiles, if that is worthwhile."""
    place, capability = _with_capability(place)
    shapes = tuple(tuple(operand.shape) for operand in operands)
    plan = _planned(spec, shapes, dtype, capability)
    return None if plan is None else Tiled(plan, place, operands, dtype)


@functools.lru_cache(maxsize=1024)
def _planned(
    spec: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: np.dtype[Any],
    capability: tuple[int, int] | None,
) -> _Plan | None:
    product = read_product(spec, shapes)
    tiles = None if product is None else choose_tiles(product, dtype, capability)
    if product is None or tiles is None:
        return None
    left, _, names = spec.partition("->")
    return _Plan(product, tiles, left.split(","), names)


def _with_capability(place: Place) -> tuple[Place, tuple[int, int] | None]:
    """Return a place whose target specifies the device, if that has tensor cores."""
    target = place.target
    if not target.has_tensor_cores:
        return place, None
    if target.runtime_module is None or target.capability is not None:
        return place, target.capability
    capability = capability_of(place)
    return _replaced(place, capability), capability


@functools.lru_cache(maxsize=16)
def _replaced(place: Place, capability: tuple[int, int] | None) -> Place:
    return replace(place, target=place.target.having(capability=capability))


# -- copies ----------------------------------------------------------------------------------------

#: The sides of a tile of a copy, and its rows that are copied at once.
_SIDE: Final = 32
_ROWS: Final = 8
#: The alignment of vectors in memory, in bytes.
ALIGNMENT: Final = 16


def is_dense(array: Any, dtype: Any) -> bool:
    """Tell whether the rows of an array are contiguous, and begin at an aligned address."""
    place: int = getattr(array, "ptr", getattr(array, "offset", 0))
    is_aligned = isinstance(array, np.ndarray) or place % ALIGNMENT == 0
    return bool(array.dtype == dtype and array.flags.c_contiguous and is_aligned)


def copied(
    place: Place,
    array: Any,
    order: Sequence[int],
    shape: Sequence[int],
    dtype: Any,
    out: Any = None,
) -> Any:
    """Copy an array, with its axes permuted, and padded with zeros or cropped."""
    lengths = [array.shape[axis] for axis in order]
    strides = [
        abs(array.strides[axis]) if n > 1 else math.inf
        for axis, n in zip(order, lengths, strict=True)
    ]
    nearest = min(range(len(order)), key=lambda axis: strides[axis])
    across = nearest if strides[nearest] < strides[-1] else None
    is_wide = max(math.prod(shape), math.prod(lengths)) > MAX_NARROW
    index_dtype = np.int64 if is_wide else np.int32
    knl = _copy(place.target, tuple(order), array.dtype, np.dtype(dtype), across, index_dtype)
    sizes = {f"m{axis}": int(n) for axis, n in enumerate(shape)}
    more = call_options(out=out, allocator=allocator_of([array]))
    _, (found,) = knl(*place.leading, x=array, **sizes, **more)
    return found


@functools.lru_cache(maxsize=256)
def _copy(
    target: TargetBase,
    order: tuple[int, ...],
    source: np.dtype[Any],
    dtype: np.dtype[Any],
    across: int | None,
    index_dtype: Any,
) -> Any:
    """Return the program of a copy; *across* is the axis contiguous only in the source."""
    rank = len(order)
    axes = [f"i{axis}" for axis in range(rank)]
    bounds = " and ".join(f"0 <= {name} < m{axis}" for axis, name in enumerate(axes))
    inside = " and ".join(f"i{axis} < n{axis}" for axis in range(rank))
    names = {axis: k for k, axis in enumerate(order)}
    subscript = ", ".join(f"i{names[axis]}" for axis in range(rank))
    shape = ", ".join(f"n{names[axis]}" for axis in range(rank))
    listed = ", ".join(axes)
    knl = make_kernel(
        f"{{ [{listed}]: {bounds} }}",
        f"""
        of({listed}) := x[{subscript}] if {inside} else 0
        out[{listed}] = of({listed})
        """,
        [
            GlobalArg("x", source, shape=shape, dim_tags=",".join(["stride:auto"] * rank)),
            GlobalArg(
                "out",
                dtype,
                shape=", ".join(f"m{axis}" for axis in range(rank)),
                is_input=False,
                dim_tags=",".join(["stride:auto"] * rank),
            ),
            ...,
        ],
        index_dtype=index_dtype,
        name="copy_whole",
        target=target,
    )
    last, rows = rank - 1, rank - 2 if across is None else across
    knl = split_iname(knl, f"i{last}", _SIDE, outer_tag="g.0")
    knl = split_iname(knl, f"i{rows}", _SIDE, outer_tag="g.1")
    rest = [axis for axis in range(rank) if axis not in (last, rows)]
    if rest:
        knl = tag_inames(knl, f"i{rest[-1]}:g.2")
    if across is not None:
        near = [f"i{axis}_in" if axis in (last, rows) else f"i{axis}_at" for axis in range(rank)]
        knl = precompute(
            knl,
            "of",
            [f"i{last}_inner", f"i{rows}_inner"],
            precompute_inames=near,
            default_tag=None,
            temporary_name="tile",
            temporary_address_space=AddressSpace.LOCAL,
        )
        knl = add_padding(knl, "tile", 0 if rows < last else 1, (_SIDE + 1) * dtype.itemsize)
        knl = split_iname(knl, f"i{last}_in", _ROWS, inner_tag="l.1", outer_tag="unr")
        knl = tag_inames(knl, f"i{rows}_in:l.0")
    knl = split_iname(knl, f"i{rows}_inner", _ROWS, inner_tag="l.1", outer_tag="unr")
    return tag_inames(knl, f"i{last}_inner:l.0")
