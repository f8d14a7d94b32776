"""Sums of products: the factors and terms for tensor cores, and the loops over fragments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pymbolic.primitives as p

from kgen.ir.affine import simplify
from kgen.ir.expr import (
    Expr,
    Reduction,
    TypeCast,
    flatten_product,
    substitute,
    variable_names,
    walk,
)
from kgen.ir.fragments import GROUP, PAIR, ROW_GROUPS, TensorShape, find_shape
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import FragmentTag, TensorTag
from kgen.ir.types import NumpyType
from kgen.ir.updates import update_of

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

    Inside loops over fragments, ``a`` is the factor of each row, ``b`` that of each column.
    """

    a: Expr
    b: Expr


def _accumulated(insn: InstructionBase) -> Expr | None:
    """Return the increment of a variable by an instruction, if any: ``t`` of ``x = x + t``."""
    update = None if getattr(insn, "atomicity", ()) else update_of(insn)
    if update is None or update.operation is not p.Sum or len(update.operands) > 1:
        return None
    return update.operands[0]


def terms_over(insn: InstructionBase, iname: str) -> Iterator[Expr]:
    """Yield the terms that an instruction sums over a loop: in a reduction, or by itself."""
    for expr in walk(*insn.read_exprs()):
        if isinstance(expr, Reduction) and iname in expr.inames and expr.operation.name == "sum":
            yield expr.expr
    term = _accumulated(insn)
    if term is not None and iname in insn.within_inames:
        yield term


def factors_of(term: Expr, shape: TensorShape, typer: _Typer) -> Factors | None:
    """Return the factors of a term, if it is a product of two numbers that a shape supports."""
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

    *lanes* is one loop, or two: over groups of lanes, each of which has the same rows, and over the
    lanes of a group. There is no loop over *row* if a lane has sums of one row only, and none over
    *block* if there is one block of 8 columns.
    """

    shape: TensorShape
    lanes: tuple[str, ...]
    row: str | None
    block: str | None
    column: str
    depth: str

    @property
    def items(self) -> tuple[int, ...]:
        """The numbers of work-items along the first axes, on which the lanes are."""
        if len(self.lanes) == 1:
            return (self.shape.lanes,)
        return (GROUP, self.shape.lanes // GROUP)

    @property
    def lane(self) -> Expr:
        """The number of a lane, in terms of the loops over lanes."""
        *group, last = map(p.Variable, self.lanes)
        return p.Sum((last, p.Product((GROUP, *group)))) if group else last

    def at_row(self, group: Expr) -> dict[str, Expr]:
        """Return the values of the loops over lanes for a lane that has sums of a row."""
        if len(self.lanes) == 1:
            return {self.lanes[0]: simplify(p.Product((GROUP, group)))}
        return {self.lanes[0]: group}

    def at_column(self, column: Expr) -> dict[str, Expr]:
        """Return those, and the element, for a lane that has sums of one of the first columns."""
        return {
            self.lanes[-1]: simplify(p.FloorDiv(column, PAIR)),
            self.column: simplify(p.Remainder(column, PAIR)),
        }

    def at_factor(self, depth: Expr, group: Expr, half: Expr, *, is_rows: bool) -> dict[str, Expr]:
        """Return the values of loops for the factor of a term.

        It is that of row ``group + 8*half``, or of column ``group``.
        """
        if not is_rows:
            return {self.depth: depth, **self.at_column(group)}
        own = {} if self.row is None else {self.row: half}
        return {self.depth: depth, **self.at_row(group), **own}

    def at_element(self, number: int, *, is_rows: bool) -> dict[str, Expr]:
        """Return the same for the element of a factor with a number among those of a lane."""
        fragment = self.shape.a if is_rows else self.shape.b
        assert fragment is not None
        of_lane, at_zero = fragment.element(0), fragment.at_lane_zero(number)
        if is_rows:
            (row, depth), (first_row, first) = of_lane, at_zero
            half = first_row // ROW_GROUPS
        else:
            (depth, row), (first, _), half = of_lane, at_zero, 0
        values = self.at_factor(simplify(p.Sum((depth, first))), row, half, is_rows=is_rows)
        return {name: substitute(value, {"lane": self.lane}) for name, value in values.items()}


def tensor_loops(kernel: LoopKernel, insn: InstructionBase) -> TensorLoops | None:
    """Return the loops around an instruction for tensor cores; ``None`` if any is missing."""
    parts = ("lane", "group", "pair", "row", "block", "column")
    found: dict[str, list[str]] = {part: [] for part in parts}
    depths = [name for name in sorted(insn.within_inames) if kernel.has_tag(name, TensorTag)]
    for name in sorted(insn.within_inames):
        for tag in kernel.iname_tags_of_type(name, FragmentTag):
            found[tag.of].append(name)
    lanes = (*found["lane"], *found["group"], *found["pair"])
    counts = [len(found[part]) for part in ("lane", "group", "pair")]
    if counts not in ([1, 0, 0], [0, 1, 1]) or (len(found["column"]), len(depths)) != (1, 1):
        return None
    (kind,) = kernel.iname_tags_of_type(depths[0], TensorTag)
    shape = find_shape(kind.shape, kind.operands)
    if shape is None or len(found["row"]) != (shape.rows_of_lane > 1):
        return None
    if len(found["block"]) != (shape.blocks > 1):
        return None
    row, block = (next(iter(found[of]), None) for of in ("row", "block"))
    return TensorLoops(shape, lanes, row, block, found["column"][0], depths[0])


def is_of_warpgroup(kernel: LoopKernel, insn: InstructionBase) -> bool:
    """Tell whether warpgroups compute an instruction asynchronously."""
    if not kernel.target.has_tensor_cores:
        return False
    if not any(kernel.has_tag(name, TensorTag) for name in insn.within_inames):
        return False
    loops = tensor_loops(kernel, insn)
    return loops is not None and loops.shape.is_of_warpgroup


def tensor_factors(loops: TensorLoops, insn: InstructionBase, typer: _Typer) -> Factors | None:
    """Return the factors of an instruction inside such loops; ``None`` for another one."""
    term = _accumulated(insn)
    factors = None if term is None else factors_of(term, loops.shape, typer)
    if factors is None:
        return None
    of_columns = [loops.column in variable_names(part) for part in factors]
    if sum(of_columns) != 1:
        return None
    return Factors(factors.b, factors.a) if of_columns[0] else factors
