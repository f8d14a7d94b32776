"""Mappers for users: they visit the variables of reductions and of swept arrays, too."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pymbolic.primitives as p
from pymbolic.mapper.dependency import DependencyMapper as _DependencyMapper

from kgen.ir.expr import CombineMapper, Expr, Reduction, SubArrayRef
from kgen.ir.expr import IdentityMapper as _IdentityMapper

__all__ = ["DependencyMapper", "IdentityMapper"]


class IdentityMapper(_IdentityMapper):
    """Copy an expression; a subclass changes what it defines, names of loops included.

    >>> from kgen.ir.language.expressions import parse
    >>> class Renamer(IdentityMapper):
    ...     def map_variable(self, expr):
    ...         return p.Variable(expr.name + "_new")
    >>> print(Renamer()(parse("sum(k, a[k])")))
    reduce(sum, [k_new], a_new[k_new])
    """

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        mapped = super().map_reduction(expr, *args, **kwargs)
        inames = tuple(self._name(name, *args, **kwargs) for name in expr.inames)
        if not isinstance(mapped, Reduction) or inames == expr.inames:
            return mapped
        return mapped.over(inames, mapped.exprs)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any, **kwargs: Any) -> Expr:
        mapped = super().map_sub_array_ref(expr, *args, **kwargs)
        swept = tuple(
            p.Variable(self._name(each.name, *args, **kwargs)) for each in expr.swept_inames
        )
        if not isinstance(mapped, SubArrayRef) or swept == expr.swept_inames:
            return mapped
        return SubArrayRef(swept, mapped.subscript)

    def _name(self, name: str, *args: Any, **kwargs: Any) -> str:
        new = self.rec(p.Variable(name), *args, **kwargs)
        return new.name if isinstance(new, p.Variable) else name


class DependencyMapper(_DependencyMapper[...], CombineMapper):
    """Collect what an expression depends on: variables and subscripts, but no names of functions.

    Arguments are those of pymbolic's; loops that a reduction or a part of an array runs over do
    not count.

    >>> from kgen.ir.language.expressions import parse
    >>> sorted(map(str, DependencyMapper()(parse("sum(k, a[i, k]) + f(x)"))))
    ['a[i, k]', 'x']
    >>> sorted(map(str, DependencyMapper(composite_leaves=False)(parse("sum(k, a[i, k]) + f(x)"))))
    ['a', 'i', 'x']
    """

    def map_call(self, expr: p.Call, *args: Any, **kwargs: Any) -> Any:
        return self.map_tuple(expr.parameters, *args, **kwargs)

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Any:
        return self._without(self.map_tuple(expr.exprs, *args, **kwargs), expr.inames)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any, **kwargs: Any) -> Any:
        found = self.rec(expr.subscript, *args, **kwargs)
        return self._without(found, [each.name for each in expr.swept_inames])

    def _without(self, found: Any, inames: Collection[str]) -> Any:
        return frozenset(each for each in found if getattr(each, "name", None) not in inames)
