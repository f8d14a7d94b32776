"""Transformed loop domains: exact images under splitting, joining, copying and fixing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import islpy as isl
import pymbolic.primitives as p

from kgen.errors import KernelError
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    constraints_on,
    dim_names,
    dims_to_params,
    fix_param_values,
    from_named,
    functions_of,
    has_dim,
    has_param,
    have_names,
    in_names,
    in_order,
    involved_axes,
    involved_dims,
    isl_int,
    n_axes,
    n_dims,
    n_quotients,
    pairs_of,
    params_to_dims,
    project_out_dims,
    project_out_params,
    relation_from,
    rename_dims,
    rename_param,
    space_without,
    to_named,
    variable,
    with_dims,
    with_params,
)
from kgen.ir.sets.domain import as_basic_set, keep_dims, sample_point
from kgen.ir.sets.quasi_affine import aff_to_expr, pw_aff_from_expr, set_from_condition
from kgen.ir.sets.text import reason_of

__all__ = [
    "AffineRow",
    "Inverse",
    "copies_beside",
    "copies_by_home",
    "set_where",
    "copy_dims",
    "difference",
    "domain_of_copies",
    "domains_without",
    "drop_dims",
    "equation_set",
    "fix_dims",
    "fix_params",
    "intersect_domains",
    "piece_of_copies",
    "read_map",
    "rename_params",
    "replace_dims",
    "set_params",
    "solve",
    "coupled_dims",
]

AnySet = TypeVar("AnySet", BasicSet, Set)

#: ``{name: coefficient, 1: constant}``: an affine expression.
AffineRow: TypeAlias = Mapping[str | Literal[1], isl.Val | int]


def replace_dims(
    domain: BasicSet,
    values: Mapping[str, Expr],
    new: Sequence[str],
    *,
    positive: Sequence[AffineRow] = (),
    valid: Set | None = None,
    keep_old: bool = False,
) -> BasicSet:
    """Write *domain* in terms of *new* inames, at the position of the first old one.

    *values* are the old ones in terms of the new ones; the rows *positive* are >= 0, and
    *valid* is true. With *keep_old*, the old ones stay before them for other uses,
    and the two are independent of each other. Old inames that are parameters (bounds
    that depend on an outer loop) are replaced likewise.
    """
    if not has_dim(domain, next(iter(values))):
        return _replace_params(domain, values, new)
    names = dim_names(domain)
    old = [name for name in names if name in values]
    at = names.index(old[0])
    space = with_dims(space_without(domain.get_space(), old), new, at)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(names))
    for name in names:
        if name in values:
            aff = pw_aff_from_expr(space, values[name]).get_pieces()[0][1]
        else:
            aff = variable(space, name)
        affs = affs.add(aff)
    to_old = isl.Space.map_from_domain_and_range(space, domain.get_space())
    image = domain.preimage_multi_aff(isl.MultiAff.from_aff_list(to_old, affs))
    for row in positive:
        image = image.add_constraint(_row(space, row))
    if valid is not None:
        named = to_named(image).intersect(to_named(valid))
        image = as_basic_set(from_named(named, dim_names(image)))
    if not keep_old:
        return image
    domain = with_dims(domain, new, at + len(old))
    return domain.intersect(in_order(image, dim_names(domain)))


def _row(space: isl.Space, row: AffineRow) -> isl.Constraint:
    """Return the constraint that *row* is non-negative."""
    aff = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space))
    for name, coefficient in row.items():
        value = isl_int(coefficient) if isinstance(coefficient, int) else coefficient
        if name == 1:
            aff = aff.add_constant_val(value)
            continue
        aff = aff.add(variable(space, str(name)).scale_val(value))
    return isl.Constraint.inequality_from_aff(aff)


def _replace_params(domain: BasicSet, values: Mapping[str, Expr], new: Sequence[str]) -> BasicSet:
    """Replace parameters, which are temporarily moved to set dimensions."""
    for name in values:
        if has_param(domain, name):
            domain = params_to_dims(domain, (name,))
        else:  # not in these bounds: any value will do
            domain = with_dims(domain, (name,))
    return dims_to_params(replace_dims(domain, values, new), new)


@dataclass(frozen=True)
class Inverse:
    """Old inames in terms of new ones: *values*, valid where *valid* is true for the new ones.

    The old inames then have the values in *reached*.
    """

    values: Mapping[str, Expr]
    new: tuple[str, ...]
    valid: Set
    reached: Set


def equation_set(
    names: Sequence[str], params: Sequence[str], equations: Iterable[tuple[Expr, Expr]]
) -> Set:
    """Return the values of *names* that satisfy all equations."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=list(names), params=list(params))
    result = isl.Set.universe(space)
    for left, right in equations:
        result = result.intersect(
            pw_aff_from_expr(space, left).eq_set(pw_aff_from_expr(space, right))
        )
    return result


