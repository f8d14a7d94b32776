"""Time one step of Jacobi's iteration in kgen and in Triton, on tensors of PyTorch on a GPU.

    python benchmarks/jacobi_gpu.py [--n 8192] [--rounds 20]

kgen has two schedules: the one that ``autoschedule`` finds, and eight rows for each work-item, as
docs/fast_stencil.md writes it. All alternate; the least time counts, by events. The limit is a
device-to-device copy of the same number of bytes. Results are first compared with PyTorch's.
"""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import kgen as lp

sys.path.insert(0, str(Path(__file__).parent / "jacobi"))
from in_triton import step as step_in_triton


def kernel() -> lp.TranslationUnit:
    """Return the kernel, without a schedule."""
    return lp.make_kernel(
        "{ [i, j]: 1 <= i, j < n - 1 }",
        "out[i, j] = 0.25*(u[i-1, j] + u[i+1, j] + u[i, j-1] + u[i, j+1])",
        [lp.GlobalArg("u, out", "float32", shape="n, n"), ...],
        target=lp.PyCudaTarget(),
        assumptions="3 <= n <= 40000",
    )


def rows_each(rows: int = 8, lanes: int = 128, group: int = 2) -> lp.TranslationUnit:
    """Let each work-item compute several rows."""
    knl = lp.split_iname(kernel(), "i", rows * group, outer_tag="g.1")
    knl = lp.split_iname(knl, "i_inner", rows, outer_tag="l.1", inner_tag="ilp")
    return lp.split_iname(knl, "j", lanes, outer_tag="g.0", inner_tag="l.0")


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds of a call on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return 1e-3 * begin.elapsed_time(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    u = torch.rand((args.n, args.n), device="cuda")
    expected = u.clone()
    expected[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    stream = torch.cuda.current_stream()
    out = u.clone()
    bound = {
        "kgen, autoschedule": lp.autoschedule(kernel()).executor().bind(u=u, out=out),
        "kgen, 8 rows each": rows_each().executor().bind(u=u, out=out),
    }
    calls: dict[str, Callable[[], object]] = {
        name: (lambda launch=launch: launch(stream)) for name, launch in bound.items()
    }
    calls["triton, blocks of 8 x 128"] = lambda: step_in_triton(u, out)
    for name, call in calls.items():
        out.copy_(u)
        call()
        torch.cuda.synchronize()
        error = (out - expected).abs().max().item()
        if not error < 1e-6:
            raise SystemExit(f"{name}: the error is {error}")
    calls["copy"] = lambda: out.copy_(u)
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(args.rounds):
        for name, call in calls.items():
            best[name] = min(best[name], seconds(call))
    print(f"{torch.cuda.get_device_name()}, {args.n} x {args.n} float32\n")
    print("| | microseconds | relative to the copy |\n|---|--:|--:|")
    for name, time in best.items():
        print(f"| {name} | {1e6 * time:.1f} | {best['copy'] / time:.2f} |")


if __name__ == "__main__":
    main()
