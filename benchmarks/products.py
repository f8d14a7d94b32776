"""Time matrix products scheduled by ``autoschedule`` through CUDA, beside PyTorch (cuBLAS).

Either factor may be transposed; products of a matrix with its own transpose follow. Prints TFLOP/s
as the median of many launches, and the ratio to ``torch.matmul`` in the same run; results are
compared with PyTorch's. Needs pycuda, a device and PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
from typing import Any

import pycuda.driver as drv
from gpu import seconds

import kgen as lp

#: Types, and the precision on tensor cores that suffices for float32.
KINDS = (("float32", None), ("float32", "3xtf32"), ("float64", None), ("float16", None))


def scheduled(size: int, kind: tuple[str, str | None], a: str, b: str) -> lp.TranslationUnit:
    """Return the scheduled kernel that sums ``a*b``, two accesses, over ``k``."""
    dtype, precision = kind
    knl = lp.make_kernel(
        f"{{ [i, j, k]: 0 <= i, j, k < {size} }}",
        f"c[i, j] = sum(k, {a}*{b})",
        [lp.GlobalArg(",".join(sorted({"c", a[0], b[0]})), dtype), "..."],
        target=lp.PyCudaTarget(capability=drv.Context.get_device().compute_capability()),
        name="product",
        silenced_warnings="vectorize_failed*",  # tiles that are transposed as they are stored
    )
    return lp.autoschedule(knl, precision=precision)


def product(
    size: int, kind: tuple[str, str | None], is_a_turned: bool, is_b_turned: bool
) -> lp.TranslationUnit:
    """Return the product of two matrices, each of which may be transposed in memory."""
    a = "a[k, i]" if is_a_turned else "a[i, k]"
    b = "b[j, k]" if is_b_turned else "b[k, j]"
    return scheduled(size, kind, a, b)


def self_product(size: int, kind: tuple[str, str | None], is_turned: bool) -> lp.TranslationUnit:
    """Return the product of a matrix, which may be transposed in memory, with its transpose."""
    a, b = ("a[k, i]", "a[k, j]") if is_turned else ("a[i, k]", "a[j, k]")
    return scheduled(size, kind, a, b)


def compare(knl: lp.TranslationUnit, name: str, *factors: Any, rounds: int) -> str:
    """Check ``knl`` against the product of two factors, and return a line with both rates.

    A transposed factor is a view; its array is passed to the kernel as it lies in memory.
    """
    torch: Any = importlib.import_module("torch")
    one, two = factors
    arrays = [x if x.is_contiguous() else x.T for x in factors]
    c = torch.zeros_like(arrays[0])
    is_self = arrays[0].data_ptr() == arrays[1].data_ptr()
    launch = knl.executor().bind(a=arrays[0], c=c, **({} if is_self else {"b": arrays[1]}))
    launch()
    torch.testing.assert_close(c, one @ two, rtol=1e-3, atol=1e-3)
    flops = 2 * c.shape[0] ** 3
    rates = [flops / seconds(f, rounds) / 1e12 for f in (launch, lambda: one @ two)]
    ratio = rates[0] / rates[1]
    return f"{name:12}  kgen {rates[0]:6.1f}  PyTorch {rates[1]:6.1f}  {ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    torch.cuda.set_stream(torch.cuda.default_stream())
    print(f"TFLOP/s, {options.size} x {options.size}; N, T: transposed or not, A: with itself")
    size, rounds = options.size, options.rounds
    for kind in KINDS:
        dtype, precision = getattr(torch, kind[0]), kind[1] or kind[0]
        a, b = (torch.rand(size, size, device="cuda", dtype=dtype) for _ in range(2))
        for turned in itertools.product((False, True), repeat=2):
            factors = [x.T if is_turned else x for x, is_turned in zip((a, b), turned, strict=True)]
            name = f"{precision} {''.join('NT'[is_turned] for is_turned in turned)}"
            knl = product(size, kind, *turned)
            print(compare(knl, name, *factors, rounds=rounds), flush=True)
        for is_turned in (False, True):
            factors = [a.T, a] if is_turned else [a, a.T]
            knl = self_product(size, kind, is_turned)
            name = f"{precision} {'TN' if is_turned else 'NT'} A"
            print(compare(knl, name, *factors, rounds=rounds), flush=True)


if __name__ == "__main__":
    main()
