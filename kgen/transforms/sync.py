"""Adding barriers, and stating that dependencies need none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pytools.tag import Tag

from kgen.errors import TransformError
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import TagLike, to_tags
from kgen.transforms.select import (
    Meaning,
    require_inames,
    transform,
    transform_of,
)
from kgen.transforms.statements import found

__all__ = ["add_barrier", "add_nosync"]

_SCOPES = ("local", "global", "any")


@transform_of(Meaning.STATED)
def add_nosync(
    kernel: LoopKernel,
    scope: str,
    source: Any,
    sink: Any,
    bidirectional: bool = False,
    force: bool = False,
    empty_ok: bool = False,
) -> LoopKernel:
    """State that no barrier is needed between two groups of instructions.

    It is added where *sink* depends on *source*, or the two are in conflicting groups.

    :arg scope: ``"local"``, ``"global"`` or ``"any"``: the memory that it applies to
    :arg source, sink: instruction ids or match expressions
    :arg bidirectional: also add it at the sources
    :arg force: add it for all pairs, whether or not they depend on each other
    :arg empty_ok: accept that there is no such pair

    ::

        b[i] = a[i]   {id=two,dep=one}  =>  b[i] = a[i]   {id=two,dep=one,nosync=one@global}

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = 1 {id=two,dep=one}"])
    >>> print(add_nosync(knl, "global", "id:one", "id:two").default_entrypoint.id_to_insn["two"])
    b[i] = 1  {id=two, nosync=one@global}
    """
    if scope not in _SCOPES:
        raise TransformError(
            f"'{scope}' is not a scope of synchronization", hint="it is 'local', 'global' or 'any'"
        )
    sources, sinks = _selected(kernel, source), _selected(kernel, sink)
    new: dict[str, set[tuple[str, str]]] = {}
    for first, later in _related(kernel, sources, sinks, force=force):
        new.setdefault(later, set()).add((first, scope))
        if bidirectional:
            new.setdefault(first, set()).add((later, scope))
    if not new and not empty_ok:
        raise TransformError(
            f"no instruction of '{sink}' depends on one of '{source}'",
            hint="force=True adds the dependency anyway; empty_ok=True accepts that",
        )
    return kernel.map_instructions(
        lambda insn: (
            insn.copy(no_sync_with=insn.no_sync_with | new[str(insn.id)])
            if insn.id in new
            else insn
        )
    )


def _selected(kernel: LoopKernel, given: Any) -> list[InstructionBase]:
    if isinstance(given, str) and given in kernel.id_to_insn:
        return [kernel.id_to_insn[given]]
    return found(kernel, given)


def _related(
    kernel: LoopKernel,
    sources: Iterable[InstructionBase],
    sinks: Iterable[InstructionBase],
    *,
    force: bool,
) -> Iterator[tuple[str, str]]:
    """Yield a source and a sink that depends on it, or that must not interleave; all by *force*."""
    for later in sinks:
        before = ancestors(kernel, later)
        for first in sources:
            is_related = force or first.id in before or _conflict(first, later)
            if first is not later and is_related:
                yield str(first.id), str(later.id)


def _conflict(one: InstructionBase, other: InstructionBase) -> bool:
    return not (
        one.groups.isdisjoint(other.conflicts_with_groups)
        and other.groups.isdisjoint(one.conflicts_with_groups)
    )


@transform
def add_barrier(
    kernel: LoopKernel,
    insn_before: Any = "",
    insn_after: Any = "",
    id_based_on: str | None = None,
    tags: TagLike | Iterable[str | Tag] = None,
    synchronization_kind: str = "global",
    mem_kind: str | None = None,
    within_inames: Iterable[str] | None = None,
) -> LoopKernel:
    """Insert a barrier between two groups of instructions.

    :arg insn_before, insn_after: match expressions; an empty one matches no instruction
    :arg id_based_on: the base of the id, by default ``g_barrier`` or ``l_barrier``
    :arg synchronization_kind: ``"global"`` for all work-items, ``"local"`` for a work-group
    :arg mem_kind: which memory a local barrier makes consistent, by default local
    :arg within_inames: the loops around the barrier; none by default

    ::

        a[i] = 0      {id=one}       a[i] = 0      {id=one}
        b[i] = a[3-i] {id=two}  =>   ... gbarrier  {id=g_barrier,dep=one}
                                     b[i] = a[3-i] {id=two,dep=g_barrier}

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = a[3-i] {id=two}"])
    >>> knl = add_barrier(knl, "id:one", "id:two")
    >>> knl.default_entrypoint.id_to_insn["two"].depends_on == {"one", "g_barrier"}
    True
    """
    for kind in (synchronization_kind, mem_kind or synchronization_kind):
        if kind not in ("local", "global"):
            raise TransformError(
                f"'{kind}' is not a kind of barrier", hint="it is 'local' or 'global'"
            )
    before, after = (
        [] if isinstance(given, str | None) and not given else found(kernel, given)
        for given in (insn_before, insn_after)
    )
    based_on = id_based_on or f"{synchronization_kind[0]}_barrier"
    barrier = BarrierInstruction(
        id=kernel.make_unique_instruction_id(based_on=based_on),
        depends_on=frozenset(str(insn.id) for insn in before),
        depends_on_is_final=True,
        within_inames=frozenset(require_inames(kernel, within_inames or ())),
        within_inames_is_final=True,
        tags=to_tags(tags),
        synchronization_kind=synchronization_kind,
        mem_kind=mem_kind or synchronization_kind,
    )
    later = {insn.id for insn in after}
    instructions = [
        insn.copy(depends_on=insn.depends_on | {str(barrier.id)}) if insn.id in later else insn
        for insn in kernel.instructions
    ]
    at = min((k for k, insn in enumerate(instructions) if insn.id in later), default=None)
    instructions.insert(len(instructions) if at is None else at, barrier)
    return kernel.copy(instructions=instructions)
