"""Temporaries that the runtime allocates, for sizes with which their extents are negative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("shape", [("n - 3", "n"), ("n", "n - 3"), ("n - 3", "n - 2")])
def test_temporaries_of_less_than_no_elements_are_empty(
    shape: tuple[str, str], on_host: bool, opencl_queue: Any
) -> None:
    t = lp.TemporaryVariable("t", "float32", shape, address_space=lp.AddressSpace.GLOBAL)
    knl = lp.make_kernel(
        "{ [i, j, k, l]: 0 <= i, k < n - 3 and 0 <= j, l < n - 3 }",
        """
        t[i, j] = i + j        {id=w, inames=i:j}
        out[k, l] = t[l, k]    {id=r, inames=k:l, dep=w}
        """,
        [t, lp.GlobalArg("out", "float32", ("n", "n")), "..."],
        target=lp.ExecutableCTarget() if on_host else lp.PyOpenCLTarget(),
    )
    for n in range(6):
        out = np.zeros((n, n), np.float32)
        knl(*(() if on_host else (opencl_queue,)), out=out, n=n)
        size = max(0, n - 3)
        np.testing.assert_array_equal(out[:size, :size], np.add.outer(*[np.arange(size)] * 2))
