"""Comparing a kernel with its origin, the kernel as it was written."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.analysis.sizes import all_sizes, sizes_near
from kgen.errors import KernelError, KgenError, ScheduleError
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import Reduction, TypedLiteral, is_constant, walk
from kgen.ir.fields import replace
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.reductions import KnownOperation
from kgen.ir.sets.effort import answer
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import HARDWARE_AXES, AsyncCopyTag
from kgen.ir.types import AddressSpace
from kgen.lowering import prepare, schedule_prepared
from kgen.schedule.dataflow import sizes_of
from kgen.schedule.equality import Unproved, find_unproved
from kgen.schedule.evaluation import Evaluation, NotEvaluatedError, Write, evaluate, value_of
from kgen.schedule.threads import items_as_loops
from kgen.schedule.tree import Schedule
from kgen.transforms.loops.rename import duplicate_inames
from kgen.transforms.storage.privatize import privatize_temporaries_with_inames

__all__ = ["Comparison", "Difference", "compare_with_origin", "origin_error"]

#: The maximum number of instances that are evaluated for one choice of sizes.
_MOST = 12_000
#: The budget of isl operations of a proof for all sizes, less than a second.
_PROOF = 2_000_000
#: Pairs of the least size, if the assumptions allow it, and the difference between consecutive
#: sizes, in the order of names or in reverse: some loops run from one size to another.
_SIZES = ((2, 1), (9, 4), (17, -4), (33, 1))


@dataclass(frozen=True)
class Difference:
    """An element whose value differs from that of the origin."""

    array: str
    index: tuple[int, ...]
    sizes: Mapping[str, int]
    now: Write | None
    before: Write | None


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison with the origin, and why it is not a proof, if it is not."""

    difference: Difference | None = None
    reason: str | None = None


def compare_with_origin(
    origin: LoopKernel,
    kernel: PreparedKernel,
    schedule: Schedule,
    dtypes: Mapping[str, Any] | None,
    *,
    has_axes: bool,
) -> Comparison:
    """Compare the results of a prepared *kernel*, in the order of its schedule, with its origin.

    Their values are compared for all sizes and all data at once. If that proves nothing, both are
    evaluated for a few sizes. A difference is then certain, unless the arithmetic of fingerprints
    differs from the kernel's; equality is certain if control flow depends on no size and no data.

    The origin has the tags of its loops. If hardware axes of only some loops make it invalid, it is
    compared with all loops sequential; then a difference is not certain.
    """
    try:
        before, order, has_tags = _scheduled(origin, kernel, dtypes, has_axes=has_axes)
    except KgenError as err:
        return Comparison(
            reason=f"no code can be generated for the kernel as it was written: {err}"
        )
    unproved = _find_unproved((before, order), (kernel, schedule), has_axes=has_axes)
    if unproved is None:
        if not any(insn.tags_of_type(AsyncCopyTag) for insn in kernel.instructions):
            return Comparison()
        unproved = Unproved("when copies are complete is not compared for all sizes")
    tried: list[str] = []
    reasons: list[str] = []
    depends_on_data = False
    choices, are_all = _choices_of(before, kernel, unproved.sizes)
    for sizes in choices:
        try:
            then = evaluate(before, order, sizes, has_axes=has_axes, most=_MOST)
            now = evaluate(kernel, schedule, sizes, has_axes=has_axes, most=_MOST)
        except NotEvaluatedError as err:
            reasons.append(str(err))
            break
        if then.reads_undefined:
            return Comparison(
                reason="the kernel as it was written reads elements that nothing wrote"
            )
        difference = next(_differences(before, then, now, sizes), None)
        if difference is not None:
            doubt = _doubt(origin, before, kernel, has_tags=has_tags)
            return Comparison(reason=doubt) if doubt else Comparison(difference)
        depends_on_data |= then.depends_on_data or now.depends_on_data
        tried.append(_text(sizes))
    if are_all and len(tried) == len(choices) and not depends_on_data:
        return Comparison()
    return Comparison(reason=f"{_reason(tried, reasons)}; beyond that, {unproved.reason}")


