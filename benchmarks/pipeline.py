"""Time matrix products with and without a pipeline on an NVIDIA GPU through CUDA.

Tiles of 128 x 16 elements of either factor in shared memory, 8 x 8 sums for each of 256 work-items.
Prints TFLOP/s as the median of many launches, for one to four stages, through registers and by
cp.async, and checks each result on a sample of rows. Needs pycuda and a device.
"""

from __future__ import annotations

import argparse
from itertools import product as product_of

import numpy as np
from gpu import seconds
from pycuda import gpuarray

import kgen as lp


def product(size: int, dtype: str, *, is_open: bool) -> lp.TranslationUnit:
    """Return a product without a pipeline, for one size or, *is_open*, for any."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", dtype, shape="n, n"), "..."],
        target=lp.PyCudaTarget(),
        assumptions="1 <= n <= 40000",
        name="product",
    )
    if not is_open:
        knl = lp.fix_parameters(knl, n=size)
    for name, axis in (("i", 1), ("j", 0)):
        knl = lp.split_iname(knl, name, 128, outer_tag=f"g.{axis}")
        knl = lp.split_iname(knl, f"{name}_inner", 16, inner_tag=f"l.{axis}", outer_tag="ilp")
    knl = lp.split_iname(knl, "k", 16)
    outer = "i_outer, j_outer, k_outer"
    rows, columns = (f"{n}_inner_outer, {n}_inner_inner" for n in "ij")
    knl = lp.add_prefetch(knl, "a", f"{rows}, k_inner", fetch_outer_inames=outer)
    knl = lp.add_prefetch(knl, "b", f"k_inner, {columns}", fetch_outer_inames=outer)
    return lp.tag_inames(knl, "k_inner:unr")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    size = options.size
    for dtype in ("float32", "float64"):
        rng = np.random.default_rng(1)
        a, b = (rng.random((size, size)).astype(dtype) for _ in range(2))
        expected = a[-10:].astype(np.float64) @ b
        on_device = {"a": gpuarray.to_gpu(a), "b": gpuarray.to_gpu(b)}
        c = gpuarray.GPUArray((size, size), a.dtype)
        for is_open in (False, True):
            plain = product(size, dtype, is_open=is_open)
            copied = lp.async_copy(plain, "a_fetch_rule, b_fetch_rule", "cp.async")
            for how, stages in product_of(("registers", "cp.async"), (1, 2, 3, 4)):
                knl = plain if how == "registers" else copied
                executor = lp.pipeline(knl, "k_outer", stages, "a_fetch, b_fetch").executor()
                c.fill(np.nan)
                time = seconds(lambda: executor(**on_device, c=c), options.rounds)  # noqa: B023
                np.testing.assert_allclose(c.get()[-10:], expected, rtol=1e-3)
                what = (
                    f"{dtype}, {'any size' if is_open else f'n = {size}'}, {stages} stages, {how}"
                )
                print(f"{what:46} {2 * size**3 / time / 1e12:6.1f} TFLOP/s")


if __name__ == "__main__":
    main()
