"""Values of long loops in statements: sizes for which they fit the int32 of their declared type."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import pymbolic.primitives as p

from kgen.ir.expr import CombineMapper, Expr, TypeCast
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.sets.dims import Set, bound_dim
from kgen.ir.sets.quasi_affine import conditions_of
from kgen.ir.stages import DeviceKernel
from kgen.ir.types import INT32

__all__ = ["conditions_of_values"]


def conditions_of_values(kernel: DeviceKernel, long_names: AbstractSet[str]) -> tuple[Expr, ...]:
    """Return the conditions on sizes under which the code computes correctly with loop variables.

    *long_names* are variables of 64 bits. They are right in subscripts, comparisons, sums,
    products, quotients and conversions to types that hold them. In functions, and in variables of
    32 bits, each is an int32, the type of all loop variables as data. With an ``index_dtype`` of 64
    bits there are no conditions, since loop variables are data of that type.
    """
    long_loops = kernel.all_inames() & long_names
    if not long_loops or kernel.index_dtype != INT32:
        return ()
    cut = {name for insn in kernel.instructions for name in long_loops & _cut_names(kernel, insn)}
    found = (conditions_of(_sizes_within(kernel, iname)) for iname in sorted(cut))
    return tuple(condition for conditions in found for condition in conditions)


def _sizes_within(kernel: DeviceKernel, iname: str) -> Set:
    """Return the sizes for which all values of a loop variable are int32."""
    values = kernel.domain_of((iname,))
    above = bound_dim(values, iname, low=2**31)
    below = bound_dim(values, iname, high=-(2**31) - 1)
    return above.union(below).params().complement()


def _cut_names(kernel: DeviceKernel, insn: InstructionBase) -> frozenset[str]:
    """Return the variables whose values *insn* may treat as 32 bits wide."""
    if not isinstance(insn, Assignment):
        return _names_of_data(insn.read_exprs())
    dtype = kernel.array_vars[insn.assignee_name].dtype
    is_whole = dtype is not None and dtype.is_integral() and dtype.itemsize <= INT32.itemsize
    return _names_of_data(insn.expression) if is_whole else _within_functions(insn.expression)


def _within_functions(expr: Expr) -> frozenset[str]:
    """Return the variables below operations that C does not compute in their operands' type."""
    match expr:
        case p.Variable():
            return frozenset()
        case p.Sum() | p.Product():
            return frozenset().union(*map(_within_functions, expr.children))
        case p.Quotient():
            return _within_functions(expr.numerator) | _within_functions(expr.denominator)
        case p.If():
            return _within_functions(expr.then) | _within_functions(expr.else_)
        case TypeCast() if expr.type.kind in "fc" or expr.type.itemsize > INT32.itemsize:
            return _within_functions(expr.child)
    return _names_of_data(expr)


def _names_of_data(expr: Expr) -> frozenset[str]:
    """Return the variables from which *expr* computes values, except in subscripts."""
    names: frozenset[str] = _NamesOfData()(expr)
    return names


class _NamesOfData(CombineMapper):
    def combine(self, values: Iterable[frozenset[str]]) -> frozenset[str]:
        return frozenset().union(*values)

    def map_constant(self, expr: object) -> frozenset[str]:
        return frozenset()

    map_subscript = map_linear_subscript = map_comparison = map_nan = map_constant

    def map_variable(self, expr: p.Variable) -> frozenset[str]:
        return frozenset((expr.name,))

    map_tagged_variable = map_variable
