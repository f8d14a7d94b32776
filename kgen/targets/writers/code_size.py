"""Unroll factors that keep the code of a loop in the instruction cache."""

from __future__ import annotations

from typing import Final

import pymbolic.primitives as p

from kgen.ast.nodes import For, If, Let, Node, Run
from kgen.ir.expr import Expr, LinearSubscript, is_constant, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import children_of

__all__ = ["UNROLLED_BYTES", "unroll_factor"]

#: The maximum code size, in bytes, of an unrolled loop: half of the innermost instruction cache
#: of NVIDIA's multiprocessors since compute capability 7 (Jia et al., Dissecting the NVIDIA Volta
#: GPU architecture via microbenchmarking, 2018: 12 KiB at level 0, 128 KiB at level 1).
UNROLLED_BYTES: Final = 16 * 1024
#: The bytes of an instruction on these.
_INSTRUCTION: Final = 16
#: The instructions of a loop besides its body: a counter, a comparison, a branch.
_LOOP: Final = 3


def unroll_factor(kernel: LoopKernel, loop: For) -> int:
    """Return the unroll factor of *loop*: its trip count, or else a power of two.

    Each operation, and each access to an array, counts as one instruction; a product that is a term
    of a sum is fused with it.
    """
    each = max(_count(kernel, loop.body), 1)
    most = max(UNROLLED_BYTES // (_INSTRUCTION * each), 1)
    trips = _trips(loop)
    if trips is not None and trips <= most:
        return trips
    return 1 << (most.bit_length() - 1)


def _trips(loop: For) -> int | None:
    """Return the trip count, if it is a constant."""
    if isinstance(loop.first, int) and isinstance(loop.stop, int):
        return max(-(-(loop.stop - loop.first) // loop.step), 0)
    return None


def _count(kernel: LoopKernel, node: Node) -> int:
    """Estimate the number of instructions of a part of the code tree."""
    inside = sum(_count(kernel, child) for child in children_of(node))
    match node:
        case Run():
            insn = kernel.id_to_insn[node.insn_id]
            return sum(map(_operations, insn.read_exprs())) + sum(map(_operations, insn.assignees))
        case If():
            return inside + _operations(node.condition)
        case Let():
            return inside + _operations(node.value)
        case For():
            return inside * (_trips(node) or 1) if node.is_short else inside + _LOOP
    return inside


def _operations(expr: Expr) -> int:
    return sum(map(_weight, walk(expr)))


def _weight(expr: Expr) -> int:
    """Return the number of instructions of one node: one less than its operands for a chain."""
    match expr:
        case p.Sum():
            fused = sum(isinstance(child, p.Product) for child in expr.children)
            return max(len(expr.children) - 1 - fused, 0)
        case p.Product() | p.Min() | p.Max():
            return len(expr.children) - 1
        case p.Variable() | tuple():
            return 0
        case p.Subscript() | LinearSubscript():
            return 1
    return 0 if is_constant(expr) else 1
