"""Image arguments of calls: pyopencl images, and arrays that are copied to images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from kgen.errors import InvocationError, counted

__all__ = ["ImageArray", "with_images"]

_TYPES = cl.channel_type
#: The order and type of the channels for numbers of a type.
_FORMATS: dict[str, tuple[Any, Any]] = {
    "float32": (cl.channel_order.R, _TYPES.FLOAT),
    "int8": (cl.channel_order.R, _TYPES.SIGNED_INT8),
    "int16": (cl.channel_order.R, _TYPES.SIGNED_INT16),
    "int32": (cl.channel_order.R, _TYPES.SIGNED_INT32),
    "uint8": (cl.channel_order.R, _TYPES.UNSIGNED_INT8),
    "uint16": (cl.channel_order.R, _TYPES.UNSIGNED_INT16),
    "uint32": (cl.channel_order.R, _TYPES.UNSIGNED_INT32),
    "float64": (cl.channel_order.RG, _TYPES.UNSIGNED_INT32),
}
_DTYPES: dict[tuple[Any, Any], np.dtype[Any]] = {
    pair: np.dtype(name) for name, pair in _FORMATS.items()
}


class ImageArray:
    """An image with the attributes of arrays that wrappers use."""

    offset = 0

    def __init__(self, image: cl.Image, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.base_data = image
        self.shape = shape
        self.dtype = dtype
        self.strides: tuple[int, ...] = ()
        self.events: list[cl.Event] = []


def with_images(
    kernel: str, names: frozenset[str], invoke: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that makes images of the arguments *names*, and calls *invoke*."""

    def call(queue: Any = None, /, *more: Any, **kwargs: Any) -> Any:
        if queue is None and not more:
            queue = kwargs.pop("queue", None)
        if more or not isinstance(queue, cl.CommandQueue):
            return invoke(queue, *more, **kwargs)  # rejects them
        given = dict(kwargs)
        for name in sorted(names & kwargs.keys()):
            if kwargs[name] is not None:
                given[name] = _image_of(kernel, name, queue, kwargs[name])
        if given.get("out_host") is None and _comes_from_host(kwargs):
            given["out_host"] = True
        return invoke(queue, **given)

    return call


def _comes_from_host(arguments: Mapping[str, Any]) -> bool:
    values = arguments.values()
    is_on_device = any(isinstance(value, cla.Array | cl.Image) for value in values)
    return not is_on_device and any(isinstance(value, np.ndarray) for value in values)


def _image_of(kernel: str, name: str, queue: cl.CommandQueue, value: Any) -> Any:
    """Return *value* as the image that a kernel takes, or unchanged if it is not an array."""
    if isinstance(value, cl.Image):
        found = value.format
        dtype = _DTYPES.get((found.channel_order, found.channel_data_type))
        if dtype is None:
            raise _error(kernel, name, f"images of the format {found}", "pass an array")
        extents: list[Any] = [value.get_image_info(info) for info in _EXTENTS[value.type]]
        return ImageArray(value, tuple(extents), dtype)
    if not isinstance(value, np.ndarray | cla.Array):
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise _error(kernel, name, "masked arrays", "pass a.filled(...)")
    channels = _FORMATS.get(value.dtype.name)
    if channels is None or not 1 <= value.ndim <= 3:
        what = f"images with {counted(value.ndim, 'axis', 'axes')} and elements of {value.dtype}"
        raise _error(kernel, name, what, "declare it as a GlobalArg")
    image_format = cl.ImageFormat(*channels)
    shape = tuple(reversed(value.shape))
    flags: Any = cl.mem_flags.READ_ONLY
    kind = _KINDS[value.ndim]
    if not _is_supported(queue.context, flags, kind, channels):
        what = f"images of {value.dtype} here: the device has none"
        raise _error(kernel, name, what, "declare it as a GlobalArg")
    if isinstance(value, cla.Array) and value.ndim == 1:
        value = value.get(queue)  # pyopencl copies no buffers to these
    if isinstance(value, np.ndarray):
        host = np.ascontiguousarray(value)
        flags |= cl.mem_flags.COPY_HOST_PTR
        image = cl.create_image(queue.context, flags, image_format, shape=shape, hostbuf=host)
        return ImageArray(image, value.shape, value.dtype)
    if not value.flags.c_contiguous:
        raise _error(kernel, name, "arrays with gaps as images", "pass a copy")
    image = cl.create_image(queue.context, flags, image_format, shape=shape)
    region = (*shape, 1, 1)[:3]
    made = ImageArray(image, value.shape, value.dtype)
    copy: Any = cl.enqueue_copy  # whose declared types know no offset of a buffer
    made.events = [
        copy(
            queue,
            image,
            value.base_data,
            offset=value.offset,
            origin=(0, 0, 0),
            region=region,
            wait_for=list(value.events),
        )
    ]
    return made


def _is_supported(
    context: cl.Context, flags: cl.mem_flags, kind: Any, channels: tuple[Any, Any]
) -> bool:
    return any(
        (found.channel_order, found.channel_data_type) == channels
        for found in cl.get_supported_image_formats(context, flags, kind)
    )


_KINDS: dict[int, Any] = {
    1: cl.mem_object_type.IMAGE1D,
    2: cl.mem_object_type.IMAGE2D,
    3: cl.mem_object_type.IMAGE3D,
}
_EXTENTS: dict[Any, tuple[Any, ...]] = {
    cl.mem_object_type.IMAGE1D: (cl.image_info.WIDTH,),
    cl.mem_object_type.IMAGE2D: (cl.image_info.HEIGHT, cl.image_info.WIDTH),
    cl.mem_object_type.IMAGE3D: (
        cl.image_info.DEPTH,
        cl.image_info.HEIGHT,
        cl.image_info.WIDTH,
    ),
}


def _error(kernel: str, name: str, what: str, hint: str) -> InvocationError:
    return InvocationError(
        f"argument '{name}': kernels do not read {what}", kernel=kernel, hint=hint
    )
