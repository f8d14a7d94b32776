"""Try random programs on many processes, in pieces that can be interrupted and resumed.

``python -m tools.fuzz --seeds 1-4 --count 500 --minutes 9 --out fuzz.json`` tries 500 programs of
each kind and seed, leaves out those that ``fuzz.json`` holds already, and puts what it found
there. ``--replay devices:3:17`` runs one of them here and prints it; ``--shrink`` makes it smaller.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from kgen.errors import KgenWarning
from tools.fuzz.record import Record
from tools.fuzz.trial import KINDS, TARGETS, Outcome, Task, attempt, shrink, try_program
from tools.fuzz.workers import Pool, number_of_cores

_SAVING_SECONDS = 30


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="1", help="one, or the first and last: 1-4")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--count", type=int, default=100, help="programs of each kind and seed")
    parser.add_argument("--jobs", type=int, default=number_of_cores())
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--targets", default=",".join(TARGETS[:-1]), help=", ".join(TARGETS))
    parser.add_argument("--mutants", type=int, choices=(0, 1), default=1)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one run")
    parser.add_argument("--out", type=Path, default=Path("fuzz.json"))
    parser.add_argument(
        "--merge", type=Path, nargs="+", help="join records into --out, run nothing"
    )
    parser.add_argument("--replay", metavar="KIND:SEED:NUMBER")
    parser.add_argument("--shrink", action="store_true", help="make what fails smaller")
    return parser.parse_args()


def _tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Yield all programs that are asked for, of each kind in turn."""
    first, _, last = options.seeds.partition("-")
    for number in range(options.count):
        for seed in range(int(first), int(last or first) + 1):
            for kind in options.kinds.split(","):
                yield Task(kind, seed, number)


def _replay(task: Task, targets: Sequence[str], *, is_shrinking: bool) -> None:
    for outcome in try_program(task, targets):
        if outcome.run != "died":
            print(f"{outcome.target}{', ' * bool(outcome.mutation)}{outcome.mutation}: verify says")
            print(f"{outcome.verify}, the run is {outcome.run} {outcome.detail}\n{outcome.text}\n")
    if is_shrinking:
        print(shrink(task, targets))


def _campaign(options: argparse.Namespace, record: Record, pool: Pool) -> None:
    start = saved = time.monotonic()
    before, until = record.seconds, start + 60 * options.minutes
    new = (task for task in _tasks(options) if not record.is_done(task))
    failed = dict[str, Task]()
    for task, message in pool.run(new, until):
        if isinstance(message, Outcome):
            record.add(message)
            if message.is_failure:
                print(f"{task} {message.target} {message.mutation}: {message.verify}, "
                      f"{message.run}: {message.detail[:300]}", flush=True)  # fmt: skip
                if not message.mutation:
                    failed[str(task)] = Task(task.kind, task.seed, task.number, is_shrinking=True)
        elif message is None:
            record.finish(task)
        record.seconds = before + time.monotonic() - start
        if time.monotonic() > saved + _SAVING_SECONDS:
            record.save(options.out)
            saved = time.monotonic()
    if options.shrink:
        for task, message in pool.run(failed.values(), until):
            if isinstance(message, str):
                record.keep_smallest(task, message)


def main() -> None:
    options = _arguments()
    targets = options.targets.split(",")
    if options.replay:
        warnings.simplefilter("ignore", KgenWarning)
        kind, seed, number = options.replay.split(":")
        _replay(Task(kind, int(seed), int(number)), targets, is_shrinking=options.shrink)
        return
    record = Record.load(options.out) if options.out.exists() else Record()
    if options.merge:
        for path in options.merge:
            record.merge(Record.load(path))
    else:
        folder = tempfile.mkdtemp(prefix="kgen-fuzz-")
        os.environ.update(XDG_CACHE_HOME=folder, POCL_CACHE_DIR=f"{folder}/pocl", TMPDIR=folder)
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "2")
        pool = Pool(options.jobs, partial(attempt, targets, options.mutants), options.timeout)
        try:
            _campaign(options, record, pool)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on where this ended")
        finally:
            pool.stop()
            shutil.rmtree(folder, ignore_errors=True)
    record.save(options.out)
    print(record.tables())


if __name__ == "__main__":
    main()
