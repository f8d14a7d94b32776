"""Derivatives of kernels, against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import KgenError, TransformError
from kgen.ir.expr import to_text
from kgen.ir.language.expressions import parse
from kgen.transforms.expressions.derivative import Differentiator
from tests.transforms.helpers import instructions, kernel_of

N = 5
DRAW = np.random.default_rng(3)
Array = np.ndarray[Any, Any]


def make(text: str, domain: str = "{ [i,j]: 0 <= i,j < n }", **shapes: str) -> Any:
    args: list[Any] = [
        lp.GlobalArg(name, np.float64, shape=shapes.get(name, "n"), is_input=name != "z")
        for name in "xyz"
        if name in text
    ]
    knl = lp.make_kernel(domain, text, [*args, ...], target=lp.ExecutableCTarget())
    return lp.fix_parameters(knl, n=N)


def check(knl: Any, output: str = "z", by: str = "x", *, tolerance: float = 2e-8) -> Any:
    """Compare a derivative with central differences; return its kernel."""
    changed, name = lp.diff_kernel(knl, output, by)
    known = kernel_of(knl)
    given: dict[str, Any] = {}
    for arg in known.args:
        if arg.name != output:
            shape = getattr(arg, "shape", ())
            given[arg.name] = 0.3 + DRAW.random(shape)
    results = changed(**given)[1]
    assert kernel_of(changed).args[-1].name == name
    found = results[-1]
    step = 1e-6
    columns = []
    for at in np.ndindex(np.shape(given[by])):
        moved = []
        for sign in (1, -1):
            values = np.array(given[by])
            values[at] += sign * step
            moved.append(knl(**{**given, by: values if at else values[()]})[1][0])
        columns.append((moved[0] - moved[1]) / (2 * step))
    shape = moved[0].shape + np.shape(given[by])
    expected = np.moveaxis(np.array(columns), 0, -1).reshape(shape)
    assert np.allclose(found, expected, rtol=1e-6, atol=tolerance)
    assert np.abs(expected).max() > 0.01
    return changed


def test_through_temporaries_and_sums() -> None:
    knl = make("<> a = 1/(1 + sinh(x[i] + y[i])**2)\nz[i] = sum(j, exp(a*x[j]))")
    changed = check(knl)
    assert sorted(kernel_of(changed).arg_dict) == ["x", "y", "z_dx"]
    check(knl, by="y")


FUNCTIONS = """
    sin cos tan asin acos atan sinh cosh tanh asinh atanh exp exp2 expm1 log log2 log10 log1p sqrt
    rsqrt cbrt erf erfc fabs abs
