"""Kernels that call kernels, and functions of a user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.compat.loopy.kernel import function_interface
from kgen.ir.types import NumpyType
from kgen.lowering import lower
from tests.oracle import Oracle
from tests.transforms.helpers import instructions, run

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
A = np.random.default_rng(0).random((4, 16))


def twice(name: str = "twice") -> lp.TranslationUnit:
    return lp.make_function("{[i]: 0 <= i < 16}", "y[i] = 2*x[i]", name=name)


def rows(text: str = "[k]: b[i, k] = twice([j]: a[i, j])") -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < 16}",
        text,
        [lp.GlobalArg("a", shape="n, 16"), lp.GlobalArg("b", shape="n, 16", is_input=False), ...],
    )


def run_on(device: Any, knl: lp.TranslationUnit, **arguments: Any) -> dict[str, Any]:
    _, found = device(lp.set_options(knl, return_dict=True), **arguments)
    return dict(found)


# -- merge ------------------------------------------------------------------------------------


def test_merged_programs_start_what_each_starts() -> None:
    unit = lp.merge([rows(), twice()])
    assert sorted(unit.callables_table) == ["kgen_kernel", "twice"]
    assert unit.entrypoints == {"kgen_kernel"}
    assert lp.merge([unit, twice()]) == unit


def test_two_kernels_of_one_name_are_refused() -> None:
    other = lp.make_function("{[i]: 0 <= i < 16}", "y[i] = 3*x[i]", name="twice")
    with pytest.raises(lp.TransformError, match=r"different callables 'twice'\n.*rename_callable"):
        lp.merge([rows(), twice(), other])


def test_a_circle_of_calls_is_printed() -> None:
    domain = "{[i, j]: 0 <= i, j < 16}"
    p = lp.make_function(domain, "[i]: y[i] = q([j]: x[j])", name="p")
    q = lp.make_function(domain, "[i]: y[i] = p([j]: x[j])", name="q")
    with pytest.raises(lp.TransformError, match="call themselves: p -> q -> p"):
        lp.merge([p, q])


# -- calls --------------------------------------------------------------------------------------


def test_a_call_is_the_loops_of_the_kernel() -> None:
    knl = lp.inline_callable_kernel(lp.merge([rows(), twice()]), "twice")
    assert instructions(knl) == ["i,twic_i: b[i, twic_i] = 2*a[i, twic_i]"]
    assert sorted(knl["kgen_kernel"].inames) == ["i", "twic_i"]
    assert "twice" not in knl.callables_table
    np.testing.assert_array_equal(run(knl, a=A)["b"], 2 * A)


def test_a_call_that_is_left_is_put_in_by_code_generation(device: Any) -> None:
    unit = lp.merge([rows(), twice()])
    np.testing.assert_array_equal(run(unit, a=A)["b"], 2 * A)
    np.testing.assert_array_equal(run_on(device, unit, a=A)["b"], 2 * A)


@pytest.mark.parametrize(
    "text",
    ["b[i, :] = twice(a[i, :])", "[k]: b[i, k] = twice(x=[j]: a[i, j])"],
)
def test_ways_to_pass_a_row(text: str) -> None:
    np.testing.assert_array_equal(run(lp.merge([rows(text), twice()]), a=A)["b"], 2 * A)


def test_a_column_and_every_second_element() -> None:
    half = lp.make_function("{[i]: 0 <= i < 2}", "y[i] = x[i]/2", name="half")
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < 16 and 0 <= j, k < 2}",
        "[k]: b[k + 1, i] = half([j]: a[2*j, i])",
        [lp.GlobalArg("a", F64, "4, 16"), lp.GlobalArg("b", F64, "3, 16"), ...],
    )
    found = run(lp.merge([knl, half]), a=A, b=np.zeros((3, 16)))["b"]
    np.testing.assert_array_equal(found[1:], A[::2] / 2)


def test_results_may_go_backwards() -> None:
    knl = rows("b[i, 15:-1:-1] = twice(a[i, :])")
    np.testing.assert_array_equal(run(lp.merge([knl, twice()]), a=A)["b"], 2 * A[:, ::-1])


def test_whole_arrays_and_single_elements() -> None:
    data = [lp.GlobalArg("x", shape=16), lp.GlobalArg("s", shape=(), is_input=False), ...]
    total = lp.make_function("{[i]: 0 <= i < 16}", "s = sum(i, x[i])", data, name="total")
    knl = lp.make_kernel(
        "{[i]: 0 <= i < 4}",
        "[]: b[i] = total(x)",
        [lp.GlobalArg("x", F64, shape=16), lp.GlobalArg("b", F64, shape=4), ...],
    )
    found = run(lp.merge([knl, total]), x=A[0])["b"]
    np.testing.assert_allclose(found, [A[0].sum()] * 4)


def test_scalars_take_the_first_elements_of_results() -> None:
    code = "y[0] = x[0] + 1\nz[0] = 2*x[0]"
    data = [lp.GlobalArg("y,z", shape=1, is_input=False), lp.GlobalArg("x", shape=1), ...]
    both = lp.make_function("{:}", code, data, name="both")
    knl = lp.make_kernel(
        "{[i]: 0 <= i < 4}",
        "<> s, <> t = both(x[i])  {id=call}\nb[i] = s + t  {dep=call}",
        [lp.GlobalArg("x", F64, shape=4), ...],
    )
    np.testing.assert_allclose(run(lp.merge([knl, both]), x=A[0, :4])["b"], 3 * A[0, :4] + 1)


@pytest.mark.parametrize(
    ("value", "code"), [("3.9", "+= 3;"), ("s", "+= (int64_t) s;"), ("k", "+= k;")]
)
def test_calls_that_assign_nothing_change_what_they_are_passed(value: str, code: str) -> None:
    """A number is converted to the type that the called kernel declares."""
    array = lp.GlobalArg("a", F64, shape=6, is_input=True, is_output=True)
    add = lp.make_function(
        "{[i]: 0 <= i < 6}",
        "a[i] = a[i] + j",
        [array, lp.ValueArg("j", np.int64)],
        name="add",
        target=lp.CTarget(),
    )
    numbers = [lp.ValueArg("s", F64), lp.ValueArg("k", np.int64)]
    knl = lp.make_kernel("{:}", f"add(a[:], {value})", [array, *numbers], target=lp.CTarget())
    assert lp.generate_body(lp.merge([knl, add])).endswith(f"a[i_0] {code}")


SCALED = """
    <> t = alpha*x[i] {id=t}
    y[i] = sum(j, x[j]) + t {id=y, dep=t}
    z[i] = n {dep=y}
