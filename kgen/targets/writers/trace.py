"""Trace statements that print assignments, for debugging."""

from __future__ import annotations

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_NONE, PREC_UNARY

from kgen.ir.expr import Expr, to_text
from kgen.ir.instruction import Assignment
from kgen.ir.types import FLOAT32, FLOAT64, INT32, NumpyType
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["trace"]


def trace(writer: ExpressionWriter, insn: Assignment) -> list[cgen.Generable]:
    """Print the instruction, its loop variables and the assigned value, if options ask for it.

    ``out[i] = a[i]`` prints ``k.insn: i=3 out[i]=2.5``.
    """
    options = writer.kernel.options
    if not (options.trace_assignments or options.trace_assignment_values):
        return []
    shown = [_shown(writer, p.Variable(name), INT32, name) for name in sorted(insn.within_inames)]
    if options.trace_assignment_values:
        dtype = writer.typer(insn.assignee)
        name = to_text(insn.assignee)
        if dtype.is_complex():
            for part in ("real", "imag"):
                call = p.Call(p.Variable(part), (insn.assignee,))
                shown.append(_shown(writer, call, FLOAT64, f"{part}({name})"))
        else:
            shown.append(_shown(writer, insn.assignee, dtype, name))
    formats = " ".join([f"{writer.kernel.name}.{insn.id}:", *(text for text, _ in shown)])
    values = "".join(f", {value}" for _, value in shown)
    writer.preamble.add(*writer.target.print_needs)
    called = writer.target.print_function
    return [cgen.Statement(f'{called}("{formats}\\n"{values})')]


def _shown(writer: ExpressionWriter, expr: Expr, dtype: NumpyType, name: str) -> tuple[str, str]:
    """Return the format of a value, and the value as an argument of ``printf``."""
    plain = writer.target.print_format
    if plain is not None:
        name = name.replace(plain, "mod")  # the format cannot contain that sign
        return f"{name}={plain}", writer.rec(expr, PREC_NONE, dtype)
    name = name.replace("%", "%%")
    if dtype.is_integral():
        return f"{name}=%ld", f"(long) {writer.rec(expr, PREC_UNARY, dtype)}"
    if dtype.is_half:
        return f"{name}=%.5g", f"(float) {writer.rec(expr, PREC_UNARY, dtype)}"
    digits = "%.9g" if dtype == FLOAT32 else "%.17g"
    return f"{name}={digits}", writer.rec(expr, PREC_NONE, dtype)
