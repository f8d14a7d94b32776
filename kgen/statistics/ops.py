"""Counts of arithmetic operations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.access import Place, PlaceMapper
from kgen.analysis.typing import ExpressionTyper
from kgen.errors import naming_place
from kgen.ir.checked import checked
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    TypeCast,
    is_constant,
)
from kgen.ir.functions import find_function, known_function_names
from kgen.ir.instruction import CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import Literal, common, settle
from kgen.ir.tags import LookBackTag
from kgen.ir.types import NumpyType
from kgen.ir.unit import TranslationUnit
from kgen.statistics.countmap import Keys, ToCountPolynomialMap
from kgen.statistics.descriptors import OP_NAMES, CountGranularity, Op
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.runs import Runs, SubgroupSize, resolve_subgroup_size
from kgen.transforms.statements import find_instructions

__all__ = ["count_ops", "get_op_map"]


@checked
def get_op_map(
    program: TranslationUnit | LoopKernel,
    count_redundant_work: bool = False,
    count_within_subscripts: bool = True,
    subgroup_size: SubgroupSize = None,
    entrypoint: str | None = None,
    within: Any = None,
    count_madds: bool = False,
    count_conversions: bool = False,
) -> ToCountPolynomialMap:
    """Count the arithmetic operations of a kernel, by type and kind.

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i, j]: 0 <= i <= j < n }", "out[i, j] = 2*a[i, j + 1]")
    >>> print(get_op_map(lp.add_dtypes(knl, {"a": np.float64})))
    Op(np:dtype('float64'), mul, subgroup, "kgen_kernel"): [n] -> { (1/2 * n + 1/2 * n^2) : n > 0 }
    Op(np:dtype('int32'), add, subgroup, "kgen_kernel"): [n] -> { (1/2 * n + 1/2 * n^2) : n > 0 }

    They count once per sub-group that executes them. *count_redundant_work*: include the repeated
    work of groups or work-items along axes that an instruction does not use.
    *count_within_subscripts*: include the arithmetic of subscripts, as written.
    *within*: count only matching instructions (see :func:`find_instructions`).
    *count_madds*: a product and the addition of its result are one ``madd`` instead of a ``mul``
    and an ``add``. *count_conversions*: include type conversions, as ``convert`` with the type of
    the result; they are not arithmetic of that type. The count of an operation under a
    data-dependent condition is an interval, from never to always.

    Raises :class:`KernelError` if *subgroup_size* is needed and unknown.
    """
    kernel = prepared_kernel(program, entrypoint)
    size = resolve_subgroup_size(kernel, subgroup_size)
    runs = Runs(kernel, size, redundant=count_redundant_work)
    return count_ops(
        runs,
        CountGranularity.SUBGROUP,
        within_subscripts=count_within_subscripts,
        madds=count_madds,
        conversions=count_conversions,
        within=within,
    )


def count_ops(
    runs: Runs,
    granularity: str,
    *,
    within_subscripts: bool,
    madds: bool = False,
    conversions: bool = False,
    within: Any = None,
) -> ToCountPolynomialMap:
    """Count the operations of a prepared kernel, by work-items, sub-groups or work-groups."""
    kernel = runs.kernel
    finder = _OpFinder(
        kernel, within_subscripts=within_subscripts, madds=madds, conversions=conversions
    )
    for insn in find_instructions(kernel, within):
        if not insn.tags_of_type(LookBackTag):  # a few per group, depending on when groups run
            with naming_place("instruction", insn):
                finder.look_into(insn)
    counts = [
        (Op(dtype, name, granularity, kernel.name), runs.at(place, granularity, number))
        for place, ops in finder.found.items()
        for (dtype, name), number in ops.items()
        if number
    ]
    functions = (f"func:{name}" for name in known_function_names(kernel))
    names = {*OP_NAMES, *functions, *(str(key.name) for key, _ in counts)}
    known = Keys.of(Op, name=names, kernel_name=(kernel.name,))
    return ToCountPolynomialMap.of(counts, runs.space, known)


class _OpFinder(PlaceMapper):
    """Finds the operations of expressions, and where each is evaluated."""

    def __init__(
        self, kernel: LoopKernel, *, within_subscripts: bool, madds: bool, conversions: bool
    ) -> None:
        super().__init__(kernel)
        self.typer = ExpressionTyper(kernel)
        self.within_subscripts = within_subscripts
        self.madds = madds
        self.conversions = conversions
        self.found: dict[Place, Counter[tuple[NumpyType | None, str]]] = {}

    def look_into(self, insn: InstructionBase) -> None:
        """Find the operations of an instruction: conditions, values, subscripts."""
        place = self.visit_predicates(insn)
        for expr in insn.read_exprs():
            self.rec(expr, place)
        for lhs in insn.assignees:
            self.rec(lhs, place)
        if isinstance(insn, CInstruction):
            self._add(None, f"unknown:{insn.id}", place)
        elif len(insn.assignees) == 1:
            (value,) = insn.read_exprs()
            target = settle(self.typer.operand(insn.assignees[0]))
            self._convert(value, target, place)

    def _add(self, dtype: NumpyType | None, name: str, place: Place, number: int = 1) -> None:
        if number:
            self.found.setdefault(place, Counter())[dtype, name] += number

    def _convert(self, operand: Expr, dtype: NumpyType, place: Place) -> None:
        """Count the conversion of an operand, unless it is a number that adapts."""
        if not self.conversions:
            return
        kind = self.typer.operand(operand)
        if not isinstance(kind, Literal) and kind.numpy_dtype != dtype.numpy_dtype:
            self._add(dtype, "convert", place)

    def _operation(
        self, expr: Expr, name: str, operands: tuple[Expr, ...], place: Place, number: int = 1
    ) -> None:
        dtype = settle(self.typer.operand(expr))
        self._add(dtype, name, place, number)
        for operand in operands:
            self.rec(operand, place)
            if number:
                self._convert(operand, dtype, place)

    def map_sum(self, expr: p.Sum, place: Place) -> None:
        number = len(expr.children) - 1
        products = sum(isinstance(c, p.Product) and _factors(c) > 0 for c in expr.children)
        fused = min(number, products) if self.madds else 0
        dtype = settle(self.typer.operand(expr))
        if fused and dtype.kind in "fc":
            self._add(dtype, "mul", place, -fused)
            self._add(dtype, "madd", place, fused)
            number -= fused
        self._operation(expr, "add", expr.children, place, number)

    def map_product(self, expr: p.Product, place: Place) -> None:
        operands = tuple(child for child in expr.children if not _is_minus_one(child))
        self._operation(expr, "mul", operands, place, len(operands) - 1)

    def _divide(self, expr: Any, place: Place) -> None:
        self._operation(expr, "div", (expr.numerator, expr.denominator), place)

    map_quotient = map_floor_div = map_remainder = _divide
    map_trunc_quotient = map_trunc_remainder = _divide

    def map_power(self, expr: p.Power, place: Place) -> None:
        self._operation(expr, "pow", (expr.base,), place)
        self.rec(expr.exponent, place)

    def map_left_shift(self, expr: p.LeftShift | p.RightShift, place: Place) -> None:
        self._operation(expr, "shift", (expr.shiftee, expr.shift), place)

    map_right_shift = map_left_shift

    def _bitwise(self, expr: Any, place: Place) -> None:
        self._operation(expr, "bw", expr.children, place, len(expr.children) - 1)

    map_bitwise_or = map_bitwise_and = map_bitwise_xor = _bitwise

    def map_bitwise_not(self, expr: p.BitwiseNot, place: Place) -> None:
        self._operation(expr, "bw", (expr.child,), place)

    def map_min(self, expr: p.Min | p.Max, place: Place) -> None:
        self._operation(expr, "maxmin", expr.children, place, len(expr.children) - 1)

    map_max = map_min

    def map_comparison(self, expr: p.Comparison, place: Place) -> None:
        sides = [self.typer.operand(expr.left), self.typer.operand(expr.right)]
        dtype = settle(common(*sides))
        self._add(dtype, "cmp", place)
        for side in (expr.left, expr.right):
            self.rec(side, place)
            self._convert(side, dtype, place)

    def map_type_cast(self, expr: TypeCast, place: Place) -> None:
        self.rec(expr.child, place)
        assert isinstance(expr.type, NumpyType)
        self._convert(expr.child, expr.type, place)

    def map_call(self, expr: p.Call, place: Place) -> None:
        for argument in expr.parameters:
            self.rec(argument, place)
        name = expr.function.name if isinstance(expr.function, p.Variable) else "?"
        if find_function(self.kernel, name) is None:
            self._add(None, f"unknown:{name}", place)
        elif name in ("min", "max"):
            dtype = settle(self.typer.operand(expr))
            self._add(dtype, "maxmin", place, len(expr.parameters) - 1)
        else:
            result = self.typer.result(expr)
            dtype = result[0] if isinstance(result, tuple) else settle(result)
            self._add(dtype, f"func:{name}", place)

    def map_subscript(self, expr: p.Subscript, place: Place) -> None:
        if self.within_subscripts:
            for index in expr.index_tuple:
                self.rec(index, place)

    def map_linear_subscript(self, expr: LinearSubscript, place: Place) -> None:
        if self.within_subscripts:
            self.rec(expr.index, place)


def _is_minus_one(expr: Expr) -> bool:
    return is_constant(expr) and bool(expr == -1)


def _factors(product: p.Product) -> int:
    """Return the number of multiplications of a product."""
    return sum(not _is_minus_one(child) for child in product.children) - 1
