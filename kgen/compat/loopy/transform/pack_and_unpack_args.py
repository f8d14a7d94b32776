"""loopy.transform.pack_and_unpack_args: arguments of calls, copied."""

from __future__ import annotations

from kgen.transforms.programs.pack import (
    pack_and_unpack_args_for_call,
)

__all__ = [
    "pack_and_unpack_args_for_call",
]
