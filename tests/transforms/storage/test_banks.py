"""Layouts of local memory without bank conflicts: swizzles and padding."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.layout import Swizzle
from kgen.lowering import prepare
from kgen.statistics.sectors import count_bank_passes
from tests.transforms.helpers import kernel_of


def transposed(target: Any, size: int = 32, dtype: Any = np.float32) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "b[j, i] = a[i, j]",
        [lp.GlobalArg("a, b", dtype, shape="n, n"), "..."],
        target=target,
        assumptions="n >= 1",
    )
    knl = lp.split_iname(knl, "i", size, outer_tag="g.1", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", size, outer_tag="g.0", inner_tag="l.1")
    return lp.add_prefetch(knl, "a", "i_inner, j_inner", temporary_name="t")


def passes(knl: lp.TranslationUnit) -> list[int]:
    counts = count_bank_passes(prepare(kernel_of(knl)), {"n": 64})
    return [count.units // count.requests for count in counts]


def test_passes_where_work_items_share_a_quotient_with_an_unrolled_loop() -> None:
    knl = lp.make_kernel(
        "{ [g, u, x]: 0 <= g < 2 and 0 <= u < 4 and 0 <= x < 32 }",
        """
        t[x % 4, (32*u + x) // 4 % 16] = a[g, u, x]
        out[g, u, x] = t[u, x]
        """,
        [
            lp.GlobalArg("a", np.float32, shape=(2, 4, 32)),
            lp.TemporaryVariable(
                "t", np.float32, shape=(4, 32), address_space=lp.AddressSpace.LOCAL
            ),
            ...,
        ],
        target=lp.CudaTarget(),
    )
    knl = lp.tag_inames(knl, "g:g.0, u:unr, x:l.0")
    assert passes(knl) == [4, 1]
    assert passes(lp.add_padding_to_avoid_bank_conflicts(knl, "t")) == [1, 1]


@pytest.mark.parametrize("row", [32, 64, 128])
@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_a_swizzle_permutes_each_row(row: int, chunk: int) -> None:
    elements = np.arange(8 * row)
    stored = Swizzle(row, chunk).stored(elements)
    assert (np.sort(stored.reshape(8, row)) == elements.reshape(8, row)).all()


@pytest.mark.parametrize(
    ("size", "dtype", "before", "after"),
    [
        (32, np.float32, [1, 32], [1, 1]),
        (16, np.float32, [1, 8], [1, 1]),
        (16, np.float64, [2, 32], [2, 2]),
        (32, np.float16, [1, 16], [1, 1]),
    ],
)
def test_columns_are_free_of_conflicts(
    size: int, dtype: Any, before: list[int], after: list[int]
) -> None:
    knl = transposed(lp.CudaTarget(), size, dtype)
    assert passes(knl) == before
    assert passes(lp.tag_array_axes(knl, "t", "swizzle:128")) == after
    padded = lp.add_padding_to_avoid_bank_conflicts(knl)
    assert sum(passes(padded)) <= sum(after) + 1


def test_the_text_of_a_swizzle() -> None:
    code = lp.generate_body(lp.tag_array_axes(transposed(lp.CudaTarget()), "t", "swizzle:128"))
    assert "t[(32 * lid(y) + lid(x)) ^ lid(y)] = a[" in code
    assert "= t[(32 * lid(x) + lid(y)) ^ lid(x)];" in code
    assert "__shared__ float t[1024];" in code


def test_padding_is_the_least_that_helps() -> None:
    knl = lp.add_padding_to_avoid_bank_conflicts(transposed(lp.CudaTarget()), "t")
    tags = kernel_of(knl).temporary_variables["t"].dim_tags
    assert [tag.stride for tag in tags] == [33, 1]
    again = lp.add_padding_to_avoid_bank_conflicts(knl)
    assert kernel_of(again).temporary_variables["t"].dim_tags == tags


def test_another_layout_has_no_swizzle() -> None:
    knl = lp.tag_array_axes(transposed(lp.CudaTarget()), "t", "swizzle:128")
    assert "^" not in lp.generate_body(lp.tag_array_axes(knl, "t", "C"))


@pytest.mark.parametrize("layout", ["swizzle:128", "swizzle:64", "padding"])
def test_results_are_the_same_on_opencl(opencl_queue: Any, layout: str) -> None:
    knl = transposed(lp.PyOpenCLTarget(), 8, np.float64)
    if layout == "padding":
        knl = lp.add_padding_to_avoid_bank_conflicts(knl)
    else:
        knl = lp.tag_array_axes(knl, "t", layout)
    assert lp.verify(knl).ok
    a = np.random.default_rng(1).random((21, 21))
    _, (b,) = knl(opencl_queue, a=a)
    np.testing.assert_array_equal(b, a.T)


@pytest.mark.parametrize("tag", ["ilp", "vec"])
def test_products_through_swizzled_tiles(opencl_queue: Any, tag: str) -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < 16 }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float32, shape="16, 16"), "..."],
        target=lp.PyOpenCLTarget(),
    )
    knl = lp.split_iname(knl, "j", 4, inner_tag=tag, outer_tag="l.1")
    knl = lp.tag_inames(knl, "i:l.0")
    knl = lp.split_iname(knl, "k", 8)
    knl = lp.add_prefetch(knl, "a", "i, k_inner")
    knl = lp.add_prefetch(knl, "b", "k_inner, j_outer, j_inner")
    knl = lp.tag_array_axes(lp.tag_inames(knl, "k_inner:unr"), "a_fetch, b_fetch", "swizzle:32")
    knl = lp.pipeline(knl, "k_outer", 2, "a_fetch")
    a, b = np.random.default_rng(1).random((2, 16, 16)).astype(np.float32)
    _, (c,) = knl(opencl_queue, a=a, b=b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "layout", "because"),
    [
        ("t", "swizzle:100", "no swizzle of '100' bytes"),
        ("t", "swizzle:x", "no swizzle of 'x' bytes"),
        ("u", "swizzle:128", "there is no array 'u'"),
        ("a", "swizzle:128", "no temporary 'a'"),
    ],
)
def test_what_cannot_be_swizzled(name: str, layout: str, because: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(because)):
        lp.tag_array_axes(transposed(lp.CudaTarget()), name, layout)


def test_private_memory_has_no_banks() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "<> t[i] = a[i]\nb[i] = t[i]")
    knl = lp.add_dtypes(knl, {"a": np.float32})
    with pytest.raises(lp.KgenError, match="private memory, which has no banks"):
        lp.tag_array_axes(knl, "t", "swizzle:128")
    with pytest.raises(lp.KgenError, match="private memory, which has no banks"):
        lp.add_padding_to_avoid_bank_conflicts(knl, "t")


def test_groups_of_one_work_item_and_arrays_of_one_row() -> None:
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < 2 }",
        "t[k] = a[i, k] {inames=i:k}\nb[i] = t[0] - t[1] {dep=insn, id=last}",
        [
            lp.TemporaryVariable("t", np.float32, shape=(2,), address_space=lp.AddressSpace.LOCAL),
            "...",
        ],
    )
    knl = lp.add_dtypes(lp.tag_inames(knl, "i:g.0"), {"a": np.float32})
    body = lp.generate_body(lp.tag_array_axes(knl, "t", "swizzle:32"))
    assert "t[0] - t[1]" in body


def test_padding_keeps_vectors_aligned() -> None:
    space = lp.AddressSpace.LOCAL
    store = "tile[4*(j % 4) + k, 4*i + j // 4] = a[i, j, k] {id=w}"
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j < 16 and 0 <= k < 4 }",
        f"{store}\nb[j, i, k] = tile[j, 4*i + k] {{dep=w}}",
        [
            lp.GlobalArg("a, b", "float32", shape="16, 16, 4"),
            lp.TemporaryVariable("tile", "float32", shape=(16, 128), address_space=space),
        ],
        target=lp.CudaTarget(),
    )
    knl = lp.align_temporaries(lp.tag_inames(knl, "i:l.1, j:l.0, k:unr"), "tile", 16)
    padded = lp.add_padding_to_avoid_bank_conflicts(knl, "tile").default_entrypoint
    assert padded.temporary_variables["tile"].dim_tags[0].stride == 132
