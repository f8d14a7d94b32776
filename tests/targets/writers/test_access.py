"""Subscripts as C text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError
from kgen.lowering import generate_module
from kgen.targets.builder import CFamilyTarget
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.opencl import OpenCLTarget
from tests.targets.support import body_of


def source(
    instruction: Any,
    *args: Any,
    domain: str = "{ [i, j]: 0 <= i, j < n }",
    target: CFamilyTarget | None = None,
    **options: Any,
) -> str:
    unit = lp.make_kernel(domain, instruction, [*args, ...], target=target or CTarget(), **options)
    return generate_module(unit).device_source


def index(subscript: str, array: Any, **options: Any) -> str:
    """Return how *subscript* of the array ``a`` is written."""
    text = source(f"out[i, j] = a[{subscript}]", array, **options)
    (line,) = [line for line in body_of(text) if " = a[" in line]
    return line.split(" = a[", 1)[1].removesuffix("];")


def array(shape: Any, **options: Any) -> Any:
    return lp.GlobalArg("a", np.float32, shape=shape, **options)


SMALL = {"domain": "{ [i, j]: 0 <= i, j < 16 }"}


@pytest.mark.parametrize(
    ("subscript", "shape", "expected"),
    [
        ("i, j", (20, 20), "20 * i + j"),
        ("i + 1, j + 1", (20, 20), "20 * i + j + 21"),
        ("i + 2, 2*j - 1 + 3", (20, 40), "40 * i + 2 * j + 82"),
        ("15 - i, j", (20, 20), "j - 20 * i + 300"),
        ("i + 16*j", (256,), "16 * j + i"),
        ("i + j - i", (20,), "j"),
        ("(i + 16*j) // 16, i % 4", (20, 4), "4 * j + i % 4"),
        ("3", (20,), "3"),
    ],
)
def test_numbers_are_merged(subscript: str, shape: Any, expected: str) -> None:
    assert index(subscript, array(shape), **SMALL) == expected


def test_sizes_stay_factors() -> None:
    options = {"assumptions": "n <= 1000"}
    assert index("i, j", array("n, n"), **options) == "n * i + j"
    assert index("i + 1, j + 1", array("n + 2, n + 2"), **options) == "(n + 2) * (i + 1) + j + 1"
    assert index("i, j", array("n, n", order="F"), **options) == "n * j + i"
    options = {"assumptions": "0 <= m <= 1000 and n <= 1000"}
    assert index("i, j", array("n, n", strides="m, 2"), **options) == "m * i + 2 * j"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (CTarget(), "(int64_t) n * i + j"),
        (OpenCLTarget(), "(long) n * i + j"),
        (CudaTarget(), "(long long) n * i + j"),
    ],
)
def test_indices_that_may_be_large_have_64_bits(target: CFamilyTarget, expected: str) -> None:
    assert index("i, j", array("n, n"), target=target) == expected


def test_long_loop_variables_need_no_cast() -> None:
    text = source(
        "out[i] = a[2*i]", array("2*n"), domain="{ [i]: 0 <= i < n }", index_dtype=np.int64
    )
    assert body_of(text) == ["for (int64_t i = 0; i < n; ++i)", "  out[i] = a[2 * i];"]


def test_offsets_left_open_are_parameters() -> None:
    text = source("out[i] = a[i]", array("n", offset=lp.auto), domain="{ [i]: 0 <= i < n }")
    assert "float const *__restrict__ a, int64_t const a_offset, int const n" in text
    assert "out[i] = a[i + a_offset];" in text


def test_offsets_that_are_given_are_added() -> None:
    text = source("out[i] = a[i]", array(20, offset=3), domain="{ [i]: 0 <= i < 16 }")
    assert "out[i] = a[i + 3];" in text


def test_arrays_without_axes_are_elements() -> None:
    out = lp.GlobalArg("out", np.float32, shape=())
    text = source("out = 2*a[0]", array(1), out, domain="{ : }")
    assert "out[0] = 2.0f * a[0];" in text


def test_data_dependent_subscripts() -> None:
    where = lp.GlobalArg("where", np.int32, shape="n")
    text = source("out[i] = a[where[i] + 1]", array("m"), where, domain="{ [i]: 0 <= i < n }")
    assert "out[i] = a[where[i] + 1];" in text


def test_long_numbers_stay_long_in_divisions() -> None:
    where = lp.GlobalArg("where", np.int64, shape="n")
    options: dict[str, Any] = {"domain": "{ [i]: 0 <= i < n }"}
    text = source("out[i] = a[where[i] % 4]", array(4), where, **options)
    assert "out[i] = a[kgen_mod_int64(where[i], 4)];" in text
    shift = lp.ValueArg("shift", np.int64)
    text = source("out[i] = a[(i + shift) % 4]", array(4), shift, **options)
    assert "out[i] = a[kgen_mod_int64(i + shift, 4)];" in text


def test_divisions_are_proved_for_each_instruction() -> None:
    text = source(
        ["out[i] = a[(n - 1 - i) // 2]", "best = a[(n - 1 - m) // 2]"],
        array("n"),
        lp.GlobalArg("best", np.float32, shape=()),
        lp.ValueArg("m", np.int32),
        domain="{ [i]: 0 <= i < n }",
        options={"enforce_array_accesses_within_bounds": "no_check"},
    )
    assert "out[i] = a[(n - i + 1) / 2 - 1];" in text
    assert "best[0] = a[kgen_floor_div_int32(n - m + 1, 2) - 1];" in text


def test_the_values_of_unrolled_loops_are_merged() -> None:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < 16 }", "out[2*i + 1] = a[i] + a[i % 4]", [array(16), ...], target=CTarget()
    )
    unit = lp.split_iname(unit, "i", 4, inner_tag="unr")
    assert "  out[8 * i_outer + 7] = a[4 * i_outer + 3] + a[3];" in body_of(
        generate_module(unit).device_source
    )


def test_an_axis_without_a_layout_is_an_error() -> None:
    open_ = lp.TemporaryVariable(
        "t",
        shape=(16, 16),
        dim_tags="stride:auto,stride:1",
        address_space=lp.AddressSpace.GLOBAL,
    )
    knl = lp.make_kernel("{ [i]: 0 <= i < 16 }", "t[i, i] = 1", [open_, ...])
    with pytest.raises(CodegenError, match="axis 0 of array 't' is implemented by 'stride:auto'"):
        lp.generate_code_v2(knl)


def test_conditions_are_written_for_the_place_where_they_stand() -> None:
    knl = lp.make_kernel(
        "{ [i]: -2 <= i < m }",
        "out[i + 2] = 5 {if=a[i % 4] > 0}",
        [lp.GlobalArg("a", "int32", shape=4), lp.GlobalArg("out", "int32", shape="m + 2"), ...],
        assumptions="m >= 0",
        target=lp.CTarget(),
    )
    split = lp.split_iname(lp.split_iname(knl, "i", 3), "i_outer", 5, slabs=(1, 1))
    *_, last = lp.generate_code_v2(split).device_code().split("else")  # from i = -2
    assert "a[kgen_mod_int32(15 * i_outer_outer + 3 * i_outer_inner + i_inner, 4)]" in last
