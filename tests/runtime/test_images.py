"""Arguments that are images, on OpenCL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError, InvocationError, TransformError


def shifted(naxes: int, dtype: Any, target: Any) -> Any:
    """Return a kernel that reads the element behind, along all axes, of an image."""
    names = "ijk"[:naxes]
    index = ", ".join(f"{name} + 1" for name in names)
    bounds = " and ".join(f"0 <= {name} < n{name} - 1" for name in names)
    knl = lp.make_kernel(
        f"{{ [{', '.join(names)}]: {bounds} }}",
        f"out[{', '.join(names)}] = a[{index}]",
        [lp.GlobalArg("a", dtype, shape=tuple(f"n{name}" for name in names)), ...],
        target=target,
    )
    return lp.change_arg_to_image(knl, "a")


def test_images_in_the_code() -> None:
    text = lp.generate_code_v2(shifted(2, np.float32, lp.OpenCLTarget())).device_code()
    assert "__read_only image2d_t a" in text
    assert "= read_imagef(a, kgen_sampler, (int2)(j + 1, i + 1)).x;" in text


@pytest.mark.parametrize("naxes", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint16"])
def test_arrays_become_images(naxes: int, dtype: str, opencl_queue: Any) -> None:
    cla = pytest.importorskip("pyopencl.array")
    if not opencl_queue.device.image_support:
        pytest.skip("the device has no images")
    knl = shifted(naxes, dtype, lp.PyOpenCLTarget())
    a = np.arange(2 ** (2 * naxes)).reshape((4,) * naxes).astype(dtype)
    try:
        knl(opencl_queue, a=a)
    except InvocationError as error:
        if "the device has none" not in str(error):
            raise
        pytest.skip(str(error))
    wanted = a[(slice(1, None),) * naxes]
    _, (out,) = knl(opencl_queue, a=a)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, wanted)
    _, (out,) = knl(opencl_queue, a=cla.to_device(opencl_queue, a))
    np.testing.assert_array_equal(out.get(), wanted)


def need_images(queue: Any) -> None:
    """Skip a test where there are none: PoCL 7.1 says that it has them, and makes none."""
    cl = pytest.importorskip("pyopencl")
    try:
        cl.image_from_array(queue.context, np.zeros((2, 2), np.float32), 1)
    except cl.Error as error:
        pytest.skip(f"the device has no images: {error}")


def test_images_of_the_caller(opencl_queue: Any) -> None:
    cl = pytest.importorskip("pyopencl")
    need_images(opencl_queue)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    image = cl.image_from_array(opencl_queue.context, a, 1)
    _, (out,) = shifted(2, np.float32, lp.PyOpenCLTarget())(opencl_queue, a=image)
    np.testing.assert_array_equal(out.get(), a[1:, 1:])


def test_images_beside_arrays(opencl_queue: Any) -> None:
    need_images(opencl_queue)
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "out[i, j] = a[j, i] + b[i, j]",
        [lp.ImageArg("a", np.float32, shape="n, n"), lp.GlobalArg("b", np.float32), ...],
        target=lp.PyOpenCLTarget(),
    )
    a, b = np.arange(50, dtype=np.float32).reshape(2, 5, 5)
    for _ in range(2):
        np.testing.assert_array_equal(knl(opencl_queue, a=a, b=b)[1][0], a.T + b)
    with pytest.raises(InvocationError, match="elements of complex64"):
        knl(opencl_queue, a=a.astype(np.complex64), b=b)


def test_drivers_without_null_images_are_asked_for_them_once() -> None:
    cl = pytest.importorskip("pyopencl")
    wrapper = pytest.importorskip("kgen.runtime.opencl.wrapper")

    class Kernel:
        def set_arg(self, index: int, value: Any) -> None:
            if value is None:
                raise cl.LogicError("clSetKernelArg: INVALID_MEM_OBJECT")

    kernel = Kernel()
    assert wrapper.argument_setter(kernel, [None, np.dtype("int32")]) == kernel.set_arg


def test_what_cannot_be_an_image() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "a[i] = 2*a[i] + b[i, i, i, i]")
    with pytest.raises(TransformError, match="instruction 'insn' writes it"):
        lp.change_arg_to_image(knl, "a")
    with pytest.raises(TransformError, match="it is a number"):
        lp.change_arg_to_image(knl, "n")
    with pytest.raises(TransformError, match="it has 4 axes"):
        lp.change_arg_to_image(knl, "b")


@pytest.mark.parametrize("target", [lp.CTarget(), lp.CudaTarget()])
def test_languages_without_images(target: Any) -> None:
    with pytest.raises(CodegenError, match="is an element of an image, for which"):
        lp.generate_code_v2(shifted(2, np.float32, target))
