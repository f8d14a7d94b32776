"""Types of the stages of a kernel during lowering."""

from __future__ import annotations

from typing import NewType

from kgen.ir.kernel import LoopKernel

__all__ = ["DeviceKernel", "PreparedKernel"]

#: A kernel that can be scheduled: rules expanded, types, shapes and address spaces known,
#: reductions lowered to loops. Only :func:`kgen.lowering.prepare` makes one; a changed copy is a
#: ``LoopKernel`` again.
PreparedKernel = NewType("PreparedKernel", LoopKernel)

#: The kernel that the launches of a schedule run: in it, host loop variables are arguments.
#: :func:`kgen.schedule.host.on_device` makes one of a prepared kernel.
DeviceKernel = NewType("DeviceKernel", PreparedKernel)
