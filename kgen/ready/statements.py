"""Statements of C as instructions of kgen: assignments, declarations, branches, loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pycparser import c_ast

from kgen.ir.assignee import assignee_name
from kgen.ir.atomicity import AtomicUpdate
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, to_text, variable_names, walk
from kgen.ir.instruction import Assignment
from kgen.ir.types import AddressSpace
from kgen.ready.c_functions import FUNCTIONS, Value, converted, leaves_of, stored_at
from kgen.ready.c_text import inexpressible, parse_statements, type_of
from kgen.ready.c_types import Dtype
from kgen.ready.expressions import (
    ExpressionReader,
    Scope,
    as_assignment,
    assigned_value,
    to_index,
)
from kgen.ready.structures import is_structure

__all__ = ["Program", "read_statements"]

_BOOL: Final = np.dtype(np.bool_)
_SUMS: Final = {"add": 1, "sub": -1, "inc": 1, "dec": -1}
#: The statements that end the work for an element.
_CONTINUE: Final = ("PYOPENCL_ELWISE_CONTINUE", "PYCUDA_ELWISE_CONTINUE")


@dataclass
class Program:
    """Instructions in their order, with the loops and temporaries that they need."""

    instructions: list[Assignment] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)

    @property
    def written(self) -> frozenset[str]:
        """The names of the assigned arrays and temporaries."""
        return frozenset(insn.assignee_name for insn in self.instructions)

    def scattered(self, access: Callable[[str], Expr]) -> list[str]:
        """Return the ids of stores to elements other than *access*, which may coincide."""
        return [
            str(insn.id)
            for insn in self.instructions
            if insn.assignee_name not in self.temporaries
            and _without_fields(insn.assignee) != access(insn.assignee_name)
        ]

    @property
    def read(self) -> frozenset[str]:
        """The names that values and conditions read."""
        return frozenset(
            name for insn in self.instructions for name in insn.read_dependency_names()
        )


def read_statements(
    text: str, what: str, scope: Scope, inames: Iterable[str], taken: Iterable[str] = ()
) -> Program:
    """Return the instructions for a snippet of C, inside the loops *inames*.

    *taken* are names that temporaries must not have.

    >>> index = {"i": Value(p.Variable("i"), np.dtype(np.int64))}
    >>> scope = Scope(index, {"x": np.dtype(np.float32)})
    >>> for insn in read_statements("if (x[i] < 0) x[i] = -x[i]", "op", scope, ["i"]).instructions:
    ...     print(insn)
    kgen_condition = x[i] < 0.0  {id=step_0}
    x[i] = -x[i]  {id=step_1}
    """
    reader = _Reader(scope, frozenset(inames), {*taken, *scope.numbers, *scope.arrays})
    nodes = parse_statements(text, what, tuple(scope.types))
    reader.block(nodes, frozenset(), frozenset(inames))
    return reader.program


class _Reader:
    """Translates statements one after the other; declarations change the scope."""

    def __init__(self, scope: Scope, inames: frozenset[str], taken: set[str]) -> None:
        self.scope = scope
        self.inames = inames
        self.taken = taken
        self.program = Program()
        self.variables: dict[str, str] = {}

    def block(
        self, statements: Sequence[Any], where: frozenset[Expr], loops: frozenset[str]
    ) -> None:
        """Translate statements under the conditions *where*; ``continue`` ends them."""
        for position, node in enumerate(statements):
            if _is_continue(node):
                return
            if isinstance(node, c_ast.If) and _may_continue(node):
                self.branch_to_end(node, statements[position + 1 :], where, loops)
                return
            self.statement(node, where, loops)

    def statement(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate one statement."""
        if isinstance(node, c_ast.UnaryOp) and node.op in _COUNTING:
            self.count(node, where, loops)
            return
        translate = _STATEMENTS.get(type(node))
        if translate is None:
            raise inexpressible(
                node,
                f"{type(node).__name__} is not a statement of a ready kernel",
                "write assignments, declarations, if/else, for loops and atomic_add(...)",
            )
        translate(self, node, where, loops)

    def nothing(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate a semicolon."""

    def compound(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate a block, whose declarations end with it."""
        outside = self.scope
        self.block(node.block_items or (), where, loops)
        self.scope = outside

    def declare_all(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate ``float s = 0, t = 1``."""
        for declared in node.decls:
            self.declare(declared, where, loops)

    def joined(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate statements that are joined by commas."""
        self.block(node.exprs, where, loops)

    def assignment(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate ``x[i] = 2*t``."""
        place = self.place(node.lvalue)
        value = assigned_value(ExpressionReader(self.scope), node, place.dtype)
        self.store(place, value, where, loops)

    # -- assignments ------------------------------------------------------------------------

    def declare(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        shape: tuple[int, ...] = ()
        declared = node.type
        if isinstance(declared, c_ast.ArrayDecl):
            shape, declared = (self.length(declared),), declared.type
        if not isinstance(declared, c_ast.TypeDecl):
            raise inexpressible(
                node, f"'{node.name}' is not a number", f"write float {node.name} = ...;"
            )
        dtype = type_of(declared, f"'{node.name}'", self.scope.types)
        values = self.initial_values(node, dtype, shape)
        own = self.temporary(node.name, dtype, shape)
        if shape:
            arrays, previous = {**self.scope.arrays, node.name: dtype}, self.scope.access
            self.scope = _with_array(self.scope, arrays, node.name, own, previous)
        else:
            variable = stored_at(p.Variable(own), dtype)
            self.scope = self.scope.with_numbers({node.name: variable})
        for place, value in enumerate(values):
            target = p.Variable(own)[place] if shape else p.Variable(own)
            self.store(stored_at(target, dtype), value, where, loops)

    def initial_values(self, node: Any, dtype: Dtype, shape: tuple[int, ...]) -> tuple[Value, ...]:
        """Return the first values of a variable, or of the first elements of an array.

        Structures begin with zeros, because C copies also those whose fields are not all set.
        """
        reader = ExpressionReader(self.scope)
        if node.init is None:
            count = (shape or (1,))[0] if is_structure(dtype) else 0
            return tuple(reader.initial(None, dtype) for _ in range(count))
        if isinstance(node.init, c_ast.InitList) and (shape or not is_structure(dtype)):
            return tuple(reader.initial(one, dtype) for one in node.init.exprs)
        return (reader.initial(node.init, dtype),)

    def length(self, node: Any) -> int:
        size = None if node.dim is None else ExpressionReader(self.scope).value(node.dim).expr
        if not isinstance(size, np.integer):
            raise inexpressible(
                node, "the length of an array is not a constant", "write float t[4];"
            )
        return int(size)

    def place(self, target: Any) -> Value:
        """Return the variable or element that an assignment writes."""
        root, reader = target, ExpressionReader(self.scope)
        while isinstance(root, c_ast.StructRef) and reader.value(root.name).parts is not None:
            root = root.name
        if not isinstance(root, c_ast.ID | c_ast.ArrayRef):
            raise inexpressible(
                target,
                "only a part of a value is assigned",
                "assign all of it: z[i] = cfloat_new(re, im), v[i] = (float2)(a, b)",
            )
        place = reader.value(target)
        if not isinstance(place.expr, p.Variable | p.Subscript | p.Lookup):
            raise inexpressible(
                root, f"'{root.name}' is not a variable", "declare it: float t = ...;"
            )
        self.reject_constant(target, place.expr)
        name = assignee_name(place.expr)
        if isinstance(root, c_ast.ID) and name not in self.program.temporaries:
            raise inexpressible(
                root,
                f"'{root.name}' is assigned, which is a number that callers pass",
                f"declare a variable of another name: float t = {root.name};",
            )
        return place

    def store(
        self, place: Value, value: Value, where: frozenset[Expr], loops: frozenset[str]
    ) -> None:
        """Store a value; all numbers of a structure are computed before the first is stored."""
        is_copy = value.parts is not None and value.expr is not None
        if value.parts is None or (is_copy and value.dtype == place.dtype):
            self.add(place.expr, value.expr, where, loops)
            return
        values = [leaf.expr for leaf in leaves_of(value)]
        targets = leaves_of(place)
        name = assignee_name(place.expr)
        if len(values) > 1 and any(name in variable_names(expr) for expr in values):
            copy = self.temporary("kgen_value", place.dtype)
            self.store(stored_at(p.Variable(copy), place.dtype), value, where, loops)
            self.add(place.expr, p.Variable(copy), where, loops)
            return
        for target, expr in zip(targets, values, strict=True):
            self.add(target.expr, expr, where, loops)

    def reject_constant(self, node: Any, place: Expr) -> None:
        """Reject an assignment to an array that is declared ``const``."""
        name = assignee_name(place)
        if name in self.scope.constants:
            raise inexpressible(
                node, f"'{name}' is declared const, and assigned", "declare it without const"
            )

    def count(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate ``++x``."""
        self.statement(as_assignment(node), where, loops)

    def call(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate ``atomic_add(&x[k], value)`` and the like."""
        name = node.name.name if isinstance(node.name, c_ast.ID) else ""
        what = name.lower().removeprefix("atomic").removeprefix("atom").removeprefix("_")
        given = list(node.args.exprs) if node.args is not None else []
        is_atomic = name.startswith("atom") and what in (*_SUMS, "min", "max")
        if not is_atomic or not given or not _is_address(given[0]):
            raise inexpressible(
                node,
                f"the call of '{name}' is not a statement of a ready kernel",
                "statements that are calls: atomic_add(&x[k], v), atomic_sub, _min, _max, _inc",
            )
        reader = ExpressionReader(self.scope)
        place = reader.scalar(given[0].expr)
        self.reject_constant(node, place.expr)
        one = Value(np.int32(1), np.dtype(np.int32))
        added = reader.number(given[1]) if len(given) > 1 else one
        value = converted(added, place.dtype)
        if what in _SUMS:
            term = value.expr if _SUMS[what] > 0 else p.Product((-1, value.expr))
            update: Expr = p.Sum((place.expr, term))
        else:
            update = FUNCTIONS[what](place, value).expr
        atomic = AtomicUpdate(assignee_name(place.expr))
        self.add(place.expr, update, where, loops, atomicity=(atomic,))

    def add(
        self,
        place: Expr,
        value: Expr,
        where: frozenset[Expr],
        loops: frozenset[str],
        **options: Any,
    ) -> None:
        insn = Assignment(
            place,
            value,
            id=f"step_{len(self.program.instructions)}",
            within_inames=loops,
            within_inames_is_final=True,
            predicates=where,
            **options,
        )
        self.program.instructions.append(insn)

    def temporary(self, name: str, dtype: Dtype, shape: tuple[int, ...] = ()) -> str:
        """Declare a temporary; return its new name."""
        own = self.new_name(name)
        self.program.temporaries[own] = TemporaryVariable(
            own, dtype, shape=shape, address_space=AddressSpace.PRIVATE
        )
        return own

    def new_name(self, name: str) -> str:
        own, number = name, 0
        while own in self.taken:
            own, number = f"{name}_{number}", number + 1
        self.taken.add(own)
        return own

    # -- branches and loops -----------------------------------------------------------------

    def condition(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> Expr:
        """Return a condition that instructions in its branch cannot change."""
        condition = ExpressionReader(self.scope).condition(node)
        own = self.temporary("kgen_condition", _BOOL)
        self.add(p.Variable(own), condition, where, loops)
        return p.Variable(own)

    def branch(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        condition = self.condition(node.cond, where, loops)
        self.inside(node.iftrue, where | {condition}, loops)
        if node.iffalse is not None:
            self.inside(node.iffalse, where | {p.LogicalNot(condition)}, loops)

    def branch_to_end(
        self, node: Any, rest: Sequence[Any], where: frozenset[Expr], loops: frozenset[str]
    ) -> None:
        """Translate a branch that may end the work, and the statements after it."""
        condition = self.condition(node.cond, where, loops)
        for part, holds in (
            (node.iftrue, condition),
            (node.iffalse, p.LogicalNot(condition)),
        ):
            statements = _statements_of(part)
            ends = any(map(_is_continue, statements))
            outside = self.scope
            self.block(statements if ends else [*statements, *rest], where | {holds}, loops)
            self.scope = outside

    def inside(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        outside = self.scope
        self.block(_statements_of(node), where, loops)
        self.scope = outside

    def loop(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> None:
        """Translate ``for (int k = first; k < end; k += step)``."""
        name, dtype, first = _start_of(node)
        step = _step_of(node, name, self.scope)
        end = _end_of(node, name, upwards=step > 0)
        iname = self.new_name(name)
        low, high = (self.bound(bound, where, loops) for bound in (first, end.right))
        strict = len(end.op) == 1
        if step > 0:
            bounds = f"{low} <= {iname} {'<' if strict else '<='} {high}"
        else:
            bounds = f"{high} {'<' if strict else '<='} {iname} <= {low}"
        if abs(step) != 1:
            bounds += f" and ({iname} - {low}) mod {abs(step)} = 0"
        value: Expr = p.Variable(iname)
        if step < 0:
            raise inexpressible(node, "a loop counts down", "count up: for (int k = 0; k < m; ++k)")
        self.program.domains.append(f"{{ [{iname}]: {bounds} }}")
        outside = self.scope
        self.scope = self.scope.with_numbers({name: converted(Value(value, dtype), dtype)})
        if any(map(_is_continue, _statements_of(node.stmt))):
            raise inexpressible(
                node, "a loop has a continue", "write if (...) { ... } around the rest"
            )
        self.inside(node.stmt, where, loops | {iname})
        self.scope = outside

    def bound(self, node: Any, where: frozenset[Expr], loops: frozenset[str]) -> str:
        """Return a bound as text for a domain; computed values are stored in a temporary."""
        value = ExpressionReader(self.scope).scalar(node)
        if value.dtype.kind not in "iu":
            raise inexpressible(node, f"a bound is of the type {value.dtype}", "cast it: (int) x")
        expr = to_index(value.expr)
        fixed = {*self.inames, *self.scope.numbers} - self.program.temporaries.keys()
        kinds = p.Variable | p.Sum | p.Product | int
        if all(isinstance(part, kinds) for part in walk(expr)) and fixed.issuperset(
            variable_names(expr)
        ):
            return f"({to_text(expr)})"
        own = self.temporary("kgen_bound", np.dtype(np.int64))
        self.add(p.Variable(own), converted(value, np.dtype(np.int64)).expr, where, loops)
        return own


_COUNTING: Final = ("++", "p++", "--", "p--")
_STATEMENTS: Final[Mapping[type[Any], Callable[..., None]]] = {
    c_ast.EmptyStatement: _Reader.nothing,
    c_ast.Compound: _Reader.compound,
    c_ast.DeclList: _Reader.declare_all,
    c_ast.Decl: _Reader.declare,
    c_ast.Assignment: _Reader.assignment,
    c_ast.ExprList: _Reader.joined,
    c_ast.If: _Reader.branch,
    c_ast.For: _Reader.loop,
    c_ast.FuncCall: _Reader.call,
}


def _without_fields(place: Expr) -> Expr:
    """Return the variable or element of which a place is a field, or the place itself."""
    while isinstance(place, p.Lookup):
        place = place.aggregate
    return place


def _with_array(
    scope: Scope, arrays: Mapping[str, Dtype], name: str, own: str, previous: Any
) -> Scope:
    def access(array: str, index: Expr) -> Expr:
        return p.Variable(own)[index] if array == name else previous(array, index)

    return replace(scope, arrays=arrays, access=access)


def _statements_of(node: Any) -> list[Any]:
    if node is None:
        return []
    return list(node.block_items or ()) if isinstance(node, c_ast.Compound) else [node]


def _is_continue(node: Any) -> bool:
    return isinstance(node, c_ast.Continue) or (
        isinstance(node, c_ast.ID) and node.name in _CONTINUE
    )


def _may_continue(node: Any) -> bool:
    return any(
        _is_continue(inner) or (isinstance(inner, c_ast.If) and _may_continue(inner))
        for part in (node.iftrue, node.iffalse)
        for inner in _statements_of(part)
    )


def _is_address(node: Any) -> bool:
    return (
        isinstance(node, c_ast.UnaryOp) and node.op == "&" and isinstance(node.expr, c_ast.ArrayRef)
    )


# -- the head of a loop ------------------------------------------------------------------------

_LOOP: Final = "write for (int k = first; k < end; ++k)"


def _start_of(node: Any) -> tuple[str, Dtype, Any]:
    """Return the variable of a loop, its type and its first value."""
    if not isinstance(node.init, c_ast.DeclList) or len(node.init.decls) != 1:
        raise inexpressible(node, "a loop does not declare its variable", _LOOP)
    (declared,) = node.init.decls
    if declared.init is None:
        raise inexpressible(node, f"'{declared.name}' has no first value", _LOOP)
    dtype = type_of(declared.type, f"'{declared.name}'", {})
    return declared.name, dtype, declared.init


def _end_of(node: Any, name: str, *, upwards: bool) -> Any:
    """Return the comparison of a loop's variable with its end."""
    found = node.cond
    wanted = ("<", "<=") if upwards else (">", ">=")
    if (
        not isinstance(found, c_ast.BinaryOp)
        or found.op not in wanted
        or not isinstance(found.left, c_ast.ID)
        or found.left.name != name
    ):
        raise inexpressible(node, f"the loop over '{name}' does not end at a bound", _LOOP)
    return found


def _step_of(node: Any, name: str, scope: Scope) -> int:
    """Return the step of a loop."""
    match node.next:
        case c_ast.UnaryOp(op="++" | "p++", expr=c_ast.ID(name=counted)) if counted == name:
            return 1
        case c_ast.UnaryOp(op="--" | "p--", expr=c_ast.ID(name=counted)) if counted == name:
            return -1
        case c_ast.Assignment(op="+=" | "-=", lvalue=c_ast.ID(name=counted)) if counted == name:
            step = ExpressionReader(scope).value(node.next.rvalue).expr
            if isinstance(step, np.integer) and step > 0:
                return int(step) if node.next.op == "+=" else -int(step)
        case _:
            pass
    raise inexpressible(node, f"the step of the loop over '{name}' is not a constant", _LOOP)
