"""Reductions in precomputed values: the loops that their bounds depend on, and copies of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.errors import TransformError
from kgen.ir.data import Iname
from kgen.ir.expr import Expr, IdentityMapper, Reduction, substitute, variable_names, walk
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    free_dim,
    project_out_dims,
    rename_dims,
    with_dims,
    with_params,
)
from kgen.ir.sets.quasi_affine import set_from_condition

__all__ = ["ReductionCopies", "loops_of_bounds"]


def loops_of_bounds(kernel: LoopKernel, value: Expr, around: Iterable[str]) -> frozenset[str]:
    """Return those loops *around* an expression on which the bounds of its reductions depend."""
    nodes = [node for node in walk(value) if isinstance(node, Reduction)]
    found: set[str] = set()
    for node in nodes:
        outside = [n for n in nodes if any(part is node for part in walk(n.expr))]
        outer = frozenset(around).union(*(n.inames for n in outside))
        found |= {*_deciding(kernel, outer.difference(node.inames), node.inames)}
    return frozenset(found.intersection(around))


def _deciding(kernel: LoopKernel, around: Iterable[str], inames: tuple[str, ...]) -> Iterator[str]:
    """Yield the loops *around* whose values change what *inames* run over."""
    outer = tuple(sorted(around, key=kernel.iname_order.__getitem__))
    if not (outer and inames):
        return
    both = kernel.domain_of((*outer, *inames))
    possible = with_dims(kernel.domain_of(outer), inames).intersect_params(kernel.assumptions)
    for name in outer:
        if not free_dim(both, name).intersect(possible).is_subset(both):
            yield name


class ReductionCopies(IdentityMapper):
    """Gives loops of their own to reductions whose bounds depend on swept loops.

    *values* has what takes the place of a swept loop, *known* is what holds for the names in it.
    The new loops, by their old names, and their domains are in ``copies`` and ``domains`` once an
    expression has been mapped.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        around: Iterable[str],
        values: Mapping[str, Expr],
        known: Set,
        names: UniqueNameGenerator,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.around = frozenset(around)
        self.values = dict(values)
        self.known = known
        self.names = names
        self.copies: dict[str, Iname] = {}
        self.domains: list[BasicSet] = []

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        """Rename the inames, if their bounds depend on a loop that is replaced."""
        before = self.around, self.values
        deciding = [*_deciding(self.kernel, self.around, expr.inames)]
        renamed: dict[str, str] = {}
        if not self.values.keys().isdisjoint(deciding):
            renamed = {name: self.names(name) for name in expr.inames}
            self.domains.append(self._domain(deciding, renamed))
            self.copies |= {
                old: self.kernel.inames[old].copy(name=new) for old, new in renamed.items()
            }
        new = {old: p.Variable(name) for old, name in renamed.items()}
        self.around = self.around.union(expr.inames)
        self.values = {**self.values, **new}
        body = substitute(self.rec(expr.expr), new)
        self.around, self.values = before
        inames = tuple(renamed.get(name, name) for name in expr.inames)
        return Reduction(expr.operation, inames, body, expr.allow_simultaneous)

    def _domain(self, deciding: list[str], renamed: Mapping[str, str]) -> BasicSet:
        """Return what the new loops run over, which depends on what *deciding* stand for."""
        domain = self.kernel.domain_of((*deciding, *renamed))
        old = {name: f"{name}'" for name in deciding}
        domain = rename_dims(domain, old)
        for name, other in old.items():
            value = self.values.get(name, p.Variable(name))
            domain = with_params(domain, variable_names(value))
            same = p.Comparison(p.Variable(other), "==", value)
            domain = domain.intersect(set_from_condition(domain.get_space(), same))
        domain = rename_dims(project_out_dims(domain, old.values()), renamed)
        pieces = domain.gist_params(self.known).coalesce().get_basic_sets()
        if len(pieces) != 1:
            raise TransformError(
                f"the values of '{', '.join(renamed)}' are several sets, for one of "
                f"'{', '.join(deciding)}'",
                kernel=self.kernel.name,
                hint="leave the reduction where it is: sweep other loops",
            )
        return pieces[0]
