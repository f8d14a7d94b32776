"""Stores past the cache, in lanes: which they are, and loops in blocks of lanes for them."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.ast.nodes import Block, For, Let, Node, Run
from kgen.ir.affine import linear_form, simplify
from kgen.ir.assignee import index_of
from kgen.ir.expr import TruncQuotient, substitute, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import UnrollHintTag, UseStreamingStoreTag
from kgen.ir.tree import map_children, nodes_in
from kgen.ir.types import AddressSpace, NumpyType
from kgen.schedule.lanes import dependence_in

__all__ = ["is_contiguous", "lanes_of", "streamed_runs", "streams_in_blocks"]

#: The bytes of a line of the cache, which a block of lanes fills.
_LINE = 64


def lanes_of(loop: For) -> int | None:
    """Return the number of iterations of a loop, if that is a constant."""
    count = simplify(p.Sum((loop.stop, p.Product((-1, loop.first)))))
    return count if isinstance(count, int) and loop.step == 1 else None


def streamed_runs(kernel: LoopKernel, loop: For) -> list[Run]:
    """Return the assignments in a loop that are to bypass the cache, and can.

    Neighbouring iterations write neighbouring elements of an array that nothing else in the loop
    uses, under no condition.
    """
    runs = [part for part in nodes_in(loop.body) if isinstance(part, Run)]
    direct = loop.body.children if isinstance(loop.body, Block) else (loop.body,)
    found = []
    for run in direct:
        others = [kernel.id_to_insn[other.insn_id] for other in runs if other is not run]
        if isinstance(run, Run) and _is_streamed(kernel, loop.iname, run):
            insn = kernel.id_to_insn[run.insn_id]
            (name,) = insn.assignee_var_names()
            used = {n for other in others for n in other.dependency_names()}
            if name not in used | insn.read_dependency_names():
                found.append(run)
    return found


def _is_streamed(kernel: LoopKernel, iname: str, run: Run) -> bool:
    insn = kernel.id_to_insn[run.insn_id]
    if (
        not isinstance(insn, Assignment)
        or insn.atomicity
        or not insn.tags_of_type(UseStreamingStoreTag)
    ):
        return False
    array = kernel.array_vars[insn.assignee_var_names()[0]]
    is_number = isinstance(array.dtype, NumpyType) and array.dtype.kind in "iuf"
    is_global = array.address_space == AddressSpace.GLOBAL
    return is_number and is_global and is_contiguous(kernel, iname, run)


def is_contiguous(kernel: LoopKernel, iname: str, run: Run) -> bool:
    """Tell whether neighbouring iterations of a loop assign to neighbouring elements."""
    insn = kernel.id_to_insn[run.insn_id]
    if not isinstance(insn, Assignment):
        return False
    array = kernel.array_vars[insn.assignee_var_names()[0]]
    index = tuple(substitute(part, run.values) for part in index_of(insn.assignee))
    variable = p.Variable(iname)
    if len(index) != len(array.dim_tags or ()):
        return False
    steps = []
    for tag, subscript in zip(array.dim_tags, index, strict=True):
        factors = {atom: factor for factor, atom in linear_form(subscript).terms}
        factor = factors.pop(variable, 0)
        if iname in variable_names(*factors):
            return False
        if factor:
            steps.append(factor * getattr(tag, "stride", 0))
    return steps == [1]


def streams_in_blocks(node: Node, kernel: DeviceKernel) -> Node:
    """Give loops with stores past the cache blocks of lanes that fill a line.

    ::

        for i = 0 .. n       for i_block = 0 .. n - 7 by 8
          S             =>     simd i = i_block .. i_block + 8
                                 S
                             for i = n / 8 * 8 .. n
                               S
    """
    if kernel.target.streams_lanes:
        return _Blocks(kernel).node(node)
    return node


class _Blocks:
    def __init__(self, kernel: DeviceKernel) -> None:
        self.kernel = kernel

    def node(self, node: Node) -> Node:
        if not isinstance(node, For) or any(
            isinstance(part, For | Let) for part in nodes_in(node.body)
        ):
            return map_children(node, self.node)
        if node.is_simd or node.step != 1 or not self._is_simple(node):
            return node
        runs = streamed_runs(self.kernel, node)
        if not runs or self._dependence(node) is not None:
            return node
        return self._in_blocks(node, _LINE // max(map(self._size, runs)))

    def _is_simple(self, loop: For) -> bool:
        """Tell whether a loop sets elements only, and has no hint of its own."""
        runs = [part for part in nodes_in(loop.body) if isinstance(part, Run)]
        written = {
            name
            for run in runs
            for name in self.kernel.id_to_insn[run.insn_id].assignee_var_names()
        }
        has_scalars = any(self.kernel.array_vars[name].shape == () for name in written)
        has_hint = self.kernel.iname_tags_of_type(loop.iname, UnrollHintTag)
        return not has_scalars and not has_hint

    def _dependence(self, loop: For) -> str | None:
        ids = dict.fromkeys(run.insn_id for run in nodes_in(loop.body) if isinstance(run, Run))
        return dependence_in(self.kernel, loop.iname, tuple(ids))

    def _size(self, run: Run) -> int:
        (name,) = self.kernel.id_to_insn[run.insn_id].assignee_var_names()
        return int(self.kernel.array_vars[name].dtype.itemsize)

    def _in_blocks(self, loop: For, lanes: int) -> Node:
        taken = self.kernel.all_variable_names()
        name = f"{loop.iname}_block"
        while name in taken:
            name += "_"
        first = p.Variable(name)
        count = simplify(p.Sum((loop.stop, p.Product((-1, loop.first)))))
        most = max(0, count) if isinstance(count, int) else p.Max((0, count))
        whole = most // lanes if isinstance(most, int) else TruncQuotient(most, lanes)
        rest = simplify(p.Sum((loop.first, p.Product((lanes, whole)))))
        inner = replace(loop, first=first, stop=simplify(p.Sum((first, lanes))), is_simd=True)
        stop = simplify(p.Sum((loop.stop, 1 - lanes)))
        blocks = replace(loop, iname=name, stop=stop, step=lanes, body=inner, comment=None)
        return Block((blocks, replace(loop, first=rest)))
