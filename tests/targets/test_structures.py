"""Structures as element types, which preambles declare and pyopencl knows by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.targets.support import compile_cuda

cl = pytest.importorskip("pyopencl")
cla = pytest.importorskip("pyopencl.array")
tools = pytest.importorskip("pyopencl.tools")

PAIR = np.dtype([("lo", np.float32), ("n", np.int32)])


def registered(queue: Any) -> tuple[Any, str]:
    dtype, declaration = tools.match_dtype_to_c_struct(queue.device, "kgen_test_pair", PAIR)
    return tools.get_or_register_dtype("kgen_test_pair", dtype), declaration


def test_fields_are_read_and_assigned(opencl_queue: Any) -> None:
    dtype, declaration = registered(opencl_queue)
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "r[i].n = 2*i + 1\nr[i].lo = 0.5*q[i].n + q[i].lo",
        [lp.GlobalArg("r, q", dtype, shape="n"), ...],
        preambles=[("pair", declaration)],
        seq_dependencies=True,
    )
    q = np.zeros(4, dtype)
    q["lo"], q["n"] = np.arange(4), 10
    r = cla.zeros(opencl_queue, 4, dtype)
    knl(opencl_queue, q=cla.to_device(opencl_queue, q), r=r)
    np.testing.assert_array_equal(r.get()["n"], 2 * np.arange(4) + 1)
    np.testing.assert_array_equal(r.get()["lo"], 5 + np.arange(4))


def test_whole_elements_are_copied(opencl_queue: Any) -> None:
    dtype, declaration = registered(opencl_queue)
    args = [lp.GlobalArg("r, q", dtype, shape="n"), ...]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "r[i] = q[i]", args, preambles=[("pair", declaration)]
    )
    q = np.zeros(4, dtype)
    q["lo"], q["n"] = np.arange(4), 10
    _, (r,) = knl(opencl_queue, q=cla.to_device(opencl_queue, q))
    np.testing.assert_array_equal(r.get(), q)


RECORD = np.dtype([("k", np.int8), ("x", np.float64), ("pair", "f4,i4"), ("ok", np.bool_)])
RECORDS = [RECORD, np.dtype(RECORD.descr, align=True)]


def of_records(dtype: Any, target: Any) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        """
        r[i] = q[i] {id=all}
        r[i].x = q[i].x + q[i].pair.f0 {id=x, dep=all}
        r[i].pair.f1 = 2*q[i].k + 1 {id=n, dep=x}
        r[i].ok = q[i].x > 2 {dep=n}
        """,
        [lp.GlobalArg("r, q", dtype, shape="n"), ...],
        target=target,
    )


def records(dtype: Any) -> Any:
    q = np.zeros(5, dtype)
    q["k"], q["x"], q["pair"]["f0"] = np.arange(5), 1.5 * np.arange(5), 3
    expected = q.copy()
    expected["x"] += 3
    expected["pair"]["f1"] = 2 * np.arange(5) + 1
    expected["ok"] = q["x"] > 2
    return q, expected


@pytest.mark.parametrize("dtype", RECORDS)
def test_records_need_no_declaration(dtype: Any, opencl_queue: Any) -> None:
    q, expected = records(dtype)
    _, (found,) = of_records(dtype, lp.ExecutableCTarget())(q=q)
    assert (found == expected).all()
    _, (found,) = of_records(dtype, lp.PyOpenCLTarget())(opencl_queue, q=q)
    assert (found == expected).all()


@pytest.mark.parametrize("dtype", RECORDS)
@pytest.mark.usefixtures("cuda_context")
def test_records_on_cuda(dtype: Any) -> None:
    q, expected = records(dtype)
    _, (found,) = of_records(dtype, lp.PyCudaTarget())(q=q)
    assert (found == expected).all()


@pytest.mark.parametrize("dtype", RECORDS)
def test_nvcc_compiles_records(dtype: Any, nvcc: str, tmp_path: Path) -> None:
    code = lp.generate_code_v2(of_records(dtype, lp.CudaTarget())).device_code()
    compile_cuda(code, tmp_path, nvcc)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([("int", np.float32)], "has no field 'int'"),
        ([("a b", np.float32)], "has no field 'a b'"),
        ([("x", np.float32, 3)], "field 'x' .* is an array"),
    ],
)
def test_fields_that_languages_lack_are_named(fields: Any, why: str) -> None:
    data = [lp.GlobalArg("r, q", np.dtype(fields), shape="n"), ...]
    for target in (lp.CTarget(), lp.OpenCLTarget(), lp.CudaTarget()):
        knl = lp.make_kernel("{ [i]: 0 <= i < n }", "r[i] = q[i]", data, target=target)
        with pytest.raises(lp.CodegenError, match=why):
            lp.generate_code_v2(knl)


def test_vectors_of_three_take_twelve_bytes(opencl_queue: Any, nvcc: str, tmp_path: Path) -> None:
    text = "out[i] = make_float3(a[i].y, 2*a[i].x, i)"
    dtype = np.dtype({"names": ["s0", "s1", "s2"], "formats": ["f4"] * 3, "titles": [*"xyz"]})
    data = [lp.GlobalArg("a", dtype, shape="n"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, data)
    a = np.zeros(5, dtype)
    a["x"], a["y"] = np.arange(5), 7
    for target, queues in ((lp.ExecutableCTarget(), ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
        _, (out,) = knl.copy(target=target)(*queues, a=a)
        np.testing.assert_array_equal(out["s1"], 2 * np.arange(5))
        np.testing.assert_array_equal(out["s2"], np.arange(5))
    code = lp.generate_code_v2(knl.copy(target=lp.CudaTarget())).device_code()
    assert "float3 *__restrict__ out" in code
    compile_cuda(code, tmp_path, nvcc)


@pytest.mark.parametrize("dtype", [np.dtype("f4,i4"), np.dtype("f4,i4,i4")])
def test_new_outputs_that_are_not_all_written_are_filled(dtype: Any, opencl_queue: Any) -> None:
    r = lp.GlobalArg("r", dtype, shape="n", is_input=False)
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "r[i] = q[i] {if=q[i].f1 > 2}",
        [r, lp.GlobalArg("q", dtype, shape="n"), ...],
        options={"fill_value": 7},
    )
    q = np.zeros(5, dtype)
    q["f0"], q["f1"] = 1.5, np.arange(5)
    expected = q.copy()
    expected[:3] = (7,) * len(dtype.fields or ())
    for target, queues in ((lp.ExecutableCTarget(), ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
        there = [cla.to_device(*queues, q)] if queues else [q]
        _, (found,) = knl.copy(target=target)(*queues, q=there[0])
        np.testing.assert_array_equal(found.get() if queues else found, expected)
