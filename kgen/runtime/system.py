"""Differences between Linux, macOS and Windows: commands, flags, libraries, processes, owners."""

from __future__ import annotations

import os
import platform
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from kgen.errors import KgenError
from kgen.ir.optional import load

__all__ = [
    "can_be_changed_by_others",
    "cuda_library",
    "folder_variables",
    "is_administrator",
    "kill_group",
    "library_suffix",
    "loadable",
    "lock",
    "n_processors",
    "new_group",
    "openmp_choices",
    "processor",
    "require_posix",
    "words_of",
]

IS_POSIX: Final = os.name == "posix"
#: The folders of LLVM's OpenMP in Homebrew (on Apple's and on Intel's processors) and MacPorts.
_LIBOMP: Final = (
    ("/opt/homebrew/opt/libomp/include", "/opt/homebrew/opt/libomp/lib"),
    ("/usr/local/opt/libomp/include", "/usr/local/opt/libomp/lib"),
    ("/opt/local/include/libomp", "/opt/local/lib/libomp"),
)


def library_suffix(system: str = sys.platform) -> str:
    """Return the suffix of shared libraries.

    >>> library_suffix("linux"), library_suffix("darwin"), library_suffix("win32")
    ('.so', '.dylib', '.dll')
    """
    return {"win32": ".dll", "darwin": ".dylib"}.get(system, ".so")


def openmp_choices(
    system: str = sys.platform, places: Sequence[tuple[str, str]] = _LIBOMP
) -> list[tuple[str, ...]]:
    """Return lists of flags for OpenMP; the first one that a compiler supports applies.

    Apple's clang has OpenMP in its preprocessor alone, and the library comes from elsewhere:
    *places* are the folders of its header and of itself.

    >>> openmp_choices("linux")
    [('-fopenmp',)]
    >>> openmp_choices("darwin", [("/", "/lib")])
    [('-fopenmp',), ('-Xpreprocessor', '-fopenmp', '-I/', '-L/lib', '-Wl,-rpath,/lib', '-lomp')]
    """
    choices: list[tuple[str, ...]] = [("-fopenmp",)]
    rpath = "-Wl,-rpath,"
    if system == "darwin":
        choices += [
            ("-Xpreprocessor", "-fopenmp", f"-I{headers}", f"-L{library}", rpath + library, "-lomp")
            for headers, library in places
            if Path(headers).is_dir()
        ]
    return choices


def cuda_library(system: str = sys.platform) -> str:
    """Return the name of the library of CUDA's driver; macOS has none, and fails to load it.

    >>> cuda_library("linux"), cuda_library("win32")
    ('libcuda.so.1', 'nvcuda.dll')
    """
    return "nvcuda.dll" if system == "win32" else "libcuda.so.1"


def is_administrator(*, posix: bool = IS_POSIX) -> bool:
    """Tell whether this process may install packages of the system; Windows asks later.

    >>> is_administrator(posix=False)
    True
    """
    return not posix or os.geteuid() == 0


def words_of(command: str, *, posix: bool = IS_POSIX) -> list[str]:
    r"""Split a command as the system's shell does: on Windows backslashes are part of paths.

    >>> words_of(r'"C:\Program Files\gcc.exe" -O2', posix=False)
    ['C:\\Program Files\\gcc.exe', '-O2']
    """
    return [word if posix else word.strip('"') for word in shlex.split(command, posix=posix)]


def loadable(library: Path, *, posix: bool = IS_POSIX) -> str:
    """Return the name by which a library is loaded: Windows adds ``.dll`` if there is no dot.

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
    """End a process of a new group; on systems with signals, with its child processes."""
    if posix:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def can_be_changed_by_others(status: os.stat_result, *, posix: bool = IS_POSIX) -> str | None:
    """Return why other users may have written a file; ``None`` if not, or if modes do not tell.

    >>> can_be_changed_by_others(os.stat_result((0o666, 0, 0, 0, 0, 0, 0, 0, 0, 0)), posix=False)
    """
    if not posix:  # the folders of a user's profile are this user's
        return None
    if status.st_uid != os.geteuid():
        return "another user owns it"
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return "others may write to it" if writable else None


def require_posix(what: str, *, posix: bool = IS_POSIX) -> None:
    """Reject operations that Windows does not support.

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


@lru_cache(maxsize=2)
def processor(system: str = sys.platform) -> str:
    """Describe the processor: native code may not run on an older one."""
    try:
        if system == "darwin":
            words = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return f"model name: {subprocess.check_output(words, text=True).strip()}"
        first, _, _ = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")
    except (OSError, subprocess.SubprocessError):
        return f"{platform.machine()} {platform.processor()}"
    kept = ("model name", "flags", "Features", "CPU part")
    return "\n".join(line for line in first.splitlines() if line.startswith(kept))


def n_processors() -> int:
    """Return the number of processors that this process may use.

    >>> n_processors() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
