"""What users read: messages in the words of what they wrote, and kernels in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pymbolic.primitives as p
import pytest

import kgen as lp


def test_kernels_and_programs_are_one_short_line() -> None:
    unit = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", "out[i, j] = 2*a[i, j]", name="twice")
    assert repr(unit["twice"]) == "<kernel 'twice': 2 loops, 1 instruction, 3 arguments>"
    assert repr(unit) == "<program: <kernel 'twice': 2 loops, 1 instruction, 3 arguments>>"


def test_subscripts_that_are_no_loop_variables_are_named() -> None:
    with pytest.raises(
        lp.KgenError, match="'j' is an argument, not a loop variable: to make it one, add it"
    ):
        lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i, j] = 1.0*i")


def test_without_work_items_messages_speak_of_iterations() -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }", ["out[i] = 1.0*i", "out[j] = 2.0*j"], target=lp.CTarget()
    )
    with pytest.raises(lp.VariableAccessNotOrdered) as caught:
        lp.generate_code_v2(unit)
    assert "an iteration with j = 0" in str(caught.value)
    assert "work-item" not in str(caught.value)


def test_types_that_a_language_lacks_are_named_with_their_argument() -> None:
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", target=lp.ISPCTarget())
    with pytest.raises(lp.CodegenError, match="no element type for float16\n  where: argument 'a'"):
        lp.generate_code_v2(lp.add_dtypes(unit, {"a": "float16"}))


def test_operands_that_are_no_expressions_are_refused_with_their_instruction() -> None:
    operands: Any = (p.Variable("i"), "j")
    wrong = lp.Assignment("out[i]", p.Sum(operands), id="add")
    with pytest.raises(
        lp.KernelError, match=r"'j' in instruction 'out\[i\] = .* not an expression"
    ):
        lp.make_kernel("{ [i]: 0 <= i < 8 }", [wrong])


@pytest.mark.parametrize("text", ["a[i] + [i, j]", "(1, 2)*a[i]", "-(1, 2)", "2**(i, j)"])
def test_lists_of_values_are_no_operands(text: str) -> None:
    with pytest.raises(lp.KgenSyntaxError, match="takes one value on each side, not 2 values"):
        lp.make_kernel("{ [i, j]: 0 <= i, j < 8 }", f"out[i, j] = {text}")


@pytest.mark.parametrize("extent", [{}, {"nz": "int32"}])
def test_arrays_whose_extent_bounds_no_loop_are_prefetched(extent: dict[str, str]) -> None:
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 4 }",
        "y[i] = sum(j, vals[4*i + j])",
        [lp.GlobalArg("vals", "float64", shape="nz"), lp.GlobalArg("y", "float64", "n"), ...],
        target=lp.CTarget(),
    )
    unit = lp.add_prefetch(lp.add_dtypes(unit, extent), "vals", "j")
    assert "vals_fetch[vals_dim_0] = vals[" in lp.generate_code_v2(unit).device_code()


def test_elements_read_by_number_are_named_where_nothing_can_be_fetched() -> None:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }", "out[i] = a[[i]]", [lp.GlobalArg("a", "float32", "8"), ...]
    )
    with pytest.raises(lp.KgenError, match=r"where: instruction 'out\[i\] = a\[\[i\]\]"):
        lp.add_prefetch(unit, "a", "i")


class _Faulty(lp.ScalarCallable):
    def with_types(self, arg_id_to_dtype: object, clbl_inf_ctx: object) -> NoReturn:
        raise TypeError("the user's own")


def _faulty(*args: object) -> NoReturn:
    raise TypeError("the user's own")


@pytest.mark.parametrize(
    "use",
    [
        lambda unit: lp.split_iname(unit, "i", 4, within=_faulty),
        lambda unit: lp.map_instructions(unit, None, _faulty),
        lambda unit: lp.find_instructions(unit, _faulty),
        lambda unit: lp.register_symbol_manglers(unit, [_faulty]),
        lambda unit: lp.generate_code_v2(lp.register_preamble_generators(unit, [_faulty])),
        lambda unit: lp.generate_code_v2(lp.register_callable(unit, "exp", _Faulty("exp"))),
    ],
)
def test_exceptions_of_user_functions_reach_the_user(use: Callable[[Any], object]) -> None:
    data = [lp.GlobalArg("out, a", "float32", "8"), ...]
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = exp(a[i])", data, assumptions="n <= 8")
    with pytest.raises(TypeError, match="the user's own"):
        use(unit)


def _five(*args: object) -> Any:
    return 5


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda unit: lp.map_instructions(unit, None, _five), "returns 5 for instruction"),
        (lambda unit: lp.register_preamble_generators(unit, [_five]), "5 is not a pre"),
        (lambda unit: lp.register_symbol_manglers(unit, [_five]), "returns 5 for 'n'"),
    ],
)
def test_wrong_results_of_user_functions_are_named(use: Callable[[Any], Any], text: str) -> None:
    data = [lp.GlobalArg("out", "float32", "8"), ...]
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 1", data, assumptions="n <= 8")
    with pytest.raises(lp.KgenError, match=text):
        lp.generate_code_v2(use(unit))
