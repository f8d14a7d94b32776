"""Exported libraries, built by a compiler and loaded into this process."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kgen.exporters.export import export
from kgen.exporters.requests import Exportable

__all__ = ["FLAGS", "load"]

FLAGS = (
    *("-std=c11", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-pedantic"),
    *("-O1", "-g", "-shared", "-fPIC"),
)


def load(
    folder: Path,
    programs: Exportable,
    target: str,
    *more: str,
    sources: Sequence[Path] = (),
) -> ctypes.CDLL:
    """Return the library ``demo`` of *programs*, compiled without a warning."""
    files = export(programs, folder, targets=[target], namespace="demo")
    code = [str(path) for path in (*files, *sources) if path.suffix == ".c"]
    library = folder / "demo.so"
    command = ["cc", *FLAGS, f"-I{folder / 'include'}", *code, "-o", str(library), *more]
    subprocess.run(command, check=True, timeout=60)
    found = ctypes.CDLL(str(library))
    found.demo_last_message.restype = ctypes.c_char_p
    return found
