"""What precomputing consists of: finding uses, order, names, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict
from pytools import UniqueNameGenerator
from pytools.tag import Tag

from kgen.analysis.access import Access, Place
from kgen.analysis.domains import difference
from kgen.analysis.swept import Box, first_outside
from kgen.errors import TransformError, message
from kgen.ir.affine import simplify
from kgen.ir.data import SubstitutionRule, TemporaryVariable
from kgen.ir.domain import BasicSet, Set, dim_names
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    TaggedVariable,
    substitute,
    variable_names,
    walk,
)
from kgen.ir.instruction import BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.match import ConcreteMatchable, parse_stack_match
from kgen.ir.tags import ConcurrentTag, TagLike, parse_tag
from kgen.ir.types import auto, to_kgen_type
from kgen.transforms.privatize import subscript
from kgen.transforms.select import (
    NothingSelectedError,
    require_new_name,
    taken_names,
)
from kgen.transforms.statements import ancestors
from kgen.transforms.uses import called_rules

__all__ = [
    "Names",
    "Order",
    "Storage",
    "StoredReader",
    "Uses",
    "check_covered",
    "check_left_out",
    "free_names",
    "given_access",
    "mark_uses",
    "mentioned_inames",
    "new_domains",
    "ordered_axes",
    "outer_inames",
    "tag_of",
]


@dataclass(frozen=True, kw_only=True)
class Uses:
    """Which uses of a rule are meant; *given* ones say what to store in place of those.

    ``None`` in a given use is all that is *valid*: conditions by argument.
    """

    rule: str
    tags: frozenset[Tag] = frozenset()
    within: Any = None
    given: tuple[tuple[Expr, ...], ...] = ()
    valid: Mapping[str, tuple[Expr, ...]] = constantdict()

    def valid_along(self, argument: str, name: str) -> tuple[Expr, ...]:
        """Return the conditions on an argument, which is called *name* there."""
        renamed = {argument: p.Variable(name)}
        return tuple(substitute(c, renamed) for c in self.valid.get(argument, ()))


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where the values of a rule go, and how they are computed; see :func:`precompute`."""

    sweep: tuple[str, ...]
    axes: tuple[str | int, ...] | None = None
    temporary: str | None = None
    inames: tuple[str, ...] = ()
    outer: tuple[str, ...] | None = None
    tags: Mapping[str | int, TagLike] = constantdict()
    default_tag: TagLike = None
    dtype: Any = None
    whole_box: bool = False
    address_space: Any = None
    insn_id: str | None = None


# -- what is stored ------------------------------------------------------------------------------


def free_names(value: Expr, rule: SubstitutionRule) -> frozenset[str]:
    """Return what the expanded expression of a rule mentions besides its arguments."""
    bound = {name for node in walk(value) if isinstance(node, Reduction) for name in node.inames}
    return frozenset(variable_names(value)).difference(rule.arguments, bound)


def ordered_axes(
    kernel: LoopKernel, rule: SubstitutionRule, storage: Storage, free: frozenset[str]
) -> tuple[str, ...]:
    """Return the axes of the storage in order: swept inames in the rule, and its arguments.

    Axes that the caller does not list come last; they must turn out to have length 1.
    """
    direct = tuple(name for name in storage.sweep if name in free)
    known = (*direct, *rule.arguments)
    if storage.axes is None:
        return known
    chosen: list[str] = []
    for given in storage.axes:
        axis: str | int = given
        if isinstance(given, int) and 0 <= given < len(rule.arguments):
            axis = rule.arguments[given]
        if axis not in known or axis in chosen:
            raise TransformError(
                message(
                    f"'{given}' is no storage axis, or is one twice",
                    kernel=kernel.name,
                    hint=f"the axes for '{rule}' are {', '.join(known) or 'none'}",
                )
            )
        chosen.append(str(axis))
    return (*chosen, *(axis for axis in known if axis not in chosen))


def check_left_out(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    storage: Storage,
    axes: Sequence[str],
    box: Box,
) -> None:
    """Refuse storage axes that the caller left out although they are longer than 1."""
    if storage.axes is None:
        return
    for axis, extent in list(zip(axes, box.extents, strict=True))[len(storage.axes) :]:
        if extent > 1:
            raise TransformError(
                message(
                    f"axis '{axis}' is missing in storage_axes",
                    kernel=kernel.name,
                    because=f"the uses of '{rule.name}' take {extent} values along it",
                )
            )


# -- where it is used ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marked:
    """A kernel with the uses of a rule replaced by elements of an array *name*."""

    kernel: LoopKernel
    name: str
    users: tuple[InstructionBase, ...]
    rule_stays: bool


