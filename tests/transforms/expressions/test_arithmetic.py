"""Constants folded, common factors collected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import assert_same_results, instructions


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("2*3", "6"),
        ("2*a[i]*3", "6*a[i]"),
        ("2*(3*a[i])", "6*a[i]"),
        ("1 + a[i] + 2", "a[i] + 3"),
        ("(1 + a[i]) + (2 + b[i])", "a[i] + b[i] + 3"),
        ("a[i] + 1 - 1", "a[i]"),
        ("7 // 2 + 7 % 4", "6"),
        ("(-7) // 2", "-4"),
        ("4/2*a[i]", "(4 / 2)*a[i]"),  # a float64 beside integers
        ("0.1*5*a[i] + 3.0/7.0", "0.1*5*a[i] + 3.0 / 7.0"),
        ("a[i]*0.3*2", "0.6*a[i]"),
        ("a[i + 2*3]", "a[i + 6]"),
        ("2**10*a[i]", "1024*a[i]"),
        ("sqrt(2*2)", "sqrt(4)"),
        ("sum(k, (1 + 1)*a[k])", "reduce(sum, [k], 2*a[k])"),
        ("a[i] + 1", "a[i] + 1"),
        ("0*a[i]", "0*a[i]"),  # which may be infinite
        ("1/0*a[i]", "(1 / 0)*a[i]"),
    ],
)
def test_what_consists_of_numbers_is_computed(text: str, after: str) -> None:
    domain = "{ [i, k]: 0<=i,k<4 }"
    knl = lp.make_kernel(domain, f"out[i] = {text}")
    insn = lp.fold_constants(knl, fast_math=True).default_entrypoint.instructions[0]
    assert str(insn).partition(" = ")[2].partition("  {")[0] == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("2*a[i]*3", "2*a[i]*3"),
        ("2*3*a[i]*3", "6*a[i]*3"),
        ("2*(3*a[i])", "2*(3*a[i])"),
        ("1 + a[i] + 2 + (1 + 2)", "1 + a[i] + 2 + 3"),
        ("1 + 2 + a[1 + i + 2]", "3 + a[i + 3]"),
        ("a[i] + 1 - 1", "a[i] + 1 - 1"),
        ("a[i] + 0*3 - 7 // 2", "a[i] + 0 - 3"),
        ("0 + a[i] + 0", "0 + a[i] + 0"),  # 0.0 if a[i] is -0.0
        ("a[i] - 0 - 0*3 + 1 - 1", "a[i] + 1 - 1"),
        ("0.1*3*a[i]", "0.1*3*a[i]"),  # may be rounded to the type of a twice
        ("0.5*3*a[i] + 0.1**3", "1.5*a[i] + 0.1**3"),
        ("1e300**4*a[i]", "(1e+300)**4*a[i]"),
    ],
)
def test_real_numbers_are_added_in_the_order_that_was_written(text: str, after: str) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", f"out[i] = {text}")
    insn = lp.fold_constants(knl).default_entrypoint.instructions[0]
    assert str(insn).partition(" = ")[2].partition("  {")[0] == after


def test_constants_of_rules_are_folded() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", "f(x) := 2*3*x\nout[i] = f(i)")
    (rule,) = lp.fold_constants(knl).default_entrypoint.substitutions.values()
    assert str(rule) == "f(x) := 6*x"


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
def test_folded_kernels_compute_the_same(dtype: str) -> None:
    text = "out[i] = 2*a[i]*3 + (1 + 2) - 5*(a[i] + 4)*2"
    knl = lp.make_kernel("{ [i]: 0<=i<6 }", text)
    assert_same_results(knl, lp.fold_constants(knl), {"a": np.arange(6).astype(dtype)})


def test_no_zero_is_added_to_integers() -> None:
    data = [lp.GlobalArg("a", np.int32, shape=6), lp.GlobalArg("out", np.int64, shape=6)]
    knl = lp.make_kernel("{ [i]: 0<=i<6 }", "out[i] = 0 + 2*a[i] + 0*4", data)
    assert instructions(lp.fold_constants(knl)) == ["i: out[i] = 2*a[i]"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prepare", [lambda knl: knl, lambda knl: lp.tag_inames(knl, "i:unr")])
def test_every_bit_of_real_results_stays(dtype: Any, prepare: Any) -> None:
    numbers = ["0", "0*3", "0.1*3", "(2 - 2)", "0.0", "1", "0.1 + 0.7"]
    texts = [
        f"{a} {op} {b}" for x in numbers for op in "+-*" for a, b in ((x, "a[i]"), ("a[i]", x))
    ]
    texts += [
        "-(0*a[i])",
        "a[i] - a[i]",
        "a[i]/a[i]",
        "a[i]**0",
        "0.1**3*a[i]",
        "a[i] + i - i*a[i]",
    ]
    values = np.array([0.0, -0.0, np.nan, np.inf, -1.5, 1e-45], dtype)
    lines = [f"out[{k}, i] = {text}" for k, text in enumerate(texts)]
    data = [lp.GlobalArg("a", dtype), lp.GlobalArg("out", dtype, shape=(len(texts), 6))]
    target = lp.ExecutableCTarget()
    knl = prepare(lp.make_kernel("{ [i]: 0<=i<6 }", lines, data, target=target))
    out, again = (k(a=values)[1][0] for k in (knl, lp.fold_constants(knl)))
    np.testing.assert_array_equal(np.nan_to_num(out, nan=7), np.nan_to_num(again, nan=7))
    assert (np.signbit(out) == np.signbit(again)).all()


@pytest.mark.parametrize(
    "text",
    [
        *("a[i]*(1/2)", "4/2 + a[i]", "(1/2)*i", "a[i]*0.5", "7//2*0.5", "0.1*5*i", "i*0.1*5"),
        *("3.0/7.0*i", "0.3//0.1 + i", "0 + (a[i] > 0)", "(a[i] > 0) + 1 - 1", "a[i] + 300 - 300"),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("fast_math", [False, True])
def test_the_type_of_results_stays(text: str, dtype: Any, fast_math: bool) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<4 }", f"out[i] = {text}", [lp.GlobalArg("a", dtype), ...])
    found = [lp.infer_unknown_types(k) for k in (knl, lp.fold_constants(knl, fast_math))]
    one, other = (k.default_entrypoint.arg_dict["out"].dtype for k in found)
    assert one == other


@pytest.mark.parametrize("text", ["3 - u[i] + x[i] + 4", "x[i] + (u[i] + 5) + 2", "2*u[i]*x[i]*3"])
def test_integers_wrap_where_they_did(text: str) -> None:
    data = [lp.GlobalArg("u", np.uint8, shape=2), lp.GlobalArg("x", np.int64, shape=2), ...]
    knl = lp.make_kernel("{ [i]: 0<=i<2 }", f"out[i] = {text}", data)
    u, x = np.array([254, 7], np.uint8), np.array([-1, 300])
    assert_same_results(knl, lp.fold_constants(knl, fast_math=True), {"u": u, "x": x})


def test_zero_is_subtracted_as_in_numpy() -> None:
    lines = ["out[0, i] = a[i] - 0", "out[1, i] = -(0*a[i])", "out[2, i] = a[i] - 0*3"]
    knl = lp.make_kernel("{ [i]: 0<=i<3 }", lines, target=lp.ExecutableCTarget())
    a = np.array([0.0, -0.0, 1.0])
    out = knl(a=a)[1][0]
    assert (np.signbit(out) == np.signbit([a - 0, -(0 * a), a - 0 * 3])).all()


# -- common factors -------------------------------------------------------------------------------

SUMS = """
    <> s[i] = 0                                {id=z}
    s[i] = s[i] + c*a[i,j]*w[i]                {id=u, dep=z}
    s[i] = s[i] - 2*c*b[i,j]*w[i] + c*w[i]     {id=v, dep=u}
    out[o] = s[o] + s[3 - o]                   {dep=v}
    """


def sums(text: str = SUMS) -> lp.TranslationUnit:
    sizes = [lp.GlobalArg("a, b", np.float64, shape=(4, 4)), lp.ValueArg("c", np.float64), ...]
    return lp.make_kernel("{ [i, j, o]: 0<=i,j,o<4 }", text, sizes)


def test_numbers_are_collected() -> None:
    after = lp.collect_common_factors_on_increment(sums(), "s")
    assert instructions(after) == [
        "i: s[i] = 0",
        "i,j: s[i] = s[i] + a[i, j]*w[i]",
        "i,j: s[i] = s[i] - 2*b[i, j]*w[i] + w[i]",
        "o: out[o] = c*s[o] + c*s[3 - o]",
    ]


DATA: dict[str, Any] = {
    "a": np.arange(16.0).reshape(4, 4),
    "b": np.ones((4, 4)),
    "w": np.arange(1.0, 5),
    "c": 3.0,
}


@pytest.mark.parametrize("axes", [(), (0,), 0, "0"])
def test_collected_sums_are_the_same(axes: Any) -> None:
    after = lp.collect_common_factors_on_increment(sums(), "s", axes)
    assert "c" not in instructions(after)[1]
    assert ("w[i]" in instructions(after)[1]) == (axes == ())
    assert_same_results(sums(), after, DATA)


def test_a_factor_that_varies_follows_the_subscript() -> None:
    after = lp.collect_common_factors_on_increment(sums(), "s", [0])
    assert instructions(after)[3] == "o: out[o] = c*w[o]*s[o] + c*w[3 - o]*s[3 - o]"


def test_what_is_written_is_no_factor() -> None:
    text = SUMS.replace("out[o]", "w[o]")
    after = lp.collect_common_factors_on_increment(sums(text), "s", [0])
    assert "w[i]" in instructions(after)[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<> s = 1 {id=z}\ns = s + c*a[i,j] {id=u, dep=z}\nout = s {dep=u}", "neither adds"),
        ("<> s = 0 {id=z}\ns = c*s + c {id=u, dep=z, inames=i}\nout = s {dep=u}", "neither adds"),
    ],
)
def test_other_updates_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(lp.TransformError, match=complaint):
        lp.collect_common_factors_on_increment(sums(text), "s")


LIFE = """
    for i
        <> t = 0                       {id=z}
        t = t + w[i]*a[i,j]*a[j,j]     {id=u, dep=z}
        out[i] = t + w[i]              {dep=u}
    end
    """


def test_a_factor_may_vary_with_loops_that_begin_the_sum_anew() -> None:
    after = lp.collect_common_factors_on_increment(sums(LIFE), "t")
    assert instructions(after)[1:] == ["i,j: t = t + a[i, j]*a[j, j]", "i: out[i] = w[i]*t + w[i]"]
    assert_same_results(sums(LIFE), after, DATA)


@pytest.mark.parametrize(
    "text",
    [
        LIFE.replace("{id=z}", "{id=z, inames=}"),
        LIFE.replace("{id=z}", "{id=z, if=w[i] > 0}"),
        LIFE.replace("dep=z", "dep=*").replace("dep=u", "dep=*u"),
    ],
)
def test_a_sum_that_goes_on_has_no_factor_of_its_loop(text: str) -> None:
    after = lp.collect_common_factors_on_increment(sums(text), "t")
    assert "w[i]*a[i, j]" in instructions(after)[1]


def test_what_is_no_temporary_is_refused() -> None:
    with pytest.raises(lp.TransformError, match="there is no temporary 'out'"):
        lp.collect_common_factors_on_increment(sums(), "out")
    with pytest.raises(lp.TransformError, match="'s' has no axis 1"):
        lp.collect_common_factors_on_increment(sums(), "s", [1])
