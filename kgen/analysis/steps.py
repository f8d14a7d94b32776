"""Loops that take more than one step at a time."""

from __future__ import annotations

import islpy as isl

from kgen.ir.domain import Set

__all__ = ["in_steps"]


def in_steps(name: str, first: int, step: int) -> Set:
    """Return the values ``first``, ``first + step``, ... of a dimension, and those before.

    >>> print(in_steps("r", 1, 16))
    { [r] : (-1 + r) mod 16 = 0 }
    """
    return isl.Set(f"{{ [{name}] : ({name} - {first}) mod {step} = 0 }}")
