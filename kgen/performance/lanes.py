"""The result of vectorization by compilers: vectorized loops, plain loops, streaming stores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kgen.ast.items import with_item_loops
from kgen.ast.lanes import why_not_in_lanes
from kgen.ast.nodes import DeviceFunction, For, runs_in, simd_loops_in
from kgen.ast.streams import STREAMED, lanes_of, why_not_in_blocks, why_not_streamed
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import DeviceKernel
from kgen.ir.tags import LocalInameTagBase, UseStreamingStoreTag, VectorizeTag
from kgen.ir.tree import nodes_in

__all__ = ["LaneFeedback"]


class LaneFeedback:
    """Describes the loops of one function; *given* is the kernel with the tags of the user."""

    def __init__(self, given: LoopKernel, kernel: DeviceKernel, function: DeviceFunction) -> None:
        self.given = given
        self.kernel = kernel
        self.function = function
        self.loops = [node for node in nodes_in(function.body) if isinstance(node, For)]

    @cached_property
    def in_lanes(self) -> frozenset[str]:
        """The loops of the code that compilers should vectorize."""
        return frozenset(loop.iname for loop in simd_loops_in(self.function.body))

    def why_plain(self, iname: str) -> str | None:
        """Return why a loop that should run in lanes, or over work-items, is a plain loop."""
        kinds = (VectorizeTag, LocalInameTagBase)
        is_meant = iname in self.given.inames and self.given.has_tag(iname, kinds)
        if not (self.kernel.target.has_simd_loops and is_meant) or iname in self.in_lanes:
            return None
        loop = next((loop for loop in self.loops if loop.iname == iname), None)
        return None if loop is None else why_not_in_lanes(loop, self.kernel)

    def of_items(self, axis: int) -> str:
        """Return how many of the loops over the work-items along an axis are in lanes."""
        if axis or not self.kernel.target.has_simd_loops:
            return "loops between barriers"
        _, (function,) = with_item_loops(self.kernel, (self.function,))
        loops = [node for node in nodes_in(function.body) if isinstance(node, For)]
        items = [loop for loop in loops if loop.iname not in self.kernel.inames]
        inner = [loop for loop in items if all(part not in nodes_in(loop.body) for part in items)]
        simd = sum(loop.is_simd for loop in inner)
        return f"loops between barriers, {simd} of {len(inner)} in lanes"

    def streamed(self, insn_ids: tuple[str, ...]) -> str | None:
        """Describe whether stores that should bypass the cache do, and why not; else ``None``."""
        insns = [self.kernel.id_to_insn[insn_id] for insn_id in insn_ids]
        asked = [insn.id for insn in insns if insn.tags_of_type(UseStreamingStoreTag)]
        if not asked or not self.kernel.target.streams_lanes:
            return None
        reasons = [self._why_not_streamed(insn_id) for insn_id in asked]
        reason = next((each for each in reasons if each is not None), None)
        return "past the cache" if reason is None else f"through the cache: {reason}"

    def _why_not_streamed(self, insn_id: str) -> str | None:
        """Return why no lanes of an instruction bypass the cache; ``None`` if some do."""
        reasons = list(self._refusals(insn_id))
        return None if None in reasons else next(iter(reasons), "it is in no loop")

    def _refusals(self, insn_id: str) -> Iterator[str | None]:
        """Yield, for each innermost loop around an instruction, why its lanes do not."""
        for loop in self.loops:
            runs = [run for run in runs_in(loop.body) if run.insn_id == insn_id]
            inside = [node for node in nodes_in(loop.body) if isinstance(node, For)]
            if not runs or any(run in runs_in(part.body) for part in inside for run in runs):
                continue
            reason = why_not_streamed(self.kernel, loop, runs[0])
            if reason is None and not loop.is_simd:
                reason = why_not_in_blocks(self.kernel, loop)
                reason = reason or "these are too few to fill a cache line"
            count, (name,) = lanes_of(loop), self.kernel.id_to_insn[insn_id].assignee_var_names()
            if reason is None and count is None:
                reason = f"the number of iterations of '{loop.iname}' is not known"
            elif reason is None and count * self.kernel.array_vars[name].dtype.itemsize % STREAMED:
                reason = f"the lanes of '{loop.iname}' are not a multiple of {STREAMED} bytes"
            yield reason
