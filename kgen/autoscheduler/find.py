"""The entry points: a schedule for a program and a device, as steps and as a program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kgen.analysis.infer import infer_types
from kgen.autoscheduler.items import OnItems
from kgen.autoscheduler.machine import Machine, machine_of
from kgen.autoscheduler.planner import Planner, Recipe
from kgen.autoscheduler.stated import Stated, read_statements
from kgen.autoscheduler.steps import Schedule
from kgen.autoscheduler.threads import on_threads
from kgen.errors import KgenError, KgenWarning
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.target import Execution
from kgen.ir.unit import TranslationUnit

__all__ = ["autoschedule", "find_schedule", "make_planner", "recipe_for"]

#: Types that are tried for arguments whose types calls determine.
_GUESSES = (np.float64, np.int32)


@checked
def autoschedule(
    program: TranslationUnit,
    device: Any = None,
    *,
    ascending: str | Iterable[str] = (),
    trips: Mapping[str, int] | None = None,
    precision: str | None = None,
) -> TranslationUnit:
    """Return a program with a schedule found by analysis, without measurements.

    Loops are distributed over threads or work-items if their iterations are proved independent.
    Where strides and reuse indicate that it pays, arrays are read in tiles, sums are computed in
    parts, and short loops are unrolled. Tagged loops keep their tags. Loops that cannot be proved
    independent, or are too small, stay as they are. Sums are reordered, which changes rounding.

    :arg device: the device to schedule for: ``None`` for the target of the program; a target,
        which the result then has; a ``pyopencl.Device``; or a description,
        :class:`kgen.Device`, where a bandwidth of local memory means a GPU
    :arg ascending: arrays whose elements ascend, such as the row starts of a sparse matrix: with
        them, work-items share the entries of all rows evenly (:func:`balance`). This is assumed,
        not checked; results are wrong if an element is less than the one before
    :arg trips: mean trip counts of loops whose length is known only in calls, ``{"k": 16}``
    :arg precision: what suffices for products of float32, so that tensor cores may compute them:
        ``"3xtf32"`` is about as accurate as float32, ``"tf32"`` rounds factors to 10 fraction bits
        (:func:`tensorize`). Without, they are never computed there

    ::

        for i                     =>    for i_outer: g.0
          a[i] = 2*a[i]                   for i_inner
        end i                               a[16384*i_outer + i_inner] = ...

    Raises :class:`KernelError` if *ascending* or *trips* name no array or loop of the program,
    and for another *precision*.

    :func:`find_schedule` returns the same schedule as steps that you can print and change.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> scheduled = autoschedule(unit)
    >>> sorted(scheduled.default_entrypoint.inames)
    ['i_inner', 'i_outer']
    """
    target, _ = machine_of(program, device)
    moved = program if target == program.target else program.copy(target=target)
    return find_schedule(moved, device, ascending=ascending, trips=trips, precision=precision)(
        moved
    )


@checked
def find_schedule(
    program: TranslationUnit,
    device: Any = None,
    *,
    ascending: str | Iterable[str] = (),
    trips: Mapping[str, int] | None = None,
    precision: str | None = None,
) -> Schedule:
    """Return the transformations of :func:`autoschedule`, as calls that a user could write.

    ``print(...)`` prints them for a program called ``knl``; calling the result with a program
    applies them. The arguments are those of :func:`autoschedule`.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "a[i] = 2*a[i]", target=lp.ExecutableCTarget())
    >>> print(find_schedule(unit))
    knl = lp.split_iname(knl, 'i', 16384, outer_tag='g.0')
    """
    target, machine = machine_of(program, device)
    if target != program.target:
        program = program.copy(target=target)
    stated = read_statements(program, ascending, trips, precision)
    steps = Schedule()
    for name in sorted(program.entrypoints):
        one = steps(program).with_entrypoints(name)
        planner = make_planner(one, name, stated)
        if machine.kind is Execution.ITEMS:
            _warn_of_open_types(one[name], planner.prover.types)
        steps += planner.plan(recipe_for(machine))
    return steps


def _warn_of_open_types(kernel: LoopKernel, guessed: Mapping[str, Any]) -> None:
    """Warn of arguments without types, which exclude the best schedules for GPUs."""
    if not guessed:
        return
    read = [name for name in guessed if name not in kernel.writers] or list(guessed)
    names = " and ".join(f"'{name}'" for name in read)
    stated = ", ".join(f"'{name}': np.float32" for name in read)
    text = (
        f"in kernel '{kernel.name}': the schedule suits arguments of any type, since the types of "
        f"{names} are not known\n  because: vectors, sums in registers and tensor cores need types"
        f"\n  hint: state them first, here as float32: add_dtypes(knl, {{{stated}}})"
    )
    kernel.warn(text, "untyped_schedule", KgenWarning)


def recipe_for(machine: Machine) -> Recipe:
    """Return the recipe that proposes schedules for nests on a device."""
    recipes: dict[Execution, Recipe] = {
        Execution.THREADS: on_threads,
        Execution.ITEMS: OnItems(machine),
    }
    return recipes.get(machine.kind, lambda planner, nest: iter(()))


def make_planner(program: TranslationUnit, name: str, stated: Stated) -> Planner:
    """Return a planner for one entry point, with types for its arguments if they have none."""
    planners = (Planner(program, name, types, stated) for types in _types(program[name]))
    first = next(planners)
    return (
        first if first.prover.original else next((p for p in planners if p.prover.original), first)
    )


def _types(kernel: LoopKernel) -> list[dict[str, Any]]:
    with contextlib.suppress(KgenError):
        kernel = infer_types(kernel, None, complete=False)
    unknown = [arg.name for arg in kernel.args if arg.dtype is None]
    return [dict.fromkeys(unknown, guess) for guess in _GUESSES] if unknown else [{}]
