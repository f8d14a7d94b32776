"""One random program: what the verifier says of it, and whether it computes what it means."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import kgen as lp
from kgen.errors import CompilationError, KgenError
from tests.random import steps
from tests.random.checks import (
    LeftOut,
    check_alone,
    check_emulated,
    check_instances,
    check_lanes,
    check_large_alone,
    check_large_threads,
    check_on_cuda,
    check_on_opencl,
    check_threads,
    check_work_items,
    is_refusal,
)
from tests.random.choices import Draw
from tests.random.mutants import Transformed, draw_mutant
from tests.random.program import Program, minimize
from tests.random.schedules import (
    check_scheduled,
    check_scheduled_items,
    item_schedules,
    thread_schedules,
)

__all__ = ["KINDS", "TARGETS", "Outcome", "Task", "attempt", "shrink", "try_program"]

TARGETS = ("c", "threads", "tree", "opencl", "emulated", "cuda")

#: What the verifier takes programs to run on.
_MODELS: dict[str, Any] = {
    "c": lp.CTarget(),
    "threads": lp.CTarget(threads=None),
    "tree": lp.CudaTarget(),
    "opencl": lp.OpenCLTarget(),
    "emulated": lp.CudaTarget(),
    "cuda": lp.CudaTarget(),
}

Check = Callable[[Program, lp.TranslationUnit | None], None]


@dataclass(frozen=True)
class Kind:
    """Programs of one kind, and what they are checked for without a device."""

    draw: Callable[[Draw], Program]
    #: where they run without a device: of those with work-items, the code tree is interpreted
    target: str = "c"
    check: Check = check_alone
    #: of how many programs one is run on OpenCL, too; 0 where devices have no such programs
    opencl: int = 1


KINDS: dict[str, Kind] = {
    "programs": Kind(steps.programs, opencl=4),
    "large": Kind(steps.large_programs, check=check_large_alone, opencl=0),
    "lanes": Kind(steps.lane_programs, check=check_lanes, opencl=4),
    "host_fetches": Kind(steps.host_programs, opencl=4),
    "fused": Kind(steps.fused_programs, opencl=4),
    "devices": Kind(steps.device_programs, "tree", check_work_items),
    "fetches": Kind(steps.fetch_programs, "tree", check_work_items),
    "ahead": Kind(steps.ahead_programs, "tree", check_work_items),
    "tiles": Kind(steps.local_programs, "tree", check_work_items),
    "launches": Kind(steps.global_programs, "tree", check_work_items),
    "saved": Kind(steps.saving_programs, "tree", check_work_items, opencl=0),
    "copies": Kind(steps.copy_programs, "tree", check_work_items),
    "tensors": Kind(steps.tensor_programs, "tree", check_work_items),
    "warpgroups": Kind(steps.warpgroup_programs, "tree", check_work_items, opencl=0),
    "windows": Kind(steps.window_programs, "tree", check_work_items),
    "pipelines": Kind(steps.pipeline_programs, "tree", check_work_items),
    "rows": Kind(steps.row_programs, "tree", check_work_items),
    "balanced": Kind(steps.balanced_programs, "tree", check_work_items),
    "turns": Kind(steps.turn_programs, "tree", check_work_items),
    "scans": Kind(steps.scan_programs, "tree", check_work_items),
    "threads": Kind(steps.thread_programs, "threads", check_threads, opencl=0),
    "large_threads": Kind(steps.large_thread_programs, "threads", check_large_threads, opencl=0),
    "schedules": Kind(thread_schedules, "threads", check_scheduled, opencl=0),
    "item_schedules": Kind(item_schedules, "tree", check_scheduled_items),
}


#: Kinds of which some programs have no work-items, and run as C; and how to tell.
_MIXED = ("ahead", "pipelines", "rows", "turns", "windows")
_AXES = re.compile(r"\b[gl]\.")


@dataclass(frozen=True)
class Task:
    """Which program to try; replayed by what ``str`` gives."""

    kind: str
    seed: int
    number: int
    is_shrinking: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}:{self.number}"

    def draw(self) -> Program:
        """Draw the program: the same one for the same task, as in the tests."""
        kind = KINDS[self.kind].draw
        return kind(Draw(f"{self.seed} {kind.__name__} {self.number}"))


@dataclass(frozen=True)
class Outcome:
    """What became of a program, or of a mutant of it, on one target."""

    task: str
    kind: str
    target: str
    #: the mutation, or '' for a program as it was drawn
    mutation: str
    #: what the verifier said: proved, unknown, violated, crashed; 'same', where all that is
    #: unknown is something else than whether it computes what the kernel as it was written does
    verify: str
    #: right, wrong, refused, left out, crashed; or none yet
    run: str
    detail: str = ""
    text: str = ""
    #: a refusal that programs must not meet
    is_unexpected: bool = False

    @property
    def is_failure(self) -> bool:
        """Tell whether this shows something wrong in kgen."""
        if self.mutation:
            return self.verify == "crashed" or self.is_missed
        is_alarm = self.verify in ("violated", "crashed") and self.run == "right"
        return self.run in ("wrong", "crashed") or self.is_unexpected or is_alarm

    @property
    def is_missed(self) -> bool:
        """Tell whether something wrong was neither refused nor called violated."""
        return self.run in ("wrong", "crashed") and self.verify != "violated"


@functools.cache
def _queue() -> Any:
    """Make a queue on the OpenCL platform that KGEN_OPENCL_PLATFORM names, else on PoCL."""
    cl = importlib.import_module("pyopencl")
    wanted = os.environ.get("KGEN_OPENCL_PLATFORM", "portable computing language").lower()
    platform = next(p for p in cl.get_platforms() if wanted in p.name.lower())
    return cl.CommandQueue(cl.Context(platform.get_devices()[:1]))


def _on_opencl(program: Program, mutant: lp.TranslationUnit | None) -> None:
    check_on_opencl(_queue(), program, mutant)


def _on_cuda(program: Program, mutant: lp.TranslationUnit | None) -> None:
    """Run on the first GPU; ends the process where CUDA fails, whose context is lost then."""
    importlib.import_module("pycuda.autoprimaryctx")
    driver = importlib.import_module("pycuda.driver")
    try:
        check_on_cuda(program, mutant)
    except driver.Error as error:
        print(f"{error}\n{program}", flush=True)
        os._exit(1)


def _instances(program: Program, mutant: lp.TranslationUnit | None) -> None:
    check_instances(program)


def _checks(task: Task, program: Program, targets: Sequence[str]) -> Iterator[tuple[str, Check]]:
    kind = KINDS[task.kind]
    is_serial = task.kind in _MIXED and not _AXES.search(str(program.steps))
    first, check = ("c", check_alone) if is_serial else (kind.target, kind.check)
    if first in targets:
        yield first, check
    if first == "tree" and "threads" in targets:
        yield "threads", check_threads
    if "tree" in targets and kind.check is check_alone and task.number % 4 == 1:
        yield "tree", _instances
    if "opencl" in targets and kind.opencl and task.number % kind.opencl == 0:
        yield "opencl", _on_opencl
    if "emulated" in targets and kind.opencl and _AXES.search(str(program.steps)):
        yield "emulated", check_emulated
    if "cuda" in targets and kind.opencl and _AXES.search(str(program.steps)):
        yield "cuda", _on_cuda


def _verdict(unit: lp.TranslationUnit) -> tuple[str, str]:
    """Return what the verifier says, and the first of it that is not a proof."""
    try:
        report = lp.verify(unit)
    except KgenError as error:
        return "violated", f"verify raises {type(error).__name__}: {error}"
    except Exception as error:
        return "crashed", f"verify raises {type(error).__name__}: {error}"
    is_same = all(finding.check != "origin" for finding in report.unknown)
    unknown = "unknown, same" if is_same else "unknown"
    for findings, verdict in ((report.violated, "violated"), (report.unknown, unknown)):
        for finding in findings:
            return verdict, f"{finding.check}: {finding.message}"
    return "proved", ""


def _run(outcome: Outcome, check: Callable[[], None]) -> Outcome:
    """Run a check, and say what became of it."""
    run, is_unexpected = "right", False
    detail = outcome.detail
    try:
        check()
    except LeftOut as error:
        run, detail = "left out", str(error)
    except CompilationError as error:
        run, detail = "crashed", f"it does not compile: {error}"
    except KgenError as error:
        run, detail = "refused", f"{type(error).__name__}: {error}"
        is_unexpected = not outcome.mutation and not is_refusal(error)
    except AssertionError as error:
        run, detail = "wrong", str(error)
    except Exception as error:
        run, detail = "crashed", f"{type(error).__name__}: {error}"
    return dataclasses.replace(outcome, run=run, detail=detail, is_unexpected=is_unexpected)


def _outcomes(task: Task, program: Program, targets: Sequence[str]) -> Iterator[Outcome]:
    """Try a program as it was drawn; each outcome comes once without a result, before the run."""
    verdicts: dict[Any, tuple[str, str]] = {}
    for target, check in _checks(task, program, targets):
        model = _MODELS[target]
        if model not in verdicts:
            verdicts[model] = _verdict_of(program, model)
        verdict, why = verdicts[model]
        started = Outcome(str(task), task.kind, target, "", verdict, "died", text=str(program))
        yield started
        done = _run(started, functools.partial(check, program, None))
        if done.run == "right" and done.verify != "proved":
            done = dataclasses.replace(done, detail=why)
        yield done


def _verdict_of(program: Program, target: Any) -> tuple[str, str]:
    try:
        unit = program.transformed(target=target)
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    return _verdict(unit)


def _mutants(task: Task, program: Program, targets: Sequence[str]) -> Iterator[Outcome]:
    """Try a mutant, where it is cheap to run."""
    target, check = next(_checks(task, program, ("c", "threads", "tree")))
    if target not in targets:
        return
    model: Any = lp.CudaTarget() if target == "tree" else _MODELS[target]
    try:
        before, unit = program.make(), program.transformed(target=model)
        given = Transformed(unit.default_entrypoint, before.default_entrypoint)
        found = draw_mutant(Draw(f"{task} mutant"), given)
    except Exception:  # the program itself fails, which its own outcome says
        return
    if found is None:
        return
    family, text, kernel = found
    written = unit.default_entrypoint.origin or unit.default_entrypoint
    mutant = unit.with_kernel(kernel.copy(origin=written))
    verdict, why = _verdict(mutant)
    started = Outcome(
        str(task), task.kind, target, family, verdict, "died", why, f"{program}\n# mutant: {text}"
    )
    yield started
    yield _run(started, functools.partial(check, program, mutant))


def try_program(task: Task, targets: Sequence[str], mutants: int = 1) -> Iterator[Outcome]:
    """Try a program and a mutant of it: each outcome before its run, and after."""
    program = task.draw()
    yield from _outcomes(task, program, targets)
    if mutants:
        yield from _mutants(task, program, targets)


def attempt(targets: Sequence[str], mutants: int, task: Task) -> Iterator[Outcome | str]:
    """Do what a task asks for."""
    if task.is_shrinking:
        yield str(shrink(task, targets))
    else:
        yield from try_program(task, targets, mutants)


def shrink(task: Task, targets: Sequence[str]) -> Program:
    """Return the smallest program that fails in the same way."""

    def failures(program: Program) -> set[tuple[str, str, str]]:
        found = [o for o in _outcomes(task, program, targets) if o.run != "died" and o.is_failure]
        return {(o.target, o.verify, o.run) for o in found}

    program = task.draw()
    wanted = failures(program)
    return minimize(program, lambda smaller: bool(wanted & failures(smaller)))
