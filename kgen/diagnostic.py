"""The errors and warnings that kgen raises, to be imported together."""

from __future__ import annotations

from kgen import errors
from kgen.errors import *  # noqa: F403

__all__ = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
