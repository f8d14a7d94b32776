"""Kernels without barriers that PoCL 3.1 has computed wrongly."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import kgen as lp


@pytest.mark.parametrize("seed", range(4))
def test_strided_accesses_to_one_array(opencl_queue: Any, seed: int) -> None:
    """Reads did not see what was scattered before them to an array declared ``restrict``."""
    draw = random.Random(seed)
    lines, t, out = [], np.zeros(12, np.int32), np.zeros((6, 4, 2), np.int32)
    for n in range(6):
        stride, first = draw.randint(1, 3), draw.randint(0, 2)
        lines += [
            f"t[{stride}*i{n} + {first}] = a[{n}]",
            f"out[{n}, 3 - j{n}, 0] = t[3*j{n}] + t[0]",
        ]
        t[first : first + 4 * stride : stride] = n + 1
        out[n, ::-1, 0] = t[::3] + t[0]
    loops = [f"{{[{x}{n}]: 0 <= {x}{n} < 4}}" for n in range(6) for x in "ij"]
    given = [lp.GlobalArg("t", "int32", shape=12), lp.GlobalArg("a", "int32", shape=6)]
    made = lp.GlobalArg("out", "int32", shape=(6, 4, 2))
    knl = lp.make_kernel(loops, "\n".join(lines), [*given, made], seq_dependencies=True)
    _, got = knl(opencl_queue, a=np.arange(1, 7, dtype=np.int32), t=0 * t, out=0 * out)
    np.testing.assert_array_equal(got[0], t)
    np.testing.assert_array_equal(got[1], out)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_private_arrays_shorter_than_a_vector(opencl_queue: Any, size: int, dtype: str) -> None:
    """A loop of unknown trip count, and reads before it lost what was written last."""
    knl = lp.make_kernel(
        [
            f"{{[i, j, k]: 0 <= i, j, k < {size}}}",
            f"{{[o, u, v]: 0 <= o < n and 0 <= u, v < {size}}}",
        ],
        """
        t[i] = 2 - i
        t[j] = t[j] + t[j] {if=a[j] > 0}
        first[k] = t[k]
        t[u] = u {if=u + 2*o < n}
        out[o, v] = t[v] + v {if=v + 2*o < n}
        """,
        [lp.TemporaryVariable("t", dtype, shape=size, address_space=lp.AddressSpace.PRIVATE), ...],
        seq_dependencies=True,
    )
    a, out = np.arange(size, dtype=np.int32) % 2, np.zeros((3, size), dtype)
    _, (first, out) = knl(opencl_queue, a=a, n=3, out=out)
    i = np.arange(size)
    np.testing.assert_array_equal(first, (2 - i) * (1 + a))
    np.testing.assert_array_equal(out, np.where(i + 2 * np.arange(3)[:, None] < 3, 2 * i, 0))
