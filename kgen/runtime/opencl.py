"""OpenCL: programs from disk, calls with device arrays and numpy arrays. The user of pyopencl."""

from __future__ import annotations

import ast
import math
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from kgen.errors import CodegenError, CompilationError, InvocationError, message
from kgen.ir.expr import Expr
from kgen.ir.unit import TranslationUnit
from kgen.runtime.arguments import Contract
from kgen.runtime.cache import DiskCache, content_key
from kgen.runtime.executor import ExecutorBase, remember
from kgen.runtime.pyast import (
    PREFIX,
    all_of,
    any_of,
    assign,
    attribute,
    builtin,
    call,
    const,
    do,
    from_expr,
    if_,
    name,
    negate,
    return_,
    tuple_,
)
from kgen.runtime.strided import copy_layout, extent_in_bytes, memory_of
from kgen.runtime.wrapper import WrapperBuilder
from kgen.targets.module import ArgumentInfo, Launch, Module

__all__ = ["OpenCLExecutor", "executor_for"]

EVENT: Final = PREFIX + "event"


def executor_for(
    memo: dict[Any, Any], unit: TranslationUnit, entrypoint: str, *args: Any
) -> OpenCLExecutor:
    """Return what runs *entrypoint* in the context of a queue, or in the context that is given."""
    if len(args) != 1 or not isinstance(args[0], cl.CommandQueue | cl.Context):
        raise InvocationError(
            message(
                "an OpenCL kernel runs in a queue",
                kernel=entrypoint,
                hint="knl(queue, ...), or knl.executor(queue_or_context)(queue, ...)",
            )
        )
    context = args[0].context if isinstance(args[0], cl.CommandQueue) else args[0]
    return remember(memo, (entrypoint, context), lambda: OpenCLExecutor(unit, entrypoint, context))


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """A program, and the lock of its kernels: arguments are set and launched as one act."""

    program: cl.Program
    lock: threading.Lock


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

    positional: ClassVar[tuple[str, ...]] = ("queue",)
    optional: ClassVar[tuple[str, ...]] = ("allocator", "wait_for", "out_host")

    def __init__(
        self, unit: TranslationUnit, entrypoint: str, context: cl.Context, **more: Any
    ) -> None:
        super().__init__(unit, entrypoint, **more)
        self.context = context

    def compile(self, module: Module, source: str) -> _Compiled:
        flags = (*module.build_options, *self.kernel.options.build_options)
        program = load_program(self.caches.disk, self.context, source, flags, self.entrypoint)
        for launch in module.launches:
            check_group_size(self.context, program, launch)
        return _Compiled(program=program, lock=threading.Lock())

    def builder(self, compiled: _Compiled) -> Callable[..., WrapperBuilder]:
        return partial(OpenCLWrapperBuilder, compiled)

    def _check_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super()._check_call(args, kwargs)
        (queue,) = args
        if not isinstance(queue, cl.CommandQueue):
            self._refuse(
                f"an OpenCL kernel runs in a queue, not in a {type(queue).__name__}",
                hint="executor(queue, ...)",
            )
        if queue.context != self.context:
            self._refuse(
                "the queue is of another context than the executor",
                hint="knl.executor(queue) makes one for the queue's context",
            )


# -- compiling --------------------------------------------------------------------------------


def load_program(
    disk: DiskCache, context: cl.Context, source: str, flags: tuple[str, ...], kernel: str
) -> cl.Program:
    """Return the built *source* for all devices of a context, from *disk* if it is there."""
    devices = context.devices
    keys = [content_key("opencl", source, *_identity(device), *flags) for device in devices]
    binaries = [disk.load(key) for key in keys]
    if None not in binaries:
        try:
            return cl.Program(context, devices, binaries).build(list(flags))
        except cl.Error:  # a driver that rejects what it made itself: build anew
            pass
    try:
        program = cl.Program(context, source).build(list(flags))
    except cl.RuntimeError as error:
        kept = Path(tempfile.mkdtemp(prefix="kgen-failed-")) / "kernel.cl"
        kept.write_text(source)
        raise CompilationError(
            message(
                f"the OpenCL compiler refuses the generated code ({kept})",
                kernel=kernel,
                because=str(error),
            )
        ) from None
    built = dict(
        zip(
            program.get_info(cl.program_info.DEVICES),
            program.get_info(cl.program_info.BINARIES),
            strict=True,
        )
    )
    for key, device in zip(keys, devices, strict=True):
        if built.get(device):
            disk.store(key, built[device])
    return program


