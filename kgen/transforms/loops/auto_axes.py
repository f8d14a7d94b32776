"""Assignment of local axes to loops tagged ``l.auto``."""

from __future__ import annotations

from collections.abc import Collection

from pytools.tag import Tag

from kgen.analysis.steps import cyclic_values
from kgen.analysis.strides import unit_stride_scores
from kgen.ir.data import Iname
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import BasicSet, Set, dim_names, from_named, to_named
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.sets.interval import Interval
from kgen.ir.tags import AutoFitLocalInameTag, LocalInameTag
from kgen.transforms.loops.split import split_iname
from kgen.transforms.select import new_names

#: Hardware has three local axes.
MAX_AXES = 3


def assign_auto_axes(kernel: LoopKernel, among: Collection[str] | None = None) -> LoopKernel:
    """Give each loop tagged ``l.auto``, or those *among* them, a local axis, or make it plain.

    The loop that steps through adjacent elements gets the lowest free axis, so that
    neighbouring work-items touch neighbouring elements; then come those that keep most
    work-items busy. Of a loop that is longer than an axis that others have sized, work-items
    take every size-th iteration. An axis that nothing has is for kernels all of whose
    instructions are in such loops: work-items along it would repeat the others.

    ::

        for r: l.auto            for r, r_start: l.0
          t[r] = a[r]      =>      t[r] = a[r]          # r = r_start, r_start + 16, ...
        end r                    end r, r_start
    """
    names = kernel.inames if among is None else among
    waiting = [
        name
        for name in kernel.inames
        if name in names and kernel.has_tag(name, AutoFitLocalInameTag)
    ]
    return _Fit(kernel, waiting).fitted() if waiting else kernel


class _Fit:
    """Decides for one loop after another, and applies all decisions in one new kernel."""

    def __init__(self, kernel: LoopKernel, waiting: list[str]) -> None:
        self.kernel = kernel
        self.waiting = dict.fromkeys(waiting)
        self._intervals: dict[Set, Interval] = {}
        self.bounds = {name: self._interval(name) for name in waiting}
        #: the axes of the loops around each instruction, and their sizes
        self.taken: dict[str, set[int]] = {}
        self.sizes: dict[int, int] = {}
        self.axes: dict[str, int] = {}
        self.strided: dict[str, int] = {}
        for name in kernel.inames:
            for tag in kernel.iname_tags_of_type(name, LocalInameTag):
                self._take(name, tag.axis, self._interval(name).count or 0)

    def _interval(self, name: str) -> Interval:
        """Return the constant bounds of a loop, computed once for equal domains."""
        domain = self.kernel.domain_of((name,))
        if domain not in self._intervals:
            self._intervals[domain] = self.kernel.get_iname_bounds(name).interval
        return self._intervals[domain]

    def _take(self, name: str, axis: int, extent: int) -> None:
        if extent:
            self.sizes[axis] = max(self.sizes.get(axis, 0), extent)
        for insn_id in self.kernel.iname_to_insns()[name]:
            self.taken.setdefault(insn_id, set()).add(axis)

    def fitted(self) -> LoopKernel:
        """Decide for all loops, jointly for loops around the same instructions."""
        kernel = self.kernel
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in self.waiting:
            groups.setdefault(tuple(sorted(kernel.iname_to_insns()[name])), []).append(name)
        scores: dict[str, int] = {}
        for insn_ids, names in groups.items():
            found = unit_stride_scores(kernel, insn_ids)
            scores.update((name, found.get(name, 0)) for name in names)
        by_score = sorted(groups.values(), key=lambda names: -max(scores[n] for n in names))
        for names in by_score:
            while names:
                best = min(names, key=lambda n: (-scores[n], -self._busy(n), kernel.iname_order[n]))
                names.remove(best)
                self._decide(best)
        return self._changed()

    def _busy(self, name: str) -> float:
        """Return how many work-items are at work on average on the next axis."""
        count, axis = self.bounds[name].count, self._free_axis(name)
        size = None if axis is None else self.sizes.get(axis)
        if count is None or size is None:
            return 0
        return count / -(-count // size)

    def _decide(self, name: str) -> None:
        count, axis = self.bounds[name].count, self._free_axis(name)
        all_wait = self.kernel.all_are_in(self.waiting)
        del self.waiting[name]
        if axis is None or count is None:
            return
        size = self.sizes.get(axis)
        if size is not None and count > size:
            self.strided[name] = axis
        elif size is not None or all_wait:
            self.axes[name] = axis
        else:
            return
        self._take(name, axis, count if size is None else 0)

    def _free_axis(self, name: str) -> int | None:
        """Return the lowest local axis that no loop around the same instructions has."""
        used = {
            axis
            for insn_id in self.kernel.iname_to_insns()[name]
            for axis in self.taken.get(insn_id, ())
        }
        return next((axis for axis in range(MAX_AXES) if axis not in used), None)

    def _changed(self) -> LoopKernel:
        """Replace ``l.auto`` by axes, or by nothing, or share a loop in strides."""
        kernel = self.kernel
        names = new_names(kernel)
        inames, domains = dict(kernel.inames), list(kernel.domains)
        starts: dict[str, str] = {}
        split: dict[str, Tag] = {}
        for name, bounds in self.bounds.items():
            (auto,) = kernel.iname_tags_of_type(name, AutoFitLocalInameTag)
            tags = set(inames[name].tags) - {auto}
            if name in self.axes:
                tags.add(LocalInameTag(self.axes[name]))
            inames[name] = Iname(name, frozenset(tags))
            if name in self.strided and auto.outer is not None:
                split[name] = auto.outer
            elif name in self.strided:
                assert bounds.low is not None
                axis, home = self.strided[name], kernel.home_domain[name]
                start = starts[name] = names(f"{name}_start")
                size = self.sizes[axis]
                domains[home] = _shared(domains[home], name, start, bounds.low, size)
                inames[start] = Iname(start, frozenset((LocalInameTag(axis),)))
        instructions = kernel.instructions
        if starts:
            instructions = tuple(
                insn.copy(
                    within_inames=insn.within_inames
                    | {start for name, start in starts.items() if name in insn.within_inames}
                )
                if not insn.within_inames.isdisjoint(starts)
                else insn
                for insn in instructions
            )
        result = kernel.copy(inames=inames, domains=tuple(domains), instructions=instructions)
        for name, tag in split.items():  # a loop over strides with a tag is one of its own
            axis = self.strided[name]
            inner = LocalInameTag(axis)
            result = split_iname(result, name, self.sizes[axis], outer_tag=tag, inner_tag=inner)
        return result


def _shared(domain: BasicSet, name: str, start: str, lower: int, size: int) -> BasicSet:
    """Share a loop among *size* work-items: ``for (name = lower + lid; ...; name += size)``."""
    steps = to_named(domain).intersect(to_named(cyclic_values(name, start, lower, size)))
    return as_basic_set(from_named(steps, (*dim_names(domain), start)))
