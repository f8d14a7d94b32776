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


def test_work_behind_a_barrier_that_some_work_items_have_is_not_lost(opencl_queue: Any) -> None:
    text = """
        for i
            t[p] = a[i % 4, p]  {id=fill}
            out[n - i, q] = 2*t[2 - q] + t[0]  {id=first, dep=fill}
            u[r] = t[1]  {id=refill, dep=fill}
            last[s + 1, 2*i] = 2*u[3] + u[0]  {id=last, dep=refill}
            v[w] = last[i % 4, 2*i]  {dep=last}
        end
        """
    temporaries = [
        lp.TemporaryVariable(name, np.float32, shape, address_space=lp.AddressSpace.LOCAL)
        for name, shape in (("t", 3), ("u", 4), ("v", 2))
    ]
    shapes = {"a": "4, 3", "out": "n + 1, 3", "last": "5, 2*n + 2"}
    data = [*temporaries, *(lp.GlobalArg(name, shape=shape) for name, shape in shapes.items())]
    domain = """{[i, p, q, r, s, w]: 0 <= i <= n and i mod 3 = 2 and 0 <= p, q < 3
        and 0 <= r < 4 and s = 0 and 0 <= w < 2}"""
    knl = lp.make_kernel(domain, text, [*data, ...])
    knl = lp.tag_inames(knl, "p:l.0, q:l.0, r:l.0, s:l.0, w:l.0")
    a = np.random.default_rng(0).random((4, 3), np.float32)
    arrays = {"out": np.zeros((9, 3), np.float32), "last": np.zeros((5, 18), np.float32)}
    _, (out, _) = knl(opencl_queue, a=a, **arrays)
    rows = np.arange(2, 9, 3)
    np.testing.assert_allclose(out[8 - rows], 2 * a[rows % 4, ::-1] + a[rows % 4, :1])
