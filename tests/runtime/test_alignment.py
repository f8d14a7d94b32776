"""Arrays that begin where a vector of the code would not: they get code of their own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import VectorizationWarning
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
