"""loopy.transform: transformations, by what they change."""

from __future__ import annotations

from kgen.compat.loopy.transform import (
    add_barrier,
    arithmetic,
    batch,
    buffer,
    callable,
    concatenate,
    data,
    diff,
    fusion,
    iname,
    instruction,
    loop_fusion,
    pack_and_unpack_args,
    padding,
    parameter,
    precompute,
    privatize,
    realize_reduction,
    save,
    subst,
)

__all__ = [
    "add_barrier",
    "arithmetic",
    "batch",
    "buffer",
    "callable",
    "concatenate",
    "data",
    "diff",
    "fusion",
    "iname",
    "instruction",
    "loop_fusion",
    "pack_and_unpack_args",
    "padding",
    "parameter",
    "precompute",
    "privatize",
    "realize_reduction",
    "save",
    "subst",
]
