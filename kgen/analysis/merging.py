"""Merging loops: no iteration may need a later iteration of the loop that ran before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.dependences import describe_violation
from kgen.analysis.instances import Instances, in_same_iteration, relate
from kgen.errors import TransformError
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import substitute, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set
from kgen.ir.sets.names import Side
from kgen.ir.tags import ConcurrentTag
from kgen.ir.types import auto
from kgen.ir.updates import update_of

__all__ = ["check_order_kept", "meeting_backward"]

#: Ids of instructions that ran before others, these, and the loops of each that become one.
Order = tuple[Collection[str], Collection[str], Sequence[tuple[str, str]]]


def meeting_backward(
    instances: Instances,
    first: Access,
    then: Access,
    merged: Sequence[tuple[str, str]],
    shared: Collection[str],
) -> tuple[Set, bool]:
    """Return where *then* meets *first* in an iteration that comes after it, once loops are one.

    :arg merged: pairs of a loop of *first* and one of *then*; with several, an iteration is
        later if it is in one of them, and earlier in none, so that it is in any order of these
    :arg shared: the loops around both, in the same iteration of which they are
    """
    around = tuple(sorted(shared))
    ones, others = (tuple(pair[side] for pair in merged) for side in (0, 1))
    both, is_exact = instances.meeting(first, then, (*ones, *around), (*others, *around))
    same = both = in_same_iteration(both, around)
    for one, other in merged:
        both = relate(both, Side.SECOND.of(other), Side.FIRST.of(one), "le_set")
        same = relate(same, Side.SECOND.of(other), Side.FIRST.of(one), "eq_set")
    return both.subtract(same), is_exact


def check_order_kept(
    kernel: LoopKernel, orders: Sequence[Order], *, is_meant: bool = False
) -> None:
    """Reject merged loops in which an iteration may need a later one.

    Parallel loops are exempt: barriers keep the order of their accesses.

    :arg kernel: the kernel in which instructions ran one after the other
    :arg is_meant: users have named the loops to merge: if it depends on data whether an iteration
        needs a later one, there is a warning
    """
    instances = Instances(kernel, has_axes=False)
    accesses = list(collect_accesses(kernel))
    possible: tuple[str, TransformError] | None = None
    for earlier, later, loops in orders:
        merged = [pair for pair in loops if not any(kernel.has_tag(n, ConcurrentTag) for n in pair)]
        if not merged:
            continue
        for first, then in _conflicts(kernel, accesses, earlier, later):
            of = kernel.id_to_insn
            shared = of[first.insn_id].within_inames & of[then.insn_id].within_inames
            shared = shared.difference(*merged)
            found, is_exact = meeting_backward(instances, first, then, merged, shared)
            if found.is_empty() or (possible is not None and not is_exact):
                continue
            is_certain = is_exact or not is_meant
            error = TransformError(
                f"the loops over {' and '.join(dict.fromkeys(merged[0]))} "
                f"{'cannot be fused:' if is_certain else 'are fused, and'} iterations of "
                f"'{then.insn_id}' {'' if is_exact else 'may '}depend on later iterations of "
                f"'{first.insn_id}'",
                kernel=kernel.name,
                point=describe_violation(kernel, found, first, then),
                hint="keep the loops separate; or, to run their iterations in parallel with "
                "barriers, tag them first",
            )
            if is_certain:
                raise error
            possible = then.array, error
    if possible is not None:
        kernel.warn(str(possible[1]), f"reordered_access({possible[0]})")


def _conflicts(
    kernel: LoopKernel,
    accesses: Sequence[Access],
    earlier: Collection[str],
    later: Collection[str],
) -> Iterator[tuple[Access, Access]]:
    """Yield the pairs of accesses to one array, one of which writes it, unless both add to it."""
    for first in accesses:
        if first.insn_id not in earlier:
            continue
        for then in accesses:
            is_conflict = then.array == first.array and (first.is_write or then.is_write)
            if not is_conflict or then.insn_id not in later:
                continue
            if not (_adds(kernel, first) and _adds(kernel, then)):
                yield first, then


def _adds(kernel: LoopKernel, access: Access) -> bool:
    """Tell whether an access is part of ``x = x + ...``: such sums may be added in any order.

    The old value may be read to a temporary before: ``t = x``, and then ``x = t + ...``.
    """
    insn = _with_read_before(kernel, kernel.id_to_insn[access.insn_id], access.array)
    update = update_of(insn)
    if update is None or update.operation is not p.Sum:
        return False
    only_there = access.array not in variable_names(*update.operands)
    return only_there and access.array in insn.assignee_var_names()


def _with_read_before(kernel: LoopKernel, insn: InstructionBase, array: str) -> InstructionBase:
    """Join ``t = x`` and ``x = t + ...``, of which *insn* is either, to ``x = x + ...``.

    They are joined if nothing else uses ``t``, and nothing writes ``x`` in between.
    """
    for name in {*insn.assignee_var_names(), *insn.read_dependency_names()}:
        writers, readers = kernel.writers.get(name, ()), kernel.readers.get(name, ())
        if name in kernel.temporary_variables and len(writers) == len(readers) == 1:
            reading, adding = (kernel.id_to_insn[ids[0]] for ids in (writers, readers))
            if _is_read_for(kernel, reading, adding, array):
                old = {name: reading.expression}  # type: ignore[attr-defined]
                return adding.with_transformed_expressions(partial(substitute, replacements=old))
    return insn


def _is_read_for(
    kernel: LoopKernel, reading: InstructionBase, adding: InstructionBase, array: str
) -> bool:
    """Tell whether *reading* copies an element of *array* to a scalar for *adding*, unchanged.

    The scalar has the type of the elements: another type may round or truncate them.
    """
    if not isinstance(reading, Assignment) or not isinstance(reading.assignee, p.Variable):
        return False
    alike = reading.within_inames == adding.within_inames
    alike = alike and reading.predicates == adding.predicates
    dtype = kernel.temporary_variables[reading.assignee.name].dtype
    alike = alike and dtype in (None, auto, kernel.get_var_descriptor(array).dtype)
    before = ancestors(kernel, adding)
    others = {*kernel.writers.get(array, ())} - {str(adding.id)}
    return (
        alike
        and str(reading.id) in before
        and reading.expression in adding.assignees
        and all(
            other in ancestors(kernel, reading)
            or adding.id in ancestors(kernel, kernel.id_to_insn[other])
            for other in others
        )
    )
