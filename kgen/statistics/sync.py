"""Counts of barriers and launches, from the schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgen.analysis.access import Place
from kgen.analysis.axes import has_axes
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import dims_to_params
from kgen.ir.tags import GroupInameTag
from kgen.ir.tree import Barrier, children_of
from kgen.ir.types import Reach
from kgen.ir.unit import TranslationUnit
from kgen.lowering import is_cooperative, schedule_prepared
from kgen.schedule.tree import Bind, HostLoop, Launch, Loop, Node, Step
from kgen.statistics.countmap import Keys, ToCountPolynomialMap
from kgen.statistics.descriptors import CountGranularity, Sync
from kgen.statistics.interval import Interval
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.runs import Count, Runs, SubgroupSize, resolve_subgroup_size

__all__ = ["get_synchronization_map"]


@checked
def get_synchronization_map(
    program: TranslationUnit | LoopKernel,
    subgroup_size: SubgroupSize = None,
    entrypoint: str | None = None,
) -> ToCountPolynomialMap:
    """Count the barriers that each work-item reaches, and the launches of the kernel.

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]")
    >>> print(get_synchronization_map(lp.add_dtypes(knl, {"a": np.float32})))
    Sync(kernel_launch, kgen_kernel): [n] -> { 1 }

    If work-groups may reach different numbers of barriers, the count is an interval. Launches
    do not depend on work-items, so *subgroup_size* has no effect.
    """
    kernel = prepared_kernel(program, entrypoint)
    if subgroup_size is not None:
        resolve_subgroup_size(kernel, subgroup_size)  # rejects what is no size
    kernel, schedule = schedule_prepared(kernel, has_axes=has_axes(kernel))
    counter = _SyncCounter(kernel)
    counter.look_into_steps(schedule.steps, ())
    if is_cooperative(kernel, schedule):
        counter.count_one_launch()
    known = Keys.of(Sync, kernel_name=(kernel.name,))
    return ToCountPolynomialMap.of(counter.found, counter.runs.space, known)


class _SyncCounter:
    """Sums the synchronizations of a schedule."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.runs = Runs(kernel, 1)
        self.found: list[tuple[Sync, Any]] = []

    def look_into_steps(self, steps: Iterable[Step], loops: tuple[str, ...]) -> None:
        """Count launches and their contents, inside loops on the host."""
        for step in steps:
            if isinstance(step, HostLoop):
                self.look_into_steps(step.steps, (*loops, step.iname))
            else:
                self._launch(step, loops)

    def count_one_launch(self) -> None:
        """Count one launch, which replaces those that global barriers would end."""
        self.found = [(sync, often) for sync, often in self.found if sync.kind != "kernel_launch"]
        self._add("kernel_launch", (), ())

    def _launch(self, launch: Launch, loops: tuple[str, ...]) -> None:
        if launch.barriers:
            self._add("barrier_global", loops, ())
        self._add("kernel_launch", loops, ())
        self._look_into(launch.body, loops, ())

    def _look_into(self, node: Node, loops: tuple[str, ...], groups: tuple[str, ...]) -> None:
        match node:
            case Barrier():
                kind = "barrier_warp" if node.reach is Reach.WARP else "barrier_local"
                self._add(kind, loops, groups)
            case Loop():
                loops = (*loops, node.iname)
            case Bind():
                axes = (n for n, _ in node.axes if self.kernel.has_tag(n, GroupInameTag))
                groups = (*groups, *axes)
        for child in children_of(node):
            self._look_into(child, loops, groups)

    def _add(self, kind: str, loops: tuple[str, ...], groups: tuple[str, ...]) -> None:
        self.found.append((Sync(kind, self.kernel.name), self._trips(loops, groups)))

    def _trips(self, loops: tuple[str, ...], groups: tuple[str, ...]) -> Count:
        """Return how often one work-item executes the contents of *loops*."""
        place = Place(self.kernel.in_order(loops))
        often = self.runs.at(place, CountGranularity.WORKITEM)
        if not loops or not groups or isinstance(often, Interval):
            return often
        of_all = self.kernel.domain_of(place.inames)
        of_one = self.kernel.domain_of((*place.inames, *groups))
        of_one = dims_to_params(of_one, groups)
        same = of_all.align_params(of_one.get_space()).intersect_params(of_one.params())
        if same.is_equal(of_one):
            return often
        reason = f"the work-groups of '{groups[0]}' do not all run '{loops[-1]}' equally often"
        return Interval(often * 0, often, (reason,))
