"""Cached facts about one domain of a kernel: the names of its dimensions, its projections."""

from __future__ import annotations

from functools import cached_property

from kgen.ir.sets.dims import BasicSet, Set, dim_names, param_names
from kgen.ir.sets.domain import restrict

__all__ = ["DomainFacts"]


class DomainFacts:
    """A domain of a kernel: the names of its dimensions, and its projections on some inames."""

    def __init__(self, domain: BasicSet) -> None:
        self.domain = domain
        self.dims = dim_names(domain)
        self.params = param_names(domain)
        self._memo: dict[tuple[str, ...], Set] = {}

    @cached_property
    def holds_always(self) -> bool:
        """Whether it is nonempty for all values of parameters and other inames."""
        return not self.params and not self.domain.is_empty()

    def restricted(self, inames: tuple[str, ...]) -> Set:
        """Return the values that *inames* take, for all parameters and other inames."""
        found = self._memo.get(inames)
        if found is None:
            found = self._memo[inames] = restrict(self.domain, inames)
        return found
