"""Random kernels with the schedules that analysis finds for them, in grains for small sizes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from kgen.autoscheduler import items, nests, rows, threads, vectors
from kgen.ir.unit import TranslationUnit
from kgen.targets.opencl import OpenCLTarget
from tests.random import choices
from tests.random.checks import check_threads, check_work_items
from tests.random.choices import Draw
from tests.random.program import Program, Step
from tests.random.rows import draw_balanced_program
from tests.random.steps import (
    global_programs,
    host_programs,
    programs,
    row_programs,
    scan_programs,
)

__all__ = [
    "check_scheduled",
    "check_scheduled_items",
    "fine_grains",
    "item_schedules",
    "thread_schedules",
]

#: What a loop has to have to be worth it: less than the loops of random kernels have.
_FINE: Mapping[object, Mapping[str, Any]] = {
    threads: {
        "GRAIN": 4,
        "CACHED": 64,
        "LEAST": 1,
        "FEW": 2,
        "LANES": 2,
        "SUMS": 3,
        "LANE_BYTES": 16,
        "ROW_BYTES": 16,
        "VECTOR_BYTES": 8,
        "SHARED": 2,
        "UNROLLED": 2,
        "TILE": (4, 4),
        "SQUARE": 2,
    },
    items: {"GROUPS": 2, "BLOCK": 2, "MANY": 0},
    nests: {"LONG": 2},
    rows: {"GROUP": 4},
    vectors: {"BUSY": 0, "FULL": 1 << 10},
}
_KINDS: tuple[Callable[[Draw], Program], ...] = (
    programs,
    programs,
    host_programs,
    global_programs,
    row_programs,
    scan_programs,
)


@contextlib.contextmanager
def fine_grains() -> Iterator[None]:
    """Let loops of a few iterations be cut into pieces."""
    with contextlib.ExitStack() as stack:
        for module, values in _FINE.items():
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield


def thread_schedules(draw: Draw) -> Program:
    """Draw a program, transformed in part or not at all, that is scheduled for threads."""
    program: Program = draw(choices.sampled_from(_KINDS))(draw)
    kept = program.steps if program.target == "CTarget" and draw(choices.booleans()) else ()
    steps = (*kept, Step("autoschedule"))
    return dataclasses.replace(program, steps=steps, refused=(), target="ExecutableCTarget")


def item_schedules(draw: Draw) -> Program:
    """Draw a program that is scheduled for work-items."""
    program: Program = draw(choices.sampled_from((*_KINDS, draw_balanced_program)))(draw)
    follow = any(step.function == "balance" for step in program.steps)
    steps = (Step("autoschedule", (), (("ascending", "starts"),) if follow else ()),)
    return dataclasses.replace(program, steps=steps, refused=(), target="OpenCLTarget")


def check_scheduled(program: Program, mutant: TranslationUnit | None = None) -> None:
    """Run on threads."""
    with fine_grains():
        check_threads(program, mutant, (2, 3))


def check_scheduled_items(program: Program, mutant: TranslationUnit | None = None) -> None:
    """Interpret the code of work-items, which have no lanes whose values are exchanged."""
    with fine_grains():
        check_work_items(program, mutant, OpenCLTarget())