def _find_unproved(
    before: tuple[LoopKernel, Schedule], now: tuple[LoopKernel, Schedule], *, has_axes: bool
) -> Unproved | None:
    """Return why the equivalence of two kernels is not proved for all sizes and data."""
    found = answer(lambda: [find_unproved(before, now, has_axes=has_axes)], _PROOF)
    return Unproved("isl needs too long to compare all instances") if found is None else found[0]


def _reason(tried: list[str], reasons: list[str]) -> str:
    """Return the conclusion of a comparison that found no difference."""
    if not tried:
        return reasons[0] if reasons else "the assumptions leave no sizes"
    sizes = f" for {'; '.join(tried)}" if any(tried) else ""
    more = "" if sizes else ", for the data that were tried"
    return f"the results are those of the kernel as it was written{sizes}{more}"


def _scheduled(
    origin: LoopKernel,
    kernel: LoopKernel,
    dtypes: Mapping[str, Any] | None,
    *,
    has_axes: bool,
) -> tuple[PreparedKernel, Schedule, bool]:
    """Prepare and schedule the origin, for the current target and options.

    Also return whether its loops have their tags.
    """

    def scheduled(given: LoopKernel) -> tuple[PreparedKernel, Schedule]:
        prepared, schedule = schedule_prepared(prepare(given, dtypes), has_axes=has_axes)
        return items_as_loops(prepared) if has_axes else prepared, schedule

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = _for_target_of(origin, kernel)
        for change in (lambda one: one, _with_separate_loops):
            given = change(given)
            with suppress(ScheduleError):
                return *scheduled(given), True
        return *scheduled(_sequential(given)), False


def _for_target_of(origin: LoopKernel, kernel: LoopKernel) -> LoopKernel:
    """Return the origin with the target, options, functions and assumptions of a kernel."""
    silenced = (f"write_race({insn.id})" for insn in origin.instructions)
    return origin.copy(
        target=kernel.target,
        options=kernel.options,
        functions={**origin.functions, **kernel.functions},
        preamble_generators=kernel.preamble_generators,
        symbol_manglers=kernel.symbol_manglers,
        assumptions=origin.assumptions.intersect(kernel.assumptions),
        silenced_warnings=(*origin.silenced_warnings, *silenced),
    )


def _sequential(kernel: LoopKernel) -> LoopKernel:
    """Return a kernel without hardware axes."""
    inames = {
        name: replace(iname, tags=iname.tags - iname.tags_of_type(HARDWARE_AXES))
        for name, iname in kernel.inames.items()
    }
    return kernel.copy(inames=inames)


def _with_separate_loops(kernel: LoopKernel) -> LoopKernel:
    """Return a kernel with separate loops before and after each global barrier.

    Without work-items, a loop cannot be around instructions on both sides of a barrier outside it.
    All iterations of the first side come first, and each has its own values for the second one.
    """
    barriers = [
        str(insn.id)
        for insn in kernel.instructions
        if isinstance(insn, BarrierInstruction) and insn.is_global_barrier
    ]
    for barrier in barriers:
        after = [insn for insn in kernel.instructions if barrier in ancestors(kernel, insn)]
        before = [insn for insn in kernel.instructions if insn not in after]
        around = kernel.id_to_insn[barrier].within_inames
        loops = (_loops_of(before) & _loops_of(after)) - around
        if not loops:
            continue
        for name in sorted(_private_in(kernel, before) & _private_in(kernel, after)):
            users = [insn for insn in kernel.instructions if name in insn.dependency_names()]
            own = loops.intersection(*(insn.within_inames for insn in users))
            kernel = privatize_temporaries_with_inames(kernel, sorted(own), name)
        within = " or ".join(f"id:{insn.id}" for insn in after)
        kernel = duplicate_inames(kernel, sorted(loops), within)
    return kernel


def _loops_of(insns: Sequence[InstructionBase]) -> frozenset[str]:
    return frozenset(n for insn in insns for n in insn.within_inames | insn.reduction_inames())


