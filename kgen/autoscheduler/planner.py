"""Building a schedule for one kernel: steps are kept if the code is proved right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kgen.autoscheduler.nests import Nest, find_nests
from kgen.autoscheduler.proof import Prover
from kgen.autoscheduler.stated import Stated
from kgen.autoscheduler.steps import InVectors, Schedule, Step, step, with_ids
from kgen.errors import KgenError
from kgen.ir.unit import TranslationUnit, kernels_of
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.storage.declarations import set_options
from kgen.transforms.sync import add_barrier

__all__ = ["Planner", "Recipe"]

#: The maximum depth of loops that are entered in search of a parallel one.
_DEPTH = 3


class Recipe(Protocol):
    """Yields the transformations of a nest for a kind of device, best first."""

    def __call__(self, planner: Planner, nest: Nest) -> Iterator[Sequence[Step]]: ...


class Planner:
    """Adds steps to the schedule of a program, nest by nest."""

    def __init__(
        self, program: TranslationUnit, kernel: str, types: Mapping[str, Any], stated: Stated
    ) -> None:
        self.program = program
        self.kernel = kernel
        self.stated = stated
        self.prover = Prover(program, types)
        self.schedule = Schedule()
        self._parallel: dict[tuple[tuple[str, ...], str], Schedule | None] = {}

    def plan(self, recipe: Recipe) -> Schedule:
        """Return the steps that a recipe proposes for the nests of the kernel."""
        for nest in self.nests:
            self.plan_nest(recipe, nest)
        return self.schedule

    @property
    def nests(self) -> tuple[Nest, ...]:
        """The outermost nests of the kernel, in order; none of a kernel that has no code."""
        original = self.prover.original
        given = self.program[self.kernel]
        if original is None or any(insn.no_sync_with for insn in given.instructions):
            return ()
        return tuple(find_nests(given, original.whole, original.schedule, self.stated.trips))

    def plan_nest(self, recipe: Recipe, nest: Nest, depth: int = _DEPTH) -> None:
        """Add the first steps of a recipe that are proved correct, for a nest or nests in it."""
        if nest.is_on_axes:
            return
        for steps in recipe(self, nest):
            found = self.extended(nest, steps)
            if found is not None and self._is_in_vectors(steps, found):
                self.schedule = found
                return
        for inner in nest.deeper() if depth else ():
            self.plan_nest(recipe, inner, depth - 1)

    def _is_in_vectors(self, steps: Sequence[Step], found: Schedule) -> bool:
        """Tell whether lanes are vectors, if the steps require that."""
        if not isinstance(steps, InVectors):
            return True
        warned = self.prover.split_vectors(found(self.program))
        return not warned or warned <= self.prover.split_vectors(self.schedule(self.program))

    def is_parallel(self, nest: Nest, iname: str) -> bool:
        """Tell whether iterations of a loop are proved to be independent of each other."""
        return self._with_threads(nest, iname) is not None

    def parallel_loops(self, nest: Nest) -> list[str]:
        """Return the loops of a nest whose iterations are independent, except reductions."""
        band = [name for name in nest.band if name not in nest.reduced]
        return [name for name in band if self.is_parallel(nest, name)]

    def is_launched_often(self, nest: Nest, iname: str) -> bool:
        """Tell whether a parallel loop ends in each iteration of the loops around it."""
        found = self._with_threads(nest, iname)
        return found is not None and any(one.function is set_options for one in found)

    def _with_threads(self, nest: Nest, iname: str) -> Schedule | None:
        key = nest.insn_ids, iname
        if key not in self._parallel:
            tagged = step(tag_inames, f"{iname}:g.0")
            free = nest.is_free(iname)
            self._parallel[key] = self.extended(nest, (tagged,)) if free else None
        return self._parallel[key]

    def extended(self, nest: Nest, steps: Iterable[Step]) -> Schedule | None:
        """Return the schedule with more steps and their barriers, if it is proved correct."""
        for more in (tuple(steps), (*steps, *_barriers(nest))):
            schedule = self.schedule + map(self._on_kernel, more)
            if self._is_proved(schedule):
                return schedule
            if self.prover.lacks_barrier:
                option = self._on_kernel(step(set_options, insert_gbarriers=True))
                split = Schedule((*schedule, option))
                if self._is_proved(split, self.prover.proves_same):
                    return split
        return None

    def _on_kernel(self, one: Step) -> Step:
        """Restrict a step to the kernel if the program has others."""
        several = len(kernels_of(self.program)) > 1
        return Step(one.function, one.args, one.options, self.kernel) if several else one

    def _is_proved(
        self, schedule: Schedule, proves: Callable[[TranslationUnit], bool] | None = None
    ) -> bool:
        try:
            program = schedule(self.program)
        except KgenError:
            self.prover.lacks_barrier = False
            return False
        return (proves or self.prover.proves)(program)


def _barriers(nest: Nest) -> Iterator[Step]:
    """Yield steps that give a nest a launch of its own."""
    own = [str(insn.id) for insn in nest.instructions]
    for first, second in ((nest.before, own), (own, nest.after)):
        if first and second:
            within = {"within_inames": list(nest.around)} if nest.around else {}
            yield step(add_barrier, with_ids(first), with_ids(second), **within)
