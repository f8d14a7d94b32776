"""Asynchronous copies: readers of their elements wait for them, in the work-items that copy."""

from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from kgen.errors import ScheduleError
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import AsyncCopyTag, CopyWaitTag
from kgen.ir.types import AddressSpace
from kgen.schedule.conflicts import Conflicts

__all__ = ["check_copies"]


def check_copies(kernel: PreparedKernel) -> None:
    """Reject asynchronous copies outside local memory, and readers that do not wait for them.

    Raises :class:`ScheduleError`.
    """
    if not kernel.target.async_copies:
        return
    copies = [insn for insn in kernel.instructions if insn.tags_of_type(AsyncCopyTag)]
    for copy in copies:
        (array,) = copy.assignee_var_names()
        _check_spaces(kernel, copy, array)
        waits = list(_waits(kernel, array))
        _check_readers(kernel, copy, array, {str(wait.id) for wait in waits})
        for wait in waits:
            _check_items(kernel, copy, wait, array)


def _check_spaces(kernel: PreparedKernel, copy: InstructionBase, array: str) -> None:
    for name, wanted in ((array, AddressSpace.LOCAL), (_source(kernel, copy), AddressSpace.GLOBAL)):
        space = kernel.array_vars[name].address_space
        if space != wanted:
            raise ScheduleError(
                f"'{copy.id}' is an asynchronous copy, but '{name}' is in "
                f"{AddressSpace.stringify(space)} memory",
                kernel=kernel.name,
                where=f"instruction '{copy}'",
                because="asynchronous copies are only possible from global to local memory",
                hint="tag the loops over work-items, or omit async_copy",
            )


def _source(kernel: PreparedKernel, copy: InstructionBase) -> str:
    """Return the array that an instruction copies from."""
    (element,) = copy.read_exprs()
    if not isinstance(element, p.Subscript):
        raise ScheduleError(
            f"'{copy.id}' is an asynchronous copy, but reads no element of an array",
            kernel=kernel.name,
            where=f"instruction '{copy}'",
            hint="omit async_copy",
        )
    return variable_names(element.aggregate)[0]


def _waits(kernel: PreparedKernel, array: str) -> Iterator[InstructionBase]:
    for name in kernel.writers[array]:
        insn = kernel.id_to_insn[name]
        if insn.tags_of_type(CopyWaitTag):
            yield insn


def _check_readers(
    kernel: PreparedKernel, copy: InstructionBase, array: str, waits: set[str]
) -> None:
    for name in sorted(set(kernel.readers.get(array, ())) - waits):
        reader = kernel.id_to_insn[name]
        if ancestors(kernel, reader).isdisjoint(waits):
            raise ScheduleError(
                f"'{name}' reads '{array}', but does not wait for the copies of '{copy.id}'",
                kernel=kernel.name,
                where=f"instruction '{reader}'",
                because="an asynchronous copy is complete only after its work-item has waited "
                "for it",
                hint=f"add_dependency(kernel, 'id:{name}', 'id:{min(waits)}')"
                if waits
                else f"async_copy(kernel, '{copy.id}') adds a wait",
            )


def _check_items(
    kernel: PreparedKernel, copy: InstructionBase, wait: InstructionBase, array: str
) -> None:
    conflicts = Conflicts(kernel)
    for one in conflicts.accesses.get(str(copy.id), ()):
        for other in conflicts.accesses.get(str(wait.id), ()):
            if {one.array, other.array} != {array} or not (one.is_write and other.is_write):
                continue
            found = conflicts.between(one, other, (), None)
            if found is not None:
                raise ScheduleError(
                    f"'{wait.id}' waits for copies that '{copy.id}' makes in other work-items",
                    kernel=kernel.name,
                    where=f"instruction '{wait}'",
                    because=f"a work-item waits for its own copies only: {found.point}",
                    hint="tag and split the loops that copy before async_copy",
                )
