"""Conflicting accesses that no dependency orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pymbolic.primitives as p
from pytools.graph import compute_sccs

from kgen.analysis.access import Access
from kgen.analysis.fields import are_apart
from kgen.analysis.footprints import Footprints
from kgen.analysis.instances import Instances, axis_name, in_same_iteration
from kgen.analysis.points import describe_pair, example
from kgen.errors import VariableAccessNotOrdered
from kgen.ir.atomicity import AtomicInit
from kgen.ir.construction.dependencies import written_id
from kgen.ir.expr import Expr
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel

__all__ = ["Unordered", "find_unordered", "check_accesses_ordered"]


@dataclass(frozen=True)
class Unordered:
    """A write and another access to one element without an order; with a point, if certain."""

    write: Access
    other: Access
    point: str
    is_certain: bool


def check_accesses_ordered(kernel: LoopKernel) -> None:
    """Raise :class:`VariableAccessNotOrdered` if the order of two accesses is undefined.

    This applies if two instructions access one element, one of them writes it, and neither depends
    on the other, directly or not. ``options.enforce_variable_access_ordered``: ``False`` makes this
    a warning, ``"no_check"`` skips the check. Exempt are pairs with ``nosync``, atomic
    updates, mutually exclusive groups, and the two branches of one condition.
    """
    enforce = kernel.options.enforce_variable_access_ordered
    if enforce == "no_check":
        return
    for found in find_unordered(kernel):
        error = unordered_error(kernel, found)
        if enforce:
            raise error
        kernel.warn(str(error), f"unordered_access({found.write.array})")


def unordered_error(kernel: LoopKernel, found: Unordered) -> VariableAccessNotOrdered:
    """Return the error for two accesses without an order."""
    first, second = found.write.insn_id, found.other.insn_id
    before, last = (written_id(kernel, name) for name in (first, second))
    verb = "writes" if found.other.is_write else "reads"
    return VariableAccessNotOrdered(
        f"nothing says whether '{first}' writes '{found.write}' before or after '{second}' "
        f"{verb} '{found.other}'",
        kernel=kernel.name,
        where=f"'{kernel.id_to_insn[first]}' and '{kernel.id_to_insn[second]}'",
        point=found.point if found.is_certain else None,
        because="neither depends on the other, directly or not"
        + ("" if found.is_certain else ", and nothing proves their elements to be different"),
        hint=f"add_dependency(kernel, 'id:{last}', 'id:{before}'), or the other way around; "
        f"add_nosync(kernel, 'any', '{before}', '{last}') if either order is right",
    )


def find_unordered(kernel: LoopKernel) -> Iterator[Unordered]:
    """Yield the pairs of instructions that access one element without an order, each pair once.

    isl is only queried for pairs without a path of dependencies between them.
    """
    order = _Order(kernel)
    instances: Instances | None = None
    footprints = Footprints.of(kernel)
    for name, writers in kernel.writers.items():
        accesses = _by_instruction(footprints.accesses.get(name, ()))
        if order.relates(writers, accesses):
            continue
        masks: dict[tuple[int, ...], int] = {}
        for access in footprints.accesses[name]:
            part = footprints.part(access)
            masks[part] = masks.get(part, 0) | order.bit(access.insn_id)
        seen = 0
        for writer in writers:
            mine = [access for access in accesses.get(writer, ()) if access.is_write]
            near = 0
            for write in mine:
                near |= masks[footprints.part(write)]
            loose = near & ~order.related(writer) & ~seen
            seen |= order.bit(writer)
            if not loose:
                continue
            instances = instances or Instances(kernel, has_axes=True)
            for other in order.ids(loose):
                found = _meeting(instances, name, writer, other, mine, accesses[other])
                if found is not None:
                    yield found


def _by_instruction(accesses: Iterable[Access]) -> dict[str, list[Access]]:
    found: dict[str, list[Access]] = {}
    for access in accesses:
        found.setdefault(access.insn_id, []).append(access)
    return found


class _Order:
    """The transitive closure of the dependencies, as bit sets."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.names = [str(insn.id) for insn in kernel.instructions]
        self.number = {name: k for k, name in enumerate(self.names)}
        number = self.number
        self.direct = [[number[d] for d in insn.depends_on] for insn in kernel.instructions]
        self.before = [0] * len(self.names)
        self.after = [0] * len(self.names)
        sequence = self._sorted()
        for k in sequence:
            for d in self.direct[k]:
                self.before[k] |= self.before[d] | 1 << d
        for k in reversed(sequence):
            for d in self.direct[k]:
                self.after[d] |= self.after[k] | 1 << k

    def _sorted(self) -> Sequence[int]:
        """Return all numbers in topological order; in a cycle each then waits for all others."""
        if all(d < k for k, earlier in enumerate(self.direct) for d in earlier):
            return range(len(self.names))
        cycles = compute_sccs(dict(enumerate(self.direct)))
        for cycle in cycles:
            if len(cycle) > 1:
                all_of_them = {*cycle, *chain.from_iterable(self.direct[k] for k in cycle)}
                for k in cycle:
                    self.direct[k] = list(all_of_them)
        return list(chain.from_iterable(cycles))

    def bit(self, name: str) -> int:
        return 1 << self.number[name]

    def mask(self, names: Iterable[str]) -> int:
        result = 0
        for name in names:
            result |= 1 << self.number[name]
        return result

    def related(self, name: str) -> int:
        """Return *name*, its dependencies, and its dependents."""
        k = self.number[name]
        return self.before[k] | self.after[k] | 1 << k

    def relates(self, names: Iterable[str], others: Iterable[str]) -> bool:
        """Tell whether in each pair, one depends on the other."""
        mask = self.mask(others)
        return not any(mask & ~self.related(name) for name in names)

    def ids(self, mask: int) -> list[str]:
        return [self.names[k] for k in _bits(mask)]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _meeting(
    instances: Instances,
    name: str,
    writer: str,
    other: str,
    writes: Sequence[Access],
    accesses: Sequence[Access],
) -> Unordered | None:
    """Return the first unordered pair of *writes* and *accesses* of another instruction."""
    kernel = instances.kernel
    one, two = kernel.id_to_insn[writer], kernel.id_to_insn[other]
    if _is_exempt(one, two) or _exclude_each_other(one, two):
        return None
    if _is_atomic(one, name) and _is_atomic(two, name):
        return None
    for write in writes:
        for access in accesses:
            found = None if are_apart(kernel, write, access) else _meet(instances, write, access)
            if found is not None:
                return found
    return None


