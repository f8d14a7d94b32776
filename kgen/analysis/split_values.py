"""Numbers stored as two: the nearest number of TF32, and what remains."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from numpy.typing import NDArray

from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, minus
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel

__all__ = ["HALF", "KEPT", "PARTS", "are_parts", "nearest_tf32", "parts_of", "split_table"]

#: The number of parts: of 10 fraction bits each, the second one of 12 at most.
PARTS: Final = 2
#: Adds half of the last bit that is kept, and clears the 13 bits after it.
HALF: Final = 0x1000
KEPT: Final = 0xFFFFE000


def nearest_tf32(value: Expr) -> Expr:
    """Return the nearest number of 10 fraction bits to a float32, ties away from zero.

    >>> print(nearest_tf32(p.Variable("x")))
    as_float(as_uint(x) + 4096 & 4294959104)
    """
    bits = p.Sum((p.Variable("as_uint")(value), HALF))
    return p.Variable("as_float")(p.BitwiseAnd((bits, KEPT)))


def split_table(table: NDArray[Any]) -> NDArray[Any]:
    """Return both parts of numbers, along a new last axis."""
    bits = table.astype(np.float32).view(np.uint32)
    nearest = ((bits + np.uint32(HALF)) & np.uint32(KEPT)).view(np.float32)
    return np.stack([nearest, table - nearest], axis=-1)


def parts_of(kernel: LoopKernel, expr: Expr) -> tuple[Expr, Expr] | None:
    """Return both parts of a number, if *expr* is their sum.

    ``t[i, 0] + t[i, 1]``, where all that is stored in ``t`` are parts of one number.
    """
    if not isinstance(expr, p.Sum) or len(expr.children) != PARTS:
        return None
    first, second = expr.children
    if not (isinstance(first, p.Subscript) and isinstance(second, p.Subscript)):
        return None
    (*place, one), (*other, two) = first.index_tuple, second.index_tuple
    if (one, two) != (0, 1) or place != other or first.aggregate != second.aggregate:
        return None
    assert isinstance(first.aggregate, p.Variable)
    return (first, second) if are_parts(kernel, first.aggregate.name) else None


def are_parts(kernel: LoopKernel, name: str) -> bool:
    """Tell whether all elements of a temporary along its last axis are parts of one number."""
    temporary = kernel.temporary_variables.get(name)
    if temporary is None or temporary.base_storage is not None:
        return False
    writes = [kernel.id_to_insn[insn_id] for insn_id in kernel.writers.get(name, ())]
    if temporary.initializer is not None:
        return not writes and _is_split_table(temporary)
    stored: dict[object, set[object]] = {part: set() for part in range(PARTS)}
    for insn in writes:
        if not isinstance(insn, Assignment) or not isinstance(insn.assignee, p.Subscript):
            return False
        *place, part = insn.assignee.index_tuple
        first = insn.expression if part == 0 else _first_beside(insn.expression)
        if part not in stored or first is None:
            return False
        stored[part].add((*place, first, insn.within_inames, insn.predicates))
    return bool(writes) and stored[0] == stored[1]


def _is_split_table(temporary: TemporaryVariable) -> bool:
    table = np.asarray(temporary.initializer)
    if table.ndim == 0 or table.shape[-1] != PARTS or table.dtype != np.float32:
        return False
    return bool(np.array_equal(table, split_table(table.sum(axis=-1)), equal_nan=True))


def _first_beside(rest: Expr) -> Expr | None:
    """Return the first part of the number of which *rest* is the second one."""
    if not isinstance(rest, p.Sum):
        return None
    value = rest.children[0]
    nearest = nearest_tf32(value)
    return nearest if rest == minus(value, nearest) else None
