"""Time stencils of 7 and 25 points with windows on an NVIDIA GPU through CUDA.

Each group of work-items runs along the outermost axis. Prints the fraction of a copy's bandwidth
that a stencil reaches: without prefetching, with a circular buffer of planes in shared memory, and
with columns in registers. Checks each result on some planes. Needs pycuda and a device.
"""

from __future__ import annotations

import argparse

import numpy as np
import pycuda.driver as drv
from gpu import seconds
from pycuda import gpuarray

import kgen as lp


def stencil(radius: int, sizes: tuple[int, int, int]) -> lp.TranslationUnit:
    """Return a star, whose reads along the outermost axis are tagged."""
    r, terms = radius, ["a$col[z + {r}, y + {r}, x + {r}]"]
    for d in range(1, r + 1):
        for z, y, x in ((d, 0, 0), (-d, 0, 0), (0, d, 0), (0, -d, 0), (0, 0, d), (0, 0, -d)):
            tag = "$col" if z else ""
            terms.append(f"{1 / (2 * d + 1)}*a{tag}[z + {r + z}, y + {r + y}, x + {r + x}]")
    knl = lp.make_kernel(
        "{ [z, y, x]: 0 <= z < nz and 0 <= y < ny and 0 <= x < nx }",
        f"b[z, y, x] = {' + '.join(terms).replace('{r}', str(r))}",
        [
            lp.GlobalArg("a", np.float32, shape=f"nz + {2 * r}, ny + {2 * r}, nx + {2 * r}"),
            lp.GlobalArg("b", np.float32, shape="nz, ny, nx"),
            "...",
        ],
        target=lp.PyCudaTarget(),
        name="stencil",
    )
    knl = lp.fix_parameters(knl, nz=sizes[0], ny=sizes[1], nx=sizes[2])
    knl = lp.split_iname(knl, "z", 64, outer_tag="g.2")
    knl = lp.split_iname(knl, "y", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "x", 32, outer_tag="g.0", inner_tag="l.0")


def variants(knl: lp.TranslationUnit) -> dict[str, lp.TranslationUnit]:
    """Return schedules of a stencil, by name."""
    column = lp.add_prefetch(knl, "a$col", window="z_inner")
    plane = lp.add_prefetch(
        column,
        "a",
        "y_inner, x_inner",
        temporary_name="plane",
        within="id:insn",
        fetch_bounding_box=True,
    )
    return {
        "plain": knl,
        "shared planes": lp.add_prefetch(knl, "a", "y_inner, x_inner", window="z_inner"),
        "columns": column,
        "columns and a plane": plane,
        "columns and a pipelined plane": lp.pipeline(plane, "z_inner", 2, "plane"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    n = options.size
    for radius in (1, 4):
        a = np.random.default_rng(1).random((n + 2 * radius,) * 3, np.float32)
        on_device, b = gpuarray.to_gpu(a), gpuarray.GPUArray((n, n, n), a.dtype)
        source = gpuarray.to_gpu(np.zeros((n, n, n), np.float32))
        copy = seconds(lambda: drv.memcpy_dtod(b.gpudata, source.gpudata, b.nbytes), options.rounds)  # noqa: B023
        expected = None
        for name, knl in variants(stencil(radius, (n, n, n))).items():
            executor = knl.executor()
            b.fill(np.nan)
            time = seconds(lambda: executor(a=on_device, b=b), options.rounds)  # noqa: B023
            result = b.get()[:: n // 4]
            expected = result if expected is None else expected
            np.testing.assert_allclose(result, expected, rtol=1e-3)
            rate = 2 * 4 * n**3 / time / 1e9
            print(
                f"{6 * radius + 1} points, {name:30} {rate:7.0f} GB/s, {copy / time:.2f} of a copy"
            )


if __name__ == "__main__":
    main()