def _meet(instances: Instances, write: Access, access: Access) -> Unordered | None:
    loops = write.place.inames, access.place.inames
    both, is_exact = instances.meeting(write, access, *loops)
    mine, theirs = (
        {axis_name(a.tag) for a in instances.owner_axes(x.array, x.place.inames).values()}
        for x in (write, access)
    )
    both = in_same_iteration(both, sorted(mine & theirs))
    if both.is_empty():
        return None
    shared = (name for name in write.place.inames if name in access.place.inames)
    at_once = in_same_iteration(both, shared)  # which reads best
    point = example(both if at_once.is_empty() else at_once)
    has_items = bool(instances.axes) and instances.kernel.target.has_work_items
    unit = "a work-item" if has_items else "an iteration"
    return Unordered(write, access, describe_pair(point, unit=unit), is_exact)


def _is_exempt(one: InstructionBase, two: InstructionBase) -> bool:
    if any(
        second.id in {name for name, _ in first.no_sync_with}
        for first, second in ((one, two), (two, one))
    ):
        return True
    return bool(one.groups & two.conflicts_with_groups or two.groups & one.conflicts_with_groups)


def _is_atomic(insn: InstructionBase, name: str) -> bool:
    """Tell whether *insn* updates *name* atomically, so that the order does not matter."""
    kinds = [a for a in getattr(insn, "atomicity", ()) if a.var_name == name]
    return bool(kinds) and not any(isinstance(a, AtomicInit) for a in kinds)


def _exclude_each_other(one: InstructionBase, two: InstructionBase) -> bool:
    """Tell whether the two have complementary predicates in the same iteration."""
    return any(_is_negation(mine, theirs) for mine in one.predicates for theirs in two.predicates)


def _is_negation(one: Expr, other: Expr) -> bool:
    return bool(one == p.LogicalNot(other) or other == p.LogicalNot(one))
