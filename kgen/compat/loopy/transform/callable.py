"""loopy.transform.callable: kernels and functions that are called."""

from __future__ import annotations

from kgen.transforms.programs.callables import (
    merge,
    register_callable,
    rename_callable,
)
from kgen.transforms.programs.inline import (
    inline_callable_kernel,
)

__all__ = [
    "inline_callable_kernel",
    "merge",
    "register_callable",
    "rename_callable",
]
