"""Buffers for arrays: what is filled in and written back, and what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import assert_same_results, dependencies, instructions

F = np.float64


def rows() -> Any:
    return lp.make_kernel(
        "{ [i,k]: 0<=i<n and 0<=k<m }",
        "b[i] = b[i] + a[i,k] {dep=*}",
        [lp.GlobalArg("a,b", F, shape=lp.auto), ...],
        assumptions="n>=1 and m>=1",
    )


def matmul(tiled: bool = True) -> Any:
    knl = lp.make_kernel(
        "{ [i,j,k]: 0<=i,j<n and 0<=k<m }",
        "c[i,j] = c[i,j] + a[i,k]*b[k,j] {dep=*}",
        [lp.GlobalArg("a,b,c", F, shape=lp.auto), ...],
        assumptions="n>=1 and m>=1",
    )
    if not tiled:
        return knl
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")


def test_a_private_accumulator() -> None:
    knl = lp.buffer_array(rows(), "b", "k")
    assert instructions(knl) == [
        "i: b_buf = b[i]",
        "i,k: b_buf = b_buf + a[i, k]",
        "i: b[i] = b_buf",
    ]
    assert dependencies(knl) == {"insn": "init_b", "store_b": "init_b,insn"}
    assert_same_results(
        rows(), knl, {"a": np.random.default_rng(1).random((5, 7)), "b": np.ones(5)}
    )


def test_expressions_to_begin_and_end_with() -> None:
    knl = lp.buffer_array(rows(), "b", "k", init_expression="0", store_expression="2*base + buffer")
    assert instructions(knl)[::2] == ["i: b_buf = 0", "i: b[i] = 2*b[i] + b_buf"]


def test_nothing_is_written_back_if_not_wanted() -> None:
    knl = lp.buffer_array(rows(), "b", "k", store_expression=False)
    assert [insn.id for insn in knl.default_entrypoint.instructions] == ["init_b", "insn"]


def test_an_array_that_is_only_read_is_not_written_back() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<5 }", "b[i,j] = a[j] + a[j + 1]")
    knl = lp.buffer_array(knl, "a", "i,j")
    assert instructions(knl) == [
        "a_init_0: a_buf[a_init_0] = a[a_init_0]",
        "i,j: b[i, j] = a_buf[j] + a_buf[j + 1]",
    ]


def test_a_row_of_private_accumulators() -> None:
    knl = lp.split_iname(matmul(tiled=False), "j", 4)
    knl = lp.buffer_array(
        knl, "c", "j_inner,k", temporary_address_space="private", default_tag="unr"
    )
    buffer = knl.default_entrypoint.temporary_variables["c_buf"]
    assert buffer.shape == (4,)
    assert not knl.default_entrypoint.inames["c_init_1"].tags
    rng = np.random.default_rng(1)
    a, b, c = rng.random((6, 3)), rng.random((3, 6)), rng.random((6, 6))
    assert_same_results(matmul(tiled=False), knl, {"a": a, "b": b, "c": c})


@pytest.mark.parametrize("inames", ["k", "i_inner,j_inner,k"])
@pytest.mark.parametrize("n", [8, 13])
def test_results_on_a_device(device: Any, inames: str, n: int) -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.random((n, 9)), rng.random((9, n)), rng.random((n, n))
    wanted = c + a @ b
    device(lp.buffer_array(matmul(), "c", inames), a=a, b=b, c=c)
    np.testing.assert_allclose(c, wanted)


def test_a_tile_is_shared_by_the_group() -> None:
    knl = lp.preprocess_kernel(lp.buffer_array(matmul(), "c", "i_inner,j_inner,k"))
    buffer = knl.default_entrypoint.temporary_variables["c_buf"]
    assert (buffer.shape, buffer.address_space) == ((8, 8), lp.AddressSpace.LOCAL)


def test_only_what_is_written_is_written_back() -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i<6 and 0<=j<4 }", "a[j + 1, i] = a[j, i] + a[j + 2, i] {dep=*}"
    )
    knl = lp.buffer_array(knl, "a", "j")
    assert instructions(knl) == [
        "a_init_0,i: a_buf[a_init_0] = a[a_init_0, i]",
        "i,j: a_buf[j + 1] = a_buf[j] + a_buf[j + 2]",
        "a_store_0,i: a[a_store_0 + 1, i] = a_buf[a_store_0 + 1]",
    ]


def test_what_comes_before_and_after_is_kept_apart() -> None:
    knl = lp.make_kernel(
        "{ [i,j,k,l]: 0<=i,j,l<6 and 0<=k<4 }",
        """
        b[j] = 1                 {id=before}
        b[i] = b[i] + a[i,k]     {id=update, dep=before}
        out[l] = b[l]            {id=after, dep=update}
        """,
    )
    waits = dependencies(lp.buffer_array(knl, "b", "k", within="id:update"))
    assert waits["init_b"] == "before"
    assert waits["after"] == "store_b,update"


def test_a_use_between_is_refused() -> None:
    knl = lp.make_kernel(
        "{ [i,k]: 0<=i<6 and 0<=k<4 }",
        """
        b[i] = b[i] + a[i,k]     {id=update, dep=*}
        out[i,k] = b[i]          {id=peek, dep=update}
        """,
    )
    with pytest.raises(lp.TransformError, match="'peek' runs while the buffer for 'b' is in use"):
        lp.buffer_array(knl, "b", "k", within="id:update")


def test_a_use_without_an_order_is_refused() -> None:
    knl = lp.make_kernel(
        "{ [i,j,k]: 0<=i,j<6 and 0<=k<4 }",
        "b[i] = b[i] + a[i,k] {id=update, dep=*}\nb[j] = 0 {id=other, dep=*}",
    )
    with pytest.raises(
        lp.TransformError, match="'other' and 'update' use 'b' in an undefined order"
    ):
        lp.buffer_array(knl, "b", "k", within="id:update")


def test_loops_that_are_not_swept_are_refused() -> None:
    knl = lp.make_kernel(
        "{ [i,k,l]: 0<=i<6 and 0<=k,l<4 }",
        """
        b[i] = b[i] + a[i,k]     {id=one, dep=*}
        b[i] = b[i] + a[i,l]     {id=two, dep=*one}
        """,
    )
    with pytest.raises(lp.TransformError, match="it is inside 'l', which is not around all"):
        lp.buffer_array(knl, "b", "k")
    assert_same_results(
        knl,
        lp.buffer_array(knl, "b", "k,l"),
        {"a": np.random.default_rng(1).random((6, 4)), "b": np.ones(6)},
    )


def test_elements_that_data_chooses_are_refused() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<6 }", "b[idx[i]] = 1", [lp.GlobalArg("b", F, shape=9), ...])
    with pytest.raises(lp.TransformError, match="accesses are not known"):
        lp.buffer_array(knl, "b", "i")


def test_there_must_be_a_constant_size() -> None:
    with pytest.raises(lp.StaticValueFindingError, match="constant extent"):
        lp.buffer_array(rows(), "b", "i,k")


def tiles(text: str = "c[e,i] = 2*a[e,i]", domain: str = "0<=e<32 and 0<=i<6") -> Any:
    knl = lp.make_kernel(
        f"{{ [e,i]: {domain} }}", text, [lp.GlobalArg("a,c", F, shape="32,6"), ...]
    )
    return lp.split_iname(knl, "e", 4)


def unfilled(knl: Any, sweep: str = "e_inner,i") -> Any:
    return lp.buffer_array(knl, "c", sweep, init_expression=False, default_tag=None)


def test_a_buffer_that_is_all_written_needs_no_start() -> None:
    knl = unfilled(tiles())
    assert [insn.id for insn in knl.default_entrypoint.instructions] == ["insn", "store_c"]
    assert not any("init" in name for name in knl.default_entrypoint.inames)
    assert_same_results(tiles(), knl, {"a": np.random.default_rng(1).random((32, 6))})
    assert not lp.verify(knl).violated


def test_what_is_written_first_may_be_updated() -> None:
    text = "c[e,i] = a[e,i] {id=first}\nc[e,i] = c[e,i]*2 {id=twice,dep=first}"
    knl = unfilled(tiles(text))
    assert [insn.id for insn in knl.default_entrypoint.instructions] == [
        "first",
        "twice",
        "store_c",
    ]
    assert_same_results(tiles(text), knl, {"a": np.ones((32, 6)), "c": np.zeros((32, 6))})


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("c[e,i] = c[e,i] + a[e,i] {dep=*}", r"'insn' reads it"),
        ("c[e,i] = a[e,i] {if=a[e,i] > 0}", "it is stored"),
        ("c[e,i] = a[e,i] {id=w}\nc[e,i] = c[e,(i+1)%6] {id=r,dep=w}", r"\[0, 1\].*'r' reads it"),
        ("c[e,i] = 1 {id=r,dep=w}\nc[e,i] = c[e,i]*2 {id=w,dep=*}", "'w' reads it"),
    ],
)
def test_an_unwritten_element_is_refused(text: str, because: str) -> None:
    with pytest.raises(lp.TransformError, match=because):
        unfilled(tiles(text))


def test_elements_that_only_other_instructions_write_are_refused() -> None:
    text = "c[e,2*j] = 1 {id=even}\nc[e,i] = a[e,i] {if=i < 5,dep=even}"
    knl = lp.make_kernel(
        "{ [e,i,j]: 0<=e<32 and 0<=i<6 and 0<=j<3 }",
        text,
        [..., lp.GlobalArg("a,c", F, shape="32,6")],
    )
    both = unfilled(lp.split_iname(knl, "e", 4), "e_inner,i,j")
    assert len(both.default_entrypoint.instructions) == 3


def test_what_nothing_writes_is_zero_where_a_buffer_holds_it() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 5000 }",
        "out[i] = 2*a[i] {if=a[i] > 0}",
        [lp.GlobalArg("a, out", "float32", shape="5000"), "..."],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 10)
    knl = lp.buffer_array(knl, "out", "i_inner", default_tag=None)
    assert not lp.verify(knl).violated
    a = np.resize(np.array([1, -1, 2], np.float32), 5000)
    np.empty(5000, np.float32)[:] = 7  # memory that is likely to be allocated again
    _, (out,) = knl(a=a)
    np.testing.assert_array_equal(out, np.where(a > 0, 2 * a, 0))


def test_c_functions_have_buffers_of_any_size() -> None:
    text = "o[i] = o[i] + a[j]*a[i]"
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", text, target=lp.ExecutableCTarget())
    knl = lp.prioritize_loops(knl, "j,i")
    buffered = lp.buffer_array(knl, "o", "i", default_tag=None)
    assert_same_results(knl, buffered, {"a": np.arange(6.0), "o": np.ones(6)})
