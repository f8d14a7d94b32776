"""Sets with an order, such as the conditions of an instruction, which are evaluated in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

__all__ = ["OrderedSet"]

T_co = TypeVar("T_co", covariant=True)


class OrderedSet(frozenset[T_co]):
    """A frozen set whose items have an order; two with different orders are not equal.

    Items of a set without order come in the order of their texts. New items of a union come last.

    >>> both = OrderedSet("ba") | {"d", "c", "a"}
    >>> list(both), list(both - {"a"}), both == {"a", "b", "c", "d"}, both == OrderedSet("abcd")
    (['b', 'a', 'c', 'd'], ['b', 'c', 'd'], True, False)
    """

    order: tuple[T_co, ...]

    def __new__(cls, items: Iterable[T_co] = ()) -> OrderedSet[T_co]:
        given = dict.fromkeys(_in_order(items))
        self = super().__new__(cls, given)
        self.order = tuple(given)
        return self

    def __iter__(self) -> Iterator[T_co]:
        return iter(self.order)

    def union(self, *others: Iterable[Any]) -> OrderedSet[Any]:
        """Return this set, followed by the other items."""
        return OrderedSet(item for items in (self, *others) for item in _in_order(items))

    def difference(self, *others: Iterable[Any]) -> OrderedSet[T_co]:
        """Return the items that are in none of the others."""
        gone = frozenset[Any]().union(*others)
        return OrderedSet(item for item in self.order if item not in gone)

    def intersection(self, *others: Iterable[Any]) -> OrderedSet[T_co]:
        """Return the items that are in all others."""
        kept = frozenset.intersection(self, *others)
        return OrderedSet(item for item in self.order if item in kept)

    def __or__(self, other: AbstractSet[Any]) -> OrderedSet[Any]:
        return self.union(other)

    def __sub__(self, other: AbstractSet[Any]) -> OrderedSet[T_co]:
        return self.difference(other)

    def __and__(self, other: AbstractSet[Any]) -> OrderedSet[T_co]:
        return self.intersection(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OrderedSet):
            return self.order == other.order
        return frozenset.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = frozenset.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedSet, (self.order,)

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """Make this a part of keys of pytools' persistent dictionaries."""
        key_builder.rec(key_hash, self.order)

    def __repr__(self) -> str:
        return f"frozenset({{{', '.join(map(repr, self.order))}}})" if self.order else "frozenset()"


def _in_order(items: Iterable[Any]) -> Iterable[Any]:
    is_open = isinstance(items, AbstractSet) and not isinstance(items, OrderedSet)
    return sorted(items, key=str) if is_open else items
