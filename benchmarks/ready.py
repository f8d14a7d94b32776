"""Time ready kernels and those of pyopencl, or on CUDA those of CuPy and PyTorch.

Prints GB/s of minimal traffic (each array read or written once; for sorts, once for all passes),
and the time of the other as a multiple of kgen's, where more than 1 means that kgen is faster. All
alternate in one run; each figure is that of the least disturbed call. Results are compared first.

    python benchmarks/ready.py                    # OpenCL: PoCL, or what --platform names
    python benchmarks/ready.py --device cuda      # CUDA: beside CuPy and PyTorch where they are
    python benchmarks/ready.py --only sort,scan   # some operations

Exits with 1 if a result is wrong or, on OpenCL, pyopencl is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgen.algorithm import RadixSort
from kgen.elementwise import ElementwiseKernel
from kgen.reduction import ReductionKernel
from kgen.scan import InclusiveScanKernel

Call = Callable[[], Any]
Peers = Mapping[str, Callable[[dict[str, Any]], Call]]

#: The minimum bytes that an operation moves for each element.
BYTES = {"elementwise": 12, "reduction": 4, "scan": 8, "sort": 8}


@dataclass(frozen=True)
class Device:
    """The device of the arrays, how to wait for it, and other implementations of the operations."""

    name: str
    to_device: Callable[[np.ndarray[Any, Any]], Any]
    to_host: Callable[[Any], np.ndarray[Any, Any]]
    wait: Callable[[], None]
    peers: Mapping[str, Peers]
    forgets: Callable[[], None] = lambda: None


def kernels() -> dict[str, Callable[[dict[str, Any]], Call]]:
    """Return the calls of kgen's kernels, by operation."""
    axpy = ElementwiseKernel("float a, float *x, float *y, float *z", "z[i] = a*x[i] + y[i]")
    total = ReductionKernel(np.float32, "0", "a+b", "x[i]", "float *x")
    scan = InclusiveScanKernel(np.int32, "a+b")
    sort = RadixSort("unsigned *x", "x[i]", ["x"])
    two = np.float32(2)
    return {
        "elementwise": lambda d: lambda: (axpy(two, d["x"], d["y"], d["z"]), d["z"])[1],
        "reduction": lambda d: lambda: total(d["x"]),
        "scan": lambda d: lambda: scan(d["k"], d["out"]),
        "sort": lambda d: lambda: sort(d["u"])[0][0],
    }


