"""A process that calls functions one after another, each with a deadline, and may die."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle

from kgen.errors import KgenError

__all__ = ["Deadline", "WorkerDied", "Worker", "serve"]

Result = TypeVar("Result")
#: The seconds allowed for starting a process, in addition to the deadline of its first call.
_START_S = 60.0
_SERVE = "from kgen.tuning.worker import serve; serve({})"


class WorkerDied(KgenError):
    """The process ended while it ran a call: it crashed, or was killed."""


class Deadline(KgenError):
    """A call did not end in time; its process was killed."""


class Worker:
    """A separate process for calls that may crash or never end.

    It starts with the first call, and again with the first one after it died. It runs in a session
    of its own, so that a Ctrl-C of the terminal does not reach it, and ends with this process,
    however that ends. What it prints is kept for the message of its death.

    >>> worker = Worker()
    >>> worker.call(divmod, 17, 5, timeout=60)
    (3, 2)
    >>> worker.close()
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._printed: Any = None
        self._starting = threading.Lock()
        self._is_ended = False

    @property
    def pid(self) -> int | None:
        """The number of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def call(self, function: Callable[..., Result], *args: Any, timeout: float) -> Result:
        """Return ``function(*args)``, computed by the process.

        Raises :class:`WorkerDied`, :class:`Deadline`, and what the function raises.
        """
        request = cloudpickle.dumps((function, args))
        try:
            self._ensure_started()
            is_good, found = self._exchange(request, timeout)
        except BaseException:  # also a Ctrl-C: the answer to this call must not meet the next one
            self.close()
            raise
        if not is_good:
            raise found
        return found  # type: ignore[no-any-return]

    def _exchange(self, request: bytes, wait: float) -> Any:
        assert self._connection is not None
        with contextlib.suppress(OSError):  # the cause of death is found below
            self._connection.send_bytes(request)
        return self._receive(wait)

    def _receive(self, wait: float) -> Any:
        assert self._connection is not None
        try:
            if not self._connection.poll(wait):
                raise Deadline(f"a call did not end within {wait:g} s")
            return self._connection.recv()
        except (EOFError, OSError):
            raise WorkerDied("the process died", because=self._last_words()) from None

    def _ensure_started(self) -> None:
        with self._starting:
            if self._is_ended:
                raise WorkerDied("the worker was terminated")
            if self._process is not None:
                return
            self._start()
        self._receive(_START_S)

    def _start(self) -> None:
        mine, other = Pipe()
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(other.fileno())],
            pass_fds=[other.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
            },
        )
        other.close()
        self._connection = mine

    def _last_words(self) -> str:
        """Return how the process ended, and what it printed last."""
        process = self._process
        if process is None:  # another thread has closed this
            return "it was terminated"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = process.returncode
        how = f"exit status {code}"
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
        self._printed.seek(0)
        printed = self._printed.read().decode(errors="replace").strip()
        return f"{how}; it printed: {printed[-1000:]}" if printed else how

    def end(self) -> None:
        """End the process permanently; other threads may call this at any time."""
        with self._starting:
            self._is_ended = True
        self.close()

    def close(self) -> None:
        """End the process, with all that it started; the next call starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        assert self._connection is not None
        for pid in _descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        self._connection.close()
        self._printed.close()


def _descendants(pid: int) -> list[int]:
    """Return a process and its descendants, such as compilers."""
    found = [pid]
    for parent in found:
        for listed in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # ended meanwhile
                found += map(int, listed.read_text().split())
    return found


def serve(handle: int) -> None:
    """Serve the calls from a pipe until its other end is closed."""
    connection: Connection[Any, Any] = Connection(handle)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    connection.send("ready")
    threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
    while True:
        connection.send_bytes(_answer(requests.get()))


def _receive(connection: Connection[Any, Any], requests: queue.SimpleQueue[bytes]) -> None:
    """Pass calls on; end the process with its caller, even in the middle of a kernel."""
    while True:
        try:
            requests.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(1)


def _answer(request: bytes) -> bytes:
    try:
        function, args = cloudpickle.loads(request)
        answer: bytes = cloudpickle.dumps((True, function(*args)))
    except Exception as error:
        return _refusal(error)
    return answer


def _refusal(error: Exception) -> bytes:
    """Return an exception as an answer; as its text, if the other side could not read it."""
    with contextlib.suppress(Exception):
        answer: bytes = cloudpickle.dumps((False, error))
        cloudpickle.loads(answer)
        return answer
    text: bytes = cloudpickle.dumps((False, KgenError(f"{type(error).__name__}: {error}")))
    return text
