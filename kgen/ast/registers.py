"""Arrays distributed over work-items: a work-item's elements become its registers."""

from __future__ import annotations

from itertools import compress

import pymbolic.primitives as p

from kgen.analysis.held import is_held
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, subscript
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.types import AddressSpace
from kgen.transforms.array_accesses import ArrayAccessMapper, Index, rewrite_accesses

__all__ = ["in_registers"]


def in_registers(kernel: DeviceKernel) -> DeviceKernel:
    """Remove the work-item axes of arrays that are distributed over registers.

    ::

        s[i, lane] = 2*t[i, lane]   # lane: l.0  =>  s[i] = 2*t[i]   # private
    """
    held = {n: t for n, t in kernel.temporary_variables.items() if is_held(kernel, n)}
    if not held:
        return kernel

    def without_items(variable: p.Variable, index: Index) -> Expr:
        return subscript(variable, tuple(compress(index, _own_axes(held[variable.name]))))

    mapper = ArrayAccessMapper(kernel, dict.fromkeys(held, without_items))
    own = {name: _of_one_item(temporary) for name, temporary in held.items()}
    return DeviceKernel(PreparedKernel(rewrite_accesses(kernel, mapper, own)))


def _own_axes(temporary: TemporaryVariable) -> list[bool]:
    assert temporary.distribution is not None
    return [item is None for item in temporary.distribution]


def _of_one_item(temporary: TemporaryVariable) -> TemporaryVariable:
    shape = tuple(compress(temporary.shape, _own_axes(temporary)))
    return temporary.copy(
        shape=shape,
        dim_tags=None,
        dim_names=None,
        has_layout=False,
        address_space=AddressSpace.PRIVATE,
        distribution=(None,) * len(shape),
    )
