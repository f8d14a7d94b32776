"""The version of kgen, and that of its language."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kgen.lazy import more_names

__all__ = [
    "MOST_RECENT_LANGUAGE_VERSION",
    "VERSION",
    "VERSION_TEXT",
    "Version",
]

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.version")


class Version(NamedTuple):
    """A version: the year, and a number in it.

    >>> Version(2018, 2) < Version(2026, 1) == (2026, 1)
    True
    >>> print(Version(2018, 2))
    2018.2
    """

    year: int
    number: int

    def __str__(self) -> str:
        return f"{self.year}.{self.number}"


VERSION = Version(2026, 1)
VERSION_TEXT = str(VERSION)

# There is one language, that of the documentation: lang_version= of make_kernel takes it.
MOST_RECENT_LANGUAGE_VERSION = Version(2018, 2)
