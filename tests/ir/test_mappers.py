"""Mappers over kgen's nodes: users derive from them, with arguments of their own."""

from __future__ import annotations

from typing import Any

import pymbolic.primitives as p
import pytest
from pymbolic.mapper.substitutor import make_subst_func

from kgen.ir.expr import Expr, to_text
from kgen.ir.instruction import Assignment
from kgen.symbolic import CombineMapper, IdentityMapper, SubstitutionMapper, WalkMapper, parse

TEXT = "sum([j], a[i, j]) + cast(np.float32, b$once[i]) + x[[i]]"


class Prefixer(IdentityMapper):
    def map_variable(self, expr: p.Variable, *args: Any, **kwargs: Any) -> Expr:
        return p.Variable(kwargs["prefix"] + expr.name)


class Counter(CombineMapper):
    def combine(self, values: Any) -> int:
        return sum(values)

    def map_variable(self, expr: p.Variable, *args: Any, **kwargs: Any) -> int:
        return int(kwargs["weight"])

    map_tagged_variable = map_variable

    def map_constant(self, expr: Any, *args: Any, **kwargs: Any) -> int:
        return 0


class Names(WalkMapper):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def map_variable(self, expr: p.Variable, *args: Any, **kwargs: Any) -> None:
        assert kwargs["depth"] == 1
        self.found.append(expr.name)


def test_identity_mappers_pass_keywords_on() -> None:
    expected = "reduce(sum, [p_j], p_a[p_i, p_j]) + cast(float32, b$once[p_i]) + p_x[[p_i]]"
    assert (
        to_text(Prefixer()(parse("reduce(sum, [j], a[i, j])"), prefix="p_"))
        == (expected.partition(" + ")[0])
    )
    assert to_text(Prefixer()(parse(TEXT), prefix="p_")).count("p_") == 7


@pytest.mark.parametrize("weight", [1, 10])
def test_combining_mappers_pass_keywords_on(weight: int) -> None:
    assert Counter()(parse(TEXT), weight=weight) == 7 * weight


def test_walking_mappers_pass_keywords_on() -> None:
    names = Names()
    names(parse(TEXT), depth=1)
    assert names.found == ["a", "i", "j", "b", "i", "x", "i"]


@pytest.mark.parametrize(
    "text",
    ["2*reduce(sum, [j], a[i, j])", "cast(np:dtype('float32'), b[i]) + x[[i]]", "2.5f*b[i]"],
)
def test_expressions_print_as_they_are_written(text: str) -> None:
    assert str(parse(text)) == to_text(parse(text)) == text
    assert str(p.Power(parse(text), 2)) == f"({text})**2"


def test_a_function_may_say_what_is_replaced() -> None:
    one, i = p.Variable("b")[1], p.Variable("i")
    mapper = SubstitutionMapper(make_subst_func({"x": i + 1, one: 7}))
    found = mapper(parse("reduce(sum, [j], x*a[x, j]) + b[1] + b[x]"))
    assert to_text(found) == "reduce(sum, [j], (i + 1)*a[i + 1, j]) + 7 + b[i + 1]"


@pytest.mark.parametrize("text", [TEXT, "f(a[i, j], 2)", "if(i < 2 and j == 1, i // 2, -b[i % 3])"])
def test_what_does_not_change_stays_the_same_object(text: str) -> None:
    expr = parse(text)
    assert IdentityMapper()(expr) is expr
    mapper = SubstitutionMapper({"other": 1})
    assert mapper(expr) is expr
    insn = Assignment("out[i, j]", text, predicates=["i > 0"], id="one")
    assert insn.with_transformed_expressions(mapper) is insn
    assert insn.copy(id="one", priority=0) is insn
    assert insn.with_transformed_expressions(SubstitutionMapper({"i": 1})) != insn


def test_assignees_are_changed_by_a_function_of_their_own() -> None:
    to_b = SubstitutionMapper({"a": p.Variable("b")})
    assignment = Assignment("a[i]", "a[i + 1]", id="one")
    assert str(assignment.with_transformed_expressions(to_b)).startswith("b[i] = b[i + 1]")
    changed = assignment.with_transformed_expressions(to_b, assignee_f=lambda lhs: lhs)
    assert str(changed).startswith("a[i] = b[i + 1]")
