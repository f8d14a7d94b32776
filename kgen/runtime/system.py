"""What differs between Linux, macOS and Windows: commands, libraries, processes, owners."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from kgen.errors import KgenError
from kgen.ir.optional import load

__all__ = [
    "LIBRARY_SUFFIX",
    "can_be_changed_by_others",
    "folder_variables",
    "kill_group",
    "loadable",
    "lock",
    "n_processors",
    "new_group",
    "require_posix",
    "words_of",
]

IS_POSIX: Final = os.name == "posix"
#: How the names of shared libraries end.
LIBRARY_SUFFIX: Final = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def words_of(command: str, *, posix: bool = IS_POSIX) -> list[str]:
    r"""Split a command as the system's shell does: on Windows backslashes are part of paths.

    >>> words_of(r'"C:\Program Files\gcc.exe" -O2', posix=False)
    ['C:\\Program Files\\gcc.exe', '-O2']
    """
    return [word if posix else word.strip('"') for word in shlex.split(command, posix=posix)]


def loadable(library: Path, *, posix: bool = IS_POSIX) -> str:
    """Return the name by which a library is loaded: Windows adds ``.dll`` where there is no dot.

    >>> loadable(Path("ab"), posix=True), loadable(Path("ab"), posix=False)
    ('ab', 'ab.')
    """
    return str(library) if posix or library.suffix else f"{library}."


def folder_variables(folder: Path) -> dict[str, str]:
    """Return the environment variables that put temporary files into a folder."""
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))


def new_group(*, posix: bool = IS_POSIX) -> dict[str, Any]:
    """Return the arguments of ``Popen`` for a process that a Ctrl-C of the terminal does not reach.

    >>> new_group(posix=True)
    {'start_new_session': True}
    """
    if posix:
        return {"start_new_session": True}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


def kill_group(process: subprocess.Popen[str], *, posix: bool = IS_POSIX) -> None:
    """End a process of a new group; where there are signals, with those that it has started."""
    if posix:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def can_be_changed_by_others(status: os.stat_result, *, posix: bool = IS_POSIX) -> str | None:
    """Say why a file may be what another user wrote; ``None`` if not, or where modes do not tell.

    >>> can_be_changed_by_others(os.stat_result((0o666, 0, 0, 0, 0, 0, 0, 0, 0, 0)), posix=False)
    """
    if not posix:  # the folders of a user's profile are this user's
        return None
    if status.st_uid != os.geteuid():
        return "another user owns it"
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return "others may write to it" if writable else None


def require_posix(what: str, *, posix: bool = IS_POSIX) -> None:
    """Reject what Windows cannot do.

    >>> require_posix("tune", posix=False)
    Traceback (most recent call last):
      ...
    kgen.errors.KgenError: tune does not run on Windows
      because: it needs the processes and file locks of POSIX
      hint: use the Windows Subsystem for Linux
    """
    if not posix:
        raise KgenError(
            f"{what} does not run on Windows",
            because="it needs the processes and file locks of POSIX",
            hint="use the Windows Subsystem for Linux",
        )


def lock(handle: int, *, shared: bool = False) -> None:
    """Wait for the lock of an open file: alone, or *shared*. Closing the file frees it."""
    fcntl = load("fcntl", "tune")
    fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def n_processors() -> int:
    """Return the number of processors that this process may use.

    >>> n_processors() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
