"""The order of the pieces of an index set: dependences between pieces."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.dependences import (
    ViolatedDependence,
    conflict,
    describe_violation,
    in_lexicographic_order,
    loops_with_order,
    share_iterations,
    shared_loops,
)
from kgen.analysis.instances import Instances, in_same_iteration
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.instruction import CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, has_param, involved_params, rename_param
from kgen.ir.sets.names import PAIR

__all__ = ["PieceDependence", "PieceOrder"]


@dataclass(frozen=True)
class PieceDependence:
    """An instruction of one piece, by number, that an instruction of another piece depends on."""

    first: tuple[str, int]
    then: tuple[str, int]
    found: ViolatedDependence


class PieceOrder:
    """Dependences between the pieces of an index set, each with its own loops.

    *chosen* instructions are in the loops *names*, over which the *pieces* are disjoint named
    sets. The loops are in *order*, outermost first; those that are *shared* enclose all pieces.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        chosen: Sequence[InstructionBase],
        names: Sequence[str],
        order: Sequence[str],
        shared: Collection[str],
        pieces: Sequence[Set],
    ) -> None:
        self.kernel = kernel
        self.chosen = chosen
        self.deciding = {*names, *(n for x in pieces for n in involved_params(x) if n in order)}
        self.shared = [name for name in loops_with_order(kernel, order) if name in shared]
        self.inner = [name for name in loops_with_order(kernel, order) if name not in shared]
        self.sides = [[_on_side(piece, order, suffix) for piece in pieces] for suffix in PAIR]
        self.instances = Instances(kernel, has_axes=False)
        self.accesses = collect_accesses(kernel, chosen)

    def renewed(self) -> frozenset[str]:
        """Return the temporaries of which each iteration reads only the values that it wrote.

        No other instruction and no C code uses them, so each piece can have its own.
        """
        kernel = self.kernel
        inside = {str(insn.id) for insn in self.chosen}
        in_code = {
            name
            for insn in self.chosen
            if isinstance(insn, CInstruction)
            for name in insn.dependency_names()
        }
        return frozenset(
            name
            for name, temporary in kernel.temporary_variables.items()
            if name in kernel.writers
            and name not in in_code
            and temporary.base_storage is None
            and inside.issuperset((*kernel.writers[name], *kernel.readers.get(name, ())))
            and all(self._reads_own(x) for x in self.accesses if x.array == name and not x.is_write)
        )

    def _reads_own(self, read: Access) -> bool:
        """Tell whether an instruction before *read*, in its iteration, writes what it reads."""
        before = ancestors(self.kernel, self.kernel.id_to_insn[read.insn_id])
        return any(
            self._covers(write, read)
            for write in self.accesses
            if write.is_write and write.array == read.array and write.insn_id in before
        )

    def _covers(self, write: Access, read: Access) -> bool:
        loops = shared_loops(self.kernel, write, read)
        written, is_exact = self.instances.touched(write, loops)
        needed, _ = self.instances.touched(read, loops)
        return is_exact and read.index is not None and bool(needed.is_subset(written))

    def find(self, own: Collection[str]) -> Iterator[PieceDependence]:
        """Yield the dependences between pieces, each of which has its *own* temporaries."""
        written = {x.array for x in self.accesses if x.is_write}.difference(own)
        by_array: dict[str, list[Access]] = {}
        for access in dict.fromkeys(self.accesses):
            if access.array in written:
                by_array.setdefault(access.array, []).append(access)
        for accesses in by_array.values():
            for first in accesses:
                for then in accesses:
                    if conflict(self.kernel, first, then):
                        yield from self._between(first, then)

    def _between(self, first: Access, then: Access) -> Iterator[PieceDependence]:
        loops = shared_loops(self.kernel, first, then)
        if all(share_iterations(name, first, then) for name in self.deciding):
            return
        both, is_exact = self.instances.meeting(first, then, loops)
        both = in_same_iteration(both, (name for name in self.shared if name in loops))
        if both.is_empty():
            return
        for earlier in self._earlier(both, first, then, loops):
            for p, here in enumerate(self.sides[0]):
                begun = earlier.intersect(here)
                if begun.is_empty():
                    continue
                for q, there in enumerate(self.sides[1]):
                    pairs = begun.intersect(there) if p != q else None
                    if pairs is not None and not pairs.is_empty():
                        point = describe_violation(self.kernel, pairs, first, then)
                        found = ViolatedDependence(first, then, point, is_exact)
                        yield PieceDependence((first.insn_id, p), (then.insn_id, q), found)

    def _earlier(
        self, both: Set, first: Access, then: Access, loops: Sequence[str]
    ) -> Iterator[Set]:
        """Yield the pairs of which *first* precedes *then*, by a loop or by a dependency."""
        order = [name for name in self.inner if name in loops]
        yield from (pairs for pairs in in_lexicographic_order(both, order) if not pairs.is_empty())
        if first.insn_id in ancestors(self.kernel, self.kernel.id_to_insn[then.insn_id]):
            both = in_same_iteration(both, order)
            if not both.is_empty():
                yield both


def _on_side(piece: Set, loops: Sequence[str], suffix: str) -> Set:
    for name in loops:
        if has_param(piece, name):
            piece = rename_param(piece, name, name + suffix)
    return piece