"""


def scaled() -> lp.TranslationUnit:
    data = [
        lp.GlobalArg("x", shape="n"), lp.GlobalArg("y", shape="n", is_input=False),
        lp.ValueArg("n", np.int32), lp.ValueArg("alpha"),
        lp.GlobalArg("z", shape="n", is_input=False), ...,
    ]  # fmt: skip
    return lp.make_function("{[i, j]: 0 <= i, j < n}", SCALED, data, name="scaled")


def test_scalars_several_results_and_what_waits_for_them() -> None:
    text = """
        [k]: b[i, k], [k]: c[i, k] = scaled([j]: a[i, j], 16, alpha=d[i]) {id=call}
        e[i] = b[i, 3] + c[i, 4] {dep=call}
    """
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < 16}",
        text,
        [lp.GlobalArg(name, shape="n, 16", is_input=name == "a") for name in "abc"] + [...],
    )
    unit = lp.merge([knl, scaled()])
    d = np.arange(4.0)
    found = run(unit, a=A, d=d)
    np.testing.assert_allclose(found["b"], A.sum(axis=1)[:, None] + d[:, None] * A)
    np.testing.assert_allclose(found["e"], found["b"][:, 3] + 16)
    lowered = lower(
        lp.inline_callable_kernel(unit, "scaled").default_entrypoint, {"a": F64, "d": F64}
    )
    Oracle(lowered.kernel, {"n": 3}).check(lowered.functions)


def test_bounds_of_the_kernel_are_what_is_passed() -> None:
    ones = lp.make_function(
        "{[i]: 0 <= i < m}",
        "y[i] = 1",
        [lp.GlobalArg("y", shape="m", is_input=False), lp.ValueArg("m", np.int32)],
        name="ones",
    )
    knl = lp.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < n}",
        "[k]: b[i, k] = ones(i + 1)",
        [lp.GlobalArg("b", F64, "n, n"), ...],
    )
    found = run(lp.merge([knl, ones]), b=np.zeros((5, 5)))["b"]
    np.testing.assert_array_equal(found, np.tril(np.ones((5, 5))))


def test_loops_of_a_kernel_need_each_other_whatever_is_passed() -> None:
    diagonal = lp.make_function(
        "{[i, j]: 3 <= i < n and i < j < m}",
        "y[i] = 1 {inames=i}",
        [lp.GlobalArg("y", shape=8), lp.ValueArg("n, m", np.int32)],
        name="diagonal",
        target=lp.CTarget(),
    )
    data = [lp.GlobalArg("b", F64, 8), lp.ValueArg("m", np.int32)]
    text = "[k]: b[k] = diagonal(4, m)"
    knl = lp.make_kernel("{[k]: 0 <= k < 8}", text, data, target=lp.CTarget())
    inlined = lp.inline_callable_kernel(lp.merge([knl, diagonal]), "diagonal")
    assert "if (m >= 5)" in lp.generate_code_v2(inlined).device_code()


def test_two_calls_in_a_row_and_calls_in_calls() -> None:
    domain = "{[i, j]: 0 <= i, j < 16}"
    four = lp.make_function(domain, "[i]: y[i] = twice([j]: x[j])", name="same")
    knl = lp.make_kernel(
        "{[i, j, k, l]: 0 <= i, j, k, l < 16}",
        ["[i]: t[i] = same([j]: x[j]) {id=t}", "[k]: out[k] = twice([l]: t[l]) {dep=t}"],
        [lp.TemporaryVariable("t", shape=(16,)), lp.GlobalArg("x", shape=16), ...],
    )
    unit = lp.merge([knl, four, twice()])
    np.testing.assert_array_equal(run(unit, x=A[0])["out"], 4 * A[0])
    inlined = lp.inline_callable_kernel(unit, "same")
    assert "same" not in inlined.callables_table
    np.testing.assert_array_equal(run(inlined, x=A[0])["out"], 4 * A[0])


def test_an_array_that_is_read_and_written() -> None:
    more = lp.make_function("{[i]: 0 <= i < 16}", "y[i] = y[i] + 1", name="more")
    knl = rows("[k]: b[i, k] = more([j]: b[i, j])")
    np.testing.assert_array_equal(run(lp.merge([knl, more]), a=A, b=A.copy())["b"], A + 1)
    with pytest.raises(lp.TransformError, match="reads and writes 'y', which is"):
        run(lp.merge([rows("[k]: b[i, k] = more([j]: a[i, j])"), more]), a=A)


def test_a_kernel_with_work_items_of_its_own(device: Any) -> None:
    unit = lp.merge([lp.tag_inames(rows(), "i:g.0"), lp.tag_inames(twice(), "i:l.0")])
    assert (
        "reqd_work_group_size(16"
        in lp.generate_code_v2(lp.add_and_infer_dtypes(unit, {"a": F64})).device_code()
    )
    np.testing.assert_array_equal(run_on(device, unit, a=A)["b"], 2 * A)


def test_types_go_through_calls() -> None:
    unit = lp.add_and_infer_dtypes(lp.merge([rows(), twice()]), {"a": F32})
    assert unit["kgen_kernel"].arg_dict["b"].dtype.numpy_dtype == F32


def test_the_condition_of_a_call_holds_inside() -> None:
    knl = rows("[k]: b[i, k] = twice([j]: a[i, j]) {if=i > 1}")
    found = run(lp.merge([knl, twice()]), a=A, b=np.zeros_like(A))["b"]
    np.testing.assert_array_equal(found, np.where(np.arange(4)[:, None] > 1, 2 * A, 0))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[k]: b[i, k] = twice()", "lacks 'x'"),
        ("[k]: b[i, k] = twice([j]: a[i, j], 3)", "takes .x. and gives .y., but the call passes 2"),
        ("[k]: b[i, k] = twice(z=[j]: a[i, j])", "no further argument 'z'"),
        ("[k]: b[i, k] = twice(a[i, 0])", "which has 1 axis"),
    ],
)
def test_calls_that_do_not_fit(text: str, match: str) -> None:
    with pytest.raises(lp.TransformError, match=match):
        lp.inline_callable_kernel(lp.merge([rows(text), twice()]), "twice")


def eight(text: str, name: str = "f", domain: str = "{[i]: 0<=i<8}") -> lp.TranslationUnit:
    return lp.make_function(domain, text, name=name, target=lp.ExecutableCTarget())


def called(domain: str, call: str, callee: lp.TranslationUnit, **shapes: Any) -> Any:
    data = [lp.GlobalArg(name, np.float64, shape=shape) for name, shape in shapes.items()]
    knl = lp.make_kernel(domain, call, data, target=lp.ExecutableCTarget())
    return lp.merge([knl, callee])


def both_ways(unit: lp.TranslationUnit, **arrays: Any) -> list[Any]:
    """Return results with the call inlined, and with its arguments packed before."""
    units = (unit, lp.pack_and_unpack_args_for_call(unit, "f"))
    return [one(**{n: a.copy() for n, a in arrays.items()})[1][0] for one in units]


def test_a_swept_loop_may_start_anywhere() -> None:
    shift = eight("v[i] = u[i] + i")
    text = "[k]: b[k - 3] = f([m]: a[m])"
    unit = called("{[k,m]: 3<=k<11 and 2<=m<10}", text, shift, a=10, b=8)
    a = np.arange(10.0) ** 2
    for result in both_ways(unit, a=a):
        np.testing.assert_array_equal(result, a[2:] + np.arange(8))


def test_one_place_may_be_written_in_two_ways() -> None:
    triple = eight("v[i] = 3*v[i]")
    unit = called("{[k]: 0<=k<8}", "[k]: a[4*(k//4) + k%4] = f([k]: a[k])", triple, a=8)
    for result in both_ways(unit, a=np.arange(8.0)):
        np.testing.assert_array_equal(result, 3 * np.arange(8.0))
    other = called("{[k]: 0<=k<8}", "[k]: a[4*(k//4) + (k+1)%4] = f([k]: a[k])", triple, a=8)
    with pytest.raises(lp.TransformError, match="reads and writes 'v'"):
        other(a=np.arange(8.0))


def test_packed_arguments_have_the_axes_of_the_called_kernel() -> None:
    shift = eight("v[i] = u[i] + i")
    domain = "{[k,m]: 0<=k<4 and 0<=m<2}"
    unit = called(domain, "[k,m]: b[k,m] = f([k,m]: a[k,m])", shift, a=(4, 2), b=(4, 2))
    a = np.arange(8.0).reshape(4, 2)
    packed = lp.pack_and_unpack_args_for_call(unit, "f")
    np.testing.assert_array_equal(packed(a=a)[1][0], 2 * a)
    turn = eight("v[i,j] = u[j,i] + i", domain="{[i,j]: 0<=i<2 and 0<=j<4}")
    unit = called("{[k]: 0<=k<8}", "[k]: b[k] = f([k]: a[k])", turn, a=8, b=8)
    packed = lp.pack_and_unpack_args_for_call(unit, "f")
    expected = a.T + np.arange(2)[:, None]
    np.testing.assert_array_equal(packed(a=a.ravel())[1][0], expected.ravel())
    short = called("{[k]: 0<=k<6}", "[k]: b[k] = f([k]: a[k])", turn, a=6, b=6)
    with pytest.raises(lp.TransformError, match="of 6 elements, does not have the shape of 'u'"):
        lp.pack_and_unpack_args_for_call(short, "f")


def test_nothing_to_inline() -> None:
    with pytest.raises(lp.TransformError, match=r"no kernel 'twise' to inline\n.*'twice'"):
        lp.inline_callable_kernel(lp.merge([rows(), twice()]), "twise")
    with pytest.raises(lp.TransformError, match="calls 'twice'"):
        lp.inline_callable_kernel(twice(), "twice")


# -- names ----------------------------------------------------------------------------------------


def test_renamed_kernels_are_called_by_their_new_names() -> None:
    unit = lp.rename_callable(lp.merge([rows(), twice()]), "twice", "double")
    assert sorted(unit.callables_table) == ["double", "kgen_kernel"]
    assert "double([j]" in str(unit["kgen_kernel"].instructions[0])
    np.testing.assert_array_equal(run(unit, a=A)["b"], 2 * A)
    assert "twice_0" in lp.rename_callable(twice(), "twice").callables_table


def test_a_taken_name() -> None:
    unit = lp.merge([twice("f"), twice("g")])
    with pytest.raises(lp.TransformError, match="'g' is taken"):
        lp.rename_callable(unit, "f", "g")
    assert sorted(lp.rename_callable(unit, "f", "g", existing_ok=True).callables_table) == ["g"]


# -- copies around calls --------------------------------------------------------------------------


def test_arguments_are_packed_and_results_unpacked() -> None:
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < 4 and 0 <= j, k < 8}",
        "[k]: b[2*k, i] = eight([j]: a[i, 2*j])",
        [lp.GlobalArg("a", F64, "4, 16"), lp.GlobalArg("b", F64, "16, 4"), ...],
    )
    eight = lp.make_function("{[i]: 0 <= i < 8}", "y[i] = 2*x[i]", name="eight")
    unit = lp.pack_and_unpack_args_for_call(lp.merge([knl, eight]), "eight")
    assert instructions(unit) == [
        "i,j_0: a_pack[j_0] = a[i, 2*j_0]",
        "i: [k]: b_pack[k] = eight([j]: a_pack[j])",
        "i,k_0: b[2*k_0, i] = b_pack[k_0]",
    ]
    found = run(unit, a=A, b=np.zeros((16, 4)))["b"]
    np.testing.assert_array_equal(found[::2], 2 * A[:, ::2].T)
    with pytest.raises(lp.TransformError, match="'z' is not an argument of 'eight'"):
        lp.pack_and_unpack_args_for_call(unit, "eight", "z")


# -- functions of a user's own --------------------------------------------------------------------


class Cube(lp.ScalarCallable):
    """``cube(x)`` in float32 or float64, defined in front of the code."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        given = arg_id_to_dtype[0].numpy_dtype
        dtype = NumpyType(given if given.kind == "f" else F64)
        name = {"float32": "cubef", "float64": "cube"}[dtype.numpy_dtype.name]
        types = {0: dtype, -1: dtype}
        return self.copy(arg_id_to_dtype=types, name_in_target=name), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Any:
        assert self.arg_id_to_dtype is not None
        kind = target.type_name(self.arg_id_to_dtype[0])
        word = "__device__" if isinstance(target, lp.CudaTarget) else "static"
        yield (
            f"10_{self.name_in_target}",
            f"{word} {kind} {self.name_in_target}({kind} x) {{ return x*x*x; }}",
        )


