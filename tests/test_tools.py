"""Registered names of structures, kgen's and pyopencl's, in ready kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.elementwise import ElementwiseKernel
from kgen.errors import KgenError
from kgen.reduction import ReductionKernel
from kgen.tools import (
    ScalarArg,
    VectorArg,
    dtype_to_ctype,
    get_or_register_dtype,
    match_dtype_to_c_struct,
    register_dtype,
)

PAIR = np.dtype([("n", np.int32), ("x", np.float32)])


def test_names_without_a_declaration() -> None:
    assert get_or_register_dtype("tools_pair", PAIR) == PAIR == get_or_register_dtype("tools_pair")
    pairs = np.zeros(4, PAIR)
    ElementwiseKernel("tools_pair *p", "tools_pair q = {i, 2*i}; p[i] = q")(pairs)
    assert pairs["x"].tolist() == [0, 2, 4, 6]
    assert dtype_to_ctype(PAIR) == "tools_pair"


def test_names_of_pyopencl(opencl_queue: Any) -> None:
    tools, array = pytest.importorskip("pyopencl.tools"), pytest.importorskip("pyopencl.array")
    dtype = np.dtype([("value", np.float32), ("where", np.int32)])
    dtype, declaration = tools.match_dtype_to_c_struct(opencl_queue.device, "tools_largest", dtype)
    dtype = tools.get_or_register_dtype("tools_largest", dtype)
    x = np.random.default_rng(3).normal(size=70_001).astype(np.float32)
    for preamble in ("", declaration):
        knl = ReductionKernel(
            dtype, "(tools_largest) {-INFINITY, -1}", "a.value < b.value ? b : a",
            "(tools_largest) {x[i], i}", "float *x", preamble=preamble,
        )  # fmt: skip
        for found in (knl(x), knl(array.to_device(opencl_queue, x)).get()):
            assert found["where"] == x.argmax()
    assert "tools_largest" in lp.generate_code_v2(knl.build(lp.PyOpenCLTarget())).device_code()


def test_layout_and_declaration() -> None:
    dtype, declaration = match_dtype_to_c_struct(None, "tools_mixed", np.dtype("i1,f8"))
    assert dtype.fields is not None
    assert dtype.fields["f1"][1] == 8
    x = np.zeros(3, dtype)
    ElementwiseKernel("tools_mixed *x", "x[i].f1 = i/2.", preamble=declaration)(x)
    assert x["f1"].tolist() == [0, 0.5, 1]


def test_declared_arguments() -> None:
    register_dtype(PAIR, "tools_pair")
    arguments = [ScalarArg(np.float32, "a"), VectorArg(PAIR, "p")]
    pairs = np.ones(3, PAIR)
    ElementwiseKernel(arguments, "p[i].x = a*p[i].n")(3, pairs)
    assert pairs["x"].tolist() == [3, 3, 3]


def test_what_cannot_be_registered() -> None:
    register_dtype(PAIR, "tools_pair")
    with pytest.raises(KgenError, match="it is that of a structure"):
        register_dtype(np.dtype("f4,f4"), "tools_pair")
    with pytest.raises(KgenError, match="it is that of a uint8"):
        register_dtype(PAIR, "uchar")
    with pytest.raises(KgenError, match=r"'f0' .* is an array"):
        register_dtype(np.dtype("3f4,f4"), "tools_vector")
    with pytest.raises(KgenError, match="not a known type"):
        get_or_register_dtype("tools_unknown")
    with pytest.raises(KgenError, match="registered as a structure 'tools_pair'"):
        ElementwiseKernel(
            "tools_pair *x", "x[i].n = 1", preamble="typedef struct { int n; } tools_pair;"
        )
