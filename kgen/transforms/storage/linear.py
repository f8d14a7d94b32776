"""Linear subscripts, ``a[[k]]``, as subscripts of the axes."""

from __future__ import annotations

from itertools import pairwise

import pymbolic.primitives as p

from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.data import ArrayBase, ImageArg
from kgen.ir.digits import join_digits
from kgen.ir.expr import Expr, IdentityMapper, LinearSubscript, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag

__all__ = ["subscript_axes"]


def subscript_axes(kernel: LoopKernel) -> LoopKernel:
    """Write linear subscripts of arrays without gaps as subscripts of their axes.

    This applies to arrays whose extents are constant, except that of the outermost axis. Others
    keep their linear subscripts, and so do those for which the code would need divisions.

    >>> import kgen as lp
    >>> data = [lp.GlobalArg("a", "float32", shape="n"), lp.GlobalArg("b", "float32", shape="n, 4")]
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[[i]] = b[[i]]", data)
    >>> print(*subscript_axes(unit.default_entrypoint).instructions)
    a[i] = b[i // 4, i % 4]  {id=insn}
    """
    mapper = _Mapper(kernel)
    return kernel.map_instructions(
        lambda insn: (
            insn.with_transformed_expressions(mapper.rec)
            if any(isinstance(node, LinearSubscript) for node in walk(*insn.expressions()))
            else insn
        )
    )


class _Mapper(IdentityMapper):
    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__()
        self.arrays = kernel.array_vars

    def map_linear_subscript(self, expr: LinearSubscript) -> Expr:
        number = self.rec(expr.index)
        array = self.arrays.get(assignee_name(expr))
        axes = None if array is None else _axes_without_gaps(array)
        if axes is None:
            return LinearSubscript(expr.aggregate, number)
        index: dict[int, Expr] = {}
        for place, (axis, stride, extent) in enumerate(axes):
            digit = number if stride == 1 else p.FloorDiv(number, stride)
            index[axis] = simplify(digit if place == 0 else p.Remainder(digit, extent))
        again = tuple(p.Product((stride, index[axis])) for axis, stride, _ in axes)
        if join_digits(p.Sum((0, *again))) != join_digits(number):
            return LinearSubscript(expr.aggregate, number)  # divisions would stay in the code
        return p.Subscript(expr.aggregate, tuple(index[axis] for axis in range(len(axes))))


def _axes_without_gaps(array: ArrayBase) -> list[tuple[int, int, Expr]] | None:
    """Return the axes with their strides and extents, outermost first in memory."""
    tags, shape = array.dim_tags, array.shape
    if isinstance(array, ImageArg) or not isinstance(shape, tuple) or not isinstance(tags, tuple):
        return None
    strides = [
        tag.stride
        for tag in tags
        if isinstance(tag, FixedStrideArrayDimTag) and isinstance(tag.stride, int)
    ]
    if not strides or len(strides) < len(tags):
        return None
    axes = sorted(zip(range(len(tags)), strides, shape, strict=True), key=lambda axis: -axis[1])
    has_gaps = axes[-1][1] != 1 or any(
        type(inner[2]) is not int or outer[1] != inner[1] * inner[2]
        for outer, inner in pairwise(axes)
    )
    return None if has_gaps else axes
