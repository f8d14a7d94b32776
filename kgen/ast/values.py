"""Names of values that subscripts cancel: they are replaced by the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pymbolic.primitives as p

from kgen.ast.nodes import Let, Node, Run, runs_in
from kgen.ast.unroll import bind
from kgen.ir.affine import linear_form
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    IdentityMapper,
    LocalHardwareAxisIndex,
    substitute,
    variable_names,
    walk,
)
from kgen.ir.instruction import CInstruction
from kgen.ir.stages import DeviceKernel
from kgen.ir.tree import exprs_of, map_children, nodes_in

__all__ = ["replace_cancelled_names"]

_PLAIN: Final = (p.Variable, GroupHardwareAxisIndex, LocalHardwareAxisIndex)


def replace_cancelled_names(node: Node, kernel: DeviceKernel) -> Node:
    """Replace the name of a value that only subscripts use, if that makes none of them longer.

    ::

        j = 16*gid(0) + lid(0)                     update(j=16*gid(0) + lid(0))
        update(): s += t[j - 16*gid(0)]     =>     s += t[lid(0)]
    """
    node = map_children(node, lambda child: replace_cancelled_names(child, kernel))
    if isinstance(node, Let) and _is_cancelled(kernel, node):
        return bind(node.body, node.name, node.value)
    return node


def _is_cancelled(kernel: DeviceKernel, node: Let) -> bool:
    name, value = node.name, node.value
    if not all(isinstance(atom, _PLAIN) for _, atom in linear_form(value).terms):
        return False
    for part in nodes_in(node.body):
        if not isinstance(part, Run) and name in variable_names(*exprs_of(part)):
            return False
    return all(_stays_short(kernel, run, name, value) for run in runs_in(node.body))


def _stays_short(kernel: DeviceKernel, run: Run, name: str, value: Expr) -> bool:
    """Tell whether *run* uses *name* in subscripts only, none with more terms by *value*."""
    insn = kernel.id_to_insn[run.insn_id]
    changing = {k for k, v in run.values.items() if name in variable_names(v)}
    changing |= {name} - run.values.keys()
    if insn.within_inames.isdisjoint(changing):
        return True
    exprs = insn.expressions()
    outside = variable_names(*map(_WithoutSubscripts(), exprs))
    if isinstance(insn, CInstruction) or not changing.isdisjoint(outside):
        return False
    named = {name: p.Variable(name), **run.values}
    by_value = {k: substitute(v, {name: value}) for k, v in named.items()}
    return all(
        _n_terms(index, by_value) <= _n_terms(index, run.values)
        for index in _subscripts(exprs)
        if not changing.isdisjoint(variable_names(index))
    )


def _subscripts(exprs: tuple[Expr, ...]) -> Iterator[Expr]:
    for part in walk(*exprs):
        if isinstance(part, p.Subscript):
            yield from part.index_tuple


def _n_terms(index: Expr, values: Mapping[str, Expr]) -> int:
    form = linear_form(substitute(index, values))
    return len(form.terms) + bool(form.constant)


class _WithoutSubscripts(IdentityMapper):
    """Leaves out subscripts, with what they contain."""

    def map_subscript(self, expr: p.Subscript, *args: object, **kwargs: object) -> Expr:
        return 0
