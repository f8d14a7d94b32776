"""Strided loops: loops whose variable advances by more than one."""

from __future__ import annotations

import islpy as isl

from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, involved_dims, rows_of

__all__ = ["cyclic_values", "offsets_strided_loop"]


def cyclic_values(name: str, start: str, first: int, step: int) -> Set:
    """Return the values that one of *step* work-items takes, in turn with the others.

    Work-item *start* begins at ``first + start``.

    >>> print(cyclic_values("r", "s", 1, 16))
    { [r, s] : (1 - r + s) mod 16 = 0 and 0 <= s <= 15 }
    """
    return isl.Set(
        f"{{ [{name}, {start}] : ({name} - {start} - {first}) mod {step} = 0 "
        f"and 0 <= {start} < {step} }}"
    )


def offsets_strided_loop(kernel: LoopKernel, iname: str) -> bool:
    """Tell whether a loop says where another one starts, which goes in strides."""
    domain = kernel.domains[kernel.home_domain[iname]]
    return any(row.is_equality() and iname in involved_dims(row) for row in rows_of(domain))
