"""Arrays in files of numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import click
import numpy as np

from kgen.errors import KgenError

__all__ = ["file_type", "read_arrays"]

file_type = click.Path(exists=True, dir_okay=False, path_type=Path)


def read_arrays(path: Path | None) -> dict[str, Any]:
    """Return the arrays of a ``.npz`` file by name; arrays without axes become numbers."""
    if path is None:
        return {}
    try:
        with np.load(path) as found:
            return {name: array if array.ndim else array[()] for name, array in found.items()}
    except (ValueError, AttributeError, TypeError, EOFError, BadZipFile) as error:
        raise KgenError(
            f"'{path}' is not a file of arrays",
            because=str(error),
            hint="write one with numpy.savez('arrays.npz', a=..., b=...); arrays of objects are "
            "not supported",
        ) from None
