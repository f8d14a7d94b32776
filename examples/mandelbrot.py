"""
Mandelbrot set
==============

How many steps z = z**2 + c takes to leave a disc, for each pixel c. Loops of a kernel have no
`break`: a step has the condition that z has not left yet. So that the work for a pixel ends early
nevertheless, steps are in blocks, whose length is data: zero, once z has left.

    python examples/mandelbrot.py --device {c,opencl,cuda} [--n 768] [--picture mandelbrot.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import Device, check, draw, open_device, parse

import kgen as lp

BLOCK, BLOCKS = 16, 16
# Compilers contract products and sums, which moves pixels at the edge of the set by some steps.
MAX_ERROR = 1e-2  # of all pixels


def make_escape(target: Any) -> lp.TranslationUnit:
    """Return the kernel that counts steps."""
    return lp.make_kernel(
        [
            "{ [i, j]: 0 <= i, j < n }",
            f"{{ [block]: 0 <= block < {BLOCKS} }}",
            "{ [step]: 0 <= step < steps }",
        ],
        f"""
        for i, j
            <> cx = -2.0 + 2.5*j/n
            <> cy = -1.25 + 2.5*i/n
            <> x = cx
            <> y = cy
            <int32> taken = 0
            for block
                <int32> steps = {BLOCK} if x*x + y*y < 4 else 0
                for step
                    <> inside = x*x + y*y < 4
                    if inside
                        <> new_x = x*x - y*y + cx
                        y = 2*x*y + cy
                        x = new_x
                        taken = taken + 1
                    end
                end
            end
            count[i, j] = taken
        end
        """,
        [lp.GlobalArg("count", np.int32, shape="n, n"), ...],
        name="mandelbrot",
        seq_dependencies=True,  # instructions run in the order of the text
        target=target,
    )


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Give each thread of the host one row after the other, each work-item a pixel."""
    if device.is_host:
        return lp.tag_inames(knl, "i:g.0")  # dynamic, since the lengths of loops are data
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")


def escape_in_numpy(n: int) -> Any:
    """Count the steps of all pixels at once; forget those that have left."""
    cx, cy = -2.0 + 2.5 * np.arange(n) / n, -1.25 + 2.5 * np.arange(n) / n
    c = (cx + 1j * cy[:, None]).ravel()
    count, z, left = np.zeros(n * n, np.int32), c.copy(), np.arange(n * n)
    for _ in range(BLOCK * BLOCKS):
        inside = z.real**2 + z.imag**2 < 4
        z, left = z[inside], left[inside]
        count[left] += 1
        z = z * z + c[left]
    return count.reshape(n, n)


def main(arguments: list[str]) -> None:
    """Count the steps, and compare with numpy."""
    given = parse(__doc__, arguments, n=768)
    device = open_device(given.device)
    knl = schedule(make_escape(device.target), device)
    count = device.on_host(device.run(knl, n=given.n))
    expected = escape_in_numpy(given.n)
    check("pixels", np.count_nonzero(count != expected) / count.size, MAX_ERROR)
    device.compare(
        "all pixels", lambda: device.run(knl, n=given.n), lambda: escape_in_numpy(given.n)
    )

    def paint(plt: Any) -> None:
        plt.imshow(np.log1p(count), cmap="twilight_shifted", extent=(-2, 0.5, -1.25, 1.25))

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
