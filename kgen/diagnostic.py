"""The errors and warnings that kgen raises, to be imported together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen import errors
from kgen.errors import *  # noqa: F403
from kgen.lazy import more_names

__all__ = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.diagnostic")
