"""Bodies of device functions: instructions in their loops, and instructions emitted together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, takewhile
from typing import TypeAlias

import cgen

from kgen.analysis.footprints import Footprints
from kgen.ast.nodes import DeviceFunction, For, If, Node, Persistent, Run, runs_in, simd_loops_in
from kgen.ast.tensors import count_meanwhile, loops_with_overlap
from kgen.errors import naming_place
from kgen.ir.fields import replace
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.tags import CopyWaitTag, LookBackTag, TensorTag
from kgen.ir.tree import Barrier, nodes_in
from kgen.targets.builder import ASTBuilderBase
from kgen.targets.streams import END_OF_STREAMS, STREAM_NEEDS
from kgen.targets.writers.allocations import freed
from kgen.targets.writers.async_copies import wait_for_copies
from kgen.targets.writers.bodies import NOT_JOINED, BodyEmitter, Joined
from kgen.targets.writers.declarations import declare_at_top, state_alignments
from kgen.targets.writers.expressions import ExpressionWriter
from kgen.targets.writers.independent import Accesses, hides_independence
from kgen.targets.writers.lane_sums import has_sums_in_lanes
from kgen.targets.writers.look_back import emit_look_back, look_back_of, published_arrays
from kgen.targets.writers.masked_loads import has_groups_of_masked_loads
from kgen.targets.writers.persistent import persistent_groups
from kgen.targets.writers.read_only import hide_read_only
from kgen.targets.writers.site import EmissionSite
from kgen.targets.writers.statements import declare_and_assign, statements_of
from kgen.targets.writers.streams import StreamedStore, streamed_stores
from kgen.targets.writers.tensors import tensor_statements
from kgen.targets.writers.vectors import is_lane_loop, lanes_at, vector_statements
from kgen.targets.writers.warpgroups import finish_previous

__all__ = ["Written", "body_of"]

#: A callback that takes the id of an instruction and the statements emitted for it.
Written: TypeAlias = Callable[[str, Sequence[cgen.Generable]], None]
#: A function that takes the nodes of a block, the position of the first, and the writer there.
Joiner: TypeAlias = Callable[[tuple[Node, ...], int, ExpressionWriter], Joined]


def body_of(
    builder: ASTBuilderBase,
    writer: ExpressionWriter,
    function: DeviceFunction,
    written: Written | None = None,
) -> list[cgen.Generable]:
    """Return the declarations at the top of a device function and the statements below.

    *written* is called with each instruction and its statements, in the order of emission.
    """
    has_lanes = bool(simd_loops_in(function.body))
    masked_load_needs = writer.target.masked_load_needs
    if masked_load_needs and has_groups_of_masked_loads(writer.kernel, function.body):
        writer.preamble.add(*masked_load_needs)
    lane_sum_needs = writer.target.lane_sum_needs
    if lane_sum_needs and has_sums_in_lanes(writer.kernel, function):
        writer.preamble.add(*lane_sum_needs)
    top: list[cgen.Generable] = [
        *hide_read_only(writer, function),
        *(state_alignments(writer, function.arguments) if has_lanes else ()),
        *declare_at_top(builder, writer, function.temporaries, has_lanes=has_lanes),
    ]
    if top:
        top.append(cgen.Line())
    emitter = _DeviceEmitter(builder, writer, function, written)
    body = emitter.statements(function.body)
    end = [cgen.Statement(f"{END_OF_STREAMS}()")] if emitter.has_streams else []
    return [*top, *body, *end, *freed(writer, function.temporaries)]


class _DeviceEmitter(BodyEmitter):
    """Writes the body of a device function, whose ``Run`` nodes are instructions."""

    def __init__(
        self,
        builder: ASTBuilderBase,
        writer: ExpressionWriter,
        function: DeviceFunction,
        written: Written | None,
    ) -> None:
        super().__init__(builder, writer)
        self.function = function
        self.written = written
        self.has_streams = False
        self.has_waits = any(insn.tags_of_type(CopyWaitTag) for insn in self.kernel.instructions)
        self.has_look_backs = writer.target.looks_back and any(
            insn.tags_of_type(LookBackTag) for insn in self.kernel.instructions
        )
        #: loops whose products continue during the next iteration
        self.with_overlap: frozenset[int] = frozenset()
        self.joiners = list(self._joiners())

    def _joiners(self) -> Iterator[Joiner]:
        """Yield the functions that emit several nodes together, for the features of the kernel."""
        inames = self.kernel.inames
        if self.has_waits:
            yield self._waits_together
        if self.has_look_backs:
            yield self._look_back_together
        if any(self.kernel.has_tag(name, TensorTag) for name in inames):
            yield self._tensors_together
        if self.writer.target.vectors is not None and any(
            is_lane_loop(self.kernel, name) for name in inames
        ):
            yield self._lanes_together

    def statements(self, body: Node) -> list[cgen.Generable]:
        """Return the statements of a function's body."""
        self.with_overlap = loops_with_overlap(self.kernel, body)
        return super().statements(body)

    def _emit(
        self, node: Node, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        if self.has_waits and (waits := self._waits(node)):
            return wait_for_copies(writer, waits)
        if tag := self._look_back(node, site):
            return [self._looking_back([node], tag, writer, site)]
        return super()._emit(node, writer, site)

    def _waits(self, node: Node) -> list[InstructionBase]:
        """Return the instructions of *node* if all of them only wait for copies."""
        if any(isinstance(each, Barrier) for each in nodes_in(node)):
            return []
        insns = [self.kernel.id_to_insn[run.insn_id] for run in runs_in(node)]
        return insns if all(insn.tags_of_type(CopyWaitTag) for insn in insns) else []

    def _look_back(self, node: Node, site: EmissionSite) -> LookBackTag | None:
        """Return the look-back that a node implements, ignoring conditions around it."""
        if not self.has_look_backs or site.in_look_back or isinstance(node, If):
            return None
        return look_back_of(self.kernel, node)

    def _looking_back(
        self, nodes: Sequence[Node], tag: LookBackTag, writer: ExpressionWriter, site: EmissionSite
    ) -> cgen.Generable:
        """Return the code of a look-back, which replaces its loop in the tree."""
        inside = site._replace(in_look_back=True)
        combined = lambda node: list(self._emit(node, writer, inside))  # noqa: E731
        return emit_look_back(writer.at(site), nodes, tag, combined, self.function.groups)

    def persistent(self, node: Persistent, writer: ExpressionWriter) -> list[cgen.Generable]:
        emit = lambda body, site: list(self._emit(body, writer, site))  # noqa: E731
        own = replace(self.function, insn_ids=tuple(run.insn_id for run in runs_in(node)))
        loop = persistent_groups(writer, own, node, published_arrays(self.kernel, own)[0], emit)
        return loop if node is self.function.body else [cgen.Block(loop)]

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
        """Return the tensor-core steps of one instruction, and the code that overlaps with them."""
        insn_id = runs[0].insn_id
        inames = self.kernel.id_to_insn[insn_id].within_inames
        begun, finished = tensor_statements(
            lambda run: writer.statement(writer.site, inames, run.values), runs
        )
        between = self._block(meanwhile, writer)
        if writer.site.unfinished is not None:
            writer.site.unfinished[:] = self._noted(insn_id, finished)
            need, previous = finish_previous()
            writer.preamble.add(need)
            finished = [previous]
        return [*self._noted(insn_id, begun), *between, *self._noted(insn_id, finished)]

    def _noted(
        self, insn_id: str, statements: Iterable[cgen.Generable]
    ) -> Iterable[cgen.Generable]:
        """Record the statements of an instruction, and return them."""
        if self.written is not None:
            statements = list(statements)
            self.written(insn_id, statements)
        return statements

    def _statements(
        self, node: Run, writer: ExpressionWriter, site: EmissionSite
    ) -> Iterable[cgen.Generable]:
        insn = self.kernel.id_to_insn[node.insn_id]
        writer = writer.statement(site, insn.within_inames, node.values)
        with naming_place("instruction", insn):
            if node.insn_id in site.streamed:
                assert isinstance(insn, Assignment)
                value = writer.assigned(insn.expression, writer.typer(insn.assignee))
                return [cgen.Assign(site.streamed[node.insn_id], value)]
            if node.declares is None:
                return statements_of(self.builder, writer, insn)
            return declare_and_assign(self.builder, writer, insn, node.declares, node.is_only)

    def _for(self, node: For, writer: ExpressionWriter) -> list[cgen.Generable]:
        if id(node) in self.with_overlap and writer.site.unfinished is None:
            finished = list[cgen.Generable]()
            loop = super()._for(node, writer.at(writer.site._replace(unfinished=finished)))
            return [*loop, *finished]
        stores = streamed_stores(writer, node)
        return self._past_cache(node, writer, stores) if stores else super()._for(node, writer)

    def _past_cache(
        self, node: For, writer: ExpressionWriter, stores: list[StreamedStore]
    ) -> list[cgen.Generable]:
        """Return a loop over lanes, followed by the streaming stores of these lanes."""
        elements = {each.insn_id: each.element for each in stores}
        inside = writer.at(writer.site._replace(streamed=elements))
        lines = [*(each.array for each in stores), *super()._for(node, inside)]
        for each in stores:
            lines += self._noted(each.insn_id, [each.store])
        self.has_streams = True
        writer.preamble.add(*STREAM_NEEDS)
        return [cgen.Block(lines)]

    def together(self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter) -> Joined:
        for join in self.joiners:
            joined = join(nodes, at, writer)
            if joined[0]:
                return joined
        return NOT_JOINED

    def _waits_together(self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter) -> Joined:
        """Return one wait for copies in place of several consecutive ones."""
        waits = list(takewhile(bool, map(self._waits, nodes[at:])))
        if not waits:
            return NOT_JOINED
        return len(waits), wait_for_copies(writer, chain.from_iterable(waits))

    def _look_back_together(
        self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter
    ) -> Joined:
        tag = self._look_back(nodes[at], writer.site)
        if tag is None:
            return NOT_JOINED
        parts = [*takewhile(lambda node: look_back_of(self.kernel, node) == tag, nodes[at:])]
        return len(parts), [self._looking_back(parts, tag, writer, writer.site)]

    def _tensors_together(
        self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter
    ) -> Joined:
        """Emit the tensor-core steps of one instruction, and the code that overlaps with them."""
        steps = _steps_from(nodes, at)
        if not steps:
            return NOT_JOINED
        rest = nodes[at + len(steps) :]
        meanwhile = rest[: count_meanwhile(self.kernel, steps[0].insn_id, rest)]
        return len(steps) + len(meanwhile), self._tensors(steps, meanwhile, writer)

    def _lanes_together(self, nodes: tuple[Node, ...], at: int, writer: ExpressionWriter) -> Joined:
        """Return the lanes of a vector."""
        lanes = lanes_at(self.kernel, nodes, at)
        if lanes is None:
            return NOT_JOINED
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
    """Return the tensor-core steps of one instruction that begin at ``nodes[at]``."""
    steps: list[Run] = []
    for node in nodes[at:]:
        if not isinstance(node, Run) or not node.over:
            break
        if steps and node.insn_id != steps[0].insn_id:
            break
        steps.append(node)
    return steps
