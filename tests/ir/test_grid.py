"""The numbers of groups and work-items of loops on hardware axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pymbolic import evaluate

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


def of_two_lengths() -> lp.TranslationUnit:
    """Return a kernel whose loops over n and m + 1 iterations share an axis."""
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < m + 1 }"],
        """
        <> t = 2*i {id=t}
        a[i] = t {dep=t}
        b[j] = 3*j
        """,
        [lp.GlobalArg("a, b", np.int32, shape=lp.auto), ...],
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize(("n", "m"), [(5, 40), (40, 5), (0, 3), (33, 0)])
def test_an_axis_is_as_long_as_its_longest_loop(backend: Any, n: int, m: int) -> None:
    _, (a, b) = backend(of_two_lengths(), n=n, m=m)
    np.testing.assert_array_equal(a.get() if hasattr(a, "get") else a, 2 * np.arange(n))
    np.testing.assert_array_equal(b.get() if hasattr(b, "get") else b, 3 * np.arange(m + 1))


def test_the_longest_of_several_lengths_is_an_expression() -> None:
    kernel = of_two_lengths().default_entrypoint
    (groups,), _ = kernel.get_grid_size_upper_bounds_as_exprs()
    assert [evaluate(groups, {"n": n, "m": m}) for n, m in ((5, 40), (40, 5))] == [3, 3]


def test_conditions_hold_in_all_groups_of_the_longest_loop(backend: Any) -> None:
    """The group's number is less than 6, or less than m: not just one of them."""
    knl = lp.make_kernel(
        ["{ [i, j]: 0 <= i < j < m and j >= 6 }", "{ [k]: 0 <= k < 6 }"],
        "a[i, j] = 1\nb[k] = k",
        [lp.GlobalArg("a", np.int32, shape="m, m"), lp.GlobalArg("b", np.int32, shape="6"), ...],
    )
    knl = lp.tag_inames(knl, "i:g.0, k:g.0")
    for m in (0, 3, 7, 12):
        a, b = np.zeros((m, m), np.int32), np.zeros(6, np.int32)
        backend(knl, a=a, b=b, m=m)
        np.testing.assert_array_equal(a, np.triu(np.ones((m, m)), 1) * (np.arange(m) >= 6))
        np.testing.assert_array_equal(b, np.arange(6))


def test_loops_that_share_the_axes_of_others_do_not_change_the_grid() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < 128 and 0 <= j < 16 }",
        "out[i, j] = a[i, j]",
        [lp.GlobalArg("a, out", np.float32, shape=(128, 16))],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    fetched = lp.add_prefetch(knl, "a", ["i_inner", "j"], default_tag="l.auto")
    sizes = fetched.default_entrypoint.get_grid_size_upper_bounds_as_exprs
    assert sizes(fetched.callables_table) == ((8,), (16,))
    own = lp.tag_inames(knl, "j:l.auto").default_entrypoint
    with pytest.raises(lp.KgenError, match=r"'l\.auto': its hardware axis is not known"):
        own.get_grid_size_upper_bounds_as_exprs()
    assert own.get_grid_size_upper_bounds_as_exprs(ignore_auto=True) == ((8,), (16,))
