"""Transformed loop domains: exact images under splitting, joining, copying and fixing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import islpy as isl
import pymbolic.primitives as p

from kgen.errors import KernelError, message
from kgen.ir.expr import Expr, variable_names
from kgen.ir.sets.domain import (
    BasicSet,
    Set,
    as_basic_set,
    dim_names,
    from_named,
    isl_int,
    keep_dims,
    param_names,
    sample_point,
    to_named,
)
from kgen.ir.sets.quasi_affine import aff_to_expr, pw_aff_from_expr, set_from_condition
from kgen.ir.sets.text import reason_of

__all__ = [
    "AffineRow",
    "Inverse",
    "set_where",
    "copy_dims",
    "difference",
    "domain_of_copies",
    "drop_dims",
    "equation_set",
    "fix_dims",
    "fix_params",
    "intersect_domains",
    "read_map",
    "rename_params",
    "replace_dims",
    "set_params",
    "solve",
    "coupled_dims",
]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_DIV = isl.dim_type.div

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
    """Write *domain* in terms of *new* inames, in the place of the first old one.

    *values* are the old ones in terms of the new; the rows *positive* are >= 0 besides, and
    *valid* holds. With *keep_old* the old ones stay before them for whoever still uses
    them, and the two are independent of each other. Old inames that are parameters (bounds
    that depend on an outer loop) are replaced likewise.
    """
    if _at(domain, _SET, next(iter(values))) < 0:
        return _replace_params(domain, values, new)
    old = [name for name in dim_names(domain) if name in values]
    at = min(_at(domain, _SET, name) for name in old)
    space = domain.get_space()
    for name in old:
        space = space.drop_dims(_SET, space.find_dim_by_name(_SET, name), 1)
    space = space.insert_dims(_SET, at, len(new))
    for k, name in enumerate(new):
        space = space.set_dim_name(_SET, at + k, name)
    ls = isl.LocalSpace.from_space(space)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, domain.dim(_SET))
    for name in dim_names(domain):
        if name in values:
            aff = pw_aff_from_expr(space, values[name]).get_pieces()[0][1]
        else:
            aff = isl.Aff.var_on_domain(ls, _SET, space.find_dim_by_name(_SET, name))
        affs = affs.add(aff)
    to_old = isl.Space.map_from_domain_and_range(space, domain.get_space())
    image = domain.preimage_multi_aff(isl.MultiAff.from_aff_list(to_old, affs))
    for row in positive:
        image = image.add_constraint(_row(ls, row))
    if valid is not None:
        named = to_named(image).intersect(to_named(valid))
        image = as_basic_set(from_named(named, dim_names(image)))
    if not keep_old:
        return image
    positions = [_at(domain, _SET, name) for name in old]
    for position, name in zip(positions, old, strict=True):
        image = _insert(image, _SET, position, (name,))
    return _insert(domain, _SET, at + len(old), new).intersect(image)


def _row(ls: isl.LocalSpace, row: AffineRow) -> isl.Constraint:
    """Return the constraint that *row* is not negative."""
    space = ls.get_space()
    aff = isl.Aff.zero_on_domain(ls)
    for name, coefficient in row.items():
        value = isl_int(coefficient) if isinstance(coefficient, int) else coefficient
        if name == 1:
            aff = aff.add_constant_val(value)
            continue
        kind = _SET if space.find_dim_by_name(_SET, str(name)) >= 0 else _PARAM
        term = isl.Aff.var_on_domain(ls, kind, space.find_dim_by_name(kind, str(name)))
        aff = aff.add(term.scale_val(value))
    return isl.Constraint.inequality_from_aff(aff)


def _replace_params(domain: BasicSet, values: Mapping[str, Expr], new: Sequence[str]) -> BasicSet:
    """Replace parameters: dimensions for a moment, which they are again in the result."""
    ndim = domain.dim(_SET)
    for name in values:
        at = _at(domain, _PARAM, name)
        if at >= 0:
            domain = domain.move_dims(_SET, domain.dim(_SET), _PARAM, at, 1)
        else:  # not in these bounds: any value will do
            domain = _insert(domain, _SET, domain.dim(_SET), (name,))
    image = replace_dims(domain, values, new)
    return image.move_dims(_PARAM, image.dim(_PARAM), _SET, ndim, len(new))


@dataclass(frozen=True)
class Inverse:
    """Old inames in terms of new ones: *values*, where *valid* holds for the new ones."""

    values: Mapping[str, Expr]
    new: tuple[str, ...]
    valid: Set


def equation_set(
    names: Sequence[str], params: Sequence[str], equations: Iterable[tuple[Expr, Expr]]
) -> Set:
    """Return the values of *names* for which all equations hold."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=list(names), params=list(params))
    result = isl.Set.universe(space)
    for left, right in equations:
        result = result.intersect(
            pw_aff_from_expr(space, left).eq_set(pw_aff_from_expr(space, right))
        )
    return result


