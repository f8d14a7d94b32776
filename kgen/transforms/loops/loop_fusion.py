"""Loop fusion: finding candidates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pytools import UniqueNameGenerator
from pytools.graph import CycleError, compute_topological_order

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.domains import difference
from kgen.analysis.instances import Instances, relate, relate_sides
from kgen.errors import TransformError, message
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.names import Side
from kgen.ir.tags import ConcurrentTag
from kgen.ir.unit import TranslationUnit
from kgen.transforms.select import require_iname, taken_names

__all__ = ["get_kennedy_unweighted_fusion_candidates"]


@checked
def get_kennedy_unweighted_fusion_candidates(
    kernel: LoopKernel | TranslationUnit,
    candidates: Collection[str],
    *,
    prefix: str = "ifused",
) -> Mapping[str, Collection[str]]:
    """Return loops that can be fused, for :func:`rename_inames_in_batch`.

    Loops are put together greedily, in the order of the program, after Kennedy and McKinley
    (1994): those that have the same values, tags and loops around them, between which nothing
    else has to run, and of which no iteration needs a later one of a loop before it. A loop that
    is no candidate runs as a whole: what waits for a part of it waits for all of it.

    :arg prefix: the new loops are called ``prefix``, ``prefix_0``, ...

    ::

        for i                       for ifused
          b[i] = a[i]         =>      b[ifused] = a[ifused]
        for j                         c[ifused] = b[ifused]
          c[j] = b[j]

    Raises :class:`TransformError` when one of the loops is inside of another.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.loops.rename import rename_inames_in_batch
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<n }", ["b[i] = a[i] {id=b}", "c[j] = b[j] {dep=b}"])
    >>> found = get_kennedy_unweighted_fusion_candidates(knl, ["i", "j"])
    >>> print(found)
    {'ifused': ('i', 'j')}
    >>> print(rename_inames_in_batch(knl, found).default_entrypoint.instructions[1])
    c[ifused] = b[ifused]  {id=insn}
    """
    if isinstance(kernel, TranslationUnit):
        kernel = kernel.default_entrypoint
    loops = [name for name in kernel.iname_order if name in set(candidates)]
    for name in candidates:
        require_iname(kernel, name)
    names = UniqueNameGenerator(set(taken_names(kernel)))
    return {names(prefix): tuple(group) for group in _Candidates(kernel, loops).groups()}


class _Candidates:
    """The loops that may become one, and what is known of the instructions in and around them."""

    def __init__(self, kernel: LoopKernel, loops: list[str]) -> None:
        self.kernel = kernel
        self.loops = frozenset(loops)
        self.instances = Instances(kernel, has_axes=False)
        for insn in kernel.instructions:
            own = sorted(insn.within_inames & self.loops, key=kernel.iname_order.__getitem__)
            if len(own) > 1:
                raise TransformError(
                    message(
                        f"loops '{own[0]}' and '{own[1]}' cannot both be candidates",
                        kernel=kernel.name,
                        because=f"instruction '{insn.id}' is inside of both",
                    )
                )
        self.accesses: dict[str, list[Access]] = {}
        for access in collect_accesses(kernel):
            self.accesses.setdefault(access.insn_id, []).append(access)
        parallel = (name for name in kernel.inames if kernel.has_tag(name, ConcurrentTag))
        self.sequential = frozenset(kernel.inames).difference(parallel) | self.loops

    def groups(self) -> list[list[str]]:
        """Return the loops that can become one, in the order of their first loops."""
        found: list[list[str]] = []
        nests = [(tuple(self.kernel.id_to_insn), frozenset[str]())]
        while nests:
            insns, around = nests.pop(0)
            blocks = self._blocks(insns, around)
            found += _Nest(self, blocks).groups()
            nests += [
                (block.insns, around | block.loops)
                for block in blocks
                if len(block.insns) > 1 and block.candidate is None
            ]
        order = self.kernel.iname_order
        return sorted(found, key=lambda group: order[group[0]])

    def _blocks(self, insns: Sequence[str], around: frozenset[str]) -> tuple[_Block, ...]:
        """Return the outermost loops in a nest, each with all that is in it, and instructions.

        Loops that have an instruction in common are in each other: such a block runs as a whole.
        """
        loops_of = {
            insn: (self.kernel.id_to_insn[insn].within_inames & self.sequential) - around
            for insn in insns
        }
        blocks: dict[str, _Block] = {}
        for part in _connected(loops_of):
            whole = frozenset.intersection(*(loops_of[insn] for insn in part))
            for several in [part] if whole else [[insn] for insn in part]:
                loops = whole or loops_of[several[0]]
                candidate = min(loops & self.loops, default=None)
                name = several[0] if candidate is None else f"for {candidate}"
                before = blocks[name].insns if name in blocks else ()
                blocks[name] = _Block(name, (*before, *several), loops, candidate)
        return tuple(blocks.values())


def _connected(loops_of: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the instructions that have loops in common, or with others in between."""
    place = {insn: number for number, insn in enumerate(loops_of)}
    part_of: dict[str, list[str]] = {}  # per loop
    parts: list[list[str]] = []
    for insn, loops in loops_of.items():
        old = {id(part_of[name]): part_of[name] for name in loops if name in part_of}
        joined = sorted((insn, *chain.from_iterable(old.values())), key=place.__getitem__)
        parts = [*(part for part in parts if id(part) not in old), joined]
        part_of.update((name, joined) for member in joined for name in loops_of[member])
    return sorted(parts, key=lambda part: place[part[0]])


