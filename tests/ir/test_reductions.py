"""Reduction operations: neutral elements of every kind of number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kgen.ir.reductions import parse_reduction_op
from kgen.ir.types import to_kgen_type


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint32, np.int64, np.bool_])
@pytest.mark.parametrize(("name", "function"), [("max", np.maximum), ("min", np.minimum)])
def test_the_neutral_element_changes_nothing(name: str, function: Any, dtype: Any) -> None:
    (neutral,) = parse_reduction_op(name).neutral((to_kgen_type(dtype),))
    values = np.array([0, 1], dtype)
    assert (function(values, neutral) == values).all()


def test_a_wrong_name_lists_the_near_ones() -> None:
    with pytest.raises(Exception, match="did you mean 'product'"):
        parse_reduction_op("prodct")