def _identity(device: cl.Device) -> tuple[str, ...]:
    """Describe what code for a device depends on."""
    platform = device.platform
    return (
        platform.name,
        platform.version,
        device.vendor,
        device.name,
        device.version,
        device.driver_version,
    )


def check_group_size(context: cl.Context, program: cl.Program, launch: Launch) -> None:
    """Refuse work-groups that no device of the context has room for."""
    kernel = cl.Kernel(program, launch.function)
    query = cl.kernel_work_group_info.WORK_GROUP_SIZE
    limit = max(kernel.get_work_group_info(query, device) for device in context.devices)
    if math.prod(launch.locals) > limit:
        raise CodegenError(
            message(
                f"work-groups of {math.prod(launch.locals)} work-items {launch.locals} are too "
                "large for the device",
                kernel=launch.function,
                because=f"it runs at most {limit} work-items of this kernel in a group",
                hint="split the loops that have the tags l.0, l.1, l.2 into smaller pieces",
            )
        )


# -- calling ----------------------------------------------------------------------------------


class OpenCLWrapperBuilder(WrapperBuilder):
    """Builds wrappers that launch kernels on device arrays."""

    positional = OpenCLExecutor.positional
    optional = OpenCLExecutor.optional

    def __init__(self, compiled: _Compiled, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.compiled = compiled

    def run(self) -> list[ast.stmt]:
        return [
            *self.go_through_host(),
            *self.make_outputs(),
            *(assign(arg.name, self.allocate_memory(arg)) for arg in self.contract.temporaries),
            *self.check_offsets(),
            *self.gather_events(),
            *self.launch(),
            *self.record_events(),
            self.make_result(name(EVENT)),
        ]

    # -- numpy arrays -----------------------------------------------------------------------

    def go_through_host(self) -> list[ast.stmt]:
        """Leave calls with numpy arrays, or for numpy arrays, to the slow way."""
        if self.options.no_numpy and self.options.skip_arg_checks:
            return []
        device_array = self.known("Array", cla.Array)
        tests: list[ast.expr] = []
        for arg in self.contract.arrays:
            is_other = negate(call(builtin("isinstance"), name(arg.name), device_array))
            if not self.contract.is_required_array(arg):
                is_other = all_of([self.is_given(arg.name), is_other])
            tests.append(is_other)
        slow_way = partial(
            call_through_host, self.other_function, self.contract, self.options.no_numpy
        )
        arguments = {text: name(text) for text in self.optional}
        arguments |= {arg.name: name(arg.name) for arg in self.contract.passed}
        called = call(self.known("through_host", slow_way), name("queue"), **arguments)
        return [if_(any_of([*tests, name("out_host")]), [return_(called)])]

    # -- memory -----------------------------------------------------------------------------

    def allocate(self, arg: ArgumentInfo) -> ast.expr:
        function = self.known("new_array", new_array)
        layout = (self.shape_of(arg), self.strides_of(arg), self.dtype(arg.dtype))
        return call(function, name("queue"), name("allocator"), *layout)

    def allocate_memory(self, arg: ArgumentInfo) -> ast.expr:
        """Return the expression that makes the memory of a temporary."""
        function = self.known("new_memory", new_memory)
        layout = (self.shape_of(arg), self.strides_of(arg), const(arg.dtype.itemsize))
        return call(function, name("queue"), name("allocator"), *layout)

    def check_offsets(self) -> list[ast.stmt]:
        """Refuse arrays that begin where the kernel's code does not look for them."""
        if self.options.skip_arg_checks:
            return []
        tests: list[ast.expr] = []
        for arg in self.contract.arrays:
            offset = attribute(name(arg.name), "offset")
            if arg.offset is not None:
                offset = ast.BinOp(offset, ast.Mod(), const(arg.dtype.itemsize))
            tests.append(offset)
        return [if_(any_of(tests), self.refuse())] if tests else []

    def pass_array(self, arg: ArgumentInfo) -> ast.expr:
        array = name(arg.name)
        return array if arg.is_temporary else attribute(array, "base_data")

    def pass_offset(self, arg: ArgumentInfo) -> ast.expr:
        if arg.is_temporary:
            return const(0)
        offset = attribute(name(arg.name), "offset")
        return ast.BinOp(offset, ast.FloorDiv(), const(arg.dtype.itemsize))

    # -- events -----------------------------------------------------------------------------

    def gather_events(self) -> list[ast.stmt]:
        """Wait for what the arrays wait for: ``wait_for = [*wait_for, *a.events]``."""
        if not self.options.cl_exec_manage_array_events or not self.contract.arrays:
            return []
        body: list[ast.stmt] = []
        for arg in self.contract.outputs:
            count = call(builtin("len"), attribute(name(arg.name), "events"))
            body.append(assign(_n_events(arg), count))
        parts = [attribute(name(arg.name), "events") for arg in self.contract.arrays]
        own = ast.BoolOp(ast.Or(), [name("wait_for"), ast.Tuple([], ast.Load())])
        starred: list[ast.expr] = [ast.Starred(part, ast.Load()) for part in (own, *parts)]
        return [*body, assign("wait_for", ast.List(starred, ast.Load()))]

    def record_events(self) -> list[ast.stmt]:
        """Make the written arrays wait for this launch.

        What they waited for before is part of that now; without taking it off their lists
        these would grow, until pyopencl waits on the host for the oldest.
        """
        if not self.options.cl_exec_manage_array_events:
            return []
        body: list[ast.stmt] = []
        for arg in self.contract.outputs:
            waited_for = ast.Subscript(
                attribute(name(arg.name), "events"),
                ast.Slice(None, name(_n_events(arg))),
                ast.Del(),
            )
            body.append(ast.Delete([waited_for]))
            body.append(do(call(attribute(name(arg.name), "add_event"), name(EVENT))))
        return body

    # -- launches ---------------------------------------------------------------------------

    def launch(self) -> list[ast.stmt]:
        """Enqueue all functions, each after the one before."""
        body: list[ast.stmt] = []
        for number, launch in enumerate(self.module.launches):
            body += self.launch_one(number, launch)
        lock = ast.withitem(self.known("lock", self.compiled.lock))
        return [ast.With([lock], body)]

    def launch_one(self, number: int, launch: Launch) -> list[ast.stmt]:
        kernel = cl.Kernel(self.compiled.program, launch.function)
        types = [self.contract.parameter_dtype(text) for text in launch.parameters]
        kernel.set_scalar_arg_dtypes(types)
        local = launch.locals or (1,)
        groups: tuple[Expr, ...] = (*launch.groups, *(1 for _ in local[len(launch.groups) :]))
        local = (*local, *(1 for _ in groups[len(local) :]))
        size = tuple_(from_expr(g * n) for g, n in zip(groups, local, strict=True))
        wait_for: ast.expr = name("wait_for")
        if number:
            wait_for = ast.List([name(EVENT)], ast.Load())
        enqueued = call(
            self.known(f"kernel{number}", kernel),
            name("queue"),
            size,
            self.known(f"local{number}", local),
            *map(self.pass_parameter, launch.parameters),
            wait_for=wait_for,
        )
        enqueue = assign(EVENT, enqueued)
        is_launched = self.is_launched(launch)
        if is_launched is None:
            return [enqueue]
        marker = call(self.known("marker", cl.enqueue_marker), name("queue"), wait_for)
        return [if_(is_launched, [enqueue], [assign(EVENT, marker)])]


def _n_events(arg: ArgumentInfo) -> str:
    return f"{PREFIX}n_events_{arg.name}"


# -- device memory ----------------------------------------------------------------------------


def new_memory(
    queue: cl.CommandQueue,
    allocator: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    itemsize: int,
) -> Any:
    """Return memory for an array of the given layout, or ``None`` if it is empty."""
    n_bytes = extent_in_bytes(shape, strides, itemsize)
    if n_bytes == 0:
        return None
    if allocator is None:
        return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, n_bytes)
    return allocator(n_bytes)


