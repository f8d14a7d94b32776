"""The section 'Obtaining Performance Statistics' of loopy's tutorial, import changed.

Every number that it shows is compared. Lines that it shows in part (`...`) are compared in part.
"""

# The program is as it is:
# ruff: noqa: C408, N817

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.types import to_kgen_type
from kgen.schedule.place import schedule_kernel
from kgen.statistics import CountGranularity as CG

PARAMS = {"n": 256, "m": 256, "l": 8}

# The documentation passes declarations and names as it likes: the programs are untyped.
TUnit = Any


@pytest.fixture(scope="module")
def knl() -> TUnit:
    knl = lp.make_kernel(
        "[n,m,l] -> {[i,k,j]: 0<=i<n and 0<=k<m and 0<=j<l}",
        """
        c[i, j, k] = a[i,j,k]*b[i,j,k]/3.0+a[i,j,k]
        e[i, k] = g[i,k]*(2+h[i,k+1])
        """,
        name="stats_knl",
    )
    return lp.add_and_infer_dtypes(
        knl, dict(a=np.float32, b=np.float32, g=np.float64, h=np.float64)
    )


def test_operations(knl: TUnit) -> None:
    op_map = lp.get_op_map(knl, subgroup_size=32)
    lines = str(op_map).splitlines()
    assert lines[0] == (
        "Op(np:dtype('float32'), add, subgroup, \"stats_knl\"): "
        "[l, m, n] -> { l * m * n : l > 0 and m > 0 and n > 0 }"
    )
    names = ["add", "div", "mul"]
    f32 = [
        op_map[lp.Op(np.float32, name, CG.SUBGROUP, "stats_knl")].eval_with_dict(PARAMS)
        for name in names
    ]
    f64add = op_map[lp.Op(np.float64, "add", CG.SUBGROUP, "stats_knl")].eval_with_dict(PARAMS)
    f64mul = op_map[lp.Op(np.float64, "mul", CG.SUBGROUP, "stats_knl")].eval_with_dict(PARAMS)
    i32add = op_map[lp.Op(np.int32, "add", CG.SUBGROUP, "stats_knl")].eval_with_dict(PARAMS)
    assert (*f32, f64add, f64mul, i32add) == (524288, 524288, 524288, 65536, 65536, 65536)
    assert len(op_map) == 6


def test_operations_filtered_and_grouped(knl: TUnit) -> None:
    op_map = lp.get_op_map(knl, subgroup_size=32)
    filtered_op_map = op_map.filter_by(dtype=[np.float32])
    assert filtered_op_map.eval_and_sum(PARAMS) == 1572864
    op_map_dtype = op_map.group_by("dtype")
    assert str(op_map_dtype).startswith("Op(np:dtype('float32'), None, None): ")
    assert op_map_dtype[lp.Op(dtype=np.float32)].eval_with_dict(PARAMS) == 1572864


def accesses(mem_map: Any, lid_strides: dict[int, int], granularity: str) -> tuple[int, ...]:
    """Return the four counts that the tutorial looks at, each time anew."""
    wanted = [
        (np.float32, "load", "a"),
        (np.float32, "store", "c"),
        (np.float64, "load", "g"),
        (np.float64, "store", "e"),
    ]
    return tuple(
        mem_map[
            lp.MemAccess(
                "global",
                dtype,
                lid_strides,
                {},
                direction,
                variable,
                count_granularity=granularity,
                kernel_name="stats_knl",
            )
        ].eval_with_dict(PARAMS)
        for dtype, direction, variable in wanted
    )


def test_memory_accesses(knl: TUnit) -> None:
    mem_map = lp.get_mem_access_map(knl, subgroup_size=32)
    assert str(mem_map).startswith(
        "MemAccess(global, np:dtype('float32'), {}, {}, load, a, None, subgroup, 'stats_knl'): "
    )
    assert accesses(mem_map, {}, CG.SUBGROUP) == (1048576, 524288, 65536, 65536)


