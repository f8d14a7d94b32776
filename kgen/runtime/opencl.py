"""OpenCL: programs from disk, calls with device arrays and numpy arrays. The user of pyopencl."""

from __future__ import annotations

import ast
import math
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from kgen.errors import CodegenError, CompilationError, InvocationError, message
from kgen.ir.expr import Expr, variable_names
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
    compare,
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
from kgen.runtime.wrapper import NONE, WrapperBuilder
from kgen.targets.module import ArgumentInfo, Launch, Module

__all__ = ["OpenCLExecutor", "executor_for"]

EVENT: Final = PREFIX + "event"
LAUNCHER: Final = PREFIX + "launcher"

#: How many events a launcher remembers that its queue has put before the next launch.
N_SETTLED: Final = 16


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


class _Launcher:
    """The kernels of a program, for one launch at a time, and what they were launched with.

    A call takes one from a list and puts it back after the launch: cheaper than a lock. Of
    calls at once, each has its own; of one that fails, the launcher is not put back.

    It remembers events that its queue has put before whatever is enqueued next. The commands
    of an in-order queue run one after the other. So an event that an earlier one has waited
    for, or is, need not be waited for again, which costs more than the launch. Wrappers keep
    what belongs to one array or one function in attributes of their own.
    """

    def __init__(self, **own: Any) -> None:
        self.__dict__.update(own)
        #: the queue of the last launch, if it is in-order; else nothing is settled
        self.queue: cl.CommandQueue | None = None
        #: the event of the last launch, alone
        self.last: list[cl.Event] = []
        #: the events of some launches before
        self.recent: deque[cl.Event] = deque(maxlen=N_SETTLED)
        #: some that launches have waited for, by identity
        self.waited_for: dict[int, cl.Event] = {}

    def has_settled(self, events: list[cl.Event]) -> bool:
        """Tell whether the queue has put all *events* before the next launch."""
        for event in events:
            if id(event) not in self.waited_for:
                for known in self.recent:
                    if known is event:
                        break
                else:
                    return False
        return True

    def wait(self, queue: cl.CommandQueue, events: list[cl.Event]) -> list[cl.Event]:
        """Return *events*; they are settled after the launch that waits for them in *queue*."""
        if queue is not self.queue:
            out_of_order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
            self.queue = None if queue.properties & out_of_order else queue
            self.recent.clear()
            self.waited_for.clear()
        elif len(self.waited_for) > N_SETTLED:
            self.waited_for.clear()
        self.waited_for.update((id(event), event) for event in events)
        return events


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

    def leading_arguments(self) -> tuple[Any, ...]:
        """Return a new queue of the executor's context."""
        return (cl.CommandQueue(self.context),)

    def compile(self, module: Module, source: str) -> cl.Program:
        flags = (*module.build_options, *self.kernel.options.build_options)
        program = load_program(self.caches.disk, self.context, source, flags, self.entrypoint)
        for launch in module.launches:
            check_group_size(self.context, program, launch)
        return program

    def builder(self, compiled: cl.Program) -> Callable[..., WrapperBuilder]:
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
    found = [disk.load(key) for key in keys]
    binaries = [binary for binary in found if binary is not None]
    program: cl.Program
    if len(binaries) == len(devices):
        try:
            program = cl.Program(context, devices, binaries).build(list(flags))
            return program
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
            cast("list[cl.Device]", program.get_info(cl.program_info.DEVICES)),
            cast("list[bytes]", program.get_info(cl.program_info.BINARIES)),
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
    limits = [kernel.get_work_group_info(query, device) for device in context.devices]
    limit = max(cast("list[int]", limits))
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

    def __init__(self, program: cl.Program, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.program = program
        self.manages_events = self.options.cl_exec_manage_array_events
        #: what a launcher has for the arrays and functions of this kernel
        self.kept: dict[str, Any] = {}

    def run(self) -> list[ast.stmt]:
        free = self.known("free", [])
        body = [
            *self.go_through_host(),
            *self.make_outputs(),
            *(assign(arg.name, self.allocate_memory(arg)) for arg in self.contract.temporaries),
            self.take_launcher(free),
            *self.choose_events(),
        ]
        for number, launch in enumerate(self.module.launches):
            body += self.launch(number, launch)
        return [
            *body,
            *self.record_events(),
            do(call(attribute(free, "append"), name(LAUNCHER))),
            self.make_result(name(EVENT)),
        ]

    def take_launcher(self, free: ast.expr) -> ast.stmt:
        """Take a launcher that no other call has, or make one."""
        taken = assign(LAUNCHER, call(attribute(free, "pop")))
        made = assign(LAUNCHER, call(self.known("make_launcher", self.make_launcher)))
        return ast.Try([taken], [ast.ExceptHandler(builtin("IndexError"), None, [made])], [], [])

    def make_launcher(self) -> _Launcher:
        """Return new kernels, and nothing known of what they were launched with."""
        kernels: dict[str, Any] = {}
        for number, launch in enumerate(self.module.launches):
            kernel = cl.Kernel(self.program, launch.function)
            types = [self.contract.parameter_dtype(text) for text in launch.parameters]
            kernel.set_scalar_arg_dtypes(types)
            kernels[f"kernel{number}"] = kernel
            kernels[f"set_args{number}"] = kernel.set_args
            kernels[f"set_arg{number}"] = kernel.set_arg
        return _Launcher(**kernels, **self.kept)

    def keep(self, text: str) -> ast.Attribute:
        """Return an attribute of the launcher that is ``None`` in a new one."""
        self.kept[text] = None
        return ast.Attribute(name(LAUNCHER), text, ast.Store())

    # -- numpy arrays -----------------------------------------------------------------------

    def go_through_host(self) -> list[ast.stmt]:
        """Leave calls with numpy arrays, or for numpy arrays, to the slow way.

        Only device arrays have an offset; to ask for it is a quicker test than for the class.
        It must be one that the kernel's code can do with.
        """
        slow_way = partial(
            call_through_host, self.other_function, self.contract, self.options.no_numpy
        )
        arguments = {text: name(text) for text in self.optional}
        arguments |= {arg.name: name(arg.name) for arg in self.contract.passed}
        called = call(self.known("through_host", slow_way), name("queue"), **arguments)
        leave = [return_(called)]
        body: list[ast.stmt] = [if_(name("out_host"), list(leave))]
        tests = [self.has_unfit_offset(arg) for arg in self.contract.arrays]
        if tests:
            no_device_array = ast.ExceptHandler(builtin("AttributeError"), None, leave)
            body.append(ast.Try([if_(any_of(tests), self.refuse())], [no_device_array], [], []))
        return body

    def has_unfit_offset(self, arg: ArgumentInfo) -> ast.expr:
        """Return the test that an array begins where the kernel's code does not look for it."""
        offset = attribute(name(arg.name), "offset")
        if arg.offset is not None:
            offset = ast.BinOp(offset, ast.Mod(), const(arg.dtype.itemsize))
        if self.contract.is_required_array(arg):
            return offset
        return all_of([self.is_given(arg.name), offset])

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

    def pass_array(self, arg: ArgumentInfo) -> ast.expr:
        array = name(arg.name)
        return array if arg.is_temporary else attribute(array, "base_data")

    def pass_offset(self, arg: ArgumentInfo) -> ast.expr:
        if arg.is_temporary:
            return const(0)
        offset = attribute(name(arg.name), "offset")
        return ast.BinOp(offset, ast.FloorDiv(), const(arg.dtype.itemsize))

    # -- events -----------------------------------------------------------------------------

    def choose_events(self) -> list[ast.stmt]:
        """Let the launch wait for what the arrays wait for and the queue has not settled."""
        if not self.manages_events:
            return []
        launcher = name(LAUNCHER)
        settled = [compare(name("queue"), "is", attribute(launcher, "queue"))]
        body: list[ast.stmt] = []
        gathered: list[ast.stmt] = []
        parts: list[ast.expr] = [ast.BoolOp(ast.Or(), [name("wait_for"), tuple_([])])]
        for arg in self.contract.arrays:
            events = attribute(name(arg.name), "events")
            if arg.is_output:
                kept = attribute(launcher, "last")
                body.append(assign(_n_events(arg), call(builtin("len"), events)))
                parts.append(events)
            else:
                kept = attribute(launcher, f"events_{arg.name}")
                copied = ast.Subscript(events, ast.Slice(), ast.Load())
                gathered.append(ast.Assign([self.keep(f"events_{arg.name}")], copied))
                parts.append(kept)
            others = call(attribute(launcher, "has_settled"), events)
            settled.append(any_of([negate(events), compare(events, "==", kept), others]))
        all_events = ast.List([ast.Starred(part, ast.Load()) for part in parts], ast.Load())
        waited = assign("wait_for", call(attribute(launcher, "wait"), name("queue"), all_events))
        return [*body, if_(negate(all_of(settled)), [*gathered, waited])]

    def record_events(self) -> list[ast.stmt]:
        """Make the written arrays wait for this launch, and note that it is before the next.

        What the arrays waited for before is part of that now; without taking it off their
        lists these would grow, until pyopencl waits on the host for the oldest.
        """
        if not self.manages_events:
            return []
        launcher = name(LAUNCHER)
        replaced: list[ast.expr] = [ast.Attribute(launcher, "last", ast.Store())]
        for arg in self.contract.outputs:
            waited_for = ast.Slice(None, name(_n_events(arg)))
            events = attribute(name(arg.name), "events")
            replaced.append(ast.Subscript(events, waited_for, ast.Store()))
        noted = call(attribute(attribute(launcher, "recent"), "append"), name(EVENT))
        return [ast.Assign(replaced, ast.List([name(EVENT)], ast.Load())), do(noted)]

    # -- launches ---------------------------------------------------------------------------

    def launch(self, number: int, launch: Launch) -> list[ast.stmt]:
        """Set the parameters of a function and enqueue it, after the one before.

        An empty grid is not enqueued, which OpenCL refuses; but there is an event of it.
        """
        wait_for: ast.expr = name("wait_for")
        if number:
            wait_for = ast.List([name(EVENT)], ast.Load())
        local = launch.locals or (1,)
        local = (*local, *(1 for _ in launch.groups[len(local) :]))
        size = attribute(name(LAUNCHER), f"size{number}")
        enqueued = call(
            self.known("enqueue", cl.enqueue_nd_range_kernel),
            name("queue"),
            attribute(name(LAUNCHER), f"kernel{number}"),
            size,
            self.known(f"local{number}", local),
            NONE,
            wait_for,
        )
        enqueue = assign(EVENT, enqueued)
        if self.is_launched(launch) is not None:
            marker = call(self.known("marker", cl.enqueue_marker), name("queue"), wait_for)
            is_empty = compare(size, "is", NONE)
            enqueue = if_(is_empty, [assign(EVENT, marker)], [enqueue])
        return [*self.set_parameters(number, launch, local), enqueue]

    def set_parameters(self, number: int, launch: Launch, local: tuple[int, ...]) -> list[ast.stmt]:
        """Set all parameters and the grid, or only arrays where the integers are as last time."""
        groups: tuple[Expr, ...] = (*launch.groups, *(1 for _ in local[len(launch.groups) :]))
        size = tuple_(from_expr(g * n) for g, n in zip(groups, local, strict=True))
        is_launched = self.is_launched(launch)
        if is_launched is not None:
            size = ast.IfExp(is_launched, size, NONE)
        launcher = name(LAUNCHER)
        passed = [self.pass_parameter(text) for text in launch.parameters]
        set_all: list[ast.stmt] = [
            do(call(attribute(launcher, f"set_args{number}"), *passed)),
            ast.Assign([self.keep(f"size{number}")], size),
        ]
        types = [self.contract.parameter_dtype(text) for text in launch.parameters]
        if any(dtype is not None and dtype.kind not in "biu" for dtype in types):
            return set_all  # 0.0 and -0.0 are equal, but not the same
        integers = [e for e, dtype in zip(passed, types, strict=True) if dtype is not None]
        sizes = [text for text in variable_names(*groups) if text not in launch.parameters]
        integers += map(name, sizes)
        set_arrays: list[ast.stmt] = [
            do(call(attribute(launcher, f"set_arg{number}"), const(position), parameter))
            for position, (parameter, dtype) in enumerate(zip(passed, types, strict=True))
            if dtype is None
        ]
        key = integers[0] if len(integers) == 1 else tuple_(integers)
        noted = ast.Assign([self.keep(f"integers{number}")], key)
        unchanged = compare(key, "==", attribute(launcher, f"integers{number}"))
        return [if_(unchanged, set_arrays or [ast.Pass()], [*set_all, noted])]


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
        memory: Any = array.base_data
        cl.enqueue_copy(queue, flat, memory, src_offset=start, wait_for=array.events)
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
