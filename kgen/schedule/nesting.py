"""Loop nesting: one loop per sequential iname, nested by inclusion of instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pytools.graph import CycleError, compute_topological_order

from kgen.analysis.strides import unit_stride_scores
from kgen.errors import ScheduleError
from kgen.ir.closure import closure
from kgen.ir.instruction import InstructionBase
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import (
    HARDWARE_AXES,
    ConcurrentTag,
    IlpBaseTag,
    InOrderSequentialSequentialTag,
    TensorTag,
    UnrollTag,
    VectorizeTag,
)
from kgen.schedule.interchange import Nest


class LoopNesting:
    """The order of loops around each instruction, outermost first.

    Let ``I(i)`` be the instructions inside loop ``i``. If ``I(j)`` is a proper subset of ``I(i)``,
    ``j`` is nested in ``i``. Loops around the same instructions are ordered by the declared
    priority, then: ``ord`` loops outermost, unrolled ones innermost, loops in bounds outside those
    that they bound, the unit-stride loop innermost, declaration order. If a dependence is carried
    by these loops, strides and tags do not change an order that
    results depend on. Sets that overlap without inclusion cannot nest: :class:`ScheduleError`.

    *with_copies*: loops tagged ``ilp`` or ``vec`` are ordinary loops.
    """

    def __init__(
        self, kernel: PreparedKernel, sequential_axes: bool, *, with_copies: bool = False
    ) -> None:
        self.kernel = kernel
        self._concurrent = frozenset(
            name
            for name in kernel.inames
            if kernel.has_tag(name, (ConcurrentTag, TensorTag))
            and not (sequential_axes and kernel.has_tag(name, HARDWARE_AXES))
            and not (with_copies and kernel.has_tag(name, (IlpBaseTag, VectorizeTag)))
        )
        self._inside: Mapping[str, frozenset[str]] = kernel.iname_to_insns()
        self._after = _priority_closure(kernel)
        self._memo: dict[frozenset[str], tuple[str, ...]] = {}
        self._prioritized: list[tuple[Nest, list[str]]] = []
        self._by_stride: list[tuple[Nest, list[str], list[str]]] = []

    def loops_around(self, insn: InstructionBase) -> tuple[str, ...]:
        """Return the sequential loops around *insn*, outermost first."""
        inames = insn.within_inames
        found = self._memo.get(inames)
        if found is None:
            found = self._memo[inames] = self._order(inames - self._concurrent)
        return found

    def _order(self, inames: Iterable[str]) -> tuple[str, ...]:
        classes: dict[frozenset[str], list[str]] = {}
        for name in self.kernel.in_order(inames):
            classes.setdefault(self._inside[name], []).append(name)
        ordered = sorted(
            classes.items(), key=lambda item: (-len(item[0]), self.kernel.iname_order[item[1][0]])
        )
        for (outer, outer_names), (inner, inner_names) in pairwise(ordered):
            if not inner <= outer:
                raise self._overlap(outer_names[0], inner_names[0])
        result: list[str] = []
        for insns, names in ordered:
            result.extend(self._order_equals(insns, names, frozenset(result)))
        return tuple(result)

    def _overlap(self, one: str, other: str) -> ScheduleError:
        only_one = sorted(self._inside[one] - self._inside[other])
        only_other = sorted(self._inside[other] - self._inside[one])
        both = sorted(self._inside[one] & self._inside[other])
        because = (
            f"{_listed(both)} inside both, {_listed(only_one)} only inside '{one}', "
            f"{_listed(only_other)} only inside '{other}'"
        )
        hint = (
            f"duplicate_inames(kernel, '{other}', within='id:{only_other[0]}') gives "
            f"'{only_other[0]}' a loop of its own"
        )
        for name in (one, other):
            reasons = [self._inherited(insn_id, name) for insn_id in both]
            why = next(filter(None, reasons), None)
            if why is not None:
                because += f"; {why}"
            if all(reasons):
                within = " or ".join(f"id:{insn_id}" for insn_id in both)
                hint = (
                    f"remove_inames_from_insn(kernel, '{name}', '{within}') runs {_quoted(both)} "
                    f"after the loop; {hint}"
                )
                break
        return ScheduleError(
            f"loops '{one}' and '{other}' cannot be nested",
            kernel=self.kernel.name,
            because=because,
            hint=hint,
        )

    def _inherited(self, insn_id: str, loop: str) -> str | None:
        """Return why an instruction is in a loop that it does not use, through what it reads."""
        kernel = self.kernel
        insn = kernel.id_to_insn[insn_id]
        if loop in kernel.with_outer_inames(insn.dependency_names() & set(kernel.inames)):
            return None
        sources = (
            (name, writer)
            for name in sorted(insn.dependency_names() & set(kernel.writers))
            for writer in sorted(kernel.writers[name])
            if writer != insn_id and loop in kernel.id_to_insn[writer].within_inames
        )
        for name, writer in sources:
            return (
                f"'{insn_id}' does not use '{loop}', but reads '{name}', "
                f"which '{writer}' writes in that loop"
            )
        return None

    def _order_equals(
        self, insns: frozenset[str], names: list[str], outer: frozenset[str]
    ) -> list[str]:
        """Order loops around the same instructions, inside the loops *outer*."""
        if len(names) == 1:
            return names
        inside = {name: self._after_within(name, names) for name in names}
        nest = Nest(self.kernel, insns, outer, inside)
        given = self._order_without_tags(nest)
        place = {name: position for position, name in enumerate(given)}
        wanted = compute_topological_order(
            inside, key=lambda name: (*self._tier(name), place[name])
        )
        found = nest.nearest(given, wanted)
        self._check_in_order(nest, given, found, wanted)
        if any(inside.values()):
            self._prioritized.append((nest, found))
        return found

    def _order_without_tags(self, nest: Nest) -> list[str]:
        """Put the unit-stride loop innermost, if that preserves dependences of the given order."""
        adjacent = unit_stride_scores(self.kernel, sorted(nest.insns))
        before = {
            name: len(self.kernel.with_outer_inames(frozenset((name,)))) for name in nest.inside
        }
        place = self.kernel.iname_order
        try:
            declared = compute_topological_order(
                nest.inside, key=lambda name: (before[name], place[name])
            )
        except CycleError:
            raise self._contradiction(nest.inside) from None
        preferred = compute_topological_order(
            nest.inside, key=lambda name: (before[name], adjacent.get(name, 0), place[name])
        )
        given = nest.nearest(declared, preferred, only_values=True)
        if given != declared:
            self._by_stride.append((nest, declared, given))
        return given

    def _tier(self, name: str) -> tuple[bool, bool]:
        return (
            not self.kernel.has_tag(name, InOrderSequentialSequentialTag),
            self.kernel.has_tag(name, UnrollTag),
        )

    def _check_in_order(
        self, nest: Nest, given: Sequence[str], found: Sequence[str], wanted: Sequence[str]
    ) -> None:
        """Reject a loop tagged ``ord`` that cannot be outside the others."""
        for name, other in zip(wanted, found, strict=True):
            if name == other:
                continue
            if self.kernel.has_tag(name, InOrderSequentialSequentialTag):
                raise ScheduleError(
                    f"loop '{name}' is tagged 'ord', but cannot be outside '{other}'",
                    kernel=self.kernel.name,
                    point=nest.point_turned(given, wanted),
                    hint=f"prioritize_loops(kernel, '{other},{name}') keeps this order; "
                    f"'{name},{other}' selects the other one",
                )
            return

    def warn_of_strides(self) -> None:
        """Warn if strides determine the order of loops, and results depend on it."""
        for nest, declared, given in self._by_stride:
            point = nest.point_turned(declared, given)
            if point is None:
                continue
            chosen, other = ",".join(given), ",".join(declared)
            self.kernel.warn(
                f"results depend on the order of loops: '{chosen}' was chosen for its strides, "
                f"not '{other}'\n  at: {point}\n  hint: prioritize_loops(kernel, '{chosen}'), or "
                f"'{other}', makes the order explicit",
                f"order_of_loops({chosen})",
            )

    def reordered_by_priority(self) -> Iterator[tuple[Sequence[str], str]]:
        """Yield orders of loops set by priorities that differ from the kernel's own order.

        Only those that reverse a dependence, with an example.
        """
        for insn in self.kernel.instructions:
            self.loops_around(insn)
        for nest, found in self._prioritized:
            free = replace(nest, inside=dict.fromkeys(nest.inside, ()))
            given = self._order_without_tags(free)
            if free.nearest(given, found) != found:
                point = free.point_turned(given, found)
                if point is not None:
                    yield found, point

    def _contradiction(self, inside: Mapping[str, Collection[str]]) -> ScheduleError:
        stuck = sorted(n for n in inside if n in closure(inside[n], inside.__getitem__))
        return ScheduleError(
            f"the loop priorities of {', '.join(map(repr, stuck))} contradict each other",
            kernel=self.kernel.name,
            hint="prioritize_loops was called with both orders; keep one",
        )

    def _after_within(self, name: str, names: list[str]) -> list[str]:
        later = self._after.get(name, frozenset())
        return [other for other in names if other in later]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _listed(names: Sequence[str]) -> str:
    """Name the first few names, as the subject of a sentence.

    >>> _listed(["a"]), _listed(["a", "b", "c", "d", "e"])
    ("'a' is", "'a', 'b', 'c' and 2 others are")
    """
    if len(names) > 4:
        return f"{_quoted(names[:3])} and {len(names) - 3} others are"
    return f"{_quoted(names)} {'is' if len(names) == 1 else 'are'}"


def _priority_closure(kernel: PreparedKernel) -> Mapping[str, frozenset[str]]:
    """Return, per iname, all inames that the declared priorities put inside it."""
    direct: dict[str, set[str]] = {}
    for chain in kernel.loop_priority:
        for outer, inner in pairwise(chain):
            direct.setdefault(outer, set()).add(inner)
    return {
        name: frozenset(closure(inside, lambda inner: direct.get(inner, ())))
        for name, inside in direct.items()
    }