def set_where(names: Sequence[str], conditions: Sequence[Expr]) -> Set:
    """Return the values of *names* for which all affine *conditions* hold."""
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
    count = relation.dim(isl.dim_type.in_)
    if not count or not relation.dim(isl.dim_type.out):
        raise KernelError(
            message(
                f"the map '{relation}' is not one between inames",
                hint="write { [i] -> [z] : z = i + 1 }",
            )
        )
    pairs = relation.move_dims(isl.dim_type.out, 0, isl.dim_type.in_, 0, count).range()
    if not all(pairs.has_dim_name(_SET, k) for k in range(pairs.dim(_SET))):
        raise KernelError(
            f"the map '{relation}' has dimensions without names\n"
            "  hint: write { [i] -> [z] : z = i + 1 }"
        )
    names = dim_names(pairs)
    return names[:count], names[count:], pairs


def solve(old: Sequence[str], new: Sequence[str], related: Set) -> Inverse | None:
    """Find *old* in terms of *new* for the points of *related*, a set over all of them.

    ``{ [i, z] : z = 3 - i }`` gives ``i = 3 - z``. ``None`` where not each point of one is
    one point of the other, or where that takes several expressions.
    """
    named = to_named(related)
    points = isl.Map.from_domain(from_named(named, (*old, *new)))
    relation = points.move_dims(isl.dim_type.out, 0, isl.dim_type.in_, 0, len(old))
    if not (relation.is_single_valued() and relation.is_injective()):
        return None
    values: dict[str, Expr] = {}
    affs = relation.as_pw_multi_aff()
    for k, name in enumerate(old):
        pieces = affs.get_pw_aff(k).coalesce().get_pieces()
        if len(pieces) != 1:
            return None
        values[name] = aff_to_expr(pieces[0][1])
    return Inverse(values, tuple(new), relation.domain())


def copy_dims(domain: BasicSet, copies: Mapping[str, str]) -> tuple[BasicSet, BasicSet | None]:
    """Copy some dimensions, independently: ``(the domain, a domain of its own)``.

    Copies whose bounds involve no other dimension get a domain of their own, which comes
    second; else they stand behind the originals in the same one, bound in the same way.
    """
    own = _bounds_on(domain, tuple(copies))
    others = [name for name in dim_names(own) if name not in copies]
    if not any(own.involves_dims(_SET, _at(own, _SET, name), 1) for name in others):
        return domain, _rename(drop_dims(own, others), copies)
    image = _rename(domain, copies)
    for name, new in copies.items():
        at = _at(domain, _SET, name)
        domain = _insert(domain, _SET, at + 1, (new,))
        image = _insert(image, _SET, at, (name,))
    return domain.intersect(image), None


