"""Tune matrix products and Laplacians from ``auto_space``: no schedule, and no space, by hand.

Prints the best configuration of each kernel and the time that the search took; then that kernel's
speed as a part of the best known schedule's (timed alternately), of the roofline, and of BLAS:
cuBLAS through PyTorch where it is, on the host numpy's. Kernels and schedules by hand are those of
examples/gpu, and on the host those of host.py.

    python benchmarks/auto_tune.py --api cuda,opencl --seconds 30 --json tune.json
    python benchmarks/auto_tune.py --api c --cases product512,laplacian
    python benchmarks/auto_tune.py --api cuda --cases product4096 --gpus 1,2  # time on 1, 2 GPUs

The file of results is written after each case, so that what was measured stays when a run is
ended. A case that fails is noted, and the next one follows; none begins after the deadline.
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
    "c": lp.ExecutableCTarget,
}
#: The device of each, by a part of the name of its driver; the first one of CUDA.
DEVICES = {"cuda": None, "opencl": "nvidia", "c": None}
EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "gpu"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kernel of fixed size without a schedule, and the same with the best schedule by hand."""

    title: str
    kernel: lp.TranslationUnit
    by_hand: lp.TranslationUnit
    reference: Callable[..., Any]
    #: operations, or bytes, of one call
    work: float
    unit: str
    #: n of a product of n x n matrices
    product_of: int | None = None


