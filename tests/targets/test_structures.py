"""Structures as element types, which preambles declare and pyopencl knows by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

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


def test_structures_that_nothing_has_named_are_rejected() -> None:
    unknown = np.dtype([("kgen_test_field", np.float32)])
    args = [lp.GlobalArg("r", unknown, shape="n"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "r[i].kgen_test_field = i", args)
    for target in (lp.PyOpenCLTarget(), lp.OpenCLTarget(), lp.CTarget()):
        with pytest.raises(lp.CodegenError, match="has no element type for"):
            lp.generate_code_v2(knl.copy(target=target))
