"""Schedules for OpenCL and CUDA: work-items on GPUs, work-groups alone on processors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.autoscheduler.test_threads import KERNELS, pasted, tags
from tests.cuda_host import HostCuda

GPU = lp.Device(name="gpu", bandwidth=1e12, cache_bandwidth=1e13, local_bandwidth=1e13)
CUDA = lp.CudaTarget()
CPU = lp.Device(name="cpu", bandwidth=1e10, cache_bandwidth=1e11)
ON_GPU = ("transposition", "rows", "fixed product", "scan", "two nests", "batch")


def run(program: lp.TranslationUnit, *queue: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = {"a": (100, 100), "v": (300, 300), "b": (5000,), "c": (5000,), "u": (700, 4, 4)}
    names = sorted({**shapes, "d": (4, 4)}.keys() & program.default_entrypoint.arg_dict.keys())
    inputs = {name: rng.random(shapes.get(name, (4, 4))) for name in names}
    return list(program(*queue, **inputs)[1])


@pytest.mark.parametrize("name", ON_GPU)
def test_schedules_for_gpus_compute_the_same(name: str, opencl_queue: Any) -> None:
    knl = KERNELS[name].copy(target=lp.PyOpenCLTarget())
    schedule = lp.find_schedule(knl, GPU)
    assert "l.0" in str(schedule)
    fast = lp.autoschedule(knl, GPU)
    assert pasted(knl, str(schedule)) == fast
    expected = run(KERNELS[name])
    for found, right in zip(run(fast, opencl_queue), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize("name", ["transposition", "rows", "total", "product"])
def test_schedules_for_processors_have_no_work_items(name: str, opencl_queue: Any) -> None:
    if opencl_queue.device.type != pytest.importorskip("pyopencl").device_type.CPU:
        pytest.skip("the OpenCL device is no processor")
    fast = lp.autoschedule(KERNELS[name], opencl_queue.device)
    assert isinstance(fast.target, lp.PyOpenCLTarget)
    assert "g.0" in tags(fast)
    assert "l.0" not in tags(fast)
    assert fast == lp.autoschedule(KERNELS[name].copy(target=fast.target), CPU)
    for found, right in zip(run(fast, opencl_queue), run(KERNELS[name]), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::kgen.errors.VectorizationWarning")
def test_products_have_sums_in_registers(opencl_queue: Any) -> None:
    data = [lp.GlobalArg("a, b", np.float32, shape="m, n, n"), ...]
    domain = "{ [e, i, j, k]: 0 <= e < m and 0 <= i, j, k < n }"
    code = "out[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])"
    sizes = "m >= 1 and n >= 1 and n mod 128 = 0"
    knl = lp.make_kernel(domain, code, data, assumptions=sizes, target=lp.PyOpenCLTarget())
    fast = lp.autoschedule(knl, GPU)
    assert "i_sum:ilp.unr" in tags(fast)
    a, b = np.random.default_rng(0).random((2, 2, 128, 128), dtype=np.float32)
    _, (out,) = fast(opencl_queue, a=a, b=b)
    np.testing.assert_allclose(out.get() if hasattr(out, "get") else out, a @ b, rtol=1e-4)


def test_adjacent_work_items_access_adjacent_elements() -> None:
    for name in ("stencil", "transposition", "elementwise"):
        knl = lp.autoschedule(KERNELS[name], lp.CudaTarget())
        known = {n: np.float64 for n in knl.default_entrypoint.arg_dict if n in "abv"}
        (launch,) = lp.explain(knl, known).launches
        assert {a.pattern for a in launch.accesses if a.memory == "global"} == {"coalesced"}


def test_a_gpu_updates_atomically_in_parallel() -> None:
    data = [
        lp.GlobalArg("count", np.int32, shape="m", for_atomic=True),
        lp.GlobalArg("at", np.int32, shape="n"),
        ...,
    ]
    code = "count[at[i]] = count[at[i]] + 1 {atomic}"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, data, target=lp.CudaTarget())
    assert tags(lp.autoschedule(knl)) == "i_inner:l.0 i_outer:g.0"


def test_rows_of_a_stencil_share_what_they_read() -> None:
    knl = lp.make_kernel(
        "{ [k, i, j]: 1 <= k, i, j < n - 1 }",
        "out[k, i, j] = a[k, i-1, j] + a[k, i+1, j] + a[k-1, i, j] + a[k, i, j+1]",
        [lp.GlobalArg("a, out", np.float32, shape="n, n, n"), ...],
        assumptions="n >= 3",
    )
    schedule = str(lp.find_schedule(knl, lp.CudaTarget()))
    assert "'i_inner', 8, outer_tag='l.1', inner_tag='ilp'" in schedule
    assert "'k:g.2'" in schedule
    assert "ilp" not in str(lp.find_schedule(lp.fix_parameters(knl, n=40), lp.CudaTarget()))


@pytest.mark.parametrize("length", ["n", "1031", "2048"])
def test_a_group_goes_along_a_row_for_several_sums(length: str, opencl_queue: Any) -> None:
    text = """
    for r
        <> most = max(i, a[r, i])
        <> total = sum(j, exp(a[r, j] - most))
        out[r, k] = exp(a[r, k] - most)/total
    end
    """
    domain = f"{{ [r, i, j, k]: 0 <= r < m and 0 <= i, j, k < {length} }}"
    data = [lp.GlobalArg("a, out", np.float64, shape=f"m, {length}"), ...]
    target = lp.PyOpenCLTarget()
    knl = lp.make_kernel(domain, text, data, seq_dependencies=True, target=target)
    fast = lp.autoschedule(knl, GPU)
    assert tags(fast).count("l.0") == 3 + (length != "n")  # and that of the copy of the row
    assert ("vec" in tags(fast)) == (length == "2048")
    a = np.random.default_rng(0).random((5, 700 if length == "n" else int(length)))
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    _, (out,) = fast(opencl_queue, a=a)
    np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True))


def batch_of_products(m: int, dtype: Any, **options: Any) -> lp.TranslationUnit:
    domain = f"{{ [e, i, j, k]: 0 <= e < n and 0 <= i, j, k < {m} }}"
    data = [lp.GlobalArg("a, b, out", dtype, shape=f"n, {m}, {m}"), ...]
    return lp.make_kernel(domain, "out[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])", data, **options)


@pytest.mark.parametrize(("m", "dtype"), [(5, np.float32), (8, np.float64), (9, np.complex64)])
def test_batches_of_small_matrices_are_right(m: int, dtype: Any, opencl_queue: Any) -> None:
    fast = lp.autoschedule(batch_of_products(m, dtype, target=lp.PyOpenCLTarget()), GPU)
    a, b = np.random.default_rng(0).random((2, 37, m, m)).astype(dtype)
    _, (out,) = fast(opencl_queue, a=a, b=b)
    np.testing.assert_allclose(out.get() if hasattr(out, "get") else out, a @ b, rtol=1e-5)


def test_small_matrices_come_to_local_memory_as_vectors() -> None:
    knl = lp.autoschedule(batch_of_products(10, np.float32, target=lp.CudaTarget()))
    (launch,) = lp.explain(knl).launches
    assert {a.pattern for a in launch.accesses if a.memory == "global"} == {"coalesced"}
    assert tags(knl).count("vec") == 5


def test_known_matrices_are_operands_of_unrolled_loops() -> None:
    table = np.arange(35 * 35, dtype=np.float32).reshape(35, 35)
    space = lp.AddressSpace.GLOBAL
    data = [
        lp.TemporaryVariable("d", initializer=table, read_only=True, address_space=space),
        lp.GlobalArg("u, out", np.float32, shape="n, 35"),
    ]
    domain = "{ [e, i, j]: 0 <= e < n and 0 <= i, j < 35 }"
    knl = lp.make_kernel(
        domain, "out[e, i] = sum(j, d[i, j]*u[e, j])", [*data, ...], target=lp.CudaTarget()
    )
    schedule = str(lp.find_schedule(knl))
    assert "{'i': 'unr', 'j': 'unr'}" in schedule
    assert "alias_temporaries" in schedule


def test_tiles_of_a_scan_come_to_local_memory(tmp_path: Path) -> None:
    data = [lp.GlobalArg("a, out", np.int32, shape="n"), ...]
    domain = "{ [i, j]: 0 <= j <= i < n }"
    knl = lp.make_kernel(domain, "out[i] = sum(j, a[j])", data, target=lp.CudaTarget())
    schedule = lp.find_schedule(knl)
    assert "add_prefetch" in str(schedule)
    a, out = np.arange(7681, dtype=np.int32), np.zeros(7681, np.int32)
    assert HostCuda(schedule(knl), tmp_path)({"a": a, "out": out, "n": 7681}, order="any")
    np.testing.assert_array_equal(out, np.cumsum(a))


@pytest.mark.parametrize(("n", "width"), [(300, 2), (17, 3)])
def test_terms_of_all_pairs_come_in_tiles(n: int, width: int, opencl_queue: Any) -> None:
    squares = "+".join(f"(p[j, {k}] - p[i, {k}])**2" for k in range(width))
    data = [
        lp.GlobalArg("p", np.float64, shape=f"n, {width}"),
        lp.GlobalArg("w, out", np.float64, shape="n"),
        ...,
    ]
    domain, target = "{ [i, j]: 0 <= i, j < n }", lp.PyOpenCLTarget()
    knl = lp.make_kernel(domain, f"out[i] = sum(j, w[j]*({squares}))", data, target=target)
    fast = lp.autoschedule(knl, GPU)
    assert ("p_1:vec" in tags(fast)) == (width == 2)
    rng = np.random.default_rng(0)
    p, w = rng.random((n, width)), rng.random(n)
    _, (out,) = fast(opencl_queue, p=p, w=w)
    found = out.get() if hasattr(out, "get") else out
    np.testing.assert_allclose(found, ((p[:, None] - p) ** 2).sum(2) @ w, rtol=1e-12)


def test_few_long_sums_over_pairs_have_parts(tmp_path: Path) -> None:
    """A work-item has several, so that it reads a term's elements once for all of them."""
    text = """
    for i
        for j
            d[c] = q[j, c] - p[i, c]
            <> w = q[j, 1]*(d[0] + d[1])
        end
        out[i, a] = sum(j, w*d[a])
    end
    """
    data = [
        lp.GlobalArg("p, out", np.float64, shape=(8192, 2)),
        lp.GlobalArg("q", np.float64, shape=(2100, 2)),
        lp.TemporaryVariable("d", np.float64, shape=2),
    ]
    domain = "{ [i, j, a, c]: 0 <= i < 8192 and 0 <= j < 2100 and 0 <= a, c < 2 }"
    knl = lp.make_kernel(domain, text, data, target=lp.CudaTarget())
    fast = lp.autoschedule(knl)
    own = ("i_inner_outer:ilp.unr", "j_outer:g.1", "a:ilp.unr", "c:unr")
    assert all(tag in tags(fast).split() for tag in own)
    rng = np.random.default_rng(0)
    p, q, out = rng.random((8192, 2)), rng.random((2100, 2)), np.zeros((8192, 2))
    assert HostCuda(fast, tmp_path)({"p": p, "q": q, "out": out}, order="any")
    d = q - p[:, None]
    np.testing.assert_allclose(out, np.einsum("ij,ijc->ic", q[:, 1] * d.sum(2), d), rtol=1e-10)


