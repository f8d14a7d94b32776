"""Privatization: temporaries with one element per iteration of a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.loop_bounds import reads_in_bounds
from kgen.errors import TransformError
from kgen.ir.affine import memory_length
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, is_zero, subscript
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from kgen.ir.mentions import mentions_of
from kgen.ir.sets.dims import dim_names, param_names
from kgen.ir.sets.loop_range import LoopRange
from kgen.ir.tags import IlpBaseTag, InameImplementationTag, VectorizeTag
from kgen.transforms.array_accesses import (
    ArrayAccessMapper,
    Index,
    rewrite_accesses,
)
from kgen.transforms.select import (
    NoSuchNameError,
    require_inames,
    split_names,
    transform,
)
from kgen.transforms.uses import rules_of

__all__ = [
    "privatize_for_ilp",
    "privatize_temporaries_with_inames",
    "has_lanes",
    "with_axes",
]


@transform
def privatize_temporaries_with_inames(
    kernel: LoopKernel,
    privatizing_inames: str | Iterable[str],
    only_var_names: str | Iterable[str] | None = None,
) -> LoopKernel:
    """Give each iteration of some loops its own element of the temporaries written in them.

    Temporaries whose subscripts already contain the loop variable stay as they are. With their
    own entries, iterations may be interleaved, or loops interchanged.

    :arg only_var_names: the temporaries to change; all of them by default

    ::

        for i                        for i
          acc = 0                      acc[i] = 0
          for k                        for k
            acc = acc + a[i,k]  =>       acc[i] = acc[i] + a[i,k]

    Raises :class:`TransformError` if a temporary is written inside such a loop and
    used outside it, and if the bounds of the loop have no single expression.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["<> t = 2*a[i]", "b[i] = t"])
    >>> print(privatize_temporaries_with_inames(knl, "i").default_entrypoint.instructions[0])
    t[i] = 2*a[i]  {id=insn}
    """
    inames = require_inames(kernel, privatizing_inames)
    return _privatize(kernel, inames, chosen_temporaries(kernel, only_var_names))


def privatize_for_ilp(kernel: LoopKernel) -> LoopKernel:
    """Give each instance of loops tagged ``ilp`` or ``vec`` its own temporaries.

    See :func:`privatize_temporaries_with_inames`. Raises :class:`TransformError` for such a
    loop around a temporary if its trip count is not a constant.

    ::

        for i   {i: ilp}       for i
          t = 2*a[i]       =>    t[i] = 2*a[i]
          b[i] = t               b[i] = t[i]

    >>> from kgen.frontend import make_kernel
    >>> from kgen.transforms.loops.tag import tag_inames
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["<> t = 2*a[i]", "b[i] = t"])
    >>> knl = tag_inames(knl.default_entrypoint, "i:ilp")
    >>> print(privatize_for_ilp(knl).instructions[1])
    b[i] = t[i]  {id=insn_0}
    """
    inames = [name for name in kernel.inames if kernel.has_tag(name, (IlpBaseTag, VectorizeTag))]
    return _privatize(kernel, inames, kernel.temporary_variables) if inames else kernel


def chosen_temporaries(
    kernel: LoopKernel, names: str | Iterable[str] | None
) -> Mapping[str, TemporaryVariable]:
    known = kernel.temporary_variables
    if names is None:
        return known
    for name in split_names(names):
        if name not in known:
            raise NoSuchNameError(kernel.name, "temporary", name, known)
    return {name: known[name] for name in split_names(names)}


# -- adding axes ---------------------------------------------------------------------------------


def _privatize(
    kernel: LoopKernel, inames: Collection[str], temporaries: Mapping[str, TemporaryVariable]
) -> LoopKernel:
    users = users_of(kernel, temporaries)
    axes: dict[str, tuple[str, ...]] = {}
    for name in temporaries:
        missing = _missing_axes(kernel, name, users.get(name, ()), frozenset(inames))
        if missing:
            axes[name] = tuple(sorted(missing, key=lambda n: _rank(kernel, n)))
    if not axes:
        return kernel
    for name, names in axes.items():
        _reject_bounds(kernel, name, names)
    wanted = dict.fromkeys(iname for names in axes.values() for iname in names)
    bounds = {iname: _bounds(kernel, iname) for iname in wanted}
    added = {
        name: tuple(_offset(iname, bounds[iname]) for iname in names)
        for name, names in axes.items()
    }

    def append(variable: p.Variable, index: Index) -> Expr:
        return subscript(variable, (*index, *added[variable.name]))

    changed = {
        name: with_axes(
            temporaries[name],
            [bounds[i].extent for i in names],
            names,
            has_lanes=has_lanes(kernel, name, users[name]),
        )
        for name, names in axes.items()
    }
    mapper = ArrayAccessMapper(kernel, dict.fromkeys(axes, append))
    return rewrite_accesses(kernel, mapper, changed)


def _rank(kernel: LoopKernel, iname: str) -> tuple[bool, int]:
    """Order loops as axes: the loop over lanes last, whose entries are adjacent."""
    return kernel.has_tag(iname, VectorizeTag), kernel.iname_order[iname]


def has_lanes(kernel: LoopKernel, name: str, users: Iterable[InstructionBase]) -> bool:
    """Tell whether a temporary already has an axis for the lanes of a vector."""
    places = (lhs for insn in users for lhs in insn.assignees if assignee_name(lhs) == name)
    used = {part for lhs in places for part in mentions_of(*index_of(lhs)).variables}
    return any(kernel.has_tag(iname, VectorizeTag) for iname in used & kernel.inames.keys())


def users_of(
    kernel: LoopKernel, temporaries: Mapping[str, Any]
) -> dict[str, tuple[InstructionBase, ...]]:
    """Return the instructions that use each temporary, through rules and bounds as well."""
    found: dict[str, dict[str, InstructionBase]] = {}
    rules = kernel.substitutions
    bounds: dict[str, set[str]] = {}
    for read in reads_in_bounds(kernel):
        bounds.setdefault(read.insn_id, set()).add(read.array)
    for insn in kernel.instructions:
        names = insn.dependency_names().union(bounds.get(str(insn.id), ()))
        for rule in rules_of(rules, (insn,)):
            names |= frozenset(mentions_of(rules[rule].expression).variables)
        for name in sorted(names & temporaries.keys()):
            found.setdefault(name, {})[str(insn.id)] = insn
    return {name: tuple(insns.values()) for name, insns in found.items()}


def _missing_axes(
    kernel: LoopKernel, name: str, users: Iterable[InstructionBase], inames: frozenset[str]
) -> frozenset[str]:
    """Return the loops of *inames* whose iterations overwrite each other's *name*."""
    missing: frozenset[str] = frozenset()
    for insn in users:
        for lhs in insn.assignees:
            if assignee_name(lhs) == name:
                indexed = mentions_of(*index_of(lhs)).variables
                missing |= (insn.within_inames & inames) - indexed.keys()
    for insn in users if missing else ():
        if not missing <= insn.within_inames:
            raise _used_outside(kernel, name, insn, min(missing - insn.within_inames))
    return missing


