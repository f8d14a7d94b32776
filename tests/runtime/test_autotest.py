"""Transformed kernels held against their reference by running both."""

from __future__ import annotations

from typing import Any

import pytest

import kgen as lp


def fill(text: str = "out[i] = 2*a[i]", **options: Any) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}", text, [lp.GlobalArg("a, out", "float32", shape="n"), "..."], **options
    )
    return lp.add_dtypes(knl, {"n": "int32"})


def test_a_right_transformation_passes_on_the_host() -> None:
    ref = fill(target=lp.ExecutableCTarget())
    lp.auto_test_vs_ref(
        ref, None, lp.split_iname(ref, "i", 4, inner_tag="unr"), parameters={"n": 37}, quiet=True
    )


def test_a_right_transformation_passes_on_opencl(opencl_queue: Any) -> None:
    ref = fill()
    knl = lp.split_iname(ref, "i", 16, outer_tag="g.0", inner_tag="l.0")
    lp.auto_test_vs_ref(ref, opencl_queue.context, knl, parameters={"n": 100}, quiet=True)


def test_a_different_result_is_named_with_its_place() -> None:
    ref = fill(target=lp.ExecutableCTarget())
    other = fill("out[i] = if(i == 3, 0, 2*a[i])", target=lp.ExecutableCTarget())
    with pytest.raises(lp.AutomaticTestFailure, match=r"out\[3\]: 0\.0 instead of"):
        lp.auto_test_vs_ref(ref, None, other, parameters={"n": 10}, quiet=True)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(lp.KgenError, match="parameters=\\{'n': 16\\}"):
        lp.auto_test_vs_ref(fill(target=lp.ExecutableCTarget()), None, quiet=True)


@pytest.mark.parametrize("n", [64, 66])
@pytest.mark.parametrize("array", ["a", "out"])
def test_arrays_of_another_shape_get_the_elements_in_their_order(n: int, array: str) -> None:
    ref = fill(target=lp.ExecutableCTarget())
    knl = lp.split_array_axis(ref, array, 0, 4)
    lp.auto_test_vs_ref(ref, None, knl, parameters={"n": n}, quiet=True)


def test_a_result_of_another_shape_that_differs_is_named() -> None:
    ref = fill(target=lp.ExecutableCTarget())
    knl = lp.split_array_axis(fill("out[i] = a[n - 1 - i]", target=ref.target), "out", 0, 4)
    with pytest.raises(lp.AutomaticTestFailure, match="'out' differs"):
        lp.auto_test_vs_ref(ref, None, knl, parameters={"n": 16}, quiet=True)


def test_a_shape_with_room_between_elements_is_refused() -> None:
    ref = lp.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 6}",
        "out[i] = sum(j, b[i, j])",
        [lp.GlobalArg("b", "float32", shape="n, 6"), "..."],
        target=lp.ExecutableCTarget(),
    )
    with pytest.raises(lp.InvocationError, match=r"\(5, 6\) in the reference, and \(5, 2, 4\)"):
        lp.auto_test_vs_ref(
            ref, None, lp.split_array_axis(ref, "b", 1, 4), parameters={"n": 5}, quiet=True
        )


def test_parameters_that_a_kernel_does_not_have_are_left_out() -> None:
    ref = fill(target=lp.ExecutableCTarget())
    lp.auto_test_vs_ref(
        ref, None, lp.fix_parameters(ref, n=12), parameters={"n": 12, "m": 3, "a": 1}, quiet=True
    )


TIMES = {
    "elapsed_event",
    "elapsed_event_marker",
    "elapsed_wall",
    "ref_elapsed_event",
    "ref_elapsed_wall",
    "timing_rounds",
}


def test_times_on_the_host_are_those_of_calls() -> None:
    ref = fill(target=lp.ExecutableCTarget())
    times = lp.auto_test_vs_ref(ref, None, parameters={"n": 1000}, quiet=True)
    assert times.keys() == TIMES
    assert times["timing_rounds"] == 1
    assert 0 < times["elapsed_event"] <= times["elapsed_event_marker"]


def two_launches() -> lp.TranslationUnit:
    text = "<> t[i] = a[i] {id=t}\n... gbarrier {id=all, dep=t}\nout[j] = t[n - 1 - j] {dep=all}"
    given = [lp.GlobalArg("a, out", "float32", shape="n"), lp.ValueArg("n", "int32"), "..."]
    unit = lp.make_kernel("{[i, j]: 0 <= i, j < n}", text, given)
    return lp.tag_inames(lp.set_temporary_address_space(unit, "t", "global"), "i:g.0, j:g.0")


@pytest.mark.parametrize("make", [fill, two_launches])
def test_times_of_launches_are_those_of_the_device(opencl_queue: Any, make: Any) -> None:
    times = lp.auto_test_vs_ref(make(), opencl_queue.context, parameters={"n": 1000}, quiet=True)
    assert times.keys() == TIMES
    assert 0 < times["elapsed_event"] <= times["elapsed_event_marker"]