#: Rows of any lengths, the next of which may begin anywhere: the last one begins first.
FIRST = np.array([9, 90, 5, 5, 50, 100, 0], np.int32)
COUNT = np.array([70, 1, 0, 5, 33, 400, 3], np.int32)


def sums_of_rows(target: Any, *, follow: bool = False) -> lp.TranslationUnit:
    count = "first[i + 1] - first[i]" if follow else "count[i]"
    length = "n + 1" if follow else "n"
    return lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "{ [k]: 0 <= k < length }"],
        f"<> at = first[i] {{id=at}}\n <> length = {count} {{id=n}}\n"
        "out[i] = sum(k, a[at + k]) + length {dep=at:n}",
        [
            lp.GlobalArg("first, count"[: 5 if follow else None], np.int32, shape=length),
            lp.GlobalArg("a", np.float64, shape="m"),
            lp.GlobalArg("out", np.float64, shape="n"),
            lp.ValueArg("m", np.int32),
            ...,
        ],
        target=target,
    )


@pytest.mark.parametrize(("trips", "lanes"), [(None, 4), ({"k": 100}, 16), ({"k": 1}, 1)])
def test_rows_whose_lengths_are_data_have_lanes(trips: Any, lanes: int, opencl_queue: Any) -> None:
    knl = sums_of_rows(lp.PyOpenCLTarget())
    schedule = lp.find_schedule(knl, GPU, trips=trips)
    assert (f"'k', {lanes}, inner_tag='l.0'" in str(schedule)) == (lanes > 1)
    a = np.random.default_rng(0).random(500)
    _, (out,) = schedule(knl)(opencl_queue, first=FIRST, count=COUNT, a=a)
    sums = [a[k : k + n].sum() + n for k, n in zip(FIRST, COUNT, strict=True)]
    np.testing.assert_allclose(out, sums)


