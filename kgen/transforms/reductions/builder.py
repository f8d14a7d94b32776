"""Accumulators: temporaries, initialization and update instructions, and their order."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast
from weakref import WeakMethod

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.typing import ExpressionTyper, UnknownType
from kgen.ir.assignee import assignee_name
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    SubstitutionMapper,
    TypeCast,
    is_constant,
    variable_names,
)
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AccumulatorTag, AxisTag
from kgen.ir.types import BOOL8, AddressSpace, NumpyType
from kgen.transforms.reductions.loops import ReductionLoops
from kgen.transforms.reductions.site import Site
from kgen.transforms.select import new_names

__all__ = [
    "Accumulated",
    "AccumulatorBuilder",
    "AccumulatorType",
    "Emitted",
    "GroupScan",
    "LoopRenamer",
    "RealizeOperands",
    "known_types",
]

#: Called with a reduction, its operands and their place: realizes the reductions in them.
#: Returns the operands, and the place with their dependencies.
RealizeOperands: TypeAlias = Callable[
    [Reduction, tuple[Expr, ...], Site], tuple[tuple[Expr, ...], Site]
]


#: The type of an accumulator, ``None`` if it is inferred later.
AccumulatorType: TypeAlias = NumpyType | None


@dataclass(frozen=True)
class Accumulated:
    """The accumulators of a reduction, and the ids of the instructions to wait for."""

    values: tuple[Expr, ...]
    writers: tuple[str, ...]


@dataclass(frozen=True)
class Emitted:
    """The new instructions of one instruction.

    ``axes`` are loops on the hardware axes over which parallel reductions ran: an instruction
    that writes their results to shared memory runs in these only.
    """

    instructions: list[InstructionBase]
    axes: dict[str, AxisTag]


@dataclass(frozen=True)
class GroupScan:
    """A scan across groups: the barriers at which its launches end."""

    barriers: tuple[str, str]


class LoopRenamer(SubstitutionMapper):
    """Renames loop variables, but not in reductions over loop variables of the same name."""

    def map_reduction(self, expr: Reduction, *args: object) -> Expr:
        others = {n: new for n, new in self.replacements.items() if n not in expr.inames}
        if len(others) < len(self.replacements):
            return IdentityMapper.map_reduction(LoopRenamer(others), expr)
        return super().map_reduction(expr, *args)


class AccumulatorBuilder:
    """Builds the loops, temporaries and instructions that implement a kernel's reductions.

    The strategies (one loop, work-items, work-groups, scans) decide what is computed where;
    the builder keeps the names, types and instructions that exist so far. Unless *types_needed*,
    accumulators may have no type yet.
    """

    def __init__(
        self, kernel: LoopKernel, realize_operands: RealizeOperands, *, types_needed: bool
    ) -> None:
        self.kernel = kernel
        self.types_needed = types_needed
        self._realize_operands = WeakMethod(realize_operands)  # of this builder
        self.loops = ReductionLoops(kernel)
        self.temporaries: dict[str, TemporaryVariable] = {}
        self._types: dict[str, AccumulatorType] = {}
        types: ChainMap[str, Any] = ChainMap(self._types, self.loops.types)
        self.typer = ExpressionTyper(kernel, types)
        self._names = new_names(kernel)
        self.new_id = kernel.get_instruction_id_generator()
        self._writer_of: dict[str, str] = {}
        #: copies of the loops that run inside those of reductions
        self._inner_loops: dict[Hashable, dict[str, str]] = {}
        #: instructions of the kernel that changed
        self.moved: dict[str, InstructionBase] = {}
        self.scans: list[GroupScan] = []
        self._emitted: list[tuple[int, InstructionBase]] = []
        self._axes: dict[str, AxisTag] = {}

    # -- types and names ----------------------------------------------------------------------

    def types_of(self, reduction: Reduction) -> tuple[AccumulatorType, ...]:
        """Return the types of the accumulators of a reduction."""
        results = self._results_of(reduction)
        if results is None:
            return (None,)
        return tuple(cast("Sequence[NumpyType]", reduction.operation.accumulators(results)))

    def _results_of(self, reduction: Reduction) -> tuple[NumpyType, ...] | None:
        """Return the types of the values of a reduction, if known."""
        try:
            found = self.typer(reduction)
        except UnknownType:
            if self.types_needed or reduction.operation.untyped_start is None:
                raise
            return None
        return found if isinstance(found, tuple) else (found,)

    def starts(self, reduction: Reduction, dtypes: Sequence[AccumulatorType]) -> tuple[Expr, ...]:
        """Return the initial values of accumulators."""
        known = known_types(dtypes)
        operation = reduction.operation
        return operation.neutral(known) if known else (operation.untyped_start,)

    def results(self, reduction: Reduction, values: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return the values of accumulators, each as the type that *reduction* has."""
        types = self._results_of(reduction)
        if types is None:
            return tuple(values)
        return tuple(
            value if dtype == wide else TypeCast(dtype, value)
            for value, dtype, wide in zip(values, types, self.types_of(reduction), strict=True)
        )

    def accumulator_types(self, accumulators: Iterable[Expr]) -> list[AccumulatorType]:
        """Return the types of accumulators, or of elements of them."""
        return [self._types[assignee_name(accumulator)] for accumulator in accumulators]

    def temporary(
        self,
        name: str,
        dtype: AccumulatorType,
        shape: tuple[Expr, ...] = (),
        address_space: AddressSpace = AddressSpace.PRIVATE,
    ) -> p.Variable:
        """Make a temporary with a name based on *name*."""
        name = self._names(name)
        self._types[name] = dtype
        tags = frozenset[Tag]() if dtype is not None else frozenset((AccumulatorTag(),))
        self.temporaries[name] = TemporaryVariable(
            name, dtype=dtype, shape=shape, address_space=address_space, tags=tags
        )
        return p.Variable(name)

    # -- instructions -------------------------------------------------------------------------

    def emit(self, insn: InstructionBase, step: int = 0) -> str:
        """Append an instruction, of a *step* of an exchange between work-items; return its id."""
        self._emitted.append((step, insn))
        return str(insn.id)

    @contextmanager
    def tagged(self, tag: Tag) -> Iterator[None]:
        """Tag all instructions that are appended inside the context."""
        first = len(self._emitted)
        yield
        for k, (step, insn) in enumerate(self._emitted[first:], start=first):
            self._emitted[k] = step, insn.copy(tags=insn.tags | {tag})

    def use_axes(self, axes: Mapping[str, AxisTag]) -> None:
        """Record the loops on hardware axes over which a reduction of the instruction runs."""
        self._axes.update(axes)

    def take_emitted(self) -> Emitted:
        """Return the instructions appended since the last call.

        The first steps of all exchanges come before the second ones, and so on, so that they
        share barriers.
        """
        emitted, axes, self._emitted, self._axes = self._emitted, self._axes, [], {}
        if axes:
            emitted.sort(key=lambda item: item[0])
        return Emitted([insn for _, insn in emitted], axes)

    def assign(
        self,
        site: Site,
        places: Sequence[Expr],
        values: Sequence[Expr],
        wait_for: Collection[str],
        id_prefix: str,
        step: int = 0,
    ) -> list[str]:
        """Append one assignment per place; return their ids."""
        return [
            self.emit(site.assign(self.new_id(id_prefix), place, value, *wait_for), step)
            for place, value in zip(places, values, strict=True)
        ]

    def add_up(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: tuple[Expr, ...],
        site: Site,
        wait_for: Collection[str],
    ) -> list[str]:
        """Append the update of the accumulators with the operands in the loop of *site*.

        It depends on the instructions *wait_for*. Return the ids of those that write the
        accumulators.
        """
        types = tuple(dtype for operand in operands for dtype in self.operand_types(operand))
        realize_operands = self._realize_operands()
        assert realize_operands is not None
        operands, site = realize_operands(reduction, operands, site)
        return self.combine(reduction, accumulators, operands, types, site.after(wait_for))

    def operand_types(self, operand: Expr) -> tuple[AccumulatorType, ...]:
        """Return the type of an operand, or those of a reduction that has several values."""
        if isinstance(operand, Reduction):
            return tuple(self.types_of(operand))
        try:
            return (self.typer(operand),)
        except UnknownType:
            if self.types_needed:
                raise
            return (None,)

    def combine(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: Sequence[Expr],
        types: Sequence[AccumulatorType],
        site: Site,
        step: int = 0,
    ) -> list[str]:
        """Append one step, for operands of *types*; return the writers of the accumulators."""
        prefix = f"{site.insn.id}_{'_'.join(reduction.inames)}"
        if len(accumulators) == 1:
            wide = self.accumulator_types(accumulators)
            typed = zip(operands, types, strict=True)
            kept = [_as_operand(operand, dtype, wide[0]) for operand, dtype in typed]
            (value,) = reduction.operation.combine(accumulators, kept, known_types(wide))
            writers = self.assign(site, accumulators, [value], (), f"{prefix}_update", step)
        else:
            writers = self._update_together(
                reduction, accumulators, operands, types, site, prefix, step
            )
        self.note_writers(accumulators, writers)
        return writers

    def _update_together(
        self,
        reduction: Reduction,
        accumulators: Sequence[Expr],
        operands: Sequence[Expr],
        types: Sequence[AccumulatorType],
        site: Site,
        prefix: str,
        step: int,
    ) -> list[str]:
        """Update accumulators whose new values may each need the old values of all.

        All new values but the last one are computed before any is stored. If either all or
        none of them are taken, the condition is evaluated once.
        """
        suffix = "_".join(reduction.inames)

        def store(name: str, dtype: AccumulatorType, value: Expr, kind: str) -> p.Variable:
            target = self.temporary(name, dtype)
            done.extend(self.assign(site, [target], [value], tuple(done), kind, step))
            return target

        done: list[str] = []
        held: list[Expr] = []
        for operand, dtype in zip(operands, types, strict=True):
            if isinstance(operand, p.Variable) or is_constant(operand):
                held.append(operand)
            else:
                target = self.temporary(f"operand_{suffix}", dtype)
                done.extend(self.assign(site, [target], [operand], (), f"{prefix}_operand", step))
                held.append(target)
        dtypes = self.accumulator_types(accumulators)
        combined = reduction.operation.combine(accumulators, held, known_types(dtypes))
        condition = _choice(combined, accumulators)
        if condition is not None:
            takes = store(f"takes_{suffix}", BOOL8, condition, f"{prefix}_takes")
            new_values = [value.then for value in combined]
            guarded = site.guarded(takes, done)
            return self.assign(guarded, accumulators, new_values, (), f"{prefix}_update", step)
        names = [assignee_name(accumulator) for accumulator in accumulators]
        *values, last = combined
        new = [
            store(f"new_{name}", dtype, value, f"{prefix}_new")
            for name, dtype, value in zip(names, dtypes, values, strict=False)
        ]
        updates: list[str] = []
        for place, value in zip(reversed(accumulators), (last, *reversed(new)), strict=True):
            waits = (*done, *updates)
            updates += self.assign(site, [place], [value], waits, f"{prefix}_update", step)
        return updates[::-1]

    # -- dependencies ---------------------------------------------------------------------------

    def note_writers(self, places: Iterable[Expr], writers: Iterable[str]) -> None:
        """Remember which instructions write accumulators last."""
        pairs = zip(map(assignee_name, places), writers, strict=True)
        self._writer_of.update(pairs)

    def writers_of(self, *exprs: Expr) -> list[str]:
        """Return the ids of the instructions that write the accumulators in expressions last."""
        found = (self._writer_of.get(name) for name in variable_names(*exprs))
        return [name for name in found if name is not None]

    def inside(self, loops: frozenset[str], insn_ids: frozenset[str]) -> frozenset[str]:
        """Return the instructions that are inside one of the *loops*."""
        insns = (self.kernel.id_to_insn.get(name) for name in insn_ids)
        return frozenset(str(i.id) for i in insns if i is not None and i.within_inames & loops)

    # -- loops ----------------------------------------------------------------------------------

    def inner_loops(self, key: Hashable, make: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Return the copies of loops that were made for *key*; *make* them on the first call."""
        if key not in self._inner_loops:
            self._inner_loops[key] = make()
        return self._inner_loops[key]

    def move(
        self, insn: InstructionBase, left: Collection[str], renamed: Mapping[str, str]
    ) -> None:
        """Take an instruction of the kernel out of some loops, and give it copies of others."""
        before = self.moved.get(str(insn.id), insn)
        within = before.within_inames.difference(left, renamed).union(renamed.values())
        rename = LoopRenamer({old: p.Variable(new) for old, new in renamed.items()})
        changed = before.with_transformed_expressions(rename)
        self.moved[str(insn.id)] = changed.copy(within_inames=within)


def known_types(dtypes: Iterable[AccumulatorType]) -> list[NumpyType]:
    """Return those of some types that are known."""
    return [dtype for dtype in dtypes if dtype is not None]


def _as_operand(operand: Expr, dtype: AccumulatorType, wide: AccumulatorType) -> Expr:
    """Return an operand that is computed as a *dtype* before it meets an accumulator.

    Integers wrap in their own type, and the operation may merge sums: in ``acc + (x + y)``.
    """
    if dtype is None or dtype == wide or not dtype.is_integral():
        return operand
    return TypeCast(dtype, operand) if isinstance(operand, p.Sum | p.Product) else operand


def _choice(values: Sequence[Expr], old: Sequence[Expr]) -> Expr | None:
    """Return the condition under which all *values* are new, if otherwise they are *old*."""
    conditions = {
        value.condition if isinstance(value, p.If) and value.else_ == before else None
        for value, before in zip(values, old, strict=True)
    }
    return conditions.pop() if len(conditions) == 1 else None
