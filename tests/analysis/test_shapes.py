from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import evaluate

from kgen.analysis.shapes import infer_argument_shapes, infer_temporary_shapes
from kgen.errors import KgenError, KgenIndexError, StaticValueFindingError
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg, TemporaryVariable
from kgen.ir.expr import to_text
from kgen.ir.instruction import CInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.target import TargetBase
from kgen.ir.types import auto
from kgen.targets.c import ExecutableCTarget
from kgen.transforms.loops.split import chunk_iname


def kernel(domain: str, instructions: Any, data: Any = None, **options: Any) -> LoopKernel:
    unit = make_kernel(domain, instructions, data, target=TargetBase(), **options)
    return infer_temporary_shapes(infer_argument_shapes(unit.default_entrypoint))


def shape(found: LoopKernel, name: str) -> str:
    array = found.array_vars[name]
    return f"({', '.join(to_text(extent) for extent in array.shape)})"


def test_the_extent_is_the_last_subscript_plus_one() -> None:
    found = kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i + 1]")
    assert (shape(found, "out"), shape(found, "a")) == ("(n)", "(n + 1)")
    assert infer_argument_shapes(found) is found
    assert infer_temporary_shapes(found) is found


@pytest.mark.parametrize(
    ("subscript", "expected"),
    [
        ("i, j", "(n, m)"),
        ("j, i", "(m, n)"),
        ("i, 3", "(n, 4)"),
        ("2*i + 1", "(2*n)"),
        ("i // 4, i % 4", "((n + 3) // 4, 4)"),
        ("n - 1 - i", "(n)"),
        ("i + j", "(n + m - 1)"),
    ],
)
def test_affine_subscripts(subscript: str, expected: str) -> None:
    found = kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        f"out[i, j] = a[{subscript}]",
        assumptions="n >= 4 and m >= 1",
    )
    wanted, given = parse(expected), parse(shape(found, "a"))
    values = {"n": 12, "m": 7}
    assert [_value(e, values) for e in _axes(given)] == [_value(e, values) for e in _axes(wanted)]


def _axes(parsed: Any) -> tuple[Any, ...]:
    return parsed if isinstance(parsed, tuple) else (parsed,)


def _value(expr: Any, values: dict[str, int]) -> Any:
    return evaluate(expr, values)


def test_a_stencil_needs_the_neighbours() -> None:
    found = kernel("{ [i]: 1 <= i < n }", "out[i] = a[i - 1] + a[i] + a[i + 1]")
    assert (shape(found, "a"), shape(found, "out")) == ("(n + 1)", "(n)")


def test_loops_that_depend_on_each_other() -> None:
    found = kernel("{ [i, j]: 0 <= i < n and 0 <= j <= i }", "out[i, j] = a[j]")
    assert (shape(found, "out"), shape(found, "a")) == ("(n, n)", "(n)")


def test_conditions_limit_constants_and_not_loops() -> None:
    found = kernel(
        "{ [i]: 0 <= i < n }",
        """
        if i > 0
            out[i] = a[i - 1] if i < n - 3 else b[i - 2]
        end
        """,
        assumptions="n >= 6",
    )
    assert [shape(found, name) for name in ("out", "a", "b")] == ["(n)", "(n - 1)", "(n - 2)"]


@pytest.mark.parametrize(
    ("statement", "extents"),
    [
        ("out[i] = 2*a[i] {if=i < n - 1}", ["n", "n"]),
        ("out[i] = a[i + 1] - a[i] {if=i < n - 1}", ["n", "n"]),
        ("out[i] = a[i + 1] + a[i - 1] {if=0 < i and i < n - 1}", ["n", "n"]),
        ("out[i] = if(i < n - 2, a[i + 4], 0)", ["n", "n + 2"]),
        ("out[n - 1 - i] = a[2*i] {if=i >= 2}", ["n", "2*n - 1"]),
    ],
)
def test_arguments_hold_the_elements_of_all_iterations(statement: str, extents: list[str]) -> None:
    found = kernel("{ [i]: 0 <= i < n }", statement, assumptions="n >= 3")
    assert [shape(found, name) for name in ("out", "a")] == [f"({extent})" for extent in extents]


def test_whole_tiles_are_no_longer_than_their_condition() -> None:
    found = kernel("{ [i]: 0 <= i < 16*((n + 15)//16) }", "out[i] = 2*a[i] {if=i < n}")
    assert [shape(found, name) for name in ("out", "a")] == ["(n)", "(n)"]


def test_the_inner_part_of_a_field_is_computed_on_arrays_of_all_its_points() -> None:
    knl = make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "out[i, j] = a[i + 1, j + 1] - a[i - 1, j] {if=0 < i < n - 1 and j < n - 1}",
        [GlobalArg("a, out", np.float64, shape=auto), ...],
        target=ExecutableCTarget(),
    )
    a, out = np.random.default_rng(7).random((6, 6)), np.zeros((6, 6))
    knl(a=a, out=out)
    expected = np.zeros((6, 6))
    expected[1:-1, :-1] = a[2:, 1:] - a[:-2, :-1]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("condition", ["i % 2 == 0", "i % 3 == 1 or i == 0", "i < 5 or i >= m"])
