"""Accesses of instructions to elements, with the enclosing loops and predicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import pymbolic.primitives as p
from pytools.tag import Tag

from kgen.ir.analyses import Analysis
from kgen.ir.assignee import index_of
from kgen.ir.closure import closure
from kgen.ir.expansion import RuleExpander
from kgen.ir.expr import (
    Expr,
    LinearSubscript,
    Reduction,
    SubArrayRef,
    WalkMapper,
    is_constant,
    names_in,
    tags_of,
    to_text,
    variable_names,
    walk,
)
from kgen.ir.instruction import CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel

__all__ = [
    "Access",
    "Place",
    "PlaceMapper",
    "collect_accesses",
    "collect_accesses_to",
    "index_sources",
    "subscript_names",
]


class Place(NamedTuple):
    """The context in which an expression is evaluated: enclosing loops and conditions."""

    inames: tuple[str, ...]
    conditions: tuple[Expr, ...] = ()

    def given(self, condition: Expr) -> Place:
        """Return the context inside of a further condition."""
        parts = (*self.conditions, *_conjuncts(condition))
        return Place(self.inames, tuple(dict.fromkeys(parts)))


@dataclass(slots=True, unsafe_hash=True)
class Access:
    """One access to an array in an instruction; immutable by convention.

    ``index`` is ``None`` if elements are not subscripted by axis: in C code, or by a *linear* index
    in memory, ``a[[k]]``. ``fields`` are ``("v", "x")`` in ``a[i].v.x``, a part of an element.

    >>> print(Access("insn", "a", (p.Variable("i"), 0), is_write=False, place=Place(("i",))))
    a[i, 0]
    """

    insn_id: str
    array: str
    index: tuple[Expr, ...] | None
    is_write: bool
    place: Place
    tags: frozenset[Tag] = frozenset()  # of the variable in this access: a$tag[i]
    linear: Expr = None
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self._element(), *self.fields))

    def _element(self) -> str:
        if self.linear is not None:
            return f"{self.array}[[{to_text(self.linear)}]]"
        if self.index is None:
            return f"{self.array}[[...]]"
        return to_text(p.Variable(self.array)[self.index]) if self.index else self.array


#: The accesses of an instruction, for an order of loops, to the names in it that are arrays.
_ACCESSES = Analysis[tuple[Access, ...]](
    InstructionBase, "id", "within_inames", "predicates", "expression", "assignee", "assignees"
)


def subscript_names(kernel: LoopKernel) -> frozenset[str]:
    """Return the variables that subscripts use."""
    nodes = walk(*(expr for insn in kernel.instructions for expr in insn.expressions()))
    return frozenset(variable_names(*(index for node in nodes for index in index_of(node))))


def index_sources(kernel: LoopKernel) -> frozenset[str]:
    """Return the variables on which subscripts and loop bounds depend.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", ["<> k = index[i] + m", "b[i] = a[k]*c[i]"])
    >>> sorted(index_sources(knl.default_entrypoint))
    ['i', 'index', 'k', 'm', 'n']
    """
    read: dict[str, dict[str, None]] = {}
    for insn in kernel.instructions:
        for name in insn.assignee_var_names():
            read.setdefault(name, {}).update(dict.fromkeys(sorted(insn.read_dependency_names())))
    starts = subscript_names(kernel) | kernel.all_params()
    return frozenset(closure(sorted(starts), lambda name: read.get(name, ())))


def collect_accesses(
    kernel: LoopKernel, insns: Iterable[InstructionBase] | None = None
) -> tuple[Access, ...]:
    """Return the accesses to arrays of *insns*, by default of all, in program order."""
    collector = _Collector(kernel)
    every = kernel.instructions if insns is None else insns
    return tuple(access for insn in every for access in collector.accesses_of(insn))


def collect_accesses_to(kernel: LoopKernel, array: str) -> tuple[Access, ...]:
    """Return the accesses to one array, in program order; terms without it cost nothing.

    If it is the name of a rule, return the uses of the rule, with its operands as subscripts.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "b[i] = a[i] + a[i+1]").default_entrypoint
    >>> [str(access) for access in collect_accesses_to(knl, "a")]
    ['a[i]', 'a[i + 1]']
    """
    collector = _CollectorOfOne(kernel, array)
    return tuple(access for insn in kernel.instructions for access in collector.accesses_of(insn))


#: Expressions that are elements, or parts of elements.
_PARTS_OF_ARRAYS = (p.Variable, p.Subscript, LinearSubscript, p.Lookup)


class PlaceMapper(WalkMapper):
    """Visit expressions with the context in which each is evaluated."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.arrays: Set[str] = kernel.array_vars.keys()

    def visit_predicates(self, insn: InstructionBase) -> Place:
        """Visit the conditions of an instruction; return the context in which it runs."""
        place = Place(self._ordered(insn.within_inames))
        later = []
        for condition in insn.predicates:
            if self.is_visited(condition):
                later.append(condition)
            else:
                place = place.given(condition)
        for condition in later:  # evaluated only if those before are true
            self.rec(condition, place)
            place = place.given(condition)
        return place

    def is_visited(self, condition: Expr) -> bool:
        """Tell whether a condition is visited: the others, of loop variables, precede it."""
        return not names_in(condition).isdisjoint(self.arrays)

    def _ordered(self, inames: frozenset[str]) -> tuple[str, ...]:
        return self.kernel.in_order(inames)

    def map_constant(self, expr: Any, place: Place) -> None:
        """Find nothing."""

    def map_sub_array_ref(self, expr: SubArrayRef, place: Place) -> None:
        self.rec(expr.subscript, self._inside(place, tuple(v.name for v in expr.swept_inames)))

    def map_reduction(self, expr: Reduction, place: Place) -> None:
        inside = self._inside(place, expr.inames)
        for part in expr.exprs:
            self.rec(part, inside)

    def _inside(self, place: Place, inames: tuple[str, ...]) -> Place:
        return Place(self._ordered(frozenset((*place.inames, *inames))), place.conditions)

    def map_if(self, expr: p.If, place: Place) -> None:
        self.rec(expr.condition, place)
        self.rec(expr.then, place.given(expr.condition))
        self.rec(expr.else_, place.given(p.LogicalNot(expr.condition)))

    def map_logical_and(self, expr: p.LogicalAnd, place: Place) -> None:
        for child in expr.children:
            self.rec(child, place)
            place = place.given(child)

    def map_logical_or(self, expr: p.LogicalOr, place: Place) -> None:
        for child in expr.children:
            self.rec(child, place)
            place = place.given(p.LogicalNot(child))


