"""Restrictions that follow from the device: kernels that cannot be launched, before their code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pymbolic import evaluate

from kgen.analysis.held import is_held
from kgen.errors import KgenError, StaticValueFindingError
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import fix_param_values
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.statistics.programs import prepared_kernel
from kgen.targets.limits import DeviceLimits, bytes_of

__all__ = ["bytes_of_arrays", "find_obstacle", "number_of"]


def find_obstacle(
    program: TranslationUnit, sizes: Mapping[str, Any], limits: DeviceLimits | None
) -> str | None:
    """Return why a kernel cannot run on a device for some sizes, as far as known without its code.

    * its assumptions, such as ``n mod 16 = 0``, exclude the sizes
    * a work-group has more work-items, or more local memory, than the device has
    * there are more work-groups along an axis
    * a single array of a work-item is larger than its registers

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*i", assumptions="n mod 8 = 0")
    >>> find_obstacle(knl, {"n": 20}, None)
    "n = 20 breaks the assumptions '(n) mod 8 = 0'"
    """
    kernel = prepared_kernel(program)
    return next(_obstacles(kernel, _integers(kernel, sizes), limits), None)


def _integers(kernel: LoopKernel, sizes: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(sizes[name]) for name in kernel.all_params() if name in sizes}


def _obstacles(
    kernel: LoopKernel, sizes: Mapping[str, int], limits: DeviceLimits | None
) -> Iterator[str]:
    if fix_param_values(kernel.assumptions, sizes).is_empty():
        shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
        yield f"{shown} breaks the assumptions {_shown(kernel)!r}"
    if limits is not None and kernel.axes:
        yield from _of_groups(kernel, sizes, limits)
        yield from _of_memory(kernel, limits)


def _shown(kernel: LoopKernel) -> str:
    _, _, inner = str(kernel.assumptions).partition(":")
    return inner.strip(" }")


def _of_groups(kernel: LoopKernel, sizes: Mapping[str, int], limits: DeviceLimits) -> Iterator[str]:
    try:
        grid = kernel.grid
    except StaticValueFindingError:  # code generation has a better message
        return
    items = math.prod(grid.locals)
    if items > limits.work_items:
        yield f"work-groups of {items} work-items {grid.locals}: at most {limits.work_items}"
    for axis, (size, most) in enumerate(zip(grid.locals, limits.sizes, strict=False)):
        if size > most:
            yield f"{size} work-items along axis l.{axis}: at most {most}"
    for axis, (count, most) in enumerate(zip(grid.groups, limits.groups, strict=False)):
        number = number_of(count, sizes)
        if number is not None and number > most:
            yield f"{number} work-groups along axis g.{axis}: at most {most}"


def number_of(count: Any, sizes: Mapping[str, Any]) -> int | None:
    """Return a number of work-groups for some sizes, or ``None`` if unknown."""
    try:
        return int(evaluate(count, dict(sizes)))
    except (KgenError, KeyError, TypeError):
        return None


def _of_memory(kernel: LoopKernel, limits: DeviceLimits) -> Iterator[str]:
    local = bytes_of_arrays(kernel, AddressSpace.LOCAL)
    # With several launches each may have some of the arrays; one alone must fit in any case.
    has_launches = any(insn.is_global_barrier for insn in kernel.instructions)
    used = max(local.values(), default=0) if has_launches else sum(local.values())
    if used > limits.local_memory:
        yield f"{used} bytes of local memory ({_shares(local)}): at most {limits.local_memory}"
    if limits.registers is None:
        return
    private = bytes_of_arrays(kernel, AddressSpace.PRIVATE)
    largest = max(private, key=lambda name: private[name], default=None)
    most = _registers(kernel, limits)
    if largest is not None and private[largest] > 4 * most:
        yield f"'{largest}' takes {private[largest] // 4} registers of a work-item: at most {most}"


def _registers(kernel: LoopKernel, limits: DeviceLimits) -> int:
    """Return how many registers a work-item of a kernel can have: all fit on a multiprocessor."""
    assert limits.registers is not None
    items = max(1, math.prod(kernel.grid.locals))
    return min(limits.registers, (limits.registers_of_group or 1 << 30) // items)


def bytes_of_arrays(kernel: LoopKernel, space: AddressSpace) -> dict[str, int]:
    """Return the bytes of the arrays in an address space, by their storage."""
    sizes: dict[str, int] = {}
    for temporary in kernel.temporary_variables.values():
        if temporary.address_space == space and not is_held(kernel, temporary.name):
            storage = temporary.base_storage or temporary.name
            sizes[storage] = max(sizes.get(storage, 0), bytes_of(temporary))
    return sizes


def _shares(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {size}" for name, size in sizes.items())
