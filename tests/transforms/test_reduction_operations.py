"""What reductions compute: neutral elements, segments, several values, a user's operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.errors import KgenError
from kgen.ir.codec import CodecError, decode, encode
from kgen.ir.language.expressions import parse
from tests.transforms.helpers import run

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
NUMBERS = [*INTEGERS, np.dtype("f4"), np.dtype("f8")]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_type_has_its_neutral_elements(dtype: Any) -> None:
    text = "".join(
        f"{name}_of[i] = {name}(k, a[i, k])\n"
        for name in ("sum", "product", "max", "min", "any", "all")
    )
    knl = lp.make_kernel("{[i, k]: 0 <= i < m and 0 <= k < n}", text)
    least = 1 if dtype.kind == "u" else -3
    a = np.random.default_rng(1).integers(least, 4, (9, 2)).astype(dtype)
    a[0], a[1] = 0, [0, 1]
    found = run(knl, a=a)
    for name, reference in (
        ("sum", np.add), ("product", np.multiply), ("max", np.maximum), ("min", np.minimum),
    ):  # fmt: skip
        expected = reference.reduce(a, axis=1, dtype=dtype)
        np.testing.assert_array_equal(found[f"{name}_of"], expected, err_msg=name)
    np.testing.assert_array_equal(found["any_of"] != 0, a.any(axis=1))
    np.testing.assert_array_equal(found["all_of"] != 0, a.all(axis=1))


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_where_extrema_are(name: str, dtype: Any) -> None:
    knl = lp.make_kernel("{[k]: 0 <= k < n}", f"best, at = {name}(k, a[k], k)")
    for a in (np.array([3, 1, 5, 1, 5], dtype), np.full(3, 0, dtype)):
        found = run(knl, a=a)
        assert found["at"] == getattr(np, name)(a)
        assert found["best"] == a[found["at"]]


def last_segment(values: Any, starts: Any) -> Any:
    return values[np.flatnonzero(starts)[-1] :].sum()


@pytest.mark.parametrize("spelling", ["segmented(sum)", '"segmented(sum)"'])
def test_a_segmented_sum_starts_anew_at_each_flag(spelling: str) -> None:
    text = f"s, flag = reduce({spelling}, k, (a[k], start[k]))"
    knl = lp.make_kernel("{[k]: 0 <= k < n}", text)
    a = np.arange(1.0, 9.0)
    start = np.array([1, 0, 0, 1, 0, 1, 0, 0], np.int32)
    found = run(knl, a=a, start=start)
    assert (found["s"], found["flag"]) == (last_segment(a, start), 1)


def test_segments_of_positions() -> None:
    text = "best, at, flag = reduce(segmented(argmax), k, (a[k], k, start[k]))"
    knl = lp.make_kernel("{[k]: 0 <= k < n}", text)
    a = np.array([9.0, 8, 1, 3, 2])
    found = run(knl, a=a, start=np.array([1, 0, 1, 0, 0], np.int32))
    assert (found["best"], found["at"]) == (3, 3)


def test_sums_that_share_a_loop_may_have_several_values() -> None:
    text = ["lo, at = simul_reduce(argmin, k, (a[k], k))", "hi = simul_reduce(max, k, a[k])"]
    knl = lp.make_kernel("{[k]: 0 <= k < n}", text)
    a = np.array([3.0, 1, 2])
    found = run(knl, a=a)
    assert (found["lo"], found["at"], found["hi"]) == (1, 1, 3)


# -- operations of a user's own ------------------------------------------------------------


class SumAndSumOfSquares(lp.ReductionOperation):
    """The first two moments, in one pass."""

    @property
    def arg_count(self) -> int:
        return 2

    def result_dtypes(self, *dtypes: Any) -> Any:
        return dtypes

    def neutral_element(self, *dtypes: Any, callables_table: Any, target: Any) -> Any:
        return (0, 0), callables_table

    def __call__(self, dtypes: Any, a: Any, b: Any, callables_table: Any, target: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1]), callables_table

    def __str__(self) -> str:
        return "moments"


class LogSumExp(lp.ScalarReductionOperation):
    def neutral_element(self, *dtypes: Any, callables_table: Any, target: Any) -> Any:
        return dtypes[0].numpy_dtype.type(-np.inf), callables_table

    def __call__(self, dtypes: Any, a: Any, b: Any, callables_table: Any, target: Any) -> Any:
        call = p.Variable
        least, most = call("min")(a, b), call("max")(a, b)
        return most + call("log1p")(call("exp")(least - most)), callables_table

    def __str__(self) -> str:
        return "logsumexp"


def moments_or_log(name: str) -> lp.ReductionOperation | None:
    return {"moments": SumAndSumOfSquares(), "logsumexp": LogSumExp()}.get(name)


lp.register_reduction_parser(moments_or_log)


def test_an_operation_of_two_values() -> None:
    knl = lp.make_kernel("{[k]: 0 <= k < n}", "s, q = moments(k, a[k], a[k]*a[k])")
    a = np.arange(5.0)
    found = run(knl, a=a)
    assert (found["s"], found["q"]) == (a.sum(), (a * a).sum())


@pytest.mark.parametrize("text", ["logsumexp(k, a[i, k])", "reduce(logsumexp, [k], a[i, k])"])
def test_an_operation_of_one_value(text: str) -> None:
    knl = lp.make_kernel("{[i, k]: 0 <= i < m and 0 <= k < n}", f"c[i] = {text}")
    a = np.random.default_rng(2).random((3, 5))
    np.testing.assert_allclose(run(knl, a=a)["c"], np.log(np.exp(a).sum(axis=1)))


def test_a_segmented_operation_of_a_user() -> None:
    text = "s, flag = reduce(segmented(logsumexp), k, (a[k], start[k]))"
    knl = lp.make_kernel("{[k]: 0 <= k < n}", text)
    a = np.random.default_rng(2).random(5)
    found = run(knl, a=a, start=np.array([1, 0, 1, 0, 0], np.int32))
    np.testing.assert_allclose(found["s"], np.log(np.exp(a[2:]).sum()))


D = np.random.default_rng(4).permutation(30).reshape(5, 6).astype(float)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("reduce(argmax, i, reduce(argmax, j, d[i, j], i))", D.max(axis=1).argmax()),
        ("argmin(i, reduce(argmax, j, d[i, j], i))", D.max(axis=1).argmin()),
        ("argmax((i, j), d[i, j], i)", D.max(axis=1).argmax()),
    ],
)
def test_a_reduction_of_several_values_stands_for_operands(text: str, row: int) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < m and 0 <= j < n}", f"v, k = {text}")
    found = run(knl, d=D)
    assert (found["v"], found["k"]) == (D.max(axis=1)[row], row)


@pytest.mark.parametrize("split", [lp.split_reduction_inward, lp.split_reduction_outward])
@pytest.mark.parametrize("loop", ["i", "j"])
def test_reductions_of_several_values_are_split(split: Any, loop: str) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i < m and 0 <= j < n}", "v, k = argmin((i, j), d[i, j], j)")
    knl = split(knl, loop)
    assert str(knl["kgen_kernel"].instructions[0]).count("argmin") == 2
    found = run(knl, d=D)
    assert (found["v"], found["k"]) == (D.min(), D.min(axis=0).argmin())


def test_a_reduction_over_nothing_is_its_operand() -> None:
    product: Any = "product"
    over_nothing = lp.Reduction(product, (), parse("sum(i, a[i])"))
    insns = [lp.Assignment("b", over_nothing), "c = 1 + reduce(sum, [], 6)"]
    insns.append("v, k = reduce(argmax, [], 7, 8)")
    found = run(lp.make_kernel("{[i]: 0 <= i < n}", insns), a=np.arange(4.0))
    assert [found[name] for name in "bcvk"] == [6, 7, 7, 8]


def test_an_unknown_operation_names_the_way_out() -> None:
    with pytest.raises(KgenError, match="register_reduction_parser"):
        lp.parse_reduction_op("sumsqq")


def test_equal_names_are_equal_operations() -> None:
    one, other = (lp.make_kernel("{[k]: 0<=k<4}", "s = logsumexp(k, a[k])") for _ in range(2))
    assert one == other


def test_operations_go_through_json_if_they_are_kgens_own() -> None:
    expr = parse("reduce(segmented(max), k, (a, f))")
    assert decode(encode(expr)) == expr
    with pytest.raises(CodecError, match="not one of kgen's own"):
        encode(parse("logsumexp(k, a)"))
