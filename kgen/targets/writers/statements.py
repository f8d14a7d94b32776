"""Instructions as C statements."""

from __future__ import annotations

import textwrap
from typing import Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_NONE, PREC_UNARY

from kgen.errors import CodegenError
from kgen.ir.assignee import assignee_name
from kgen.ir.expr import Expr, LinearSubscript, SubArrayRef, is_constant, to_text
from kgen.ir.functions import find_function
from kgen.ir.instruction import (
    Assignment,
    CallInstruction,
    CInstruction,
    InstructionBase,
    NoOpInstruction,
    UseStreamingStoreTag,
)
from kgen.ir.tags import AsyncCopyTag, CopyCommitTag, CopyWaitTag, PublishTag
from kgen.ir.types import INT32, NumpyType
from kgen.targets.base import ComplexStyle
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.writers.access import is_pointer
from kgen.targets.writers.async_copies import (
    ASYNC_SIZES,
    emit_async_copy,
    emit_commit,
    wait_for_copies,
)
from kgen.targets.writers.atomics import atomic_statements, is_atomic
from kgen.targets.writers.calls import is_statement
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.look_back import emit_publication
from kgen.targets.writers.losses import warn_of_losses
from kgen.targets.writers.negations import hidden, is_stored_negation, is_stored_subscript
from kgen.targets.writers.terms import signed_terms
from kgen.targets.writers.trace import trace

__all__ = ["declare_and_assign", "statements_of"]

#: Types that streaming stores support.
_STREAMED: Final = frozenset({"int32", "int64", "uint32", "uint64", "float32", "float64"})


def statements_of(
    builder: ASTBuilderBase, writer: ExpressionWriter, insn: InstructionBase
) -> list[cgen.Generable]:
    """Write *insn* at the site of *writer*."""
    tagged = _tagged_statements(writer, insn)
    if tagged is not None:
        return tagged
    match insn:
        case Assignment():
            if is_atomic(writer, insn):
                warn_of_losses(writer, insn, writer.typer(insn.assignee))
                return [*atomic_statements(writer, insn), *trace(writer, insn)]
            return [*_assign(builder, writer, insn), *trace(writer, insn)]
        case CInstruction():
            return [_snippet(builder, writer, insn)]
        case NoOpInstruction():
            return []
        case CallInstruction():
            called = _call(writer, insn)
            if called is not None:
                return called
    what = "a call with several results" if isinstance(insn, CallInstruction) else "this"
    problem = f"instruction '{insn.id}' is {what}, which {writer.target.language} does not support"
    hint = "inline the called function, or assign its results one by one"
    if isinstance(insn, CallInstruction) and isinstance(insn.expression, p.Call):
        name = to_text(insn.expression.function)
        if find_function(writer.kernel, name) is None:
            problem = f"there is no function '{name}'"
            hint = f"merge([program, ...]) adds the kernel '{name}', register_callable a function"
    raise CodegenError(problem, where=f"instruction '{insn}'", hint=hint)


def _tagged_statements(
    writer: ExpressionWriter, insn: InstructionBase
) -> list[cgen.Generable] | None:
    """Write asynchronous copies, waits, and published values; ``None`` for anything else."""
    if isinstance(insn, Assignment) and writer.target.looks_back:
        for tag in insn.tags_of_type(PublishTag):
            return [emit_publication(writer, insn, tag)]
    if insn.tags_of_type(CopyWaitTag):
        return wait_for_copies(writer, [insn])
    if writer.target.async_copies:
        if isinstance(insn, Assignment) and insn.tags_of_type(AsyncCopyTag):
            return [_async_copy(writer, insn), *trace(writer, insn)]
        if insn.tags_of_type(CopyCommitTag):
            return [emit_commit()]
    return None


def _async_copy(writer: ExpressionWriter, insn: Assignment) -> cgen.Generable:
    dtype = _type_of_place(writer, insn)
    if dtype.itemsize not in ASYNC_SIZES:
        raise CodegenError(
            f"elements of {dtype.itemsize} bytes cannot be copied asynchronously",
            where=f"instruction '{insn}'",
            because="its lanes are not adjacent in memory, or not known to be aligned",
            hint=f"align_temporaries(kernel, '{insn.assignee_name}', 16), and state which sizes "
            "are multiples: assume(kernel, 'n mod 8 = 0')",
        )
    place = writer.place(insn.assignee, insn.expression, dtype)
    source = writer.located(insn.expression)
    return emit_async_copy(writer, place, source, writer.type_name(dtype))


def declare_and_assign(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    insn: InstructionBase,
    name: str,
    is_only: bool,
) -> list[cgen.Generable]:
    """Write the first assignment to a scalar as its declaration; const if it *is_only*."""
    assert isinstance(insn, Assignment)
    dtype = _type_of_place(writer, insn)
    type_name = writer.declared_type(name, dtype)
    if is_statement(writer, insn.expression):
        declaration = cgen.Value(type_name, name)
        return [declaration, *_assign(builder, writer, insn), *trace(writer, insn)]
    value = _value(writer, insn, dtype)
    initializer = builder.emit_initializer(type_name, name, value, is_const=is_only)
    return [initializer, *trace(writer, insn)]


