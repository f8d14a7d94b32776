"""loopy.transform.parameter: parameters."""

from __future__ import annotations

from kgen.transforms.programs.params import (
    assume,
    fix_parameters,
)

__all__ = [
    "assume",
    "fix_parameters",
]
