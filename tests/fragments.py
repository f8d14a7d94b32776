"""Which elements of matrices lanes hold for tensor cores, as the text of the PTX ISA has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgen.ir.fragments import TensorShape

__all__ = ["matrices", "ptx_a", "ptx_b", "ptx_c"]

Elements = list[tuple[int, int]]
Matrix = dict[tuple[int, int], Any]


def _is_half(shape: TensorShape) -> bool:
    return shape.operands in ("float16", "bfloat16")


def ptx_a(shape: TensorShape, lane: int) -> Elements:
    """Return row and column of each element of A that a lane holds."""
    group, thread = lane >> 2, lane % 4
    found = []
    for i in range(shape.rows * shape.depth // 32):
        if shape.name == "m16n8k16" and _is_half(shape):
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            column = thread * 2 + (i & 1) + (8 if i >= 4 else 0)
        elif _is_half(shape):  # m16n8k8
            row = group if i < 2 else group + 8
            column = thread * 2 + (i & 1)
        elif shape.name == "m8n8k4":
            row, column = group, thread
        elif shape.name == "m16n8k16":  # of float64
            row = group if i % 2 == 0 else group + 8
            column = i * 2 + thread if i % 2 == 0 else i * 2 - 2 + thread
        else:
            row = group if i in (0, 2) else group + 8
            column = thread if i in (0, 1) else thread + 4
        found.append((row, column))
    return found


def ptx_b(shape: TensorShape, lane: int) -> Elements:
    """Return row and column of each element of B that a lane holds."""
    group, thread = lane >> 2, lane % 4
    count = shape.depth * 8 // 32
    if _is_half(shape):
        return [(thread * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(count)]
    return [(thread + i * 4, group) for i in range(count)]


def ptx_c(shape: TensorShape, lane: int) -> Elements:
    """Return row and column of each sum that a lane holds."""
    if shape.is_of_warpgroup:
        return _of_warpgroup(shape, lane)
    group, thread = lane >> 2, lane % 4
    count = shape.rows * 8 // 32
    return [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(count)]


def _of_warpgroup(shape: TensorShape, lane: int) -> Elements:
    """Return what lanes hold of D: the four warps have 16 rows each, in blocks of 8 columns."""
    found = []
    for i in range(shape.columns // 2):
        row = 16 * (lane // 32) + lane % 32 // 4 + (8 if i % 4 >= 2 else 0)
        found.append((row, i // 4 * 8 + lane % 4 * 2 + i % 2))
    return found


def matrices(
    shape: TensorShape, lanes: Sequence[tuple[Sequence[Any], Sequence[Any]]]
) -> tuple[Matrix, Matrix]:
    """Put both factors together of what the lanes of a warp hold."""
    a, b = Matrix(), Matrix()
    for lane, (of_a, of_b) in enumerate(lanes):
        a.update(zip(ptx_a(shape, lane), of_a, strict=True))
        b.update(zip(ptx_b(shape, lane), of_b, strict=True))
    return a, b
