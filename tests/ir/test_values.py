"""Kernels as values: pickled, copied, before and after they have run."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.types import NumpyType


def square_sums() -> lp.TranslationUnit:
    return lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m}"],
        ["sq(x) := x*x", "<> t = max(j, a[i, j]) {id=t}", "out[i] = sum(j, sq(a[i, j]))/t {dep=t}"],
        assumptions="m >= 1",
        target=lp.ExecutableCTarget(),
    )


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("pick", [lambda unit: unit, lambda unit: unit.default_entrypoint])
def test_a_copy_is_equal(pick: Callable[..., Any], again: Callable[..., Any]) -> None:
    knl = pick(lp.split_iname(square_sums(), "i", 4, inner_tag="ilp"))
    assert again(knl) == knl
    assert hash(again(knl)) == hash(knl)
    assert str(again(knl)) == str(knl)


def test_what_has_run_can_be_pickled_and_runs_again() -> None:
    knl = square_sums()
    a = np.arange(1, 7.0).reshape(2, 3)
    _, (first,) = knl(a=a)
    _, (second,) = pickled(knl)(a=a)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, (a**2).sum(1) / a.max(1))


def test_digests_do_not_see_redundant_constraints() -> None:
    # isl drops them from a set when a question about it shows them
    longer, shorter = (
        lp.make_kernel("{[i]: m <= i < n}", "out[i] = i", assumptions=text).default_entrypoint
        for text in ("m >= 0 and n >= m and n >= 0", "m >= 0 and n >= m")
    )
    assert longer == shorter


def test_a_declaration_is_copied_as_it_is_made() -> None:
    for one in (lp.GlobalArg("a", shape="n, 4"), lp.TemporaryVariable("t", shape=(4,))):
        assert one.copy(dtype=NumpyType(np.dtype("float32"))) == type(one)(
            one.name, "float32", shape=one.shape
        )


def test_a_kernel_has_no_other_fields() -> None:
    with pytest.raises(TypeError, match="no field 'colour'"):
        square_sums().default_entrypoint.copy(colour="red")
