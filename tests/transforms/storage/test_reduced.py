"""Precomputed values with reductions whose bounds depend on loops."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp

TRIANGLE = "{ [i,j,k]: 0 <= k,i < 8 and 0 <= j <= i }"


@pytest.mark.parametrize("sweep", ["k", "i", "i, k"])
def test_reductions_keep_the_bounds_that_they_have_at_their_uses(sweep: str) -> None:
    text = ["f(x) := sum(j, j*x + 1)", "out[i, k] = f(k) {inames=i:k}"]
    knl = lp.make_kernel(TRIANGLE, text, target=lp.ExecutableCTarget())
    stored = lp.precompute(knl, "f", sweep)
    (expected,), (out,) = knl()[1], stored()[1]
    assert expected[1, 2] == 4
    assert np.array_equal(out, expected)


def test_an_argument_that_is_the_swept_loop_bounds_the_reduction() -> None:
    text = ["f(i) := sum(j, j + 1)", "out[i] = f(i) {inames=i}"]
    knl = lp.make_kernel("{ [i,j]: 0 <= i < 8 and 0 <= j <= i }", text, target=lp.CTarget())
    body = lp.generate_body(lp.precompute(knl, "f", "i"))
    assert "j_0 < i_0 + 1" in body


def test_values_are_stored_in_the_loops_that_bound_a_reduction() -> None:
    text = ["f := sum(j, j + 1)", "out[i] = f {inames=i}"]
    knl = lp.make_kernel("{ [i,j]: 0 <= i < 4 and 0 <= j <= i }", text, lang_version=(2018, 2))
    stored = lp.precompute(knl, "f").default_entrypoint
    assert stored.id_to_insn["f"].within_inames == {"i"}


def test_bounds_of_nested_reductions_are_those_of_their_loops() -> None:
    domain = "{ [i,j,k]: 0 <= i < 4 and 0 <= j <= i and 0 <= k <= j }"
    text = ["f := sum(j, sum(k, i + k))", "out[i] = f {inames=i}"]
    knl = lp.make_kernel(domain, text, target=lp.ExecutableCTarget())
    (expected,), (out,) = knl()[1], lp.precompute(knl, "f", "i")()[1]
    assert np.array_equal(out, expected)


def test_strides_that_depend_on_a_swept_loop_stay() -> None:
    domains = ["{ [i]: 0 <= i < 4 }", "[i] -> { [j]: 0 <= j < 9 and (i + j) mod 2 = 0 }"]
    text = ["f := sum(j, j)", "out[i] = f {inames=i}"]
    knl = lp.make_kernel(domains, text, target=lp.ExecutableCTarget())
    (expected,), (out,) = knl()[1], lp.precompute(knl, "f", "i")()[1]
    assert expected.tolist() == [20, 16, 20, 16]
    assert np.array_equal(out, expected)


def rows(uses: str) -> lp.TranslationUnit:
    text = """
    f := sum(j, v[j])
    for i
        <> first = start[i] {id=first}
        <> last = start[i+1] {id=last}
        """
    args = [
        lp.GlobalArg("start", np.int32, shape=4),
        lp.GlobalArg("v", np.float64, shape="m"),
        lp.GlobalArg("out", np.float64, shape=3),
        ...,
    ]
    domains = ["{ [i,k]: 0 <= i,k < 3 }", "[first, last] -> { [j]: first <= j < last }"]
    return lp.make_kernel(domains, text + uses, args, target=lp.ExecutableCTarget())


def test_sums_of_rows_are_stored_where_their_bounds_are_read() -> None:
    knl = rows("out[i] = f {dep=first:last}\nend")
    data = {"start": np.array([0, 2, 2, 5], np.int32), "v": np.arange(5.0)}
    assert lp.precompute(knl, "f")(**data)[1][0].tolist() == [1, 0, 9]
    with pytest.raises(lp.TransformError, match=r"'i' cannot be swept\n.*'first' sets what"):
        lp.precompute(knl, "f", "i")


def test_sums_of_rows_become_no_rules_in_other_loops() -> None:
    text = "<> t[i] = sum(j, v[j]) {id=t, dep=first:last}\nend\nout[k] = t[k] {dep=t}"
    with pytest.raises(lp.TransformError, match="depend on 'i', which is a different loop there"):
        lp.assignment_to_subst(rows(text), "t")
