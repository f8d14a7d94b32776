"""Whether loops with the tags of axes run on hardware axes of the kernel's target."""

from __future__ import annotations

from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import GroupInameTag

__all__ = ["has_axes", "has_item_loops"]


def has_axes(kernel: LoopKernel) -> bool:
    """Tell whether loops of the kernel run on hardware axes; otherwise, they are ordinary loops.

    If there are work-groups but no work-items, this requires a loop on a group axis.
    """
    if not kernel.target.has_hardware_axes:
        return False
    has_groups = any(kernel.has_tag(name, GroupInameTag) for name in kernel.inames)
    return has_groups or not has_item_loops(kernel)


def has_item_loops(kernel: LoopKernel) -> bool:
    """Tell whether work-items are loops on the kernel's target."""
    return not kernel.target.has_work_items
