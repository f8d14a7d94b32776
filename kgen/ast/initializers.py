"""Hoisting initial values of variables out of guards that they do not need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import pymbolic.primitives as p

from kgen.ast.nodes import Block, Comment, For, If, Let, Node, Run
from kgen.ir.expr import is_constant, variable_names
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import map_children, nodes_in
from kgen.ir.types import AddressSpace

__all__ = ["hoist_initializers"]


def hoist_initializers(node: Node, kernel: DeviceKernel) -> Node:
    """Hoist constant initial values of private variables out of conditions.

    ::

        if (lid(0) < n) acc = 0;             acc = 0;
        barrier();                     =>    barrier();
        if (lid(0) < n) acc += t[0];         if (lid(0) < n) acc += t[0];

    The variable has no earlier value: the assignment is in no loop, and is its first
    use. If the condition is false, nothing reads it. A variable
    that is used only below the condition stays there.
    """
    starts = {
        insn.id: insn.assignee.name
        for insn in _guarded_insns(node, kernel)
        if isinstance(insn, Assignment) and _is_start(kernel, insn)
    }
    return _InitializerHoister(kernel, starts, node).node(node) if starts else node


def _guarded_insns(root: Node, kernel: DeviceKernel) -> Iterator[InstructionBase]:
    """Yield the instructions directly below conditions."""
    for guard in nodes_in(root):
        if isinstance(guard, If):
            runs = (part for part in _opened(guard.body) if isinstance(part, Run))
            yield from (kernel.id_to_insn[run.insn_id] for run in runs)


def _is_start(kernel: DeviceKernel, insn: Assignment) -> bool:
    """Tell whether a constant is assigned to a private variable."""
    if not isinstance(insn.assignee, p.Variable) or insn.atomicity:
        return False
    temporary = kernel.temporary_variables.get(insn.assignee.name)
    return (
        is_constant(insn.expression)
        and temporary is not None
        and temporary.address_space == AddressSpace.PRIVATE
        and temporary.base_storage is None
    )


class _InitializerHoister:
    """Visits nodes in the order of the text, and counts the uses of variables so far.

    *starts* are the names to which instructions assign constants, by instruction id.
    """

    def __init__(self, kernel: DeviceKernel, starts: Mapping[str, str], root: Node) -> None:
        self.kernel = kernel
        self.starts = starts
        self.names = frozenset(starts.values())
        self.used: Counter[str] = Counter()
        self.all = self._uses(root)

    def node(self, node: Node) -> Node:
        match node:
            case Block():
                parts = (_opened(self.node(child)) for child in node.children)
                return Block(tuple(chain.from_iterable(parts)))
            case Comment() | Let():
                return map_children(node, self.node)
            case If(orelse=None, reads_data=False):
                return self._guarded(node)
        self.used.update(self._uses(node))
        return node

    def _guarded(self, guard: If) -> Node:
        """Hoist assignments out of a condition where possible."""
        inside = self._uses(guard)
        free: list[Node] = []
        rest: list[Node] = []
        for part in _opened(guard.body):
            name = self.starts.get(part.insn_id) if isinstance(part, Run) else None
            is_first = name is not None and not self.used[name] and self.all[name] > inside[name]
            (free if is_first else rest).append(part)
            self.used.update(self._uses(part))
        if not free:
            return guard
        return Block((*free, If(guard.condition, Block(tuple(rest)))) if rest else tuple(free))

    def _uses(self, node: Node) -> Counter[str]:
        """Return how many nodes at *node* and below use each of the names."""
        found: Counter[str] = Counter()
        for part in nodes_in(node):
            used: Iterable[str] = ()
            if isinstance(part, If):
                used = variable_names(part.condition)
            elif isinstance(part, For):
                used = variable_names(part.first, part.stop)
            elif isinstance(part, Run):
                used = self.kernel.id_to_insn[part.insn_id].dependency_names()
            found.update(self.names.intersection(used))
        return found


def _opened(node: Node) -> Iterator[Node]:
    if isinstance(node, Block):
        for child in node.children:
            yield from _opened(child)
    else:
        yield node
