"""What a campaign found so far: counted, kept in a file, and printed as tables."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.random.program import reason
from tools.fuzz.trial import Outcome, Task

__all__ = ["Record"]

RUNS = ("right", "wrong", "refused", "left out", "crashed")
VERDICTS = (
    "proved",
    "unknown, same",
    "unknown",
    "violated",
    "crashed",
    "none",
)

#: kind, target, mutation, verdict, run
Key = tuple[str, str, str, str, str]


@dataclass
class Record:
    """Outcomes by kind, target, mutation, verdict and run; failures in full; what is done."""

    counts: Counter[Key] = field(default_factory=Counter)
    #: by kind and seed
    done: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    #: why kernels were refused or left out, and which
    reasons: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count an outcome, and keep one that shows a failure."""
        key = (outcome.kind, outcome.target, outcome.mutation, outcome.verify, outcome.run)
        self.counts[key] += 1
        if outcome.is_failure:
            self.failures.append({**dataclasses.asdict(outcome), "smallest": ""})
        elif outcome.run in ("refused", "left out") and not outcome.mutation:
            why = reason(Exception(outcome.detail))
            self.reasons.setdefault(why, []).append(f"{outcome.task} {outcome.target}")

    def finish(self, task: Task) -> None:
        """Note that all outcomes of a task are in."""
        self.done.setdefault((task.kind, task.seed), set()).add(task.number)

    def is_done(self, task: Task) -> bool:
        """Tell whether a task needs no run any more."""
        return task.number in self.done.get((task.kind, task.seed), ())

    def keep_smallest(self, task: Task, text: str) -> None:
        """Keep what a failing program was shrunk to."""
        for failure in self.failures:
            if failure["task"] == str(task) and not failure["mutation"]:
                failure["smallest"] = text

    # -- files --------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write all of it as JSON."""
        content = {
            "counts": [[*key, n] for key, n in sorted(self.counts.items())],
            "done": [[*key, list(_ranges(found))] for key, found in sorted(self.done.items())],
            "reasons": self.reasons,
            "seconds": round(self.seconds),
            "failures": self.failures,
        }
        path.write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what :meth:`save` wrote."""
        content = json.loads(path.read_text())
        counts: Counter[Key] = Counter()
        for *key, n in content["counts"]:
            kind, target, mutation, verify, run = key
            counts[kind, target, mutation, verify, run] = n
        done = {
            (kind, seed): {n for first, last in ranges for n in range(first, last + 1)}
            for kind, seed, ranges in content["done"]
        }
        return cls(counts, done, content["failures"], content["reasons"], content["seconds"])

    def merge(self, other: Record) -> None:
        """Take in what another piece of the campaign found."""
        self.counts.update(other.counts)
        for key, found in other.done.items():
            self.done.setdefault(key, set()).update(found)
        self.failures += other.failures
        for why, tasks in other.reasons.items():
            self.reasons.setdefault(why, []).extend(tasks)
        self.seconds += other.seconds

    # -- tables -------------------------------------------------------------------------------

    def tables(self) -> str:
        """Return all that fits on a page, as Markdown."""
        programs = sum(len(found) for found in self.done.values())
        failed = len({failure["task"] for failure in self.failures})
        return "\n\n".join(
            [
                f"{programs} programs in {self.seconds:.0f} s; {failed} show failures",
                self._by_kind(),
                "As drawn:\n\n" + self._matrix(mutated=False),
                "Mutants:\n\n" + self._matrix(mutated=True),
                self._by_mutation(),
            ]
        )

    def _count(self, **wanted: str | bool) -> int:
        names = ("kind", "target", "mutation", "verify", "run")
        is_mutant = wanted.pop("mutated", None)
        total = 0
        for key, n in self.counts.items():
            values = dict(zip(names, key, strict=True))
            fits = all(values[name] == value for name, value in wanted.items())
            if fits and is_mutant in (None, bool(values["mutation"])):
                total += n
        return total

    def _by_kind(self) -> str:
        pairs = sorted({key[:2] for key in self.counts})
        rows = [
            (kind, target, *(self._count(kind=kind, target=target, run=run, mutated=False)
                             for run in RUNS))
            for kind, target in pairs
        ]  # fmt: skip
        return _table(("kind", "target", *RUNS), rows)

    def _matrix(self, *, mutated: bool) -> str:
        rows = [
            (verdict, *(self._count(verify=verdict, run=run, mutated=mutated) for run in RUNS))
            for verdict in VERDICTS
        ]
        return _table(("verify", *RUNS), [row for row in rows if any(row[1:])])

    def _by_mutation(self) -> str:
        rows = []
        for name in sorted({key[2] for key in self.counts} - {""}):
            of = [
                (v, r, self._count(mutation=name, verify=v, run=r)) for v in VERDICTS for r in RUNS
            ]
            wrong = ("wrong", "crashed")
            rows.append(
                (
                    name,
                    sum(n for v, r, n in of),
                    sum(n for v, r, n in of if v == "violated" or r == "refused"),
                    sum(n for v, r, n in of if v != "violated" and r == "right"),
                    sum(n for v, r, n in of if v.startswith("unknown") and r in wrong),
                    sum(n for v, r, n in of if v.startswith("proved") and r in wrong),
                )
            )
        heads = ("mutation", "mutants", "refused", "harmless", "unknown and wrong")
        return _table((*heads, "proved and wrong"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _ranges(numbers: set[int]) -> Iterator[tuple[int, int]]:
    """Write numbers as first and last ones."""
    first = last = None
    for number in sorted(numbers):
        if last is not None and first is not None and number != last + 1:
            yield first, last
            first = number
        elif first is None:
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last
