"""Quotients and remainders of one number, put together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymbolic import parse
from pymbolic.mapper.evaluator import evaluate

from kgen.ir.digits import join_digits
from kgen.ir.expr import to_text

PAIRS = {
    "8*(i//8) + i % 8": "i",
    "24*(i//8) + 3*(i % 8) + 7": "3*i + 7",
    "40*(i//40) + 5*(i//5 % 8) + i % 5": "i",
    "40*((128*g + i)//40) + 5*((128*g + i)//5 % 8) + (128*g + i) % 5": "128*g + i",
    "24*((128*g + i)//24) + 4*((32*g + i//4) % 6) + i % 4": "128*g + i",
    "12*(i//12) + 4*(i % 12 // 4) + i % 4": "i",
    "12*((9*i + g)//12) + 4*((9*i + g) % 12 // 4) + (9*i + g) % 4": "9*i + g",
    "40*(i//40) + 5*(i//5 % 8)": "5*(i // 5)",
    "(i + 5) % 4 + 4*((i + 5)//4)": "i + 5",
    "i % 4 + 4*(i//4) + g % 4": "g % 4 + i",
    "12*(i//4) + 2*(i % 4)": "12*(i // 4) + 2*(i % 4)",  # another stride
    "8*(i//8) + g % 8": "8*(i // 8) + g % 8",  # another number
    "8*(i//8) + i % 4": "8*(i // 8) + i % 4",  # a digit is missing
    "n*(i//n) + i % n": "n*(i // n) + i % n",  # no number: n may be 0
}


@pytest.mark.parametrize("text", PAIRS)
def test_digits_of_one_number_become_it(text: str) -> None:
    assert to_text(join_digits(parse(text))) == PAIRS[text]


@pytest.mark.parametrize("text", [text for text in PAIRS if "n" not in text])
@given(i=st.integers(-200, 200), g=st.integers(-9, 9))
def test_value_is_the_same(text: str, i: int, g: int) -> None:
    expr = parse(text)
    values = {"i": i, "g": g}
    assert evaluate(join_digits(expr), values) == evaluate(expr, values)
