"""Code trees to statements: the body of one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain, takewhile
from typing import Final, TypeAlias

import cgen
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import PREC_COMPARISON, PREC_NONE

from kgen.analysis.footprints import Footprints
from kgen.analysis.range import Sizes, is_int32
from kgen.ast.expr import conjuncts, negation
from kgen.ast.nodes import (
    Block,
    Comment,
    DeviceFunction,
    For,
    If,
    Let,
    Node,
    Run,
    runs_in,
    simd_loops_in,
)
from kgen.ast.streams import STREAMED, lanes_of, streamed_runs
from kgen.ast.tensors import count_meanwhile, loops_with_overlap
from kgen.errors import CodegenError
from kgen.ir.affine import simplify
from kgen.ir.expr import Expr, minus
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.tags import CopyWaitTag, LookBackTag, UnrollBySizeTag, UnrollHintTag
from kgen.ir.tree import Barrier, children_of, nodes_in
from kgen.ir.types import INT32, INT64, NumpyType
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.streams import END_OF_STREAMS, STREAM, STREAM_NEEDS
from kgen.targets.writers.async_copies import wait_for_copies
from kgen.targets.writers.calls import is_statement
from kgen.targets.writers.code_size import unroll_factor
from kgen.targets.writers.declarations import declare_at_top, needs_braces, state_alignments
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.independent import Accesses, hides_independence
from kgen.targets.writers.look_back import emit_look_back, look_back_of
from kgen.targets.writers.read_only import hide_read_only
from kgen.targets.writers.short_arrays import overruns_if_vectorized
from kgen.targets.writers.site import EmissionSite
from kgen.targets.writers.statements import declare_and_assign, statements_of
from kgen.targets.writers.tensors import tensor_statements
from kgen.targets.writers.vectors import is_lane_loop, lanes_at, vector_statements
from kgen.targets.writers.warpgroups import finish_previous

__all__ = ["BodyEmitter", "Written", "body_of"]

#: Takes the id of an instruction, and statements that are written for it.
Written: TypeAlias = Callable[[str, Sequence[cgen.Generable]], None]


def body_of(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    function: DeviceFunction,
    written: Written | None = None,
) -> list[cgen.Generable]:
    """Return the declarations at the top of a device function and the statements below.

    *written* is told which statements are written for which instruction, in their order.
    """
    has_lanes = bool(simd_loops_in(function.body))
    top: list[cgen.Generable] = [
        *hide_read_only(writer, function),
        *(state_alignments(writer, function.arguments) if has_lanes else ()),
        *declare_at_top(builder, writer, function.temporaries, has_lanes=has_lanes),
    ]
    if top:
        top.append(cgen.Line())
    emitter = _DeviceEmitter(builder, writer, written)
    body = emitter.statements(function.body)
    end = [cgen.Statement(f"{END_OF_STREAMS}()")] if emitter.has_streams else []
    return [*top, *body, *end]


class BodyEmitter:
    """Writes loops, conditions and barriers; what a ``Run`` is, subclasses say.

    Methods get the *site* at hand, and a *writer* of that or of a site around, of which
    ``writer.at(site)`` is made where a bound or a condition has to be written.
    """

    def __init__(self, builder: ASTBuilderBase, writer: ExpressionWriter) -> None:
        self.writer = writer.at(writer.site.at_top())
        self.perfectly_nested: set[int] = set()
        self.builder = builder
        self.kernel = writer.kernel

    def statements(self, body: Node) -> list[cgen.Generable]:
        """Return the statements of a function's body."""
        self._find_long_names(body, self.writer.site.sizes)
        return list(self._emit(body, self.writer, self.writer.site))

    def run(
        self, node: Run, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        """Return the statements of *node*."""
        raise NotImplementedError

    def _find_long_names(self, node: Node, sizes: Sizes) -> None:
        """Note the variables of 64 bits: those that may hold more in their domain or outside of it.

        As in an empty loop, or where a condition on the value follows.
        """
        if isinstance(node, For | Let):
            first, stop = (node.first, node.stop) if isinstance(node, For) else (node.value, None)
            values = sizes.interval(first)
            if node.dtype == INT64 or (values.count is not None and not is_int32(values)):
                self.writer.integers.long_names.add(node.name)
            sizes = sizes.inside(node.name, first, stop)
        for child in children_of(node):
            if not isinstance(child, Run):
                self._find_long_names(child, sizes)

    def _type_of(self, node: For | Let) -> NumpyType:
        """Return the type of a variable of the code; those of one name have one type."""
        is_long = node.name in self.writer.integers.long_names
        return INT64 if is_long else node.dtype

    def _emit(
        self, node: Node, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        """Return the statements of *node*."""
        match node:
            case Run():
                return self.run(node, writer, site)
            case For():
                return self._for(node, writer.at(site))
            case Block():
                return self._block(node.children, writer.at(site))
            case If():
                return [self._if(node, writer.at(site))]
            case Let():
                writer = writer.at(site)
                inside = site.inside(node.name, node.value)
                return [self._let(node, writer), *self._emit(node.body, writer, inside)]
            case Barrier():
                return [self._barrier(node)]
            case Comment():
                comment = self.builder.emit_comment(node.text)
                return [comment, *self._emit(node.body, writer, site)]

    def _let(self, node: Let, writer: ExpressionWriter) -> cgen.Generable:
        dtype = self._type_of(node)
        type_name = writer.declared_type(node.name, dtype)
        value = self._value(writer, node.value, dtype)
        return self.builder.emit_initializer(type_name, node.name, value, is_const=True)

    def _block(self, nodes: tuple[Node, ...], writer: ExpressionWriter) -> list[cgen.Generable]:
        written: list[cgen.Generable] = []
        at = 0
        while at < len(nodes):
            count, statements = self.together(nodes, at, writer)
            written += statements if count else self._child(nodes, at, writer)
            at += max(1, count)
        return written

    def together(
        self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter
    ) -> tuple[int, Sequence[cgen.Generable]]:
        """Return how many nodes from ``nodes[at]`` on are written as one, and their statements."""
        return 0, ()

    def _child(
        self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter
    ) -> Iterable[cgen.Generable]:
        statements = self._emit(nodes[at], writer, writer.site)
        return [cgen.Block(list(statements))] if needs_braces(nodes, at) else statements

    def _for(self, node: For, writer: ExpressionWriter) -> list[cgen.Generable]:
        self.perfectly_nested.add(id(node.body))
        dtype = self._type_of(node)
        first = self._value(writer, node.first, dtype)
        condition = f"{node.iname} < {self._value(writer, node.stop, dtype, PREC_COMPARISON)}"
        type_name = writer.declared_type(node.iname, dtype)
        inside = writer.site.inside(node.iname, node.first, node.stop)
        inside = writer.divergent(inside, node.first, node.stop)
        if node.is_simd:
            inside = inside._replace(in_lanes=True)
        body = self._body(node.body, writer, inside)
        loop = self.builder.emit_sequential_loop(
            node.iname, type_name, first, condition, node.step, body
        )
        comment = node.comment
        if comment is None and self.kernel.options.annotate_inames:
            comment = f"loop over '{node.iname}'"
        lines = [] if comment is None else [self.builder.emit_comment(comment)]
        lines += [cgen.Pragma(text) for text in self._pragmas(node) if text is not None]
        return [*lines, loop]

    def _pragmas(self, node: For) -> tuple[str | None, ...]:
        """Return what the compiler is told of a loop."""
        target = self.writer.target
        if node.is_simd:
            return self._unroll_pragma(node), target.simd_loop_pragma(self._lanes(node))
        scalar, independent = target.scalar_loop_pragma(), target.independent_loop_pragma()
        if scalar is not None and overruns_if_vectorized(self.kernel, node):
            return self._unroll_pragma(node), scalar
        if independent is not None and self.hides_independence(node):
            return self._unroll_pragma(node), independent
        return (self._unroll_pragma(node),)

    def _lanes(self, node: For) -> int | None:
        """Return how many lanes a vector is to have: as many as fit into the longest registers.

        ``None`` leaves that to the compiler, where the number of iterations is no multiple. gcc
        counts by the shortest type. That is an int where it interchanges a loop with one around it.
        """
        count, size = lanes_of(node), self._widest(node)
        if count is None:
            return None
        if id(node) in self.perfectly_nested:
            size = min(size, INT32.itemsize)
        lanes = min(count & -count, _LONGEST_VECTOR // size)  # a power of two that divides it
        return lanes if lanes > 1 and (lanes == count or lanes * size >= _SHORTEST) else None

    def _widest(self, node: For) -> int:
        """Return the bytes of the longest number that a loop assigns or reads from an array."""
        insns = [self.kernel.id_to_insn[run.insn_id] for run in runs_in(node.body)]
        names = {name for insn in insns for name in insn.dependency_names()}
        dtypes = (array.dtype for name, array in self.kernel.array_vars.items() if name in names)
        return max(dtype.itemsize for dtype in dtypes if isinstance(dtype, NumpyType))

    def hides_independence(self, node: For) -> bool:
        """Tell whether iterations are independent, which the compiler could hardly find out."""
        return False

    def _unroll_pragma(self, node: For) -> str | None:
        target = self.writer.target
        if node.iname in self.kernel.inames:
            for hint in self.kernel.iname_tags_of_type(node.iname, UnrollHintTag):
                is_by_size = isinstance(hint, UnrollBySizeTag)
                times = unroll_factor(self.kernel, node) if is_by_size else hint.value
                return "unroll" if times is None else f"{target.unroll_count_pragma} {times}"
        return target.unroll_pragma if node.is_short else None

    def _value(
        self, writer: ExpressionWriter, value: Expr, dtype: NumpyType, prec: int = PREC_NONE
    ) -> str:
        """Write what a loop variable becomes, or is compared to; a product may need 64 bits."""
        integers = writer.integers
        is_wide = dtype == INT64 and not isinstance(value, int | p.Variable)
        return integers.text(value, prec, wide=is_wide or integers.overflows(value))

    def _if(self, node: If, writer: ExpressionWriter) -> cgen.Generable:
        condition = writer.condition(node.condition)
        site = writer.divergent(writer.site, node.condition)
        body = self._body(node.body, writer, site.under(*conjuncts(node.condition)))
        orelse = None
        if node.orelse is not None:
            otherwise = site.under(*conjuncts(negation(node.condition)))
            orelse = self._body(node.orelse, writer, otherwise)
        return self.builder.emit_if(condition, body, orelse)

    def _body(self, node: Node, writer: ExpressionWriter, site: EmissionSite) -> cgen.Generable:
        """Return the statements of *node*, in braces unless there is just one."""
        inner = list(self._emit(node, writer, site))
        if len(inner) == 1 and isinstance(inner[0], _SINGLE):
            return inner[0]
        return cgen.Block(inner)

    def _barrier(self, node: Barrier) -> cgen.Generable:
        if node.of_groups:
            self.writer.preamble.add(*self.writer.target.grid_barrier_needs)
            return self.builder.emit_barrier(self.writer.target.grid_barrier or "", node.reason)
        text = self.writer.target.barriers.get(node.memory)
        if text is None:
            raise CodegenError(
                f"{self.writer.target.language} has no work-items that could wait for each other",
                because=f"there is a barrier, {node.reason}",
                hint="leave out barriers that the kernel asks for, and take the tags 'l.N' and "
                "'g.N' off with untag_inames; or choose a target that has work-items",
            )
        return self.builder.emit_barrier(text, node.reason)


class _DeviceEmitter(BodyEmitter):
    """Writes the body of a device function, whose runs are instructions."""

    def __init__(
        self, builder: ASTBuilderBase, writer: ExpressionWriter, written: Written | None
    ) -> None:
        super().__init__(builder, writer)
        self.written = written
        #: the arrays of lanes that instructions set in place of what is stored past the cache
        self.lanes: dict[str, str] = {}
        self.has_streams = False
        self.has_waits = any(insn.tags_of_type(CopyWaitTag) for insn in self.kernel.instructions)
        self.has_look_backs = writer.target.looks_back and any(
            insn.tags_of_type(LookBackTag) for insn in self.kernel.instructions
        )
        #: loops whose products go on in the next iteration; what waits for them behind such a loop
        self.with_overlap: frozenset[int] = frozenset()
        self.overlapping: list[cgen.Generable] | None = None
        self.has_vectors = writer.target.vectors is not None and any(
            is_lane_loop(self.kernel, name) for name in self.kernel.inames
        )

    def statements(self, body: Node) -> list[cgen.Generable]:
        """Return the statements of a function's body."""
        self.with_overlap = loops_with_overlap(self.kernel, body)
        return super().statements(body)

    def _emit(
        self, node: Node, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        waits = self._waits(node)
        if waits:
            return wait_for_copies(writer, waits)
        if tag := self._look_back(node):
            return [self._looking_back([node], tag, writer, site)]
        return super()._emit(node, writer, site)

    def _waits(self, node: Node) -> list[InstructionBase]:
        """Return the instructions of *node*, where they do nothing but wait for copies."""
        if not self.has_waits or any(isinstance(each, Barrier) for each in nodes_in(node)):
            return []
        insns = [self.kernel.id_to_insn[run.insn_id] for run in runs_in(node)]
        return insns if all(insn.tags_of_type(CopyWaitTag) for insn in insns) else []

    def _look_back(self, node: Node) -> LookBackTag | None:
        """Return the look-back that a node is, but for conditions around it."""
        if not self.has_look_backs or isinstance(node, If):
            return None
        return look_back_of(self.kernel, node)

    def _looking_back(
        self, nodes: Sequence[Node], tag: LookBackTag, writer: ExpressionWriter, site: EmissionSite
    ) -> cgen.Generable:
        """Return what a look-back is: not the loop that it is in the tree."""

        def combined(node: Node) -> list[cgen.Generable]:
            self.has_look_backs = False
            statements = list(self._emit(node, writer, site))
            self.has_look_backs = True
            return statements

        return emit_look_back(writer.at(site), nodes, tag, combined)

    def hides_independence(self, node: For) -> bool:
        return hides_independence(self.kernel, self.accesses, node)

    @cached_property
    def accesses(self) -> Accesses:
        """All accesses of the kernel to each array."""
        return Footprints.of(self.kernel).accesses

    def run(
        self, node: Run, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        if node.over:
            return self._tensors([node], (), writer.at(site))
        return self._noted(node.insn_id, self._statements(node, writer, site))

    def _tensors(
        self, runs: Sequence[Run], meanwhile: tuple[Node, ...], writer: ExpressionWriter
    ) -> list[cgen.Generable]:
        """Return steps of tensor cores, all of one instruction, and what is done meanwhile."""
        insn_id = runs[0].insn_id
        inames = self.kernel.id_to_insn[insn_id].within_inames
        begun, finished = tensor_statements(
            lambda run: writer.statement(writer.site, inames, run.values), runs
        )
        between = self._block(meanwhile, writer)
        if self.overlapping is not None:
            self.overlapping[:] = self._noted(insn_id, finished)
            need, previous = finish_previous()
            writer.preamble.add(need)
            finished = [previous]
        return [*self._noted(insn_id, begun), *between, *self._noted(insn_id, finished)]

    def _noted(
        self, insn_id: str, statements: Iterable[cgen.Generable]
    ) -> Iterable[cgen.Generable]:
        """Return the statements of an instruction, after they are noted."""
        if self.written is not None:
            statements = list(statements)
            self.written(insn_id, statements)
        return statements

    def _statements(
        self, node: Run, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        insn = self.kernel.id_to_insn[node.insn_id]
        writer = writer.statement(site, insn.within_inames, node.values)
        if node.insn_id in self.lanes:
            assert isinstance(insn, Assignment)
            value = writer.assigned(insn.expression, writer.typer(insn.assignee))
            return [cgen.Assign(self.lanes[node.insn_id], value)]
        if node.declares is None:
            return statements_of(self.builder, writer, insn)
        return declare_and_assign(self.builder, writer, insn, node.declares, node.is_only)

    def _for(self, node: For, writer: ExpressionWriter) -> list[cgen.Generable]:
        if id(node) in self.with_overlap and self.overlapping is None:
            self.overlapping = finished = list[cgen.Generable]()
            loop = super()._for(node, writer)
            self.overlapping = None
            return [*loop, *finished]
        runs = self._streams(node, writer)
        if not runs:
            return super()._for(node, writer)
        lines: list[cgen.Generable] = []
        stores: list[cgen.Generable] = []
        lane = simplify(minus(p.Variable(node.iname), node.first))
        for run in runs:
            declared, name, store = self._stream(node, run, writer)
            lines.append(declared)
            stores.append(store)
            self.lanes[run.insn_id] = f"{name}[{writer.integers.text(lane)}]"
        lines += super()._for(node, writer)
        for run, store in zip(runs, stores, strict=True):
            lines += self._noted(run.insn_id, [store])
        self.lanes.clear()
        self.has_streams = True
        writer.preamble.add(*STREAM_NEEDS)
        return [cgen.Block(lines)]

    def _streams(self, node: For, writer: ExpressionWriter) -> list[Run]:
        """Return the instructions of a loop that store past the cache."""
        count = lanes_of(node) if node.is_simd and writer.target.streams_lanes else None
        if count is None or self.kernel.options.trace_assignments:
            return []
        return [
            run
            for run in streamed_runs(self.kernel, node)
            if count * self._dtype_of(run).itemsize % STREAMED == 0
            and not is_statement(writer, self._insn_of(run).expression)
        ]

    def _stream(
        self, node: For, run: Run, writer: ExpressionWriter
    ) -> tuple[cgen.Generable, str, cgen.Generable]:
        """Return an array of lanes, its name, and what stores it behind their loop."""
        insn, dtype, count = self._insn_of(run), self._dtype_of(run), lanes_of(node)
        assert count is not None
        name = f"{insn.assignee_var_names()[0]}_lanes"
        while name in self.kernel.all_variable_names():
            name += "_"
        first = {**run.values, node.iname: node.first}
        at_first = writer.statement(writer.site, insn.within_inames, first)
        place = at_first.place(insn.assignee, insn.expression, dtype)
        array = cgen.ArrayOf(cgen.Value(writer.type_name(dtype), name), count)
        store = cgen.Statement(f"{STREAM}(&{place}, {name}, {count * dtype.itemsize})")
        return cgen.AlignedAttribute(_LONGEST_VECTOR, array), name, store

    def _insn_of(self, run: Run) -> Assignment:
        insn = self.kernel.id_to_insn[run.insn_id]
        assert isinstance(insn, Assignment)
        return insn

    def _dtype_of(self, run: Run) -> NumpyType:
        dtype: NumpyType = self.writer.typer(self._insn_of(run).assignee)
        return dtype

    def together(
        self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter
    ) -> tuple[int, Sequence[cgen.Generable]]:
        """Return the lanes of a vector, or one wait for copies in place of several."""
        waits = (self._waits(node) for node in nodes[at:] if self.has_waits)
        together = list(takewhile(bool, waits))
        if together:
            return len(together), wait_for_copies(writer, chain.from_iterable(together))
        if tag := self._look_back(nodes[at]):
            parts = [*takewhile(lambda node: look_back_of(self.kernel, node) == tag, nodes[at:])]
            return len(parts), [self._looking_back(parts, tag, writer, writer.site)]
        steps = _steps_from(nodes, at)
        if steps:
            rest = nodes[at + len(steps) :]
            meanwhile = rest[: count_meanwhile(self.kernel, steps[0].insn_id, rest)]
            return len(steps) + len(meanwhile), self._tensors(steps, meanwhile, writer)
        lanes = lanes_at(self.kernel, nodes, at) if self.has_vectors else None
        if lanes is None:
            return 0, ()
        count = len(lanes.values)
        first = writer.statement(writer.site, lanes.insn.within_inames, lanes.values[0])
        statements = vector_statements(first, lanes)
        if statements is None:
            each = (self._child(nodes, at + lane, writer) for lane in range(count))
            statements = list(chain.from_iterable(each))
        else:
            statements = list(self._noted(str(lanes.insn.id), statements))
        return count, statements


def _steps_from(nodes: Sequence[Node], at: int) -> list[Run]:
    """Return the steps of tensor cores from ``nodes[at]`` on, those of one instruction."""
    steps: list[Run] = []
    for node in nodes[at:]:
        if not isinstance(node, Run) or not node.over:
            break
        if steps and node.insn_id != steps[0].insn_id:
            break
        steps.append(node)
    return steps


#: The bytes of vectors that compilers are asked for at least.
_SHORTEST: Final = 32
#: The bytes of the longest vector registers there are.
_LONGEST_VECTOR: Final = 64

_SINGLE = (cgen.Assign, cgen.Statement, cgen.For, cgen.If, cgen.Block, cgen.Line)
