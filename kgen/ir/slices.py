"""Slices in calls: ``y[:, j] = f(x[1:n])`` becomes sub-array references over new loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.errors import KernelError, message
from kgen.ir.data import ArrayBase
from kgen.ir.dependencies import where
from kgen.ir.domain import BasicSet
from kgen.ir.domain_text import parse_domain
from kgen.ir.expr import Expr, SubArrayRef, to_text
from kgen.ir.instruction import (
    Assignment,
    CallInstruction,
    InstructionBase,
    make_assignment,
)
from kgen.ir.mentions import Mentions

__all__ = ["check_slices", "passes_slices", "realize_slices"]


def realize_slices(
    kernel: str,
    instructions: Sequence[InstructionBase],
    arrays: Mapping[str, ArrayBase],
    taken: Iterable[str],
) -> tuple[list[InstructionBase], list[BasicSet]]:
    """Replace slices in calls by sub-array references, and return the domains of their loops.

    Raises :class:`KernelError` for a slice whose end is not known: that of an array whose
    shape is not in *arrays*.
    """
    names = UniqueNameGenerator(set(taken))
    domains: list[BasicSet] = []

    def swept(insn: InstructionBase, expr: Expr) -> Expr:
        if not _is_sliced(expr):
            return expr
        inames, index = [], []
        for axis, at in enumerate(expr.index_tuple):
            if not isinstance(at, p.Slice):
                index.append(at)
                continue
            iname = names("islice")
            inames.append(p.Variable(iname))
            start, stop, step = _limits(kernel, insn, expr, axis, at, arrays)
            place: Expr = p.Variable(iname)
            place = place if step == 1 else p.Product((step, place))
            place = place if start == 0 else p.Sum((start, place))
            domains.append(
                parse_domain(
                    f"{{ [{iname}]: 0 <= {iname} and {to_text(place)} < {to_text(stop)} }}"
                )
            )
            index.append(place)
        return SubArrayRef(tuple(inames), p.Subscript(expr.aggregate, tuple(index)))

    result = [
        _with_slices_replaced(insn, swept) if passes_slices(insn) else insn for insn in instructions
    ]
    return result, domains


def _is_sliced(expr: Expr) -> bool:
    return isinstance(expr, p.Subscript) and any(isinstance(i, p.Slice) for i in expr.index_tuple)


def passes_slices(insn: InstructionBase) -> bool:
    """Tell whether *insn* is a call with slices among its operands or assignees."""
    if not isinstance(insn, Assignment | CallInstruction) or type(insn.expression) is not p.Call:
        return False
    return any(map(_is_sliced, (*insn.expression.parameters, *insn.assignees)))


def check_slices(kernel: str, insn: InstructionBase, found: Mentions) -> None:
    """Refuse slices that are left over."""
    if found.has_slices:
        raise _refusal(
            kernel,
            insn,
            "a slice is passed to a function or assigned from one, and nothing else",
            "write a loop: for i ... end",
        )


def _with_slices_replaced(
    insn: InstructionBase, swept: Callable[[InstructionBase, Expr], Expr]
) -> InstructionBase:
    assert isinstance(insn, Assignment | CallInstruction)
    call = insn.expression
    operands = tuple(swept(insn, operand) for operand in call.parameters)
    options = {
        name: value
        for name, value in vars(insn).items()
        if name in InstructionBase.__dataclass_fields__
    }
    return make_assignment(
        tuple(swept(insn, lhs) for lhs in insn.assignees),
        p.Call(call.function, operands),
        insn.temp_var_types,
        **options,
    )


def _limits(
    kernel: str,
    insn: InstructionBase,
    expr: p.Subscript,
    axis: int,
    at: p.Slice,
    arrays: Mapping[str, ArrayBase],
) -> tuple[Expr, Expr, int]:
    """Return where a slice starts, where it ends, and its step."""
    start, stop, step = (*at.children, None, None)[:3]
    if not (step is None or (isinstance(step, int) and step > 0)):
        raise _refusal(kernel, insn, f"the step of '{to_text(expr)}' is not a positive number")
    if stop is None:
        array = arrays.get(getattr(expr.aggregate, "name", ""))
        if array is None or not isinstance(array.shape, tuple) or axis >= len(array.shape):
            raise _refusal(
                kernel,
                insn,
                f"the end of '{to_text(expr)}' is not known",
                f"declare the shape of '{to_text(expr.aggregate)}', or write where it ends: 0:n",
            )
        stop = array.shape[axis]
    return 0 if start is None else start, stop, 1 if step is None else step


def _refusal(kernel: str, insn: InstructionBase, what: str, hint: str | None = None) -> KernelError:
    return KernelError(message(what, kernel=kernel, where=where(insn), hint=hint))
