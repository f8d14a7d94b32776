"""Trip counts of loops: constant, symbolic, bounded or data-dependent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.errors import KernelError, StaticValueFindingError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, minus, to_text, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, dim_names, dims_to_params, param_names
from kgen.ir.sets.domain import PwAff, dim_max, dim_min
from kgen.ir.sets.effort import limited
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.sets.quasi_affine import aff_to_expr

__all__ = ["TripCount", "trip_count"]


@dataclass(frozen=True, kw_only=True)
class TripCount:
    """The trip count of a loop each time that it is reached.

    ``value`` is an expression of parameters and of the loops around it. It is ``None`` if there is
    no single expression, or if it depends on data and on these loops. With ``is_bound``, it is an
    upper bound. ``data`` are the variables of the kernel that it depends on.
    """

    value: Expr | None
    is_bound: bool = False
    data: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.value is None:
            return f"as {' and '.join(self.data)} say" if self.data else "varies"
        return f"at most {to_text(self.value)}" if self.is_bound else to_text(self.value)


@limited("counting iterations", KernelError)
def trip_count(kernel: LoopKernel, iname: str, around: Collection[str] = ()) -> TripCount:
    """Return the trip count of an iname's loop, inside the loops *around*.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<=i }", "a[i,j] = 0").default_entrypoint
    >>> print(trip_count(knl, "i"), "and", trip_count(knl, "j", around=["i"]))
    n and i + 1
    """
    domain = dims_to_params(kernel.domain_of((*around, iname)), around)
    names = param_names(domain)
    data = tuple(sorted(name for name in names if name in kernel.array_vars))
    last = _single(dim_max(domain, iname), kernel.assumptions)
    first = _single(dim_min(domain, iname), kernel.assumptions)
    if last is not None and first is not None:
        distance = simplify(minus(last, first))
        value = simplify(p.Sum((_whole(distance, _stride(domain, iname)), 1)))
        if data and any(name in around for name in variable_names(value)):
            return TripCount(value=None, data=data)
        return TripCount(value=value, data=data)
    try:
        most = LoopRange(domain, iname, kernel.assumptions, kernel.inames.keys()).extent
    except StaticValueFindingError:
        return TripCount(value=None, data=data)
    return TripCount(value=most, is_bound=True, data=data)


def _stride(domain: Set, iname: str) -> int:
    """Return the step of a loop."""
    return int(domain.get_stride(dim_names(domain).index(iname)).to_python())


def _whole(distance: Expr, step: int) -> Expr:
    return distance if step == 1 else p.FloorDiv(distance, step)


def _single(value: PwAff, assumptions: Set) -> Expr | None:
    """Return a function of one piece as an expression."""
    pieces = value.coalesce().gist_params(assumptions).get_pieces()
    return aff_to_expr(pieces[0][1]) if len(pieces) == 1 else None
