"""loopy.type_inference: types that follow from others."""

from __future__ import annotations

from kgen.analysis.infer import (
    infer_unknown_types,
)

__all__ = [
    "infer_unknown_types",
]