class SinCos(lp.ScalarCallable):
    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        real = NumpyType(F64)
        types = {0: real, -1: real, -2: real}
        return self.copy(arg_id_to_dtype=types, name_in_target="sin_cos"), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Any:
        yield "0", "#include <math.h>"
        yield "1", "static double sin_cos(double x, double *c) { *c = cos(x); return sin(x); }"


def cubes() -> lp.TranslationUnit:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = 1 + cube(x[i])")
    return lp.register_callable(knl, "cube", Cube("cube"))


@pytest.mark.parametrize("dtype", [F32, F64, np.dtype(np.int32)], ids=str)
def test_a_function_by_the_name_of_its_types(device: Any, dtype: Any) -> None:
    x = np.arange(5).astype(dtype)
    for found in (run(cubes(), x=x), run_on(device, cubes(), x=x)):
        assert found["y"].dtype == (F32 if dtype == F32 else F64)
        np.testing.assert_array_equal(found["y"], 1 + x**3)


def test_a_function_on_cuda() -> None:
    knl = lp.add_dtypes(cubes().copy(target=lp.CudaTarget()), {"x": F32})
    code = lp.generate_code_v2(knl).device_code()
    assert "__device__ float cubef(float x) { return x*x*x; }" in code
    assert "y[i] = 1.0f + cubef(x[i]);" in code


