"""Records of measurements: lines of JSON in an append-only file, which several tunes may share."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kgen.errors import KgenError, KgenWarning
from kgen.ir.checked import unfit
from kgen.runtime.system import lock
from kgen.tuning.recording import plain
from kgen.tuning.task import Problem

__all__ = ["Record", "Records"]

#: The causes of failures that would recur for the same code.
_KEPT_CAUSES = frozenset({"launch", "result", "bounds", "crash", "timeout"})
#: Errors of a full or failing disk, which may pass.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
#: The seconds after which a process of another host without a result is taken for dead.
_LOST_S = 3600.0
#: How the first line of a file of records begins, and how much of it is read.
_HEAD, _LONGEST = b'{"event"', 1 << 20


@dataclass(frozen=True, kw_only=True)
class Record:
    """The time of one configuration of a kernel for a problem on a device, or why it has none.

    ``code`` is the digest of the generated code and its options; ``samples`` are seconds; ``cause``
    is a word for a failure, and ``message`` its text. ``status`` is ``measured``, ``slow`` if
    only a probe was taken, ``skipped`` if a lower bound was enough, or ``failed``.
    """

    kernel: str
    configuration: Mapping[str, Any]
    problem: Problem
    device: Mapping[str, str]
    status: str
    code: str = ""
    samples: tuple[float, ...] = ()
    time: float | None = None
    interval: tuple[float, float] | None = None
    cause: str = ""
    message: str = ""
    proof: str = "unknown"
    bound: float | None = None
    compile_s: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    sensors: Mapping[str, float] = field(default_factory=dict)
    #: whether it was compared with others in turn, and won
    is_best: bool = False

    @property
    def key(self) -> str:
        """The factors of the time: code and options, device, driver, sizes and types."""
        return key_of(self.code, self.device, self.problem)

    def to_line(self) -> dict[str, Any]:
        """Return the record as a line of the file."""
        found = asdict(self)
        return {"event": "result", **found}

    @classmethod
    def from_line(cls, line: Mapping[str, Any]) -> Record:
        """Parse a line of :meth:`to_line`."""
        given = {name: line[name] for name in cls.__dataclass_fields__ if name in line}
        given["problem"] = Problem(**given["problem"])
        given["samples"] = tuple(given.get("samples", ()))
        if given.get("interval") is not None:
            low, high = given["interval"]
            given["interval"] = (low, high)
        return cls(**given)


@dataclass(frozen=True)
class _Start:
    """The process that started a configuration, and when."""

    host: str
    pid: int
    at: float

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        return _is_alive(self.pid) if self.is_here else time.time() - self.at < _LOST_S


def key_of(code: str, device: Mapping[str, str], problem: Problem) -> str:
    """Return everything that determines a time, as text."""
    return json.dumps([code, dict(device), asdict(problem)], sort_keys=True, default=plain)


class Records:
    """The records in a file, including those that other processes append to it.

    Each line is written at once, under a lock. A truncated line, after a full disk or a crash, is
    ignored. Lines that cannot be written are kept, and tried again with the next line.

    >>> records = Records(None)
    >>> records.has_crashed("a")
    False
    """

    def __init__(self, path: str | os.PathLike[str] | None, *, is_read_only: bool = False) -> None:
        if not (path is None or isinstance(path, str | os.PathLike)):
            raise unfit("argument 'records'", "the name of a file, or None", path)
        self.path = None if path is None else Path(path)
        self.found: dict[str, Record] = {}
        self._started: dict[str, _Start] = {}
        self._position = 0
        self._pending: list[str] = []
        self._lock = threading.Lock()
        self._is_warned = False
        if self.path is not None:
            if not is_read_only:
                self._check_writable(self.path)
            self._check_content(self.path)
            self.refresh()

    def _check_writable(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "ab"):
                pass
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _PASSING:
                self._warn(error)
                return
            raise KgenError(
                f"records cannot be written to '{path}'",
                because=str(error),
                hint="records= is the path of a file, which is made if it is new, with its folder",
            ) from None

    def _check_content(self, path: Path) -> None:
        """Reject a file with other contents, which records would damage."""
        try:
            with open(path, "rb") as file:
                first = file.readline(_LONGEST) if _is_regular(path) else b""
        except OSError as error:
            if error.errno in _PASSING:
                return
            raise KgenError(f"records cannot be read from '{path}'", because=str(error)) from None
        if not _is_line(first):
            raise KgenError(
                f"'{path}' has other contents than records",
                because=f"it begins with {first.decode(errors='replace').strip()[:40]!r}",
                hint="pass a new file, or one that a tune wrote",
            )

    def all(self) -> list[Record]:
        """Return all records, oldest first."""
        return list(self.found.values())

    def find(self, code: str, device: Mapping[str, str], problem: Problem) -> Record | None:
        """Return the known result of some code: its time, or a failure that would occur again."""
        record = self.found.get(key_of(code, device, problem))
        if record is None or (record.status == "failed" and record.cause not in _KEPT_CAUSES):
            return None
        return record

    def has_crashed(self, attempt: str) -> bool:
        """Tell whether a process that no longer exists started a configuration without a result.

        Processes of other hosts are taken for alive for an hour.
        """
        start = self._started.get(attempt)
        return start is not None and not start.is_alive

    def is_running(self, attempt: str) -> bool:
        """Tell whether another process of this host runs a configuration, without a result yet."""
        start = self._started.get(attempt)
        return start is not None and start.is_here and start.pid != os.getpid() and start.is_alive

    def start(self, attempt: str, configuration: Mapping[str, Any]) -> None:
        """Record that a configuration is about to run."""
        line = {"event": "start", "attempt": attempt, "configuration": dict(configuration)}
        self._append({**line, "host": socket.gethostname(), "pid": os.getpid(), "at": time.time()})

    def abandon(self, attempt: str) -> None:
        """Record that a configuration was interrupted, through no fault of its own."""
        self._append({"event": "abandoned", "attempt": attempt})

    def add(self, record: Record, attempt: str = "") -> None:
        """Append a record: the result of the attempt that started as *attempt*."""
        self._take(record)
        self._append({**record.to_line(), "attempt": attempt, "at": time.time()})

    def _take(self, record: Record) -> None:
        known = self.found.get(record.key) if record.code else None
        if known is not None and known.is_best and not record.is_best:
            return
        name = record.key if record.code else json.dumps(asdict(record), default=plain)
        self.found.pop(name, None)  # the last one is the newest
        self.found[name] = record

    def refresh(self) -> None:
        """Read the lines appended since the last read."""
        if self.path is None or not _is_regular(self.path):
            return
        with self._lock:
            with open(self.path, "rb") as file:
                file.seek(self._position)
                content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._position += len(whole)
            for text in whole.splitlines():
                with contextlib.suppress(ValueError, TypeError, KeyError):  # cut, or not ours
                    self._read(json.loads(text))

    def _read(self, line: Mapping[str, Any]) -> None:
        attempt = line.get("attempt", "")
        if line["event"] == "start":
            self._started[attempt] = _Start(line["host"], line["pid"], line["at"])
            return
        self._started.pop(attempt, None)
        if line["event"] == "result":
            self._take(Record.from_line(line))

    def _append(self, line: Mapping[str, Any]) -> None:
        if self.path is None:
            return
        self._pending.append(json.dumps(line, default=plain))
        self.flush()

    def flush(self) -> None:
        """Write the lines that could not be written before."""
        if self.path is None:
            return
        try:
            with self._lock, _locked(self.path) as handle:
                while self._pending:
                    _write_line(handle, self._pending[0])
                    del self._pending[0]
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._is_warned:
            self._is_warned = True
            warnings.warn(
                f"records cannot be written to '{self.path}' now: {error}; the tune continues",
                KgenWarning,
                stacklevel=2,
            )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        lock(handle)
        yield handle
    finally:
        os.close(handle)


def _write_line(handle: int, text: str) -> None:
    """Append a line; after a truncated line, begin a new one first."""
    size = os.fstat(handle).st_size
    is_cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    data = ("\n" * is_cut + text + "\n").encode()
    while data:
        data = data[os.write(handle, data) :]
    os.fsync(handle)


def _is_line(text: bytes) -> bool:
    """Tell whether this is a line of a file of records, or the part of one that was written."""
    found = text.strip()
    if not found or found.startswith(_HEAD):
        return True
    is_cut = not text.endswith(b"\n")
    with contextlib.suppress(ValueError):
        line = json.loads(found)
        return isinstance(line, dict) and "event" in line
    return is_cut and _HEAD.startswith(found)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True
