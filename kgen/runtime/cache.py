"""The disk cache of compiled code: keyed by content, written atomically, checked when read."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol
from weakref import WeakSet

import platformdirs

from kgen.errors import KgenError, KgenWarning
from kgen.runtime.system import can_be_changed_by_others

__all__ = [
    "CacheMode",
    "CacheUsage",
    "DiskCache",
    "InMemoryCache",
    "ProcessCaches",
    "clear_in_mem_caches",
    "content_key",
    "process_caches",
    "set_caching_enabled",
]

#: Part of every key: changes when the meaning of cached content does.
_FORMAT: Final = "kgen-1"
#: An entry is its content, then this mark, then the SHA-256 of the content. Behind the content,
#: because a shared library is loaded from its entry and may have anything after its end.
_MARK: Final = b"\nkgen-sha256:"
_TRAILER_SIZE: Final = len(_MARK) + hashlib.sha256().digest_size
_PARTIAL_PREFIX: Final = "partial-"
#: A partial file this old belongs to a process that was killed.
_PARTIAL_LIFETIME_S: Final = 3600.0
_DEFAULT_SIZE_MIB: Final = 1024


def content_key(*parts: str | bytes) -> str:
    """Return the SHA-256 of a sequence of texts, including the boundaries between them."""
    state = hashlib.sha256()
    for part in (_FORMAT, *parts):
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


@dataclass(frozen=True, kw_only=True)
class CacheUsage:
    """The contents of a disk cache: the number of entries, their bytes, and the limit."""

    folder: str
    entries: int
    bytes: int
    limit: int


class DiskCache:
    """Byte strings in a folder, by content key; any number of processes may share it.

    An entry appears complete or not at all, whenever a process is killed; one that does not
    have its checksum is a miss, and is replaced when it is stored anew. There are no locks:
    two processes that make the same entry publish the same content. Where the folder cannot
    be written, nothing is stored.

    The contents of the folder are executed, so nobody else may write there: it is created for its
    user only. A folder, a folder in it or an entry that another user owns, or that others may
    write, is not used.

    *folder* is by default ``$KGEN_CACHE_DIR``, else the user's cache folder for kgen. The maximum
    size of all entries is ``$KGEN_CACHE_SIZE`` MiB, by default 1024; those that have not been used
    for the longest time are removed first. A process keeps what it has loaded.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._swept: Path | None = None
        self._usage = _Usage()
        self._rejected: set[str] = set()
        self.enabled = True

    @property
    def folder(self) -> Path:
        """The folder of the entries."""
        if self._folder is not None:
            return self._folder
        chosen = os.environ.get("KGEN_CACHE_DIR")
        return Path(chosen) if chosen else platformdirs.user_cache_path("kgen", appauthor=False)

    def path_of(self, key: str) -> Path:
        """Return the path of the entry of *key*, whether it exists or not."""
        return self.folder / key[:2] / key[2:]

    def load(self, key: str) -> bytes | None:
        """Return the content stored for *key*; ``None`` if there is no intact entry."""
        if not self.enabled:
            return None
        path = self.path_of(key)
        try:
            if not (self._is_own(self.folder) and self._is_own(path.parent)):
                return None
            with open(path, "rb") as file:
                if not self._is_own(path, os.fstat(file.fileno())):
                    return None
                entry = file.read()
            os.utime(path)  # the time of its last use
        except OSError:
            return None
        content, trailer = entry[:-_TRAILER_SIZE], entry[-_TRAILER_SIZE:]
        return content if trailer == _trailer(content) else None

    def find(self, key: str) -> Path | None:
        """Return the path of the intact entry of *key*: a file that begins with its content."""
        return None if self.load(key) is None else self.path_of(key)

    def store(self, key: str, content: bytes) -> Path | None:
        """Publish *content* for *key*; return its path, or ``None`` if it cannot be stored."""
        if not self.enabled:
            return None
        path = self.path_of(key)
        size, limit = len(content) + _TRAILER_SIZE, size_limit()
        if size > limit:
            return None
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own(self.folder):
                return None
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own(path.parent):
                return None
            self._sweep()
            handle, partial = tempfile.mkstemp(prefix=_PARTIAL_PREFIX, dir=self.folder)
        except OSError:
            return None
        try:
            with open(handle, "wb") as file:
                file.write(content)
                file.write(_trailer(content))
            os.replace(partial, path)
        except BaseException as error:  # a full disk, a quota, a Ctrl-C
            with contextlib.suppress(OSError):
                os.unlink(partial)
            if not isinstance(error, OSError):
                raise
            return None
        self._usage.add(self.folder, path, size, limit)
        return path

    def usage(self) -> CacheUsage:
        """Return the number of entries, their size, and the limit."""
        sizes = [size for _, size, _ in _entries(self.folder)]
        return CacheUsage(
            folder=str(self.folder), entries=len(sizes), bytes=sum(sizes), limit=size_limit()
        )

    def clear(self) -> CacheUsage:
        """Remove all entries and files of killed processes; return what was removed.

        Nothing else in the folder is touched, nor code that this process has loaded.
        """
        before = self.usage()
        if self.folder.is_dir() and self._is_own(self.folder):
            for path in [*(Path(path) for _, _, path in _entries(self.folder)), *self._partial()]:
                with contextlib.suppress(OSError):  # removed by another process
                    path.unlink()
        return before

    def _partial(self) -> list[Path]:
        """Return the files of entries that are being written, or were by killed processes."""
        return list(self.folder.glob(f"{_PARTIAL_PREFIX}*"))

    def _is_own(self, path: Path, status: os.stat_result | None = None) -> bool:
        """Tell whether only this user can have written a folder or an entry; else warn, once."""
        status = status or path.stat()
        why = can_be_changed_by_others(status)
        if why is None:
            return True
        if str(path) not in self._rejected:
            self._rejected.add(str(path))
            warnings.warn(
                f"'{path}' of the cache is not used: {why} (chmod go-w, or KGEN_CACHE_DIR for "
                "another folder)",
                KgenWarning,
                stacklevel=3,
            )
        return False

    def _sweep(self) -> None:
        """Remove files left by killed processes, once per folder."""
        if self._swept == self.folder:
            return
        self._swept = self.folder
        oldest = time.time() - _PARTIAL_LIFETIME_S
        for partial in self._partial():
            with contextlib.suppress(OSError):
                if partial.stat().st_mtime < oldest:
                    partial.unlink()


