"""Values of rules that are computed before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from tests.transforms.helpers import (
    assert_same_results,
    dependencies,
    domain,
    instructions,
    kernel_of,
    same_set,
)


def product() -> lp.TranslationUnit:
    text = ["f(x) := a[x]*b[j]", "out[i, j] = f(i + 2)"]
    return lp.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 5}", text)


def data() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {"a": generator.random(6), "b": generator.random(5)}


def shape(program: lp.TranslationUnit, name: str) -> tuple[int, ...]:
    found: tuple[int, ...] = kernel_of(program).temporary_variables[name].shape
    return found


@pytest.mark.parametrize(
    ("sweep", "expected", "extents"),
    [
        ("i, j", ["f_j,x: f_0[f_j, x] = a[x + 2]*b[f_j]", "i,j: out[i, j] = f_0[j, i]"], (5, 4)),
        ("i", ["j,x: f_0[x] = a[x + 2]*b[j]", "i,j: out[i, j] = f_0[i]"], (4,)),
        ("j", ["f_j,i: f_0[f_j] = a[i + 2]*b[f_j]", "i,j: out[i, j] = f_0[j]"], (5,)),
        ("", ["i,j: f_0 = a[i + 2]*b[j]", "i,j: out[i, j] = f_0"], ()),
    ],
)
def test_axes_are_what_is_swept(sweep: str, expected: list[str], extents: tuple[int, ...]) -> None:
    knl = lp.precompute(product(), "f", sweep)
    assert instructions(knl) == expected
    assert shape(knl, "f_0") == extents
    assert dependencies(knl) == {"insn": "f"}
    assert not kernel_of(knl).substitutions
    assert_same_results(product(), knl, data())


def test_names_and_order_of_everything_can_be_given() -> None:
    knl = lp.precompute(
        product(),
        "f",
        "i, j",
        storage_axes=["x", "j"],
        precompute_inames="p, q",
        temporary_name="table",
        compute_insn_id="fill",
        storage_axis_to_tag={"x": "unr"},
    )
    assert instructions(knl)[0] == "p,q: table[p, q] = a[p + 2]*b[q]"
    assert dependencies(knl) == {"insn": "fill"}
    assert [str(tag) for tag in kernel_of(knl).inames["p"].tags] == ["unr"]
    assert not kernel_of(knl).inames["q"].tags
    assert_same_results(product(), knl, data())


def test_a_given_use_says_what_to_store() -> None:
    text = ["f(x) := a[x]**2", "out[i] = f(i) + f(i + 1)"]
    given = [lp.GlobalArg("a", shape=8), ...]
    knl = lp.make_kernel("{[i, k]: 0 <= i < 4 and 0 <= k < 8}", text, given)
    more = lp.precompute(knl, "f(k)", "k")
    assert shape(more, "f_0") == (8,)
    assert_same_results(knl, more, {"a": np.arange(8.0)})


def test_uses_that_a_given_one_does_not_cover_stay() -> None:
    text = ["f(x) := a[x]**2", "out[i] = f(i) + f(i + 1) + f(2)"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text)
    stored = lp.precompute(knl, "f(i)", "i")
    assert instructions(stored)[1] == "i: out[i] = f_0[i] + f(i + 1) + f_0[2]"
    assert_same_results(knl, stored, {"a": np.arange(5.0)})


def test_a_use_around_one_that_stays_is_looked_at_again() -> None:
    text = ["f(x) := a[x]", "out[i] = f(f(i + 1)) + f(i)"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text, [lp.GlobalArg("a", np.int32, shape=9), ...])
    stored = lp.precompute(knl, "f(i)", "i")
    assert instructions(stored)[1] == "i: out[i] = f(f(i + 1)) + f_0[i]"


def test_a_given_use_must_cover_another() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", ["f(x) := a[x]**2", "out[i] = f(i + 1)"])
    with pytest.raises(lp.KgenError, match=r"element \[4\] is outside it"):
        lp.precompute(knl, "f(i)", "i")


SQUARES = """\
  if (lid(1) + lid(0) >= 1)
    u2_0[17 * lid(1) + lid(0)] = \
