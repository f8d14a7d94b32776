"""Verification of shared storage: no temporary is read after another one overwrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.analysis.access import Access
from kgen.errors import ScheduleError, VariableAccessNotOrdered
from kgen.ir.expr import variable_names
from kgen.ir.stages import PreparedKernel
from kgen.ir.types import AddressSpace
from kgen.schedule.liveness import Liveness
from kgen.schedule.tree import Launch, Schedule, insn_ids
from kgen.schedule.visits import Visit, visits_of

__all__ = ["check_storage"]


def check_storage(kernel: PreparedKernel, launches: tuple[Launch, ...]) -> None:
    """Reject an order in which temporaries of one storage overwrite each other's values.

    Raises :class:`VariableAccessNotOrdered`, and :class:`ScheduleError` for temporaries that
    cannot share storage.
    """
    storages: dict[str, list[str]] = {}
    for name, temporary in sorted(kernel.temporary_variables.items()):
        if temporary.base_storage is not None:
            storages.setdefault(temporary.base_storage, []).append(name)
    if not storages:
        return
    liveness = Liveness(kernel, Schedule(()))
    for base, names in sorted(storages.items()):
        _check_spaces(kernel, base, names)
        is_global = kernel.temporary_variables[names[0]].address_space == AddressSpace.GLOBAL
        if is_global:
            _check_types(kernel, base, names, launches)
        # global temporaries outlive launches
        for parts in [launches] if is_global else [(launch,) for launch in launches]:
            _Checker(kernel, liveness, base, {name: _State() for name in names}).check(parts)


def _check_spaces(kernel: PreparedKernel, base: str, names: list[str]) -> None:
    spaces = {n: kernel.temporary_variables[n].address_space for n in names}
    first = names[0]
    odd = next((n for n in names if spaces[n] != spaces[first]), None)
    if odd is not None:
        shown = ", ".join(f"'{n}' is {AddressSpace.stringify(spaces[n])}" for n in names)
        raise ScheduleError(
            f"the temporaries in storage '{base}' are not in one address space",
            because=shown,
            hint=f"set_temporary_address_space(kernel, '{','.join(names)}', 'local')",
        )


def _check_types(
    kernel: PreparedKernel, base: str, names: list[str], launches: tuple[Launch, ...]
) -> None:
    """Reject elements of several types in global memory if one compiler sees their accesses.

    It may assume that accesses of different types do not alias, and reorder them. The
    functions of launches on devices are compiled separately; those of C are not.
    """
    groups = [insn_ids(launch.body) for launch in launches]
    if kernel.target.loops_over_items or not kernel.target.has_work_items:
        groups = [tuple(name for group in groups for name in group)]
    for group in groups:
        used = {name for i in group for name in kernel.id_to_insn[i].dependency_names()}
        dtypes = {kernel.temporary_variables[n].dtype: n for n in names if n in used}
        if len(dtypes) > 1:
            (one, a), (other, b), *_ = dtypes.items()
            raise ScheduleError(
                f"temporaries '{a}' and '{b}' in global storage '{base}' have elements of {one} "
                f"and {other}",
                because="a compiler may reorder accesses to elements of different types",
                hint="give them the same type, or separate storage; on a device, a global "
                "barrier puts them into different launches",
            )


@dataclass
class _State:
    """The state of a temporary at a point of the order."""

    is_written: bool = False
    lost_to: Visit | None = None  # the instruction that overwrote it with another one
    writes: list[tuple[Visit, Access]] = field(default_factory=list)  # since then


@dataclass
class _Checker:
    kernel: PreparedKernel
    liveness: Liveness
    base: str
    states: Mapping[str, _State]

    def check(self, launches: tuple[Launch, ...]) -> None:
        """Visit launches, and each loop twice: values may last to the next iteration."""
        positions: dict[str, list[int]] = {}
        accesses: dict[str, list[Access]] = {}
        for name in self.states:
            for access in self.liveness.footprints.accesses.get(name, ()):
                accesses.setdefault(access.insn_id, []).append(access)
        for visit in visits_of(launches, copies=2):
            mine = accesses.get(visit.insn_id, ())
            if len({access.array for access in mine}) > 1:
                raise self._two_at_once(visit.insn_id)
            for access in mine:
                if access.is_write:
                    self._write(visit, access)
                else:
                    self._read(visit, access, positions)
            for name in self.kernel.id_to_insn[visit.insn_id].assignee_var_names():
                positions.setdefault(name, []).append(visit.position)

    def _write(self, visit: Visit, access: Access) -> None:
        for name, state in self.states.items():
            if name == access.array:
                state.is_written = True
                state.writes.append((visit, access))
            else:
                state.writes.clear()
                state.lost_to = visit if state.is_written else None

    def _read(self, visit: Visit, access: Access, positions: Mapping[str, list[int]]) -> None:
        state = self.states[access.array]
        lost_to = state.lost_to
        if lost_to is None:
            return
        same = [
            (v, a)
            for v, a in state.writes
            if not v.is_other_iteration(visit) and self._is_left(a, v, lost_to, visit)
        ]
        if self.liveness.uncovered(visit, access, same, positions).is_empty():
            return
        raise VariableAccessNotOrdered(
            f"instruction '{visit.insn_id}' reads '{access.array}', which '{lost_to.insn_id}' "
            "has overwritten",
            because=f"both are in storage '{self.base}'",
            hint=f"add_dependency(kernel, 'id:{lost_to.insn_id}', 'id:{visit.insn_id}') if that "
            "order is right, or give one of them separate storage",
        )

    def _is_left(self, write: Access, at: Visit, lost_to: Visit, read: Visit) -> bool:
        """Tell whether all that a write in a loop, and a loss, have stored remains after it.

        Each iteration loses what the previous ones have written: the last one must write all.
        """
        ended = at.shared_loops(lost_to)[len(at.shared_loops(read)) :]
        if not ended:
            return True
        names = variable_names(*(write.index or ()), *write.place.conditions)
        inames = self.kernel.with_outer_inames(frozenset(names).intersection(write.place.inames))
        return write.index is not None and inames.isdisjoint(ended)

    def _two_at_once(self, insn_id: str) -> VariableAccessNotOrdered:
        return VariableAccessNotOrdered(
            f"instruction '{insn_id}' uses two temporaries in storage '{self.base}' at once",
            hint="give one of them separate storage",
        )
