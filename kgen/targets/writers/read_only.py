"""Read-only arrays, hidden from nvcc where it would merge their loads with those of others."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import cgen
import pymbolic.primitives as p

from kgen.ast.nodes import DeviceFunction, If, Node
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.pieces import piece_names
from kgen.ir.tree import nodes_in
from kgen.ir.types import NumpyType
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["hide_read_only"]

_REASON = "or nvcc merges reads of these with reads of what is written, and takes both for constant"


def hide_read_only(writer: ExpressionWriter, function: DeviceFunction) -> list[cgen.Generable]:
    """Prevent nvcc from reading elements that a function writes as if they were constant.

    For ``x[i] if c else y[i]``, nvcc 13.0 generates one load, from an address in ``x`` or ``y``. If
    the function writes only ``y``, nvcc treats it like a load from ``x``, which is constant during
    the launch (``ld.global.nc``), and so may read previous values of ``y``.
    An empty ``asm`` statement, which might write to ``x``, prevents this. NVIDIA's OpenCL uses the
    same compiler.
    """
    hidden = writer.target.hidden_pointer
    if hidden is None or _is_straight(writer.kernel, function):
        return []
    names = list(chain.from_iterable(_read_beside_written(writer.kernel, function)))
    if not names:
        return []
    writer.preamble.add(*writer.target.hidden_pointer_needs)
    return [cgen.LineComment(_REASON), *(cgen.Statement(hidden.format(name)) for name in names)]


def _read_beside_written(kernel: LoopKernel, function: DeviceFunction) -> list[tuple[str, ...]]:
    """Return the read-only arrays of each element type for which an array is also written."""
    insns = [kernel.id_to_insn[name] for name in function.insn_ids]
    written = {name for insn in insns for name in insn.assignee_var_names()}
    read = {name for insn in insns for name in insn.read_dependency_names()}
    arrays = {n: kernel.array_vars[n] for n in function.arguments if n in kernel.array_vars}
    sizes = {
        arrays[name].dtype.itemsize
        for name in written & read & arrays.keys()
        if isinstance(arrays[name].dtype, NumpyType)
    }
    return [
        piece_names(array)
        for name, array in arrays.items()
        if name not in written
        and isinstance(array.dtype, NumpyType)
        and array.dtype.itemsize in sizes
    ]


def _is_straight(kernel: LoopKernel, function: DeviceFunction) -> bool:
    """Tell whether no value in a function comes from one of two places."""
    body: Node = function.body
    while isinstance(body, If) and body.orelse is None:
        body = body.body
    insns = [kernel.id_to_insn[name] for name in function.insn_ids]
    names = chain.from_iterable(insn.assignee_var_names() for insn in insns)
    writes = Counter(name for name in names if name in kernel.temporary_variables)
    has_two_sources = max(writes.values(), default=0) > 1
    if has_two_sources or any(isinstance(node, If) for node in nodes_in(body)):
        return False
    has_branches = any(insn.reads.has(p.If, p.LogicalAnd, p.LogicalOr) for insn in insns)
    return not has_branches and all(isinstance(insn, Assignment) for insn in insns)