def domain_of_copies(
    domain: BasicSet, copies: Mapping[str, str], fixed: Collection[str]
) -> BasicSet:
    """Return the domain of copies of some dimensions, for given values of *fixed* others.

    Those become parameters: ``{ [i, k] : 0 <= k < i }`` gives ``[i] -> { [k'] : 0 <= k' < i }``.
    """
    names = dim_names(domain)
    result = drop_dims(domain, [n for n in names if n not in copies and n not in fixed])
    result = _bounds_on(result, tuple(copies))
    for name in dim_names(result):
        at = _at(result, _SET, name)
        if name in copies:
            continue
        if result.involves_dims(_SET, at, 1):
            result = result.move_dims(_PARAM, result.dim(_PARAM), _SET, at, 1)
        else:
            result = result.project_out(_SET, at, 1)
    return _rename(result, copies)


def intersect_domains(domains: Sequence[BasicSet]) -> BasicSet:
    """Make one domain of several: all their dimensions, each once, and what each domain says.

    ``{ [i] : 0 <= i < n }`` and ``[i] -> { [j] : 0 <= j < i }`` give one domain over i and j.
    """
    named = to_named(domains[0])
    for domain in domains[1:]:
        named = named.intersect(to_named(domain))
    names = dict.fromkeys(name for domain in domains for name in dim_names(domain))
    return as_basic_set(from_named(named, tuple(names)))


def drop_dims(domain: BasicSet, names: Iterable[str]) -> BasicSet:
    """Project dimensions out; what they imply for the others stays."""
    dropped = set(names)
    return keep_dims(domain, [name for name in dim_names(domain) if name not in dropped])


def fix_dims(domain: AnySet, values: Mapping[str, int]) -> AnySet:
    """Give parameters a value, those that are there; they are gone then."""
    for name in param_names(domain):
        if name in values:
            at = _at(domain, _PARAM, name)
            value = isl_int(values[name])
            domain = domain.fix_val(_PARAM, at, value).project_out(_PARAM, at, 1)
    return domain


def fix_params(domain: BasicSet, values: Mapping[str, int]) -> tuple[BasicSet, ...]:
    """Give parameters a value, in a loop domain; see :func:`_map_pieces`."""
    return _map_pieces(domain, lambda part: fix_dims(part, values))


def _map_pieces(domain: BasicSet, change: Callable[[BasicSet], BasicSet]) -> tuple[BasicSet, ...]:
    """Change the parameters of a loop domain, and keep which loops matter to which.

    A loop whose values become a single one is tied to no other one any more: of ``3 <= i < n``
    and ``i < j < m``, ``n=4`` makes ``i = 3`` and ``4 <= j < m``, and what is inside of ``i`` only
    still waits for ``m >= 5``. And of a set that is empty isl keeps only that it is. In both cases
    loops that had nothing to do with each other get domains of their own.
    """
    changed = change(domain)
    if changed.get_space().is_equal(domain.get_space()):
        return (domain,)
    parts = [change(keep_dims(domain, group)) for group in coupled_dims(domain)]
    if not changed.is_empty() and all(map(_is_tied, parts)):
        return (changed,)
    return tuple(part.intersect_params(part.params()) for part in parts)


def _is_tied(domain: BasicSet) -> bool:
    """Tell whether no loop of a domain has values for sizes for which another one has none."""
    groups = coupled_dims(domain)
    where = domain.params()
    return len(groups) < 2 or all(keep_dims(domain, g).params().is_equal(where) for g in groups)


def coupled_dims(domain: BasicSet) -> list[tuple[str, ...]]:
    """Return the dimensions in groups that constraints tie together."""
    names = dim_names(domain)
    lifted = domain.lift().flatten() if domain.dim(_DIV) else domain
    group = {at: {at} for at in range(lifted.dim(_SET))}
    for row in lifted.get_constraints():
        tied = [at for at in group if row.involves_dims(_SET, at, 1)]
        joined = set[int]().union(*(group[at] for at in tied))
        group.update(dict.fromkeys(joined, joined))
    found = dict.fromkeys(tuple(sorted(group[at])) for at in range(len(names)))
    return [tuple(names[at] for at in ats if at < len(names)) for ats in found]


