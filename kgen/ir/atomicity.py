"""Atomic accesses: variable, memory ordering and scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.errors import InvalidValueError
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

    @classmethod
    def to_string(cls, value: int) -> str:
        """Return the name of an ordering.

        >>> MemoryOrdering.to_string(MemoryOrdering.ACQUIRE)
        'ACQUIRE'
        """
        return _name_of(cls, value)


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

    @classmethod
    def to_string(cls, value: Any) -> str:
        """Return the name of a scope.

        >>> MemoryScope.to_string(MemoryScope.WORK_GROUP), MemoryScope.to_string(auto)
        ('WORK_GROUP', 'auto')
        """
        return _name_of(cls, value)


def _name_of(constants: type, value: Any) -> str:
    """Return the name of the constant that *value* is one of."""
    named = {name: one for name, one in vars(constants).items() if not name.startswith("_")}
    for name, one in named.items():
        if one is value or (isinstance(one, int) and one == value):
            return name
    raise InvalidValueError(f"{constants.__name__} has no constant {value!r}")


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
