"""The roofline of one kernel: its work by level, and a lower bound of its time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any, Final

import numpy as np
from pymbolic import evaluate

from kgen.analysis.access import collect_accesses
from kgen.errors import KernelError
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.unit import TranslationUnit
from kgen.performance.device import Device
from kgen.performance.occupancy import Occupancy, find_occupancy, find_resources
from kgen.performance.peaks import measure_device
from kgen.performance.timing import in_units, seconds_of
from kgen.runtime.resources import Resources
from kgen.statistics.countmap import ToCountMap
from kgen.statistics.descriptors import CountGranularity
from kgen.statistics.footprint import gather_access_footprint_bytes
from kgen.statistics.interval import Interval
from kgen.statistics.memory import memory_of, moving
from kgen.statistics.ops import count_ops
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.runs import Runs, resolve_subgroup_size
from kgen.statistics.sectors import (
    BANK_PASS,
    SECTOR,
    count_bank_passes,
    count_footprint_sectors,
    count_sectors,
    evaluated,
)
from kgen.statistics.sync import get_synchronization_map

__all__ = ["Roofline", "Work", "find_work", "roofline"]

#: Operations on floating-point numbers that count as one each, ``madd`` as two.
_FLOPS = {"add": 1, "mul": 1, "div": 1, "pow": 1, "maxmin": 1, "madd": 2}
_COMPLEX_FLOPS = {"add": 2, "mul": 6, "div": 11, "pow": 11, "maxmin": 2, "madd": 8}
#: The fraction of the measured limits that a kernel can achieve at best.
_MOST = 1.25


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The work of a kernel in one call, and a lower bound of its time on a device.

    Numbers that depend on data are upper bounds, and listed in ``uncertain``. Bytes of global
    memory are those ``issued`` by work-items, those moved in ``sectors``, and those of the
    ``footprint``, which even a perfect cache must move; further, bytes of local memory.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> host = lp.Device(
    ...     name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    >>> lp.roofline(unit, {"n": 1000}, host).intensity
    0.125
    """

    kernel_name: str
    params: Mapping[str, int]
    flops: Mapping[str, int]
    other_ops: Mapping[str, int]
    bytes: Mapping[str, int]
    barriers: int
    launches: int
    occupancy: Occupancy | None
    device: Device
    #: the resources of each launch, as reported by the driver or compiler
    resources: tuple[Resources, ...] = ()
    measured_s: float | None = None
    uncertain: tuple[str, ...] = ()
    #: the least seconds of each level
    times_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte of the footprint."""
        return sum(self.flops.values()) / max(1, self.bytes["footprint"])

    @property
    def limit(self) -> str:
        """The level that takes longest."""
        return max(self.times_s, key=lambda level: self.times_s[level])

    @property
    def predicted_s(self) -> float:
        """The time of the slowest level, plus that of the calls themselves."""
        return max(self.times_s[self.limit], self.launches * self.device.overhead)

    @property
    def rate(self) -> float:
        """Floating-point operations per second, measured if timed, else predicted."""
        return sum(self.flops.values()) / (self.measured_s or self.predicted_s or 1)

    @property
    def achieved(self) -> float | None:
        """The predicted time divided by the measured one: 1 means at the limit of the device."""
        return None if self.measured_s is None else self.predicted_s / self.measured_s

    def to_json(self) -> str:
        """Return everything as JSON."""
        derived = {
            "intensity": self.intensity,
            "limit": self.limit,
            "predicted_s": self.predicted_s,
            "achieved": self.achieved,
        }
        return json.dumps({**asdict(self), **derived}, sort_keys=True)

    def __str__(self) -> str:
        rows = [("kernel", self.kernel_name), ("device", self.device.name)]
        rows += [(name, str(value)) for name, value in self.params.items()]
        rows += [(f"{dtype} operations", f"{n:,}") for dtype, n in self.flops.items()]
        rows += [(f"{name} operations", f"{n:,}") for name, n in self.other_ops.items()]
        rows += [(f"{level} bytes", f"{n:,}") for level, n in self.bytes.items()]
        rows += [
            ("operations per byte", f"{self.intensity:.3g}"),
            ("barriers per work-item", f"{self.barriers:,}"),
            ("launches", str(self.launches)),
        ]
        if self.occupancy is not None:
            rows.append(("occupancy", str(self.occupancy)))
        if any(needs.largest_group is not None for needs in self.resources):
            rows += [(f"needs of {needs.function}", str(needs)) for needs in self.resources]
        rows += [(f"time of {level}", in_units(t)) for level, t in self.times_s.items()]
        rows.append(("predicted time", f"{in_units(self.predicted_s)}, by {self.limit}"))
        if self.measured_s is not None:
            rows.append(("measured time", in_units(self.measured_s)))
            rows.append(("achieved", f"{100 * (self.achieved or 0):.0f} %"))
        if (self.achieved or 0) > _MOST:
            rows.append(("limits too low", "measure_device(target, again=True) on an idle device"))
        rows += [("at most", reason) for reason in self.uncertain]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


@checked
def roofline(
    program: TranslationUnit,
    params: Mapping[str, int],
    device: Any = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    entrypoint: str | None = None,
) -> Roofline:
    """Compare the work of a kernel with the limits of its device.

    *params* are the values of the sizes, and of trip counts that depend on data (``n_j``).
    *device* is an OpenCL queue; ``None`` for CUDA, in the current context, and for C on the
    host; these are measured once (:func:`measure_device`). Or it is a :class:`Device`, and
    nothing is measured. With *arguments*, those of a call, the kernel is timed.

    ::

        print(lp.roofline(knl, {"n": 4096}, queue, {"a": a_dev, "out": out_dev}))

    Raises :class:`KernelError` if a count needs a parameter that *params* lacks.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> host = lp.Device(
    ...     name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    >>> roofline(unit, {"n": 1000}, host).bytes["footprint"]
    8000
    """
    kernel = prepared_kernel(program, entrypoint)
    target = kernel.target
    leading: tuple[Any, ...] = ()
    if isinstance(device, Device):
        peaks = device
    else:
        leading = () if device is None else (device,)
        peaks = measure_device(target, device)
    numbers = _Numbers(kernel, params)
    flops, other = numbers.operations()
    moved = numbers.bytes()
    times = _times(flops, moved, numbers.items(), peaks, kernel)
    syncs = numbers.map(get_synchronization_map(kernel)).group_by("kind")
    by_kind = {key.kind: count for key, count in syncs.items()}
    measured = None
    if arguments is not None:
        if isinstance(device, Device):
            raise KernelError(
                "timing a kernel needs its device, not a description of it",
                kernel=kernel.name,
                hint="pass the queue of OpenCL as device, or None on the host and for CUDA",
            )
        given = dict(arguments)
        measured = seconds_of(lambda: program(*leading, **given))
    resources = find_resources(kernel, *leading)
    return Roofline(
        kernel_name=kernel.name,
        params=dict(params),
        flops=flops,
        other_ops=other,
        bytes=moved,
        barriers=by_kind.get("barrier_local", 0),
        launches=by_kind.get("kernel_launch", 0),
        occupancy=find_occupancy(resources),
        resources=resources,
        device=peaks,
        measured_s=measured,
        uncertain=tuple(dict.fromkeys(numbers.reasons)),
        times_s=times,
    )


#: Levels whose times are no lower bounds: compilers read what is used many times only once, and
#: the caches next to work-items are faster than those that are measured.
_REUSED: Final = ("caches", "local memory")


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a kernel in one call, and the least seconds of each level of a device.

    ``flops`` are operations by type, ``bytes`` those of the footprint.
    """

    flops: Mapping[str, int]
    bytes: int
    times_s: Mapping[str, float]

    @property
    def least_s(self) -> float:
        """The least seconds, whatever compilers and caches make of repeated accesses."""
        return max(time for level, time in self.times_s.items() if level not in _REUSED)

    @property
    def expected_s(self) -> float:
        """The seconds of the slowest level, if each access is made."""
        return max(self.times_s.values())


def find_work(program: TranslationUnit, params: Mapping[str, int], device: Device) -> Work:
    """Count the work of a kernel for the limits of a device, without compiling or running it.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
    ...     target=lp.CTarget())
    >>> host = lp.Device(
    ...     name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    >>> find_work(unit, {"n": 1000}, host).times_s
    {'memory': 8e-07, 'arithmetic': 1e-08}
    """
    kernel = prepared_kernel(program)
    numbers = _Numbers(kernel, params)
    flops, _ = numbers.operations()
    moved = numbers.bytes()
    times = _times(flops, moved, numbers.items(), device, kernel)
    return Work(flops=flops, bytes=moved["footprint"], times_s=times)


def _times(
    flops: Mapping[str, int],
    moved: Mapping[str, int],
    items: int,
    device: Device,
    kernel: LoopKernel,
) -> dict[str, float]:
    times = {"memory": moved.get("footprint sectors", moved["footprint"]) / device.bandwidth}
    if device.item_rate is not None and kernel.axes:
        times["work-items"] = items / device.item_rate
    if "sectors" in moved:
        times["caches"] = moved["sectors"] / device.cache_bandwidth
    if "local" in moved and device.local_bandwidth is not None:
        times["local memory"] = moved["local"] / device.local_bandwidth
    seconds = 0.0
    for dtype, number in flops.items():
        peak = device.flops.get(dtype)
        if peak is None:
            raise KernelError(
                f"the number of operations on {dtype} per second of the device is not known",
                kernel=kernel.name,
                hint=f"Device(..., flops={{'{dtype}': 1e12}})",
            )
        seconds += number / peak
    times["arithmetic"] = seconds
    return times


class _Numbers:
    """Evaluates counts, with the upper bounds of intervals, and records the reasons."""

    def __init__(self, kernel: LoopKernel, params: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.params = params
        self.size = resolve_subgroup_size(kernel, "guess")
        self.reasons: list[str] = []

    def number(self, value: Any) -> int:
        """Return a number, or the upper bound of an interval."""
        if isinstance(value, Interval):
            self.reasons += value.reasons
            return int(value.high)
        return int(value)

    def map(self, counts: Any) -> ToCountMap:
        """Evaluate a map of counts."""
        return ToCountMap(
            {
                key: self.number(evaluated(count, self.params, self.kernel))
                for key, count in counts.items()
            }
        )

    def operations(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the operations on floating-point numbers by type, and others by name."""
        runs = Runs(self.kernel, self.size, redundant=True)
        counts = count_ops(runs, CountGranularity.WORKITEM, within_subscripts=False)
        flops: dict[str, int] = {}
        other: dict[str, int] = {}
        for key, count in self.map(counts).items():
            dtype = None if key.dtype is None else key.dtype.numpy_dtype
            if key.name in _FLOPS and dtype is not None and dtype.kind in "fc":
                real = np.zeros(0, dtype).real.dtype.name
                each = (_COMPLEX_FLOPS if dtype.kind == "c" else _FLOPS)[key.name]
                flops[real] = flops.get(real, 0) + each * count
            elif key.name.startswith(("func:", "unknown:")):
                other[key.name] = other.get(key.name, 0) + count
        return flops, other

    def items(self) -> int:
        """Return the number of work-items that are started."""
        grid = self.kernel.grid
        groups = (int(evaluate(count, dict(self.params))) for count in grid.groups)
        return prod(groups) * prod(grid.locals)

    def _issued(self) -> int:
        """Return the bytes that work-items load from and store in global arrays."""
        runs = Runs(self.kernel, self.size, redundant=True)
        total = 0
        for access in collect_accesses(self.kernel, moving(self.kernel.instructions)):
            if memory_of(self.kernel, access.array) == "global":
                items = runs.at(access.place, CountGranularity.WORKITEM)
                size = self.kernel.array_vars[access.array].dtype.itemsize
                total += size * self.number(evaluated(items, self.params, self.kernel))
        return total

    def _footprint(self) -> int:
        try:
            found = gather_access_footprint_bytes(self.kernel)
        except KernelError as err:
            self.reasons.append(
                f"the footprint omits accesses that depend on data: {err}".splitlines()[0]
            )
            found = gather_access_footprint_bytes(self.kernel, ignore_uncountable=True)
        counts = (evaluated(count, self.params, self.kernel) for count in found.values())
        return sum(self.number(count) for count in counts)

    def bytes(self) -> dict[str, int]:
        """Return the bytes that are moved, by level."""
        kernel = self.kernel
        result = {"issued": self._issued(), "footprint": self._footprint()}
        if kernel.axes and kernel.target.has_work_items:
            sectors = count_sectors(kernel, self.params, self.size)
            passes = count_bank_passes(kernel, self.params, self.size)
            touched = count_footprint_sectors(kernel, self.params)
            if touched is not None:
                result["footprint sectors"] = SECTOR * self.number(touched)
            result["sectors"] = SECTOR * sum(self.number(t.units) for t in sectors)
            if passes:
                result["local"] = BANK_PASS * sum(self.number(t.units) for t in passes)
                result["local without conflicts"] = BANK_PASS * sum(
                    self.number(t.requests) for t in passes
                )
        return result
