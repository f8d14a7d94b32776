"""Time kernels on an NVIDIA GPU through CUDA, and compare them with a copy in the same run.

Prints GB/s of minimal traffic (each array read or written once) as the median of many launches,
short ones of which are in a row, and the fraction of the rate of a device-to-device copy of 1 GiB
in the same run. Results are checked against numpy on a sample of rows. Then the kernels of
examples/gpu with their schedules, with those of ``autoschedule``, and the same in PyTorch (cuBLAS,
cuSPARSE, cuDNN, CUB), all alternately; each result is checked against numpy for a small size and
for the timed one. Needs pycuda and a device; PyTorch is optional.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401  (makes the context that everything below uses)
import pycuda.driver as drv
from pycuda import gpuarray
from sectors import in_padded_tiles

import kgen as lp
from kgen.scan import GenericScanKernel

F32 = np.dtype(np.float32)
EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "gpu"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kernel, its inputs, and a check of its result."""

    title: str
    kernel: lp.TranslationUnit
    inputs: dict[str, np.ndarray[Any, Any]]
    output_shape: tuple[int, ...]
    check: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def make(domain: str, text: str, assumptions: str) -> lp.TranslationUnit:
    return lp.make_kernel(domain, text, target=lp.PyCudaTarget(), assumptions=assumptions)


#: The suffix of the titles of cases that are scheduled by analysis.
FOUND = ", autoschedule"


def axpy(size: int, lanes: int = 1, *, auto: bool = False) -> Case:
    knl = make("{[i]: 0<=i<n}", "out[i] = 2*x[i] + y[i]", "n >= 1")
    if auto:
        knl = lp.autoschedule(lp.add_dtypes(knl, {"x": F32, "y": F32}))
    elif lanes == 1:
        knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    else:
        knl = lp.split_iname(knl, "i", 256 * lanes, outer_tag="g.0")
        knl = lp.split_iname(knl, "i_inner", lanes, outer_tag="l.0", inner_tag="vec")
    rng = np.random.default_rng(1)
    x, y = (rng.random(size, dtype=np.float32) for _ in range(2))
    rows = slice(size - 1000, size)
    return Case(
        title="z = 2x + y" + (FOUND if auto else f", {lanes} lanes" if lanes > 1 else ""),
        kernel=knl,
        inputs={"x": x, "y": y},
        output_shape=(size,),
        check=lambda out: out[rows] - (2 * x[rows] + y[rows]),
    )


def total(size: int, *, auto: bool = False) -> Case:
    """Add everything up: strides of the grid, lanes of warps, then a second launch."""
    knl = make("{[i]: 0<=i<n}", "out = sum(i, a[i])", "n >= 1 and n mod 4 = 0")
    if auto:
        knl = lp.autoschedule(lp.add_dtypes(knl, {"a": F32}))
    else:
        knl = lp.split_iname(knl, "i", 256, inner_tag="l.0")
        knl = lp.split_iname(knl, "i_outer", 4096, inner_tag="g.0")
    a = np.random.default_rng(4).random(size, dtype=np.float32)
    return Case(
        title="sum" + FOUND * auto,
        kernel=knl,
        inputs={"a": a},
        output_shape=(),
        check=lambda out: out / a.sum(dtype=np.float64) - 1,
    )


def running_sums(size: int) -> Case:
    """Scan in one launch, in which work-groups look back: a ready kernel."""
    scan = GenericScanKernel(F32, "float *a, float *out", "a[i]", "a+b", "0", "out[i] = item;")
    a = np.random.default_rng(4).random(size, dtype=np.float32)
    rows = slice(size - 1000, size)
    return Case(
        title="running sums, GenericScanKernel",
        kernel=scan.build(lp.PyCudaTarget()),
        inputs={"a": a},
        output_shape=(size,),
        check=lambda out: out[rows] / np.cumsum(a, dtype=np.float64)[rows] - 1,
    )


