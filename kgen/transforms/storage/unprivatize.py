"""The inverse of privatization: one element for all iterations of a loop."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.access import collect_accesses_to
from kgen.errors import TransformError
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, subscript
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import ComputedStrideArrayDimTag
from kgen.ir.mentions import mentions_of
from kgen.transforms.array_accesses import (
    ArrayAccessMapper,
    Index,
    rewrite_accesses,
)
from kgen.transforms.select import require_inames, transform
from kgen.transforms.storage.privatize import chosen_temporaries, users_of

__all__ = ["is_shifted", "unprivatize_temporaries_with_inames"]


@transform
def unprivatize_temporaries_with_inames(
    kernel: LoopKernel,
    privatizing_inames: str | Iterable[str],
    only_var_names: str | Iterable[str] | None = None,
) -> LoopKernel:
    """Remove the axes of temporaries that are always subscripted by the given loop variables.

    The reverse of :func:`privatize_temporaries_with_inames`: all iterations use one entry,
    one after the other.

    ::

        for i                   for i
          t[i] = 2*a[i]    =>     t = 2*a[i]
          b[i] = t[i]             b[i] = t

    Raises :class:`TransformError` for a variable of *only_var_names* without such an axis.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["<> t[i] = 2*a[i]", "b[i] = t[i]"])
    >>> print(unprivatize_temporaries_with_inames(knl, "i").default_entrypoint.instructions[0])
    t = 2*a[i]  {id=insn}
    """
    inames = require_inames(kernel, privatizing_inames)
    temporaries = chosen_temporaries(kernel, only_var_names)
    users = users_of(kernel, temporaries)
    removed: dict[str, tuple[int, ...]] = {}
    for name in temporaries:
        axes = _axes_of(kernel, name, users.get(name, ()), inames)
        if axes:
            removed[name] = axes
        elif only_var_names is not None:
            raise TransformError(
                f"temporary '{name}' has no axis that is always '{', '.join(inames)}'",
                hint="all its uses must be inside of the loop, subscripted by it",
            )
    if not removed:
        return kernel
    changed = {name: _without_axes(temporaries[name], axes) for name, axes in removed.items()}

    def drop(variable: p.Variable, index: Index) -> Expr:
        axes = removed[variable.name]
        return subscript(variable, tuple(part for k, part in enumerate(index) if k not in axes))

    mapper = ArrayAccessMapper(kernel, dict.fromkeys(removed, drop))
    return rewrite_accesses(kernel, mapper, changed)


def _axes_of(
    kernel: LoopKernel, name: str, users: tuple[InstructionBase, ...], inames: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the axes of *name* that are the same function of a loop of *inames* everywhere."""
    accesses = collect_accesses_to(kernel, name)
    subscripts = [access.index for access in accesses if access.index is not None]
    if not subscripts or len(subscripts) < len(accesses):
        return ()
    shared = [iname for iname in inames if all(iname in insn.within_inames for insn in users)]
    axes = []
    for axis, first in enumerate(subscripts[0]):
        is_same = all(len(index) > axis and index[axis] == first for index in subscripts)
        if is_same and is_shifted(first, shared):
            axes.append(axis)
    return tuple(axes)


def is_shifted(expr: Expr, inames: Iterable[str]) -> bool:
    """Tell whether *expr* is a loop variable plus a term without loop variables."""
    terms = expr.children if isinstance(expr, p.Sum) else (expr,)
    loops = [term for term in terms if isinstance(term, p.Variable) and term.name in inames]
    others = mentions_of(*(term for term in terms if term not in loops)).variables
    return len(loops) == 1 and others.keys().isdisjoint(inames)


def _without_axes(variable: TemporaryVariable, axes: Collection[int]) -> TemporaryVariable:
    """Drop axes; strides that follow from the extents are derived anew."""

    def kept(items: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(item for axis, item in enumerate(items) if axis not in axes)

    changes: dict[str, Any] = {}
    if isinstance(variable.dim_tags, tuple):
        tags = kept(variable.dim_tags)
        levels = sorted(tag.layout_nesting_level for tag in tags if _level(tag) is not None)
        changes["dim_tags"] = tuple(
            tag
            if _level(tag) is None
            else ComputedStrideArrayDimTag(levels.index(tag.layout_nesting_level))
            for tag in tags
        )
    for field in ("shape", "dim_names", "storage_shape", "base_indices"):
        value = getattr(variable, field)
        if isinstance(value, tuple):
            changes[field] = kept(value)
    return variable.copy(**changes)


def _level(tag: Any) -> int | None:
    level: int | None = getattr(tag, "layout_nesting_level", None)
    return level
