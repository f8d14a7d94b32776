"""Instructions with loops of their own: what one needs of another still comes first."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import kgen as lp
from kgen.errors import KgenWarning, TransformError
from tests.transforms.helpers import assert_same_results

TWICE = """
    <> t = a[i] {id=w}
    b[i] = t {id=v, dep=w}
    t = 2*a[i] {id=x, dep=v}
    out[i] = t {id=r, dep=x}
"""
SCALAR = "<> t = a[i] {id=w}\nout[i] = 2*t {id=r, dep=w}"


DATA = {name: np.arange(8.0) ** k for k, name in enumerate(("a", "b", "out"))}


def kernel(
    text: str, domain: str = "{ [i]: 1<=i<7 }", silenced: Sequence[str] = ()
) -> lp.TranslationUnit:
    """Make a kernel of arrays of 8 numbers."""
    data = [
        lp.GlobalArg("a, b, out", np.float64, shape=8),
        lp.GlobalArg("p", np.int32, shape=8),
        lp.TemporaryVariable("s", np.float64, shape=8),
        "...",
    ]
    target = lp.ExecutableCTarget()
    knl = lp.make_kernel(domain, text, data, target=target, silenced_warnings=silenced)
    return lp.remove_unused_arguments(knl)


def given(knl: lp.TranslationUnit) -> dict[str, np.ndarray]:
    return {name: DATA[name] for name in knl.default_entrypoint.arg_dict}


@pytest.mark.parametrize("within", ["id:w", "id:r"])
@pytest.mark.parametrize(
    "cut",
    [
        lambda knl, within: lp.duplicate_inames(knl, "i", within),
        lambda knl, within: lp.rename_iname(knl, "i", "k", within=within),
        lambda knl, within: lp.split_iname(knl, "i", 2, within=within),
        lambda knl, within: lp.chunk_iname(knl, "i", 2, within=within),
    ],
)
def test_a_scalar_and_its_reader_stay_in_one_loop(cut: Callable[..., None], within: str) -> None:
    with pytest.raises(TransformError, match="'r' and 'w' cannot get different loops for 'i'"):
        cut(kernel(SCALAR), within)


@pytest.mark.parametrize(
    "text",
    [
        "b[i] = a[i] {id=w}\nout[i] = b[i + 1] {id=r, dep=w}",
        "out[i] = b[i - 1] {id=r, dep=*}\nb[i] = 2*out[i] {id=w, dep=r}",
    ],
)
def test_what_changes_places_is_refused(text: str) -> None:
    with pytest.raises(TransformError, match="would come first"):
        lp.duplicate_inames(kernel(text), "i", "id:r")


def test_what_nothing_has_written_yet_needs_no_order() -> None:
    """The kernel as written is undefined: with loops of their own, the kernel reverses an array."""
    knl = kernel("s[i] = a[i] {id=w}\nout[i] = s[7 - i] {id=r, dep=w}")
    with pytest.warns(KgenWarning, match="'r' reads 's.7 - i.' at i = 3"):
        both = lp.duplicate_inames(knl, "i", "id:r")
    _, (out,) = both(a=DATA["a"], out=np.zeros(8))
    np.testing.assert_array_equal(out[1:7], DATA["a"][1:7][::-1])


@pytest.mark.parametrize(
    "text",
    [
        # the second iteration overwrites the element that the first one read
        "out[1] = a[i] {id=w}\nb[i] = out[1] {id=r, dep=w}",
        # the last writer of an element changes
        "out[i] = a[i] {id=w}\nout[i + 1] = 2*a[i] {id=r, dep=w}",
        # a value from another instruction before both
        "s[j] = a[j] {id=v}\ns[i] = a[i] {id=w, dep=v}\nb[i] = s[7 - i] {id=r, dep=w}",
    ],
)
def test_outputs_and_temporaries_that_are_written_before_keep_their_order(text: str) -> None:
    data = [
        lp.GlobalArg("a, b", shape=8),
        lp.GlobalArg("out", shape=8, is_input=False),
        lp.TemporaryVariable("s", np.float64, shape=8),
    ]
    knl = lp.make_kernel("{ [i, j]: 0 <= i < 7 and 0 <= j < 8 }", text, data)
    with pytest.raises(TransformError, match="would come first"):
        lp.duplicate_inames(knl, "i", "id:r")


@pytest.mark.parametrize("is_input", [False, True])
def test_values_from_before_the_kernel_are_only_needed_if_they_are_inputs(is_input: bool) -> None:
    text = "out[j, i] = a[i, j] {id=w}\nout[i, j] = 2*out[i, j] {id=r, dep=w}"
    arrays = [lp.GlobalArg("a", shape="n, n"), lp.GlobalArg("out", shape="n, n", is_input=is_input)]
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", text, [*arrays, "..."])
    with (
        pytest.raises(TransformError, match=r"hint: .* declare 'out' with is_input=False")
        if is_input
        else pytest.warns(KgenWarning, match=r"(?s)which change results, .* would come first")
    ):
        lp.duplicate_inames(knl, "i, j", "id:r")


@pytest.mark.parametrize(
    "text",
    [
        "b[i] = a[i] {id=w}\nout[i] = b[i] {id=r, dep=w}",
        "b[i] = a[i] {id=w}\nout[i] = b[i - 1] {id=r, dep=w}",
        "out[i] = b[i + 1] {id=r, dep=*}\nb[i] = 2*out[i] {id=w, dep=r}",
        # each part sets the scalar before it reads it
        TWICE,
    ],
)
def test_what_keeps_its_order_gives_what_it_gave(text: str) -> None:
    knl = kernel(text)
    assert_same_results(knl, lp.duplicate_inames(knl, "i", "id:r or id:x"), given(knl))


def test_a_scalar_of_each_iteration_of_the_loop_around_is_kept() -> None:
    """Only the loop inside is cut: the accumulator stays in the one around."""
    knl = kernel(
        "<> t = a[i] {id=w}\nt = t + b[j] {id=u, dep=w, inames=i:j}\nout[i] = t {id=r, dep=u}",
        "{ [i,j]: 0<=i,j<8 }",
    )
    assert_same_results(knl, lp.duplicate_inames(knl, "j", "id:u"), given(knl))
    with pytest.raises(TransformError, match="different loops for 'i'"):
        lp.duplicate_inames(knl, "i", "id:r")


def test_what_depends_on_data_is_a_warning_that_can_be_silenced() -> None:
    text = "b[p[i]] = a[i] {id=w}\nout[i] = b[p[i]] {id=r, dep=w}"
    with pytest.warns(KgenWarning, match="which may change results"):
        lp.duplicate_inames(kernel(text), "i", "id:r")
    knl = kernel(text, silenced=["reordered_access(b)"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lp.duplicate_inames(knl, "i", "id:r")


@pytest.mark.parametrize(
    "rules", ["f(x) := x + 2*t", "twice := 2*t\nf(x) := x + twice", "g() := t\nf(x) := x + g()"]
)
def test_what_a_rule_reads_is_read_by_what_uses_it(rules: str) -> None:
    text = "<> t = a[i] {id=w}\nb[i] = t {id=r}\nc[i] = f(1) {id=q, dep=w}"
    data = [lp.GlobalArg("a, b, c", "float64", shape="n"), "..."]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", f"{rules}\n{text}", data)
    assert knl.default_entrypoint.readers == {"a": ("w",), "t": ("r", "q")}
    with pytest.raises(lp.TransformError, match="'q' and 'w' cannot get different loops"):
        lp.split_domain(knl, "{ [i]: i < 2 }", within="id:w or id:r")
