"""The pieces of a split index set: their loops, names, instructions and launches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.dependences import by_priority
from kgen.analysis.domains import (
    domain_of_copies,
    domains_without,
    piece_of_copies,
    rename_params,
)
from kgen.analysis.piece_order import PieceOrder
from kgen.errors import TransformError
from kgen.ir.data import Iname, SubstitutionRule, TemporaryVariable, ValueArg
from kgen.ir.instruction import BarrierInstruction, InstructionBase, MultiAssignmentBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Set, dim_names, param_names, to_named
from kgen.ir.sets.domain import as_set
from kgen.ir.sets.partition import partition
from kgen.ir.sets.text import parse_set
from kgen.ir.tags import ConcurrentTag, LookBackTag, PublishTag
from kgen.transforms.loops.piece_graph import PieceGraph, explained
from kgen.transforms.loops.rewrite import (
    InameMapper,
    Replacement,
    merge_domains,
    reject_torn_dependences,
    replace_in_priority,
)
from kgen.transforms.select import (
    NothingSelectedError,
    matcher,
    new_names,
    require_inames,
)
from kgen.transforms.uses import called_rules, depends_on, inames_used, rules_of

__all__ = ["Pieces"]


@dataclass(frozen=True)
class Piece:
    """One of the pieces: its condition, and the new names of its copies."""

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
    sizes = kernel.all_params().union(
        arg.name
        for arg in kernel.args
        if isinstance(arg, ValueArg) and (arg.dtype is None or arg.dtype.is_integral())
    )
    for name in param_names(subset):
        if name not in sizes and name not in kernel.inames:
            raise TransformError(
                f"'{name}' in the set '{given}' is neither a parameter of the kernel nor a loop",
                because=f"its parameters are {', '.join(sorted(sizes)) or 'none'}",
                hint=f"make_kernel(..., [kgen.ValueArg('{name}', 'int32'), ...]) declares another",
            )
    return subset


class Pieces:
    """The pieces of a kernel's iterations: those in a set, and the others."""

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
        self.graph = PieceGraph(
            kernel,
            self.chosen,
            self.copied,
            len(self.pieces),
            self.dependences,
            self._between_pieces(()),
            self.own,
        )

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
            if insn.tags_of_type((LookBackTag, PublishTag)):
                raise TransformError(
                    "work-groups look back at each other in a scan, which cannot be split",
                    where=f"instruction '{insn}'",
                    hint="split_domain before realize_reduction(..., force_scan=True)",
                )
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
                    f"'{name}' is a loop, but not around everything that is split",
                    hint=f"split it too: {{ [{', '.join((*self.names, name))}]: ... }}, or "
                    f"prioritize_loops(kernel, '{name},{self.names[0]}') before",
                )

    def _divide(self) -> list[tuple[int, Set]]:
        """Return the pieces that have iterations: the side each is on, and its condition."""
        kernel = self.kernel
        loops = kernel.with_outer_inames(frozenset((*self.names, *self.shared)))
        domain = to_named(kernel.domain_of(kernel.in_order(loops)))
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

    def _name(self, conditions: Sequence[tuple[int, Set]]) -> list[Piece]:
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
                Piece(
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
        around = frozenset[str]().union(*(insn.within_inames for insn in rest))
        hint = "split the domain first, and fetch or precompute afterwards"
        reject_torn_dependences(kernel, kept & around, self.ids, hint)
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
        domains = merge_domains(self.kernel, self.names)
        home = next(k for k, domain in enumerate(domains) if self.names[0] in dim_names(domain))
        result: list[BasicSet] = []
        for index, domain in enumerate(domains):
            names = dim_names(domain)
            here = [name for name in names if name in gone]
            result += domains_without(domain, here)
            if index == home or not set(self.copied).isdisjoint(names):
                for piece in self.pieces:
                    where = piece.where if index == home else None
                    result += self._domains_in(piece, domain, where)
        return result

    def _domains_in(
        self, piece: Piece, domain: BasicSet, where: Set | None = None
    ) -> list[BasicSet]:
        """Return the domain of the copies of loops that *domain* has; see `piece_of_copies`."""
        names = dim_names(domain)
        copies = {name: piece.inames[name] for name in names if name in piece.inames}
        fixed = [name for name in names if name in self.shared]
        if where is None:
            found: Sequence[BasicSet] = [domain_of_copies(domain, copies, fixed)]
        else:
            found = piece_of_copies(domain, where, copies, fixed)
        return [rename_params(own, {**piece.inames, **piece.variables}) for own in found]

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
        """Return the dependencies of the copy of *insn* in a piece."""
        piece = self.pieces[number]
        own = {piece.ids[name] for name in insn.depends_on if name in self.ids}
        other = self._copies_of(name for name in insn.depends_on if self._is_for_all(name, insn))
        needed = {
            self.pieces[first[1]].ids[first[0]]
            for first, then in self.graph.edges
            if then == (insn.id, number)
        }
        return frozenset(own | needed | other)

    def _is_for_all(self, name: str, insn: InstructionBase) -> bool:
        """Tell whether a dependency is on all pieces: on what is not split, or is no assignment."""
        if name not in self.ids:
            return True
        pair = (insn, self.kernel.id_to_insn[name])
        return not all(isinstance(one, MultiAssignmentBase) for one in pair) and (
            self.graph.group_of[str(insn.id)] != self.graph.group_of[name]
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

    # -- launches and kernels --------------------------------------------------------------------

    def with_launches(self) -> LoopKernel:
        """Return the kernel with global barriers between the two sides."""
        sides = [piece.side for piece in self.pieces]
        launches = [
            [self.pieces[number].ids[name] for name, number in launch]
            for launch in self.graph.launches(sides)
        ]
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
        for one in self.graph.everywhere.find(self.own):
            if self.pieces[one.first[1]].side != self.pieces[one.then[1]].side:
                raise TransformError(
                    explained("need each other's values", one.found),
                    because="two kernels are called in any order",
                    hint="into='launches' runs them in the one that is right",
                )


def _rules_in(rules: Mapping[str, SubstitutionRule], rule: SubstitutionRule) -> tuple[str, ...]:
    """Return a rule's name, and the rules that it uses."""
    return (rule.name, *called_rules(rules, (rule.expression,)))


def _renaming(names: Mapping[str, str]) -> Replacement:
    values = {old: p.Variable(new) for old, new in names.items()}
    return Replacement(values, tuple(names.values()))


def _mapper(piece: Piece, shadowed: Collection[str] = ()) -> InameMapper:
    return InameMapper(_renaming(piece.inames), {**piece.rules, **piece.variables}, shadowed)
