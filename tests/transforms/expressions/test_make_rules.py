"""Rules made of assignments and of expressions."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.transforms.expressions.make_rules import assignment_to_subst, extract_subst
from tests.transforms.helpers import assert_same_results, instructions, kernel_of


def rules(program: lp.TranslationUnit) -> list[str]:
    return [str(rule) for rule in kernel_of(program).substitutions.values()]


def two_uses() -> lp.TranslationUnit:
    text = ["<> t[i] = 2*a[i] {id=t}", "b[i] = t[i] + 1 {id=b}", "c[i] = t[i]*t[i] {id=c}"]
    return lp.make_kernel("{[i]: 0 <= i < 8}", text)


def test_an_assignment_becomes_a_rule() -> None:
    knl = assignment_to_subst(two_uses(), "t")
    assert rules(knl) == ["t_subst(i) := 2*a[i]"]
    assert instructions(knl) == ["i: b[i] = t_subst(i) + 1", "i: c[i] = t_subst(i)*t_subst(i)"]
    assert not kernel_of(knl).temporary_variables
    assert_same_results(two_uses(), knl, {"a": np.random.default_rng(0).random(8)})


def test_the_assignment_stays_while_something_reads_it() -> None:
    knl = assignment_to_subst(two_uses(), "t", within="id:c")
    assert instructions(knl) == [
        "i: t[i] = 2*a[i]",
        "i: b[i] = t[i] + 1",
        "i: c[i] = t_subst(i)*t_subst(i)",
    ]
    assert_same_results(two_uses(), knl, {"a": np.random.default_rng(0).random(8)})


def test_scalars_and_extra_arguments() -> None:
    text = ["<> t = a[i] {id=t}", "b[i] = t {dep=t}"]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text)
    assert rules(assignment_to_subst(knl, "t")) == ["t_subst := a[i]"]
    extra = assignment_to_subst(knl, "t", extra_arguments="i")
    assert (rules(extra), instructions(extra)) == (["t_subst(i) := a[i]"], ["i: b[i] = t_subst(i)"])


def test_arguments_go_unless_they_are_retained() -> None:
    text = ["t[i] = a[i] {id=t}", "b[i] = t[i] {dep=t}"]
    data = [lp.GlobalArg("t", shape="8", is_input=False), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text, data)
    assert "t" not in kernel_of(assignment_to_subst(knl, "t")).arg_dict
    assert "t" in kernel_of(assignment_to_subst(knl, "t", force_retain_argument=True)).arg_dict


def test_the_last_of_several_assignments_counts() -> None:
    text = [
        "<> t = a[i] {id=t1}",
        "b[i] = t {id=b, dep=t1}",
        "t = 2*a[i] {id=t2, dep=b}",
        "c[i] = t {id=c, dep=t2}",
    ]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text)
    found = assignment_to_subst(knl, "t")
    assert rules(found) == ["t_subst := a[i]", "t_subst_0 := 2*a[i]"]
    assert_same_results(knl, found, {"a": np.random.default_rng(0).random(8)})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (["<> t = a[i] {id=t, if=i > 3}", "b[i] = t"], "it is conditional"),
        (["<> t[2*i] = a[i] {id=t}", "b[i] = t[i]"], "not distinct loop variables"),
        (
            ["<> t[i] = a[i]*j {id=t, inames=i:j}", "b[j] = t[j] + i {inames=i:j}"],
            r"for i = 0, j = 1, 't\[j\]' is read before it is written",
        ),
        (
            ["<> t[j] = a[i, j] {id=t, inames=i:j}", "b[j] = t[j] {inames=j}"],
            "not inside 'i', on which",
        ),
    ],
)
def test_assignments_that_are_no_rules(text: list[str], what: str) -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text)
    with pytest.raises(lp.TransformError, match=what):
        assignment_to_subst(knl, "t")


@pytest.mark.parametrize(
    ("assigned", "read"),
    [
        ("a[i] = b[i] {id=w, dep=r}", "c[i] = a[i] {id=r, dep=*}"),
        ("a[i] = b[i] {id=w}", "c[i] = a[i + 1] {id=r, dep=w}"),
        ("a[i] = b[i] {id=w}", "c[j] = a[j + 1] {id=r, dep=w}"),
        ("a[k] = b[k] {id=w}", "c[j] = a[j] {id=r, dep=w}"),
        ("a[i] = b[i] {id=w}", "c[i] = a[i + 1] {id=r, dep=w, if=b[i] > 0}"),
        ("a[i] = b[i] {id=w}", "c[i] = a[8 - i] if b[i] > 0 else 1 {id=r, dep=w}"),
        ("a[i] = b[i] + t {id=w}", "c[i] = a[i + 1] + t {id=r, dep=w}"),
    ],
)
def test_elements_that_are_not_assigned_before_are_refused(assigned: str, read: str) -> None:
    domains = [
        "{ [i, t]: 0 <= i < 8 and 0 <= t < 2 }",
        "{ [j]: 0 <= j < 8 }",
        "{ [k]: 0 <= k < 8 and k mod 2 = 0 }",
    ]
    data = [lp.GlobalArg("a, b, c", np.float64, shape="9"), ...]
    knl = lp.make_kernel(domains, [assigned, read], data)
    knl = lp.prioritize_loops(knl, "t,i")
    with pytest.raises(lp.TransformError, match=r"is read before it is written|does not write"):
        assignment_to_subst(knl, "a")


def test_elements_that_an_earlier_iteration_assigns_are_replaced() -> None:
    text = ["a[i] = b[i] {id=w}", "c[i] = a[i - 1] + a[i] {dep=w, if=i > 0}"]
    data = [lp.GlobalArg("a, b, c", np.float64, shape="8")]
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", text, data)
    found = assignment_to_subst(knl, "a", force_retain_argument=True)
    assert str(kernel_of(found).instructions[-1]).startswith("c[i] = a_subst(i - 1) + a_subst(i)")


def test_a_rule_in_the_value_may_read_what_changes() -> None:
    text = """
        f(k) := 2*a[k]
        for t
            b[i] = f(7 - i) {id=b, dep=*}
            a[j] = b[j] + t {id=a, dep=b}
        end
        """
    domains = ["{ [t]: 0 <= t < 4 }", "{ [i, j]: 0 <= i, j < 8 }"]
    knl = lp.make_kernel(domains, text, [lp.GlobalArg("a, b", np.float64, shape="8"), ...])
    with pytest.raises(lp.TransformError, match="'a' may have changed between 'b' and 'a'"):
        assignment_to_subst(knl, "b")


def test_a_reader_may_write_the_element_that_the_rule_reads() -> None:
    data = [lp.GlobalArg("b", np.float64, shape=8), lp.TemporaryVariable("t", np.float64, shape=8)]

    def twice(read: str) -> lp.TranslationUnit:
        text = ["t[i] = b[i] {id=t, dep=*}", f"b[j] = 2*t[{read}] {{id=b, dep=t}}"]
        return lp.make_kernel("{ [i, j]: 0 <= i, j < 8 }", text, data, target=lp.CTarget())

    found = assignment_to_subst(twice("j"), "t")
    assert "b[j] = 2.0 * b[j]" in lp.generate_body(found)
    assert lp.verify(found).ok
    with pytest.raises(lp.TransformError, match="'b' may have changed between 't' and 'b'"):
        assignment_to_subst(twice("7 - j"), "t")


def test_a_value_that_may_have_changed_is_refused() -> None:
    text = ["<> t = a[0] {id=t, dep=*}", "a[0] = i {id=a, dep=t}", "b[i] = t {id=b, dep=a}"]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text, [lp.GlobalArg("a", shape="8"), ...])
    with pytest.raises(lp.TransformError, match="'a' may have changed between 't' and 'b'"):
        assignment_to_subst(knl, "t")


def test_a_value_that_changes_before_the_next_iteration_is_refused() -> None:
    text = [
        "<> t = a[0] {id=t, inames=, dep=*}",
        "b[i] = t {id=b, dep=t}",
        "a[0] = b[i] {id=a, dep=b}",
    ]
    data = [lp.GlobalArg("a", shape="8"), lp.GlobalArg("b", shape="8", is_input=False), ...]
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", text, data)
    with pytest.raises(lp.TransformError, match="'a' may have changed between 't' and 'b'"):
        assignment_to_subst(knl, "t")


def test_unknown_and_unassigned_variables() -> None:
    with pytest.raises(lp.TransformError, match="no variable 'u'"):
        assignment_to_subst(two_uses(), "u")
    with pytest.raises(lp.TransformError, match="nothing is assigned to 'a'"):
        assignment_to_subst(two_uses(), "a")


# -- expressions ---------------------------------------------------------------------------------


def waves() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i]: 0 <= i < 8}", ["a[i] = sin(2*b[i]) + sin(i*2)", "c[i] = sin(b[i] + 1)"]
    )


def test_alike_expressions_become_a_rule() -> None:
    knl = extract_subst(waves(), "f", "sin(2*x)", "x")
    assert rules(knl) == ["f(x) := sin(2*x)"]
    assert instructions(knl) == ["i: a[i] = f(b[i]) + f(i)", "i: c[i] = sin(b[i] + 1)"]
    assert_same_results(waves(), knl, {"b": np.random.default_rng(0).random(8)})


def test_uses_inside_of_uses() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", "a[i] = sin(sin(b[i]))")
    assert instructions(extract_subst(knl, "f", "sin(x)", ["x"])) == ["i: a[i] = f(f(b[i]))"]


@pytest.mark.parametrize("operator", ["and", "or"])
def test_conditions_in_templates(operator: str) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0<=i<n }",
        f"out[i] = if(i > 1 {operator} i < 5, a[i], 0) + if(i < 5 {operator} i > 1, a[i], 0)",
    )
    knl = lp.extract_subst(knl, "some", f"if(j > 1 {operator} j < 5, a[j], 0)", "j")
    (insn,) = knl.default_entrypoint.instructions
    assert str(insn).startswith("out[i] = some(i) + (a[i] if i < 5")


def test_a_template_without_parameters() -> None:
    assert instructions(extract_subst(waves(), "f", "b[i]"))[1] == "i: c[i] = sin(f + 1)"


def test_within_and_reductions() -> None:
    text = ["c = sum(k, 2*a[k]) {id=c}", "d = sum(k, 2*a[k]) {id=d}"]
    knl = lp.make_kernel("{[k]: 0 <= k < 8}", text)
    found = extract_subst(knl, "f", "2*a[x]", "x", within="id:d")
    assert instructions(found) == [
        ": c = reduce(sum, [k], 2*a[k])",
        ": d = reduce(sum, [k], f(k))",
    ]


def test_what_is_assigned_to_stays_an_element() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", "a[2*i] = 3*a[2*i]", [lp.GlobalArg("a", shape=16)])
    assert instructions(extract_subst(knl, "f", "a[x]", "x")) == ["i: a[2*i] = 3*f(2*i)"]
    assert instructions(extract_subst(knl, "f", "2*x", "x")) == ["i: a[f(i)] = 3*a[f(i)]"]


def test_templates_are_found_in_other_rules() -> None:
    text = "g(x) := 2*b[x]\nh(i) := b[i]\na[i] = g(i) + h(3)"
    knl = lp.make_kernel("{ [i]: 0 <= i < 8 }", text, [lp.GlobalArg("b", shape=8), ...])
    rules = kernel_of(extract_subst(knl, "f", "b[x]", "x")).substitutions
    assert [str(rules[name]) for name in "gh"] == ["g(x) := 2*f(x)", "h(i) := f(i)"]
    with pytest.raises(lp.TransformError, match="no expression looks like"):
        extract_subst(knl, "f", "b[i]")  # the i of h is its argument
    with pytest.raises(lp.TransformError, match="no expression looks like"):
        extract_subst(knl, "f", "b[x]", "x", within="id:insn")


def test_templates_that_fit_nothing() -> None:
    with pytest.raises(lp.TransformError, match=r"no expression looks like 'cos\(x\)'"):
        extract_subst(waves(), "f", "cos(x)", "x")
    with pytest.raises(lp.TransformError, match=r"no expression looks like '7.0'"):
        extract_subst(waves(), "f", np.float32(7))
    with pytest.raises(lp.TransformError, match="parameter 'y' is not in the template"):
        extract_subst(waves(), "f", "sin(x)", "x,y")
    with pytest.raises(lp.TransformError, match="the name 'a' is taken"):
        extract_subst(waves(), "a", "sin(x)", "x")


@pytest.mark.parametrize("subscript", ["", "[0]", "[(i + 1) % 2]"])
def test_a_rule_outside_of_the_loop_that_sets_what_it_reads_is_refused(subscript: str) -> None:
    """Behind the loop, 't' has the value of its last iteration."""
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<8 }",
        f"t{subscript} = a[i] {{id=t}}\nu[i] = 2*t{subscript} {{id=u, dep=t}}\n"
        "out[j] = u[j] {dep=u}",
        [
            lp.TemporaryVariable("t", np.float64, shape=(2,) if subscript else ()),
            lp.TemporaryVariable("u", np.float64, shape=8),
            lp.GlobalArg("a, out", np.float64, shape=8),
        ],
    )
    with pytest.raises(lp.TransformError, match="'t' may have changed between 'u' and 'insn'"):
        lp.assignment_to_subst(knl, "u")


def test_a_rule_outside_of_the_loop_that_sets_elements_of_each_iteration_is_right() -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<8 }",
        "<> t[i] = a[i] {id=t}\n<> u[i] = 2*t[i] {id=u, dep=t}\nout[j] = u[j] {dep=u}",
        [lp.GlobalArg("a, out", np.float64, shape=8)],
        target=lp.CTarget(),
    )
    assert_same_results(knl, lp.assignment_to_subst(knl, "u"), {"a": np.arange(8.0)})


def test_operands_of_reductions_become_rules() -> None:
    domain = "{ [i, j, k]: 0 <= i < 4 and 0 <= j, k < 8 }"
    text = "a[i] = sum(j, 2*b[i, j]) + max(j, c[j])\nd[i] = sum((j, k), b[i, j]*c[k])"
    knl = lp.make_kernel(domain, text)
    changed = lp.reduction_arg_to_subst_rule(knl, "j")
    assert [*map(str, changed["kgen_kernel"].substitutions.values())] == [
        "red_j_arg(j) := 2*b[i, j]",
        "red_j_arg_0(j) := c[j]",
        "red_j_arg_1(j) := b[i, j]*c[k]",
    ]
    both = lp.reduction_arg_to_subst_rule(knl, "j, k", subst_rule_name="part")
    assert [*map(str, both["kgen_kernel"].substitutions.values())] == ["part(j, k) := b[i, j]*c[k]"]
    data = {"b": np.arange(32.0).reshape(4, 8), "c": np.arange(8.0)}
    for one in (changed, both, lp.precompute(changed, "red_j_arg", "j", default_tag=None)):
        assert_same_results(knl, one, data)


def test_rules_of_operands_that_cannot_be_made() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "a = sum(i, b[i]) {id=a}\nc = sum(i, 1) {id=c}")
    with pytest.raises(lp.TransformError, match="'f' is given as the name of several rules"):
        lp.reduction_arg_to_subst_rule(knl, "i", subst_rule_name="f")
    (rule,) = lp.reduction_arg_to_subst_rule(knl, "i", "id:a", "f")["kgen_kernel"].substitutions
    assert rule == "f"
    with pytest.raises(lp.TransformError, match="no reduction runs over 'i'"):
        lp.reduction_arg_to_subst_rule(lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = 1"), "i")


def test_sums_over_a_triangle_stay_in_their_loop() -> None:
    domain = "{ [i,j,k]: 0 <= i,k < 8 and 0 <= j <= i }"
    text = ["<> t[i] = sum(j, j + 1) {id=t}", "out[%s] = t[%s] {id=use, dep=t}"]
    same = lp.make_kernel(domain, [text[0], text[1] % ("i", "i")])
    assert lp.assignment_to_subst(same, "t").default_entrypoint.instructions
    for index in ("k", "7 - k"):
        other = lp.make_kernel(domain, [text[0], text[1] % ("k", index)])
        with pytest.raises(lp.TransformError, match=rf"'t\[{index}\]' in .*\n.*\n.* depend on 'i'"):
            lp.assignment_to_subst(other, "t")


@pytest.mark.parametrize("name", ["x", "i", "b"])
def test_a_template_is_more_than_a_parameter(name: str) -> None:
    with pytest.raises(lp.TransformError, match=f"'{name}' is only a parameter, which matches"):
        extract_subst(waves(), "f", name, [name])


def test_loops_that_only_the_assignment_used_are_removed() -> None:
    text = "<> t[i] = 2*a[i] {id=t}\nb[j] = t[j] {dep=t}"
    knl = lp.make_kernel("{ [i, j, k]: 0 <= i, j, k < 4 }", text)
    assert set(kernel_of(assignment_to_subst(knl, "t")).inames) == {"j", "k"}
    both = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", f"{text}\nc[i] = a[i]")
    assert set(kernel_of(assignment_to_subst(both, "t")).inames) == {"i", "j"}
    assert_same_results(knl, assignment_to_subst(knl, "t"), {"a": np.arange(4.0)})
