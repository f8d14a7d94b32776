"""Philox and Threefry as functions before the code, as Salmon et al. (2011) define them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import cgen
from pymbolic.mapper.stringifier import PREC_NONE

from kgen.ir.expr import Expr
from kgen.ir.random123 import GENERATORS, Generator
from kgen.ir.types import FLOAT64, UINT64, NumpyType
from kgen.ir.vector_values import numbers_of
from kgen.targets.definitions import constant, helper_function
from kgen.targets.writers.context import WriterContext
from kgen.targets.writers.literals import literal

__all__ = ["RandomWriter"]

#: Philox: the multipliers of words, by the number and the bits of words.
_MULTIPLIERS: Final = {
    (2, 32): (0xD256D193,),
    (4, 32): (0xD2511F53, 0xCD9E8D57),
    (2, 64): (0xD2B74407B1CE6E93,),
    (4, 64): (0xD2E7470EE14C6C93, 0xCA5A826395121157),
}
#: Philox: the increments of the key's words in each round, by their bits.
_WEYL: Final = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}
#: Threefry: the rotation of each pair of words, for eight rounds.
_ROTATIONS: Final = {
    (2, 32): ((13,), (15,), (26,), (6,), (17,), (29,), (16,), (24,)),
    (4, 32): ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)),
    (2, 64): ((16,), (42,), (12,), (31,), (16,), (32,), (24,), (21,)),
    (4, 64): ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)),
}
#: Threefry: the constant that is combined with the words of the key to an additional word.
_PARITY: Final = {32: 0x1BD11BDA, 64: 0x1BD11BDAA9FC1A22}


class RandomWriter:
    """Writes calls of generators for *writer*, and adds the functions that they need.

    *call* writes a call of a function by name, with operands of one type.
    """

    def __init__(
        self, writer: WriterContext, call: Callable[[str, Sequence[str], NumpyType], str]
    ) -> None:
        self.writer = writer
        self.call = call
        self.target = writer.target

    def draw(
        self, generator: Generator, arguments: Sequence[Expr], places: Sequence[str]
    ) -> cgen.Generable:
        """Write ``result, next_counter = generator(counter, key)``.

        The counter is copied first, because any assignee may overwrite it.
        """
        counter, key = generator.counter_type, generator.key_type
        name = "kgen_counter"
        texts = [
            self.writer.converted(argument, dtype, PREC_NONE)
            for argument, dtype in zip(arguments, (counter, key), strict=True)
        ]
        declared = cgen.Const(cgen.Value(self.writer.type_name(counter), name))
        return cgen.Block(
            [
                cgen.Initializer(declared, texts[0]),
                cgen.Assign(places[0], f"{self._function(generator)}({name}, {texts[1]})"),
                cgen.Assign(places[1], f"{self._successor(generator)}({name})"),
            ]
        )

    # -- functions before the code -------------------------------------------------------------

    def _define(
        self,
        name: str,
        result: NumpyType,
        operands: Sequence[tuple[str, NumpyType]],
        body: Sequence[cgen.Generable],
    ) -> str:
        """Add a function to the preamble; return its name."""
        kind = self.writer.type_name(result)
        parameters = [cgen.Value(self.writer.type_name(dtype), text) for text, dtype in operands]
        head = f"{self.target.helper_qualifier} {kind}"
        # helpers are sorted by name, and call only those with smaller names
        self.writer.preamble.add(helper_function(head, name, parameters, body))
        return name

    def _function(self, generator: Generator) -> str:
        """Add the function of *generator*; return its name."""
        if generator.real is not None:
            return self._real(generator)
        counter, key = generator.counter_type, generator.key_type
        word = self.writer.type_name(generator.word_type)
        body: list[cgen.Generable] = [
            cgen.Initializer(cgen.Value(word, f"x{k}"), self._word("counter", counter, k))
            for k in range(generator.words)
        ]
        body += [
            cgen.Initializer(cgen.Value(word, f"k{k}"), self._word("key", key, k))
            for k in range(generator.key_words)
        ]
        is_philox = generator.family == "philox"
        body += self._philox(generator) if is_philox else self._threefry(generator)
        body.append(self._return(counter, [f"x{k}" for k in range(generator.words)]))
        operands = (("counter", counter), ("key", key))
        return self._define(f"kgen_{generator.name}", counter, operands, body)

    def _real(self, generator: Generator) -> str:
        """Add numbers in [0, 1): the high bits of the words, as many as a number has."""
        words = GENERATORS[f"{generator.family}{generator.words}x{generator.bits}"]
        counter, key, result = words.result_type, words.key_type, generator.result_type
        numbers = numbers_of(result.dtype)
        assert numbers is not None
        real = NumpyType(numbers[0])
        kept = min(generator.bits, 53 if real == FLOAT64 else 24)
        scale = literal(self.target, 2.0**-kept, real)[0]
        shift = f" >> {generator.bits - kept}" if kept < generator.bits else ""
        parts = [self._word("word", counter, k) for k in range(generator.words)]
        name = self.writer.type_name(real)
        texts = [f"({name}) ({part}{shift}) * {scale}" for part in parts]
        body = [
            cgen.Initializer(
                cgen.Const(cgen.Value(self.writer.type_name(counter), "word")),
                f"{self._function(words)}(counter, key)",
            ),
            self._return(result, texts),
        ]
        operands = (("counter", counter), ("key", key))
        return self._define(f"kgen_{generator.name}", result, operands, body)

    def _successor(self, generator: Generator) -> str:
        """Add the function that increments a counter, whose first word is the lowest."""
        counter = generator.counter_type
        word = self.writer.type_name(generator.word_type)
        names = [f"x{k}" for k in range(generator.words)]
        body: list[cgen.Generable] = [
            cgen.Initializer(cgen.Value(word, name), self._word("counter", counter, k))
            for k, name in enumerate(names)
        ]
        carries = " && ".join(f"++{name} == 0" for name in names[:-1])
        body.append(cgen.If(cgen.Line(carries), cgen.Statement(f"++{names[-1]}")))
        body.append(self._return(counter, names))
        name = f"kgen_next_{generator.word_type.dtype.name}x{generator.words}"
        return self._define(name, counter, (("counter", counter),), body)

    def _philox(self, generator: Generator) -> Iterator[cgen.Generable]:
        """Write the rounds: products of words, whose halves are combined with the key."""
        bits = generator.bits
        pairs = range(generator.words // 2)
        steps: list[cgen.Generable] = []
        word = self.writer.type_name(generator.word_type)
        for k, multiplier in enumerate(_MULTIPLIERS[generator.words, bits]):
            high = self._high_half(f"{multiplier:#x}U", f"x{2 * k}", bits)
            steps.append(constant(word, f"high{k}", high))
            low = cgen.Const(cgen.Value(word, f"low{k}"))
            steps.append(cgen.Initializer(low, f"{multiplier:#x}U * x{2 * k}"))
        for k in pairs:
            other = len(pairs) - 1 - k
            steps.append(cgen.Assign(f"x{2 * k}", f"high{other} ^ x{2 * k + 1} ^ k{k}"))
            steps.append(cgen.Assign(f"x{2 * k + 1}", f"low{other}"))
        steps += [cgen.Statement(f"k{k} += {_WEYL[bits][k]:#x}U") for k in pairs]
        stop = cgen.Line(f"round < {generator.rounds}")
        yield cgen.For(cgen.Line("int round = 0"), stop, cgen.Line("++round"), cgen.Block(steps))

    def _threefry(self, generator: Generator) -> Iterator[cgen.Generable]:
        """Write the rounds: words are added, rotated and xored; every fourth one adds the key."""
        words, bits = generator.words, generator.bits
        parity = " ^ ".join([f"{_PARITY[bits]:#x}U", *(f"k{k}" for k in range(words))])
        word = self.writer.type_name(generator.word_type)
        yield constant(word, f"k{words}", parity)
        for number in range(generator.rounds + 1):
            if number % 4 == 0:
                yield from _add_key(words, number // 4)
            if number == generator.rounds:
                return
            for k, turn in enumerate(_ROTATIONS[words, bits][number % 8]):
                # odd rounds of four words use the opposite order
                one, two = 2 * k, (2 * k + 1 + 2 * (number % 2)) % words
                yield cgen.Statement(f"x{one} += x{two}")
                rotated = f"(x{two} << {turn}) | (x{two} >> {bits - turn})"
                yield cgen.Assign(f"x{two}", f"({rotated}) ^ x{one}")

    def _high_half(self, left: str, right: str, bits: int) -> str:
        """Write the upper half of the product of two words."""
        wide = self.writer.type_name(UINT64)
        if bits == 32:
            return f"({wide}) {left} * {right} >> 32"
        return self.call("mul_hi", (left, right), UINT64)

    # -- values -----------------------------------------------------------------------------------

    def _word(self, name: str, dtype: NumpyType, number: int) -> str:
        """Write one number of a counter or key."""
        vector = self.target.vector_of(dtype.dtype)
        return name if vector is None else f"{name}.{vector.lanes[number]}"

    def _return(self, dtype: NumpyType, numbers: Sequence[str]) -> cgen.Generable:
        vector = self.target.vector_of(dtype.dtype)
        assert vector is not None
        self.writer.type_name(dtype)
        return cgen.Statement(f"return {vector.value(numbers)}")


def _add_key(words: int, step: int) -> Iterator[cgen.Generable]:
    """Write the addition of the key after four more rounds, with its words rotated by one."""
    for k in range(words):
        plus = f" + {step}" if k == words - 1 and step > 0 else ""
        yield cgen.Statement(f"x{k} += k{(step + k) % (words + 1)}{plus}")
