"""OpenCL's functions by their names, on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.functions import BUILT_INS
from tests.backends import Backend
from tests.targets.support import compile_cuda

X = np.linspace(-1.5, 3, 8).astype(np.float32)
K = np.array([0, 1, 5, 127, 128, 255, -1, -7])


def run(backend: Backend, text: str, **arrays: Any) -> Any:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", f"out[i] = {text}")
    _, (out,) = backend(knl, **arrays)
    return out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("clamp(x[i], 0, 1)", np.clip(X, 0, 1)),
        ("mad(x[i], x[i], 1)", X * X + 1),
        ("mix(x[i], 4.0, 0.25)", 0.75 * X + 1),
        ("step(0.5, x[i])", X >= 0.5),
        ("sign(x[i])", np.sign(X)),
        ("degrees(x[i])", np.degrees(X)),
        ("radians(x[i])", np.radians(X)),
        ("smoothstep(0, 2, x[i])", np.clip(X / 2, 0, 1) ** 2 * (3 - 2 * np.clip(X / 2, 0, 1))),
        ("select(x[i], 2*x[i], i % 2)", np.where(np.arange(8) % 2, 2 * X, X)),
        ("dot(make_float3(x[i], 2, 1), make_float3(3, x[i], 4))", 5 * X + 4),
        ("dot(make_float2(x[i], 2), make_float2(3, x[i]))", 5 * X),
        ("native_divide(x[i], 2)", X / 2),
        ("native_exp(x[i]) + native_exp2(x[i])", np.exp(X) + 2**X),
        ("native_exp10(x[i]) + native_cos(x[i])", 10**X + np.cos(X)),
        ("native_recip(x[i] + 4) + native_rsqrt(x[i] + 4)", 1 / (X + 4) + (X + 4) ** -0.5),
        (
            "rsqrt(x[i] + 4) + ldexp(x[i], 3) + fma(x[i], x[i], 1)",
            (X + 4) ** -0.5 + 8 * X + X**2 + 1,
        ),
        ("as_float(as_int(x[i]))", X),
    ],
)
def test_real_numbers(text: str, wanted: Any, backend: Backend) -> None:
    out = run(backend, text, x=X)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits(dtype: str, backend: Backend) -> None:
    k = K.astype(dtype)
    bits = 8 * k.itemsize
    words = [format(int(v) % 2**bits, f"0{bits}b") for v in k.tolist()]
    np.testing.assert_array_equal(
        run(backend, "popcount(k[i])", k=k), [w.count("1") for w in words]
    )
    leading = [len(w) - len(w.lstrip("0")) for w in words]
    np.testing.assert_array_equal(run(backend, "clz(k[i])", k=k), leading)
    for by in (0, 3, bits + 1):
        turned = [int(w[by % bits :] + w[: by % bits], 2) for w in words]
        expected = np.array(turned, np.uint64).astype(dtype)
        np.testing.assert_array_equal(run(backend, f"rotate(k[i], {by})", k=k), expected)


def test_bits_of_numbers(backend: Backend) -> None:
    np.testing.assert_array_equal(run(backend, "as_int(x[i])", x=X), X.view(np.int32))
    d = X.astype(np.float64)
    np.testing.assert_array_equal(run(backend, "as_ulong(d[i])", d=d), d.view(np.uint64))


def test_sine_and_cosine(backend: Backend) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "s[i], c[i] = sincos(x[i])")
    _, found = backend(lp.set_options(knl, return_dict=True), x=X)
    s, c = found["s"], found["c"]
    np.testing.assert_allclose(s, np.sin(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c, np.cos(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("popcount(x[i])", "'popcount' takes integers"),
        ("as_double(x[i])", "'as_double' takes a number of 8 bytes"),
        ("native_sin(cast(float64, x[i]))", "'native_sin' takes float32"),
        ("dot(x[i], x[i])", "'dot' takes two vectors of one type"),
    ],
)
def test_wrong_arguments_are_named(text: str, why: str) -> None:
    for target in (lp.CTarget(), lp.OpenCLTarget(), lp.CudaTarget()):
        knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", f"out[i] = {text}", target=target)
        with pytest.raises(lp.TypeInferenceFailure, match=why):
            lp.generate_code_v2(lp.add_dtypes(knl, {"x": np.float32}))


def test_nvcc_compiles_them(nvcc: str, tmp_path: Path) -> None:
    reals = ["clamp(x[i], 0, 1)", "mix(x[i], x[i], 0.5)", "sign(x[i])", "smoothstep(0, 1, x[i])"]
    reals += ["dot(make_float3(1, 2, 3), make_float3(x[i], 5, 6))", "as_int(x[i])"]
    reals += [
        f"native_{n}(x[i])"
        for n in ["cos", "exp", "exp2", "exp10", "log", "log2", "log10", "recip"]
    ]
    reals += [f"{name}(x[i])" for name in BUILT_INS if name.startswith("native_")][:-2]
    reals.append("native_powr(x[i], native_divide(x[i], 2))")
    whole = [f"{f}(k[i])" for f in ("popcount", "clz", "as_uint")] + ["rotate(k[i], 3)"]
    lines = [f"o{n}[i] = {text}" for n, text in enumerate([*reals, *whole])]
    lines.append("s[i], c[i] = sincos(x[i])")
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", lines, target=lp.CudaTarget())
    knl = lp.add_dtypes(knl, {"x": np.float32, "k": np.int32})
    compile_cuda(lp.generate_code_v2(knl).device_code(), tmp_path, nvcc)
