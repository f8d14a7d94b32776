"""Functions of a user's own that say themselves how they are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from pymbolic import var

import kgen as lp

DOUBLE = lp.NumpyType(np.dtype(np.float64))
MATVEC = """\
static void matvec(int m, int n, double const *a, int lda, double const *x, int incx, double *y)
{
  for (int i = 0; i < m; ++i)
  {
    y[i] = 0;
    for (int j = 0; j < n; ++j)
      y[i] += a[i * lda + j] * x[j * incx];
  }
}"""


class Matvec(lp.ScalarCallable):
    """A product of a matrix and a vector, by the rows of the matrix."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        if any(arg_id_to_dtype[k].numpy_dtype != np.float64 for k in (0, 1)):
            raise lp.KgenError("matvec takes float64")
        return self.copy(arg_id_to_dtype={0: DOUBLE, 1: DOUBLE, -1: DOUBLE}), clbl_inf_ctx

    def with_descrs(self, arg_id_to_descr: Any, clbl_inf_ctx: Any) -> Any:
        matrix, vector, result = (arg_id_to_descr[k] for k in (0, 1, -1))
        assert matrix.shape == (result.shape[0], vector.shape[0])
        assert matrix.dim_tags[1].stride == result.dim_tags[0].stride == 1
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx

    def emit_call_insn(self, insn: Any, target: Any, expression_to_code_mapper: Any) -> Any:
        (m, n), ecm = self.arg_id_to_descr[0].shape, expression_to_code_mapper
        matrix, vector = insn.expression.parameters
        (result,) = insn.assignees
        arguments = (
            *(m, n, ecm(matrix).expr, self.arg_id_to_descr[0].dim_tags[0].stride),
            *(ecm(vector).expr, self.arg_id_to_descr[1].dim_tags[0].stride, ecm(result).expr),
        )
        return var("matvec")(*arguments), False

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        assert isinstance(target, lp.CTarget)
        yield "10_matvec", MATVEC


