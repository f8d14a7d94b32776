"""When stored values are computed: inside of which loops, and after what."""

from __future__ import annotations

from collections.abc import Sequence

from kgen.analysis.access import Access
from kgen.errors import TransformError, message
from kgen.ir.data import SubstitutionRule
from kgen.ir.dependencies import ancestors
from kgen.ir.expr import (
    Expr,
    variable_names,
)
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import ConcurrentTag
from kgen.transforms.storing import Storage

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
    accesses: Sequence[Access],
) -> frozenset[str]:
    """Return the loops around the new instruction, or refuse those that do not fit.

    Inside of the loop of a reduction it is also inside of the loops around that.
    """
    outer = needed
    for access in accesses:
        around = kernel.id_to_insn[access.insn_id].within_inames
        if not needed <= around:
            loops = {name for name in around if not kernel.has_tag(name, ConcurrentTag)}
            outer |= loops.difference(storage.sweep)
    if storage.outer is not None:
        missing = sorted(needed.difference(storage.outer))
        if missing:
            raise TransformError(
                message(
                    f"the values cannot be computed outside of iname '{missing[0]}'",
                    kernel=kernel.name,
                    because=f"they depend on '{missing[0]}', which is not swept",
                    hint=f"sweep '{missing[0]}', or put it among the outer inames",
                )
            )
        outer = frozenset(storage.outer)
    both = sorted(outer.intersection(storage.sweep))
    if both:
        raise TransformError(
            message(f"iname '{both[0]}' is swept and around the sweep", kernel=kernel.name)
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


class Order:
    """What the new instruction waits for, and inside of which loops that makes it stand.

    Raises :class:`TransformError` where the values change while the swept loops run.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        rule: SubstitutionRule,
        value: Expr,
        users: Sequence[InstructionBase],
        sweep: Sequence[str],
    ) -> None:
        before: set[str] = set()
        around: set[str] = set()
        earlier = {str(user.id): ancestors(kernel, user) for user in users}
        for array in sorted(kernel.writers.keys() & set(variable_names(value))):
            for writer in map(kernel.id_to_insn.__getitem__, kernel.writers[array]):
                for user in users:
                    shared = writer.within_inames & user.within_inames
                    around |= shared.difference(sweep)
                    _check_writer(kernel, rule, array, writer, user, shared.intersection(sweep))
                    if writer.id in earlier[str(user.id)]:
                        before.add(str(writer.id))
                        before |= _barriers_between(kernel, writer, earlier[str(user.id)])
        self.before = frozenset(before)
        self.around = frozenset(around)


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
    user: InstructionBase,
    swept: frozenset[str],
) -> None:
    """Refuse a writer inside of a swept loop, unless it writes elements of its own, in parallel."""
    own = frozenset(
        name
        for written, names in zip(
            writer.assignee_var_names(), writer.assignee_subscript_deps(), strict=True
        )
        if written == array
        for name in names
    )
    for name in sorted(swept):
        if name not in own or not kernel.has_tag(name, ConcurrentTag):
            raise TransformError(
                message(
                    f"the values of '{rule.name}' change while '{name}' is swept",
                    kernel=kernel.name,
                    because=f"'{writer.id}' writes '{array}' in the loop over '{name}', in which "
                    f"'{user.id}' uses the rule",
                    hint=f"do not sweep '{name}'",
                )
            )
