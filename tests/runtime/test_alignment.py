"""Arrays that begin where a vector of the code would not: they get code of their own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import VectorizationWarning
from kgen.ir.tags import VectorizeTag
from tests.targets.writers.test_vectors import vectorized


def check(knl: Any, queue: tuple[Any, ...], a: Any) -> None:
    """Add the first 100 numbers to 100 others that begin at any of them."""
    for first in (0, 1, 4, 0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VectorizationWarning)
            _, (out,) = knl(*queue, a=a[first : first + 100], b=a[:100])
        numbers = a.get()
        np.testing.assert_array_equal(out.get(), numbers[first : first + 100] + numbers[:100])


def test_cuda(cuda_context: Any) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    a = gpuarray.to_gpu(np.arange(110, dtype=np.float32))
    check(vectorized("out[i] = a[i] + b[i]", lp.PyCudaTarget()), (), a)


def test_opencl(opencl_queue: Any) -> None:
    cla = pytest.importorskip("pyopencl.array")
    a = cla.to_device(opencl_queue, np.arange(110, dtype=np.float32))
    check(vectorized("out[i] = a[i] + b[i]", lp.PyOpenCLTarget()), (opencl_queue,), a)


def at(offset: int, n: int = 96) -> Any:
    """Return an array that begins *offset* elements behind a line of the cache."""
    memory = np.arange(n + 32, dtype=np.float32)
    first = -memory.ctypes.data % 64 // 4 + offset
    return memory[first : first + n]


def aligned(**more: Any) -> Any:
    """Return a kernel over lanes on the host, whose arrays are declared with an alignment."""
    arrays = lp.GlobalArg("a, out", np.float32, shape="n", alignment=64)
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", [arrays, ...], target=lp.ExecutableCTarget()
    )
    return lp.split_iname(knl, "i", 16, inner_tag="vec", **more)


def test_the_alignment_of_arguments_is_stated_in_c() -> None:
    stated = "a = __builtin_assume_aligned(a, 64);\n  out = __builtin_assume_aligned(out, 64);"
    assert stated in lp.generate_code_v2(aligned()).device_code()
    assert stated in lp.generate_code_v2(aligned(outer_tag="g.0")).device_code()
    plain = lp.untag_inames(aligned(), "i_inner", VectorizeTag)
    assert "aligned" not in lp.generate_code_v2(plain).device_code()


@pytest.mark.parametrize("first", [0, 1, 4, 8, 16])
def test_the_host(first: int) -> None:
    knl = aligned()
    for out in (0, 3):
        result = at(out)
        knl(a=at(first), out=result)
        np.testing.assert_array_equal(result, 2 * at(first))


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_that_calls_allocate_begin_at_lines_of_the_cache(order: str) -> None:
    out = lp.GlobalArg("out", order=order)
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }", "out[i, j] = a[j]", [out, ...], target=lp.ExecutableCTarget()
    )
    some = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[2*i] = a[i]",
        target=lp.ExecutableCTarget(),
        options={"fill_value": 0},
    )
    for n in (1, 5, 300):
        for call, total in ((knl, n * n), (some, n)):
            _, (result,) = call(a=np.ones(n), n=n)
            assert result.ctypes.data % 64 == 0
            assert result.sum() == total


def test_an_alignment_is_a_power_of_two() -> None:
    with pytest.raises(lp.KgenError, match="alignment of array 'a' is a power of two"):
        lp.GlobalArg("a", alignment=48)
