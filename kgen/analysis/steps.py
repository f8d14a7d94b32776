"""Loops that take more than one step at a time."""

from __future__ import annotations

import islpy as isl

from kgen.ir.domain import Set

__all__ = ["in_steps"]


def in_steps(name: str, start: str, first: int, step: int) -> Set:
    """Return the values that one of *step* work-items takes, in turn with the others.

    Work-item *start* begins at ``first + start``.

    >>> print(in_steps("r", "s", 1, 16))
    { [r, s] : (1 - r + s) mod 16 = 0 and 0 <= s <= 15 }
    """
    return isl.Set(
        f"{{ [{name}, {start}] : ({name} - {start} - {first}) mod {step} = 0 "
        f"and 0 <= {start} < {step} }}"
    )
