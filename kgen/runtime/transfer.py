"""Calls of device kernels with numpy arrays: copies to the device, and of results back."""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, NoReturn

import numpy as np

from kgen.host.program import HostProgram
from kgen.ir.options import Options
from kgen.runtime.overlap import extent_on_host, reject_overlap
from kgen.runtime.pyast import all_of, call, compare, const, name
from kgen.runtime.refusals import CallChecker, reject_masked, reject_read_only
from kgen.runtime.wrapper import NONE, WrapperBuilder
from kgen.targets.module import ArgumentInfo

__all__ = ["DeviceWrapperBuilder", "Transfers", "call_through_host"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Transfers:
    """The functions that copy arrays to a device and back.

    ``download`` fills the numpy array that it gets, or creates one. ``wait`` waits for an event.
    """

    array_class: type
    #: Other types of device objects, which do not decide where results are stored.
    others: tuple[type, ...] = ()
    upload: Callable[[str, Array], Any]
    download: Callable[[Any, Array | None], Array]
    wait: Callable[[Any], Any]


def call_through_host(
    transfers: Transfers,
    host: HostProgram,
    invoke: Callable[[Mapping[str, Any]], Any],
    arguments: dict[str, Any],
    *,
    out_host: bool | None,
    options: Options,
) -> Any:
    """Copy numpy arrays to the device, *invoke*, and copy what was written back.

    An output that is passed is copied to the device as well: the kernel may write only a part of
    it.
    """
    reject = CallChecker(host).reject
    given = {arg.name: arguments[arg.name] for arg in host.arrays}
    on_host = [text for text, array in given.items() if isinstance(array, np.ndarray)]
    on_device = [t for t, array in given.items() if isinstance(array, transfers.array_class)]
    _reject_wrong(transfers, reject, given, out_host)
    if host.restricted_pairs and not options.skip_arg_checks:
        reject_overlap(reject, host, extent_on_host, **{text: given[text] for text in on_host})
    if on_host and options.no_numpy:
        reject(
            f"argument '{on_host[0]}' is a numpy array, which the option no_numpy rejects",
            hint=f"copy '{on_host[0]}' to the device, or set_options(knl, no_numpy=False)",
        )
    names = [arg.name for arg in host.outputs]
    filled = set(on_host) if out_host is None or out_host else set()
    for text in names:
        if text in filled and not given[text].flags.writeable:
            reject_read_only(reject, text)
    if out_host is None:
        out_host = bool(on_host) and not on_device
    uploaded = {text: transfers.upload(text, given[text]) for text in on_host}
    event, outputs = invoke({**arguments, **uploaded})
    transfers.wait(event)
    results = outputs if isinstance(outputs, dict) else dict(zip(names, outputs, strict=True))
    for text in names:
        if text in filled:
            results[text] = transfers.download(results[text], given[text])
        elif out_host:
            results[text] = transfers.download(results[text], None)
    return event, results if isinstance(outputs, dict) else tuple(results[t] for t in names)


def _reject_wrong(
    transfers: Transfers, reject: Callable[..., Any], given: Mapping[str, Any], out_host: Any
) -> None:
    """Reject a call with objects that are no arrays, masked arrays, or a wrong ``out_host``."""
    for text, array in given.items():
        is_known = isinstance(array, (np.ndarray, transfers.array_class, *transfers.others))
        if array is not None and not is_known:
            wanted = f"{transfers.array_class.__module__}.{transfers.array_class.__name__}"
            reject(
                f"argument '{text}' is a {type(array).__module__}.{type(array).__name__}",
                hint=f"pass a {wanted} or a numpy array",
            )
    reject_masked(reject, **given)
    if not (out_host is None or isinstance(out_host, bool | np.bool_)):
        reject(
            f"out_host is {reprlib.repr(out_host)}, which is neither a truth value nor None",
            hint="pass out_host=True for results in numpy arrays, out_host=False for those of the "
            "device",
        )


class DeviceWrapperBuilder(WrapperBuilder):
    """Builds wrappers that launch kernels on arrays of a device, or copy numpy arrays to it."""

    #: functions that create memory and arrays on the device, given the positional arguments of a
    #: call, the allocator, and a number of bytes or a layout
    new_memory: ClassVar[Callable[..., Any]]
    new_array: ClassVar[Callable[..., Any]]

    @staticmethod
    def transfers(allocator: Any, *positional: Any) -> Transfers:
        """Return the functions that copy arrays to the device of a call and back."""
        raise NotImplementedError

    @property
    def names_out_host(self) -> ast.expr:
        """The test that a call asks for results on the host, or passes a wrong ``out_host``."""
        out_host = name("out_host")
        return all_of(
            [compare(out_host, "is not", NONE), compare(out_host, "is not", const(False))]
        )

    def leave_for_host(self) -> list[ast.stmt]:
        """Return the statement that runs a call with numpy arrays, or for numpy arrays."""
        return self.hand_over(self.own("through_host", attrgetter("through_host")))

    def allocate(self, arg: ArgumentInfo) -> ast.expr:
        if any(isinstance(stride, int) and stride < 0 for stride in arg.strides or ()):
            return call(self.own(f"missing_{arg.name}", partial(_reject_missing, arg.name)))
        layout = (self.shape_of(arg), self.strides_of(arg), self.dtype(arg.dtype))
        return self.call_allocation("new_array", *layout, self.fill_value(arg))

    def allocate_bytes(self, size: ast.expr) -> ast.expr:
        return self.call_allocation("new_memory", size)

    def call_allocation(self, text: str, *layout: ast.expr) -> ast.expr:
        """Return the call of one of the functions that make memory."""
        leading = map(name, (*self.positional, "allocator"))
        return call(self.known(text, getattr(self, text)), *leading, *layout)

    def through_host(self, /, *positional: Any, out_host: bool | None, **arguments: Any) -> Any:
        """Run a call with numpy arrays, or for numpy arrays."""
        own = {text: arguments.pop(text) for text in self.optional if text != "out_host"}
        for text in self.untyped & self.host.by_name.keys():  # numbers keep their types
            info = self.host.by_name[text]
            if not info.is_array and arguments.get(text) is not None:
                arguments[text] = info.dtype.type(arguments[text])
        return call_through_host(
            self.transfers(own["allocator"], *positional),
            self.host,
            lambda given: self.other(*positional, **own, out_host=False, **given),
            arguments,
            out_host=out_host,
            options=self.options,
        )


def _reject_missing(argument: str, builder: Any) -> Callable[[], NoReturn]:
    """Return a function that rejects calls without an output that cannot be allocated."""
    return partial(
        builder.checker.reject,
        f"array argument '{argument}' is missing",
        because=f"a stride of '{argument}' is negative, and elements would lie before new memory",
        hint=f"pass {argument}=..., or declare it with positive strides",
    )
