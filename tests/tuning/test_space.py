"""Search spaces: against itertools.product, in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kgen.errors import KgenError, KgenSyntaxError
from kgen.tuning import SearchSpace

PARAMS: dict[str, list[Any]] = {
    "x": [1, 2, 4, 8, 16],
    "y": [0, 1, 3, 5],
    "z": [0.5, 1.0, 2.5],
    "use": [True, False],
    "how": ["local", "vector", None],
    "tile": [(1, 2), (4, 4)],
    "big": [2**40, 2**62, -3],
}

TEXTS = [
    "x * y <= 16",
    "y != 0 and x % y == 1",
    "y == 0 or x // y > 1",
    "x / (y + 1) < 1.5",
    "x * z + y >= 4",
    "(x if use else y) > 3",
    "use + use + x == 4",
    "1 < x <= 8 < x + y + 3",
    "how in ('local', None)",
    "how is None or how == 'vector'",
    "how != 'local' or y",
    "tile[0] * tile[1] == 2",
    "big * big > 2 ** 84",
    "big * 4 > 2 ** 63",
    "-big % 5 == x % 5",
    "min(x, y, 3) < 2",
    "max(x, z) > 2",
    "math.ceil(x / 3) == 1",
    "len(how or 'no') > 2",
    "x in [y + 1, 2]",
    "(x and y) * 2 == 6",
    "x << 2 > 8",
    "not (x > 2 or use)",
    "-x < -2",
    "x ** 2 > 8",
    "0 < z < x < 9",
]


def configurations(params: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(params, row, strict=True)) for row in itertools.product(*params.values())]


@pytest.mark.parametrize("text", TEXTS)
def test_text_means_what_it_does_in_python(text: str) -> None:
    condition = eval(f"lambda {', '.join(PARAMS)}: {text}", {"math": __import__("math")})  # noqa: S307
    expected = [config for config in configurations(PARAMS) if condition(**config)]
    assert 0 < len(expected) < len(configurations(PARAMS))
    assert list(SearchSpace(PARAMS, [text])) == expected


@pytest.mark.parametrize(
    ("restrictions", "holds"),
    [
        (
            ["x * y <= 16", "use or x > 2"],
            lambda c: c["x"] * c["y"] <= 16 and (c["use"] or c["x"] > 2),
        ),
        (lambda config: config["x"] > config["y"], lambda c: c["x"] > c["y"]),
        (lambda y, how: how is None and y > 0, lambda c: c["how"] is None and c["y"] > 0),
        (lambda **config: config["x"] > 2, lambda c: c["x"] > 2),
        (["x > y", lambda x, limit=5: x < limit], lambda c: c["y"] < c["x"] < 5),
        ((), lambda c: True),
    ],
)
def test_texts_and_functions(restrictions: Any, holds: Callable[[dict[str, Any]], bool]) -> None:
    expected = [config for config in configurations(PARAMS) if holds(config)]
    assert list(SearchSpace(PARAMS, restrictions)) == expected


def test_no_restrictions_as_in_kernel_tuner() -> None:
    assert len(SearchSpace({"a": [1, 2]}, restrictions=None)) == 2


def test_a_million_products() -> None:
    params = {name: range(1, 11) for name in "abcdef"}
    space = SearchSpace(params, ["a * b * c * d * e * f <= 500", "a != f"])
    places = np.indices([10] * 6).reshape(6, -1)
    values = places + 1
    expected = places[:, (values.prod(axis=0) <= 500) & (values[0] != values[5])]
    np.testing.assert_array_equal(space.indices, expected.T)


@pytest.mark.parametrize(
    ("restriction", "words"),
    [
        ("a % (b - 1) == 0", ["'a % (b - 1) == 0'", "ZeroDivisionError", "a = 1, b = 1"]),
        (lambda config: config["c"], ["KeyError", "a = 1, b = 1"]),
        ("a + c > 1", ["'a + c > 1'", "'c'", "known names: 'a', 'b'"]),
        ("print(a)", ["'print'"]),
        ("a.real > 0", ["'a.real'"]),
        ("[i for i in (1, 2)]", ["a function"]),
        ("a + b > 100", ["'a + b > 100'", "a = 1, b = 1"]),
        (3, ["restriction 3", "int"]),
        (lambda x, y: True, ["takes x, y"]),
    ],
)
def test_bad_restriction(restriction: Any, words: list[str]) -> None:
    with pytest.raises(KgenError) as caught:
        SearchSpace({"a": [1, 2, 3], "b": [1, 2]}, [restriction])
    assert [word for word in words if word not in str(caught.value)] == []


def test_restriction_that_does_not_parse() -> None:
    with pytest.raises(KgenSyntaxError, match="'a >'") as caught:
        SearchSpace({"a": [1, 2]}, "a >")
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "at least one parameter"),
        ({"a": []}, "'a' has no values"),
        ({"a": [1, 2, 1]}, "'a' has the value 1 twice"),
        ({"a": "xy"}, "'a' needs a list of values"),
        ({"a": 3}, "'a' needs a list of values"),
        ({name: range(100) for name in "abcde"}, "more than 67108864 configurations"),
    ],
)
def test_bad_parameters(params: Any, words: str) -> None:
    with pytest.raises(KgenError, match=words):
        SearchSpace(params)


def test_values_of_numpy_are_plain() -> None:
    space = SearchSpace({"a": list(np.arange(3)), "b": [np.float64(0.5)]})
    assert [type(value) for value in space[1].values()] == [int, float]


def test_neighbors_are_those_of_the_definition() -> None:
    space = SearchSpace(PARAMS, ["x * y <= 16", "x > 1 or use"])
    row = space.sample(1, seed=4)[0]
    steps = np.abs(space.indices - space.indices[row])
    np.testing.assert_array_equal(space.neighbors(row), np.flatnonzero((steps > 0).sum(1) == 1))
    near = np.flatnonzero(steps.max(1) == 1)
    np.testing.assert_array_equal(space.neighbors(row, "adjacent"), near)
    np.testing.assert_array_equal(space.neighbors(row, "Hamming"), space.neighbors(row))
    with pytest.raises(KgenError, match="'near' is not a neighborhood"):
        space.neighbors(row, "near")  # type: ignore[arg-type]


def test_rows_of_configurations() -> None:
    space = SearchSpace(PARAMS, ["x > y"])
    assert [space.row(config) for config in space] == list(range(len(space)))
    assert space.row({**space[0], "x": 1, "y": 5}) is None
    with pytest.raises(KgenError, match=r"'x' has no value 7\n  hint: it has 1, 2, 4, 8, 16"):
        space.row({**space[0], "x": 7})
    with pytest.raises(KgenError, match="the configuration has no parameter 'y'"):
        space.row({"x": 1})
    with pytest.raises(KgenError, match="the search space has no parameter 'v'"):
        space.row({**space[0], "v": 7})


def test_samples_are_different_and_repeatable() -> None:
    space = SearchSpace(PARAMS)
    rows = space.sample(50, seed=1)
    assert len(set(rows.tolist())) == 50
    np.testing.assert_array_equal(rows, space.sample(50, seed=1))
    assert sorted(space.sample(10**6)) == list(range(len(space)))


def test_hint_for_a_restriction_depends_on_its_error() -> None:
    with pytest.raises(KgenError, match="truth value for each configuration"):
        SearchSpace({"a": [1]}, [lambda a: a + "x"])
