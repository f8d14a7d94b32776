"""Reductions that grow along a loop, computed as running results."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from tests.oracle import Oracle
from tests.targets.support import compile_cuda
from tests.transforms.helpers import instructions, run

F64 = np.dtype(np.float64)
TRIANGLE = "{[i, j]: 0 <= j <= i < n}"
A = np.random.default_rng(0).random(50)


def kernel(
    text: str | list[str] = "out[i] = sum(j, a[j])",
    domains: Any = TRIANGLE,
    *data: Any,
    **options: Any,
) -> lp.TranslationUnit:
    knl = lp.make_kernel(domains, text, [*data, ...], **options)
    return lp.add_and_infer_dtypes(knl, {"a": F64})


def scanned(knl: lp.TranslationUnit, **options: Any) -> lp.TranslationUnit:
    return lp.realize_reduction(knl, force_scan=True, **options)


def blocks(knl: lp.TranslationUnit, size: int = 16) -> lp.TranslationUnit:
    return lp.split_iname(knl, "i", size, inner_tag="l.0")


def check(program: lp.TranslationUnit, **sizes: int) -> None:
    """Hold the code against the domains: each instance once, barriers for all work-items."""
    lowered = lower(program.default_entrypoint)
    Oracle(lowered.kernel, sizes).check(lowered.functions)


# -- along a sequential loop ------------------------------------------------------------------


def test_the_accumulator_is_set_before_the_loop() -> None:
    knl = scanned(kernel())
    assert instructions(knl) == [
        ": acc_j = 0.0",
        "i,j_0: acc_j = acc_j + a[j_0]",
        "i: out[i] = acc_j",
    ]
    assert "acc_j += a[i];" in lp.generate_body(knl.copy(target=lp.CTarget()))
    check(knl, n=5)
    np.testing.assert_allclose(run(knl, a=A)["out"], np.cumsum(A))


@pytest.mark.parametrize(
    ("domains", "steps", "expected"),
    [
        (TRIANGLE, "[i] -> { [j_0] : j_0 = i }", lambda a, i: a[: i + 1]),
        (
            ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"],
            "[i] -> { [j_0] : j_0 = -1 + i and i > 0 }",
            lambda a, i: a[:i],
        ),
        (
            "{[i, j]: 0 <= i and 2*i < n and 0 <= j <= 2*i}",
            "[i] -> { [j_0] : j_0 >= -1 + 2i and 0 <= j_0 <= 2i }",
            lambda a, i: a[: 2 * i + 1],
        ),
        (
            "{[i, j]: 0 <= i < n and 0 <= j <= i and j mod 3 = 0}",
            "[i] -> { [j_0] : j_0 = i and (i) mod 3 = 0 }",
            lambda a, i: a[: i + 1 : 3],
        ),
        (
            "{[i, j]: 5 <= i < n and 3 <= j <= i}",
            None,
            lambda a, i: a[3 : i + 1],
        ),
    ],
)  # fmt: skip
def test_what_a_step_adds(domains: Any, steps: str | None, expected: Callable[..., Any]) -> None:
    knl = scanned(kernel("out[i] = sum(j, a[j])", domains, lp.GlobalArg("a", shape="n")))
    if steps is not None:
        assert str(knl.default_entrypoint.domains[-1]) == steps
    found = run(knl, a=A)["out"]
    first = 5 if steps is None else 0
    for i in range(first, len(found)):
        np.testing.assert_allclose(found[i], expected(A, i).sum())


def test_a_first_step_with_many_values_has_a_loop_of_its_own() -> None:
    knl = scanned(kernel("out[i] = sum(j, a[j])", "{[i, j]: 0 <= i < n and 0 <= j < i + 4}"))
    check(knl, n=6)
    np.testing.assert_allclose(run(knl, a=A)["out"], np.cumsum(A)[3:])


def test_scans_of_every_row() -> None:
    knl = scanned(
        kernel("out[b, i] = sum(j, a[b, j])", "{[b, i, j]: 0 <= b < m and 0 <= j <= i < n}")
    )
    a = A.reshape(5, 10)
    np.testing.assert_allclose(run(knl, a=a)["out"], np.cumsum(a, axis=1))


def test_a_scan_over_two_loops() -> None:
    knl = scanned(
        kernel("out[i] = sum((j, k), a[j, k])", "{[i, j, k]: 0 <= j <= i < n and 0 <= k < m}")
    )
    a = A.reshape(5, 10)
    np.testing.assert_allclose(run(knl, a=a)["out"], np.cumsum(a.sum(axis=1)))


def test_a_loop_that_was_split_runs_block_after_block() -> None:
    knl = scanned(lp.split_iname(kernel(), "i", 16))
    assert (("i_outer", "i_inner")) in knl.default_entrypoint.loop_priority
    check(knl, n=20)
    np.testing.assert_allclose(run(knl, a=A)["out"], np.cumsum(A))


def test_operands_are_reductions_and_functions() -> None:
    domains = "{[i, j, k]: 0 <= j <= i < n and 0 <= k < m}"
    knl = scanned(kernel("out[i] = 2*sum(j, sin(sum(k, a[j, k]))) + i", domains))
    a = A.reshape(10, 5)
    expected = 2 * np.cumsum(np.sin(a.sum(axis=1))) + np.arange(10)
    np.testing.assert_allclose(run(knl, a=a)["out"], expected)


def test_several_scans_share_the_loop() -> None:
    text = [
        "lo[i] = min(j, a[j])",
        "hi[i] = max(j, a[j])",
        "both[i] = sum(j, a[j]) - product(j, a[j])",
    ]
    knl = scanned(kernel(text, TRIANGLE))
    found = run(knl, a=A)
    np.testing.assert_array_equal(found["lo"], np.minimum.accumulate(A))
    np.testing.assert_array_equal(found["hi"], np.maximum.accumulate(A))
    np.testing.assert_allclose(found["both"], np.cumsum(A) - np.cumprod(A))


def test_a_scan_of_what_the_same_loop_computes() -> None:
    text = ["b[i] = 2*a[i] {id=b}", "out[i] = sum(j, b[j]) {dep=b}"]
    knl = scanned(kernel(text, TRIANGLE, lp.GlobalArg("b", F64, "n", is_input=False)))
    np.testing.assert_allclose(run(knl, a=A)["out"], np.cumsum(2 * A))


@pytest.mark.parametrize("store", ["b[0] = i", "b[n - 1 - i] = a[i]", "<> t = i", "b[i + 1] = 1"])
def test_what_later_steps_change_is_no_operand(store: str) -> None:
    operand = "t*a[j]" if "t" in store else "b[j]"
    text = [store + " {id=b}", f"out[i] = sum(j, {operand}) {{dep=b}}"]
    with pytest.raises(lp.TransformError, match="instruction 'b' writes"):
        scanned(
            kernel(text, TRIANGLE, lp.GlobalArg("b", F64, "n + 1"), lp.GlobalArg("a", F64, "n"))
        )


def test_positions_of_running_maxima() -> None:
    knl = scanned(kernel("out[i], at[i] = argmax(j, a[j], j)"))
    found = run(knl, a=A)
    np.testing.assert_array_equal(found["out"], np.maximum.accumulate(A))
    np.testing.assert_array_equal(found["at"], [A[: i + 1].argmax() for i in range(50)])


# -- along work-items ---------------------------------------------------------------------------


def run_on(device: Any, knl: lp.TranslationUnit, **arguments: Any) -> dict[str, Any]:
    _, found = device(lp.set_options(knl, return_dict=True), **arguments)
    return dict(found)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 50])
def test_work_items_combine_over_growing_distances(device: Any, n: int) -> None:
    knl = scanned(lp.tag_inames(lp.fix_parameters(kernel(), n=n), "i:l.0"))
    code = lp.generate_body(knl)
    assert code.count("barrier(") == (n - 1).bit_length()
    check(knl)
    np.testing.assert_allclose(run_on(device, knl, a=A[:n])["out"], np.cumsum(A[:n]))


def test_blocks_carry_their_totals(device: Any) -> None:
    knl = scanned(blocks(kernel()))
    check(knl, n=20)
    for n in (1, 7, 16, 17, 32, 50):
        np.testing.assert_allclose(run_on(device, knl, a=A[:n])["out"], np.cumsum(A[:n]))


def test_the_barriers_of_a_block_are_one_per_step_and_one_between_blocks() -> None:
    assert lp.generate_body(scanned(blocks(kernel()))).count("barrier(") == 4 + 2


def test_an_exclusive_scan_in_blocks(device: Any) -> None:
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"]
    knl = kernel("out[i] = sum(j, a[j])", domains, lp.GlobalArg("a", shape="n"))
    found = run_on(device, scanned(blocks(knl)), a=A)["out"]
    np.testing.assert_allclose(found, [0, *np.cumsum(A)[:-1]])


def test_lanes_without_a_step_combine_nothing(device: Any) -> None:
    knl = blocks(kernel("out[i] = sum(j, a[j])", "{[i, j]: 3 <= j <= i < n}"))
    found = run_on(device, scanned(knl), a=A, n=50)["out"]
    np.testing.assert_allclose(found[3:], np.cumsum(A[3:]))


@pytest.mark.parametrize("rows", ["g.0", "l.1"])
def test_rows_are_groups_or_work_items(device: Any, rows: str) -> None:
    domain = "{[b, i, j]: 0 <= b < 5 and 0 <= j <= i < n}"
    knl = scanned(blocks(lp.tag_inames(kernel("out[b, i] = sum(j, a[b, j])", domain), {"b": rows})))
    a = A.reshape(5, 10)
    check(knl, n=20)
    np.testing.assert_allclose(run_on(device, knl, a=a)["out"], np.cumsum(a, axis=1))


def test_extrema_and_their_positions_in_blocks(device: Any) -> None:
    text = ["lo[i] = min(j, a[j])", "out[i], at[i] = argmax(j, a[j], j)"]
    knl = scanned(blocks(kernel(text)))
    found = run_on(device, knl, a=A)
    np.testing.assert_array_equal(found["lo"], np.minimum.accumulate(A))
    np.testing.assert_array_equal(found["at"], [A[: i + 1].argmax() for i in range(50)])


@pytest.mark.parametrize("size", [None, 16])
def test_segmented_sums(device: Any, size: int | None) -> None:
    knl = kernel("out[i], flag[i] = reduce(segmented(sum), j, (a[j], start[j]))")
    knl = lp.add_and_infer_dtypes(knl, {"start": np.int32})
    knl = scanned(knl if size is None else blocks(knl, size))
    start = (np.arange(50) % 7 == 0).astype(np.int32)
    expected = [A[i - i % 7 : i + 1].sum() for i in range(50)]
    found = run_on(device, knl, a=A, start=start)
    np.testing.assert_allclose(found["out"], expected)
    np.testing.assert_array_equal(found["flag"], 1)


# -- across work-groups -------------------------------------------------------------------------


def lanes(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")


def turns(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 24, outer_tag="g.0")
    return lp.split_iname(knl, "i_inner", 8, inner_tag="l.0")


def items(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 24, outer_tag="g.0")
    return lp.split_iname(knl, "i_inner", 3, outer_tag="l.0")


def lone(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.split_iname(knl, "i", 5, outer_tag="g.0")


def two_axes(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 4, inner_tag="l.0")
    return lp.split_iname(knl, "i_outer", 3, outer_tag="g.1", inner_tag="g.0")


@pytest.mark.parametrize("schedule", [lanes, turns, items, lone, two_axes])
def test_groups_end_with_a_launch(schedule: Any) -> None:
    knl = scanned(schedule(kernel()))
    assert lp.generate_code_v2(knl).device_code().count("__kernel") == 3
    check(knl, n=29)


@pytest.mark.parametrize("schedule", [turns, items, two_axes])
def test_groups_begin_where_others_end(device: Any, schedule: Any) -> None:
    knl = scanned(schedule(kernel()))
    for n in (1, 8, 24, 25, 97, 300):
        a = np.random.default_rng(n).random(n)
        np.testing.assert_allclose(run_on(device, knl, a=a)["out"], np.cumsum(a))


def test_segments_across_groups(device: Any) -> None:
    knl = kernel("out[i], flag[i] = reduce(segmented(sum), j, (a[j], start[j]))")
    knl = scanned(turns(lp.add_and_infer_dtypes(knl, {"start": np.int32})))
    a = np.random.default_rng(1).random(210)
    start = (np.arange(210) % 50 == 0).astype(np.int32)
    expected = [a[i - i % 50 : i + 1].sum() for i in range(210)]
    np.testing.assert_allclose(run_on(device, knl, a=a, start=start)["out"], expected)


class AffineMaps(lp.ReductionOperation):
    """Maps ``x -> f*x + a``, one after the other: associative, not commutative."""

    is_commutative = False
    arg_count = 2

    def result_dtypes(self, *dtypes: Any) -> Any:
        return dtypes

    def neutral_element(self, *dtypes: Any, callables_table: Any, target: Any) -> Any:
        return (1, 0), callables_table

    def __call__(self, dtypes: Any, one: Any, two: Any, callables_table: Any, target: Any) -> Any:
        return (one[0] * two[0], two[0] * one[1] + two[1]), callables_table

    def __str__(self) -> str:
        return "affine_maps"


lp.register_reduction_parser(lambda name: AffineMaps() if name == "affine_maps" else None)


def test_a_users_operation_across_groups(device: Any) -> None:
    """The recurrence x[i] = f[i]*x[i - 1] + a[i]: affine maps, composed."""
    knl = kernel("scale[i], out[i] = reduce(affine_maps, j, (f[j], a[j]))")
    knl = scanned(items(lp.add_and_infer_dtypes(knl, {"f": F64})))
    f = np.random.default_rng(2).random(50)
    expected = np.zeros(50)
    for i in range(50):
        expected[i] = f[i] * expected[i - 1] + A[i]
    np.testing.assert_allclose(run_on(device, knl, a=A, f=f)["out"], expected)


@pytest.mark.parametrize("rows", ["l.1", "for"])
def test_rows_across_groups(device: Any, rows: str) -> None:
    domain = "{[b, i, j]: 0 <= b < 5 and 3 <= j <= i < n}"
    knl = lanes(lp.tag_inames(kernel("out[b, i] = sum(j, a[b, j])", domain), {"b": rows}))
    a = np.random.default_rng(3).random((5, 40))
    found = run_on(device, scanned(knl), a=a, n=40)["out"]
    np.testing.assert_allclose(found[:, 3:], np.cumsum(a[:, 3:], axis=1))


def test_a_triangle_of_rows_across_groups(device: Any) -> None:
    domain = "{[b, i, j]: 0 <= b < m and 0 <= j <= i <= b}"
    square = lp.GlobalArg("a, out", F64, "m, m")
    knl = scanned(lanes(kernel("out[b, i] = sum(j, a[b, j])", domain, square)))
    a = np.random.default_rng(3).random((20, 20))
    found = run_on(device, knl, a=a, out=np.zeros((20, 20)))["out"]
    np.testing.assert_allclose(found, np.tril(np.cumsum(a, axis=1)))


def test_scans_share_launches(device: Any) -> None:
    scans = ["<> s = sum(j, a[j]) - 2*min(j, a[j])", "<> m = max(j, a[j])"]
    knl = scanned(lanes(kernel(["for i", *scans, "out[i] = s*m", "end"])))
    assert lp.generate_code_v2(knl).device_code().count("__kernel") == 3
    expected = np.cumsum(A) - 2 * np.minimum.accumulate(A)
    found = run_on(device, knl, a=A)["out"]
    np.testing.assert_allclose(found, expected * np.maximum.accumulate(A))


@pytest.mark.parametrize(
    ("calls", "launches"), [("s,lo,hi", 3), ("s,lo hi", 5), ("hi lo,s", 5), ("lo s hi", 7)]
)
def test_scans_store_in_one_loop(calls: str, launches: int) -> None:
    text = ["s[i] = sum(j, a[j]) {id=s}", "out[i] = min(j, a[j]) {id=lo}"]
    text.append("out[i] = max(j, a[j]) {id=hi, dep=lo}")
    knl = kernel(text, target=lp.ExecutableCTarget(threads=2))
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0")
    for names in calls.split():
        knl = scanned(knl, insn_id_filter=names)
    _, (out, s) = knl(a=A)
    np.testing.assert_array_equal(out, np.maximum.accumulate(A))
    np.testing.assert_allclose(s, np.cumsum(A))
    on_device = knl.copy(target=lp.OpenCLTarget())
    assert lp.generate_code_v2(on_device).device_code().count("__kernel") == launches


def test_a_scan_that_waits_for_another_has_launches_of_its_own(device: Any) -> None:
    text = [
        "s[i] = sum(j, a[j])     {id=s}",
        "... gbarrier            {id=done, dep=s}",
        "out[k] = sum(m, s[m])   {dep=done}",
    ]
    domains = [TRIANGLE, "{[k, m]: 0 <= m <= k < n}"]
    knl = lanes(kernel(text, domains, lp.GlobalArg("s", F64, "n", is_input=False)))
    knl = scanned(lp.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0"))
    assert lp.generate_code_v2(knl).device_code().count("__kernel") == 6
    found = run_on(device, knl, a=A)["out"]
    np.testing.assert_allclose(found, np.cumsum(np.cumsum(A)))


def test_values_that_later_launches_need(device: Any) -> None:
    knl = scanned(turns(kernel(["<> t = 2*a[i]", "b[i] = 1", "out[i] = t + sum(j, a[j])"])))
    knl = lp.save_and_reload_temporaries(knl)
    np.testing.assert_allclose(run_on(device, knl, a=A)["out"], np.cumsum(A) + 2 * A)


def test_targets_without_work_items_scan_in_order() -> None:
    target = lp.ExecutableCTarget(threads=1)
    knl = scanned(items(kernel(target=target)))
    assert lp.generate_body(knl).count("acc_j") == 3
    np.testing.assert_allclose(knl(a=A)[1][0], np.cumsum(A))


def test_threads_scan_blocks() -> None:
    knl = scanned(lp.split_iname(kernel(target=lp.ExecutableCTarget()), "i", 24, outer_tag="g.0"))
    assert str(lp.generate_code_v2(knl)).count("#pragma omp") == 2
    np.testing.assert_allclose(knl(a=A)[1][0], np.cumsum(A))


@pytest.mark.parametrize("calls", ["all,half", "half all"])
def test_threads_scan_in_order_inside_and_across_groups(calls: str) -> None:
    # work-items have halves of their own, but on threads, the other scan runs along them in order
    domains = ["{[i, j]: 0 <= j <= i < n}", "[i] -> {[k]: 0 <= 2*k <= i}"]
    text = ["all[i] = sum(j, a[j]) {id=all}", "half[i] = sum(k, a[k]) {id=half}"]
    knl = kernel(text, domains, target=lp.ExecutableCTarget(threads=2))
    knl = lp.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0")
    for names in calls.split():
        knl = scanned(knl, insn_id_filter=names)
    _, (found, half) = knl(a=A)
    np.testing.assert_allclose(found, np.cumsum(A))
    np.testing.assert_allclose(half, np.repeat(np.cumsum(A), 2)[: A.size])


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_a_fetch_in_the_loop_of_a_scan(threads: int) -> None:
    # the loop waits for launches, and runs in order; the fetch is on the axis that it had
    text = ["twice[i] = 2*a[i] + a[15 - i]", "out[i] = sum(j, b[j])"]
    data = lp.GlobalArg("a, b", F64, shape=16)
    knl = kernel(
        text, "{[i, j]: 0 <= j <= i < 16}", data, target=lp.ExecutableCTarget(threads=threads)
    )
    knl = scanned(lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"))
    space = lp.AddressSpace.LOCAL
    knl = lp.add_prefetch(
        knl, "a", "i_inner", "e", "l.0", temporary_address_space=space, fetch_bounding_box=True
    )
    _, (out, twice) = knl(a=A[:16], b=A[:16])
    np.testing.assert_allclose(twice, 2 * A[:16] + A[15::-1])
    np.testing.assert_allclose(out, np.cumsum(A[:16]))


def test_a_buffer_is_set_in_the_launch_of_the_loop_that_uses_it() -> None:
    text = ["s[i] = s[i] + 2*a[i]", "out[i] = sum(j, b[j])"]
    data = lp.GlobalArg("a, b, s", F64, shape=16)
    target = lp.ExecutableCTarget(threads=2)
    knl = kernel(text, "{[i, j]: 0 <= j <= i < 16}", data, target=target)
    knl = scanned(lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"))
    _, (s, out) = lp.buffer_array(knl, "s", "i_inner")(a=A[:16], b=A[:16], s=np.ones(16))
    np.testing.assert_allclose(s, 1 + 2 * A[:16])
    np.testing.assert_allclose(out, np.cumsum(A[:16]))


def test_automatic_scans_take_no_launches_more() -> None:
    knl = lp.realize_reduction(lanes(kernel()), automagic_scans_ok=True)
    assert lp.generate_code_v2(knl).device_code().count("__kernel") == 1


def test_neighbours_in_one_work_item(device: Any) -> None:
    knl = lp.split_iname(lp.split_iname(kernel(), "i", 16), "i_inner", 4, outer_tag="l.0")
    check(scanned(knl), n=29)
    np.testing.assert_allclose(run_on(device, scanned(knl), a=A)["out"], np.cumsum(A))


# -- what is no scan ------------------------------------------------------------------------------


def test_values_that_are_left_out_again() -> None:
    with pytest.raises(lp.ReductionIsNotTriangularError) as info:
        scanned(kernel("out[i] = sum(j, a[j])", "{[i, j]: 0 <= i <= j < n}"))
    assert "j = 0 counts at an earlier step of 'i', but not at n = 2, i = 1" in str(info.value)


def test_a_sum_that_is_the_same_everywhere() -> None:
    with pytest.raises(lp.ReductionIsNotTriangularError, match="the same value at every step"):
        scanned(kernel("out[i] = sum(j, a[j])", "{[i, j]: 0 <= i, j < n}"))


def test_operands_that_change_along_the_loop() -> None:
    with pytest.raises(lp.ReductionIsNotTriangularError, match="depends on 'i'"):
        scanned(kernel("out[i] = sum(j, i*a[j])"))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a[i] = sum(j, a[j])", "'insn' writes 'a', which the scan .* reads"),
        ("out[i] = sum(j, a[j]) {if=i > 3}", "under the condition 'i > 3'"),
        ("out[i] = if(a[i] > 3, sum(j, a[j]), 0)", "under the condition 'i > 3'|a.i. > 3"),
    ],
)
def test_scans_that_would_read_or_skip_something_else(text: str, match: str) -> None:
    with pytest.raises(lp.TransformError, match=match):
        scanned(kernel(text, TRIANGLE, lp.GlobalArg("a", F64, "n")))


@pytest.mark.parametrize(
    ("tag", "match"),
    [("ilp", "cannot run along 'i', tagged 'ilp.unr'"), ("l.0", "is not fixed")],
)
def test_loops_that_a_scan_cannot_run_along(tag: str, match: str) -> None:
    with pytest.raises(lp.TransformError, match=match):
        scanned(lp.tag_inames(kernel(), {"i": tag}))


def test_bounds_that_change_from_step_to_step() -> None:
    text = ["<> m = last[i] {id=m}", "out[i] = sum(j, a[j]) {dep=m}"]
    knl = kernel(
        text, ["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i and j < m}"], lp.GlobalArg("a", F64, "n")
    )
    knl = lp.add_and_infer_dtypes(knl, {"last": np.int32})
    with pytest.raises(lp.ReductionIsNotTriangularError, match="'m', which instruction 'm' sets"):
        scanned(knl)


def test_sums_inside_whose_bounds_change_from_step_to_step() -> None:
    knl = kernel("out[i] = sum(j, sum(k, a[j, k]))", "{[i, j, k]: 0 <= j, k <= i < n}")
    with pytest.raises(lp.ReductionIsNotTriangularError, match="bounds that depend on 'i'"):
        scanned(knl)
    knl = kernel("out[i] = sum(j, sum(k, a[j, k]))", "{[i, j, k]: 0 <= k <= j <= i < n}")
    a = A.reshape(10, 5)[:5]
    np.testing.assert_allclose(run(scanned(knl), a=a)["out"], np.cumsum(np.tril(a).sum(1)))


def test_automatic_scans_leave_other_sums_alone() -> None:
    text = ["out[i] = sum(j, a[j])", "same[i] = sum(k, a[k])"]
    knl = kernel(text, ["{[i, j]: 0 <= j <= i < n}", "{[k]: 0 <= k < n}"])
    knl = lp.realize_reduction(knl, automagic_scans_ok=True)
    assert instructions(knl)[3:5] == ["i: acc_k = 0.0", "i,k: acc_k = acc_k + a[k]"]
    found = run(knl, a=A)
    np.testing.assert_allclose(found["out"], np.cumsum(A))
    np.testing.assert_allclose(found["same"], A.sum())


def test_the_loop_along_which_a_scan_runs(device: Any) -> None:
    knl = lp.split_iname(kernel(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = scanned(knl, force_outer_iname_for_scan="i_inner")
    check(knl, n=20)
    np.testing.assert_allclose(run_on(device, knl, a=A)["out"], np.cumsum(A))
    with pytest.raises(lp.ReductionIsNotTriangularError, match="not inside the loop 'j'"):
        scanned(kernel(), force_outer_iname_for_scan="j")


@pytest.mark.parametrize("option", ["force_scan", "automagic_scans_ok"])
def test_a_scan_also_runs_along_the_inner_loop_of_another(option: str) -> None:
    # every second value: nothing is new along i_inner, which would be around i_outer otherwise
    domains = ["{[i, j]: 0 <= j <= i < n}", "[i] -> {[k]: 0 <= k <= i and k mod 2 = 0}"]
    text = ["all[i] = sum(j, a[j])     {inames=i}", "even[i] = sum(k, a[k])  {inames=i}"]
    wanted: Any = {option: True}
    knl = lp.realize_reduction(lp.split_iname(kernel(text, domains), "i", 2), **wanted)
    check(knl, n=9)
    assert "for (int k" not in lp.generate_body(knl.copy(target=lp.CTarget()))
    found = run(knl, a=A)
    np.testing.assert_allclose(found["all"], np.cumsum(A))
    np.testing.assert_allclose(found["even"], np.cumsum(A * (np.arange(50) % 2 == 0)))


def test_scans_that_need_loops_in_other_orders_are_refused() -> None:
    domains = ["{[o, i, j]: 0 <= o < n and 0 <= i < 2 and 0 <= j <= 2*o + i}"]
    domains += ["[o] -> {[k]: 0 <= k <= o}"]
    text = ["all[o, i] = sum(j, a[j]) {id=all, inames=o:i}", "b[o, i] = sum(k, (i + 1)*a[k])"]
    knl = kernel(text, domains)
    with pytest.raises(lp.TransformError, match="'o' around 'i', and another one"):
        scanned(knl)
    found = run(lp.realize_reduction(knl, automagic_scans_ok=True), a=A, n=25)
    np.testing.assert_allclose(found["all"].ravel(), np.cumsum(A))
    knl = scanned(lp.duplicate_inames(knl, "o,i", within="id:all"))
    found = run(knl, a=A, n=25)
    np.testing.assert_allclose(found["all"].ravel(), np.cumsum(A))
    np.testing.assert_allclose(found["b"], np.outer(np.cumsum(A[:25]), [1, 2]))


# -- lanes of warps ---------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "n_barriers"), [(8, 2), (32, 2), (128, 2), (48, 2)])
def test_lanes_of_a_warp_need_no_barrier_among_them(size: int, n_barriers: int) -> None:
    knl = scanned(blocks(kernel(target=lp.CudaTarget()), size))
    text = lp.generate_body(knl)
    assert len(re.findall("__sync(?:threads|warp)", text)) == n_barriers
    assert "__shfl_up_sync" in text


@pytest.mark.parametrize("operation", ["sum(j, a[j])", "max(j, a[j])"])
def test_scans_in_warps_are_verified(operation: str) -> None:
    knl = kernel(f"out[i] = {operation}", "{[i, j]: 0 <= j <= i < 40}", target=lp.CudaTarget())
    report = lp.verify(scanned(blocks(knl, 8)))
    assert report.ok, report


def test_scans_in_warps_compile(nvcc: str, tmp_path: Path) -> None:
    text = ["out[i] = sum(j, a[j])", "v[i], k[i] = argmin(j, a[j], j)"]
    knl = scanned(blocks(kernel(text, target=lp.CudaTarget()), 96))
    compile_cuda(lp.generate_code_v2(knl).device_code(), tmp_path, nvcc)


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("size", [2, 8, 32, 48, 128, 1024])
def test_scans_on_cuda(size: int) -> None:
    for tag in (None, "g.0"):
        knl = kernel(target=lp.PyCudaTarget())
        knl = scanned(lp.split_iname(knl, "i", size, outer_tag=tag, inner_tag="l.0"))
        a = np.random.default_rng(0).random(5000)
        _, (found,) = knl(a=a)
        np.testing.assert_allclose(found, np.cumsum(a))
