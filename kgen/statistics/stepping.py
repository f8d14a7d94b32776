"""Strides of accesses along a loop, between work-items or iterations, and vectors."""

from __future__ import annotations

import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.steps import strided_loops
from kgen.ir.affine import linear_form, simplify
from kgen.ir.digits import join_digits
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import param_names
from kgen.ir.tags import VectorizeTag
from kgen.statistics.memory import steps_of
from kgen.statistics.trips import trip_count

__all__ = ["stride_along", "vector_length"]


def stride_along(kernel: LoopKernel, access: Access, iname: str) -> Expr:
    """Return the stride of an access along *iname*, in elements.

    ``None`` if it is not constant or depends on data: on variables with different values for each
    value of *iname*, in subscripts or in the bounds of their loops. So work-items that each process
    a row of their own do not access one element.
    """
    names = variable_names(*(access.index or ()))
    loops = tuple(name for name in names if name in kernel.inames)
    used = {*names, *(param_names(kernel.domain_of(loops)) if loops else ())}
    for name in sorted(used & kernel.temporary_variables.keys()):
        for insn_id in kernel.writer_map().get(name, ()):
            if iname in kernel.id_to_insn[insn_id].within_inames:
                return None
    moved = [iname, *(loop for loop, start in strided_loops(kernel).items() if start == iname)]
    steps = [steps_of(kernel, access, name) for name in moved]
    return None if None in steps else simplify(p.Sum(tuple(steps)))


def vector_length(kernel: LoopKernel, access: Access) -> int:
    """Return the number of adjacent elements that a work-item moves at once, by a ``vec`` loop.

    It is 1 if subscripts do not prove that vectors start at multiples of their length.
    """
    strides = kernel.array_vars[access.array].fixed_strides
    terms = [p.Product(pair) for pair in zip(strides, access.index or (), strict=True)]
    form = linear_form(join_digits(simplify(p.Sum((0, *terms)))))
    steps = {atom: factor for factor, atom in form.terms}
    for name in access.place.inames:
        length = trip_count(kernel, name).value if kernel.has_tag(name, VectorizeTag) else None
        if isinstance(length, int) and steps.pop(p.Variable(name), 0) == 1:
            apart = (form.constant, *steps.values())
            return 1 if any(value % length for value in apart) else length
    return 1
