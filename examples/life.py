"""
Game of Life
============

Conway's cellular automaton: a cell lives on with two or three living neighbours, and is born with
three. The schedule is one that kgen finds by analysis (`autoschedule`); the program prints it. On
the host it is rows for each thread, on a GPU tiles of cells.

    python examples/life.py --device {c,opencl,cuda} [--n 1024] [--picture life.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from harness import alternate, check, draw, open_device, parse

import kgen as lp

MAX_ERROR = 0  # cells that differ: integers are exact
R_PENTOMINO = ((0, 1), (0, 2), (1, 0), (1, 1), (2, 1))


def make_generation(target: Any) -> lp.TranslationUnit:
    """Return a step; cells on the boundary stay dead."""
    return lp.make_kernel(
        "{ [i, j]: 1 <= i, j < n - 1 }",
        """
        <> neighbours = (old[i-1, j-1] + old[i-1, j] + old[i-1, j+1] + old[i, j-1]
                         + old[i, j+1] + old[i+1, j-1] + old[i+1, j] + old[i+1, j+1])
        new[i, j] = 1 if neighbours == 3 or (neighbours == 2 and old[i, j] == 1) else 0
        """,
        [lp.GlobalArg("old, new", np.uint8, shape="n, n"), ...],
        name="life",
        target=target,
    )


def generation_in_numpy(old: Any, new: Any) -> None:
    """Do a step with slices."""
    rows = old[:-2] + old[1:-1] + old[2:]
    inner = old[1:-1, 1:-1]
    neighbours = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - inner
    new[1:-1, 1:-1] = (neighbours == 3) | ((neighbours == 2) & (inner == 1))


def main(arguments: list[str]) -> None:
    """Let the R-pentomino live, and compare with numpy."""
    given = parse(__doc__, arguments, n=1024, steps=500)
    device = open_device(given.device)
    knl = lp.autoschedule(make_generation(device.target))
    print(lp.find_schedule(make_generation(device.target)))

    def step(old: Any, new: Any) -> None:
        device.run(knl, old=old, new=new)

    first = np.zeros((given.n, given.n), np.uint8)
    for i, j in R_PENTOMINO:
        first[given.n // 2 + i, given.n // 2 + j] = 1
    cells = device.on_host(alternate(step, given.steps, device.array(first), device.array(first)))
    expected = alternate(generation_in_numpy, given.steps, first.copy(), first.copy())
    check(f"generation {given.steps}", int(np.count_nonzero(cells != expected)), MAX_ERROR)
    there = device.array(first), device.array(first)
    device.compare(
        "10 generations",
        lambda: alternate(step, 10, *there),
        lambda: alternate(generation_in_numpy, 10, first.copy(), first.copy()),
    )

    def paint(plt: Any) -> None:
        middle = slice(given.n // 2 - 80, given.n // 2 + 80)
        plt.imshow(cells[middle, middle], cmap="binary")
        plt.title(f"R-pentomino, generation {given.steps}: {cells.sum()} cells")
        plt.axis("off")

    draw(given.picture, paint)


if __name__ == "__main__":
    main(sys.argv[1:])
