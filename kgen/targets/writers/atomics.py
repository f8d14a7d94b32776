"""Atomic instructions as C statements: a function call, or a compare-and-swap loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_CALL, PREC_NONE

from kgen.errors import CodegenError
from kgen.ir.atomicity import AtomicInit, MemoryOrdering, MemoryScope, OrderedAtomic
from kgen.ir.expr import Expr, to_text, walk
from kgen.ir.instruction import Assignment
from kgen.ir.types import AddressSpace, NumpyType, auto
from kgen.ir.updates import besides, operands_of
from kgen.targets.atomic_functions import AtomicSite
from kgen.targets.conversions import real_part
from kgen.targets.definitions import constant
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.terms import signed_terms

__all__ = ["atomic_statements", "is_atomic"]

_OPERATORS: Final[Mapping[type, str]] = {
    p.Sum: "+",
    p.Product: "*",
    p.BitwiseAnd: "&",
    p.BitwiseOr: "|",
    p.BitwiseXor: "^",
    p.Min: "min",
    p.Max: "max",
}
#: Operations for which truncation to n bits commutes with the operation.
_MODULAR: Final = ("+", "-", "&", "|", "^")
_BEFORE: Final = (MemoryOrdering.RELEASE, MemoryOrdering.ACQ_REL, MemoryOrdering.SEQ_CST)
_BEHIND: Final = (MemoryOrdering.ACQUIRE, MemoryOrdering.ACQ_REL, MemoryOrdering.SEQ_CST)


def is_atomic(writer: ExpressionWriter, insn: Assignment) -> bool:
    """Tell whether *insn* writes atomically to memory that work-items share."""
    if not insn.atomicity:
        return False
    return _space(writer, insn.assignee_var_names()[0]) != AddressSpace.PRIVATE


def _space(writer: ExpressionWriter, name: str) -> AddressSpace:
    array = writer.kernel.array_vars.get(name)
    space = getattr(array, "address_space", AddressSpace.PRIVATE)
    assert isinstance(space, AddressSpace)
    return space


def atomic_statements(writer: ExpressionWriter, insn: Assignment) -> list[cgen.Generable]:
    """Write an assignment that is atomic for all accesses to the element.

    An increment, or an update by another operator for which the language has a function, is
    one call. Any other function of the old value is computed, and replaces that value by
    compare-and-swap, until no other work-item was faster::

        out[i] = out[i] + a[i]  =>  atomicAdd(&out[i], a[i]);

        out[i] = out[i] * a[i]  =>  const float out_by = a[i];
                                    float *const out_at = &out[i];
                                    float out_old = *(volatile float *) out_at;
                                    while (!exchange(out_at, &out_old, out_old * out_by));

    Terms may be reordered: ``out + a + b`` is ``out + (a + b)``. Complex numbers
    are added part by part; other operations on them are rejected.
    """
    return _AtomicWriter(writer, insn).statements()


class _AtomicWriter:
    def __init__(self, writer: ExpressionWriter, insn: Assignment) -> None:
        self.writer = writer
        self.insn = insn
        self.functions = writer.target.atomics
        self.name = insn.assignee_var_names()[0]
        self.dtype: NumpyType = writer.typer(insn.assignee)
        self.place = writer.rec(insn.assignee, PREC_CALL, self.dtype)
        self.site = self._site()

    def _site(self) -> AtomicSite:
        asked = self.insn.atomicity[0]
        ordering: int = MemoryOrdering.RELAXED
        scope: Any = auto
        if isinstance(asked, OrderedAtomic):
            ordering, scope = asked.ordering, asked.scope
        is_local = _space(self.writer, self.name) == AddressSpace.LOCAL
        if scope is auto:
            scope = MemoryScope.WORK_GROUP if is_local else MemoryScope.WORK_DEVICE
        if scope > self.functions.widest_scope:
            raise CodegenError(
                f"instruction '{self.insn.id}' is to be atomic among all devices, which "
                f"{self.writer.target.language} does not support",
                hint="use MemoryScope.WORK_DEVICE, and one device at a time",
            )
        type_name = self.writer.type_name(self.dtype)
        return AtomicSite(self.dtype.dtype, type_name, is_local, ordering, scope)

    def statements(self) -> list[cgen.Generable]:
        """Return the access with the fences of its memory ordering."""
        result = self._access()
        if self.site.ordering == MemoryOrdering.RELAXED:
            return result
        fence = cgen.Statement(self.functions.fence(self.site))
        if self.site.ordering in _BEFORE:
            result.insert(0, fence)
        if self.site.ordering in _BEHIND:
            result.append(fence)
        return result

    def _access(self) -> list[cgen.Generable]:
        insn = self.insn
        is_update = insn.assignee in walk(insn.expression)
        if any(isinstance(a, AtomicInit) for a in insn.atomicity) or not is_update:
            return [self._store()]
        split = self._split(insn.expression)
        if self.dtype.is_complex():
            return self._update_complex(split)
        if split is None:
            return [cgen.Block(self._loop(self._value))]
        return self._update(split)

    def _store(self) -> cgen.Generable:
        value = self.writer.assigned(self.insn.expression, self.dtype)
        if self.dtype.is_complex():
            return cgen.Assign(self.place, value)
        pointer = f"volatile {self.functions.pointer(self.site)}"
        return cgen.Assign(f"*({pointer}) &{self.place}", value)

    # -- updates ------------------------------------------------------------------------------

    def _split(self, expr: Expr) -> tuple[str, Expr] | None:
        """Split ``x = y op x`` into the operator and ``y``, whose type is that of the operation."""
        found = self._operator(expr)
        if found is None:
            return None
        operator, operand = found
        if self.insn.assignee in walk(operand):
            return None
        result = self.writer.typer(expr)
        is_modular = operator in _MODULAR and self.dtype.kind in "iu"
        if is_modular and result.kind in "iu" and result.itemsize >= self.dtype.itemsize:
            return operator, operand
        return (operator, operand) if result == self.dtype else None

    def _operator(self, expr: Expr) -> tuple[str, Expr] | None:
        kind, operands = operands_of(expr)
        operator = None if kind is None else _OPERATORS.get(kind)
        rest = besides(operands, self.insn.assignee)
        if kind is None or operator is None or rest is None:
            return None
        if isinstance(expr, p.Call) and (to_text(expr.function) != operator or len(rest) != 1):
            return None
        if operator == "+" and len(rest) == 1:
            ((is_negative, operand),) = signed_terms(rest)
            if is_negative:
                return "-", operand
        return operator, rest[0] if len(rest) == 1 else kind(rest)

    def _update(self, split: tuple[str, Expr]) -> list[cgen.Generable]:
        operator, operand = split
        writer, functions = self.writer, self.functions
        text = writer.operand_of_atomic(operand, self.dtype)
        native = functions.update(operator, self.site, self.place, text)
        if native is not None:
            writer.preamble.add(*functions.needs(self.site))
            return [cgen.Statement(native)]
        if isinstance(operand, p.Variable | int | float):
            return [cgen.Block(self._loop(lambda old: self._combined(operator, old, text)))]
        by = self._fresh("by")
        known = constant(self.site.type_name, by, text)
        return [cgen.Block([known, *self._loop(lambda old: self._combined(operator, old, by))])]

    def _combined(self, operator: str, old: str, by: str) -> str:
        if operator in ("min", "max"):
            return self.writer.calls.of_texts(operator, (old, by), self.dtype)
        return f"{old} {operator} ({by})" if by.startswith("-") else f"{old} {operator} {by}"

    def _value(self, old: str) -> str:
        """Write the expression, with *old* for the element's value."""
        writer = self.writer.at(self.writer.site._replace(texts={self.insn.assignee: old}))
        return writer.assigned(self.insn.expression, self.dtype)

    def _loop(self, value_of: Callable[[str], str]) -> list[cgen.Generable]:
        """Compare-and-swap the value of *value_of* until the old value is unchanged."""
        at, old = self._fresh("at"), self._fresh("old")
        needed = self.functions.exchange(self.site)
        self.writer.preamble.add(needed, *self.functions.needs(self.site))
        pointer = self.functions.pointer(self.site)
        value = value_of(old)
        return [
            cgen.Initializer(cgen.Value(f"{pointer}const", at), f"&{self.place}"),
            cgen.Initializer(cgen.Value(self.site.type_name, old), f"*(volatile {pointer}) {at}"),
            cgen.While(cgen.Line(f"!{needed.key}({at}, &{old}, {value})"), cgen.Statement("")),
        ]

    def _fresh(self, suffix: str) -> str:
        taken = self.writer.kernel.all_variable_names()
        name = f"{self.name}_{suffix}"
        while name in taken:
            name += "_"
        return name

    # -- complex numbers ----------------------------------------------------------------------

    def _update_complex(self, split: tuple[str, Expr] | None) -> list[cgen.Generable]:
        if split is None or split[0] not in ("+", "-"):
            raise CodegenError(
                f"instruction '{self.insn.id}' updates complex numbers atomically, by an "
                "operation other than addition",
                where=str(self.insn),
                hint="store real and imaginary parts in separate arrays, or make the loops that "
                "write to one element sequential, and drop 'atomic'",
            )
        operator, operand = split
        writer = self.writer
        by = self._fresh("by")
        text = writer.converted(operand, self.dtype, PREC_NONE)
        lines: list[cgen.Generable] = [constant(self.site.type_name, by, text)]
        whole = self.place
        part = real_part(self.dtype)
        self.dtype, dtype = part, self.dtype
        self.site = dataclasses.replace(
            self.site, dtype=part.dtype, type_name=writer.type_name(part)
        )
        for at, component in enumerate(("real", "imag")):
            self.place = f"(({self.functions.pointer(self.site)}) &{whole})[{at}]"
            value = writer.calls.named(component, (by,), dtype)
            native = self.functions.update(operator, self.site, self.place, value)
            if native is not None:
                lines.append(cgen.Statement(native))
                continue
            combined = partial(self._combined, operator, by=value)
            lines.append(cgen.Block(self._loop(combined)))
        return [cgen.Block(lines)]
