"""The counter-based random number generators of Random123: their names, words and types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kgen.ir.types import NumpyType
from kgen.ir.vector_values import vector_type

__all__ = ["GENERATORS", "Generator"]


@dataclass(frozen=True)
class Generator:
    """A function of a counter and a key, as Salmon et al. (2011) define it.

    ``Generator("philox", 4, 32)`` makes four words of 32 bits in the published number of
    rounds; with a *real* type, as many numbers in [0, 1) of that type, from the high bits of
    the words.
    """

    family: str
    words: int
    bits: int
    real: str | None = None

    @property
    def name(self) -> str:
        """The name in expressions.

        >>> Generator("philox", 4, 32, "float32").name
        'philox4x32_f32'
        """
        suffix = "" if self.real is None else f"_f{8 * np.dtype(self.real).itemsize}"
        return f"{self.family}{self.words}x{self.bits}{suffix}"

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return 10 if self.family == "philox" else 20

    @property
    def key_words(self) -> int:
        """The number of words of a key."""
        return self.words // 2 if self.family == "philox" else self.words

    @property
    def word_type(self) -> NumpyType:
        """The type of one word."""
        return NumpyType(np.dtype(f"uint{self.bits}"))

    @cached_property
    def counter_type(self) -> NumpyType:
        """The type of counters."""
        return vector_type(self.word_type.dtype, self.words)

    @cached_property
    def key_type(self) -> NumpyType:
        """The type of keys; a key of one word is a number."""
        if self.key_words == 1:
            return self.word_type
        return vector_type(self.word_type.dtype, self.key_words)

    @cached_property
    def result_type(self) -> NumpyType:
        """The type of results."""
        if self.real is None:
            return self.counter_type
        return vector_type(np.dtype(self.real), self.words)


#: By name.
GENERATORS: Final = {
    generator.name: generator
    for family in ("philox", "threefry")
    for words in (2, 4)
    for bits in (32, 64)
    for real in (None, "float32", "float64")
    for generator in (Generator(family, words, bits, real),)
}
