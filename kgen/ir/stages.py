"""Types of the stages of a kernel during lowering."""

from __future__ import annotations

from typing import NewType

from kgen.ir.kernel import LoopKernel

__all__ = ["DeviceKernel", "PreparedKernel"]

#: A kernel that can be scheduled: rules expanded, types, shapes and address spaces known,
#: reductions made loops. Only :func:`kgen.lowering.prepare` makes one; a changed copy is a
#: ``LoopKernel`` again.
PreparedKernel = NewType("PreparedKernel", LoopKernel)

#: What the launches of a scheduled kernel run: the variables of loops on the host are arguments
#: there. :func:`kgen.schedule.host.on_device` makes one of a prepared kernel.
DeviceKernel = NewType("DeviceKernel", PreparedKernel)