def _private_in(kernel: LoopKernel, insns: Sequence[InstructionBase]) -> frozenset[str]:
    """Return the temporaries of single work-items that instructions use."""
    shared = (AddressSpace.LOCAL, AddressSpace.GLOBAL)
    names = {name for insn in insns for name in insn.dependency_names()}
    temporaries = kernel.temporary_variables
    return frozenset(
        name for name in names & temporaries.keys() if temporaries[name].address_space not in shared
    )


def _choices_of(
    before: LoopKernel, now: LoopKernel, unproved: Mapping[str, int]
) -> tuple[list[dict[str, int]], bool]:
    """Return sizes that the assumptions allow, *unproved* ones first, and whether these are all."""
    names = sorted({name for kernel in (before, now) for name in sizes_of(kernel)})
    allowed = before.assumptions.intersect(now.assumptions)
    found = all_sizes(allowed, names, len(_SIZES))
    if found is not None:
        return found, True
    some = [sizes_near(allowed, names, least, step) for least, step in _SIZES]
    if unproved.keys() >= set(names):
        some.insert(0, {name: unproved[name] for name in names})
    unique = {tuple(sizes.values()): sizes for sizes in some if sizes is not None}
    return list(unique.values()), False


# -- differences -------------------------------------------------------------------------------


def _differences(
    before: PreparedKernel, then: Evaluation, now: Evaluation, sizes: Mapping[str, int]
) -> Iterator[Difference]:
    for array in sorted(then.results.keys() | now.results.keys()):
        old, new = then.results.get(array, {}), now.results.get(array, {})
        for index in sorted(old.keys() | new.keys()):
            values = {value_of(before, array, index, one) for one in (old, new)}
            if len(values) > 1:
                yield Difference(array, index, sizes, new.get(index), old.get(index))


def _doubt(
    origin: LoopKernel, before: LoopKernel, now: LoopKernel, *, has_tags: bool
) -> str | None:
    """Return why results whose fingerprints differ may be the same."""
    if not has_tags:
        return "the tags of loops as it was written may intend another order"
    own = {node.operation.name for node in _nodes(origin) if _is_of_a_user(node)}
    if own:
        return f"whether '{min(own)}' may be applied in another order is not known"
    if _fractions(before) != _fractions(now):
        return "numbers were computed ahead of time, which rounds them"
    return None


def _nodes(kernel: LoopKernel) -> Iterator[Any]:
    yield from walk(*(expr for insn in kernel.instructions for expr in insn.expressions()))
    yield from walk(*(rule.expression for rule in kernel.substitutions.values()))


def _is_of_a_user(node: Any) -> bool:
    """Tell whether a node is a reduction with an unknown operation."""
    operation = node.operation if isinstance(node, Reduction) else None
    while isinstance(operation, KnownOperation):
        operation = operation.inner
    return operation is not None


def _fractions(kernel: LoopKernel) -> set[complex]:
    """Return the numbers in a kernel that are finite and not integers."""
    values = (node.value if isinstance(node, TypedLiteral) else node for node in _nodes(kernel))
    numbers = {complex(value) for value in values if is_constant(value)}
    return {n for n in numbers if np.isfinite(n) and (n.imag or n.real % 1)}


def _point_of(found: Difference) -> str:
    """Write the sizes and the element of a difference."""
    element = f"{found.array}[{', '.join(map(str, found.index))}]" if found.index else found.array
    return f"{_text(found.sizes)}: {element}" if found.sizes else element


def origin_error(kernel: LoopKernel, found: Difference) -> KgenError:
    """Return the error for an element whose value differs from that of the origin."""
    before = f"'{found.before.insn_id}' wrote it" if found.before else "nothing wrote it"
    now = "nothing writes it"
    if found.now is not None:
        at = _text(found.now.point)
        now = f"'{found.now.insn_id}' writes it{f' at {at}' if at else ''}, another value"
    return KernelError(
        f"an element of '{found.array}' differs from that of the kernel as it was written",
        kernel=kernel.name,
        point=_point_of(found),
        because=f"in that kernel, {before}; now {now}",
        hint="undo the last transformations one by one, and verify again; or, if the change is "
        "intended, kernel.copy(origin=None)",
    )


def _text(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(values.items()))
