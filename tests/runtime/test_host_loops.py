"""Loops with global barriers inside: the host runs them, and makes launches in every iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

STEPS = """
    for t
        v[i] = (u[i - 1] + u[i + 1]) / 2 {id=a}
        ... gbarrier {id=first, dep=a}
        u[j] = v[j] {id=b, dep=first}
        ... gbarrier {id=second, dep=b}
    end
    """


def heat(target: Any) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < nt and 1 <= i < n - 1 and 1 <= j < n - 1 }",
        STEPS,
        [lp.GlobalArg("u, v", np.float64, shape="n"), "..."],
        seq_dependencies=True,
        assumptions="n >= 3",
        target=target,
        name="heat",
    )
    for iname in "ij":
        knl = lp.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    return knl


def expected(u: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    u = u.copy()
    for _ in range(count):
        u[1:-1] = (u[:-2] + u[2:]) / 2
    return u


@pytest.mark.parametrize("count", [0, 1, 7])
def test_time_steps_on_a_device(opencl_queue: Any, count: int) -> None:
    u = np.random.default_rng(1).random(100)
    got = u.copy()
    heat(lp.PyOpenCLTarget())(opencl_queue, u=got, v=np.zeros(100), nt=count)
    np.testing.assert_allclose(got, expected(u, count))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_time_steps_on_the_host(count: int) -> None:
    u = np.random.default_rng(1).random(100)
    got = u.copy()
    heat(lp.ExecutableCTarget())(u=got, v=np.zeros(100), nt=count)
    np.testing.assert_allclose(got, expected(u, count))


def test_a_driver_in_c_loops_over_calls() -> None:
    text = lp.generate_code_v2(heat(lp.CTarget())).host_code()
    assert "for (int t = 0; t < nt; ++t)" in text
    assert "heat(u, v, n);\n    heat_0(u, v, n);" in text


def triangle(**more: Any) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [s, t, i]: 0 <= t < 5 and t mod 2 = 0 and 0 <= s <= t and s <= i < n }",
        "... gbarrier {id=g, inames=t:s}\n v[i] = v[i] + s + t {id=add, dep=g, inames=t:s:i}",
        [lp.GlobalArg("v", np.float64, shape="n"), "..."],
        assumptions="n >= 10",
        **more,
    )
    knl = lp.prioritize_loops(knl, "t, s")
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_bounds_and_strides_of_nested_loops(opencl_queue: Any) -> None:
    want = np.zeros(20)
    for t in range(0, 5, 2):
        for s in range(t + 1):
            want[s:] += s + t
    got = np.zeros(20)
    triangle(target=lp.PyOpenCLTarget())(opencl_queue, v=got)
    np.testing.assert_array_equal(got, want)


def test_launches_are_passed_the_variables_that_they_use() -> None:
    text = lp.generate_code_v2(triangle(target=lp.OpenCLTarget())).device_code()
    assert "int const n, int const s, int const t)" in text
    assert "t < 5" not in text


def test_bounds_that_only_the_device_knows_are_refused() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [k]: 0 <= k < m }"],
        """
        <> m = counts[0] {id=m}
        for k
            ... gbarrier {id=g, dep=m}
            for i
                v[i] = v[i] + k {dep=g}
            end
        end
        """,
        [lp.GlobalArg("v", np.float64, shape="n"), lp.GlobalArg("counts", np.int32, shape=1), ...],
    )
    with pytest.raises(lp.KgenError, match="'m', which is only known on the device"):
        lp.generate_code_v2(lp.tag_inames(knl, {"i": "g.0"}))


def test_a_value_of_the_iteration_before_does_not_outlive_it() -> None:
    knl = lp.make_kernel(
        "{ [t, i]: 0 <= t < 3 and 0 <= i < 16 }",
        """
        for t, i
            v[i] = v[i] + old {id=use}
            ... gbarrier {id=g, dep=use}
            <> old = v[i] {id=set, dep=g}
        end
        """,
        [lp.GlobalArg("v", np.float64, shape=16)],
        seq_dependencies=True,
    )
    with pytest.raises(lp.MissingDefinitionError, match="'old' gets used in subkernel"):
        lp.generate_code_v2(lp.tag_inames(knl, {"i": "l.0"}))
