"""Preambles of generated code: headers, macros, tables and helper functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kgen.errors import CodegenError
from kgen.ir.kernel import LoopKernel
from kgen.ir.types import AtomicNumpyType, NumpyType

__all__ = ["Need", "Preamble", "PreambleInfo", "Rank", "SeenFunction", "include"]


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


@dataclass(frozen=True)
class SeenFunction:
    """A function that the code calls: its name in expressions and in the code, and its types."""

    name: str
    c_name: str
    arg_dtypes: tuple[NumpyType, ...]
    result_dtypes: tuple[NumpyType, ...]


@dataclass(frozen=True)
class PreambleInfo:
    """The argument of a preamble generator, a function that returns pairs ``(key, text)``.

    >>> import kgen as lp
    >>> def generate(info):
    ...     if any(function.name == "sin" for function in info.seen_functions):
    ...         yield "fast", "#pragma STDC FP_CONTRACT ON"
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = sin(a[i])", [lp.GlobalArg("a", "float64"), ...],
    ...     target=lp.CTarget())
    >>> unit = lp.register_preamble_generators(unit, [generate])
    >>> "FP_CONTRACT" in lp.generate_code_v2(unit).device_code()
    True
    """

    kernel: LoopKernel
    seen_dtypes: frozenset[NumpyType]
    seen_functions: frozenset[SeenFunction]

    @property
    def seen_atomic_dtypes(self) -> frozenset[AtomicNumpyType]:
        """The types of ``seen_dtypes`` whose variables are accessed atomically."""
        return frozenset(one for one in self.seen_dtypes if isinstance(one, AtomicNumpyType))


class Preamble:
    """Collects needs, each once, and writes them in an order independent of that of the calls."""

    def __init__(self) -> None:
        self._needs: dict[tuple[Rank, str], str] = {}
        self.seen_dtypes: set[NumpyType] = set()
        self.seen_functions: set[SeenFunction] = set()

    def add(self, *needs: Need) -> None:
        """Add *needs*."""
        for need in needs:
            self._needs.setdefault((need.rank, need.key), need.text)

    def __contains__(self, key: tuple[Rank, str]) -> bool:
        return key in self._needs

    def add_user_code(
        self,
        kernel: LoopKernel,
        generators: Sequence[Callable[[PreambleInfo], Iterable[tuple[str, str]]]],
    ) -> None:
        """Add the preambles of *kernel*, and those that its and other generators return."""
        info = PreambleInfo(kernel, frozenset(self.seen_dtypes), frozenset(self.seen_functions))
        pairs: list[Any] = [*kernel.preambles]
        for generator in (*generators, *kernel.preamble_generators):
            made: Any = generator(info)
            pairs.extend(made if isinstance(made, Iterable) else (made,))
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], str)):
                raise CodegenError(
                    f"{pair!r} is not a preamble",
                    hint="a preamble is a pair (tag, code); a preamble generator returns a "
                    "list of them",
                )
            key, text = pair
            need = Need(Rank.USER, str(key), text.strip("\n"))
            self.add(need)
            if self._needs[need.rank, need.key] != need.text:
                raise CodegenError(
                    f"two preambles have the tag '{key}' and different code",
                    hint="give one of them another tag",
                )

    def text(self) -> str:
        """Return the text, with blank lines between sections and around helpers."""
        texts: list[str] = []
        last: Rank | None = None
        for rank, key in sorted(self._needs):
            if last is not None and (rank != last or rank == Rank.HELPER):
                texts.append("")
            last = rank
            texts.append(self._needs[rank, key])
        return "\n".join(texts)