def test_a_function_with_two_results() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "s[i], c[i] = sincos(x[i])")
    knl = lp.register_callable(knl, "sincos", SinCos("sincos"))
    x = np.arange(5.0)
    found = run(knl, x=x)
    np.testing.assert_allclose(found["s"], np.sin(x))
    np.testing.assert_allclose(found["c"], np.cos(x))


def test_results_are_stored_in_places_of_their_types() -> None:
    data = [lp.GlobalArg("c", F32, "n"), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "s[i], c[i] = sincos(x[i])", data)
    knl = lp.register_callable(knl, "sincos", SinCos("sincos"))
    knl = lp.add_dtypes(knl.copy(target=lp.CTarget()), {"x": F64})
    with pytest.raises(lp.CodegenError, match="is float32, but 'sincos' stores float64 there"):
        lp.generate_code_v2(knl)


def test_a_function_of_fixed_types() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = root(x[i])")
    knl = lp.register_callable(knl, "root", lp.CallMangleInfo("sqrt", (F64,), (F64,)))
    knl = lp.add_dtypes(knl.copy(target=lp.CTarget()), {"x": F32})
    assert "sqrt((double) x[i])" in lp.generate_body(knl)
    assert "#include <math.h>" in lp.generate_code_v2(knl).device_code()


