from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pymbolic import evaluate

import kgen as lp
from kgen.analysis.bounds import check_bounds, check_loops_bounded
from kgen.analysis.shapes import infer_argument_shapes
from kgen.errors import KernelError, KgenIndexError, KgenWarning, StaticValueFindingError
from kgen.ir.construction.make import make_loop_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.target import TargetBase
from kgen.ir.types import auto


def kernel(domain: Any, instructions: Any, shape: Any, **options: Any) -> LoopKernel:
    data = [GlobalArg("a", shape=shape), "..."]
    return infer_argument_shapes(
        make_loop_kernel(domain, instructions, data, name="knl", target=TargetBase(), **options)
    )


def test_what_is_inside_passes() -> None:
    knl = kernel("{ [i, j]: 0 <= i, j < n }", "out[i] = a[i, j] + a[n - 1 - i, n - 1]", "n, n")
    assert check_bounds(knl) is knl


def test_an_access_outside_comes_with_an_example() -> None:
    with pytest.raises(KgenIndexError) as caught:
        check_bounds(kernel("{ [i]: 0 <= i < n }", "out[i] = a[i + 1]", "n"))
    text = str(caught.value)
    assert "in kernel 'knl': 'a[i + 1]' is outside of array 'a', of shape (n)" in text
    assert "instruction 'out[i] = a[i + 1]" in text
    assert "for n = 1, i = 0 reads a[1]" in text


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("out[i] = a[[i]]", r"for i = 29 reads a\[\[29\]\]"),
        ("a[[i - 1]] = 0 {if=i < 10}", r"for i = 0 writes a\[\[-1\]\]"),
        ("f(x) := a[[x]]\nout[i] = f(2*i)", r"for i = 15 reads a\[\[30\]\]"),
    ],
)
def test_linear_subscripts_end_with_the_last_element_in_memory(text: str, point: str) -> None:
    data = [GlobalArg("a", np.float32, shape="4, 5", strides=(8, 1)), "..."]
    with pytest.raises(KgenIndexError, match=rf"of length 29 in memory(.|\n)*{point}"):
        lp.generate_code_v2(lp.make_kernel("{ [i]: 0 <= i < 30 }", text, data))
    inside = lp.make_kernel("{ [i]: 0 <= i < 29 }", "a[[28 - i]] = 0", data)
    assert not [one for one in lp.verify(inside).unknown if one.check == "bounds"]


def test_the_example_holds_the_assumptions() -> None:
    with pytest.raises(KgenIndexError, match=r"for n = 4, i = \d, j = 3 writes a\[\d, 4\]"):
        check_bounds(
            kernel("{ [i, j]: 0 <= i, j < n }", "a[i, j + 1] = 2", "n, n", assumptions="n >= 4")
        )


@pytest.mark.parametrize(
    "instruction",
    [
        "out[i] = a[i + 1] if i < n - 1 else 0",
        "out[i] = i > 0 and a[i - 1] > 0",
        "out[i] = a[a[i]]",
        "out[i] = a[i + 1] if a[i] > 0 else 0",
        "out[i] = a[[a[i]]]",
    ],
)
def test_guarded_or_unknown_accesses_pass(instruction: str) -> None:
    check_bounds(kernel("{ [i]: 0 <= i < n }", instruction, "n"))


def test_predicates_guard() -> None:
    text = "if i < n - 1\n out[i] = a[i + 1]\nend"
    check_bounds(kernel("{ [i]: 0 <= i < n }", text, "n"))
    with pytest.raises(KgenIndexError):
        check_bounds(kernel("{ [i]: 0 <= i < n }", text.replace("n - 1", "n"), "n"))


def test_bounds_that_are_data_are_not_judged() -> None:
    text = """
        for i
            <> length = count[i]
            out[i] = sum(k, a[k])
        end
        """
    check_bounds(kernel(["{ [i]: 0 <= i < n }", "{ [k]: 0 <= k < length }"], text, "n"))


def test_sizes_that_are_not_affine_are_not_judged() -> None:
    check_bounds(kernel("{ [i]: 0 <= i < n }", "out[i] = a[i + 1]", "n*n"))
    with pytest.raises(KgenIndexError, match=r"reads a\[-1\]"):
        check_bounds(kernel("{ [i]: 0 <= i < n }", "out[i] = a[i - 1]", "n*n"))


def test_options_choose_error_warning_or_nothing() -> None:
    args = ("{ [i]: 0 <= i < n }", "out[i] = a[i + 1]", "n")
    option = "enforce_array_accesses_within_bounds"
    with pytest.warns(KgenWarning, match=r"'a\[i \+ 1\]' is outside of array 'a'"):
        check_bounds(kernel(*args, options={option: False}))
    check_bounds(kernel(*args, options={option: False}, silenced_warnings=["out_of_bounds(a)"]))
    check_bounds(kernel(*args, options={option: "no_check"}))


def test_a_wrong_number_of_subscripts() -> None:
    knl = kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]", "n")
    (insn,) = knl.instructions
    wrong = knl.copy(instructions=(insn.copy(expression=parse("a[i, i]")),))
    with pytest.raises(KgenIndexError, match=r"'a\[i, i\]' has 2 subscripts, but 'a' has 1 axis"):
        check_bounds(wrong)


