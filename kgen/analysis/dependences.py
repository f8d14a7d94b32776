"""Pairs of accesses to the same element, and the order of their instances."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.footprints import split_constant
from kgen.analysis.instances import Instances, relate
from kgen.analysis.points import example
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.atomicity import AtomicInit
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import TemporaryVariable
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set
from kgen.ir.sets.names import Side
from kgen.ir.tags import ConcurrentTag

__all__ = [
    "ViolatedDependence",
    "by_priority",
    "conflict",
    "describe_violation",
    "in_lexicographic_order",
    "is_renewed",
    "is_update",
    "loops_with_order",
    "share_iterations",
    "shared_loops",
    "writes_what_is_read",
]


@dataclass(frozen=True)
class ViolatedDependence:
    """Two accesses to one element that would be reordered; with a point, if that is certain.

    It is not needed if the kernel, as it is, reads or writes an undefined value there first.
    """

    first: Access
    then: Access
    point: str
    is_certain: bool
    is_needed: bool = True


def conflict(kernel: LoopKernel, first: Access, then: Access) -> bool:
    """Tell whether one of two accesses writes, and not both are atomic updates, which commute."""
    is_written = first.is_write or then.is_write
    return is_written and not (is_update(kernel, first) and is_update(kernel, then))


def is_update(kernel: LoopKernel, access: Access) -> bool:
    """Tell whether an access is part of an atomic update."""
    return any(
        kind.var_name == access.array and not isinstance(kind, AtomicInit)
        for kind in getattr(kernel.id_to_insn[access.insn_id], "atomicity", ())
    )


def shared_loops(kernel: LoopKernel, first: Access, then: Access) -> tuple[str, ...]:
    """Return the loops around both instructions, except reduction loops."""
    of = kernel.id_to_insn
    shared = of[first.insn_id].within_inames & of[then.insn_id].within_inames
    return kernel.in_order(shared)


def loops_with_order(kernel: LoopKernel, loops: Sequence[str]) -> list[str]:
    """Return the loops whose iterations are ordered: those that are not parallel."""
    return [name for name in loops if not kernel.has_tag(name, ConcurrentTag)]


def by_priority(kernel: LoopKernel, loops: Sequence[str]) -> list[str]:
    """Return loops from the outside in: by their priorities, or else in the given order."""
    rest = list(loops)
    chains = [[n for n in chain if n in rest] for chain in kernel.loop_priority]
    result: list[str] = []
    while rest:
        name = next((n for n in rest if not any(n in chain[1:] for chain in chains)), rest[0])
        rest.remove(name)
        chains = [[n for n in chain if n != name] for chain in chains]
        result.append(name)
    return result


def in_lexicographic_order(
    pairs: Set, order: Sequence[str], less: Side = Side.FIRST, more: Side = Side.SECOND
) -> Iterator[Set]:
    """Yield the pairs whose side *less* comes first, by the loop that decides it."""
    for name in order:
        yield relate(pairs, name + less, name + more, "lt_set")
        pairs = relate(pairs, name + less, name + more, "eq_set")


def describe_violation(kernel: LoopKernel, pair: Set, first: Access, then: Access) -> str:
    """Describe the reordered instances, the *first* with suffix ``.a``, the other with ``.b``."""
    point = example(pair)
    sizes = [f"{name} = {point[name]}" for name in sorted(kernel.all_params() & set(point))]
    sides = [f"for {', '.join(sizes)}: " if sizes else ""]
    for access, suffix in ((first, Side.FIRST), (then, Side.SECOND)):
        verb = "writes" if access.is_write else "reads"
        at = [f"{n} = {point[n + suffix]}" for n in access.place.inames if n + suffix in point]
        where = f" at {', '.join(at)}" if at else ""
        sides.append(f"'{access.insn_id}' {verb} '{access}'{where}")
    return f"{sides[0]}{sides[1]}; {sides[2]}, which came later, would come first"


def share_iterations(iname: str, first: Access, second: Access) -> bool:
    """Tell whether two accesses can overlap only in the same iteration of a loop.

    This is so if both have the same subscript, which consists of the loop variable and a constant.
    """
    if first.index is None or second.index is None:
        return False
    return any(
        one == other and split_constant(one)[0] == p.Variable(iname)
        for one, other in zip(first.index, second.index, strict=True)
    )


def writes_what_is_read(kernel: LoopKernel, insn: InstructionBase, read: Access) -> bool:
    """Tell whether *insn* writes all elements read, in the same iteration of the loops around both.

    ::

        t[k] = a[i, k]   {id=w}
        o[i] = sum(k, t[k])      in each iteration of i, w writes all that the sum reads
    """
    around = kernel.id_to_insn[read.insn_id].within_inames
    is_same = any(
        assignee_name(lhs) == read.array and index_of(lhs) == read.index for lhs in insn.assignees
    )
    if is_same and not insn.predicates and insn.within_inames <= around:
        return True
    shared = kernel.in_order(insn.within_inames & around)
    instances = Instances(kernel, has_axes=False)
    needed, _ = instances.touched(read, shared)
    for write in collect_accesses(kernel, [insn]):
        if write.is_write and write.array == read.array:
            written, is_exact = instances.touched(write, shared)
            if is_exact and needed.is_subset(written):
                return True
    return False


def is_renewed(
    kernel: LoopKernel,
    name: str,
    accesses: Sequence[Access],
    insns: Collection[str],
    loops: Collection[str],
) -> bool:
    """Tell whether each iteration reads only the values of a temporary that it wrote itself.

    The *loops* are around *insns*, with these *accesses* to the temporary.
    """
    if not isinstance(kernel.array_vars[name], TemporaryVariable):
        return False
    if not set(insns).issuperset(kernel.readers.get(name, ())):
        return False
    return all(_reads_own(kernel, read, loops) for read in accesses if not read.is_write)


def _reads_own(kernel: LoopKernel, read: Access, loops: Collection[str]) -> bool:
    """Tell whether the element read was written before by the same iteration."""
    of = kernel.id_to_insn
    return any(
        of[name].within_inames.issuperset(loops) and writes_what_is_read(kernel, of[name], read)
        for name in ancestors(kernel, of[read.insn_id])
    )
