"""Random kernels under random transformations, held against their own meaning.

``KGEN_RANDOM_KERNELS`` is the number of kernels for each test, ``KGEN_RANDOM_SEED`` chooses
others. A failure prints the program, as small as it could be made.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kgen as lp
from kgen.errors import CompilationError, KgenWarning, ScheduleError
from kgen.targets.generate import generate_module, lower
from kgen.targets.module import Module
from tests.oracle import Oracle
from tests.random.compiled import Arrays, allocate, call, compile_modules
from tests.random.device import Device
from tests.random.program import Program, minimize
from tests.random.steps import device_programs, global_programs, local_programs, programs
from tests.reference import InexactError, Memory, Reference, to_array, to_memory

COUNT = int(os.environ.get("KGEN_RANDOM_KERNELS", "60"))
SEED = int(os.environ.get("KGEN_RANDOM_SEED", "1"))
_BATCH = 200
_SIMPLE = 50

#: PoCL copies the code behind each barrier that is under a condition; so many take minutes.
MANY_BARRIERS = 8

Check = Callable[[Program], None]


# -- drawing and judging --------------------------------------------------------------------


def draw(strategy: st.SearchStrategy[Program], count: int) -> list[Program]:
    """Draw that many different programs, after some that are all too simple."""
    found: dict[str, Program] = {}
    seed = 1000 * SEED
    while len(found) < count + _SIMPLE:

        @hypothesis.seed(seed)
        @settings(
            max_examples=count + _SIMPLE,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def collect(program: Program) -> None:
            found.setdefault(str(program), program)

        collect()
        seed += 1
    return list(found.values())[_SIMPLE : _SIMPLE + count]


class Judge:
    """Collects what became of programs; what no schedule exists for is counted, not wrong."""

    def __init__(self, drawn: Sequence[Program], record: Callable[[str, object], None]) -> None:
        self.drawn = drawn
        self.record = record
        self.refused: list[tuple[Program, Exception]] = []
        self.failed: list[tuple[Program, Exception]] = []

    def attempt(self, program: Program, step: Callable[[], object]) -> bool:
        """Do a step for a program, and tell whether that went well."""
        try:
            step()
        except ScheduleError as error:
            self.refused.append((program, error))
        except Exception as error:
            self.failed.append((program, error))
        else:
            return True
        return False

    def conclude(self, name: str, check: Check) -> None:
        """Fail with the smallest failing program, if there is one."""
        accepted = sum(len(program.steps) for program in self.drawn)
        tried = accepted + sum(len(program.refused) for program in self.drawn)
        self.record(
            name,
            f"{len(self.drawn)} kernels, {len(self.refused)} without a schedule; "
            f"{accepted} of {tried} transformations accepted",
        )
        for program, error in sorted(self.failed, key=lambda pair: len(str(pair[0])))[:1]:
            smallest = minimize(program, partial(_fails, check, type(error)))
            pytest.fail(
                f"{len(self.failed)} of {len(self.drawn)} programs fail; the smallest: "
                f"{type(error).__name__}: {error}\n{smallest}",
                pytrace=False,
            )
        assert accepted >= 0.7 * tried
        assert len(self.refused) <= 0.1 * len(self.drawn)


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
    unit = program.make()
    for seed, parameters in enumerate(program.parameter_sets(unit)):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is not None:
            compare(want, call(library, module, parameters, arrays), parameters)


def _generate(program: Program, name: str, modules: dict[str, Module]) -> None:
    modules[str(program)] = generate_module(program.transform(program.make(name)))


def check_alone(program: Program) -> None:
    module = generate_module(program.transform(program.make()))
    with tempfile.TemporaryDirectory() as folder:
        check_results(program, module, compile_modules([module], Path(folder)))


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
    for seed, parameters in enumerate(program.parameter_sets(unit)[:3]):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is None:
            continue
        for reverse in (False, True):
            memory = {name: to_memory(array) for name, array in arrays.items()}
            device = Device(lowered.kernel, parameters, reverse=reverse)
            for function in lowered.functions:
                device.launch(function, memory)
            for name in arrays:
                assert memory[name] == want[name], f"{name} is wrong for {parameters}"


# -- the tests --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterable[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KgenWarning)
        yield


@pytest.fixture(scope="module")
def drawn() -> list[Program]:
    return draw(programs(), COUNT)


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
    modules: dict[str, Module] = {}
    for number, program in enumerate(drawn):
        verdict.attempt(program, partial(_generate, program, f"k{number}", modules))
    generated = [program for program in drawn if str(program) in modules]
    for start in range(0, len(generated), _BATCH):
        some = generated[start : start + _BATCH]
        folder = tmp_path / str(start)
        folder.mkdir()
        try:
            library = compile_modules([modules[str(program)] for program in some], folder)
        except CompilationError:  # find out which
            for program in some:
                verdict.attempt(program, partial(check_alone, program))
            continue
        for program in some:
            module = modules[str(program)]
            verdict.attempt(program, partial(check_results, program, module, library))
    verdict.conclude("compiled", check_alone)


def test_each_instance_runs_once_and_in_order(drawn: list[Program], record_property: Any) -> None:
    judge(drawn, "interpreted", check_instances, record_property)


def test_work_items_keep_out_of_each_others_way(record_property: Any) -> None:
    judge(draw(device_programs(), COUNT // 2), "devices", check_work_items, record_property)


def test_work_groups_share_tiles(record_property: Any) -> None:
    judge(draw(local_programs(), COUNT // 2), "tiles", check_work_items, record_property)


def test_launches_follow_each_other(record_property: Any) -> None:
    judge(draw(global_programs(), COUNT // 2), "launches", check_work_items, record_property)


def check_on_opencl(queue: Any, program: Program) -> None:
    """Run on a device, arrays in place, against the kernel's meaning."""
    pyopencl_array = pytest.importorskip("pyopencl.array")
    plain = program.make()
    unit = program.transform(program.make(target=lp.PyOpenCLTarget()))
    module = generate_module(unit)
    if module.guards_barriers and module.device_source.count("barrier(") > MANY_BARRIERS:
        return
    for seed, parameters in enumerate(program.parameter_sets(plain)):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(plain, parameters, arrays)
        if want is None or not all(array.size for array in arrays.values()):
            continue
        there = {name: pyopencl_array.to_device(queue, array) for name, array in arrays.items()}
        sizes = {a.name: parameters[a.name] for a in module.arguments if not a.is_array}
        unit(queue, **there, **sizes)
        compare(want, {name: array.get() for name, array in there.items()}, parameters)


@pytest.mark.parametrize(
    "strategy",
    [device_programs(), local_programs(), global_programs()],
    ids=["devices", "tiles", "launches"],
)
def test_devices_compute_what_kernels_mean(
    strategy: st.SearchStrategy[Program], opencl_queue: Any, record_property: Any
) -> None:
    judge(
        draw(strategy, COUNT // 15),
        "OpenCL",
        partial(check_on_opencl, opencl_queue),
        record_property,
    )
