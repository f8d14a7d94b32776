"""Arguments of calls that are made up."""

from __future__ import annotations

import numpy as np

import kgen as lp
from kgen.lowering import generate_module
from kgen.runtime.samples import random_data


def gather() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        ["<> k = index[i]", "out[i] = a[k] + c[i]"],
        [
            lp.GlobalArg("a", np.float32, shape="m"),
            lp.GlobalArg("index, c", np.int32, shape="n"),
            ...,
        ],
        target=lp.CTarget(),
    )


def test_made_up_subscripts_are_in_bounds() -> None:
    data = random_data(generate_module(gather()), {"n": 1000, "m": 5})
    assert set(data["index"]) == set(range(5))
    assert set(data["c"]) == set(range(20))


def test_subscripts_of_empty_and_long_arrays() -> None:
    module = generate_module(gather())
    assert not random_data(module, {"n": 9, "m": 0})["index"].any()
    assert max(random_data(module, {"n": 1000, "m": 1000})["index"]) == 19


def test_bounds_of_loops_are_subscripts() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < n }", "[end] -> { [k]: 0 <= k < end }"],
        ["<> end = lengths[i]", "out[i] = sum(k, a[k])"],
        [lp.GlobalArg("lengths", np.int32, shape="n"), lp.GlobalArg("a", np.float64, shape=3), ...],
        target=lp.CTarget(),
    )
    assert max(random_data(generate_module(knl), {"n": 100})["lengths"]) == 2
