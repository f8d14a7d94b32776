"""Streaming stores: lanes are assigned to an array, which is stored after their loop."""

from __future__ import annotations

from dataclasses import dataclass

import cgen
import pymbolic.primitives as p

from kgen.ast.nodes import For, Run
from kgen.ast.streams import STREAMED, lanes_of, streamed_runs
from kgen.ir.affine import simplify
from kgen.ir.expr import minus
from kgen.ir.instruction import Assignment
from kgen.ir.types import NumpyType
from kgen.targets.streams import STREAM
from kgen.targets.writers.calls import is_statement
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.pragmas import LONGEST_VECTOR

__all__ = ["StreamedStore", "streamed_stores"]


@dataclass(frozen=True)
class StreamedStore:
    """The code of a streaming store in a loop over lanes."""

    insn_id: str
    #: The array that holds the values of all lanes.
    array: cgen.Generable
    #: The element of the current lane.
    element: str
    #: The store of the array, after the loop.
    store: cgen.Generable


def streamed_stores(writer: ExpressionWriter, loop: For) -> list[StreamedStore]:
    """Return the streaming stores of *loop*; *writer* writes the surrounding code."""
    count = lanes_of(loop) if loop.is_simd and writer.target.streams_lanes else None
    if count is None or writer.kernel.options.trace_assignments:
        return []
    return [
        _streamed_store(writer, loop, run, insn, dtype, count)
        for run in streamed_runs(writer.kernel, loop)
        for insn, dtype in [_assigned(writer, run)]
        if count * dtype.itemsize % STREAMED == 0 and not is_statement(writer, insn.expression)
    ]


def _assigned(writer: ExpressionWriter, run: Run) -> tuple[Assignment, NumpyType]:
    """Return an assignment and its type."""
    insn = writer.kernel.id_to_insn[run.insn_id]
    assert isinstance(insn, Assignment)
    dtype = writer.typer(insn.assignee)
    assert isinstance(dtype, NumpyType)
    return insn, dtype


def _streamed_store(
    writer: ExpressionWriter, loop: For, run: Run, insn: Assignment, dtype: NumpyType, count: int
) -> StreamedStore:
    name = f"{insn.assignee_var_names()[0]}_lanes"
    while name in writer.kernel.all_variable_names():
        name += "_"
    first = {**run.values, loop.iname: loop.first}
    at_first = writer.statement(writer.site, insn.within_inames, first)
    place = at_first.place(insn.assignee, insn.expression, dtype)
    array = cgen.ArrayOf(cgen.Value(writer.type_name(dtype), name), count)
    lane = simplify(minus(p.Variable(loop.iname), loop.first))
    return StreamedStore(
        run.insn_id,
        cgen.AlignedAttribute(LONGEST_VECTOR, array),
        f"{name}[{writer.integers.text(lane)}]",
        cgen.Statement(f"{STREAM}(&{place}, {name}, {count * dtype.itemsize})"),
    )
