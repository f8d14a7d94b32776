"""OpenCL's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.targets.opencl_functions import OpenCLCallable

A = np.linspace(0, 3, 8) - 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_clamp_keeps_the_type(dtype: Any, opencl_queue: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i] = clamp(a[i], lo, 1)")
    _, (out,) = knl(opencl_queue, a=A.astype(dtype), lo=dtype(0))
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, np.clip(A.astype(dtype), 0, 1))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mix(a[i], 4.0, 0.25)", 0.75 * A + 1),
        ("mad(a[i], a[i], 1)", A * A + 1),
        ("step(0.5, a[i])", A >= 0.5),
        ("sign(a[i])", np.sign(A)),
        ("native_recip(a[i])", 1 / A),
    ],
)
def test_functions_of_floats(text: str, wanted: Any, opencl_queue: Any) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", f"out[i] = {text}")
    _, (out,) = knl(opencl_queue, a=A.astype(np.float32))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


def test_wrong_arguments_are_named() -> None:
    for text, dtype in (("native_sin(a[i])", "f8"), ("sign(a[i])", "c8"), ("step(a[i])", "f4")):
        knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", f"out[i] = {text}", target=lp.OpenCLTarget())
        with pytest.raises(lp.TypeInferenceFailure, match=f"'{text[:4]}"):
            lp.generate_code_v2(lp.add_dtypes(knl, {"a": dtype}))


def test_kernels_of_these_names_are_called_instead(opencl_queue: Any) -> None:
    clamp = lp.make_function("{ [j]: 0 <= j < 8 }", "y[j] = 3*x[j]", name="clamp")
    args = [lp.GlobalArg("a,b", np.float32, shape=8)]
    knl = lp.make_kernel("{ [i, k]: 0 <= i, k < 8 }", "[k]: b[k] = clamp([i]: a[i])", args)
    _, (b,) = lp.merge([knl, clamp])(opencl_queue, a=A.astype(np.float32))
    np.testing.assert_allclose(b, 3 * A, rtol=1e-6)


def test_products_of_vectors(opencl_queue: Any) -> None:
    text = "out[i] = dot(make_float2(1, a[i]), make_float2(3, 4))"
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", text)
    _, (out,) = knl(opencl_queue, a=A.astype(np.float32))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, 3 + 4 * A)
    bad = lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i] = dot(1.0, 2.0)", target=lp.OpenCLTarget())
    with pytest.raises(lp.TypeInferenceFailure, match="'dot' takes two vectors of one type"):
        lp.generate_code_v2(bad)


def test_functions_are_copied_and_registered_like_others(opencl_queue: Any) -> None:
    fade = OpenCLCallable("fade", arg_count=3, name_in_target="smoothstep")
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "out[i] = fade(0, 2, a[i])")
    _, (out,) = lp.register_callable(knl, "fade", fade)(opencl_queue, a=A.astype(np.float32))
    t = np.clip(A / 2, 0, 1)
    np.testing.assert_allclose(out, t * t * (3 - 2 * t), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint32, np.int64, np.uint64])
def test_overloads_are_chosen_by_the_types_of_all_operands(dtype: Any, opencl_queue: Any) -> None:
    """The text of a constant, or of a product of int8, may have another type than its value."""
    a, name = np.arange(1, 9).astype(dtype), np.dtype(dtype).name
    three = f"cast(np.{name}, 3)"
    texts = [three, f"cast(np.{name}, {three})", f"a[i]*{three}", f"({three} if i > 2 else a[i])"]
    values = [dtype(3), dtype(3), a * dtype(3), np.where(np.arange(8) > 2, dtype(3), a)]
    lines = [f"high[{k}, i] = max({text}, a[i])" for k, text in enumerate(texts)]
    lines += [f"mid[{k}, i] = clamp({text}, a[i], 5)" for k, text in enumerate(texts)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", lines, options=lp.Options(return_dict=True))
    _, out = knl(opencl_queue, a=a)
    assert out["high"].dtype == out["mid"].dtype == dtype
    np.testing.assert_array_equal(out["high"], [np.maximum(value, a) for value in values])
    np.testing.assert_array_equal(
        out["mid"], [np.minimum(np.maximum(value, a), dtype(5)) for value in values]
    )
