"""The range of a loop variable: first value, last value and trip count, in all forms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import pymbolic.primitives as p

from kgen.errors import StaticValueFindingError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, minus
from kgen.ir.sets.dims import Set, param_names, param_variable, params_to_dims, to_named
from kgen.ir.sets.domain import Aff, PwAff, constant_bounds, dim_max, dim_min, static_value
from kgen.ir.sets.interval import Interval
from kgen.ir.sets.quasi_affine import aff_to_expr

__all__ = ["LoopRange"]


@dataclass(frozen=True)
class LoopRange:
    """The values of one dimension of a domain, from the first to the last.

    ``outer`` are loop variables, which expressions in parameters must not contain.
    Properties raise :class:`StaticValueFindingError` if there is no such bound.
    """

    domain: Set
    name: str
    assumptions: Set
    outer: Collection[str] = ()

    @cached_property
    def _assumed(self) -> Set:
        return self.domain.intersect_params(self.assumptions)

    @cached_property
    def lower_bound_pw_aff(self) -> PwAff:
        """The first value, a function of the parameters and the loops around."""
        return dim_min(self._assumed, self.name).coalesce()

    @cached_property
    def upper_bound_pw_aff(self) -> PwAff:
        """The last value, a function of the parameters and the loops around."""
        return dim_max(self._assumed, self.name).coalesce()

    @property
    def size(self) -> PwAff:
        """The number of values, including gaps between them."""
        return (self.upper_bound_pw_aff - self.lower_bound_pw_aff + 1).coalesce()

    def is_multiple_of(self, length: int) -> bool:
        """Tell whether the number of values is a multiple of *length* for all parameters."""
        rest = self.size.mod_val(length).intersect_params(self.assumptions)
        return bool(rest.is_equal(rest.scale_val(0)))

    @property
    def interval(self) -> Interval:
        """The constant bounds for all parameters that the assumptions allow."""
        return constant_bounds(self._assumed, self.name)

    @cached_property
    def _ends(self) -> tuple[Expr, Expr]:
        """One expression each for the least value and the number of values."""
        found = constant_bounds(self.domain, self.name)
        if found.low is not None and found.count is not None:
            return found.low, found.count
        outer = [name for name in param_names(self.domain) if name in self.outer]
        domain = params_to_dims(self.domain, outer)
        what = f"the bounds of iname '{self.name}'"
        least = static_value(dim_min(domain, self.name), self.assumptions, largest=False, what=what)
        most = static_value(dim_max(domain, self.name), self.assumptions, largest=True, what=what)
        first, last = aff_to_expr(least), aff_to_expr(most)
        return first, simplify(p.Sum((minus(last, first), 1)))

    @property
    def lower(self) -> Expr:
        """The least value in all iterations of the enclosing loops, an expression of parameters.

        A constant if the domain has constant bounds; then ``extent`` is constant, too.
        """
        return self._ends[0]

    @property
    def extent(self) -> Expr:
        """The number of values from ``lower`` to the largest one, an expression of parameters."""
        return self._ends[1]

    @property
    def is_constant(self) -> bool:
        """Tell whether ``lower`` and ``extent`` are numbers."""
        try:
            return all(isinstance(end, int) for end in self._ends)
        except StaticValueFindingError:
            return False

    def largest_extent(self, low: Aff) -> int | None:
        """Return the maximum number of values, counted from *low*; 0 for an empty set.

        ``None`` if there is no maximum for all parameters. *low* is over the parameters,
        and an integer.
        """
        named = to_named(self._assumed).params()
        space = named.get_space()
        last = named.max_val(param_variable(space, self.name).sub(low.align_params(space)))
        if last.is_nan():
            return 0
        return int(last.to_python()) + 1 if last.is_int() else None