def _used_outside(
    kernel: LoopKernel, name: str, insn: InstructionBase, iname: str
) -> TransformError:
    tags = sorted(str(t) for t in kernel.iname_tags_of_type(iname, InameImplementationTag))
    tag = f", tagged '{tags[0]}'" if tags else ""
    return TransformError(
        f"instruction '{insn.id}' uses temporary '{name}' outside loop '{iname}'",
        because=f"'{name}' is written inside '{iname}'{tag}, once per iteration",
        hint=f"add_inames_to_insn(kernel, '{iname}', 'id:{insn.id}'), or subscript "
        f"'{name}' by '{iname}'",
    )


def _bounds(kernel: LoopKernel, iname: str) -> LoopRange:
    bounds = kernel.get_iname_bounds(iname)
    if kernel.has_tag(iname, (IlpBaseTag, VectorizeTag)) and not bounds.is_constant:
        (tag,) = kernel.iname_tags_of_type(iname, InameImplementationTag)
        raise TransformError(
            f"iname '{iname}', tagged '{tag}', has no constant number of iterations",
            because=f"it runs over {kernel.domain_of((iname,))}",
            hint=f"split_iname(kernel, '{iname}', 4, inner_tag='{tag}') before other "
            "transformations",
        )
    return bounds


def _reject_bounds(kernel: LoopKernel, name: str, privatizing: tuple[str, ...]) -> None:
    """Reject an axis for the bound of a loop, which runs once for all iterations of *privatizing*.

    Raises :class:`TransformError`.
    """
    for domain in kernel.domains:
        if name not in param_names(domain):
            continue
        loop = dim_names(domain)[0]
        first = privatizing[0]
        tags = kernel.iname_tags_of_type(first, (IlpBaseTag, VectorizeTag))
        tagged = "".join(f", tagged '{tag}'" for tag in tags)
        raise TransformError(
            f"the iterations of '{first}'{tagged}, cannot share loop '{loop}': each has its "
            f"own '{name}'",
            where=f"'{name}' is written by {', '.join(kernel.writers[name])}",
            because=f"'{name}' bounds '{loop}', which runs over {domain}",
            hint=f"tag_inames(kernel, '{first}:unr'), which gives each iteration its own loop, "
            f"or compute '{name}' outside of '{first}'",
        )


