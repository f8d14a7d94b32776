"""Powers of integers whose exponents depend on data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.cuda_host import HostCuda

TYPES = [np.int8, np.int16, np.int32, np.int64, np.uint16, np.uint32]


def powers(dtype: Any, target: Any) -> Any:
    args = [lp.GlobalArg("a, b, out", dtype, shape="n"), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = a[i]**b[i]", args, target=target)
    return lp.tag_inames(knl, "i:g.0")


def operands(dtype: Any) -> dict[str, Any]:
    """Return pairs of a base and an exponent; many results exceed the range of the type."""
    limits = np.iinfo(dtype)
    numbers = [limits.min, limits.min + 1, -3, -2, -1, 0, 1, 2, 3, 7, 11, limits.max]
    some = np.array([x for x in numbers if x >= limits.min], dtype)
    a, b = (x.ravel().copy() for x in np.meshgrid(some, some))
    return {"a": a, "b": b, "out": np.zeros(len(a), dtype)}


def expected(a: Any, b: Any) -> Any:
    """Return what numpy does for exponents that are not negative, else the truncated result."""
    with np.errstate(all="ignore"):
        result = a ** np.maximum(b, 0)
    inverse = (
        np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b % 2), 0)) if a.dtype.kind == "i" else 0
    )
    return np.where(b < 0, inverse, result).astype(a.dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_powers_of_integers_on_the_host(dtype: Any) -> None:
    data = operands(dtype)
    powers(dtype, lp.ExecutableCTarget())(n=len(data["a"]), **data)
    np.testing.assert_array_equal(data["out"], expected(data["a"], data["b"]))


@pytest.mark.parametrize("dtype", TYPES)
def test_powers_of_integers_on_a_device(dtype: Any, device: Any) -> None:
    data = operands(dtype)
    del data["out"]
    knl = lp.set_options(powers(dtype, lp.PyOpenCLTarget()), return_dict=True)
    _, found = device(knl, n=len(data["a"]), **data)
    np.testing.assert_array_equal(found["out"], expected(data["a"], data["b"]))


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.uint32])
def test_powers_of_integers_in_code_for_cuda(dtype: Any, tmp_path: Path) -> None:
    data = operands(dtype)
    HostCuda(powers(dtype, lp.CudaTarget()), tmp_path)({**data, "n": len(data["a"])})
    np.testing.assert_array_equal(data["out"], expected(data["a"], data["b"]))


def test_powers_do_not_overflow_signed_integers() -> None:
    for dtype in TYPES:
        code = lp.generate_code_v2(powers(dtype, lp.CTarget())).device_code()
        assert " factor *= factor;" in code
        assert ("uint64_t factor" if dtype is np.int64 else "unsigned int factor") in code
