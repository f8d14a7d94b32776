"""The fields of frozen values: which of them are content, and which are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

__all__ = ["OF_THIS_PROCESS", "compared_fields", "stored_fields"]

#: Metadata of a field that holds a handle of this process, such as a device. What behaviour
#: needs of it stands in another field.
OF_THIS_PROCESS: Final[Mapping[str, bool]] = MappingProxyType({"of_this_process": True})


def compared_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of the dataclass *kind* that make two values of it different.

    Equality, digests and programs as Python go by these.
    """
    return _fields_of(kind)[0]


def stored_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of the dataclass *kind* that another process gets: in JSON, by pickle.

    Besides those that are compared, what only messages need: where an instruction was written.
    """
    return _fields_of(kind)[1]


@lru_cache(maxsize=1024)
def _fields_of(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    fields = dataclasses.fields(kind)
    compared = tuple(field.name for field in fields if field.compare)
    stored = (f for f in fields if f.init and not f.metadata.keys() & OF_THIS_PROCESS.keys())
    return compared, tuple(field.name for field in stored)
