"""Programs made of mutants: what became of each, and whether that is what a user may see."""

from __future__ import annotations

import inspect
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import kgen as lp
from kgen.ir.unit import TranslationUnit
from tests.malformed.corpus import Call, Source, sources
from tests.malformed.mutants import mutated_call, mutated_source

#: What every refusal has to name: a kernel or a part of one, an argument, or a place in a text.
_PLACE = re.compile(
    r"kernel|program|instruction|iname|loop|argument|array|variable|parameter|rule|domain|line \d+"
    r"|column|field|axis|option|target|function|assumption|version|queue|temporar|dtype|'.*'|\w+= ",
    re.DOTALL,
)
_FUNCTIONS_OF_NO_KERNEL = {"make_einsum", "make_copy_kernel", "to_kgen_type", "parse_reduction_op"}
_FUNCTIONS_OF_KERNELS = {"fuse_kernels", "merge"}


@dataclass
class Outcome:
    """The steps of a program, and the error that ended it."""

    seed: int
    steps: list[str] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def fault(self) -> str | None:
        """Why a user should not see this error; ``None`` for none, and for a good one."""
        if self.error is None:
            return None
        if not isinstance(self.error, lp.KgenError):
            return f"raw {type(self.error).__name__}"
        if not _PLACE.search(str(self.error)):
            return "names no place"
        return None

    def __str__(self) -> str:
        error = "" if self.error is None else "".join(traceback.format_exception(self.error)[-9:])
        return "\n".join([f"seed {self.seed}: {self.fault}", *self.steps, error])

    def try_step(self, text: str, step: Callable[[], Any]) -> Any:
        """Do a step; ``None`` where it ends in an error."""
        self.steps.append(text)
        try:
            return step()
        except Exception as err:  # what came is looked at by its type
            self.error = err
            return None


def _made(outcome: Outcome, source: Source) -> Any:
    options = dict(source.options)
    text = f"lp.make_kernel({source.domains!r}, {source.instructions!r}, **{options!r})"
    return outcome.try_step(
        text, lambda: lp.make_kernel(source.domains, source.instructions, **options)
    )


def _binds(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def leading_arguments(function: str, unit: Any) -> tuple[Any, ...]:
    """Return what a public function takes before the arguments of a :class:`Call`."""
    if function in _FUNCTIONS_OF_NO_KERNEL:
        return ()
    return ([unit, unit],) if function in _FUNCTIONS_OF_KERNELS else (unit,)


def _called(outcome: Outcome, call: Call, unit: Any) -> Any:
    function, kwargs = getattr(lp, call.name), dict(call.kwargs)
    args = (*leading_arguments(call.name, unit), *call.args)
    if not _binds(function, args, kwargs):
        return unit  # Python's own TypeError
    result = outcome.try_step(f"lp.{call}", lambda: function(*args, **kwargs))
    if isinstance(result, lp.ToCountMap):
        outcome.try_step("str(result)", lambda: str(result))
    return result


_ENDS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("generate_code_v2", lambda unit: lp.generate_code_v2(unit).device_code()),
    ("print", str),
    ("generate_code_v2", lambda unit: lp.generate_code_v2(unit).device_code()),
    ("get_op_map", lambda unit: str(lp.get_op_map(unit, subgroup_size=32))),
    ("get_mem_access_map", lambda unit: str(lp.get_mem_access_map(unit, subgroup_size="guess"))),
    ("verify", lambda unit: str(lp.verify(unit))),
)


def run_program(seed: int) -> Outcome:
    """Make a kernel, transform it, and generate code or count."""
    rng, outcome = random.Random(seed), Outcome(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if rng.random() < 0.4:
            _made(outcome, mutated_source(rng))
            return outcome
        unit = _made(outcome, mutated_source(rng) if rng.random() < 0.3 else rng.choice(sources()))
        for _ in range(rng.choice((0, 1, 1, 2))):
            if outcome.error is not None or not isinstance(unit, TranslationUnit):
                return outcome
            unit = _called(outcome, mutated_call(rng, unit), unit)
        if outcome.error is None and isinstance(unit, TranslationUnit) and rng.random() < 0.6:
            name, end = rng.choice(_ENDS)
            outcome.try_step(name, lambda: end(unit))
    return outcome


def faults(seeds: Iterable[int]) -> list[Outcome]:
    """Return the programs that end in what no user should see."""
    return [outcome for outcome in map(run_program, seeds) if outcome.fault is not None]
