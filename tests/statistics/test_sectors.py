"""Sectors and bank passes, beside a warp-by-warp enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.statistics import Interval
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.sectors import count_bank_passes, count_footprint_sectors, count_sectors


def two_axes(text: str, tile: tuple[int, int], **types: Any) -> Any:
    """Make a kernel over i and j in tiles, j along axis 0."""
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", text, assumptions="1 <= n <= 10000")
    knl = lp.split_iname(lp.add_dtypes(knl, types), "i", tile[0], outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", tile[1], outer_tag="g.0", inner_tag="l.0")


def enumerated(
    offset: Callable[[int, int], int], n: int, tile: tuple[int, int], itemsize: int
) -> tuple[int, int]:
    """Return the requests and the sectors of an access, warp by warp."""
    requests = sectors = 0
    groups = -(-n // tile[0]), -(-n // tile[1])
    for gi, gj in product(*map(range, groups)):
        warps: dict[int, set[int]] = {}
        for li, lj in product(range(tile[0]), range(tile[1])):
            i, j = gi * tile[0] + li, gj * tile[1] + lj
            if i < n and j < n:
                warp = (li * tile[1] + lj) // 32
                warps.setdefault(warp, set()).add(offset(i, j) * itemsize // 32)
        requests += len(warps)
        sectors += sum(map(len, warps.values()))
    return requests, sectors


ACCESSES: dict[str, Callable[[int], Callable[[int, int], int]]] = {
    "a[i, j]": lambda n: lambda i, j: i * n + j,
    "a[j, i]": lambda n: lambda i, j: j * n + i,
    "a[i, 3*j]": lambda n: lambda i, j: i * (3 * n - 2) + 3 * j,
    "a[i + 1, j + 1]": lambda n: lambda i, j: (i + 1) * (n + 1) + j + 1,
    "a[n - 1 - i, j]": lambda n: lambda i, j: (n - 1 - i) * n + j,
    "a[i // 4, j]": lambda n: lambda i, j: i // 4 * n + j,
}


@pytest.mark.parametrize("access", list(ACCESSES))
@pytest.mark.parametrize("tile", [(16, 16), (8, 32), (4, 24)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sectors_are_those_of_every_warp(access: str, tile: tuple[int, int], dtype: Any) -> None:
    kernel = prepared_kernel(two_axes(f"out[i, j] = 2*{access}", tile, a=dtype))
    for n in (1, 16, 45):
        load = next(t for t in count_sectors(kernel, {"n": n}) if t.array == "a")
        wanted = enumerated(ACCESSES[access](n), n, tile, np.dtype(dtype).itemsize)
        assert (load.requests, load.units) == wanted


def test_what_an_instruction_loads_twice_is_moved_once() -> None:
    kernel = prepared_kernel(two_axes("out[i, j] = a[i, j]*a[i, j]", (8, 32), a=np.float32))
    assert [t.array for t in count_sectors(kernel, {"n": 64})] == ["a", "out"]


def test_subscripts_that_are_data_take_from_one_sector_to_one_each() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[b[i]]",
        [lp.GlobalArg("a", np.float32, shape="n"), lp.GlobalArg("b", np.int32), ...],
    )
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    found = {t.array: t.units for t in count_sectors(prepared_kernel(knl), {"n": 256})}
    assert found["b"] == 32
    assert isinstance(found["a"], Interval)
    assert (found["a"].low, found["a"].high) == (8, 256)


def test_groups_that_fetch_the_same_all_count() -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "out[i, j] = sum(k, a[i, k]*b[k, j])",
        assumptions="n >= 1 and n mod 16 = 0",
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    knl = lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")
    kernel = prepared_kernel(knl)
    found = {t.array: t.units for t in count_sectors(kernel, {"n": 64})}
    tiles = 4 * 4 * 4  # along i, j and k, of 16 rows of two sectors
    assert found == {"a": tiles * 32, "b": tiles * 32, "out": 16 * 32}


@pytest.mark.parametrize(
    ("padding", "dtype", "passes"),
    [(0, np.float32, 32), (1, np.float32, 1), (0, np.float64, 32), (1, np.float64, 2)],
)
def test_columns_of_a_tile_conflict_unless_padded(padding: int, dtype: Any, passes: int) -> None:
    knl = two_axes("out[i, j] = a[j, i]", (32, 32), a=dtype)
    knl = lp.add_prefetch(knl, "a", ["j_inner", "i_inner"], default_tag="l.auto")
    (tile,) = knl.default_entrypoint.temporary_variables
    shape = (32, 32)
    kernel = knl.default_entrypoint
    declared = kernel.temporary_variables[tile].copy(
        shape=shape,
        dim_tags=lp.TemporaryVariable("t", shape=shape, strides=(32 + padding, 1)).dim_tags,
    )
    kernel = prepared_kernel(kernel.copy(temporary_variables={tile: declared}))
    found = {t.direction: t.units // t.requests for t in count_bank_passes(kernel, {"n": 64})}
    assert found["load"] == passes
    assert found["store"] == (1 if dtype == np.float32 else 2)


@pytest.mark.parametrize("names", [("warp", "sector"), ("i", "j")])
def test_loops_have_any_names(names: tuple[str, str]) -> None:
    warp, sector = names
    knl = lp.make_kernel(
        f"{{ [{warp}, {sector}]: 0 <= {warp}, {sector} < 32 }}", f"b[{sector}, {warp}] = 1"
    )
    knl = lp.tag_inames(knl, {warp: "l.0"})
    (traffic,) = count_sectors(prepared_kernel(knl), {})
    assert traffic.units == 32 * 32 * 4 // 32


def test_each_sector_of_the_footprint_counts_once() -> None:
    """Columns are 12 bytes apart, and rows overlap in 20 of 60 numbers."""
    data = [lp.GlobalArg("a", np.float32, shape=(4000,)), ...]
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < 9 and 0 <= j < 20 }", "out[i, j] = a[40*i + 3*j]", data
    )
    knl = lp.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    read = {(40 * i + 3 * j) * 4 // 32 for i in range(9) for j in range(20)}
    assert count_footprint_sectors(prepared_kernel(knl), {}) == len(read) + -(-180 * 4 // 32)


def test_large_tiled_products_are_counted() -> None:
    """Loops over tiles are joined and split; isl took ten minutes for the sectors of b."""
    data = [lp.GlobalArg("a, b, c", np.float32, shape=(4096, 4096))]
    text = "c[i, j] = sum(k, a[i, k]*b[k, j])"
    knl = lp.make_kernel("{ [i, j, k]: 0 <= i, j, k < 4096 }", text, data, target=lp.CudaTarget())
    tiled = prepared_kernel(lp.autoschedule(knl))
    assert count_footprint_sectors(tiled, {}) == 3 * 4096 * 4096 * 4 // 32


def test_lanes_of_a_vector_are_one_access() -> None:
    data = [lp.GlobalArg("a, out", np.float32, shape=(4096,))]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4096 }", "out[i] = 2*a[i]", data)
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")
    for traffic in count_sectors(prepared_kernel(knl), {}):
        assert traffic.units == 4096 * 4 // 32


def test_strides_without_a_value_are_not_counted() -> None:
    data = [lp.GlobalArg("a", np.float32, shape="n", strides="s"), lp.ValueArg("s", np.int32), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", data)
    prepared = prepared_kernel(lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"))
    assert count_footprint_sectors(prepared, {"n": 64}) is None
    assert count_footprint_sectors(prepared, {"n": 64, "s": 8}) == 64 + 64 * 4 // 32
