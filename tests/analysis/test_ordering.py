"""Accesses to one element in no order are refused; what cannot meet is not."""

from __future__ import annotations

import pytest

import kgen as lp
from kgen.analysis import ordering

DATA = [lp.GlobalArg("a", "float32", shape="n"), "..."]


def code(text: str, domain: str = "{ [i]: 0 <= i < n }", **options: object) -> str:
    knl = lp.make_kernel(domain, text, DATA, assumptions="n >= 1", options=options)
    return lp.generate_code_v2(knl).device_code()


@pytest.mark.parametrize(
    "text",
    [
        "out[i] = a[i] {id=one}\nout[i] = 2*a[i] {id=two}",
        "out[i] = a[i] {id=one}\nout[i] = 2*a[i] {id=mid}\nc[i] = out[i] {id=two, dep=mid}",
        "<> t = a[i] {id=one}\nt = 2*a[i] {id=two}\nout[i] = t {dep=one:two}",
        "out[i] = a[i] {id=one}\nout[n - 1 - i] = 2*a[i] {id=two}",
        "out[2*i] = a[i] {id=one}\nout[3*i + 1] = 2*a[i] {id=two}",
    ],
)
def test_two_accesses_to_one_element_need_an_order(text: str) -> None:
    with pytest.raises(lp.VariableAccessNotOrdered, match=r"(?s)at: n = \d+.*neither depends"):
        code(text.replace("\n  ", "\n"))


def test_no_point_is_given_where_nothing_is_known_of_the_elements() -> None:
    unproved = "nothing proves their elements"
    with pytest.raises(lp.VariableAccessNotOrdered, match=unproved) as caught:
        code("out[i*n] = a[i] {id=one}\nout[i*n + 1] = 2*a[i] {id=two}")
    assert "at:" not in str(caught.value)


def test_the_message_has_a_common_iteration() -> None:
    with pytest.raises(lp.VariableAccessNotOrdered) as caught:
        code("out[i + 1] = a[i] {id=one}\nout[i + 1] = 2*a[i] {id=two}")
    assert "at: n = 1, i = 0" in str(caught.value)
    assert "add_dependency(kernel, 'id:two', 'id:one')" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "out[2*i] = a[i]\nout[2*i + 1] = 2*a[i]",
        "out[i] = a[i] {id=one}\nout[i] = 2*a[i] {nosync=one}",
        "out[i] = a[i] {id=one}\nb[i] = 1 {id=two, dep=one}\nout[i] = 2*a[i] {dep=two}",
        "if a[i] > 0\n  out[i] = 1\nelse\n  out[i] = 2\nend",
        "if i < 3\n  out[i] = 1\nend\nif i >= 3\n  out[i] = 2\nend",
    ],
)
def test_what_cannot_meet_or_has_an_order_is_fine(text: str) -> None:
    assert "out[" in code(text)


def test_the_option_makes_it_a_warning_or_nothing() -> None:
    text = "out[i] = a[i] {id=one}\nout[i] = 2*a[i] {id=two}"
    with pytest.warns(lp.KgenWarning, match=r"unordered_access\(out\)"):
        code(text, enforce_variable_access_ordered=False)
    code(text, enforce_variable_access_ordered="no_check")


@pytest.mark.parametrize(("one", "two"), [("0, i", "1, i"), ("4*i + n*2", "6*i + 3")])
def test_components_of_an_array_are_apart_without_a_proof(
    one: str, two: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"out[{one}] = a[i] {{id=one}}\nout[{two}] = 2*a[i] {{id=two}}"
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, DATA)
    monkeypatch.setattr(ordering, "_meet", lambda *args: pytest.fail("isl was asked"))
    assert not list(ordering.find_unordered(knl.default_entrypoint))


def test_a_cycle_is_an_order_here_and_found_later() -> None:
    waits = {"hub": "one:two", "one": "hub", "two": "*hub"}
    places = {"hub": "b[i] = 1", "one": "a[j] = 2", "two": "c[k] = a[k]"}
    text = [f"{places[name]} {{id={name}, dep={dep}}}" for name, dep in waits.items()]
    with pytest.raises(lp.DependencyCycleFound, match="'hub' in loop 'i' depends on 'one' in"):
        code("\n".join(text), "{ [i, j, k]: 0 <= i, j, k < n }")