def set_where(names: Sequence[str], conditions: Sequence[Expr]) -> Set:
    """Return the values of *names* that satisfy all affine *conditions*."""
    params = [name for name in variable_names(*conditions) if name not in names]
    space = isl.Space.create_from_names(
        isl.DEFAULT_CONTEXT, set=list(names), params=list(dict.fromkeys(params))
    )
    result = isl.Set.universe(space)
    for condition in conditions:
        result = result.intersect(set_from_condition(space, condition))
    return result


def read_map(given: Any) -> tuple[tuple[str, ...], tuple[str, ...], Set]:
    """Return the input and output names of an islpy map (or its text), and its pairs as a set."""
    try:
        relation = given if isinstance(given, isl.Map) else isl.Map(str(given))
    except isl.Error as err:
        raise KernelError(
            f"the map {str(given)!r} does not parse: {reason_of(err)}\n"
            "  hint: write { [i] -> [z] : z = i + 1 }"
        ) from None
    if not in_names(relation) or not n_axes(relation):
        raise KernelError(
            f"the map '{relation}' does not map inames to inames",
            hint="write { [i] -> [z] : z = i + 1 }",
        )
    pairs = pairs_of(relation)
    if not have_names(pairs):
        raise KernelError(
            f"the map '{relation}' has dimensions without names\n"
            "  hint: write { [i] -> [z] : z = i + 1 }"
        )
    count = len(in_names(relation))
    return dim_names(pairs)[:count], dim_names(pairs)[count:], pairs


def solve(old: Sequence[str], new: Sequence[str], related: Set) -> Inverse | None:
    """Express *old* in terms of *new* for the points of *related*, a set over all of them.

    ``{ [i, z] : z = 3 - i }`` gives ``i = 3 - z``. ``None`` if the relation is not one to
    one, or needs several expressions.
    """
    named = to_named(related)
    relation = relation_from(from_named(named, (*new, *old)), len(new))
    if not (relation.is_single_valued() and relation.is_injective()):
        return None
    values: dict[str, Expr] = {}
    for name, value in functions_of(relation).items():
        pieces = value.coalesce().get_pieces()
        if len(pieces) != 1:
            return None
        values[name] = aff_to_expr(pieces[0][1])
    return Inverse(values, tuple(new), relation.domain(), relation.range())


def copy_dims(domain: BasicSet, copies: Mapping[str, str]) -> tuple[BasicSet, BasicSet | None]:
    """Copy some dimensions, independently: ``(the domain, a separate domain)``.

    Copies whose bounds involve no other dimension get a separate domain, which comes
    second; otherwise they follow the originals in the same one, with the same bounds.
    """
    own = _bounds_on(domain, tuple(copies))
    others = [name for name in dim_names(own) if name not in copies]
    if set(others).isdisjoint(involved_dims(own)):
        return domain, rename_dims(drop_dims(own, others), copies)
    pairs = ((name, copies[name]) if name in copies else (name,) for name in dim_names(domain))
    names = [name for pair in pairs for name in pair]
    return in_order(domain, names).intersect(in_order(rename_dims(domain, copies), names)), None


def copies_beside(
    domain: BasicSet, extended: BasicSet, copies: Mapping[str, str], renamed: Mapping[str, str]
) -> BasicSet:
    """Add copies of dimensions of *domain* to *extended*, with the same constraints.

    *extended* is *domain*, perhaps with earlier copies. *renamed* are all copies that replace
    dimensions for the new ones: ``{ [i, j] : i + j < 4 }`` with copies of ``i``, then of ``j``
    becomes ``{ [i, i', j, j'] : i + j < 4 and i' + j < 4 and i' + j' < 4 }``.
    """
    pairs = ((name, copies[name]) if name in copies else (name,) for name in dim_names(extended))
    names = [name for pair in pairs for name in pair]
    there = {old: renamed[old] for old in dim_names(domain) if renamed.get(old) in names}
    return in_order(extended, names).intersect(in_order(rename_dims(domain, there), names))


def domain_of_copies(
    domain: BasicSet, copies: Mapping[str, str], fixed: Collection[str]
) -> BasicSet:
    """Return the domain of copies of some dimensions, for given values of *fixed* others.

    Those become parameters: ``{ [i, k] : 0 <= k < i }`` gives ``[i] -> { [k'] : 0 <= k' < i }``.
    """
    names = dim_names(domain)
    result = drop_dims(domain, [n for n in names if n not in copies and n not in fixed])
    return _renamed_around(_bounds_on(result, tuple(copies)), copies)


