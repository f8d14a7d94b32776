"""Replacing inames by expressions of others, in instructions, rules, domains and priorities."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.analysis.domains import Relation, intersect_domains, replace_dims
from kgen.errors import TransformError, message
from kgen.ir.data import Iname, SubstitutionRule
from kgen.ir.domain import BasicSet, dim_names, param_names
from kgen.ir.expr import (
    Expr,
    Reduction,
    SubArrayRef,
    SubstitutionMapper,
    variable_names,
)
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.mentions import mentions_of
from kgen.transforms.select import InstructionTest, NothingSelectedError, taken_names

__all__ = [
    "InameMapper",
    "Replacement",
    "called_rules",
    "direct_rules",
    "inames_used",
    "replace_in_priority",
    "replace_inames",
]


@dataclass(frozen=True)
class Replacement:
    """``values``: what the old inames are in terms of ``new`` ones."""

    values: Mapping[str, Expr]
    new: tuple[str, ...]

    @property
    def old(self) -> tuple[str, ...]:
        """The inames that are replaced."""
        return tuple(self.values)


class InameMapper(SubstitutionMapper):
    """Replace inames in an expression, reductions over them included, and rename rules."""

    def __init__(
        self,
        kernel: str,
        change: Replacement,
        rules: Mapping[str, str],
        shadowed: Collection[str] = (),
    ) -> None:
        values = {name: value for name, value in change.values.items() if name not in shadowed}
        super().__init__({**values, **{old: p.Variable(new) for old, new in rules.items()}})
        self.kernel = kernel
        self.change = change
        self.rules = rules

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        """Replace inames in the arguments; the function is renamed where it is a rule."""
        function = expr.function
        if isinstance(function, p.Variable) and function.name in self.rules:
            function = dataclasses.replace(function, name=self.rules[function.name])
        parameters = tuple(self.rec(arg, *args) for arg in expr.parameters)
        if function is expr.function and _same(parameters, expr.parameters):
            return expr
        return p.Call(function, parameters)

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        """Run the reduction over the new inames if it runs over the old ones."""
        parts = tuple(self.rec(part, *args) for part in expr.exprs)
        inames = replaced_names(self.kernel, expr.inames, self.change, "a reduction")
        if inames == expr.inames and _same(parts, expr.exprs):
            return expr
        operand = parts if isinstance(expr.expr, tuple) else parts[0]
        return Reduction(expr.operation, inames, operand, expr.allow_simultaneous)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any) -> Expr:
        """Rename swept inames; anything else would no longer be a part of an array."""
        swept = []
        for var in expr.swept_inames:
            value = self.change.values.get(var.name, var)
            if not isinstance(value, p.Variable):
                raise TransformError(
                    message(
                        f"iname '{var.name}' sweeps over a part of an array in a call",
                        kernel=self.kernel,
                        because=f"'[{var.name}]: ...' has no form in terms of others",
                        hint=f"change the other uses only: within='not iname:{var.name}'",
                    )
                )
            swept.append(value)
        return SubArrayRef(tuple(swept), self.rec(expr.subscript, *args))


def _same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def replaced_names(
    kernel: str, names: tuple[str, ...], change: Replacement, where: str
) -> tuple[str, ...]:
    """Put the new inames in the place of the first old one; all old ones or none are there."""
    present = [name for name in names if name in change.values]
    if not present:
        return names
    if len(present) < len(change.values):
        missing = next(name for name in change.values if name not in present)
        raise TransformError(
            message(
                f"{where} has iname '{present[0]}' but not '{missing}'",
                kernel=kernel,
                because="they are replaced together",
                hint="leave it out with within=...",
            )
        )
    at = names.index(present[0])
    rest = [name for name in names[at:] if name not in change.values]
    return tuple(dict.fromkeys((*names[:at], *change.new, *rest)))


# -- which instruction uses what -------------------------------------------------------------


def direct_rules(rules: Mapping[str, SubstitutionRule], exprs: Iterable[Expr]) -> tuple[str, ...]:
    """Return the substitution rules that *exprs* use themselves."""
    if not rules:
        return ()
    found = mentions_of(*exprs)
    return tuple(name for name in (*found.functions, *found.variables) if name in rules)


def called_rules(rules: Mapping[str, SubstitutionRule], exprs: Iterable[Expr]) -> tuple[str, ...]:
    """Return the substitution rules that *exprs* use, directly or through others."""
    found: dict[str, None] = {}
    waiting = list(direct_rules(rules, exprs))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting.extend(direct_rules(rules, (rules[name].expression,)))
    return tuple(found)


def inames_used(kernel: LoopKernel, insn: InstructionBase) -> frozenset[str]:
    """Return the loops around *insn*, and those of its reductions and of the rules it uses."""
    used = insn.within_inames | insn.reduction_inames() | insn.sub_array_ref_inames()
    if not kernel.substitutions:
        return used
    names = {
        name
        for rule in called_rules(kernel.substitutions, insn.expressions())
        for name in _free_names(kernel.substitutions[rule])
    }
    return used | (names & kernel.inames.keys())


def _free_names(rule: SubstitutionRule) -> frozenset[str]:
    return frozenset(variable_names(rule.expression)) - frozenset(rule.arguments)


# -- the change ------------------------------------------------------------------------------


def replace_inames(
    kernel: LoopKernel,
    change: Replacement,
    relation: Relation,
    matches: InstructionTest,
    new_tags: Mapping[str, frozenset[Tag]] = constantdict(),
) -> LoopKernel:
    """Replace the old inames of *change* in the instructions that match.

    The old inames stay, with a domain of their own, while other instructions use them.
    Raises :class:`TransformError` when some but not all of them are around an instruction,
    or when the bounds of a loop that is used on both sides depend on them.
    """
    old = frozenset(change.old)
    users = [insn for insn in kernel.instructions if not old.isdisjoint(inames_used(kernel, insn))]
    chosen = frozenset(str(insn.id) for insn in users if matches(insn))
    others = [insn for insn in users if insn.id not in chosen]
    keep_old = bool(others)
    if users and not chosen:
        shown = ", ".join(f"'{insn.id}'" for insn in users[:12])
        raise NothingSelectedError(
            message(
                f"'within' selects no instruction inside of '{change.old[0]}'",
                kernel=kernel.name,
                because=f"those inside of it are {shown}",
            )
        )
    substitutions, renamed = _replace_in_rules(kernel, change, chosen, others)
    mapper = InameMapper(kernel.name, change, renamed)
    instructions = [
        _replace_in_instruction(kernel, insn, change, mapper) if insn.id in chosen else insn
        for insn in kernel.instructions
    ]
    inames = {name: iname for name, iname in kernel.inames.items() if keep_old or name not in old}
    inames.update((name, Iname(name, new_tags.get(name, frozenset()))) for name in change.new)
    slabs = {
        name: slab
        for name, slab in kernel.iname_slab_increments.items()
        if keep_old or name not in old
    }
    return kernel.copy(
        domains=_replace_in_domains(kernel, relation, chosen, keep_old=keep_old),
        instructions=instructions,
        substitutions=substitutions,
        inames=inames,
        loop_priority=replace_in_priority(kernel.loop_priority, change, keep_old=keep_old),
        iname_slab_increments=slabs,
    )


def _replace_in_instruction(
    kernel: LoopKernel, insn: InstructionBase, change: Replacement, mapper: InameMapper
) -> InstructionBase:
    within = insn.within_inames
    if not within.isdisjoint(change.values):
        ordered = tuple(sorted(within, key=kernel.iname_order.__getitem__))
        where = f"instruction '{insn.id}'"
        within = frozenset(replaced_names(kernel.name, ordered, change, where))
    return insn.with_transformed_expressions(mapper, within_inames=within)


def _replace_in_rules(
    kernel: LoopKernel,
    change: Replacement,
    chosen: Collection[str],
    others: Sequence[InstructionBase],
) -> tuple[Mapping[str, SubstitutionRule], dict[str, str]]:
    """Replace inames in the rules; those that *others* use too are copied first.

    Returns the rules, and the new names of the copies.
    """
    rules = kernel.substitutions
    touched = [
        name
        for name in rules
        if any(
            not _free_names(rules[called]).isdisjoint(change.values)
            for called in (name, *called_rules(rules, (rules[name].expression,)))
        )
    ]
    if not touched:
        return rules, {}
    renamed: dict[str, str] = {}
    if others:
        mine = _rules_of(rules, [kernel.id_to_insn[insn_id] for insn_id in sorted(chosen)])
        theirs = _rules_of(rules, others)
        touched = [name for name in touched if name in mine]
        names = UniqueNameGenerator(set(taken_names(kernel)))
        renamed = {name: names(name) for name in touched if name in theirs}
    result = dict(rules)
    for name in touched:
        rule, new = rules[name], renamed.get(name, name)
        mapper = InameMapper(kernel.name, change, renamed, rule.arguments)
        result[new] = rule.copy(name=new, expression=mapper(rule.expression))
    return result, renamed


def _rules_of(
    rules: Mapping[str, SubstitutionRule], insns: Iterable[InstructionBase]
) -> frozenset[str]:
    return frozenset(name for insn in insns for name in called_rules(rules, insn.expressions()))


def _replace_in_domains(
    kernel: LoopKernel, relation: Relation, chosen: Collection[str], *, keep_old: bool
) -> tuple[BasicSet, ...]:
    domains = merge_domains(kernel, relation.old)
    result = []
    for domain in domains:
        dims = dim_names(domain)
        if relation.old[0] in dims:
            domain = replace_dims(domain, relation, keep_old=keep_old)
        elif not set(relation.old).isdisjoint(param_names(domain)) and (
            not keep_old or _belongs_to(kernel, dims, relation.old, chosen)
        ):
            domain = replace_dims(domain, relation)
        result.append(domain)
    return tuple(result)


def _belongs_to(
    kernel: LoopKernel, dims: Sequence[str], old: Sequence[str], chosen: Collection[str]
) -> bool:
    """Tell whether loops bounded by the old inames are used by chosen instructions only.

    Refuses loops that others use as well: their bounds would need both versions.
    """
    users = [insn for insn in kernel.instructions if not inames_used(kernel, insn).isdisjoint(dims)]
    inside = [insn for insn in users if insn.id in chosen]
    if inside and len(inside) < len(users):
        outside = next(insn for insn in users if insn.id not in chosen)
        name = min(inames_used(kernel, inside[0]).intersection(dims))
        raise TransformError(
            message(
                f"the bounds of loop '{name}' depend on '{old[0]}', and '{inside[0].id}' and "
                f"'{outside.id}' share it",
                kernel=kernel.name,
                because=f"only '{inside[0].id}' gets other loops for '{old[0]}'",
                hint=f"duplicate_inames(kernel, '{name}', within='id:{inside[0].id}') first",
            )
        )
    return bool(inside)


def merge_domains(kernel: LoopKernel, inames: Sequence[str]) -> tuple[BasicSet, ...]:
    """Return the domains of *kernel*, those that declare *inames* made one."""
    homes = sorted({kernel.home_domain[name] for name in inames})
    if len(homes) == 1:
        return kernel.domains
    merged = intersect_domains([kernel.domains[home] for home in homes])
    rest = [d for index, d in enumerate(kernel.domains) if index not in homes[1:]]
    rest[homes[0]] = merged
    return tuple(rest)


def replace_in_priority(
    priority: Sequence[tuple[str, ...]], change: Replacement, *, keep_old: bool
) -> tuple[tuple[str, ...], ...]:
    """Put the new inames where the first old one was, beside the old order if that stays."""
    result: dict[tuple[str, ...], None] = {}
    for names in priority:
        at = next((k for k, name in enumerate(names) if name in change.values), None)
        if at is None or keep_old:
            result[names] = None
        if at is not None:
            rest = tuple(name for name in names[at:] if name not in change.values)
            changed = tuple(dict.fromkeys((*names[:at], *change.new, *rest)))
            if len(changed) > 1:
                result[changed] = None
    return tuple(result)
