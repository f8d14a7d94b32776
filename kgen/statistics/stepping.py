"""Strides of accesses along a loop, between work-items or iterations."""

from __future__ import annotations

from kgen.analysis.access import Access
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import param_names
from kgen.statistics.memory import steps_of

__all__ = ["stride_along"]


def stride_along(kernel: LoopKernel, access: Access, iname: str) -> Expr:
    """Return by how many elements an access moves from one value of *iname* to the next.

    ``None`` where that is not the same everywhere, and where data decides: variables that have
    other values for each value of *iname*, in subscripts or in the bounds of the loops that
    subscripts use. So work-items that each go along a row of their own do not access one element.
    """
    names = variable_names(*(access.index or ()))
    loops = tuple(name for name in names if name in kernel.inames)
    used = {*names, *(param_names(kernel.domain_of(loops)) if loops else ())}
    for name in sorted(used & kernel.temporary_variables.keys()):
        for insn_id in kernel.writer_map().get(name, ()):
            if iname in kernel.id_to_insn[insn_id].within_inames:
                return None
    return steps_of(kernel, access, iname)