coefficients = st.integers(-2, 2)


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(coefficients, coefficients, st.integers(-3, 6)),
    st.sampled_from(["j < m", "j <= i", "i + j < n", "2*j < n and j >= 1"]),
    st.sampled_from(["0 == 0", "i > j", "i % 2 == 1", "i + 2 < n"]),
    st.integers(0, 9),
)
@example((1, 1, 0), "j < m", "0 == 0", 5)
def test_against_every_iteration(
    index: tuple[int, int, int], inner: str, guard: str, extent: int
) -> None:
    domain = f"{{ [i, j]: 0 <= i < n and 0 <= j and j < m and {inner} }}"
    subscript = f"{index[0]}*i + {index[1]}*j + {index[2]}"
    body = f"a[{subscript}] = 1 {{if={guard}}}"
    assumptions = "0 <= n <= 5 and 0 <= m <= 4"
    conditions = [parse(part) for part in (*inner.split(" and "), guard)]
    index_expr = parse(subscript)
    touched: dict[tuple[int, int], list[int]] = {}
    iterated: dict[tuple[int, int], list[int]] = {}  # in loops without the guard
    for n in range(6):
        for m in range(5):
            space = [{"i": i, "j": j, "n": n, "m": m} for i in range(n) for j in range(m)]
            loops = [v for v in space if all(evaluate(c, v) for c in conditions[:-1])]
            iterated[n, m] = [evaluate(index_expr, v) for v in loops]
            points = [v for v in loops if evaluate(conditions[-1], v)]
            touched[n, m] = [evaluate(index_expr, v) for v in points]
    everything = [value for values in touched.values() for value in values]

    declared = kernel(domain, body, extent, assumptions=assumptions)
    if all(0 <= value < extent for value in everything):
        check_bounds(declared)
    else:
        with pytest.raises(KgenIndexError):
            check_bounds(declared)

    if min(everything, default=0) < 0:
        with pytest.raises(KgenIndexError):
            kernel(domain, body, auto, assumptions=assumptions)
        return
    try:
        inferred = kernel(domain, body, auto, assumptions=assumptions)
    except StaticValueFindingError:
        return
    (found,) = inferred.array_vars["a"].shape
    check_bounds(inferred)
    ends = {sizes: evaluate(found, dict(zip("nm", sizes, strict=True))) - 1 for sizes in touched}
    assert all(ends[sizes] >= max(values) for sizes, values in touched.items() if values)
    below = max(index[2], 0)  # constants are not added beyond a guard
    tight = [
        any(ends[sizes] == max(values) - less for sizes, values in values_of.items() if values)
        for values_of, less in ((touched, 0), (iterated, below), (iterated, 0))
    ]
    assert any(tight) or not any(touched.values())


@pytest.mark.parametrize(
    ("domain", "end"),
    [("{ [i]: 0 <= i }", "last"), ("{ [i]: i < n }", "first"), ("{ [i, k]: 0 <= k }", "first")],
)
def test_loops_without_an_end_are_refused(domain: str, end: str) -> None:
    with pytest.raises(KernelError, match=f"iname 'i' has no {end} value\n.*instruction 'out"):
        check_loops_bounded(kernel(domain, "out[0] = a[0] + i", "4"))


def test_sizes_that_nothing_relates_are_not_judged() -> None:
    check_bounds(kernel("{ [i]: lo <= i < hi }", "out[0] = a[i]", "n"))
    with pytest.raises(KgenIndexError, match=r"reads a\[-1\]"):
        check_bounds(kernel("{ [i]: 0 <= i < hi }", "out[i] = a[i - 1]", "n"))
    with pytest.raises(KgenIndexError, match=r"for hi = 1, i = 0 reads a\[1\]"):
        check_bounds(kernel("{ [i]: 0 <= i < hi }", "out[i] = a[i + 1]", "hi"))


def test_a_stray_subscript_beside_one_that_is_data_is_named_with_it() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }",
        "out[i] = a[i + 1, p[2*i]]",
        [lp.GlobalArg("a", "float32", shape="4, 4"), lp.GlobalArg("p", "int32", shape=7), "..."],
    )
    with pytest.raises(lp.KgenError, match=r"i = 3 reads a\[4, p\["):
        lp.generate_code_v2(knl)


@pytest.mark.parametrize(
    "index",
    ["2**2", "1 << 2", "3 & 7", "~0", "i << 1", "abs(-3)", "7 ^ 4", "2*i >> 0", "i // 2**0 + 1"],
)
def test_subscripts_of_constants_and_shifts_are_checked(index: str) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 3 }", f"out[i] = a[{index}]", [lp.GlobalArg("a", "float32", shape=3), ...]
    )
    with pytest.raises(lp.KgenIndexError, match="is outside of array 'a'"):
        lp.generate_code_v2(knl)


def test_subscripts_that_wrap_around_write_a_part() -> None:
    text = "out[cast(np.uint8, i)] = 1"
    args = [lp.GlobalArg("out", "float32", shape=512, is_input=False)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 512 }", text, args, target=lp.ExecutableCTarget())
    _, (out,) = knl()
    assert out[:256].tolist() == [1] * 256
    assert out[256:].tolist() == [0] * 256  # zeroed, because not proved written
