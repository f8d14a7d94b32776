"""The wrappers of OpenCL kernels: device arrays, their events, launches."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from kgen.ir.expr import Expr, variable_names
from kgen.runtime.bound import RecordingBuilder
from kgen.runtime.opencl.images import ImageArray
from kgen.runtime.opencl.launcher import Launcher
from kgen.runtime.opencl.memory import (
    download,
    download_faults,
    events_in,
    extent_of,
    new_array,
    new_memory,
    upload,
    upload_faults,
)
from kgen.runtime.overlap import reject_overlap
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
    item,
    name,
    negate,
    tuple_,
)
from kgen.runtime.transfer import DeviceWrapperBuilder, Transfers
from kgen.runtime.wrapper import NONE
from kgen.targets.module import ArgumentInfo, Faults, Launch

__all__ = ["OpenCLRecordingBuilder", "OpenCLWrapperBuilder", "argument_setter"]

EVENT: Final = PREFIX + "event"
SEEN: Final = PREFIX + "seen"
LAUNCHER: Final = PREFIX + "launcher"


class OpenCLWrapperBuilder(DeviceWrapperBuilder):
    """Builds wrappers that launch kernels on device arrays."""

    positional: ClassVar[tuple[str, ...]] = ("queue",)
    passes_vectors: ClassVar[bool] = True
    optional: ClassVar[tuple[str, ...]] = ("allocator", "wait_for", "out_host")
    new_array = staticmethod(new_array)
    new_memory = staticmethod(new_memory)

    def __init__(self, program: cl.Program, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.program = program
        self.manages_events = self.options.cl_exec_manage_array_events
        #: the attributes of a launcher for the arrays and functions of this kernel
        self.kept: dict[str, Any] = {}

    @staticmethod
    def transfers(allocator: Any, *positional: Any) -> Transfers:
        (queue,) = positional
        return Transfers(
            array_class=cla.Array,
            others=(ImageArray,),
            upload=partial(upload, queue, allocator),
            download=partial(download, queue),
            wait=cl.Event.wait,
        )

    def body(self) -> list[ast.stmt]:
        """Return the statements of a call; the arrays of the last one need no second check."""
        checks = [*self.check(), *self.go_through_host(), *self.make_outputs()]
        arrays = [arg.name for arg in self.host.arrays]
        sizes = [arg.name for arg in self.host.values]
        follows = {step.name for step in self.host.size_steps}
        if not arrays or not follows.issuperset(sizes):
            return [*checks, *self.check_overlap_of_others(arrays), *self.run()]
        checks += self.check_overlap()
        memo = self.own("memo", lambda _: _Memo(len(arrays)))
        seen = [item(name(SEEN), at) for at in range(len(arrays) + len(sizes))]
        known = all_of(
            [
                negate(self.names_out_host),
                *(self.is_none(arg.name) for arg in self.host.values if not arg.is_temporary),
                *(
                    compare(call(reference), "is", name(text), "is not", NONE)
                    for reference, text in zip(seen, arrays, strict=False)
                ),
            ]
        )
        take = [assign(text, value) for text, value in zip(sizes, seen[len(arrays) :], strict=True)]
        weakly = self.known("weakref", weakref.ref)
        noted = tuple_([*(call(weakly, name(text)) for text in arrays), *map(name, sizes)])
        note = ast.Assign([ast.Attribute(memo, "seen", ast.Store())], noted)
        return [
            assign(SEEN, attribute(memo, "seen")),
            if_(known, take or [ast.Pass()], [*checks, note]),
            *self.run(),
        ]

    def check_overlap_of_others(self, arrays: Sequence[str]) -> list[ast.stmt]:
        """Reject overlapping arrays; the arrays of the last call need no check."""
        overlap = self.check_overlap()
        if not overlap:
            return []
        memo = self.own("memo", lambda _: _Memo(len(arrays)))
        seen = [item(name(SEEN), at) for at in range(len(arrays))]
        known = all_of(
            compare(call(reference), "is", name(text), "is not", NONE)
            for reference, text in zip(seen, arrays, strict=True)
        )
        weakly = self.known("weakref", weakref.ref)
        noted = tuple_(call(weakly, name(text)) for text in arrays)
        note = ast.Assign([ast.Attribute(memo, "seen", ast.Store())], noted)
        return [assign(SEEN, attribute(memo, "seen")), if_(negate(known), [*overlap, note])]

    def check_overlap(self) -> list[ast.stmt]:
        """Reject arrays that overlap with one that is written, if the code relies on that."""
        if self.options.skip_arg_checks or not self.host.restricted_pairs:
            return []
        return [self.check_arrays("overlap", reject_overlap, self.host, extent_of)]

    def run(self) -> list[ast.stmt]:
        free = self.own("free", lambda _: [])
        body = [
            *self.allocate_temporaries(),
            self.take_launcher(free),
            self.check_events(),
            *self.choose_events(),
        ]
        body += self.launch_all()
        return [
            *body,
            *self.record_events(),
            do(call(attribute(free, "append"), name(LAUNCHER))),
            *self.check_faults(),
            self.make_result(name(EVENT)),
        ]

    def check_faults(self) -> list[ast.stmt]:
        """Wait, and raise an error for the subscripts that guards found to be stray."""
        faults = self.host.faults
        if faults is None:
            return []
        shown = call(
            self.known("download_faults", partial(download_faults, len(faults.guards))),
            name("queue"),
            name(faults.name),
            name(EVENT),
        )
        return [self.reject_faults(faults, shown)]

    def take_launcher(self, free: ast.expr) -> ast.stmt:
        """Take a launcher that no other call uses, or create one."""
        taken = assign(LAUNCHER, call(attribute(free, "pop")))
        kept = self.kept  # later statements add names to it
        maker = self.own("make_launcher", lambda builder: partial(builder.make_launcher, kept))
        made = assign(LAUNCHER, call(maker))
        return ast.Try([taken], [ast.ExceptHandler(builtin("IndexError"), None, [made])], [], [])

    def make_launcher(self, kept: Mapping[str, Any]) -> Launcher:
        """Return a launcher with new kernels, whose parameters are not set yet."""
        kernels: dict[str, Any] = {}
        for number, launch in enumerate(self.host.launches):
            kernel = cl.Kernel(self.program, launch.function)
            types = [self.host.parameter_dtype(text) for text in launch.parameters]
            kernel.set_scalar_arg_dtypes(types)
            kernels[f"kernel{number}"] = kernel
            kernels[f"set_args{number}"] = kernel.set_args
            kernels[f"set_arg{number}"] = argument_setter(kernel, types)
        return Launcher(**kernels, **kept)

    def keep(self, text: str) -> ast.Attribute:
        """Return an attribute of the launcher that is ``None`` in a new one."""
        self.kept[text] = None
        return ast.Attribute(name(LAUNCHER), text, ast.Store())

    # -- numpy arrays -----------------------------------------------------------------------

    def go_through_host(self) -> list[ast.stmt]:
        """Leave calls with numpy arrays, or for numpy arrays, to the slow way.

        Only device arrays have ``base_data``; reading it is a quicker test than one of the class.
        Their offset must be one that the kernel's code supports.
        """
        leave = self.leave_for_host()
        body: list[ast.stmt] = [if_(self.names_out_host, list(leave))]
        tests = [self.has_unfit_offset(arg) for arg in self.host.arrays]
        if tests:
            no_device_array = ast.ExceptHandler(builtin("AttributeError"), None, leave)
            unfit = if_(any_of(tests), self.call_relayout())
            body.append(ast.Try([unfit], [no_device_array], [], []))
        return body

    def has_unfit_offset(self, arg: ArgumentInfo) -> ast.expr:
        """Return the test that an array's offset is not supported by the kernel's code."""
        offset = attribute(name(arg.name), "offset")
        if arg.offset is not None:
            offset = ast.BinOp(offset, ast.Mod(), const(arg.dtype.itemsize))
        has_memory = compare(attribute(name(arg.name), "base_data"), "is not", NONE)
        if self.host.is_required_array(arg):
            return all_of([has_memory, offset])
        return all_of([self.is_given(arg.name), has_memory, offset])

    # -- memory -----------------------------------------------------------------------------

    def allocate_faults(self, faults: Faults) -> ast.expr:
        function = self.known("upload_faults", partial(upload_faults, len(faults.guards)))
        return call(function, name("queue"), name("allocator"))

    def pass_array(self, arg: ArgumentInfo) -> ast.expr:
        array = name(arg.name)
        return array if arg.is_temporary else attribute(array, "base_data")

    def pass_offset(self, arg: ArgumentInfo) -> ast.expr:
        if arg.is_temporary:
            return const(0)
        offset = attribute(name(arg.name), "offset")
        return ast.BinOp(offset, ast.FloorDiv(), const(arg.dtype.itemsize))

    # -- events -----------------------------------------------------------------------------

    def check_events(self) -> ast.stmt:
        """Reject values of ``wait_for`` that are not lists of events."""
        given = call(self.known("events", events_in), name("wait_for"), const(self.host.kernel))
        return if_(compare(name("wait_for"), "is not", NONE), [assign("wait_for", given)])

    def choose_events(self) -> list[ast.stmt]:
        """Make the launch wait for those events of the arrays that the queue does not imply.

        Usually, arrays have one event each, that of the previous launch.
        """
        if not self.manages_events:
            return []
        launcher = name(LAUNCHER)
        settled = [compare(name("queue"), "is", attribute(launcher, "queue"))]
        body: list[ast.stmt] = []
        noted: list[ast.stmt] = []
        parts: list[ast.expr] = [ast.BoolOp(ast.Or(), [name("wait_for"), tuple_([])])]
        for arg in self.host.arrays:
            events, count = attribute(name(arg.name), "events"), name(_n_events(arg))
            body.append(assign(_n_events(arg), call(builtin("len"), events)))
            parts.append(ast.Subscript(events, ast.Slice(None, count), ast.Load()))
            if arg.is_output:
                usual = attribute(launcher, "last")
            else:
                usual = attribute(launcher, f"event_{arg.name}")
                first = ast.IfExp(count, item(events, 0), NONE)
                noted.append(ast.Assign([self.keep(f"event_{arg.name}")], first))
            is_usual = all_of(
                [compare(count, "==", const(1)), compare(item(events, 0), "is", usual)]
            )
            is_settled = call(attribute(launcher, "has_settled"), events)
            settled.append(any_of([negate(count), is_usual, is_settled]))
        all_events = ast.List([ast.Starred(part, ast.Load()) for part in parts], ast.Load())
        waited = assign("wait_for", call(attribute(launcher, "wait"), name("queue"), all_events))
        return [*body, if_(negate(all_of(settled)), [waited, *noted])]

    def record_events(self) -> list[ast.stmt]:
        """Make the written arrays wait for this launch, and record that it precedes the next.

        It waits for the previous events of the arrays, so these are removed from their lists;
        otherwise the lists would grow, until pyopencl waits for the oldest event on the host.
        """
        if not self.manages_events:
            return []
        launcher = name(LAUNCHER)
        body: list[ast.stmt] = []
        for arg in self.host.outputs:
            waited_for = ast.Slice(None, name(_n_events(arg)))
            events = attribute(name(arg.name), "events")
            replaced = ast.Subscript(events, waited_for, ast.Store())
            body.append(ast.Assign([replaced], tuple_([name(EVENT)])))
        last = ast.Attribute(launcher, "last", ast.Store())
        noted = call(attribute(attribute(launcher, "recent"), "append"), name(EVENT))
        return [*body, ast.Assign([last], name(EVENT)), do(noted)]

    # -- launches ---------------------------------------------------------------------------

    def launch_all(self) -> list[ast.stmt]:
        """Make all launches; if a loop on the host makes none, there is still an event."""
        steps = self.host.steps
        body = self.take_steps(steps)
        if any(isinstance(step, Launch) for step in steps):
            return body
        marker = call(self.known("marker", cl.enqueue_marker), name("queue"), name("wait_for"))
        is_missing = compare(name(EVENT), "is", NONE)
        return [assign(EVENT, NONE), *body, if_(is_missing, [assign(EVENT, marker)])]

    def launch(self, number: int, launch: Launch) -> list[ast.stmt]:
        """Set the parameters of a function and enqueue it, after the one before.

        An empty grid, which OpenCL rejects, is not enqueued, but there is an event for it.
        """
        wait_for = name("wait_for")
        local = _group_shape(launch)
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
        body = [*self.set_parameters(number, launch, local), enqueue]
        if self.host.steps != (launch,):
            body.append(assign("wait_for", ast.List([name(EVENT)], ast.Load())))
        return body

    def set_parameters(self, number: int, launch: Launch, local: tuple[int, ...]) -> list[ast.stmt]:
        """Set all parameters and the grid; only arrays if the integers are unchanged."""
        size: ast.expr = _grid(launch, local)
        is_launched = self.is_launched(launch)
        if is_launched is not None:
            size = ast.IfExp(is_launched, size, NONE)
        launcher = name(LAUNCHER)
        passed = [self.pass_parameter(text) for text in launch.parameters]
        set_all: list[ast.stmt] = [
            do(call(attribute(launcher, f"set_args{number}"), *passed)),
            ast.Assign([self.keep(f"size{number}")], size),
        ]
        types = [self.host.parameter_dtype(text) for text in launch.parameters]
        if any(dtype is not None and dtype.kind not in "biu" for dtype in types):
            return set_all  # 0.0 and -0.0 are equal, but not the same
        integers = [e for e, dtype in zip(passed, types, strict=True) if dtype is not None]
        sizes = [text for text in variable_names(*launch.groups) if text not in launch.parameters]
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


def _group_shape(launch: Launch) -> tuple[int, ...]:
    """Return the extents of a work-group, of as many axes as the grid has."""
    local = launch.locals or (1,)
    return (*local, *(1 for _ in launch.groups[len(local) :]))


def _grid(launch: Launch, local: tuple[int, ...]) -> ast.expr:
    """Return the tuple of the numbers of work-items along each axis."""
    groups: tuple[Expr, ...] = (*launch.groups, *(1 for _ in local[len(launch.groups) :]))
    return tuple_(from_expr(g * n) for g, n in zip(groups, local, strict=True))


class OpenCLRecordingBuilder(RecordingBuilder, OpenCLWrapperBuilder):
    """Records launches, each with its own kernel and arguments."""

    def choose_events(self) -> list[ast.stmt]:
        return []

    def record_events(self) -> list[ast.stmt]:
        return []

    def launch_all(self) -> list[ast.stmt]:
        return self.take_steps(self.host.steps)

    def launch(self, number: int, launch: Launch) -> list[ast.stmt]:
        local = _group_shape(launch)
        noted = call(
            self.own(f"note{number}", lambda builder: partial(builder.note, launch)),
            _grid(launch, local),
            self.known(f"local{number}", local),
            *map(self.pass_parameter, launch.parameters),
        )
        is_launched = self.is_launched(launch)
        return [do(noted) if is_launched is None else if_(is_launched, [do(noted)])]

    def note(self, launch: Launch, size: Any, local: Any, *parameters: Any) -> None:
        """Add a launch to the calls."""
        kernel = cl.Kernel(self.program, launch.function)
        kernel.set_scalar_arg_dtypes([self.host.parameter_dtype(t) for t in launch.parameters])
        kernel.set_args(*parameters)
        self.calls.append((cl.enqueue_nd_range_kernel, (kernel, size, local)))


class _Memo:
    """The arrays of the last call that was checked, weakly, and the sizes that it found."""

    def __init__(self, n_arrays: int) -> None:
        self.seen: tuple[Any, ...] = (_nobody,) * n_arrays


def _nobody() -> None:
    """Replace a weak reference to an array that no longer exists."""


def _n_events(arg: ArgumentInfo) -> str:
    return f"{PREFIX}n_events_{arg.name}"


def argument_setter(kernel: cl.Kernel, types: Sequence[Any]) -> Callable[[int, Any], None]:
    """Return a function that sets one parameter; an empty array has a null pointer."""
    set_arg: Callable[[int, Any], None] = kernel.set_arg
    try:
        if None in types:
            set_arg(types.index(None), None)
    except cl.LogicError:  # pyopencl knows null pointers; the driver has none for an image
        pass
    except TypeError:  # older pyopencl

        def set_any(index: int, value: Any) -> None:
            set_arg(index, np.uintp(0) if value is None else value)

        return set_any
    return set_arg
