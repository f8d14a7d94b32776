"""Barriers on OpenCL devices that mistake some of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import kgen as lp


def test_barriers_that_some_iterations_skip_lose_no_work(opencl_queue: Any) -> None:
    text = """
        for i, j
            if (i + j) % 3 != 0
                t[p] = a[j]  {id=fill}
                if b[i, q] > 0
                    out[i, j, q] = t[3 - q] + t[0]  {dep=fill}
                end
            end
        end
        """
    local = lp.TemporaryVariable("t", shape=4, address_space=lp.AddressSpace.LOCAL)
    domain = "{[i, j, p, q]: 0 <= i, j < n and i - 1 <= j <= i + 1 and 0 <= p, q < 4}"
    knl = lp.make_kernel(domain, text, [local, lp.GlobalArg("out", shape="n,n,4"), ...])
    knl = lp.prioritize_loops(lp.tag_inames(knl, "p:l.0, q:l.0"), "j,i")
    a, b = np.arange(10.0), np.random.default_rng(0).integers(-1, 2, (10, 4)).astype(float)
    _, (out,) = knl(opencl_queue, a=a, b=b, out=np.zeros((10, 10, 4)))
    i, j, q = np.indices(out.shape)
    meant = (abs(i - j) <= 1) & ((i + j) % 3 != 0) & (b[i, q] > 0)
    np.testing.assert_array_equal(out, np.where(meant, 2 * a[j], 0))
