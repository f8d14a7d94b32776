"""Streaming stores in lanes: their selection, and loops in blocks of lanes."""

from __future__ import annotations

from typing import Final

import pymbolic.primitives as p

from kgen.ast.nodes import Block, For, Let, Node, Run
from kgen.ir.affine import linear_form, simplify
from kgen.ir.assignee import index_of
from kgen.ir.expr import TruncQuotient, minus, substitute, variable_names
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import UnrollHintTag, UseStreamingStoreTag
from kgen.ir.tree import map_children, nodes_in
from kgen.ir.types import AddressSpace, NumpyType
from kgen.schedule.lanes import dependence_in, is_simd

__all__ = [
    "STREAMED",
    "is_contiguous",
    "lanes_of",
    "streamed_runs",
    "streams_in_blocks",
    "why_not_in_blocks",
    "why_not_streamed",
]

#: Streaming stores write a multiple of so many bytes.
STREAMED: Final = 16
#: The bytes of a cache line, which a block of lanes fills.
_LINE: Final = 64


def lanes_of(loop: For) -> int | None:
    """Return the trip count of a loop, if it is a constant."""
    count = simplify(minus(loop.stop, loop.first))
    return count if isinstance(count, int) and loop.step == 1 else None


def streamed_runs(kernel: LoopKernel, loop: For) -> list[Run]:
    """Return the assignments in a loop that are tagged as streaming stores, and can be."""
    runs = loop.body.children if isinstance(loop.body, Block) else (loop.body,)
    return [
        run
        for run in runs
        if isinstance(run, Run)
        and kernel.id_to_insn[run.insn_id].tags_of_type(UseStreamingStoreTag)
        and why_not_streamed(kernel, loop, run) is None
    ]


def why_not_streamed(kernel: LoopKernel, loop: For, run: Run) -> str | None:
    """Return why an assignment in a loop cannot bypass the cache; ``None`` if it can.

    Adjacent iterations must write adjacent elements of an array that nothing else in the loop
    uses, unconditionally.
    """
    insn = kernel.id_to_insn[run.insn_id]
    if not isinstance(insn, Assignment) or insn.atomicity:
        return f"'{insn.id}' is not a plain assignment"
    (name,) = insn.assignee_var_names()
    array = kernel.array_vars[name]
    if not (isinstance(array.dtype, NumpyType) and array.dtype.dtype.kind in "iuf"):
        return f"the elements of '{name}' are not real numbers"
    if array.address_space != AddressSpace.GLOBAL:
        return f"'{name}' is not in global memory"
    if not is_contiguous(kernel, loop.iname, run):
        return f"adjacent iterations of '{loop.iname}' do not write adjacent elements"
    if run not in (loop.body.children if isinstance(loop.body, Block) else (loop.body,)):
        return "it is under a condition"
    others = (part for part in nodes_in(loop.body) if isinstance(part, Run) and part is not run)
    used = {n for part in others for n in kernel.id_to_insn[part.insn_id].dependency_names()}
    if name in used | insn.read_dependency_names():
        return f"'{name}' has other uses in the loop"
    return None


def is_contiguous(kernel: LoopKernel, iname: str, run: Run) -> bool:
    """Tell whether adjacent iterations of a loop assign to adjacent elements."""
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
    """Split loops with streaming stores into blocks of lanes that fill a cache line.

    ::

        for i = 0 .. n       for i_block = 0 .. n - 7 by 8
          S             =>     simd i = i_block .. i_block + 8
                                 S
                             for i = n / 8 * 8 .. n
                               S
    """
    has_any = any(insn.tags_of_type(UseStreamingStoreTag) for insn in kernel.instructions)
    return _Blocks(kernel).node(node) if has_any and kernel.target.streams_lanes else node


def why_not_in_blocks(kernel: LoopKernel, loop: For) -> str | None:
    """Return why a loop that is not vectorized cannot run in blocks of lanes; ``None`` if it can.

    It must set only elements, be innermost, and have no hint of its own.
    """
    inside = [part.name for part in nodes_in(loop.body) if isinstance(part, For | Let)]
    if inside:
        return f"'{inside[0]}' is inside of the loop"
    if loop.step != 1 or kernel.iname_tags_of_type(loop.iname, UnrollHintTag):
        return f"'{loop.iname}' is unrolled, or runs in steps"
    runs = [part for part in nodes_in(loop.body) if isinstance(part, Run)]
    for run in runs:
        for name in kernel.id_to_insn[run.insn_id].assignee_var_names():
            if kernel.array_vars[name].shape == ():
                return f"the loop also sets '{name}'"
    return dependence_in(kernel, loop.iname, tuple(dict.fromkeys(run.insn_id for run in runs)))


class _Blocks:
    def __init__(self, kernel: DeviceKernel) -> None:
        self.kernel = kernel

    def node(self, node: Node) -> Node:
        if not isinstance(node, For) or any(
            isinstance(part, For | Let) for part in nodes_in(node.body)
        ):
            return map_children(node, self.node)
        if node.is_simd and self._is_tile(node):
            return node
        runs = streamed_runs(self.kernel, node)
        if not runs or why_not_in_blocks(self.kernel, node) is not None:
            return node
        return self._in_blocks(node, _LINE // max(map(self._size, runs)))

    def _is_tile(self, loop: For) -> bool:
        """Tell whether a loop has the user's number of lanes, or is the remainder of such loops."""
        is_bounded = self.kernel.get_iname_bounds(loop.iname).interval.high is not None
        is_chosen = is_bounded and is_simd(self.kernel, loop.iname)
        return is_chosen or lanes_of(loop) is not None

    def _size(self, run: Run) -> int:
        (name,) = self.kernel.id_to_insn[run.insn_id].assignee_var_names()
        return int(self.kernel.array_vars[name].dtype.itemsize)

    def _in_blocks(self, loop: For, lanes: int) -> Node:
        taken = self.kernel.all_variable_names()
        name = f"{loop.iname}_block"
        while name in taken:
            name += "_"
        first = p.Variable(name)
        count = simplify(minus(loop.stop, loop.first))
        most = max(0, count) if isinstance(count, int) else p.Max((0, count))
        whole = most // lanes if isinstance(most, int) else TruncQuotient(most, lanes)
        rest = simplify(p.Sum((loop.first, p.Product((lanes, whole)))))
        inner = replace(loop, first=first, stop=simplify(p.Sum((first, lanes))), is_simd=True)
        stop = simplify(p.Sum((loop.stop, 1 - lanes)))
        blocks = replace(loop, iname=name, stop=stop, step=lanes, body=inner, comment=None)
        return Block((blocks, replace(loop, first=rest)))
