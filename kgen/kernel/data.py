"""Declarations, tags and address spaces, under the documented module name."""

from __future__ import annotations

from kgen.ir.data import (
    ArrayArg,
    ConstantArg,
    GlobalArg,
    KernelArgument,
    SubstitutionRule,
    TemporaryVariable,
    ValueArg,
)
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    CInstruction,
    InstructionBase,
    MultiAssignmentBase,
    NoOpInstruction,
)
from kgen.ir.tags import (
    AutoFitLocalInameTag,
    AxisTag,
    ConcurrentTag,
    ForceSequentialTag,
    GroupInameTag,
    HardwareConcurrentTag,
    IlpBaseTag,
    InameImplementationTag,
    InOrderSequentialSequentialTag,
    LocalInameTag,
    LocalInameTagBase,
    LoopedIlpTag,
    UnrolledIlpTag,
    UnrollTag,
    VectorizeTag,
    parse_tag,
)
from kgen.ir.types import (
    AddressSpace,
    auto,
)

__all__ = [
    "AddressSpace",
    "ArrayArg",
    "Assignment",
    "AutoFitLocalInameTag",
    "AxisTag",
    "BarrierInstruction",
    "CInstruction",
    "CallInstruction",
    "ConcurrentTag",
    "ConstantArg",
    "ForceSequentialTag",
    "GlobalArg",
    "GroupInameTag",
    "HardwareConcurrentTag",
    "IlpBaseTag",
    "InOrderSequentialSequentialTag",
    "InameImplementationTag",
    "InstructionBase",
    "KernelArgument",
    "LocalInameTag",
    "LocalInameTagBase",
    "LoopedIlpTag",
    "MultiAssignmentBase",
    "NoOpInstruction",
    "SubstitutionRule",
    "TemporaryVariable",
    "UnrollTag",
    "UnrolledIlpTag",
    "ValueArg",
    "VectorizeTag",
    "auto",
    "parse_tag",
]
