"""The common part of schedule tree and code tree: children of nodes, and barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kgen.ir.expr import Expr
from kgen.ir.fields import replace
from kgen.ir.types import Memory

__all__ = ["Barrier", "Tree", "children_of", "exprs_of", "has_barrier", "map_children", "map_exprs"]


class Tree:
    """A node, which is a frozen dataclass: which of its fields hold nodes, and expressions.

    A field holds one of them, ``None``, or several: a tuple of nodes, a dictionary of expressions.
    """

    branches: ClassVar[tuple[str, ...]] = ()
    exprs: ClassVar[tuple[str, ...]] = ()


TreeT = TypeVar("TreeT", bound=Tree)


@dataclass(frozen=True)
class Barrier(Tree):
    """All work-items of a group wait; made consistent: *memory*."""

    memory: Memory
    reason: str


def children_of(node: Tree) -> tuple[Any, ...]:
    """Return the nodes directly below."""
    found: tuple[Any, ...] = ()
    for name in node.branches:
        below = getattr(node, name)
        found += below if isinstance(below, tuple) else () if below is None else (below,)
    return found


def exprs_of(node: Tree) -> tuple[Expr, ...]:
    """Return the expressions of a node, without those of the nodes below."""
    found: tuple[Any, ...] = ()
    for name in node.exprs:
        own = getattr(node, name)
        found += tuple(own.values()) if isinstance(own, dict) else (own,)
    return found


def map_children(node: TreeT, change: Callable[[Any], Any]) -> TreeT:
    """Return *node* with each node directly below changed."""
    changes: dict[str, Any] = {}
    for name in node.branches:
        below = getattr(node, name)
        if isinstance(below, tuple):
            changes[name] = tuple(map(change, below))
        elif below is not None and (changed := change(below)) is not below:
            changes[name] = changed
    return replace(node, **changes) if changes else node


def map_exprs(node: TreeT, change: Callable[[Expr], Expr]) -> TreeT:
    """Return *node* with its own expressions changed."""
    changes: dict[str, Any] = {}
    for name in node.exprs:
        own = getattr(node, name)
        is_one = not isinstance(own, dict)
        changes[name] = change(own) if is_one else {key: change(own[key]) for key in own}
    return replace(node, **changes) if changes else node


def has_barrier(node: Tree) -> bool:
    """Tell whether a barrier is *node*, or below it."""
    return isinstance(node, Barrier) or any(map(has_barrier, children_of(node)))
