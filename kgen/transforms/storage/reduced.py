"""Reductions in precomputed values, with copied loops if their bounds depend on swept loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.reduction_bounds import deciding_loops
from kgen.errors import TransformError
from kgen.ir.data import Iname
from kgen.ir.expr import Expr, IdentityMapper, Reduction, substitute, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    project_out_dims,
    rename_dims,
    with_params,
)
from kgen.ir.sets.quasi_affine import set_from_condition

__all__ = ["ReductionCopies"]


class ReductionCopies(IdentityMapper):
    """Copies the loops of reductions whose bounds depend on swept loops.

    *values* maps swept loops to their replacements, *known* has the known constraints on the names
    in these.
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
        deciding = [*deciding_loops(self.kernel, self.around, expr.inames)]
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
        """Return the domain of the new loops, which depends on the values of *deciding*."""
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
                f"for a single value of '{', '.join(deciding)}', the values of "
                f"'{', '.join(renamed)}' are a union of several sets",
                kernel=self.kernel.name,
                hint="leave the reduction where it is: sweep other loops",
            )
        return pieces[0]
