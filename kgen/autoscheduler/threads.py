"""Schedules for CPUs: threads run work-groups, and compilers vectorize inner loops."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kgen.autoscheduler.nests import Nest
from kgen.autoscheduler.planner import Planner
from kgen.autoscheduler.steps import Step, step, with_ids
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.split_domain import split_domain
from kgen.transforms.loops.tag import prioritize_loops, tag_inames
from kgen.transforms.reductions.nesting import split_reduction_outward
from kgen.transforms.reductions.realize import realize_reduction
from kgen.transforms.statements import tag_instructions
from kgen.transforms.storage.declarations import set_options, tag_array_axes

__all__ = ["on_threads"]

#: The minimum number of instructions of a work-group.
GRAIN = 16384
#: The minimum number of instructions of a nest that is distributed over threads.
LEAST = 32768
#: A loop of fewer iterations leaves threads without work.
FEW = 16
#: The minimum iterations of a thread in a loop over adjacent elements: vectors, cache lines.
LANES = 64
#: The bytes of an array in all lanes: several vectors, whose operations overlap.
LANE_BYTES = 256
#: The number of iterations that share common loads.
SHARED = 32
#: The bytes of a vector, which one instruction works on.
VECTOR_BYTES = 64
#: ``LANE_BYTES`` if loops inside the lanes step through memory by rows.
ROW_BYTES = 512
#: The bytes of arrays that do not stay in a cache until they are used again: twice the usual 32
#: MiB.
CACHED = 1 << 26
#: Independent sums that one thread computes, for vectors and their latency.
SUMS = 32
#: The maximum number of copies of an instruction in unrolled loops.
COPIES = 100
#: The trip count up to which compilers unroll loops themselves, up to so many copies.
UNROLLED = 16
#: The maximum number of terms of an unrolled sum; longer ones are computed in lanes.
TERMS = 25
#: The rows and columns of a tile whose lines stay in a cache, and the side of the squares in it.
TILE = 64, 256
SQUARE = 8


def on_threads(planner: Planner, nest: Nest) -> Iterator[Sequence[Step]]:
    """Yield schedules of a nest for threads, the best first."""
    if is_small(nest) or any(getattr(insn, "atomicity", ()) for insn in nest.instructions):
        return
    loops = planner.parallel_loops(nest)
    if not loops:
        yield from sum_in_pieces(nest)
        return
    for recipe in (running_sums, product_in_tiles, transposition_in_tiles, lanes_outside):
        yield from recipe(nest, loops)
    spread = spread_out(planner, nest, loops)
    past = past_the_cache(nest, spread)
    if past:
        yield (*spread, *past)
    for more in (sums_in_lanes(nest, loops), unroll_short(planner, nest)):
        if more:
            yield (*spread, *more)
    yield spread


def past_the_cache(nest: Nest, spread: Sequence[Step]) -> tuple[Step, ...]:
    """Use streaming stores for results that exceed the cache, in a version for such sizes.

    This applies to arrays that the kernel does not read, and that are written contiguously in a
    loop that accesses each array in one place. If it depends on a single size, calls choose the
    version.
    """
    if not nest.is_stream or lane_tag(nest) != "vec":
        return ()
    ids = [str(insn.id) for insn in nest.instructions]
    least = nest.least_size(CACHED)
    if least is None:
        return ()
    parameter, size = least
    if parameter is None:
        return (step(tag_instructions, "!streaming_store", with_ids(ids)),)
    outer = f"{spread[0].args[0]}_outer" if spread[0].function is split_iname else nest.band[0]
    subset = f"[{parameter}] -> {{ [{outer}]: {parameter} >= {size} }}"
    sides = {"within": with_ids(ids), "suffixes": ("large", "small")}
    large = with_ids(f"{name}_large" for name in ids)
    return (
        step(split_domain, subset, **sides),
        step(tag_instructions, "!streaming_store", large),
    )


def is_small(nest: Nest) -> bool:
    """Tell whether all sizes are known, and too small for threads."""
    is_known = all(nest.trips(name) is not None for name in nest.inames)
    return is_known and len(nest.insn_ids) * nest.expected_trips(nest.inames) < LEAST


# -- loops over threads --------------------------------------------------------------------------


def spread_out(planner: Planner, nest: Nest, loops: Sequence[str]) -> tuple[Step, ...]:
    """Distribute the outermost parallel loop with enough iterations over threads."""
    lane = nest.lane(nest.inames)
    long = [name for name in loops if (nest.trips(name) or FEW) >= FEW]
    outer = [name for name in long if name != lane]
    if outer or long:
        name = (outer or long)[0]
        is_often = planner.is_launched_often(nest, name)
        around = nest.band[: nest.band.index(name)] if is_often else ()
        return (in_pieces(nest, name, lane, around),)
    several = enumerate(reversed(loops[:3]))
    return tuple(step(tag_inames, f"{name}:g.{axis}") for axis, name in several)


def in_pieces(nest: Nest, iname: str, lane: str | None, around: Collection[str] = ()) -> Step:
    """Let threads run pieces of a loop that are large enough, or single iterations.

    It starts again in each iteration of the loops *around* it.
    """
    others = [name for name in nest.inames if name != iname and name not in around]
    each = len(nest.insn_ids) * nest.expected_trips(others)
    length = piece(each, nest.trips(iname))
    if any(map(nest.is_data, others)):
        length = max(length, GRAIN // FEW)  # threads fetch pieces dynamically
    if iname == lane:
        length = max(length, LANES)
    elif all(nest.trips(name) is not None for name in others):
        length = max(length, SHARED)  # values that do not depend on the loop are loaded once
    if length == 1:
        return step(tag_inames, f"{iname}:g.0")
    return step(split_iname, iname, length, outer_tag="g.0")


def piece(each: int, trips: int | None) -> int:
    """Return the iterations of a work-group, given their instructions: a power of two."""
    most = GRAIN // each if trips is None else min(GRAIN // each, trips // FEW)
    return 1 << max(most, 1).bit_length() - 1


def unroll_short(planner: Planner, nest: Nest) -> tuple[Step, ...]:
    """Unroll loops with few iterations, from the innermost one outwards, up to a number of copies.

    An unrolled loop is moved inside the others, if dependences allow it.
    """
    lane = nest.lane(nest.inames)
    copies, names = 1, list[str]()
    for name in reversed(nest.inames):
        trips = nest.trips(name)
        if name == lane or not nest.is_free(name) or trips is None or trips * copies > COPIES:
            continue
        if nest.stays_inside(name, names) or planner.is_parallel(nest, name):
            copies *= trips
            names.append(name)
    return (step(tag_inames, ", ".join(f"{name}:unr" for name in names)),) if names else ()


# -- lanes ---------------------------------------------------------------------------------------


def lane_tag(nest: Nest) -> str:
    """Return the tag of a loop whose iterations are lanes: OpenCL has no loops of lanes."""
    return "vec" if nest.kernel.target.has_simd_loops else "ilp.seq"


def lanes_outside(nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield the schedule that runs inner loops for several adjacent iterations together.

    This applies to sequential loops, or sums, in which all accesses are contiguous or uniform along
    these iterations.
    """
    lane = nest.lane(loops)
    inner = [name for name in nest.inner if (nest.trips(name) or FEW) > 1]
    if lane is None or not inner or lane_tag(nest) != "vec":
        return
    if _are_unrolled(nest, inner):
        return
    is_fit = all(nest.is_unit(a, lane) or nest.is_uniform(a, lane) for a in nest.accesses)
    length = _lanes(nest, lane)
    if not is_fit or any(map(nest.is_data, inner)) or (nest.trips(lane) or length) < length:
        return
    outer = [name for name in loops if name != lane and (nest.trips(name) or FEW) >= FEW]
    lanes = step(split_iname, lane, length, inner_tag="vec")
    if outer:
        yield in_pieces(nest, outer[0], lane), lanes
        return
    vectors = max(1, length * nest.itemsize() // VECTOR_BYTES)
    pieces = piece(vectors * len(nest.insn_ids) * nest.expected_trips(nest.inner), None)
    yield lanes, step(split_iname, f"{lane}_outer", pieces, outer_tag="g.0")


def _are_unrolled(nest: Nest, inames: Sequence[str]) -> bool:
    """Tell whether a loop is short enough to unroll, to keep its values in registers."""
    trips = nest.expected_trips(inames)
    is_known = all(nest.trips(name) is not None for name in inames)
    most = TERMS if nest.reduced.issuperset(inames) else UNROLLED
    return is_known and trips <= most and trips * len(nest.insn_ids) <= COPIES


def _lanes(nest: Nest, lane: str) -> int:
    """Return the number of lanes; there are more if inner loops step through memory by rows."""
    rows = (a for a in nest.accesses if nest.is_unit(a, lane))
    is_across = any(not nest.is_uniform(a, name) for a in rows for name in nest.inner)
    return (ROW_BYTES if is_across else LANE_BYTES) // nest.itemsize()


def running_sums(nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield schedules in which each sum continues the preceding one: of rows, or in pieces."""
    found = nest.find_scan()
    if found is None:
        return
    along, reducing = found
    scan = step(realize_reduction, reducing, force_scan=True)
    rows = [name for name in loops if name != along and (nest.trips(name) or FEW) >= FEW]
    if rows:
        yield in_pieces(nest, rows[0], None), scan
    else:
        yield step(split_iname, along, 4 * GRAIN, outer_tag="g.0"), scan
    yield (scan,)


def sums_in_lanes(nest: Nest, loops: Sequence[str]) -> tuple[Step, ...]:
    """Use several accumulators along contiguous elements, if no other loop is contiguous."""
    if len(nest.inner) != 1 or nest.inner[0] not in nest.reduced:
        return ()
    (k,) = nest.inner
    reads = [a for a in nest.accesses if not a.is_write and not nest.is_uniform(a, k)]
    is_along = any(nest.is_unit(a, k) for a in reads)
    is_fit = all(nest.is_unit(a, k) or nest.is_uniform(a, k) for a in reads)
    if not is_along or not is_fit or any(nest.is_unit(a, n) for a in reads for n in loops):
        return ()
    if not nest.is_free(k) or nest.is_data(k) or (nest.trips(k) or SUMS) < SUMS:
        return ()
    return (step(split_iname, k, SUMS, inner_tag=lane_tag(nest)),)


def sum_in_pieces(nest: Nest) -> Iterator[Sequence[Step]]:
    """Yield the schedule of a sum over all elements: threads add up pieces in several sums."""
    (iname, *others), inner = nest.band, nest.inner
    if iname not in nest.reduced or others or inner or not nest.is_free(iname):
        return
    lanes = step(split_iname, iname, SUMS, inner_tag=lane_tag(nest))
    groups = step(split_iname, f"{iname}_outer", 512, outer_tag="g.0")
    yield step(set_options, insert_gbarriers=True), lanes, groups


# -- tiles ---------------------------------------------------------------------------------------


def product_in_tiles(nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield the schedule of a matrix product: packed panels in caches, sums in registers."""
    found = nest.find_product(loops)
    if found is None:
        return
    i, j, k, panel = found
    steps = product_steps(nest, (i, j, k), (256, 8, 32, 256))
    yield (*steps, *packed_panel(nest, (i, j, k), panel))


def packed_panel(nest: Nest, loops: tuple[str, str, str], panel: str) -> list[Step]:
    """Return the steps that copy a panel of a product to contiguous memory, columns adjacent."""
    i, j, k = loops
    swept = [f"{k}_inner", f"{j}_inner"]
    options = {"default_tag": None, "fetch_outer_inames": f"{i}_outer,{j}_outer,{k}_outer"}
    factor = nest.factors(i, j, k)[panel]
    if factor.axes == (k, j):
        return [factor.fetch(swept, **options)]
    packed = f"{panel}_turned"
    return [
        factor.fetch(swept, temporary_name=packed, **options),
        step(tag_array_axes, packed, "N0,N1"),
    ]


def product_steps(
    nest: Nest, loops: tuple[str, str, str], sizes: tuple[int, int, int, int]
) -> list[Step]:
    """Return the steps that tile a product: rows, rows per step, columns, sum.

    Columns are lanes; a part of the sum is added up in registers.
    """
    (i, j, k), (height, rows, width, depth) = loops, sizes
    result = [step(split_iname, i, height, outer_tag="g.1")]
    order = [f"{i}_inner"]
    if rows > 1:
        result.append(step(split_iname, f"{i}_inner", rows, inner_tag="ilp"))
        order = [f"{i}_inner_outer"]
    if lane_tag(nest) == "vec":
        lanes = {"inner_tag": "vec"}
    else:
        lanes = {}
        order.append(f"{j}_inner")
    return [
        *result,
        step(split_iname, j, width, outer_tag="g.0", **lanes),
        step(split_iname, k, depth),
        step(split_reduction_outward, f"{k}_outer"),
        step(prioritize_loops, ",".join([f"{k}_outer", *order, f"{k}_inner"])),
    ]


def transposition_in_tiles(nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield the schedule that processes both arrays in squares, whose lines stay in caches."""
    j = nest.lane(loops)
    if j is None or nest.inner or not nest.are_long(j):
        return
    for access in nest.accesses:
        across = [n for n in loops if n != j and nest.is_unit(access, n) and nest.are_long(n)]
        is_far = not nest.is_unit(access, j) and not nest.is_uniform(access, j)
        if is_far and across and not access.is_write:
            i, others = across[0], [n for n in loops if n not in (j, across[0])]
            yield (
                *(step(tag_inames, f"{name}:g.2") for name in others[:1]),
                step(split_iname, i, TILE[0], outer_tag="g.1"),
                step(split_iname, j, TILE[1], outer_tag="g.0"),
                step(split_iname, f"{i}_inner", SQUARE),
                step(split_iname, f"{j}_inner", SQUARE, inner_tag=lane_tag(nest)),
                step(prioritize_loops, f"{j}_inner_outer,{i}_inner_outer,{i}_inner_inner"),
            )
            return
