"""Runs of Python in which kernels are compiled for gcc's ThreadSanitizer, and what it reports."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LOG", "Watched", "missing", "watch"]

#: The variable that names the folder where reports go.
LOG = "KGEN_RACES"

_RUNTIME = Path(__file__).with_name("openmp.c")
_FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-fPIC", "-shared", "-pthread")
#: The line behind all reports.
_COUNT = "ThreadSanitizer: reported"
#: What it reports where it has no memory for a thread, and how often it may do so.
_NO_MEMORY = "ThreadSanitizer failed to allocate"
_TRIES = 3

_OPTIONS = {
    # Python, numpy and ctypes are not instrumented: what they do is not judged
    "ignore_noninstrumented_modules": 1,
    "die_after_fork": 0,
}


@dataclass(frozen=True)
class Watched:
    """What became of a run: its exit status, what it printed, and what was reported.

    Reports are of races, or of the end of the process; the status is 66 where there are any.
    """

    status: int
    output: str
    races: tuple[str, ...]


@functools.cache
def missing() -> str:
    """Return what is missing to run ThreadSanitizer, if anything."""
    if sys.platform != "linux":
        return "a Linux, whose loader takes ThreadSanitizer's library first"
    if shutil.which("gcc") is None:
        return "gcc"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _build(Path(folder))
            found = _run([sys.executable, "-c", "print('it runs')"], Path(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            return f"gcc's library of ThreadSanitizer: {error}"
    return "" if "it runs" in found.stdout else f"a ThreadSanitizer that runs here: {found.stdout}"


def watch(arguments: Sequence[str]) -> Watched:
    """Run ``python -m`` with *arguments*; kernels are compiled for ThreadSanitizer.

    It is run again where ThreadSanitizer itself fails to allocate memory, as happens rarely.
    """
    for _ in range(_TRIES):
        found = _watched(arguments)
        if not any(_NO_MEMORY in report for report in found.races):
            break
    return found


def _watched(arguments: Sequence[str]) -> Watched:
    with tempfile.TemporaryDirectory(prefix="kgen-races-") as name:
        folder = Path(name)
        _build(folder)
        found = _run([sys.executable, "-m", "tools.races.inside", *arguments], folder)
        reports = [path.read_text() for path in sorted(folder.glob("report.*"))]
    parts = [part.strip() for text in reports for part in text.split("=" * 18)]
    races = tuple(part for part in parts if part and not part.startswith(_COUNT))
    return Watched(found.returncode, found.stdout, races)


def _build(folder: Path) -> None:
    """Make the OpenMP that ThreadSanitizer can follow, under the name for which gcc looks."""
    library = folder / "libgomp.so"
    subprocess.run(
        ["gcc", *_FLAGS, str(_RUNTIME), "-o", str(library)], check=True, capture_output=True
    )


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    library = _sanitizer_library()
    options = {**_OPTIONS, "log_path": folder / "report"}
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "TSAN_OPTIONS": " ".join(f"{name}={value}" for name, value in options.items()),
        "CC": f"gcc -fsanitize=thread -g -L{folder} -Wl,-rpath,{folder}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
        LOG: str(folder),
    }
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"):
        environment.pop(name, None)
    # where addresses are random in more bits than ThreadSanitizer expects, it does not start
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    return subprocess.run(
        [*fixed, *command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _sanitizer_library() -> str:
    """Return the path of ThreadSanitizer's library; gcc gives a name where there is none."""
    found = subprocess.run(
        ["gcc", "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        raise FileNotFoundError(found)
    return str(Path(found).resolve())
