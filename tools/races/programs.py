"""Random programs on threads, one after the other; those that race are printed."""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kgen.errors import KgenError, KgenWarning
from tests.random.checks import LeftOut, check_threads
from tests.random.program import Program, reason
from tools.fuzz.trial import KINDS, Task
from tools.races.sanitizer import LOG

_GROUPS = re.compile(r"\bg\.")

#: As many as OpenMP has, in code for any number.
_THREADS = (None,)


def _programs(seed: int) -> Iterator[tuple[Task, Program]]:
    """Draw programs with loops of work-groups, of each kind in turn."""
    number = 0
    while True:
        for kind in KINDS:
            task = Task(kind, seed, number)
            program = task.draw()
            if _GROUPS.search(str(program.steps)):
                yield task, program
        number += 1


def _reported() -> int:
    """Return the length of all reports so far."""
    return sum(path.stat().st_size for path in Path(os.environ[LOG]).glob("report.*"))


def _attempt(program: Program) -> str:
    """Run a program on threads, and say what became of it."""
    before = _reported()
    try:
        check_threads(program, counts=_THREADS)
    except LeftOut:
        result = "left out"
    except KgenError as error:
        result = f"refused: {reason(error)}"
    except AssertionError as error:
        result = f"wrong: {error}"
    else:
        result = "right"
    return result if _reported() == before else "race"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many programs run on threads")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", KgenWarning)
    found: Counter[str] = Counter()
    for task, program in _programs(options.seed):
        result = _attempt(program)
        found[result] += 1
        print(f"{task}: {result}", flush=True)
        if result.startswith(("race", "wrong")):
            print(program)
        if found["right"] + found["race"] >= options.count:
            break
    for result, number in found.most_common():
        print(f"{number} {result}")
    return int(any(result.startswith(("race", "wrong")) for result in found))


if __name__ == "__main__":
    raise SystemExit(main())
