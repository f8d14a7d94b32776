"""Padding: unused elements between the rows of an array, for alignment or memory banks."""

from __future__ import annotations

import dataclasses

from kgen.analysis.infer import infer_types
from kgen.errors import TransformError, counted
from kgen.ir.checked import checked
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.sets.effort import isl_limit
from kgen.ir.types import NumpyType
from kgen.ir.unit import TranslationUnit, kernel_of
from kgen.transforms.array_accesses import reject_elements_by_number
from kgen.transforms.select import require_array, transform

__all__ = ["add_padding", "find_padding_multiple"]


@transform
def add_padding(kernel: LoopKernel, variable: str, axis: int, align_bytes: int) -> LoopKernel:
    """Pad an array, so that entries along an axis start at multiples of *align_bytes*.

    The stride of the axis grows to the next multiple, and the strides of the axes outside it as
    far as necessary: pad the inner axes first. *variable* is an argument, whose callers
    must then pass it with these strides, or a temporary. With one padding element, consecutive rows
    of a tile in local memory start in different banks: for 16 x 16 elements of 4 bytes,
    ``add_padding(knl, "a_fetch", 0, 17*4)``; :func:`add_padding_to_avoid_bank_conflicts` finds
    the number.

    ::

        float tile[16*16]                            float tile[271]
        ... tile[16*lid(0) + lid(1)]         =>      ... tile[17*lid(0) + lid(1)]

    Raises :class:`TransformError` if a stride or the type is unknown, if the stride is not a
    number, or if *align_bytes* is not a multiple of the size of an element.

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<15 }", "a[i,j] = 0",
    ...                   [GlobalArg("a", np.float32, shape="n, 15"), ...])
    >>> print(add_padding(knl, "a", 0, 32).default_entrypoint.arg_dict["a"].dim_tags[0])
    N1:stride:16
    """
    array = _known(kernel, variable)
    strides = array.fixed_strides
    size = _elements(array, align_bytes)
    stride = _stride(array, axis)
    padded = -(-stride // size) * size
    if padded == stride:
        return kernel
    assert isinstance(array.dim_tags, tuple)
    tags = list(array.dim_tags)
    tags[axis] = _with_stride(tags[axis], padded)
    inner = axis
    for outer in _axes_outside(array, axis):
        needed = _times(tags[inner].stride, array.shape[inner])
        if not (_is_int(strides[outer]) and _is_int(needed) and strides[outer] >= needed):
            tags[outer] = _with_stride(tags[outer], needed)
        inner = outer
    changed = array.copy(dim_tags=tuple(tags))
    reject_elements_by_number(kernel, array, changed)
    return kernel.with_declarations({variable: changed})


@checked
def find_padding_multiple(
    kernel: LoopKernel | TranslationUnit,
    variable: str,
    axis: int,
    align_bytes: int,
    allowed_waste: float = 0.1,
) -> int:
    """Return how many entries along an axis to pad together, so that little memory is wasted.

    This is the smallest number of entries for which padding to *align_bytes* adds no more than
    *allowed_waste* of their size. An axis split by it can be padded cheaply.

    Raises :class:`TransformError` as :func:`add_padding` does.

    >>> import numpy as np
    >>> from kgen.frontend import make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<3 }", "a[i,j] = 0",
    ...                   [GlobalArg("a", np.float32, shape="n, 3"), ...])
    >>> find_padding_multiple(knl, "a", 0, 16)
    4
    """
    kernel = kernel_of(kernel)
    with isl_limit("padding", kernel, TransformError):
        array = _known(kernel, variable)
        size = _elements(array, align_bytes)
        stride = _stride(array, axis)
        if allowed_waste < 0:
            raise TransformError(
                f"allowed_waste is a number that is not negative, not {allowed_waste}"
            )
    multiple = 1
    while -(multiple * stride) % size > allowed_waste * multiple * stride:
        multiple += 1
    return multiple


# -- known facts about an array -----------------------------------------------------------------


def _known(kernel: LoopKernel, variable: str) -> ArrayBase:
    """Return an array with its type."""
    array = require_array(kernel, variable)
    if array.dtype is None:
        array = require_array(infer_types(kernel, complete=False), variable)
    tags = array.dim_tags
    has_strides = isinstance(tags, tuple) and all(
        isinstance(tag, FixedStrideArrayDimTag) for tag in tags
    )
    has_shape = isinstance(array.shape, tuple) and None not in array.shape
    if array.dtype is None or not has_strides or not has_shape:
        what = "type" if array.dtype is None else "layout"
        raise _reject(
            array,
            f"its {what} is not known",
            f"declare it, or add_dtypes(kernel, {{'{variable}': ...}})"
            if what == "type"
            else f"declare the shape of '{variable}'",
        )
    return array


def _reject(array: ArrayBase, because: str, hint: str) -> TransformError:
    return TransformError(f"array '{array.name}' cannot be padded", because=because, hint=hint)


#: Neither pages and banks of memory nor useful alignments are larger.
_MOST_BYTES = 1 << 21


def _elements(array: ArrayBase, align_bytes: int) -> int:
    """Return *align_bytes* in elements."""
    assert isinstance(array.dtype, NumpyType)
    size = array.dtype.itemsize
    if align_bytes > _MOST_BYTES:
        raise _reject(
            array,
            f"{align_bytes} bytes are more than the largest alignment, {_MOST_BYTES}",
            f"align_bytes={16 * size}",
        )
    if align_bytes <= 0 or align_bytes % size:
        raise _reject(
            array,
            f"{align_bytes} bytes are not a multiple of the {size} bytes of an element",
            f"align_bytes={max(1, -(-align_bytes // size)) * size}",
        )
    return align_bytes // size


def _stride(array: ArrayBase, axis: int) -> int:
    strides = array.fixed_strides
    if not 0 <= axis < len(strides):
        raise _reject(
            array,
            f"it has {counted(len(strides), 'axis', 'axes')} and no axis {axis}",
            "count from 0",
        )
    stride = strides[axis]
    if not isinstance(stride, int) or stride <= 0:
        raise _reject(
            array,
            f"the stride of axis {axis} is {stride}",
            "fix_parameters(kernel, n=...) makes it a number",
        )
    return stride


def _axes_outside(array: ArrayBase, axis: int) -> list[int]:
    """Return the axes whose strides depend on that of *axis*, the nearest first."""
    assert isinstance(array.dim_tags, tuple)
    levels = {
        tag.layout_nesting_level: k
        for k, tag in enumerate(array.dim_tags)
        if isinstance(tag, FixedStrideArrayDimTag) and tag.layout_nesting_level is not None
    }
    if len(levels) == len(array.dim_tags):
        mine = next(level for level, k in levels.items() if k == axis)
        return [levels[level] for level in sorted(levels) if level > mine]
    strides = array.fixed_strides
    others = [k for k in range(len(strides)) if k != axis]
    larger = [k for k in others if not _is_inside(strides, k, axis)]
    if not all(_is_int(strides[k]) for k in larger):
        raise _reject(
            array,
            "the order of its axes in memory is not known",
            "declare it with a shape and an order",
        )
    return sorted(larger, key=lambda k: strides[k])


def _is_inside(strides: tuple[Expr, ...], one: int, other: int) -> bool:
    """Tell whether the stride of axis *one* is known to be less than that of *other*."""
    first, second = strides[one], strides[other]
    return isinstance(first, int) and isinstance(second, int) and first < second


def _is_int(value: Expr) -> bool:
    return isinstance(value, int)


def _times(stride: Expr, extent: Expr) -> Expr:
    return extent if stride == 1 else stride * extent


def _with_stride(tag: FixedStrideArrayDimTag, stride: Expr) -> FixedStrideArrayDimTag:
    return dataclasses.replace(tag, stride=stride)