"""


@pytest.mark.parametrize("name", FUNCTIONS.split())
def test_functions_of_one_variable(name: str) -> None:
    check(make(f"z[i] = {name}(0.5*x[i])"))


@pytest.mark.parametrize(
    "expression",
    [
        "acosh(1 + x[i])",
        "atan2(x[i], x[j])",
        "hypot(x[i], 2*x[j])",
        "pow(x[i], x[j])",
        "x[i]**x[j]",
        "x[i]**3 + x[i]**(-2) + x[i]**1 + x[i]**0",
        "2**x[i]",
        "fma(x[i], x[j], x[i])",
        "fmod(5.3*x[i], x[j])",
        "(5.3*x[i]) % x[j]",
        "fdim(x[i], x[j])",
        "max(x[i], x[j], 0.6)",
        "min(x[i], 2*x[j])",
        "fmax(x[i], x[j])",
        "(x[i] + x[j])/(x[i]*x[j]) - x[i]/2",
        "x[i]*floor(3*x[j])",
        "(x[i]**2 if x[i] < x[j] else sin(x[i]))",
        "cast(float64, x[i]*x[j])",
        "-x[i]*(y[i] - x[j])",
    ],
)
def test_expressions(expression: str) -> None:
    check(make(f"z[i, j] = {expression}", z="n, n"))


def test_bessel_functions() -> None:
    text = "z[i] = bessel_jn(2, x[i]) + bessel_yn(3, x[i]) + bessel_j0(x[i])*bessel_y1(x[i])"
    knl = make(text).copy(target=lp.ExecutableCWithGNULibcTarget())
    check(knl, tolerance=1e-5)


def test_derivatives_by_a_number() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 5 }",
        "z[i] = i*x + sin(x*x)",
        [lp.ValueArg("x", np.float64), lp.GlobalArg("z", np.float64, shape="5")],
        target=lp.ExecutableCTarget(),
    )
    changed = check(knl)
    assert instructions(changed) == ["i: z_dx[i] = i + cos(x*x)*(x + x)"]


def test_by_a_matrix() -> None:
    check(make("z[i] = sum(j, x[i, j]*y[j])**2", x="n, n"))


def test_a_variable_that_is_written_often() -> None:
    text = """
    for i
        <> t = x[i]  {id=first}
        for j
            t = t*x[j] + 1  {id=again, dep=first}
        end
        z[i] = t*t  {dep=again}
    end
    """
    check(make(text))


def test_a_result_that_is_read_again() -> None:
    check(make("z[i] = x[i]*y[i]  {id=one}\nz[i] = z[i]*z[i] + x[0]  {id=two, dep=one}"))


def test_a_result_that_goes_on_from_what_it_was() -> None:
    args = [lp.GlobalArg("x,z", np.float64, shape="4")]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 4 }", "z[i] = z[i]*x[i]", args, target=lp.ExecutableCTarget()
    )
    changed, _ = lp.diff_kernel(knl, "z", "x")
    x, z = DRAW.random((2, 4))
    _, (product, z_dx) = changed(x=x, z=z.copy(), z_dx=np.ones((4, 4)))
    assert np.allclose(product, x * z)
    assert np.allclose(z_dx, np.diag(z) + x[:, None])


def test_what_waits_through_a_dropped_instruction() -> None:
    text = """
    <> t = x[i]  {id=one}
    <> u = t + 1  {id=between, dep=one}
    z[i] = t*t  {id=use, dep=one}
    t = 3*x[i]*x[i]  {id=two, dep=use:between}
    y[i] = t + u  {id=last, dep=two}
    """
    knl = make(text)
    changed, name = lp.diff_kernel(knl, "z", "x")
    values = DRAW.random(N)
    (found,) = changed(x=values)[1]
    assert name == "z_dx"
    assert np.allclose(found, np.diag(2 * values))


def test_conditions_and_copied_outputs() -> None:
    text = "if x[i] < 0.8\n z[i] = x[i]**2  {id=a}\nelse\n z[i] = y[i]  {id=b}\nend"
    knl = make(text)
    changed, _ = lp.diff_kernel(knl, "z", "x", copy_outputs="z")
    x, y = DRAW.random((2, N))
    _, (z, z_dx) = changed(x=x, y=y)
    assert np.allclose(z, np.where(x < 0.8, x**2, y))
    assert np.allclose(z_dx, np.diag(np.where(x < 0.8, 2 * x, 0)))


def test_sums_that_are_copied() -> None:
    knl = make("z[i] = sum(j, x[i]*x[j])")
    changed, _ = lp.diff_kernel(knl, "z", "x", copy_outputs={"z"})
    x = DRAW.random(N)
    _, (z, z_dx) = changed(x=x)
    assert np.allclose(z, x * x.sum())
    assert np.allclose(z_dx, np.eye(N) * x.sum() + x[:, None])


def test_several_outputs_one_of_them_constant() -> None:
    knl = make("z[i] = x[i]\ny[i] = 2.5  {id=other}\nw[i] = 3*x[i]")
    changed, names = lp.diff_kernel(knl, "w, y, z", "x", diff_iname_prefix="along")
    assert names == ("w_dx", None, "z_dx")
    assert {"along0", "along0_0"} <= set(kernel_of(changed).inames)


def test_axes_of_batches() -> None:
    text = "z[k, i] = sum(j, x[k, j]*x[k, i])"
    knl = make(text, "{ [i,j,k]: 0 <= i,j,k < n }", x="n, n", z="n, n")
    changed, name = lp.diff_kernel(knl, "z", "x", batch_axes_in_by={0})
    derivative = kernel_of(changed).arg_dict[name]
    assert isinstance(derivative, lp.ArrayArg)
    assert derivative.shape == (N, N, N)
    x = DRAW.random((N, N))
    (found,) = changed(x=x)[1]
    for k in range(N):
        assert np.allclose(found[k], np.eye(N) * x[k].sum() + x[k][:, None])


def test_on_opencl(device: Any) -> None:
    knl = make("<> t = sin(x[i])*y[i]\nz[i] = t*t + x[i]").copy(target=lp.PyOpenCLTarget())
    changed, _ = lp.diff_kernel(lp.tag_inames(knl, {"i": "g.0"}), "z", "x")
    x, y = DRAW.random((2, N))
    _, (found,) = device(changed, x=x, y=y)
    assert np.allclose(found, np.diag(2 * np.sin(x) * np.cos(x) * y**2 + 1))


def test_rules_are_expanded() -> None:
    check(make("f(a) := a*a\nz[i] = f(x[i])*f(2)"))


def test_what_is_zero_is_left_out() -> None:
    def leaf(name: str, index: tuple[Any, ...]) -> Any:
        return parse("dx") if name == "x" else 0

    differentiate = Differentiator(leaf)
    for text, expected in [
        ("c*x + b", "c*dx"),
        ("c**2/b", "0"),
        ("x*x", "dx*x + x*dx"),
        ("isnan(x)*c", "0"),
    ]:
        assert to_text(differentiate(parse(text))) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("z[i] = lgamma(x[i])", "no derivative of 'lgamma"),
        ("z[i] = product(j, x[j])", "no derivative of"),
        ("z[i] = x[i] {atomic}", "only plain assignments"),
    ],
)
def test_what_cannot_be_differentiated(text: str, what: str) -> None:
    with pytest.raises(TransformError, match=what):
        lp.diff_kernel(make(text), "z", "x")


def test_what_is_no_output_or_no_input() -> None:
    knl = make("z[i] = x[i]")
    with pytest.raises(TransformError, match="'x' is not an output"):
        lp.diff_kernel(knl, "x", "x")
    with pytest.raises(TransformError, match="'z' is written"):
        lp.diff_kernel(knl, "z", "z")
    with pytest.raises(TransformError, match="1 axis, none of number 3"):
        lp.diff_kernel(knl, "z", "x", batch_axes_in_by={3})
    with pytest.raises(KgenError, match="no argument"):
        lp.diff_kernel(knl, "z", "w")


def test_c_code_is_refused() -> None:
    code = lp.CInstruction("i", "z[i] = x[i];", read_variables="x", assignees="z[i]")
    args = [lp.GlobalArg("x,z", np.float64, shape="4"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", [code], args, target=lp.CTarget())
    with pytest.raises(TransformError, match="only plain assignments"):
        lp.diff_kernel(knl, "z", "x")
