"""What kernel_data declares."""

from __future__ import annotations

import pytest

import kgen as lp


def test_one_declaration_of_several_names() -> None:
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", "out[i] = 2*a[i]", [lp.GlobalArg("a, out", "float32"), "..."]
    )
    assert list(knl.default_entrypoint.arg_dict) == ["a", "out", "n"]


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(lp.KgenError, match="'2a' is not a name for an array"):
        lp.GlobalArg("2a")
