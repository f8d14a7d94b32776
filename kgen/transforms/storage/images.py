"""Arguments as images."""

from __future__ import annotations

from kgen.errors import TransformError, counted
from kgen.ir.data import ArrayArg, ImageArg
from kgen.ir.expr import is_zero
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import auto
from kgen.transforms.select import Meaning, require_argument, transform_of

__all__ = ["change_arg_to_image"]


@transform_of(Meaning.CHANGED)
def change_arg_to_image(kernel: LoopKernel, name: str) -> LoopKernel:
    """Turn an array argument into an OpenCL image, read through a spatial cache.

    ::

        __global float const *a    =>  __read_only image2d_t a
        a[n*i + j]                     read_imagef(a, kgen_sampler, (int2)(j, i)).x

    Raises :class:`TransformError` for an argument that is written, that has no axes or more than
    three, or that has an offset.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<n }", "out[i,j] = 2*a[j,i]")
    >>> type(change_arg_to_image(knl, "a").default_entrypoint.arg_dict["a"]).__name__
    'ImageArg'
    """
    arg = require_argument(kernel, name)
    why = None
    if not isinstance(arg, ArrayArg):
        why = "it is a number"
    elif name in kernel.get_written_variables():
        why = f"instruction '{kernel.writers[name][0]}' writes it, and images are only read"
    elif isinstance(arg.shape, tuple) and not 1 <= len(arg.shape) <= 3:
        why = f"it has {counted(len(arg.shape), 'axis', 'axes')}, and images have one, two or three"
    elif arg.offset is auto or not is_zero(arg.offset):
        why = "it begins at an offset"
    if why is not None or not isinstance(arg, ArrayArg):
        raise TransformError(f"argument '{name}' cannot be an image", because=why)
    image = ImageArg(
        name=name,
        dtype=arg.dtype,
        shape=arg.shape,
        dim_names=arg.dim_names,
        is_input=True,
        is_output=False,
        tags=arg.tags,
    )
    return kernel.copy(args=tuple(image if other is arg else other for other in kernel.args))
