"""Errors of kgen that are errors of Python as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytools.tag import NonUniqueTagError

import kgen as lp


def _copy(name: str = "copy") -> lp.TranslationUnit:
    return lp.make_kernel("{ [i]: 0<=i<4 }", "out[i] = a[i]", name=name)


@pytest.mark.parametrize(
    ("attempt", "kind"),
    [
        (lambda: lp.make_einsum("ij,j->i", ("a",)), ValueError),
        (lambda: lp.make_einsum("i1->i", ("a",)), ValueError),
        (lambda: lp.Op(count_granularity="bushel"), ValueError),
        (lambda: lp.MemAccess(direction="sideways"), ValueError),
        (lambda: lp.Optional().value, AttributeError),
        (lambda: lp.split_iname(_copy(), "j", 4), KeyError),
        (lambda: lp.tag_inames(_copy(), "i:q.0"), ValueError),
        (lambda: lp.tag_inames(_copy(), "i"), ValueError),
        (lambda: lp.tag_inames(lp.tag_inames(_copy(), "i:g.0"), "i:l.0"), NonUniqueTagError),
        (lambda: lp.set_options(_copy(), "colour"), ValueError),
        (lambda: lp.merge([_copy("one"), _copy("two")]).default_entrypoint, ValueError),
        (lambda: lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1 {colour=red}"), ValueError),
        (lambda: lp.make_kernel("{ [i]: 0<=i<4 }", "a[0] = 1 {inames=j}"), ValueError),
        (lambda: lp.make_kernel("{ [i]: 0<=i<4 }", "a[i] = 1", colour="red"), TypeError),
    ],
)
def test_values_that_do_not_exist_are_errors_of_python(
    attempt: Callable[[], Any], kind: type[Exception]
) -> None:
    with pytest.raises(lp.KgenError) as caught:
        attempt()
    assert isinstance(caught.value, kind)