def test_registered_functions_are_known_to_merged_kernels() -> None:
    f = lp.make_function("{[i]: 0 <= i < 16}", "y[i] = cube(x[i])", name="twice")
    knl = rows()
    unit = lp.merge([lp.register_callable(knl, "cube", Cube("cube")), f])
    np.testing.assert_allclose(run(unit, a=A)["b"], A**3)


class Scaled(lp.ScalarCallable):
    """``scaled(k, x)``, of which *k* must be an integer."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        number, value = arg_id_to_dtype[0], arg_id_to_dtype[1]
        assert number.is_integral()
        types = {0: number, 1: value, -1: value}
        return self.copy(arg_id_to_dtype=types, name_in_target=f"scaled_{value.numpy_dtype}"), ()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("scaled(-2, x[i])", "scaled_float32(-2, x[i])"),
        ("scaled(2 + 1, 0.1)", "scaled_float64(2 + 1, 0.1)"),
        ("scaled(i, 2.5*x[i])", "scaled_float32(i, 2.5f * x[i])"),
    ],
)
def test_integers_are_passed_as_integers(call: str, code: str) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", f"y[i] = x[i] + {call}", target=lp.CTarget())
    knl = lp.register_callable(knl, "scaled", Scaled("scaled"))
    assert code in lp.generate_body(lp.add_dtypes(knl, {"x": F32}))


def test_names_of_functions_are_taken_once() -> None:
    other = lp.CallMangleInfo("cbrt", (F64,), (F64,))
    with pytest.raises(lp.TransformError, match="'cube' is taken"):
        lp.register_callable(cubes(), "cube", other)
    assert lp.register_callable(cubes(), "cube", other, redefining_not_ok=False) != cubes()
    assert lp.register_callable(cubes(), "cube", Cube("cube")) == cubes()


def test_a_function_that_does_not_say_its_types() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = f(x[i])")
    knl = lp.register_callable(knl, "f", lp.ScalarCallable("f"))
    with pytest.raises(lp.TypeInferenceFailure, match="lacks with_types"):
        lp.add_and_infer_dtypes(knl, {"x": F64})


def test_a_wrong_number_of_arguments() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = cube(x[i], 2)")
    knl = lp.register_callable(knl, "cube", Cube("cube"))
    with pytest.raises(lp.TypeInferenceFailure, match="'cube' takes 1 argument, not 2"):
        lp.add_and_infer_dtypes(knl, {"x": F64})


@pytest.mark.parametrize(
    "name", ["CallMangleInfo", "CallableKernel", "InKernelCallable", "ScalarCallable"]
)
def test_callables_have_their_documented_module(name: str) -> None:
    assert getattr(function_interface, name) is getattr(lp, name)


def test_a_descriptor_is_copied_with_changes() -> None:
    rows = function_interface.ArrayArgDescriptor((7, 10), lp.AddressSpace.GLOBAL, None)
    changed = rows.copy(shape=(70,))
    assert (changed.shape, changed.address_space) == ((70,), rows.address_space)
    value = function_interface.ValueArgDescriptor()
    assert value.copy() == value


@pytest.mark.parametrize(
    ("to_pack", "to_unpack", "copied"),
    [
        ("x", None, {"x_pack", "y_pack"}),
        (["x", "y"], ["y"], {"x_pack", "y_pack"}),
        ("f", (), {"x_pack"}),
        ((), "g", {"y_pack"}),
    ],
)
def test_arrays_are_packed_by_their_names_here_or_there(
    to_pack: Any, to_unpack: Any, copied: set[str]
) -> None:
    unit = lp.merge(
        [
            lp.make_kernel("{ [k,l]: 0 <= k,l < 8 }", "[k]: y[2*k] = more([l]: x[2*l])"),
            lp.make_function("{ [i]: 0 <= i < 8 }", "g[i] = f[i] + 1", name="more"),
        ]
    )
    unit = lp.pack_and_unpack_args_for_call(
        unit, "more", args_to_pack=to_pack, args_to_unpack=to_unpack
    )
    assert unit.default_entrypoint.temporary_variables.keys() == copied
