"""How sizes follow from arrays, and what a host program says of a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import parse
from pymbolic.mapper.evaluator import evaluate

import kgen as lp
from kgen.errors import InvocationError
from kgen.host.program import HostProgram, solve_for, strides_fit
from kgen.lowering import generate_module
from kgen.runtime.refusals import CallChecker
from tests.runtime.handmade import array, module, value


@pytest.mark.parametrize(
    ("text", "has_solution"),
    [
        ("n", True),
        ("n + 2", True),
        ("3*n - m", True),
        ("n*m", True),
        ("n*m + 2*n + m", True),
        ("2*(n + 1)", True),
        ("n + n", True),
        ("m*(n + 2)", True),
        ("n // 16", False),
        ("n*n", False),
        ("n*(n + m)", False),
        ("n % 3 + n", False),
        ("m + 2", False),
        ("0*n", False),
    ],
)
def test_solve_for(text: str, has_solution: bool) -> None:
    solved = solve_for(parse(text), "n")
    assert (solved is not None) == has_solution
    if solved is not None:
        sizes = {"n": 7, "m": 5}
        factor, rest = (evaluate(part, sizes) for part in solved)
        assert factor * 7 + rest == evaluate(parse(text), sizes)


def host(*arguments: Any, parameters: tuple[str, ...] = ()) -> HostProgram:
    return HostProgram.of(module("", *arguments), domain_parameters=parameters)


def steps(*arguments: Any) -> list[tuple[str, list[str]]]:
    return [
        (step.name, [source.array for source in step.sources])
        for step in host(*arguments).size_steps
    ]


def test_inputs_are_asked_before_outputs() -> None:
    out, a = array("out", "f4", "n", "out"), array("a", "f4", "n")
    assert steps(out, a, value("n")) == [("n", ["a", "out"])]


def test_sizes_that_need_others_come_after_them() -> None:
    a, b = array("a", "f4", "n*m"), array("b", "f4", "m")
    assert steps(a, b, value("n"), value("m")) == [("m", ["b"]), ("n", ["a"]), ("m", ["a"])]


def test_sizes_that_need_each_other_are_tried_both_ways() -> None:
    assert steps(array("a", "f4", "n*m"), value("n"), value("m")) == [("n", ["a"]), ("m", ["a"])]


def test_shapes_are_asked_before_strides() -> None:
    a, b = array("a", "f4", "k,4", strides="n,1"), array("b", "f4", "n")
    assert steps(a, b, value("k"), value("n"))[1] == ("n", ["b", "a"])


@given(st.integers(0, 5), st.integers(0, 5))
def test_shapes_give_their_sizes_back(n: int, m: int) -> None:
    arrays = [array("a", "f4", "n + 2*m"), array("b", "f4", "3*m + 1, n*m")]
    made = host(*arrays, value("n"), value("m"))
    given_arrays = {
        "a": np.empty(n + 2 * m, np.float32),
        "b": np.empty((3 * m + 1, n * m), np.float32),
    }
    assert CallChecker(made).check(given_arrays) == {"n": n, "m": m}


@pytest.mark.parametrize("length", [3, 6])
def test_extents_that_no_size_has(length: int) -> None:
    made = host(array("a", "f4", "2*n, n + 1"), value("n"))
    shape = (length, 2)
    with pytest.raises(InvocationError, match=r"'a' has shape \(\d, 2\), not \(2, 2\)"):
        CallChecker(made).check({"a": np.empty(shape, np.float32), "n": 1})
    with pytest.raises(InvocationError, match=r"'a' has shape"):
        CallChecker(made).check({"a": np.empty(shape, np.float32)})


@pytest.mark.parametrize(
    ("kind", "name", "limits"),
    [
        ("i4", "n", (-(2**31) + 2**20, 2**31 - 2**20)),
        ("i4", "seed", (-(2**31), 2**31 - 1)),
        ("i8", "n", (-(2**63), 2**63 - 1)),
        ("u1", "n", (0, 255)),
        ("?", "n", (0, 1)),
        ("f4", "n", None),
    ],
)
def test_ranges_of_numbers(kind: str, name: str, limits: Any) -> None:
    number = value(name, kind)
    assert host(number, parameters=("n",)).range_of(number) == limits


@given(st.lists(st.integers(0, 4), max_size=3), st.data())
def test_strides_fit_where_an_axis_has_a_second_entry(shape: list[int], data: Any) -> None:
    made = np.empty(shape, np.float32)
    other = tuple(
        data.draw(st.sampled_from([stride, 4 * stride])) if extent < 2 else stride
        for extent, stride in zip(made.shape, made.strides, strict=True)
    )
    assert strides_fit(made.shape, other, made.strides)
    if made.size > 1:
        assert not strides_fit(made.shape, tuple(2 * s for s in made.strides), made.strides)


def test_grids_that_are_always_empty_are_not_launched() -> None:
    code = """
    b[i] = i {id=first}
    ... gbarrier {id=wait, dep=first}
    out[j] = j {id=second, dep=wait}
    ... gbarrier {id=again, inames=t, dep=second}
    out[k] = out[k] + b[k] {id=third, dep=again, inames=t:k}
    """
    domain = "{ [i, j, k, t]: 3 <= i, k < n - 2 and 0 <= j < n and 0 <= t < 2 }"
    args = [lp.GlobalArg("b, out", np.float32, shape="n"), "..."]
    knl = lp.make_kernel(domain, code, args, target=lp.CudaTarget())
    knl = lp.tag_inames(knl, "i:g.0, j:g.0, k:g.0")
    for n, expected in ((2, 1), (5, 1), (6, 3)):  # extents of -3, 0 and 1
        program = HostProgram.of(generate_module(lp.fix_parameters(knl, n=n)))
        assert len(program.launches) == expected
        assert len(program.host_variables) == (expected == 3)
