"""Precomputed values: the temporary, the loops, and the instruction that fills it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as p
from constantdict import constantdict
from pytools.tag import Tag

from kgen.analysis.domains import difference
from kgen.analysis.loop_bounds import bound_writers
from kgen.analysis.swept import Axis, Box, box_of, first_outside, swept_footprint, valid_elements
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import Iname, SubstitutionRule, TemporaryVariable, read_address_space
from kgen.ir.expr import Expr, Reduction, subscript, substitute, variable_names, walk
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Set, dim_names
from kgen.ir.sets.text import parse_domain
from kgen.ir.tags import TagLike, parse_tag
from kgen.ir.types import AddressSpace, auto, read_type, to_kgen_type
from kgen.transforms.array_accesses import Index
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.loops.tag import add_tags
from kgen.transforms.select import (
    new_names,
    require_inames,
    require_new_iname,
    require_new_name,
)
from kgen.transforms.storage.filling import (
    FillOrder,
    mentioned_inames,
    reject_local_in_divergent_loop,
)
from kgen.transforms.storage.sites import SiteRewriter, Values
from kgen.transforms.storage.window import find_window, slide
from kgen.transforms.uses import rules_of

__all__ = ["Storage", "store"]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where values go, and how they are computed; see :func:`precompute`."""

    sweep: tuple[str, ...]
    axes: tuple[str | int, ...] | None = None
    temporary: str | None = None
    inames: tuple[str, ...] = ()
    axis_names: tuple[str, ...] = ()  # of axes, by which the user will call their loops
    outer: tuple[str, ...] | None = None
    tags: Mapping[str | int, TagLike] = constantdict()
    default_tag: TagLike = None
    dtype: Any = None
    whole_box: bool = False
    address_space: Any = None
    insn_id: str | None = None
    window: str | None = None

    def tag_of(self, rule: SubstitutionRule, axis: str) -> Tag | None:
        """Return the tag of the loop along an axis."""
        keys: list[str | int] = [axis]
        if axis in rule.arguments:
            keys.append(rule.arguments.index(axis))
        return parse_tag(next((self.tags[k] for k in keys if k in self.tags), self.default_tag))