def random_words(size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(size).integers(0, 2**32, size, dtype=np.uint32)


def random_numbers(size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(size).random(size, dtype=np.float32)


#: Functions that create the arrays of an operation, by name.
INPUTS: dict[str, Callable[[int], np.ndarray[Any, Any]]] = {
    "x": random_numbers,
    "y": lambda size: random_numbers(size)[::-1].copy(),
    "z": lambda size: np.zeros(size, np.float32),
    "k": lambda size: (random_words(size) & 3).astype(np.int32),
    "out": lambda size: np.zeros(size, np.int32),
    "u": random_words,
}
NEEDS = {"elementwise": "xyz", "reduction": "x", "scan": ("k", "out"), "sort": "u"}
EXPECTED: dict[str, Callable[[dict[str, np.ndarray[Any, Any]]], Any]] = {
    "elementwise": lambda d: 2 * d["x"] + d["y"],
    "reduction": lambda d: d["x"].sum(dtype=np.float64),
    "scan": lambda d: np.cumsum(d["k"], dtype=np.int32),
    "sort": lambda d: d["u"].sum(dtype=np.uint64),
}


# -- devices -------------------------------------------------------------------------------------


def open_opencl(wanted: str) -> Device:
    """Return an OpenCL device, with pyopencl's classes and kgen's."""
    import pyopencl as cl
    import pyopencl.array as cla
    from pyopencl.algorithm import RadixSort as PeerSort
    from pyopencl.elementwise import ElementwiseKernel as PeerElementwise
    from pyopencl.reduction import ReductionKernel as PeerReduction
    from pyopencl.scan import InclusiveScanKernel as PeerScan

    found = [d for p in cl.get_platforms() if wanted in p.name.lower() for d in p.get_devices()]
    context = cl.Context(found[:1])
    queue = cl.CommandQueue(context)
    axpy = PeerElementwise(context, "float a, float *x, float *y, float *z", "z[i] = a*x[i] + y[i]")
    total: Any = PeerReduction(
        context, np.float32, "0", "a+b", map_expr="x[i]", arguments="__global float *x"
    )
    scan = PeerScan(context, np.dtype(np.int32), "a+b", neutral="0")
    sort = PeerSort(context, "unsigned *x", "x[i]", ["x"], key_dtype=np.uint32)
    two = np.float32(2)
    peer: Peers = {
        "elementwise": lambda d: lambda: (axpy(two, d["x"], d["y"], d["z"]), d["z"])[1],
        "reduction": lambda d: lambda: total(d["x"]),
        "scan": lambda d: lambda: scan(d["k"], d["out"]),
        "sort": lambda d: lambda: sort(d["u"], key_bits=32)[0][0],
    }
    return Device(
        found[0].name.strip(),
        lambda array: cla.to_device(queue, array),
        lambda array: np.asarray(array.get()),
        queue.finish,
        {"pyopencl": peer},
    )


def open_cuda(wanted: str) -> Device:
    """Return the CUDA device, with CuPy and PyTorch where they are; both call CUB."""
    import pycuda.autoprimaryctx
    import pycuda.driver as drv
    from pycuda import gpuarray
    from pycuda.tools import DeviceMemoryPool

    pool = DeviceMemoryPool()
    peers: dict[str, Peers] = {}
    forgets: list[Callable[[], None]] = []
    try:
        import cupy

        peers["cupy"] = of_cupy(cupy)
        forgets.append(cupy.get_default_memory_pool().free_all_blocks)
    except ImportError:
        print("CuPy is not installed here", file=sys.stderr)
    try:
        import torch

        peers["torch"] = of_torch(torch)
        forgets.append(torch.cuda.empty_cache)
    except ImportError:
        print("PyTorch is not installed here", file=sys.stderr)

    def forget() -> None:
        pool.free_held()
        for one in forgets:
            one()

    return Device(
        pycuda.autoprimaryctx.device.name(),
        lambda array: gpuarray.to_gpu(array, allocator=pool.allocate),
        lambda array: np.asarray(array.get() if hasattr(array, "get") else array.cpu()),
        drv.Context.synchronize,
        peers,
        forget,
    )


def of_cupy(cupy: Any) -> Peers:
    """Return CuPy's operations on copies of the arrays."""
    axpy = cupy.ElementwiseKernel("T a, T x, T y", "T z", "z = a*x + y", "axpy")
    two = np.float32(2)

    def on(d: dict[str, Any], name: str) -> Any:
        return cupy.asarray(d[name].get())

    def elementwise(d: dict[str, Any]) -> Call:
        x, y, z = (on(d, name) for name in "xyz")
        return lambda: axpy(two, x, y, z)

    def reduction(d: dict[str, Any]) -> Call:
        x = on(d, "x")
        return lambda: cupy.sum(x)

    def scan(d: dict[str, Any]) -> Call:
        k, out = on(d, "k"), on(d, "out")
        return lambda: cupy.cumsum(k, dtype=np.int32, out=out)

    def sort(d: dict[str, Any]) -> Call:
        u = on(d, "u")
        return lambda: cupy.sort(u)

    return {"elementwise": elementwise, "reduction": reduction, "scan": scan, "sort": sort}


def of_torch(torch: Any) -> Peers:
    """Return PyTorch's operations on copies of the arrays; it sorts signed integers."""

    def on(d: dict[str, Any], name: str) -> Any:
        return torch.from_numpy(d[name].get()).cuda()

    def elementwise(d: dict[str, Any]) -> Call:
        x, y, z = (on(d, name) for name in "xyz")
        return lambda: torch.add(y, x, alpha=2, out=z)

    def reduction(d: dict[str, Any]) -> Call:
        x = on(d, "x")
        return lambda: torch.sum(x)

    def scan(d: dict[str, Any]) -> Call:
        k, out = on(d, "k"), on(d, "out")
        return lambda: torch.cumsum(k, 0, dtype=torch.int32, out=out)

    return {"elementwise": elementwise, "reduction": reduction, "scan": scan}


# -- times ---------------------------------------------------------------------------------------


def seconds(call: Call, device: Device, repeats: int) -> float:
    """Return the time of one call; *repeats* of them are made without a wait between."""
    device.wait()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    device.wait()
    return (time.perf_counter() - start) / repeats


def compare(
    calls: Mapping[str, Call], first: Mapping[str, float], device: Device, args: argparse.Namespace
) -> dict[str, float]:
    """Return the least time of each call; all alternate until the time of a row is over.

    A call whose first run, with compilation, took longer than the limit is not timed; kgen's is
    timed once.
    """
    least = dict(first)
    for name in calls:
        if name == "kgen" or first[name] < args.limit:
            least[name] = seconds(calls[name], device, 1)
    turns = [name for name in calls if least[name] < args.limit]
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        for name in turns:
            repeats = max(1, min(100, int(2e-3 / least[name])))
            least[name] = min(least[name], seconds(calls[name], device, repeats))
    return least


def check(operation: str, result: np.ndarray[Any, Any], expected: Any) -> bool:
    if operation == "sort":  # numpy's takes half a minute for the largest
        total = result.sum(dtype=np.uint64)
        return bool((result[1:] >= result[:-1]).all()) and total == expected
    return bool(np.allclose(result, expected, rtol=1e-3 if operation == "reduction" else 1e-6))


def run(device: Device, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Print and return a row for each operation and size."""
    ours = kernels()
    names = ["kgen", *device.peers]
    header = "".join(f"{name:>10}" for name in names) + "".join(
        f"{'/' + name:>10}" for name in device.peers
    )
    rows = []
    too_slow: set[tuple[str, str]] = set()
    for operation in args.only:
        print(f"\n{operation + ', GB/s':22}{header}")
        for exponent in args.exponents:
            inputs = {name: INPUTS[name](1 << exponent) for name in NEEDS[operation]}
            data = {name: device.to_device(array) for name, array in inputs.items()}
            expected = EXPECTED[operation](inputs)
            calls = {"kgen": ours[operation](data)}
            for peer, operations in device.peers.items():
                if operation in operations and (peer, operation) not in too_slow:
                    calls[peer] = operations[operation](data)
            first: dict[str, float] = {}
            wrong = []
            for name, call in calls.items():
                start = time.perf_counter()
                result = call()
                device.wait()
                first[name] = time.perf_counter() - start
                if not check(operation, device.to_host(result), expected):
                    wrong.append(name)
            least = compare(calls, first, device, args)
            too_slow |= {(name, operation) for name, t in least.items() if t > args.limit}
            rates = {
                name: BYTES[operation] * (1 << exponent) / t / 1e9 for name, t in least.items()
            }
            ratios = {name: least[name] / least["kgen"] for name in least if name != "kgen"}
            cells = [f"{rates[name]:10.2f}" if name in rates else f"{'-':>10}" for name in names]
            cells += [
                f"{ratios[name]:10.2f}" if name in ratios else f"{'-':>10}" for name in device.peers
            ]
            print(f"  2^{exponent:<18}{''.join(cells)}{'  WRONG: ' if wrong else ''}{wrong or ''}")
            sys.stdout.flush()
            rows.append(
                {
                    "operation": operation,
                    "exponent": exponent,
                    "seconds": least,
                    "ratios": ratios,
                    "wrong": wrong,
                }
            )
            del data, calls
            device.forgets()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("opencl", "cuda"), default="opencl")
    parser.add_argument("--platform", default="portable", help="a part of the platform's name")
    parser.add_argument("--exponents", type=int, nargs="+", default=[10, 13, 16, 19, 22, 25, 28])
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(BYTES), help="scan,sort"
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument(
        "--limit", type=float, default=5, help="what takes longer runs once, and not for more"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    device = (open_cuda if args.device == "cuda" else open_opencl)(args.platform.lower())
    load = os.getloadavg()[0]
    print(f"{device.name}, {platform.processor() or platform.machine()}, load {load:.1f}")
    rows = run(device, args)
    print(f"load {os.getloadavg()[0]:.1f} after the run")
    if args.json:
        args.json.write_text(json.dumps({"device": device.name, "rows": rows}, indent=1) + "\n")
    is_behind = args.device == "opencl" and any(
        ratio < 1 for row in rows for ratio in row["ratios"].values()
    )
    return 1 if is_behind or any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
