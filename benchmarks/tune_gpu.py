"""Tune a matrix product and the 18x18 Laplacian on GPUs, by CUDA and by OpenCL.

Prints the best configuration of each with the time that it took, as a part of what cuBLAS reaches
(through PyTorch, where it is), of the roofline, and of the best schedule by hand: the one that the
space has, and those of a file of schedules. Then the time of one tune on 1, 2... GPUs.

    python benchmarks/tune_gpu.py --gpus 1,2 --seconds 30 --hand FILE.py --json tune.json

The file of results is written after each case, so that what was measured stays when a run is
ended. A case that fails is noted, and the next one follows; none begins after the deadline:

    python benchmarks/tune_gpu.py --auto --api cuda --cases product --deadline 120 --json auto.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kgen as lp
from kgen.tuning.result import TuneResult

TARGETS: Mapping[str, Callable[[], lp.TargetBase]] = {
    "cuda": lp.PyCudaTarget,
    "opencl": lp.PyOpenCLTarget,
}
#: The device of each, by a part of the name of its driver; the first one of CUDA.
DEVICES = {"cuda": None, "opencl": "nvidia"}
#: Numbers in a vector of 16 bytes.
LANES = 4


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kernel with its space, and the schedules that it is compared with."""

    title: str
    size: int
    #: without a schedule
    kernel: lp.TranslationUnit
    build: Callable[..., lp.TranslationUnit]
    tune_params: Mapping[str, list[Any]]
    restrictions: tuple[str, ...]
    reference: Callable[..., Any]
    #: operations, or bytes, of one call
    work: float
    unit: str
    #: the configuration that was found by hand
    by_hand: Mapping[str, Any]
    #: names of functions of a file of schedules, and their arguments
    schedules: tuple[str, ...] = ()


