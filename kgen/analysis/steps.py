"""Strided loops: loops whose variable advances by more than one."""

from __future__ import annotations

import islpy as isl

from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    axis_variable,
    bound_dim,
    involved_dims,
    involves_quotient,
    isl_int,
    rows_of,
)
from kgen.ir.tags import LocalInameTag

__all__ = ["cyclic_values", "offsets_strided_loop", "strided_loops"]


def cyclic_values(name: str, start: str, first: int, step: int) -> Set:
    """Return the values of one of *step* work-items in a cyclic distribution.

    Work-item *start* starts at ``first + start``.

    >>> print(cyclic_values("r", "s", 1, 16))
    { [r, s] : (1 - r + s) mod 16 = 0 and 0 <= s <= 15 }
    """
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[name, start])
    distance = axis_variable(space, 0).sub(axis_variable(space, 1))
    distance = distance.add_constant_val(isl_int(-first)).mod_val(isl_int(step))
    values = distance.zero_basic_set()
    return bound_dim(values.to_set(), start, 0, step - 1)


def strided_loops(kernel: LoopKernel) -> dict[str, str]:
    """Return the strided loops, each with the work-item loop that determines its start.

    For ``{ [r, s]: (r - s) mod 16 = 0 and ... }`` with *s* over work-items it is ``{"r": "s"}``.
    """
    found = {}
    for row in (row for domain in kernel.domains for row in rows_of(domain)):
        if row.is_equality() and involves_quotient(row):
            names = involved_dims(row)
            starts = [name for name in names if kernel.has_tag(name, LocalInameTag)]
            if len(names) == 2 and len(starts) == 1:
                found[names[1 - names.index(starts[0])]] = starts[0]
    return found


def offsets_strided_loop(kernel: LoopKernel, iname: str) -> bool:
    """Tell whether a loop determines the start of a strided loop."""
    domain = kernel.domains[kernel.home_domain[iname]]
    return any(row.is_equality() and iname in involved_dims(row) for row in rows_of(domain))
