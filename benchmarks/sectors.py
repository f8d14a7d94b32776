"""Compare counted sectors with the hardware's counters, and predicted times with measured ones.

For copy, strided copy, transpose with and without a tile, matrix product with and without tiles
and a stencil: the sectors of global memory that kgen counts for loads and stores, those that
`ncu` reports (`l1tex__t_sectors_pipe_lsu_mem_global_op_ld` and `..._st`) where it may, and the
predicted and the measured time. Needs pycuda and a device; ``--json FILE`` keeps the figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycuda.autoprimaryctx  # noqa: F401  (makes the context that everything below uses)
from pycuda import gpuarray

import kgen as lp
from kgen.performance.timing import settle
from kgen.statistics import Interval
from kgen.statistics.programs import prepared_kernel
from kgen.statistics.sectors import count_sectors

METRICS = {
    "load": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kernel, its size and the shapes of its arrays."""

    kernel: lp.TranslationUnit
    n: int
    shapes: dict[str, tuple[int, ...]]


def make(name: str, domain: str, text: str, assumptions: str) -> lp.TranslationUnit:
    knl = lp.make_kernel(domain, text, target=lp.PyCudaTarget(), assumptions=assumptions, name=name)
    arrays = [a for a in knl.default_entrypoint.args if isinstance(a, lp.ArrayArg)]
    return lp.add_dtypes(knl, {array.name: np.float32 for array in arrays})


def copy(stride: int) -> Case:
    """Copy every element, or each of several."""
    n = (1 << 26) // stride
    index = "i" if stride == 1 else f"{stride}*i"
    name = "copy" if stride == 1 else f"copy_stride_{stride}"
    knl = make(name, "{ [i]: 0 <= i < n }", f"out[i] = a[{index}]", "1 <= n <= 2000000000")
    knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    return Case(kernel=knl, n=n, shapes={"a": (stride * (n - 1) + 1,), "out": (n,)})


def in_tiles(knl: lp.TranslationUnit, rows: int, columns: int) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")


