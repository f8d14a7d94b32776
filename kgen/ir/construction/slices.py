"""Slices in calls: ``y[:, j] = f(x[1:n], a)`` becomes sub-array references over new loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.errors import KernelError
from kgen.ir.affine import simplify
from kgen.ir.construction.dependencies import where
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, SubArrayRef, to_text
from kgen.ir.functions import FUNCTIONS
from kgen.ir.instruction import (
    Assignment,
    CallInstruction,
    InstructionBase,
    make_assignment,
)
from kgen.ir.mentions import Mentions
from kgen.ir.sets.dims import BasicSet
from kgen.ir.sets.text import parse_domain

__all__ = ["check_slices", "passes_slices", "realize_slices"]


def realize_slices(
    instructions: Sequence[InstructionBase],
    arrays: Mapping[str, ArrayBase],
    rules: Iterable[str],
    taken: Iterable[str],
) -> tuple[list[InstructionBase], list[BasicSet]]:
    """Replace slices in calls by sub-array references, and return the domains of their loops.

    An array that is passed by its name alone is passed as a whole.

    Raises :class:`KernelError` for a slice whose end is unknown: that of an array whose
    shape is not in *arrays*.
    """
    names = UniqueNameGenerator(set(taken))
    domains: list[BasicSet] = []

    def swept(insn: InstructionBase, expr: Expr) -> Expr:
        if _is_whole(expr, arrays):
            axes = len(arrays[expr.name].shape)
            expr = p.Subscript(expr, (p.Slice((None, None)),) * axes)
        elif not _is_sliced(expr):
            return expr
        inames, index = [], []
        for axis, at in enumerate(expr.index_tuple):
            if not isinstance(at, p.Slice):
                index.append(at)
                continue
            iname = names("i")
            inames.append(p.Variable(iname))
            start, stop, step = _limits(insn, expr, axis, at, arrays)
            place: Expr = p.Variable(iname)
            place = place if step == 1 else p.Product((step, place))
            place = place if start == 0 else p.Sum((start, place))
            sign = "<" if step > 0 else ">"
            domains.append(
                parse_domain(
                    f"{{ [{iname}]: 0 <= {iname} and {to_text(place)} {sign} {to_text(stop)} }}"
                )
            )
            index.append(place)
        return SubArrayRef(tuple(inames), p.Subscript(expr.aggregate, tuple(index)))

    result = [
        _with_slices_replaced(insn, swept) if passes_slices(insn, arrays, rules) else insn
        for insn in instructions
    ]
    return result, domains


def _is_sliced(expr: Expr) -> bool:
    return isinstance(expr, p.Subscript) and any(isinstance(i, p.Slice) for i in expr.index_tuple)


def _is_whole(expr: Expr, arrays: Mapping[str, ArrayBase]) -> bool:
    """Tell whether *expr* is the name of an array with axes."""
    array = arrays.get(expr.name) if type(expr) is p.Variable else None
    return array is not None and isinstance(array.shape, tuple) and array.shape != ()


def passes_slices(
    insn: InstructionBase, arrays: Mapping[str, ArrayBase], rules: Iterable[str]
) -> bool:
    """Tell whether *insn* is a call with slices among its operands or assignees.

    Whole arrays among the operands count, too, except those of *rules* and of functions
    of numbers.
    """
    if not isinstance(insn, Assignment | CallInstruction) or type(insn.expression) is not p.Call:
        return False
    call = insn.expression
    if any(map(_is_sliced, (*call.parameters, *insn.assignees))):
        return True
    takes_numbers = {*FUNCTIONS, *rules}
    return getattr(call.function, "name", "") not in takes_numbers and any(
        _is_whole(operand, arrays) for operand in call.parameters
    )


def check_slices(insn: InstructionBase, found: Mentions) -> None:
    """Reject remaining slices."""
    if found.has(p.Slice):
        raise _error(
            insn,
            "slices are only allowed as arguments of a function and as assignees of its results",
            "write the loop variable: out[i] = a[i], with { [i]: 0 <= i < n } as a domain",
        )


def _with_slices_replaced(
    insn: InstructionBase, swept: Callable[[InstructionBase, Expr], Expr]
) -> InstructionBase:
    assert isinstance(insn, Assignment | CallInstruction)
    call = insn.expression
    assignees = tuple(swept(insn, lhs) for lhs in insn.assignees)
    operands = tuple(swept(insn, operand) for operand in call.parameters)
    options = {
        name: value
        for name, value in vars(insn).items()
        if name in InstructionBase.__dataclass_fields__
    }
    return make_assignment(
        assignees,
        p.Call(call.function, operands),
        insn.temp_var_types,
        **options,
    )


def _limits(
    insn: InstructionBase,
    expr: p.Subscript,
    axis: int,
    at: p.Slice,
    arrays: Mapping[str, ArrayBase],
) -> tuple[Expr, Expr, int]:
    """Return the start, the end and the step of a slice; the step may be negative."""
    start, stop, step = (*at.children, None, None)[:3]
    if not (step is None or (isinstance(step, int) and step != 0)):
        raise _error(insn, f"the step of '{to_text(expr)}' is not a number, or 0")
    if step is not None and step < 0:
        stop = -1 if stop is None else stop
        if start is None:
            start = simplify(p.Sum((_extent(insn, expr, axis, arrays), -1)))
        return start, stop, step
    if stop is None:
        stop = _extent(insn, expr, axis, arrays)
    return 0 if start is None else start, stop, 1 if step is None else step


def _extent(
    insn: InstructionBase,
    expr: p.Subscript,
    axis: int,
    arrays: Mapping[str, ArrayBase],
) -> Expr:
    """Return the extent of an axis of a declared array."""
    array = arrays.get(getattr(expr.aggregate, "name", ""))
    shape = None if array is None else array.shape
    if not isinstance(shape, tuple) or axis >= len(shape) or shape[axis] is None:
        raise _error(
            insn,
            f"the end of '{to_text(expr)}' is not known",
            f"declare the shape of '{to_text(expr.aggregate)}', or write where it ends: 0:n; a "
            "sum over an axis is sum(j, a[i, j])",
        )
    return shape[axis]


def _error(insn: InstructionBase, what: str, hint: str | None = None) -> KernelError:
    return KernelError(what, where=where(insn), hint=hint)
