"""Cycles of dependencies: why each instruction depends on the next, and how to break them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgen.errors import DependencyCycleFound
from kgen.ir.construction.dependencies import ancestors, written_id
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.stages import PreparedKernel

__all__ = ["Wait", "cycle_error"]


class Wait(NamedTuple):
    """An instruction that depends on another one, and the sibling loops that contain them."""

    insn_id: str
    other: str
    loop: str | None
    other_loop: str | None


def cycle_error(kernel: PreparedKernel, cycle: Sequence[Wait]) -> DependencyCycleFound:
    """Return the error for a cycle: each item depends on the next, the last one on the first."""
    cycle = [_as_written(kernel, wait) for wait in cycle]
    first = cycle[0]
    names = [_item(first.loop, first.insn_id)]
    names += [_item(wait.other_loop, wait.other) for wait in cycle]
    because = [
        f"{_described(kernel, wait.loop, wait.insn_id)} depends on "
        f"{_described(kernel, wait.other_loop, wait.other)}, "
        f"{_reason(kernel, wait.insn_id, wait.other)}"
        for wait in cycle
    ]
    held = _held_in_loops(cycle)
    if held:
        because.append("a loop depends on everything that one of its instructions depends on")
    return DependencyCycleFound(
        "the dependencies form a cycle: " + " depends on ".join(names),
        kernel=kernel.name,
        because="; ".join(because),
        hint="; or ".join((*_hints_of_loops(kernel, cycle, held), *_hints(kernel, cycle, held))),
    )


def _as_written(kernel: PreparedKernel, wait: Wait) -> Wait:
    """Name the instructions that users know, instead of the steps of their sums."""
    insn_id, other = (written_id(kernel, name) for name in (wait.insn_id, wait.other))
    return wait._replace(insn_id=insn_id, other=other)


def _held_in_loops(cycle: Sequence[Wait]) -> list[tuple[str, str]]:
    """Return (loop, waiting instruction) where the cycle needs another instruction of the loop."""
    return [
        (wait.loop, wait.insn_id)
        for wait, before in zip(cycle, [cycle[-1], *cycle[:-1]], strict=True)
        if wait.loop is not None and wait.insn_id != before.other
    ]


def _hints_of_loops(
    kernel: PreparedKernel, cycle: Sequence[Wait], held: Sequence[tuple[str, str]]
) -> list[str]:
    """Return fixes that move instructions to other loops."""
    hints = []
    plain = [wait.other for wait in cycle if wait.other_loop is None]
    loops = [wait.other_loop for wait in cycle if wait.other_loop is not None]
    if len(plain) == len(loops) == 1:
        inames = ":".join(sorted({*kernel.id_to_insn[plain[0]].within_inames, *loops}))
        hints.append(
            f"if '{plain[0]}' belongs in each iteration of '{loops[0]}', put it there: "
            f"{{inames={inames}}}, or 'for {loops[0]} ... end' around it"
        )
    if held:
        (iname, insn_id), *_ = held
        hints.append(
            f"duplicate_inames(kernel, '{iname}', within='id:{insn_id}') gives '{insn_id}' a loop "
            "of its own"
        )
    return hints


def _hints(
    kernel: PreparedKernel, cycle: Sequence[Wait], held: Sequence[tuple[str, str]]
) -> list[str]:
    """Return fixes that drop a dependency, preferably one on a later instruction.

    There is none if each instruction reads what the next one writes, and only loops are in the way.
    """
    order = {insn_id: at for at, insn_id in enumerate(kernel.id_to_insn)}
    against = sorted(cycle, key=lambda wait: order[wait.insn_id] - order[wait.other])
    by_reading = [wait for wait in against if _reads_from(kernel, wait.insn_id, wait.other)]
    if held and len(by_reading) == len(cycle):
        return []
    insn_id, other, *_ = (by_reading or against)[0]
    hints = [_suggested_fix(kernel, insn_id, other, bool(by_reading))]
    in_sequence = all(
        order[name] < order[wait.insn_id] or _reads_from(kernel, wait.insn_id, name)
        for wait in cycle
        for name in kernel.id_to_insn[wait.insn_id].depends_on
    )
    if by_reading and in_sequence:
        hints.append(
            "make_kernel(..., seq_dependencies=True), which runs the instructions in the order of "
            "the text"
        )
    return hints


def _reads_from(kernel: PreparedKernel, insn_id: str, other: str) -> list[str]:
    """Return the variables that an instruction reads and whose only writer it depends on."""
    writes = kernel.id_to_insn[other].assignee_var_names()
    if kernel.id_to_insn[insn_id].depends_on_is_final:
        return []
    steps = _steps(kernel, insn_id)
    names = frozenset().union(*(step.read_dependency_names() for step in steps))
    return sorted(name for name in names & set(writes) if kernel.writers[name] == (other,))


def _steps(kernel: PreparedKernel, insn_id: str) -> list[InstructionBase]:
    """Return an instruction, and the steps of its sums."""
    return [insn for insn in kernel.instructions if written_id(kernel, insn.id) == insn_id]


def _reason(kernel: PreparedKernel, insn_id: str, other: str) -> str:
    """Return why an instruction depends on another one."""
    read = _reads_from(kernel, insn_id, other)
    return f"the only writer of '{read[0]}', which it reads" if read else f"by its dep={other}"


def _suggested_fix(kernel: PreparedKernel, insn_id: str, other: str, is_read: bool) -> str:
    """Return the fix that drops the dependency of an instruction on another one."""
    if not is_read:
        return f"remove dep={other} from '{insn_id}', or another one of these dependencies"
    kept = ":".join(sorted(_needs(kernel, insn_id) - {other}))
    return (
        f"write {{dep=*{kept}}} on '{insn_id}', which then reads the value from before '{other}' "
        "runs"
    )


def _needs(kernel: PreparedKernel, insn_id: str) -> set[str]:
    """Return what an instruction depends on, except what depends on the instruction itself."""
    needs = set().union(*(step.depends_on for step in _steps(kernel, insn_id)))
    written = {written_id(kernel, name) for name in needs} - {insn_id}
    return {name for name in written if insn_id not in ancestors(kernel, kernel.id_to_insn[name])}


def _item(loop: str | None, insn_id: str) -> str:
    return f"'{insn_id}'" if loop is None else f"loop '{loop}'"


def _described(kernel: PreparedKernel, loop: str | None, insn_id: str) -> str:
    """Describe an instruction: its id, whether it is a barrier, and its loop."""
    insn = kernel.id_to_insn[insn_id]
    text = f"'{insn_id}'"
    if isinstance(insn, BarrierInstruction):
        text = f"the {insn.synchronization_kind} barrier {text}"
    return text if loop is None else f"{text} in loop '{loop}'"
