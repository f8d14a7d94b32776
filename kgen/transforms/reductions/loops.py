"""The loops of reductions: their own inames if these are free, otherwise copies."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.domains import (
    copies_beside,
    copies_by_home,
    coupled_dims,
    domains_of_copies,
    rename_params,
)
from kgen.errors import TransformError
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.data import Iname, SubstitutionRule
from kgen.ir.expr import Reduction, contains_reduction, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, dim_names, rename_dims
from kgen.ir.sets.text import parse_domain
from kgen.ir.tags import HARDWARE_AXES, AxisTag, GroupInameTag, LocalInameTagBase
from kgen.ir.types import NumpyType
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.select import new_names, require_inames
from kgen.transforms.storage.filling import is_cyclic, loops_filling
from kgen.transforms.uses import called_rules

__all__ = ["Place", "ReductionLoops"]


@dataclass(frozen=True)
class Place:
    """The place of a reduction: in an instruction, perhaps inside other reductions.

    ``inames`` are the loops around it by their original names; ``renamed`` are the copies that have
    replaced some of them.
    """

    inames: frozenset[str]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def inside(self, inames: tuple[str, ...], copies: Mapping[str, str]) -> Place:
        """Return the place inside a reduction over *inames*, some of them copied."""
        renamed = {old: new for old, new in self.renamed.items() if old not in inames}
        return Place(self.inames.union(inames), {**renamed, **copies})


class ReductionLoops:
    """Hands out loops to the reductions of a kernel, one after the other.

    A loop runs once, and all its results are complete when it ends. So two reductions may share a
    loop only if neither depends on the other; otherwise they get copies of their inames, as do
    reductions over the loop variable of an ordinary loop, or over one of *taken*. But a reduction
    shares such a loop if it stores what the reduction reads (:meth:`loops_shared`).
    """

    def __init__(self, kernel: LoopKernel, taken: Iterable[str] = ()) -> None:
        self.kernel = kernel
        self._names = new_names(kernel)
        loops = {name for insn in kernel.instructions for name in insn.within_inames}.union(taken)
        self._owner: dict[str, Hashable] = dict.fromkeys(sorted(loops), "an ordinary loop")
        self._copied: dict[Hashable, dict[str, str]] = {}
        self._domains: list[BasicSet] = []
        #: the domains of the kernel to which copies were added, by their numbers
        self._extended: dict[int, BasicSet] = {}
        self._priority: list[tuple[str, ...]] = []
        self._ranges: dict[str, Iname] = {}
        self._lanes: dict[tuple[AxisTag, int], str] = {}
        self._in_order: dict[str, None] = {}
        self.copies: dict[str, str] = {}
        #: the types of the new loop variables
        self.types: dict[str, NumpyType] = {}

    def expanded(self, reduction: Reduction) -> Reduction:
        """Expand the rules in a reduction if they depend on loops, which copies may replace."""
        rules = self.kernel.substitutions
        if not any(self._has_loops(rules[name]) for name in called_rules(rules, reduction.exprs)):
            return reduction
        operands = (expand_expression(self.kernel, operand) for operand in reduction.exprs)
        return reduction.over(reduction.inames, tuple(operands))

    def _has_loops(self, rule: SubstitutionRule) -> bool:
        """Tell whether a rule uses loop variables, temporaries that loops fill, or reductions."""
        names = (*self.kernel.inames, *self.kernel.temporary_variables)
        return not rule.free_names.isdisjoint(names) or contains_reduction(rule.expression)

    def loops_for(
        self, reduction: Reduction, place: Place, sharers: Hashable, insn_id: str
    ) -> dict[str, str]:
        """Return the copies that *reduction* uses in place of its inames: ``old -> new``.

        Reductions over the same inames with equal *sharers* share their loops.
        """
        inames = reduction.inames
        require_inames(self.kernel, inames)
        if len(set(inames)) < len(inames):
            raise TransformError(
                f"the reduction '{reduction}' names a loop variable twice",
                where=f"instruction '{insn_id}'",
            )
        self._reject_bounds_from_inside(reduction, place, insn_id)
        shared = self.loops_shared(reduction, insn_id)
        self._reject_other_iterations(shared, insn_id)
        self._reject_copied_bounds(shared, place, reduction, insn_id)
        place = place.inside(tuple(shared), {})
        inames = tuple(name for name in inames if name not in shared)
        key = (sharers, frozenset(inames), shared)
        if key in self._copied:
            return self._copied[key]
        is_free = all(self._owner.get(name, key) == key for name in inames)
        if is_free and not self._depends_on_copies(inames, place):
            self._owner.update(dict.fromkeys(inames, key))
            return {}
        copies = self._copied[key] = self._new_copies(inames)
        self._copy_domains(copies, place, self._loops_shared_inside(reduction, insn_id))
        return copies

    def loops_kept(self, reduction: Reduction, place: Place, insn_id: str) -> dict[str, str]:
        """Return the copies that a reduction uses which stays inside one that is replaced.

        It keeps its inames unless their bounds may involve a loop that was replaced by a copy, or
        the loop stores what the reduction reads.
        """
        shared = self.loops_shared(reduction, insn_id)
        self._reject_copied_bounds(shared, place, reduction, insn_id)
        place = place.inside(tuple(shared), {})
        inames = tuple(name for name in reduction.inames if name not in shared)
        if not self._depends_on_copies(inames, place):
            return {}
        copies = self._new_copies(inames)
        self._copy_domains(copies, place, self._loops_shared_inside(reduction, insn_id))
        return copies

    def add(self, inames: tuple[str, ...], domain: BasicSet) -> dict[str, str]:
        """Make copies of *inames* that take the values of *domain*: ``old -> new``."""
        copies = self._new_copies(inames)
        self._domains.append(rename_dims(domain, copies))
        return copies

    def _new_copies(self, inames: tuple[str, ...]) -> dict[str, str]:
        copies = {name: self._names(name) for name in inames}
        self.copies.update((new, old) for old, new in copies.items())
        self.types.update(dict.fromkeys(copies.values(), self.kernel.index_dtype))
        return copies

    def new_range(self, based_on: str, start: int, stop: int, *tags: Tag) -> str:
        """Make a loop over the integers from *start* to *stop*, exclusive; return its iname."""
        name = self.new_iname(based_on, *tags)
        self._domains.append(parse_domain(f"{{ [{name}] : {start} <= {name} < {stop} }}"))
        return name

    def lane(self, tag: AxisTag, size: int) -> str:
        """Return the iname over the first *size* indices of a hardware axis."""
        name = self._lanes.get((tag, size))
        if name is None:
            kind = "group" if isinstance(tag, GroupInameTag) else "lane"
            name = self._lanes[tag, size] = self.new_range(f"{kind}_{tag.axis}", 0, size, tag)
        return name

    def new_iname(self, based_on: str, *tags: Tag) -> str:
        """Make an iname whose domain is added by :meth:`add_domain`."""
        name = str(self._names(based_on))
        self._ranges[name] = Iname(name, frozenset(tags))
        self.types[name] = self.kernel.index_dtype
        return name

    def add_domain(self, domain: BasicSet) -> None:
        """Add the domain of new inames."""
        self._domains.append(domain)

    def origin(self, iname: str) -> str:
        """Return the iname of the kernel of which *iname* is a copy, or *iname* itself."""
        return self.copies.get(iname, iname)

    def nest(self, inames: tuple[str, ...]) -> None:
        """Require that loops are nested in this order."""
        self._priority.append(inames)

    def run_in_order(self, inames: Iterable[str]) -> None:
        """Make loops sequential if their tags have no meaning on the target."""
        self._in_order.update(dict.fromkeys(inames))

    def _plain(self, inames: Mapping[str, Iname]) -> dict[str, Iname]:
        """Return loops on axes that the target lacks, without their tags: they run in order."""
        target = self.kernel.target
        kind = LocalInameTagBase if target.has_hardware_axes else HARDWARE_AXES
        return {
            name: inames[name].without_tags(tags)
            for name in (() if target.has_work_items else self._in_order)
            if (tags := inames[name].tags_of_type(kind))
        }

    @property
    def has_orders(self) -> bool:
        """Tell whether any loops must be nested in a given order."""
        return bool(self._priority)

    def loops_shared(self, reduction: Reduction, insn_id: str) -> frozenset[str]:
        """Return the inames of *reduction* whose loop is that of a temporary it reads.

        See :func:`loops_filling`.
        """
        insn = self.kernel.id_to_insn[insn_id]
        names = frozenset(variable_names(*reduction.exprs))
        return loops_filling(self.kernel, insn, frozenset(reduction.inames), names)

    def _loops_shared_inside(self, reduction: Reduction, insn_id: str) -> frozenset[str]:
        """Return the loops that reductions inside another one share; see :meth:`loops_shared`."""
        inner = (node for node in walk(*reduction.exprs) if isinstance(node, Reduction))
        return frozenset[str]().union(*(self.loops_shared(node, insn_id) for node in inner))

    def _reject_other_iterations(self, shared: frozenset[str], insn_id: str) -> None:
        """Reject a shared loop in which the reduction would read what later iterations write."""
        kernel = self.kernel
        insn = kernel.id_to_insn[insn_id]
        if not shared:
            return
        for access in collect_accesses(kernel, (insn,)):
            around = shared.intersection(access.place.inames)
            for writer in map(kernel.id_to_insn.__getitem__, kernel.writers.get(access.array, ())):
                named = around & writer.within_inames & writer.subscripts_of(access.array)
                for name in sorted(named):
                    if writer is insn or is_cyclic(writer, access.array, name):
                        continue
                    if not _is_same_along(name, access, writer):
                        raise TransformError(
                            f"'{access}' is read by a reduction in the loop over '{name}' "
                            f"in which '{writer.id}' writes it, in another iteration",
                            where=str(insn.span or insn),
                            because=f"the reduction shares the loop over '{name}' with a fetch "
                            "in it",
                            hint=f"duplicate_inames(kernel, '{name}', 'id:{writer.id}') "
                            "gives the writer a loop of its own",
                        )

    def _reject_bounds_from_inside(self, reduction: Reduction, place: Place, insn_id: str) -> None:
        """Reject a reduction over an iname that bounds a loop around it."""
        outside = self.kernel.with_outer_inames(place.inames) - place.inames
        for name in reduction.inames:
            if name in outside:
                raise TransformError(
                    f"the bounds of a loop around the reduction over '{name}' depend on '{name}'",
                    where=f"instruction '{insn_id}'",
                    hint=f"declare '{name}' in a separate domain: '{{ [{name}]: ... }}'",
                )

    def _depends_on_copies(self, inames: tuple[str, ...], place: Place) -> bool:
        """Tell whether the bounds of *inames* may involve a loop that was replaced by a copy."""
        if not place.renamed:
            return False
        kernel = self.kernel
        outer = kernel.with_outer_inames(frozenset(inames))
        homes = {kernel.home_domain[name] for name in outer}
        involved = {name for home in homes for name in dim_names(kernel.domains[home])}
        return not involved.isdisjoint(place.renamed)

    def _reject_copied_bounds(
        self, shared: frozenset[str], place: Place, reduction: Reduction, insn_id: str
    ) -> None:
        """Reject a shared loop that is bounded by a loop of which *reduction* is in a copy."""
        bounding = self.kernel.with_outer_inames(shared) - shared
        for name in self.kernel.in_order(bounding.intersection(place.renamed)):
            raise TransformError(
                f"the reduction '{reduction}' is in a copy of the loop '{name}', and shares the "
                f"loop '{min(shared)}', whose bounds depend on '{name}' itself",
                where=f"instruction '{insn_id}'",
                because=f"each iteration of '{min(shared)}' stores what the reduction reads in it",
                hint=f"subscript what is stored by '{min(shared)}', too",
            )

    def _copy_domains(
        self, copies: Mapping[str, str], place: Place, shared: frozenset[str]
    ) -> None:
        """Add the domains of copies, inside of which reductions use loops of *shared*.

        A constraint between a copy and such a loop is kept by a copy in the same domain.
        """
        outer = {**place.renamed, **copies}
        beside = self._coupled(copies, shared)
        for home, own in copies_by_home(self.kernel, beside).items():
            domain = self.kernel.domains[home]
            extended = self._extended.get(home, domain)
            self._extended[home] = copies_beside(domain, extended, own, outer)
        apart = {old: new for old, new in copies.items() if old not in beside}
        for domain in domains_of_copies(self.kernel, apart, place.inames):
            self._domains.append(rename_params(domain, outer))

    def _coupled(self, copies: Mapping[str, str], shared: frozenset[str]) -> dict[str, str]:
        """Return the *copies* of loops that constraints connect to loops of *shared*."""
        if not shared:
            return {}
        homes = {self.kernel.home_domain[name] for name in shared}
        groups = [group for home in homes for group in coupled_dims(self.kernel.domains[home])]
        tied = {name for group in groups if not shared.isdisjoint(group) for name in group}
        return {old: new for old, new in copies.items() if old in tied}

    def changes(self) -> dict[str, Any]:
        """Return the fields of the kernel that the copies change."""
        kernel = self.kernel
        if not (self.copies or self._ranges):
            plain = self._plain(kernel.inames)
            return {"inames": {**kernel.inames, **plain}} if plain else {}
        inames = {**kernel.inames, **self._ranges}
        slabs = dict(kernel.iname_slab_increments)
        priority = dict.fromkeys((*kernel.loop_priority, *self._priority))
        for new, old in self.copies.items():
            inames[new] = Iname(new, kernel.inames[old].tags)
            if old in slabs:
                slabs[new] = slabs[old]
            for names in kernel.loop_priority:
                if old in names:
                    priority[tuple(new if name == old else name for name in names)] = None
        return {
            "domains": (
                *(self._extended.get(k, domain) for k, domain in enumerate(kernel.domains)),
                *self._domains,
            ),
            "inames": {**inames, **self._plain(inames)},
            "iname_slab_increments": slabs,
            "loop_priority": tuple(priority),
        }


def _is_same_along(iname: str, read: Access, writer: InstructionBase) -> bool:
    """Tell whether an element is read in the iteration of *iname* in which it is written."""
    variable = p.Variable(iname)
    return read.index is not None and all(
        any(pair == (variable, variable) for pair in zip(read.index, index_of(lhs), strict=False))
        for lhs in writer.assignees
        if assignee_name(lhs) == read.array
    )
