"""Time calls of exported functions beside what one would write by hand, in one run.

Prints nanoseconds a call, and their ratio: in C, a loop in a function, with and without checks; in
OpenCL, clSetKernelArg and clEnqueueNDRangeKernel. Exits with 1 where a ratio misses its limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import kgen as lp

#: What is timed, and what the ratio must stay below; None for what is only shown.
LIMITS = {"c": None, "c_checked": 1.1, "opencl_1": 1.1, "opencl_100": 1.1}
#: So many nanoseconds do not count: an empty loop, called by hand, takes one.
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="", help="a part of the OpenCL platform's name")
    parser.add_argument("--cc", default="cc")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), args.cc)
        result = subprocess.run([program, args.platform], stdout=subprocess.PIPE, check=True)
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
