"""What kernel_data declares."""

from __future__ import annotations

import numpy as np
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


def test_names_in_layouts_are_guessed_as_values() -> None:
    array = lp.GlobalArg("a", np.float64, shape="n,q", strides="s0,s1", offset="o")
    knl = lp.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", "out[i, j] = a[i, j]", [array, "..."])
    args = knl.default_entrypoint.arg_dict
    assert all(isinstance(args[name], lp.ValueArg) for name in ("o", "q", "s0", "s1"))


def test_a_size_that_is_not_declared_is_refused() -> None:
    data = [lp.GlobalArg("a", np.float64, shape="k"), lp.ValueArg("n", np.int32)]
    knl = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 1", data)
    with pytest.raises(lp.KgenError, match="not declared: 'k'"):
        lp.generate_code_v2(knl)


def test_a_size_that_becomes_a_number_need_not_be_declared() -> None:
    data = [lp.GlobalArg("a", np.float64, shape="k")]
    knl = lp.fix_parameters(lp.make_kernel("{[i]: 0<=i<k}", "a[i] = 1", data), k=3)
    assert "i < 3" in lp.generate_code_v2(knl).device_code()
