"""Local axes for loops tagged ``l.auto``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pymbolic.primitives as p
from pytools import UniqueNameGenerator

from kgen.analysis.steps import in_steps
from kgen.analysis.strides import unit_stride_scores
from kgen.ir.data import Iname
from kgen.ir.domain import constant_bounds
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AutoFitLocalInameTag, LocalInameTag
from kgen.transforms.rewrite import Replacement, replace_in_domains, replace_inames
from kgen.transforms.select import matcher, taken_names

#: Hardware has three local axes.
MAX_AXES = 3


def assign_auto_axes(kernel: LoopKernel) -> LoopKernel:
    """Give each loop tagged ``l.auto`` a local axis, or make it a plain loop.

    The loop that steps through adjacent elements gets the lowest free axis, so that
    neighbouring work-items touch neighbouring elements. A loop that is longer than an axis
    that others have sized is split: work-items take its elements in strides. An axis that
    nothing has is for kernels all of whose instructions are in such loops: work-items along
    it would repeat the others.
    """
    waiting = [name for name in kernel.inames if kernel.has_tag(name, AutoFitLocalInameTag)]
    if not waiting:
        return kernel
    scores = {
        name: unit_stride_scores(kernel, sorted(kernel.iname_to_insns()[name])).get(name, 0)
        for name in waiting
    }
    waiting.sort(key=lambda name: (-scores[name], kernel.iname_order[name]))
    for iname in waiting:
        kernel = _assign(kernel, iname)
    return kernel


def _assign(kernel: LoopKernel, iname: str) -> LoopKernel:
    bounds = _bounds(kernel, iname)
    axis = _free_axis(kernel, iname)
    if axis is None or bounds is None:
        return _tagged(kernel, iname, None)
    size = _axis_size(kernel, axis)
    if size is None:
        return _tagged(kernel, iname, axis if _all_wait(kernel) else None)
    if bounds.extent <= size:
        return _tagged(kernel, iname, axis)
    return _strided(_tagged(kernel, iname, None), iname, bounds.lower, size, axis)


def _all_wait(kernel: LoopKernel) -> bool:
    """Tell whether all instructions are in loops without an axis yet: none misses a new axis."""
    waiting = {name for name in kernel.inames if kernel.has_tag(name, AutoFitLocalInameTag)}
    return not any(
        insn.assignees and insn.within_inames.isdisjoint(waiting) for insn in kernel.instructions
    )


def _strided(kernel: LoopKernel, iname: str, lower: int, size: int, axis: int) -> LoopKernel:
    """Share a loop among *size* work-items: ``iname = inner + outer``, outer in steps of *size*.

    That an element counts its steps in elements keeps divisions out of the loop's bounds.
    """
    names = UniqueNameGenerator(set(taken_names(kernel)))
    outer, inner = names(f"{iname}_outer"), names(f"{iname}_inner")
    value = p.Sum((p.Variable(inner), p.Variable(outer)))
    change = Replacement({iname: value}, (outer, inner))
    new_domains = partial(
        replace_in_domains,
        kernel,
        change,
        positive=[{inner: 1}, {inner: -1, 1: size - 1}, {outer: 1, 1: -lower}],
        valid=in_steps(outer, lower, size),
    )
    tags = {inner: frozenset((LocalInameTag(axis),))}
    return replace_inames(kernel, change, new_domains, matcher(kernel, None), tags)


def _tagged(kernel: LoopKernel, iname: str, axis: int | None) -> LoopKernel:
    """Replace ``l.auto`` by an axis, or by nothing."""
    tags = {tag for tag in kernel.inames[iname].tags if not isinstance(tag, AutoFitLocalInameTag)}
    if axis is not None:
        tags.add(LocalInameTag(axis))
    return kernel.copy(inames={**kernel.inames, iname: Iname(iname, frozenset(tags))})


@dataclass(frozen=True)
class _Bounds:
    lower: int
    extent: int


def _bounds(kernel: LoopKernel, iname: str) -> _Bounds | None:
    """Return the least value of a loop and the number of values, where they are constants."""
    domain = kernel.get_inames_domain((iname,)).intersect_params(kernel.assumptions)
    low, high = constant_bounds(domain, iname)
    return None if low is None or high is None else _Bounds(low, high - low + 1)


def _free_axis(kernel: LoopKernel, iname: str) -> int | None:
    """Return the lowest local axis that no loop around the same instructions has."""
    used = {
        tag.axis
        for insn_id in kernel.iname_to_insns()[iname]
        for other in kernel.id_to_insn[insn_id].within_inames
        for tag in kernel.iname_tags_of_type(other, LocalInameTag)
    }
    return next((axis for axis in range(MAX_AXES) if axis not in used), None)


def _axis_size(kernel: LoopKernel, axis: int) -> int | None:
    """Return the size that loops tagged with *axis* give it, if there are any."""
    found = [
        _bounds(kernel, name)
        for name in kernel.inames
        if LocalInameTag(axis) in kernel.inames[name].tags
    ]
    return max((bounds.extent for bounds in found if bounds is not None), default=None)
