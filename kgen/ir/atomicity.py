"""Atomic accesses: variable, memory ordering and scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.ir.types import auto

__all__ = [
    "AtomicInit",
    "AtomicUpdate",
    "MemoryOrdering",
    "MemoryScope",
    "OrderedAtomic",
    "VarAtomicity",
]


class MemoryOrdering:
    """The memory orderings of atomic accesses.

    >>> import kgen as lp
    >>> lp.AtomicUpdate("out", ordering=lp.MemoryOrdering.SEQ_CST).ordering
    4
    """

    RELAXED = 0
    ACQUIRE = 1
    RELEASE = 2
    ACQ_REL = 3
    SEQ_CST = 4


class MemoryScope:
    """The scopes of atomic accesses: which work-items they synchronize.

    >>> import kgen as lp
    >>> lp.AtomicUpdate("out", scope=lp.MemoryScope.WORK_GROUP).scope
    1
    """

    WORK_ITEM = 0
    WORK_GROUP = 1
    WORK_DEVICE = DEVICE = 2
    ALL_SVM_DEVICES = 3
    auto = auto


@dataclass(frozen=True)
class VarAtomicity:
    """A variable that an instruction accesses atomically.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[0] = out[0] + a[i] {atomic}")
    >>> [atomicity.var_name for atomicity in unit["kgen_kernel"].instructions[0].atomicity]
    ['out']
    """

    var_name: str


@dataclass(frozen=True)
class OrderedAtomic(VarAtomicity):
    """An atomic access with a memory ordering and a scope.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[0] = out[0] + a[i] {atomic}")
    >>> (atomicity,) = unit["kgen_kernel"].instructions[0].atomicity
    >>> isinstance(atomicity, OrderedAtomic), atomicity.scope
    (True, auto)
    """

    ordering: int = MemoryOrdering.RELAXED
    scope: Any = auto


class AtomicInit(OrderedAtomic):
    """``{atomic=init}``: an atomic store that initializes atomically accessed storage.

    >>> from kgen.ir.instruction import Assignment
    >>> print(Assignment("out[0]", 0, id="start", atomicity=(AtomicInit("out"),)))
    out[0] = 0  {id=start, atomic=init}
    """


class AtomicUpdate(OrderedAtomic):
    """``{atomic}``: an atomic read-modify-write.

    >>> from kgen.ir.instruction import Assignment
    >>> print(Assignment("out[0]", "out[0] + a[i]", id="add", atomicity=(AtomicUpdate("out"),)))
    out[0] = out[0] + a[i]  {id=add, atomic}
    """
