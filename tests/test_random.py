"""Random kernels under random transformations, held against their own meaning.

``KGEN_RANDOM_KERNELS`` is the number of kernels for each test, ``KGEN_RANDOM_SEED`` chooses
others. A failure prints the program, as small as it could be made. The last lines of a run of
pytest say how many programs were compared, and why the others were not.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import (
    CompilationError,
    KgenWarning,
    ScheduleError,
    StaticValueFindingError,
    TransformError,
)
from kgen.targets.generate import generate_module, lower
from kgen.targets.module import Module
from tests.oracle import Oracle
from tests.random.choices import Draw
from tests.random.compiled import Arrays, allocate, call, compile_modules
from tests.random.device import Device
from tests.random.large import OVERFLOW_FLAGS, overflows
from tests.random.program import Program, minimize, reason
from tests.random.steps import (
    STORING,
    device_programs,
    fetch_programs,
    global_programs,
    host_programs,
    large_programs,
    local_programs,
    programs,
    saving_programs,
    scan_programs,
)
from tests.reference import InexactError, Memory, Reference, to_array, to_memory

COUNT = int(os.environ.get("KGEN_RANDOM_KERNELS", "60"))
SEED = int(os.environ.get("KGEN_RANDOM_SEED", "1"))
_BATCH = 200

#: PoCL copies the code behind each barrier that is under a condition; so many take minutes.
MANY_BARRIERS = 8

Check = Callable[[Program], None]
CompiledCheck = Callable[[Program, Module, Any], None]


#: A kernel for which there is no schedule, no grid, or no room for what a step needs.
_REFUSALS = (ScheduleError, StaticValueFindingError, TransformError)


# -- drawing and judging --------------------------------------------------------------------


def draw(kind: Callable[[Draw], Program], count: int) -> list[Program]:
    """Draw that many different programs."""
    found: dict[str, Program] = {}
    number = 0
    while len(found) < count:
        program = kind(Draw(f"{SEED} {kind.__name__} {number}"))
        found.setdefault(str(program), program)
        number += 1
    return list(found.values())


class LeftOut(Exception):
    """Why there is nothing to compare for a program."""


class Judge:
    """Collects what became of programs; what no schedule exists for is counted, not wrong."""

    def __init__(self, drawn: Sequence[Program], record: Callable[[str, object], None]) -> None:
        self.drawn = drawn
        self.record = record
        self.left_out: Counter[str] = Counter()
        self.failed: list[tuple[Program, Exception]] = []

    def attempt(self, program: Program, step: Callable[[], object]) -> bool:
        """Do a step for a program, and tell whether that went well."""
        try:
            step()
        except (*_REFUSALS, LeftOut) as error:
            self.left_out[reason(error)] += 1
        except Exception as error:
            self.failed.append((program, error))
        else:
            return True
        return False

    def conclude(self, name: str, check: Check) -> None:
        """Fail with the smallest failing program, if there is one."""
        count, left_out = len(self.drawn), sum(self.left_out.values())
        accepted = sum(len(program.steps) for program in self.drawn)
        tried = accepted + sum(len(program.refused) for program in self.drawn)
        storing = sum(any(s.function in STORING for s in program.steps) for program in self.drawn)
        unscheduled = Counter(why for program in self.drawn for why in program.unscheduled)
        right = count - left_out - len(self.failed)
        lines = [
            f"{count} programs: {right} right, {len(self.failed)} wrong, {left_out} left out",
            *(f"  {n} left out: {why}" for why, n in self.left_out.most_common()),
            f"  {storing} store values ahead; {accepted} of {tried} transformations accepted",
            *(f"  {n} undone: {why}" for why, n in unscheduled.most_common()),
        ]
        self.record(name, "\n".join(lines))
        for program, error in sorted(self.failed, key=lambda pair: len(str(pair[0])))[:1]:
            smallest = minimize(program, partial(_fails, check, type(error)))
            pytest.fail(
                f"{len(self.failed)} of {count} programs fail; the smallest: "
                f"{type(error).__name__}: {error}\n{smallest}",
                pytrace=False,
            )
        assert accepted >= 0.6 * tried
        assert left_out <= max(1, 0.1 * count)


def _fails(check: Check, kind: type[Exception], program: Program) -> bool:
    try:
        check(program)
    except Exception as error:
        return type(error) is kind
    return False


def judge(drawn: Sequence[Program], name: str, check: Check, record: Any) -> None:
    """Check all programs, one by one."""
    verdict = Judge(drawn, record)
    for program in drawn:
        verdict.attempt(program, partial(check, program))
    verdict.conclude(name, check)


# -- what a program is checked for ----------------------------------------------------------


def value_ranges(program: Program) -> dict[str, range]:
    return {array.name: array.values for array in program.arrays}


def meaning(
    unit: lp.TranslationUnit,
    parameters: dict[str, int],
    arrays: Arrays,
    *,
    reverse: bool = False,
) -> dict[str, Memory] | None:
    """Return what arrays hold in the end; ``None`` where a number is too large for a float."""
    memory = {name: to_memory(array) for name, array in arrays.items()}
    reference = Reference(unit.default_entrypoint, parameters, memory)
    try:
        return reference.run(reverse=reverse)
    except InexactError:
        return None


def compare(want: dict[str, Memory], got: Arrays, parameters: dict[str, int]) -> None:
    for name, array in got.items():
        expected = to_array(want[name], array)
        assert np.array_equal(expected, array), f"{name} is wrong for {parameters}"


def check_results(program: Program, module: Module, library: Any) -> None:
    """Run the compiled kernel for some sizes, against the kernel's meaning."""
    unit, compared = program.make(), 0
    for seed, parameters in enumerate(program.parameter_sets(unit)):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is not None:
            compare(want, call(library, module, parameters, arrays), parameters)
            compared += 1
    _require(compared)


