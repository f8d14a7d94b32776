"""C's implicit conversions, and where they differ from numpy's."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kgen.ir.types import INT32, NumpyType

__all__ = ["Conversions", "CudaConversions", "is_promoted_to_int", "real_part"]


def is_promoted_to_int(dtype: NumpyType) -> bool:
    """Tell whether C computes in int instead of *dtype*."""
    return dtype.is_integral() and dtype.itemsize < 4


def real_part(dtype: NumpyType) -> NumpyType:
    """Return the type of the real part of a complex type.

    >>> real_part(NumpyType(np.dtype("complex64")))
    np:dtype('float32')
    """
    return NumpyType(np.dtype(f"f{dtype.itemsize // 2}"))


class Conversions:
    """How a language converts the two operands of an operator: here, C."""

    def joined(self, a: NumpyType, b: NumpyType) -> NumpyType:
        """Return the type to which operands of the types *a* and *b* are converted.

        >>> Conversions().joined(INT32, NumpyType(np.dtype("uint32")))
        np:dtype('uint32')
        """
        return _converted_by_c(a, b)

    def fit(self, a: NumpyType, b: NumpyType, result: NumpyType) -> bool:
        """Tell whether an operator on *a* and *b* gives a *result* after truncation to its type."""
        return is_promoted_to_int(result) or self.joined(a, b) == result

    def mixes(self, a: NumpyType, b: NumpyType) -> bool:
        """Tell whether an operator takes operands of two such types."""
        return True


class CudaConversions(Conversions):
    """CUDA C++, whose 16-bit numbers are classes with operators for their own type only."""

    def mixes(self, a: NumpyType, b: NumpyType) -> bool:
        """Tell whether an operator takes operands of two such types."""
        return a == b or not (a.is_half or b.is_half)


@lru_cache(maxsize=1024)
def _converted_by_c(a: NumpyType, b: NumpyType) -> NumpyType:
    a, b = (INT32 if is_promoted_to_int(dtype) else dtype for dtype in (a, b))
    if a == b:
        return a
    kinds = a.kind + b.kind
    if "c" in kinds:
        parts = [real_part(d) if d.is_complex() else d for d in (a, b)]
        return NumpyType(np.dtype(f"c{2 * _converted_by_c(*parts).itemsize}"))
    if "f" in kinds:
        return max((d for d in (a, b) if d.kind == "f"), key=lambda d: d.itemsize)
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    return a if a.kind == "u" else b
