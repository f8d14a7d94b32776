"""Ids of instructions, and the dependencies between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from kgen.errors import KernelError, near_names
from kgen.ir.closure import closure
from kgen.ir.instruction import InstructionBase, unique_ids
from kgen.ir.mentions import mentions_of

if TYPE_CHECKING:
    from kgen.ir.kernel import LoopKernel

__all__ = [
    "ancestors",
    "instruction_reads",
    "make_ids",
    "resolve_dependencies",
    "where",
    "written_id",
]


def where(insn: InstructionBase) -> str:
    """Return the source position of an instruction, or its text."""
    return str(insn.span) if insn.span is not None else f"instruction '{insn}'"


def ancestors(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
    """Return all instructions that run before *insn*, directly or not."""
    return frozenset(closure(insn.depends_on, lambda name: kernel.id_to_insn[name].depends_on))


def written_id(kernel: LoopKernel, insn_id: str) -> str:
    """Return the instruction that users know *insn_id* by: one with a sum, for a step of the sum.

    A step is named after its instruction, which depends on it: ``insn_k_init``.
    """
    if not kernel.id_to_insn[insn_id].depends_on_is_final:
        return insn_id
    found = [
        str(insn.id)
        for insn in kernel.instructions
        if insn_id.startswith(f"{insn.id}_")
        and not insn_id.removeprefix(f"{insn.id}_").isdigit()
        and insn_id in ancestors(kernel, insn)
    ]
    return max(found, key=len, default=insn_id)


def make_ids(instructions: Sequence[InstructionBase]) -> list[str]:
    """Return one unique id per instruction: its own, or one made from its prefix.

    >>> from kgen.ir.instruction import Assignment
    >>> make_ids([Assignment("x", 0), Assignment("y", 0), Assignment("z", 0, id="a")])
    ['insn', 'insn_0', 'a']
    """
    taken: dict[str, InstructionBase] = {}
    for insn in instructions:
        if isinstance(insn.id, str):
            if insn.id in taken:
                raise KernelError(
                    f"two instructions have the id '{insn.id}'",
                    where=f"{where(taken[insn.id])}, and {where(insn)}",
                    hint="rename one, or write id_prefix= to have numbers appended",
                )
            taken[insn.id] = insn
    return unique_ids(instructions)


def instruction_reads(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
    """Return all names that *insn* reads: rules expanded, loop bounds included."""
    names = set(insn.read_dependency_names())
    loops = insn.within_inames | insn.reduction_inames()
    if kernel.substitutions:
        found = mentions_of(*insn.expressions(), rules=kernel.substitutions)
        names.update(found.variables)
        loops = loops.union(found.reduced)
    return frozenset(names | _bounding_names(kernel, insn, loops))


def _bounding_names(kernel: LoopKernel, insn: InstructionBase, loops: Iterable[str]) -> set[str]:
    """Return the parameters of the domains of *loops* around *insn*.

    Instructions that set parameters of the domain of a loop around them do not wait for each
    other: ``s`` and ``e`` in ``{ [i, j]: 0 <= i < n and s <= j < e }`` if both are set inside of
    the loop over ``i``.
    """
    homes: dict[int, list[str]] = {}
    for loop in loops:
        homes.setdefault(kernel.home_domain[loop], []).append(loop)
    written = insn.assignee_var_names()
    names: set[str] = set()
    for home, around in homes.items():
        params = frozenset(kernel._domain_params[home])
        own = () if params.isdisjoint(written) else around
        names.update(name for name in params if not _is_set_inside(kernel, name, own))
    return names


def _is_set_inside(kernel: LoopKernel, name: str, loops: Iterable[str]) -> bool:
    writers = [kernel.id_to_insn[writer] for writer in kernel.writers.get(name, ())]
    return any(not writer.within_inames.isdisjoint(loops) for writer in writers)


def resolve_dependencies(kernel: LoopKernel) -> LoopKernel:
    """Resolve the dependencies of instructions.

    Globs and match expressions become ids. An instruction depends on the only writer of a
    variable that it reads unless its dependencies are marked final, and always on that of
    a temporary that bounds one of its loops. Raises
    :class:`KernelError` for a name that is not an instruction, or ignores it if the option
    ``check_dep_resolution`` is off.
    """
    return kernel.map_instructions(_Finder(kernel).resolved)


class _Finder:
    """Finds the instructions that ids, globs and match expressions select."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.known: dict[Any, list[str]] = {name: [name] for name in kernel.id_to_insn}

    def resolved(self, insn: InstructionBase) -> InstructionBase:
        """Return *insn* with the ids of its dependencies; the same object if it has those."""
        wanted = self.find(insn, insn.depends_on, "depends on")
        for name in self._awaited(insn):
            writing = self.kernel.writers.get(name, ())
            if len(writing) == 1 and writing[0] != insn.id:
                wanted.add(writing[0])
        apart: set[tuple[str, str]] = set()
        for item, scope in insn.no_sync_with:
            found = self.find(insn, (item,), "declares nosync with")
            apart.update((name, scope) for name in found)
        if wanted == insn.depends_on and apart == insn.no_sync_with:
            return insn
        return insn.copy(depends_on=frozenset(wanted), no_sync_with=frozenset(apart))

    def _awaited(self, insn: InstructionBase) -> Set[str]:
        """Return the variables on whose only writers *insn* depends."""
        if not insn.depends_on_is_final:
            return instruction_reads(self.kernel, insn)
        bounds = _bounding_names(self.kernel, insn, insn.within_inames)
        return bounds & self.kernel.temporary_variables.keys()

    def find(self, insn: InstructionBase, given: Iterable[Any], verb: str) -> set[str]:
        """Return the ids that *given* selects for *insn*; patterns do not select *insn* itself."""
        found: set[str] = set()
        for item in given:
            matching = self.known.get(item)
            if matching is None:
                matching = self.known[item] = self._matching(item)
            if not matching and self.kernel.options.check_dep_resolution:
                raise self._unresolved(insn, item, verb)
            found.update(name for name in matching if name != insn.id or item == insn.id)
        return found

    def _matching(self, item: str | Callable[..., bool]) -> list[str]:
        if isinstance(item, str):
            fits = re.compile(translate(item)).match
            return [name for name in self.kernel.id_to_insn if fits(name)]
        return [str(insn.id) for insn in self.kernel.instructions if item(self.kernel, insn)]

    def _unresolved(self, insn: InstructionBase, item: Any, verb: str) -> KernelError:
        known = [name for name in self.kernel.id_to_insn if name != insn.id]
        return KernelError(
            f"instruction '{insn.id}' {verb} '{item}', which does not exist",
            where=where(insn),
            hint=near_names(str(item), known),
        )


def in_sequence(instructions: Sequence[InstructionBase]) -> list[InstructionBase]:
    """Make each instruction depend on the preceding one, and on named ones only."""
    result: list[InstructionBase] = []
    for insn in instructions:
        more = {str(result[-1].id)} if result else set()
        result.append(insn.copy(depends_on=insn.depends_on | more, depends_on_is_final=True))
    return result