def transpose(size: int, *, tile: bool = False, auto: bool = False) -> Case:
    knl = make("{[i,j]: 0<=i,j<n}", "out[i,j] = a[j,i]", "1 <= n <= 40000")
    if auto:
        knl = lp.autoschedule(lp.add_dtypes(lp.assume(knl, "n mod 32 = 0"), {"a": F32}))
    elif tile:
        knl = lp.add_dtypes(lp.assume(knl, "n mod 32 = 0"), {"a": F32})
        knl = in_padded_tiles(knl)
    else:
        knl = lp.split_iname(knl, "i", 32, outer_tag="g.1", inner_tag="l.1")
        knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    a = np.random.default_rng(2).random((size, size), dtype=np.float32)
    rows = slice(size - 10, size)
    return Case(
        title="transpose"
        + (FOUND if auto else ", tile of 32x33, 8x32" if tile else ", 32x32, no tile"),
        kernel=knl,
        inputs={"a": a},
        output_shape=(size, size),
        check=lambda out: out[rows] - a.T[rows],
    )


def laplacian(size: int, *, tile: bool = False, rows_each: int = 1, auto: bool = False) -> Case:
    """Five points; with a *tile* in shared memory, or *rows_each* for each work-item."""
    knl = make(
        "{[i,j]: 0<=i,j<n}",
        "out[i,j] = u[i+1,j+1]**2 - 1 - 4*u[i+1,j+1] "
        "+ u[i+2,j+1] + u[i,j+1] + u[i+1,j+2] + u[i+1,j]",
        "1 <= n <= 40000",
    )
    if auto:
        knl = lp.autoschedule(lp.add_dtypes(knl, {"u": F32}))
    elif rows_each > 1:
        knl = lp.split_iname(knl, "i", 2 * rows_each, outer_tag="g.1")
        knl = lp.split_iname(knl, "i_inner", rows_each, outer_tag="l.1", inner_tag="ilp")
        knl = lp.split_iname(lp.assume(knl, "n mod 128 = 0"), "j", 128)
        knl = lp.tag_inames(knl, "j_outer:g.0, j_inner:l.0")
    else:
        knl = lp.split_iname(knl, "i", 16 if tile else 8, outer_tag="g.1", inner_tag="l.1")
        knl = lp.split_iname(knl, "j", 16 if tile else 32, outer_tag="g.0", inner_tag="l.0")
    if tile:
        knl = lp.assume(knl, "n mod 16 = 0")
        knl = lp.add_prefetch(knl, "u", ["i_inner", "j_inner"], fetch_bounding_box=True)
    u = np.random.default_rng(3).random((size + 2, size + 2), dtype=np.float32)
    rows = slice(size - 10, size)

    def check(out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        v = u[size - 10 : size + 2].astype(np.float64)
        mid = v[1:-1, 1:-1]
        around = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2]
        difference: np.ndarray[Any, Any] = out[rows] - (mid**2 - 1 - 4 * mid + around)
        return difference

    return Case(
        title="5-point Laplacian"
        + (FOUND if auto else ", " + _ways(tile=tile, rows_each=rows_each)),
        kernel=knl,
        inputs={"u": u},
        output_shape=(size, size),
        check=check,
    )


def _ways(*, tile: bool, rows_each: int) -> str:
    if tile:
        return "18x18 fetched"
    return "8x32" if rows_each == 1 else f"2x128, {rows_each} rows each"


