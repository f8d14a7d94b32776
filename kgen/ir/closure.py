"""Transitive closure: the nodes of a graph that are reachable from given ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

__all__ = ["closure"]

T = TypeVar("T", bound=Hashable)


def closure(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Return *starts* and all that *following* reaches from them; depth first, the last one first.

    >>> list(closure([12], lambda n: [n // 2, n // 3] if n else []))
    [12, 4, 1, 0, 2, 6, 3]
    """
    found: dict[T, None] = {}
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting.extend(following(node))
    return found