@pytest.mark.parametrize("ascending", [(), ("first",)])
def test_warps_add_up_rows_of_any_length(ascending: Any, tmp_path: Path) -> None:
    schedule = lp.find_schedule(knl := sums_of_rows(CUDA, follow=True), ascending=ascending)
    assert ("balance" in str(schedule)) == bool(ascending)
    assert pasted(knl, str(schedule)) == lp.autoschedule(knl, ascending=ascending)
    first = np.concatenate([[0], np.cumsum(COUNT)]).astype(np.int32)
    a, out = np.random.default_rng(0).random(first[-1]), np.zeros(len(COUNT))
    arrays = {"first": first, "a": a, "out": out, "m": len(a), "n": len(COUNT)}
    assert HostCuda(schedule(knl), tmp_path)(arrays, order="any")
    sums = [a[k : k + n].sum() + n for k, n in zip(first[:-1], COUNT, strict=True)]
    np.testing.assert_allclose(out, sums)


def test_a_race_that_the_user_silenced_is_no_proof() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "b[p[i]] = i", silenced_warnings="write_race*", target=CUDA
    )
    assert not lp.find_schedule(knl)


def test_statements_name_arrays_and_loops() -> None:
    knl = sums_of_rows(CUDA)
    for options, name in (({"ascending": "fist"}, "'first'"), ({"trips": {"kk": 3}}, "'k'")):
        with pytest.raises(lp.KernelError, match=f"did you mean {name}"):
            lp.autoschedule(knl, **options)
    with pytest.raises(lp.KernelError, match="mean trip count"):
        lp.autoschedule(knl, trips={"k": 0})


