"""Draws the pictures of docs/draw.md: python tools/pictures.py."""

from __future__ import annotations

from pathlib import Path

import kgen as lp
from tests.draw.kernels import stencil, transpose, wave

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> None:
    tiled = lp.prioritize_loops(lp.split_iname(wave(), "i", 3), "t,i_outer,i_inner")
    scale = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[i] = 2*a[i]",
        [lp.GlobalArg("a", "float32"), ...],
        target=lp.CTarget(),
    )
    host = lp.Device(name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    pictures: dict[str, lp.draw.Picture] = {
        "iterations": lp.draw.iterations(tiled, {"m": 4, "n": 9}, ("t", "i")),
        "accesses": lp.draw.accesses(stencil(), "a", {"n": 18}),
        "banks": lp.draw.banks(transpose(size=8), "a_fetch"),
        "prefetch": lp.draw.prefetch(stencil(), "a_fetch", {"n": 18}),
        "schedule": lp.draw.schedule(stencil()),
        "roofline": lp.draw.roofline(lp.roofline(scale, {"n": 1000}, host)),
    }
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        picture.save(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
