"""Pragmas for loops of independent iterations, innermost or around sums, that compilers miss."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations_with_replacement
from typing import TypeAlias

import pymbolic.primitives as p

from kgen.analysis.access import Access
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
_Index: TypeAlias = tuple[Expr, ...]
#: All accesses of a kernel to each array.
Accesses: TypeAlias = Mapping[str, tuple[Access, ...]]


def hides_independence(kernel: LoopKernel, accesses: Accesses, loop: For) -> bool:
    """Tell whether iterations are independent, though each accesses several elements of one array.

    ``f[0, j] = ...; f[1, j] = ...`` in a loop over ``j``: no two iterations conflict, because their
    last subscripts differ. A compiler sees addresses, whose distance depends on sizes. Before it
    vectorizes, it must compare them in pairs, and gives up if there are many. Loops inside
    may accumulate numbers, separately in each iteration, from elements that are adjacent between
    iterations. *accesses* are those of the kernel, by array.
    """
    nodes = list(nodes_in(loop.body))
    if not kernel.options.restrict or any(isinstance(node, Let) for node in nodes):
        return False
    inside = [node for node in nodes if isinstance(node, For)]
    runs = [node for node in nodes if isinstance(node, Run)]
    if not any(_has_sizes_in_strides(array) for array in _written(kernel, runs)):
        return False
    own = {run.declares for run in runs}
    pairs = list(_pairs_of_elements(kernel, accesses, runs, own))
    if not any(_differs_by_sizes(*pair) for pair in pairs):
        return False
    changing = {node.iname for node in inside}
    return (
        all(_is_plain(kernel, run) for run in runs)
        and all(_adds_adjacent(kernel, accesses, loop.iname, node, own) for node in inside)
        and all(
            _is_alone(array) and _meet_in_one_iteration(kernel, loop.iname, changing, *pair)
            for array, *pair in pairs
        )
    )


def _written(kernel: LoopKernel, runs: list[Run]) -> Iterator[ArrayBase]:
    """Yield the arrays that *runs* write."""
    insns = (kernel.id_to_insn[run.insn_id] for run in runs)
    names = dict.fromkeys(name for insn in insns for name in insn.assignee_var_names())
    return (kernel.array_vars[name] for name in names)


def _has_sizes_in_strides(array: ArrayBase) -> bool:
    """Tell whether the distances of elements in memory depend on sizes."""
    return any(map(_is_of_sizes, array.dim_tags or ()))


def _is_of_sizes(tag: object) -> bool:
    return isinstance(tag, FixedStrideArrayDimTag) and not isinstance(tag.stride, int)


def _pairs_of_elements(
    kernel: LoopKernel, accesses: Accesses, runs: list[Run], own: Collection[str | None]
) -> Iterator[tuple[ArrayBase, _Index | None, _Index | None]]:
    """Yield the pairs of elements, also equal ones, of each array that *runs* write."""
    for array in _written(kernel, runs):
        if array.name not in own:
            indices = dict.fromkeys(_in_loop(accesses.get(array.name, ()), runs))
            for one, other in combinations_with_replacement(indices, 2):
                yield array, one, other


def _is_alone(array: ArrayBase) -> bool:
    """Tell whether no other array shares the storage."""
    return not isinstance(array, TemporaryVariable) or array.base_storage is None


def _adds_adjacent(
    kernel: LoopKernel, accesses: Accesses, iname: str, loop: For, own: Collection[str | None]
) -> bool:
    """Tell whether a loop sets only *own* scalars, and accesses adjacent elements for *iname*."""
    runs = runs_in(loop.body)
    if any(isinstance(node, For) for node in nodes_in(loop.body)) or not all(
        name in own for run in runs for name in kernel.id_to_insn[run.insn_id].assignee_var_names()
    ):
        return False
    for name, every in _touched(kernel, accesses, runs):
        array = kernel.array_vars[name]
        for index in _in_loop(every, runs):
            if not _is_named(array, index):
                return False
            for tag, subscript in zip(array.dim_tags or (), index or (), strict=True):
                factor = _factors(subscript).get(p.Variable(iname), 0)
                is_adjacent = factor == 1 and getattr(tag, "stride", None) == 1
                if iname in variable_names(subscript) and not is_adjacent:
                    return False
    return True


def _is_named(array: ArrayBase, index: _Index | None) -> bool:
    """Tell whether an element has a subscript for each axis, not a linear index."""
    return index is not None and len(index) == len(array.dim_tags or ())


def _differs_by_sizes(array: ArrayBase, one: _Index | None, other: _Index | None) -> bool:
    """Tell whether the distance of two such elements in memory depends on sizes."""
    if not (_is_named(array, one) and _is_named(array, other)):
        return False
    return any(
        first != second and _is_of_sizes(tag)
        for tag, first, second in zip(array.dim_tags or (), one or (), other or (), strict=True)
    )


def _is_plain(kernel: LoopKernel, run: Run) -> bool:
    """Tell whether an instruction only reads variables and sets one."""
    insn = kernel.id_to_insn[run.insn_id]
    return isinstance(insn, Assignment) and not insn.atomicity


def _touched(
    kernel: LoopKernel, accesses: Accesses, runs: list[Run]
) -> Iterator[tuple[str, tuple[Access, ...]]]:
    """Yield the arrays that *runs* access, with all accesses of the kernel to each."""
    names = {name for run in runs for name in kernel.id_to_insn[run.insn_id].dependency_names()}
    return ((name, accesses[name]) for name in sorted(names & accesses.keys()))


def _in_loop(accesses: tuple[Access, ...], runs: list[Run]) -> Iterator[_Index | None]:
    """Yield the subscripts of the accesses of *runs*; ``None`` for linear indices."""
    for run in runs:
        for access in accesses:
            if access.insn_id == run.insn_id:
                index, values = access.index, run.values
                yield None if index is None else tuple(substitute(e, values) for e in index)


def _meet_in_one_iteration(
    kernel: LoopKernel,
    iname: str,
    changing: Collection[str],
    one: _Index | None,
    other: _Index | None,
) -> bool:
    """Tell whether elements are equal in at most one iteration of a loop.

    This is so if the two have an equal subscript that is the sum of a multiple of the loop's
    variable and of loop-invariant terms.
    """
    if one is None or other is None or len(one) != len(other):
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
    """Return the coefficient of each atom in a subscript."""
    return {atom: factor for factor, atom in linear_form(subscript).terms}
