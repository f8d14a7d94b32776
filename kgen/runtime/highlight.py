"""Colours for code of the C family on a terminal."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["highlight"]

_COLOURS: Final = {
    "comment": "\033[90m",
    "directive": "\033[35m",
    "keyword": "\033[34m",
    "type": "\033[36m",
    "number": "\033[33m",
}
_RESET: Final = "\033[0m"

_TOKEN: Final = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#[^\n]*)
  | (?P<keyword>\b(?:for|if|else|while|return|do|break|continue|static|const|inline|restrict
      |__restrict__|__kernel|__global|__local|__constant|__private|__global__|__shared__
      |__device__|__attribute__|__launch_bounds__|extern)\b)
  | (?P<type>\b(?:void|bool|char|short|int|long|float|double|half|unsigned|signed|complex
      |u?int(?:8|16|32|64)_t|u(?:char|short|int|long)|c(?:float|double)_t
      |(?:float|double|int|long)(?:2|3|4|8|16))\b)
  | (?P<number>\b(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)[fFuUlL]*)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)


def highlight(code: str) -> str:
    r"""Return *code* with terminal colours.

    >>> highlight("x = 1;")
    'x = \x1b[33m1\x1b[0m;'
    """
    return _TOKEN.sub(lambda match: f"{_COLOURS[str(match.lastgroup)]}{match[0]}{_RESET}", code)
