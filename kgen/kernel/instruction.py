"""Instructions, under the documented module name."""

from __future__ import annotations

from kgen.ir.instruction import (
    Assignment,
    AtomicInit,
    AtomicUpdate,
    BarrierInstruction,
    CallInstruction,
    CInstruction,
    InstructionBase,
    MemoryOrdering,
    MemoryScope,
    MultiAssignmentBase,
    NoOpInstruction,
    OrderedAtomic,
    UseStreamingStoreTag,
    VarAtomicity,
    make_assignment,
)

__all__ = [
    "Assignment",
    "AtomicInit",
    "AtomicUpdate",
    "BarrierInstruction",
    "CInstruction",
    "CallInstruction",
    "InstructionBase",
    "MemoryOrdering",
    "MemoryScope",
    "MultiAssignmentBase",
    "NoOpInstruction",
    "OrderedAtomic",
    "UseStreamingStoreTag",
    "VarAtomicity",
    "make_assignment",
]
