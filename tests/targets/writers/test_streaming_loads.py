"""Arrays tagged ``!streaming_load``: CUDA reads them by ``__ldcs``, in launches that only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.vector_values import vector_type
from tests.cuda_host import HostCuda
from tests.targets.support import compile_cuda

HINT = "!streaming_load"


def rows(target: Any = None, dtype: Any = np.float32) -> lp.TranslationUnit:
    """Return a product of a sparse matrix of 4 entries a row, which is hinted."""
    args = [
        lp.GlobalArg("values", dtype, shape="4*n", tags=HINT),
        lp.GlobalArg("columns", np.int32, shape="4*n", tags=HINT),
        lp.GlobalArg("x, out", dtype, shape="n"),
        ...,
    ]
    text = "out[i] = sum(k, values[4*i + k]*x[columns[4*i + k]])"
    domain = "{ [i, k]: 0 <= i < n and 0 <= k < 4 }"
    return lp.make_kernel(domain, text, args, target=target or lp.CudaTarget())


def copies(
    text: str = "out[i] = 2*a[i]", dtype: Any = np.float32, **options: Any
) -> lp.TranslationUnit:
    """Return a kernel in which a is hinted."""
    args = [lp.GlobalArg("a", dtype, shape="n", tags=HINT), lp.GlobalArg("b, out", dtype), ...]
    return lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }", text, args, target=lp.CudaTarget(), **options
    )


def test_loads_of_the_hinted_arrays_and_no_others() -> None:
    assert lp.generate_body(rows()) == (
        "  for (int i = 0; i < n; ++i)\n"
        "  {\n"
        "    float acc_k = 0.0f;\n"
        "    for (int k = 0; k < 4; ++k)\n"
        "      acc_k += __ldcs(&values[4 * (long long) i + k]) * "
        "x[__ldcs(&columns[4 * (long long) i + k])];\n"
        "    out[i] = acc_k;\n"
        "  }"
    )


@pytest.mark.parametrize("target", [lp.CTarget(), lp.OpenCLTarget(), lp.ISPCTarget()])
def test_other_targets_have_no_such_loads(target: Any) -> None:
    given = rows(target)
    args = [arg.copy(tags=frozenset()) for arg in given.default_entrypoint.args]
    plain = given.with_kernel(given.default_entrypoint.copy(args=args))
    assert lp.generate_body(given) == lp.generate_body(plain)


def shifted(dtype: Any = np.float32) -> lp.TranslationUnit:
    """Return a kernel in which each iteration reads what the previous one wrote."""
    a = lp.GlobalArg("a", dtype, shape="n + 1", tags=HINT)
    text = "a[i + 1] = 2*a[i] + 1"
    return lp.make_kernel("{ [i]: 0 <= i < n }", text, [a, ...], target=lp.CudaTarget())


def test_a_launch_that_writes_an_array_reads_it_plainly() -> None:
    assert "__ldcs" not in lp.generate_body(shifted())
    both = copies(
        "out[i] = 2*a[i] {id=one, dep=*}\n... gbarrier {id=all, dep=one}\na[j] = 1 {dep=all}"
    )
    first, second = lp.generate_code_v2(both).device_code().split("kgen_kernel_0")
    assert "out[i] = 2.0f * __ldcs(&a[i]);" in first
    assert "a[j] = 1.0f;" in second


def test_arrays_that_may_overlap_are_read_plainly() -> None:
    assert "__ldcs" in lp.generate_body(copies())
    assert "__ldcs" not in lp.generate_body(lp.set_options(copies(), restrict=False))


@pytest.mark.parametrize(
    ("load", "expected"), [("a[i]", [0, 1, 3, 7]), ("__ldcs(&a[i])", [0, 1, 21, 41])]
)
def test_the_emulation_moves_loads_over_stores(
    load: str, expected: list[int], tmp_path: Path
) -> None:
    """As nvcc does."""
    a = np.array([0, 10, 20, 30], np.float32)
    run = HostCuda(shifted(), tmp_path, lambda text: text.replace("* a[i]", f"* {load}"))
    assert run({"a": a, "n": 3})
    assert a.tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "lanes", "load"),
    [
        ("int8", 4, "v4.s8"),
        ("uint16", 2, "v2.u16"),
        ("int64", 1, "s64"),
        ("float16", 1, "b16"),
        ("float16", 8, "v4.s32"),
        ("float32", 4, "v4.f32"),
        ("float64", 4, "v4.s32"),
    ],
)
def test_types(dtype: str, lanes: int, load: str, nvcc: str, tmp_path: Path) -> None:
    knl = lp.split_iname(copies(dtype=dtype, assumptions="n mod 8 = 0"), "i", 64, outer_tag="g.0")
    inner = "vec" if lanes > 1 else None
    knl = lp.split_iname(knl, "i_inner", lanes, outer_tag="l.0", inner_tag=inner)
    compile_cuda(lp.generate_code_v2(knl).device_code(), tmp_path, nvcc)
    ptx = (tmp_path / "code.ptx").read_text()
    assert f"ld.global.cs.{load}" in ptx
    assert ptx.count("ld.global.cs") == ptx.count("ld.global")


def test_types_without_streaming_loads_are_read_plainly() -> None:
    for dtype in (np.complex64, np.bool_, vector_type(np.float32, 3).dtype):
        assert "__ldcs" not in lp.generate_body(copies("out[i] = a[i]", dtype)), dtype


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("out[i] = a[i]", "out[i] = __ldcs(&a[i]);"),
        ("out[i] = a[i].y", "out[i] = __ldcs(&a[i]).y;"),
    ],
)
def test_elements_that_are_vectors(text: str, load: str) -> None:
    dtype = vector_type(np.float32, 4).dtype
    args = [lp.GlobalArg("a", dtype, shape="n", tags=HINT), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, args, target=lp.CudaTarget())
    assert load in lp.generate_body(knl)


def test_copies_of_a_tile() -> None:
    knl = lp.split_iname(copies("out[i] = a[i]*a[i]"), "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.0")
    assert "    a_fetch[lid(x)] = __ldcs(&a[32 * gid(x) + lid(x)]);\n" in lp.generate_body(knl)
    started = lp.generate_body(lp.async_copy(knl, "a_fetch_rule"))
    assert "__pipeline_memcpy_async(&a_fetch[lid(x)], &a[32 * gid(x) + lid(x)]," in started


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_results(dtype: Any, tmp_path: Path) -> None:
    knl = lp.split_iname(rows(dtype=dtype), "i", 32, outer_tag="g.0", inner_tag="l.0")
    rng = np.random.default_rng(1)
    values, x = (rng.integers(0, 9, size).astype(dtype) for size in (400, 100))
    columns = rng.integers(0, 100, 400).astype(np.int32)
    out = np.zeros(100, dtype)
    assert HostCuda(knl, tmp_path)(
        {"values": values, "columns": columns, "x": x, "out": out, "n": 100}
    )
    assert np.array_equal(out, (values * x[columns]).reshape(100, 4).sum(axis=1))


@pytest.mark.parametrize(("dtype", "lanes"), [(np.float32, 4), (np.int8, 16), (np.float64, 8)])
def test_results_of_vectors(dtype: Any, lanes: int, tmp_path: Path) -> None:
    knl = lp.split_iname(copies(dtype=dtype, assumptions="n mod 16 = 0"), "i", 64, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", lanes, outer_tag="l.0", inner_tag="vec")
    a, out = (np.arange(100 + 12).astype(dtype) for _ in range(2))
    assert HostCuda(knl, tmp_path)({"a": a, "out": out, "n": 112})
    assert np.array_equal(out, 2 * a)
