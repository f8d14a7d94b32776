"""Numbers stored as two: the nearest number of TF32, and what remains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from numpy.typing import NDArray

from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, minus
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel

__all__ = ["PARTS", "are_parts", "nearest_tf32", "parts_of", "split_table"]

#: The number of parts: of 10 fraction bits each, the second one of 12 at most.
PARTS: Final = 2
#: Adds half of the last bit that is kept, and clears the 13 bits after it.
_HALF: Final = 1 << 12
_KEPT: Final = 0xFFFFFFFF - (1 << 13) + 1


def nearest_tf32(value: Expr) -> Expr:
    """Return the nearest number of 10 fraction bits to a float32, ties away from zero.

    >>> print(nearest_tf32(p.Variable("x")))
    as_float(as_uint(x) + 4096 & 4294959104)
    """
    bits = p.Sum((p.Variable("as_uint")(value), _HALF))
    return p.Variable("as_float")(p.BitwiseAnd((bits, _KEPT)))


def split_table(table: NDArray[Any]) -> NDArray[Any]:
    """Return both parts of numbers, along a new last axis."""
    bits = table.astype(np.float32).view(np.uint32)
    nearest = ((bits + np.uint32(_HALF)) & np.uint32(_KEPT)).view(np.float32)
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
    stored: list[set[object]] = [set(), set()]
    for insn in writes:
        found = _stored(insn)
        if found is None:
            return False
        part, place, value = found
        stored[part].add((place, value, insn.within_inames, insn.predicates))
    return bool(writes) and stored[0] == stored[1]


def _is_split_table(temporary: TemporaryVariable) -> bool:
    table = np.asarray(temporary.initializer)
    if table.ndim == 0 or table.shape[-1] != PARTS or table.dtype != np.float32:
        return False
    return bool(np.array_equal(table, split_table(table.sum(axis=-1)), equal_nan=True))


def _stored(insn: Any) -> tuple[int, object, Expr] | None:
    """Return the part that an instruction stores, where, and of which number."""
    if not isinstance(insn, Assignment) or not isinstance(insn.assignee, p.Subscript):
        return None
    *place, part = insn.assignee.index_tuple
    if part == 0:
        for value in _numbers_in(insn.expression):
            if insn.expression == nearest_tf32(value):
                return 0, tuple(place), value
    if part == 1 and isinstance(insn.expression, p.Sum):
        value = insn.expression.children[0]
        if insn.expression == minus(value, nearest_tf32(value)):
            return 1, tuple(place), value
    return None


def _numbers_in(expr: Any) -> Iterator[Expr]:
    """Yield the number of which *expr* may be the nearest one."""
    while isinstance(expr, p.Call | p.BitwiseAnd | p.Sum):
        expr = expr.parameters[0] if isinstance(expr, p.Call) else expr.children[0]
        yield expr
