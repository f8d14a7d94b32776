"""Structures as the values of ready kernels: fields, functions of the preamble, declarations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.algorithm import RadixSort, copy_if
from kgen.elementwise import ElementwiseKernel
from kgen.errors import KgenError
from kgen.reduction import ReductionKernel
from kgen.scan import ExclusiveScanKernel, GenericScanKernel, InclusiveScanKernel
from kgen.tools import register_dtype
from tests.cuda_host import HostCuda
from tests.targets.support import compile_cuda

RANGE = np.dtype([("lo", np.float32), ("hi", np.float32), ("pad", np.int32)])
RANGES = """
typedef struct { float lo; float hi; int pad; } range_t;
range_t empty() { range_t r; r.lo = INFINITY; r.hi = -INFINITY; return r; }
range_t only(float x) { range_t r = {x, x}; return r; }
range_t joined(range_t a, range_t b) {
    range_t r = a;
    if (b.lo < r.lo) r.lo = b.lo;
    if (b.hi > r.hi) { r.hi = b.hi; }
    return r;
}
"""
MIN_MAX = ReductionKernel(
    RANGE, "empty()", "joined(a, b)", "only(x[i])", "float *x", preamble=RANGES
)
#: x -> m*x + c, which do not commute; the second field of a combination reads the first of ``a``.
MAP = np.dtype([("c", np.int64), ("m", np.int64)])
MAPS = """
typedef struct { long c, m; } map_t;
map_t then(map_t a, map_t b) { return (map_t) {b.m*a.c + b.c, b.m*a.m}; }
"""


def numbers(size: int) -> np.ndarray:
    return np.random.default_rng(size).normal(size=size).astype(np.float32)


def maps(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return maps, and the combinations of each with all before it."""
    f = np.zeros(size, MAP)
    f["c"], f["m"] = np.random.default_rng(7).integers(-2, 3, (2, size))
    f["m"] = np.where(f["m"] == 0, 1, np.sign(f["m"]))
    every, total = f.copy(), f[0].copy()
    for k in range(1, size):
        total["c"], total["m"] = f["m"][k] * total["c"] + f["c"][k], f["m"][k] * total["m"]
        every[k] = total
    return f, every


