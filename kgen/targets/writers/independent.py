"""Loops, innermost or around sums, of independent iterations that compilers hardly recognize."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations_with_replacement

import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.footprints import Footprints
from kgen.ast.nodes import For, Let, Run, runs_in
from kgen.ir.affine import linear_form
from kgen.ir.data import ArrayBase, TemporaryVariable
from kgen.ir.expr import Expr, substitute, variable_names
from kgen.ir.instruction import Assignment
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.tree import nodes_in

__all__ = ["hides_independence"]

#: The subscripts of one access, in the variables of the loops around it.
_Index = tuple[Expr, ...]


def hides_independence(kernel: LoopKernel, loop: For) -> bool:
    """Tell whether iterations are independent, though each is at several elements of one array.

    ``f[0, j] = ...; f[1, j] = ...`` in a loop over ``j``: no two iterations meet, because their
    last subscripts differ. A compiler sees addresses, whose distance depends on sizes. Before it
    makes vectors, it has to compare them in pairs, and gives up where these are many. Loops inside
    may add up numbers, each iteration its own, of elements that are adjacent from one to the next.
    """
    nodes = list(nodes_in(loop.body))
    if not kernel.options.restrict or any(isinstance(node, Let) for node in nodes):
        return False
    inside = [node for node in nodes if isinstance(node, For)]
    runs = [node for node in nodes if isinstance(node, Run)]
    if not all(_is_plain(kernel, run) for run in runs):
        return False
    written, own = kernel.get_written_variables(), {run.declares for run in runs}
    if not all(_adds_adjacent(kernel, loop.iname, node, own) for node in inside):
        return False
    changing = {node.iname for node in inside}
    are_hidden = False
    for name, accesses in Footprints.of(kernel).accesses.items():
        here = list(_in_loop(accesses, runs)) if name in written else []
        if name in own or not any(access.is_write for access, _ in here):
            continue
        array = kernel.array_vars[name]
        if isinstance(array, TemporaryVariable) and array.base_storage is not None:
            return False
        indices = list(dict.fromkeys(index for _, index in here))
        for pair in combinations_with_replacement(indices, 2):
            named = (
                index is not None and len(index) == len(array.dim_tags or ()) for index in pair
            )
            if not all(named) or not _meet_in_one_iteration(kernel, loop.iname, changing, *pair):
                return False
            are_hidden = are_hidden or _differs_by_sizes(array, *pair)
    return are_hidden


def _adds_adjacent(kernel: LoopKernel, iname: str, loop: For, own: Collection[str | None]) -> bool:
    """Tell whether a loop sets only *own* scalars, and is at adjacent elements for *iname*."""
    runs = runs_in(loop.body)
    if any(isinstance(node, For) for node in nodes_in(loop.body)) or not all(
        name in own for run in runs for name in kernel.id_to_insn[run.insn_id].assignee_var_names()
    ):
        return False
    for name, accesses in Footprints.of(kernel).accesses.items():
        array = kernel.array_vars[name]
        for _, index in _in_loop(accesses, runs):
            if not _is_named(array, index):
                return False
            for tag, subscript in zip(array.dim_tags or (), index or (), strict=True):
                factor = _factors(subscript).get(p.Variable(iname), 0)
                is_adjacent = factor == 1 and getattr(tag, "stride", None) == 1
                if iname in variable_names(subscript) and not is_adjacent:
                    return False
    return True


def _is_named(array: ArrayBase, index: _Index | None) -> bool:
    """Tell whether an element is named by a subscript for each axis, not by its number."""
    return index is not None and len(index) == len(array.dim_tags or ())


def _differs_by_sizes(array: ArrayBase, one: _Index | None, other: _Index | None) -> bool:
    """Tell whether the distance of two elements, in memory, depends on sizes."""
    return any(
        first != second
        and isinstance(tag, FixedStrideArrayDimTag)
        and not isinstance(tag.stride, int)
        for tag, first, second in zip(array.dim_tags or (), one or (), other or (), strict=True)
    )


def _is_plain(kernel: LoopKernel, run: Run) -> bool:
    """Tell whether an instruction does no more than to read variables and to set one."""
    insn = kernel.id_to_insn[run.insn_id]
    return isinstance(insn, Assignment) and not insn.atomicity


def _in_loop(
    accesses: tuple[Access, ...], runs: list[Run]
) -> Iterator[tuple[Access, _Index | None]]:
    """Give the accesses of *runs*, with their subscripts there; none where they are not named."""
    for run in runs:
        for access in accesses:
            if access.insn_id == run.insn_id:
                index = access.index
                values = run.values
                yield (
                    access,
                    None if index is None else tuple(substitute(part, values) for part in index),
                )


def _meet_in_one_iteration(
    kernel: LoopKernel,
    iname: str,
    changing: Collection[str],
    one: _Index | None,
    other: _Index | None,
) -> bool:
    """Tell whether elements are the same in one iteration of a loop only, if at all.

    So they are where the two have an equal subscript, in which a multiple of the loop's variable
    is added to what does not change in the loop.
    """
    if one is None or other is None:
        return False
    return any(
        first == second and _is_one_to_one(kernel, iname, changing, first)
        for first, second in zip(one, other, strict=True)
    )


def _is_one_to_one(
    kernel: LoopKernel, iname: str, changing: Collection[str], subscript: Expr
) -> bool:
    factors = _factors(subscript)
    rest = set(variable_names(*(atom for atom in factors if atom != p.Variable(iname))))
    constant = kernel.inames.keys() | kernel.arg_dict.keys()
    return (
        factors.get(p.Variable(iname), 0) != 0
        and iname not in rest
        and rest <= constant - kernel.get_written_variables() - set(changing)
    )


def _factors(subscript: Expr) -> dict[Expr, int]:
    """Return the multiple of each atom that is added in a subscript."""
    return {atom: factor for factor, atom in linear_form(subscript).terms}
