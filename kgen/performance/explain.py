"""How each loop, access and temporary of a kernel is implemented."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kgen.analysis.access import Access, collect_accesses
from kgen.ast.nodes import DeviceFunction
from kgen.ir.checked import checked
from kgen.ir.expr import is_zero, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.tags import (
    AxisTag,
    IlpBaseTag,
    LocalInameTag,
    UnrolledIlpTag,
    VectorizeTag,
)
from kgen.ir.tree import Barrier
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.lowering import lower
from kgen.performance.advice import advise
from kgen.performance.feedback import (
    AccessFeedback,
    BarrierFeedback,
    Explanation,
    LaunchFeedback,
    LoopFeedback,
    StorageFeedback,
)
from kgen.performance.lanes import LaneFeedback
from kgen.schedule.tree import (
    Bind,
    Launch,
    Loop,
    LoopKind,
    Node,
    Run,
    Sequence,
)
from kgen.statistics.memory import memory_of, moving
from kgen.statistics.stepping import stride_along, vector_length
from kgen.statistics.trips import trip_count
from kgen.targets.base import CFamilyLanguage
from kgen.targets.limits import bytes_of, local_arrays
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["explain"]

#: OpenACC's words for the axes of work-items.
_LEVELS = ("vector", "worker", "worker")


@checked
def explain(
    program: TranslationUnit | LoopKernel,
    dtypes: Mapping[str, Any] | None = None,
    *,
    entrypoint: str | None = None,
) -> Explanation:
    """Report how a kernel is implemented on its target, like a compiler.

    The report lists, for each loop, the hardware axis that runs it, and its trip count; for each
    access, its stride between work-items; barriers with their reasons; the bytes of
    temporaries; and suggestions. Nothing is compiled or run.

    :arg dtypes: types of arguments that the kernel does not declare

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.CudaTarget())
    >>> knl = lp.parallelize(knl, {"i": "gang vector"})
    >>> print(lp.explain(knl, {"a": np.float32}))
    kgen_kernel, CUDA C++:
      kgen_kernel: (n + 127) // 128 groups of 128 work-items
        i_gang    gang         /* blockIdx.x */   trips: (n + 127) // 128
        i_vector  vector(128)  /* threadIdx.x */  trips: at most 128
        accesses
          load   a[i_vector + i_gang*128]    coalesced along i_vector
          store  out[i_vector + i_gang*128]  coalesced along i_vector

    Raises the errors of code generation.
    """
    given = inlined_kernel(program, entrypoint)
    lowered = lower(given, dtypes)
    device = lowered.kernel
    assert isinstance(device.target, CFamilyLanguage)
    functions = {function.name: function for function in lowered.functions}
    launches = tuple(
        _Collector(
            given, device, lowered.whole, device.target, functions[launch.name], around
        ).launch(launch)
        for launch, around in lowered.schedule.launches_in_loops
    )
    return Explanation(
        kernel_name=device.name,
        target=device.target.language,
        launches=launches,
        advice=advise(device, launches),
    )


@dataclass
class _Collector:
    """Collects the feedback on one launch."""

    given: LoopKernel
    kernel: DeviceKernel
    whole: PreparedKernel
    target: CFamilyLanguage
    function: DeviceFunction
    host: tuple[str, ...]

    def launch(self, launch: Launch) -> LaunchFeedback:
        """Walk the schedule of a launch."""
        self.bound: dict[str, None] = {}
        self.loops: list[LoopFeedback] = []
        self.barriers: list[BarrierFeedback] = []
        self.innermost: dict[str, str] = {}
        self._walk(launch.body, ())
        bound = sorted(self.bound, key=self._rank)
        hosts = [
            LoopFeedback(
                iname=name,
                level="host",
                hardware=None,
                trips=trip_count(self.whole, name, self.host[:k]),
                depth=k,
            )
            for k, name in enumerate(self.host)
        ]
        return LaunchFeedback(
            name=launch.name,
            groups=self.function.groups,
            locals=self.function.locals,
            loops=(*hosts, *map(self._axis, bound), *self.loops),
            barriers=tuple(self.barriers),
            accesses=tuple(self._accesses()),
            storage=tuple(self._storage()),
            after=launch.barriers,
            threads=self.target.describe_threads(self.function) if self.function.groups else None,
        )

    # -- loops ------------------------------------------------------------------------------

    def _walk(self, node: Node, inside: tuple[str, ...]) -> None:
        match node:
            case Run():
                self.innermost.update((name, inside[-1]) for name in node.insn_ids if inside)
            case Bind():
                self.bound.update((iname, None) for iname, _ in node.axes)
                self._walk(node.body, inside)
            case Loop():
                loop = self._loop(node.iname, self._level(node), None, inside)
                loop = replace(loop, because=self.lanes.why_plain(node.iname))
                if loop not in self.loops:
                    self.loops.append(loop)
                self._walk(node.body, (*inside, node.iname))
            case Barrier():
                self.barriers.append(
                    BarrierFeedback(memory=node.scope, reason=node.reason, inside=inside)
                )
            case Sequence():
                for child in node.children:
                    self._walk(child, inside)

    def _loop(
        self, iname: str, level: str, hardware: str | None, inside: tuple[str, ...]
    ) -> LoopFeedback:
        """Describe a loop of the code; the loops around it and work-items are known there."""
        kernel = self.kernel
        insns = kernel.iname_to_insns()
        around = [name for name in (*self.bound, *inside) if insns[iname] <= insns[name]]
        trips = trip_count(kernel, iname, around)
        if trips.value is not None and not self.bound.keys().isdisjoint(
            variable_names(trips.value)
        ):  # not the same for all work-items
            most = trip_count(kernel, iname, [name for name in around if name in inside])
            trips = replace(most, is_bound=most.value is not None)
        return LoopFeedback(
            iname=iname, level=level, hardware=hardware, trips=trips, depth=len(inside)
        )

    def _level(self, loop: Loop) -> str:
        kernel = self.kernel
        if kernel.has_tag(loop.iname, VectorizeTag):
            return "simd" if self.lanes.why_plain(loop.iname) is None else "seq"
        if loop.iname in self.lanes.in_lanes:
            return "simd"
        if kernel.has_tag(loop.iname, IlpBaseTag):
            unrolled = kernel.has_tag(loop.iname, UnrolledIlpTag)
            return "interleaved, unrolled" if unrolled else "interleaved"
        return "unrolled" if loop.kind is LoopKind.UNROLL else "seq"

    @cached_property
    def lanes(self) -> LaneFeedback:
        """The feedback on loops of lanes."""
        return LaneFeedback(self.given, self.kernel, self.function)

    def _tag(self, iname: str) -> AxisTag:
        (tag,) = self.kernel.iname_tags_of_type(iname, AxisTag)
        return tag

    def _rank(self, iname: str) -> tuple[bool, int, int]:
        """Order groups before work-items, the axis of the lanes last."""
        tag = self._tag(iname)
        return isinstance(tag, LocalInameTag), -tag.axis, self.kernel.iname_order[iname]

    def _axis(self, iname: str) -> LoopFeedback:
        """Describe a loop that the hardware runs."""
        tag = self._tag(iname)
        level, hardware = "gang", self.target.axis_name(tag)
        if isinstance(tag, LocalInameTag):
            level = f"{_LEVELS[tag.axis]}({self.function.locals[tag.axis]})"
            if self.target.loops_over_items:
                hardware = f"{hardware}: {self.lanes.of_items(tag.axis)}"
        elif self.target.loops_over_items:
            hardware = f"{hardware}: {self.target.describe_axis(self.function)}"
        return LoopFeedback(
            iname=iname,
            level=level,
            hardware=hardware,
            trips=trip_count(self.kernel, iname),
        )

    # -- accesses -----------------------------------------------------------------------------

    def _accesses(self) -> Iterator[AccessFeedback]:
        kernel = self.kernel
        insns = [kernel.id_to_insn[insn_id] for insn_id in self.function.insn_ids]
        users: dict[tuple[Any, ...], list[str]] = {}
        examples: dict[tuple[Any, ...], Access] = {}
        for access in collect_accesses(kernel, moving(insns)):
            if memory_of(kernel, access.array) is not None:
                key = (access.is_write, str(access), self._along(access))
                examples.setdefault(key, access)
                ids = users.setdefault(key, [])
                if access.insn_id not in ids:
                    ids.append(access.insn_id)
        for key, access in examples.items():
            along = self._along(access)
            stride = stride_along(kernel, access, along) if along is not None else None
            length = 1 if self.target.vectors is None else vector_length(kernel, access)
            yield AccessFeedback(
                array=access.array,
                text=str(access),
                direction="store" if access.is_write else "load",
                memory="global" if memory_of(kernel, access.array) == "global" else "shared",
                along=along,
                stride=stride,
                pattern=self._pattern(along, stride, length),
                insn_ids=tuple(users[key]),
                length=length,
                streaming=self.lanes.streamed(tuple(users[key])) if access.is_write else None,
            )

    @property
    def _has_lanes(self) -> bool:
        return self.function.locals[:1] > (1,)

    def _along(self, access: Access) -> str | None:
        """Return the loop on lane 0; without lanes, the innermost one that the code has."""
        if self._has_lanes:
            lanes = [
                name
                for name in access.place.inames
                for tag in self.kernel.iname_tags_of_type(name, LocalInameTag)
                if tag.axis == 0 and trip_count(self.kernel, name).value != 1
            ]
            return lanes[0] if lanes else None
        return self.innermost.get(access.insn_id)

    def _pattern(self, along: str | None, stride: Any, length: int) -> str:
        if along is None:
            return "single"
        if stride is None:
            return "gathered"
        if is_zero(stride):
            return "uniform"
        if isinstance(stride, int) and abs(stride) == length:
            is_device = self._has_lanes and not self.target.loops_over_items
            return "coalesced" if is_device else "contiguous"
        return "strided"

    # -- memory ---------------------------------------------------------------------------------

    def _storage(self) -> Iterator[StorageFeedback]:
        for name, size in local_arrays(self.kernel, self.function.temporaries).items():
            yield StorageFeedback(name=name, memory="shared", nbytes=size)
        for name in self.function.temporaries:
            temporary = self.kernel.temporary_variables[name]
            if temporary.address_space == AddressSpace.PRIVATE:
                yield StorageFeedback(name=name, memory="private", nbytes=bytes_of(temporary))
