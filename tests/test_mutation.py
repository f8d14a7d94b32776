"""A barrier or a dependency less: a check says so, or the result is the same in every order.

Thirty kernels are correct, and the checks agree; each of their mutants is caught or harmless.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import kgen as lp
from kgen.ast.build import build_code
from kgen.ir.data import ArrayArg
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.lowering import prepare
from kgen.schedule.place import schedule_kernel
from kgen.schedule.separation import find_unsynchronized
from kgen.schedule.tree import Schedule
from tests.backends import NarrowBarriers
from tests.mutation.kernels import CASES
from tests.mutation.machine import Memory, all_results, is_same
from tests.mutation.mutants import (
    with_moved_barriers,
    with_weak_barriers,
    without_barriers,
    without_dependencies,
)

#: With barriers of groups, and with those of warps as well.
TARGETS = {"": lp.OpenCLTarget(), " in warps": NarrowBarriers()}
#: All cases on all targets.
NAMES = [name + where for where in TARGETS for name in CASES]


def built(name: str) -> lp.TranslationUnit:
    """Return a case on a target."""
    case, in_warps, _ = name.partition(" in warps")
    return CASES[case].build().copy(target=TARGETS[in_warps])


@cache
def lowered(name: str) -> tuple[PreparedKernel, Schedule, Memory]:
    """Return a case, prepared, its schedule, and what it computes."""
    kernel = prepare(built(name).default_entrypoint)
    schedule = schedule_kernel(kernel)
    results = list(run(name, kernel, schedule))
    assert all(is_same(results[0][1], result) for _, result in results)
    return kernel, schedule, results[0][1]


def run(name: str, kernel: PreparedKernel, schedule: Schedule) -> Any:
    parameters = CASES[name.removesuffix(" in warps")].parameters
    rng = random.Random(1)
    inputs: Memory = {}
    for arg in kernel.args:
        if isinstance(arg, ArrayArg) and arg.is_input:
            sizes = [parameters.get(str(extent), extent) for extent in arg.shape]
            elements = itertools.product(*(range(size) for size in sizes))
            inputs[arg.name] = {at: float(rng.randint(1, 9)) for at in elements}
    return all_results(kernel, build_code(DeviceKernel(kernel), schedule), parameters, inputs)


def is_harmless(name: str, kernel: PreparedKernel, schedule: Schedule) -> bool:
    expected = lowered(name)[2]
    return all(is_same(expected, result) for _, result in run(name, kernel, schedule))


def assert_caught_or_harmless(
    name: str, mutants: Callable[[Schedule], Iterator[tuple[str, Schedule]]]
) -> None:
    kernel, schedule, _ = lowered(name)
    for reason, mutant in mutants(schedule):
        caught = next(find_unsynchronized(kernel, mutant), None)
        if caught is not None:
            assert " and work-item " in caught.conflict.point
        assert caught is not None or is_harmless(name, kernel, mutant), reason


def test_there_are_thirty_kernels() -> None:
    assert len(CASES) == 30


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error::kgen.KgenWarning")
def test_a_correct_kernel_gives_no_alarm(name: str) -> None:
    report = lp.verify(built(name))
    assert report.ok, report
    assert not report.unknown, report
    lowered(name)


@pytest.mark.parametrize("name", NAMES)
def test_each_barrier_is_needed_or_its_absence_is_harmless(name: str) -> None:
    assert_caught_or_harmless(name, without_barriers)


@pytest.mark.parametrize("name", [name for name in NAMES if "in warps" in name])
def test_each_barrier_of_a_group_is_needed_or_one_of_its_warps_is_enough(name: str) -> None:
    assert_caught_or_harmless(name, with_weak_barriers)


@pytest.mark.parametrize("name", NAMES)
def test_each_moved_barrier_is_found_or_harmless(name: str) -> None:
    assert_caught_or_harmless(name, with_moved_barriers)


@pytest.mark.parametrize("name", NAMES)
def test_each_dependency_is_needed_or_its_absence_is_harmless(name: str) -> None:
    for which, mutant in without_dependencies(built(name).default_entrypoint):
        report = lp.verify(mutant)
        if report.ok:
            kernel = prepare(mutant)
            assert is_harmless(name, kernel, schedule_kernel(kernel)), which
        assert all(finding.point for finding in report.violated if finding.array), report


@pytest.mark.parametrize(
    ("name", "in_loop", "outside"),
    [
        ("tiled_matmul", 2, 0),
        ("tree_reduction", 0, 4),  # one for each of three levels, one for all to see the sum
        ("ping_pong", 2, 0),
    ],
)
def test_there_are_as_few_barriers_as_can_be(name: str, in_loop: int, outside: int) -> None:
    text = str(lowered(name)[1])
    depth = [len(line) - len(line.lstrip()) for line in text.splitlines()]
    loops = [d for line, d in zip(text.splitlines(), depth, strict=True) if "for k" in line]
    barriers = [d for line, d in zip(text.splitlines(), depth, strict=True) if "barrier" in line]
    inside = sum(1 for d in barriers if loops and d > loops[0])
    assert (inside, len(barriers) - inside) == (in_loop, outside), text
