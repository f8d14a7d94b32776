"""Loops tagged ``vec``: their lanes as vector loads and stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_CALL

from kgen.analysis.alignment import unaligned_part
from kgen.ast.nodes import Node, Run
from kgen.errors import VectorizationWarning, message
from kgen.ir.affine import simplify
from kgen.ir.assignee import assignee_name
from kgen.ir.expr import Expr, WalkMapper, is_constant, minus, to_text, variable_names, walk
from kgen.ir.instruction import Assignment, UseStreamingStoreTag
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import AsyncCopyTag, FragmentTag, VectorizeTag
from kgen.ir.types import AddressSpace, NumpyType
from kgen.targets.conversions import is_promoted_to_int
from kgen.targets.vector_types import VectorType
from kgen.targets.writers.access import is_pointer
from kgen.targets.writers.async_copies import ASYNC_SIZES, emit_async_copy
from kgen.targets.writers.expressions import ExpressionWriter

__all__ = ["Lanes", "is_lane_loop", "lanes_at", "vector_statements"]


@dataclass(frozen=True)
class Lanes:
    """Runs of one instruction for all values of a loop tagged ``vec``, or over a fragment."""

    insn: Assignment
    iname: str
    values: tuple[Mapping[str, Expr], ...]


def is_lane_loop(kernel: DeviceKernel, iname: str) -> bool:
    """Tell whether all iterations of a loop are emitted at once: ``vec``, or pairs of columns.

    Results of tensor cores are in pairs, which work-items store at once if possible.
    """
    if kernel.has_tag(iname, VectorizeTag):
        return True
    return any(tag.of == "column" for tag in kernel.iname_tags_of_type(iname, FragmentTag))


def lanes_at(kernel: DeviceKernel, nodes: Sequence[Node], at: int) -> Lanes | None:
    """Return the lanes starting at ``nodes[at]``; ``None`` if that is not lane 0."""
    first = nodes[at]
    if not isinstance(first, Run) or first.declares is not None:
        return None
    insn = kernel.id_to_insn[first.insn_id]
    if not isinstance(insn, Assignment) or insn.atomicity:
        return None
    for iname in sorted(insn.within_inames & first.values.keys()):
        if is_lane_loop(kernel, iname):
            runs = [first, *_lanes_behind(first, nodes, at, iname)]
            return Lanes(insn, iname, tuple(run.values for run in runs)) if len(runs) > 1 else None
    return None


def _lanes_behind(first: Run, nodes: Sequence[Node], at: int, iname: str) -> Iterator[Run]:
    for lane in range(1, len(nodes) - at):
        node = nodes[at + lane]
        if not isinstance(node, Run) or node.insn_id != first.insn_id:
            return
        others = first.values.keys() - {iname}
        if any(node.values.get(name) != first.values[name] for name in sorted(others)):
            return
        if _difference(node.values[iname], first.values[iname]) != lane:
            return
        yield node


def _difference(a: Expr, b: Expr) -> Expr:
    return simplify(minus(a, b))


class _CertainAccesses(WalkMapper):
    """Collects the elements that an expression reads unconditionally."""

    def __init__(self) -> None:
        self.found: dict[p.Subscript, None] = {}

    def map_subscript(self, expr: p.Subscript, *args: Any) -> None:
        self.found[expr] = None

    def map_if(self, expr: p.If, *args: Any) -> None:
        self.rec(expr.condition)

    def map_logical_and(self, expr: p.LogicalAnd | p.LogicalOr, *args: Any) -> None:
        self.rec(expr.children[0])

    map_logical_or = map_logical_and


def vector_statements(writer: ExpressionWriter, lanes: Lanes) -> list[cgen.Generable] | None:
    """Write all *lanes* of an instruction; ``None`` if no access to memory is a vector access.

    ::

        out[4*i]     = 2*a[4*i];         float4 const a_v = *(float4 const *) &a[4*i];
        out[4*i + 1] = 2*a[4*i + 1];  => float4 out_v;
        ...                              out_v.x = 2*a_v.x;  ...
                                         *(float4 *) &out[4*i] = out_v;

    An access is a vector access if isl and the assumptions prove that the lanes are
    contiguous and that the first is aligned. Others stay as they are, with a
    :class:`VectorizationWarning` that gives the reason.
    """
    if writer.target.vectors is None:
        return None
    vectors = _VectorWriter(writer, lanes)
    if lanes.insn.tags_of_type(AsyncCopyTag) and writer.target.async_copies:
        return vectors.async_copy()
    return vectors.statements()


#: Callers can be asked for any alignment up to this.
_ASKED_OF_CALLERS: Final = 128


class _VectorWriter:
    def __init__(self, writer: ExpressionWriter, lanes: Lanes) -> None:
        self.writer = writer
        self.kernel = writer.kernel
        self.insn = lanes.insn
        self.iname = lanes.iname
        self.lanes = lanes.values
        self.count = len(lanes.values)
        self.names: set[str] = set()
        self.dtype: NumpyType = writer.typer(lanes.insn.assignee)

    def statements(self) -> list[cgen.Generable] | None:
        insn = self.insn
        certain = _CertainAccesses()
        certain(insn.expression)
        written = insn.assignee_var_names()[0]
        loads: dict[p.Subscript, tuple[str, VectorType]] = {}
        lines: list[cgen.Generable] = []
        for access in certain.found:
            name = assignee_name(access)
            if name == written and access != insn.assignee:
                continue  # a lane may read what the previous one wrote
            vector = self._vector(access)
            if vector is not None:
                called = self._fresh(name)
                loads[access] = called, vector
                declared = cgen.Const(cgen.Value(vector.name, called))
                lines.append(cgen.Initializer(declared, self._load(vector, access)))
        stored = self._vector(insn.assignee) if isinstance(insn.assignee, p.Subscript) else None
        if not loads and stored is None:
            return None
        if stored is not None and self._is_elementwise(insn.expression, frozenset(loads)):
            value = self._value(0, {access: name for access, (name, _) in loads.items()})
            return [cgen.Block([*lines, self._store(stored, value)])]
        result = self._fresh(written) if stored is not None else ""
        if stored is not None:
            lines.append(cgen.Value(stored.name, result))
        for lane in range(self.count):
            known = {a: f"{name}.{vector.lanes[lane]}" for a, (name, vector) in loads.items()}
            value = self._value(lane, known)
            if stored is not None:
                lines.append(cgen.Assign(f"{result}.{stored.lanes[lane]}", value))
            else:
                place = self._at(lane).rec(insn.assignee, PREC_CALL, self.dtype)
                lines.append(cgen.Assign(place, value))
        if stored is not None:
            lines.append(self._store(stored, result))
        return [cgen.Block(lines)]

    def async_copy(self) -> list[cgen.Generable] | None:
        """Return one asynchronous copy of all lanes, if there is one of that many bytes."""
        place, source = self.insn.assignee, self.insn.expression
        assert isinstance(place, p.Subscript)
        assert isinstance(source, p.Subscript)
        vector = self._vector(place) and self._vector(source)
        if vector is None or self.count * self.dtype.itemsize not in ASYNC_SIZES:
            return None
        return [emit_async_copy(self.writer, self._first(place), self._first(source), vector.name)]

    # -- parts --------------------------------------------------------------------------------

    def _at(self, lane: int) -> ExpressionWriter:
        return self.writer.at(self.writer.site._replace(values=self.lanes[lane]))

    def _value(self, lane: int, known: Mapping[Expr, str]) -> str:
        site = self.writer.site._replace(values=self.lanes[lane], texts=known)
        return self.writer.at(site).assigned(self.insn.expression, self.dtype)

    def _first(self, access: p.Subscript) -> str:
        """Write the place of the element of lane 0."""
        return self._at(0).located(access)

    def _load(self, vector: VectorType, access: p.Subscript) -> str:
        first = self._first(access)
        if vector.functions is not None:
            return f"{vector.functions[0]}(0, &{first})"
        name = assignee_name(access)
        pointer = f"({self._space(name)}{vector.name} const *) &{first}"
        return self.writer.loaded(name, pointer, vector)

    def _store(self, vector: VectorType, value: str) -> cgen.Generable:
        name = self.insn.assignee_var_names()[0]
        if vector.functions is not None:
            place = self._first(self.insn.assignee)
            return cgen.Statement(f"{vector.functions[1]}({value}, 0, &{place})")
        pointer = f"({self._space(name)}{vector.name} *) &{self._first(self.insn.assignee)}"
        streamed = self.writer.target.streaming_store
        is_plain = not vector.needs and any(
            isinstance(tag, UseStreamingStoreTag) for tag in self.insn.tags
        )
        if streamed is not None and is_plain:
            return cgen.Statement(f"{streamed}({pointer}, {value})")
        return cgen.Assign(f"*{pointer}", value)

    def _space(self, name: str) -> str:
        array = self.kernel.array_vars[name]
        qualifier = self.writer.target.global_qualifier
        if array.address_space == AddressSpace.LOCAL:
            qualifier = self.writer.target.local_qualifier if qualifier else ""
        elif getattr(array, "is_constant", False) and self.writer.target.constant_qualifier:
            qualifier = self.writer.target.constant_qualifier
        return f"{qualifier} " if qualifier else ""

    def _fresh(self, array: str) -> str:
        taken = self.kernel.all_variable_names()
        name, number = f"{array}_v", 0
        while name in taken or name in self.names:
            name, number = f"{array}_v{number}", number + 1
        self.names.add(name)
        return name

    # -- proofs -------------------------------------------------------------------------------

    def _vector(self, access: p.Subscript) -> VectorType | None:
        """Return the type in which all lanes of *access* are accessed at once, if proved."""
        name = assignee_name(access)
        array = self.kernel.array_vars[name]
        if getattr(array, "is_image", False):
            return None
        aligned = _ASKED_OF_CALLERS if is_pointer(array) else array.alignment
        if aligned is None:
            return None  # registers
        lanes = range(self.count)
        indices = [self._at(k).accesses.index_of_first(access, self.count) for k in lanes]
        steps = [_difference(index, indices[0]) for index in indices]
        if all(step == 0 for step in steps):
            return None
        dtype = self.writer.typer(access)
        vectors = self.writer.target.vectors
        assert vectors is not None
        vector = vectors.type_of(dtype.dtype, self.writer.type_name(dtype), self.count)
        if vector is None:
            self._complain(
                access, f"there is no vector type with {self.count} elements of {dtype.dtype}"
            )
            return None
        if steps != list(lanes):
            lane = next(k for k, step in enumerate(steps) if step != k)
            shown = to_text(steps[lane])
            self._complain(
                access,
                f"lane {lane} is {shown} elements after lane 0, not {lane}",
                "put the axis of the lanes last: tag_array_axes, or order='F'",
            )
            return None
        if vector.functions is not None:
            return vector
        rest = unaligned_part(self.kernel, indices[0], self.count)
        if not (is_constant(rest) and rest == 0):
            self._complain(access, *self._unaligned(indices[0], rest))
            return None
        if aligned % vector.alignment:
            self._complain(access, f"'{name}' is aligned to {array.alignment} bytes only")
            return None
        self.writer.preamble.add(*vector.needs)
        known = self.writer.accesses.alignments
        known[name] = max(known.get(name, 1), vector.alignment)
        return vector

    def _unaligned(self, index: Expr, rest: Expr) -> tuple[str, str]:
        first = to_text(index)
        if is_constant(rest):
            why = f"lane 0 is at {first}, which is {rest} modulo {self.count}"
            return why, "shift the loop, or pad the array, so that lane 0 is at a multiple"
        names = variable_names(rest)
        point = ", ".join(f"{name} = 1" for name in names)
        why = f"lane 0 is at {first}; for {point} this may not be a multiple of {self.count}"
        hint = "state which sizes are multiples: "
        sizes = [n for n in names if n in self.kernel.all_params() or n in self.kernel.arg_dict]
        return why, f"{hint}assume(kernel, '{(sizes or ['n'])[0]} mod {self.count} = 0')"

    def _complain(self, access: p.Subscript, why: str, hint: str | None = None) -> None:
        if not self.kernel.has_tag(self.iname, VectorizeTag):
            return  # vectors were not requested
        known = self.writer.accesses.apart
        if (self.insn.id, access) in known:  # in another copy of unrolled code
            return
        known.add((self.insn.id, access))
        self.kernel.warn(
            message(
                f"'{to_text(access)}' in instruction '{self.insn.id}' is accessed element by "
                "element",
                kernel=self.kernel.name,
                where=f"the lanes of '{self.iname}'",
                because=why,
                hint=hint,
            ),
            f"vectorize_failed({self.insn.id})",
            VectorizationWarning,
        )

    # -- whole vectors ------------------------------------------------------------------------

    def _is_elementwise(self, expr: Expr, vectors: frozenset[Expr]) -> bool:
        """Tell whether *expr* computes for vectors the same as for each lane.

        All numbers in it must have the type of the result, and some part must be a vector.
        """
        if not self._operands_fit(expr, vectors):
            return False
        vectors_of_target = self.writer.target.vectors
        has_operators = vectors_of_target is not None and vectors_of_target.has_operators
        return expr in vectors or (has_operators and any(e in vectors for e in walk(expr)))

    def _operands_fit(self, expr: Expr, vectors: frozenset[Expr]) -> bool:
        if is_promoted_to_int(self.dtype) and expr not in vectors:
            return False
        if expr in vectors:
            return bool(self.writer.typer(expr) == self.dtype)
        match expr:
            case int() | float():
                return self.writer.own_type(expr, self.dtype) == self.dtype
            case p.Sum() | p.Product():
                return all(self._operands_fit(part, vectors) for part in expr.children)
            case p.Quotient():
                parts = (expr.numerator, expr.denominator)
                is_real = not self.dtype.is_integral()
                return is_real and all(self._operands_fit(part, vectors) for part in parts)
            case p.Variable() | p.Subscript():
                is_same_for_all = self.iname not in variable_names(expr)
                return is_same_for_all and bool(self.writer.typer(expr) == self.dtype)
        return False
