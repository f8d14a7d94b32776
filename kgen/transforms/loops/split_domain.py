"""Index-set splitting: loops and instructions of their own for the iterations in a set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import pymbolic.primitives as p
from pytools.graph import compute_sccs, compute_topological_order

from kgen.analysis.dependences import ViolatedDependence, by_priority
from kgen.analysis.domains import (
    domain_of_copies,
    drop_dims,
    intersect_domains,
    piece_of_copies,
    rename_params,
)
from kgen.analysis.piece_order import PieceDependence, PieceOrder
from kgen.errors import TransformError, message
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg, Iname, SubstitutionRule, TemporaryVariable
from kgen.ir.instruction import BarrierInstruction, InstructionBase, MultiAssignmentBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Set, dim_names, param_names, to_named
from kgen.ir.sets.domain import as_set
from kgen.ir.sets.partition import partition
from kgen.ir.sets.text import parse_set
from kgen.ir.tags import ConcurrentTag
from kgen.ir.unit import CallableKernel, TranslationUnit, kernel_of
from kgen.transforms.loops.inames import connected, remove_unused_inames
from kgen.transforms.loops.rewrite import InameMapper, Replacement, replace_in_priority
from kgen.transforms.select import (
    Meaning,
    NothingSelectedError,
    Program,
    matcher,
    new_names,
    require_inames,
    transform,
    transform_of,
)
from kgen.transforms.uses import called_rules, depends_on, inames_used, rules_of

__all__ = ["split_domain"]


@checked
def split_domain(
    program: Program,
    subset: Any,
    *,
    within: Any = None,
    suffixes: Sequence[str] = ("interior", "boundary"),
    into: Literal["instructions", "launches", "kernels"] = "instructions",
) -> Program:
    """Give the iterations in a set loops and instructions of their own: index-set splitting.

    The other iterations are divided into disjoint convex pieces, such as the four sides of a
    square, each with loops and instructions of its own. Together, they are the iterations that
    there were, each once.

    :arg subset: an affine set of inames, as text or as a set of islpy's; it may have several
        pieces, quotients, parameters of the kernel, and loops around those that are split
    :arg within: split for the instructions that match; the others keep the old loops
    :arg suffixes: what the names of copies end in, for iterations in *subset* and for the
        others: of loops, of instructions, and of temporaries that no piece leaves to another.
        A side of several pieces has numbers: ``i_boundary_0``, ``i_boundary_1``...
    :arg into: ``"instructions"`` of one launch, ``"launches"`` for either side, between which are
        global barriers, or ``"kernels"``: entry points ``<kernel>_<suffix>`` of the program, with
        the arguments of the kernel, to be called one after the other in any order

    Loops around those that are split stay around all pieces; those inside of them are copied.
    Copies have the tags, slabs and priorities of the old loops.

    ::

        for i  {0<=i<n}      split_domain(kernel,            for i_interior    {1<=i_interior<n-1}
          b[i] = 2*a[i]       "{ [i]: 1 <= i < n-1 }")  =>     b[i_interior] = 2*a[i_interior]
                                                             for i_boundary_0  {i_boundary_0=0}
                                                               b[i_boundary_0] = ...
                                                             for i_boundary_1  {i_boundary_1=n-1}
                                                               b[i_boundary_1] = ...

    What depends on other pieces waits for them: instructions get dependencies where an element
    is written in one piece and used in another. Where the pieces need each other's values in
    both directions, there is a :class:`TransformError` that names two iterations; and a warning,
    where that cannot be told, as for ``a[b[i]]``. There are errors, too, for a set that holds all
    or none of the iterations, for instructions in some but not all of its loops, and for kernels
    that would have to run in some order.

    Source: M. Griebl, P. Feautrier, C. Lengauer, Index Set Splitting, International Journal of
    Parallel Programming 28 (2000), for the term; the pieces are those of set difference.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "b[i] = 2*a[i]", name="twice")
    >>> parts = split_domain(knl, "{ [i]: 1 <= i < n - 1 }")
    >>> for insn in parts.default_entrypoint.instructions:
    ...     print(insn)
    b[i_interior] = 2*a[i_interior]  {id=insn_interior}
    b[i_boundary_0] = 2*a[i_boundary_0]  {id=insn_boundary_0}
    b[i_boundary_1] = 2*a[i_boundary_1]  {id=insn_boundary_1}
    >>> sorted(split_domain(knl, "{ [i]: i >= 4 }", into="kernels").entrypoints)
    ['twice_boundary', 'twice_interior']
    """
    pair = _read_suffixes(suffixes)
    if into != "kernels":
        return _split_domain(program, subset, within, pair, into == "launches")
    if not isinstance(program, TranslationUnit):
        raise TransformError(
            "split_domain makes two kernels of one, which only a program can hold",
            kernel=program.name,
            hint="pass the program that make_kernel returns",
        )
    kernel = kernel_of(program)
    table = {name: item for name, item in program.callables_table.items() if name != kernel.name}
    for side in range(2):
        part = _only_side(kernel, subset, within, pair, side)
        if part.name in table:
            raise TransformError(
                f"there is a kernel '{part.name}' already", hint="pass other suffixes=..."
            )
        table[part.name] = CallableKernel(part)
    new = {f"{kernel.name}_{suffix}" for suffix in pair}
    return program.copy(callables_table=table, entrypoints=frozenset(new))


def _read_suffixes(given: Sequence[str]) -> tuple[str, str]:
    pair = () if isinstance(given, str) else tuple(given)
    if len(pair) == 2 and pair[0] != pair[1] and all(f"i_{name}".isidentifier() for name in pair):
        return pair
    raise TransformError(
        f"suffixes={given!r} is not two different parts of names",
        hint="suffixes=('interior', 'boundary')",
    )


@transform
def _split_domain(
    kernel: LoopKernel, subset: Any, within: Any, suffixes: tuple[str, str], in_launches: bool
) -> LoopKernel:
    split = _Split(kernel, subset, within, suffixes)
    return split.with_launches() if in_launches else split.result


@transform_of(Meaning.CHANGED)
def _only_side(
    kernel: LoopKernel, subset: Any, within: Any, suffixes: tuple[str, str], side: int
) -> LoopKernel:
    """Return one side of a split kernel as a kernel of its own."""
    split = _Split(kernel, subset, within, suffixes)
    split.require_free_sides()
    return _reduced(
        split.result.copy(name=f"{kernel.name}_{suffixes[side]}"),
        {insn_id for piece in split.pieces if piece.side == side for insn_id in piece.ids.values()},
    )


def _reduced(kernel: LoopKernel, ids: Collection[str]) -> LoopKernel:
    """Leave of a kernel the instructions *ids*, and what they use."""
    kept = [
        insn.copy(
            depends_on=insn.depends_on.intersection(ids),
            no_sync_with=frozenset(pair for pair in insn.no_sync_with if pair[0] in ids),
        )
        for insn in kernel.instructions
        if insn.id in ids
    ]
    rules = rules_of(kernel.substitutions, kept)
    kernel = remove_unused_inames(
        kernel.copy(
            instructions=kept, substitutions={name: kernel.substitutions[name] for name in rules}
        )
    )
    used = frozenset().union(
        kernel.bounding_names,
        *(insn.dependency_names() for insn in kept),
        *(kernel.substitutions[name].free_names for name in rules),
    )
    return kernel.copy(
        temporary_variables={
            name: one for name, one in kernel.temporary_variables.items() if name in used
        },
        args=tuple(
            arg.copy(is_input=True)
            if isinstance(arg, ArrayArg) and arg.name in kernel.writers
            else arg
            for arg in kernel.args
        ),
    )


# -- what is split ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """One of the pieces: the condition that holds in it, and the new names of what is copied."""

    side: int
    where: Set
    inames: Mapping[str, str]
    ids: Mapping[str, str]
    variables: Mapping[str, str]
    rules: Mapping[str, str]


def _read_subset(kernel: LoopKernel, given: Any) -> Set:
    subset = parse_set(given) if isinstance(given, str) else as_set(given, "the set")
    names = dim_names(subset)
    if not names or None in names:
        raise TransformError(
            f"the set '{given}' names no loops", hint="write { [i, j]: 1 <= i, j < n - 1 }"
        )
    require_inames(kernel, names)
    known = kernel.all_params() | kernel.inames.keys()
    for name in param_names(subset):
        if name not in known:
            raise TransformError(
                f"'{name}' in the set '{given}' is neither a parameter of the kernel nor a loop",
                hint=f"the parameters are {', '.join(sorted(kernel.all_params())) or 'none'}",
            )
    return subset


#: What has to run before what: instructions and the numbers of their pieces.
_Pair: TypeAlias = tuple[tuple[str, int], tuple[str, int]]
_Edges: TypeAlias = Mapping[_Pair, ViolatedDependence]


def _by_pair(found: Iterable[PieceDependence]) -> _Edges:
    """Return one dependence for each two instructions, one that is certain if there is any."""
    result: dict[_Pair, ViolatedDependence] = {}
    for one in found:
        pair = (one.first, one.then)
        if pair not in result or one.found.is_certain:
            result[pair] = one.found
    return result


class _Split:
    """A kernel whose iterations in a set get loops of their own, and those outside of it."""

    def __init__(
        self, kernel: LoopKernel, subset: Any, within: Any, suffixes: tuple[str, str]
    ) -> None:
        self.kernel = kernel
        self.subset = _read_subset(kernel, subset)
        self.suffixes = suffixes
        self.names = dim_names(self.subset)
        self.chosen = self._choose(within)
        self.ids = frozenset(str(insn.id) for insn in self.chosen)
        around = {name for insn in self.chosen for name in insn.within_inames}
        self.order = by_priority(kernel, [name for name in kernel.iname_order if name in around])
        outer = self.order[: min(map(self.order.index, self.names))]
        around_all = frozenset.intersection(*(insn.within_inames for insn in self.chosen))
        self.shared = [
            name for name in outer if name in around_all and not self._is_bounded_by_split(name)
        ]
        self._check_parameters()
        conditions = self._divide()
        self.where = [where for _, where in conditions]
        self.dependences = self._between_pieces(self.shared)
        self.own = self.dependences.renewed()
        self.pieces = self._name(conditions)

    def _between_pieces(self, shared: Collection[str]) -> PieceOrder:
        return PieceOrder(self.kernel, self.chosen, self.names, self.order, shared, self.where)

    def _choose(self, within: Any) -> list[InstructionBase]:
        kernel, matches = self.kernel, matcher(self.kernel, within)
        found = [
            insn
            for insn in kernel.instructions
            if not inames_used(kernel, insn).isdisjoint(self.names) and matches(insn)
        ]
        for insn in found:
            for name in self.names:
                if name not in insn.within_inames:
                    raise TransformError(
                        f"instruction '{insn.id}' is not inside of loop '{name}'",
                        where=f"instruction '{insn}'",
                        because=f"the set is one of {', '.join(self.names)} together",
                        hint=f"leave it out: within='not id:{insn.id}', or split by a set of "
                        "the loops that it is in",
                    )
        if not found:
            raise NothingSelectedError(
                f"no instruction that is selected is inside of loop '{self.names[0]}'"
            )
        return found

    def _is_bounded_by_split(self, name: str) -> bool:
        return not self.kernel.with_outer_inames(frozenset((name,))).isdisjoint(self.names)

    def _check_parameters(self) -> None:
        for name in param_names(self.subset):
            if name in self.kernel.inames and name not in self.shared:
                raise TransformError(
                    f"'{name}' is a loop, but not one around all that is split",
                    hint=f"split it too: {{ [{', '.join((*self.names, name))}]: ... }}, or "
                    f"prioritize_loops(kernel, '{name},{self.names[0]}') before",
                )

    def _divide(self) -> list[tuple[int, Set]]:
        """Return the pieces that have iterations: the side each is on, and its condition."""
        kernel = self.kernel
        loops = kernel.with_outer_inames(frozenset((*self.names, *self.shared)))
        domain = to_named(
            kernel.domain_of(tuple(sorted(loops, key=kernel.iname_order.__getitem__)))
        )
        domain = domain.intersect(to_named(kernel.assumptions))
        inside, others = partition(domain, to_named(self.subset), self.order)
        for pieces, amount in ((inside, "none"), (others, "all")):
            if not pieces:
                raise TransformError(
                    f"the set '{self.subset}' has {amount} of the iterations of "
                    f"{', '.join(self.names)}",
                    because=f"they run over {kernel.domain_of(self.names)}",
                    hint="there is nothing to split",
                )
        return [(side, where) for side, some in enumerate((inside, others)) for where in some]

    @cached_property
    def copied(self) -> list[str]:
        """The loops of which each piece gets its own: the split ones, and those inside."""
        used = frozenset[str]().union(*(depends_on(self.kernel, insn) for insn in self.chosen))
        kept = self.kernel.with_outer_inames(frozenset(self.shared))
        return [name for name in self.kernel.iname_order if name in used - kept]

    def _name(self, conditions: Sequence[tuple[int, Set]]) -> list[_Piece]:
        kernel = self.kernel
        variables, ids = new_names(kernel), kernel.get_instruction_id_generator()
        counts = [sum(side == one for one, _ in conditions) for side in range(2)]
        numbers = [0, 0]
        rules = [
            name
            for name in rules_of(kernel.substitutions, self.chosen)
            if self._changes(kernel.substitutions[name])
        ]
        pieces = []
        for side, where in conditions:
            mark = self.suffixes[side] + (f"_{numbers[side]}" if counts[side] > 1 else "")
            numbers[side] += 1
            pieces.append(
                _Piece(
                    side,
                    where,
                    {name: variables(f"{name}_{mark}") for name in self.copied},
                    {str(insn.id): ids(f"{insn.id}_{mark}") for insn in self.chosen},
                    {name: variables(f"{name}_{mark}") for name in sorted(self.own)},
                    {name: variables(f"{name}_{mark}") for name in rules},
                )
            )
        return pieces

    def _changes(self, rule: SubstitutionRule) -> bool:
        """Tell whether a rule, or one that it uses, names something that is copied."""
        rules = self.kernel.substitutions
        inner = (rules[name] for name in _rules_in(rules, rule))
        return any(not one.free_names.isdisjoint((*self.copied, *self.own)) for one in inner)

    # -- the parts of the result -----------------------------------------------------------------

    @cached_property
    def result(self) -> LoopKernel:
        """The kernel, with all pieces in the place of the instructions that are split."""
        kernel = self.kernel
        rest = [insn for insn in kernel.instructions if insn.id not in self.ids]
        used = frozenset[str]().union(*(depends_on(kernel, insn) for insn in rest))
        kept = frozenset(self.copied) & used
        gone = frozenset(self.copied) - kept
        inames = {name: iname for name, iname in kernel.inames.items() if name not in gone}
        slabs = {n: s for n, s in kernel.iname_slab_increments.items() if n not in gone}
        priority: dict[tuple[str, ...], None] = {}
        for piece in self.pieces:
            for old, new in piece.inames.items():
                inames[new] = Iname(new, kernel.inames[old].tags)
                if old in kernel.iname_slab_increments:
                    slabs[new] = kernel.iname_slab_increments[old]
            nests = replace_in_priority(kernel.loop_priority, _renaming(piece.inames), kept)
            priority.update(dict.fromkeys(nests))
        return kernel.copy(
            domains=self._domains(gone),
            instructions=self._instructions(),
            substitutions=self._rules(rest),
            temporary_variables=self._temporaries(),
            inames=inames,
            loop_priority=tuple(priority),
            iname_slab_increments=slabs,
        )

    def _domains(self, gone: Collection[str]) -> list[BasicSet]:
        domains = self.kernel.domains
        homes = sorted({self.kernel.home_domain[name] for name in self.names})
        result: list[BasicSet] = []
        for index, domain in enumerate(domains):
            names = dim_names(domain)
            here = [name for name in names if name in gone]
            if len(here) < len(names) or not names:
                result.append(drop_dims(domain, here) if here else domain)
            if index == homes[-1]:
                whole = intersect_domains([domains[home] for home in homes])
                result += [self._domain_in(piece, whole, piece.where) for piece in self.pieces]
            elif index not in homes and not set(self.copied).isdisjoint(names):
                result += [self._domain_in(piece, domain) for piece in self.pieces]
        return result

    def _domain_in(self, piece: _Piece, domain: BasicSet, where: Set | None = None) -> BasicSet:
        """Return the domain of the copies of loops that *domain* has."""
        names = dim_names(domain)
        copies = {name: piece.inames[name] for name in names if name in piece.inames}
        fixed = [name for name in names if name in self.shared]
        if where is None:
            own = domain_of_copies(domain, copies, fixed)
        else:
            own = piece_of_copies(domain, where, copies, fixed)
        return rename_params(own, {**piece.inames, **piece.variables})

    def _instructions(self) -> list[InstructionBase]:
        mappers = [_mapper(piece) for piece in self.pieces]
        result: list[InstructionBase] = []
        for insn in self.kernel.instructions:
            if insn.id not in self.ids:
                result.append(
                    insn.copy(
                        depends_on=self._copies_of(insn.depends_on),
                        no_sync_with=self._unsynced(insn),
                    )
                )
                continue
            for number, (piece, mapper) in enumerate(zip(self.pieces, mappers, strict=True)):
                within = frozenset(piece.inames.get(name, name) for name in insn.within_inames)
                result.append(
                    insn.with_transformed_expressions(
                        mapper,
                        id=piece.ids[str(insn.id)],
                        within_inames=within,
                        depends_on=self._needed_by(insn, number),
                        no_sync_with=self._unsynced(insn),
                    )
                )
        return result

    def _copies_of(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(
            copy
            for name in names
            for copy in ([piece.ids[name] for piece in self.pieces] if name in self.ids else [name])
        )

    def _unsynced(self, insn: InstructionBase) -> frozenset[tuple[str, str]]:
        return frozenset(
            (copy, scope) for name, scope in insn.no_sync_with for copy in self._copies_of((name,))
        )

    def _needed_by(self, insn: InstructionBase, number: int) -> frozenset[str]:
        """Return what the copy of *insn* in a piece waits for."""
        piece = self.pieces[number]
        own = {piece.ids[name] for name in insn.depends_on if name in self.ids}
        other = self._copies_of(name for name in insn.depends_on if self._is_for_all(name, insn))
        needed = {
            self.pieces[first[1]].ids[first[0]]
            for first, then in self._edges
            if then == (insn.id, number)
        }
        return frozenset(own | needed | other)

    def _is_for_all(self, name: str, insn: InstructionBase) -> bool:
        """Tell whether a dependency is on all pieces: on what is not split, or is no assignment."""
        if name not in self.ids:
            return True
        pair = (insn, self.kernel.id_to_insn[name])
        return not all(isinstance(one, MultiAssignmentBase) for one in pair) and (
            self._group_of[str(insn.id)] != self._group_of[name]
        )

    def _rules(self, rest: Sequence[InstructionBase]) -> Mapping[str, SubstitutionRule]:
        rules = self.kernel.substitutions
        changed = self.pieces[0].rules.keys()
        kept = {*(rules.keys() - changed), *rules_of(rules, rest)}
        result = {name: rule for name, rule in rules.items() if name in kept}
        for piece in self.pieces:
            for old, new in piece.rules.items():
                mapper = _mapper(piece, rules[old].arguments)
                result[new] = rules[old].copy(name=new, expression=mapper(rules[old].expression))
        return result

    def _temporaries(self) -> Mapping[str, TemporaryVariable]:
        result: dict[str, TemporaryVariable] = {}
        for name, temporary in self.kernel.temporary_variables.items():
            if name not in self.own:
                result[name] = temporary
                continue
            for piece in self.pieces:
                new = piece.variables[name]
                result[new] = temporary.copy(name=new)
        return result

    # -- the order of pieces ---------------------------------------------------------------------

    @cached_property
    def _group_of(self) -> Mapping[str, int]:
        """The instructions that sequential loops keep together, by number."""
        loops = {
            str(insn.id): [
                name
                for name in insn.within_inames
                if name in self.copied and not self.kernel.has_tag(name, ConcurrentTag)
            ]
            for insn in self.chosen
        }
        return {name: k for k, part in enumerate(connected(loops)) for name in part}

    @cached_property
    def _edges(self) -> _Edges:
        """What has to run before what, of different pieces, and why."""
        found = _by_pair(self.dependences.find(self.own))
        torn = self._torn(found)
        if torn:
            certain = {pair: why for pair, why in found.items() if why.is_certain}
            self._reject(self._torn(certain))
            self._warn_of(next(iter(torn.values())))
            found = {
                pair: why for pair, why in found.items() if pair in certain or pair not in torn
            }
        return {**found, **self._carried(found)} if self.shared else found

    def _carried(self, edges: _Edges) -> _Edges:
        """Return an order of what meets in different iterations of the shared loops only.

        Either order is right there; one has to be said.
        """
        order = compute_topological_order(self._followers(edges), key=lambda node: node[::-1])
        place = {node: number for number, node in enumerate(order)}
        found: dict[_Pair, ViolatedDependence] = {}
        for pair, why in _by_pair(self._between_pieces(()).find(self.own)).items():
            first, then = sorted(pair, key=lambda one: place[self._node(*one)])
            found[first, then] = why
        return {pair: why for pair, why in found.items() if pair not in edges}

    def _reject(self, torn: _Edges) -> None:
        if torn:
            raise TransformError(
                self._explained("need each other's values", *torn.values()),
                hint="split by another set, or fewer loops",
            )

    def _warn_of(self, why: ViolatedDependence) -> None:
        text = self._explained("may need each other's values, and run one after the other", why)
        silencer = f"reordered_access({why.then.array})"
        self.kernel.warn(message(text, kernel=self.kernel.name), silencer)

    def _explained(self, what: str, *found: ViolatedDependence) -> str:
        return (
            f"iterations in the set and others {what}: {'; and '.join(w.point for w in found[:2])}"
        )

    def _torn(self, found: _Edges) -> _Edges:
        """Return the dependences that are part of a cycle."""
        part = {
            node: number
            for number, nodes in enumerate(compute_sccs(self._followers(found)))
            for node in nodes
        }
        return {
            (first, then): why
            for (first, then), why in found.items()
            if part[self._node(*first)] == part[self._node(*then)]
        }

    def _node(self, insn_id: str, number: int) -> tuple[int, int]:
        return self._group_of[insn_id], number

    def _followers(self, edges: Iterable[_Pair]) -> dict[tuple[int, int], set[tuple[int, int]]]:
        """Return the parts of pieces that sequential loops keep together, and what follows each."""
        count = len(self.pieces)
        result: dict[tuple[int, int], set[tuple[int, int]]] = {
            (group, k): set() for group in self._group_of.values() for k in range(count)
        }
        same = (
            ((name, k), (str(insn.id), k))
            for insn in self.chosen
            for name in insn.depends_on
            if name in self.ids
            for k in range(count)
        )
        for first, then in (*same, *edges):
            if self._node(*first) != self._node(*then):
                result[self._node(*first)].add(self._node(*then))
        return result

    # -- launches and kernels --------------------------------------------------------------------

    def with_launches(self) -> LoopKernel:
        """Return the kernel with global barriers between the two sides."""
        launches = self._launches()
        ids = self.result.get_instruction_id_generator()
        around = frozenset.intersection(*(insn.within_inames for insn in self.chosen))
        loops = [
            name
            for name in self.shared
            if name in around and not self.kernel.has_tag(name, ConcurrentTag)
        ]
        barriers: list[InstructionBase] = []
        waits: dict[str, str] = {}
        for before, after in pairwise(launches):
            barrier = BarrierInstruction(
                id=ids("launch"),
                depends_on=frozenset(before),
                within_inames=frozenset(loops),
                within_inames_is_final=True,
                synchronization_kind="global",
                mem_kind="global",
            )
            barriers.append(barrier)
            waits.update(dict.fromkeys(after, str(barrier.id)))
        return self.result.copy(
            instructions=[
                *(
                    insn.copy(depends_on=insn.depends_on | {waits[str(insn.id)]})
                    if insn.id in waits
                    else insn
                    for insn in self.result.instructions
                ),
                *barriers,
            ]
        )

    def _launches(self) -> list[list[str]]:
        """Return the copies of instructions in the order of their launches, each of one side."""
        followers = self._followers(self._edges)
        waiting = dict.fromkeys(followers, 0)
        for nodes in followers.values():
            for node in nodes:
                waiting[node] += 1
        result: list[list[str]] = []
        side = 0
        while waiting:
            now: list[str] = []
            while ready := [n for n, c in waiting.items() if not c and self._side_of(n) == side]:
                for node in ready:
                    del waiting[node]
                    for then in followers[node]:
                        waiting[then] -= 1
                    now += self._members(node)
            result += [now] if now else []
            side = 1 - side
        return result

    def _side_of(self, node: tuple[int, int]) -> int:
        return self.pieces[node[1]].side

    def _members(self, node: tuple[int, int]) -> list[str]:
        group, number = node
        return [self.pieces[number].ids[n] for n, g in self._group_of.items() if g == group]

    def require_free_sides(self) -> None:
        """Reject sides that no two calls can run in any order."""
        for insn in self.kernel.instructions:
            if insn.id not in self.ids:
                raise TransformError(
                    f"instruction '{insn.id}' would be in neither of two kernels",
                    where=f"instruction '{insn}'",
                    because=f"it is not among those in {', '.join(self.names)} that are split",
                    hint="into='launches' keeps it where it is",
                )
        for one in self._between_pieces(()).find(self.own):
            if self.pieces[one.first[1]].side != self.pieces[one.then[1]].side:
                raise TransformError(
                    self._explained("need each other's values", one.found),
                    because="two kernels are called in any order",
                    hint="into='launches' runs them in the one that is right",
                )


def _rules_in(rules: Mapping[str, SubstitutionRule], rule: SubstitutionRule) -> tuple[str, ...]:
    """Return a rule's name, and the rules that it uses."""
    return (rule.name, *called_rules(rules, (rule.expression,)))


def _renaming(names: Mapping[str, str]) -> Replacement:
    values = {old: p.Variable(new) for old, new in names.items()}
    return Replacement(values, tuple(names.values()))


def _mapper(piece: _Piece, shadowed: Collection[str] = ()) -> InameMapper:
    return InameMapper(_renaming(piece.inames), {**piece.rules, **piece.variables}, shadowed)
