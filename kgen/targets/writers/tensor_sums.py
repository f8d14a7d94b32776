"""The sums of steps of tensor cores: the instruction, and partial sums of split factors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Final

import cgen

from kgen.ir.fragments import TensorShape
from kgen.targets.preamble import Need
from kgen.targets.writers.tensor_steps import Step, device_function, numbers_of

__all__ = ["PartialSums", "split_steps_in_turn", "step_statement"]

#: The number of partial sums computed in turn, since the products of one wait for each other.
_AT_ONCE: Final = 4
#: The maximum number of terms of a partial sum.
_TERMS: Final = 64


def step_statement(step: Step, sums: Sequence[str], a: str, b: str) -> cgen.Statement:
    """Write the instruction that adds the product of two fragments to *sums*."""
    step.writer.preamble.add(need := _step_need(step.shape))
    return cgen.Statement(f"{need.key}({', '.join([*sums, a, b])})")


@dataclass
class _PartialSum:
    """Steps of the same sums, and the rounded factors of each, with what remains of them."""

    step: Step
    name: str
    factors: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    @property
    def terms(self) -> int:
        """The number of terms of each sum."""
        return len(self.factors) * self.step.shape.depth

    def products(self) -> Iterator[cgen.Generable]:
        """Write zeros, and the products that are added to them, from the smallest of a step on.

        The product of what remains of both factors is less than the error of the others.
        """
        count = self.step.shape.c.count
        yield cgen.Initializer(cgen.Value("float", f"{self.name}[{count}]"), "{0.0f}")
        own = [f"{self.name}[{n}]" for n in range(count)]
        for (a, a_rest), (b, b_rest) in self.factors:
            for part in ((a_rest, b), (a, b_rest), (a, b)):
                yield step_statement(self.step, own, *part)

    def total(self) -> cgen.Statement:
        """Write the addition to the sums of the instruction."""
        self.step.writer.preamble.add(need := _add_need(self.step.shape.c.count))
        return cgen.Statement(f"{need.key}({', '.join([*self.step.sums, self.name])})")


class PartialSums:
    """Sums of products of split factors, of which tensor cores add few terms at a time.

    Tensor cores round sums towards zero, and such errors add up. So they add the terms of steps of
    the same sums only up to a limit; partial sums are added by additions that round to nearest.
    """

    def __init__(self) -> None:
        self._partials: list[_PartialSum] = []
        self._count = 0

    def add(self, step: Step, a: tuple[str, ...], b: tuple[str, ...]) -> None:
        """Add a step, whose factors are rounded ones and what remains of them."""
        of_sums = [each for each in self._partials if each.step.sums == step.sums]
        if not of_sums or of_sums[-1].terms + step.shape.depth > _TERMS:
            of_sums.append(_PartialSum(step, f"kgen_sums{self._count}"))
            self._partials.append(of_sums[-1])
            self._count += 1
        of_sums[-1].factors.append((a, b))

    def finish(self) -> list[cgen.Generable]:
        """Return the statements of the steps since the last call, those of partial sums in turn."""
        partials, self._partials = self._partials, []
        in_turn = chain.from_iterable(zip_longest(*(each.products() for each in partials)))
        return [
            *(line for line in in_turn if line is not None),
            *(each.total() for each in partials),
        ]


def split_steps_in_turn(steps: Sequence[Step]) -> Iterable[list[Step]]:
    """Return the steps of few sums at a time, so that tensor cores add several terms of each.

    ::

        for k = 0, 1                     for k = 0, 1
          for i = 0, ... 7          =>     for i = 0, ... 3
            c[i] += a[i, k]*b[k]             c[i] += a[i, k]*b[k]
                                         for k = 0, 1
                                           for i = 4, ... 7
                                             c[i] += a[i, k]*b[k]
    """
    numbers: dict[tuple[str, ...], int] = {}
    batches: dict[int, list[Step]] = {}
    for step in steps:
        number = numbers.setdefault(step.sums, len(numbers))
        batches.setdefault(number // _AT_ONCE, []).append(step)
    return batches.values()


def _step_need(shape: TensorShape) -> Need:
    """Return the function of one instruction: sums by reference, factors as arrays."""
    is_double = shape.operands == "float64"
    kind, letter = ("double", "d") if is_double else ("unsigned", "r")
    halves = 2 if shape.operands in ("float16", "bfloat16") else 1
    assert shape.a is not None
    assert shape.b is not None
    sums, a, b = shape.c.count, shape.a.count // halves, shape.b.count // halves
    result = "double" if is_double else "float"
    outs = ", ".join(f'"+{"d" if is_double else "f"}"(c{n})' for n in range(sums))
    ins = ", ".join(
        f'"{letter}"({name}[{n}])' for name, count in (("a", a), ("b", b)) for n in range(count)
    )
    operands = ", ".join(
        (numbers_of(0, sums), numbers_of(sums, a), numbers_of(sums + a, b), numbers_of(0, sums))
    )
    return device_function(
        "void",
        f"kgen_{shape.name}_{'tf32' if shape.is_split else shape.operands}",
        [
            *(f"{result} &c{n}" for n in range(sums)),
            f"{kind} const (&a)[{a}]",
            f"{kind} const (&b)[{b}]",
        ],
        f'asm volatile("{shape.instruction} {operands};" : {outs} : {ins})',
    )


def _add_need(count: int) -> Need:
    """Return the function that adds the sums of a step, rounded to nearest."""
    return device_function(
        "void",
        "kgen_add_sums",
        [*(f"float &c{n}" for n in range(count)), f"float const (&sums)[{count}]"],
        *(f"c{n} += sums[{n}]" for n in range(count)),
    )