def in_padded_tiles(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Transpose tiles of 32 x 33 in local memory, four rows for each of 8 x 32 work-items."""
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.add_prefetch(
        knl,
        "a",
        ["j_inner", "i_inner"],
        ["row", "column"],
        default_tag=None,
        fetch_outer_inames="i_outer,j_outer",
        temporary_address_space=lp.AddressSpace.LOCAL,
    )
    knl = lp.tag_inames(knl, {"column": "l.0"})
    knl = lp.split_iname(knl, "row", 8, outer_tag="unr", inner_tag="l.1")
    knl = lp.split_iname(knl, "i_inner", 8, outer_tag="unr", inner_tag="l.1")
    return lp.add_padding(knl, "a_fetch", 0, 33 * 4)


def transpose(tile: bool) -> Case:
    """Transpose a matrix, through local memory or not."""
    n = 8192
    name = "transpose_tile" if tile else "transpose"
    sizes = "1 <= n <= 40000" + (" and n mod 32 = 0" if tile else "")
    knl = make(name, "{ [i, j]: 0 <= i, j < n }", "out[i, j] = a[j, i]", sizes)
    knl = in_padded_tiles(knl) if tile else in_tiles(knl, 32, 32)
    return Case(kernel=knl, n=n, shapes={"a": (n, n), "out": (n, n)})


def stencil() -> Case:
    """Make a Laplacian of five points, with a square."""
    n = 8192
    knl = make(
        "stencil",
        "{ [i, j]: 0 <= i, j < n }",
        "out[i, j] = u[i+1, j+1]**2 - 1 - 4*u[i+1, j+1] "
        "+ u[i+2, j+1] + u[i, j+1] + u[i+1, j+2] + u[i+1, j]",
        "1 <= n <= 40000",
    )
    return Case(kernel=in_tiles(knl, 8, 32), n=n, shapes={"u": (n + 2, n + 2), "out": (n, n)})


def product(tile: bool) -> Case:
    """Multiply matrices, through local memory or not."""
    n = 2048
    knl = make(
        "product_tile" if tile else "product",
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "out[i, j] = sum(k, a[i, k]*b[k, j])",
        "16 <= n <= 40000 and n mod 16 = 0",
    )
    knl = in_tiles(knl, 16, 16)
    if tile:
        knl = lp.split_iname(knl, "k", 16)
        knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
        knl = lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")
    return Case(kernel=knl, n=n, shapes=dict.fromkeys(("a", "b", "out"), (n, n)))


CASES: dict[str, Callable[[], Case]] = {
    "copy": lambda: copy(1),
    "copy, stride 4": lambda: copy(4),
    "transpose": lambda: transpose(False),
    "transpose, tile": lambda: transpose(True),
    "stencil": stencil,
    "matrix product": lambda: product(False),
    "matrix product, tiles": lambda: product(True),
}


def arrays_of(case: Case) -> dict[str, Any]:
    return {name: gpuarray.zeros(shape, np.float32) for name, shape in case.shapes.items()}


def counted_by_kgen(case: Case) -> dict[str, int]:
    """Return the sectors of loads and of stores."""
    result = dict.fromkeys(METRICS, 0)
    for traffic in count_sectors(prepared_kernel(case.kernel), {"n": case.n}):
        if isinstance(traffic.units, Interval):
            sys.exit(f"the sectors of '{traffic.array}' are not known exactly")
        result[traffic.direction] += traffic.units
    return result


def counted_by_hardware(title: str) -> dict[str, int] | str:
    """Return what ncu counts in one launch, or why it does not."""
    tool = shutil.which("ncu", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if tool is None:
        return "there is no ncu"
    command = [tool, "--clock-control", "none", "--csv", "--metrics", ",".join(METRICS.values())]
    launch = [sys.executable, __file__, "--launch", title]
    done = subprocess.run([*command, *launch], capture_output=True, text=True, check=False)
    name = CASES[title]().kernel.default_entrypoint.name
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    found = dict.fromkeys(METRICS, 0)
    rows = [row for row in csv.DictReader(lines) if row["Kernel Name"].startswith(name)]
    if not rows:
        reasons = [line for line in (done.stdout + done.stderr).splitlines() if "==ERROR==" in line]
        return reasons[0] if reasons else "ncu reports nothing"
    for row in rows:
        for direction, metric in METRICS.items():
            if row["Metric Name"] == metric:
                found[direction] += int(float(row["Metric Value"].replace(",", "")))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    parser.add_argument("--no-ncu", action="store_true", help="do not ask the hardware")
    arguments = parser.parse_args()
    if arguments.launch:
        case = CASES[arguments.launch]()
        settle(case.kernel(**arrays_of(case))[0])
        return
    rows: list[dict[str, Any]] = []
    for title, make_case in CASES.items():
        case = make_case()
        found = lp.roofline(case.kernel, {"n": case.n}, None, arrays_of(case))
        assert found.measured_s is not None
        if not rows:
            print(f"{found.device}\n")
        row: dict[str, Any] = {"title": title, "predicted_s": found.predicted_s}
        row |= {"measured_s": found.measured_s, "limit": found.limit, "times_s": found.times_s}
        row |= {"bytes": found.bytes, "occupancy": str(found.occupancy)}
        row["sectors"] = counted_by_kgen(case)
        row["hardware"] = "not asked" if arguments.no_ncu else counted_by_hardware(title)
        rows.append(row)
        print(
            f"{title:22} predicted {1e6 * found.predicted_s:9.1f} us by {found.limit:10} "
            f"measured {1e6 * found.measured_s:9.1f} us, ratio "
            f"{found.predicted_s / found.measured_s:.2f}"
        )
        for direction, number in row["sectors"].items():
            seen = row["hardware"]
            beside = seen if isinstance(seen, str) else f"{seen[direction]:,}"
            print(f"    {direction:5} sectors: {number:,}; by ncu: {beside}")
        levels = ", ".join(f"{name} {1e6 * t:.1f} us" for name, t in found.times_s.items())
        print(f"    {levels}; occupancy {found.occupancy}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
