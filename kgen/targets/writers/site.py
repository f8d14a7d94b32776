"""Emission sites: statements, bounds and conditions, and the facts known there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import cgen
from constantdict import constantdict

from kgen.analysis.range import Sizes
from kgen.analysis.signs import Signs
from kgen.ir.expr import Expr

__all__ = ["EmissionSite", "HardwareIndices"]

_NO_VALUES: Mapping[str, Expr] = constantdict()
_NO_TEXTS: Mapping[Expr, str] = constantdict()
_NO_LANES: Mapping[str, str] = constantdict()


class HardwareIndices(NamedTuple):
    """The texts of the indices of the work-group and of the work-item, along each axis."""

    group: tuple[str, ...]
    local: tuple[str, ...]


class EmissionSite(NamedTuple):
    """A place in the code: a statement, or the bounds and conditions of loops around it.

    ``signs`` has the facts from loops and conditions around, ``sizes`` the maximum values if no
    parameter is negative. ``indices`` are those of work-groups and work-items. Statements have
    ``inames``, the loops around them, and ``values`` of these; ``texts`` replace elements whose
    values have another name. ``is_divergent``: only some of the work-items may be there.
    ``in_lanes``: the compiler should vectorize the code. ``streamed`` are the array elements that
    instructions set in place of their streaming stores, by id. ``unfinished`` receives the waits
    for products that continue after a loop. ``in_look_back``: a look-back combines values here.
    ``streaming`` are the arrays that are read by streaming loads.
    """

    signs: Signs
    sizes: Sizes
    indices: HardwareIndices
    inames: frozenset[str] = frozenset()
    values: Mapping[str, Expr] = _NO_VALUES
    texts: Mapping[Expr, str] = _NO_TEXTS
    is_divergent: bool = False
    in_lanes: bool = False
    streamed: Mapping[str, str] = _NO_LANES
    unfinished: list[cgen.Generable] | None = None
    in_look_back: bool = False
    streaming: frozenset[str] = frozenset()

    def statement(self, inames: frozenset[str]) -> EmissionSite:
        """Return the site of a statement, inside the domains of its loops."""
        signs, sizes = self.signs.within(None), self.sizes.within(None)
        return self._replace(
            signs=signs, sizes=sizes, inames=inames, values=_NO_VALUES, texts=_NO_TEXTS
        )

    def with_values(self, values: Mapping[str, Expr]) -> EmissionSite:
        """Return the site where loop variables have *values*."""
        return self._replace(values=values)

    def at_top(self) -> EmissionSite:
        """Return the site where no variable of the code has a value yet."""
        return self._replace(signs=self.signs.within({}), sizes=self.sizes.within({}))

    def inside(self, name: str, first: Expr, stop: Expr | None = None) -> EmissionSite:
        """Return the site in a loop from *first* to before *stop*, or where *name* is *first*."""
        signs, sizes = self.signs.inside(name, first, stop), self.sizes.inside(name, first, stop)
        return self._replace(signs=signs, sizes=sizes)

    def under(self, *conditions: Expr) -> EmissionSite:
        """Return the site where *conditions* are true."""
        signs = self.signs.under(*conditions)
        return self if signs is self.signs else self._replace(signs=signs)
