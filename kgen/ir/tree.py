"""The common part of schedule tree and code tree: children of nodes, and barriers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kgen.ir.expr import Expr, same_objects
from kgen.ir.fields import replace
from kgen.ir.types import Memory, Reach

__all__ = [
    "Barrier",
    "Tree",
    "children_of",
    "exprs_of",
    "has_barrier",
    "map_children",
    "map_exprs",
    "nodes_in",
]


class Tree:
    """A node, which is a frozen dataclass that knows which fields hold nodes and expressions.

    A field holds one of them, ``None``, or several: a tuple of nodes, a dictionary of expressions.
    """

    branches: ClassVar[tuple[str, ...]] = ()
    exprs: ClassVar[tuple[str, ...]] = ()
    _get_branches: ClassVar[operator.attrgetter[Any] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.branches:
            cls._get_branches = operator.attrgetter(*cls.branches)


TreeT = TypeVar("TreeT", bound=Tree)


@dataclass(frozen=True)
class Barrier(Tree):
    """A barrier that makes *memory* consistent; *insn_id* is its instruction, if any.

    ``reach``: whether the work-items of a warp wait for each other, of a group, or of all groups.
    """

    memory: Memory
    reason: str
    insn_id: str | None = None
    reach: Reach = Reach.GROUP

    @property
    def scope(self) -> str:
        """The memory that it makes consistent; ``warp`` if only between work-items of a warp."""
        return "warp" if self.reach is Reach.WARP else str(self.memory)

    def orders(self, memory: Memory, reach: Reach) -> bool:
        """Tell whether it orders accesses to *memory* by work-items within *reach*."""
        return memory in self.memory and reach <= self.reach


def children_of(node: Tree) -> tuple[Any, ...]:
    """Return the nodes directly below."""
    get = node._get_branches
    if get is None:
        return ()
    below = get(node)
    if type(below) is not tuple:
        return (below,)
    if len(node.branches) == 1:
        return below
    return tuple(child for child in below if child is not None)


def nodes_in(root: Tree) -> list[Any]:
    """Return the nodes at *root* and below, in the order of the text."""
    found = list[Any]((root,))
    for child in children_of(root):
        if child.branches:
            found += nodes_in(child)
        else:
            found.append(child)
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
            changed: Any = tuple(map(change, below))
            if not same_objects(changed, below):
                changes[name] = changed
        elif below is not None and (changed := change(below)) is not below:
            changes[name] = changed
    return replace(node, **changes) if changes else node


def map_exprs(node: TreeT, change: Callable[[Expr], Expr]) -> TreeT:
    """Return *node* with its own expressions changed."""
    changes: dict[str, Any] = {}
    for name in node.exprs:
        own = getattr(node, name)
        if not isinstance(own, dict):
            changed = change(own)
            if changed is not own:
                changes[name] = changed
        elif own:
            changes[name] = {key: change(own[key]) for key in own}
    return replace(node, **changes) if changes else node


def has_barrier(node: Tree) -> bool:
    """Tell whether *node*, or a node below it, is a barrier."""
    if not node.branches:
        return isinstance(node, Barrier)
    return any(map(has_barrier, children_of(node)))
