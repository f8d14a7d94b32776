"""loopy.schedule.tree: trees whose nodes are values, such as names of loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from constantdict import constantdict

from kgen.errors import InvalidValueError, KgenError, near_names

__all__ = ["NodeT", "Tree"]

NodeT = TypeVar("NodeT", bound=Hashable)


class NoSuchNodeError(KgenError, KeyError):
    """A node that a tree does not have; also a ``KeyError``."""

    __str__ = RuntimeError.__str__


@dataclass(frozen=True)
class Tree(Generic[NodeT]):
    """A tree of different values. It is immutable: methods return changed copies.

    >>> loops = Tree.from_root("").add_node("i", parent="").add_node("j", parent="i")
    >>> print(loops.add_node("k", parent="i"))
    <BLANKLINE>
    └── i
        ├── j
        └── k

    Raises a ``KeyError`` for a node that is not in the tree, a ``ValueError`` for a second one.
    """

    root: NodeT
    _children: Mapping[NodeT, tuple[NodeT, ...]]

    @staticmethod
    def from_root(root: NodeT) -> Tree[NodeT]:
        """Return the tree of one node."""
        return Tree(root, constantdict({root: ()}))

    def __contains__(self, node: object) -> bool:
        return node in self._children

    def children(self, node: NodeT) -> tuple[NodeT, ...]:
        """Return the nodes directly below a node, in the order in which they were added."""
        self._require(node)
        return self._children[node]

    def parent(self, node: NodeT) -> NodeT | None:
        """Return the node above; ``None`` for the root."""
        self._require(node)
        return next((above for above, below in self._children.items() if node in below), None)

    def ancestors(self, node: NodeT) -> tuple[NodeT, ...]:
        """Return all nodes above, the root last."""
        if self.is_root(node):
            return ()
        above = self.parent(node)
        assert above is not None
        return (above, *self.ancestors(above))

    def depth(self, node: NodeT) -> int:
        """Return how many nodes are above."""
        return len(self.ancestors(node))

    def is_root(self, node: NodeT) -> bool:
        """Tell whether no node is above."""
        self._require(node)
        return node == self.root

    def is_leaf(self, node: NodeT) -> bool:
        """Tell whether no node is below."""
        return not self.children(node)

    def nodes(self) -> Iterator[NodeT]:
        """Yield all nodes, each before those below it."""
        open_nodes = [self.root]
        while open_nodes:
            node = open_nodes.pop()
            yield node
            open_nodes += reversed(self._children[node])

    def add_node(self, node: NodeT, parent: NodeT) -> Tree[NodeT]:
        """Return a tree with one more node, the last one below *parent*."""
        self._reject(node)
        below = (*self.children(parent), node)
        return self._with({**self._children, parent: below, node: ()})

    def replace_node(self, node: NodeT, new_node: NodeT) -> Tree[NodeT]:
        """Return a tree with another value in the place of *node*."""
        self._require(node)
        self._reject(new_node)
        names = {one: new_node if one == node else one for one in self._children}
        changed = {
            names[above]: tuple(names[one] for one in below)
            for above, below in self._children.items()
        }
        return dataclasses.replace(self._with(changed), root=names[self.root])

    def move_node(self, node: NodeT, new_parent: NodeT | None) -> Tree[NodeT]:
        """Return a tree in which *node*, with all below it, is the last one below *new_parent*."""
        old = self.parent(node)
        if old is None or new_parent is None or node in (new_parent, *self.ancestors(new_parent)):
            raise InvalidValueError(
                f"'{node}' cannot be moved below '{new_parent}'",
                hint="the root stays, and nodes are not moved below themselves",
            )
        without = tuple(one for one in self._children[old] if one != node)
        changed = {**self._children, old: without}
        return self._with({**changed, new_parent: (*changed[new_parent], node)})

    def __str__(self) -> str:
        return "\n".join((str(self.root), *self._lines_below(self.root)))

    def _lines_below(self, node: NodeT) -> Iterator[str]:
        below = self._children[node]
        for one in below:
            first, others = ("└── ", "    ") if one == below[-1] else ("├── ", "│   ")
            yield f"{first}{one}"
            yield from (others + line for line in self._lines_below(one))

    def _with(self, children: dict[NodeT, tuple[NodeT, ...]]) -> Tree[NodeT]:
        return dataclasses.replace(self, _children=constantdict(children))

    def _require(self, node: NodeT) -> None:
        if node not in self:
            known = [str(one) for one in self._children]
            raise NoSuchNodeError(f"'{node}' is not in the tree", hint=near_names(str(node), known))

    def _reject(self, node: NodeT) -> None:
        if node in self:
            raise InvalidValueError(f"'{node}' is in the tree already", hint="nodes differ")
