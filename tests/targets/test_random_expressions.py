"""Random expressions on all types of numbers: every target compiles them, and computes numpy's."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import generate_module
from tests.targets.support import compile_cuda, merge_sources

N = 16
SEEDS = range(4)
COUNT = 24
NAMES = {
    "int": ("int32", "int64"),
    "narrow": ("int8", "int16", "uint8", "uint16", "uint32", "uint64"),
    "real": ("float32", "float64"),
    "complex": ("complex64", "complex128"),
}


class Value(NamedTuple):
    """The text of an expression, and its values in the highest precision."""

    text: str
    array: Any


def leaves() -> dict[str, Any]:
    """Return an array of small numbers of each type, called by the name of the type."""
    steps = np.arange(N)
    values = np.where(steps % 3 == 1, -1.0, 1.0) * (steps % 4 + 0.25 * (steps % 3))
    arrays = {}
    for k, name in enumerate(name for names in NAMES.values() for name in names):
        numbers = np.roll(values, k)
        if name.startswith("complex"):
            numbers = numbers + 0.5j * np.roll(numbers, 1)
        arrays[name] = (np.abs(numbers) if name[0] == "u" else numbers).astype(name)
    return arrays


class Maker:
    """Makes random expressions, each with what it is in numpy."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.arrays = leaves()

    def leaf(self, kind: str) -> Value:
        name = self.rng.choice(NAMES[kind])
        wide = {"int": np.int64, "narrow": np.int64, "real": np.float64, "complex": np.complex128}
        return Value(f"a_{name}[i]", self.arrays[name].astype(wide[kind]))

    def narrow(self) -> Value:
        """Return an element or its negation, which wraps if it is unsigned, in its own type."""
        name = self.rng.choice(NAMES["narrow"])
        array = self.arrays[name]
        if self.rng.randrange(2):
            return Value(f"a_{name}[i]", array)
        return Value(f"(-a_{name}[i])", np.negative(array))

    def make(self, kind: str, depth: int) -> Value:
        """Return an expression that is an ``int``, ``real``, ``complex`` or ``truth``."""
        if depth == 0 and kind != "truth":
            return self.leaf(kind)
        rules: dict[str, list[Callable[[int], Value]]] = {
            "int": [self.int_binary, self.int_divided, self.int_bits, self.int_other],
            "real": [self.real_binary, self.real_function, self.real_constant, self.real_other],
            "complex": [self.complex_binary, self.complex_constant, self.complex_other],
            "truth": [self.truth_compared, self.truth_joined, self.truth_number],
        }
        return self.rng.choice(rules[kind])(depth - 1)

    def both(self, first: str, second: str, depth: int) -> tuple[Value, Value]:
        return self.make(first, depth), self.make(second, depth)

    def if_else(self, kind: str, depth: int) -> Value:
        condition, (a, b) = self.make("truth", depth), self.both(kind, kind, depth)
        array = np.where(condition.array, a.array, b.array)
        return Value(f"({a.text} if {condition.text} else {b.text})", array)

    def binary(self, a: Value, b: Value) -> Value:
        sign = self.rng.choice("+-*")
        array = {"+": np.add, "-": np.subtract, "*": np.multiply}[sign](a.array, b.array)
        return Value(f"({a.text} {sign} {b.text})", array)

    # -- integers -----------------------------------------------------------------------------

    def int_binary(self, depth: int) -> Value:
        return self.binary(*self.both("int", "int", depth))

    def int_divided(self, depth: int) -> Value:
        a, by = self.make("int", depth), self.rng.choice(("3", "-2", "5l"))
        sign = self.rng.choice(("//", "%"))
        compute = np.floor_divide if sign == "//" else np.mod
        return Value(f"({a.text} {sign} ({by}))", compute(a.array, int(by.rstrip("l"))))

    def int_bits(self, depth: int) -> Value:
        a, b = self.both("int", "int", depth)
        match self.rng.randrange(5):
            case 0:
                return Value(f"({a.text} & {b.text})", a.array & b.array)
            case 1:
                return Value(f"({a.text} | {b.text} ^ 3)", a.array | (b.array ^ 3))
            case 2:
                return Value(f"(~{a.text})", ~a.array)
            case 3:
                return Value(f"((1l << 40) + {a.text} >> 3)", ((1 << 40) + a.array) >> 3)
        return Value(f"(({a.text} & 7) << 2)", (a.array & 7) << 2)

    def int_other(self, depth: int) -> Value:
        a, b = self.both("int", "int", depth)
        match self.rng.randrange(6):
            case 0:
                return self.if_else("int", depth)
            case 1:
                return Value(f"max({a.text}, {b.text}, 1)", np.maximum(np.maximum(a[1], b[1]), 1))
            case 2:
                return Value(f"abs({a.text})", abs(a.array))
            case 3:
                narrow = self.narrow()
                whole = narrow.array.astype(np.int32).astype(np.int64)
                return Value(f"(cast(int32, {narrow.text}) - {a.text})", whole - a.array)
            case 4:
                real = self.leaf("real")
                return Value(f"cast(int64, {real.text})", np.trunc(real.array).astype(np.int64))
        truth = self.make("truth", depth)
        return Value(f"(2*({truth.text}) + 3l)", 2 * truth.array.astype(np.int64) + 3)

    # -- real numbers -------------------------------------------------------------------------

    def real_binary(self, depth: int) -> Value:
        kinds = [self.rng.choice(("real", "real", "int")), "real"]
        self.rng.shuffle(kinds)
        return self.binary(*self.both(kinds[0], kinds[1], depth))

    def real_function(self, depth: int) -> Value:
        a = self.make("real", depth)
        size = np.abs(a.array)
        match self.rng.randrange(6):
            case 0:
                return Value(f"sqrt(abs({a.text}))", np.sqrt(size))
            case 1:
                return Value(f"abs({a.text})**0.5", size**0.5)
            case 2:
                return Value(f"({a.text})**2", a.array**2)
            case 3:
                return Value(f"sin({a.text})", np.sin(a.array))
            case 4:
                return Value(f"min({a.text}, 2)", np.minimum(a.array, 2))
        return Value(f"(1 / (abs({a.text}) + 1))", 1 / (size + 1))

    def real_constant(self, depth: int) -> Value:
        a = self.make("real", depth)
        text, value = self.rng.choice(REAL_CONSTANTS)
        return self.binary(Value(text, np.float64(value)), a)

    def real_other(self, depth: int) -> Value:
        a, number = self.make("real", depth), self.make("complex", depth)
        match self.rng.randrange(7):
            case 0:
                return self.if_else("real", depth)
            case 1:
                return Value(f"real({number.text})", number.array.real)
            case 2:
                return Value(f"abs({number.text})", abs(number.array))
            case 3:
                return Value(f"cast(float32, {a.text})", a.array)
            case 4:
                narrow = self.narrow()
                return self.binary(a, narrow._replace(array=narrow.array.astype(np.float64)))
            case 5:
                one, other = self.both("int", "int", depth)
                array = one.array / (abs(other.array) + 1)
                return Value(f"({one.text} / (abs({other.text}) + 1))", array)
        return Value(f"(-{a.text})", -a.array)

    # -- complex numbers ----------------------------------------------------------------------

    def complex_binary(self, depth: int) -> Value:
        kinds = [self.rng.choice(("complex", "real", "int")), "complex"]
        self.rng.shuffle(kinds)
        return self.binary(*self.both(kinds[0], kinds[1], depth))

    def complex_constant(self, depth: int) -> Value:
        a = self.make("complex", depth)
        text, value = self.rng.choice((*REAL_CONSTANTS, ("1.5j", 1.5j), ("(2 - 0.5j)", 2 - 0.5j)))
        constant = Value(text, np.complex128(value))
        return self.binary(*self.rng.sample((constant, a), 2))

    def complex_other(self, depth: int) -> Value:
        a = self.make("complex", depth)
        match self.rng.randrange(7):
            case 0:
                return self.if_else("complex", depth)
            case 1:
                return Value(f"conj({a.text})", np.conj(a.array))
            case 2:
                return Value(f"(-{a.text})", -a.array)
            case 3:
                return Value(f"({a.text})**2", a.array**2)
            case 4:
                return Value(
                    f"((abs({a.text}) + 2)**(1.0/2.0)*{a.text})", (abs(a[1]) + 2) ** 0.5 * a[1]
                )
            case 5:
                return Value(
                    f"(2.5*{a.text} / (abs({a.text}) + 1.5))", 2.5 * a[1] / (abs(a[1]) + 1.5)
                )
        real = self.make("real", depth)
        return Value(f"cast(complex64, {real.text})", real.array.astype(complex))

    # -- conditions: of what is exact in any precision ----------------------------------------

    def truth_compared(self, depth: int) -> Value:
        a = self.leaf(self.rng.choice(("int", "narrow", "real")))
        sign, compute = self.rng.choice(
            (("<", np.less), (">=", np.greater_equal), ("==", np.equal))
        )
        text, value = self.rng.choice((("1", 1), ("0.5", 0.5), ("-1l", -1), ("2u", 2), ("i", None)))
        other = np.arange(N) if value is None else value
        return Value(f"({a.text} {sign} {text})", compute(a.array, other))

    def truth_joined(self, depth: int) -> Value:
        a, b = (
            self.both("truth", "truth", max(depth, 1) - 1 if depth else 0)
            if depth
            else (
                self.truth_compared(0),
                self.truth_number(0),
            )
        )
        match self.rng.randrange(3):
            case 0:
                return Value(f"({a.text} and {b.text})", a.array & b.array)
            case 1:
                return Value(f"({a.text} or {b.text})", a.array | b.array)
        return Value(f"(not {a.text})", ~a.array)

    def truth_number(self, depth: int) -> Value:
        a = self.leaf(self.rng.choice(("int", "narrow", "real", "complex")))
        match self.rng.randrange(3):
            case 0:
                return Value(f"cast(bool, {a.text})", a.array != 0)
            case 1:
                return Value(f"({a.text} != 0)", a.array != 0)
        return Value(f"(not {a.text})", a.array == 0)


