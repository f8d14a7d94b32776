"""Common subexpressions become temporaries, each computed once."""

from __future__ import annotations

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp

B = p.Variable("b")[p.Variable("i")]


def cse(expr: object, prefix: str | None = None) -> p.CommonSubexpression:
    return p.CommonSubexpression(expr, prefix, p.cse_scope.EVALUATION)  # type: ignore[arg-type]


def written(instructions: object, *data: object) -> list[str]:
    unit = lp.make_kernel("{ [i, k]: 0 <= i < n and 0 <= k < 8 }", instructions, [*data, ...])
    knl = unit["kgen_kernel"]
    return [
        f"{','.join(sorted(insn.within_inames))}: {str(insn).partition('  {')[0]}"
        f" <- {','.join(sorted(insn.depends_on))}"
        for insn in knl.instructions
    ]


def test_nested_ones_are_computed_inside_out() -> None:
    inner = cse(B + 1, "inner")
    outer = cse(p.Variable("sqrt")(inner))
    both = [lp.Assignment("a[i]", inner * outer), lp.Assignment("c[i]", outer + inner)]
    assert written(both) == [
        "i: cse_inner = b[i] + 1 <- ",
        "i: cse = sqrt(cse_inner) <- cse_inner",
        "i: a[i] = cse_inner*cse <- cse,cse_inner",
        "i: c[i] = cse + cse_inner <- cse,cse_inner",
    ]


def test_what_is_written_in_between_is_not_shared() -> None:
    text = """
        a[i] = cse(b[i] + 1)   {id=one, dep=*}
        b[i] = 0               {id=change, dep=*one}
        c[i] = cse(b[i] + 1)   {id=two, dep=*change}
        """
    assert written(text) == [
        "i: cse = b[i] + 1 <- ",
        "i: a[i] = cse <- cse",
        "i: b[i] = 0 <- one",
        "i: cse_0 = b[i] + 1 <- change",
        "i: c[i] = cse_0 <- change,cse_0",
    ]


def test_what_is_not_always_evaluated_stays() -> None:
    assert written("a[i] = if(i > 0, cse(b[i]), 0)") == ["i: a[i] = b[i] if i > 0 else 0 <- "]
    assert written("a[i] = sum(k, cse(c[i, k]))") == ["i: a[i] = reduce(sum, [k], c[i, k]) <- "]
    assert written("f(x) := cse(x)\na[i] = f(cse(2))") == ["i: a[i] = f(2) <- "]


def test_conditions_stay_around_them() -> None:
    text = "if i > 0\n a[i] = cse(b[i - 1], t)**2\nend"
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", text, target=lp.ExecutableCTarget())
    conditions = [insn.predicates for insn in unit["kgen_kernel"].instructions]
    assert len(conditions) == 2
    assert conditions[0] == conditions[1] != frozenset()
    _, (a,) = unit(b=np.arange(4.0), a=np.zeros(5))
    np.testing.assert_array_equal(a, [0, 0, 1, 4, 9])


def test_a_reader_of_its_own_result() -> None:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "s[0] = s[0] + cse(s[0] + a[i])**2 {id=add, inames=i}",
        target=lp.ExecutableCTarget(),
    )
    _, (s,) = unit(a=np.arange(3.0), s=np.ones(1))
    expected = 1.0
    for a in range(3):
        expected += (expected + a) ** 2
    np.testing.assert_array_equal(s, [expected])


@pytest.mark.parametrize("text", ["a[i] = cse()", "a[i] = cse(b[i], 3)"])
def test_what_does_not_parse(text: str) -> None:
    with pytest.raises(lp.KgenSyntaxError, match="'cse' takes an expression, and a name"):
        written(text)