class Divide(lp.ScalarCallable):
    """A quotient and what is left, both through pointers or, by default, the first returned."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        types = dict.fromkeys((0, 1, -1, -2), lp.NumpyType(np.dtype(np.int32)))
        return self.copy(arg_id_to_dtype=types, name_in_target="divide"), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        yield "divide", "static int divide(int a, int b, int *c) { *c = a % b; return a / b; }"


def draw(*shape: int) -> Any:
    return np.random.default_rng(2).random(shape)


def compiled(domain: str, code: str, declarations: list[Any], **functions: Any) -> Any:
    knl = lp.make_kernel(domain, code, [*declarations, ...], target=lp.ExecutableCTarget())
    for name, function in functions.items():
        knl = lp.register_callable(knl, name, function(name))
    return knl


def test_arrays_are_passed_by_slices() -> None:
    knl = compiled(
        "{:}",
        "y[:] = gemv(A[:, :], x[:])",
        [
            lp.GlobalArg("A", np.float64, shape=(4, 7)),
            lp.GlobalArg("x", np.float64, shape=7),
            lp.GlobalArg("y", shape=4),
        ],
        gemv=Matvec,
    )
    assert lp.generate_body(knl) == "  matvec(4, 7, &A[0], 7, &x[0], 1, &y[0]);"
    a, x = draw(4, 7), draw(7)
    np.testing.assert_allclose(knl(A=a, x=x)[1][0], a @ x)


def test_parts_of_arrays_with_strides_in_loops() -> None:
    knl = compiled(
        "{ [r, i, j]: 0 <= r < n and 0 <= i < 3 and 0 <= j < 5 }",
        "[i]: y[r, i] = gemv([i, j]: A[i + 1, j], [j]: x[2*j, r])",
        [
            lp.GlobalArg("A", np.float64, shape=(4, 7)),
            lp.GlobalArg("x", np.float64, shape="9, n"),
            lp.GlobalArg("y", shape="n, 3"),
        ],
        gemv=Matvec,
    )
    body = lp.generate_body(lp.fix_parameters(knl, n=2))
    assert body.endswith("matvec(3, 5, &A[7], 7, &x[r], 4, &y[3 * r]);")
    a, x = draw(4, 7), draw(9, 6)
    np.testing.assert_allclose(knl(A=a, x=x)[1][0], (a[1:, :5] @ x[::2]).T)


def test_strides_may_depend_on_sizes_and_loops_may_be_unrolled() -> None:
    knl = compiled(
        "{ [r, i, j]: 0 <= r < 2 and 0 <= i < 3 and 0 <= j < 5 }",
        "[i]: y[r, i] = gemv([i, j]: A[i, j], [j]: x[j, r])",
        [
            lp.GlobalArg("A", np.float64, shape="3, n"),
            lp.GlobalArg("x", np.float64, shape="5, m"),
            lp.GlobalArg("y", shape=(2, 3)),
        ],
        gemv=Matvec,
    )
    knl = lp.tag_inames(lp.assume(knl, "n >= 5 and m >= 2"), "r:unr")
    assert "matvec(3, 5, &A[0], n, &x[1], m, &y[3]);" in lp.generate_body(knl)
    a, x = draw(3, 8), draw(5, 3)
    np.testing.assert_allclose(knl(A=a, x=x)[1][0], (a[:, :5] @ x[:, :2]).T)


def test_results_of_calls_are_waited_for() -> None:
    """A temporary goes through two calls, and what it becomes is read behind the second."""
    knl = compiled(
        "{ [i, j, k]: 0 <= i, j, k < 4 }",
        """
        [i]: t[i] = gemv([i, j]: A[i, j], [j]: x[j])  {id=first}
        [i]: u[i] = gemv([i, j]: A[i, j], [j]: t[j])  {id=second, dep=first}
        out[k] = u[k]  {dep=second}
        """,
        [
            lp.GlobalArg("A", np.float64, shape=(4, 4)),
            lp.GlobalArg("x", np.float64, shape=4),
            lp.TemporaryVariable("t,u", shape=(4,)),
        ],
        gemv=Matvec,
    )
    a, x = draw(4, 4), draw(4)
    np.testing.assert_allclose(knl(A=a, x=x)[1][0], a @ a @ x)


def test_first_of_several_results_is_returned() -> None:
    knl = compiled(
        "{ [i]: 0 <= i < n }",
        "q[i], r[i] = divmod(a[i], 7)",
        [lp.GlobalArg("a,q,r", np.int32, shape="n")],
        divmod=Divide,
    )
    assert "q[i] = divide(a[i], 7, &r[i]);" in lp.generate_body(knl)
    a = np.arange(20, dtype=np.int32)
    _, (q, r) = knl(a=a)
    np.testing.assert_array_equal((q, r), divmod(a, 7))


def test_all_results_may_go_through_pointers() -> None:
    class Stored(Divide):
        def emit_call_insn(self, insn: Any, target: Any, expression_to_code_mapper: Any) -> Any:
            ecm = expression_to_code_mapper
            parts = [ecm(part).expr for part in insn.expression.parameters]
            parts += [var("&")(ecm(place).expr) for place in insn.assignees]
            return var("store_both")(*parts), False

        def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
            yield (
                "both",
                "static void store_both(int a, int b, int *q, int *r) { *q = a/b; *r = a%b; }",
            )

    knl = compiled(
        "{ [i]: 0 <= i < n }",
        "<> q, <> r = divmod(a[i], 3 + i)  {id=d}\nout[i] = 100*q + r  {dep=d}",
        [lp.GlobalArg("a", np.int32, shape="n")],
        divmod=Stored,
    )
    assert "store_both(a[i], 3 + i, &q, &r);" in lp.generate_body(knl)
    a, i = np.arange(20, dtype=np.int32) * 9, np.arange(20)
    np.testing.assert_array_equal(knl(a=a)[1][0], 100 * (a // (3 + i)) + a % (3 + i))


class Count(lp.ScalarCallable):
    """A function without results, which counts what is positive."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        types = {k: DOUBLE for k in arg_id_to_dtype if k >= 0}
        return self.copy(arg_id_to_dtype=types, name_in_target=f"count_{len(types)}"), clbl_inf_ctx

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        yield "count", "static int calls = 0;"
        yield "count_0", "static void count_0(void) { ++calls; }"
        yield "count_1", "static void count_1(double x) { calls += x > 0; }"


