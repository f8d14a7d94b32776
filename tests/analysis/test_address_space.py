"""Where temporaries live."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

GLOBAL, LOCAL, PRIVATE = lp.AddressSpace.GLOBAL, lp.AddressSpace.LOCAL, lp.AddressSpace.PRIVATE


def reversed_through_h() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        """
        <> h[i] = a[i] {id=w}
        ... gbarrier {id=g, dep=w}
        o[i] = h[n-1-i] {dep=g}
        """,
        [lp.GlobalArg("a, o", np.float32, shape="n"), ...],
        assumptions="n>=1",
    )


def space(knl: lp.TranslationUnit, name: str = "h") -> lp.AddressSpace:
    made = lp.preprocess_kernel(knl).default_entrypoint
    return lp.AddressSpace(made.temporary_variables[name].address_space)


@pytest.mark.parametrize("tags", [("g.0", "l.0"), ("g.1", "l.1")])
def test_what_work_groups_write_at_their_index_is_global(tags: Any, device: Any) -> None:
    outer, inner = tags
    knl = lp.split_iname(reversed_through_h(), "i", 16, outer_tag=outer, inner_tag=inner)
    assert space(knl) == GLOBAL
    data = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(device(knl, a=data)[1][0], data[::-1])


def test_what_all_work_items_of_a_group_write_stays_private(device: Any) -> None:
    knl = lp.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<16}",
        ["<> h[i] = sum(j, b[i,j])", "o[i,j] = h[i] + b[i,j]"],
        [lp.GlobalArg("b, o", np.float32, shape="n, 16"), ...],
        assumptions="n <= 64",
    )
    knl = lp.tag_inames(knl, "i:g.0, j:l.0")
    assert space(knl) == PRIVATE
    data = np.ones((50, 16), np.float32)
    np.testing.assert_array_equal(device(knl, b=data)[1][0], 17 * data)


def test_what_work_items_write_at_their_index_alone_is_local() -> None:
    knl = lp.split_iname(reversed_through_h(), "i", 16, inner_tag="l.0")
    assert space(knl) == LOCAL


def test_buffers_of_a_value_of_each_work_item_stay_private() -> None:
    knl = lp.make_kernel(
        ["{[i]: 0<=i<n}", "{[j]: i<=j<i+3}"],
        ["<> t = a[j] {id=w}", "o[i,j-i] = 2*t {dep=w}"],
        [
            lp.GlobalArg("a", np.float32, shape="n+3"),
            lp.GlobalArg("o", np.float32, shape="n, 3"),
            ...,
        ],
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.pipeline(knl, "j", 2, "t")  # t[j % 2] = a[j] for j = i: of two elements, for 16 i
    assert space(knl, "t") == PRIVATE
    lp.verify(knl).raise_if_violated()
