"""Sums of products: what tensor cores take of them, and the loops over fragments around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kgen.ir.expr import (
    Expr,
    Reduction,
    TypeCast,
    flatten_product,
    flatten_sum,
    variable_names,
    walk,
)
from kgen.ir.fragments import TensorShape, find_shape
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import FragmentTag, TensorTag
from kgen.ir.types import NumpyType

__all__ = [
    "Factors",
    "TensorLoops",
    "factors_of",
    "is_of_warpgroup",
    "tensor_factors",
    "tensor_loops",
    "terms_over",
]

#: Returns the type of an expression.
_Typer = Callable[[Expr], Any]


class Factors(NamedTuple):
    """The factors of a product, without casts to the type of the sum.

    Where loops over fragments are around it, ``a`` is that of each row, ``b`` of each column.
    """

    a: Expr
    b: Expr


def _accumulated(insn: InstructionBase) -> Expr | None:
    """Return what an instruction adds to a variable, if it does: ``t`` of ``x = x + t``."""
    if not isinstance(insn, Assignment) or insn.atomicity:
        return None
    terms = flatten_sum(insn.expression)
    if len(terms) != 2 or insn.assignee not in terms:
        return None
    return terms[1] if terms[0] == insn.assignee else terms[0]


def terms_over(insn: InstructionBase, iname: str) -> Iterator[Expr]:
    """Give what an instruction sums up over a loop: in a reduction, or by itself."""
    for expr in walk(*insn.read_exprs()):
        if isinstance(expr, Reduction) and iname in expr.inames and expr.operation.name == "sum":
            yield expr.expr
    term = _accumulated(insn)
    if term is not None and iname in insn.within_inames:
        yield term


def factors_of(term: Expr, shape: TensorShape, typer: _Typer) -> Factors | None:
    """Return the factors of a term, if it is a product of two numbers that a shape takes."""
    if isinstance(term, TypeCast) and _is(typer(term), shape.sums):
        term = term.child
    parts = [_factor(part, shape, typer) for part in flatten_product(term)]
    return Factors(*parts) if len(parts) == 2 and None not in parts else None


def _factor(expr: Expr, shape: TensorShape, typer: _Typer) -> Expr | None:
    if _is(typer(expr), shape.held_as):
        return expr
    is_cast = isinstance(expr, TypeCast) and _is(typer(expr), shape.sums)
    return expr.child if is_cast and _is(typer(expr.child), shape.held_as) else None


def _is(dtype: Any, name: str) -> bool:
    return isinstance(dtype, NumpyType) and dtype.dtype.name == name


@dataclass(frozen=True)
class TensorLoops:
    """The loops that tensor cores run in one step: over lanes, elements of a lane, and terms.

    There is none over *row* where a lane has sums of one row only, and none over *block* where
    there is one block of 8 columns.
    """

    shape: TensorShape
    lane: str
    row: str | None
    block: str | None
    column: str
    depth: str


def tensor_loops(kernel: LoopKernel, insn: InstructionBase) -> TensorLoops | None:
    """Return the loops around an instruction that tensor cores run; ``None`` if it has not each."""
    found: dict[str, list[str]] = {"lane": [], "row": [], "block": [], "column": []}
    depths = [name for name in sorted(insn.within_inames) if kernel.has_tag(name, TensorTag)]
    for name in sorted(insn.within_inames):
        for tag in kernel.iname_tags_of_type(name, FragmentTag):
            found[tag.of].append(name)
    if [len(found["lane"]), len(found["column"]), len(depths)] != [1, 1, 1]:
        return None
    (kind,) = kernel.iname_tags_of_type(depths[0], TensorTag)
    shape = find_shape(kind.shape, kind.operands)
    if shape is None or len(found["row"]) != (shape.rows_of_lane > 1):
        return None
    if len(found["block"]) != (shape.blocks > 1):
        return None
    row, block = (next(iter(found[of]), None) for of in ("row", "block"))
    return TensorLoops(shape, found["lane"][0], row, block, found["column"][0], depths[0])


def is_of_warpgroup(kernel: LoopKernel, insn: InstructionBase) -> bool:
    """Tell whether warpgroups compute an instruction, and go on meanwhile."""
    if not kernel.target.has_tensor_cores:
        return False
    if not any(kernel.has_tag(name, TensorTag) for name in insn.within_inames):
        return False
    loops = tensor_loops(kernel, insn)
    return loops is not None and loops.shape.is_of_warpgroup


def tensor_factors(loops: TensorLoops, insn: InstructionBase, typer: _Typer) -> Factors | None:
    """Return the factors of an instruction inside of such loops; ``None`` for another one."""
    term = _accumulated(insn)
    factors = None if term is None else factors_of(term, loops.shape, typer)
    if factors is None:
        return None
    of_columns = [loops.column in variable_names(part) for part in factors]
    if sum(of_columns) != 1:
        return None
    return Factors(factors.b, factors.a) if of_columns[0] else factors