def store(values: Values, storage: Storage) -> LoopKernel:
    """Compute values ahead, and read them at their sites; see :func:`precompute`."""
    kernel, rule = values.kernel, values.rule
    require_inames(kernel, (*storage.sweep, *(storage.outer or ())))
    value = expand_expression(kernel, rule.expression)
    free = _free_names(value, rule)
    axes = _ordered_axes(rule, storage, free)
    given = values.given_accesses(axes)
    if given:
        around = storage.outer or mentioned_inames(kernel, rule, given, free, storage.sweep)
        values = values.covered(axes, given, around)
    accesses = values.accesses(axes)
    needs = given or accesses
    order = FillOrder(kernel, rule, value, accesses, storage.sweep)
    mentioned = mentioned_inames(kernel, rule, needs, free, storage.sweep)
    what = f"what '{storage.temporary or 'a rule'}' holds"
    around = order.outer_inames(mentioned, storage.outer, what)
    outer = around.difference(storage.sweep)  # in a swept loop, values are stored anew each time

    names = _Names(values, storage)
    dims = [values.axis(axis, name) for axis, name in zip(axes, names.of(axes), strict=True)]
    what = f"the uses of '{rule.name}'"
    footprint = swept_footprint(kernel, needs, outer, dims)
    window, whole_box = None, storage.whole_box
    if storage.window is not None:
        whole_box = whole_box or values.has_more
        window = find_window(storage.window, values.name, needs)
        footprint = window.closed(footprint, is_any=values.has_more)
        footprint = footprint.intersect(valid_elements(kernel, footprint, dims))
    box = box_of(
        kernel,
        footprint,
        outer,
        whole_box=whole_box,
        existing=valid_elements(kernel, footprint, dims),
        has_more=values.has_more,
        what=what,
    )
    if given:
        used = swept_footprint(kernel, accesses, outer, [Axis(dim.name) for dim in dims])
        _check_covered(kernel, used, footprint, what)
    _check_left_out(rule, storage, axes, box)

    if window is not None:
        window.check(box, values.name)

    kept = [k for k, extent in enumerate(box.extents) if extent > 1]
    loops = {dims[k].name: axes[k] for k in kept}
    given_names = {*storage.inames, *storage.axis_names}
    single = [
        dim.name
        for k, dim in enumerate(dims)
        if k not in kept and dim.name in given_names and dim.name not in kernel.inames
    ]
    element = {
        axis: simplify(p.Sum((p.Variable(dim.name), low))) if extent > 1 else low
        for axis, dim, low, extent in zip(axes, dims, box.lower, box.extents, strict=True)
    }
    compute = Assignment(
        subscript(p.Variable(names.temporary), tuple(map(p.Variable, loops))),
        substitute(rule.expression if free.isdisjoint(storage.sweep) else value, element),
        id=names.insn_id,
        within_inames=around.union(loops),
        within_inames_is_final=True,
        predicates=frozenset(box.conditions),
        depends_on=order.before | bound_writers(kernel, around),
        depends_on_is_final=True,
    )

    def read(variable: p.Variable, operands: Index) -> Expr:
        at = values.position(axes, operands)
        index = tuple(simplify(at[k] - box.lower[k]) for k in kept)
        return subscript(p.Variable(names.temporary), index)

    swept = (axis for axis in axes if axis not in rule.arguments)
    rewriter = SiteRewriter(values, read, {*swept, *variable_names(*box.lower)})
    users = {site.insn_id for site in values.sites}
    instructions: list[InstructionBase] = [
        rewriter.change_reads(insn, depends_on=insn.depends_on | {names.insn_id})
        if insn.id in users
        else insn
        for insn in rewriter.written.instructions
    ]
    known = rewriter.rules()
    first = next(k for k, insn in enumerate(instructions) if insn.id in users)
    instructions.insert(first, compute)
    extents = [box.extents[k] for k in kept]
    in_registers = window is not None and window.fits_registers(extents, names.space)
    if window is not None and not in_registers:
        extents[kept.index(window.axis)] += window.spare(kernel, names.space)
    temporary = names.declared(tuple(extents), tuple(loops))
    if temporary.address_space == AddressSpace.LOCAL:
        reject_local_in_divergent_loop(kernel, f"'{names.temporary}'", outer)
    rules = rules_of(known, instructions)
    added = [*single, *(name for name in loops if name not in kernel.inames)]
    result = kernel.copy(
        instructions=instructions,
        temporary_variables={**kernel.temporary_variables, names.temporary: temporary},
        substitutions={name: r for name, r in known.items() if name in rules},
        domains=(
            *kernel.domains,
            *_new_domains(kernel, box, tuple(loops), outer),
            *(parse_domain(f"{{ [{name}] : 0 <= {name} < 1 }}") for name in single),
        ),
        inames={**kernel.inames, **{name: Iname(name) for name in added}},
    )
    result = add_tags(result, {n: (storage.tag_of(rule, loops[n]),) for n in added if n in loops})
    if window is None:
        return result
    along = dims[window.axis].name
    extent = box.extents[window.axis]
    return slide(result, window, names.insn_id, along, extent, in_registers=in_registers)


# -- axes and names ------------------------------------------------------------------------------


def _free_names(value: Expr, rule: SubstitutionRule) -> frozenset[str]:
    """Return what the expanded expression of a rule mentions besides its arguments."""
    bound = {name for node in walk(value) if isinstance(node, Reduction) for name in node.inames}
    return frozenset(variable_names(value)).difference(rule.arguments, bound)


def _ordered_axes(
    rule: SubstitutionRule, storage: Storage, free: frozenset[str]
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
                f"'{given}' is no storage axis, or is one twice",
                hint=f"the axes for '{rule}' are {', '.join(known) or 'none'}",
            )
        chosen.append(str(axis))
    return (*chosen, *(axis for axis in known if axis not in chosen))


