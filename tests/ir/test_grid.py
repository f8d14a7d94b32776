"""The numbers of groups and work-items of loops on hardware axes."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


def test_groups_of_loops_with_strides_that_are_split_repeatedly() -> None:
    knl = lp.make_kernel(
        "{ [i]: m <= i < n and i mod 3 = 1 }",
        "out[i - m] = i",
        [lp.GlobalArg("out", "int32", shape="13"), lp.ValueArg("n, m", "int32"), ...],
        assumptions="0 <= m <= n <= m + 12",
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 7, outer_tag="g.0")
    knl = lp.split_iname(lp.split_iname(knl, "i_inner", 3), "i_inner_inner", 2)
    for m, n in ((0, 0), (5, 6), (4, 13), (15, 27)):
        expected = [i if i % 3 == 1 and i < n else -1 for i in range(m, m + 13)]
        out = np.full(13, -1, np.int32)
        knl(out=out, m=m, n=n)
        np.testing.assert_array_equal(out, expected)


def test_a_loop_over_work_items_inside_of_groups_is_split_into_one_on_that_axis() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j <= i }", "a[i, j] = 1", target=lp.OpenCLTarget()
    )
    tags = {"j": "l.1"}
    with pytest.raises(lp.StaticValueFindingError) as alone:
        lp.generate_code_v2(lp.tag_inames(knl, tags))
    assert "split_iname(kernel, 'j', 128, inner_tag='l.1', outer_tag='g.0')" in str(alone.value)
    with pytest.raises(lp.StaticValueFindingError) as inside:
        lp.generate_code_v2(lp.tag_inames(knl, {"i": "g.0", **tags}))
    assert "split_iname(kernel, 'j', 128, inner_tag='l.1') instead of" in str(inside.value)
