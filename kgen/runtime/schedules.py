"""One kernel with a schedule per kind of device, selected by the device of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kgen.errors import KernelError, near_names
from kgen.host.devices import DEVICE_TYPES
from kgen.host.variants import Variant
from kgen.ir.checked import checked
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.runtime.devices import RunningOn
from kgen.targets.c import ExecutableCTarget

__all__ = ["DeviceSchedules", "per_device"]

#: A selector of devices: a word of :data:`DEVICE_TYPES`, or a test.
DeviceTest: TypeAlias = str | Callable[[RunningOn], bool]
#: Schedules the general program for a device.
Scheduler: TypeAlias = Callable[[TranslationUnit], TranslationUnit]


@dataclass(frozen=True, eq=False)
class DeviceSchedules:
    """A program with one schedule per kind of device; created by :func:`per_device`.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> schedules = lp.per_device(unit, {"host": lambda program: lp.split_iname(program, "i", 8)})
    >>> isinstance(schedules, DeviceSchedules), sorted(schedules["host"]["kgen_kernel"].inames)
    (True, ['i_inner', 'i_outer'])
    """

    program: TranslationUnit
    table: tuple[tuple[DeviceTest, Scheduler], ...]
    _made: dict[tuple[int, TargetBase], TranslationUnit] = field(default_factory=dict, repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel, with the schedule for the device of the call."""
        return self.for_call(*args)(*args, **kwargs)

    def __getitem__(self, device: DeviceTest) -> TranslationUnit:
        """Return the program with the schedule of an entry of the table, for any device."""
        for k, (test, _) in enumerate(self.table):
            if test == device:
                return self._scheduled(k, self.program.target)
        names = [test for test, _ in self.table if isinstance(test, str)]
        raise KernelError(
            f"there is no schedule for {device!r}\n  hint: {near_names(str(device), names)}"
        )

    def device_of(self, *args: Any) -> RunningOn:
        """Return the device that a call with these leading arguments runs on."""
        found: RunningOn = self._target(args).load_runtime().device_of(*args)
        return found

    def for_call(self, *args: Any) -> TranslationUnit:
        """Return the program that a call with these leading arguments, such as a queue, runs.

        Raises :class:`KernelError` if no entry of the table is for the device.
        """
        device = self.device_of(*args)
        for k, (test, _) in enumerate(self.table):
            if device.is_a(test) if isinstance(test, str) else test(device):
                return self._scheduled(k, self._target(args))
        raise KernelError(
            f"there is no schedule for {device!r}\n  hint: add an entry '*' at the end of the "
            "table, for all other devices"
        )

    def variants(self) -> tuple[Variant, ...]:
        """Return the program for each entry of the table, with its kind of device.

        Raises :class:`KernelError` for an entry that is a test, which only Python can evaluate.
        """
        for test, _ in self.table:
            if not isinstance(test, str):
                raise KernelError(
                    f"{test!r} is not the name of a kind of device",
                    because="programs without Python cannot call it",
                    hint=f"use one of {', '.join(DEVICE_TYPES)}",
                )
        return tuple(Variant(self[test], device=str(test)) for test, _ in self.table)

    def _target(self, args: tuple[Any, ...]) -> TargetBase:
        """Return the target of a call: without a queue, OpenCL's kernels run on the host."""
        target = self.program.target
        return ExecutableCTarget() if target.runs_in_queue and not args else target

    def _scheduled(self, entry: int, target: TargetBase) -> TranslationUnit:
        found = self._made.get((entry, target))
        if found is None:
            _, scheduler = self.table[entry]
            program = self.program
            if target != program.target:
                program = program.copy(target=target)
            found = self._made[entry, target] = scheduler(program)
        return found


@checked
def per_device(program: TranslationUnit, table: Mapping[DeviceTest, Scheduler]) -> DeviceSchedules:
    """Attach a schedule for each kind of device to a program, like OpenACC's ``device_type``.

    A call runs the first entry of *table* that is for its device; the function of the entry
    schedules the general program, when first needed. Keys are ``"nvidia"``,
    ``"radeon"``, ``"intel"``, ``"host"``, ``"gpu"``, ``"cpu"``, ``"c"``, ``"opencl"``, ``"cuda"``,
    ``"*"`` for any, or tests of a :class:`kgen.runtime.devices.RunningOn`. The device is that of
    the queue, the current one for CUDA, and the host without a queue.

    ``choices(queue, a=x)`` runs the program; ``choices["nvidia"](queue, a=x)`` runs it with the
    schedule for another device.

    >>> import numpy as np
    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    >>> choices = per_device(knl, {
    ...     "nvidia": lambda knl: lp.parallelize(knl, {"i": "gang vector"}, vector_length=128),
    ...     "radeon": lambda knl: lp.parallelize(knl, {"i": "gang vector"}, vector_length=256),
    ...     "*": lambda knl: knl,
    ... })
    >>> evt, (out,) = choices(a=np.arange(3.0))
    >>> out
    array([0., 2., 4.])
    >>> sorted(choices["radeon"].default_entrypoint.inames)
    ['i_gang', 'i_vector']

    Raises :class:`KernelError` for an unknown kind of device.
    """
    for test in table:
        if isinstance(test, str) and test not in DEVICE_TYPES:
            raise KernelError(
                f"'{test}' is not a kind of device\n  hint: {near_names(test, DEVICE_TYPES)}"
            )
    return DeviceSchedules(program, tuple(table.items()))
