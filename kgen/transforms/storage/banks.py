"""Layouts of local memory without bank conflicts: swizzles, and padding that is proved to help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kgen.analysis.access import collect_accesses_to
from kgen.analysis.address_space import infer_address_spaces
from kgen.analysis.banks import BANK_BYTES, all_bank_passes
from kgen.analysis.infer import infer_types
from kgen.analysis.shapes import infer_temporary_shapes
from kgen.errors import TransformError
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import variable_names
from kgen.ir.instruction import CallInstruction, CInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, Swizzle
from kgen.ir.tags import LocalInameTag, TensorTag, VectorizeTag
from kgen.ir.types import AddressSpace, NumpyType
from kgen.transforms.array_accesses import reject_elements_by_number
from kgen.transforms.loops.auto_axes import assign_auto_axes
from kgen.transforms.select import NoSuchNameError, split_names, transform

__all__ = ["add_padding_to_avoid_bank_conflicts", "swizzled"]

#: Chunks of a swizzle, in bytes: the longest first, which wide accesses need.
_CHUNKS: Final = (16, 8, 4)
#: The maximum padding of a row, in elements.
_MOST_PADDING: Final = 32


@transform
def add_padding_to_avoid_bank_conflicts(
    kernel: LoopKernel, array_names: str | Iterable[str] | None = None
) -> LoopKernel:
    """Pad temporaries in local memory to avoid bank conflicts.

    The rows of each temporary get the smallest padding that minimizes the passes of a warp over
    the banks, summed over all accesses. A temporary without padding that is minimal already stays
    as it is. Tag the work-item loops first.

    :arg array_names: temporaries in local memory; all of them by default

    ::

        float tile[32*32]                            float tile[1055]
        ... tile[32*lid(0) + lid(1)]         =>      ... tile[33*lid(0) + lid(1)]

    Raises :class:`TransformError` for a temporary that is not in local memory, or whose type or
    layout is unknown.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i,j]: 0<=i,j<32 }", "b[j, i] = a[i, j]", target=lp.CudaTarget())
    >>> knl = lp.add_dtypes(lp.tag_inames(knl, "i:l.1, j:l.0"), {"a": "float32"})
    >>> knl = lp.add_prefetch(knl, "a", "i,j", temporary_name="t", default_tag="l.auto")
    >>> knl = lp.tag_inames(lp.tag_inames(knl, "i:l.0", force=True), "j:l.1", force=True)
    >>> knl = add_padding_to_avoid_bank_conflicts(knl, "t")
    >>> print(*knl.default_entrypoint.temporary_variables["t"].dim_tags)
    N1:stride:33 N0:stride:1
    """
    known = _with_axes(kernel)
    names = _local_names(known) if array_names is None else split_names(array_names)
    changed = {}
    for name in names:
        array = _require_local(known, name)
        best = _best(known, _paddings(array))
        if best.dim_tags != array.dim_tags:
            changed[name] = kernel.temporary_variables[name].copy(
                shape=best.shape, dim_tags=best.dim_tags
            )
            reject_elements_by_number(kernel, array, best)
    return kernel.with_declarations(changed)


def swizzled(kernel: LoopKernel, name: str, length: str) -> TemporaryVariable:
    """Return the declaration of a temporary with a swizzle of rows of *length* bytes."""
    known = _with_axes(kernel)
    array = _require_local(known, name)
    assert isinstance(array.dtype, NumpyType)
    size = array.dtype.itemsize
    row = int(length) if length.isdigit() else 0
    if row < 2 * size or row & (row - 1) or size & (size - 1):
        raise TransformError(
            f"temporary '{name}' has no swizzle of '{length}' bytes",
            because=f"a row has a power of two of bytes, and two or more elements of {size} bytes",
            hint="swizzle:128",
        )
    if array.initializer is not None or array.base_storage is not None:
        raise TransformError(
            f"temporary '{name}' cannot be swizzled",
            because="it shares its storage, or has initial values",
            hint="call it before alias_temporaries",
        )
    chunks = sorted({max(size, chunk) for chunk in _CHUNKS if chunk < row}, reverse=True)
    chunks = [c for c in chunks if c >= _bytes_at_once(known, name)] or chunks[:1]
    best = _best(known, (array.copy(swizzle=Swizzle(row // size, c // size)) for c in chunks))
    _reject_by_number(known, name)
    declared = kernel.temporary_variables[name]
    return declared.copy(
        dtype=array.dtype, shape=array.shape, dim_tags=array.dim_tags, swizzle=best.swizzle
    )


def _bytes_at_once(kernel: LoopKernel, name: str) -> int:
    """Return how many bytes of a temporary a work-item accesses at once, at most."""
    size: int = kernel.array_vars[name].dtype.itemsize
    found = [size]
    for access in collect_accesses_to(kernel, name):
        mentioned = set(variable_names(*(access.index or ()))).intersection(kernel.inames)
        if any(kernel.has_tag(n, TensorTag) for n in mentioned) and size < BANK_BYTES:
            found.append(_CHUNKS[0])
        for lanes in (n for n in mentioned if kernel.has_tag(n, VectorizeTag)):
            extent = kernel.get_iname_bounds(lanes).extent
            if isinstance(extent, int):
                found.append(min(size * extent, _CHUNKS[0]))
    return max(found)


def _reject_by_number(kernel: LoopKernel, name: str) -> None:
    """Reject a temporary that is accessed by the number of an element, or as a whole."""
    by_number = {a.insn_id for a in collect_accesses_to(kernel, name) if a.index is None}
    for insn in kernel.instructions:
        is_foreign = isinstance(insn, CallInstruction | CInstruction)
        if insn.id in by_number or (is_foreign and name in insn.dependency_names()):
            raise TransformError(
                f"temporary '{name}' cannot be swizzled",
                where=f"instruction '{insn}'",
                because="it accesses elements by their number in storage, or all of them",
                hint=f"write one subscript for each axis of '{name}'",
            )


def _best(kernel: LoopKernel, ways: Iterable[TemporaryVariable]) -> TemporaryVariable:
    """Return the first of several layouts for which a warp needs the fewest passes."""

    def passes(array: TemporaryVariable) -> int:
        return sum(found or 0 for found in all_bank_passes(kernel, array).values())

    return min(ways, key=passes)


def _paddings(array: TemporaryVariable) -> Iterator[TemporaryVariable]:
    """Yield layouts with longer rows or planes, aligned like *array*, the shortest first."""
    yield array
    order = sorted(range(len(array.shape)), key=lambda k: array.dim_tags[k].stride)
    assert isinstance(array.dtype, NumpyType)
    unit = max(1, (array.alignment or 1) // array.dtype.itemsize)
    ways = [
        _padded(array, order, axis, more)
        for more in range(unit, _MOST_PADDING + 1, unit)
        for axis in order[1:]
    ]
    yield from sorted(ways, key=lambda way: int(way.dim_tags[order[-1]].stride))


def _padded(array: TemporaryVariable, order: list[int], axis: int, more: int) -> TemporaryVariable:
    """Return a layout in which a step along *axis* is longer, as are the steps along outer axes."""
    tags, stride = list(array.dim_tags), 0
    for k in order:
        if k == axis:
            stride += more
        tags[k] = FixedStrideArrayDimTag(
            max(stride, array.dim_tags[k].stride),
            layout_nesting_level=tags[k].layout_nesting_level,
        )
        stride = tags[k].stride * array.shape[k]
    return array.copy(dim_tags=tuple(tags))


# -- facts about temporaries -----------------------------------------------------------------------


def _with_axes(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with what later stages infer: types, shapes, axes, address spaces."""
    known = infer_types(kernel.silencing("write_race*"), complete=False)
    known = infer_temporary_shapes(known)
    if any(known.has_tag(name, LocalInameTag) for name in known.inames):
        known = assign_auto_axes(known)
    return infer_address_spaces(known)


