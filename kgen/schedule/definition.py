"""Checks that each value is written before it is read."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.analysis.access import Access, collect_accesses_to
from kgen.analysis.loop_bounds import reads_in_bounds
from kgen.errors import KgenWarning, MissingDefinitionError, is_silenced, warn
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import variable_names
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import ConcurrentTag, LocalInameTagBase
from kgen.ir.types import AddressSpace
from kgen.schedule.tree import Schedule
from kgen.schedule.undefined import Undefined, find_undefined

__all__ = ["check_reads_defined", "undefined_error", "unproved_reads"]


def check_reads_defined(
    kernel: PreparedKernel, schedule: Schedule, *, has_axes: bool = True
) -> frozenset[tuple[str, str]]:
    """Reject a read of an element that no write can have reached before.

    This is checked for temporaries, and for arguments with ``is_input=False``; the latter only
    cause a warning, because calls may still pass them.

    Also reject a read of a value that another work-item has overwritten in its own copy.
    Return the instructions and temporaries for which this is not proved, or does not matter; reads
    in loop bounds are excluded, because the check of the code covers them.

    The first iteration of a loop counts: ``t = t + a[i]`` reads ``t`` before any write. Conditions
    and subscripts that depend on data are assumed to be right, except for elements that
    only other work-items own. Tables are defined, and so are copies that are never
    read; a kernel may be valid for some sizes only, such as multiples of its tiles. For elements
    around written ones, which are never written, there is a warning: a halo whose values do
    not matter. ``read_undefined(t)`` in ``silenced_warnings`` silences it, and asserts that
    other reads of ``t`` are defined.

    Raises :class:`MissingDefinitionError` with an iteration.
    """
    every = tuple(find_undefined(kernel, schedule, has_axes=has_axes))
    for found in every:
        if found.point is None or not found.always:
            continue
        silencer = f"read_undefined({found.read.array})"
        is_certain = found.read.array in kernel.temporary_variables and (
            found.elsewhere or found.read.array not in kernel.writers
        )
        if is_certain and not is_silenced(silencer, kernel.silenced_warnings):
            raise undefined_error(kernel, found)
        text = str(undefined_error(kernel, found))
        warn(text, KgenWarning, silencer=silencer, silenced=kernel.silenced_warnings)
    return unproved_reads(kernel, every)


def unproved_reads(
    kernel: PreparedKernel, every: Iterable[Undefined]
) -> frozenset[tuple[str, str]]:
    """Return the instructions and temporaries of *every* read, except those in loop bounds."""
    in_bounds = frozenset(reads_in_bounds(kernel))
    reads = (found.read for found in every)
    return frozenset((read.insn_id, read.array) for read in reads if read not in in_bounds)


def undefined_error(kernel: PreparedKernel, found: Undefined) -> MissingDefinitionError:
    """Return the error for a read of an element that is never written before."""
    name = found.read.array
    element = f"{name}[{', '.join(map(str, found.element))}]" if found.element else f"'{name}'"
    because, hint = _reason(kernel, found, element)
    temporary = kernel.temporary_variables.get(name)
    if temporary is not None and temporary.base_storage is not None and found.stale is None:
        because += f"; what others store in '{temporary.base_storage}' is not its value"
    what = "another work-item wrote it last" if found.stale else "nothing can have written it"
    return MissingDefinitionError(
        f"'{found.read}' is read where {what}",
        kernel=kernel.name,
        where=f"instruction '{kernel.id_to_insn[found.read.insn_id]}'",
        point=", ".join(filter(None, (found.point, f"reads {element}"))),
        because=because,
        hint=hint,
    )


def _reason(kernel: PreparedKernel, found: Undefined, element: str) -> tuple[str, str]:
    """Return why an element has no value, and how it gets one."""
    name = found.read.array
    writers = kernel.writers.get(name, ())
    own = f"each work-item has its own '{name}'"
    shared = f"let them share it: set_temporary_address_space(kernel, '{name}', 'local')"
    if found.stale is not None:
        elsewhere = f"'{found.stale}' writes {element} in that of another one"
        return f"{own}: {elsewhere}, and here it keeps an earlier value", shared
    if writers and not found.elsewhere:
        because = f"its writers ({', '.join(writers[:4])}) do not write that element"
        return because, f"let '{writers[0]}' write all elements that are read, or read fewer"
    if found.foreign:
        return f"{own}, and another one writes {element}", shared
    if not writers:
        because = f"no instruction writes '{name}'"
        return because, f"write '{name}' before, make it an argument, or give it an initializer"
    if _is_distributed(kernel, found.read):
        return f"{own}, of which it writes other elements", shared
    because = f"its writers ({', '.join(writers[:4])}) run later, or write other elements"
    return because, _later_hint(kernel, found.read.insn_id, writers[0], element)


def _is_distributed(kernel: PreparedKernel, read: Access) -> bool:
    """Tell whether work-items write different elements of a private array before it is read."""
    variable = kernel.temporary_variables.get(read.array)
    if variable is None or variable.address_space != AddressSpace.PRIVATE:
        return False
    earlier = ancestors(kernel, kernel.id_to_insn[read.insn_id])
    accesses = collect_accesses_to(kernel, read.array)
    writes = [access for access in accesses if access.is_write and access.insn_id in earlier]
    loops = variable_names(*(index for write in writes for index in write.index or ()))
    return any(kernel.has_tag(loop, LocalInameTagBase) for loop in loops)


def _later_hint(kernel: PreparedKernel, reader: str, writer: str, element: str) -> str:
    """Return how *reader* can come after *writer*: by a dependency, or by separate loops."""
    insn = kernel.id_to_insn[reader]
    shared = insn.within_inames & kernel.id_to_insn[writer].within_inames
    loops = ", ".join(sorted(n for n in shared if not kernel.has_tag(n, ConcurrentTag)))
    if writer in insn.depends_on and loops:
        return (
            f"let all of '{writer}' run before '{reader}', in a loop of its own: "
            f"duplicate_inames(kernel, '{loops}', within='id:{reader}')"
        )
    return (
        f"write {element} before '{reader}', or let it depend on the instruction that does: "
        f"add_dependency(kernel, 'id:{reader}', 'id:{writer}')"
    )
