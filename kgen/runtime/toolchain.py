"""External compilers: finding them, their versions, their error messages."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Final

from kgen.errors import CompilationError
from kgen.runtime.cache import DiskCache, content_key
from kgen.runtime.system import (
    folder_variables,
    kill_group,
    library_suffix,
    new_group,
    openmp_choices,
    words_of,
)

__all__ = [
    "compile_cubin",
    "compile_source",
    "compiler_version",
    "find_c_compiler",
    "find_nvcc",
    "keep_source",
    "knows",
    "openmp_flags",
    "run_compiler",
    "temporary_folder",
]

NVCC_FLAGS: Final = ("-O3",)

_WITH_OPENMP: Final = "#include <omp.h>\nint f(void) { return omp_get_max_threads(); }\n"


def find_c_compiler(chosen: str | None = None) -> tuple[str, ...]:
    """Return the command of a C compiler: the *chosen* one, that of ``$CC``, ``cc``, ``gcc``..."""
    if chosen is not None:
        hint = "name one that is installed: CCompiler(cc=...)"
        return _search("C compiler", (chosen,), os.environ.get("PATH", os.defpath), hint)
    return _find("C compiler", "CC", ("cc", "gcc", "clang"), ())


def find_nvcc() -> tuple[str, ...]:
    """Return the command of CUDA's compiler: that of ``$NVCC``, or where one is installed."""
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_ROOT", "CUDA_PATH")]
    folders = [Path(root, "bin") for root in (*roots, "/usr/local/cuda") if root]
    wheels = Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin")
    return _find("CUDA compiler", "NVCC", ("nvcc",), (*folders, *sorted(wheels)))


def _find(
    what: str, variable: str, commands: Sequence[str], folders: Iterable[Path]
) -> tuple[str, ...]:
    chosen = os.environ.get(variable)
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, folders)])
    hint = f"install one, or set the environment variable {variable} to its command"
    return _search(what, (chosen,) if chosen else commands, search, hint)


def _search(what: str, commands: Sequence[str], search: str, hint: str) -> tuple[str, ...]:
    """Return the first of some commands that is in the folders *search*, or raise an error."""
    for command in commands:
        words = words_of(command)
        path = shutil.which(words[0], path=search) if words else None
        if path is not None:
            return (path, *words[1:])
    raise CompilationError(f"there is no {what}: no {', '.join(commands)} on the PATH", hint=hint)


@lru_cache(maxsize=8)
def compiler_version(command: tuple[str, ...]) -> str:
    """Return the version text of the compiler."""
    return run_compiler([*command, "--version"]).stdout


@lru_cache(maxsize=8)
def openmp_flags(compiler: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the flags for OpenMP of a C compiler that supports it and finds its library."""
    choices = openmp_choices()
    return next((flags for flags in choices if knows(compiler, flags, _WITH_OPENMP)), None)


@lru_cache(maxsize=16)
def knows(
    compiler: tuple[str, ...], flags: tuple[str, ...], code: str = "int f(void) { return 0; }\n"
) -> bool:
    """Tell whether a C compiler can build a library from *code* with some flags."""
    with temporary_folder() as folder:
        path = folder / "f.c"
        with _writing(None):
            path.write_text(code, encoding="utf-8")
        product = folder / f"f{library_suffix()}"
        words = [*compiler, "-shared", "-fPIC", "-o", str(product), str(path), *flags]
        return run_compiler(words, folder).returncode == 0


def run_compiler(
    words: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler; if that is interrupted, end it and all processes that it has started.

    They form a separate process group: a Ctrl-C of the terminal does not reach them, and processes
    of a compiler driver do not outlive it. Their temporary files are in *folder*.
    """
    environment = {**os.environ, **({} if folder is None else folder_variables(folder))}
    process: subprocess.Popen[str] | None = None
    try:
        with _interrupt_delayed():
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment,
                **new_group(),
            )
        output, errors = process.communicate()
    except BaseException:
        if process is not None:
            with process, contextlib.suppress(ProcessLookupError):
                kill_group(process)
        raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


@contextlib.contextmanager
def _interrupt_delayed() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that no started process is lost.

    Only the main thread is interrupted, and only it may set handlers.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: received.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])


def compile_source(
    command: Sequence[str],
    source: str,
    code: Path,
    product: Path,
    *,
    libraries: Sequence[str] = (),
    kernel: str,
) -> None:
    """Write *source* to the file *code* and compile it to *product*; reject code with errors."""
    with _writing(kernel):
        code.write_text(source, encoding="utf-8")
    words = [*command, "-o", str(product), str(code), *libraries]
    result = run_compiler(words, code.parent)
    if result.returncode:
        kept = keep_source(source, code.name, kernel)
        output = (result.stderr or result.stdout).strip()
        raise CompilationError(
            f"the compiler rejects the generated code ({kept})",
            kernel=kernel,
            because=output.replace(str(code), str(kept)),
            hint=f"the command was: {shlex.join(words).replace(str(code), str(kept))}",
        )


def compile_cubin(disk: DiskCache, source: str, flags: tuple[str, ...], kernel: str) -> bytes:
    """Return the compiled *source*, from *disk* if cached there; reject code with errors."""
    command = find_nvcc()
    words = (*command, *NVCC_FLAGS, *flags, "-cubin")
    key = content_key("cuda", source, compiler_version(command), *words)
    cubin = disk.load(key)
    if cubin is None:
        with temporary_folder(kernel) as folder:
            product = folder / "kernel.cubin"
            compile_source(words, source, folder / "kernel.cu", product, kernel=kernel)
            cubin = product.read_bytes()
        disk.store(key, cubin)
    return cubin


def keep_source(source: str, name: str, kernel: str) -> Path:
    """Write code that does not compile to a file for inspection."""
    with _writing(kernel):
        kept = Path(tempfile.mkdtemp(prefix="kgen-failed-"), name)
        kept.write_text(source, encoding="utf-8")
    return kept


@contextlib.contextmanager
def temporary_folder(kernel: str | None = None) -> Iterator[Path]:
    """Create a folder for a compiler, and remove it at the end of the block."""
    with _writing(kernel):
        # Windows does not remove loaded libraries
        made = tempfile.TemporaryDirectory(prefix="kgen-", ignore_cleanup_errors=True)
    with made as folder:
        yield Path(folder)


@contextlib.contextmanager
def _writing(kernel: str | None) -> Iterator[None]:
    """Raise a :class:`CompilationError` if temporary files cannot be written."""
    try:
        yield
    except OSError as error:
        raise CompilationError(
            "the code for the compiler cannot be written to the folder for temporary files",
            kernel=kernel,
            because=str(error),
            hint="free space there, or set the environment variable TMPDIR to another folder",
        ) from None
