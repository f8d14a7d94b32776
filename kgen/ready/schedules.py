"""Default schedules of ready kernels, with parameters that can be tuned."""

from __future__ import annotations

from collections.abc import Sequence

from kgen.ir.unit import TranslationUnit
from kgen.ready.tiles import TileIndices
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import prioritize_loops, tag_inames
from kgen.transforms.reductions.realize import realize_reduction

__all__ = [
    "elementwise",
    "reduction_along",
    "reduction_in_lanes",
    "reduction_of_all",
    "reduction_on_host",
    "scan",
    "scan_along",
    "scan_in_tiles",
]


def elementwise(
    knl: TranslationUnit,
    inames: Sequence[str],
    *,
    is_gpu: bool,
    group_size: int = 256,
    items: int = 4,
    chunk: int = 16384,
    rows: int = 16,
) -> TranslationUnit:
    """Distribute independent loops, given outermost first.

    On a GPU, adjacent work-items process adjacent elements, *items* of them each; on a
    host, a thread takes *chunk* elements. Two of the outer loops become axes of work-groups, with
    *rows* iterations in each group.
    """
    last, around = inames[-1], list(inames[:-1])
    if not is_gpu:
        if around:
            knl = split_iname(knl, around[0], rows, outer_tag="g.0")
            return prioritize_loops(knl, ", ".join((f"{around[0]}_inner", *around[1:], last)))
        return split_iname(knl, last, chunk, outer_tag="g.0")
    knl = split_iname(knl, last, group_size, inner_tag="l.0")
    slabs = (0, 1) if items > 1 else (0, 0)
    knl = split_iname(knl, f"{last}_outer", items, outer_tag="g.0", inner_tag="unr", slabs=slabs)
    for axis, iname in enumerate(reversed(around[-2:]), start=1):
        knl = split_iname(knl, iname, rows, outer_tag=f"g.{axis}")
    return knl


def reduction_of_all(
    knl: TranslationUnit,
    inames: Sequence[str],
    *,
    in_one_group: bool = False,
    group_size: int = 256,
    groups: int = 1024,
    items: int = 1,
) -> TranslationUnit:
    """Let each work-item of a GPU reduce elements in strides of the whole grid.

    With several axes, rows are distributed cyclically over groups. A work-item of a single group
    loads *items* elements at a time.
    """
    last = inames[-1]
    if len(inames) > 1:
        knl = split_iname(knl, inames[0], groups, inner_tag="g.0")
        return split_iname(knl, last, group_size, inner_tag="l.0")
    knl = split_iname(knl, last, group_size, inner_tag="l.0")
    if in_one_group:
        return split_iname(knl, f"{last}_outer", items, inner_tag="unr_hint", slabs=(0, 1))
    return split_iname(knl, f"{last}_outer", groups, inner_tag="g.0")


def reduction_on_host(
    knl: TranslationUnit, inames: Sequence[str], *, lanes: int = 16, chunk: int = 64
) -> TranslationUnit:
    """Let threads reduce *chunk* rows at a time, with *lanes* values in parallel."""
    last, first = inames[-1], inames[0]
    if len(inames) == 1:
        return split_iname(knl, first, 1024 * chunk, outer_tag="g.0")
    knl = split_iname(knl, last, lanes, inner_tag="ilp.seq")
    return split_iname(knl, first, chunk, outer_tag="g.0")


def reduction_in_lanes(
    knl: TranslationUnit, inames: Sequence[str], *, in_one_group: bool = False, chunk: int = 256
) -> TranslationUnit:
    """Let threads reduce *chunk* blocks of lanes at a time."""
    block, lane = inames
    knl = tag_inames(knl, {lane: "ilp.seq"})
    if in_one_group:
        return knl
    return split_iname(knl, block, chunk, outer_tag="g.0")


def reduction_along(
    knl: TranslationUnit,
    inames: Sequence[str],
    along: str,
    *,
    is_gpu: bool,
    group_size: int = 256,
    lanes: int = 32,
    rows: int = 16,
) -> TranslationUnit:
    """Reduce the middle one of three axes.

    If its elements are adjacent (``"rows"``), a group of a GPU has a row, and a thread of a host
    *rows* of them. Otherwise each work-item, or lane, has a column.
    """
    outer, middle, inner = inames
    if along == "rows":
        if is_gpu:
            knl = split_iname(knl, middle, group_size, inner_tag="l.0")
            return tag_inames(knl, {outer: "g.0"})
        knl = split_iname(knl, middle, lanes, inner_tag="ilp.seq")
        return split_iname(knl, outer, rows, outer_tag="g.0")
    if is_gpu:
        knl = split_iname(knl, inner, group_size, outer_tag="g.0", inner_tag="l.0")
        return split_iname(knl, outer, rows, outer_tag="g.1")
    knl = split_iname(knl, inner, lanes)
    knl = tag_inames(knl, {f"{inner}_outer": "g.0", outer: "g.1"})
    return prioritize_loops(knl, f"{middle}, {inner}_inner")


def scan(
    knl: TranslationUnit, iname: str, *, in_one_group: bool, chunk: int = 16384
) -> TranslationUnit:
    """Let each thread of a host have *chunk* steps, unless there are few."""
    if not in_one_group:
        knl = split_iname(knl, iname, chunk, outer_tag="g.0")
    return realize_reduction(knl, force_scan=True)


def scan_in_tiles(knl: TranslationUnit, step: TileIndices, items: Sequence[str]) -> TranslationUnit:
    """Run the loops of a :class:`kgen.ready.tiles.TiledScan` on a GPU."""
    knl = tag_inames(knl, dict.fromkeys(items, "l.0"))
    if not step.tiling.alone:
        groups = ("kgen_g",) if step.tiling.looks_back else ("kgen_g", "kgen_g_1")
        knl = tag_inames(knl, dict.fromkeys(groups, "g.0"))
    if step.tiling.looks_back:  # all tiles but the last one are full
        knl = knl.map_kernels(lambda k: k.copy(iname_slab_increments={"kgen_g": (0, 1)}))
    scans = [str(i.id) for i in knl.default_entrypoint.instructions if "kgen_scan" in str(i.id)]
    return realize_reduction(knl, insn_id_filter=scans, force_scan=True)


def scan_along(
    knl: TranslationUnit,
    inames: Sequence[str],
    along: str,
    *,
    is_gpu: bool,
    group_size: int = 128,
    items: int = 8,
    lanes: int = 32,
    rows: int = 16,
) -> TranslationUnit:
    """Distribute scans along the middle one of three axes: rows, or columns in parallel."""
    outer, middle, inner = inames
    if along == "columns":
        inner_tag, outer_tag = ("l.0", "g.1") if is_gpu else ("ilp.seq", "g.1")
        knl = split_iname(
            knl, inner, group_size if is_gpu else lanes, outer_tag="g.0", inner_tag=inner_tag
        )
        knl = (
            split_iname(knl, outer, rows, outer_tag=outer_tag)
            if is_gpu
            else tag_inames(knl, {outer: outer_tag})
        )
    elif is_gpu:
        knl = split_iname(knl, middle, group_size * items)
        knl = split_iname(knl, f"{middle}_inner", items, outer_tag="l.0")
        knl = tag_inames(knl, {outer: "g.0"})
    else:
        knl = split_iname(knl, outer, rows, outer_tag="g.0")
    return realize_reduction(knl, force_scan=True)
