"""Subscripts outside of their arrays: proofs that there are none, and examples where there are."""

from __future__ import annotations

from kgen.analysis.access import Access
from kgen.analysis.footprints import Footprints, Span
from kgen.errors import KgenIndexError, KgenWarning, message, warn
from kgen.ir.expr import Expr, to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import auto

__all__ = ["check_bounds", "refuse_negative", "refuse_wrong_rank"]


def check_bounds(kernel: LoopKernel) -> LoopKernel:
    """Prove that affine subscripts stay within declared shapes; return *kernel*.

    What depends on data is not checked. Raises :class:`KgenIndexError` with the loop indices
    and sizes of an access that is outside. ``options.enforce_array_accesses_within_bounds``:
    ``False`` makes that a warning, ``"no_check"`` saves the time.
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
                refuse_wrong_rank(kernel, access, len(shape))
            for axis, extent in enumerate(shape):
                _check_axis(kernel, footprints, subscripts, axis, extent)
        except KgenIndexError as err:
            if enforce:
                raise
            silencer = f"out_of_bounds({name})"
            warn(str(err), KgenWarning, silencer=silencer, silenced=kernel.silenced_warnings)
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
        refuse_negative(kernel, footprints, span, axis)
    if extent is auto or footprints.is_extent(spans, extent):
        return
    for span in spans:
        if (
            span.values is not None
            and span.values.reaches(extent, span.high, footprints.with_params)
            and footprints.domain(span.place)[1]
        ):
            raise _outside(kernel, footprints, span.highest, axis, at_least=extent)


def refuse_negative(kernel: LoopKernel, footprints: Footprints, span: Span, axis: int) -> None:
    """Raise :class:`KgenIndexError` where a subscript is less than 0, with an example."""
    if span.values is None or span.values.least + span.low >= 0:
        return
    if footprints.domain(span.place)[1]:
        raise _outside(kernel, footprints, span.lowest, axis, below=0)


def refuse_wrong_rank(kernel: LoopKernel, access: Access, naxes: int) -> None:
    """Raise :class:`KgenIndexError` where the number of subscripts is not that of axes."""
    count = len(access.index or ())
    if count != naxes:
        raise KgenIndexError(
            message(
                f"'{access}' has {count} subscripts, but '{access.array}' has {naxes} axes",
                kernel=kernel.name,
                where=f"instruction '{kernel.id_to_insn[access.insn_id]}'",
            )
        )


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
    shape = kernel.array_vars[access.array].shape
    of_shape = f", of shape ({', '.join(map(to_text, shape))})" if isinstance(shape, tuple) else ""
    element = ", ".join(map(str, footprints.element(access, point)))
    verb = "writes" if access.is_write else "reads"
    values = ", ".join(f"{name} = {value}" for name, value in point.items())
    return KgenIndexError(
        message(
            f"'{access}' is outside of array '{access.array}'{of_shape}",
            kernel=kernel.name,
            where=f"instruction '{kernel.id_to_insn[access.insn_id]}'",
            point=f"for {values} {verb} {access.array}[{element}]".replace("for  ", ""),
            hint="restrict the loop, guard the access (if ... end), state what is known of the "
            "sizes (assumptions=...), or declare the shape that the array has",
        )
    )
