"""Transformations as data: applied to programs, and printed as calls that a user would write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit

__all__ = ["InVectors", "Schedule", "Step", "step", "with_ids"]


@dataclass(frozen=True)
class Step:
    """One call of a transformation, by default on the whole program, else on one of its kernels."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    kernel: str | None = None

    def __call__(self, program: TranslationUnit) -> TranslationUnit:
        """Return the transformed program."""
        if self.kernel is None:
            result: TranslationUnit = self.function(program, *self.args, **self.options)
            return result
        return program.with_kernel(self.function(program[self.kernel], *self.args, **self.options))

    def __str__(self) -> str:
        subject = "knl" if self.kernel is None else f"knl[{self.kernel!r}]"
        options = (f"{name}={_text(value)}" for name, value in self.options.items())
        call = (
            f"lp.{self.function.__name__}({', '.join([subject, *map(_text, self.args), *options])})"
        )
        return f"knl = {call}" if self.kernel is None else f"knl = knl.with_kernel({call})"


def step(function: Callable[..., Any], *args: Any, **options: Any) -> Step:
    """Return the call of a transformation with these arguments."""
    return Step(function, args, options)


class InVectors(tuple[Step, ...]):
    """Steps that are proposed only if the lanes of all accesses become vectors."""

    __slots__ = ()


def _text(value: Any) -> str:
    return f"lp.AddressSpace.{value.name}" if isinstance(value, AddressSpace) else repr(value)


@dataclass(frozen=True)
class Schedule:
    """Transformations in order: a schedule for one kernel, made by :func:`find_schedule`.

    ``str()`` gives the calls as Python, for a program called ``knl`` and kgen imported as ``lp``;
    calling it with a program applies them.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> schedule = Schedule((step(lp.split_iname, "i", 16, inner_tag="unr"),))
    >>> print(schedule)
    knl = lp.split_iname(knl, 'i', 16, inner_tag='unr')
    >>> sorted(schedule(unit).default_entrypoint.inames)
    ['i_inner', 'i_outer']
    """

    steps: tuple[Step, ...] = ()

    def __call__(self, program: TranslationUnit) -> TranslationUnit:
        """Return the program with all transformations applied."""
        for one in self.steps:
            program = one(program)
        return program

    def __add__(self, more: Iterable[Step]) -> Schedule:
        return Schedule((*self.steps, *more))

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def with_ids(names: Iterable[str]) -> str:
    """Return the match expression for instructions of given names.

    >>> with_ids(["load", "store"])
    'id:load or id:store'
    """
    return " or ".join(f"id:{name}" for name in names)