class _Collector(PlaceMapper):
    """Collect the accesses of one instruction after the other."""

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel)
        self.found: list[Access] = []
        self.insn_id = ""
        self.is_write = False
        self.is_opaque = False
        self.expander = RuleExpander(kernel.substitutions) if kernel.substitutions else None
        self.inside: tuple[str, ...] = ()  # the rules that are being expanded
        self.kept: tuple[str, ...] = ()  # those that subscripts may use
        self.fields: tuple[str, ...] = ()  # the part of the element that is being visited

    def accesses_of(self, insn: InstructionBase) -> tuple[Access, ...]:
        """Return the accesses of an instruction, cached for kernels that agree on them."""
        if not insn.mentioned.isdisjoint(self.kernel.substitutions):
            return self._collected(insn)
        inner = insn.reduction_inames() | insn.sub_array_ref_inames()
        arrays = frozenset(insn.mentioned & self.arrays)
        key = self._ordered(insn.within_inames | inner), arrays
        return insn.analyses.answer(_ACCESSES, key, lambda: self._collected(insn))

    def _collected(self, insn: InstructionBase) -> tuple[Access, ...]:
        self.found = []
        self.insn_id = str(insn.id)
        place = self.visit_predicates(insn)
        self.is_opaque = isinstance(insn, CInstruction)  # it names arrays, not elements
        for expr in insn.read_exprs():
            self.rec(expr, place)
        self.is_opaque = False
        for lhs in insn.assignees:
            self.is_write = True
            self.is_opaque = isinstance(insn, CInstruction) and self._has_axes(lhs)
            self.rec(lhs, place)
            self.is_write = self.is_opaque = False
        return tuple(self.found)

    def _has_axes(self, place: Expr) -> bool:
        """Tell whether a place is a whole array, without subscripts."""
        array = self.kernel.array_vars.get(getattr(place, "name", ""))
        return isinstance(place, p.Variable) and array is not None and array.shape != ()

    def _add(
        self,
        variable: p.Variable,
        index: tuple[Expr, ...] | None,
        place: Place,
        linear: Expr = None,
    ) -> None:
        if variable.name in self.arrays:
            name, tags = variable.name, tags_of(variable)
            how = self.is_write, place, tags, linear, self.fields
            self.found.append(Access(self.insn_id, name, index, *how))

    def rec(self, expr: Expr, place: Place) -> None:
        """Visit an expression; constants, sums and products take a fast path."""
        kind = type(expr)
        if kind is p.Sum or kind is p.Product:
            for child in expr.children:
                self.rec(child, place)
        elif kind is not int and kind is not float:
            super().rec(expr, place)

    def _read(self, expr: Expr, place: Place) -> None:
        before = self.is_write, self.fields
        self.is_write, self.fields = False, ()
        self.rec(expr, place)
        self.is_write, self.fields = before

    def map_lookup(self, expr: p.Lookup, place: Place) -> None:
        around = self.fields
        is_element = isinstance(expr.aggregate, _PARTS_OF_ARRAYS)
        self.fields = (expr.name, *around) if is_element else ()
        self.rec(expr.aggregate, place)
        self.fields = around

    def map_variable(self, expr: p.Variable, place: Place) -> None:
        if not self._looked_into(expr.name, (), place):
            self._add(expr, None if self.is_opaque else (), place)

    map_tagged_variable = map_variable

    def map_subscript(self, expr: p.Subscript, place: Place) -> None:
        indices = expr.index_tuple
        if self.expander is not None:
            indices = tuple(self.expander.rec(index, self.kept) for index in indices)
        if isinstance(expr.aggregate, p.Variable):
            self._add(expr.aggregate, indices, place)
        else:
            self.rec(expr.aggregate, place)
        for index in indices:
            if not is_constant(index):
                self._read(index, place)

    def map_linear_subscript(self, expr: LinearSubscript, place: Place) -> None:
        index = expr.index
        if self.expander is not None:
            index = self.expander.rec(index, self.kept)
        if isinstance(expr.aggregate, p.Variable):
            self._add(expr.aggregate, None, place, index)
        self._read(index, place)

    def map_call(self, expr: p.Call, place: Place) -> None:
        name = expr.function.name if isinstance(expr.function, p.Variable) else ""
        if not self._looked_into(name, expr.parameters, place):
            for argument in expr.parameters:
                self.rec(argument, place)

    def _looked_into(self, name: str, operands: tuple[Expr, ...], place: Place) -> bool:
        """Collect the accesses of a rule for *operands*; tell whether *name* is a rule."""
        rule = self.kernel.substitutions.get(name)
        if rule is None or name in self.inside or name in self.kept:
            return False
        around = self.inside, self.fields
        self.inside, self.fields = (*self.inside, name), ()
        self.rec(rule.expand(operands), place)
        self.inside, self.fields = around
        return True


