"""Fixed parameters and assumptions."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

import kgen as lp
from kgen.ir.sets.text import parse_assumptions
from tests.transforms.helpers import instructions, kernel_of, run


def scaled() -> lp.TranslationUnit:
    data = [lp.ValueArg("alpha", np.float32), lp.GlobalArg("a", np.float32, "n, 2*n"), ...]
    return lp.make_kernel(
        "{[i]: 0 <= i < n}", "b[i] = alpha*a[i, n - 1] + n", data, assumptions="n mod 4 = 0"
    )


def test_a_fixed_size_is_gone_everywhere() -> None:
    knl = kernel_of(lp.fix_parameters(scaled(), n=8))
    assert str(knl.domains[0]) == "{ [i] : 0 <= i <= 7 }"
    assert instructions(knl) == ["i: b[i] = alpha*a[i, 7] + 8"]
    assert knl.array_vars["a"].shape == (8, 16)
    assert "n" not in knl.arg_dict
    assert knl.assumptions.is_equal(parse_assumptions(None))


def test_a_fixed_value_keeps_its_type() -> None:
    knl = kernel_of(lp.fix_parameters(scaled(), alpha=0.1))
    assert "alpha" not in knl.arg_dict
    (insn,) = knl.instructions
    assert isinstance(insn, lp.Assignment)
    factor = insn.expression.children[0].children[0]
    assert isinstance(factor, np.float32)


def test_fixed_kernels_compute_the_same() -> None:
    fixed = lp.fix_parameters(scaled(), n=4, alpha=2.5)
    a = np.random.default_rng(0).random((4, 8)).astype(np.float32)
    np.testing.assert_allclose(run(fixed, a=a)["b"], run(scaled(), a=a, alpha=2.5)["b"])


def test_within_fixes_in_some_instructions_only() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", ["a[i] = n {id=one}", "b[i] = n {id=two}"])
    fixed = lp.fix_parameters(knl, n=4, within="id:two")
    assert instructions(fixed) == ["i: a[i] = n", "i: b[i] = 4"]
    assert "n" in kernel_of(fixed).arg_dict


def test_rule_arguments_are_no_parameters() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", ["f(n) := 2*n", "g(x) := n*x", "a[i] = f(g(i))"])
    rules = kernel_of(lp.fix_parameters(knl, n=4)).substitutions
    assert [str(rule) for rule in rules.values()] == ["f(n) := 2*n", "g(x) := 4*x"]


def test_fixed_parameters_that_a_new_kernel_does_not_have_are_left_out() -> None:
    data = [lp.GlobalArg("a", np.float32, shape="rows, 4")]
    values = {"rows": 2, "unused": 7}
    made = lp.make_kernel("{[i]: 0 <= i < 4}", "a[1, i] = 1", data, fixed_parameters=values)
    later = lp.make_kernel("{[i]: 0 <= i < 4}", "a[1, i] = 1", data)
    assert lp.fix_parameters(later, rows=2) == made
    array = kernel_of(made).arg_dict["a"]
    assert isinstance(array, lp.ArrayArg)
    assert array.shape == (2, 4)


def test_sizes_stay_integers_whatever_they_are_declared_as() -> None:
    data = [lp.GlobalArg("a", np.float32, "n + 2*h"), lp.ValueArg("h, x", np.float64), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "a[i + h] = x + 1", data)
    fixed = lp.fix_parameters(knl, h=1, x=2)
    assert instructions(fixed) == ["i: a[i + 1] = 2.0 + 1"]
    assert str(kernel_of(fixed).arg_dict["a"]).startswith(
        "a: type: np:dtype('float32'), shape: (n + 2)"
    )


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"i": 3}, "there is no parameter 'i'"),
        ({"n": 4, "alhpa": 3}, "there is no parameter 'alhpa'\n  hint: did you mean 'alpha'"),
        ({"a": 3}, "there is no parameter 'a'"),
        ({"n": 2.5}, "'n' bounds a loop or an array and cannot be 2.5"),
        ({"n": "8"}, "the value '8' of 'n' is not a number"),
        ({"n": 6}, "n=6 contradicts the assumptions"),
    ],
)
def test_what_cannot_be_fixed(values: dict[str, object], what: str) -> None:
    with pytest.raises(lp.TransformError, match=what):
        lp.fix_parameters(scaled(), **values)


def test_kernels_of_a_program_take_the_values_that_they_have() -> None:
    callee = lp.make_function("{[i]: 0 <= i < 4}", "out[i] = a[i] + shift", name="shifted")
    caller = lp.make_kernel("{[k]: 0 <= k < 4}", "out[k] = a[k]*factor", name="scaled")
    program = lp.merge([caller, callee])
    fixed = lp.fix_parameters(program, factor=2, shift=1)
    assert [k.arg_dict.keys() & {"factor", "shift"} for k in fixed.kernels()] == [set(), set()]
    with pytest.raises(lp.TransformError, match="'scaled', 'shifted': there is no parameter 'x'"):
        lp.fix_parameters(program, factor=2, x=1)


def test_c_code_that_names_the_parameter_is_refused() -> None:
    insn = lp.CInstruction("i", "a[i] = n;", read_variables="n", assignees="a[i]", id="c")
    data = [lp.GlobalArg("a", np.float32, "n"), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", [insn], data)
    with pytest.raises(lp.TransformError, match="'n' cannot be replaced in the C code"):
        lp.fix_parameters(knl, n=4)


def test_assumptions_add_up() -> None:
    knl = lp.assume(lp.assume(scaled(), "n >= 1"), "n <= 12")
    expected = parse_assumptions("n mod 4 = 0 and 1 <= n <= 12")
    assert kernel_of(knl).assumptions.is_equal(expected)
    with pytest.raises(lp.TransformError, match="'n = 2' contradicts the assumptions"):
        lp.assume(knl, "n = 2")


def test_a_loop_left_without_values_takes_no_other_loop_along() -> None:
    domain = "{ [i, j, k]: 0 <= i < n and 3 <= j < n - 2 and i <= k < 3*i and k mod 2 = 0 }"
    knl = lp.make_kernel(domain, "a[i, k] = 1\nb[j] = 2", assumptions="n >= 1")
    fixed = lp.fix_parameters(knl, n=4).default_entrypoint
    assert fixed.domain_of(("j",)).is_empty()
    assert fixed.domain_of(("i", "k")).count_val().to_python() == 6


def test_a_loop_left_with_one_value_still_needs_those_inside() -> None:
    domain = "{ [i, j, k]: 3 <= i < n and i < j < m and 0 <= k < 2 }"
    text = "a[0] = 1 {inames=i}\nb[j] = 2 {inames=i:j}\nc[k] = 3 {inames=k}"
    data = [lp.GlobalArg("a, b", np.int32, shape="m"), lp.GlobalArg("c", np.int32, shape=2), ...]
    knl = lp.make_kernel(domain, text, data, assumptions="n <= m", target=lp.CTarget())
    fixed = lp.fix_parameters(knl, n=4).default_entrypoint
    for name in "ij":
        assert fixed.domain_of((name,)).params().is_equal(isl.Set("[m] -> { : m >= 5 }"))
    assert fixed.domain_of(("k",)).params().is_equal(isl.Set("{ : }"))
    assert "if (m >= 5)" in lp.generate_code_v2(fixed).device_code()


@pytest.mark.parametrize("given", ["off >= 0", isl.Set("[off] -> { : off >= 0 }")])
def test_integer_temporaries_can_be_assumed_about(given: Any) -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < 8}",
        ["off = 3", "w[i] = x[i + off]"],
        [lp.TemporaryVariable("off", "int32"), lp.GlobalArg("x", "float32", shape=None), "..."],
    )
    assert "off" in str(lp.assume(knl, given).default_entrypoint.assumptions)


def test_loops_of_a_sum_that_a_value_leaves_without_iterations() -> None:
    knl = lp.make_kernel(
        "{ [i, r]: 0 <= i < n and 3 <= r < m - 2 }",
        "out[i] = sum(r, a[r])",
        [lp.GlobalArg("a, out", np.float64, shape="n + m"), "..."],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.fix_parameters(lp.split_iname(knl, "r", 2), m=4)
    assert knl.default_entrypoint.inames.keys() == {"i", "r_outer", "r_inner"}
    _, (out,) = knl(a=np.ones(9), n=5, out=np.ones(9))
    assert out.tolist() == [0] * 5 + [1] * 4
