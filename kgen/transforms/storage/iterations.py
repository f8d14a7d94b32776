"""The iterations of a sequential loop, and the sets of one iteration."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pymbolic.primitives as p

from kgen.analysis.ahead import check_neighbours
from kgen.analysis.instances import bound
from kgen.errors import TransformError
from kgen.ir.affine import linear_form
from kgen.ir.expr import Expr, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    project_out_params,
    project_out_unused_params,
    rename_param,
    to_named,
    with_params,
)
from kgen.ir.sets.names import Side
from kgen.ir.sets.partition import disjoint_parts
from kgen.ir.tags import ConcurrentTag
from kgen.transforms.select import require_iname

__all__ = [
    "at_iteration",
    "iterations_of",
    "known_of",
    "later",
    "require_sequential",
    "step_in",
]

#: The name of an instruction's iteration in sets.
_ITERATION: Final = Side.BETWEEN.of("tile")


def require_sequential(kernel: LoopKernel, loop: str, what: str) -> None:
    """Reject an unknown or parallel loop; *what* describes its intended use."""
    require_iname(kernel, loop)
    if kernel.has_tag(loop, ConcurrentTag):
        (tag,) = kernel.iname_tags_of_type(loop, ConcurrentTag)
        raise TransformError(
            f"iname '{loop}' cannot be {what}: it is tagged '{tag}'",
            because="the iterations of a parallel loop have no order",
            hint="choose a sequential loop inside it, such as one that split_iname creates",
        )


def known_of(kernel: LoopKernel, inames: Collection[str]) -> Set:
    """Return the joint values of some loops as a named set."""
    domain = to_named(kernel.domain_of(kernel.in_order(inames)))
    return domain.intersect_params(kernel.assumptions.params())


def iterations_of(
    kernel: LoopKernel, loop: str, around: Collection[str], insn: InstructionBase
) -> Set:
    """Return the iterations of a loop in which *insn* runs, in terms of the loops around it.

    Raises :class:`TransformError` if they are not consecutive.
    """
    values = known_of(kernel, {*around, loop}).gist(known_of(kernel, around)).coalesce()
    if len(disjoint_parts(values)) > 1:
        raise TransformError(
            f"elements that '{insn.id}' fetches in loop '{loop}' cannot be kept between its "
            "iterations",
            where=f"instruction '{insn}'",
            because=f"they do not form a convex set: {values}",
        )
    check_neighbours(loop, values)
    return project_out_unused_params(values)


def later(values: Set, loop: str, count: int) -> Set:
    """Return the iterations of a loop shifted by *count*."""
    return at_iteration(values, loop, p.Sum((p.Variable(loop), -count)))


def at_iteration(values: Set, loop: str, iteration: Expr) -> Set:
    """Substitute an iteration for a loop variable in a named set."""
    values = with_params(values, (loop,))
    moved = with_params(rename_param(values, loop, _ITERATION), variable_names(iteration))
    return project_out_params(bound(moved, _ITERATION, iteration), (_ITERATION,))


def step_in(loop: str, subscript: Expr) -> int | None:
    """Return by how much *subscript* grows per iteration; ``None`` if this is not constant.

    >>> i, z = p.Variable("i"), p.Variable("z")
    >>> step_in("z", 2*z + i), step_in("z", i), step_in("z", i*z)
    (2, 0, None)
    """
    terms = linear_form(subscript).terms
    steps = [factor for factor, atom in terms if atom == p.Variable(loop)]
    others = variable_names(*(atom for _, atom in terms if atom != p.Variable(loop)))
    return None if loop in others else sum(steps)
