"""The common part of pictures: data that prints as text, and is drawn by matplotlib."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from kgen.errors import KgenError
from kgen.ir.optional import load

__all__ = ["Picture"]

#: The formats of files.
_KINDS = ("svg", "png", "pdf")


class Picture(ABC):
    """The data of a picture; ``str()`` is its form for terminals.

    It is drawn by :meth:`figure`, :meth:`save` and notebooks. These need matplotlib: ``pip install
    'kgen-loops[plot]'``.

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = i", target=lp.CTarget())
    >>> picture = lp.draw.schedule(knl)
    >>> print(picture)
    launch kgen_kernel
    └─ for i
       └─ run insn
    """

    #: the module of kgen.draw.plots whose function ``plot`` draws it
    plotter: ClassVar[str]

    @abstractmethod
    def __str__(self) -> str:
        """Return the picture as text."""

    def figure(self) -> Any:
        """Draw the picture; return the ``matplotlib.figure.Figure``.

        Raises :class:`KgenError` if matplotlib is not installed.
        """
        return load(f"kgen.draw.plots.{self.plotter}", "plot").plot(self)

    def save(self, file: str | os.PathLike[str], *, dpi: int = 150) -> None:
        """Draw the picture into a file, whose suffix is the format: ``.svg``, ``.png``, ``.pdf``.

        *dpi*: the dots per inch of formats that consist of dots.
        """
        kind = Path(file).suffix.removeprefix(".").lower()
        if kind not in _KINDS:
            raise KgenError(
                f"'{file}' does not end with the format of a picture",
                hint=f"end its name with one of {', '.join(f'.{known}' for known in _KINDS)}",
            )
        load("kgen.draw.plots.files", "plot").write(self.figure(), file, kind, dpi=dpi)

    def svg(self) -> str:
        """Return the picture as the element ``<svg>`` of a page."""
        file = io.StringIO()
        load("kgen.draw.plots.files", "plot").write(self.figure(), file, "svg")
        text = file.getvalue()
        return text[text.index("<svg") :]

    def _repr_html_(self) -> str:
        """Show the picture in a notebook, as text if matplotlib is not installed."""
        try:
            load("matplotlib", "plot")
        except KgenError:
            return f"<pre>{escape(str(self))}</pre>"
        return self.svg()