def matrix_product(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(a @ b)


def five_points(u: np.ndarray[Any, Any], side: int = 1) -> np.ndarray[Any, Any]:
    """Return the Laplacian inside of *u*, which has *side* columns around it."""
    u = u[:, side - 1 : u.shape[1] - side + 1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return np.asarray(around - 4 * u[1:-1, 1:-1])


def product(n: int, api: str) -> Case:
    """Return the product of two float32 matrices."""
    if api == "c":
        kernel, by_hand = of_host("matmul", n)
    else:
        example = of_examples("product", "product, float32")
        kernel = example.kernel(n, TARGETS[api]())
        by_hand = example.schedule(kernel)
    return Case(
        title=f"float32 product, {n}",
        kernel=kernel,
        by_hand=by_hand,
        reference=matrix_product,
        work=2e-12 * n**3,
        unit="TFLOP/s",
        product_of=n,
    )


def padded_laplacian(n: int, api: str) -> Case:
    """Return five points with rows that begin at multiples of a vector."""
    example = of_examples("stencils", "5 points")
    kernel = example.kernel(n, TARGETS[api]())
    return Case(
        title=f"5 points, aligned, {n}",
        kernel=kernel,
        by_hand=example.schedule(kernel),
        reference=partial(five_points, side=4),
        work=8e-12 * n**2,
        unit="TB/s",
    )


def laplacian(n: int, api: str) -> Case:
    """Return five points, as in tutorials, which fetch 18 x 18 elements for groups of 16 x 16."""
    if api == "c":
        kernel, by_hand = of_host("laplacian", n)
    else:
        kernel = lp.make_kernel(
            f"{{ [i, j]: 0 <= i, j < {n} }}",
            "out[i, j] = u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2] - 4*u[i+1, j+1]",
            [
                lp.GlobalArg("u", np.float32, shape=(n + 2, n + 2)),
                lp.GlobalArg("out", np.float32, shape=(n, n)),
            ],
            target=TARGETS[api](),
            name="laplacian",
        )
        by_hand = lp.split_iname(kernel, "i", 16, outer_tag="g.1")
        by_hand = lp.split_iname(by_hand, "i_inner", 8, outer_tag="l.1", inner_tag="ilp")
        by_hand = lp.split_iname(by_hand, "j", 128, outer_tag="g.0", inner_tag="l.0")
    size = kernel.default_entrypoint.arg_dict["u"].dtype.itemsize
    return Case(
        title=f"5 points, {n}",
        kernel=kernel,
        by_hand=by_hand,
        reference=five_points,
        work=1e-12 * size * (n**2 + (n + 2) ** 2),
        unit="TB/s",
    )


def of_examples(module: str, title: str) -> Any:
    """Return the case of examples/gpu with this title."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    cases = importlib.import_module(module).CASES
    return next(case for case in cases if case.title == title)


def of_host(name: str, n: int) -> tuple[lp.TranslationUnit, lp.TranslationUnit]:
    """Return a kernel of host.py for one size, without a schedule and with the one by hand."""
    kernels = importlib.import_module("host_kernels")
    both = kernels.PLAIN[name](), kernels.KERNELS[name]()
    plain, by_hand = (lp.fix_parameters(program, n=n) for program in both)
    return plain, by_hand


CASES: Mapping[str, Callable[[str], Case]] = {
    **{f"product{n}": partial(product, n) for n in (512, 1024, 2048, 4096)},
    "laplacian": partial(laplacian, 8192),
    "padded_laplacian": partial(padded_laplacian, 8192),
}


def tune(case: Case, device: Any, seconds: float | None, evaluations: int | None) -> TuneResult:
    return lp.tune(
        lp.auto_space(case.kernel),
        reference=case.reference,
        device=device,
        seconds=seconds,
        evaluations=evaluations,
        roofline=None if evaluations is None else False,
        timeout=60,
    )


def beside_the_best_by_hand(case: Case, found: TuneResult, device: Any) -> dict[str, float]:
    """Return the seconds of the tuned kernel and of the best known, timed alternately.

    Nothing is checked again: threads of BLAS, which computes the reference, would take processors.
    """
    programs = {"tuned": found.best.kernel, "by hand": case.by_hand}
    compared = lp.tune(
        lambda program: programs[program],
        {"program": list(programs)},
        check=False,
        device=device,
        roofline=False,
        timeout=60,
    )
    measured = compared.searches[0].measured
    return {r.configuration["program"]: r.time for r in measured if r.time is not None}


def blas_seconds(n: int, api: str) -> float | None:
    """Return the time of a product of float32 by BLAS, on a GPU if PyTorch is there."""
    if api == "c":
        a, b = np.random.default_rng(1).random((2, n, n), dtype=np.float32)
        out = np.empty_like(a)
        return median_seconds(lambda: np.matmul(a, b, out=out), lambda: None)
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b, out = (torch.rand(n, n, device="cuda") for _ in range(3))
    return median_seconds(lambda: torch.matmul(a, b, out=out), torch.cuda.synchronize)


def median_seconds(call: Callable[[], object], wait: Callable[[], None], rounds: int = 10) -> float:
    """Return the median time of a call, in batches that take at least 5 ms."""
    call()
    wait()
    times: list[float] = []
    count = 1
    while len(times) < rounds:
        start = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        took = time.perf_counter() - start
        if took < 5e-3:
            count *= 2
        else:
            times.append(took / count)
    return sorted(times)[len(times) // 2]


def report(name: str, api: str, device: str | None, seconds: float) -> dict[str, Any]:
    """Tune one case on one device; print and return the result."""
    case = CASES[name](api)
    start = time.perf_counter()
    result = tune(case, device, seconds, None)
    took = time.perf_counter() - start
    search, best = result.searches[0], result.best
    times = beside_the_best_by_hand(case, result, device)
    tuned = times.pop("tuned", best.time)
    if search.roofline_s is not None:
        times["roofline"] = search.roofline_s
    if case.product_of is not None and (blas := blas_seconds(case.product_of, api)) is not None:
        times["BLAS"] = blas
    print(f"\n{case.title}, {api}: {case.work / tuned:.3g} {case.unit}, {best}")
    print(f"  {took:.1f} s for {len(search.records)} of {len(search.space)} configurations")
    for cause, found in result.failures.items():
        print(f"  {len(found)} failed: {cause}, such as {dict(found[0].configuration)}")
        print("    " + "\n    ".join(found[0].message.splitlines()[:12]))
    for peer, its_s in times.items():
        print(f"  {its_s / tuned:5.2f} of {peer} ({its_s * 1e3:.3f} ms)")
    for note in result.notes:
        print(f"  note: {note}")
    return {
        "case": case.title,
        "api": api,
        "best": dict(best.configuration),
        "seconds": tuned,
        "interval": best.interval,
        "took": took,
        "tried": len(search.records),
        "of": len(search.space),
        "peers": times,
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
            device = options.device or DEVICES[api]
            try:
                made.append(report(name, api, device, min(options.seconds, left)))
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
            result = tune(case, [str(k) for k in range(count)], None, evaluations)
            took = time.perf_counter() - start
            del os.environ["KGEN_CACHE_DIR"]
        print(f"{case.title} on {count} GPUs: {evaluations} configurations in {took:.1f} s")
        rows.append({"gpus": count, "took": took, "best": result.best.time})
    return rows


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--api", default="cuda,opencl", help="of cuda, opencl, c")
    parser.add_argument("--cases", default="product4096,laplacian", help=f"of {', '.join(CASES)}")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each tune")
    parser.add_argument("--gpus", default="", help="numbers of devices to compare, such as 1,2")
    parser.add_argument("--evaluations", type=int, default=48, help="of each of these tunes")
    parser.add_argument("--device", help="a part of the name of the device, or its driver's")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds for all cases")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tunes = report_all(options)
    if options.gpus:
        counts = [int(count) for count in options.gpus.split(",")]
        write(
            options.json, tunes, scaling(CASES["product4096"]("cuda"), counts, options.evaluations)
        )


if __name__ == "__main__":
    main()