class _Names:
    """The names of what is added: loops, temporary, instruction."""

    def __init__(self, values: Values, storage: Storage) -> None:
        self.kernel = kernel = values.kernel
        self.rule = rule = values.rule
        self.storage = storage
        others = kernel
        if not values.rule_stays:
            rules = {n: r for n, r in kernel.substitutions.items() if n != rule.name}
            others = kernel.copy(substitutions=rules)
        self._names = new_names(others, (rule.name, *storage.inames))
        self.temporary = storage.temporary or self._names(f"{rule.name}_0")
        if self.temporary not in kernel.temporary_variables:
            require_new_name(kernel, self.temporary, (rule.name, *rule.arguments))
        ids = kernel.get_instruction_id_generator()
        self.insn_id = str(storage.insn_id or ids(rule.name))
        if self.insn_id in kernel.id_to_insn:
            raise TransformError(f"the instruction id '{self.insn_id}' is taken")

    @property
    def space(self) -> Any:
        """The address space of the temporary; ``auto`` where it is not said."""
        found = self.kernel.temporary_variables.get(self.temporary)
        known = self.storage.address_space
        if known is None:
            return auto if found is None else found.address_space
        return known if known is auto else read_address_space(known)

    def of(self, axes: Sequence[str]) -> list[str]:
        """Return the names of the loops along *axes*: those given, then new ones."""
        given = self.storage.inames[: len(axes)]
        for name in given:
            if name not in self.kernel.inames:
                require_new_iname(self.kernel, name)
        made = [
            self._names(axis if axis in self.rule.arguments else f"{self.rule.name}_{axis}")
            for axis in axes[len(given) :]
        ]
        return [*given, *made]

    def declared(self, extents: tuple[int, ...], loops: tuple[str, ...]) -> TemporaryVariable:
        """Return the temporary of a size; an existing one must have it already, or none.

        Axes of a new one are called like the *loops* along them, where the user gives names.
        """
        storage = self.storage
        found = self.kernel.temporary_variables.get(self.temporary)
        if found is None:
            dtype = read_type(storage.dtype, "what is stored")
            is_named = bool(extents) and bool({*storage.inames, *storage.axis_names})
            return TemporaryVariable(
                self.temporary,
                dtype=dtype,
                shape=extents,
                address_space=self.space,
                dim_names=loops if is_named else None,
            )
        checks = (
            ("shape", found.shape, extents),
            ("type", found.dtype or auto, to_kgen_type(storage.dtype) or auto),
            ("address space", found.address_space, self.space),
        )
        for what, has, wanted in checks:
            if auto not in (has, wanted) and has != wanted:
                raise TransformError(
                    f"temporary '{self.temporary}' has the {what} {has}, not {wanted}",
                    hint="choose another temporary_name",
                )
        changes: dict[str, Any] = {"dtype": found.dtype or to_kgen_type(storage.dtype)}
        if found.address_space is auto:
            changes["address_space"] = self.space
        changed = found.copy(**changes)
        return changed.with_shape(extents) if changed.shape is auto else changed


def _new_domains(
    kernel: LoopKernel, box: Box, loops: tuple[str, ...], outer: frozenset[str]
) -> tuple[BasicSet, ...]:
    """Return the domain of the new loops, if any; existing loops must have it already."""
    domain = box.domain
    old = [name for name in loops if name in kernel.inames]
    if domain is None or not old:
        return () if domain is None else (domain,)
    if len(old) < len(loops):
        raise TransformError(
            f"iname '{old[0]}' exists, and others of {', '.join(loops)} do not",
            hint="name all loops along the axes, or only new ones",
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
            f"the existing loops over {', '.join(loops)} do not compute what is needed",
            because=f"only one of both contains {shown}",
            hint="give new names in precompute_inames",
        )
    return ()


# -- checks --------------------------------------------------------------------------------------


def _check_left_out(
    rule: SubstitutionRule,
    storage: Storage,
    axes: Sequence[str],
    box: Box,
) -> None:
    """Reject storage axes that the caller left out although they are longer than 1."""
    if storage.axes is None:
        return
    for axis, extent in list(zip(axes, box.extents, strict=True))[len(storage.axes) :]:
        if extent > 1:
            raise TransformError(
                f"axis '{axis}' is missing in storage_axes",
                because=f"the uses of '{rule.name}' take {extent} values along it",
            )


def _check_covered(kernel: LoopKernel, used: Set, stored: Set, what: str) -> None:
    """Reject a given footprint that does not hold all that the uses need."""
    found = first_outside(kernel, used, stored)
    if found is not None:
        element = ", ".join(str(found[name]) for name in dim_names(used))
        raise TransformError(
            f"{what} need more than the footprint that is given",
            because=f"element [{element}] is not in it, for {found}",
            hint="leave those uses out with within=..., or tag the others",
        )