def _local_names(kernel: LoopKernel) -> tuple[str, ...]:
    return tuple(
        name
        for name, array in kernel.temporary_variables.items()
        if array.address_space == AddressSpace.LOCAL and len(array.shape) > 1
    )


def _require_local(kernel: LoopKernel, name: str) -> TemporaryVariable:
    """Return a temporary in local memory whose type and layout are known."""
    array = kernel.temporary_variables.get(name)
    if array is None:
        raise NoSuchNameError(kernel.name, "temporary", name, kernel.temporary_variables)
    because, hint = _why_not(array)
    if because is not None:
        raise TransformError(
            f"temporary '{name}' has no layout that avoids bank conflicts",
            because=because,
            hint=hint,
        )
    return array


def _why_not(array: TemporaryVariable) -> tuple[str | None, str | None]:
    """Return why the banks of a temporary are not known, and a suggested fix."""
    if array.address_space != AddressSpace.LOCAL:
        space = AddressSpace.stringify(array.address_space)
        return f"it is in {space} memory, which has no banks", "tag loops over work-items first"
    if not isinstance(array.dtype, NumpyType):
        return "its type is not known", f"add_dtypes(kernel, {{'{array.name}': ...}})"
    numbers = [*array.shape, *(getattr(tag, "stride", None) for tag in array.dim_tags)]
    plain = all(isinstance(tag, FixedStrideArrayDimTag) for tag in array.dim_tags)
    if not plain or not array.shape or not all(isinstance(number, int) for number in numbers):
        return (
            "its extents and strides are not numbers",
            f"tag_array_axes(kernel, '{array.name}', 'C')",
        )
    return None, None