@dataclass(frozen=True)
class _Block:
    """A loop with the ids of all instructions in it, or an instruction that is in none."""

    name: str
    insns: tuple[str, ...]
    loops: frozenset[str]
    candidate: str | None


class _Nest:
    """Blocks that run one after the other inside of the same loops, and which waits for which."""

    def __init__(self, candidates: _Candidates, blocks: Sequence[_Block]) -> None:
        self.kernel = candidates.kernel
        self.instances = candidates.instances
        self.loop_of = {b.name: b.candidate for b in blocks if b.candidate is not None}
        self.members = {block.name: block.insns for block in blocks}
        self.accesses = candidates.accesses
        node_of = {insn: block.name for block in blocks for insn in block.insns}
        self.before: dict[str, dict[str, None]] = {}  # the blocks that each one waits for
        for block in blocks:
            waits: dict[str, None] = {}
            for insn in block.insns:
                for earlier in sorted(self.kernel.id_to_insn[insn].depends_on):
                    if node_of.get(earlier, block.name) != block.name:
                        waits[node_of[earlier]] = None
            self.before[block.name] = waits

    def groups(self) -> list[list[str]]:
        """Return the loops that can become one.

        Groups run in the order of their numbers: what waits for a loop is in its group, if
        the two can be one, or in a later one.
        """
        if not self.loop_of:
            return []
        found: list[list[str]] = []
        lowest: dict[str, int] = {}  # per node: the group that it is in, or the first one after
        reached: dict[str, dict[str, None]] = {}
        for node in self._ordered():
            ancestors: dict[str, None] = {}
            for earlier in self.before[node]:
                ancestors |= reached[earlier]
                ancestors[earlier] = None
            reached[node] = ancestors
            first = max((self._after(e, node, lowest[e]) for e in ancestors), default=0)
            if node in self.loop_of:
                loop = self.loop_of[node]
                first = next(
                    (
                        number
                        for number in range(first, len(found))
                        if all(self._are_alike(other, loop) for other in found[number])
                    ),
                    len(found),
                )
                if first == len(found):
                    found.append([])
                found[first].append(loop)
            lowest[node] = first
        return found

    def _after(self, earlier: str, node: str, group: int) -> int:
        """Return the first group in which *node* can run, since it waits for *earlier*."""
        if earlier not in self.loop_of:
            return group
        return group if self._can_follow(earlier, node) else group + 1

    def _ordered(self) -> list[str]:
        """Return the nodes, each after those that it waits for."""
        followers: dict[str, list[str]] = {node: [] for node in self.before}
        for node, earlier in self.before.items():
            for name in earlier:
                followers[name].append(node)
        place = {node: number for number, node in enumerate(followers)}
        try:
            return compute_topological_order(followers, key=place.__getitem__)
        except CycleError as err:
            raise TransformError(
                message(
                    f"'{err.node}' waits for what waits for it",
                    kernel=self.kernel.name,
                    because="the dependencies form a cycle among whole loops",
                )
            ) from None

    def _shared_loops(self, one: str, other: str) -> frozenset[str] | None:
        """Return the loops around both; ``None`` where one is in a loop that the other is not."""
        around: list[frozenset[str]] = []
        for loop in (one, other):
            insns = [self.kernel.id_to_insn[name] for name in self.members[f"for {loop}"]]
            around.append(frozenset.intersection(*(i.within_inames for i in insns)) - {loop})
        shared = around[0] & around[1]
        inside = self.kernel.iname_to_insns()
        for loop, outer in zip((one, other), around, strict=True):
            if any(not inside[name] <= inside[loop] for name in outer - shared):
                return None
        return shared

    def _are_alike(self, one: str, other: str) -> bool:
        """Tell whether two loops have the same values, tags and loops around them."""
        kernel = self.kernel
        if kernel.inames[one].tags != kernel.inames[other].tags:
            return False
        shared = self._shared_loops(one, other)
        if shared is None:
            return False
        around = sorted(shared, key=kernel.iname_order.__getitem__)
        first, second = (kernel.domain_of((*around, loop)) for loop in (one, other))
        return difference(first, second, {one: other}, kernel.assumptions) is None

    def _can_follow(self, earlier: str, node: str) -> bool:
        """Tell whether no iteration of *node* needs a later one of *earlier*."""
        if node not in self.loop_of:
            return False
        loops = self.loop_of[earlier], self.loop_of[node]
        shared = self._shared_loops(*loops)
        if shared is None:
            return False
        pair = (earlier, node)
        mine, theirs = (
            [access for name in self.members[which] for access in self.accesses.get(name, ())]
            for which in pair
        )
        return not any(
            (a.is_write or b.is_write) and self._is_backward(a, b, loops, shared)
            for a in mine
            for b in theirs
            if a.array == b.array
        )

    def _is_backward(
        self, a: Access, b: Access, loops: tuple[str, str], shared: frozenset[str]
    ) -> bool:
        """Tell whether *b* in an iteration meets *a* in one that comes after it."""
        around = tuple(sorted(shared))
        one, _ = self.instances.touched(a, (loops[0], *around), Side.FIRST)
        other, _ = self.instances.touched(b, (loops[1], *around), Side.SECOND)
        both = one.intersect(other)
        for iname in around:
            both = relate_sides(both, iname, "eq_set")
        later = relate(both, Side.SECOND.of(loops[1]), Side.FIRST.of(loops[0]), "lt_set")
        return not later.is_empty()
