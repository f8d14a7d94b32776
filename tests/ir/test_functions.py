from __future__ import annotations

import numpy as np
import pytest

from kgen.errors import TypeInferenceFailure
from kgen.ir.functions import FUNCTIONS
from kgen.ir.types import NumpyType


def types_of(name: str, *dtypes: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    operands, results = FUNCTIONS[name].types_for(tuple(NumpyType(np.dtype(d)) for d in dtypes))
    return tuple(t.dtype.name for t in operands), tuple(t.dtype.name for t in results)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_takes_float64(name: str) -> None:
    operands, results = types_of(name, *["float64"] * (FUNCTIONS[name].arg_count or 3))
    assert set(operands) <= {"float64", "int32"}
    assert results[0] in ("float64", "int32", "int64")


@pytest.mark.parametrize("name", ["sin", "log10", "atan2", "fma", "tgamma", "remainder"])
@pytest.mark.parametrize(
    ("given", "result"),
    [("int8", "float64"), ("int64", "float64"), ("float32", "float32"), ("float64", "float64")],
)
def test_real_functions_turn_integers_into_float64(name: str, given: str, result: str) -> None:
    count = FUNCTIONS[name].arg_count
    assert count is not None
    assert types_of(name, *[given] * count) == ((result,) * count, (result,))


def test_two_arguments_are_promoted() -> None:
    assert types_of("hypot", "float32", "float64") == (("float64", "float64"), ("float64",))
    assert types_of("max", "int8", "int64") == (("int64", "int64"), ("int64",))
    assert types_of("min", "float32", "int32", "float64")[1] == ("float64",)


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "conj"])
def test_complex_functions(name: str) -> None:
    assert types_of(name, "complex64") == (("complex64",), ("complex64",))


@pytest.mark.parametrize("name", ["abs", "real", "imag"])
def test_parts_of_complex_numbers_are_real(name: str) -> None:
    assert types_of(name, "complex64") == (("complex64",), ("float32",))
    assert types_of(name, "complex128") == (("complex128",), ("float64",))
    assert types_of(name, "int16") == (("int16",), ("int16",))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
def test_classification_gives_int32(name: str) -> None:
    assert types_of(name, "float32") == (("float32",), ("int32",))


def test_an_operand_of_a_type_of_its_own() -> None:
    assert types_of("ldexp", "float32", "int64") == (("float32", "int32"), ("float32",))
    assert types_of("bessel_jn", "int64", "float32") == (("int32", "float64"), ("float64",))


@pytest.mark.parametrize("name", ["erf", "floor", "isnan", "min", "fmax"])
def test_no_complex_numbers_where_there_is_no_meaning(name: str) -> None:
    with pytest.raises(TypeInferenceFailure, match=f"'{name}' does not take complex numbers"):
        types_of(name, *["complex128"] * (FUNCTIONS[name].arg_count or 1))


@pytest.mark.parametrize(("name", "count"), [("sin", 2), ("atan2", 1), ("min", 0), ("fma", 4)])
def test_a_wrong_number_of_arguments(name: str, count: int) -> None:
    with pytest.raises(TypeInferenceFailure, match=f"'{name}' takes .*, not {count}"):
        types_of(name, *["float64"] * count)