@pytest.mark.parametrize("size", [1, 1000, 100_003])
def test_minimum_and_maximum(size: int, opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    x = numbers(size)
    for found in (MIN_MAX(x), MIN_MAX(array.to_device(opencl_queue, x)).get()):
        assert (found["lo"], found["hi"]) == (x.min(), x.max())


def test_along_an_axis_and_in_an_array() -> None:
    x, out = numbers(600).reshape(20, 30), np.zeros(20, RANGE)
    for axis in (0, 1):
        np.testing.assert_array_equal(MIN_MAX(x, axis=axis)["hi"], x.max(axis=axis))
    assert MIN_MAX(x, axis=1, out=out) is out
    np.testing.assert_array_equal(out["lo"], x.min(axis=1))


@pytest.mark.parametrize("in_one_group", [True, False])
def test_reductions_on_cuda(in_one_group: bool, tmp_path: Path) -> None:
    schedule: dict[str, Any] = {"group_size": 32} if in_one_group else {"groups": 4}
    knl = MIN_MAX.build(lp.CudaTarget(), in_one_group=in_one_group, **schedule)
    x, out = numbers(1000), np.zeros((), RANGE)
    assert HostCuda(knl, tmp_path)({"x": x, "out": out, "n": 1000}, order="any")
    assert (out["lo"], out["hi"]) == (x.min(), x.max())


def test_rows_on_cuda(tmp_path: Path) -> None:
    knl = MIN_MAX.build(lp.CudaTarget(), along="rows", group_size=32)
    x, out = numbers(500).reshape(5, 100, 1), np.zeros((5, 1), RANGE)
    sizes = {"n_0": 5, "n_1": 100, "n_2": 1}
    assert HostCuda(knl, tmp_path)({"x": x, "out": out, **sizes}, order="any")
    np.testing.assert_array_equal(out["hi"][:, 0], x.max(axis=1)[:, 0])


@pytest.mark.parametrize("size", [1, 700, 70_001])
def test_scans(size: int, opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    f, expected = maps(size)
    on_device = array.to_device(opencl_queue, f)
    for neutral in (None, "(map_t) {0, 1}"):
        scan = InclusiveScanKernel(MAP, "then(a, b)", neutral, preamble=MAPS)
        np.testing.assert_array_equal(scan(f), expected)
        np.testing.assert_array_equal(scan(on_device.copy()).get(), expected)
    before = ExclusiveScanKernel(MAP, "then(a, b)", "(map_t) {.m = 1}", preamble=MAPS)
    for found in (before(f), before(on_device).get()):
        np.testing.assert_array_equal(found[1:], expected[:-1])
    scan(f, f)
    np.testing.assert_array_equal(f, expected)


@pytest.mark.parametrize("options", [{"in_one_group": True}, {"turns": 1}, {"turns": 3}])
@pytest.mark.parametrize("neutral", [None, "(map_t) {0, 1}"])
def test_scans_on_cuda(options: dict[str, Any], neutral: str | None, tmp_path: Path) -> None:
    scan = InclusiveScanKernel(MAP, "then(a, b)", neutral, preamble=MAPS)
    f, expected = maps(400)
    knl = scan.build(lp.CudaTarget(), group_size=16, items=3, **options)
    given = {"input_ary": f, "output_ary": np.zeros_like(f), "n": 400}
    assert HostCuda(knl, tmp_path)(given, order="any")
    np.testing.assert_array_equal(given["output_ary"], expected)


def test_segments_as_values_with_flags() -> None:
    preamble = """
    struct part { float sum; int starts; };
    part with(part a, part b) { if (!b.starts) b.sum += a.sum; b.starts |= a.starts; return b; }
    """
    dtype = np.dtype([("sum", np.float32), ("starts", np.int32)])
    scan = GenericScanKernel(
        dtype, "float *x, int *starts, part *out, float *rest", "(part) {x[i], starts[i]}",
        "with(a, b)", "(part) {0, 0}", "out[i] = item; rest[i] = last_item.sum - prev_item.sum",
        preamble=preamble,
    )  # fmt: skip
    x, starts = np.ones(9, np.float32), np.array([1, 0, 0, 1, 0, 0, 0, 1, 0], np.int32)
    out, rest = np.zeros(9, dtype), np.zeros(9, np.float32)
    scan(x, starts, out, rest)
    assert out["sum"].tolist() == [1, 2, 3, 1, 2, 3, 4, 1, 2]
    assert rest.tolist() == [2, 1, 0, -1, 1, 0, -1, -2, 1]


def test_boundaries_of_segments_and_fetched_structures(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    scan = GenericScanKernel(
        MAP, "map_t *f, long *out", "here", "across_seg_boundary ? b : then(a, b)",
        "(map_t) {0, 1}", "out[i] = item.c", is_segment_start_expr="i % 4 == 0 && before.m < 9",
        input_fetch_exprs=[("here", "f", 0), ("before", "f", -1)], preamble=MAPS,
    )  # fmt: skip
    f, _ = maps(12)
    expected = np.concatenate([InclusiveScanKernel(MAP, "then(a, b)", preamble=MAPS)(f[k:k + 4])
                               for k in (0, 4, 8)])["c"]  # fmt: skip
    out, on_device = np.zeros(12, np.int64), array.to_device(opencl_queue, np.zeros(12, np.int64))
    scan(f, out)
    scan(array.to_device(opencl_queue, f), on_device)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(on_device.get(), expected)


ALIGNED = np.dtype(RANGE.descr, align=True)
NESTED = np.dtype([("k", np.int8), ("p", ALIGNED), ("z", np.complex64)], align=True)
NESTED_TYPE = "typedef struct { char k; range_t p; cfloat_t z; } nested_t;"
STATEMENTS = """
    nested_t local = x[i], list[2];
    local.p.lo += (&x[i])->k;
    list[1] = local;
    list[1].p = only(local.p.hi);
    list[0].k = 7;
    x[i] = (nested_t) {x[i].k + list[0].k, {x[i].p.hi, x[i].p.lo, 5}, list[1].z * 2};
    if (i > 2) x[i].p.lo = list[1].p.lo + local.p.lo;
"""


def test_statements(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    x = np.zeros(5, NESTED)
    x["k"], x["p"]["lo"], x["p"]["hi"], x["z"] = np.arange(5) + 1, np.arange(5), 9, 1 + 2j
    knl = ElementwiseKernel("nested_t *x", STATEMENTS, preamble=f"{RANGES} {NESTED_TYPE}")
    there = array.to_device(opencl_queue, x)
    knl(there)
    expected = x.copy()
    expected["k"], expected["p"]["pad"], expected["z"] = x["k"] + 7, 5, 2 + 4j
    expected["p"]["hi"] = x["p"]["lo"]
    expected["p"]["lo"] = np.where(np.arange(5) > 2, 9 + x["p"]["lo"] + x["k"], 9)
    np.testing.assert_array_equal(there.get()[1:], expected[1:])


def test_selections(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    f, _ = maps(1000)
    preamble = f"{MAPS} int flips(map_t f) {{ return f.m < 0; }}"
    for x in (f, array.to_device(opencl_queue, f)):
        limit = [("limit", np.int32(0))]
        out, count, _ = copy_if(x, "ary[i].c > limit && flips(ary[i])", limit, preamble=preamble)
        found = (out if x is f else out.get())[: int(count if x is f else count.get())]
        np.testing.assert_array_equal(found, f[(f["c"] > 0) & (f["m"] < 0)])


def test_structures_that_all_elements_read() -> None:
    operation = "x[i] = clamp(x[i], r->lo, (*r).hi)"
    knl = ElementwiseKernel("float *x, range_t *r", operation, preamble=RANGES)
    x = np.arange(6, dtype=np.float32)
    knl(x, np.array([(1, 3, 0)], RANGE))
    assert x.tolist() == [1, 1, 2, 3, 3, 3]
    with pytest.raises(KgenError, match="declare it as a pointer"):
        ElementwiseKernel("float *x, range_t r", "x[i] = r.lo", preamble=RANGES)


def test_nvcc_compiles_structures(nvcc: str, tmp_path: Path) -> None:
    scan = ExclusiveScanKernel(MAP, "then(a, b)", "(map_t) {0, 1}", preamble=MAPS)
    for knl in (MIN_MAX.build(lp.CudaTarget()), scan.build(lp.CudaTarget())):
        compile_cuda(lp.generate_code_v2(knl).device_code(), tmp_path, nvcc)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r[i].mid = 1", "no field 'mid'"),
        ("x[i] = r[i]", "structure .* is used as a float32"),
        ("r[i] = x[i]", "float32 is used as a structure"),
        ("x[i] = r[i] + 1", "used as a number"),
        ("if (r[i]) x[i] = 1", "used as a number"),
        ("r[i] = i ? r[i] : x[i]", "float32 is used as a structure"),
        ("r[i] = (range_t) {1, 2, 3, 4}", "has no field for this value"),
        ("x[i] = sqrt(r[i])", "used as a number"),
        ("rage_t t; x[i] = 1", "not valid C"),
        ("x[i] = set(&r[i])", "an array as 'r'|not of a type|other than"),
    ],
)
def test_errors_say_what_to_write(text: str, message: str) -> None:
    preamble = f"{RANGES} float set(range_t *r) {{ r->lo = 1; return 1; }}"
    with pytest.raises(KgenError, match=message):
        ElementwiseKernel("range_t *r, float *x", text, preamble=preamble)


def test_structures_with_arrays_are_rejected() -> None:
    with pytest.raises(KgenError, match="'v' of the structure 't' is an array"):
        ElementwiseKernel("t *x", "x[i].v[0] = 1", preamble="typedef struct { float v[3]; } t;")
    with pytest.raises(KgenError, match=r"field 'v' of .* is an array"):
        InclusiveScanKernel(np.dtype([("v", np.float32, 3)]), "a")


def test_many_branches_of_a_function_take_linear_time() -> None:
    steps = "".join(f"if (r.pad > {k}) r.hi = {k}; " for k in range(40))
    preamble = f"{RANGES} range_t f(range_t r) {{ {steps} return r; }}"
    x = np.zeros(3, RANGE)
    x["pad"] = [0, 7, 100]
    ElementwiseKernel("range_t *x", "x[i] = f(x[i])", preamble=preamble)(x)
    assert x["hi"].tolist() == [0, 6, 39]


def test_sorts_by_a_field(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    f, _ = maps(3000)
    register_dtype(MAP, "sorted_map_t")
    sort = RadixSort("sorted_map_t *f", "f[i].c", ["f"], key_dtype=np.int64)
    expected = f[np.argsort(f["c"], kind="stable")]
    (found,), _ = sort(f)
    np.testing.assert_array_equal(found, expected)
    (found,), _ = sort(array.to_device(opencl_queue, f))
    np.testing.assert_array_equal(found.get(), expected)


def test_scans_of_large_structures_fit_local_memory(tmp_path: Path) -> None:
    names = [f"v{k}" for k in range(16)]
    preamble = f"""
    typedef struct {{ double {", ".join(names)}; }} many_t;
    many_t sum(many_t a, many_t b) {{ {" ".join(f"a.{n} += b.{n};" for n in names)} return a; }}
    """
    dtype = np.dtype([(name, np.float64) for name in names])
    scan = InclusiveScanKernel(dtype, "sum(a, b)", "(many_t) {0}", preamble=preamble)
    run = HostCuda(scan.build(lp.CudaTarget(), turns=1), tmp_path)
    x, out = np.ones(100, dtype), np.zeros(100, dtype)
    assert run({"input_ary": x, "output_ary": out, "n": 100})
    np.testing.assert_array_equal(out["v15"], np.arange(100) + 1)
    code = lp.generate_code_v2(scan.build(lp.OpenCLTarget())).device_code()
    for kernel in code.split("__kernel")[1:]:
        local = re.findall(r"__local (double|char) \w+\[(\d+)\]", kernel)
        assert (
            sum(int(count) * (8 if name == "double" else 1) for name, count in local) <= 48 * 1024
        )
