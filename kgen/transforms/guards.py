"""Guards in the code: run-time checks of subscripts that cannot be proved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.access import Access
from kgen.analysis.bounds import unproved_axes
from kgen.analysis.footprints import Footprints
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import CombineMapper, Expr, to_text, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import INT64, AddressSpace

__all__ = ["GuardTag", "guard_accesses"]


@dataclass(frozen=True)
class GuardTag(Tag):
    """Of the instruction that notes a stray subscript in an element of *faults*."""

    faults: str
    number: int
    array: str
    access: str
    axis: int
    extent: str
    instruction: str


@dataclass(frozen=True)
class _Guard:
    """A subscript to check: where it is evaluated, and its upper bound."""

    access: Access
    axis: int
    value: Expr
    extent: Expr

    @property
    def is_inside(self) -> Expr:
        return p.LogicalAnd(
            (p.Comparison(0, "<=", self.value), p.Comparison(self.value, "<", self.extent))
        )


def guard_accesses(kernel: LoopKernel) -> LoopKernel:
    """Put a guard around each instruction with a subscript that is not proved to be inside.

    Without ``options.guard_accesses`` the kernel stays as it is. A stray instance is left
    out, and notes its subscript, for which the call raises :class:`KgenIndexError`::

        out[i] = a[idx[i]]   =>   faults[0] = idx[i]    {if=not (0 <= idx[i] and idx[i] < n)}
                                  out[i] = a[idx[i]]    {if=0 <= idx[i] and idx[i] < n}

    What is not named by axis, ``a[[k]]`` or in C code, has no guard.
    """
    if not kernel.options.guard_accesses:
        return kernel
    return _Guarder(kernel).guarded()


class _Guarder:
    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.footprints = Footprints.of(kernel)
        self.faults = kernel.get_var_name_generator()("faults")
        self.new_id = kernel.get_instruction_id_generator()
        self.count = 0

    def guarded(self) -> LoopKernel:
        of_insn: dict[str, list[Access]] = {}
        order = self._in_order()
        for access in order:
            of_insn.setdefault(access.insn_id, []).append(access)
        changed: list[InstructionBase] = []
        for insn in self.kernel.instructions:
            guards = list(self._guards(of_insn.get(str(insn.id), [])))
            changed.extend(self._with_guards(insn, guards) if guards else [insn])
        if not self.count:
            return self.kernel
        storage = TemporaryVariable(
            self.faults, dtype=INT64, shape=(self.count,), address_space=AddressSpace.GLOBAL
        )
        temporaries = {**self.kernel.temporary_variables, self.faults: storage}
        return self.kernel.copy(instructions=tuple(changed), temporary_variables=temporaries)

    def _in_order(self) -> list[Access]:
        """Return all accesses; those inside subscripts precede the accesses that use them."""
        accesses = [a for some in self.footprints.accesses.values() for a in some]
        return sorted(accesses, key=_nesting)

    def _guards(self, accesses: list[Access]) -> Iterator[_Guard]:
        seen: set[object] = set()
        for access in accesses:
            key = (access.array, access.index, access.place)
            if access.index is None or key in seen:
                continue
            seen.add(key)
            shape = self.kernel.array_vars[access.array].shape
            for axis in unproved_axes(self.kernel, self.footprints, access):
                yield _Guard(access, axis, access.index[axis], shape[axis])

    def _with_guards(
        self, insn: InstructionBase, guards: list[_Guard]
    ) -> Iterator[InstructionBase]:
        """Give the notes of stray subscripts, then the instruction where there are none."""
        is_data = {c: self._reads_data(c) for c in insn.predicates}
        always = tuple(c for c, data in is_data.items() if not data)
        inside: list[Expr] = []
        ids: list[str] = []
        for guard in guards:
            given = [c for c in guard.access.place.conditions if c not in always]
            is_outside = p.LogicalNot(guard.is_inside)
            name = self.new_id(f"{insn.id}_guard")
            yield Assignment(
                p.Variable(self.faults)[self.count],
                guard.value,
                id=name,
                within_inames=insn.within_inames | frozenset(guard.access.place.inames),
                depends_on=insn.depends_on,
                depends_on_is_final=True,
                no_sync_with=frozenset({(name, "any")}),
                predicates=(*always, *inside, *given, is_outside),
                tags=frozenset({self._tag(guard)}),
            )
            self.count += 1
            ids.append(name)
            unless = tuple(p.LogicalNot(c) for c in given)
            inside.append(p.LogicalOr((*unless, guard.is_inside)) if unless else guard.is_inside)
        data = [c for c, reads in is_data.items() if reads]
        yield insn.copy(
            predicates=(*always, *inside, *data),
            depends_on=insn.depends_on.union(ids),
        )

    def _reads_data(self, condition: Expr) -> bool:
        return any(name in self.kernel.array_vars for name in variable_names(condition))

    def _tag(self, guard: _Guard) -> GuardTag:
        access = guard.access
        return GuardTag(
            faults=self.faults,
            number=self.count,
            array=access.array,
            access=str(access),
            axis=guard.axis,
            extent=to_text(guard.extent),
            instruction=str(self.kernel.id_to_insn[access.insn_id]),
        )


def _nesting(access: Access) -> int:
    """Return how deep the subscripts and conditions of an access are nested."""
    parts = (*(access.index or ()), *access.place.conditions)
    return max((_DEPTH(part) for part in parts), default=0)


class _Depth(CombineMapper):
    """Find how many subscripts are inside of each other."""

    def combine(self, values: Iterable[int]) -> int:
        return max(values, default=0)

    def map_constant(self, expr: object, *args: object) -> int:
        return 0

    map_variable = map_tagged_variable = map_function_symbol = map_constant
    map_typed_literal = map_constant

    def map_subscript(self, expr: p.Subscript, *args: object) -> int:
        depths: list[int] = [self.rec(index) for index in expr.index_tuple]
        return 1 + max(depths)


_DEPTH = _Depth()
