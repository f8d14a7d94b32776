"""Time matrix products scheduled by ``autoschedule`` through CUDA, beside PyTorch (cuBLAS).

Either factor may be transposed. Prints TFLOP/s as the median of many launches, and the ratio to
``torch.matmul`` in the same run; results are compared with PyTorch's. Needs pycuda, a device and
PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
from typing import Any

import pycuda.driver as drv
from gpu import seconds

import kgen as lp

TYPES = ("float32", "float64", "float16")


def product(size: int, dtype: str, is_a_turned: bool, is_b_turned: bool) -> lp.TranslationUnit:
    """Return the product of two matrices, each of which may be transposed in memory."""
    a = "a[k, i]" if is_a_turned else "a[i, k]"
    b = "b[j, k]" if is_b_turned else "b[k, j]"
    knl = lp.make_kernel(
        f"{{ [i, j, k]: 0 <= i, j, k < {size} }}",
        f"c[i, j] = sum(k, {a}*{b})",
        [lp.GlobalArg("a, b, c", dtype), "..."],
        target=lp.PyCudaTarget(capability=drv.Context.get_device().compute_capability()),
        name="product",
        silenced_warnings="vectorize_failed*",  # tiles that are transposed as they are stored
    )
    return lp.autoschedule(knl)


def compare(size: int, dtype: str, turned: tuple[bool, bool], rounds: int) -> str:
    """Check a product, and return a line with both rates."""
    torch: Any = importlib.import_module("torch")
    torch.cuda.set_stream(torch.cuda.default_stream())
    kind = getattr(torch, dtype)
    a, b = (torch.rand(size, size, device="cuda", dtype=kind) for _ in range(2))
    c = torch.zeros_like(a)
    launch = product(size, dtype, *turned).executor().bind(a=a, b=b, c=c)
    one, two = (x.T if is_turned else x for x, is_turned in zip((a, b), turned, strict=True))
    launch()
    torch.testing.assert_close(c, one @ two, rtol=1e-3, atol=1e-3)
    rates = [2 * size**3 / seconds(f, rounds) / 1e12 for f in (launch, lambda: one @ two)]
    name = "".join("NT"[is_turned] for is_turned in turned)
    ratio = rates[0] / rates[1]
    return f"{dtype} {name}  kgen {rates[0]:6.1f}  PyTorch {rates[1]:6.1f}  {ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(f"TFLOP/s, {options.size} x {options.size}; T: transposed")
    for dtype, *turned in itertools.product(TYPES, (False, True), (False, True)):
        print(compare(options.size, dtype, (turned[0], turned[1]), options.rounds), flush=True)


if __name__ == "__main__":
    main()
