"""Errors of kgen that are errors of Python as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kgen as lp


@pytest.mark.parametrize(
    ("attempt", "kind"),
    [
        (lambda: lp.make_einsum("ij,j->i", ("a",)), ValueError),
        (lambda: lp.make_einsum("i1->i", ("a",)), ValueError),
        (lambda: lp.Op(count_granularity="bushel"), ValueError),
        (lambda: lp.MemAccess(direction="sideways"), ValueError),
        (lambda: lp.Optional().value, AttributeError),
    ],
)
def test_values_that_do_not_exist_are_errors_of_python(
    attempt: Callable[[], Any], kind: type[Exception]
) -> None:
    with pytest.raises(lp.KgenError) as caught:
        attempt()
    assert isinstance(caught.value, kind)
