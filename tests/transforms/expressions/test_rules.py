"""Expanding substitution rules."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from pymbolic import evaluate, parse

import kgen as lp
from kgen.errors import KgenError
from tests.transforms.helpers import instructions, kernel_of


def nested() -> lp.TranslationUnit:
    text = ["f(x) := 2*x", "g(x, y) := f(x) + f(y)", "a[i] = g(b[i], i)", "c[i] = f(3)"]
    return lp.make_kernel("{[i]: 0 <= i < n}", text)


def test_all_rules_are_expanded() -> None:
    knl = lp.expand_subst(nested())
    assert instructions(knl) == ["i: a[i] = 2*b[i] + 2*i", "i: c[i] = 2*3"]
    assert not kernel_of(knl).substitutions
    assert lp.expand_subst(knl) is knl


def test_within_an_instruction() -> None:
    knl = lp.expand_subst(nested(), within="writes:a")
    assert instructions(knl) == ["i: a[i] = 2*b[i] + 2*i", "i: c[i] = f(3)"]
    assert set(kernel_of(knl).substitutions) == {"f"}


def test_within_a_stack_of_rules() -> None:
    knl = lp.expand_subst(nested(), within="writes:a > id:g $")
    assert instructions(knl)[0] == "i: a[i] = f(b[i]) + f(i)"


def test_uses_are_told_apart_by_tags() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", ["f(x) := 2*x", "a[i] = f$now(i) + f(i)"])
    assert instructions(lp.expand_subst(knl, within="... > tag:now")) == ["i: a[i] = 2*i + f(i)"]


def test_rules_in_a_circle_are_refused_with_the_circle() -> None:
    text = ["f(x) := g(x)", "g(x) := h(x)", "h(x) := f(x)", "a[i] = 0"]
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}", ["f(x) := x", "g(x) := x", "h(x) := x", "a[i] = f(i)"]
    )
    rules = {
        name: kernel_of(knl).substitutions[name].copy(expression=lp.symbolic.parse(line[8:]))
        for name, line in zip("fgh", text, strict=False)
    }
    with pytest.raises(lp.TransformError, match="use each other in a circle") as info:
        lp.expand_subst(kernel_of(knl).copy(substitutions=rules))
    assert "f -> g -> h -> f" in str(info.value)


def test_a_wrong_number_of_arguments_is_refused() -> None:
    knl = kernel_of(lp.make_kernel("{[i]: 0 <= i < n}", ["f(x) := 2*x", "a[i] = f(i) {id=one}"]))
    rule = knl.substitutions["f"].copy(arguments=("x", "y"))
    with pytest.raises(lp.TransformError, match="takes 2 arguments, not 1") as info:
        lp.expand_subst(knl.copy(substitutions={"f": rule}))
    assert "instruction 'one'" in str(info.value)


def test_a_hundred_levels_of_rules() -> None:
    text = ["f0(x) := x", *(f"f{k + 1}(x) := f{k}(x) + {k}" for k in range(100)), "a[i] = f100(i)"]
    knl = lp.expand_subst(lp.make_kernel("{[i]: 0 <= i < n}", text))
    assert not kernel_of(knl).substitutions


def test_rules_are_found_by_name() -> None:
    assert lp.find_rules_matching(nested(), "*") == ["f", "g"]
    assert lp.find_one_rule_matching(nested(), "g*") == "g"
    with pytest.raises(lp.TransformError, match="2 rules fit"):
        lp.find_one_rule_matching(nested(), "?")
    with pytest.raises(lp.TransformError, match="no rule 'h'"):
        lp.find_one_rule_matching(nested(), "h")


def test_conditions_and_subscripts_are_expanded() -> None:
    text = ["f(x) := 2*x", "a[f(i)] = 1 {if=f(i) > 3}"]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", text, [lp.GlobalArg("a", shape="2*n"), ...])
    expanded = kernel_of(lp.expand_subst(knl))
    assert instructions(expanded) == ["i: a[2*i] = 1"]
    assert str(*expanded.instructions[0].predicates) == "2*i > 3"


def test_reductions_in_rules() -> None:
    text = ["f(x) := sum(k, b[k]*x)", "a[i] = f(i) + f(2)"]
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < n}", text)
    knl = lp.set_options(knl.copy(target=lp.ExecutableCTarget()), return_dict=True)
    b = np.random.default_rng(0).random(5)
    _, found = knl(b=b)
    np.testing.assert_allclose(found["a"], b.sum() * (np.arange(5) + 2))


def test_a_use_inside_of_another_rule_is_expanded_in_a_copy_of_that_rule() -> None:
    text = """
        g(x) := 12 + x
        h(x) := 1 + g(x) + 20*g$two(x)
        a[i] = h$one(i) * h$two(i)
        """
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", text)
    unit = lp.expand_subst(unit, "... > id:h and tag:two > id:g and tag:two")
    knl = unit.default_entrypoint
    assert [str(rule) for _, rule in sorted(knl.substitutions.items())] == [
        "g(x) := 12 + x",
        "h(x) := 1 + g(x) + 20*g$two(x)",
        "h_0(x) := 1 + g(x) + 20*(12 + x)",
    ]
    assert str(knl.instructions[0]).startswith("a[i] = h$one(i)*h_0$two(i)")


def test_rules_in_which_nothing_is_meant_keep_their_names() -> None:
    # a subscript of two variables is rebuilt when it is walked through
    text = ["f(x, y) := a[x, y]**2", "g(x, y) := f(x, y)", "b[i, j] = g(i, j) + f(i, 0)"]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", text)
    assert instructions(lp.expand_subst(knl, "id:* > id:g $")) == [
        "i,j: b[i, j] = f(i, j) + f(i, 0)"
    ]
    assert instructions(lp.expand_subst(knl, "id:* > id:f $")) == [
        "i,j: b[i, j] = g(i, j) + a[i, 0]**2"
    ]


def test_loops_in_rules_are_not_the_arguments_of_rules_around() -> None:
    rules = ["f(x) := w[x]*a[i, x]", "g(i) := f(i) + 1", "h(f) := f + 2", "out[i, k] = g(k)*h(i)"]
    knl = lp.make_kernel("{[i, k]: 0 <= i, k < n}", rules)
    assert instructions(lp.expand_subst(knl)) == ["i,k: out[i, k] = (w[k]*a[i, k] + 1)*(i + 2)"]
    inside = lp.expand_subst(knl, within="... > id:f $")
    assert str(kernel_of(inside).substitutions["g_0"]) == "g_0(i_0) := w[i_0]*a[i, i_0] + 1"


@pytest.mark.parametrize("seed", range(40))
def test_random_rules_with_colliding_names_mean_the_same(seed: int) -> None:
    """Evaluated with the loops of the kernel, and arguments by value."""
    rng = random.Random(seed)
    rules: dict[str, tuple[list[str], str]] = {}

    def draw(arguments: list[str], depth: int) -> str:
        known = [name for name in rules if name not in arguments]
        if depth and known and rng.random() < 0.7:
            name = rng.choice(known)
            return f"{name}({', '.join(draw(arguments, depth - 1) for _ in rules[name][0])})"
        return f"{rng.randint(2, 9)}*{rng.choice(['i', 'j', 'k', *arguments])}"

    for name in ("p", "q", "r", "s"):
        arguments = rng.sample(["i", "j", "k", "x", *rules], rng.randint(1, 3))
        body = f"{draw(arguments, 2)} + 3*({draw(arguments, 2)}) - {arguments[0]}"
        rules[name] = arguments, body
    text = [f"{name}({', '.join(args)}) := {body}" for name, (args, body) in rules.items()]
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < 9}", [*text, f"out[i, j, k] = {draw([], 2)}"])
    loops = {"i": 2, "j": 5, "k": 7}

    def value(expression: str, names: dict[str, int]) -> Any:
        return evaluate(parse(expression), {name: call(name) for name in rules} | names)

    def call(name: str) -> Any:
        arguments, body = rules[name]
        return lambda *given: value(body, loops | dict(zip(arguments, given, strict=True)))

    (insn,) = kernel_of(knl).instructions
    assert isinstance(insn, lp.Assignment)
    want = value(str(insn.expression), loops)
    for within in (None, "... > id:p $", "... > id:q $", "id:* > id:s $"):
        (done,) = kernel_of(lp.expand_subst(lp.expand_subst(knl, within))).instructions
        assert isinstance(done, lp.Assignment)
        assert evaluate(done.expression, loops) == want


@pytest.mark.parametrize(
    "text",
    ["f(y) := max(j, y)\nout = sum(j, b[j]*f(2))", "f(y) := sum(j, y)\nout = sum(j, f(b[j]))"],
)
def test_rules_do_not_reduce_over_the_loop_of_a_reduction_around(text: str) -> None:
    domain = "{[j]: 0 <= j < 4}"
    with pytest.raises(KgenError, match="rule 'f' reduces over 'j' and is used inside a reduction"):
        lp.make_kernel(domain, text)
    knl = lp.make_kernel(domain, ["f(j, y) := max(j, y)", "out = sum(j, f(j, b[j]))"])
    assert instructions(lp.expand_subst(knl)) == [": out = reduce(sum, [j], max(j, b[j]))"]


def test_a_list_is_no_operand_of_a_rule() -> None:
    code = "mean(x, y) := (x + y)/2\nout[i] = mean(a[i], [i + 1])"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code)
    with pytest.raises(lp.KgenError, match=r"has 1 value(.|\n)*where: instruction 'out\[i\]"):
        lp.generate_code_v2(lp.add_dtypes(knl, {"a": np.float64}))
