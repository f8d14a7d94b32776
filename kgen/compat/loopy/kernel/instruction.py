"""loopy.kernel.instruction: instructions."""

from __future__ import annotations

from kgen.ir.atomicity import (
    AtomicInit,
    AtomicUpdate,
    MemoryOrdering,
    MemoryScope,
    OrderedAtomic,
    VarAtomicity,
)
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    CInstruction,
    HappensAfter,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
    UseStreamingStoreTag,
    make_assignment,
)
from kgen.ir.tags import (
    StringTag as LegacyStringInstructionTag,
)

__all__ = [
    "Assignment",
    "AtomicInit",
    "AtomicUpdate",
    "BarrierInstruction",
    "CInstruction",
    "CallInstruction",
    "HappensAfter",
    "InstructionBase",
    "LegacyStringInstructionTag",
    "MemoryOrdering",
    "MemoryScope",
    "MultiAssignmentBase",
    "NoOpInstruction",
    "OrderedAtomic",
    "UseStreamingStoreTag",
    "VarAtomicity",
    "make_assignment",
]
