"""Proofs that the code of an automatic schedule is right."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from kgen.analysis.axes import has_axes
from kgen.errors import (
    KgenError,
    KgenWarning,
    MissingBarrierError,
    VectorizationWarning,
    is_silenced,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.effort import STEP, answer
from kgen.ir.unit import TranslationUnit
from kgen.lowering import Lowered, generate_module, lower
from kgen.origin import Comparison, compare_with_origin
from kgen.schedule.conflicts import Conflicts
from kgen.schedule.races import RaceKind, find_races
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["Prover"]


class Prover:
    """Lowers programs, and rejects those with errors, new warnings or possible races.

    ``types`` are the assumed types of arguments whose types calls determine. A transformation may
    silence possible races because its assumptions about data exclude them, as :func:`kgen.balance`
    does; races silenced by the user are not proved impossible.
    """

    def __init__(self, program: TranslationUnit, types: Mapping[str, Any]) -> None:
        self.types = types
        self.program = program
        self.known: set[str] = set()
        self.lacks_barrier = False
        self.original = self._lowered(program)
        self.known = self.warned

    def proves(self, program: TranslationUnit) -> bool:
        """Tell whether the code of a program is proved correct, given that of the first one."""
        found = self.lowered(program)
        return found is not None

    def proves_same(self, program: TranslationUnit) -> bool:
        """Tell whether code with inserted barriers computes the same as the first program.

        Barriers order work-items; the absence of races does not prove that this is the order of the
        original loops.
        """
        found = self.lowered(program)
        return found is not None and answer(lambda: self._is_same(found), STEP) is True

    def _is_same(self, found: Lowered) -> bool:
        given = inlined_kernel(self.program, None)
        on_axes = has_axes(found.whole)
        compared = compare_with_origin(
            given, found.whole, found.schedule, self.types, has_axes=on_axes
        )
        return compared == Comparison()

    def lowered(self, program: TranslationUnit) -> Lowered | None:
        """Return the lowered program if it is proved correct."""
        found = self._lowered(program)
        if found is None or self.warned - self.known:
            return None
        if any(launch.is_serial for launch in found.schedule.launches):
            return None
        has_races = answer(lambda: self._has_races(found.whole), STEP)
        return found if has_races is False else None

    def split_vectors(self, program: TranslationUnit) -> set[str]:
        """Return the warnings about vectors whose lanes the code accesses one by one."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            generate_module(inlined_kernel(program, None), None, self.types)
        found = (item for item in caught if issubclass(item.category, VectorizationWarning))
        return {str(item.message) for item in found}

    def _lowered(self, program: TranslationUnit) -> Lowered | None:
        self.lacks_barrier = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return lower(inlined_kernel(program, None), self.types)
            except MissingBarrierError:
                self.lacks_barrier = True
            except KgenError:
                pass
            finally:
                self.warned = {
                    str(item.category) for item in caught if issubclass(item.category, KgenWarning)
                }
        return None

    def _has_races(self, kernel: LoopKernel) -> bool:
        if not has_axes(kernel):
            return False
        given = {name for one in self.program.kernels() for name in one.silenced_warnings}
        assumed = [name for name in kernel.silenced_warnings if name not in given]
        found = find_races(Conflicts(kernel), kernel.id_to_insn)  # type: ignore[arg-type]
        return not all(
            race.kind is RaceKind.POSSIBLE
            and is_silenced(f"write_race({race.access.insn_id})", assumed)
            for race in found
        )
