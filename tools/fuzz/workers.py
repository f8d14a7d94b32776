"""Processes that try programs; one that dies or hangs costs its program, and is replaced."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from kgen.errors import KgenWarning
from tools.fuzz.trial import Outcome, Task

__all__ = ["Attempt", "Message", "Pool", "number_of_cores"]

#: What a worker sends: an outcome, a smaller program, or that it is ready for the next task.
Message = Outcome | str | None

#: The first of them.
_READY = ""

#: What workers do: it yields an outcome before each run, as if the process had died in it.
Attempt = Callable[[Task], Iterator[Outcome | str]]


def _work(link: Connection[Any, Any], attempt: Attempt) -> None:
    """Try one task after the other."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore", KgenWarning)
    link.send(_READY)
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        while True:
            for message in attempt(link.recv()):
                link.send(message)
            link.send(None)


class _Worker:
    """One process, its task, and what it said of it so far."""

    def __init__(self, attempt: Attempt) -> None:
        context = multiprocessing.get_context("spawn")
        self.link, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, attempt), daemon=True)
        self.process.start()
        other.close()
        self.task: Task | None = None
        self.is_ready = False
        self.heard = 0.0
        self.running: Outcome | None = None

    def give(self, task: Task) -> None:
        """Let it try a program."""
        self.task, self.running = task, None
        self.heard = time.monotonic()
        self.link.send(task)

    def is_late(self, limit: float) -> bool:
        """Tell whether it has not been heard of for *limit* seconds."""
        return self.task is not None and self.is_ready and time.monotonic() - self.heard > limit

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.link.close()


class Pool:
    """Tries programs on several processes, each within *limit* seconds for one run."""

    def __init__(self, jobs: int, attempt: Attempt, limit: float) -> None:
        self.attempt, self.limit = attempt, limit
        self.workers = [_Worker(attempt) for _ in range(jobs)]

    def run(self, tasks: Iterable[Task], until: float) -> Iterator[tuple[Task, Message]]:
        """Yield what is found, and ``None`` for each task that is done; start none after *until*.

        Order is that in which workers finish.
        """
        remaining = iter(tasks)
        for worker in self.workers:
            self._next(worker, remaining, until)
        while any(worker.task for worker in self.workers):
            busy = {w.link: w for w in self.workers if w.task is not None}
            for link in wait(list(busy), timeout=1.0):
                assert isinstance(link, Connection)
                yield from self._hear(busy[link], remaining, until)
            for worker in self.workers:
                if worker.is_late(self.limit):
                    yield from self._lose(worker, "no end in sight", remaining, until)

    def _next(self, worker: _Worker, remaining: Iterator[Task], until: float) -> None:
        worker.task = None
        task = next(remaining, None) if time.monotonic() < until else None
        if task is not None:
            worker.give(task)

    def _hear(
        self, worker: _Worker, remaining: Iterator[Task], until: float
    ) -> Iterator[tuple[Task, Message]]:
        assert worker.task is not None
        try:
            message: Message = worker.link.recv()
        except (EOFError, OSError):
            worker.process.join()
            text = f"the process ended with {worker.process.exitcode}"
            yield from self._lose(worker, text, remaining, until)
            return
        worker.heard = time.monotonic()
        if message == _READY:
            worker.is_ready = True
            return
        if isinstance(message, Outcome) and message.run == "died":
            worker.running = message
            return
        yield worker.task, message
        if message is None:
            self._next(worker, remaining, until)

    def _lose(
        self, worker: _Worker, why: str, remaining: Iterator[Task], until: float
    ) -> Iterator[tuple[Task, Message]]:
        """Put down what a worker did not finish, and start another one in its place."""
        task, running = worker.task, worker.running
        assert task is not None
        worker.stop()
        if running is None:
            running = Outcome(str(task), task.kind, "draw", "", "none", "died")
        if not task.is_shrinking:
            yield task, dataclasses.replace(running, run="crashed", detail=why)
        yield task, None
        place = self.workers.index(worker)
        self.workers[place] = _Worker(self.attempt)
        self._next(self.workers[place], remaining, until)

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.stop()


def number_of_cores() -> int:
    """Return how many processes run at a time here."""
    return len(os.sched_getaffinity(0))
