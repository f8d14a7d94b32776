"""Replacing inames by expressions of others, in instructions, rules, domains and priorities."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict
from pytools.tag import Tag

from kgen.analysis.access import Access
from kgen.analysis.dependences import ViolatedDependence
from kgen.analysis.distribution import find_violated_by_distribution
from kgen.analysis.domains import (
    AffineRow,
    coupled_dims,
    domains_without,
    intersect_domains,
    replace_dims,
)
from kgen.analysis.loop_bounds import data_in_bounds, reads_in_bounds
from kgen.errors import TransformError, message
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import Iname, SubstitutionRule, TemporaryVariable
from kgen.ir.expr import (
    Expr,
    Reduction,
    SubArrayRef,
    SubstitutionMapper,
    same_objects,
    substitute,
)
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    dim_names,
    from_named,
    involved_params,
    param_names,
    project_out_params,
    to_named,
)
from kgen.ir.sets.domain import as_basic_set, keep_dims
from kgen.ir.tags import AxisTag
from kgen.ir.types import AddressSpace
from kgen.transforms.select import InstructionTest, NothingSelectedError, new_names
from kgen.transforms.uses import called_rules, depends_on, inames_used, rules_of

__all__ = [
    "InameMapper",
    "Replacement",
    "Selection",
    "bounds_follow",
    "in_present_inames",
    "reject_torn_dependences",
    "replace_in_domains",
    "replace_in_priority",
    "replace_inames",
    "shared_bounds",
]


@dataclass(frozen=True)
class Replacement:
    """``values``: the old inames as expressions of ``new`` ones.

    >>> change = Replacement({"i": 4 * p.Variable("k") + p.Variable("l")}, ("k", "l"))
    >>> change.old
    ('i',)
    """

    values: Mapping[str, Expr]
    new: tuple[str, ...]

    @property
    def old(self) -> tuple[str, ...]:
        """The inames that are replaced."""
        return tuple(self.values)

    @cached_property
    def names(self) -> Mapping[str, str] | None:
        """The new name of each old iname, if this only renames inames one by one."""
        names = {old: v.name for old, v in self.values.items() if isinstance(v, p.Variable)}
        return names if len(names) == len(self.values) == len(self.new) else None


class InameMapper(SubstitutionMapper):
    """Replace inames in an expression, reductions over them included, and rename rules."""

    def __init__(
        self,
        change: Replacement,
        rules: Mapping[str, str],
        shadowed: Collection[str] = (),
    ) -> None:
        values = {name: value for name, value in change.values.items() if name not in shadowed}
        super().__init__({**values, **{old: p.Variable(new) for old, new in rules.items()}})
        self.change = change
        self.rules = rules

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        """Replace inames in the arguments; the function is renamed where it is a rule."""
        function = expr.function
        if isinstance(function, p.Variable) and function.name in self.rules:
            function = dataclasses.replace(function, name=self.rules[function.name])
        parameters = tuple(self.rec(arg, *args) for arg in expr.parameters)
        if function is expr.function and same_objects(parameters, expr.parameters):
            return expr
        return p.Call(function, parameters)

    def map_reduction(self, expr: Reduction, *args: Any) -> Expr:
        """Run the reduction over the new inames if it runs over the old ones."""
        parts = tuple(self.rec(part, *args) for part in expr.exprs)
        inames = replaced_names(expr.inames, self.change, "a reduction")
        if inames == expr.inames and same_objects(parts, expr.exprs):
            return expr
        return expr.over(inames, parts)

    def map_sub_array_ref(self, expr: SubArrayRef, *args: Any) -> Expr:
        """Rename swept inames; anything else would no longer be a part of an array."""
        swept = []
        for var in expr.swept_inames:
            value = self.change.values.get(var.name, var)
            if not isinstance(value, p.Variable):
                raise TransformError(
                    f"iname '{var.name}' sweeps over a part of an array in a call",
                    because=f"'[{var.name}]: ...' cannot be written in terms of other inames",
                    hint=f"change the other uses only: within='not iname:{var.name}'",
                )
            swept.append(value)
        return SubArrayRef(tuple(swept), self.rec(expr.subscript, *args))


def replaced_names(names: tuple[str, ...], change: Replacement, where: str) -> tuple[str, ...]:
    """Put the new inames in the place of the first old one; all old ones or none are there.

    Inames that are only renamed need not be there together.
    """
    if change.names is not None:
        return tuple(change.names.get(name, name) for name in names)
    present = [name for name in names if name in change.values]
    if not present:
        return names
    if len(present) < len(change.values):
        missing = next(name for name in change.values if name not in present)
        raise TransformError(
            f"{where} has iname '{present[0]}' but not '{missing}'",
            because="they are replaced together",
            hint="leave it out with within=...",
        )
    at = names.index(present[0])
    rest = [name for name in names[at:] if name not in change.values]
    return tuple(dict.fromkeys((*names[:at], *change.new, *rest)))


# -- the change ------------------------------------------------------------------------------


def replace_inames(
    kernel: LoopKernel,
    change: Replacement,
    matches: InstructionTest,
    *,
    new_domains: Callable[[Selection], tuple[BasicSet, ...]] | None = None,
    new_tags: Mapping[str, frozenset[Tag]] = constantdict(),
) -> LoopKernel:
    """Replace inames by expressions of others: in instructions, rules, domains, priorities.

    Only instructions that match get the new inames; the old ones stay, with a domain of their
    own, while other instructions use them. The caller sees to it that each iteration of the old
    loops is one of the new ones, and that what depends on each other keeps its order.

    :arg matches: a test of instructions, as :func:`matcher` makes it of a text
    :arg new_domains: all domains, where they are not those that :func:`replace_in_domains` makes

    ::

        for i, 0 <= i < n         Replacement({"i": n - 1 - k}, ("k",))      for k, 0 <= k < n
          a[i] = 0                              =>                             a[n - k - 1] = 0

    Raises :class:`TransformError` where some but not all of the old inames are around an
    instruction, and where a loop's bounds would need the old and the new ones.

    >>> import kgen as lp
    >>> from kgen.symbolic import parse
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 0").default_entrypoint
    >>> change = Replacement({"i": parse("n - 1 - k")}, ("k",))
    >>> print(replace_inames(knl, change, lambda insn: True).instructions[0])
    a[n - 1 - k] = 0  {id=insn}
    """
    select = select_users(kernel, change.old, matches)
    domains = new_domains(select) if new_domains else replace_in_domains(kernel, change, select)
    _reject_torn_bounds(kernel, change, select, new_tags)
    reject_torn_dependences(kernel, select.kept, select.chosen)
    substitutions, renamed = _replace_in_rules(kernel, change, select)
    mapper = InameMapper(change, renamed)
    instructions = [
        _replace_in_instruction(kernel, insn, change, mapper) if insn.id in select.chosen else insn
        for insn in kernel.instructions
    ]
    gone = frozenset(change.old) - select.kept
    inames = {name: iname for name, iname in kernel.inames.items() if name not in gone}
    for name in change.new:
        if name not in inames:
            inames[name] = Iname(name, new_tags.get(name, frozenset()))
    slabs = kernel.iname_slab_increments
    return kernel.copy(
        domains=domains,
        instructions=instructions,
        substitutions=substitutions,
        inames=inames,
        loop_priority=replace_in_priority(kernel.loop_priority, change, select.kept),
        iname_slab_increments={name: slab for name, slab in slabs.items() if name not in gone},
        applied_iname_rewrites=(*kernel.applied_iname_rewrites, constantdict(change.values)),
    )


def in_present_inames(kernel: LoopKernel, expr: Expr) -> Expr:
    """Write *expr* in the inames that the kernel has now, where it is in replaced ones."""
    for values in kernel.applied_iname_rewrites:
        gone = {name: value for name, value in values.items() if name not in kernel.inames}
        expr = substitute(expr, gone)
    return expr


@dataclass(frozen=True)
class Selection:
    """The instructions whose inames are replaced: ids, and the inames that *others* still use."""

    chosen: frozenset[str]
    others: tuple[InstructionBase, ...]
    kept: frozenset[str]


def select_users(kernel: LoopKernel, old: Sequence[str], matches: InstructionTest) -> Selection:
    """Divide the instructions that use the inames *old* into those that match and others.

    Raises :class:`NothingSelectedError` where some use them, but none of those matches.
    """
    chosen: set[str] = set()
    others: list[InstructionBase] = []
    kept: set[str] = set()
    for insn in kernel.instructions:
        used = inames_used(kernel, insn).intersection(old)
        if used and matches(insn):
            chosen.add(str(insn.id))
        elif used:
            others.append(insn)
            kept.update(used)
    if others and not chosen:
        shown = ", ".join(f"'{insn.id}'" for insn in others[:12])
        raise NothingSelectedError(
            f"'within' selects no instruction inside of '{old[0]}'",
            because=f"those inside of it are {shown}",
        )
    return Selection(frozenset(chosen), tuple(others), frozenset(kept))


def _reject_torn_bounds(
    kernel: LoopKernel,
    change: Replacement,
    select: Selection,
    new_tags: Mapping[str, frozenset[Tag]],
) -> None:
    """Reject other loops for instructions than for those that set the bounds around them.

    What is set in each iteration would bound loops in iterations of another loop. Both may be on
    the same axis of work-items: then each has its own value.
    """
    if not select.kept:
        return
    for read in reads_in_bounds(kernel):
        insn = kernel.id_to_insn[read.insn_id]
        for writer in map(kernel.id_to_insn.__getitem__, kernel.writers.get(read.array, ())):
            if (insn.id in select.chosen) == (writer.id in select.chosen):
                continue
            for name in sorted(insn.within_inames & writer.within_inames & change.values.keys()):
                if not _stays_on_axis(kernel, change, name, new_tags):
                    raise _torn_bound(kernel, name, read, writer)


def reject_torn_dependences(
    kernel: LoopKernel, kept: Collection[str], chosen: Collection[str], hint: str | None = None
) -> None:
    """Reject other loops for instructions whose values others need, or which need those of others.

    The *chosen* get others for the loops *kept*, which other instructions keep. Where a dependence
    depends on data, there is a warning; also where a temporary, or an argument with
    ``is_input=False``, is read before anything has written it, a value that nothing can need.
    *hint* says what to do; by default, change both. Global barriers outside of the loops separate
    them already.
    """
    if not kept:
        return
    name, changed = min(kept), None
    for found in find_violated_by_distribution(kernel, kept, chosen):
        if _is_at_barrier(kernel, found, kept):
            continue
        changed = changed if changed and changed.is_certain else found
        if found.is_certain and found.is_needed:
            what = "cannot get different loops"
            raise TransformError(_torn(kernel, found, what, name, hint or _keeping(kernel, found)))
    if changed is not None:
        verb = "" if changed.is_certain else "may "
        kernel.warn(
            _torn(kernel, changed, f"get different loops, which {verb}change results,", name),
            f"reordered_access({changed.then.array})",
        )


def _is_at_barrier(kernel: LoopKernel, found: ViolatedDependence, loops: Collection[str]) -> bool:
    """Tell whether all iterations of *loops* reach a global barrier between two accesses.

    Each work-item has its own copy of a private temporary, of which barriers do not matter.
    """
    array = kernel.array_vars[found.first.array]
    if isinstance(array, TemporaryVariable) and array.address_space != AddressSpace.GLOBAL:
        return False
    ends = [kernel.id_to_insn[one.insn_id] for one in (found.first, found.then)]
    before = [ancestors(kernel, insn) for insn in ends]
    return any(
        barrier.is_global_barrier
        and barrier.within_inames.isdisjoint(loops)
        and any(
            barrier.id in before[k] and ends[1 - k].id in ancestors(kernel, barrier) for k in (0, 1)
        )
        for barrier in kernel.instructions
        if isinstance(barrier, BarrierInstruction)
    )


def _keeping(kernel: LoopKernel, found: ViolatedDependence) -> str:
    """Return how the dependence could be kept."""
    array = found.first.array
    both = f"change both: within='id:{found.first.insn_id} or id:{found.then.insn_id}'; or "
    if array in kernel.temporary_variables:
        return (
            f"{both}let each iteration have its own '{array}': "
            "privatize_temporaries_with_inames(kernel, ...)"
        )
    is_flow = found.first.is_write and not found.then.is_write
    if is_flow or kernel.arg_dict[array].is_input is False:
        return f"{both}write to another array than '{array}'"
    return f"{both}declare '{array}' with is_input=False, if its values from before are not needed"


def _torn(
    kernel: LoopKernel, found: ViolatedDependence, what: str, name: str, hint: str | None = None
) -> str:
    text = f"'{found.first.insn_id}' and '{found.then.insn_id}' {what} for '{name}'"
    return message(text, kernel=kernel.name, because=found.point, hint=hint)


def _stays_on_axis(
    kernel: LoopKernel, change: Replacement, name: str, new_tags: Mapping[str, frozenset[Tag]]
) -> bool:
    """Tell whether what replaces a loop is on the axis of work-items that the loop is on."""
    new = (change.names or {}).get(name, "")
    known = kernel.iname_tags(new) if new in kernel.inames else frozenset[Tag]()
    axes = kernel.iname_tags_of_type(name, AxisTag)
    return bool(axes) and axes <= new_tags.get(new, known)


def _torn_bound(
    kernel: LoopKernel, name: str, read: Access, writer: InstructionBase
) -> TransformError:
    loops = [loop for loop in kernel.inames if read.array in data_in_bounds(kernel, loop)]
    return TransformError(
        f"'{read.insn_id}' and '{writer.id}' cannot get different loops for '{name}'",
        where=f"instruction '{writer}'",
        because=f"it sets '{read.array}', which bounds '{loops[0]}' around '{read.insn_id}', "
        f"in each iteration of '{name}'",
        hint=f"change both: within='id:{read.insn_id} or id:{writer.id}'",
    )


def _replace_in_instruction(
    kernel: LoopKernel, insn: InstructionBase, change: Replacement, mapper: InameMapper
) -> InstructionBase:
    within = insn.within_inames
    if not within.isdisjoint(change.values):
        ordered = kernel.in_order(within)
        where = f"instruction '{insn.id}'"
        within = frozenset(replaced_names(ordered, change, where))
    return insn.with_transformed_expressions(mapper, within_inames=within)


def _replace_in_rules(
    kernel: LoopKernel,
    change: Replacement,
    select: Selection,
) -> tuple[Mapping[str, SubstitutionRule], dict[str, str]]:
    """Replace inames in the rules; those that others use too are copied first.

    Returns the rules, and the new names of the copies.
    """
    rules = kernel.substitutions
    touched = [
        name
        for name in rules
        if any(
            not rules[called].free_names.isdisjoint(change.values)
            for called in (name, *called_rules(rules, (rules[name].expression,)))
        )
    ]
    if not touched:
        return rules, {}
    renamed: dict[str, str] = {}
    if select.others:
        mine = _rules_of(rules, [kernel.id_to_insn[name] for name in sorted(select.chosen)])
        theirs = _rules_of(rules, select.others)
        touched = [name for name in touched if name in mine]
        names = new_names(kernel)
        renamed = {name: names(name) for name in touched if name in theirs}
    result = dict(rules)
    for name in touched:
        rule, new = rules[name], renamed.get(name, name)
        mapper = InameMapper(change, renamed, rule.arguments)
        result[new] = rule.copy(name=new, expression=mapper(rule.expression))
    return result, renamed


def _rules_of(
    rules: Mapping[str, SubstitutionRule], insns: Iterable[InstructionBase]
) -> frozenset[str]:
    return frozenset(rules_of(rules, insns))


def replace_in_domains(
    kernel: LoopKernel,
    change: Replacement,
    select: Selection,
    *,
    positive: Sequence[AffineRow] = (),
    valid: Set | None = None,
) -> tuple[BasicSet, ...]:
    """Return the domains of *kernel* with inames replaced.

    The new ones satisfy *valid* and the rows *positive*, which are >= 0. Of several domains whose
    inames are replaced together, those that the others are inside of keep the rest of their
    inames: what is inside of these only does not wait for the others.

    Raises :class:`TransformError` when the bounds of a loop depend on the old inames, and
    both the chosen instructions and others use it.
    """
    result: list[BasicSet] = []
    bounds_others = not kernel.bounding_names.isdisjoint(change.old)
    for domain in merge_domains(kernel, change.old):
        if not set(change.old).isdisjoint(dim_names(domain)):
            domain = replace_dims(
                domain,
                change.values,
                change.new,
                positive=positive,
                valid=valid,
                keep_old=bool(select.kept),
            )
            if select.kept:
                result += domains_without(domain, set(change.old) - select.kept)
                continue
            around = _around(kernel, change.old)
            result += around
            domain = _inside(domain, around)
        elif bounds_others and bounds_follow(kernel, domain, change.old, select):
            domain = replace_dims(domain, change.values, change.new)
        result.append(domain)
    return tuple(result)


def _around(kernel: LoopKernel, inames: Sequence[str]) -> list[BasicSet]:
    """Return what is left, without *inames*, of the outer ones of the domains they are in."""
    homes = _homes(kernel, inames)
    tied, _ = _parted(kernel, inames) if homes[1:] else ([], [])
    outer = [domain for domain in tied if set(inames).isdisjoint(param_names(domain))]
    return [left for domain in outer for left in domains_without(domain, inames)]


def _inside(domain: BasicSet, around: Sequence[BasicSet]) -> BasicSet:
    """Make the dimensions that domains *around* have parameters, and leave out what those say."""
    named = to_named(domain)
    for outer in around:
        named = named.gist(to_named(outer))
    names = [name for outer in around for name in dim_names(outer)]
    named = project_out_params(named, set(names).difference(involved_params(named)))
    return as_basic_set(from_named(named, [n for n in dim_names(domain) if n not in names]))


def bounds_follow(
    kernel: LoopKernel, domain: BasicSet, old: Sequence[str], select: Selection
) -> bool:
    """Tell whether *domain* has old inames as parameters, and is the chosen instructions' own.

    Rejects a domain that others use as well: its bounds would need both versions.
    """
    if set(old).isdisjoint(param_names(domain)):
        return False
    if not select.kept:
        return True
    dims = dim_names(domain)
    users = [insn for insn in kernel.instructions if not depends_on(kernel, insn).isdisjoint(dims)]
    inside = [insn for insn in users if insn.id in select.chosen]
    if inside and len(inside) < len(users):
        raise shared_bounds(kernel, dims, old[0], inside[0])
    return bool(inside)


def shared_bounds(
    kernel: LoopKernel, dims: Sequence[str], old: str, insn: InstructionBase
) -> TransformError:
    """Make the error for loops that would need bounds in terms of old and of new inames."""
    direct = sorted(inames_used(kernel, insn).intersection(dims))
    name = direct[0] if direct else dims[0]
    hint = f"duplicate_inames(kernel, '{name}', within='id:{insn.id}') first, or both at once"
    return TransformError(
        f"the bounds of loop '{name}' depend on '{old}', which others keep",
        because=f"'{name}' matters to '{insn.id}', which gets another loop for '{old}'",
        hint=hint if direct else f"bound the loops of '{insn.id}' without '{name}'",
    )


def merge_domains(kernel: LoopKernel, inames: Sequence[str]) -> tuple[BasicSet, ...]:
    """Return the domains of *kernel*, those that declare *inames* made one.

    Loops that no constraint ties to *inames* get domains of their own, before the merged one if
    they bound it, else at the end: in the merged one, an instruction outside of them would not run
    where they are empty.
    """
    homes = _homes(kernel, inames)
    if len(homes) == 1:
        return kernel.domains
    tied, apart = _parted(kernel, inames)
    merged = intersect_domains(tied)
    bounds = param_names(merged)
    outer = [domain for domain in apart if not set(bounds).isdisjoint(dim_names(domain))]
    inner = [domain for domain in apart if domain not in outer]
    before = kernel.domains[: homes[0]]
    after = [d for at, d in enumerate(kernel.domains) if at > homes[0] and at not in homes]
    return (*before, *outer, merged, *after, *inner)


def _homes(kernel: LoopKernel, inames: Sequence[str]) -> list[int]:
    """Return the indices of the domains that declare *inames*, in order."""
    return sorted({kernel.home_domain[name] for name in inames})


def _parted(kernel: LoopKernel, inames: Sequence[str]) -> tuple[list[BasicSet], list[BasicSet]]:
    """Part the domains of *inames* into the loops that constraints tie to them, and the others."""
    tied: list[BasicSet] = []
    apart: list[BasicSet] = []
    for domain in (kernel.domains[home] for home in _homes(kernel, inames)):
        loose = [group for group in coupled_dims(domain) if set(inames).isdisjoint(group)]
        apart += [keep_dims(domain, group) for group in loose]
        tied.append(keep_dims(domain, set(dim_names(domain)).difference(*loose)))
    return tied, apart


def replace_in_priority(
    priority: Sequence[tuple[str, ...]], change: Replacement, kept: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """Put the new inames in place of the old ones, in addition to the old order if that stays."""
    result: dict[tuple[str, ...], None] = {}
    for names in priority:
        here = [name for name in names if name in change.values]
        if all(name in kept for name in here):
            result[names] = None
        if not here:
            continue
        if change.names is not None:
            changed = tuple(change.names.get(name, name) for name in names)
        else:
            at = names.index(here[0])
            rest = tuple(name for name in names[at:] if name not in here)
            changed = tuple(dict.fromkeys((*names[:at], *change.new, *rest)))
        if len(changed) > 1:
            result[changed] = None
    return tuple(result)