def test_functions_without_results_are_statements() -> None:
    knl = compiled(
        "{ [i]: 0 <= i < n }",
        """
        count()        {id=one}
        count(a[i])    {id=each, dep=one, inames=i}
        ... nop        {id=wait, dep=each}
        out[0] = 0     {id=out, dep=wait}
        """,
        [lp.GlobalArg("a", np.float32, shape="n"), lp.GlobalArg("out", np.int32, shape=1)],
        count=Count,
    )
    assert lp.generate_body(knl).startswith("""\
  count_0();
  for (int i = 0; i < n; ++i)
    count_1((double) a[i]);""")


def test_a_function_without_a_result_has_no_value() -> None:
    knl = compiled("{ [i]: 0 <= i < n }", "out[i] = 1 + count()", [], count=Count)
    with pytest.raises(lp.TypeInferenceFailure, match="does not specify the type of a result"):
        lp.generate_code_v2(knl)


class OneResult(lp.ScalarCallable):
    """A function that stores its result in a double that a pointer leads to."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        return self.copy(arg_id_to_dtype={0: DOUBLE, -1: DOUBLE}), clbl_inf_ctx

    def emit_call_insn(self, insn: Any, target: Any, expression_to_code_mapper: Any) -> Any:
        ecm = expression_to_code_mapper
        (argument,), (place,) = insn.expression.parameters, insn.assignees
        assert str(ecm(argument)) == "a[i]"
        assert ecm.infer_type(argument).numpy_dtype.kind == "f"
        passed = ecm(argument, needed_dtype=DOUBLE).expr
        return var("half")(passed, var("&")(ecm(place).expr)), False

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        yield "half", "static void half(double x, double *y) { *y = x / 2; }"


def test_a_temporary_is_declared_before_it_is_stored_to() -> None:
    knl = compiled(
        "{ [i]: 0 <= i < n }",
        "<> t = half(a[i])  {id=t}\nout[i] = t + 1  {dep=t}",
        [lp.GlobalArg("a", np.float32, shape="n")],
        half=OneResult,
    )
    assert "double t;\n    half((double) a[i], &t);" in lp.generate_body(knl)
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(knl(a=a)[1][0], a / 2 + 1)


def test_a_place_of_another_type_is_refused_for_what_is_stored() -> None:
    knl = compiled(
        "{ [i]: 0 <= i < n }",
        "out[i] = half(a[i])",
        [lp.GlobalArg("a", np.float64, shape="n"), lp.GlobalArg("out", np.float32, shape="n")],
        half=OneResult,
    )
    with pytest.raises(lp.CodegenError, match=r"'out\[i\]' is float32, but 'half' stores float64"):
        lp.generate_code_v2(knl)


def test_calls_in_expressions_are_what_emit_call_makes() -> None:
    class Fused(lp.ScalarCallable):
        def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
            return self.copy(arg_id_to_dtype={0: DOUBLE, 1: DOUBLE, -1: DOUBLE}), clbl_inf_ctx

        def emit_call(self, expression_to_code_mapper: Any, expression: Any, target: Any) -> Any:
            rec = expression_to_code_mapper.rec
            x, y = (rec(part, None, DOUBLE) for part in expression.parameters)
            return var("fma")(x, 2 * y + 1, var("M_PI"))

    knl = compiled(
        "{ [i]: 0 <= i < n }",
        "out[i] = 1 + f(a[i], a[i] - 1)",
        [lp.GlobalArg("a", np.float32, shape="n")],
        f=Fused,
    )
    assert "1.0 + fma((double) a[i], 2 * (double) (a[i] - 1.0f) + 1, M_PI);" in lp.generate_body(
        knl
    )
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(knl(a=a)[1][0], 1 + a * (2 * (a - 1) + 1) + np.pi, rtol=1e-6)


def test_addresses_of_elements_that_are_read_by_streaming_loads() -> None:
    class Next(lp.ScalarCallable):
        def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
            return self.copy(arg_id_to_dtype={0: DOUBLE, -1: DOUBLE}), clbl_inf_ctx

        def emit_call(self, expression_to_code_mapper: Any, expression: Any, target: Any) -> Any:
            (x,) = expression.parameters
            return var("next")(var("&")(expression_to_code_mapper.rec(x)))

    array = lp.GlobalArg("a", np.float64, shape="n", tags="!streaming_load")
    text = "out[i] = a[i] + f(a[i])"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, [array, ...], target=lp.CudaTarget())
    knl = lp.register_callable(knl, "f", Next("f"))
    assert "out[i] = __ldcs(&a[i]) + next(&a[i]);" in lp.generate_body(knl)


def test_a_part_of_an_array_begins_at_zero() -> None:
    knl = compiled(
        "{ [i, j]: 0 <= i < 3 and 1 <= j < 5 }",
        "[i]: y[i] = gemv([i, j]: A[i, j], [j]: x[j])",
        [
            lp.GlobalArg("A", np.float64, shape=(3, 5)),
            lp.GlobalArg("x", np.float64, shape=5),
            lp.GlobalArg("y", shape=3),
        ],
        gemv=Matvec,
    )
    with pytest.raises(lp.CodegenError, match=r"the loop 'j' of .* does not start at 0"):
        lp.generate_code_v2(knl)


def test_parts_of_arrays_need_no_types_of_results() -> None:
    class Untyped(lp.ScalarCallable):
        def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
            return self.copy(arg_id_to_dtype={0: arg_id_to_dtype[0]}), clbl_inf_ctx

        def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
            yield "half", "static void half(double const *x, double *y) { y[0] = x[0] / 2; }"

    data = [lp.GlobalArg("a,out", np.float64, shape=(4, 3))]
    text = "[j]: out[i, j] = half([j]: a[i, j])"
    knl = compiled("{ [i,j]: 0<=i<4 and 0<=j<3 }", text, data, half=Untyped)
    a, out = np.ones((4, 3)), np.zeros((4, 3))
    np.testing.assert_array_equal(knl(a=a, out=out)[1][0][:, 0], np.full(4, 0.5))


class Dot(lp.ScalarCallable):
    """A product of two vectors, whose arrays the call names as in the code."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> Any:
        return self.copy(arg_id_to_dtype={0: DOUBLE, 1: DOUBLE, -1: DOUBLE}), clbl_inf_ctx

    def emit_call_insn(self, insn: Any, target: Any, expression_to_code_mapper: Any) -> Any:
        names = (part.subscript.aggregate for part in insn.expression.parameters)
        return var("dot")(self.arg_id_to_descr[0].shape[0], *names), True

    def generate_preambles(self, target: Any) -> Iterable[tuple[str, str]]:
        real = target.dtype_to_typename(np.float64)
        code = (
            f"static {real} dot(int n, {real} const *x, {real} const *y)\n{{\n  {real} sum = 0;\n"
            "  for (int i = 0; i < n; ++i)\n    sum += x[i] * y[i];\n  return sum;\n}"
        )
        yield "dot", code


def test_an_array_in_a_call_is_a_pointer() -> None:
    text = "out[0] = dot([i]: x[i], [i]: y[i])"
    knl = compiled("{ [i]: 0<=i<6 }", text, [lp.GlobalArg("x,y", "f8")], dot=Dot)
    x, y = draw(6), draw(6)
    np.testing.assert_allclose(knl(x=x, y=y)[1][0], [x @ y])
    declarations = [lp.GlobalArg("x", "f8", shape=6, offset="k"), lp.GlobalArg("y", "f8")]
    knl = compiled("{ [i]: 0<=i<6 }", text, declarations, dot=Dot)
    assert "dot(6, (x + k), y)" in lp.generate_code_v2(knl).device_code()


def test_an_array_in_several_pieces_is_no_pointer() -> None:
    pieces = lp.GlobalArg("x", "f8", shape=(2, 6), dim_tags="sep,N0")
    text = "out[0] = dot([i]: x[0,i], [i]: y[i])"
    knl = compiled("{ [i]: 0<=i<6 }", text, [pieces, lp.GlobalArg("y", "f8")], dot=Dot)
    with pytest.raises(lp.KgenError, match="array 'x' has no single pointer"):
        lp.generate_code_v2(knl)
