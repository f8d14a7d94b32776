"""Loops around lanes whose sums gcc would keep in memory."""

from __future__ import annotations

from kgen.ast.nodes import DeviceFunction, For, simd_loops_in
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import nodes_in

__all__ = ["has_sums_in_lanes"]


def has_sums_in_lanes(kernel: LoopKernel, function: DeviceFunction) -> bool:
    """Tell whether a loop runs lanes that have elements of their own in an array, such as sums.

    gcc unrolls such a loop and fuses the copies of the lanes' loop in it (unroll and jam) before
    it replaces that by vectors. Then the elements are loaded and stored in each iteration instead
    of staying in registers.
    """
    arrays = [n for n in function.temporaries if kernel.temporary_variables[n].shape]
    loops = (node for node in nodes_in(function.body) if isinstance(node, For))
    around = (loop for loop in loops if not loop.is_simd)
    return bool(arrays) and any(simd_loops_in(loop.body) for loop in around)
