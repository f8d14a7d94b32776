"""Inference of array shapes from footprints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pymbolic.primitives as p

from kgen.analysis.access import Access, Place
from kgen.analysis.bounds import check_loops_bounded, check_not_negative, check_rank
from kgen.analysis.footprints import Footprints, Span, Values, extremes
from kgen.errors import KgenError, StaticValueFindingError
from kgen.ir.data import ArrayArg, ArrayBase, TemporaryVariable
from kgen.ir.expr import Expr, to_text, variable_names, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.sets.dims import isl_int
from kgen.ir.sets.domain import PwAff, static_value
from kgen.ir.sets.quasi_affine import aff_to_expr
from kgen.ir.types import auto

__all__ = ["infer_argument_shapes", "infer_constant_shapes", "infer_temporary_shapes"]

Array = TypeVar("Array", ArrayArg, TemporaryVariable)


def infer_argument_shapes(kernel: LoopKernel) -> LoopKernel:
    """Infer the shape of array arguments that are ``auto`` from their footprints.

    ``out[i + 1]`` with ``0 <= i < n`` makes ``out`` an array of ``n + 1`` elements, and of ``n``
    under ``if i < n - 1``. A condition shortens it no further: ``out[i]`` with it has ``n`` too.
    Data-dependent and non-affine subscripts of writes are taken to be inside if other elements are
    written, ``out[i] = 0``. Otherwise an argument with one axis and such subscripts, or with
    ``shape=None``, has an unknown extent and stride 1. Returns the same kernel if nothing changes.

    Raises :class:`StaticValueFindingError` if no single expression is the extent,
    :class:`KgenIndexError` for subscripts that can be negative or whose number differs, and
    :class:`KgenError` if the extent of one of several axes cannot be inferred.
    """
    open_ = [arg for arg in kernel.args if isinstance(arg, ArrayArg) and _is_open(arg)]
    return kernel.with_declarations(_with_shapes(kernel, open_))


def infer_temporary_shapes(kernel: LoopKernel) -> LoopKernel:
    """Infer the shape of temporaries that are ``auto`` from their footprints.

    As for arguments, but an extent is the maximum over all parameters if that is finite,
    since private and local storage have a constant size. Returns the same kernel if nothing
    changes.
    """
    open_ = [array for array in kernel.temporary_variables.values() if _is_open(array)]
    return kernel.with_declarations(_with_shapes(kernel, open_))


def infer_constant_shapes(kernel: LoopKernel) -> LoopKernel:
    """Infer the shape of temporaries from their footprints, if it is constant.

    Other temporaries keep ``auto`` until code is generated: a transformation, or an assumption,
    can still make an extent constant that depends on parameters. Returns the same kernel if nothing
    changes.
    """
    found: dict[str, TemporaryVariable] = {}
    for array in kernel.temporary_variables.values():
        if not _is_open(array):
            continue
        try:
            shaped = _with_shape(kernel, Footprints.of(kernel), array)
        except KgenError:
            continue  # errors are raised during code generation, if they still exist
        if isinstance(shaped.shape, tuple) and all(isinstance(n, int) for n in shaped.shape):
            found[array.name] = shaped
    return kernel.with_declarations(found)


def _is_open(array: ArrayBase) -> bool:
    if isinstance(array.shape, tuple):
        return auto in array.shape
    return array.shape is auto or not isinstance(array.dim_tags, tuple)


def _with_shapes(kernel: LoopKernel, arrays: Sequence[Array]) -> dict[str, Array]:
    if not arrays:
        return {}
    footprints = Footprints.of(kernel)
    return {array.name: _with_shape(kernel, footprints, array) for array in arrays}


class _UnknownExtentError(KgenError):
    """An extent that the footprint does not determine."""


def _with_shape(kernel: LoopKernel, footprints: Footprints, array: Array) -> Array:
    accesses = footprints.accesses.get(array.name, ())
    if array.shape is None and all(a.index is None or len(a.index) == 1 for a in accesses):
        return array.copy(dim_tags=(FixedStrideArrayDimTag(1),))
    if not accesses and isinstance(array, ArrayArg):
        return array  # it may be used later, and may be anything if it is not
    subscripts = tuple(access for access in accesses if access.index is not None)
    for access in accesses:
        if access.index is None and (not subscripts or subscripts[0].index):
            why = f"'{access}' in instruction '{access.insn_id}' does not determine the extent"
            raise _unknown(kernel, array, why)
    declared = array.shape if isinstance(array.shape, tuple) else None
    naxes = len(declared or (subscripts[0].index if subscripts else None) or ())
    for access in subscripts:
        check_rank(kernel, access, naxes)
    try:
        return array.with_shape(
            tuple(
                _extent(kernel, footprints, array, axis, subscripts)
                if declared is None or declared[axis] is auto
                else declared[axis]
                for axis in range(naxes)
            )
        )
    except _UnknownExtentError:
        if naxes != 1 or declared is not None or not isinstance(array, ArrayArg):
            raise
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else (FixedStrideArrayDimTag(1),)
    return array.copy(shape=None, dim_tags=tags)


def _extent(
    kernel: LoopKernel,
    footprints: Footprints,
    array: Array,
    axis: int,
    accesses: tuple[Access, ...],
) -> Expr:
    is_argument = isinstance(array, ArrayArg)
    accesses = _without_unknown_extents(footprints, accesses, axis, is_argument=is_argument)
    spans = footprints.spans(accesses, axis)
    for span in spans:
        if span.values is None:
            assert span.highest.index is not None
            subscript = to_text(span.highest.index[axis])
            why = f"the subscript '{subscript}' in instruction '{span.highest.insn_id}' "
            raise _unknown(kernel, array, why + "is not affine in loop variables and sizes", axis)
        check_not_negative(kernel, footprints, span, axis)
    found: list[Expr] = []
    failed: StaticValueFindingError | None = None
    for alternative in _alternatives(footprints, array, axis, accesses, spans):
        try:
            found.append(_known_extent(kernel, footprints, array, axis, alternative))
        except StaticValueFindingError as err:
            failed = failed or err
        else:
            if not any(isinstance(part, p.FloorDiv) for part in walk(found[-1])):
                return found[-1]
    if found:
        return found[0]
    assert failed is not None
    raise failed


def _alternatives(
    footprints: Footprints,
    array: Array,
    axis: int,
    accesses: tuple[Access, ...],
    spans: tuple[Span, ...],
) -> Iterator[tuple[Span, ...]]:
    """Yield the subscripts that an extent may be found from, first those to be preferred.

    An extent without quotients is preferred to others, which do not determine a size: that of
    ``a[i]`` with ``0 <= i < 16*((n + 15)//16)`` under ``if i < n`` is ``n``.

    An argument has the elements that its accesses reach under their conditions, and those at all
    iterations of their loops, without constants that are added: with ``0 <= i < n``, ``a[i]`` and
    ``a[i + 1]`` under ``if i < n - 1`` have ``n`` elements both, and so has ``a[i]`` under
    ``if i % 2 == 0``, whose footprint does not determine ``n``. Temporaries are as small as their
    conditions allow. *spans* are the subscripts of *accesses* along the axis.
    """
    if not any(access.place.conditions for access in accesses):
        yield spans
        return
    loops = footprints.spans(tuple(map(_without_conditions, accesses)), axis)
    if isinstance(array, ArrayArg):
        yield spans + tuple(span._replace(high=min(span.high, 0)) for span in loops)
    yield spans
    yield loops


def _without_conditions(access: Access) -> Access:
    return replace(access, place=Place(access.place.inames))


def _known_extent(
    kernel: LoopKernel, footprints: Footprints, array: Array, axis: int, spans: tuple[Span, ...]
) -> Expr:
    key = (isinstance(array, TemporaryVariable), extremes(spans))
    found = footprints.extents.get(key)
    if found is None:
        found = footprints.extents[key] = _find_extent(kernel, array, axis, spans)
    return found


def _without_unknown_extents(
    footprints: Footprints, accesses: tuple[Access, ...], axis: int, *, is_argument: bool
) -> tuple[Access, ...]:
    """Remove accesses of unknown extent, if there are writes of a known one.

    They are taken to be inside of the array, as data-dependent subscripts of declared arrays are:
    elements that are read must have been written, and ``h[bin[i]] += 1`` reads what it writes. Of
    an argument, callers may have written further elements that other instructions read.
    """
    known = tuple(
        access
        for access in accesses
        if all(span.values is not None for span in footprints.spans((access,), axis))
    )
    if not any(access.is_write for access in known):
        return accesses
    unknown = [access for access in accesses if access not in known]
    updating = {access.insn_id for access in unknown if access.is_write}
    return accesses if is_argument and any(a.insn_id not in updating for a in unknown) else known


def _find_extent(kernel: LoopKernel, array: Array, axis: int, spans: tuple[Span, ...]) -> Expr:
    try:
        end = _end_of(extremes(spans))
    except StaticValueFindingError as err:
        check_loops_bounded(kernel)
        raise _unbounded(array, axis, spans, err) from None
    if end is None:
        return 0
    if isinstance(array, TemporaryVariable):
        largest = end.intersect_params(kernel.assumptions).max_val()
        if largest.is_int():
            return int(largest.to_python())
    return _static_extent(kernel, array, axis, spans, end)


def _end_of(found: Sequence[tuple[Values, int, int]]) -> PwAff | None:
    """Return the largest subscript plus 1 as a function of the parameters, if there is one."""
    result: PwAff | None = None
    for values, _, high in found:
        if values.least < math.inf:
            plus = isl_int(high + 1)
            end = values.highest.add_constant_val(plus)
            result = end if result is None else result.union_max(end)
    return result


def _static_extent(
    kernel: LoopKernel, array: Array, axis: int, spans: tuple[Span, ...], end: PwAff
) -> Expr:
    what = f"the extent of '{array.name}' in kernel '{kernel.name}'"
    try:
        extent = aff_to_expr(static_value(end, kernel.assumptions, largest=True, what=what))
    except StaticValueFindingError as err:
        raise _unbounded(array, axis, spans, err) from None
    data = [name for name in variable_names(extent) if name not in kernel.arg_dict]
    for name in data:
        if name in kernel.temporary_variables or name in kernel.inames:
            why = f"the loops around its uses depend on '{name}', which is computed"
            raise _unknown(kernel, array, why, axis)
    return extent


def _unbounded(
    array: Array, axis: int, spans: tuple[Span, ...], err: StaticValueFindingError
) -> StaticValueFindingError:
    mentions = ", ".join(dict.fromkeys(f"'{span.highest}'" for span in spans[:6]))
    return StaticValueFindingError(
        f"While trying to find shape axis {axis} of {_kind(array)} '{array.name}', "
        f"the following exception occurred:\n{err}\n  used as: {mentions}"
    )


def _kind(array: ArrayBase) -> str:
    return "temporary" if isinstance(array, TemporaryVariable) else "argument"


def _unknown(
    kernel: LoopKernel, array: Array, why: str, axis: int | None = None
) -> _UnknownExtentError:
    part = "the shape" if axis is None else f"shape axis {axis}"
    return _UnknownExtentError(
        f"{part} of {_kind(array)} '{array.name}' cannot be found",
        kernel=kernel.name,
        because=why,
        hint=f"declare it: {type(array).__name__}('{array.name}', shape='...')",
    )
