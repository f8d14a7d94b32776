"""Pragmas of loops for the compiler: unroll factors and numbers of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kgen.ast.nodes import For, runs_in
from kgen.ast.streams import lanes_of
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import UnrollBySizeTag, UnrollHintTag
from kgen.ir.types import INT32, NumpyType
from kgen.targets.base import CFamilyLanguage
from kgen.targets.writers.code_size import unroll_factor
from kgen.targets.writers.short_arrays import overruns_if_vectorized

__all__ = ["LONGEST_VECTOR", "loop_pragmas"]

#: The minimum bytes of vectors that compilers are asked for.
_SHORTEST: Final = 32
#: The bytes of the longest existing vector registers.
LONGEST_VECTOR: Final = 64


def loop_pragmas(
    kernel: LoopKernel,
    target: CFamilyLanguage,
    loop: For,
    *,
    is_whole_body: bool,
    hides_independence: Callable[[For], bool],
) -> list[str]:
    """Return the texts of the pragmas before *loop*.

    *is_whole_body*: it is the whole body of another loop. *hides_independence* tells
    whether its iterations are independent in a way that the compiler can hardly detect.
    """
    if loop.is_simd:
        about_lanes = target.simd_loop_pragma(_lanes(kernel, loop, is_whole_body))
    else:
        about_lanes = _scalar_pragma(kernel, target, loop, hides_independence)
    return [text for text in (_unroll_pragma(kernel, target, loop), about_lanes) if text]


def _scalar_pragma(
    kernel: LoopKernel,
    target: CFamilyLanguage,
    loop: For,
    hides_independence: Callable[[For], bool],
) -> str | None:
    """Return the pragma that forbids, or allows, vectorizing a loop without lanes."""
    scalar, independent = target.scalar_loop_pragma(), target.independent_loop_pragma()
    if scalar is not None and overruns_if_vectorized(kernel, loop):
        return scalar
    return independent if independent is not None and hides_independence(loop) else None


def _lanes(kernel: LoopKernel, loop: For, is_whole_body: bool) -> int | None:
    """Return the number of lanes of a vector: as many as fit into the longest registers.

    ``None`` leaves that to the compiler, if the trip count is not a multiple. gcc counts
    by the shortest type, which is an int if it interchanges a loop with an enclosing one.
    """
    count, size = lanes_of(loop), _widest(kernel, loop)
    if count is None:
        return None
    if is_whole_body:
        size = min(size, INT32.itemsize)
    lanes = min(count & -count, LONGEST_VECTOR // size)  # a power of two that divides it
    return lanes if lanes > 1 and (lanes == count or lanes * size >= _SHORTEST) else None


def _widest(kernel: LoopKernel, loop: For) -> int:
    """Return the bytes of the longest number that a loop assigns or reads from an array."""
    insns = [kernel.id_to_insn[run.insn_id] for run in runs_in(loop.body)]
    names = {name for insn in insns for name in insn.dependency_names()}
    dtypes = (array.dtype for name, array in kernel.array_vars.items() if name in names)
    return max(dtype.itemsize for dtype in dtypes if isinstance(dtype, NumpyType))


def _unroll_pragma(kernel: LoopKernel, target: CFamilyLanguage, loop: For) -> str | None:
    if loop.iname in kernel.inames:
        for hint in kernel.iname_tags_of_type(loop.iname, UnrollHintTag):
            is_by_size = isinstance(hint, UnrollBySizeTag)
            times = unroll_factor(kernel, loop) if is_by_size else hint.value
            return "unroll" if times is None else f"{target.unroll_count_pragma} {times}"
    return target.unroll_pragma if loop.is_short else None