def sparse_product(size: int, *, auto: bool = False) -> Case:
    """Multiply the matrix of five points on a square by a vector, a row for each work-item."""
    knl = lp.make_kernel(
        ["{[row]: 0<=row<n}", "{[k]: first<=k<last}"],
        """
        for row
            <> first = starts[row]
            <> last = starts[row + 1]
            out[row] = sum(k, values[k]*x[columns[k]])
        end
        """,
        [
            lp.GlobalArg("values, columns", shape="entries"),
            lp.GlobalArg("x", shape="n"),
            lp.ValueArg("entries", np.int32),
            ...,
        ],
        target=lp.PyCudaTarget(),
        assumptions="n >= 1",
    )
    if auto:
        types = {"values": F32, "columns": np.int32, "starts": np.int32, "x": F32}
        knl = lp.autoschedule(lp.add_dtypes(knl, types), trips={"k": 5})
    else:
        knl = lp.split_iname(knl, "row", 128, outer_tag="g.0", inner_tag="l.0")
    rows = np.arange(size * size).reshape(size, size)
    columns = np.stack([rows, *(np.roll(rows, s, a) for s in (1, -1) for a in (0, 1))], axis=-1)
    columns = np.sort(columns.reshape(-1, 5), axis=1).astype(np.int32)
    values = np.random.default_rng(5).random(columns.shape, dtype=np.float32)
    x = np.random.default_rng(6).random(size * size, dtype=np.float32)
    return Case(
        title="sparse product (CSR), 5 per row" + FOUND * auto,
        kernel=knl,
        inputs={
            "values": values.ravel(),
            "columns": columns.ravel(),
            "starts": np.arange(0, columns.size + 1, 5, dtype=np.int32),
            "x": x,
        },
        output_shape=(size * size,),
        check=lambda out: out - (values * x[columns]).sum(axis=1),
    )


def seconds(launch: Callable[[], Any], rounds: int) -> float:
    """Return the median of the times of launches."""
    return statistics.median(times_of(launch, rounds))


#: The time that launches between two events take at least, in which that of the first one is lost.
AT_LEAST = 1e-3


def times_of(launch: Callable[[], Any], rounds: int) -> list[float]:
    """Return the times of launches in seconds, by device events: means of as many as take a ms."""
    _seconds_of(launch, 3)
    count = math.ceil(AT_LEAST / max(_seconds_of(launch, 1), 1e-6))
    return [_seconds_of(launch, count) / count for _ in range(rounds)]


def _seconds_of(launch: Callable[[], Any], count: int) -> float:
    """Return the time of several launches in a row."""
    start, stop = drv.Event(), drv.Event()
    start.record()
    for _ in range(count):
        launch()
    stop.record()
    stop.synchronize()
    return float(start.time_till(stop)) * 1e-3


