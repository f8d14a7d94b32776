"""A linearized kernel: a flat list of launches, loops, instructions and barriers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kgen.ir.fields import Copyable
from kgen.ir.instruction import InstructionBase

__all__ = [
    "Barrier",
    "CallKernel",
    "EnterLoop",
    "LeaveLoop",
    "ReturnFromKernel",
    "RunInstruction",
    "ScheduleItem",
    "linearization_lines",
]


@dataclass(frozen=True)
class CallKernel(Copyable):
    """The host launches a device function."""

    kernel_name: str


@dataclass(frozen=True)
class ReturnFromKernel(Copyable):
    """The device function ends."""

    kernel_name: str


@dataclass(frozen=True)
class EnterLoop(Copyable):
    """A sequential loop starts."""

    iname: str


@dataclass(frozen=True)
class LeaveLoop(Copyable):
    """A sequential loop ends."""

    iname: str


@dataclass(frozen=True)
class RunInstruction(Copyable):
    """An instruction runs, in all work-items."""

    insn_id: str


@dataclass(frozen=True)
class Barrier(Copyable):
    """A barrier of the work-items of a group, of the device, or of warps; *comment* says why.

    ``synchronization_kind`` is ``"local"``, ``"global"`` or, on CUDA, ``"warp"``. ``mem_kind`` is
    the memory that is made consistent: ``"local"``, ``"global"`` or ``"local and global"``.
    ``originating_insn_id`` is the barrier instruction, if there is one.

    >>> Barrier("for t", "local", "local").originating_insn_id is None
    True
    """

    comment: str
    synchronization_kind: str
    mem_kind: str
    originating_insn_id: str | None = None


ScheduleItem: TypeAlias = (
    CallKernel | ReturnFromKernel | EnterLoop | LeaveLoop | RunInstruction | Barrier
)


def linearization_lines(
    items: Sequence[ScheduleItem], id_to_insn: Mapping[str, InstructionBase]
) -> Iterator[str]:
    """Print each item, numbered, indented by the launches and loops around it."""
    indent = ""
    for number, item in enumerate(items):
        match item:
            case CallKernel():
                text, after = f"CALL KERNEL {item.kernel_name}", indent + "    "
            case EnterLoop():
                text, after = f"for {item.iname}", indent + "  "
            case ReturnFromKernel():
                after = indent = indent[:-4]
                text = f"RETURN FROM KERNEL {item.kernel_name}"
            case LeaveLoop():
                after = indent = indent[:-2]
                text = f"end {item.iname}"
            case RunInstruction():
                text, after = str(id_to_insn[item.insn_id]), indent
            case Barrier():
                text, after = f"... {item.synchronization_kind[0]}barrier", indent
                if item.comment:
                    text += f"  # {item.comment}"
        yield f"{number:4d}: {indent}{text}"
        indent = after
