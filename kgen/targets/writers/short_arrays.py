"""Loops over short private arrays, which a compiler may vectorize incorrectly."""

from __future__ import annotations

import math

import pymbolic.primitives as p

from kgen.ast.nodes import For, Let, Node, Run
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import variable_names, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.tree import children_of
from kgen.ir.types import AddressSpace, NumpyType

__all__ = ["overruns_if_vectorized"]

#: The widest access of a vectorizer: 8 registers of 64 bytes, for an interleaved group.
_WIDEST = 512


def overruns_if_vectorized(kernel: LoopKernel, loop: For) -> bool:
    """Tell whether vector code for *loop* may access elements beyond a private array.

    Such code is dead, in loops whose trip count the compiler does not know: ``t[i]`` in
    ``for i = 0 .. min(2, n)``, where ``t`` has two elements, and a vector eight.
    """
    if isinstance(loop.first, int) and isinstance(loop.stop, int):
        return False
    return _moves_in_short_array(kernel, loop.body, frozenset([loop.iname]))


def _moves_in_short_array(kernel: LoopKernel, node: Node, names: frozenset[str]) -> bool:
    """Tell whether a subscript of a short private array depends on some of *names* below *node*."""
    match node:
        case Run():
            moving = names.difference(node.values).union(
                iname
                for iname, value in node.values.items()
                if not names.isdisjoint(variable_names(value))
            )
            return any(
                isinstance(expr, p.Subscript)
                and isinstance(expr.aggregate, p.Variable)
                and _is_short(kernel.temporary_variables.get(expr.aggregate.name))
                and not moving.isdisjoint(variable_names(*expr.index_tuple))
                for expr in walk(*kernel.id_to_insn[node.insn_id].expressions())
            )
        case Let() if not names.isdisjoint(variable_names(node.value)):
            names |= {node.name}
    return any(_moves_in_short_array(kernel, child, names) for child in children_of(node))


def _is_short(array: TemporaryVariable | None) -> bool:
    if array is None or array.address_space != AddressSpace.PRIVATE:
        return False
    assert isinstance(array.dtype, NumpyType)
    extents = [extent for extent in array.shape if isinstance(extent, int)]
    return math.prod(extents) * array.dtype.itemsize < _WIDEST