def _offset(iname: str, bounds: LoopRange) -> Expr:
    variable = p.Variable(iname)
    return variable if is_zero(bounds.lower) else variable - bounds.lower


def with_axes(
    variable: TemporaryVariable,
    extents: list[Expr],
    inames: tuple[str, ...],
    *,
    has_lanes: bool,
) -> TemporaryVariable:
    """Append axes, the last one with adjacent elements; the strides of the others grow.

    If it *has_lanes*, these stay adjacent: the strides of new axes are multiples of a vector.
    """
    changes: dict[str, Any] = {}
    if isinstance(variable.shape, tuple):
        changes["shape"] = (*variable.shape, *extents)
    if isinstance(variable.dim_tags, tuple):
        tags = list(variable.dim_tags)
        step = _storage_of(variable) if has_lanes else None
        for extent in extents:
            if step is None:
                tags = [_scaled(tag, extent) for tag in tags]
                tags.append(FixedStrideArrayDimTag(1, layout_nesting_level=0))
            else:
                tags.append(FixedStrideArrayDimTag(step))
                step = step * extent
        changes["dim_tags"] = tuple(tags)
    if variable.dim_names is not None:
        changes["dim_names"] = (*variable.dim_names, *inames)
    if variable.distribution is not None:
        changes["distribution"] = (*variable.distribution, *(None for _ in extents))
    if variable.storage_shape is not None:
        changes["storage_shape"] = (*variable.storage_shape, *extents)
    if variable.base_indices is not None:
        changes["base_indices"] = (*variable.base_indices, *(0 for _ in extents))
    return variable.copy(**changes)


def _storage_of(variable: TemporaryVariable) -> Expr | None:
    """Return how many elements a temporary occupies, if its strides are known."""
    strides: list[Any] = [getattr(tag, "stride", None) for tag in variable.dim_tags]
    if not isinstance(variable.shape, tuple) or not all(isinstance(s, int) for s in strides):
        return None
    return memory_length(variable.shape, strides)


def _scaled(tag: Any, extent: Expr) -> Any:
    if isinstance(tag, FixedStrideArrayDimTag):
        level = tag.layout_nesting_level
        return dataclasses.replace(
            tag,
            stride=tag.stride * extent,
            layout_nesting_level=None if level is None else level + 1,
        )
    if isinstance(tag, ComputedStrideArrayDimTag):
        return dataclasses.replace(tag, layout_nesting_level=tag.layout_nesting_level + 1)
    return tag
