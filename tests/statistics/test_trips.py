"""How often loops go round, and how accesses step along them."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.analysis.access import collect_accesses
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.stepping import stride_along
from kgen.statistics.trips import trip_count


@pytest.mark.parametrize(
    ("domain", "trips"),
    [
        ("0<=i<8", "8"),
        ("3<=i<n", "n - 3"),
        ("0<=i<=j", "j + 1"),
        ("0<=i<4 and 4*j + i < n", "at most 4"),
        ("0<=i<n and i<m", "at most m"),
    ],
)
def test_trip_count(domain: str, trips: str) -> None:
    knl = lp.make_kernel(["{ [j]: 0<=j<n }", f"{{ [i]: {domain} }}"], "a[i + j] = 0 {inames=i:j}",
                         [lp.GlobalArg("a", np.float32, shape=None), ...])  # fmt: skip
    assert str(trip_count(knl.default_entrypoint, "i", around=["j"])) == trips


@pytest.mark.parametrize(
    ("text", "stride"),
    [
        ("b[i] = a[first[0] + i]", 1),
        ("<> at = starts[i] \n b[i] = a[at]", None),
        ("<> at = starts[0] \n b[i] = a[at]", 0),
        ("b[i] = a[3*i + i*i]", None),
        ("b[i] = a[n*i]", "n"),
    ],
)
def test_stride_follows_from_data(text: str, stride: object) -> None:
    arrays = lp.GlobalArg("a", np.float32, shape=None), lp.GlobalArg("first,starts", np.int32)
    knl = lp.make_kernel("{ [i]: 0<=i<n }", text, [*arrays, ...])
    kernel = prepared_kernel(knl)
    (access,) = [a for a in collect_accesses(kernel) if a.array == "a"]
    found = stride_along(kernel, access, "i")
    assert (found if found is None or isinstance(found, int) else str(found)) == stride
