"""loopy.types: types of elements."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from kgen.ir.types import (
    AtomicNumpyType,
    AtomicType,
    AutoType,
    KgenType,
    NumpyType,
    OpaqueType,
    to_kgen_type,
)
from kgen.ir.types import (
    KgenType as LoopyType,
)
from kgen.ir.types import (
    to_kgen_type as to_loopy_type,
)

__all__ = [
    "ToLoopyTypeConvertible",
    "AtomicNumpyType",
    "AtomicType",
    "KgenType",
    "LoopyType",
    "NumpyType",
    "OpaqueType",
    "to_kgen_type",
    "to_loopy_type",
]

#: The argument types of :func:`to_loopy_type`.
ToLoopyTypeConvertible: TypeAlias = AutoType | KgenType | np.dtype[Any] | type[Any] | str | None
