"""Nodes of expressions and collectors of coefficients that loopy.symbolic has."""

from __future__ import annotations

import pickle
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest
from pymbolic import var

import kgen
import kgen.compat.loopy as lp
from kgen.compat.loopy import symbolic
from kgen.compat.loopy.symbolic import CoefficientCollector, ResolvedFunction, parse


def test_a_resolved_function_is_called_as_the_variable_of_its_name() -> None:
    square_root = ResolvedFunction(var("sqrt"))
    insn = lp.Assignment("out[i]", square_root(var("a")[var("i")]))
    unit = lp.make_kernel("{ [i]: 0 <= i < 4 }", [insn], target=lp.ExecutableCTarget())
    _, (out,) = unit(a=np.array([1.0, 4, 9, 16]))
    assert out.tolist() == [1, 2, 3, 4]
    assert pickle.loads(pickle.dumps(square_root)) == square_root  # noqa: S301


def test_mappers_visit_resolved_functions() -> None:
    class Names(symbolic.WalkMapper):
        def map_resolved_function(self, expr: ResolvedFunction) -> None:
            found.append(expr.name)

    found: list[str] = []
    Names()(ResolvedFunction(var("sin"))(var("x")))
    symbolic.WalkMapper()(ResolvedFunction(var("cos"))(var("x")))
    assert found == ["sin"]


def test_a_resolved_function_is_made_of_a_variable() -> None:
    assert ResolvedFunction("sin") == ResolvedFunction(var("sin"))
    number: Any = 3
    with pytest.raises(lp.LoopyError, match="the function of a ResolvedFunction is a variable"):
        ResolvedFunction(number)


@pytest.mark.parametrize("name", ["Literal", "ArrayLiteral", "TypedCSE", "RuleArgument"])
def test_nodes_of_code_generators_say_what_to_use(name: str) -> None:
    with pytest.raises(
        AttributeError, match=f"kgen does not provide '{name}'\n  hint: .*[a-zA-Z]+"
    ):
        getattr(symbolic, name)


def test_sums_and_products_are_flattened() -> None:
    a, b, c = map(var, "abc")
    assert symbolic.flatten(p.Sum((p.Sum((a, 0)), b))) == p.Sum((a, b))
    assert symbolic.flatten(p.Product((a, p.Product((1, b, c))))) == p.Product((a, b, c))
    reduced = symbolic.flatten(parse("sum(k, (a + b) + c)"))
    assert str(reduced) == "reduce(sum, [k], a + b + c)"


def test_the_first_element_of_a_part_of_an_array() -> None:
    knl = lp.make_kernel("{ [i, j]: 2 <= i < 9 and 0 <= j < 8 }", "out[i, j] = a[i, j]")
    first = symbolic.get_start_subscript_from_sar(parse("[i]: a[2*i, j]"), knl.default_entrypoint)
    assert str(first) == "a[4, j]"
    assert symbolic.get_sub_array_ref_swept_inames(parse("f([i]: a[i, j])")) == {"i"}


def test_coefficients_of_chosen_variables() -> None:
    i, n, j = map(var, "inj")
    expr = parse("3*i + n*j + 4")
    assert CoefficientCollector(["i", "j"])(expr) == {i: 3, j: n, 1: 4}
    assert CoefficientCollector(["i"])(parse("i*j")) == {i: j}
    with pytest.raises(RuntimeError, match="nonlinear"):
        CoefficientCollector(["i", "j"])(parse("i*j"))


def test_data_have_no_coefficients() -> None:
    with pytest.raises(lp.LoopyError, match=r"'a\[i\]' is data"):
        CoefficientCollector(["i"])(parse("a[i] + i"))


def test_mappers_of_functions_visit_the_nodes_of_kernels() -> None:
    seen: list[str] = []

    def note(expr: Any, mapper: Any) -> Any:
        seen.append(type(expr).__name__)
        return mapper.fallback_mapper(expr)

    expr = parse("sum(k, [j]: a[j, k]) + cast('float32', x)*f$hot(2)")
    mapped = symbolic.CallbackMapper(note, symbolic.IdentityMapper())(expr)
    assert mapped == expr
    assert {"Reduction", "SubArrayRef", "TypeCast", "TaggedVariable"} <= set(seen)
    halves = symbolic.ReductionCallbackMapper(lambda one, rec: rec(one.expr) / 2)
    assert halves(parse("1 + sum(k, a[k])")) == parse("1 + a[k]/2")
    assert symbolic.ReductionCallbackMapper(lambda one, rec: None)(expr) == expr


def test_rules_are_expanded_in_an_expression() -> None:
    unit = lp.make_kernel("{ [i]: 0 <= i < n }", "f(x) := 2*g(x)\ng(x) := a[x + 1]\nout[i] = f(i)")
    rules = unit.default_entrypoint.substitutions
    assert symbolic.SubstitutionRuleExpander(rules)(parse("f(k) + 1")) == parse("2*a[k + 1] + 1")


def test_the_elements_that_a_subscript_reads() -> None:
    domain = isl.BasicSet("[n] -> { [i, j]: 0 <= i, j < n }")
    found = symbolic.get_access_map(
        domain, parse("i + 1, j // 2"), isl.BasicSet("[n] -> { : n > 4 }")
    )
    wanted = "[n] -> { [i, j] -> [i + 1, floor(j/2)]: n > 4 and 0 <= i, j < n }"
    assert found.is_equal(isl.Map(wanted))
    with pytest.raises(lp.LoopyError, match=r"i\*i"):
        symbolic.get_access_map(domain, (parse("i*i"),))


def test_mappers_of_kgen_rename_loops_as_those_of_loopy_do() -> None:
    class Renamer(kgen.symbolic.IdentityMapper):
        def map_variable(self, expr: Any) -> Any:
            return var(expr.name + "_")

    assert Renamer()(parse("sum(k, a[k])")) == parse("sum(k_, a_[k_])")


def test_tags_of_variables_are_words_or_objects() -> None:
    make: Any = lp.symbolic.TaggedVariable
    word = make("a", "west")
    assert word == lp.symbolic.parse("a$west")
    assert word == make("a", lp.LegacyStringInstructionTag("west"))
    assert word.tags == {lp.LegacyStringInstructionTag("west")}
