"""Kernels that do their work for several sets of data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from tests.oracle import Oracle
from tests.transforms.helpers import instructions, kernel_of, run


def plain() -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, w", np.float64, shape=lp.auto), lp.ValueArg("c", np.float64), ...]
    text = "f(q) := c*a[q]\n<> t = f(i)\nb[i,j] = t + w[j]"
    return lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<3 }", text, data)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("count", ["m", 2])
def test_each_set_of_data_has_its_results(count: Any, sequential: bool) -> None:
    knl = lp.to_batched(plain(), count, "a, b, c", sequential=sequential)
    a, c, w = np.arange(10.0).reshape(2, 5), np.array([1.0, 3.0]), np.arange(3.0)
    got = run(knl, a=a, c=c, w=w)["b"]
    for k in range(2):
        assert np.array_equal(got[k], run(plain(), a=a[k], c=c[k], w=w)["b"])


def test_what_varies_gets_an_axis() -> None:
    knl = lp.to_batched(plain(), "m", ["a", "b"], batch_iname_prefix="set")
    assert instructions(knl) == ["i,set: t = f(i)", "i,j,set: b[set, i, j] = t + w[j]"]
    assert str(kernel_of(knl).substitutions["f"]) == "f(q) := c*a[set, q]"
    assert str(kernel_of(knl).array_vars["b"].shape) == str(lp.GlobalArg("b", shape="m,n,3").shape)
    lowered = lower(kernel_of(knl))
    Oracle(lowered.kernel, {"n": 2, "m": 3}).check(lowered.functions)


def test_batches_on_a_device(device: Any) -> None:
    knl = lp.tag_inames(lp.to_batched(plain(), "m", "a,b"), "ibatch:g.1")
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    a, w = np.arange(15.0).reshape(3, 5), np.arange(3.0)
    _, (b,) = device(knl, a=a, w=w, c=2.0)
    assert np.array_equal(b, 2 * a[:, :, None] + w)


def test_shared_temporaries_get_an_axis_unless_sets_follow_each_other() -> None:
    text = "t[i] = a[i] {id=t}\n... gbarrier {id=g, dep=t}\nb[j] = t[n-1-j] {dep=g}"
    shared = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<n }", text, [shared, ...])
    all_at_once = lp.to_batched(knl, "m", "a,b")
    assert instructions(all_at_once)[0] == "i,ibatch: t[ibatch, i] = a[ibatch, i]"
    in_turn = lp.to_batched(knl, "m", "a,b", sequential=True)
    assert instructions(in_turn)[0] == "i,ibatch: t[i] = a[ibatch, i]"
    a = np.arange(6.0).reshape(2, 3)
    for some in (all_at_once, in_turn):
        assert np.array_equal(run(some, a=a)["b"], a[:, ::-1])


@pytest.mark.parametrize(("order", "inner"), [("F", ["1", "n"]), ("C", ["3", "1"])])
def test_the_new_axis_is_outside_of_the_others(order: str, inner: list[str]) -> None:
    a = lp.GlobalArg("a", np.float64, shape="n, 3", order=order)
    knl = lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<3 }", "b[i,j] = a[i,j]", [a, ...])
    strides = kernel_of(lp.to_batched(knl, 4, "a")).array_vars["a"].fixed_strides
    assert [str(stride) for stride in strides] == ["3*n", *inner]


def test_sizes_cannot_vary() -> None:
    with pytest.raises(lp.TransformError, match="'n' cannot vary"):
        lp.to_batched(plain(), 2, "n")
    with pytest.raises(lp.TransformError, match="there is no argument 'x'"):
        lp.to_batched(plain(), 2, "x")


def test_the_number_of_batches_is_not_named_like_a_loop() -> None:
    with pytest.raises(lp.TransformError, match="the name 'i' is taken"):
        lp.to_batched(lp.make_kernel("{[i]: 0 <= i < 4}", "a[i] = 1"), "i", "a")


@pytest.mark.parametrize(("varying", "is_lost"), [("a", True), ("a, b", False), ("b", False)])
def test_sets_that_overwrite_the_result_of_others_are_warned_of(
    varying: str, is_lost: bool
) -> None:
    args = [lp.GlobalArg("a, b", np.float64, shape=4)]
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", "b[i] = 2*a[i]", args)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        lp.to_batched(knl, 3, varying)
    assert len(found) == is_lost
    if is_lost:
        assert "iterations of loop 'ibatch' overwrite each other's 'b[i]'" in str(found[0].message)