def mark_uses(
    kernel: LoopKernel, rule: SubstitutionRule, uses: Uses, axes: Sequence[str]
) -> Marked:
    """Replace uses of a rule by elements of a new array, one axis for each of *axes*."""
    name = UniqueNameGenerator(set(taken_names(kernel)))(f"{rule.name}_uses")
    marker = _UseMarker(kernel, rule, uses, axes, name)
    instructions = tuple(marker.mark(insn) for insn in kernel.instructions)
    if not marker.users:
        raise NothingSelectedError(
            message(
                f"no use of rule '{rule.name}' is meant",
                kernel=kernel.name,
                hint="look at within=..., and at tags such as 'name$tag'",
            )
        )
    array = TemporaryVariable(name)
    left = called_rules(kernel.substitutions, [e for i in instructions for e in i.expressions()])
    changed = kernel.copy(
        instructions=instructions,
        temporary_variables={**kernel.temporary_variables, name: array},
    )
    return Marked(changed, name, tuple(marker.users), rule.name in left)


class _UseMarker(IdentityMapper):
    """Replaces the uses of a rule by elements of an array."""

    def __init__(
        self,
        kernel: LoopKernel,
        rule: SubstitutionRule,
        uses: Uses,
        axes: Sequence[str],
        name: str,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.rule = rule
        self.tags = uses.tags
        self.test = parse_stack_match(uses.within)
        self.axes = axes
        self.name = name
        self.insn: InstructionBase | None = None
        self.users: list[InstructionBase] = []

    def mark(self, insn: InstructionBase) -> InstructionBase:
        """Replace the uses in an instruction, and remember it if there are any."""
        self.insn = insn
        return insn.with_transformed_expressions(self.rec)

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return self._use(expr, expr, ()) if expr.name == self.rule.name else expr

    def map_tagged_variable(self, expr: TaggedVariable, *args: Any) -> Expr:
        return self.map_variable(expr, *args)

    def map_call(self, expr: p.Call, *args: Any) -> Expr:
        operands = tuple(self.rec(arg, *args) for arg in expr.parameters)
        use = p.Call(expr.function, operands)
        if isinstance(expr.function, p.Variable) and expr.function.name == self.rule.name:
            return self._use(use, expr.function, operands)
        return use

    def _use(self, use: Expr, name: p.Variable, operands: tuple[Expr, ...]) -> Expr:
        tags = name.tags if isinstance(name, TaggedVariable) else frozenset()
        assert self.insn is not None
        stack = (ConcreteMatchable(self.rule.name, tags),)
        if not self.tags <= tags or not self.test(self.kernel, self.insn, stack):
            return use
        if not self.users or self.users[-1] is not self.insn:
            self.users.append(self.insn)
        return subscript(
            p.Variable(self.name), index_along(self.kernel, self.rule, self.axes, operands)
        )


def index_along(
    kernel: LoopKernel, rule: SubstitutionRule, axes: Sequence[str], operands: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """Return the position of a use of a rule along the axes of its storage."""
    if len(operands) != len(rule.arguments):
        raise TransformError(
            message(
                f"rule '{rule}' takes {len(rule.arguments)} arguments, not {len(operands)}",
                kernel=kernel.name,
            )
        )
    at = dict(zip(rule.arguments, operands, strict=True))
    return tuple(at[axis] if axis in at else p.Variable(axis) for axis in axes)


def given_access(
    kernel: LoopKernel, rule: SubstitutionRule, axes: Sequence[str], operands: tuple[Expr, ...]
) -> Access:
    """Return what a use that the caller wrote down stands for, in all loops that it names."""
    index = index_along(kernel, rule, axes, operands)
    names = variable_names(*(part for part in index if part is not None))
    inames = sorted(kernel.inames.keys() & set(names), key=kernel.iname_order.__getitem__)
    return Access("", rule.name, index, False, Place(tuple(inames)))


class StoredReader(IdentityMapper):
    """Replaces the elements of the marking array by those of the storage."""

    def __init__(self, marked: str, target: str, kept: Sequence[tuple[int, Expr]]) -> None:
        super().__init__()
        self.marked = marked
        self.target = p.Variable(target)
        self.kept = kept

    def map_variable(self, expr: p.Variable, *args: Any) -> Expr:
        return self.target if expr.name == self.marked else expr

    def map_subscript(self, expr: p.Subscript, *args: Any) -> Expr:
        if expr.aggregate != p.Variable(self.marked):
            return super().map_subscript(expr, *args)
        index = expr.index_tuple
        return subscript(
            self.target,
            tuple(simplify(index[k] - low) for k, low in self.kept),
        )


# -- inside of which loops, after what -----------------------------------------------------------


def mentioned_inames(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    needs: Sequence[Access],
    free: frozenset[str],
    sweep: Sequence[str],
) -> frozenset[str]:
    """Return the loops that are not swept and on which the values depend, or refuse."""
    named = {n for a in needs for n in variable_names(*(i for i in a.index or () if i is not None))}
    mentioned = kernel.inames.keys() & (named | free)
    unknown = [name for name in sweep if name not in mentioned]
    if unknown:
        raise TransformError(
            message(
                f"iname '{unknown[0]}' cannot be swept",
                kernel=kernel.name,
                because=f"neither '{rule}' nor its uses depend on it",
            )
        )
    return frozenset(mentioned - set(sweep))


def outer_inames(
    kernel: LoopKernel,
    storage: Storage,
    needed: frozenset[str],
    accesses: Sequence[Access],
) -> frozenset[str]:
    """Return the loops around the new instruction, or refuse those that do not fit.

    Inside of the loop of a reduction it is also inside of the loops around that.
    """
    outer = needed
    for access in accesses:
        around = kernel.id_to_insn[access.insn_id].within_inames
        if not needed <= around:
            loops = {name for name in around if not kernel.has_tag(name, ConcurrentTag)}
            outer |= loops.difference(storage.sweep)
    if storage.outer is not None:
        missing = sorted(needed.difference(storage.outer))
        if missing:
            raise TransformError(
                message(
                    f"the values cannot be computed outside of iname '{missing[0]}'",
                    kernel=kernel.name,
                    because=f"they depend on '{missing[0]}', which is not swept",
                    hint=f"sweep '{missing[0]}', or put it among the outer inames",
                )
            )
        outer = frozenset(storage.outer)
    both = sorted(outer.intersection(storage.sweep))
    if both:
        raise TransformError(
            message(f"iname '{both[0]}' is swept and around the sweep", kernel=kernel.name)
        )
    for access in accesses:
        missing = sorted(outer.difference(access.place.inames))
        if missing:
            raise TransformError(
                message(
                    f"'{access.insn_id}' is outside of iname '{missing[0]}', inside of which "
                    "the values are computed",
                    kernel=kernel.name,
                    hint="leave that use out with within=...",
                )
            )
    return outer


class Order:
    """What the new instruction waits for, and inside of which loops that makes it stand.

    Raises :class:`TransformError` where the values change while the swept loops run.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        rule: SubstitutionRule,
        value: Expr,
        users: Sequence[InstructionBase],
        sweep: Sequence[str],
    ) -> None:
        before: set[str] = set()
        around: set[str] = set()
        earlier = {str(user.id): ancestors(kernel, user) for user in users}
        for array in sorted(kernel.writers.keys() & set(variable_names(value))):
            for writer in map(kernel.id_to_insn.__getitem__, kernel.writers[array]):
                for user in users:
                    shared = writer.within_inames & user.within_inames
                    around |= shared.difference(sweep)
                    _check_writer(kernel, rule, array, writer, user, shared.intersection(sweep))
                    if writer.id in earlier[str(user.id)]:
                        before.add(str(writer.id))
                        before |= _barriers_between(kernel, writer, earlier[str(user.id)])
        self.before = frozenset(before)
        self.around = frozenset(around)


def _barriers_between(
    kernel: LoopKernel, writer: InstructionBase, earlier: frozenset[str]
) -> frozenset[str]:
    barriers = [kernel.id_to_insn[name] for name in sorted(earlier)]
    return frozenset(
        str(insn.id)
        for insn in barriers
        if isinstance(insn, BarrierInstruction) and writer.id in ancestors(kernel, insn)
    )


def _check_writer(
    kernel: LoopKernel,
    rule: SubstitutionRule,
    array: str,
    writer: InstructionBase,
    user: InstructionBase,
    swept: frozenset[str],
) -> None:
    """Refuse a writer inside of a swept loop, unless it writes elements of its own, in parallel."""
    own = frozenset(
        name
        for written, names in zip(
            writer.assignee_var_names(), writer.assignee_subscript_deps(), strict=True
        )
        if written == array
        for name in names
    )
    for name in sorted(swept):
        if name not in own or not kernel.has_tag(name, ConcurrentTag):
            raise TransformError(
                message(
                    f"the values of '{rule.name}' change while '{name}' is swept",
                    kernel=kernel.name,
                    because=f"'{writer.id}' writes '{array}' in the loop over '{name}', in which "
                    f"'{user.id}' uses the rule",
                    hint=f"do not sweep '{name}'",
                )
            )


# -- names, loops, declarations ----------------------------------------------------------------


class Names:
    """The names of what is added: loops, temporary, instruction."""

    def __init__(
        self, kernel: LoopKernel, rule: SubstitutionRule, storage: Storage, *, rule_stays: bool
    ) -> None:
        self.kernel = kernel
        self.rule = rule
        self.storage = storage
        others = kernel
        if not rule_stays:
            rules = {n: r for n, r in kernel.substitutions.items() if n != rule.name}
            others = kernel.copy(substitutions=rules)
        self._names = UniqueNameGenerator({*taken_names(others), rule.name, *storage.inames})
        self.temporary = storage.temporary or self._names(f"{rule.name}_0")
        if self.temporary not in kernel.temporary_variables:
            require_new_name(kernel, self.temporary)
        ids = kernel.get_instruction_id_generator()
        self.insn_id = str(storage.insn_id or ids(rule.name))
        if self.insn_id in kernel.id_to_insn:
            raise TransformError(
                message(f"the instruction id '{self.insn_id}' is taken", kernel=kernel.name)
            )

    def of(self, axes: Sequence[str]) -> list[str]:
        """Return the names of the loops along *axes*: those given, then new ones."""
        given = self.storage.inames[: len(axes)]
        for name in given:
            if name not in self.kernel.inames:
                require_new_name(self.kernel, name)
        made = [
            self._names(axis if axis in self.rule.arguments else f"{self.rule.name}_{axis}")
            for axis in axes[len(given) :]
        ]
        return [*given, *made]

    def declared(self, extents: tuple[int, ...]) -> TemporaryVariable:
        """Return the temporary of a size; an existing one must have it already, or none."""
        storage = self.storage
        space = auto if storage.address_space is None else storage.address_space
        found = self.kernel.temporary_variables.get(self.temporary)
        if found is None:
            dtype = to_kgen_type(storage.dtype)
            return TemporaryVariable(
                self.temporary, dtype=dtype, shape=extents, address_space=space
            )
        checks = (
            ("shape", found.shape, extents),
            ("type", found.dtype or auto, to_kgen_type(storage.dtype) or auto),
            ("address space", found.address_space, space),
        )
        for what, has, wanted in checks:
            if auto not in (has, wanted) and has != wanted:
                raise TransformError(
                    message(
                        f"temporary '{self.temporary}' has the {what} {has}, not {wanted}",
                        kernel=self.kernel.name,
                        hint="choose another temporary_name",
                    )
                )
        changes: dict[str, Any] = {"dtype": found.dtype or to_kgen_type(storage.dtype)}
        if found.address_space is auto:
            changes["address_space"] = space
        changed = found.copy(**changes)
        return changed.with_shape(extents) if changed.shape is auto else changed


def new_domains(
    kernel: LoopKernel, box: Box, loops: tuple[str, ...], outer: frozenset[str]
) -> tuple[BasicSet, ...]:
    """Return the domain of the new loops, if any; existing loops must have it already."""
    domain = box.domain
    old = [name for name in loops if name in kernel.inames]
    if domain is None or not old:
        return () if domain is None else (domain,)
    if len(old) < len(loops):
        raise TransformError(
            message(
                f"iname '{old[0]}' exists, and others of {', '.join(loops)} do not",
                kernel=kernel.name,
                hint="name all loops along the axes, or only new ones",
            )
        )
    order = tuple(sorted(outer, key=kernel.iname_order.__getitem__))
    point = difference(
        kernel.domain_of((*order, *loops)),
        box.with_outer(kernel.domain_of(order), order),
        {},
        kernel.assumptions,
    )
    if point is not None:
        shown = ", ".join(f"{name} = {value}" for name, value in point.items())
        raise TransformError(
            message(
                f"the existing loops over {', '.join(loops)} do not compute what is needed",
                kernel=kernel.name,
                because=f"only one of both contains {shown}",
                hint="give new names in precompute_inames",
            )
        )
    return ()


def tag_of(storage: Storage, rule: SubstitutionRule, axis: str) -> Tag | None:
    """Return the tag of the loop along an axis."""
    keys: list[str | int] = [axis]
    if axis in rule.arguments:
        keys.append(rule.arguments.index(axis))
    tag: TagLike = next((storage.tags[k] for k in keys if k in storage.tags), storage.default_tag)
    return parse_tag(tag)


def check_covered(kernel: LoopKernel, used: Set, stored: Set, what: str) -> None:
    """Refuse a given footprint that does not hold all that the uses need."""
    found = first_outside(kernel, used, stored)
    if found is not None:
        element = ", ".join(str(found[name]) for name in dim_names(used))
        raise TransformError(
            message(
                f"{what} need more than the footprint that is given",
                kernel=kernel.name,
                because=f"element [{element}] is not in it, for {found}",
                hint="leave those uses out with within=..., or tag the others",
            )
        )
