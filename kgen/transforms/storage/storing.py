"""Precomputed values: the temporary, the loops, and the instruction that fills it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import pymbolic.primitives as p

from kgen.analysis.access import Access, Place
from kgen.analysis.domains import difference
from kgen.analysis.loop_bounds import bound_writers
from kgen.analysis.reduction_bounds import computed_bounds, loops_of_bounds
from kgen.analysis.swept import Axis, Box, box_of, first_outside, swept_footprint, valid_elements
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.data import Iname, SubstitutionRule, TemporaryVariable
from kgen.ir.expr import Expr, Reduction, subscript, substitute, variable_names, walk
from kgen.ir.instruction import Assignment, BarrierInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Set, dim_names, to_named
from kgen.ir.sets.text import parse_domain
from kgen.ir.types import AddressSpace
from kgen.transforms.array_accesses import Index
from kgen.transforms.expressions.rules import expand_expression
from kgen.transforms.launches import begin_with_loops
from kgen.transforms.loops.tag import add_tags
from kgen.transforms.select import require_inames
from kgen.transforms.storage.defined import without_undefined
from kgen.transforms.storage.filling import (
    FillOrder,
    mentioned_inames,
    reject_local_in_divergent_loop,
)
from kgen.transforms.storage.reduced import ReductionCopies
from kgen.transforms.storage.sites import SiteRewriter, Values
from kgen.transforms.storage.stored_names import Storage, StoredNames, ordered_axes
from kgen.transforms.storage.window import Window, find_window, slide
from kgen.transforms.uses import rules_of

__all__ = ["store"]


def store(values: Values, storage: Storage) -> LoopKernel:
    """Compute values ahead, and read them at their sites; see :func:`precompute`."""
    require_inames(values.kernel, (*storage.sweep, *(storage.outer or ())))
    return _Storing(values, storage).result()


class _Storing:
    """Values to be stored in a temporary: a box of elements, with the outer and the new loops."""

    def __init__(self, values: Values, storage: Storage) -> None:
        self.kernel = kernel = values.kernel
        self.rule = rule = values.rule
        self.storage = storage
        self.value = expand_expression(kernel, rule.expression)
        inside = {name for site in values.sites for name in site.place.inames}
        self.inside = inside.union(storage.outer or ())
        #: loops on which the domains of reductions in the values depend
        self.bounding = loops_of_bounds(kernel, self.value, self.inside)
        self.bounds = computed_bounds(kernel, self.value)
        self._check_bounds_stay()
        self.swept_arguments = _swept_arguments(values, storage.sweep)
        self.free = _free_names(self.value, rule) | self.bounding.difference(self.swept_arguments)
        self.axes = axes = ordered_axes(rule, storage, self.free)
        self.given = given = values.given_accesses(axes)
        if given:
            values = values.covered(axes, given, storage.outer or self.mentioned(given))
        self.values = values
        self.accesses = values.accesses(axes)
        self.needs = given or self.accesses
        self.order = FillOrder(kernel, rule, self.value, self.accesses, storage.sweep)
        what = f"what '{storage.temporary or 'a rule'}' holds"
        self.around = self.order.outer_inames(self._needed_loops(), storage.outer, what)
        #: in a swept loop, values are stored again in each iteration
        self.outer = self.around.difference(storage.sweep)
        self.names = StoredNames(values, storage)
        loops = self.names.of(axes)
        self.dims = [values.axis(axis, name) for axis, name in zip(axes, loops, strict=True)]
        self.window, self.box = self._window_and_box(f"the uses of '{rule.name}'")

    def _check_bounds_stay(self) -> None:
        """Reject swept loops in which bounds of reductions are computed."""
        for insn_id in sorted(self.bounds):
            around = self.kernel.id_to_insn[insn_id].within_inames
            for name in sorted(around.intersection(self.storage.sweep)):
                raise TransformError(
                    f"iname '{name}' cannot be swept",
                    because=f"'{insn_id}' sets what a reduction in '{self.rule.name}' runs over, "
                    "in each of its iterations",
                )

    def mentioned(self, needs: Sequence[Access]) -> frozenset[str]:
        """Return the loops that are not swept and on which the values depend."""
        return mentioned_inames(self.kernel, self.rule, needs, self.free, self.storage.sweep)

    def _needed_loops(self) -> frozenset[str]:
        """Return the loops that are not swept and that must be around the fill.

        A loop around some uses only need not be, if the other uses access all that these do::

            o[i] = sum(j, a[i, j])                a is stored for j: a[i, k] is there, too
            m[i] = max(k, a[i, k])
        """
        mentioned = self.mentioned(self.needs)
        apart = {
            name
            for name in mentioned - self.free
            if any(name not in access.place.inames for access in self.accesses)
        }
        rest = [access for access in self.accesses if apart.isdisjoint(access.place.inames)]
        if self.given or self.storage.outer is not None or not apart or not rest:
            return mentioned
        outer = mentioned - apart
        dims = [self.values.axis(axis, f"{axis}'") for axis in self.axes]
        stored = swept_footprint(self.kernel, rest, outer, dims)
        used = swept_footprint(self.kernel, self.accesses, outer, [Axis(dim.name) for dim in dims])
        return outer if first_outside(self.kernel, used, stored) is None else mentioned

    def _window_and_box(self, what: str) -> tuple[Window | None, Box]:
        """Return the elements to store, and the window of those kept between iterations."""
        kernel, values, outer, dims = self.kernel, self.values, self.outer, self.dims
        footprint = swept_footprint(kernel, self.needs, outer, dims)
        window, whole_box = None, self.storage.whole_box
        if self.storage.window is not None:
            whole_box = whole_box or values.has_more
            window = find_window(self.storage.window, values.name, self.needs)
            footprint = window.closed(footprint, is_any=values.has_more)
            footprint = footprint.intersect(valid_elements(kernel, footprint, dims))
        existing = None
        if whole_box or values.has_more:
            existing = valid_elements(kernel, footprint, dims)
        if existing is not None and whole_box:
            existing = self._without_undefined(footprint, existing)
        box = box_of(
            kernel,
            footprint,
            outer,
            whole_box=whole_box,
            existing=existing,
            has_more=values.has_more,
            wider=self._unconditional() if values.has_more else None,
            sized=window is None and self._may_have_any_size(),
            what=what,
        )
        if self.given:
            plain = [Axis(dim.name) for dim in dims]
            used = swept_footprint(kernel, self.accesses, outer, plain)
            _check_covered(kernel, used, footprint, what)
        _check_left_out(self.rule, self.storage, self.axes, box)
        if window is not None:
            window.check(box, values.name)
        return window, box

    def _may_have_any_size(self) -> bool:
        is_global = self.names.space is AddressSpace.GLOBAL
        return is_global or self.kernel.target.allocates_arrays

    def _unconditional(self) -> Set | None:
        """Return the elements that would be needed if no use had a condition; none if none has."""
        if not any(need.place.conditions for need in self.needs):
            return None
        needs = [replace(need, place=Place(need.place.inames)) for need in self.needs]
        return swept_footprint(self.kernel, needs, self.outer, self.dims)

    def _without_undefined(self, footprint: Set, existing: Set) -> Set:
        """Remove the elements whose values would read what nothing writes."""
        dims = {axis: dim.name for axis, dim in zip(self.axes, self.dims, strict=True)}
        value = substitute(self.value, {axis: p.Variable(name) for axis, name in dims.items()})
        bounding = [name for name in self.storage.sweep if name in self.bounding]
        swept = {name: dims[self.swept_arguments.get(name, name)] for name in bounding}
        return without_undefined(self.kernel, value, self.outer, footprint, existing, swept)

    @cached_property
    def loops(self) -> dict[str, str]:
        """The axes by the loops along them that fill the temporary."""
        return {self.dims[k].name: self.axes[k] for k in self.box.kept}

    def result(self) -> LoopKernel:
        """Return the kernel in which the sites read the temporary."""
        kernel, names, loops = self.kernel, self.names, tuple(self.loops)
        fill, copies = self._fill()
        rewriter = self._rewriter()
        users = {site.insn_id for site in self.values.sites}
        added: list[InstructionBase] = [fill, *self._barrier()]
        stored = {str(insn.id) for insn in added}
        instructions: list[InstructionBase] = [
            rewriter.change_reads(insn, depends_on=insn.depends_on | stored)
            if insn.id in users
            else insn
            for insn in rewriter.written.instructions
        ]
        known = rewriter.rules()
        first = next(k for k, insn in enumerate(instructions) if insn.id in users)
        instructions[first:first] = added
        temporary, in_registers = self._temporary()
        rules = rules_of(known, instructions)
        single = self._single_loops()
        new = [*single, *(name for name in loops if name not in kernel.inames)]
        result = kernel.copy(
            instructions=instructions,
            temporary_variables={**kernel.temporary_variables, names.temporary: temporary},
            substitutions={name: rule for name, rule in known.items() if name in rules},
            domains=(
                *kernel.domains,
                *_new_domains(kernel, self.box, loops, self.outer),
                *(parse_domain(f"{{ [{name}] : 0 <= {name} < 1 }}") for name in single),
                *copies.domains,
            ),
            inames={
                **kernel.inames,
                **{name: Iname(name) for name in new},
                **{iname.name: iname for iname in copies.copies.values()},
            },
        )
        tags = {
            name: (self.storage.tag_of(self.rule, self.loops[name]),)
            for name in new
            if name in self.loops
        }
        result = add_tags(result, tags)
        if self.names.space is not AddressSpace.GLOBAL:
            result = begin_with_loops(result, [names.temporary])
        return self._windowed(result, in_registers)

    def _barrier(self) -> list[InstructionBase]:
        """Return the barrier before other work-items read global memory."""
        if self.names.space is not AddressSpace.GLOBAL:
            return []
        return [
            BarrierInstruction(
                self.kernel.get_instruction_id_generator()(f"{self.names.insn_id}_barrier"),
                depends_on=frozenset({self.names.insn_id}),
                within_inames=self.around,
                within_inames_is_final=True,
            )
        ]

    def _fill(self) -> tuple[Assignment, ReductionCopies]:
        """Return the instruction that stores an element, and the new loops of its reductions."""
        kernel, box, names = self.kernel, self.box, self.names
        element = {
            axis: simplify(p.Sum((p.Variable(dim.name), low))) if extent != 1 else low
            for axis, dim, low, extent in zip(
                self.axes, self.dims, box.lower, box.extents, strict=True
            )
        }
        moved = {
            name: element[self.swept_arguments.get(name, name)]
            for name in self.storage.sweep
            if name in self.bounding
        }
        known = kernel.assumptions
        if box.domain is not None:
            known = to_named(box.domain).params().intersect(known)
        copies = ReductionCopies(kernel, self.inside, moved, known, names.others)
        is_swept = not self.free.isdisjoint(self.storage.sweep)
        value = copies(self.value) if moved else self.value if is_swept else self.rule.expression
        fill = Assignment(
            subscript(p.Variable(names.temporary), tuple(map(p.Variable, self.loops))),
            substitute(value, element),
            id=names.insn_id,
            within_inames=self.around.union(self.loops),
            within_inames_is_final=True,
            predicates=tuple(box.conditions),
            depends_on=self.order.before | bound_writers(kernel, self.around) | self.bounds,
            depends_on_is_final=True,
        )
        return fill, copies

    def _rewriter(self) -> SiteRewriter:
        """Return the rewriter that makes the sites read the temporary."""
        swept = (axis for axis in self.axes if axis not in self.rule.arguments)
        return SiteRewriter(self.values, self._read, {*swept, *variable_names(*self.box.lower)})

    def _read(self, variable: p.Variable, operands: Index) -> Expr:
        at = self.values.position(self.axes, operands)
        index = tuple(simplify(at[k] - self.box.lower[k]) for k in self.box.kept)
        return subscript(p.Variable(self.names.temporary), index)

    def _temporary(self) -> tuple[TemporaryVariable, bool]:
        """Return the temporary, and whether a window moves through it as through registers."""
        window, names = self.window, self.names
        extents = [self.box.extents[k] for k in self.box.kept]
        in_registers = window is not None and window.fits_registers(extents, names.space)
        if window is not None and not in_registers:
            extents[self.box.kept.index(window.axis)] += window.spare(self.kernel, names.space)
        temporary = names.declared(tuple(extents), tuple(self.loops))
        if temporary.address_space == AddressSpace.LOCAL:
            reject_local_in_divergent_loop(self.kernel, f"'{names.temporary}'", self.outer)
        return temporary, in_registers

    def _single_loops(self) -> list[str]:
        """Return the loops of one iteration that a user has named for axes that do not exist."""
        named = {*self.storage.inames, *self.storage.axis_names}
        return [
            dim.name
            for k, dim in enumerate(self.dims)
            if k not in self.box.kept and dim.name in named and dim.name not in self.kernel.inames
        ]

    def _windowed(self, stored: LoopKernel, in_registers: bool) -> LoopKernel:
        """Let each iteration fetch only elements that the previous one has not."""
        if self.window is None:
            return stored
        axis = self.window.axis
        along, extent = self.dims[axis].name, self.box.extents[axis]
        fill = self.names.insn_id
        return slide(stored, self.window, fill, along, extent, in_registers=in_registers)


def _swept_arguments(values: Values, sweep: Sequence[str]) -> dict[str, str]:
    """Return, by swept loop, the arguments of the rule that are this loop at all sites."""
    found = {}
    for k, argument in enumerate(values.rule.arguments):
        (operand, *others) = {(site.index or ())[k] for site in values.sites}
        if isinstance(operand, p.Variable) and operand.name in sweep and not others:
            found[operand.name] = argument
    return found


def _free_names(value: Expr, rule: SubstitutionRule) -> frozenset[str]:
    """Return the names in the expanded expression of a rule other than its arguments."""
    bound = {name for node in walk(value) if isinstance(node, Reduction) for name in node.inames}
    return frozenset(variable_names(value)).difference(rule.arguments, bound)


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
            f"iname '{old[0]}' exists, but others of {', '.join(loops)} do not",
            hint="name all loops along the axes, or only new ones",
        )
    order = kernel.in_order(outer)
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
            because=f"only one of the two contains {shown}",
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
    """Reject storage axes longer than 1 that the caller omitted."""
    if storage.axes is None:
        return
    for axis, extent in list(zip(axes, box.extents, strict=True))[len(storage.axes) :]:
        if extent != 1:
            raise TransformError(
                f"axis '{axis}' is missing in storage_axes",
                because=f"the uses of '{rule.name}' take {extent} values along it",
            )


def _check_covered(kernel: LoopKernel, used: Set, stored: Set, what: str) -> None:
    """Reject a given footprint that does not contain all elements that the uses need."""
    found = first_outside(kernel, used, stored)
    if found is not None:
        element = ", ".join(str(found[name]) for name in dim_names(used))
        raise TransformError(
            f"{what} access elements outside the given footprint",
            because=f"element [{element}] is outside it, for {found}",
            hint="exclude those uses with within=..., or tag the others",
        )
