"""Simplification of subscripts, using the bounds of the enclosing loops."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.analysis.access import Place
from kgen.analysis.footprints import Footprints
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, IdentityMapper, LinearSubscript, Reduction, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.quasi_affine import aff_to_expr, pw_aff_from_expr
from kgen.transforms.select import transform

__all__ = ["simplify_indices"]


@transform
def simplify_indices(kernel: LoopKernel) -> LoopKernel:
    """Simplify subscripts: merge terms, and cancel divisions.

    ::

        for i, j   {0<=j<4}
          b[(4*i + j)//4, (4*i + j)%4]   =>   b[i, j] = a[i + 1]
            = a[2*i - i + 1]

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<4 }", "b[(4*i + j)//4, j%4] = a[2*i - i + 1]")
    >>> print(simplify_indices(knl).default_entrypoint.instructions[0])
    b[i, j] = a[i + 1]  {id=insn}
    """
    footprints = Footprints.of(kernel)

    def change(insn: InstructionBase) -> InstructionBase:
        mapper = _IndexMapper(kernel, footprints, insn.within_inames)
        return insn.with_transformed_expressions(mapper)

    return kernel.map_instructions(change)


class _IndexMapper(IdentityMapper):
    """Simplifies subscripts; keeps track of the loops around the current expression."""

    def __init__(self, kernel: LoopKernel, footprints: Footprints, inames: frozenset[str]) -> None:
        super().__init__()
        self.kernel, self.footprints, self.inames = kernel, footprints, inames

    def map_subscript(self, expr: p.Subscript) -> Expr:
        index = tuple(self._simplified(self.rec(part)) for part in expr.index_tuple)
        return p.Subscript(expr.aggregate, index if len(index) > 1 else index[0])

    def map_linear_subscript(self, expr: LinearSubscript) -> Expr:
        return LinearSubscript(expr.aggregate, self._simplified(self.rec(expr.index)))

    def map_reduction(self, expr: Reduction) -> Expr:
        around, self.inames = self.inames, self.inames.union(expr.inames)
        try:
            return super().map_reduction(expr)
        finally:
            self.inames = around

    def _simplified(self, index: Expr) -> Expr:
        if not isinstance(index, p.ExpressionNode) or isinstance(index, p.Variable):
            return index
        found = [index, simplify(index)]
        affine = self._in_domain(found[1])
        if affine is not None:
            found.append(simplify(affine))
        return min(found, key=_size)

    def _in_domain(self, index: Expr) -> Expr | None:
        """Return the index as one affine expression that holds in the loops; or ``None``."""
        domain, _ = self.footprints.domain(Place(self.kernel.in_order(self.inames)))
        domain = self.footprints.with_params(domain, index)
        domain = domain.intersect_params(self.kernel.assumptions)
        try:
            value = pw_aff_from_expr(domain.get_space(), index)
        except ExpressionToAffineConversionError:
            return None
        if domain.is_empty():
            return None
        affs = [aff for _, aff in value.coalesce().gist(domain).get_pieces()]
        return aff_to_expr(affs[0]) if len(affs) == 1 else None


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))
