"""Budgets of isl operations, after which isl gives up.

The cost of queries about integers is unbounded: projections of loops that are split
several times can keep isl busy for hours. A limit in operations, not in seconds, gives the same
result on every machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sized
from typing import Any, Protocol, TypeVar, cast

import islpy as isl

from kgen.errors import KgenError

__all__ = ["STEP", "answer", "isl_limit", "limited"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: the budget of a query for which 'unknown' is an acceptable answer: some tenths of a second
QUESTION = 100_000

#: the budget of a lowering step, half a minute; more for kernels with many
#: instructions. Tiled matrix products need less than a hundredth of it
STEP = 20_000_000
STEP_PER_INSTRUCTION = 1_000_000

_CONTEXT = isl.DEFAULT_CONTEXT
_PROBE = isl.Space.set_alloc(_CONTEXT, 0, 0)


class HasInstructions(Protocol):
    """The required interface of a kernel: its name, and its instructions."""

    @property
    def name(self) -> str:
        """The name, for messages."""

    @property
    def instructions(self) -> Sized:
        """The instructions, whose number increases the budget."""


class OutOfOperationsError(Exception):
    """isl has exceeded its budget."""


class isl_operations:  # noqa: N801
    """Limit the number of isl operations; beyond it, :class:`OutOfOperationsError` is raised.

    After that, isl rejects every costly operation, so an error that is handled as another one
    cannot lead to wrong results. An enclosing limit is in force again afterwards, and counts from
    0.
    """

    __slots__ = ("around", "most")

    def __init__(self, most: int) -> None:
        self.most = most

    def __enter__(self) -> None:
        self.around = _CONTEXT.get_max_operations()
        _CONTEXT.reset_operations()
        _CONTEXT.set_max_operations(min(self.most, self.around) if self.around else self.most)

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, *trace: object
    ) -> None:
        try:
            if (kind is None or issubclass(kind, Exception)) and _is_exhausted():
                raise OutOfOperationsError from None
        finally:
            _CONTEXT.reset_operations()
            _CONTEXT.set_max_operations(self.around)


def _is_exhausted() -> bool:
    try:
        isl.Set.universe(_PROBE)
    except isl.Error:
        return True
    return False


def answer(question: Callable[[], T], most: int = QUESTION) -> T | None:
    """Return isl's answer, ``None`` if it exceeds the budget."""
    try:
        with isl_operations(most):
            return question()
    except OutOfOperationsError:
        return None


class isl_limit(isl_operations):  # noqa: N801
    """Reject a *step* of a kernel for which isl exceeds the budget, with that *error*.

    Errors inside that name no kernel get the name of this one.
    """

    __slots__ = ("error", "kernel", "step")

    def __init__(self, step: str, kernel: HasInstructions, error: type[KgenError]) -> None:
        super().__init__(STEP + STEP_PER_INSTRUCTION * len(kernel.instructions))
        self.step = step
        self.kernel = kernel
        self.error = error

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, *trace: object
    ) -> None:
        try:
            super().__exit__(kind, raised, *trace)
        except OutOfOperationsError:
            raise self.error(
                f"{self.step} takes isl too long",
                kernel=self.kernel.name,
                because="loops, conditions or subscripts are related to many others by quotients",
                hint="split fewer of these loops, split them by multiples of each other, or do "
                "this step before they are split",
            ) from None
        if isinstance(raised, KgenError):
            raised.name_kernel(self.kernel.name)


def limited(step: str, error: type[KgenError]) -> Callable[[F], F]:
    """Give a function of a kernel, and more arguments, a budget: see :func:`isl_limit`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(kernel: HasInstructions, *args: Any, **kwargs: Any) -> Any:
            with isl_limit(step, kernel, error):
                return function(kernel, *args, **kwargs)

        return cast("F", call)

    return decorate
