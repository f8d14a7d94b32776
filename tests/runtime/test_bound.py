"""Bound calls: checked once, launched many times."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import kgen as lp

TEXT = """
t[i] = a[i] + 1 {id=t}
... gbarrier {id=b, dep=t}
out[i] = c*t[(i + 1) % n] {dep=b}
"""


def program(target: lp.TargetBase) -> lp.TranslationUnit:
    """Return two launches with a temporary between them."""
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        TEXT,
        [
            lp.GlobalArg("a, out", "float64", shape="n"),
            lp.ValueArg("c", "float64"),
            lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL),
            ...,
        ],
        target=target,
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


A = np.arange(50.0)


def expected(a: Any, c: float = 2.0) -> Any:
    return c * np.roll(a + 1, -1)


def test_a_bound_call_takes_what_its_arrays_contain_then() -> None:
    a, out = A.copy(), np.zeros(50)
    bound = program(lp.ExecutableCTarget()).executor().bind(a=a, c=2, out=out)
    assert not out.any()
    for values in (A, A**2):
        a[:] = values
        bound()
        np.testing.assert_array_equal(out, expected(values))


def test_packed_launches_keep_no_array_alive(cuda_context: Any) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    a, out = gpuarray.to_gpu(A), gpuarray.zeros(50, np.float64)
    launch, outputs = program(lp.PyCudaTarget()).executor().packed(a=a, c=2.0, out=out)
    assert outputs["out"] is out
    for values in (A, A**2):
        a.set(values)
        launch()
        np.testing.assert_array_equal(out.get(), expected(values))
    there = weakref.ref(a)
    del a
    assert there() is None


def test_outputs_are_allocated_once() -> None:
    bound = program(lp.ExecutableCTarget()).executor().bind(a=A, c=2)
    out = bound.outputs["out"]
    bound()
    np.testing.assert_array_equal(out, expected(A))


def test_what_is_wrong_with_a_call_is_wrong_with_a_bound_one() -> None:
    with pytest.raises(lp.InvocationError, match="argument 'out' has shape"):
        program(lp.ExecutableCTarget()).executor().bind(a=A, c=2, out=np.zeros(3))


def test_loops_on_the_host_launch_with_the_values_that_they_have() -> None:
    knl = lp.make_kernel(
        "{ [t, i]: 0 <= t < 3 and 0 <= i < n }",
        "for t\n ... gbarrier {id=b}\n a[i] = a[i] + t*i {dep=b}\nend",
        [lp.GlobalArg("a", "float64", shape="n"), ...],
        target=lp.ExecutableCTarget(),
    )
    a = np.zeros(4)
    bound = lp.tag_inames(knl, "i:g.0").executor().bind(a=a)
    bound()
    np.testing.assert_array_equal(a, 3.0 * np.arange(4))


def test_guards_are_not_looked_at() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = a[p[i]]",
        [lp.GlobalArg("a, out", "float64", shape="n"), lp.GlobalArg("p", "int32", shape="n"), ...],
        target=lp.ExecutableCTarget(),
        options={"guard_accesses": True},
    )
    with pytest.raises(
        lp.InvocationError, match="does not report the subscripts that guard_accesses"
    ):
        knl.executor().bind(a=A, p=np.zeros(50, np.int32))


def test_bound_calls_of_opencl(opencl_queue: Any) -> None:
    cla = pytest.importorskip("pyopencl.array")
    a, out = cla.to_device(opencl_queue, A), cla.zeros(opencl_queue, 50, np.float64)
    bound = (
        program(lp.PyOpenCLTarget()).executor(opencl_queue).bind(opencl_queue, a=a, c=2.0, out=out)
    )
    for _ in range(2):
        a += 1
        a.finish()
        bound().wait()
        np.testing.assert_array_equal(out.get(), expected(a.get()))
    with pytest.raises(lp.InvocationError, match="arrays of its device only"):
        program(lp.PyOpenCLTarget()).executor(opencl_queue).bind(opencl_queue, a=A, c=2.0)


def test_bound_calls_of_cuda(cuda_context: Any) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    driver = pytest.importorskip("pycuda.driver")
    a, out = gpuarray.to_gpu(A), gpuarray.zeros(50, np.float64)
    bound = program(lp.PyCudaTarget()).executor().bind(a=a, c=2.0, out=out)
    for stream in (None, driver.Stream()):
        a += 1
        driver.Context.synchronize()
        bound(stream)
        driver.Context.synchronize()
        np.testing.assert_array_equal(out.get(), expected(a.get()))