def new_array(
    queue: cl.CommandQueue,
    allocator: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
) -> cla.Array:
    """Return a device array of the given layout, its content undefined."""
    return _array_on(
        queue,
        new_memory(queue, allocator, shape, strides, dtype.itemsize),
        allocator,
        shape,
        strides,
        dtype,
    )


def _array_on(
    queue: cl.CommandQueue,
    memory: Any,
    allocator: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int = 0,
) -> cla.Array:
    # The constructor's checks take 12 us; nothing here needs them.
    return cla.Array(
        None,
        shape,
        dtype,
        allocator=allocator,
        data=memory,
        offset=offset,
        strides=strides,
        _fast=True,
        _size=math.prod(shape),
        _context=queue.context,
        _queue=queue,
    )


def upload(queue: cl.CommandQueue, array: np.ndarray[Any, Any], allocator: Any) -> cla.Array:
    """Copy a numpy array to the device, with its strides."""
    flat, offset = memory_of(array)
    memory = new_memory(queue, allocator, flat.shape, (1,), 1)
    if memory is not None:
        cl.enqueue_copy(queue, memory, flat)
    return _array_on(queue, memory, allocator, array.shape, array.strides, array.dtype, offset)


def download(
    queue: cl.CommandQueue, array: cla.Array, target: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any]:
    """Copy a device array to *target*, by default a new numpy array; wait for it."""
    flat, view, first = copy_layout(array.shape, array.strides, array.dtype)
    if flat.size:
        start = array.offset - first
        cl.enqueue_copy(queue, flat, array.base_data, src_offset=start, wait_for=array.events)
    if target is None:
        return view
    target[...] = view
    return target


