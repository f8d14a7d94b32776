"""The limits of a device, measured once with small kernels, and cached on disk."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np

from kgen.errors import InvocationError
from kgen.frontend import make_kernel
from kgen.ir.checked import checked
from kgen.ir.data import GlobalArg, TemporaryVariable
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.performance.device import Device
from kgen.performance.timing import seconds_of
from kgen.runtime.cache import content_key, process_caches
from kgen.targets.opencl import PyOpenCLTarget
from kgen.transforms.loops.rename import rename_iname
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.programs.params import assume
from kgen.transforms.storage.declarations import add_dtypes

__all__ = ["copy_bandwidth", "device_name", "measure_device"]

_GROUP = 256
#: Independent chains of multiplications and additions in each work-item.
_CHAINS = 8
_TYPES = ("float32", "float64")


@checked
def measure_device(
    target: Any, queue: Any = None, *, scale: float = 1.0, again: bool = False
) -> Device:
    """Measure the limits of a device with kernels for *target*, or read them from disk.

    *queue* is an OpenCL queue, which may be the only argument, ``measure_device(queue)``; CUDA
    runs in the current context, C on the host. The arrays have 128 MiB times *scale*; those that
    measure caches have a sixteenth of that. *again*: measure even if the limits are on disk.

    Raises :class:`InvocationError` for a target that does not run its code on this machine.

    >>> from kgen.targets.c import ExecutableCTarget
    >>> measure_device(ExecutableCTarget(), scale=1e-3).bandwidth > 0
    True
    """
    if not isinstance(target, TargetBase):
        target, queue = PyOpenCLTarget(), target
    if not scale > 0:
        raise InvocationError(f"the scale of the arrays is a positive number, not {scale!r}")
    leading = () if queue is None else (queue,)
    name = device_name(target, leading)
    disk = process_caches.disk
    key = content_key("limits of a device, 3", name, type(target).__name__, str(scale))
    kept = None if again else disk.load(key)
    if kept is not None:
        return Device.from_json(kept.decode())
    bandwidth = copy_bandwidth(target, leading, int(scale * (1 << 25)))
    near = copy_bandwidth(
        target, leading, int(scale * (1 << 17))
    )  # quick calls: where they are cheap
    near = max(near, _cache_bandwidth(target, leading, int(scale * (1 << 21))))
    device = Device(
        name=name,
        bandwidth=bandwidth,
        cache_bandwidth=max(bandwidth, near),
        local_bandwidth=_local_bandwidth(target, leading, int(scale * (1 << 14))),
        item_rate=None if _is_host(target) else _item_rate(target, leading, int(scale * (1 << 25))),
        flops={dtype: _flops(target, leading, dtype, int(scale * (1 << 18))) for dtype in _TYPES},
        overhead=_overhead(target, leading),
    )
    disk.store(key, device.to_json().encode())
    return device


def device_name(target: TargetBase, leading: tuple[Any, ...]) -> str:
    """Return the name of the device that runs code of a target, and of its driver."""
    target.load_runtime().device_of(*leading)
    if leading:
        device = leading[0].device
        return f"{device.name.strip()} ({device.platform.name}, {device.driver_version})"
    context = getattr(_fill("float32").copy(target=target).executor(), "context", None)
    if context is not None:
        return f"{context.get_device().name()} (CUDA)"
    return f"{platform.processor() or platform.machine()} (host {platform.node()})"


def _on_axes(unit: TranslationUnit, target: TargetBase) -> TranslationUnit:
    """Spread the loop over ``i`` over work-groups."""
    unit = unit.copy(target=target)
    return split_iname(unit, "i", _GROUP, outer_tag="g.0", inner_tag="l.0")


def _fill(dtype: str, rows: int | None = None) -> TranslationUnit:
    domain = (
        "{ [i]: 0 <= i < n }" if rows is None else f"{{ [k, i]: 0 <= k < {rows} and 0 <= i < n }}"
    )
    place = "out[i]" if rows is None else "out[k, i]"
    unit = make_kernel(domain, f"{place} = 1", assumptions=_SIZES, name="fill")
    return add_dtypes(unit, {"out": np.dtype(dtype)})


_SIZES = "1 <= n < 2000000000"


def _filled(
    target: TargetBase, leading: tuple[Any, ...], dtype: str, size: int, rows: int | None = None
) -> Any:
    """Make an array on the device: a vector, or *rows* of them."""
    options = {} if _is_host(target) else {"out_host": False}
    _, (out,) = _on_axes(_fill(dtype, rows), target)(*leading, n=size, **options)
    return out


def _quickest(call: Callable[[], Any]) -> float:
    return seconds_of(call, choose=min)


def _is_host(target: TargetBase) -> bool:
    return not target.has_work_items


def copy_bandwidth(target: TargetBase, leading: tuple[Any, ...], size: int) -> float:
    """Return the bytes per second of a copy of *size* numbers of four bytes, read and written."""
    unit = _copy()
    if not _is_host(target):  # four numbers at a time keep more of them on the way
        size = max(size // 4, _GROUP) * 4
        unit = assume(split_iname(unit, "i", 4, outer_iname="i_4", inner_tag="vec"), "n mod 4 = 0")
        unit = rename_iname(unit, "i_4", "i")
    return 8 * size / _seconds_of_copy(_on_axes(unit, target), target, leading, size)


def _item_rate(target: TargetBase, leading: tuple[Any, ...], size: int) -> float:
    """Return the number of work-items per second that copy a number."""
    return size / _seconds_of_copy(_on_axes(_copy(), target), target, leading, size)


def _copy() -> TranslationUnit:
    unit = make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]", assumptions=_SIZES, name="copy")
    return add_dtypes(unit, {"a": np.float32})


def _seconds_of_copy(
    unit: TranslationUnit, target: TargetBase, leading: tuple[Any, ...], size: int
) -> float:
    a, out = (_filled(target, leading, "float32", size) for _ in range(2))
    return _quickest(lambda: unit(*leading, a=a, out=out))


def _cache_bandwidth(target: TargetBase, leading: tuple[Any, ...], size: int) -> float:
    """Return the bytes per second of reading a small array again and again."""
    rows, repeats = 64, 16
    unit = make_kernel(
        f"{{ [i, r, k]: 0 <= i < n and 0 <= r < {repeats} and 0 <= k < {rows} }}",
        "out[r, i] = sum(k, a[k, i])",
        assumptions=_SIZES,
        name="reread",
    )
    unit = tag_inames(_on_axes(add_dtypes(unit, {"a": np.float32}), target), {"r": "g.1"})
    columns = max(_GROUP, size // rows)
    a = _filled(target, leading, "float32", columns, rows)
    out = _filled(target, leading, "float32", columns, repeats)
    return 4 * rows * columns * repeats / _quickest(lambda: unit(*leading, a=a, out=out))


def _local_bandwidth(target: TargetBase, leading: tuple[Any, ...], groups: int) -> float | None:
    """Return the bytes per second of reading local memory."""
    if _is_host(target):
        return None
    groups = max(groups, 1)
    unit = make_kernel(
        f"{{ [i, h, m, l, k]: 0 <= i < n and 0 <= h < 2 and 0 <= m, l, k < {_GROUP} }}",
        f"""
        tile[{_GROUP}*h + m] = a[{_GROUP}*h + m] {{id=fill, inames=i:h:m}}
        out[i, l] = sum(k, tile[l + k]) {{dep=fill}}
        """,
        [
            TemporaryVariable("tile", np.float32, 2 * _GROUP, address_space=AddressSpace.LOCAL),
            GlobalArg("a", np.float32, shape=(2 * _GROUP,)),
            "...",
        ],
        target=target,
        assumptions=_SIZES,
        name="shared",
    )
    unit = tag_inames(unit, {"i": "g.0", "m": "l.0", "l": "l.0"})
    a = _filled(target, leading, "float32", 2 * _GROUP)
    out = _filled(target, leading, "float32", _GROUP, groups)
    return 4 * _GROUP * _GROUP * groups / _quickest(lambda: unit(*leading, a=a, out=out))


def _flops(target: TargetBase, leading: tuple[Any, ...], dtype: str, size: int) -> float:
    """Return the multiplications and additions per second."""
    steps = 512
    chains = range(_CHAINS)
    lines = ["<> x = a[i] {id=load}"]
    lines += [f"<> c{k} = x + {k} {{id=first{k}, dep=load}}" for k in chains]
    lines += [f"c{k} = c{k}*x + {k + 1} {{id=step{k}, dep=first{k}, inames=i:t}}" for k in chains]
    total = " + ".join(f"c{k}" for k in chains)
    lines.append(f"out[i] = {total} {{dep=step*}}")
    unit = make_kernel(
        f"{{ [i, t]: 0 <= i < n and 0 <= t < {steps} }}",
        "\n".join(lines),
        assumptions=_SIZES,
        name="chains",
    )
    unit = _on_axes(add_dtypes(unit, {"a": np.dtype(dtype)}), target)
    size = max(_GROUP, size // 64) if _is_host(target) else size
    a, out = (_filled(target, leading, dtype, size) for _ in range(2))
    return 2 * _CHAINS * steps * size / _quickest(lambda: unit(*leading, a=a, out=out))


def _overhead(target: TargetBase, leading: tuple[Any, ...]) -> float:
    """Return the seconds of a call that does almost nothing."""
    unit = _on_axes(_fill("float32"), target)
    out = _filled(target, leading, "float32", _GROUP)
    return _quickest(lambda: unit(*leading, out=out))