def _require(compared: int) -> None:
    if not compared:
        raise LeftOut("its numbers are too large for floats, or its arrays are empty")


def _generate(program: Program, name: str, modules: dict[str, Module]) -> None:
    modules[str(program)] = generate_module(program.transform(program.make(name)))


def check_large(program: Program, module: Module, library: Any) -> None:
    """Run where signed overflow ends a process, and compare."""
    for parameters in program.parameter_sets(program.make()):
        arrays = allocate(module, parameters, value_ranges(program), 0)
        assert not overflows(library, module, parameters, arrays), f"overflow for {parameters}"
    check_results(program, module, library)


def check_alone(
    program: Program, check: CompiledCheck = check_results, flags: Sequence[str] = ()
) -> None:
    module = generate_module(program.transform(program.make()))
    with tempfile.TemporaryDirectory() as folder:
        check(program, module, compile_modules([module], Path(folder), flags))


def attempt_compiled(
    verdict: Judge, folder: Path, check: CompiledCheck, flags: Sequence[str] = ()
) -> None:
    """Check all programs, many of them in one library."""
    modules: dict[str, Module] = {}
    for number, program in enumerate(verdict.drawn):
        verdict.attempt(program, partial(_generate, program, f"k{number}", modules))
    generated = [program for program in verdict.drawn if str(program) in modules]
    for start in range(0, len(generated), _BATCH):
        some = generated[start : start + _BATCH]
        place = folder / str(start)
        place.mkdir()
        try:
            library = compile_modules([modules[str(program)] for program in some], place, flags)
        except CompilationError:  # find out which
            for program in some:
                verdict.attempt(program, partial(check_alone, program, check, flags))
            continue
        for program in some:
            verdict.attempt(program, partial(check, program, modules[str(program)], library))


def check_instances(program: Program) -> None:
    """Interpret the code tree: every instance once, in order."""
    unit = program.make()
    kernel = program.transform(unit).default_entrypoint
    for target in (lp.CTarget(), lp.CudaTarget()):
        lowered = lower(kernel.copy(target=target))
        for parameters in program.parameter_sets(unit)[:4]:
            Oracle(lowered.kernel, parameters).check(lowered.functions)


def check_work_items(program: Program) -> None:
    """Interpret launches on data, work-items in both orders, against the kernel's meaning."""
    unit = program.make()
    kernel = program.transform(unit).default_entrypoint
    lowered = lower(kernel.copy(target=lp.CudaTarget()))
    module = generate_module(kernel.copy(target=lp.CudaTarget()))
    compared = 0
    for seed, parameters in enumerate(program.parameter_sets(unit)[:3]):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is None:
            continue
        for reverse in (False, True):
            memory = {name: to_memory(array) for name, array in arrays.items()}
            device = Device(lowered.kernel, parameters, reverse=reverse)
            device.run(lowered.host, lowered.functions, memory)
            for name in arrays:
                assert memory[name] == want[name], f"{name} is wrong for {parameters}"
        compared += 1
    _require(compared)


