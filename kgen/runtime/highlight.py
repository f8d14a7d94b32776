"""Syntax highlighting of generated code, for terminals and pages."""

from __future__ import annotations

import pygments
from pygments.formatters.html import HtmlFormatter
from pygments.formatters.terminal import TerminalFormatter
from pygments.lexers.c_like import CudaLexer

__all__ = ["highlighted", "highlighted_lines"]


def highlighted(code: str) -> str:
    """Return *code* in C, OpenCL or CUDA with colours for a terminal.

    >>> "int" in highlighted("int i;") and highlighted("int i;") != "int i;"
    True
    """
    return str(pygments.highlight(code, CudaLexer(stripnl=False), TerminalFormatter()))


def highlighted_lines(code: str) -> list[str]:
    r"""Return the lines of *code* as HTML with colours; styles are in it.

    >>> [line[:6] for line in highlighted_lines("int i;\nint j;")]
    ['<span ', '<span ']
    """
    formatter = HtmlFormatter(nowrap=True, noclasses=True)
    text = pygments.highlight(code, CudaLexer(stripnl=False, ensurenl=False), formatter)
    return str(text).split("\n")[: code.count("\n") + 1]
