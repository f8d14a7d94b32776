"""Legality of loop distribution: whether dependences are preserved."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.dependences import (
    ViolatedDependence,
    by_priority,
    conflict,
    describe_violation,
    in_lexicographic_order,
    loops_with_order,
    share_iterations,
    shared_loops,
    writes_what_is_read,
)
from kgen.analysis.instances import Instances, element_name, in_same_iteration
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import ArrayArg, TemporaryVariable
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, project_out_params
from kgen.ir.sets.names import Side

__all__ = ["find_violated_by_distribution"]


def find_violated_by_distribution(
    kernel: LoopKernel, loops: Collection[str], chosen: Collection[str]
) -> Iterator[ViolatedDependence]:
    """Give accesses that change places when *chosen* instructions get other *loops*.

    All iterations of those then come before, or after, all iterations of the loops that are left::

        for i                      for i_0
          t = a[i]     {id=w}        t = a[i_0]
          b[i] = 2*t   {dep=w}  =>   end i_0
        end i                      for i
                                     b[i] = 2*t
    """
    return _Distribution(kernel, loops, chosen).find()


class _Distribution:
    def __init__(self, kernel: LoopKernel, loops: Collection[str], chosen: Collection[str]) -> None:
        self.kernel = kernel
        self.chosen = chosen
        self.loops = frozenset(loops_with_order(kernel, tuple(loops)))
        self.inside = [i for i in kernel.instructions if not i.within_inames.isdisjoint(self.loops)]
        self.ids = frozenset(str(insn.id) for insn in self.inside)
        self.instances = Instances(kernel, has_axes=False)

    def find(self) -> Iterator[ViolatedDependence]:
        for first, then in self._pairs():
            for pair, is_exact in self._turned_around(first, then):
                point = describe_violation(self.kernel, pair, first, then)
                needed = not self._begins_undefined(pair, first)
                yield ViolatedDependence(first, then, point, is_exact, needed)

    def _pairs(self) -> Iterator[tuple[Access, Access]]:
        """Give accesses to one array, of a chosen instruction and of another, in both orders."""
        for name, sides in self._shared_arrays().items():
            if not (sides[True] and sides[False]) or self._is_renewed(name):
                continue
            for mine in dict.fromkeys(sides[True]):
                for other in dict.fromkeys(sides[False]):
                    if conflict(self.kernel, mine, other):
                        yield mine, other
                        yield other, mine

    def _shared_arrays(self) -> Mapping[str, Mapping[bool, list[Access]]]:
        """Return accesses to what the instructions write, by array and by whether chosen."""
        written = {name for insn in self.inside for name in insn.assignee_var_names()}
        found: dict[str, dict[bool, list[Access]]] = {}
        for access in collect_accesses(self.kernel, self.inside) if written else ():
            if access.array in written:
                sides = found.setdefault(access.array, {True: [], False: []})
                sides[access.insn_id in self.chosen].append(access)
        return found

    def _turned_around(self, first: Access, then: Access) -> Iterator[tuple[Set, bool]]:
        """Yield the instances of *first* that preceded *then* and will follow it."""
        loops = shared_loops(self.kernel, first, then)
        gone = self.loops.intersection(loops)
        if not gone or all(share_iterations(name, first, then) for name in gone):
            return
        of = self.kernel.id_to_insn
        both, is_exact = self.instances.meeting(first, then, loops)
        if both.is_empty():
            return
        order = by_priority(self.kernel, loops_with_order(self.kernel, loops))
        kept = [name for name in order if name not in gone]
        for earlier in in_lexicographic_order(both, order):
            if earlier.is_empty():
                continue
            rest = in_same_iteration(earlier, kept)
            is_after = then.insn_id in ancestors(self.kernel, of[first.insn_id])
            turned = [
                *in_lexicographic_order(earlier, kept, Side.SECOND, Side.FIRST),
                *[rest] * is_after,
            ]
            yield from ((pair, is_exact) for pair in turned if not pair.is_empty())

    # -- values that nothing has written -----------------------------------------------------

    def _begins_undefined(self, pair: Set, first: Access) -> bool:
        """Tell whether the first accesses in *pair* read an undefined value, or write from one."""
        reads = [first]
        if first.is_write:
            own = collect_accesses(self.kernel, [self.kernel.id_to_insn[first.insn_id]])
            reads = [access for access in own if not access.is_write]
        return any(self._is_undefined(pair, read) for read in reads)

    def _is_undefined(self, pair: Set, read: Access) -> bool:
        """Tell whether nothing can have written what the first instances in *pair* read."""
        if not _begins_empty(self.kernel.array_vars[read.array]):
            return False
        writers = [self.kernel.id_to_insn[name] for name in self.kernel.writers.get(read.array, ())]
        writes = [
            access
            for access in collect_accesses(self.kernel, writers)
            if access.is_write and access.array == read.array
        ]
        return not any(self._may_precede(pair, write, read) for write in writes)

    def _may_precede(self, pair: Set, write: Access, read: Access) -> bool:
        """Tell whether an instance of *write* may set what a first instance in *pair* reads."""
        loops = shared_loops(self.kernel, read, write)
        both, _ = self.instances.meeting(read, write, loops)
        ordered = loops_with_order(self.kernel, loops)
        order = by_priority(self.kernel, ordered)
        earlier = list(in_lexicographic_order(both, order, Side.SECOND, Side.FIRST))
        reader = self.kernel.id_to_insn[read.insn_id]
        writer = self.kernel.id_to_insn[write.insn_id]
        if writer is not reader and read.insn_id not in ancestors(self.kernel, writer):
            earlier.append(in_same_iteration(both, ordered))
        gone = [Side.SECOND.of(name) for name in loops]
        elements = [element_name(axis) for axis in range(len(read.index or ()))]
        here = project_out_params(pair, elements)
        return any(
            not project_out_params(found, [*gone, *elements]).intersect(here).is_empty()
            for found in earlier
        )

    # -- values of one iteration ------------------------------------------------------------

    def _is_renewed(self, name: str) -> bool:
        """Tell whether all that reads a temporary reads what its own iteration has written.

        That has to be in the same loops afterwards.
        """
        if not isinstance(self.kernel.array_vars[name], TemporaryVariable):
            return False
        if not self.ids.issuperset(self.kernel.readers.get(name, ())):
            return False
        reads = (x for x in collect_accesses(self.kernel, self.inside) if x.array == name)
        return all(self._reads_own(read) for read in reads if not read.is_write)

    def _reads_own(self, read: Access) -> bool:
        """Tell whether the last writers before a read stay in its loops, and write all of it."""
        reader = self.kernel.id_to_insn[read.insn_id]
        before = ancestors(self.kernel, reader)
        writers = [
            insn
            for insn in map(self.kernel.id_to_insn.__getitem__, self.kernel.writers[read.array])
            if insn.id in before
        ]
        covering = [insn for insn in writers if self._covers(insn, read)]
        hidden = {name for insn in covering for name in ancestors(self.kernel, insn)}
        last = [insn for insn in writers if insn.id not in hidden]
        side = read.insn_id in self.chosen
        return bool(covering) and all((insn.id in self.chosen) == side for insn in last)

    def _covers(self, insn: InstructionBase, read: Access) -> bool:
        """Tell whether *insn*, without a condition, writes what is read, where it is read."""
        around = self.kernel.id_to_insn[read.insn_id].within_inames
        in_loops = insn.within_inames >= around & self.loops
        return in_loops and writes_what_is_read(self.kernel, insn, read)


def _begins_empty(array: ArrayArg | TemporaryVariable) -> bool:
    """Tell whether nothing is in an array when the kernel begins."""
    if isinstance(array, TemporaryVariable):
        return array.initializer is None and array.base_storage is None
    return array.is_input is False
