"""Time matrix products with and without a pipeline on an NVIDIA GPU through CUDA.

Tiles of 128 x 16 elements of either factor in shared memory, 8 x 8 sums for each of 256 work-items.
Two groups are on a multiprocessor in all cases: pipelines would take registers of one of them.
Prints TFLOP/s as the median of many launches, for one to three stages through registers and two by
cp.async: with the size fixed in the code, for any size, and for any size where tiles at the border
are not full. Checks each result on a sample of rows. Needs pycuda and a device.
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
        target=lp.PyCudaTarget(min_groups=2),
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


def pipelined(knl: lp.TranslationUnit, stages: int, how: str) -> lp.TranslationUnit:
    """Let a product fetch tiles ahead, through registers or by cp.async."""
    if how == "cp.async":
        knl = lp.async_copy(knl, "a_fetch_rule, b_fetch_rule", how)
    return lp.pipeline(knl, "k_outer", stages, "a_fetch, b_fetch")


def rate(knl: lp.TranslationUnit, size: int, dtype: str, rounds: int) -> float:
    """Return TFLOP/s, after a look at the last rows of the result."""
    rng = np.random.default_rng(1)
    a, b = (rng.random((size, size)).astype(dtype) for _ in range(2))
    on_device = {"a": gpuarray.to_gpu(a), "b": gpuarray.to_gpu(b)}
    c = gpuarray.GPUArray((size, size), a.dtype)
    c.fill(np.nan)
    executor = knl.executor()
    time = seconds(lambda: executor(**on_device, c=c), rounds)
    np.testing.assert_allclose(c.get()[-10:], a[-10:].astype(np.float64) @ b, rtol=1e-3)
    return 2 * size**3 / time / 1e12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    size, dtype = options.size, options.dtype
    cases = ((size, False), (size, True), (size - 6, True))
    pipelines = (("registers", 1), ("registers", 2), ("registers", 3), ("cp.async", 2))
    for (how, stages), (n, is_open) in product_of(pipelines, cases):
        knl = pipelined(product(n, dtype, is_open=is_open), stages, how)
        what = f"{dtype}, {stages} stages, {how}, {'any' if is_open else 'fixed'} n = {n}"
        print(f"{what:48} {rate(knl, n, dtype, options.rounds):6.1f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
