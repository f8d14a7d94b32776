"""loopy.frontend: kernels from other languages."""

from kgen.compat.loopy.frontend import fortran

__all__ = ["fortran"]
