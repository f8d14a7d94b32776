"""Placement of instructions that fill temporaries: enclosing loops and dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.loop_bounds import find_bound_computed_inside
from kgen.errors import TransformError
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, Reduction, is_constant, variable_names, walk
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag, GroupInameTag, LocalInameTag
from kgen.transforms.expressions.rules import expand_expression

__all__ = [
    "FillOrder",
    "loops_around",
    "loops_filling",
    "mentioned_inames",
    "reject_bound_inside",
    "reject_local_in_divergent_loop",
    "is_cyclic",
]


def loops_filling(
    kernel: LoopKernel, reader: InstructionBase, inames: frozenset[str], names: frozenset[str]
) -> frozenset[str]:
    """Return the *inames* of a reduction in *reader* in whose loops a temporary is filled.

    All writers of a temporary in *names* are inside such a loop, and their subscripts do not
    use it: each iteration stores what the reduction reads in it, as a prefetch does. Or it has
    cyclic buffers, as ``tile[k % 2]`` in a pipeline, the first of which are filled before.
    """
    filling: set[str] = set()
    for array in sorted(names & kernel.temporary_variables.keys() & kernel.writers.keys()):
        writers = [kernel.id_to_insn[name] for name in kernel.writers[array]]
        if ancestors(kernel, reader).isdisjoint(str(writer.id) for writer in writers):
            continue
        around = frozenset.intersection(*(writer.within_inames for writer in writers))
        named = {name for writer in writers for name in writer.subscripts_of(array)}
        filling |= around & inames - named
        filling |= {n for n in named & inames for insn in writers if is_cyclic(insn, array, n)}
    return frozenset(filling)


def is_cyclic(insn: InstructionBase, array: str, loop: str) -> bool:
    """Tell whether iterations of a loop use few elements cyclically: by remainders alone."""
    parts = [
        part
        for lhs in insn.assignees
        if assignee_name(lhs) == array and loop in insn.within_inames
        for part in index_of(lhs)
        if loop in variable_names(part)
    ]
    return bool(parts) and all(
        isinstance(part, p.Remainder) and is_constant(part.denominator) for part in parts
    )


def loops_around(kernel: LoopKernel, use: Access) -> frozenset[str]:
    """Return the loops around a use, without the separate loops of reductions.

    The loop of a reduction is included if a temporary that the reduction reads is filled in it.
    """
    user = kernel.id_to_insn[use.insn_id]
    filled: frozenset[str] = frozenset()
    for expr in map(partial(expand_expression, kernel), user.read_exprs()):
        for node in walk(expr):
            if isinstance(node, Reduction):
                names = frozenset(variable_names(*node.exprs))
                filled |= loops_filling(kernel, user, frozenset(node.inames), names)
    return user.within_inames | filled.intersection(use.place.inames)


def reject_bound_inside(
    kernel: LoopKernel, what: str, outer: frozenset[str], swept: Iterable[str]
) -> None:
    """Reject filling *what* in loops whose bounds are set in other loops, per iteration.

    Raises :class:`TransformError`.
    """
    # the work-items of a group are in the same iteration of loops over groups
    inside = frozenset(n for n in kernel.inames if not kernel.has_tag(n, GroupInameTag)) - outer
    found = find_bound_computed_inside(kernel, outer, inside)
    if found is None:
        return
    loop, name, writer = found
    (iname, *_) = sorted(writer.within_inames & inside)
    raise TransformError(
        f"{what} cannot be filled in each iteration of '{loop}', outside of '{iname}'",
        where=f"instruction '{writer}'",
        because=f"it sets '{name}', which bounds '{loop}', for each iteration of '{iname}'",
        hint=f"also sweep '{loop}'"
        if iname in swept
        else f"add '{iname}' to the loops around its fill",
    )


def reject_local_in_divergent_loop(kernel: LoopKernel, what: str, outer: frozenset[str]) -> None:
    """Reject filling local memory in loops whose bounds differ between the work-items of a group.

    Raises :class:`TransformError`.
    """
    work_items = frozenset(n for n in kernel.inames if kernel.has_tag(n, LocalInameTag))
    found = find_bound_computed_inside(kernel, outer, work_items)
    if found is None:
        return
    loop, name, writer = found
    raise TransformError(
        f"{what} cannot be filled in local memory in each iteration of '{loop}'",
        where=f"instruction '{writer}'",
        because=f"each work-item sets '{name}', which bounds '{loop}', for itself, but all "
        "work-items of a group must reach the barriers around a fill of local memory",
        hint=f"use AddressSpace.PRIVATE, or sweep '{loop}'",
    )


def mentioned_inames(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    needs: Sequence[Access],
    free: frozenset[str],
    sweep: Sequence[str],
) -> frozenset[str]:
    """Return the loops that are not swept and on which the values depend, or raise an error."""
    parts = (part for need in needs for part in need.index or () if part is not None)
    mentioned = kernel.inames.keys() & free.union(variable_names(*parts))
    has_whole_axes = any(part is None for need in needs for part in need.index or ())
    for name in sweep:
        if name not in mentioned:
            hint = f"axes given as ':' are fetched whole: leave '{name}' out of the sweep inames"
            raise TransformError(
                f"iname '{name}' cannot be swept",
                because=f"neither '{rule}' nor its uses depend on it",
                hint=hint if has_whole_axes else None,
            )
    return frozenset(mentioned.difference(sweep))


class FillOrder:
    """The place of the instruction that stores values: its loops, and its dependencies.

    ``around`` has a writer and the array for each loop in which the stored values change;
    ``before`` has the dependencies.

    Raises :class:`TransformError` where the values change while the swept loops run, or
    between two uses.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        rule: SubstitutionRule,
        value: Expr,
        sites: Sequence[Access],
        sweep: Sequence[str],
    ) -> None:
        self.kernel = kernel
        self.rule = rule
        self.sites = sites
        self.sweep = sweep
        self.around: dict[str, tuple[str, str]] = {}
        self.before: frozenset[str] = frozenset()
        written = sorted(kernel.writers.keys() & set(variable_names(value)))
        if not written:
            return
        loops = {(site.insn_id, site.place.inames): loops_around(kernel, site) for site in sites}
        self._earlier = {
            user: ancestors(kernel, kernel.id_to_insn[user])
            for user in sorted({u for u, _ in loops})
        }
        for array in written:
            for writer in map(kernel.id_to_insn.__getitem__, kernel.writers[array]):
                for (user, _), around in loops.items():
                    self._add_writer(array, writer, user, writer.within_inames & around)

    def _add_writer(
        self, array: str, writer: InstructionBase, user: str, shared: frozenset[str]
    ) -> None:
        """Depend on a writer of an array, in the loops that it shares with a user, or reject it."""
        for name in shared.difference(self.sweep):
            self.around.setdefault(name, (str(writer.id), array))
        own = writer.subscripts_of(array)
        for name in sorted(shared.intersection(self.sweep)):
            if name not in own or not self.kernel.has_tag(name, ConcurrentTag):
                raise TransformError(
                    f"the values of '{self.rule.name}' change while '{name}' is swept",
                    because=f"'{writer.id}' writes '{array}' in the loop over '{name}', in which "
                    f"'{user}' uses the rule",
                    hint=f"do not sweep '{name}'",
                )
        if writer.id not in self._earlier[user]:
            return
        before_writer = ancestors(self.kernel, writer)
        for other in self._earlier:
            if (
                other in before_writer and writer.id not in self._earlier[other]
            ):  # otherwise it is a cycle
                raise TransformError(
                    f"the values of '{self.rule.name}' change between the uses of the rule",
                    because=f"'{writer.id}' writes '{array}' after '{other}' has used the rule, "
                    "and before another use",
                    hint="store the values for the uses before and after it separately: within=...",
                )
        insns = map(self.kernel.id_to_insn.__getitem__, self._earlier[user])
        barriers = {
            str(insn.id)
            for insn in insns
            if isinstance(insn, BarrierInstruction) and writer.id in ancestors(self.kernel, insn)
        }
        self.before |= {str(writer.id)} | barriers

    def outer_inames(
        self, needed: frozenset[str], given: Sequence[str] | None, what: str
    ) -> frozenset[str]:
        """Return the loops around the instruction that fills *what*, or reject *given* ones.

        These are the loops on which the values depend, and those in which they are written.

        In the loop of a reduction, the instruction is also inside the loops around the reduction.
        """
        kernel = self.kernel
        outer = needed | self.around.keys()
        if given is not None:
            self._check_given_outer(frozenset(given), outer)
            outer = frozenset(given)
        else:
            for site in self.sites:
                around = kernel.id_to_insn[site.insn_id].within_inames
                if not outer <= around:
                    loops = {name for name in around if not kernel.has_tag(name, ConcurrentTag)}
                    outer |= loops.difference(self.sweep)
            outer |= self._setting_bounds(outer).difference(self.sweep)
        for name in sorted(outer.intersection(self.sweep).difference(given or ())):
            raise TransformError(f"iname '{name}' is both swept and around the sweep")
        reject_bound_inside(kernel, what, outer, self.sweep)
        for site in self.sites:
            for name in sorted(outer.difference(site.place.inames)):
                raise TransformError(
                    f"'{site.insn_id}' is outside iname '{name}', in which the values are computed",
                    hint=f"sweep '{name}', too; or exclude that use with within=...",
                )
        return outer

    def _setting_bounds(self, outer: frozenset[str]) -> frozenset[str]:
        """Return the loops around all sites in which bounds of loops in *outer* are set."""
        around = frozenset.intersection(*(frozenset(site.place.inames) for site in self.sites))
        found = find_bound_computed_inside(self.kernel, outer, around - outer)
        return frozenset() if found is None else found.writer.within_inames & around

    def _check_given_outer(self, given: frozenset[str], needed: frozenset[str]) -> None:
        """Reject outer inames that omit a loop on which the values depend."""
        for name in sorted(needed - given):
            because = f"they depend on '{name}', which is not swept"
            hint = f"sweep '{name}', or add it to the outer inames"
            if name in self.around:
                writer, array = self.around[name]
                because = (
                    f"'{writer}' writes '{array}', which they read, in each iteration of '{name}'"
                )
                hint = f"add '{name}' to the outer inames"
            what = f"the values cannot be computed outside iname '{name}'"
            raise TransformError(what, because=because, hint=hint)
