"""Data types, under loopy's module name."""

from __future__ import annotations

from kgen.ir.types import (
    AtomicNumpyType,
    KgenType,
    NumpyType,
    to_kgen_type,
)

__all__ = [
    "AtomicNumpyType",
    "KgenType",
    "NumpyType",
    "to_kgen_type",
]
