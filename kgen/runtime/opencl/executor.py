"""Calls of kernels in OpenCL queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyopencl as cl

from kgen.errors import CodegenError, InvocationError
from kgen.ir.data import ImageArg
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.runtime.bound import Calls, RecordingBuilder
from kgen.runtime.executor import ExecutorBase, remember
from kgen.runtime.opencl.images import with_images
from kgen.runtime.opencl.program import check_group_size, is_pocl, load_program
from kgen.runtime.opencl.wrapper import OpenCLRecordingBuilder, OpenCLWrapperBuilder
from kgen.runtime.wrapper import WrapperBuilder
from kgen.targets.module import Module
from kgen.targets.opencl import HALF_EXTENSION, sub_groups_of_device
from kgen.targets.pocl import pocl_options, with_double_barriers

__all__ = ["OpenCLExecutor", "executor_for"]


def executor_for(
    memo: dict[Any, Any], unit: TranslationUnit, entrypoint: str, *args: Any
) -> OpenCLExecutor:
    """Return the executor of *entrypoint* in a context, or in the context of a queue."""
    if len(args) != 1 or not isinstance(args[0], cl.CommandQueue | cl.Context):
        raise InvocationError(
            "an OpenCL kernel runs in a queue",
            kernel=entrypoint,
            hint="knl(queue, ...), or knl.executor(queue_or_context)(queue, ...)",
        )
    context = args[0].context if isinstance(args[0], cl.CommandQueue) else args[0]
    return remember(memo, (entrypoint, context), lambda: OpenCLExecutor(unit, entrypoint, context))


def _suited(target: TargetBase, devices: Sequence[cl.Device]) -> TargetBase:
    """Return the target adapted to the features of a context's devices."""
    if any(map(is_pocl, devices)):
        target = target.having(suits_pocl=True)
    size = target.exchange_width
    if size is not None and not all(size in sub_groups_of_device(device) for device in devices):
        target = target.having(sub_group_size=None)
    return target


class OpenCLExecutor(ExecutorBase):
    """Runs a kernel in an OpenCL context: ``evt, (out,) = knl(queue, a=x)``.

    * ``wait_for``: events that the kernel waits for. Those of arrays are always among them,
      unless the option ``cl_exec_manage_array_events`` is off
    * ``allocator``: called with a number of bytes; makes the memory of outputs that are not
      passed, and of temporaries
    * ``out_host``: return outputs as numpy arrays; ``None``: if numpy arrays and no device
      arrays were passed. A numpy array that is passed for an output is filled and returned,
      unless ``out_host=False`` asks for the device's array instead
    """

    positional = OpenCLWrapperBuilder.positional
    optional = OpenCLWrapperBuilder.optional

    def __init__(
        self, unit: TranslationUnit, entrypoint: str, context: cl.Context, **more: Any
    ) -> None:
        target = _suited(unit.target, context.devices)
        if target is not unit.target:
            unit = unit.copy(target=target)
        super().__init__(unit, entrypoint, context, **more)

    def _call_with(self, invoke: Callable[..., Any]) -> None:
        images = frozenset(arg.name for arg in self.kernel.args if isinstance(arg, ImageArg))
        super()._call_with(with_images(self.entrypoint, images, invoke) if images else invoke)

    def leading_arguments(self) -> tuple[Any, ...]:
        """Return a new queue of the executor's context, which records times."""
        properties = cl.command_queue_properties.PROFILING_ENABLE
        return (cl.CommandQueue(self.context, properties=properties),)

    def mark(self, *leading: Any) -> cl.Event:
        (queue,) = leading
        marker: cl.Event = cl.enqueue_marker(queue)
        marker.wait()
        return marker

    def seconds_since(self, mark: cl.Event, event: cl.Event) -> float:
        event.wait()
        return 1e-9 * float(event.profile.end - mark.profile.end)

    def seconds_of(self, event: cl.Event) -> float | None:
        return 1e-9 * float(event.profile.end - event.profile.start)

    def compile(self, module: Module, source: str) -> cl.Program:
        flags = (*module.build_options, *self.kernel.options.build_options)
        if f" {HALF_EXTENSION}:" in module.preamble:
            self._require_half()
        target = self.kernel.target
        if target.suits_pocl:
            source = with_double_barriers(source)
            flags += pocl_options(module)
        program = load_program(self.caches.disk, self.context, source, flags, self.entrypoint)
        for launch in module.launches:
            check_group_size(self.context, program, launch)
        return program

    def _require_half(self) -> None:
        """Reject devices that cannot compute with numbers of 16 bits."""
        for device in self.context.devices:
            if HALF_EXTENSION not in device.extensions.split():
                raise CodegenError(
                    f"device '{device.name}' has no arithmetic of float16",
                    kernel=self.entrypoint,
                    because=f"it lacks the extension {HALF_EXTENSION}",
                    hint="declare the arrays float32, or run on the host or on CUDA",
                )

    @property
    def builders(self) -> tuple[type[WrapperBuilder], type[RecordingBuilder]]:
        return OpenCLWrapperBuilder, OpenCLRecordingBuilder

    def launcher(self, calls: Calls, *args: Any) -> Callable[..., Any]:
        (own_queue,) = args

        def launch(queue: Any = None, wait_for: Any = None) -> cl.Event:
            queue = own_queue if queue is None else queue
            event = None
            for function, arguments in calls:
                event = function(queue, *arguments, None, wait_for)
                wait_for = [event]
            return cl.enqueue_marker(queue, wait_for) if event is None else event

        return launch

    def _check_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super()._check_call(args, kwargs)
        (queue,) = args
        if not isinstance(queue, cl.CommandQueue):
            self._reject(
                f"an OpenCL kernel runs in a queue, not in {queue!r}",
                hint="pass a queue: pyopencl.CommandQueue(context)",
            )
        if queue.context != self.context:
            self._reject(
                "the queue is of another context than the executor",
                hint="knl.executor(queue) makes one for the queue's context",
            )
