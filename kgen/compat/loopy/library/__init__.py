"""loopy.library: operations of reductions, and functions."""

from kgen.compat.loopy.library import function, random123, reduction

__all__ = ["function", "random123", "reduction"]