def test_conditions_that_leave_no_single_size_do_not_count(condition: str) -> None:
    found = kernel("{ [i]: 0 <= i < n }", f"if {condition}\n out[i] = a[i]\nend")
    assert [shape(found, name) for name in ("out", "a")] == ["(n)", "(n)"]


def test_the_tutorials_example_has_no_single_size() -> None:
    text = """
        out[i] = 5
        out[0] = 6
        """
    with pytest.raises(StaticValueFindingError) as caught:
        kernel("{ [i]: 0<=i<n }", text)
    assert str(caught.value).startswith(
        "While trying to find shape axis 0 of argument 'out', the following exception occurred:\n"
        "a static maximum was not found for PwAff '[n] -> { [(1)] : n <= 1; [(n)] : n >= 2 }'\n"
    )
    assert shape(kernel("{ [i]: 0<=i<n }", text, assumptions="n>=1"), "out") == "(n)"


@pytest.mark.parametrize("text", ["out[i] = 1", "<> t[i] = 1", "out[i, 2*i] = 1"])
def test_an_endless_loop_is_named(text: str) -> None:
    with pytest.raises(KgenError, match="iname 'i' has no last value"):
        kernel("{ [i]: 0 <= i }", text)


def test_an_endless_loop_has_no_chunks() -> None:
    endless = make_kernel("{ [i]: 0 <= i }", "out[0] = 1.0 {inames=i}")
    with pytest.raises(StaticValueFindingError, match="iname 'i' has no last value"):
        chunk_iname(endless, "i", 3)


def test_two_sizes_without_a_larger_one() -> None:
    with pytest.raises(StaticValueFindingError, match=r"used as: 'out\[i\]', 'out\[j\]'"):
        kernel("{ [i, j]: 0 <= i < n and 0 <= j < m }", "out[i] = 1\nout[j] = 2")
    found = kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        "out[i] = 1\nout[j] = 2",
        assumptions="n >= m and m >= 1",
    )
    assert shape(found, "out") == "(n)"


@pytest.mark.parametrize("domain", ["{ [i]: 0 <= i < 0 }", "{ [i]: 0 <= i < n and n <= 0 }"])
def test_what_is_never_touched_has_no_extent(domain: str) -> None:
    found = kernel(domain, "out[i] = a[i - 3]\n<> t[i] = 1")
    assert [shape(found, name) for name in ("out", "a", "t")] == ["(0)"] * 3


def test_negative_subscripts_come_with_an_example() -> None:
    with pytest.raises(KgenIndexError) as caught:
        kernel("{ [i]: 0 <= i < n }", "out[i] = a[i - 2]", name="shift")
    text = str(caught.value)
    assert "in kernel 'shift': 'a[i" in text
    assert "for n = 1, i = 0 reads a[-2]" in text
    assert "out[i] = a[i" in text


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("out[i] = a[i, idx[i]]", "the subscript 'idx[i]' in instruction 'insn' is not affine"),
        ("out[i] = a[i*i, 0]", "the subscript 'i*i' in instruction 'insn' is not affine"),
        ("out[i] = a[[i]]", "does not determine the extent"),
    ],
)
def test_what_cannot_be_found_is_to_be_declared(instruction: str, why: str) -> None:
    with pytest.raises(KgenError) as caught:
        kernel("{ [i]: 0 <= i < n }", instruction)
    assert why in str(caught.value)
    assert "declare it: GlobalArg('a', shape='...')" in str(caught.value)
    size = "n" if "[[" in instruction else "n, n"
    declared = [GlobalArg("a", shape=size), "..."]
    assert shape(kernel("{ [i]: 0 <= i < n }", instruction, declared), "a") == f"({size})"


@pytest.mark.parametrize("subscript", ["idx[i]", "i*i", "start + k*i", "idx[i] + i"])
def test_one_axis_whose_subscripts_say_nothing_is_of_unknown_extent(subscript: str) -> None:
    found = kernel("{ [i]: 0 <= i < n }", f"out[i] = a[i] + a[{subscript}]").arg_dict["a"]
    assert "shape: unknown, dim_tags: (stride:1)" in str(found)


def test_loop_bounds_that_are_data() -> None:
    domains: Any = ["{ [i]: 0 <= i < n }", "{ [k]: 0 <= k < length }"]
    text = """
        for i
            <> length = count[i]
            out[i] = sum(k, %s)
        end
        """
    assert "shape: unknown" in str(kernel(domains, text % "a[k]").arg_dict["a"])
    with pytest.raises(KgenError, match="depend on 'length', which is computed"):
        kernel(domains, text % "a[i, k]")


