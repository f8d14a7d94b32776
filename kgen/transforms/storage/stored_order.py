"""When stored values are computed: inside of which loops, and after what."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgen.analysis.access import Access
from kgen.analysis.loop_bounds import bound_set_inside
from kgen.errors import TransformError, message
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag
from kgen.transforms.loops.filled import (
    loops_around,
    refuse_bound_inside,
    subscripts_of,
)
from kgen.transforms.storage.storing import Storage

__all__ = [
    "Order",
    "mentioned_inames",
    "outer_inames",
]


def mentioned_inames(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    needs: Sequence[Access],
    free: frozenset[str],
    sweep: Sequence[str],
) -> frozenset[str]:
    """Return the loops that are not swept and on which the values depend, or refuse."""
    named = {n for a in needs for n in variable_names(*(i for i in a.index or () if i is not None))}
    mentioned = kernel.inames.keys() & (named | free)
    unknown = [name for name in sweep if name not in mentioned]
    if unknown:
        raise TransformError(
            message(
                f"iname '{unknown[0]}' cannot be swept",
                kernel=kernel.name,
                because=f"neither '{rule}' nor its uses depend on it",
            )
        )
    return frozenset(mentioned - set(sweep))


def outer_inames(
    kernel: LoopKernel,
    storage: Storage,
    needed: frozenset[str],
    order: Order,
    accesses: Sequence[Access],
) -> frozenset[str]:
    """Return the loops around the new instruction, or refuse those that do not fit.

    These are the loops on which the values depend, and those in which they are written.

    Inside of the loop of a reduction it is also inside of the loops around that.
    """
    outer = needed | order.around.keys()
    for access in accesses:
        around = kernel.id_to_insn[access.insn_id].within_inames
        if not outer <= around:
            loops = {name for name in around if not kernel.has_tag(name, ConcurrentTag)}
            outer |= loops.difference(storage.sweep)
    outer |= _setting_bounds(kernel, outer, accesses).difference(storage.sweep)
    if storage.outer is not None:
        _check_given_outer(kernel, frozenset(storage.outer), needed, order)
        outer = frozenset(storage.outer)
    both = sorted(outer.intersection(storage.sweep))
    if both:
        raise TransformError(
            message(f"iname '{both[0]}' is swept and around the sweep", kernel=kernel.name)
        )
    refuse_bound_inside(
        kernel, f"what '{storage.temporary or 'a rule'}' holds", outer, storage.sweep
    )
    for access in accesses:
        missing = sorted(outer.difference(access.place.inames))
        if missing:
            raise TransformError(
                message(
                    f"'{access.insn_id}' is outside of iname '{missing[0]}', inside of which "
                    "the values are computed",
                    kernel=kernel.name,
                    hint="leave that use out with within=...",
                )
            )
    return outer


def _setting_bounds(
    kernel: LoopKernel, outer: frozenset[str], accesses: Sequence[Access]
) -> frozenset[str]:
    """Return the loops around *accesses* in which bounds of loops in *outer* are set."""
    around = frozenset.intersection(*(frozenset(access.place.inames) for access in accesses))
    found = bound_set_inside(kernel, outer, around - outer)
    return frozenset() if found is None else found.writer.within_inames & around


def _check_given_outer(
    kernel: LoopKernel, given: frozenset[str], needed: frozenset[str], order: Order
) -> None:
    """Refuse outer inames that leave out a loop on which the values depend."""
    missing = sorted((needed | order.around.keys()) - given)
    if not missing:
        return
    name = missing[0]
    because = f"they depend on '{name}', which is not swept"
    if name in order.around:
        writer, array = order.around[name]
        because = f"'{writer}' writes '{array}', which they read, in each iteration of '{name}'"
    raise TransformError(
        message(
            f"the values cannot be computed outside of iname '{name}'",
            kernel=kernel.name,
            because=because,
            hint=f"sweep '{name}', or put it among the outer inames"
            if name not in order.around
            else f"put '{name}' among the outer inames",
        )
    )


class Order:
    """What the new instruction waits for, and inside of which loops that makes it stand.

    ``around`` has, for each loop in which what is stored is written, a writer and the array.

    Raises :class:`TransformError` where the values change while the swept loops run, or
    between two uses.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        rule: SubstitutionRule,
        value: Expr,
        uses: Sequence[Access],
        sweep: Sequence[str],
    ) -> None:
        before: set[str] = set()
        self.around: dict[str, tuple[str, str]] = {}
        self._loops = {(use.insn_id, use.place.inames): loops_around(kernel, use) for use in uses}
        users = {use.insn_id for use in uses}
        earlier = {name: ancestors(kernel, kernel.id_to_insn[name]) for name in sorted(users)}
        for array in sorted(kernel.writers.keys() & set(variable_names(value))):
            for writer in map(kernel.id_to_insn.__getitem__, kernel.writers[array]):
                for (user, _), loops in self._loops.items():
                    shared = writer.within_inames & loops
                    for name in shared.difference(sweep):
                        self.around.setdefault(name, (str(writer.id), array))
                    _check_writer(kernel, rule, array, writer, user, shared.intersection(sweep))
                    if writer.id in earlier[user]:
                        _check_between(kernel, rule, array, writer, users)
                        before.add(str(writer.id))
                        before |= _barriers_between(kernel, writer, earlier[user])
        self.before = frozenset(before)


def _check_between(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    array: str,
    writer: InstructionBase,
    users: Collection[str],
) -> None:
    """Refuse a writer that runs between two uses."""
    for user in sorted(ancestors(kernel, writer).intersection(users)):
        if writer.id not in ancestors(kernel, kernel.id_to_insn[user]):  # else it is a cycle
            raise TransformError(
                message(
                    f"the values of '{rule.name}' change between its uses",
                    kernel=kernel.name,
                    because=f"'{writer.id}' writes '{array}' after '{user}' has used the rule, "
                    "and before another use",
                    hint="store the values for the uses before and after it apart: within=...",
                )
            )


def _barriers_between(
    kernel: LoopKernel, writer: InstructionBase, earlier: frozenset[str]
) -> frozenset[str]:
    barriers = [kernel.id_to_insn[name] for name in sorted(earlier)]
    return frozenset(
        str(insn.id)
        for insn in barriers
        if isinstance(insn, BarrierInstruction) and writer.id in ancestors(kernel, insn)
    )


def _check_writer(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    array: str,
    writer: InstructionBase,
    user: str,
    swept: frozenset[str],
) -> None:
    """Refuse a writer inside of a swept loop, unless it writes elements of its own, in parallel."""
    own = subscripts_of(writer, array)
    for name in sorted(swept):
        if name not in own or not kernel.has_tag(name, ConcurrentTag):
            raise TransformError(
                message(
                    f"the values of '{rule.name}' change while '{name}' is swept",
                    kernel=kernel.name,
                    because=f"'{writer.id}' writes '{array}' in the loop over '{name}', in which "
                    f"'{user}' uses the rule",
                    hint=f"do not sweep '{name}'",
                )
            )
