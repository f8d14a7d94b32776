"""Reading and writing recorded search spaces: Kernel Tuner's cache files and T4, gzipped or not."""

from __future__ import annotations

import contextlib
import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kgen.errors import KgenError, near_names, writing
from kgen.tuning.cachefile import cachefile_text, is_cachefile, parse_cachefile
from kgen.tuning.recording import Recording
from kgen.tuning.t4 import is_t4, parse_t4, t4_text

__all__ = ["read_recording", "write_recording"]

_TEXTS: Mapping[str, Callable[[Recording], str]] = {"cache": cachefile_text, "t4": t4_text}

#: How gzipped data begins.
_GZIP = b"\x1f\x8b"
#: The number of positions at which closing a truncated file is attempted.
_TRIES = 20


def read_recording(path: str | Path) -> Recording:
    """Return the recording in a file of results: a cache file of Kernel Tuner, or a T4 file.

    Either may be gzipped. A cache file that a search has not closed, or was cut off, is read up to
    its last complete entry.

    :raises KgenError: the file cannot be read, is neither, or has no configuration
    """
    data = _parsed(_text_of(path), path)
    if is_cachefile(data):
        recording = parse_cachefile(data)
    elif is_t4(data):
        recording = parse_t4(data)
    else:
        raise KgenError(
            f"'{path}' is neither a cache file of Kernel Tuner nor a T4 file",
            hint="a cache file has an object 'cache', a T4 file a list 'results'",
        )
    if not recording.evaluations:
        raise KgenError(f"'{path}' has no configuration")
    return recording


def write_recording(recording: Recording, path: str | Path, form: str = "cache") -> None:
    """Write a file of results, gzipped if its name ends in ``.gz``.

    :arg form: ``"cache"``, a cache file of Kernel Tuner, or ``"t4"``
    :raises KgenError: there is no such form, or the file cannot be written
    """
    if form not in _TEXTS:
        raise KgenError(f"there is no format '{form}' of results", hint=near_names(form, _TEXTS))
    data = _TEXTS[form](recording).encode()
    if Path(path).suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    with writing(path):
        Path(path).write_bytes(data)


def _text_of(path: str | Path) -> str:
    try:
        data = Path(path).read_bytes()
        return (_unpacked(data) if data[:2] == _GZIP else data).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KgenError(f"'{path}' cannot be read: {reason}") from error


def _unpacked(data: bytes) -> bytes:
    """Return the content of all members of gzipped data; the readable part of a truncated one."""
    found = []
    while data[:2] == _GZIP:
        unpacker = zlib.decompressobj(wbits=31)
        found += [unpacker.decompress(data), unpacker.flush()]
        data = unpacker.unused_data
    return b"".join(found)


def _parsed(text: str, path: str | Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        closed = _closed(text.rstrip().rstrip(","))
        if closed is None:
            raise KgenError(f"'{path}' is not valid JSON: {error}") from error
        return closed


def _closed(text: str) -> Any:
    """Close the braces of a cache file after its last complete entry."""
    for _ in range(_TRIES):
        for end in ("}", "}}"):
            with contextlib.suppress(json.JSONDecodeError):
                return json.loads(text + end)
        text = text[: max(text.rfind("},"), text.rfind("}\n")) + 1]
    return None
