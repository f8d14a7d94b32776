"""Time calls of exported functions, and compare them with hand-written ones in one run.

Prints nanoseconds per call, and their ratio: in C, a loop in a function, with and without checks;
in OpenCL, clSetKernelArg and clEnqueueNDRangeKernel; with --cuda, cuLaunchKernel. Exits with 1 if a
ratio exceeds its limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import kgen as lp

#: The timed calls, and the limits of the ratios; None if a ratio is only shown.
LIMITS = {
    "c": None,
    "c_checked": 1.1,
    "opencl_1": 1.1,
    "opencl_100": 1.1,
    "cuda_1": None,
    "cuda_100": None,
}
#: The nanoseconds that are ignored: an empty loop, called by hand, takes one.
NOISE = 1.0
HERE = Path(__file__).parent


def axpy(group: int) -> lp.TranslationUnit:
    args = [lp.GlobalArg("x, y", "float32", shape="n"), lp.ValueArg("a", "float32"), "..."]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "y[i] = a*x[i] + y[i]", args, name="axpy")
    if group == 1:
        return knl
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def build(folder: Path, compiler: str) -> Path:
    """Export the kernel for C and OpenCL, and compile the program that times both."""
    files = [
        *lp.export(axpy(1), folder / "c", targets="c", namespace="bench"),
        *lp.export(axpy(64), folder / "opencl", targets="opencl", namespace="bench"),
    ]
    both = lp.export(axpy(64), folder / "both", targets=("c", "opencl"), namespace="bench")
    header = next(path.parent for path in both if path.name == "bench.h")
    sources = {path.name: path for path in files if path.suffix == ".c"}
    own = [HERE / "export_calls.c", HERE / "export_by_hand.c"]
    program = folder / "program"
    flags = ["-std=c11", "-O3", "-march=native", f"-I{header}"]
    paths = [*map(str, sources.values()), *map(str, own)]
    libraries = ["-lOpenCL", "-lpthread", "-lm"]
    subprocess.run([compiler, *flags, *paths, *libraries, "-o", str(program)], check=True)
    return program


def build_cuda(folder: Path) -> Path:
    """Export the kernel for CUDA, and compile the program that times it, for the device here."""
    files = lp.export(axpy(64), folder / "cuda", targets="cuda", namespace="bench")
    kernel = next(str(path) for path in files if path.suffix == ".cu")
    fatbin, embedded, program = (
        folder / name for name in ("axpy.fatbin", "axpy.c", "cuda_program")
    )
    subprocess.run(["nvcc", "-fatbin", "-arch=native", kernel, "-o", str(fatbin)], check=True)
    values = ",".join(map(str, fatbin.read_bytes()))
    embedded.write_text(f"_Alignas(16) unsigned char const bench_axpy_fatbin[] = {{{values}}};\n")
    paths = [str(path) for path in files if path.suffix == ".c"]
    paths += [str(embedded), str(HERE / "export_calls_cuda.c")]
    flags = ["-O3", "-cudart=none", f"-I{folder / 'cuda' / 'include'}"]
    subprocess.run(["nvcc", *flags, *paths, "-lcuda", "-o", str(program)], check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="", help="a part of the OpenCL platform's name")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cuda", action="store_true", help="time CUDA instead of C and OpenCL")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [build_cuda(folder)] if args.cuda else [build(folder, args.cc), args.platform]
        result = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, check=True)
    missed = 0
    print(f"{'ns a call':14} {'n':>6} {'exported':>10} {'by hand':>10} {'ratio':>7} {'below':>6}")
    for line in result.stdout.decode().splitlines():
        what, n, *figures = line.split()
        exported, by_hand = map(float, figures)
        ratio, limit = exported / by_hand, LIMITS[what]
        verdict = "" if limit is None else "ok" if exported < limit * by_hand + NOISE else "MISSED"
        missed += verdict == "MISSED"
        below = "-" if limit is None else f"{limit:.2f}"
        print(
            f"{what:14} {n:>6} {exported:10.2f} {by_hand:10.2f} {ratio:7.2f} {below:>6}  {verdict}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
