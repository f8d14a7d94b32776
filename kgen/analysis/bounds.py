"""Bounds checks: finite loops, and subscripts inside their arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from kgen.analysis.access import Access
from kgen.analysis.footprints import Footprints, Span
from kgen.errors import KernelError, KgenIndexError, counted
from kgen.ir.affine import memory_length
from kgen.ir.data import ArrayBase, TemporaryVariable, ValueArg
from kgen.ir.expr import Expr, to_text, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, is_open_extent
from kgen.ir.sets.dims import are_bounded, dim_names, involved_params
from kgen.ir.types import auto

__all__ = [
    "check_access",
    "check_bounds",
    "check_loops_bounded",
    "check_not_negative",
    "check_rank",
    "unproved_axes",
]


def check_loops_bounded(kernel: LoopKernel) -> LoopKernel:
    """Raise :class:`KernelError` if a loop has no first or no last value; return *kernel*."""
    for domain in kernel.domains:
        loops = domain.to_set()
        for iname in dim_names(domain):
            starts, ends = are_bounded(loops, iname)
            if starts and ends:
                continue
            if loops.is_empty():
                break
            insn = next(
                (i for i in kernel.instructions if iname in i.within_inames | i.reduction_inames()),
                None,
            )
            if insn is None:
                continue
            raise KernelError(
                f"iname '{iname}' has no {'last' if starts else 'first'} value",
                kernel=kernel.name,
                where=f"instruction '{insn}'",
                because=f"its domain is {domain}",
                hint="bound it on both sides: 0 <= i < n",
            )
    return kernel


def check_bounds(kernel: LoopKernel) -> LoopKernel:
    """Prove that affine subscripts stay within declared shapes; return *kernel*.

    Linear subscripts must stay between the first and the last element in memory.

    Data-dependent subscripts are not checked, nor unrelated sizes: ``lo <= i < hi`` in an
    array of ``n`` elements, or of an unknown number. Raises :class:`KgenIndexError` with the
    loop indices and sizes of an out-of-bounds access.
    ``options.enforce_array_accesses_within_bounds``: ``False`` makes this a warning,
    ``"no_check"`` skips the check.
    """
    enforce = kernel.options.enforce_array_accesses_within_bounds
    if enforce == "no_check":
        return kernel
    footprints = Footprints.of(kernel)
    for name, accesses in footprints.accesses.items():
        shape = kernel.array_vars[name].shape
        if not isinstance(shape, tuple):
            continue
        subscripts = tuple(access for access in accesses if access.index is not None)
        try:
            for access in subscripts:
                check_rank(kernel, access, len(shape))
            for axis, extent in enumerate(shape):
                _check_axis(kernel, footprints, subscripts, axis, extent)
            linear = tuple(map(_in_memory, filter(_is_linear, accesses)))
            if linear:
                _check_axis(kernel, footprints, linear, 0, _length(kernel.array_vars[name]))
        except KgenIndexError as err:
            if enforce:
                raise
            kernel.warn(str(err), f"out_of_bounds({name})")
    return kernel


def _check_axis(
    kernel: LoopKernel,
    footprints: Footprints,
    accesses: tuple[Access, ...],
    axis: int,
    extent: Expr,
) -> None:
    spans = footprints.spans(accesses, axis)
    for span in spans:
        has_least = span.values is None or span.values.least > -math.inf
        if has_least or not _is_unrelated(span, extent):
            check_not_negative(kernel, footprints, span, axis)
    if is_open_extent(extent) or footprints.is_extent(spans, extent):
        return
    for span in spans:
        if (
            span.values is not None
            and span.values.reaches(extent, span.high, footprints.with_params)
            and footprints.domain(span.place)[1]
            and not _is_unrelated(span, extent)
        ):
            raise _outside(kernel, footprints, span.highest, axis, at_least=extent)


def check_access(kernel: LoopKernel, footprints: Footprints, access: Access) -> str | None:
    """Prove that one access is inside its array; return why this is undecided, if so.

    Raises :class:`KgenIndexError` if it is outside, with an iteration.
    """
    shape = kernel.array_vars[access.array].shape
    if not isinstance(shape, tuple):
        return "the array has no shape"
    if _is_linear(access):
        access, shape = _in_memory(access), (_length(kernel.array_vars[access.array]),)
    if access.index is None:
        return "elements are not subscripted by axis"
    check_rank(kernel, access, len(shape))
    unknown: str | None = None
    for axis, extent in enumerate(shape):
        _check_axis(kernel, footprints, (access,), axis, extent)
        unknown = unknown or _open_question(footprints, access, axis, extent)
    return unknown


def _is_linear(access: Access) -> bool:
    return access.linear is not None


def _in_memory(access: Access) -> Access:
    """Return a linear access as one to an array with one axis, as which memory appears to it."""
    return replace(access, index=(access.linear,))


def _length(array: ArrayBase) -> Expr | None:
    """Return the length from the first to the last element in memory, if strides are known."""
    if isinstance(array, TemporaryVariable) and array.n_stored is not None:
        return array.n_stored
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    strides: list[Any] = [tag.stride for tag in tags if isinstance(tag, FixedStrideArrayDimTag)]
    if not isinstance(array.shape, tuple) or len(strides) < len(array.shape):
        return None
    if any(
        one in (None, auto) or (isinstance(one, int) and one < 0)
        for one in (*strides, *array.shape)
    ):
        return None
    return memory_length(array.shape, strides)


def unproved_axes(kernel: LoopKernel, footprints: Footprints, access: Access) -> tuple[int, ...]:
    """Return the axes along which an access is not proved to be inside its array."""
    shape = kernel.array_vars[access.array].shape
    if access.index is None or not isinstance(shape, tuple):
        return ()
    unproved = []
    for axis, extent in enumerate(shape):
        try:
            _check_axis(kernel, footprints, (access,), axis, extent)
        except KgenIndexError:
            unproved.append(axis)
            continue
        if extent is not None and _open_question(footprints, access, axis, extent) is not None:
            unproved.append(axis)
    return tuple(unproved)


def _open_question(footprints: Footprints, access: Access, axis: int, extent: Expr) -> str | None:
    """Return why a subscript may be out of bounds; ``None`` if it is proved to be inside."""
    assert access.index is not None
    (span,) = footprints.spans((access,), axis)
    index = to_text(access.index[axis])
    if span.values is None:
        return f"the subscript '{index}' is not affine, or depends on data"
    if extent is auto or (extent is not None and footprints.is_extent((span,), extent)):
        return None
    if span.values.least + span.low < 0:
        return f"whether '{index}' is negative depends on data or on unrelated sizes"
    if extent is None:
        of = "the array" if _is_linear(access) else f"axis {axis}"
        return f"{of} has an unknown extent"
    if not span.values.is_below(extent, span.high, footprints.with_params):
        return f"whether '{index}' is less than '{to_text(extent)}' depends on data or on sizes"
    return None


def _is_unrelated(span: Span, extent: Expr) -> bool:
    """Tell whether the subscript depends on sizes, but the extent on none of them.

    An unknown extent may be any: ``start <= i < end`` can be right for an axis of ``None``.
    """
    if span.values is None or extent is auto:
        return False
    used = involved_params(span.values.values)
    if extent is None:
        return bool(used)
    sizes = set(variable_names(extent))
    return bool(sizes) and bool(used) and sizes.isdisjoint(used)


def check_not_negative(kernel: LoopKernel, footprints: Footprints, span: Span, axis: int) -> None:
    """Raise :class:`KgenIndexError` if a subscript is less than 0, with an example."""
    if span.values is None or span.values.least + span.low >= 0:
        return
    if footprints.domain(span.place)[1]:
        raise _outside(kernel, footprints, span.lowest, axis, below=0)


def check_rank(kernel: LoopKernel, access: Access, naxes: int) -> None:
    """Raise :class:`KgenIndexError` if the number of subscripts is not the number of axes."""
    count = len(access.index or ())
    if count != naxes:
        raise KgenIndexError(
            f"'{access}' has {counted(count, 'subscript')}, but '{access.array}' has "
            f"{counted(naxes, 'axis', 'axes')}",
            kernel=kernel.name,
            where=f"instruction '{kernel.id_to_insn[access.insn_id]}'",
        )


def _extent_text(extent: Expr | None) -> str:
    return str(extent) if is_open_extent(extent) else to_text(extent)


def _outside(
    kernel: LoopKernel,
    footprints: Footprints,
    access: Access,
    axis: int,
    *,
    below: int | None = None,
    at_least: Expr = None,
) -> KgenIndexError:
    point = footprints.first_where(access, axis, below=below, at_least=at_least)
    assert point is not None
    element = ", ".join(map(str, footprints.element(access, point)))
    element = f"[{element}]" if _is_linear(access) else element
    verb = "writes" if access.is_write else "reads"
    values = ", ".join(f"{name} = {value}" for name, value in point.items())
    return KgenIndexError(
        f"'{access}' is outside of array '{access.array}'{_size_text(kernel, access)}",
        kernel=kernel.name,
        where=f"instruction '{kernel.id_to_insn[access.insn_id]}'",
        point=f"for {values} {verb} {access.array}[{element}]".replace("for  ", ""),
        hint=_hint_for(kernel, access, axis),
    )


def _size_text(kernel: LoopKernel, access: Access) -> str:
    array = kernel.array_vars[access.array]
    if _is_linear(access):
        length = _length(array)
        return "" if length is None else f", of length {to_text(length)} in memory"
    if not isinstance(array.shape, tuple):
        return ""
    return f", of shape ({', '.join(map(_extent_text, array.shape))})"


def _hint_for(kernel: LoopKernel, access: Access, axis: int) -> str:
    """Return how to keep a subscript inside its array, or that a loop seems to be missing."""
    names = variable_names(access.index[axis]) if access.index is not None else ()
    free = [n for n in names if n not in kernel.all_inames() | kernel.all_params()]
    unbound = [n for n in free if isinstance(kernel.arg_dict.get(n), ValueArg)]
    if unbound:
        name = unbound[0]
        return (
            f"'{name}' is an argument, not a loop variable: to make it one, add it to a domain, "
            f"such as '{{ [{name}]: 0 <= {name} < n }}'; else state its values "
            "(assumptions='...')"
        )
    return (
        "restrict the loop, guard the access (if ... end), state what is known about the sizes "
        "(assumptions=...), or declare the array's actual shape"
    )