def rename_params(domain: AnySet, names: Mapping[str, str]) -> AnySet:
    """Rename parameters; one renamed to an existing parameter becomes that parameter."""
    for old, new in names.items():
        at, other = _at(domain, _PARAM, old), _at(domain, _PARAM, new)
        if at < 0:
            continue
        if other >= 0:
            same = isl.Constraint.eq_from_names(domain.get_space(), {old: 1, new: -1})
            domain = domain.add_constraint(same).project_out(_PARAM, at, 1)
        else:
            domain = domain.set_dim_name(_PARAM, at, new)
    return domain


def set_params(domain: BasicSet, values: Mapping[str, Expr]) -> tuple[BasicSet, ...]:
    """Write a loop domain in terms of the affine *values* of parameters, those that are there.

    ``[n] -> { [i] : 0 <= i < n }`` with ``2*m`` for ``n`` is ``[m] -> { [i] : 0 <= i < 2m }``.
    See :func:`_map_pieces` for why that may be several domains. Raises
    :class:`ExpressionToAffineConversionError` for values that are not affine, and
    :class:`KernelError` for those that make several pieces of one.
    """
    return _map_pieces(domain, lambda part: _with_params(part, values))


def _with_params(domain: BasicSet, values: Mapping[str, Expr]) -> BasicSet:
    for name, value in values.items():
        if _at(domain, _PARAM, name) < 0:
            continue
        for other in variable_names(value):
            if _at(domain, _PARAM, other) < 0:
                domain = _insert(domain, _PARAM, domain.dim(_PARAM), (other,))
        space = domain.get_space()
        wanted = pw_aff_from_expr(space, value)
        same = pw_aff_from_expr(space, p.Variable(name)).eq_set(wanted)
        domain = as_basic_set(isl.Set.from_basic_set(domain).intersect(same))
        domain = domain.project_out(_PARAM, _at(domain, _PARAM, name), 1)
    return domain


def difference(
    one: Set, other: Set, names: Mapping[str, str], assumptions: Set
) -> dict[str, int] | None:
    """Return a point that is in one of two sets only; ``None`` where they are the same.

    The dimensions of *one* are renamed first; their order does not matter.
    """
    for old, new in names.items():
        one = one.set_dim_name(_SET, _at(one, _SET, old), new)
    a = to_named(one).intersect(to_named(assumptions))
    b = to_named(other).intersect(to_named(assumptions))
    if a.is_equal(b):
        return None
    return sample_point(a.subtract(b).union(b.subtract(a)))


# -- dimensions ---------------------------------------------------------------------------


def _at(domain: BasicSet | Set, kind: isl.dim_type, name: str) -> int:
    """Return the position of a dimension; -1 where there is none of that kind."""
    return domain.get_space().find_dim_by_name(kind, name)


def _insert(domain: BasicSet, kind: isl.dim_type, at: int, names: Sequence[str]) -> BasicSet:
    domain = domain.insert_dims(kind, at, len(names))
    for k, name in enumerate(names):
        domain = domain.set_dim_name(kind, at + k, name)
    return domain


def _rename(domain: BasicSet, names: Mapping[str, str]) -> BasicSet:
    for kind in (_SET, _PARAM):
        for old, new in names.items():
            at = _at(domain, kind, old)
            if at >= 0:
                domain = domain.set_dim_name(kind, at, new)
    return domain


def _bounds_on(domain: BasicSet, names: Sequence[str]) -> BasicSet:
    """Keep the constraints that involve one of the dimensions *names*.

    A domain with internal divisions is kept whole: isl does not say which of them a
    constraint needs.
    """
    if domain.dim(_DIV):
        return domain
    result = domain.drop_constraints_involving_dims(_SET, 0, domain.dim(_SET))
    result = result.drop_constraints_involving_dims(_PARAM, 0, domain.dim(_PARAM))
    for name in names:
        at = _at(domain, _SET, name)
        result = result.intersect(domain.drop_constraints_not_involving_dims(_SET, at, 1))
    return result
