"""What generated code needs in front of it: headers, macros, tables and helper functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import cgen


class Rank(IntEnum):
    """The order of the sections of a preamble."""

    PRAGMA = 0
    DEFINE = 1
    INCLUDE = 2
    MACRO = 3
    USER = 4
    TABLE = 5
    HELPER = 6


@dataclass(frozen=True, order=True)
class Need:
    """One piece of a preamble; within a section pieces are sorted by *key*."""

    rank: Rank
    key: str
    text: str


def include(name: str) -> Need:
    """Return the need of a system header."""
    return Need(Rank.INCLUDE, name, f"#include <{name}>")


class Preamble:
    """Collects needs, each once, and writes them in an order that does not depend on when."""

    def __init__(self) -> None:
        self._needs: dict[tuple[Rank, str], str] = {}

    def add(self, *needs: Need) -> None:
        """Ask for *needs*."""
        for need in needs:
            self._needs.setdefault((need.rank, need.key), need.text)

    def __contains__(self, key: tuple[Rank, str]) -> bool:
        return key in self._needs

    def generate(self) -> Iterator[cgen.Generable]:
        """Return the lines, a blank one between sections and around helpers."""
        last: Rank | None = None
        for rank, key in sorted(self._needs):
            if last is not None and (rank != last or rank == Rank.HELPER):
                yield cgen.Line()
            last = rank
            for line in self._needs[rank, key].split("\n"):
                yield cgen.Line(line)
