"""Loop fusion: finding candidates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytools.graph import CycleError, compute_topological_order

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.domains import difference
from kgen.analysis.instances import Instances
from kgen.analysis.merging import meeting_backward
from kgen.errors import TransformError
from kgen.ir.checked import checked
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import Expr, Reduction, WalkMapper
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag
from kgen.ir.unit import TranslationUnit, kernel_of
from kgen.transforms.loops.inames import connected
from kgen.transforms.select import new_names, require_inames

__all__ = ["get_kennedy_unweighted_fusion_candidates"]


@checked
def get_kennedy_unweighted_fusion_candidates(
    kernel: LoopKernel | TranslationUnit,
    candidates: Collection[str],
    *,
    prefix: str = "ifused",
) -> Mapping[str, frozenset[str]]:
    """Return loops that can be fused, for :func:`rename_inames_in_batch`; of reductions, too.

    Loops are grouped greedily, in program order, after Kennedy and McKinley
    (1994). Fusable loops have the same values, tags and enclosing loops, nothing else must
    run between them, and no iteration needs a later iteration of an earlier loop. A loop that
    is not a candidate runs as a whole: what depends on a part of it waits for all of it. Loops of
    reductions are grouped if neither of their instructions depends on the other: outer loops with
    outer loops, inner ones with inner ones.

    :arg prefix: the new loops are called ``prefix``, ``prefix_0``, ...

    ::

        for i                       for ifused
          b[i] = a[i]         =>      b[ifused] = a[ifused]
        for j                         c[ifused] = b[ifused]
          c[j] = b[j]

    Raises :class:`TransformError` if one of the loops is inside another.

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.loops.rename import rename_inames_in_batch
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<n }", ["b[i] = a[i] {id=b}", "c[j] = b[j] {dep=b}"])
    >>> found = get_kennedy_unweighted_fusion_candidates(knl, ["i", "j"])
    >>> sorted(found["ifused"])
    ['i', 'j']
    >>> print(rename_inames_in_batch(knl, found).default_entrypoint.instructions[1])
    c[ifused] = b[ifused]  {id=insn}
    """
    kernel = kernel_of(kernel)
    loops = [name for name in kernel.iname_order if name in set(candidates)]
    require_inames(kernel, candidates)
    names = new_names(kernel)
    reduced = frozenset(n for insn in kernel.instructions for n in insn.reduction_inames())
    found = [
        *_Candidates(kernel, [name for name in loops if name not in reduced]).groups(),
        *_reduction_groups(kernel, frozenset(loops) & reduced),
    ]
    return {names(prefix): frozenset(group) for group in found}


@dataclass(frozen=True)
class _ReductionLoop:
    """A loop of a reduction, its instruction, and the loops of reductions around it.

    Those have their groups as well, or their names where they are no candidates.
    """

    name: str
    insn: InstructionBase
    outer: tuple[str, ...]
    around: tuple[int | str, ...]


def _reduction_groups(kernel: LoopKernel, candidates: frozenset[str]) -> list[list[str]]:
    """Return the groups of reduction loops that can be fused, in program order.

    Groups run in the order of their numbers: what waits for an instruction is in later groups
    than the loops of that.
    """
    groups: list[list[_ReductionLoop]] = []
    group_of: dict[str, int] = {}
    before = {insn.id: ancestors(kernel, insn) for insn in kernel.instructions}
    first_after: dict[str, int] = {}  # per instruction: the first group after it
    for insn in sorted(kernel.instructions, key=lambda insn: len(before[insn.id])):
        least = max((first_after[name] for name in before[insn.id]), default=0)
        for loop in _reduction_loops(insn, candidates, group_of):
            if loop.name in group_of:
                continue
            fitting = (n for n in range(least, len(groups)) if _fits(kernel, groups[n][0], loop))
            number = group_of[loop.name] = next(fitting, len(groups))
            if number == len(groups):
                groups.append([])
            groups[number].append(loop)
        own = (group_of[name] + 1 for name in insn.reduction_inames() & candidates)
        first_after[str(insn.id)] = max(own, default=least)
    return [[loop.name for loop in group] for group in groups]


def _reduction_loops(
    insn: InstructionBase, candidates: frozenset[str], group_of: Mapping[str, int]
) -> Iterator[_ReductionLoop]:
    """Yield the candidates of an instruction, outer ones first, as their groups become known."""
    nested: list[tuple[Expr, tuple[str, ...]]] = [(expr, ()) for expr in insn.expressions()]
    while nested:
        expr, outer = nested.pop(0)
        for node in _outermost_reductions(expr):
            inside: tuple[str, ...] = outer
            for name in node.inames:
                if name in candidates:
                    around = tuple(group_of.get(other, other) for other in inside)
                    yield _ReductionLoop(name, insn, inside, around)
                inside = (*inside, name)
            nested += [(operand, inside) for operand in node.exprs]


class _Outermost(WalkMapper):
    """Collects the reductions that are in no other one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Reduction] = []

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> None:
        self.found.append(expr)


