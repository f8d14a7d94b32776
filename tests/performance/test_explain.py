"""Feedback about kernels: what it says, word for word, and what it advises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def spmv(target: Any) -> lp.TranslationUnit:
    return lp.make_kernel(
        ["{ [i]: 0<=i<n }", "{ [j]: first<=j<last }"],
        """
        for i
            <> first = starts[i]
            <> last = starts[i + 1]
            y[i] = sum(j, values[j]*x[columns[j]])
        end
        """,
        [
            lp.GlobalArg("values", np.float64, shape="entries"),
            lp.GlobalArg("columns", np.int32, shape="entries"),
            lp.GlobalArg("x", np.float64, shape="width"),
            lp.GlobalArg("starts", np.int32, shape="n + 1"),
            lp.ValueArg("entries, width", np.int32),
            ...,
        ],
        target=target,
        name="spmv",
    )


def product(target: Any) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i,j,k]: 0<=i,j,k<n }",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        [lp.GlobalArg("a,b", np.float32, shape="n,n"), ...],
        target=target,
        name="product",
    )


def patterns(found: lp.Explanation) -> dict[str, str]:
    (launch,) = found.launches
    return {f"{a.direction} {a.array}": str(a) for a in launch.accesses}


WORKERS = """\
spmv, CUDA C++:
  spmv: (n + 3) // 4 groups of 32 x 4 work-items
    i_gang    gang        /* blockIdx.x */   trips: (n + 3) // 4
    i_worker  worker(4)   /* threadIdx.y */  trips: at most 4
    j_vector  vector(32)  /* threadIdx.x */  trips: at most 32
    lane_0    vector(32)  /* threadIdx.x */  trips: 32
    lane_1    vector(32)  /* threadIdx.x */  trips: 1
    j_turn    seq                            trips: as first and last say
    accesses
      load   starts[i_worker + i_gang*4]       single
      load   starts[i_worker + i_gang*4 + 1]   single
      load   values[j_vector + j_turn*32]      coalesced along j_vector
      load   x[columns[j_vector + j_turn*32]]  gathered along j_vector
      load   columns[j_vector + j_turn*32]     coalesced along j_vector
      store  y[i_worker + i_gang*4]            single
    bytes of a work-item: 24 (acc_j_turn_j_vector 8, first 4, last 4, other_j_turn_j_vector 8)
  to try
    - the trip count of 'j_turn' follows from first and last: where that is less than the 32 \
lanes take at once, some are idle; compare shorter vectors; if the starts of rows ascend, \
balance the rows"""


def test_rows_over_workers_and_vectors() -> None:
    knl = lp.parallelize(
        spmv(lp.CudaTarget()), {"i": "gang worker", "j": "vector"}, vector_length=32
    )
    assert str(lp.explain(knl)) == WORKERS


def test_rows_of_their_own_are_gathered() -> None:
    """Work-items that go along rows of their own do not access one element, or neighbours."""
    found = lp.explain(lp.parallelize(spmv(lp.CudaTarget()), {"i": "gang vector"}))
    assert patterns(found) == {
        "load starts": "coalesced along i_vector",
        "load values": "gathered along i_vector",
        "load x": "gathered along i_vector",
        "load columns": "gathered along i_vector",
        "store y": "coalesced along i_vector",
    }
    assert found.advice[0] == (
        "load of values[j] is gathered along i_vector, but accesses adjacent elements along 'j': "
        "make that loop the lanes (l.0)"
    )


HOST = """\
product, C:
  product: one function, called once
    i      seq  trips: n
      j    seq  trips: n
        k  seq  trips: n
    accesses
      load   a[i, k]  contiguous along k
      load   b[k, j]  strided by n along k
      store  c[i, j]  contiguous along j
    bytes of a work-item: 4 (acc_k 4)
  to try
    - load of b[k, j] is strided by n along k, but accesses adjacent elements along 'j': make that \
