"""Generated code with the colours of a terminal."""

from __future__ import annotations

import pygments
from pygments.formatters.terminal import TerminalFormatter
from pygments.lexers.c_like import CudaLexer

__all__ = ["highlighted"]


def highlighted(code: str) -> str:
    """Return *code* in C, OpenCL or CUDA with colours for a terminal.

    >>> "int" in highlighted("int i;") and highlighted("int i;") != "int i;"
    True
    """
    return str(pygments.highlight(code, CudaLexer(stripnl=False), TerminalFormatter()))
