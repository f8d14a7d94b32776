"""Reductions as loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import (
    assert_same_results,
    dependencies,
    instructions,
    kernel_of,
    run,
)

F64 = np.float64


def realized(
    text: str | list[str], domain: str, data: list[Any] | None = None, **dtypes: Any
) -> Any:
    knl = lp.make_kernel(domain, text, [*(data or []), ...])
    return lp.realize_reduction(lp.add_and_infer_dtypes(knl, dtypes).default_entrypoint)


def test_a_sum_is_set_updated_and_read() -> None:
    knl = realized("c[i] = sum(k, a[i, k])", "{[i, k]: 0 <= i, k < n}", a=F64)
    assert instructions(knl) == [
        "i: acc_k = 0.0",
        "i,k: acc_k = acc_k + a[i, k]",
        "i: c[i] = acc_k",
    ]
    assert dependencies(knl) == {"insn_k_update": "insn_k_init", "insn": "insn_k_update"}
    accumulator = knl.temporary_variables["acc_k"]
    assert (accumulator.dtype.numpy_dtype, accumulator.shape) == (np.dtype(F64), ())
    assert accumulator.address_space == lp.AddressSpace.PRIVATE


def test_dependencies_go_to_the_accumulator() -> None:
    text = ["b[i] = i {id=b}", "c[i] = sum(k, b[k]) {id=c, dep=b}"]
    knl = realized(text, "{[i, k]: 0 <= i, k < n}", [lp.GlobalArg("b", F64, shape="n")])
    assert dependencies(knl) == {"c_k_init": "b", "c_k_update": "b,c_k_init", "c": "b,c_k_update"}


def test_sums_of_one_instruction_share_a_loop() -> None:
    knl = realized("c[i] = sum(k, a[i, k]) + sum(k, b[k])", "{[i, k]: 0 <= i, k < n}", a=F64, b=F64)
    assert instructions(knl)[1::2][:2] == [
        "i,k: acc_k = acc_k + a[i, k]",
        "i,k: acc_k_0 = acc_k_0 + b[k]",
    ]


def test_sums_of_two_instructions_do_not() -> None:
    # The second sum needs the finished first one: no single loop can compute both.
    text = ["s = sum(k, a[k]) {id=s}", "c = sum(k, a[k]/s) {id=c}"]
    knl = realized(text, "{[k]: 0 <= k < n}", [lp.TemporaryVariable("s", F64)], a=F64)
    assert instructions(knl)[4] == "k_0: acc_k_0 = acc_k_0 + a[k_0] / s"
    assert str(knl.domains[1]) == "[n] -> { [k_0] : 0 <= k_0 < n }"


def test_a_loop_of_that_name_stays_to_others() -> None:
    text = ["b[k] = 2*a[k]", "c = sum(k, a[k])"]
    knl = realized(text, "{[k]: 0 <= k < n}", a=F64)
    assert instructions(knl)[2] == "k_0: acc_k = acc_k + a[k_0]"


def test_simultaneous_reductions_share_a_loop() -> None:
    text = ["c = simul_reduce(sum, k, a[k])", "d = simul_reduce(max, k, a[k])"]
    knl = realized(text, "{[k]: 0 <= k < n}", a=F64)
    assert set(knl.inames) == {"k"}


def test_nested_sums() -> None:
    knl = realized(
        "c[i] = sum(k, a[i, k]*sum(l, b[l]))",
        "{[i, k, l]: 0 <= i, k < n and 0 <= l <= k}",
        a=F64,
        b=F64,
    )
    assert instructions(knl) == [
        "i: acc_k = 0.0",
        "i,k: acc_l = 0.0",
        "i,k,l: acc_l = acc_l + b[l]",
        "i,k: acc_k = acc_k + a[i, k]*acc_l",
        "i: c[i] = acc_k",
    ]
    assert dependencies(knl)["insn_k_update"] == "insn_k_init,insn_l_update"


def test_bounds_of_an_inner_sum_follow_the_copy_around_it() -> None:
    text = ["c = sum(k, sum(l, a[k, l])) {id=c}", "d = sum(k, sum(l, a[l, k])) {id=d}"]
    knl = realized(text, "{[k, l]: 0 <= k < n and 0 <= l <= k}", a=F64)
    assert instructions(knl)[7] == "k_0,l_0: acc_l_0 = acc_l_0 + a[l_0, k_0]"
    assert str(knl.domains[2]) == "[n, k_0] -> { [l_0] : 0 <= l_0 <= k_0 }"
    a = np.random.default_rng(1).random((5, 5))
    unit = lp.make_kernel("{[k, l]: 0 <= k < n and 0 <= l <= k}", text)
    results = run(unit, a=a)
    np.testing.assert_allclose(results["c"], np.tril(a).sum())
    np.testing.assert_allclose(results["d"], np.tril(a.T).sum())


def test_a_sum_inside_of_a_sum_over_the_same_variable() -> None:
    knl = realized("c = sum(k, a[k]*reduce(sum, k, a[k]))", "{[k]: 0 <= k < n}", a=F64)
    assert instructions(knl)[2] == "k,k_0: acc_k_0 = acc_k_0 + a[k_0]"


def test_a_sum_does_not_bound_the_sum_around_it() -> None:
    domains = ["{[j]: 0 <= j < n}", "{[k]: 0 <= k <= j}"]
    knl = lp.make_kernel(domains, "c = sum(k, a[k]*sum(j, a[j]))")
    knl = lp.add_and_infer_dtypes(knl, {"a": F64})
    with pytest.raises(lp.TransformError, match="a loop around the reduction over 'j' depend on"):
        lp.realize_reduction(knl)


def test_several_inames_give_one_accumulator() -> None:
    knl = realized("c = sum((k, l), a[k, l])", "{[k, l]: 0 <= k, l < n}", a=F64)
    assert instructions(knl)[1] == "k,l: acc_k_l = acc_k_l + a[k, l]"
    assert kernel_of(knl).instructions[1].id == "insn_k_l_update"


def test_predicates_go_to_the_accumulator() -> None:
    knl = realized("c[i] = sum(k, a[i, k]) {if=i > 3}", "{[i, k]: 0 <= i, k < n}", a=F64)
    assert {str(*insn.predicates) for insn in knl.instructions} == {"i > 3"}


def test_a_branch_is_computed_where_it_is_taken() -> None:
    text = "c[i] = if(i > 0, sum(k, a[i - 1, k]), 0)"
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < n}", text, [lp.GlobalArg("a", F64, "n, n"), ...])
    typed = lp.add_and_infer_dtypes(knl, {}).default_entrypoint
    lines = lp.realize_reduction(typed).instructions
    assert [str(*insn.predicates) for insn in lines] == ["i > 0", "i > 0", ""]
    a = np.random.default_rng(2).random((4, 4))
    np.testing.assert_allclose(run(knl, a=a)["c"], [0, *a.sum(axis=1)[:3]])


def test_a_branch_waits_for_a_condition_that_is_a_sum() -> None:
    text = "c = if(sum(k, a[k]) > 1, sum(k, b[k]), 0)"
    knl = realized(text, "{[k]: 0 <= k < n}", a=F64, b=F64)
    assert dependencies(knl)["insn_k_init_0"] == "insn_k_update"
    assert [str(*insn.predicates) for insn in knl.instructions] == (
        ["", "", "acc_k > 1", "acc_k > 1", ""]
    )
    assert instructions(knl)[3] == "k_0: acc_k_0 = acc_k_0 + b[k_0]"


def test_a_condition_of_an_instruction_that_is_a_sum() -> None:
    knl = realized("c[i] = 1 {if=sum(k, a[k]) > 2}", "{[i, k]: 0 <= i, k < n}", a=F64)
    assert [str(*insn.predicates) for insn in knl.instructions] == ["", "", "acc_k > 2"]
    assert dependencies(knl)["insn"] == "insn_k_update"


def test_argmin_updates_value_and_index_together() -> None:
    text = "c[i], d[i] = argmin(k, a[i, k], k) {id=m}\ne[i] = c[i] {dep=m}"
    knl = lp.make_kernel(
        "{[i, k]: 0 <= i, k < n}", text, [lp.GlobalArg("c", shape="n", is_input=False), ...]
    )
    a = np.random.default_rng(3).integers(0, 4, (6, 6)).astype(F64)
    results = run(knl, a=a)
    np.testing.assert_array_equal(results["c"], a.min(axis=1))
    np.testing.assert_array_equal(results["d"], a.argmin(axis=1))
    np.testing.assert_array_equal(results["e"], a.min(axis=1))
    typed = lp.add_and_infer_dtypes(knl, {"a": F64}).default_entrypoint
    assert lp.generate_body(typed).count("operand_k == acc_k && k < acc_k_0") == 1
    found = lp.realize_reduction(typed)
    stores = [insn.id for insn in found.instructions if insn.id in ("m", "m_0")]
    assert stores == ["m", "m_0"]
    last = next(insn for insn in found.instructions if insn.assignee_var_names() == ("e",))
    assert {"m", "m_0"} <= last.depends_on


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("sum", np.sum), ("product", np.prod), ("max", np.max), ("min", np.min)],
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_operations_on_types(operation: str, expected: Any, dtype: Any) -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < n}", f"c[i] = {operation}(k, a[i, k])")
    a = np.random.default_rng(4).integers(-3, 4, (5, 5)).astype(dtype)
    found = run(knl, a=a)["c"]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected(a, axis=1))


def test_any_real_number_can_be_carried_along_with_the_least_value() -> None:
    data: list[Any] = [lp.GlobalArg("a,e", F64, shape=(4, 6)), lp.GlobalArg("d", F64, shape=4), ...]
    knl = lp.make_kernel(
        "{[i,k]: 0<=i<4 and 0<=k<6}", "c[i], d[i] = argmin(k, a[i,k], e[i,k])", data
    )
    a, e = np.random.default_rng(5).integers(0, 4, (2, 4, 6)).astype(F64)
    expected = [min(zip(*rows, strict=True))[1] for rows in zip(a, e, strict=True)]
    np.testing.assert_array_equal(run(knl, a=a, e=e)["d"], expected)


def test_two_values_are_not_one() -> None:
    knl = lp.make_kernel("{[k]: 0 <= k < n}", "c, d = argmin(k, a[k], k) {id=m}")
    knl = lp.add_and_infer_dtypes(knl, {"a": F64})
    bad = knl.default_entrypoint.id_to_insn["m"]
    several = bad.copy(assignees=bad.assignees[:1], temp_var_types=(None,))
    broken = knl.default_entrypoint.copy(instructions=(several,))
    with pytest.raises(lp.TransformError, match="has 2 values and is assigned to 1 places"):
        lp.realize_reduction(broken)


def test_chosen_instructions_and_their_outermost_reductions_only() -> None:
    text = ["c = sum(k, a[k]*sum(l, a[l])) {id=c}", "d = sum(k, a[k]) {id=d}"]
    knl = lp.make_kernel("{[k, l]: 0 <= k, l < n}", text)
    typed = lp.add_and_infer_dtypes(knl, {"a": F64}).default_entrypoint
    assert instructions(lp.realize_reduction(typed, insn_id_filter="c"))[1:] == [
        "k: acc_k = acc_k + a[k]*reduce(sum, [l], a[l])",
        ": c = acc_k",
        ": d = reduce(sum, [k], a[k])",
    ]


@pytest.mark.parametrize("unknown_types_ok", [True, False])
def test_types_of_temporaries_are_inferred(unknown_types_ok: bool) -> None:
    text = "<> t[k] = a[i]*k {id=t}\nc[i] = max(k, t[k]) {id=c, dep=t}"
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < 4}", text, [lp.GlobalArg("a", F64, shape=4), ...])
    found = lp.realize_reduction(knl, unknown_types_ok=unknown_types_ok)
    assert [*kernel_of(found).id_to_insn] == ["t", "c_k_init", "c_k_update", "c"]
    assert_same_results(knl, found, {"a": np.arange(4.0)})


def test_copies_stop_where_an_inner_sum_has_the_name_again() -> None:
    text = ["b[k] = 1", "c = sum(k, a[k]*reduce(sum, k, a[k]))"]
    found = run(lp.make_kernel("{[k]: 0 <= k < n}", text), a=np.arange(4.0))
    assert found["c"] == 36


@pytest.mark.parametrize("insns", ["first", "second", "first, second"])
def test_inner_reductions_that_stay_are_bounded_by_the_copies(insns: str) -> None:
    """The loop over j of the second sum is a copy, and bounds the loops inside it."""
    knl = lp.make_kernel(
        "{ [i, j, k, m]: 0 <= i < 3 and 0 <= j < 7 and 0 <= k <= j and k <= m <= j }",
        """
        out[i] = sum((j, k), a[i, j]*b[k])*sum(j, a[i, j]*max(k, b[k] + sum(m, b[m]))) {id=first}
        c = sum(j, b[j]*product(k, a[0, k])) {id=second}
        """,
        [lp.GlobalArg("a", F64, shape=(3, 7)), lp.GlobalArg("b", F64, shape=7), ...],
        target=lp.ExecutableCTarget(),
    )
    a, b = np.cos(np.arange(21.0)).reshape(3, 7), np.sin(np.arange(7.0))
    part = lp.realize_reduction(knl, insn_id_filter=insns)
    for result, wanted in zip(part(a=a, b=b)[1], knl(a=a, b=b)[1], strict=True):
        np.testing.assert_allclose(result, wanted)


@pytest.mark.parametrize(
    ("operation", "start"), [("sum", "0"), ("product", "1"), ("any", "False"), ("all", "True")]
)
def test_accumulators_of_unknown_types_get_them_later(operation: str, start: str) -> None:
    unit = lp.make_kernel("{[i, k]: 0 <= i, k < n}", f"c[i] = {operation}(k, a[i, k])")
    assert instructions(kernel_of(lp.realize_reduction(unit)))[0] == f"i: acc_k = {start}"
    assert_same_results(unit, lp.realize_reduction(unit), {"a": np.tri(4)})


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex64, np.bool_])
def test_accumulators_get_the_type_that_the_sum_has(dtype: Any) -> None:
    unit = lp.make_kernel("{[i, k]: 0 <= i, k < n}", "c[i] = sum(k, a[i, k])")
    later = lp.add_and_infer_dtypes(lp.realize_reduction(unit), {"a": dtype}).default_entrypoint
    unit = lp.add_and_infer_dtypes(unit, {"a": dtype})
    assert later.arg_dict["c"].dtype == unit.default_entrypoint.arg_dict["c"].dtype
    assert later.temporary_variables["acc_k"].dtype == later.arg_dict["c"].dtype


def test_later_sums_of_16_bit_numbers_have_32_bits() -> None:
    unit = lp.make_kernel("{[i, k]: 0 <= i, k < n}", "c[i] = sum(k, a[i, k])")
    later = lp.add_dtypes(lp.realize_reduction(unit), {"a": np.float16})
    typed = lp.infer_unknown_types(later).default_entrypoint
    assert typed.temporary_variables["acc_k"].dtype.numpy_dtype == np.dtype(np.float32)


def test_sums_of_unknown_types_inside_of_sums_and_as_scans() -> None:
    nested = lp.make_kernel(
        "{[i, k, l]: 0 <= i, k, l < n}", "c[i] = sum(k, a[i, k]*sum(l, a[l, k]))"
    )
    a = np.random.default_rng(5).random((4, 4))
    assert_same_results(nested, lp.realize_reduction(nested), {"a": a})
    scan = lp.make_kernel("{[i, k]: 0 <= k <= i < n}", "c[i] = sum(k, b[k])")
    assert_same_results(scan, lp.realize_reduction(scan, force_scan=True), {"b": a[0]})


def test_what_needs_types_is_left_or_rejected() -> None:
    text = ["c[i] = sum(k, a[i, k]) + max(k, a[i, k])", "d[i] = max(k, k)"]
    unit = lp.realize_reduction(lp.make_kernel("{[i, k]: 0 <= i, k < n}", text))
    assert [insn.has_reductions for insn in kernel_of(unit).instructions] == [True, *3 * [False]]
    unit = lp.make_kernel("{[i, k]: 0 <= i, k < n}", "c[i] = sum(k, a[i, k])")
    with pytest.raises(lp.TypeInferenceFailure, match="the type of 'a' is not known"):
        lp.realize_reduction(unit, unknown_types_ok=False)