# -- the tests --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterable[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KgenWarning)
        yield


@pytest.fixture(scope="module", params=[programs, host_programs], ids=["loops", "fetches"])
def drawn(request: pytest.FixtureRequest) -> list[Program]:
    return draw(request.param, COUNT // 2)


def test_kernels_have_one_meaning(drawn: list[Program]) -> None:
    for program in drawn:
        unit = program.make()
        for seed, parameters in enumerate(program.parameter_sets(unit)[-2:]):
            arrays = allocate(generate_module(unit), parameters, value_ranges(program), seed)
            one, other = (meaning(unit, parameters, arrays, reverse=r) for r in (False, True))
            if one is not None and other is not None:
                for name in arrays:
                    assert one[name] == other[name], f"{name} in\n{program}"


def test_compiled_kernels_compute_what_they_mean(
    drawn: list[Program], tmp_path: Path, record_property: Any
) -> None:
    verdict = Judge(drawn, record_property)
    attempt_compiled(verdict, tmp_path, check_results)
    verdict.conclude("compiled", check_alone)


def test_indices_near_the_largest_sizes_do_not_overflow(
    tmp_path: Path, record_property: Any
) -> None:
    verdict = Judge(draw(large_programs, COUNT // 6), record_property)
    attempt_compiled(verdict, tmp_path, check_large, OVERFLOW_FLAGS)
    verdict.conclude("large", partial(check_alone, check=check_large, flags=OVERFLOW_FLAGS))


def test_each_instance_runs_once_and_in_order(drawn: list[Program], record_property: Any) -> None:
    judge(drawn, "interpreted", check_instances, record_property)


def test_work_items_keep_out_of_each_others_way(record_property: Any) -> None:
    judge(draw(device_programs, COUNT // 2), "devices", check_work_items, record_property)


def test_what_work_items_fetch_is_there(record_property: Any) -> None:
    judge(draw(fetch_programs, COUNT // 3), "fetches", check_work_items, record_property)


def test_work_groups_share_tiles(record_property: Any) -> None:
    judge(draw(local_programs, COUNT // 2), "tiles", check_work_items, record_property)


def test_launches_follow_each_other(record_property: Any) -> None:
    judge(draw(global_programs, COUNT // 2), "launches", check_work_items, record_property)


def test_values_outlive_launches(record_property: Any) -> None:
    judge(draw(saving_programs, COUNT // 6), "saved", check_work_items, record_property)


def test_running_results_are_sums(record_property: Any, tmp_path: Path) -> None:
    drawn = draw(scan_programs, COUNT // 6)
    judge(drawn, "scans", check_work_items, record_property)
    verdict = Judge([p.on_host("realize_reduction") for p in drawn], record_property)
    attempt_compiled(verdict, tmp_path, check_results)
    verdict.conclude("scans in order", check_alone)


def check_on_opencl(queue: Any, program: Program) -> None:
    """Run on a device, arrays in place, against the kernel's meaning."""
    pyopencl_array = pytest.importorskip("pyopencl.array")
    plain = program.make()
    unit = program.transform(program.make(target=lp.PyOpenCLTarget()))
    module = generate_module(unit)
    if module.has_fragile_barriers and module.device_source.count("barrier(") > MANY_BARRIERS:
        raise LeftOut("barriers under conditions, which take PoCL minutes")
    compared = 0
    for seed, parameters in enumerate(program.parameter_sets(plain)):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(plain, parameters, arrays)
        if want is None or not all(array.size for array in arrays.values()):
            continue
        there = {name: pyopencl_array.to_device(queue, array) for name, array in arrays.items()}
        sizes = {a.name: parameters[a.name] for a in module.arguments if not a.is_array}
        unit(queue, **there, **sizes)
        compare(want, {name: array.get() for name, array in there.items()}, parameters)
        compared += 1
    _require(compared)


@pytest.mark.parametrize(
    "kind",
    [device_programs, local_programs, global_programs, fetch_programs, scan_programs],
    ids=["devices", "tiles", "launches", "fetches", "scans"],
)
def test_devices_compute_what_kernels_mean(
    kind: Callable[[Draw], Program], opencl_queue: Any, record_property: Any
) -> None:
    judge(
        draw(kind, COUNT // 15),
        "OpenCL",
        partial(check_on_opencl, opencl_queue),
        record_property,
    )
