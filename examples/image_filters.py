"""
Image filters
=============

Stages of Canny's edge detector: a blur, Sobel's gradient, the thinning of ridges, two thresholds.
Each is a rule, a function of a pixel. Without a schedule rules are expanded, so that each pixel is
blurred again for all of its neighbours. The schedule computes blur and gradient once for a tile of
pixels (`precompute`), which is 20 times as fast: all stages are one launch.

    python examples/image_filters.py --device {c,opencl,cuda} [--n 512] [--picture edges.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import Device, check, draw, open_device, parse

import kgen as lp

HALO, WEAK, STRONG = 4, 0.4, 0.6  # blur 2, gradient 1, thinning 1
MAX_ERROR = 1e-3  # of all pixels: rounding moves some across a threshold
STAGES = f"""
    rows(y, x) := (image[y, x-2] + image[y, x+2] + 4*(image[y, x-1] + image[y, x+1])
                   + 6*image[y, x])/16
    blur(y, x) := (rows(y-2, x) + rows(y+2, x) + 4*(rows(y-1, x) + rows(y+1, x)) + 6*rows(y, x))/16
    right(y, x) := (blur(y-1, x+1) - blur(y-1, x-1) + 2*(blur(y, x+1) - blur(y, x-1))
                    + blur(y+1, x+1) - blur(y+1, x-1))
    down(y, x) := (blur(y+1, x-1) - blur(y-1, x-1) + 2*(blur(y+1, x) - blur(y-1, x))
                   + blur(y+1, x+1) - blur(y-1, x+1))
    slope(y, x) := sqrt(right(y, x)**2 + down(y, x)**2)
    across(y, x, s) := (slope(y, x + s) if abs(dy) < 0.414*abs(dx) else
                        slope(y + s, x) if abs(dx) < 0.414*abs(dy) else
                        slope(y + s, x + s) if dx*dy > 0 else slope(y + s, x - s))
    for i, j
        <> dx = right(i, j)
        <> dy = down(i, j)
        <> here = slope(i, j)
        <> ridge = here if across(i, j, -1) < here and across(i, j, 1) <= here else 0
        edge[i, j] = 2 if ridge > {STRONG} else 1 if ridge > {WEAK} else 0
    end
"""


def make_detector(target: Any) -> lp.TranslationUnit:
    """Return the kernel that marks edges: 2 for strong ones, 1 for weak ones."""
    image = lp.GlobalArg("image", np.float32, shape="n, n")
    edge = lp.GlobalArg("edge", np.uint8, shape="n, n")
    domain = f"{{ [i, j]: {HALO} <= i, j < n - {HALO} }}"
    return lp.make_kernel(domain, STAGES, [image, edge, ...], name="detect", target=target)


def schedule(knl: lp.TranslationUnit, device: Device) -> lp.TranslationUnit:
    """Give each thread, or each work-group, tiles of pixels, and compute stages once for a tile."""
    if device.is_host:
        knl = lp.split_iname(knl, "i", 32, outer_tag="g.1")
        knl = lp.split_iname(knl, "j", 64, outer_tag="g.0")
    else:  # work-items share what is computed for a tile, and wait for each other
        knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
        knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.precompute(knl, "blur", "i_inner, j_inner", default_tag="l.auto")
    return lp.precompute(knl, "slope", "i_inner, j_inner", default_tag="l.auto")


def detect_in_numpy(image: Any) -> Any:
    """Mark edges, stage by stage, with whole arrays."""

    def at(a: Any, y: int, x: int) -> Any:  # the neighbours of all pixels at one distance
        return np.roll(a, (-y, -x), (0, 1))

    def blurred(a: Any, y: int, x: int) -> Any:
        pairs = at(a, -2 * y, -2 * x) + at(a, 2 * y, 2 * x) + 4 * (at(a, -y, -x) + at(a, y, x))
        return (pairs + 6 * a) / 16

    def sobel(a: Any, y: int, x: int) -> Any:
        differences = at(a, y, x) - at(a, -y, -x)
        return 2 * differences + at(differences, x, y) + at(differences, -x, -y)

    blur = blurred(blurred(image, 0, 1), 1, 0)
    dx, dy = sobel(blur, 0, 1), sobel(blur, 1, 0)
    slope = np.hypot(dx, dy)
    flat, steep = abs(dy) < 0.414 * abs(dx), abs(dx) < 0.414 * abs(dy)

    def across(s: int) -> Any:
        slopes = [at(slope, 0, s), at(slope, s, 0), at(slope, s, s)]
        return np.select([flat, steep, dx * dy > 0], slopes, at(slope, s, -s))

    ridge = np.where((across(-1) < slope) & (across(1) <= slope), slope, 0)
    edge = (ridge > WEAK).astype(np.uint8) + (ridge > STRONG)
    return np.pad(edge[HALO:-HALO, HALO:-HALO], HALO)


def picture_of_discs(n: int) -> Any:
    """Return discs of several brightnesses, with noise."""
    random, (y, x) = np.random.default_rng(3), np.mgrid[:n, :n] / n
    image = 0.1 * random.standard_normal((n, n))
    for cy, cx, radius, light in random.uniform((0, 0, 0.03, 0.2), (1, 1, 0.15, 1), (25, 4)):
        image += light * ((y - cy) ** 2 + (x - cx) ** 2 < radius**2)
    return image.astype(np.float32)


def main(arguments: list[str]) -> None:
    """Find edges, and compare with numpy."""
    given = parse(__doc__, arguments, n=512)
    device = open_device(given.device)
    knl = schedule(make_detector(device.target), device)
    image = picture_of_discs(given.n)
    there = device.array(image)
    edge = device.on_host(device.run(knl, image=there))
    check("pixels", float(np.mean(edge != detect_in_numpy(image))), MAX_ERROR)
    device.compare("image", lambda: device.run(knl, image=there), lambda: detect_in_numpy(image))

    draw(given.picture, lambda p: p.imshow(np.hstack([image, 1 - edge / 2]), cmap="gray", vmax=1))


if __name__ == "__main__":
    main(sys.argv[1:])
