"""The match language, as classes."""

from __future__ import annotations

from kgen.ir.language import match
from kgen.ir.language.match import *  # noqa: F403

__all__ = match.__all__
