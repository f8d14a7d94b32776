"""Precomputing the values of a substitution rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.access import collect_accesses_to
from kgen.errors import TransformError
from kgen.ir.expr import Expr, tags_of, to_text
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.language.match import ConcreteMatchable, parse_stack_match
from kgen.ir.tags import TagLike
from kgen.transforms.expressions.rules import expand_callers, expand_expression
from kgen.transforms.select import NoSuchNameError, NothingSelectedError, split_names, transform
from kgen.transforms.storage.sites import Values, with_rules_kept
from kgen.transforms.storage.stored_names import Storage
from kgen.transforms.storage.storing import store

__all__ = ["precompute"]


@transform
def precompute(
    kernel: LoopKernel,
    subst_use: Any,
    sweep_inames: str | Iterable[str] | None = None,
    within: Any = None,
    *,
    storage_axes: str | Iterable[str | int] | None = None,
    temporary_name: str | None = None,
    precompute_inames: str | Sequence[str] | None = None,
    precompute_outer_inames: str | Iterable[str] | None = None,
    storage_axis_to_tag: Mapping[str | int, TagLike] | None = None,
    default_tag: TagLike = None,
    dtype: Any = None,
    fetch_bounding_box: bool = False,
    temporary_address_space: Any = None,
    compute_insn_id: str | None = None,
) -> LoopKernel:
    """Compute the values of a substitution rule ahead of their use, in a temporary.

    A new instruction, in its own loops, computes the values that the uses of the rule need over
    all values of *sweep_inames*. The uses depend on it.

    :arg subst_use: the name of the rule, ``"name$tag"`` for tagged uses of it; or one or
        several uses such as ``"f(i, 0)"``, which then define what to store: only uses that need
        nothing else are replaced
    :arg within: a stack match: which uses are replaced
    :arg storage_axes: the order of the axes: names (or numbers) of arguments, and swept
        inames that the rule itself uses. By default those inames, then the arguments.
        Axes of length 1 are omitted.
    :arg precompute_inames: the loops that compute, one per axis; an existing one must have
        exactly the values that are needed. A new one along an axis of one element has one value,
        is used by no instruction, and may be tagged
    :arg precompute_outer_inames: the loops around the new instruction; by default those on
        which the values depend; in a loop that is also swept, each iteration computes all values
        again
    :arg storage_axis_to_tag: tags of the new loops by axis; *default_tag* is for the others
    :arg fetch_bounding_box: compute the whole bounding box, if several
        uses together need less, except values that read elements of temporaries that nothing writes
    :arg temporary_address_space: an :class:`AddressSpace`; found automatically by default. Storage
        in global memory may depend on sizes; a global barrier precedes its uses

    ::

        f(x) := sin(a[x])               for x
        for i, j               =>         f_0[x] = sin(a[x + 2])   {id=f}
          b[i, j] = f(i + 2)            end x
                                        for i, j
                                          b[i, j] = f_0[i]

    Raises :class:`StaticValueFindingError` if the number of values has no constant bound,
    and :class:`TransformError` if the values may change between the new instruction and
    a use, and, with an example, if several uses together need a set that is not a box.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i, j]: 0<=i<4 and 0<=j<5 }", ["f(x) := sin(a[x])", "b[i,j] = f(i+2)"])
    >>> for insn in precompute(knl, "f", "i").default_entrypoint.instructions:
    ...     print(insn)
    f_0[x] = sin(a[x + 2])  {id=f}
    b[i, j] = f_0[i]  {id=insn}
    """
    values = _read_values(kernel, subst_use, within)
    storage = Storage(
        sweep=split_names(sweep_inames or ()),
        axes=None if storage_axes is None else _read_axes(storage_axes),
        temporary=temporary_name,
        inames=split_names(precompute_inames or ()),
        outer=None if precompute_outer_inames is None else split_names(precompute_outer_inames),
        tags=dict(storage_axis_to_tag or {}),
        default_tag=default_tag,
        dtype=dtype,
        whole_box=fetch_bounding_box,
        address_space=temporary_address_space,
        insn_id=compute_insn_id,
    )
    return store(values, storage)


def _read_axes(given: str | Iterable[str | int]) -> tuple[str | int, ...]:
    return split_names(given) if isinstance(given, str) else tuple(given)


def _read_values(kernel: LoopKernel, subst_use: Any, within: Any) -> Values:
    """Read a rule's name, or uses of one rule, as text or nodes; find the selected uses."""
    several = isinstance(subst_use, list | tuple | set | frozenset)
    read = [parse(u) if isinstance(u, str) else u for u in (subst_use if several else [subst_use])]
    names: dict[str, frozenset[Tag]] = {}
    given: list[tuple[Expr, ...]] = []
    for use in read:
        function = use.function if isinstance(use, p.Call) else use
        if not isinstance(function, p.Variable):
            raise TransformError(f"'{to_text(use)}' is not a use of a rule")
        names[function.name] = names.get(function.name, frozenset()) | tags_of(function)
        if isinstance(use, p.Call):
            given.append(use.parameters)
    if len(names) != 1:
        raise TransformError(f"one rule is stored at a time, not {len(names)}: {', '.join(names)}")
    ((name, tags),) = names.items()
    rule = kernel.substitutions.get(name)
    if rule is None:
        raise NoSuchNameError(kernel.name, "rule", name, kernel.substitutions)
    with_rules = kernel
    kernel = expand_callers(kernel, (name,))
    test = parse_stack_match(within)
    found = collect_accesses_to(kernel, name)
    sites = tuple(
        replace(use, index=tuple(expand_expression(kernel, part) for part in use.index or ()))
        for use in found
        if tags <= use.tags
        and test(kernel, kernel.id_to_insn[use.insn_id], (ConcreteMatchable(name, use.tags),))
    )
    if not sites:
        raise NothingSelectedError(
            f"no use of rule '{name}' is selected",
            hint="check within=..., and tags such as 'name$tag'",
        )
    stays = len(sites) < len(found)
    return Values(
        kernel=kernel,
        rule=rule,
        name=name,
        sites=sites,
        rule_stays=stays,
        given=tuple(given),
        unexpanded=None if stays or given else with_rules_kept(with_rules, kernel),
    )