def call_through_host(
    invoke: Callable[..., Any],
    contract: Contract,
    no_numpy: bool,
    queue: cl.CommandQueue,
    /,
    *,
    allocator: Any,
    wait_for: Any,
    out_host: bool | None,
    **arguments: Any,
) -> Any:
    """Copy numpy arrays to the device, call, and copy what was written back."""
    given = {a.name: arguments[a.name] for a in contract.arrays}
    on_host = [text for text, array in given.items() if isinstance(array, np.ndarray)]
    on_device = [text for text, array in given.items() if isinstance(array, cla.Array)]
    for text, array in given.items():
        if array is not None and text not in on_host and text not in on_device:
            contract.refuse(
                f"argument '{text}' is a {type(array).__module__}.{type(array).__name__}",
                hint="pass a pyopencl.array.Array or a numpy array",
            )
    if on_host and no_numpy:
        contract.refuse(
            f"argument '{on_host[0]}' is a numpy array, and the option no_numpy refuses those",
            hint=f"pyopencl.array.to_device(queue, {on_host[0]})",
        )
    if out_host is None:
        out_host = bool(on_host) and not on_device
        fill = set(on_host)
    else:
        fill = set(on_host) if out_host else set()
    arguments |= {text: upload(queue, given[text], allocator) for text in on_host}
    evt, outputs = invoke(
        queue, allocator=allocator, wait_for=wait_for, out_host=False, **arguments
    )
    names = [arg.name for arg in contract.outputs]
    by_name = outputs if isinstance(outputs, dict) else dict(zip(names, outputs, strict=True))
    evt.wait()  # without events of arrays, nothing else orders the copies after the kernel
    for text in names:
        if text in fill:
            by_name[text] = download(queue, by_name[text], given[text])
        elif out_host:
            by_name[text] = download(queue, by_name[text])
    return evt, by_name if isinstance(outputs, dict) else tuple(by_name[t] for t in names)
