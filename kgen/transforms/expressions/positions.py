"""Positions of elements in memory: ``indexof(a[i, j])`` and ``indexof_vec(a[i, j])``."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, IdentityMapper, to_text
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, VectorArrayDimTag
from kgen.ir.mentions import POSITIONS

__all__ = ["expand_positions"]


def expand_positions(kernel: LoopKernel) -> LoopKernel:
    """Write the positions of elements as sums of subscripts times strides.

    ``indexof(a[i, j])`` counts elements, in an array of vectors the vectors; ``indexof_vec`` the
    numbers in them, too. Neither reads the element.

    Raises :class:`CodegenError` for what is no element of an array with known strides.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i, j]: 0<=i,j<4 }", "a[i, j] = indexof(a[i, j])")
    >>> print(*expand_positions(unit.default_entrypoint).instructions)
    a[i, j] = 4*i + j  {id=insn}
    """
    return kernel.map_instructions(
        lambda insn: (
            insn.with_transformed_expressions(_PositionMapper(kernel, insn).rec)
            if POSITIONS.intersection(insn.mentioned)
            else insn
        )
    )


class _PositionMapper(IdentityMapper):
    def __init__(self, kernel: LoopKernel, insn: InstructionBase) -> None:
        super().__init__()
        self.kernel = kernel
        self.insn = insn

    def map_call(self, expr: p.Call) -> Expr:
        name = expr.function.name if isinstance(expr.function, p.Variable) else None
        if name not in POSITIONS:
            return super().map_call(expr)
        element = expr.parameters[0] if len(expr.parameters) == 1 else None
        if not isinstance(element, p.Subscript) or not isinstance(element.aggregate, p.Variable):
            raise self._refusal(expr, f"'{name}' takes one element of an array")
        array = self.kernel.array_vars.get(element.aggregate.name)
        tags = () if array is None else array.dim_tags
        index = tuple(self.rec(part) for part in element.index_tuple)
        if not isinstance(tags, tuple) or len(tags) != len(index):
            raise self._refusal(expr, f"the strides of '{element.aggregate.name}' are not known")
        assert array is not None
        return self._position(expr, array, index, in_vectors=name == "indexof")

    def _position(
        self, expr: p.Call, array: ArrayBase, index: tuple[Expr, ...], *, in_vectors: bool
    ) -> Expr:
        lanes = 1
        terms: list[Expr] = [array.offset or 0]
        for axis, (tag, part) in enumerate(zip(array.dim_tags, index, strict=True)):
            is_vector = isinstance(tag, VectorArrayDimTag)
            if not isinstance(tag, FixedStrideArrayDimTag) and not is_vector:
                raise self._refusal(expr, f"axis {axis} of '{array.name}' is '{tag}'")
            if is_vector and in_vectors:
                lanes = array.shape[axis]
            else:
                terms.append(p.Product((tag.stride, part)))
        total = simplify(p.Sum(tuple(terms)))
        return total if lanes == 1 else simplify(p.FloorDiv(total, lanes))

    def _refusal(self, expr: p.Call, because: str) -> CodegenError:
        return CodegenError(
            f"'{to_text(expr)}' has no position",
            where=f"instruction '{self.insn}'",
            because=because,
            hint="declare the shape, or the strides, of the array",
        )
