"""Typed expressions as C text."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic.mapper.stringifier import PREC_NONE

import kgen as lp
from kgen.errors import CodegenError, KgenWarning
from kgen.ir.language.expressions import parse
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.types import NumpyType
from kgen.lowering import generate_module
from kgen.targets.c import CTarget
from kgen.targets.cuda import CudaTarget
from kgen.targets.opencl import PyOpenCLTarget
from kgen.targets.preamble import Preamble
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.literals import literal
from tests.targets.support import make, module_of, value_of

f4, f8, c8, c16 = np.float32, np.float64, np.complex64, np.complex128
i2, i4, i8, u1, u4 = np.int16, np.int32, np.int64, np.uint8, np.uint32


@pytest.mark.parametrize(
    ("expression", "dtypes", "expected"),
    [
        # numbers take the type of their surroundings
        ("2*a[i]", {"a": f4}, "2.0f * a[i]"),
        ("2*a[i]", {"a": f8}, "2.0 * a[i]"),
        ("2*a[i]", {"a": i4}, "2 * a[i]"),
        ("2*a[i]", {"a": c8}, "2.0f * a[i]"),
        ("0.1*a[i] + 1e-3", {"a": f4}, "0.1f * a[i] + 0.001f"),
        ("a[i] + 1j", {"a": c16}, "a[i] + CMPLX(0.0, 1.0)"),
        ("1j*a[i]*i*b[i]", {"a": f4, "b": f4}, "CMPLXF(0.0f, 1.0f) * a[i] * i * b[i]"),
        ("a[i] + (i + 0.5)/9", {"a": f8}, "a[i] + (i + 0.5) / 9.0"),
        ("a[i] + (i + 0.5)/9", {"a": f4}, "a[i] + (i + 0.5f) / 9.0f"),
        ("a[i] + sqrt(1.0*i)", {"a": f8}, "a[i] + sqrt((double) i)"),
        ("a[i]*(-2)", {"a": f4}, "a[i] * -2.0f"),
        ("a[i] + 7 // 2", {"a": f4}, "a[i] + 3.0f"),
        ("max(a[i], 1 << 2)", {"a": f4}, "fmaxf(a[i], 4.0f)"),
        ("a[i] + abs(-7) // 2", {"a": f4}, "a[i] + 3.0f"),
        ("max(a[i], 2*3)", {"a": f4}, "fmaxf(a[i], 2.0f * 3.0f)"),
        # signs
        ("1 - a[i]*a[i]", {"a": f4}, "1.0f - a[i] * a[i]"),
        ("-a[i] - (-2)*b[i]", {"a": f4, "b": f4}, "-a[i] - -2.0f * b[i]"),
        ("a[i] - (b[i] - a[i])", {"a": f4, "b": f4}, "a[i] - (b[i] - a[i])"),
        ("-(a[i] + b[i]) + b[i]", {"a": f4, "b": f4}, "-(a[i] + b[i]) + b[i]"),
        ("-(-2)*a[i]*b[i]", {"a": f4, "b": f4}, "2.0f * a[i] * b[i]"),
        # parentheses where the order of operations needs them
        ("a[i]*(b[i]*a[i])", {"a": f4, "b": f4}, "a[i] * (b[i] * a[i])"),
        ("a[i] / (b[i]*2)", {"a": f4, "b": f4}, "a[i] / (b[i] * 2.0f)"),
        ("(a[i] + b[i])*2", {"a": f4, "b": f4}, "(a[i] + b[i]) * 2.0f"),
        ("(a[i] & 3) == 2", {"a": i4}, "(a[i] & 3) == 2"),
        ("1 + (a[i] << 2)", {"a": i4}, "1 + (a[i] << 2)"),
        (
            "(a[i] > 0 or b[i] > 0) and a[i] < 9",
            {"a": i4, "b": i4},
            "(a[i] > 0 || b[i] > 0) && a[i] < 9",
        ),
        (
            "a[i] > 0 or b[i] > 0 and a[i] < 9",
            {"a": i4, "b": i4},
            "a[i] > 0 || (b[i] > 0 && a[i] < 9)",
        ),
        (
            "(a[i] if a[i] > 0 else b[i])*2",
            {"a": f4, "b": f4},
            "(a[i] > 0.0f ? a[i] : b[i]) * 2.0f",
        ),
        # casts where C would compute in another type than numpy
        ("i*a[i]", {"a": f4}, "i * a[i]"),
        ("a[i] + b[i]", {"a": f4, "b": f8}, "a[i] + b[i]"),
        ("a[i] / b[i]", {"a": i4, "b": i4}, "(double) a[i] / b[i]"),
        ("a[i] / 2", {"a": i4}, "a[i] / 2.0"),
        ("a[i]*b[i]", {"a": i8, "b": f4}, "a[i] * (double) b[i]"),
        ("a[i] + b[i]", {"a": u4, "b": i4}, "a[i] + (int64_t) b[i]"),
        ("a[i] < b[i]", {"a": u4, "b": i4}, "(int64_t) a[i] < b[i]"),
        ("a[i] + b[i] > 5", {"a": i2, "b": i2}, "(int16_t) (a[i] + b[i]) > 5"),
        ("cast(float32, a[i])*2", {"a": i4}, "(float) a[i] * 2.0f"),
        # division
        ("(i + 1) % n", {}, "(i + 1) % n"),
        ("(n - 1 - i) // 4", {}, "(n - 1 - i) / 4"),
        ("a[i] % 3", {"a": i4}, "kgen_mod_int32(a[i], 3)"),
        ("a[i] % 3", {"a": u4}, "a[i] % 3"),
        ("a[i] // b[i]", {"a": i4, "b": i8}, "kgen_floor_div_int64((int64_t) a[i], b[i])"),
        ("a[i] // b[i]", {"a": f4, "b": f4}, "kgen_floor_div_float32(a[i], b[i])"),
        # powers
        ("a[i]**2", {"a": f4}, "a[i] * a[i]"),
        ("b[i] / a[i]**2", {"a": f4, "b": f4}, "b[i] / (a[i] * a[i])"),
        ("a[i]**(-1)", {"a": f4}, "1.0f / a[i]"),
        ("a[i]**0.5", {"a": f4}, "powf(a[i], 0.5f)"),
        ("(a[i] + 1)**2", {"a": f4}, "(a[i] + 1.0f) * (a[i] + 1.0f)"),
        ("sin(a[i])**2", {"a": f4}, "kgen_square_float32(sinf(a[i]))"),
        ("(a[i]/b[i])**(-3)", {"a": f8, "b": f8}, "1.0 / kgen_cube_float64(a[i] / b[i])"),
        ("(a[i]/b[i])**5", {"a": f8, "b": f8}, "pow(a[i] / b[i], 5.0)"),
        ("abs(a[i])**1", {"a": f8}, "fabs(a[i])"),
        ("a[i]**b[i]", {"a": i4, "b": i4}, "kgen_pow_int32(a[i], b[i])"),
        # parentheses, and types of integers
        ("a[i] + (b[i] + c[i])", dict.fromkeys("abc", f4), "a[i] + (b[i] + c[i])"),
        ("(a[i] - b[i]) + (b[i] - c[i])", dict.fromkeys("abc", f8), "a[i] - b[i] + (b[i] - c[i])"),
        ("a[i]*(b[i]*c[i])", dict.fromkeys("abc", c8), "a[i] * (b[i] * c[i])"),
        ("a[i] + (b[i] + c[i])", dict.fromkeys("abc", c8), "a[i] + (b[i] + c[i])"),
        ("3l*i*1000000000", {}, "3 * (int64_t) i * 1000000000"),
        ("a[i]*3l", {"a": i8}, "a[i] * 3"),
        ("cast(uint64, 1) << i", {}, "(uint64_t) 1 << i"),
        ("1u << i", {}, "(int64_t) 1 << i"),
    ],
)
def test_text(expression: str, dtypes: dict[str, Any], expected: str) -> None:
    assert value_of(expression, dtypes) == expected


@pytest.mark.parametrize(
    ("expression", "dtypes", "cl", "cuda"),
    [
        (
            "a[i]*b[i] + 2*a[i]",
            {"a": c8, "b": f4},
            "cfloat_add(cfloat_mulr(a[i], b[i]), cfloat_rmul(2.0f, a[i]))",
            "a[i] * b[i] + 2.0f * a[i]",
        ),
        (
            "a[i] + b[i]",
            {"a": c8, "b": f8},
            "cdouble_addr(cdouble_cast((a[i])), b[i])",
            "cuda::std::complex<double>((a[i])) + b[i]",
        ),
        (
            "a[i] == b[i]",
            {"a": c8, "b": f4},
            "cfloat_real(a[i]) == b[i] && cfloat_imag(a[i]) == 0.0f",
            "a[i] == cuda::std::complex<float>(b[i])",
        ),
        (
            "a[i]**0 + b[i]**0.0",
            {"a": c8, "b": c8},
            "cfloat_add(cfloat_new(1.0f, 0.0f), cfloat_new(1.0f, 0.0f))",
            "cuda::std::complex<float>(1.0f, 0.0f) + cuda::std::complex<float>(1.0f, 0.0f)",
        ),
        (
            "cast(float64, a[i])",
            {"a": c8},
            "(double) cfloat_real(a[i])",
            "(double) a[i].real()",
        ),
    ],
)
def test_complex_numbers(expression: str, dtypes: dict[str, Any], cl: str, cuda: str) -> None:
    assert value_of(expression, dtypes, PyOpenCLTarget()) == cl
    assert value_of(expression, dtypes, CudaTarget()) == cuda


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32("inf"), "INFINITY"),
        (-np.inf, "-INFINITY"),
        (np.float64("inf"), "HUGE_VAL"),
        (np.float32("nan"), "NAN"),
        (p.NaN(np.float64), "(double) NAN"),
        (np.float32(1) / np.float32(3), "0.33333334f"),
        (np.int32(-(2**31)), "-2147483647 - 1"),
        (np.uint64(2**64 - 1), "18446744073709551615u"),
        (2**40, "1099511627776"),
    ],
)
def test_constants(value: Any, expected: str) -> None:
    insn = lp.Assignment(p.Variable("out")[p.Variable("i")], value)
    source = module_of([insn], {}).device_source
    assert f"out[i] = {expected};" in source


def test_a_constant_that_its_type_cannot_hold_is_an_error() -> None:
    with pytest.raises(CodegenError, match="too large for float32"):
        literal(CTarget(), 1e300, NumpyType(np.dtype(f4)))
    with pytest.raises(CodegenError, match="300 is not a value of type int8"):
        value_of("cast(int8, 300) + a[i]", {"a": i4})


def test_conversions_of_what_is_assigned() -> None:
    def assigned(source: Any, destination: Any, target: Any) -> str:
        args = [lp.GlobalArg("a", source, shape="n"), lp.GlobalArg("out", destination, shape="n")]
        unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = a[i]", [*args, ...], target=target)
        text = generate_module(unit).device_source
        return text[text.index("out[i] = ") + 9 : text.rindex(";")]

    assert assigned(f8, f4, CTarget()) == "a[i]"
    assert assigned(f8, c8, CTarget()) == "(float complex) a[i]"
    assert assigned(f8, c8, PyOpenCLTarget()) == "cfloat_fromreal(a[i])"
    assert assigned(c16, c8, PyOpenCLTarget()) == "cfloat_cast(a[i])"
    with pytest.warns(lp.KgenWarning, match="imaginary part of the value assigned to 'out'"):
        assert assigned(c16, f4, CudaTarget()) == "(float) a[i].real()"
    assert assigned(f4, np.bool_, PyOpenCLTarget()) == "a[i] != 0"


def test_symbols_are_what_their_mangler_says() -> None:
    def mangle(kernel: Any, name: str) -> Any:
        return (np.dtype(np.float64), "M_PI") if name == "pi" else None

    text = value_of("pi*a[i]", {"a": f8}, symbol_manglers=[mangle])
    assert text == "M_PI * a[i]"


def test_negative_values_of_loop_variables() -> None:
    unit = lp.make_kernel(
        "{ [i]: -1 <= i < 1 }",
        "out[i + 1] = -i*a[i + 1] - i*a[i + 1]",
        [lp.GlobalArg("a", f4, shape=(2,)), ...],
        target=CTarget(),
    )
    source = generate_module(lp.tag_inames(unit, {"i": "unr"})).device_source
    assert "out[0] = 1 * a[0] - -1 * a[0];" in source


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1 + i + a[i]", "4 * i_outer + i_inner + 1 + a[4 * i_outer + i_inner]"),
        ("a[i] + i", "a[4 * i_outer + i_inner] + (4 * i_outer + i_inner)"),
        ("a[i]*(2 - i)", "a[4 * i_outer + i_inner] * (2 - 4 * i_outer - i_inner)"),
        ("a[i] - i + 0.5", "a[4 * i_outer + i_inner] - (4 * i_outer + i_inner) + 0.5f"),
    ],
)
def test_values_of_loops_are_whole_numbers_in_their_shortest_form(
    expression: str, text: str
) -> None:
    knl = make(f"out[i] = {expression}", {"a": f4, "out": f4})
    source = generate_module(lp.split_iname(knl, "i", 4)).device_source
    assert f"= {text};" in source


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("i < 16", "a[i]"),
        ("i >= 0 and i < 15", "(i < 15 ? a[i] : 0.0f)"),
        ("i <= 15 and i > -1", "a[i]"),
        ("i > 15", "0.0f"),
        ("i // 4 >= 4 or i % 4 < 3", "(i % 4 < 3 ? a[i] : 0.0f)"),
        ("not i // 4 < 4", "0.0f"),
        ("i != 16", "(i != 16 ? a[i] : 0.0f)"),
        ("a[i] < 16", "(a[i] < 16.0f ? a[i] : 0.0f)"),
    ],
)
def test_conditions_that_always_hold_are_left_out(condition: str, text: str) -> None:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < 16 }",
        f"out[i] = if({condition}, a[i], 0)",
        [lp.GlobalArg("a, out", f4, shape=16)],
        target=CTarget(),
    )
    assert f"out[i] = {text.strip('()')};" in lp.generate_body(unit)


def writer() -> ExpressionWriter:
    kernel = DeviceKernel(PreparedKernel(make("out[i] = a[i]", {"a": f4, "out": f4})))
    return CTarget().get_device_ast_builder().get_expression_to_code_mapper(kernel, Preamble())


def test_writers_of_several_sites_know_nothing_of_each_other() -> None:
    root = writer()
    one, two = (root.statement(root.site, frozenset("i"), {"i": n}) for n in (3, 5))
    element = p.Variable("a")[p.Variable("i")]
    named = one.at(one.site._replace(texts={element: "t"}))
    expr, dtype = parse("a[i] + a[i + 1]"), NumpyType(np.dtype(f4))
    texts = [each.rec(expr, PREC_NONE, dtype) for each in (one, two, named, one)]
    assert texts == ["a[3] + a[4]", "a[5] + a[6]", "t + a[4]", "a[3] + a[4]"]


def test_a_node_that_is_no_code_is_an_error() -> None:
    part = p.Slice((p.Variable("i"), None, None))
    with pytest.raises(CodegenError, match="'Slice' cannot be written in C"):
        writer().rec(part, 0, NumpyType(np.dtype(i4)))


def test_long_sums_and_products() -> None:
    text = " + ".join(f"{k}*a[i]" for k in range(1, 1001))
    assert value_of(text, {"a": f4}).count(" + ") == 999
    element = p.Variable("a")[p.Variable("i")]
    total: Any = element
    for _ in range(2000):
        total = p.Sum((total, element))
    assert writer().assigned(total, NumpyType(np.dtype(f4))).count(" + a[i]") == 2000


@pytest.mark.parametrize("text", ["c[i]*(a[i]/b[i])", "1 + a[i]/2", "a[i]/b[i] if i > 2 else 0"])
def test_a_quotient_of_integers_that_is_cut_raises_a_warning(text: str) -> None:
    with pytest.warns(KgenWarning, match=r"'out', of type int32(.|\n)*hint: write a\[i\] // "):
        module_of(f"out[i] = {text}", dict.fromkeys(("a", "b", "c", "out"), i4))


@pytest.mark.parametrize(
    "text", ["c[i]*(a[i]//b[i])", "floor(a[i]/b[i])", "cast(int32, a[i]/b[i])"]
)
def test_a_quotient_that_is_cut_on_purpose_raises_none(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module_of(f"out[i] = {text}", dict.fromkeys(("a", "b", "c", "out"), i4))
