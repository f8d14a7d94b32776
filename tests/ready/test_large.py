"""Arrays of more than 2^31 elements: the code for them; and, if asked, calls with them.

``KGEN_LARGE=1`` runs the calls, which take 9 GiB of memory and some minutes.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.algorithm import copy_if
from kgen.elementwise import ElementwiseKernel
from kgen.linalg import build, einsum
from kgen.lowering import generate_module
from kgen.reduction import ReductionKernel
from kgen.scan import InclusiveScanKernel

SIZE = 2**31 + 12345
asked = pytest.mark.skipif("KGEN_LARGE" not in os.environ, reason="KGEN_LARGE=1 runs it")


@pytest.fixture(scope="module")
def x() -> Any:
    """Return zeros with some ones: at the first element, at 2^31 and at the last one."""
    found = np.zeros(SIZE, np.int8)
    found[[0, 2**31 - 1, 2**31, -1]] = 1
    return found


@pytest.mark.parametrize("kernel", ["reduction", "einsum"])
def test_indices_have_64_bits(kernel: str) -> None:
    if kernel == "reduction":
        total = ReductionKernel(np.int64, "0", "a+b", arguments="char *x")
        unit = total.build(lp.CudaTarget(), index_dtype=np.int64)
    else:
        unit = build("ij->i", [np.int8], lp.CudaTarget(), index_dtype=np.int64)
        unit = lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")
    code = lp.generate_code_v2(unit).device_code()
    assert "long long const" in code
    assert "(long long) gid(x)" in code or "long long i" in code


def test_values_of_indices_have_64_bits() -> None:
    total = ReductionKernel(np.int64, "0", "a+b", "x[i] * i", "char *x")
    for target, is_gpu in ((lp.CTarget(), False), (lp.CudaTarget(), True)):
        unit = total.build(target, index_dtype=np.int64, is_gpu=is_gpu)
        assert list(map(str, generate_module(unit).conditions)) == ["n >= 0"]


@asked
def test_elementwise(x: Any) -> None:
    out = np.empty_like(x)
    ElementwiseKernel("char *x, char *z", "z[i] = x[i] + 1")(x, out)
    assert (out[0], out[1], out[2**31], out[2**31 + 1], out[-1]) == (2, 1, 2, 1, 2)
    assert np.count_nonzero(out == 2) == 4


@asked
def test_reductions(x: Any) -> None:
    total = ReductionKernel(np.int64, "0", "a+b", map_expr="x[i] * i", arguments="char *x")
    assert total(x) == 2**31 - 1 + 2**31 + SIZE - 1
    rows = np.lib.stride_tricks.as_strided(x, (2, SIZE // 2), (SIZE // 2, 1))
    found = ReductionKernel(np.int64, "0", "a+b", arguments="char *x")(rows, axis=1)
    np.testing.assert_array_equal(found, rows.sum(axis=1))
    np.testing.assert_array_equal(einsum("ij->i", rows), rows.sum(axis=1, dtype=np.int8))


@asked
def test_scans_and_selections(x: Any) -> None:
    sums = InclusiveScanKernel(np.int8, "a+b")(x)
    places = [0, 2**31 - 2, 2**31 - 1, 2**31, SIZE - 2, SIZE - 1]
    assert sums[places].tolist() == [1, 1, 2, 3, 3, 4]
    del sums
    out, count, _ = copy_if(x, "ary[i] != 0")
    assert count == 4
    np.testing.assert_array_equal(out[:4], np.ones(4))
