"""A kernel that is lazily derived from another one, on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Generic, TypeVar

from kgen.errors import KgenError

__all__ = ["Pending"]

K = TypeVar("K")


class Pending(Generic[K]):
    """The result of *change* on the kernel *before*, or *otherwise* if that fails.

    If a change that *may_fail* is impossible, the result is the kernel *before*.

    >>> Pending(Pending(1, lambda one: one + 1), lambda two: 2*two).kernel
    4
    """

    def __init__(
        self,
        before: K | Pending[K],
        change: Callable[[K], K],
        *,
        may_fail: bool = False,
        otherwise: K | None = None,
    ) -> None:
        self.before = before
        self.change = change
        self.may_fail = may_fail
        self.otherwise = otherwise

    def or_else(self, kernel: K) -> Pending[K]:
        """Return this, with *kernel* as the alternative."""
        if self.otherwise is not None:
            return self
        return Pending(self.before, self.change, may_fail=self.may_fail, otherwise=kernel)

    @cached_property
    def kernel(self) -> K | None:
        """The kernel; ``None`` if the change is impossible and there is no alternative."""
        for earlier in reversed(list(self._unmade())):  # oldest first: chains may be long
            earlier.kernel  # noqa: B018
        before = self.before.kernel if isinstance(self.before, Pending) else self.before
        if before is None:
            return self.otherwise
        try:
            return self.change(before)
        except (KgenError, TypeError):
            return before if self.may_fail else self.otherwise

    def _unmade(self) -> Iterator[Pending[K]]:
        earlier = self.before
        while isinstance(earlier, Pending) and "kernel" not in vars(earlier):
            yield earlier
            earlier = earlier.before
