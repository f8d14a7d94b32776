"""Reaching definitions: whether the value read is the one that a given instruction assigned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgen.analysis.access import Access
from kgen.analysis.dependences import (
    by_priority,
    in_lexicographic_order,
    loops_with_order,
    shared_loops,
)
from kgen.analysis.instances import Instances, in_same_iteration, relate
from kgen.analysis.points import example
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.dims import Set, project_out_params
from kgen.ir.sets.names import Side
from kgen.ir.types import AddressSpace

__all__ = ["describe_other_value"]


def describe_other_value(
    kernel: LoopKernel, writer: Assignment, reader: InstructionBase, accesses: Sequence[Access]
) -> str | None:
    """Describe where *reader* may read another value than the one that *writer* assigned.

    *writer* is the last one before *reader* in an iteration of the loops around both, and its
    subscripts are distinct loop variables. The value meant is that of the instance in the same
    iteration of these loops, but for those in the subscripts: they have the values that the
    reader's subscripts have. *None* means that all reads are of that value.

    :arg accesses: all accesses to the array
    """
    writes = [access for access in accesses if access.is_write]
    write = next(access for access in writes if access.insn_id == writer.id)
    before = ancestors(kernel, reader)
    for read in accesses:
        if read.is_write or read.insn_id != reader.id:
            continue
        is_same = read.index == write.index and writer.within_inames.issubset(read.place.inames)
        if is_same and writer.id in before:
            continue
        found = _Reaching(kernel, writer.expression, write, read).find(writes)
        if found is not None:
            return found
    return None


class _Reaching:
    """A read, and the write of the same element that it is taken to follow."""

    def __init__(self, kernel: LoopKernel, value: Expr, write: Access, read: Access) -> None:
        self.kernel, self.value = kernel, value
        self.instances = Instances(kernel, has_axes=False)
        self.write, self.read = write, read
        #: the loops around both, and those of them in which both are in the same iteration
        self.around = shared_loops(kernel, write, read)
        self.same = set(self.around).difference(variable_names(*(write.index or ())))

    def find(self, writes: Sequence[Access]) -> str | None:
        """Describe the first point at which the value read is not that of the write.

        An element of a temporary that only one instruction writes, with one value, has no other.
        """
        variable = self.kernel.array_vars[self.write.array]
        is_only = len(writes) == 1 and isinstance(variable, TemporaryVariable)
        if is_only and not self._varies():
            return None
        pairs = self._pairs()
        for pair in self._before(pairs, self.read, self.write, Side.FIRST, Side.SECOND):
            if not pair.is_empty():
                return f"for {self._point(pair)}, '{self.read}' is read before it is written"
        missing = None if is_only else self._unwritten(pairs)
        return missing or next(filter(None, map(self._between, writes)), None)

    def _varies(self) -> bool:
        """Tell whether the value of an element may differ between iterations of *same*."""
        value = mentions_of(self.value, rules=self.kernel.substitutions).variables.keys()
        return not value.isdisjoint(self.same) or not value.isdisjoint(self.kernel.writers)

    def _pairs(self) -> Set:
        """Return the reads, side *FIRST*, with the writes meant, side *SECOND*."""
        loops = self.read.place.inames
        pairs, _ = self.instances.meeting(self.read, self.write, loops, self.around)
        return in_same_iteration(pairs, self.same)

    def _unwritten(self, pairs: Set) -> str | None:
        """Describe a read of an element that the write does not provably reach."""
        reads, _ = self.instances.touched(self.read, self.read.place.inames, Side.FIRST)
        _, is_exact = self.instances.touched(self.write, self.around, Side.SECOND)
        rest = reads.subtract(project_out_params(pairs, [Side.SECOND.of(n) for n in self.around]))
        if rest.is_empty() and is_exact:
            return None
        at = "" if rest.is_empty() else f"for {self._point(rest)}, "
        return f"{at}'{self.read}' may be an element that '{self.write.insn_id}' does not write"

    def _between(self, other: Access) -> str | None:
        """Describe a read between which and its write *other* may write the same element."""
        kernel, write, read = self.kernel, self.write, self.read
        around = shared_loops(kernel, other, write)
        if other.insn_id == write.insn_id:  # in loops of its own, it assigns the same value again
            around = self.around
        of_write = tuple(dict.fromkeys((*self.around, *around)))
        of_read = shared_loops(kernel, other, read)
        also, _ = self.instances.touched(write, of_write, Side.SECOND)
        others, _ = self.instances.touched(
            other, tuple(dict.fromkeys((*around, *of_read))), Side.BETWEEN
        )
        three = self._pairs().intersect(also).intersect(others)
        if kernel.array_vars[write.array].address_space == AddressSpace.PRIVATE:
            for name in set(of_read).difference(loops_with_order(kernel, of_read)):
                three = relate(three, Side.FIRST.of(name), Side.BETWEEN.of(name), "eq_set")
        for after in self._before(three, write, other, Side.SECOND, Side.BETWEEN):
            for between in self._before(after, other, read, Side.BETWEEN, Side.FIRST):
                if not between.is_empty():
                    return (
                        f"for {self._point(between)}, '{other.insn_id}' writes '{other}' between "
                        f"'{write.insn_id}' and '{read.insn_id}'"
                    )
        return None

    def _before(
        self, among: Set, first: Access, then: Access, less: Side, more: Side
    ) -> Iterator[Set]:
        """Yield the part of *among* in which *first* may run before *then*."""
        order = self._ordered(first, then)
        if first.insn_id == then.insn_id == self.write.insn_id:
            order = self._ordered(self.write, self.read)
        yield from in_lexicographic_order(among, order, less, more)
        of = self.kernel.id_to_insn
        is_after = then.insn_id in ancestors(self.kernel, of[first.insn_id])
        if first.insn_id != then.insn_id and not is_after:
            for name in order:
                among = relate(among, less.of(name), more.of(name), "eq_set")
            yield among

    def _ordered(self, one: Access, other: Access) -> list[str]:
        kernel = self.kernel
        return by_priority(kernel, loops_with_order(kernel, shared_loops(kernel, one, other)))

    def _point(self, found: Set) -> str:
        values = example(found)
        names = [*self.kernel.all_params(), *(Side.FIRST.of(n) for n in self.read.place.inames)]
        shown = [(n.removesuffix(Side.FIRST), values[n]) for n in sorted(names) if n in values]
        return ", ".join(f"{name} = {value}" for name, value in shown) or "all sizes"
