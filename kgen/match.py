"""The match language, as classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.ir.language import match
from kgen.ir.language.match import *  # noqa: F403
from kgen.lazy import more_names

__all__ = match.__all__

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.match")
