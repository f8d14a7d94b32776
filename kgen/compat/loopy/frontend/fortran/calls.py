"""Calls of subroutines in Fortran, as calls of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pymbolic.primitives as p

from kgen.compat.loopy.frontend.fortran.source import Statement
from kgen.compat.loopy.frontend.fortran.values import Value, as_type
from kgen.errors import KgenSyntaxError, counted, near_names
from kgen.ir.data import ArrayArg, ValueArg
from kgen.ir.expr import Expr, SubArrayRef
from kgen.ir.instruction import CallInstruction
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import inputs_and_outputs

__all__ = ["Call", "Passed", "Section", "callees_first", "instruction_of"]


@dataclass(frozen=True)
class Section:
    """A part of an array that is passed: its subscripts, in which some loop variables vary."""

    name: str
    index: tuple[Expr, ...]
    inames: tuple[str, ...]

    @property
    def expr(self) -> SubArrayRef:
        """The part as an argument, or as a place for results."""
        swept = tuple(map(p.Variable, self.inames))
        return SubArrayRef(swept, p.Subscript(p.Variable(self.name), self.index))


#: An argument that a call passes.
Passed: TypeAlias = Section | Value


@dataclass(frozen=True)
class Call:
    """A ``call``: the subroutine may come later in the text; ``fields`` are the instruction's.

    It may not assign the variables *fixed*: of loops, and in their bounds.
    """

    statement: Statement
    name: str
    passed: tuple[Passed, ...]
    fields: Mapping[str, Any]
    fixed: frozenset[str]

    def assignee_var_names(self) -> tuple[str, ...]:
        """Return the arrays that the subroutine may assign."""
        return tuple(one.name for one in self.passed if isinstance(one, Section))


def callees_first(calls: Mapping[str, Sequence[Call]]) -> Iterator[str]:
    """Yield the names of all subroutines, each after those that it calls.

    Raises :class:`KgenSyntaxError` for an unknown subroutine, and for one that calls itself.
    """
    done: dict[str, None] = {}
    open_: list[str] = []

    def visit(name: str) -> None:
        open_.append(name)
        for call in calls[name]:
            if call.name not in calls:
                hint = near_names(call.name, calls)
                raise _error(call, f"there is no subroutine '{call.name}' in this text", hint)
            if call.name in open_:
                raise _error(call, f"'{call.name}' calls itself", "write a loop")
            if call.name not in done:
                visit(call.name)
        done[open_.pop()] = None

    for name in calls:
        if name not in done:
            visit(name)
    return iter(done)


def instruction_of(
    call: Call, arguments: Sequence[str], callee: LoopKernel
) -> CallInstruction | None:
    """Return the instruction that calls a kernel with *arguments*, ``None`` if it has no result."""
    if len(call.passed) != len(arguments):
        raise _error(
            call,
            f"'{callee.name}' takes {counted(len(arguments), 'argument')}, and the call passes "
            f"{len(call.passed)}",
        )
    passed = {
        name: _expr_of(call, name, callee.arg_dict[name], given)
        for name, given in zip(arguments, call.passed, strict=True)
    }
    inputs, outputs = inputs_and_outputs(callee)
    if not outputs:
        return None
    parameters = tuple(passed[name] for name in inputs)
    places = tuple(passed[name] for name in outputs)
    return CallInstruction(places, p.Call(p.Variable(callee.name), parameters), **call.fields)


def _expr_of(call: Call, name: str, arg: ArrayArg | ValueArg, given: Passed) -> Expr:
    """Return what is passed for an argument; rejects what does not fit."""
    if isinstance(arg, ValueArg):
        dtype: Any = arg.dtype
        if isinstance(given, Section):
            raise _error(call, f"'{name}' is a number, and '{given.name}' is an array")
        return as_type(given, dtype.numpy_dtype)
    if arg.shape == ():
        return _place_of(call, name, given)
    if isinstance(given, Value):
        raise _error(call, f"'{name}' is an array, and a number is passed", "pass a(1:n)")
    assert isinstance(arg.shape, tuple)
    if len(given.inames) != len(arg.shape):
        raise _error(
            call,
            f"'{name}' has {counted(len(arg.shape), 'axis', 'axes')}, and what is passed of "
            f"'{given.name}' has {len(given.inames)}",
        )
    return given.expr


def _place_of(call: Call, name: str, given: Passed) -> Expr:
    """Return the variable or the element that a subroutine assigns."""
    if isinstance(given, Section) or not isinstance(given.expr, p.Variable | p.Subscript):
        raise _error(call, f"'{call.name}' assigns '{name}'", "pass a variable, or an element")
    if isinstance(given.expr, p.Variable) and given.expr.name in call.fixed:
        raise _error(
            call,
            f"'{call.name}' assigns '{name}', and '{given.expr.name}' is the variable of a loop, "
            "or in the bounds of one",
        )
    return given.expr


def _error(call: Call, what: str, hint: str | None = None) -> KgenSyntaxError:
    line = call.statement.line
    return KgenSyntaxError(f"line {line}: {what}", line=line, where=call.statement.text, hint=hint)