def _outermost_reductions(expr: Expr) -> list[Reduction]:
    finder = _Outermost()
    finder(expr)
    return finder.found


def _fits(kernel: LoopKernel, first: _ReductionLoop, loop: _ReductionLoop) -> bool:
    """Tell whether a loop of a reduction can be one with another."""
    if first.insn.within_inames != loop.insn.within_inames or first.around != loop.around:
        return False
    if kernel.inames[first.name].tags != kernel.inames[loop.name].tags:
        return False
    around = kernel.in_order(loop.insn.within_inames)
    return _same_values(kernel, around, (*first.outer, first.name), (*loop.outer, loop.name))


def _same_values(
    kernel: LoopKernel, around: Sequence[str], ones: Sequence[str], others: Sequence[str]
) -> bool:
    """Tell whether two nests of loops have the same values in every iteration around."""
    first, second = (kernel.domain_of((*around, *loops)) for loops in (ones, others))
    renaming = dict(zip(ones, others, strict=True))
    return difference(first, second, renaming, kernel.assumptions) is None


class _Candidates:
    """The candidate loops for fusion, and facts about the instructions in and around them."""

    def __init__(self, kernel: LoopKernel, loops: list[str]) -> None:
        self.kernel = kernel
        self.loops = frozenset(loops)
        self.instances = Instances(kernel, has_axes=False)
        for insn in kernel.instructions:
            own = kernel.in_order(insn.within_inames & self.loops)
            if len(own) > 1:
                raise TransformError(
                    f"loops '{own[0]}' and '{own[1]}' cannot both be candidates",
                    kernel=kernel.name,
                    because=f"instruction '{insn.id}' is inside of both",
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
        for part in connected(loops_of):
            whole = frozenset.intersection(*(loops_of[insn] for insn in part))
            for several in [part] if whole else [[insn] for insn in part]:
                loops = whole or loops_of[several[0]]
                candidate = min(loops & self.loops, default=None)
                name = several[0] if candidate is None else f"for {candidate}"
                before = blocks[name].insns if name in blocks else ()
                blocks[name] = _Block(name, (*before, *several), loops, candidate)
        return tuple(blocks.values())


@dataclass(frozen=True)
class _Block:
    """A loop with the ids of all instructions in it, or an instruction that is in none."""

    name: str
    insns: tuple[str, ...]
    loops: frozenset[str]
    candidate: str | None


class _Nest:
    """Consecutive blocks inside the same loops, and the dependencies between them."""

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
        """Return the first group in which *node* can run, given its prerequisites *earlier*."""
        if earlier not in self.loop_of:
            return group
        return group if self._can_follow(earlier, node) else group + 1

    def _ordered(self) -> list[str]:
        """Return the nodes in topological order."""
        followers: dict[str, list[str]] = {node: [] for node in self.before}
        for node, earlier in self.before.items():
            for name in earlier:
                followers[name].append(node)
        place = {node: number for number, node in enumerate(followers)}
        try:
            return compute_topological_order(followers, key=place.__getitem__)
        except CycleError as err:
            raise TransformError(
                f"'{err.node}' depends on itself through other instructions",
                kernel=self.kernel.name,
                because="the dependencies form a cycle among whole loops",
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
        around = kernel.in_order(shared)
        return _same_values(kernel, around, (one,), (other,))

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
        """Tell whether *b* in an iteration accesses elements that *a* accesses in a later one."""
        later, _ = meeting_backward(self.instances, a, b, [loops], shared)
        return not later.is_empty()
