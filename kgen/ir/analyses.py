"""Cached analysis results of frozen values, and the fields on which each depends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

__all__ = ["Analysis", "AnalysisCache", "Derived", "derived"]

ValueT = TypeVar("ValueT")


class Derived(cached_property[ValueT]):
    """A property that a copy keeps unless one of the fields that it depends on changes.

    If it *is_shared*, it is a table that the value and its copies fill together.
    """

    def __init__(self, find: Callable[[Any], ValueT], fields: frozenset[str], is_shared: bool):
        super().__init__(find)
        self.fields = fields
        self.is_shared = is_shared


def derived(
    *fields: str, is_shared: bool = False
) -> Callable[[Callable[[Any], ValueT]], cached_property[ValueT]]:
    """Turn a method into a property that depends on *fields*, see :class:`Derived`."""
    return lambda find: Derived(find, frozenset(fields), is_shared)


class Analysis(Generic[ValueT]):
    """A query on values of a type; an :class:`AnalysisCache` keeps its results, by key.

    The results depend on *fields*, by default on all.

    >>> import kgen as lp
    >>> SIZES = Analysis[int](lp.LoopKernel, "instructions")
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]").default_entrypoint
    >>> knl.analyses.answer(SIZES, None, lambda: len(knl.instructions))
    1
    >>> knl.copy(name="other").analyses.answer(SIZES, None, lambda: 1/0)
    1
    """

    #: the analyses of each type of values
    of_type: ClassVar[dict[type, list[Analysis[Any]]]] = {}

    def __init__(self, of: type, *fields: str) -> None:
        self.fields = frozenset(fields)
        self.of_type.setdefault(of, []).append(self)


class AnalysisCache:
    """The results of queries on a frozen value."""

    __slots__ = ("_of", "_tables")

    def __init__(self, of: type) -> None:
        self._of = of
        self._tables: dict[Analysis[Any], dict[Hashable, Any]] = {}

    def answer(
        self, analysis: Analysis[ValueT], key: Hashable, find: Callable[[], ValueT]
    ) -> ValueT:
        """Return the result of an analysis for a key, which *find* computes the first time."""
        table = self._tables.get(analysis)
        if table is None:
            table = self._tables[analysis] = {}
        if key not in table:
            table[key] = find()
        found: ValueT = table[key]
        return found

    def after(self, changed: Collection[str]) -> AnalysisCache:
        """Return the cache of a copy with changed fields; both share the unaffected results."""
        new = AnalysisCache(self._of)
        for analysis in Analysis.of_type.get(self._of, ()):
            if analysis.fields and analysis.fields.isdisjoint(changed):
                new._tables[analysis] = self._tables.setdefault(analysis, {})
        return new