u[((long) n + 1) * (16 * gid(0) + lid(1)) + 16 * gid(1) + lid(0)] * \
u[((long) n + 1) * (16 * gid(0) + lid(1)) + 16 * gid(1) + lid(0)];
  if (lid(0) < 1)
"""


def blocks(text: list[str], rule: str, assumptions: str = "n >= 1") -> lp.TranslationUnit:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < n}", text, assumptions=assumptions)
    if rule == "u_acc":
        knl = lp.extract_subst(knl, rule, "u[x, y]", parameters="x, y")
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.0")
    names = ["ii", "jj"]
    return lp.precompute(
        knl, rule, ["i_inner", "j_inner"], precompute_inames=names, default_tag="l.auto"
    )


def test_just_what_is_touched_of_a_box_is_computed(device: Any) -> None:
    text = ["u2(is, js) := u[is, js]**2", "result[i, j] = u2(i + 1, j) + u2(i, j + 1)"]
    knl = blocks(text, "u2", "n >= 1 and n mod 16 = 0")
    code = lp.generate_body(lp.add_dtypes(knl, {"u": np.float32}))
    assert SQUARES in code
    u = np.random.default_rng(1).random((33, 33))
    _, (result,) = device(knl, u=u)
    np.testing.assert_allclose(result, u[1:, :-1] ** 2 + u[:-1, 1:] ** 2)


@pytest.mark.parametrize("n", [1, 15, 17, 33])
def test_a_stencil_is_read_without_its_corners(device: Any, n: int) -> None:
    text = "out[i, j] = u[i, j + 1] + u[i + 1, j] + u[i + 1, j + 1] + u[i + 2, j + 1]"
    knl = blocks([f"{text} + u[i + 1, j + 2]"], "u_acc")
    u = np.random.default_rng(n).random((n + 2, n + 2))
    u[[0, 0, -1, -1], [0, -1, 0, -1]] = np.nan
    _, (out,) = device(knl, u=u)
    expected = u[1:-1, 1:-1] + u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    np.testing.assert_allclose(out, expected)


def test_rules_that_use_the_rule_read_what_is_stored() -> None:
    text = ["f(x) := sin(a[x])", "g(x) := f(x) + f(x + 1)", "out[i] = g(i)"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text)
    stored = lp.precompute(knl, "f", "i")
    assert instructions(stored)[1] == "i: out[i] = g(i)"
    assert str(kernel_of(stored).substitutions["g"]) == "g(x) := f_0[x] + f_0[x + 1]"
    assert shape(stored, "f_0") == (5,)
    assert_same_results(knl, stored, {"a": np.arange(5.0)})


def test_only_tagged_uses_and_those_within() -> None:
    text = ["f(x) := sin(a[x])", "b[i] = f$mine(i) + f(i)", "c[i] = f$mine(i)"]
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", text)
    stored = lp.precompute(knl, "f$mine", "i", within="writes:b")
    assert instructions(stored)[1:] == ["i: b[i] = f_0[i] + f(i)", "i: c[i] = f$mine(i)"]
    assert_same_results(knl, stored, {"a": np.arange(4.0)})


def test_a_reduction_in_the_rule_is_done_once() -> None:
    text = ["f(x) := sum(k, a[x, k])", "out[i, j] = f(i)"]
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < 4}", text)
    stored = lp.precompute(knl, "f", "i")
    assert instructions(stored)[0] == "x: f_0[x] = reduce(sum, [k], a[x, k])"
    assert_same_results(knl, stored, {"a": np.arange(16.0).reshape(4, 4)})


def test_an_existing_loop_must_fit() -> None:
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < 4}", "{[k]: 0 <= k < 4}", "{[m]: 0 <= m < 5}"],
        ["f(x) := sin(a[x])", "out[i] = f(i)", "b[k] = 1", "c[m] = 1"],
    )
    stored = lp.precompute(knl, "f", "i", precompute_inames="k")
    assert instructions(stored)[0] == "k: f_0[k] = sin(a[k])"
    with pytest.raises(lp.KgenError, match="only one of the two contains m = 4"):
        lp.precompute(knl, "f", "i", precompute_inames="m")


def test_no_constant_size_is_refused() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", ["f(x) := sin(a[x])", "out[i] = f(i)"])
    with pytest.raises(lp.StaticValueFindingError, match="constant extent of axis 'x'"):
        lp.precompute(knl, "f", "i")


def test_sweeping_what_does_not_matter_is_refused() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 4}", ["f(x) := sin(a[x])", "out[i, j] = f(i)"])
    with pytest.raises(lp.KgenError, match="iname 'j' cannot be swept"):
        lp.precompute(knl, "f", "i, j")


def test_values_that_change_while_swept_are_refused() -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < 4}", ["f(x) := sin(a[x])", "a[i] = i {id=w}", "out[i] = f(i) {dep=w}"]
    )
    with pytest.raises(lp.KgenError, match="'w' writes 'a' in the loop over 'i'"):
        lp.precompute(knl, "f", "i")


def test_what_is_written_in_a_loop_around_is_computed_in_it() -> None:
    text = """
        f(x) := 2*a[x]
        for t
            a[j] = a[j] + t     {id=w}
            out[t, i] = f(i)    {dep=w}
        end
        """
    knl = lp.make_kernel("{[t, i, j]: 0 <= t < 3 and 0 <= i, j < 4}", text)
    stored = lp.precompute(knl, "f", "i")
    assert instructions(stored)[1] == "t,x: f_0[x] = 2*a[x]"
    assert dependencies(stored)["f"] == "w"
    assert_same_results(knl, stored, {"a": np.arange(4.0)})


def test_bounds_of_the_new_loop_follow_the_outer_ones() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", ["f(x) := sin(a[x])", "out[i] = f(i)"])
    knl = lp.split_iname(knl, "i", 8)
    stored = lp.precompute(knl, "f", "i_inner")
    wanted = "[n] -> {[i_outer, x]: 0 <= i_outer and 0 <= x < 8 and x < n - 8*i_outer}"
    assert same_set(domain(stored, "i_outer,x"), wanted)
    for n in (1, 8, 13):
        assert_same_results(knl, stored, {"a": np.arange(float(n))})


def test_a_condition_limits_what_is_computed() -> None:
    text = ["f(x) := a[x]", "out[i] = if(i > 0, f(i - 1), 0)"]
    knl = lp.make_kernel("{[i]: 0 <= i < 16}", text)
    stored = lp.precompute(lp.split_iname(knl, "i", 4), "f", "i_inner")
    assert_same_results(knl, stored, {"a": np.arange(15.0)})


def test_nothing_to_store_is_refused() -> None:
    with pytest.raises(lp.KgenError, match="there is no rule 'g'"):
        lp.precompute(product(), "g", "i")
    with pytest.raises(lp.KgenError, match="no use of rule 'f' is selected"):
        lp.precompute(product(), "f", "i", within="writes:nothing")


def test_a_bounding_box_has_no_values_that_read_what_nothing_writes() -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < 3 and 0 <= j, k < 2 }",
        """
        f(x) := p[t[x]]
        t[j] = a[i, j] {id=w}
        t[j + 4] = a[i, j] {id=v}
        out[i, k] = f(k) + f(k + 4) {dep=v:w}
        """,
        [lp.TemporaryVariable("t", np.int32, shape=(6,)), lp.GlobalArg("p", shape=(9,)), ...],
    )
    stored = lp.precompute(knl, "f", "k", fetch_bounding_box=True)
    assert same_set(domain(stored, "x"), "{ [x]: 0 <= x < 6 }")
    (condition,) = kernel_of(stored).id_to_insn["f"].predicates
    assert str(condition) == "x >= 4 or x < 2"


def test_a_bounding_box_ends_where_what_it_reads_does() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i <= n and i mod 2 = 1 }",
        ["f(x) := 2*a[x + 2]", "out[i] = f(i) + a[i + 1]"],
        [lp.GlobalArg("a", np.float64, shape=lp.auto), ...],
        assumptions="n >= 0",
    )
    knl = lp.split_iname(knl, "i", 7)
    knl = lp.add_prefetch(knl, "a", "i_inner", fetch_bounding_box=True, default_tag=None)
    stored = lp.precompute(knl, "f", "i_inner", fetch_bounding_box=True)
    lp.verify(stored).raise_if_violated()


def test_uses_inside_of_other_rules_read_what_is_stored() -> None:
    text = ["f(x, y) := a[x, y]**2", "g(x, y) := f(x, y) + f(x, y + 1)", "b[i, j] = g(i, j)"]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", text)
    stored = lp.precompute(knl, "f", "j")
    assert instructions(stored) == ["i,y: f_0[y] = a[i, y]**2", "i,j: b[i, j] = g(i, j)"]
    assert str(kernel_of(stored).substitutions["g"]) == "g(x, y) := f_0[y] + f_0[y + 1]"


def test_the_least_element_may_be_a_fraction_of_a_size() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i and 4*i < n }",
        "rule(x) := 2*a[x]\nout[i] = rule(n / 4 - 1 - i)".replace("n / 4", "n // 4"),
        [lp.GlobalArg("a", np.float64, shape="n"), ...],
        assumptions="n >= 0 and n mod 4 = 0",
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 6)
    knl = lp.precompute(knl, "rule", "i_inner")
    a = np.arange(32.0)
    _, (out,) = knl(a=a)
    np.testing.assert_array_equal(out, 2 * a[7::-1])


def test_a_use_in_a_use_is_stored_for_the_values_that_it_takes() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 4}", ["f(x) := 2*x + 1", "out[i] = f(f(i)) {if=f(i) < 6}"])
    stored = lp.precompute(knl, "f", "i", fetch_bounding_box=True)
    assert instructions(stored)[1] == "i: out[i] = f_0[f_0[i]]"
    assert kernel_of(stored).temporary_variables["f_0"].shape == (8,)
    assert_same_results(knl, stored, {"out": np.zeros(4)})


CHAIN = """
    f(x) := w[x]*a[i, x]
    g(x) := f(x) + 1
    h(y) := 2*g(y) + f(7 - y)
    o[i, j] = g(j) + h(j)
    """


def chained(text: str = CHAIN) -> lp.TranslationUnit:
    data = [lp.GlobalArg("w", np.float64, shape=8), lp.GlobalArg("a, o", np.float64, shape="n, 8")]
    return lp.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<8}", text, [*data, ...], target=lp.ExecutableCTarget()
    )


def test_rules_in_which_an_argument_hides_a_loop_of_the_reads_are_expanded() -> None:
    knl = chained("f(x) := a[0, x % 8]\ng(i) := f(i) + 1\no[i, j] = g(i + j) + w[j]")
    stored = lp.precompute(knl, "f", "j")
    assert not kernel_of(stored).substitutions
    data = {"a": np.arange(40.0).reshape(5, 8), "w": np.arange(8.0)}
    assert_same_results(knl, stored, data)


def test_fetches_and_rules_that_use_each_other_are_stored_in_turn() -> None:
    knl = chained()
    for array in ("w", "a"):
        knl = lp.add_prefetch(knl, array, "j", default_tag=None)
    for rule in ("f", "g", "h"):
        knl = lp.precompute(knl, rule, "j")
    assert not kernel_of(knl).substitutions
    assert instructions(knl)[-1] == "i,j: o[i, j] = g_0[j] + h_0[j]"
    data = {"a": np.arange(40.0).reshape(5, 8), "w": np.arange(8.0)}
    assert_same_results(chained(), knl, data)


def test_new_loops_may_be_called_as_arguments_of_rules() -> None:
    text = "P(aa) := p[aa]\nQ(aa) := q[aa]\nw[i, j] = P(j)*Q(j)"
    knl = lp.make_kernel("{[i, j]: 0<=i<4 and 0<=j<8}", text, target=lp.ExecutableCTarget())
    stored = lp.precompute(knl, "P", "j", precompute_inames="aa")
    stored = lp.precompute(stored, "Q", "j", precompute_inames="aa")
    assert instructions(stored)[:2] == ["aa: P_0[aa] = p[aa]", "aa: Q_0[aa] = q[aa]"]
    assert_same_results(knl, stored, {"p": np.arange(8.0), "q": np.arange(1.0, 9.0)})


def test_new_loops_of_one_name_over_other_values_are_refused() -> None:
    text = "P(aa) := p[aa]\nQ(aa) := q[aa]\nw[i, j] = P(j)*Q(j + 1)"
    knl = lp.make_kernel("{[i, j]: 0<=i<4 and 0<=j<8}", text)
    stored = lp.precompute(knl, "P", "j", precompute_inames="aa")
    shifted = lp.precompute(stored, "Q", "j", precompute_inames="aa")
    assert instructions(shifted)[1] == "aa: Q_0[aa] = q[aa + 1]"


@pytest.mark.parametrize("store", ["precompute", "prefetch"])
def test_values_may_be_stored_anew_in_each_iteration_of_a_swept_loop(store: str) -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0<=i<n and 0<=j<6}",
        "D(x) := a[x+1] - a[x]\nb[i, j] = D(j)",
        [lp.GlobalArg("a", np.float64, shape=8), ...],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.fix_parameters(knl, n=3)
    if store == "precompute":
        stored = lp.precompute(knl, "D", "j", precompute_outer_inames="i, j")
    else:
        stored = lp.add_prefetch(knl, "a", "j", default_tag=None, fetch_outer_inames="i, j")
    inner = {"precompute": "x", "prefetch": "a_dim_0"}[store]
    assert kernel_of(stored).instructions[0].within_inames == {"i", "j", inner}
    assert_same_results(knl, stored, {"a": np.arange(8.0) ** 2})


def test_a_name_given_for_an_axis_of_one_element_stays() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<8 }", ["f(x,y) := 2*a[x,y]", "out[i,j] = f(i,j)"])
    knl = lp.precompute(knl, "f", "j", precompute_inames="x,y", default_tag=None)
    (fill, _) = lp.tag_inames(knl, "x:unr").default_entrypoint.instructions
    assert fill.within_inames == {"i", "y"}


def test_global_memory_holds_as_many_values_as_a_size_says() -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0 <= i < n and 0 <= j < n }",
        ["f(x) := 2*a[x]", "out[i] = sum(j, f(j)) + f(i)"],
        [lp.GlobalArg("a", np.float64, shape="n"), ...],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.precompute(knl, "f", "i, j", temporary_address_space=lp.AddressSpace.GLOBAL)
    stored = knl.default_entrypoint
    assert stored.temporary_variables["f_0"].shape == (p.Variable("n"),)
    assert stored.id_to_insn["insn"].depends_on == {"f", "f_barrier"}
    assert knl(a=np.arange(3.0))[1][0].tolist() == [6, 8, 10]


def test_sums_of_groups_meet_in_global_memory() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out = sum(i, a[i])",
        [lp.GlobalArg("a", np.float64, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = lp.split_iname(knl, "i", 16, inner_tag="l.0")
    knl = lp.reduction_arg_to_subst_rule(lp.split_reduction_inward(knl, "i_inner"), "i_outer")
    space = lp.AddressSpace.GLOBAL
    knl = lp.precompute(
        knl, "red_i_outer_arg", "i_outer", temporary_address_space=space, default_tag="l.auto"
    )
    knl = lp.tag_inames(knl, "i_outer_0:g.0")
    first, second = lp.generate_code_v2(lp.add_dtypes(knl, {"a": np.float64})).device_programs
    assert "gid(0)" in first.code
    assert "red_i_outer_arg_0[i_outer]" in second.code


def test_loops_are_named_after_arguments_also_of_other_rules() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 16 }",
        "f(x) := c[x]*2\ng(x) := c[x] + f(x + 1)\nout[i] = f(i) + g(i)",
        [lp.GlobalArg("c", np.float64, shape=17), ...],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.precompute(knl, "f", "i", default_tag=None)
    assert "x" in knl.default_entrypoint.inames
    knl = lp.precompute(knl, "g", "i", default_tag=None)
    assert "x_0" in knl.default_entrypoint.inames
    c = np.arange(17.0) ** 2
    _, (out,) = knl(c=c)
    np.testing.assert_array_equal(out, 2 * c[:-1] + c[:-1] + 2 * c[1:])


def test_c_functions_precompute_as_many_values_as_sizes_say() -> None:
    text = "f(x) := x*a[x]\no[j] = f(j) + f(n - 1 - j)"
    knl = lp.make_kernel("{[j]: 0 <= j < n}", text, target=lp.ExecutableCTarget())
    stored = lp.precompute(knl, "f", "j", default_tag=None)
    assert_same_results(knl, stored, {"a": np.arange(6.0)})