def _call(
    writer: ExpressionWriter, insn: Assignment | CallInstruction
) -> list[cgen.Generable] | None:
    """Write a call that is a statement; ``None`` if it has no code."""
    if not isinstance(insn.expression, p.Call):
        return None
    places = [_place(writer, place, insn.expression) for place in insn.assignees]
    return writer.calls.instruction(insn, places)


def _place(writer: ExpressionWriter, expr: Expr, call: Expr) -> tuple[str, NumpyType]:
    """Write the place of a result; for a part of an array, the name."""
    dtype = writer.typer(expr)
    if isinstance(expr, SubArrayRef):
        return assignee_name(expr), dtype
    return writer.place(expr, call, dtype), dtype


def _assign(
    builder: ASTBuilderBase, writer: ExpressionWriter, insn: Assignment
) -> list[cgen.Generable]:
    if is_statement(writer, insn.expression):
        return _call(writer, insn) or []
    dtype = _type_of_place(writer, insn)
    place = writer.place(insn.assignee, insn.expression, dtype)
    if _is_streamed(writer, insn, dtype):
        streamed = writer.streamed(insn.assignee, insn.expression, dtype)
        if streamed is not None:
            return [cgen.Statement(streamed)]
    update = _update(writer, insn, dtype)
    if update is not None and not _is_hidden(writer, insn, dtype):
        operator, operand = update
        own = writer.own_type(operand, dtype)
        fits = writer.target.conversions.mixes(own, dtype)
        prec = PREC_UNARY if writer.is_cut(operand, own, dtype) else PREC_NONE
        value = writer.cast(operand, own, own if fits else dtype, prec)
        return [builder.emit_update(insn, place, operator, value)]
    value = _value(writer, insn, dtype)
    return [builder.emit_assignment(insn, place, value)]


def _value(writer: ExpressionWriter, insn: Assignment, dtype: NumpyType) -> str:
    value = writer.assigned(insn.expression, dtype)
    return (
        hidden(writer.target, writer.preamble, value) if _is_hidden(writer, insn, dtype) else value
    )


def _is_hidden(writer: ExpressionWriter, insn: Assignment, dtype: NumpyType) -> bool:
    """Tell whether a compiler must not find that a value is negated."""
    if writer.target.hidden_integer is None or dtype != INT32:
        return False
    return is_stored_negation(writer.kernel, insn, writer.typer) or is_stored_subscript(
        writer.kernel, insn
    )


def _type_of_place(writer: ExpressionWriter, insn: Assignment) -> NumpyType:
    """Return the type of the assignee; warn if it does not hold all of the value."""
    dtype: NumpyType = writer.typer(insn.assignee)
    warn_of_losses(writer, insn, dtype)
    return dtype


def _update(
    writer: ExpressionWriter, insn: Assignment, dtype: NumpyType
) -> tuple[str, Expr] | None:
    """Split ``x = x + y`` into ``+`` and ``y`` if C's ``x += y`` computes the same."""
    expr = insn.expression
    match expr:
        case p.Sum(children=(first, last)):
            ((is_negative, operand),) = signed_terms((last,))
            operator = "-" if is_negative else "+"
        case p.Product(children=(first, operand)):
            operator = "*"
        case _:
            return None
    if first != insn.assignee:
        return None
    if dtype.is_complex() and writer.target.complex_style is not ComplexStyle.BUILTIN:
        return None
    fits = writer.typer(expr) == dtype
    joined = writer.target.conversions.joined
    fits = fits and joined(dtype, writer.own_type(operand, dtype)) == dtype
    return (operator, operand) if fits else None


def _is_streamed(writer: ExpressionWriter, insn: Assignment, dtype: NumpyType) -> bool:
    if writer.target.streaming_store is None or dtype.dtype.name not in _STREAMED:
        return False
    if not any(isinstance(tag, UseStreamingStoreTag) for tag in insn.tags):
        return False
    lhs = insn.assignee
    if not isinstance(lhs, p.Subscript | LinearSubscript):
        return False
    return is_pointer(writer.kernel.array_vars[insn.assignee_var_names()[0]])


def _snippet(
    builder: ASTBuilderBase, writer: ExpressionWriter, insn: CInstruction
) -> cgen.Generable:
    """Write a snippet of C in braces, after definitions of its names."""
    lines: list[cgen.Generable] = []
    for name, expr in insn.iname_exprs:
        value = writer.rec(expr, PREC_NONE, INT32)
        if value == name:
            continue
        dtype = INT32 if is_constant(expr) else writer.typer(expr)
        type_name = writer.declared_type(name, dtype)
        lines.append(builder.emit_initializer(type_name, name, value, is_const=True))
    code = textwrap.dedent(insn.code).strip("\n")
    lines.extend(cgen.Line(line) for line in code.split("\n"))
    return cgen.Block(lines)
