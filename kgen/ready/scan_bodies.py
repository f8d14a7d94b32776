"""The instructions of scans: for each element in a loop, or in tiles in local memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.ir.data import GlobalArg, TemporaryVariable
from kgen.ir.expr import Expr, Reduction
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    InstructionBase,
)
from kgen.ir.reductions import ReductionOperation
from kgen.ir.types import AddressSpace
from kgen.ready.indices import Indices
from kgen.ready.operations import FlaggedOperation, operation_of
from kgen.ready.scan_snippets import ScanSnippets
from kgen.ready.statements import Program
from kgen.ready.tiles import TiledScan, Tiling

__all__ = ["ScanBody", "TiledScanBody", "races"]

_BOOL: Final = np.dtype(np.bool_)


class ScanBody:
    """The instructions of a scan in the loops *step*; *source* is the index of its operands."""

    def __init__(
        self, snippets: ScanSnippets, step: Indices, source: Indices, *, stores_results: bool
    ) -> None:
        self.snippets = snippets
        self.stores_results = stores_results
        self.step = step
        self.inames = frozenset(step.inames)
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.results: list[GlobalArg] = []
        self.silenced: list[str] = []
        self.domains: list[str] = []
        self.is_exclusive = snippets.is_exclusive
        self.scope = snippets.signature.scope(step)
        self.operands = snippets.input(snippets.signature.scope(source))
        steps = [*self._scan(), *self._items(), *self._outputs()]
        self.instructions = [self._inside(insn) for insn in steps]

    def _inside(self, insn: InstructionBase) -> InstructionBase:
        if insn.within_inames_is_final:
            return insn
        return insn.copy(within_inames=self.inames, within_inames_is_final=True)

    def _temporary(self, name: str, dtype: Any) -> p.Variable:
        self.temporaries[name] = TemporaryVariable(
            name, dtype, shape=(), address_space=AddressSpace.PRIVATE
        )
        return p.Variable(name)

    def _scan(self) -> Iterator[InstructionBase]:
        """Yield the instructions of the inclusive or exclusive scan."""
        combination = self.snippets.combination
        results = self._result("kgen_before" if self.is_exclusive else "item")
        if len(self.operands) > len(results):
            operation: ReductionOperation = FlaggedOperation(combination)
            results = (*results, self._temporary("kgen_flag", _BOOL))
        else:
            operation = operation_of(combination)
        if len(results) == 1:
            value = Reduction(operation, ("j",), self.operands[0])
            yield Assignment(results[0], value, id="scan")
        else:
            yield CallInstruction(results, Reduction(operation, ("j",), self.operands), id="scan")

    def _result(self, name: str) -> tuple[p.Variable, ...]:
        """Declare the temporaries of a result."""
        snippets = self.snippets
        pairs = zip(snippets.names_of(name), snippets.combination.dtypes, strict=True)
        return tuple(self._temporary(own, dtype) for own, dtype in pairs)

    def _set(self, name: str, values: Sequence[Expr]) -> Iterator[InstructionBase]:
        """Yield the instructions that compute a result."""
        for place, value in zip(self._result(name), values, strict=True):
            yield Assignment(place, value, id=place.name)

    def _items(self) -> Iterator[InstructionBase]:
        """Yield the instructions that read the results of an element and the preceding one."""
        if not self.is_exclusive:
            return
        snippets = self.snippets
        before: Sequence[Expr] = tuple(map(p.Variable, snippets.names_of("kgen_before")))
        value, flags = snippets.split(snippets.input(self.scope))
        starts: Expr = False
        if snippets.is_segmented:
            starts = self._temporary("kgen_starts", _BOOL)
            yield Assignment(starts, flags[0], id="starts")
        if "item" in snippets.uses:
            yield from self._set("item", snippets.combination.of(before, value, starts))
        yield from self._set("prev_item", self._from_start(starts, before))

    def _from_start(self, starts: Expr, before: Sequence[Expr]) -> Sequence[Expr]:
        """Return the preceding result, which is the neutral element at the start of a segment."""
        if not self.snippets.is_segmented:
            return before
        return [p.If(starts, *both) for both in zip(self.snippets.neutral, before, strict=True)]

    def _outputs(self) -> Iterator[InstructionBase]:
        """Yield the instructions that store the results, in separate arrays or by the snippet."""
        snippets = self.snippets
        if self.stores_results:
            dtypes = itertools.cycle(snippets.combination.dtypes)
            for name, dtype in zip(snippets.stored(), dtypes, strict=False):
                self.results.append(GlobalArg(name, dtype, shape=self.step.sizes))
                place = self.step.element(name)
                yield Assignment(place, p.Variable(name.removeprefix("kgen_")), id=f"store_{name}")
            return
        program = snippets.output(snippets.with_results(self.scope), self.step.inames)
        self.temporaries |= program.temporaries
        self.domains = program.domains
        self.silenced = races(program, self.step)
        yield from program.instructions


class TiledScanBody(ScanBody):
    """The instructions of a scan with tiles of elements in local memory."""

    def __init__(self, snippets: ScanSnippets, tiling: Tiling, *, stores_results: bool) -> None:
        self.scan = TiledScan(
            snippets.combination,
            lambda indices: snippets.input(snippets.signature.scope(indices)),
            snippets.signature.size,
            tiling,
        )
        super().__init__(snippets, self.scan.step, self.scan.step, stores_results=stores_results)

    def _inside(self, insn: InstructionBase) -> InstructionBase:
        return insn if isinstance(insn, BarrierInstruction) else super()._inside(insn)

    def _scan(self) -> Iterator[InstructionBase]:
        """Yield the instructions that leave the results in the tile."""
        yield from self.scan.instructions()

    def _items(self) -> Iterator[InstructionBase]:
        return map(self._where_elements_are, self._items_of_tile())

    def _where_elements_are(self, insn: InstructionBase) -> InstructionBase:
        return insn.copy(predicates=insn.predicates | {self.scan.step.condition})

    def _items_of_tile(self) -> Iterator[InstructionBase]:
        snippets, place = self.snippets, self.scan.place
        if self.is_exclusive:
            is_behind = p.Comparison(place, ">", 0)
            items = self.scan.item(p.Sum((place, -1)))
            carries = [p.Variable(f"kgen_carry_{k}") for k in range(len(items))]
            before = [p.If(is_behind, *both) for both in zip(items, carries, strict=True)]
            _, flags = snippets.split(snippets.input(self.scope))
            yield from self._set(
                "prev_item", self._from_start(flags[0] if flags else False, before)
            )
        if not self.is_exclusive or "item" in snippets.uses:
            yield from self._set("item", self.scan.item(place))

    def _outputs(self) -> Iterator[InstructionBase]:
        yield from map(self._where_elements_are, super()._outputs())
        yield from self.scan.carry_on()


def races(program: Program, indices: Indices) -> list[str]:
    """Return the warnings of races to disable, for stores to elements other than x[i]."""
    return [f"write_race({name})" for name in program.scattered(indices.element)]
