"""Asynchronous copies, by the primitives of CUDA's pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import cgen

from kgen.ir.instruction import InstructionBase
from kgen.ir.tags import CopyWaitTag
from kgen.targets.preamble import Need, Rank
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["ASYNC_SIZES", "emit_async_copy", "emit_commit", "wait_for_copies"]

#: The possible sizes of one copy, in bytes.
ASYNC_SIZES: Final = (4, 8, 16)
_HEADER: Final = Need(Rank.INCLUDE, "cuda_pipeline", "#include <cuda_pipeline_primitives.h>")


def emit_async_copy(
    writer: ExpressionWriter, place: str, source: str, type_name: str
) -> cgen.Generable:
    """Write an asynchronous copy of an element, or of the elements of *type_name*."""
    writer.preamble.add(_HEADER)
    return cgen.Statement(f"__pipeline_memcpy_async(&{place}, &{source}, sizeof({type_name}))")


def emit_commit() -> cgen.Generable:
    """Write the end of a group of copies."""
    return cgen.Statement("__pipeline_commit()")


def wait_for_copies(
    writer: ExpressionWriter, waits: Iterable[InstructionBase]
) -> list[cgen.Generable]:
    """Write a wait for copies, once for all elements; nothing if copies are synchronous."""
    if not writer.target.async_copies:
        return []
    pending = min(tag.pending for insn in waits for tag in insn.tags_of_type(CopyWaitTag))
    return [cgen.Statement(f"__pipeline_wait_prior({pending})")]
