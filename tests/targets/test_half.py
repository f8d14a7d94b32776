"""Numbers of 16 bits: float16 everywhere, bfloat16 on CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.targets.support import compile_cuda, value_of

HALF = {"a": "float16", "b": "float16", "f": "float32", "k": "int32", "l": "int64"}
RNG = np.random.default_rng(3)


def kernel(text: Any, target: Any, dtype: Any = np.float16, **options: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg(name, dtype, shape="n") for name in "ab" if f"{name}[" in str(text)]
    domains = ["{ [i]: 0 <= i < n }", "{ [j]: 0 <= j < n }"]
    return lp.make_kernel(domains, text, [*data, ...], target=target, **options)


def on_host(text: Any, **arguments: Any) -> np.ndarray[Any, Any]:
    _, (out,) = kernel(text, lp.ExecutableCTarget())(**arguments)
    return np.asarray(out)


@pytest.mark.parametrize(
    ("expression", "host", "cuda"),
    [
        ("2*a[i] + b[i]", "2.0f16 * a[i] + b[i]", "__half(2.0f) * a[i] + b[i]"),
        ("0.1*a[i]", "0.099975586f16 * a[i]", "__half(0.099975586f) * a[i]"),
        ("a[i]*f[i]", "a[i] * f[i]", "(float) a[i] * f[i]"),
        ("f[i] + a[i]*b[i]", "f[i] + a[i] * b[i]", "f[i] + (float) (a[i] * b[i])"),
        ("a[i]*b[i] + f[i]", "a[i] * b[i] + f[i]", "(float) (a[i] * b[i]) + f[i]"),
        ("a[i] + k[i]", "a[i] + (double) k[i]", "(double) a[i] + (double) k[i]"),
        ("sqrt(a[i])", "(_Float16) sqrtf((float) a[i])", "(__half) sqrtf((float) a[i])"),
        (
            "if(a[i] < k[i], a[i], f[i])",
            None,
            "(double) a[i] < (double) k[i] ? (float) a[i] : f[i]",
        ),
    ],
)
def test_text(expression: str, host: str | None, cuda: str) -> None:
    assert value_of(expression, HALF, lp.CudaTarget()) == cuda
    if host is not None:
        assert value_of(expression, HALF) == host


def test_opencl_has_functions_of_half() -> None:
    assert value_of("sqrt(a[i]) + 1", HALF, lp.OpenCLTarget()) == "sqrt(a[i]) + 1.0h"
    code = lp.generate_code_v2(kernel("out[i] = a[i]", lp.OpenCLTarget())).device_code()
    assert code.startswith("#pragma OPENCL EXTENSION cl_khr_fp16: enable")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a[i] + b[i]", lambda a, b: a + b),
        ("sqrt(a[i])", lambda a, b: np.sqrt(a)),
        ("max(a[i], b[i])*2", lambda a, b: np.maximum(a, b) * np.float16(2)),
        ("a[i] % b[i]", lambda a, b: a % b),
        ("a[i] // b[i]", lambda a, b: a // b),
        ("if(a[i] > b[i], a[i], -b[i])", lambda a, b: np.where(a > b, a, -b)),
    ],
)
def test_the_host_computes_what_numpy_does(expression: str, expected: Any) -> None:
    a, b = ((RNG.random(50) + 0.1).astype(np.float16) for _ in "ab")
    arrays = {name: x for name, x in (("a", a), ("b", b)) if f"{name}[" in expression}
    found = on_host(f"out[i] = {expression}", **arrays)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, expected(a, b))


def test_sums_are_computed_in_32_bits_and_are_float16() -> None:
    a = np.ones(5000, np.float16)  # in 16 bits, 2048 + 1 is 2048
    found = on_host("out[i] = sum(j, a[j]) {inames=i}", a=a)
    assert found.dtype == np.float16
    assert found[0] == a.sum() == 5000


def test_numbers_are_passed_by_value_and_products_rounded() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = x*a[i] + k",
        [lp.ValueArg("x", np.float16), lp.ValueArg("k", np.float32), ...],
        target=lp.ExecutableCTarget(),
    )
    a = RNG.random(9).astype(np.float16)
    _, (found,) = knl(x=np.float16(-1.5), a=a, k=np.float32(2))
    product = (np.float16(-1.5) * a).astype(np.float32)
    np.testing.assert_array_equal(found, product + np.float32(2))


def test_operations_are_counted_by_type() -> None:
    counts = lp.get_op_map(kernel("out[i] = sum(j, a[j]*b[j])", lp.CTarget()))
    found = {(op.dtype.numpy_dtype.name, op.name) for op in counts}
    assert found == {("float16", "mul"), ("float32", "add")}


def test_atomic_sums_on_the_host() -> None:
    data = [lp.GlobalArg("s", np.float16, shape="1", for_atomic=True), ...]
    target = lp.ExecutableCTarget(threads=2)
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "s[0] = s[0] + i {atomic}", data, target=target)
    knl = lp.tag_inames(knl, "i:g.0")
    total = np.zeros(1, np.float16)
    knl(s=total)
    assert total[0] == 28


def test_devices_without_float16_are_named(opencl_queue: Any) -> None:
    if "cl_khr_fp16" in opencl_queue.device.extensions:
        pytest.skip("this device has float16")
    knl = kernel("out[i] = a[i]", lp.PyOpenCLTarget())
    with pytest.raises(lp.CodegenError, match="lacks the extension cl_khr_fp16"):
        knl(opencl_queue, a=np.zeros(3, np.float16))


MIXED = [
    "x{0}[i] = a[i]*{0}[i] + {0}[i] - a[i]/{0}[i]",
    "y{0}[i] = if(a[i] < {0}[i], a[i], {0}[i]) + ldexp(a[i], 2) + isnan(a[i])",
    "z{0}[i] = max(a[i], {0}[i]) + i + fma(a[i], a[i], {0}[i]) + (2*a[i] == {0}[i])",
    "{0}[i] = {0}[i] + a[i]",
    "a[i] = a[i]*{0}[i]",
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nvcc_compiles_what_mixes_types(dtype: str, nvcc: str, tmp_path: Path) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    others = ["int8", "uint32", "int64", "float32", "float64", "bool"]
    data = [lp.GlobalArg(f"o{k}", other, shape="n") for k, other in enumerate(others)]
    lines = [line.format(f"o{k}") for k in range(len(others)) for line in MIXED]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        lines,
        [lp.GlobalArg("a", dtype, shape="n"), *data, ...],
        target=lp.CudaTarget(),
        seq_dependencies=True,
    )
    compile_cuda(lp.generate_code_v2(knl).device_code(), tmp_path, nvcc)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nvcc_compiles_reductions_atomics_tables_vectors(
    dtype: str, nvcc: str, tmp_path: Path
) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    data = [
        lp.GlobalArg("a, b", dtype, shape="64"),
        lp.GlobalArg("s, m", dtype, shape="1", for_atomic=True),
        lp.TemporaryVariable(
            "t",
            dtype,
            shape=(8,),
            initializer=np.arange(8).astype(lp.GlobalArg("a", dtype).dtype.numpy_dtype),
            read_only=True,
            address_space=lp.AddressSpace.GLOBAL,
        ),
        ...,
    ]
    text = ["s[0] = s[0] + a[i]*t[i % 8] {atomic}", "m[0] = max(m[0], a[i]) {atomic}"]
    texts = [[*text, "u[0] = sum(i, a[i])", "v[0], w[0] = argmax(i, a[i], i)"], "b[i] = 2*a[i]"]
    for lines, tag in zip(texts, ("l.0", None), strict=True):
        knl = lp.make_kernel("{ [i]: 0 <= i < 64 }", lines, data, target=lp.CudaTarget())
        if tag is None:
            knl = lp.split_iname(knl, "i", 8, inner_tag="vec")
        else:
            knl = lp.tag_inames(knl, {"i": tag})
        compile_cuda(lp.generate_code_v2(knl).device_code(), tmp_path, nvcc)


def test_bfloat16_is_refused_elsewhere_with_the_reason() -> None:
    pytest.importorskip("ml_dtypes")
    with pytest.raises(lp.CodegenError, match="because: only CUDA has arithmetic for it"):
        lp.generate_code_v2(kernel("out[i] = a[i]", lp.CTarget(), "bfloat16"))


def test_there_are_no_complex_numbers_of_16_bits() -> None:
    with pytest.raises(lp.KgenError, match="complex64"):
        kernel("out[i] = a[i]", lp.CTarget(), "complex32")


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_cuda_computes_what_numpy_does(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    knl = kernel(["out[i] = x*a[i] + b[i]", "s[0] = sum(j, a[j])"], lp.PyCudaTarget(), dtype)
    kind = knl.default_entrypoint.arg_dict["a"].dtype.numpy_dtype
    knl = lp.add_dtypes(knl, {"x": kind})
    a, b = (RNG.random(500).astype(kind) for _ in "ab")
    _, (out, total) = knl(a=a, b=b, x=kind.type(0.5))
    np.testing.assert_allclose(out.astype(float), (0.5 * a + b).astype(float), rtol=1e-2)
    np.testing.assert_allclose(float(total[0]), a.astype(float).sum(), rtol=1e-2)
