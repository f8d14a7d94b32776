"""Loops for which some versions of gcc generate wrong masked loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import pymbolic.primitives as p

from kgen.ast.nodes import For, If, Let, Node, Run
from kgen.ir.affine import linear_form
from kgen.ir.data import ArrayBase
from kgen.ir.expr import Expr, substitute, walk
from kgen.ir.instruction import MultiAssignmentBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.nodes import LinearSubscript
from kgen.ir.tree import children_of, nodes_in

__all__ = ["has_groups_of_masked_loads"]

#: gcc replaces loops of at most as many iterations by straight-line code before it vectorizes.
_UNROLLED: Final = 16

_Values: TypeAlias = Mapping[str, Expr]
_Element: TypeAlias = p.Subscript | LinearSubscript


def has_groups_of_masked_loads(kernel: LoopKernel, body: Node) -> bool:
    """Tell whether an iteration of a loop reads neighbouring elements, each under a condition.

    gcc vectorizes ``o[2*i] = c[2*i] ? a[2*i] : 1; o[2*i + 1] = c[2*i + 1] ? a[2*i + 1] : 1`` as a
    group. If the group needs several vectors, the masked loads of all of them use the mask of the
    first one.
    """
    loops = [node for node in nodes_in(body) if isinstance(node, For)]
    return any(_reads_group(kernel, loop) for loop in loops)


def _reads_group(kernel: LoopKernel, loop: For) -> bool:
    found: dict[str, set[Expr]] = {}
    for element, is_repeated in _conditional_reads(kernel, loop.body, {}, False, False):
        variable = element.aggregate
        array = kernel.array_vars.get(variable.name) if isinstance(variable, p.Variable) else None
        if array is None or abs(_step(array, element, loop.iname)) * loop.step < 2:
            continue
        same = found.setdefault(array.name, set())
        same.add(element)
        if is_repeated or len(same) > 1:
            return True
    return False


def _step(array: ArrayBase, element: _Element, iname: str) -> int:
    """Return by how many elements an access moves in an iteration; 0 if that is not constant."""
    if isinstance(element, LinearSubscript):
        return _factor(element.index, iname)
    total = 0
    for tag, index in zip(array.dim_tags or (), element.index_tuple, strict=False):
        factor = _factor(index, iname)
        if factor:
            if not (isinstance(tag, FixedStrideArrayDimTag) and isinstance(tag.stride, int)):
                return 0
            total += factor * tag.stride
    return total


def _factor(index: Expr, iname: str) -> int:
    factors = {atom: factor for factor, atom in linear_form(index).terms}
    return factors.get(p.Variable(iname), 0)


def _conditional_reads(
    kernel: LoopKernel, node: Node, values: _Values, is_conditional: bool, is_repeated: bool
) -> Iterator[tuple[_Element, bool]]:
    """Yield elements that are read under a condition; tell whether a short loop repeats them.

    *values* are those of variables, *is_conditional* and *is_repeated* hold for *node*.
    """
    match node:
        case Run():
            insn = kernel.id_to_insn[node.insn_id]
            every = {**values, **node.values}
            if isinstance(insn, MultiAssignmentBase):
                for element in _reads_in(insn.expression, is_conditional):
                    yield substitute(element, every), is_repeated
            return
        case Let():
            values = {**values, node.name: substitute(node.value, values)}
        case If():
            for element in _reads_in(node.condition, is_conditional):
                yield substitute(element, values), is_repeated
            is_conditional = True
        case For():
            count = linear_form(p.Sum((node.stop, p.Product((-1, node.first)))))
            is_short = not count.terms and count.constant <= _UNROLLED * node.step
            if node.is_simd or not is_short:
                return
            is_repeated = is_repeated or count.constant > node.step
    for child in children_of(node):
        yield from _conditional_reads(kernel, child, values, is_conditional, is_repeated)


def _reads_in(expr: Expr, is_conditional: bool) -> Iterator[_Element]:
    if is_conditional:
        for node in walk(expr):
            if isinstance(node, p.Subscript | LinearSubscript):
                yield node
        return
    for node in walk(expr):
        if isinstance(node, p.If):
            yield from _reads_in(node.then, True)
            yield from _reads_in(node.else_, True)
        elif isinstance(node, p.LogicalAnd | p.LogicalOr):
            for child in node.children[1:]:
                yield from _reads_in(child, True)