def test_an_unused_argument_stays_open() -> None:
    data = [GlobalArg("b", shape=auto), GlobalArg("c", shape=("n", auto)), "..."]
    found = kernel("{ [i]: 0 <= i < n }", "out[i] = 1", data)
    unused = [found.arg_dict[name] for name in "bc"]
    assert [array.shape for array in unused] == [auto, (p.Variable("n"), auto)]  # type: ignore[union-attr]


def test_single_axes_can_be_left_open() -> None:
    found = kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "out[i, j] = 1",
        [GlobalArg("out", shape=("n + 7", auto)), "..."],
    )
    assert shape(found, "out") == "(n + 7, n)"


def test_an_unknown_extent_stays_so() -> None:
    found = kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[idx[i]] + b[i, i]",
        [GlobalArg("a"), GlobalArg("b"), "..."],
    )
    assert found.array_vars["a"].shape is None
    assert found.array_vars["a"].fixed_strides == (1,)
    assert shape(found, "b") == "(n, n)"


def test_strides_follow_the_layout() -> None:
    found = kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 8 }",
        "c[i, j] = f[i, j]",
        [GlobalArg("f", order="F", shape=auto), "..."],
    )
    strides = {
        name: tuple(map(to_text, array.fixed_strides)) for name, array in found.array_vars.items()
    }
    assert strides == {"c": ("8", "1"), "f": ("1", "n")}


def test_temporaries_prefer_constants() -> None:
    found = kernel(
        "{ [i, j, k]: 0 <= i < n and 0 <= j < 4 and 0 <= k < n and k <= 15 }",
        """
        for i
            <> tile[j] = i + j
            <> part[k] = k
            <> whole[i] = 1
            <> scalar = 2
        end
        """,
    )
    assert [shape(found, n) for n in ("tile", "part", "whole", "scalar")] == [
        "(4)",
        "(16)",
        "(n)",
        "()",
    ]


def test_tables_have_the_shape_of_their_values() -> None:
    table = TemporaryVariable("w", initializer=np.ones((3, 2)), read_only=True)
    found = kernel("{ [i]: 0 <= i < 3 }", "out[i] = w[i, 1]", [table, "..."])
    assert shape(found, "w") == "(3, 2)"


def test_rules_are_seen_through() -> None:
    found = kernel(
        "{ [i]: 0 <= i < n }",
        """
        shifted(x) := a[x + 3]
        out[i] = shifted(i + 1)
        """,
    )
    assert shape(found, "a") == "(n + 4)"


def test_c_code_names_arrays_without_saying_which_part() -> None:
    code = CInstruction("i", "out[i] = a[i];", read_variables="a", assignees="out[i]", id="c")
    with pytest.raises(KgenError, match="'a' cannot be found"):
        kernel("{ [i]: 0 <= i < n }", [code], [GlobalArg("a", shape=auto), "..."])


def test_temporaries_of_constant_extent_have_their_shape_when_the_kernel_is_made() -> None:
    knl = make_kernel(
        "{[i, j]: 0 <= i < 8 and 0 <= j < n}",
        ["off = 3", "<> h[i] = off", "<> g[j] = 1"],
        [TemporaryVariable("off", "int32"), "..."],
    ).default_entrypoint
    shapes = {name: array.shape for name, array in knl.temporary_variables.items()}
    assert shapes == {"off": (), "h": (8,), "g": auto}


@pytest.mark.parametrize("data", [[], [TemporaryVariable("h")]])
def test_data_dependent_updates_are_inside_of_what_is_set_before(data: Any) -> None:
    text = ["h[i] = 0 {id=set}", "h[b[j]] = h[b[j]] + 1 {dep=set}"]
    found = kernel("{ [i, j]: 0 <= i, j < n }", text, [*data, ...])
    assert shape(found, "h") == "(n)"


def test_elements_that_callers_may_have_set_do_not_limit_the_shape() -> None:
    read = kernel("{ [i]: 0 <= i < n }", ["a[i] = 0 {id=set}", "o[i] = a[b[i]] {dep=set}"])
    assert read.array_vars["a"].shape is None
    written = kernel("{ [i]: 0 <= i < n }", ["a[b[i]] = 0"])
    assert written.array_vars["a"].shape is None


def test_a_histogram_needs_no_declarations() -> None:
    text = "<> h[i] = 0 {id=set}\nh[b[j]] = h[b[j]] + 1 {id=up, dep=set}\nout[k] = h[k] {dep=up}"
    data = [GlobalArg("b", np.int32, shape="n"), ...]
    target = ExecutableCTarget()
    knl = make_kernel("{ [i, j, k]: 0 <= i, j, k < n }", text, data, target=target)
    assert knl(b=np.array([0, 1, 1, 3], np.int32))[1][0].tolist() == [1, 2, 0, 1]