def layer(factor: str) -> lp.TranslationUnit:
    text = f"""
    for i, j
        <> z = sum(k, cast(np.float32, a[i, k])*cast(np.float32, {factor})) + v[j]  {{id=z}}
        out[i, j] = tanh(z)  {{dep=z}}
    end
    """
    data = [lp.GlobalArg("a, b", np.float16), lp.GlobalArg("v, out", np.float32), ...]
    target = lp.CudaTarget(capability=(9, 0))
    return lp.make_kernel("{ [i, j, k]: 0 <= i, j, k < 128 }", text, data, target=target)


def test_what_is_computed_of_a_product_follows_its_sums_on_tensor_cores(tmp_path: Path) -> None:
    assert "tensorize(knl, 'z'" in str(lp.find_schedule(layer("b[k, j]")))
    schedule = lp.find_schedule(knl := layer("b[j, k]"))
    assert "tensorize(knl, 'z'" in str(schedule)
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 128, 128)).astype(np.float16)
    v, out = rng.random(128, np.float32) - 32, np.zeros((128, 128), np.float32)
    assert HostCuda(schedule(knl), tmp_path)({"a": a, "b": b, "v": v, "out": out}, order="any")
    np.testing.assert_allclose(out, np.tanh(a.astype(float) @ b.T + v), rtol=1e-3, atol=1e-4)


def test_gpu_schedules_without_types_warn() -> None:
    domain, text = "{ [i, j, k]: 0 <= i, j, k < n }", "c[i, j] = sum(k, a[i, k]*b[k, j])"
    knl = lp.make_kernel(domain, text, target=CUDA)
    with pytest.warns(lp.KgenWarning, match=r"'a' and 'b' are not known(.|\n)*add_dtypes"):
        lp.find_schedule(knl)
    typed = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(lp.find_schedule(typed)) > 3
