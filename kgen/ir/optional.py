"""Packages that only some programs need, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any, Final

from kgen.errors import KgenError

__all__ = ["DISTRIBUTION", "load"]

#: The name of kgen's distribution: 'kgen' is another package on PyPI.
DISTRIBUTION: Final = "kgen-loops"


def load(module: str, extra: str = "") -> Any:
    """Import and return a module of a package that kgen, or its extra *extra*, installs.

    >>> load("json", "tune").dumps([1])
    '[1]'

    Raises :class:`KgenError` if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise KgenError(
            f"'{module}' cannot be imported",
            because=str(err),
            hint=f"pip install '{DISTRIBUTION}{extra and f'[{extra}]'}'",
        ) from None
