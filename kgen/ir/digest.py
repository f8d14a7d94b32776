"""A digest of any IR value that is the same in every process."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np


def digest(value: Any) -> str:
    """Return the SHA-256 of a canonical text of *value*.

    Sets and maps are sorted by the text of their elements, so hash seeds do not matter.
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Write *value* as text: equal values give equal texts, in every process."""
    match value:
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
        case Enum():
            return f"{type(value).__name__}.{value.name}"
        case np.dtype() | np.ndarray() | np.generic():
            return _canonical_numpy(value)
        case tuple() | list():
            return "(" + ",".join(map(canonical, value)) + ")"
        case frozenset() | set():
            return "{" + ",".join(sorted(map(canonical, value))) + "}"
        case Mapping():
            items = sorted((canonical(k), canonical(v)) for k, v in value.items())
            return "{" + ",".join(f"{k}:{v}" for k, v in items) + "}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ",".join(
            f"{f.name}={canonical(getattr(value, f.name))}"
            for f in dataclasses.fields(value)
            if f.compare
        )
        return f"{type(value).__qualname__}({fields})"
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"
    return f"{type(value).__qualname__}({value})"


def _canonical_numpy(value: Any) -> str:
    if isinstance(value, np.dtype):
        return f"dtype({value.str if value.fields is None else value.descr})"
    if isinstance(value, np.generic):
        return f"{value.dtype.str}({value!r})"
    content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return f"array({value.dtype.str},{value.shape},{content})"
