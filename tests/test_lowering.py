"""What happens to kernels before they are scheduled."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


@pytest.mark.parametrize("text", ["u[i, j] = u[i, j] + t", "u[i, j] = t*sum(k, u[i, k])/2"])
def test_types_that_callers_decide_stay_open_in_a_preprocessed_kernel(text: str) -> None:
    knl = lp.make_kernel("{[i,j,k]: 0<=i,j,k<n}", text, target=lp.CTarget())
    made = lp.preprocess_kernel(knl)
    types = {name: arg.dtype for name, arg in made.default_entrypoint.arg_dict.items()}
    assert types["n"].numpy_dtype == np.int32
    assert types["t"] is None is types["u"]
    with pytest.raises(lp.TypeInferenceFailure, match=r"type of '[tu]' is not known"):
        lp.generate_code_v2(made)
    typed = {"u": np.float32, "t": np.float64}
    expected = lp.generate_body(lp.add_dtypes(knl, typed))
    assert lp.generate_body(lp.add_dtypes(made, typed)) == expected


def test_operands_are_checked_before_all_types_are_known() -> None:
    text = ["<> c = make_uint2(1, 2)", "w[i] = t", "v[i] = cast(np.int64, c) + i"]
    knl = lp.make_kernel("{[i]: 0<=i<n}", text)
    with pytest.raises(lp.TypeInferenceFailure, match="vectors are not converted"):
        lp.preprocess_kernel(knl)