REAL_CONSTANTS = (
    ("(1.0/3.0)", 1 / 3),
    ("(2/3)", 2 / 3),
    ("max(1.5, 2.5)", 2.5),
    ("sqrt(2.0)", 2**0.5),
    ("(2**0.5)", 2**0.5),
    ("(0.1 + 2)", 2.1),
    ("(7 // 2)", 3),
    ("(-0.5)", -0.5),
    ("2.5f", 2.5),
    ("0.1d", 0.1),
    ("3l", 3),
)


def values_of(seed: int) -> list[Value]:
    maker = Maker(seed)
    kinds = ("int", "real", "complex", "truth")
    return [maker.make(kinds[k % 4], 3) for k in range(COUNT)]


def kernel_of(seed: int, target: Any) -> lp.TranslationUnit:
    lines = [f"o{k}[i] = {value.text}" for k, value in enumerate(values_of(seed))]
    arrays = [lp.GlobalArg(f"a_{name}", name, shape=(N,)) for name in leaves()]
    domain = f"{{ [i]: 0<=i<{N} }}"
    return lp.make_kernel(domain, lines, [*arrays, ...], target=target, name=f"random{seed}")


def check(seed: int, given: dict[str, Any]) -> None:
    for k, value in enumerate(values_of(seed)):
        expected = np.broadcast_to(value.array, N)
        tolerance = 1e-3 * (1 + np.abs(expected).max())
        np.testing.assert_allclose(given[f"o{k}"], expected, 1e-3, tolerance, err_msg=value.text)


def given_arrays() -> dict[str, Any]:
    return {f"a_{name}": array for name, array in leaves().items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_c(seed: int) -> None:
    knl = lp.set_options(kernel_of(seed, lp.ExecutableCTarget()), return_dict=True)
    check(seed, knl(**given_arrays())[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_opencl(seed: int, device: Any) -> None:
    knl = lp.set_options(kernel_of(seed, lp.PyOpenCLTarget()), return_dict=True)
    check(seed, device(knl, **given_arrays())[1])


def test_cuda_compiles(nvcc: str, tmp_path: Path) -> None:
    modules = [generate_module(kernel_of(seed, lp.CudaTarget())) for seed in SEEDS]
    compile_cuda(merge_sources(module.device_source for module in modules), tmp_path, nvcc)
