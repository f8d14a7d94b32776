"""Checks that each value is written before it is read."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.analysis.loop_bounds import reads_in_bounds
from kgen.errors import KgenWarning, MissingDefinitionError, is_silenced, warn
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import ConcurrentTag
from kgen.schedule.tree import Schedule
from kgen.schedule.undefined import Undefined, find_undefined

__all__ = ["check_reads_defined", "undefined_error", "unproved_reads"]


def check_reads_defined(
    kernel: PreparedKernel, schedule: Schedule, *, has_axes: bool = True
) -> frozenset[tuple[str, str]]:
    """Reject a read of an element that no write can have reached before.

    That is asked of temporaries, and of arguments with ``is_input=False``, for which there is a
    warning: calls may pass them all the same.

    Reject one, too, of a value that another work-item has overwritten in a copy of its own.
    Return the instructions and temporaries for which that is not proved; nobody vouches for
    reads in bounds of loops, which are left to the check of the code.

    The first iteration of a loop counts: ``t = t + a[i]`` reads ``t`` before any write. What
    a condition or a subscript on data decides is taken to be right, but for reads of elements that
    only other work-items ever have; tables are defined, so is what is copied to where nothing
    reads it, and a kernel may be for some sizes only, such as multiples of its tiles. Elements
    around those that are written, which nothing ever writes, are warned of: a halo whose values do
    not matter. ``read_undefined(t)`` in ``silenced_warnings`` says so, and takes the user's word
    for other reads of ``t``.

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
    """Return the instructions and temporaries of *every* read, but for those in bounds of loops."""
    in_bounds = frozenset(reads_in_bounds(kernel))
    reads = (found.read for found in every)
    return frozenset((read.insn_id, read.array) for read in reads if read not in in_bounds)


def undefined_error(kernel: PreparedKernel, found: Undefined) -> MissingDefinitionError:
    """Return the error for a read of what nothing wrote."""
    name = found.read.array
    writers = kernel.writers.get(name, ())
    element = f"{name}[{', '.join(map(str, found.element))}]" if found.element else f"'{name}'"
    if found.stale is not None:
        because = (
            f"each work-item has a '{name}' of its own: in that of another one, '{found.stale}' "
            f"writes {element}, and here it keeps an earlier value"
        )
        hint = f"let them share it: set_temporary_address_space(kernel, '{name}', 'local')"
    elif writers and not found.elsewhere:
        because = f"what writes '{name}' ({', '.join(writers[:4])}) leaves that element out"
        hint = f"let '{writers[0]}' write all that is read, or read less"
    elif found.foreign:
        because = f"each work-item has a '{name}' of its own, and another one writes {element}"
        hint = f"let them share it: set_temporary_address_space(kernel, '{name}', 'local')"
    elif writers:
        because = f"what writes '{name}' ({', '.join(writers[:4])}) does so later, or elsewhere"
        hint = _later_hint(kernel, found.read.insn_id, writers[0], element)
    else:
        because = f"no instruction writes '{name}'"
        hint = f"write '{name}' before, make it an argument, or give it an initializer"
    what = "another work-item wrote it last" if found.stale else "nothing can have written it"
    return MissingDefinitionError(
        f"'{found.read}' is read where {what}",
        kernel=kernel.name,
        where=f"instruction '{kernel.id_to_insn[found.read.insn_id]}'",
        point=", ".join(filter(None, (found.point, f"reads {element}"))),
        because=because,
        hint=hint,
    )


def _later_hint(kernel: PreparedKernel, reader: str, writer: str, element: str) -> str:
    """Say how *reader* can come after *writer*: by a dependency, or by loops of its own."""
    insn = kernel.id_to_insn[reader]
    shared = insn.within_inames & kernel.id_to_insn[writer].within_inames
    loops = ", ".join(sorted(n for n in shared if not kernel.has_tag(n, ConcurrentTag)))
    if writer in insn.depends_on and loops:
        return (
            f"let all of '{writer}' run before '{reader}', in a loop of its own: "
            f"duplicate_inames(kernel, '{loops}', within='id:{reader}')"
        )
    return (
        f"write {element} before '{reader}', or let it depend on what does: "
        f"add_dependency(kernel, 'id:{reader}', 'id:{writer}')"
    )