def copies_by_home(kernel: LoopKernel, copies: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Group copies of loops by the number of the domain that the loops are in."""
    found: dict[int, dict[str, str]] = {}
    for old, new in copies.items():
        found.setdefault(kernel.home_domain[old], {})[old] = new
    return dict(sorted(found.items()))


def domains_of_copies(
    kernel: LoopKernel, copies: Mapping[str, str], fixed: Collection[str]
) -> list[BasicSet]:
    """Return the domains of copies of loops, for given values of *fixed* loops."""
    homes = copies_by_home(kernel, copies).items()
    return [domain_of_copies(kernel.domains[home], own, fixed) for home, own in homes]


def piece_of_copies(
    domain: BasicSet, condition: Set, copies: Mapping[str, str], fixed: Collection[str]
) -> tuple[BasicSet, ...]:
    """Return the result of :func:`domain_of_copies`, where a named *condition* is true.

    It includes the condition on parameters for such values to exist: of ``{ [i] : 0 <= i < n }``,
    the piece ``i = n - 1 and i >= 1`` is empty for ``n = 1``. It may be several domains: see
    :func:`_map_pieces`.
    """
    names = dim_names(domain)
    piece = as_basic_set(from_named(to_named(domain).intersect(condition), names))
    said = to_named(keep_dims(domain, [name for name in names if name in fixed]))

    def of_copies(group: Collection[str]) -> BasicSet:
        """Return the domain of a group of loops, without constraints on enclosing loops."""
        kept = keep_dims(piece, [name for name in names if name in group or name in fixed])
        own = _renamed_around(kept, {name: copies[name] for name in names if name in group})
        if dim_names(said):
            own = as_basic_set(from_named(to_named(own).gist(said), dim_names(own)))
        return own.remove_redundancies()

    bound = [name for name in dim_names(condition) if name in copies]
    groups = [group for group in coupled_dims(domain) if set(bound).isdisjoint(group)]
    joined = [name for name in copies if not any(name in group for group in groups)]
    copied = ([name for name in group if name in copies] for group in (joined, *groups))
    return _in_groups(of_copies(copies), [of_copies(group) for group in copied if group])


def _renamed_around(domain: BasicSet, copies: Mapping[str, str]) -> BasicSet:
    """Rename dimensions, and move the others to parameters if they bound these."""
    used = involved_dims(domain)
    others = [name for name in dim_names(domain) if name not in copies]
    result = dims_to_params(domain, [name for name in others if name in used])
    result = project_out_dims(result, [name for name in others if name not in used])
    return rename_dims(result, copies)


def intersect_domains(domains: Sequence[BasicSet]) -> BasicSet:
    """Intersect several domains: all their dimensions, each once, with the constraints of each.

    ``{ [i] : 0 <= i < n }`` and ``[i] -> { [j] : 0 <= j < i }`` give one domain over i and j.
    """
    named = to_named(domains[0])
    for domain in domains[1:]:
        named = named.intersect(to_named(domain))
    names = dict.fromkeys(name for domain in domains for name in dim_names(domain))
    return as_basic_set(from_named(named, tuple(names)))


def domains_without(domain: BasicSet, names: Iterable[str]) -> tuple[BasicSet, ...]:
    """Project dimensions out of a loop domain, if others are left; see :func:`_in_groups`."""
    dropped = set(names)
    if dropped.isdisjoint(dim_names(domain)):
        return (domain,)
    left = drop_dims(domain, dropped)
    if not dim_names(left):
        return ()
    groups = [set(group) for group in coupled_dims(domain)]
    if all(group <= dropped or group.isdisjoint(dropped) for group in groups):
        return (left,)
    return _in_groups(left, [keep_dims(domain, g - dropped) for g in groups if g - dropped])


def drop_dims(domain: BasicSet, names: Iterable[str]) -> BasicSet:
    """Project dimensions out; implied constraints on the others stay."""
    dropped = set(names)
    return keep_dims(domain, [name for name in dim_names(domain) if name not in dropped])


def fix_dims(domain: AnySet, values: Mapping[str, int]) -> AnySet:
    """Fix the existing ones of some parameters, and remove them."""
    return project_out_params(fix_param_values(domain, values), values)


def fix_params(domain: BasicSet, values: Mapping[str, int]) -> tuple[BasicSet, ...]:
    """Fix parameters in a loop domain; see :func:`_map_pieces`."""
    return _map_pieces(domain, lambda part: fix_dims(part, values))


def _map_pieces(domain: BasicSet, change: Callable[[BasicSet], BasicSet]) -> tuple[BasicSet, ...]:
    """Change the parameters of a loop domain, preserving which loops depend on which.

    A loop with a single remaining value is no longer connected to other loops: for ``3 <= i < n``
    and ``i < j < m``, ``n=4`` gives ``i = 3`` and ``4 <= j < m``, although the contents of ``i``
    alone still require ``m >= 5``. And of an empty set, isl only keeps that it is empty. In both
    cases, independent loops get separate domains.
    """
    changed = change(domain)
    if changed.get_space().is_equal(domain.get_space()):
        return (domain,)
    return _in_groups(changed, [change(keep_dims(domain, group)) for group in coupled_dims(domain)])


def _in_groups(changed: BasicSet, parts: Sequence[BasicSet]) -> tuple[BasicSet, ...]:
    """Return a *changed* domain, or one for each connected group of loops.

    The *parts* are its projections on the previously connected groups. It stays one domain if it
    implies for each group the constraints of its part: of ``i < n`` and ``j = n and n < 5``
    without ``j``, ``n < 5`` remains, which does not affect ``i``.
    """
    groups = [group for part in parts for group in _untied(part)]
    if all(keep_dims(changed, dim_names(g)).to_set().is_equal(g.to_set()) for g in groups):
        return (changed,)
    return tuple(groups)


def _untied(part: BasicSet) -> tuple[BasicSet, ...]:
    """Give independent loops separate domains, which are nonempty where all loops are."""
    where = part.params().to_set()  # isl loses the dimensions of a basic set where there is none
    groups = (keep_dims(part, group).to_set() for group in coupled_dims(part))
    return tuple(as_basic_set(group.intersect_params(where)) for group in groups)


def coupled_dims(domain: BasicSet) -> list[tuple[str, ...]]:
    """Return the dimensions in groups that are connected by constraints."""
    names = dim_names(domain)
    lifted = domain.lift().flatten() if n_quotients(domain) else domain
    group = {at: {at} for at in range(n_dims(lifted))}
    for row in lifted.get_constraints():
        tied = involved_axes(row)
        joined = set[int]().union(*(group[at] for at in tied))
        group.update(dict.fromkeys(joined, joined))
    found = dict.fromkeys(tuple(sorted(group[at])) for at in range(len(names)))
    return [tuple(names[at] for at in ats if at < len(names)) for ats in found]


def rename_params(domain: AnySet, names: Mapping[str, str]) -> AnySet:
    """Rename parameters; one renamed to an existing parameter becomes that parameter."""
    for old, new in names.items():
        if not has_param(domain, old):
            continue
        if has_param(domain, new):
            same = isl.Constraint.eq_from_names(domain.get_space(), {old: 1, new: -1})
            domain = project_out_params(domain.add_constraint(same), (old,))
        else:
            domain = rename_param(domain, old, new)
    return domain


def set_params(domain: BasicSet, values: Mapping[str, Expr]) -> tuple[BasicSet, ...]:
    """Substitute affine *values* for the existing ones of some parameters of a loop domain.

    ``[n] -> { [i] : 0 <= i < n }`` with ``2*m`` for ``n`` is ``[m] -> { [i] : 0 <= i < 2m }``.
    See :func:`_map_pieces` for why the result may be several domains. Raises
    :class:`ExpressionToAffineConversionError` for values that are not affine, and
    :class:`KernelError` for those that split a domain into several pieces.
    """
    return _map_pieces(domain, lambda part: _with_params(part, values))


def _with_params(domain: BasicSet, values: Mapping[str, Expr]) -> BasicSet:
    for name, value in values.items():
        if not has_param(domain, name):
            continue
        domain = with_params(domain, variable_names(value))
        space = domain.get_space()
        wanted = pw_aff_from_expr(space, value)
        same = pw_aff_from_expr(space, p.Variable(name)).eq_set(wanted)
        domain = as_basic_set(isl.Set.from_basic_set(domain).intersect(same))
        domain = project_out_params(domain, (name,))
    return domain


def difference(
    one: Set, other: Set, names: Mapping[str, str], assumptions: Set
) -> dict[str, int] | None:
    """Return a point that is in only one of two sets; ``None`` if they are equal.

    The dimensions of *one* are renamed first; their order does not matter.
    """
    a = to_named(rename_dims(one, names)).intersect(to_named(assumptions))
    b = to_named(other).intersect(to_named(assumptions))
    if a.is_equal(b):
        return None
    return sample_point(a.subtract(b).union(b.subtract(a)))


def _bounds_on(domain: BasicSet, names: Sequence[str]) -> BasicSet:
    """Keep the constraints that involve one of the dimensions *names*, or no dimension.

    A domain with internal divisions is kept whole: isl does not say which of them a
    constraint needs.
    """
    return domain if n_quotients(domain) else constraints_on(domain, names)
