"""Renaming loops, and duplicating them for some instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.analysis.domains import copy_dims, difference, domains_without, drop_dims, rename_params
from kgen.analysis.merging import check_order_kept
from kgen.errors import TransformError, assigned
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.expr import Reduction, variable_names, walk
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, dim_names, param_names, rename_dims
from kgen.ir.tags import AxisTag, TagLike, parse_tag
from kgen.transforms.loops.rewrite import (
    Replacement,
    Selection,
    bounds_follow,
    replace_inames,
    shared_bounds,
)
from kgen.transforms.loops.tag import add_tags, check_tags
from kgen.transforms.select import (
    InstructionTest,
    matcher,
    new_names,
    require_iname,
    require_inames,
    require_new_name,
    split_names,
    transform,
)
from kgen.transforms.uses import depends_on, inames_used

__all__ = [
    "duplicate_inames",
    "rename_iname",
    "rename_inames",
    "rename_inames_in_batch",
]


@transform
def duplicate_inames(
    kernel: LoopKernel,
    inames: str | Iterable[str],
    within: Any,
    new_inames: Sequence[str | None] | str | None = None,
    suffix: str | None = None,
    tags: Mapping[str, TagLike] | None = None,
) -> LoopKernel:
    """Give the matching instructions their own copies of loops.

    :arg new_inames: the new names; ``<old><suffix>`` by default, ``<old>_0`` without a suffix
    :arg tags: tags of the new inames, by the names of the old ones; they inherit none

    ::

        for i                                         for i_0
          a[i] = 0         {id=one}                     a[i_0] = 0       {id=one}
          b[i] = 1                           =>       end i_0
        end i                                         for i
        duplicate_inames(kernel, "i", "id:one")         b[i] = 1

    Raises :class:`TransformError` if the bounds of a loop depend on a copied one, and
    matching instructions share it with others: it must be copied too. Also raised if one side needs
    a value that the other side writes in an iteration that would then come later, or
    overwrites in one that would come earlier; if that depends on data, or if nothing has written
    the value, in a temporary or an argument with ``is_input=False``, there is a warning.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", ["a[i] = 0 {id=one}", "b[i] = 1"])
    >>> print(duplicate_inames(knl, "i", "id:one").default_entrypoint.instructions[0])
    a[i_0] = 0  {id=one}
    """
    old = require_inames(kernel, inames)
    new = _new_names(kernel, old, new_inames, suffix)
    copies = dict(zip(old, new, strict=True))
    for name in tags or {}:
        if name not in copies:
            raise TransformError(
                f"a tag is given for '{name}', which is not duplicated",
                hint=f"name the tags by the old inames: {', '.join(old)}",
            )
    given = {copies[name]: [parse_tag(tag)] for name, tag in (tags or {}).items()}
    axes = {
        name: frozenset(tag for tag in some if isinstance(tag, AxisTag))
        for name, some in given.items()
    }
    result = _rename(kernel, copies, matcher(kernel, within), axes)
    return add_tags(result, given)


def _new_names(
    kernel: LoopKernel,
    old: tuple[str, ...],
    given: Sequence[str | None] | str | None,
    suffix: str | None,
) -> list[str]:
    wanted: Sequence[str | None] = split_names(given) if isinstance(given, str) else given or ()
    if wanted and len(wanted) != len(old):
        raise TransformError(
            f"there are not as many new names ({', '.join(map(str, wanted))}) as inames "
            f"({', '.join(old)})"
        )
    names = new_names(kernel)
    result: list[str] = []
    for name, new in zip(old, wanted or [None] * len(old), strict=True):
        if new is not None:
            names.add_name(require_new_name(kernel, new, result))
        result.append(new or names(f"{name}{suffix}" if suffix else name))
    return result


@transform
def rename_iname(
    kernel: LoopKernel,
    old_iname: str,
    new_iname: str,
    existing_ok: bool = False,
    within: Any = None,
    preserve_tags: bool = True,
    raise_on_domain_mismatch: bool | None = None,
) -> LoopKernel:
    """Rename a loop variable; *existing_ok* fuses the loop with an existing one.

    :arg within: rename for the instructions that match; the others keep the old loop
    :arg preserve_tags: the new iname gets the tags of the old one
    :arg raise_on_domain_mismatch: reject loops with other bounds, as is the default

    ::

        for i                     for j
          a[i] = 0                  a[j] = 0
        end i              =>       b[j] = 1
        for j                     end j
          b[j] = 1

    Raises :class:`TransformError` for a name that is in use, for loops that differ, and if an
    iteration of one loop would need a later iteration of the other; if that depends on data, there
    is a warning.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", ["a[i] = 0", "b[j] = 1"])
    >>> knl = rename_iname(knl, "i", "j", existing_ok=True)
    >>> print(knl.default_entrypoint.domains[0])
    { [j] : 0 <= j <= 3 }
    """
    tags = require_iname(kernel, old_iname).tags if preserve_tags else frozenset()
    check = raise_on_domain_mismatch is not False
    return _rename_into(
        kernel, old_iname, new_iname, existing_ok, matcher(kernel, within), tags, check
    )


@transform
def rename_inames(
    kernel: LoopKernel,
    old_inames: str | Collection[str],
    new_iname: str,
    existing_ok: bool = False,
    within: Any = None,
    raise_on_domain_mismatch: bool | None = None,
) -> LoopKernel:
    """Give several loop variables one name, which fuses the loops; see :func:`rename_iname`.

    The new loop does not inherit the tags of the old ones.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", ["a[i] = 0", "b[j] = 1"])
    >>> print(rename_inames(knl, ["i", "j"], "k").default_entrypoint.domains[0])
    { [k] : 0 <= k <= 3 }
    """
    check = raise_on_domain_mismatch is not False
    for name in split_names(old_inames):
        require_iname(kernel, name)
        test = matcher(kernel, within)
        kernel = _rename_into(kernel, name, new_iname, existing_ok, test, frozenset(), check)
        existing_ok = True
    return kernel


@transform
def rename_inames_in_batch(
    kernel: LoopKernel, batches: Mapping[str, Collection[str]]
) -> LoopKernel:
    """Rename loops into others: ``{new: [old, ...], ...}``; see :func:`rename_inames`.

    ::

        a[i] = 0           a[x] = 0
        b[j] = 1     =>    b[x] = 1     with {"x": ["i", "j"], "y": ["k"]}
        c[k] = 2           c[y] = 2

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i,j<4 }", ["a[i] = 0", "b[j] = 1"])
    >>> sorted(rename_inames_in_batch(knl, {"x": ["i"], "y": ["j"]}).default_entrypoint.inames)
    ['x', 'y']
    """
    for new, old in batches.items():
        kernel = rename_inames(kernel, old, new)
    return kernel


def _rename_into(
    kernel: LoopKernel,
    old: str,
    new: str,
    existing_ok: bool,
    matches: InstructionTest,
    tags: frozenset[Tag],
    check: bool,
) -> LoopKernel:
    if old == new:
        return kernel
    if new not in kernel.inames or not existing_ok:
        require_new_name(kernel, new)
        return _rename(kernel, {old: new}, matches, {new: tags})
    both = [insn for insn in kernel.instructions if inames_used(kernel, insn) >= {old, new}]
    for insn in filter(matches, both):
        if _are_of_separate_reductions(insn, frozenset((old, new))):
            continue
        raise TransformError(
            f"instruction '{insn.id}' uses both '{old}' and '{new}'",
            because="one loop cannot replace both",
        )
    _check_order(kernel, old, new, matches)
    change = Replacement({old: p.Variable(new)}, (new,))
    new_domains = partial(_merged_domains, kernel, old, new)
    result = replace_inames(kernel, change, matches, new_domains=new_domains)
    if check:
        _check_same_loops(kernel, result, old, new)
    return add_tags(result, {new: sorted(tags, key=str)})


def _are_of_separate_reductions(insn: InstructionBase, pair: frozenset[str]) -> bool:
    """Tell whether two loops belong to separate reductions: ``sum(i, x) + sum(j, y)``."""
    if not insn.within_inames.isdisjoint(pair):
        return False
    reductions = (node for node in walk(*insn.expressions()) if isinstance(node, Reduction))
    return not any(pair.issubset(variable_names(node)) for node in reductions)


def _rename(
    kernel: LoopKernel,
    copies: Mapping[str, str],
    matches: InstructionTest,
    tags: Mapping[str, frozenset[Tag]],
) -> LoopKernel:
    """Rename inames, to names that are free, in the instructions that match."""
    values = {old: p.Variable(new) for old, new in copies.items()}
    change = Replacement(values, tuple(copies.values()))
    new_domains = partial(_copied_domains, kernel, copies)
    result = replace_inames(kernel, change, matches, new_domains=new_domains, new_tags=tags)
    slabs = {
        copies[old]: slab for old, slab in kernel.iname_slab_increments.items() if old in copies
    }
    if slabs:
        result = result.copy(iname_slab_increments={**result.iname_slab_increments, **slabs})
    check_tags(result, copies.values())
    return result


# -- domains ---------------------------------------------------------------------------------


def _copied_domains(
    kernel: LoopKernel, copies: Mapping[str, str], select: Selection
) -> tuple[BasicSet, ...]:
    """Return the domains with inames renamed, or copied where others use them."""
    result: list[BasicSet] = []
    for domain in kernel.domains:
        here = {name: copies[name] for name in dim_names(domain) if name in copies}
        is_shared = not select.kept.isdisjoint(here)
        own: BasicSet | None = None
        if is_shared and not select.kept.isdisjoint(param_names(domain)):
            own = _own_copy(kernel, domain, here, copies, select)
        else:
            if bounds_follow(kernel, domain, tuple(copies), select):
                domain = rename_params(domain, copies)
            if is_shared:
                domain, own = copy_dims(domain, here)
        if is_shared:
            result += domains_without(domain, here.keys() - select.kept)
        else:
            result.append(rename_dims(domain, here) if here else domain)
        if own is not None:
            result.append(own)
    return tuple(result)


def _own_copy(
    kernel: LoopKernel,
    domain: BasicSet,
    here: Mapping[str, str],
    copies: Mapping[str, str],
    select: Selection,
) -> BasicSet:
    """Return a copy of loops inside of copied ones, bounded by these; rejects half of a nest."""
    rest = [name for name in dim_names(domain) if name not in here]
    for insn in kernel.instructions:
        if insn.id in select.chosen and not depends_on(kernel, insn).isdisjoint(rest):
            raise shared_bounds(kernel, rest, min(here), insn)
    return rename_params(rename_dims(drop_dims(domain, rest), here), copies)


def _merged_domains(
    kernel: LoopKernel, old: str, new: str, select: Selection
) -> tuple[BasicSet, ...]:
    """Return the domains without *old*, unless it is still used; *new* bounds what it bounded."""
    result: list[BasicSet] = []
    for domain in kernel.domains:
        dims = dim_names(domain)
        if old in param_names(domain) and bounds_follow(kernel, domain, (old,), select):
            if new in dims:
                raise TransformError(
                    f"the bounds of '{new}' depend on '{old}'", because="a loop cannot bound itself"
                )
            domain = rename_params(domain, {old: new})
        if old in dims and not select.kept:
            result += domains_without(domain, (old,))
        else:
            result.append(domain)
    return tuple(result)


def _check_order(kernel: LoopKernel, old: str, new: str, matches: InstructionTest) -> None:
    """Reject fusing loops when an iteration of one needs a later one of the other."""
    moved = [i for i in kernel.instructions if old in i.within_inames and matches(i)]
    there = [i for i in kernel.instructions if new in i.within_inames]
    orders = [
        (ancestors(kernel, then) & {str(insn.id) for insn in before}, {str(then.id)}, (loops,))
        for before, after, loops in ((moved, there, (old, new)), (there, moved, (new, old)))
        for then in after
    ]
    check_order_kept(kernel, [order for order in orders if order[0]], is_meant=True)


def _check_same_loops(before: LoopKernel, after: LoopKernel, old: str, new: str) -> None:
    """Reject fusing loops when an instruction would run for other values than before."""
    checked: set[tuple[frozenset[str], frozenset[str]]] = set()
    for one, other in zip(before.instructions, after.instructions, strict=True):
        pair = _all_inames(one), _all_inames(other)
        if old not in depends_on(before, one) or pair in checked:
            continue
        checked.add(pair)
        point = difference(
            before.domain_of(tuple(sorted(pair[0]))),
            after.domain_of(tuple(sorted(pair[1]))),
            {old: new} if pair[0] != pair[1] else {},
            before.assumptions,
        )
        if point is not None:
            raise TransformError(
                f"iname '{old}' cannot become '{new}': their bounds differ",
                where=f"instruction '{one.id}'",
                point=assigned(point),
                because=f"'{old}' runs over {before.domain_of((old,))}, "
                f"'{new}' over {before.domain_of((new,))}",
            )


def _all_inames(insn: InstructionBase) -> frozenset[str]:
    return insn.within_inames | insn.reduction_inames()