def copy_bandwidth(rounds: int) -> float:
    count = 1 << 30
    source, target = drv.mem_alloc(count), drv.mem_alloc(count)
    drv.memset_d32(source, 0x3F9D70A4, count // 4)
    duration = seconds(lambda: drv.memcpy_dtod_async(target, source, count), rounds)
    return 2 * count / duration


def run(case: Case, rounds: int) -> float:
    """Return bytes per second of minimal traffic; checks the result."""
    executor = case.kernel.executor()
    arrays = {name: gpuarray.to_gpu(value) for name, value in case.inputs.items()}
    out = gpuarray.GPUArray(case.output_shape, F32)
    out.fill(np.float32(np.nan))
    duration = seconds(executor.bind(**arrays, out=out), rounds)
    worst = float(np.abs(case.check(out.get())).max())
    if not worst < 1e-4:
        raise SystemExit(f"{case.title}: wrong by {worst}")
    return float(sum(a.nbytes for a in (*arrays.values(), out))) / duration


def examples() -> Iterator[Any]:
    """Yield the cases of examples/gpu."""
    sys.path.insert(0, str(EXAMPLES))
    # tensor.py and product_steps.py time the others, which need ml_dtypes
    others = {EXAMPLES / "tensor_product.py", EXAMPLES / "steps_of_product.py"}
    for path in sorted(set(EXAMPLES.glob("*.py")) - others):
        yield from getattr(importlib.import_module(path.stem), "CASES", ())


def compare(example: Any, rounds: int) -> dict[str, float]:
    """Return the seconds of an example by its schedule, by autoschedule, and in PyTorch.

    ``autoschedule, stated`` gets the example's statements about its data.
    """
    plain = example.kernel(example.size, lp.PyCudaTarget())
    programs = {"kgen": example.schedule(plain)}
    capability = drv.Context.get_device().compute_capability()
    known = example.kernel(example.size, lp.PyCudaTarget(capability=capability))
    if len(found := lp.find_schedule(known)):
        programs["autoschedule"] = found(known)
    if example.stated:
        programs["autoschedule, stated"] = lp.autoschedule(known, **example.stated)
    worst = example.error_of_small(lp.PyCudaTarget())
    if not worst <= example.tolerance:
        raise SystemExit(f"{example.title}, {example.small}: wrong by {worst}")
    given = example.inputs(np.random.default_rng(1), example.size)
    outputs = importlib.import_module("case").outputs_of(plain)
    calls: dict[str, Callable[[], object]] = {}
    for name, program in programs.items():
        arrays = {key: gpuarray.to_gpu(value) for key, value in given.items()}
        for key, arg in outputs.items():
            arrays.setdefault(key, gpuarray.to_gpu(np.zeros(arg.shape, arg.dtype.dtype)))
        executor = program.executor()
        executor(**arrays)
        worst = example.error(arrays[example.result].get(), given)
        if not worst <= example.tolerance:
            raise SystemExit(f"{example.title}, {name}: wrong by {worst}")
        calls[name] = executor.bind(**arrays)
    if example.peer is not None and importlib.util.find_spec("torch"):
        result = outputs[example.result]
        calls["PyTorch"] = _in_torch(example, given, result.shape, result.dtype.dtype)
    return {name: seconds(call, rounds) for name, call in calls.items()}


def _in_torch(
    example: Any, given: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[], object]:
    torch = importlib.import_module("torch")
    torch.cuda.set_stream(torch.cuda.default_stream())
    arrays = {name: torch.from_numpy(value).cuda() for name, value in given.items()}
    arrays.setdefault(example.result, torch.from_numpy(np.zeros(shape, dtype)).cuda())
    call: Callable[[], object] = example.peer(torch, arrays)
    return call


def print_examples(limit: float, rounds: int, only: str) -> dict[str, dict[str, float]]:
    """Compare the examples, and print rates, and ratios to the copy or to PyTorch."""
    found = {}
    for example in examples():
        if only not in example.title:
            continue
        times = found[example.title] = compare(example, rounds)
        scale = 1e9 if example.unit == "GB/s" else 1e12
        work = example.work(example.size)
        rates = [f"{name} {work / time / scale:7.1f}" for name, time in times.items()]
        of = f"{work / times['kgen'] / limit:5.2f} of the copy" if scale == 1e9 else ""
        peer = f"{times['PyTorch'] / times['kgen']:5.2f} x PyTorch" if "PyTorch" in times else ""
        print(f"{example.title:34} {example.unit:8} {'; '.join(rates)}  {of}  {peer}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", metavar="WORDS", help="examples whose title has these words")
    options = parser.parse_args()
    limit = copy_bandwidth(options.rounds)
    device = drv.Context.get_device().name()
    print(f"{device}: copy {limit / 1e9:.0f} GB/s")
    figures = {"copy": limit}
    cases: tuple[Callable[[], Case], ...] = (
        lambda: axpy(1 << 28),
        lambda: axpy(1 << 28, lanes=4),
        lambda: total(1 << 28),
        lambda: running_sums(1 << 28),
        lambda: transpose(8192),
        lambda: transpose(8192, tile=True),
        lambda: laplacian(8192),
        lambda: laplacian(8192, tile=True),
        lambda: laplacian(8192, rows_each=8),
        lambda: sparse_product(2048),
        lambda: axpy(1 << 28, auto=True),
        lambda: total(1 << 28, auto=True),
        lambda: transpose(8192, auto=True),
        lambda: laplacian(8192, auto=True),
        lambda: sparse_product(2048, auto=True),
    )
    for make_case in cases if options.only is None else ():
        case = make_case()
        rate = figures[case.title] = run(case, options.rounds)
        print(f"{case.title:46} {rate / 1e9:7.0f} GB/s  {rate / limit:5.2f} of the copy")
    times = print_examples(limit, options.rounds, options.only or "")
    found = {"device": device, "rates": figures, "seconds": times}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