class _CollectorOfOne(_Collector):
    """Collect the accesses to one array, or the uses of one rule."""

    def __init__(self, kernel: LoopKernel, array: str) -> None:
        super().__init__(kernel)
        self.array = array
        self.rules = kernel.substitutions
        self.names = {array, *self.rules}
        self.arrays |= {array}
        self.kept = (array,)

    def accesses_of(self, insn: InstructionBase) -> tuple[Access, ...]:
        if insn.mentioned.isdisjoint(self.names):
            return ()
        return tuple(access for access in self._collected(insn) if access.array == self.array)

    def map_call(self, expr: p.Call, place: Place) -> None:
        function = expr.function
        if not (isinstance(function, p.Variable) and function.name == self.array in self.rules):
            super().map_call(expr, place)
            return
        self._add(function, expr.parameters, place)
        for operand in expr.parameters:
            self.rec(operand, place)

    def rec(self, expr: Expr, place: Place) -> None:
        is_long = isinstance(expr, p.Sum | p.Product)
        if not is_long or not self.names.isdisjoint(names_in(expr)):
            super().rec(expr, place)


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    match condition:
        case p.LogicalAnd():
            for child in condition.children:
                yield from _conjuncts(child)
        case p.LogicalNot(child=p.LogicalOr() as either):
            for child in either.children:
                yield from _conjuncts(p.LogicalNot(child))
        case p.LogicalNot(child=p.LogicalNot(child=inner)):
            yield from _conjuncts(inner)
        case _:
            yield condition