loop the innermost one; or choose another layout of b (tag_array_axes)"""


def test_product_on_the_host() -> None:
    assert str(lp.explain(product(lp.CTarget()))) == HOST


TILES = """\
product, OpenCL C:
  product: ((n + 15) // 16) x ((n + 15) // 16) groups of 16 x 16 work-items
    i_outer    gang        /* get_group_id(1) */  trips: (n + 15) // 16
    j_outer    gang        /* get_group_id(0) */  trips: (n + 15) // 16
    i_inner    worker(16)  /* get_local_id(1) */  trips: at most 16
    a_dim_0    worker(16)  /* get_local_id(1) */  trips: at most 16
    b_dim_0    worker(16)  /* get_local_id(1) */  trips: at most 16
    j_inner    vector(16)  /* get_local_id(0) */  trips: at most 16
    a_dim_1    vector(16)  /* get_local_id(0) */  trips: at most 16
    b_dim_1    vector(16)  /* get_local_id(0) */  trips: at most 16
    k_outer    seq                                trips: (n + 15) // 16
      k_inner  seq                                trips: at most 16
    accesses
      load   a[16*i_outer + a_dim_0, 16*k_outer + a_dim_1]  coalesced along a_dim_1
      store  a_fetch[a_dim_0, a_dim_1]                      coalesced along a_dim_1 (shared memory)
      load   b[16*k_outer + b_dim_0, 16*j_outer + b_dim_1]  coalesced along b_dim_1
      store  b_fetch[b_dim_0, b_dim_1]                      coalesced along b_dim_1 (shared memory)
      load   a_fetch[i_inner, k_inner]                      uniform along j_inner (shared memory)
      load   b_fetch[k_inner, j_inner]                      coalesced along j_inner (shared memory)
      store  c[i_inner + i_outer*16, j_inner + j_outer*16]  coalesced along j_inner
    barriers
      local, for each k_outer: for a_fetch (a_fetch_rule rev-depends on insn_k_outer_k_inner_update)
      local, for each k_outer: for b_fetch (insn_k_outer_k_inner_update depends on b_fetch_rule)
    bytes of a group: 2048 (a_fetch 1024, b_fetch 1024)
    bytes of a work-item: 4 (acc_k_outer_k_inner 4)"""


def tiled(lanes: str, rows: str) -> lp.TranslationUnit:
    knl = product(lp.OpenCLTarget())
    axis = {lanes: 0, rows: 1}
    for name in "ij":
        group, item = f"g.{axis[name]}", f"l.{axis[name]}"
        knl = lp.split_iname(knl, name, 16, outer_tag=group, inner_tag=item)
    return lp.split_iname(knl, "k", 16)


def prefetched(lanes: str, rows: str) -> lp.TranslationUnit:
    knl = tiled(lanes, rows)
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def test_tiles_in_shared_memory_with_their_barriers() -> None:
    assert str(lp.explain(prefetched("j", "i"))) == TILES


def test_elements_that_a_group_loads_again_and_again() -> None:
    a = "a[i_inner + i_outer*16, k_inner + k_outer*16]"
    b = "b[k_inner + k_outer*16, j_inner + j_outer*16]"
    once = "loads it once into shared memory"
    assert lp.explain(tiled("j", "i")).advice == (
        f"all work-items along j_inner load the same {a}: add_prefetch(kernel, 'a', ...) {once}",
        f"all work-items along i_inner load the same {b}: add_prefetch(kernel, 'b', ...) {once}",
    )


def test_stores_in_strides_and_bank_conflicts() -> None:
    store, banks = lp.explain(prefetched("i", "j")).advice
    assert store.startswith(
        "store of c[i_inner + i_outer*16, j_inner + j_outer*16] is strided by n"
    )
    assert "along 'j_inner': make that loop the lanes" in store
    assert banks == (
        "load of a_fetch[i_inner, k_inner] in shared memory takes 8 passes over the banks instead "
        "of 1: add_padding_to_avoid_bank_conflicts(kernel, 'a_fetch')"
    )


def test_work_items_that_take_turns_load_elements_of_their_own() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i] + a[i + 2]", assumptions="n >= 1")
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", "i_inner", fetch_bounding_box=True)
    assert not lp.explain(knl, {"a": np.float32}).advice


@pytest.mark.parametrize(
    ("levels", "advice"),
    [
        ("seq", "one work-item does everything"),
        ("vector(64)", "one work-group does everything"),
        ("gang vector(48)", "leave 16 lanes of a warp of 32 idle"),
        ("gang vector(32)", "are one warp each"),
    ],
)
def test_advice_on_parallelism(levels: str, advice: str) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]", target=lp.CudaTarget())
    found = lp.explain(lp.parallelize(knl, {"i": levels}), {"a": np.float32})
    assert [advice in text for text in found.advice] == [True]


def test_good_kernel_needs_no_advice() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<8 }", "b[i,j] = 2*a[i,j]")
    knl = lp.parallelize(knl, {"i,j": "gang vector"})  # contiguous, although joined
    found = lp.explain(knl, {"a": np.float32})
    assert found.advice == ()
    assert patterns(found) == dict.fromkeys(("load a", "store b"), "coalesced along j_and_i_vector")


def test_launches_and_global_barriers() -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<128 }",
        """
        t[i] = 2*a[i] {id=one}
        ... gbarrier {id=wait, dep=one}
        b[j] = t[127 - j] {id=two, dep=wait}
        """,
        [lp.GlobalArg("a", np.float32), lp.TemporaryVariable("t", np.float32, shape=128,
         address_space=lp.AddressSpace.GLOBAL), ...],
        target=lp.CudaTarget(),
    )  # fmt: skip
    first, second = lp.explain(
        lp.parallelize(knl, {"i": "gang vector(32)", "j": "vector"})
    ).launches
    assert (first.after, second.after) == ((), ("wait",))
    assert first.loop("i_vector").hardware == "threadIdx.x"
    assert second.loop("j").level == "vector(128)"


def test_unrolled_loops_and_vectors() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<4 }", "b[i,j] = 2*a[i,j]", target=lp.OpenCLTarget())
    (launch,) = lp.explain(lp.tag_inames(knl, "i:unr, j:ilp"), {"a": np.float32}).launches
    assert [loop.level for loop in launch.loops] == ["unrolled", "interleaved, unrolled"]


@pytest.mark.parametrize(
    ("levels", "trips"),
    [({"i": "seq"}, "i + 1"), ({"i": "gang"}, "at most n"), ({"i": "gang vector"}, "at most n")],
)
def test_trips_inside_of_other_loops(levels: dict[str, str], trips: str) -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=j<=i<n }", "b[i,j] = 0", target=lp.CudaTarget())
    knl = lp.add_dtypes(lp.parallelize(knl, levels), {"b": np.float32})
    (launch,) = lp.explain(knl).launches
    assert str(launch.loop("j").trips) == trips


def test_trips_of_a_loop_of_the_host() -> None:
    text = "for i\na[i] = 0 {id=a}\n... gbarrier {id=g, dep=a}\nb[i] = a[n - i - 1] {dep=g}\nend"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, target=lp.CudaTarget())
    launches = lp.explain(knl, {"a": np.float32, "b": np.float32}).launches
    for launch in launches:
        assert [(loop.level, str(loop.trips)) for loop in launch.loops] == [("host", "n")]


def test_loops_in_strides_go_with_their_work_items() -> None:
    knl = lp.split_iname(product(lp.CudaTarget()), "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(lp.fix_parameters(knl, n=128), "k", 32)
    knl = lp.add_prefetch(knl, "a", "i_inner, k_inner", fetch_outer_inames="i_outer, k_outer")
    (launch,) = lp.explain(knl).launches
    assert patterns(lp.explain(knl))["load a"] == "coalesced along a_dim_1_start"
    assert str(launch.loop("a_dim_1").trips) == "2"
    conflicts = "store of a_fetch[a_dim_0, a_dim_1] in shared memory takes 2 passes over the banks"
    assert any(text.startswith(conflicts) for text in lp.explain(knl).advice)


@pytest.mark.parametrize(
    ("offset", "found"), [(4, "coalesced along i_inner, in vectors of 4"), (1, "strided by 4")]
)
def test_neighbours_may_be_a_vector(offset: int, found: str) -> None:
    data = [lp.GlobalArg("a", np.float32, shape=1028), lp.GlobalArg("out", np.float32, shape=1024)]
    text = f"out[4*i + c] = a[4*i + c + {offset}]"
    knl = lp.make_kernel("{ [i, c]: 0<=i<256 and 0<=c<4 }", text, data, target=lp.CudaTarget())
    knl = lp.tag_inames(lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0"), "c:vec")
    report = lp.explain(knl)
    assert patterns(report)["load a"].startswith(found)
    assert len(report.advice) == (offset == 1)
