"""Temporaries distributed over the registers of work-items, each of which has its own elements."""

from __future__ import annotations

from collections.abc import Iterator

import pymbolic.primitives as p

from kgen.analysis.access import Access, collect_accesses_to
from kgen.analysis.products import tensor_factors, tensor_loops
from kgen.analysis.signs import Signs
from kgen.analysis.typing import ExpressionTyper
from kgen.errors import ScheduleError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, minus, substitute, to_text, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import LocalInameTag, TensorTag

__all__ = ["check_held", "find_strange", "is_held"]


def is_held(kernel: LoopKernel, name: str) -> bool:
    """Tell whether an array is distributed over the registers of work-items on the target."""
    array = kernel.temporary_variables.get(name)
    return array is not None and array.distribution is not None and kernel.target.has_tensor_cores


def check_held(kernel: LoopKernel) -> LoopKernel:
    """Reject an access to an element that another work-item holds; return the kernel."""
    for name in kernel.temporary_variables:
        if not is_held(kernel, name):
            continue
        for access, because in find_strange(kernel, name):
            raise ScheduleError(
                f"work-items cannot hold '{name}' in registers",
                kernel=kernel.name,
                where=f"instruction '{kernel.id_to_insn[access.insn_id]}'",
                because=because,
                hint="omit distribute_temporaries, so that it stays in local memory",
            )
    return kernel


def find_strange(kernel: LoopKernel, name: str) -> Iterator[tuple[Access, str]]:
    """Yield the accesses to elements of other work-items, and the reasons."""
    for access in collect_accesses_to(kernel, name):
        because = _why_strange(kernel, access)
        if because is not None:
            yield access, because


def _why_strange(kernel: LoopKernel, access: Access) -> str | None:
    insn = kernel.id_to_insn[access.insn_id]
    array = kernel.temporary_variables[access.array]
    assert array.distribution is not None
    for each in kernel.axes.values():
        is_wide = isinstance(each.tag, LocalInameTag) and each.size > 1
        if is_wide and each.tag.axis not in array.distribution:
            return f"all work-items along l.{each.tag.axis} would hold '{access}'"
    signs = Signs(kernel)
    for axis, item in enumerate(array.distribution):
        if item is None:
            continue
        if access.index is None:
            return f"the work-item that holds '{access}' is not known"
        own = _item(kernel, access, item)
        if own is None:
            return f"it is in no loop on l.{item}, and all work-items there would hold '{access}'"
        for found in _subscripts(kernel, insn, access, access.index[axis]):
            apart = simplify(minus(found, p.Variable(own)), None, signs.interval)
            if signs.interval(apart).only != 0:
                return (
                    f"'{access}' is held by the work-item '{to_text(found)}' along l.{item}, not "
                    f"by '{own}'"
                )
    return None


def _item(kernel: LoopKernel, access: Access, axis: int) -> str | None:
    """Return the loop on a work-item axis around an access."""
    names = (n for n in access.place.inames if kernel.has_tag(n, LocalInameTag))
    for name in names:
        (tag,) = kernel.iname_tags_of_type(name, LocalInameTag)
        if tag.axis == axis:
            return name
    return None


def _subscripts(
    kernel: LoopKernel, insn: InstructionBase, access: Access, index: Expr
) -> Iterator[Expr]:
    """Yield the subscripts that a work-item itself uses: its elements of a factor."""
    if any(kernel.has_tag(name, TensorTag) for name in insn.reduction_inames()):
        return  # becomes a loop, and is checked then
    loops = tensor_loops(kernel, insn)
    is_step = any(kernel.has_tag(name, TensorTag) for name in insn.within_inames)
    if not is_step or loops is None or access.array in insn.assignee_var_names():
        yield index
        return
    factors = tensor_factors(loops, insn, ExpressionTyper(kernel))
    if factors is None or loops.shape.a is None or loops.shape.b is None:
        yield index
        return
    sides = ((factors.a, loops.shape.a, True), (factors.b, loops.shape.b, False))
    for factor, fragment, is_rows in sides:
        if access.array in variable_names(factor):
            for number in range(fragment.count):
                yield substitute(index, loops.at_element(number, is_rows=is_rows))