def product(n: int, target: lp.TargetBase) -> Case:
    """Return c = a b: blocks in shared memory, pieces of them in registers."""
    kernel = lp.make_kernel(
        f"{{ [i, j, k]: 0 <= i, j, k < {n} }}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float32, shape=(n, n))],
        target=target,
        name="product",
    )

    def build(li: int, lj: int, mi: int, mj: int, bk: int, registers: bool) -> lp.TranslationUnit:
        knl = kernel
        wide_i, wide_j = LANES * li, LANES * lj
        knl = in_pieces(knl, "i", wide_i, mi, "1")
        knl = in_pieces(knl, "j", wide_j, mj, "0")
        knl = lp.split_iname(knl, "k", bk)
        around = "i_outer, k_outer, j_outer"
        for name, sweep, new in (
            ("a", ["ih", "il", "ir", "k_inner"], ["ai", "ak"]),
            ("b", ["jh", "jl", "jr", "k_inner"], ["bk", "bj"]),
        ):
            knl = lp.add_prefetch(
                knl,
                name,
                sweep,
                new,
                default_tag=None,
                fetch_outer_inames=around,
                temporary_name=f"{name}_s",
                temporary_address_space=lp.AddressSpace.LOCAL,
            )
        knl = lp.tag_array_axes(knl, "a_s", "N0,N1")
        vector = "vec" if registers else "unr"
        knl = lp.split_iname(knl, "ak", LANES, inner_tag=vector)
        knl = lp.split_iname(knl, "ai", lj * LANES // bk)
        knl = lp.join_inames(knl, ["ai_inner", "ak_outer"], "al", tag="l.0")
        knl = lp.split_iname(knl, "ai_outer", li, outer_tag="unr", inner_tag="l.1")
        knl = lp.split_iname(knl, "bj", LANES, inner_tag=vector)
        knl = lp.split_iname(knl, "bj_outer", lj, outer_tag="unr", inner_tag="l.0")
        knl = lp.split_iname(knl, "bk", li, outer_tag="unr", inner_tag="l.1")
        if registers:
            knl = to_registers(knl, wide_i, wide_j, around)
        return lp.tag_inames(knl, "k_inner:unr")

    return Case(
        title=f"f32 product, {n}",
        size=n,
        kernel=kernel,
        build=build,
        tune_params={
            "li": [8, 16],
            "lj": [8, 16, 32],
            "mi": [1, 2, 4],
            "mj": [1, 2, 4],
            "bk": [8, 16, 32],
            "registers": [False, True],
        },
        restrictions=(
            "64 <= li*lj <= 512",
            "mi*mj <= 8",
            "lj*4 % bk == 0",
            f"{n} % (4*li*mi) == 0 and {n} % (4*lj*mj) == 0",
        ),
        reference=lambda a, b: a @ b,
        work=2.0 * n**3,
        unit="TF/s",
        by_hand={"li": 16, "lj": 16, "mi": 2, "mj": 2, "bk": 16, "registers": True},
        schedules=("mm", "mm_pipe", "mm_warp"),
    )


def in_pieces(
    knl: lp.TranslationUnit, name: str, wide: int, count: int, axis: str
) -> lp.TranslationUnit:
    """Split a loop into work-groups, pieces of *wide*, and in these work-items with vectors."""
    block, high, quarter = f"{name}b", f"{name}h", f"{name}q"
    knl = lp.split_iname(knl, name, wide * count, outer_tag=f"g.{axis}", inner_iname=block)
    knl = lp.split_iname(knl, block, wide, outer_iname=high, inner_iname=quarter, outer_tag="ilp")
    return lp.split_iname(
        knl,
        quarter,
        LANES,
        outer_iname=f"{name}l",
        inner_iname=f"{name}r",
        outer_tag=f"l.{axis}",
        inner_tag="ilp",
    )


def to_registers(
    knl: lp.TranslationUnit, wide_i: int, wide_j: int, around: str
) -> lp.TranslationUnit:
    """Load what a work-item needs of shared memory into registers, by vectors."""
    kernel = knl.default_entrypoint
    aligned = {
        name: kernel.temporary_variables[name].copy(alignment=4 * LANES) for name in ("a_s", "b_s")
    }
    knl = knl.with_kernel(
        kernel.copy(temporary_variables={**kernel.temporary_variables, **aligned})
    )
    knl = lp.split_array_axis(knl, "a_s", 0, wide_i)
    knl = lp.split_array_axis(knl, "b_s", 1, wide_j)
    outer = f"{around}, k_inner, il, jl"
    for name, sweep, new in (
        ("a_s", ["ih", "ir"], ["rh", "rr"]),
        ("b_s", ["jh", "jr"], ["sk", "sh", "sr"]),
    ):
        knl = lp.add_prefetch(
            knl,
            name,
            sweep,
            new,
            default_tag=None,
            temporary_name=f"{name[0]}_r",
            fetch_outer_inames=outer,
        )
    tags = {"rh": "unr", "rr": "vec", "sh": "unr", "sr": "vec"}
    inames = knl.default_entrypoint.inames  # of one piece there is no loop over pieces
    return lp.tag_inames(knl, {name: tag for name, tag in tags.items() if name in inames})


def laplacian(n: int, target: lp.TargetBase) -> Case:
    """Return five points on a square: a tile with its halo in shared memory, or none."""
    kernel = lp.make_kernel(
        f"{{ [i, j]: 0 <= i, j < {n} }}",
        "out[i, j] = u[i+1, j+1]**2 - 1 - 4*u[i+1, j+1] "
        "+ u[i+2, j+1] + u[i, j+1] + u[i+1, j+2] + u[i+1, j]",
        [
            lp.GlobalArg("u", np.float32, shape=(n + 2, n + 2)),
            lp.GlobalArg("out", np.float32, shape=(n, n)),
        ],
        target=target,
        name="laplacian",
    )

    def build(li: int, lj: int, rows: int, fetch: bool) -> lp.TranslationUnit:
        knl = kernel
        knl = lp.split_iname(knl, "i", li * rows, outer_tag="g.1")
        knl = lp.split_iname(
            knl, "i_inner", rows, outer_tag="l.1", inner_tag="ilp", outer_iname="il"
        )
        knl = lp.split_iname(knl, "j", lj, outer_tag="g.0", inner_tag="l.0")
        if fetch:
            knl = lp.add_prefetch(
                knl, "u", ["il", "i_inner_inner", "j_inner"], fetch_bounding_box=True
            )
        return knl

    return Case(
        title=f"Laplacian, {n}",
        size=n,
        kernel=kernel,
        build=build,
        tune_params={
            "li": [1, 2, 4, 8, 16],
            "lj": [16, 32, 64, 128, 256],
            "rows": [1, 2, 4, 8, 16],
            "fetch": [False, True],
        },
        restrictions=("64 <= li*lj <= 1024", f"{n} % (li*rows) == 0"),
        reference=five_points,
        work=4.0 * (n**2 + (n + 2) ** 2),
        unit="TB/s",
        by_hand={"li": 2, "lj": 128, "rows": 8, "fetch": False},
        schedules=("lap2_bench", "lap2"),
    )


def five_points(u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    mid = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return np.asarray(mid**2 - 1 - 4 * mid + around)


CASES: Mapping[str, Callable[[lp.TargetBase], Case]] = {
    **{
        name: partial(product, n)
        for name, n in (("product", 4096), ("product512", 512), ("product2048", 2048))
    },
    "laplacian": lambda target: laplacian(8192, target),
}


def run(
    case: Case, device: Any, seconds: float | None, evaluations: int | None, *, auto: bool = False
) -> TuneResult:
    given = (case.build, case.tune_params)
    return lp.tune(
        *((lp.auto_space(case.kernel),) if auto else given),
        restrictions=() if auto else case.restrictions,
        reference=case.reference,
        device=device,
        seconds=seconds,
        evaluations=evaluations,
        roofline=None if evaluations is None else False,
        timeout=60,
    )


def by_hand(case: Case, device: Any, file: Path | None) -> dict[str, float]:
    """Return the times of schedules by hand: of the space, and of a file for CUDA."""
    found = lp.tune(
        case.build,
        {name: [value] for name, value in case.by_hand.items()},
        reference=case.reference,
        device=device,
        roofline=False,
        timeout=60,
    )
    times = {"in the space": found.best.time}
    if file is None:
        return times
    sys.path.insert(0, str(file.resolve().parent))
    module = importlib.import_module(file.stem)
    timed = lp.tune(
        lambda name: getattr(importlib.import_module(module.__name__), name)(),
        {"name": list(case.schedules)},
        reference=case.reference,
        device=device,
        roofline=False,
        timeout=60,
    )
    measured = timed.searches[0].measured
    return times | {r.configuration["name"]: r.time for r in measured if r.time is not None}


def cublas_seconds(n: int) -> float | None:
    """Return the time of PyTorch's product without TF32, where PyTorch and a device are."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.rand(n, n, device="cuda") for _ in range(2))
    times: list[float] = []
    for _ in range(12):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.matmul(a, b)
        stop.record()
        torch.cuda.synchronize()
        times.append(1e-3 * start.elapsed_time(stop))
    return sorted(times[2:])[len(times[2:]) // 2]


def report(name: str, api: str, options: argparse.Namespace) -> dict[str, Any]:
    """Tune one case on one device; print and return the result."""
    case = CASES[name](TARGETS[api]())
    device = options.device or DEVICES[api]
    start = time.perf_counter()
    result = run(case, device, options.seconds, None, auto=options.auto)
    took = time.perf_counter() - start
    search, best = result.searches[0], result.best
    print(f"\n{case.title}, {api}: {case.work / best.time / 1e12:.2f} {case.unit}, {best}")
    print(
        f"  {took:.1f} s for {len(search.records)} of {len(search.space)} configurations",
        flush=True,
    )
    is_listed = api == "cuda" and name in ("product", "laplacian")  # of these sizes
    hand = by_hand(case, device, options.hand if is_listed else None)
    peers = {f"by hand, {name}": seconds for name, seconds in hand.items()}
    if search.roofline_s is not None:
        peers["roofline"] = search.roofline_s
    if "product" in case.title and (cublas := cublas_seconds(case.size)) is not None:
        peers["cuBLAS"] = cublas
    for cause, found in result.failures.items():
        print(f"  {len(found)} failed: {cause}, such as {dict(found[0].configuration)}")
        print("    " + "\n    ".join(found[0].message.splitlines()[:12]))
    for peer, seconds in peers.items():
        print(f"  {seconds / best.time:5.2f} of {peer} ({seconds * 1e3:.3f} ms)")
    for note in result.notes:
        print(f"  note: {note}")
    return {
        "case": case.title,
        "api": api,
        "best": dict(best.configuration),
        "seconds": best.time,
        "interval": best.interval,
        "took": took,
        "tried": len(search.records),
        "peers": peers,
    }


def report_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Tune one case after the other until the deadline; write the results after each."""
    end = time.monotonic() + options.deadline
    made: list[dict[str, Any]] = []
    for api in options.api.split(","):
        for name in options.cases.split(","):
            left = end - time.monotonic()
            if left <= 0:
                print(f"{name}, {api}: not begun before the deadline", flush=True)
                continue
            options.seconds = min(options.seconds, left)
            try:
                made.append(report(name, api, options))
            except lp.KgenError as err:
                print(f"{name}, {api}: {err}", flush=True)
                made.append({"case": name, "api": api, "error": str(err)})
            sys.stdout.flush()
            write(options.json, made, [])
    return made


def write(file: Path | None, tunes: list[dict[str, Any]], scaled: list[dict[str, Any]]) -> None:
    if file is not None:
        file.write_text(json.dumps({"tunes": tunes, "scaling": scaled}, indent=1))


def scaling(case: Case, counts: list[int], evaluations: int) -> list[dict[str, Any]]:
    """Return the time of one tune on some numbers of devices; nothing is compiled before."""
    rows = []
    for count in counts:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["KGEN_CACHE_DIR"] = cache
            start = time.perf_counter()
            result = run(case, [str(k) for k in range(count)], None, evaluations)
            took = time.perf_counter() - start
            del os.environ["KGEN_CACHE_DIR"]
        print(f"{case.title} on {count} GPUs: {evaluations} configurations in {took:.1f} s")
        rows.append({"gpus": count, "took": took, "best": result.best.time})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", default="cuda,opencl", help="of cuda, opencl")
    parser.add_argument("--cases", default="product,laplacian")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each tune")
    parser.add_argument("--gpus", default="", help="numbers of devices to compare, such as 1,2")
    parser.add_argument("--evaluations", type=int, default=48, help="of each of these tunes")
    parser.add_argument("--device", help="a part of the name of the device, or its driver's")
    parser.add_argument("--auto", action="store_true", help="tune the space of auto_space")
    parser.add_argument("--hand", type=Path, help="a file of schedules")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds for all cases")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tunes = report_all(options)
    if options.gpus:
        counts = [int(count) for count in options.gpus.split(",")]
        case = CASES["product"](lp.PyCudaTarget())
        write(options.json, tunes, scaling(case, counts, options.evaluations))


if __name__ == "__main__":
    main()
