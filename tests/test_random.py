"""Random kernels under random transformations, held against their own meaning.

``KGEN_RANDOM_KERNELS`` is the number of kernels for each test, ``KGEN_RANDOM_SEED`` chooses
others. A failure prints the program, as small as it could be made. The last lines of a run of
pytest say how many programs were compared, and why the others were not.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

import kgen as lp
from kgen.errors import CompilationError, KgenWarning
from kgen.lowering import generate_module
from kgen.targets.c import OPENMP
from kgen.targets.module import Module
from tests.random.checks import (
    REFUSALS,
    Check,
    CompiledCheck,
    LeftOut,
    check_alone,
    check_emulated,
    check_instances,
    check_lanes,
    check_large,
    check_large_alone,
    check_large_threads,
    check_on_opencl,
    check_results,
    check_threads,
    check_work_items,
    fails,
    meaning,
    value_ranges,
)
from tests.random.choices import Draw
from tests.random.compiled import allocate, compile_modules
from tests.random.large import OVERFLOW_FLAGS
from tests.random.program import Program, minimize, reason
from tests.random.schedules import (
    check_scheduled,
    check_scheduled_items,
    fine_grains,
    item_schedules,
    thread_schedules,
)
from tests.random.steps import (
    STORING,
    ahead_programs,
    balanced_programs,
    copy_programs,
    device_programs,
    fetch_programs,
    fused_programs,
    global_programs,
    host_programs,
    lane_programs,
    large_programs,
    large_thread_programs,
    local_programs,
    pipeline_programs,
    programs,
    row_programs,
    saving_programs,
    scan_programs,
    tensor_programs,
    thread_programs,
    turn_programs,
    window_programs,
)

COUNT = int(os.environ.get("KGEN_RANDOM_KERNELS", "40"))
SEED = int(os.environ.get("KGEN_RANDOM_SEED", "1"))
_BATCH = 200

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
        except (*REFUSALS, LeftOut) as error:
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
            smallest = minimize(program, partial(fails, check, type(error)))
            pytest.fail(
                f"{len(self.failed)} of {count} programs fail; the smallest: "
                f"{type(error).__name__}: {error}\n{smallest}",
                pytrace=False,
            )
        assert accepted >= 0.6 * tried - 2 * sqrt(tried)  # a few programs vary more than many
        assert left_out <= max(1, 0.1 * count)


def judge(drawn: Sequence[Program], name: str, check: Check, record: Any) -> None:
    """Check all programs, one by one."""
    verdict = Judge(drawn, record)
    for program in drawn:
        verdict.attempt(program, partial(check, program))
    verdict.conclude(name, check)


# -- many at once ----------------------------------------------------------------------------


def _generate(program: Program, name: str, target: Any, modules: dict[str, Module]) -> None:
    modules[str(program)] = generate_module(program.transformed(name, target))


def attempt_compiled(
    verdict: Judge,
    folder: Path,
    check: CompiledCheck,
    flags: Sequence[str] = (),
    target: Any = None,
) -> None:
    """Check all programs, many of them in one library."""
    modules: dict[str, Module] = {}
    for number, program in enumerate(verdict.drawn):
        verdict.attempt(program, partial(_generate, program, f"k{number}", target, modules))
    generated = [program for program in verdict.drawn if str(program) in modules]
    for start in range(0, len(generated), _BATCH):
        some = generated[start : start + _BATCH]
        place = folder / str(start)
        place.mkdir()
        try:
            library = compile_modules([modules[str(program)] for program in some], place, flags)
        except CompilationError:  # find out which
            for program in some:
                verdict.attempt(program, partial(check_alone, program, check=check, flags=flags))
            continue
        for program in some:
            verdict.attempt(program, partial(check, program, modules[str(program)], library))


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


def test_fused_kernels_compute_what_one_after_the_other_does(record_property: Any) -> None:
    judge(draw(fused_programs, COUNT // 6), "fused", check_alone, record_property)


def test_indices_near_the_largest_sizes_do_not_overflow(
    tmp_path: Path, record_property: Any
) -> None:
    verdict = Judge(draw(large_programs, COUNT // 6), record_property)
    attempt_compiled(verdict, tmp_path, check_large, OVERFLOW_FLAGS)
    verdict.conclude("large", check_large_alone)


def test_each_instance_runs_once_and_in_order(drawn: list[Program], record_property: Any) -> None:
    judge(drawn, "interpreted", check_instances, record_property)


def test_work_items_keep_out_of_each_others_way(record_property: Any) -> None:
    judge(draw(device_programs, COUNT // 2), "devices", check_work_items, record_property)


def test_what_work_items_fetch_is_there(record_property: Any) -> None:
    judge(draw(fetch_programs, COUNT // 3), "fetches", check_work_items, record_property)


def test_what_is_fetched_ahead_is_there(record_property: Any) -> None:
    judge(draw(ahead_programs, COUNT // 15), "ahead", check_work_items, record_property)


def test_copies_are_complete_when_they_are_read(record_property: Any) -> None:
    judge(draw(copy_programs, COUNT // 20), "copies", check_work_items, record_property)


def test_warps_multiply_matrices(record_property: Any) -> None:
    judge(draw(tensor_programs, COUNT // 20), "tensors", check_work_items, record_property)


def test_what_windows_keep_is_what_is_read(record_property: Any) -> None:
    judge(draw(window_programs, COUNT // 15), "windows", check_work_items, record_property)


def test_pipelines_of_transformations_keep_what_kernels_mean(record_property: Any) -> None:
    judge(draw(pipeline_programs, COUNT // 4), "pipelines", check_work_items, record_property)


def test_bounds_may_be_data(record_property: Any) -> None:
    judge(draw(row_programs, COUNT // 6), "rows", check_work_items, record_property)


def test_rows_are_shared_evenly(record_property: Any) -> None:
    judge(draw(balanced_programs, COUNT // 15), "balanced", check_work_items, record_property)


def test_halves_of_temporaries_take_turns(record_property: Any) -> None:
    judge(draw(turn_programs, COUNT // 6), "turns", check_work_items, record_property)


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


def test_lanes_compute_what_iterations_in_order_do(record_property: Any) -> None:
    judge(draw(lane_programs, COUNT // 10), "lanes", check_lanes, record_property)


def test_threads_compute_what_one_thread_does(record_property: Any) -> None:
    judge(draw(thread_programs, COUNT // 6), "threads", check_threads, record_property)


def test_numbers_of_groups_near_the_largest_sizes_do_not_overflow(record_property: Any) -> None:
    drawn = draw(large_thread_programs, COUNT // 10)
    judge(drawn, "large on threads", check_large_threads, record_property)


def test_schedules_for_threads_compute_what_kernels_mean(
    record_property: Any, tmp_path: Path
) -> None:
    verdict = Judge(draw(thread_schedules, COUNT // 2), record_property)
    with fine_grains():
        attempt_compiled(verdict, tmp_path, check_results, ("-O1", OPENMP))
    verdict.conclude("found for threads", check_scheduled)


def test_schedules_for_work_items_compute_what_kernels_mean(record_property: Any) -> None:
    drawn = draw(item_schedules, COUNT // 3)
    judge(drawn, "found for work-items", check_scheduled_items, record_property)


@pytest.mark.parametrize(
    "kind",
    [device_programs, local_programs, global_programs, fetch_programs, turn_programs],
    ids=["devices", "tiles", "launches", "fetches", "turns"],
)
def test_threads_run_work_items(
    kind: Callable[[Draw], Program], tmp_path: Path, record_property: Any
) -> None:
    verdict = Judge(draw(kind, COUNT // 6), record_property)
    attempt_compiled(verdict, tmp_path, check_results, [OPENMP], lp.CTarget(threads=2))
    verdict.conclude("threads", check_threads)


@pytest.mark.parametrize("kind", [copy_programs, tensor_programs], ids=["copies", "tensors"])
def test_code_for_cuda_computes_what_kernels_mean(
    kind: Callable[[Draw], Program], record_property: Any
) -> None:
    judge(draw(kind, COUNT // 40), "CUDA on the host", check_emulated, record_property)


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
