"""Arrays of PyTorch, CuPy and numba as arguments of CUDA kernels, without a copy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kgen as lp

pytest.importorskip("pycuda.driver")

PROGRAM = """
import kgen as lp
import torch
knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i] + 1", target=lp.PyCudaTarget())
_, (out,) = knl(a=torch.arange(5.0, device="cuda"))
print(torch.as_tensor(out, device="cuda").tolist())
"""


@pytest.fixture
def knl(cuda_context: Any) -> Any:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = c*a[i] + 1", target=lp.PyCudaTarget())
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def arrays(library: str) -> tuple[Any, Any]:
    """Return five numbers on the device, and as many zeros."""
    values = np.arange(5, dtype=np.float32)
    if library == "torch":
        torch = pytest.importorskip("torch")
        return torch.arange(5.0, device="cuda"), torch.zeros(5, device="cuda")
    if library == "cupy":
        cupy = pytest.importorskip("cupy")
        return cupy.asarray(values), cupy.zeros(5, np.float32)
    cuda = pytest.importorskip("numba.cuda")
    return cuda.to_device(values), cuda.to_device(0 * values)


def on_host(array: Any) -> Any:
    """Copy an array of one of the libraries to the host."""
    for method in ("cpu", "get", "copy_to_host"):
        if hasattr(array, method):
            return np.asarray(getattr(array, method)())
    raise AssertionError(type(array))


@pytest.mark.parametrize("library", ["torch", "cupy", "numba"])
def test_arrays_of_other_libraries_are_read_and_written(knl: Any, library: str) -> None:
    a, out = arrays(library)
    for _ in range(2):
        _, (result,) = knl(a=a, c=np.float32(2), out=out)
        assert result is out
    np.testing.assert_array_equal(on_host(out), [1, 3, 5, 7, 9])


class Capsules:
    """An array with DLPack's methods and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_dlpack_is_enough(knl: Any, library: str) -> None:
    a, out = arrays(library)
    _, (result,) = knl(a=Capsules(a[::2]), c=np.float32(2))
    np.testing.assert_array_equal(result.get(), [1, 5, 9])
    knl(a=a, c=np.float32(2), out=Capsules(out))
    np.testing.assert_array_equal(on_host(out), [1, 3, 5, 7, 9])


def test_an_allocator_may_be_that_of_another_library(knl: Any) -> None:
    torch = pytest.importorskip("torch")
    taken = []

    def allocate(n_bytes: int) -> Any:
        taken.append(torch.empty(n_bytes, dtype=torch.uint8, device="cuda"))
        return taken[-1]

    a, _ = arrays("torch")
    _, (out,) = knl(a=a, c=np.float32(2), allocator=allocate)
    assert int(out.gpudata) == taken[0].data_ptr()
    np.testing.assert_array_equal(torch.as_tensor(out, device="cuda").cpu(), [1, 3, 5, 7, 9])


def test_a_call_needs_no_context_of_its_own(cuda_context: Any) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "[1.0, 3.0, 5.0, 7.0, 9.0]\n", ran.stderr


def test_arrays_that_require_gradients_are_rejected(knl: Any) -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(5.0, device="cuda", requires_grad=True)
    with pytest.raises(lp.InvocationError, match=r"argument 'a', a torch\.Tensor"):
        knl(a=a, c=np.float32(2))
