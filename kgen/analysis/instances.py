"""Elements accessed by statement instances, as named sets over loops, axes and elements.

Dimensions of these sets other than loops and sizes have names with a dot, which users cannot
choose: ``.lid0``, ``.element1``, and ``i.a``, ``i.b`` for a loop of two instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.access import Access
from kgen.analysis.footprints import Footprints, split_constant
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.affine import linear_form
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    IdentityMapper,
    LocalHardwareAxisIndex,
    is_zero,
    minus,
    variable_names,
)
from kgen.ir.grid import Axis
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import (
    Set,
    outer_dims,
    param_names,
    param_variable,
    project_out_params,
    rename_param,
    to_named,
    with_params,
)
from kgen.ir.sets.domain import Aff, PwAff
from kgen.ir.sets.names import SetName, Side
from kgen.ir.sets.quasi_affine import aff_from_expr, compare
from kgen.ir.tags import AxisTag, GroupInameTag
from kgen.ir.types import AddressSpace

__all__ = [
    "Instances",
    "axis_name",
    "bound",
    "element_name",
    "elements_around",
    "elements_of",
    "hint_for_axis",
    "relate",
    "relate_sides",
]


def axis_name(axis: AxisTag | GroupHardwareAxisIndex | LocalHardwareAxisIndex) -> str:
    """Return the isl name of the index along a hardware axis, reserved by kgen: ``.gid0``."""
    is_group = isinstance(axis, GroupInameTag | GroupHardwareAxisIndex)
    return (SetName.GROUP if is_group else SetName.ITEM).at(axis.axis)


def element_name(axis: int) -> str:
    """Return the name of a subscript: ``.element0``."""
    return SetName.ELEMENT.at(axis)


def elements_of(kernel: LoopKernel, footprints: Footprints, access: Access) -> tuple[Set, bool]:
    """Return the iterations and elements of an access, and whether the set is exact.

    A data-dependent condition, loop bound or subscript is omitted, which gives a superset.
    """
    key = access.place, access.index
    found = footprints.elements.get(key)
    if found is None:
        found = footprints.elements[key] = _elements_of(kernel, footprints, access)
    return found


def _elements_of(kernel: LoopKernel, footprints: Footprints, access: Access) -> tuple[Set, bool]:
    domain, is_exact = footprints.domain(access.place)
    named = to_named(domain.intersect_params(kernel.assumptions))
    for axis, index in enumerate(access.index or ()):
        try:
            named = bound(footprints.with_params(named, index), element_name(axis), index)
        except ExpressionToAffineConversionError:
            is_exact = False
    return named, is_exact and access.index is not None


def _by_digits(
    kernel: LoopKernel, footprints: Footprints, access: Access, gone: frozenset[str]
) -> tuple[Set, bool] | None:
    """Return the result of :func:`elements_of`, projecting out loops that only numbers use.

    The elements ``t[f // 100, f // 10 % 10, f % 10]``, ``f = 4*i + j``, are a box if ``f``
    takes all values of a range; isl finds that for ``i`` and ``j`` alone, but not together with
    the elements.
    """
    numbers = _Numbers(gone)
    index = tuple(numbers(part) for part in access.index or ())
    if not numbers.found or not numbers.loops.isdisjoint(variable_names(*index)):
        return None
    domain, is_exact = footprints.domain(access.place)
    named = to_named(domain.intersect_params(kernel.assumptions))
    try:
        for name, value in numbers.found.values():
            named = bound(footprints.with_params(named, value), name, value)
        named = project_out_params(named, sorted(numbers.loops)).coalesce()
        for axis, part in enumerate(index):
            named = bound(footprints.with_params(named, part), element_name(axis), part)
    except ExpressionToAffineConversionError:
        return None
    return project_out_params(named, [name for name, _ in numbers.found.values()]), is_exact


class _Numbers(IdentityMapper):
    """Names the sums of several loop variables whose quotients and remainders are used."""

    def __init__(self, loops: frozenset[str]) -> None:
        super().__init__()
        self.among = loops
        self.loops: frozenset[str] = frozenset()
        self.found: dict[object, tuple[str, Expr]] = {}

    def map_floor_div(self, expr: p.FloorDiv | p.Remainder, *args: object) -> Expr:
        top = expr.numerator
        form = linear_form(top)
        names = frozenset(atom.name for _, atom in form.terms if isinstance(atom, p.Variable))
        if len(form.terms) > len(names) or len(names & self.among) < 2:
            return type(expr)(self.rec(top), expr.denominator)
        key = frozenset(form.terms)
        if key not in self.found:
            value = p.Sum((top, -form.constant))
            self.found[key] = SetName.NUMBER.at(len(self.found)), value
            self.loops |= names & self.among
        number = p.Variable(self.found[key][0])
        return type(expr)(p.Sum((number, form.constant)), expr.denominator)

    map_remainder = map_floor_div


def elements_around(kernel: LoopKernel, footprints: Footprints, accesses: Sequence[Access]) -> Set:
    """Return, like :func:`elements_of`, the bounding box of accesses that differ by constants.

    They are in one context, and their subscripts have the same base along each axis.
    """
    domain, _ = footprints.domain(accesses[0].place)
    named = to_named(domain.intersect_params(kernel.assumptions))
    indices = [access.index for access in accesses if access.index is not None]
    for axis, subscripts in enumerate(zip(*indices, strict=True)):
        bases, constants = zip(*map(split_constant, subscripts), strict=True)
        base = 0 if bases[0] is None else bases[0]
        try:
            named = footprints.with_params(named, base)
            named = bound(named, element_name(axis), base + min(constants), "ge_set")
            named = bound(named, element_name(axis), base + max(constants), "le_set")
        except ExpressionToAffineConversionError:
            continue
    return named


class Instances:
    """The elements that instances of accesses access.

    A set has the requested loop variables and hardware axes, with a suffix that
    distinguishes two accesses, and the subscripts ``.element0``, ``.element1``, ... without.
    Without *has_axes*, hardware axes are ordinary loops.
    """

    def __init__(self, kernel: LoopKernel, *, has_axes: bool) -> None:
        self.kernel = kernel
        self.footprints = Footprints.of(kernel)
        self.axes: Mapping[str, Axis] = kernel.axes if has_axes else {}
        self._memo: dict[object, tuple[Set, bool]] = {}

    def owner_axes(self, array: str, inames: Iterable[str]) -> dict[str, Axis]:
        """Return the axes along which each work-item, or each group, has its own *array*."""
        space = self.kernel.array_vars[array].address_space
        if space == AddressSpace.GLOBAL:
            return {}
        axes = {iname: self.axes[iname] for iname in inames if iname in self.axes}
        if space == AddressSpace.LOCAL:
            axes = {i: axis for i, axis in axes.items() if isinstance(axis.tag, GroupInameTag)}
        return axes

    def touched(self, access: Access, loops: tuple[str, ...], suffix: str = "") -> tuple[Set, bool]:
        """Return the elements of *access* per iteration of *loops*, and whether the set is exact.

        A data-dependent condition or subscript gives a superset.
        """
        axes = self.owner_axes(access.array, access.place.inames)
        named = tuple((iname, axis_name(axis.tag)) for iname, axis in axes.items())
        key = (access.place, access.index, loops, suffix, named)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._accessed(access, loops, suffix, axes)
        return found

    def meeting(
        self,
        first: Access,
        second: Access,
        loops: tuple[str, ...],
        other_loops: tuple[str, ...] | None = None,
    ) -> tuple[Set, bool]:
        """Return the pairs of iterations, and the elements, in which two accesses overlap.

        As :meth:`touched`, for *loops* on the first side, and *other_loops* on the second, which
        are the same by default.
        """
        one, is_exact = self.touched(first, loops, Side.FIRST)
        other, too = self.touched(
            second, loops if other_loops is None else other_loops, Side.SECOND
        )
        return one.intersect(other), is_exact and too

    def _accessed(
        self, access: Access, loops: tuple[str, ...], suffix: str, axes: Mapping[str, Axis]
    ) -> tuple[Set, bool]:
        kernel = self.kernel
        gone = [name for name in access.place.inames if name not in axes and name not in loops]
        found = _by_digits(kernel, self.footprints, access, frozenset(gone))
        named, is_exact = found or elements_of(kernel, self.footprints, access)
        for iname in access.place.inames:
            axis = axes.get(iname)
            if axis is not None and is_zero(axis.first) and iname not in loops:
                named = rename_param(named, iname, axis_name(axis.tag) + suffix)
                continue
            if axis is not None:
                index = minus(p.Variable(iname), axis.first)
                named = bound(named, axis_name(axis.tag) + suffix, index)
            if iname in loops:
                named = rename_param(named, iname, iname + suffix)
            else:
                named = project_out_params(named, (iname,))
        data = [name for name in param_names(named) if name in kernel.array_vars]
        return project_out_params(named, data), is_exact


def bound(named: Set, name: str, value: Expr, relation: str = "eq_set") -> Set:
    """Intersect with ``name = value``, or with another relation of the two.

    Raises :class:`ExpressionToAffineConversionError` for a value that is not affine in the
    parameters of *named*.
    """
    named = with_params(named, (name,))
    space = named.get_space()
    return _where(named, param_variable(space, name), relation, aff_from_expr(space, value))


def relate(named: Set, one: str, other: str, relation: str) -> Set:
    """Intersect with a relation of two names: ``eq_set``, ``lt_set``, ``ne_set``."""
    named = with_params(named, (one, other))
    space = named.get_space()
    return _where(named, param_variable(space, one), relation, param_variable(space, other))


def relate_sides(named: Set, name: str, relation: str) -> Set:
    """Intersect with a relation between the values of *name* for the two instances."""
    return relate(named, Side.FIRST.of(name), Side.SECOND.of(name), relation)


def in_same_iteration(named: Set, loops: Iterable[str]) -> Set:
    """Intersect with equal values of all *loops* for the two instances."""
    for name in loops:
        named = relate_sides(named, name, "eq_set")
    return named


def _where(named: Set, left: Aff, relation: str, right: Aff | PwAff) -> Set:
    if relation == "eq_set" and isinstance(right, isl.Aff):  # cheaper for isl than the code below
        return named.add_constraint(isl.Constraint.equality_from_aff(left.sub(right)))
    return named.intersect(compare(left, relation, right))


def hint_for_axis(kernel: LoopKernel, insn: InstructionBase, inames: Sequence[str]) -> str:
    """Return how to put *insn* on the hardware axis of *inames* without losing instances."""
    names = kernel.in_order(insn.within_inames)
    around = kernel.domain_of(names).intersect_params(kernel.assumptions)
    for iname in inames:
        both = kernel.domain_of((*names, iname))
        if around.is_subset(outer_dims(both, len(names))):
            return (
                f"add_inames_to_insn(kernel, '{iname}', 'id:{insn.id}'), or give the "
                "instruction a loop of its own on that axis"
            )
    return (
        "give the instruction a loop of its own on that axis: in others, "
        f"'{inames[0]}' among them, some of its instances would not run"
    )
