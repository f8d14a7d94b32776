"""Packages that only some programs need, imported when they are."""

from __future__ import annotations

import importlib
from typing import Any

from kgen.errors import KgenError

__all__ = ["load"]


def load(module: str, extra: str) -> Any:
    """Import and return a module of a package that the extra *extra* of kgen installs.

    >>> load("json", "tune").dumps([1])
    '[1]'

    Raises :class:`KgenError` where it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise KgenError(
            f"'{module}' cannot be imported",
            because=str(err),
            hint=f"pip install 'kgen[{extra}]'",
        ) from None