def test_bytes(knl: TUnit) -> None:
    mem_map = lp.get_mem_access_map(knl, subgroup_size=32)
    bytes_map = mem_map.to_bytes()
    global_ld_st_bytes = bytes_map.filter_by(mtype=["global"]).group_by("direction")
    load, store = str(global_ld_st_bytes).splitlines()
    assert load.startswith("MemAccess(None, None, None, None, load, None, None, None, None): ")
    assert store.startswith("MemAccess(None, None, None, None, store, None, None, None, None): ")
    loaded = global_ld_st_bytes[lp.MemAccess(direction="load")].eval_with_dict(PARAMS)
    stored = global_ld_st_bytes[lp.MemAccess(direction="store")].eval_with_dict(PARAMS)
    assert (loaded, stored) == (7340032, 2621440)


@pytest.mark.parametrize(("outer", "inner"), [("l.1", "l.0"), ("l.0", "l.1")])
def test_strides_of_work_items(knl: TUnit, outer: str, inner: str) -> None:
    split = lp.split_iname(knl, "k", 128, outer_tag=outer, inner_tag=inner)
    mem_map = lp.get_mem_access_map(split, subgroup_size=32)
    strides = {0: 1, 1: 128} if inner == "l.0" else {0: 128, 1: 1}
    heads = [
        f"MemAccess(global, np:dtype('{dtype}'), {strides}, {{}}, {direction}, {variable}, None, "
        "workitem, 'stats_knl')"
        for dtype, direction, variable in (
            ("float32", "load", "a"),
            ("float32", "load", "b"),
            ("float32", "store", "c"),
            ("float64", "load", "g"),
            ("float64", "load", "h"),
            ("float64", "store", "e"),
        )
    ]
    assert [line.partition(": [")[0] for line in str(mem_map).splitlines()] == heads
    assert accesses(mem_map, strides, CG.WORKITEM) == (1048576, 524288, 65536, 65536)


def test_filtering_by_a_function(knl: TUnit) -> None:
    knl_nonconsec = lp.split_iname(knl, "k", 128, outer_tag="l.0", inner_tag="l.1")
    mem_map = lp.get_mem_access_map(knl_nonconsec, subgroup_size=32)

    def f(key: Any) -> bool:
        return bool(key.dtype == to_kgen_type(np.float32) and key.lid_strides[0] > 1)

    assert mem_map.filter_by_func(f).eval_and_sum(PARAMS) == 2097152


def test_launches(knl: TUnit) -> None:
    sync_map = lp.get_synchronization_map(knl)
    assert str(sync_map) == "Sync(kernel_launch, stats_knl): [l, m, n] -> { 1 }"
    assert sync_map[lp.Sync("kernel_launch", "stats_knl")].eval_with_dict(PARAMS) == 1


@pytest.fixture(scope="module")
def knl_with_barriers() -> TUnit:
    knl = lp.make_kernel(
        "[] -> {[i,k,j]: 0<=i<50 and 1<=k<98 and 0<=j<10}",
        [
            """
            c[i,j,k] = 2*a[i,j,k]
            e[i,j,k] = c[i,j,k+1]+c[i,j,k-1]
            """
        ],
        [lp.TemporaryVariable("c", dtype=None, shape=(50, 10, 99)), "..."],
    )
    knl = lp.add_and_infer_dtypes(knl, dict(a=np.int32))
    return lp.split_iname(knl, "k", 128, inner_tag="l.0")


def test_code_with_barriers(knl_with_barriers: TUnit) -> None:
    # It reads c[i, j, 0] and c[i, j, 98], which nothing writes.
    with pytest.warns(lp.KgenWarning, match="do not write that element"):
        code, _ = lp.generate_code(lp.preprocess_kernel(knl_with_barriers))
    assert code.count("barrier(CLK_LOCAL_MEM_FENCE)") == 1


def test_barriers(knl_with_barriers: TUnit) -> None:
    # The tutorial counts 1000: two for each i and j. kgen leaves the one at the head of the loop
    # out where it proves that no element of c is used in two iterations.
    schedule = schedule_kernel(lp.preprocess_kernel(knl_with_barriers).default_entrypoint)
    assert str(schedule).count("barrier local") == 1
    number = 50 * 10
    sync_map = lp.get_synchronization_map(knl_with_barriers)
    assert str(sync_map).splitlines() == [
        f"Sync(barrier_local, kgen_kernel): {{ {number} }}",
        "Sync(kernel_launch, kgen_kernel): { 1 }",
    ]
    assert sync_map[lp.Sync("barrier_local", "kgen_kernel")].eval_with_dict({}) == number
