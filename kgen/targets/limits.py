"""Device limits: work-items per group, groups, local memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kgen.ast.nodes import DeviceFunction
from kgen.errors import CodegenError
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import is_constant
from kgen.ir.stages import DeviceKernel
from kgen.ir.types import AddressSpace

__all__ = ["DeviceLimits", "find_exceeded_limits", "check_device_limits"]


@dataclass(frozen=True, kw_only=True)
class DeviceLimits:
    """The largest work-group, in total and along each axis, and the bytes of its local memory.

    ``groups`` are the maximum numbers of work-groups along each axis, if limited; ``registers`` the
    maximum 4-byte registers of a work-item and of a group, if known; ``capability`` the compute
    capability of an NVIDIA device.
    """

    name: str
    work_items: int
    sizes: tuple[int, ...]
    local_memory: int
    groups: tuple[int, ...] = ()
    registers: int | None = None
    registers_of_group: int | None = None
    capability: tuple[int, int] | None = None


def check_device_limits(
    kernel: DeviceKernel, functions: Iterable[DeviceFunction], limits: DeviceLimits | None
) -> None:
    """Raise :class:`CodegenError` if a launch exceeds a limit of the device."""
    if limits is not None:
        for error in find_exceeded_limits(kernel, functions, limits):
            raise error


def find_exceeded_limits(
    kernel: DeviceKernel, functions: Iterable[DeviceFunction], limits: DeviceLimits
) -> Iterator[CodegenError]:
    """Yield an error for each limit of the device that a launch exceeds."""
    for function in functions:
        count = math.prod(function.locals)
        if count > limits.work_items:
            yield _error(
                function,
                limits,
                f"work-groups of {count} work-items {function.locals}",
                f"{limits.work_items} in a group",
                "split the loops with the tags l.0, l.1, l.2 into smaller pieces",
            )
        for axis, size in enumerate(function.locals):
            most = limits.sizes[axis] if axis < len(limits.sizes) else 1
            if size > most:
                yield _error(
                    function,
                    limits,
                    f"{size} work-items along axis l.{axis}",
                    f"{most} along that axis",
                    "split the loop into smaller pieces, or put it on another axis",
                )
        for axis, groups in enumerate(function.groups):
            if axis >= len(limits.groups) or not is_constant(groups):
                continue
            most = limits.groups[axis]
            if groups > most:
                yield _error(
                    function,
                    limits,
                    f"{groups} work-groups along axis g.{axis}",
                    f"{most} along that axis",
                    "put the longest loop on g.0, or split it",
                )
        used = local_arrays(kernel, function.temporaries)
        if sum(used.values()) > limits.local_memory:
            shares = ", ".join(f"{name}: {size}" for name, size in used.items())
            yield _error(
                function,
                limits,
                f"{sum(used.values())} bytes of local memory ({shares})",
                f"{limits.local_memory} bytes",
                "make the tiles smaller, or prefetch fewer arrays",
            )


def _error(
    function: DeviceFunction, limits: DeviceLimits, what: str, most: str, hint: str
) -> CodegenError:
    return CodegenError(
        f"a launch has {what}, more than the device allows",
        kernel=function.name,
        because=f"{limits.name} has {most}",
        hint=hint,
    )


def local_arrays(kernel: DeviceKernel, names: Collection[str]) -> dict[str, int]:
    """Return the bytes of local memory of each array, or of each base storage."""
    sizes: dict[str, int] = {}
    for name in names:
        temporary = kernel.temporary_variables[name]
        if temporary.address_space == AddressSpace.LOCAL:
            storage = temporary.base_storage or name
            sizes[storage] = max(sizes.get(storage, 0), bytes_of(temporary))
    return sizes


#: The alignment of arrays in the local memory of a launch: the size of the longest accesses.
_LOCAL_ALIGNMENT: Final = 16


def local_layout(
    kernel: DeviceKernel, names: Collection[str], most: int | None
) -> tuple[dict[str, int], int]:
    """Return the offsets of arrays, or base storages, in local memory, and its total bytes.

    No offsets and 0 if they need at most *most* bytes, which can be declared.
    """
    sizes = local_arrays(kernel, names)
    if most is None or sum(sizes.values()) <= most:
        return {}, 0
    arrays = [kernel.temporary_variables[name] for name in names]
    local = (array.alignment or 1 for array in arrays if array.address_space == AddressSpace.LOCAL)
    alignment = max([_LOCAL_ALIGNMENT, *local])
    places: dict[str, int] = {}
    end = 0
    for storage, size in sizes.items():
        places[storage] = end
        end += -(-size // alignment) * alignment
    return places, end


def bytes_of(temporary: TemporaryVariable) -> int:
    """Return the size of a temporary; 0 if it depends on parameters."""
    size = temporary.nbytes
    return int(size) if is_constant(size) else 0
