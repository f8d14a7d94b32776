"""Local axes for loops tagged ``l.auto``."""

from __future__ import annotations

from kgen.analysis.strides import unit_stride_scores
from kgen.ir.data import Iname
from kgen.ir.domain import constant_bounds
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import AutoFitLocalInameTag, LocalInameTag
from kgen.transforms.split import split_iname

#: Hardware has three local axes.
MAX_AXES = 3


def assign_auto_axes(kernel: LoopKernel) -> LoopKernel:
    """Give each loop tagged ``l.auto`` a local axis, or make it a plain loop.

    The loop that steps through adjacent elements gets the lowest free axis, so that
    neighbouring work-items touch neighbouring elements. A loop that is longer than an axis
    that others have sized is split: work-items take its elements in strides.
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
    extent = _extent(kernel, iname)
    axis = _free_axis(kernel, iname)
    if axis is None or extent is None:
        return _tagged(kernel, iname, None)
    size = _axis_size(kernel, axis)
    if size is None or extent <= size:
        return _tagged(kernel, iname, axis)
    split = split_iname(
        _tagged(kernel, iname, None), iname, size, inner_tag=LocalInameTag(axis)
    )
    assert isinstance(split, LoopKernel)
    return split


def _tagged(kernel: LoopKernel, iname: str, axis: int | None) -> LoopKernel:
    """Replace ``l.auto`` by an axis, or by nothing."""
    tags = {tag for tag in kernel.inames[iname].tags if not isinstance(tag, AutoFitLocalInameTag)}
    if axis is not None:
        tags.add(LocalInameTag(axis))
    return kernel.copy(inames={**kernel.inames, iname: Iname(iname, frozenset(tags))})


def _extent(kernel: LoopKernel, iname: str) -> int | None:
    domain = kernel.get_inames_domain((iname,)).intersect_params(kernel.assumptions)
    low, high = constant_bounds(domain, iname)
    return None if low is None or high is None else high - low + 1


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
    extents = [
        _extent(kernel, name)
        for name in kernel.inames
        if LocalInameTag(axis) in kernel.inames[name].tags
    ]
    known = [extent for extent in extents if extent is not None]
    return max(known, default=None)
