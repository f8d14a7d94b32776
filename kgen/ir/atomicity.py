"""Atomic accesses: which variable, in what order, among whom."""

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
    """The documented memory orders of atomics."""

    RELAXED = 0
    ACQUIRE = 1
    RELEASE = 2
    ACQ_REL = 3
    SEQ_CST = 4


class MemoryScope:
    """Among whom an atomic is atomic."""

    WORK_ITEM = 0
    WORK_GROUP = 1
    WORK_DEVICE = 2
    ALL_SVM_DEVICES = 3
    AUTO = auto


@dataclass(frozen=True)
class VarAtomicity:
    """A variable whose access in an instruction is atomic."""

    var_name: str


@dataclass(frozen=True)
class OrderedAtomic(VarAtomicity):
    """An atomic access with a memory order and a scope."""

    ordering: int = MemoryOrdering.RELAXED
    scope: Any = auto


class AtomicInit(OrderedAtomic):
    """``{atomic=init}``: the write initializes atomically accessed storage."""


class AtomicUpdate(OrderedAtomic):
    """``{atomic}``: the read-modify-write is one atomic step."""