class _Usage:
    """The total size of the entries of a folder, updated from time to time."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.total = 0
        self.since_look = 0

    def add(self, folder: Path, path: Path, size: int, limit: int) -> None:
        """Count a new entry; above the size limit, remove the least recently used entries."""
        self.total += size
        self.since_look += size
        if folder == self.folder and self.total <= limit and 16 * self.since_look <= limit:
            return
        entries = sorted(_entries(folder))
        self.folder, self.since_look = folder, 0
        self.total = sum(bytes_ for _, bytes_, _ in entries)
        for _, bytes_, entry in entries:
            if self.total <= limit:
                return
            if entry != str(path):
                with contextlib.suppress(OSError):
                    os.unlink(entry)
                self.total -= bytes_


def _entries(folder: Path) -> Iterator[tuple[int, int, str]]:
    """Yield the time of last use, the size and the path of each entry."""
    for entry in folder.glob("[0-9a-f][0-9a-f]/" + 62 * "[0-9a-f]"):
        with contextlib.suppress(OSError):  # removed by another process
            status = entry.stat()
            yield status.st_mtime_ns, status.st_size, str(entry)


def size_limit() -> int:
    """Return the maximum size of a folder's entries in bytes; rejects invalid settings."""
    text = os.environ.get("KGEN_CACHE_SIZE") or str(_DEFAULT_SIZE_MIB)
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not 0 <= size < math.inf:
        raise KgenError(f"KGEN_CACHE_SIZE is '{text}'\n  hint: a number of MiB, such as 1024")
    return int(size * 2**20)


def _trailer(content: bytes) -> bytes:
    return _MARK + hashlib.sha256(content).digest()


class InMemoryCache(Protocol):
    """The caches that :func:`clear_in_mem_caches` clears."""

    def clear(self) -> None:
        """Drop all cached objects."""


class ProcessCaches:
    """The caches that programs of this process share unless they are given others.

    ``disk`` holds compiled code; ``in_memory`` are the executors that are alive.
    """

    def __init__(self) -> None:
        self.disk = DiskCache()
        self.in_memory: WeakSet[InMemoryCache] = WeakSet()


#: The shared object of the process; its users also accept another one.
process_caches: Final = ProcessCaches()


def set_caching_enabled(flag: bool) -> None:
    """Enable or disable the disk cache of the process.

    >>> set_caching_enabled(False)
    >>> process_caches.disk.enabled
    False
    >>> set_caching_enabled(True)
    """
    process_caches.disk.enabled = flag


def clear_in_mem_caches() -> None:
    """Clear the compiled kernels of all executors; their next calls load them again.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<2 }", "out[i] = i", target=lp.ExecutableCTarget())
    >>> event, (out,) = unit()
    >>> clear_in_mem_caches()
    >>> event, (out,) = unit()  # generated anew; the compiled library is on disk
    """
    for cache in list(process_caches.in_memory):
        cache.clear()


class CacheMode:
    """Enable or disable the disk cache within a ``with`` block.

    >>> with CacheMode(False):
    ...     process_caches.disk.enabled
    False
    """

    def __init__(self, new_flag: bool) -> None:
        self.new_flag = new_flag
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(process_caches.disk.enabled)
        set_caching_enabled(self.new_flag)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        set_caching_enabled(self._previous.pop())
