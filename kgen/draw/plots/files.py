"""Writes figures to files: the same picture gives the same file."""

from __future__ import annotations

import os
from typing import IO

import matplotlib as mpl
from matplotlib.figure import Figure

from kgen.errors import writing

__all__ = ["write"]


def write(
    figure: Figure, file: str | os.PathLike[str] | IO[str], kind: str, *, dpi: int = 150
) -> None:
    """Write a figure in the format *kind*, such as ``svg`` or ``png``."""
    metadata = {"Date": None} if kind == "svg" else None
    # Text stays text in SVG, which is short and can be searched; names of parts do not change.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kgen"}), writing(file):
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)
