"""The time of a kernel, compared with that of a copy on the same device."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kgen.errors import InvocationError
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg, KernelArgument
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import TranslationUnit
from kgen.lowering import generate_module
from kgen.performance.peaks import copy_bandwidth, device_name
from kgen.performance.timing import rounds_of
from kgen.runtime.samples import random_data
from kgen.transforms.storage.declarations import set_options

__all__ = ["Timing", "bench", "place_arguments"]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The time of one call of a kernel, and of a copy that moves as many bytes.

    ``bytes`` are those of the arrays that a call reads, plus those of the arrays that it writes; an
    array that is read and written counts twice, as in a copy.

    >>> time = Timing(
    ...     kernel_name="axpy", device="host", seconds=(2e-3, 3e-3, 4e-3), bytes=12_000_000,
    ...     copy_s=1.5e-3)
    >>> time.median_s, time.bandwidth, time.of_copy
    (0.003, 4000000000.0, 0.5)
    """

    kernel_name: str
    device: str
    #: the seconds of a call, one for each round
    seconds: tuple[float, ...]
    bytes: int
    copy_s: float

    @property
    def median_s(self) -> float:
        """The seconds of a call in the median round."""
        return statistics.median(self.seconds)

    @property
    def bandwidth(self) -> float:
        """The bytes per second."""
        return self.bytes / self.median_s

    @property
    def of_copy(self) -> float:
        """The speed relative to the copy: 1 is as fast."""
        return self.copy_s / self.median_s

    def to_json(self) -> str:
        """Return everything as JSON."""
        derived = {name: getattr(self, name) for name in ("median_s", "bandwidth", "of_copy")}
        return json.dumps({**asdict(self), **derived}, sort_keys=True)


@checked
def bench(
    program: TranslationUnit,
    arguments: Mapping[str, Any],
    queue: Any = None,
    *,
    entrypoint: str | None = None,
    rounds: int = 5,
) -> Timing:
    """Time a kernel, and a copy of as many bytes on the same device.

    *arguments* are those of a call, or only the numbers: missing arrays are generated
    (:func:`place_arguments`). *queue* is an OpenCL queue.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32", shape="n"), ...],
    ...     target=lp.ExecutableCTarget())
    >>> time = lp.bench(unit, {"n": 1000}, rounds=3)
    >>> time.bytes, len(time.seconds), time.of_copy > 0
    (8000, 3, True)

    Raises :class:`InvocationError` for fewer than one round, and the errors of calls.
    """
    if rounds < 1:
        raise InvocationError(f"a kernel is timed in one round or more, not in {rounds}")
    leading = () if queue is None else (queue,)
    placed = place_arguments(program, arguments, queue, entrypoint=entrypoint)
    executor = program.executor(*leading, entrypoint=entrypoint)
    nbytes = _bytes_of(executor.kernel, placed)
    seconds = rounds_of(lambda: executor(*leading, **placed), rounds=rounds)
    speed = copy_bandwidth(program.target, leading, max(nbytes // 8, 1))
    return Timing(
        kernel_name=executor.entrypoint,
        device=device_name(program.target, leading),
        seconds=tuple(seconds),
        bytes=nbytes,
        copy_s=nbytes / speed,
    )


def place_arguments(
    program: TranslationUnit,
    arguments: Mapping[str, Any],
    queue: Any = None,
    *,
    entrypoint: str | None = None,
) -> dict[str, Any]:
    """Return the arguments of a call with all arrays on the device, so that it copies none.

    Numpy arrays are copied there. Omitted arrays that are read are generated, if *arguments* have
    all numbers of the kernel: real elements are between -1 and 1, integers from 0 to 19, or, where
    they are subscripts, below the extents of all arrays. One call is made, for the outputs.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32", shape="n"), ...],
    ...     target=lp.ExecutableCTarget())
    >>> sorted(place_arguments(unit, {"n": 10}))
    ['a', 'n', 'out']

    Raises :class:`InvocationError` where a number is missing, and what calls raise.
    """
    leading = () if queue is None else (queue,)
    program = set_options(program, return_dict=True)
    target = program.target
    executor = program.executor(*leading, entrypoint=entrypoint)
    given = dict(arguments)
    if any(_is_read(arg) and arg.name not in given for arg in executor.kernel.args):
        dtypes = _types_of(executor.kernel, given)
        module = generate_module(program, executor.entrypoint, dtypes)
        given = {**random_data(module, given), **given}
    runtime = target.load_runtime()
    placed = {
        name: runtime.to_device(value, *leading) if isinstance(value, np.ndarray) else value
        for name, value in given.items()
    }
    options = {"out_host": False} if target.has_work_items else {}
    _, results = executor(*leading, **placed, **options)
    return {**placed, **results}


def _is_read(arg: KernelArgument) -> bool:
    return isinstance(arg, ArrayArg) and bool(arg.is_input)


def _types_of(kernel: LoopKernel, given: Mapping[str, Any]) -> dict[str, np.dtype[Any]]:
    """Return the types of arrays and of numbers, for arguments that have none; sizes need none."""
    return {
        arg.name: np.asarray(given[arg.name]).dtype
        for arg in kernel.args
        if arg.dtype is None and arg.name in given and not isinstance(given[arg.name], int)
    }


def _bytes_of(kernel: LoopKernel, arrays: Mapping[str, Any]) -> int:
    """Return the bytes of the arrays that are read, and of those that are written."""
    return sum(
        (bool(arg.is_input) + bool(arg.is_output)) * arrays[arg.name].nbytes
        for arg in kernel.args
        if isinstance(arg, ArrayArg) and arg.name in arrays
    )
