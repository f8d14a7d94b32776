"""Time matrix products on tensor cores through CUDA, and torch.matmul in the same run.

Warps of ``mma.sync`` or warpgroups of ``wgmma``, tiles by ``cp.async``, a pipeline. Prints TFLOP/s
as the median of many launches, and checks each result on a sample of rows. Needs pycuda and a
device; torch for the comparison. ``--code FOLDER`` writes the CUDA code of all kernels, and needs
no device.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import kgen as lp


@dataclass(frozen=True)
class Schedule:
    """Lengths of tiles of work-groups, the warps along rows and columns, and the stages.

    Of warpgroups, which there are along rows, *ahead* is how many tiles are on their way.
    """

    dtype: str
    shape: str
    block: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    precision: str | None = None
    ahead: int | None = None

    @property
    def of_warpgroups(self) -> bool:
        return self.lengths[0] == 64

    @property
    def of_rows(self) -> bool:
        """Whether the terms of the second factor are neighbours: those of TF32 have to be."""
        return self.of_warpgroups and self.precision == "tf32"

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))

    @property
    def lengths(self) -> tuple[int, int, int]:
        rows, _, rest = self.shape[1:].partition("n")
        columns, _, depth = rest.partition("k")
        return int(rows), int(columns), int(depth)

    def __str__(self) -> str:
        block, warps = ("x".join(map(str, part)) for part in (self.block, self.warps))
        kind, unit = self.precision or self.dtype, "warpgroups" if self.of_warpgroups else "warps"
        return f"{kind:8} {self.shape:10} {block:10} {warps:3} {unit:10} {self.stages} stages"


SCHEDULES = (
    *(
        Schedule(dtype, "m16n8k16", *rest)
        for dtype in ("bfloat16", "float16")
        for rest in (
            ((128, 128, 32), (2, 4), 3),
            ((128, 256, 32), (2, 4), 3),
            ((128, 256, 64), (2, 4), 3),
        )
    ),
    *(
        Schedule(dtype, f"m64n{width}k16", (128, width, 64), (2, 1), stages, ahead=ahead)
        for dtype in ("bfloat16", "float16")
        for width, stages, ahead in ((256, 4, 3), (256, 4, 2), (128, 3, 1))
    ),
    Schedule("float32", "m16n8k8", (128, 128, 32), (2, 4), 3, "tf32"),
    Schedule("float32", "m16n8k8", (128, 128, 32), (2, 4), 3, "3xtf32"),
    Schedule("float32", "m16n8k8", (128, 256, 16), (2, 4), 3, "3xtf32"),
    *(
        Schedule("float32", f"m64n{width}k8", (128, width, 32), (2, 1), stages, "tf32", ahead)
        for width, stages, ahead in ((256, 4, 3), (256, 4, 2), (128, 4, 2), (128, 3, 1))
    ),
    Schedule("float64", "m8n8k4", (128, 64, 16), (4, 2), 3),
    Schedule("float64", "m16n8k8", (128, 64, 16), (4, 2), 3),
    Schedule("float64", "m16n8k16", (128, 64, 16), (4, 2), 3),
)


def product(size: int, chosen: Schedule) -> lp.TranslationUnit:
    """Return the product of matrices of *size* rows, scheduled."""
    dtype = chosen.numpy_dtype
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        f"c[i, j] = sum(k, a[i, k]*{'b[j, k]' if chosen.of_rows else 'b[k, j]'})",
        [lp.GlobalArg("a, b, c", dtype, shape="n, n"), "..."],
        target=lp.PyCudaTarget(),
        name="product",
    )
    knl = lp.fix_parameters(knl, n=size)
    if chosen.of_warpgroups:
        return by_warpgroups(knl, chosen)
    rows, columns, depth = chosen.lengths
    (height, width, length), warps = chosen.block, chosen.warps
    for x, block, count, mma, axis in (
        ("i", height, warps[0], rows, 1),
        ("j", width, warps[1], columns, 0),
    ):
        knl = lp.split_iname(knl, x, block, outer_tag=f"g.{axis}")
        knl = lp.split_iname(knl, f"{x}_inner", block // count, outer_tag=f"l.{axis + 1}")
        knl = lp.split_iname(knl, f"{x}_inner_inner", mma, inner_iname=f"{x}_mma", outer_tag="ilp")
    knl = lp.split_iname(knl, "k", length)
    knl = lp.split_iname(knl, "k_inner", depth, inner_iname="k_mma", outer_tag="unr")
    of_rows, of_columns = (f"{x}_inner_outer, {x}_inner_inner_outer, {x}_mma" for x in "ij")
    for f, swept, tile in (
        ("a", f"{of_rows}, k_inner_outer, k_mma", (height, length)),
        ("b", f"k_inner_outer, k_mma, {of_columns}", (length, width)),
    ):
        around = "i_outer, j_outer, k_outer"
        knl = lp.add_prefetch(knl, f, swept, f"{f}_row, {f}_col", None, fetch_outer_inames=around)
        knl = _without_conflicts(knl, f, tile, dtype.itemsize)
        knl = lp.split_iname(knl, f"{f}_col", 16 // dtype.itemsize, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}_row, {f}_col_outer", item := f"{f}_item")
        for axis, count in enumerate((32, warps[1], warps[0])):
            knl = lp.split_iname(knl, item + axis * "_outer", count, inner_tag=f"l.{axis}")
        if dtype.itemsize == 2:
            knl = lp.tag_array_axes(knl, f"{f}_fetch", f"swizzle:{max(128, 2 * tile[1])}")
    knl = lp.tensorize(knl, "insn", "i_mma, j_mma, k_mma", chosen.shape, precision=chosen.precision)
    knl = lp.align_temporaries(knl, "a_fetch, b_fetch", 16)
    copied = lp.async_copy(knl, "a_fetch_rule, b_fetch_rule")
    return lp.pipeline(copied, "k_outer", chosen.stages)


def by_warpgroups(knl: lp.TranslationUnit, chosen: Schedule) -> lp.TranslationUnit:
    """Return the product by warpgroups, each of which has some rows of a tile."""
    (height, width, length), groups = chosen.block, chosen.warps[0]
    size = chosen.numpy_dtype.itemsize
    row, vector = 128 // size, 16 // size
    knl = lp.split_iname(knl, "i", height)
    knl = lp.split_iname(knl, "i_inner", height // groups, outer_tag="l.1")
    knl = lp.split_iname(knl, "i_inner_inner", 64, inner_iname="i_mma", outer_tag="ilp")
    knl = lp.split_iname(knl, "j", width, inner_iname="j_mma")
    knl = lp.split_iname(knl, "j_outer", 4)
    knl = lp.join_inames(knl, "j_outer_outer, i_outer, j_outer_inner", "tile")
    knl = lp.tag_inames(knl, "tile: g.0")
    knl = lp.split_iname(knl, "k", length)
    knl = lp.split_iname(knl, "k_inner", chosen.lengths[2], inner_iname="k_mma", outer_tag="unr")
    around = "tile, k_outer"
    for f, swept in (
        ("a", "i_inner_outer, i_inner_inner_outer, i_mma, k_inner_outer, k_mma"),
        ("b", "j_mma, k_inner_outer, k_mma" if chosen.of_rows else "k_inner_outer, k_mma, j_mma"),
    ):
        knl = lp.add_prefetch(knl, f, swept, f"{f}_row, {f}_col", None, fetch_outer_inames=around)
        knl = lp.split_array_axis(knl, f"{f}_fetch", 1, row)
        knl = lp.tag_array_axes(knl, f"{f}_fetch", "N1, N2, N0")
        knl = lp.split_iname(knl, f"{f}_col", row, inner_iname=f"{f}_part")
        knl = lp.split_iname(knl, f"{f}_part", vector, inner_tag="vec")
        knl = lp.join_inames(knl, f"{f}_col_outer, {f}_row, {f}_part_outer", item := f"{f}_item")
        knl = lp.split_iname(knl, item, 128, inner_tag="l.0")
        knl = lp.split_iname(knl, f"{item}_outer", groups, inner_tag="l.1", outer_tag="unr")
    knl = lp.tensorize(knl, "insn", "i_mma, j_mma, k_mma", chosen.shape, precision=chosen.precision)
    knl = lp.align_temporaries(knl, "a_fetch, b_fetch", 1024)
    knl = lp.tag_array_axes(knl, "a_fetch, b_fetch", "swizzle:128")
    copied = lp.async_copy(knl, "a_fetch_rule, b_fetch_rule")
    return lp.pipeline(copied, "k_outer", chosen.stages, ahead=chosen.ahead)


def _without_conflicts(
    knl: lp.TranslationUnit, factor: str, tile: tuple[int, int], size: int
) -> lp.TranslationUnit:
    """Make rows longer, so that lanes that load a fragment by elements find them in all banks.

    Eight rows of *a* and four of *b* are next to each other then, modulo 128 bytes.
    """
    if size == 2:
        return knl
    more = (16 if factor == "a" else 32) // size if size == 4 else 32 // size
    return lp.tag_array_axes(knl, f"{factor}_fetch", f"stride:{tile[1] + more}, stride:1")


def write_code(folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, chosen in enumerate(SCHEDULES):
        code = lp.generate_code_v2(product(size, chosen)).device_code()
        (folder / f"{number}.cu").write_text(f"// {chosen}\n{code}")


def measured(size: int, rounds: int, kinds: Sequence[str]) -> Iterator[str]:
    """Give a line for each schedule of some kinds, or of all, and for torch."""
    gpu = importlib.import_module("gpu")
    gpuarray = importlib.import_module("pycuda.gpuarray")
    flops = 2 * size**3 / 1e12
    for kind, group in _by_kind().items():
        if kinds and kind not in kinds:
            continue
        dtype = group[0].numpy_dtype
        rng = np.random.default_rng(1)
        a, b = ((rng.random((size, size)) - 0.5).astype(dtype) for _ in range(2))
        expected = a[-10:].astype(np.float64) @ b.astype(np.float64)
        raw = np.dtype(f"u{dtype.itemsize}")  # bfloat16 is none of numpy's own types
        a_device, b_device, b_rows = (
            gpuarray.to_gpu(np.ascontiguousarray(part).view(raw)).view(dtype)
            for part in (a, b, b.T)
        )
        c = gpuarray.zeros((size, size), raw)
        tolerance = {2: 2e-2, 4: 2e-2, 8: 1e-10}[dtype.itemsize]
        for chosen in group:
            executor = product(size, chosen).executor()
            b_read = b_rows if chosen.of_rows else b_device
            on_device = {"a": a_device, "b": b_read, "c": c.view(dtype)}
            time = gpu.seconds(lambda: executor(**on_device), rounds)  # noqa: B023
            error = np.max(np.abs(c.get()[-10:].view(dtype).astype(np.float64) - expected))
            assert error <= tolerance * np.max(np.abs(expected)), error
            yield f"{chosen!s:48} {flops / time:7.1f} TFLOP/s"
        if importlib.util.find_spec("torch"):
            yield f"{kind:8} torch.matmul {_torch(kind, a, b, rounds, flops):34.1f} TFLOP/s"


def _by_kind() -> dict[str, list[Schedule]]:
    kinds: dict[str, list[Schedule]] = {}
    for chosen in SCHEDULES:
        kinds.setdefault(chosen.precision or chosen.dtype, []).append(chosen)
    return kinds


def _torch(kind: str, a: Any, b: Any, rounds: int, flops: float) -> float:
    """Return the rate of torch."""
    gpu, torch = importlib.import_module("gpu"), importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    dtype = torch.float32 if kind.endswith("tf32") else getattr(torch, kind)
    wide = np.float64 if kind == "float64" else np.float32
    x, y = (torch.from_numpy(part.astype(wide)).to("cuda", dtype) for part in (a, b))
    out = torch.empty_like(x)
    return float(flops / gpu.seconds(lambda: torch.matmul(x, y, out=out), rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kinds", nargs="*", choices=sorted(_by_kind()), default=())
    parser.add_argument("--code", type=Path)
    options = parser.parse_args()
    if options.code is not None:
        write_code(options.code, options.size)
        return
    for line in measured(options.size, options.rounds, options.kinds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
