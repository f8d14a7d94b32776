"""Immutable tuples and maps of kernels, with the usual operations for changed copies."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import SupportsIndex, TypeVar, overload

from constantdict import constantdict

__all__ = ["Joinable", "Parts", "Table"]

P = TypeVar("P")


class Parts(tuple[P, ...]):
    """Domains, instructions or arguments of a kernel: a tuple that can be joined with lists.

    Slices and copies are lists, which can be changed and passed to ``kernel.copy``.

    >>> Parts([1, 2]) + [3], [0] + Parts([1, 2]), Parts([1, 2])[:], Parts([1, 2]).copy()
    ((1, 2, 3), (0, 1, 2), [1, 2], [1, 2])
    """

    __slots__ = ()

    @overload  # type: ignore[override]
    def __getitem__(self, index: SupportsIndex, /) -> P: ...

    @overload
    def __getitem__(self, index: slice, /) -> list[P]: ...

    def __getitem__(self, index: SupportsIndex | slice, /) -> P | list[P]:
        if isinstance(index, slice):
            return list(super().__getitem__(index))
        return super().__getitem__(index)

    def __add__(self, more: Iterable[P]) -> Parts[P]:  # type: ignore[override]
        return Parts((*self, *more))

    def __radd__(self, before: Iterable[P]) -> Parts[P]:
        return Parts((*before, *self))

    def copy(self) -> list[P]:
        """Return a list of the same parts."""
        return list(self)


class Joinable(tuple[P, ...]):
    """Loop nestings, outer loops first, or words: a tuple with the operations of a set.

    >>> nestings = Joinable([("i", "j")]) | {("j", "k"), ("i", "j")}
    >>> nestings, nestings - {("i", "j")}, nestings.union([("k", "m")], [("i", "k")])
    ((('i', 'j'), ('j', 'k')), (('j', 'k'),), (('i', 'j'), ('j', 'k'), ('k', 'm'), ('i', 'k')))
    """

    __slots__ = ()

    def __or__(self, more: Iterable[P]) -> Joinable[P]:
        return Joinable((*self, *sorted(set(more).difference(self))))  # type: ignore[type-var]

    __ror__ = __or__

    def union(self, *more: Iterable[P]) -> Joinable[P]:
        """Return the items of this and of *more*, each once."""
        return functools.reduce(operator.or_, more, self)

    def difference(self, *removed: Iterable[P]) -> Joinable[P]:
        """Return the items that are in none of *removed*."""
        rest = set(self).difference(*removed)
        return Joinable(item for item in self if item in rest)

    def __sub__(self, removed: Iterable[P]) -> Joinable[P]:
        return self.difference(removed)

    def copy(self) -> Joinable[P]:
        """Return the same items, as a frozenset's does."""
        return self


class Table(constantdict[str, P]):
    """Objects of a kernel by name: an immutable map whose copies are ordinary dicts.

    >>> changed = Table({"a": 1}).copy()
    >>> changed["b"] = 2
    >>> changed
    {'a': 1, 'b': 2}
    """

    def copy(self) -> dict[str, P]:
        """Return a dict with the same entries."""
        return dict(self)
