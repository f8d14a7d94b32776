"""What a kernel's own names are makes no difference: none of them is one that kgen uses."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp

NAMES = ["x0", "x1", "y0", "c0", "S0", "l0", "lid0", "gid0", "element0", "value0", "t0"]


def triangle(size: str, row: str) -> lp.TranslationUnit:
    shape = (size, size)
    knl = lp.make_kernel(
        f"{{ [{row}, column]: 0 <= {row} < {size} and 0 <= column <= {row} }}",
        f"out[{row}, column] = 2*a[{row}, column]",
        [lp.GlobalArg("a, out", np.float32, shape=shape), lp.ValueArg(size, np.int32)],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "column", 16, inner_tag="l.0", outer_tag="g.0")
    return lp.split_iname(knl, row, 4, slabs=(0, 1), inner_tag="unr")


def texts(size: str, row: str) -> list[str]:
    knl = triangle(size, row)
    counts = lp.get_mem_access_map(knl, subgroup_size=32)
    return [
        text.replace(size, "NAME").replace(row, "ROW")
        for text in (lp.generate_code_v2(knl).device_code(), str(counts))
    ]


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_loops_of_any_name(name: str) -> None:
    expected = texts("width", "line")
    assert [sorted(text) for text in texts(name, "line")] == [sorted(text) for text in expected]
    assert [sorted(text) for text in texts("width", name)] == [sorted(text) for text in expected]


def test_what_transformations_name_is_new() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 16 }",
        """
        <> acc_j = 3*b[i]
        <> a_fetch = b[i] + acc_j
        out[i] = sum(j, a[i, j]) + acc_j + a_fetch
        """,
        [
            lp.GlobalArg("a", np.float64, shape=(16, 16)),
            lp.GlobalArg("b", np.float64, shape=16),
            ...,
        ],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.add_prefetch(knl, "a", "i, j", default_tag="for")
    a, b = np.ones((16, 16)), np.arange(16.0)
    _, (out,) = knl(a=a, b=b)
    np.testing.assert_array_equal(out, 16 + 3 * b + b + 3 * b)
