"""What is known at a point of the code tree: with witnesses, what isl says of each question."""

from __future__ import annotations

import random

import islpy as isl
import pytest

from kgen.ast.facts import Facts
from kgen.ir.language.expressions import parse
from kgen.ir.sets.dims import Set

ROOT = isl.Set("[n, l] -> { : 1 <= n <= 40 and 0 <= l < 8 }")


def a_condition(rng: random.Random) -> str:
    a, b, c = (rng.randint(-3, 3) for _ in range(3))
    relation, number, modulus = rng.choice(["<", ">=", "=="]), rng.randint(-9, 9), rng.randint(2, 5)
    return f"{a}*l + {b}*n + {c}*(i % {modulus}) {relation} {number}"


def where(condition: str) -> isl.Set:
    return isl.Set(f"[n, l, i] -> {{ : {condition.replace('==', '=')} }}")


@pytest.mark.parametrize("seed", range(10))
def test_witnesses_answer_as_isl_does(seed: int) -> None:
    rng = random.Random(seed)
    root = Facts(ROOT).with_(parse("i == l + 16"), parse("i < 19 + n"))
    places = [(root, ROOT.intersect(where("i = l + 16 and i < 19 + n")))]
    for _ in range(30):
        text = a_condition(rng)
        known, points = rng.choice(places)
        assert known.imply(parse(text)) == points.is_subset(where(text)), text
        below = known.with_(parse(text))
        assert below.are_contradictory() == points.intersect(where(text)).is_empty(), text
        places.append((below, points.intersect(where(text))))


def test_data_proves_nothing_and_disproves_nothing() -> None:
    facts = Facts(ROOT).with_(parse("x[n] > 0"))
    assert facts.imply(parse("n > 0"))
    assert not facts.imply(parse("x[n] > 0"))
    assert not facts.are_contradictory()


def test_isl_is_asked_once_where_its_witness_answers_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Set] = []
    has_point = Facts._has_point

    def count(self: Facts, places: Set) -> bool:
        asked.append(places)
        return has_point(self, places)

    monkeypatch.setattr(Facts, "_has_point", count)
    root = Facts(ROOT)
    assert not any(root.with_(parse(f"i == l + {k}")).imply(parse("n > 20")) for k in range(9))
    assert len(asked) == 1
