"""Schedules for processors: threads run work-groups, and compilers make vectors of inner loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgen.autoschedule.nests import Nest
from kgen.autoschedule.planner import Planner
from kgen.autoschedule.steps import Step, step
from kgen.transforms.loops.split import split_iname
from kgen.transforms.loops.tag import prioritize_loops, tag_inames
from kgen.transforms.storage.declarations import set_options
from kgen.transforms.storage.prefetch import add_prefetch

__all__ = ["on_threads"]

#: Instructions that are worth a work-group of their own.
GRAIN = 8192
#: Instructions of a whole nest that are worth threads.
LEAST = 32768
#: A loop of fewer iterations leaves threads without work.
FEW = 16
#: Iterations of a loop over adjacent elements that one thread has at least: vectors, cache lines.
LANES = 64
#: Independent sums that one thread computes, for vectors and their latency.
SUMS = 32
#: So many copies of an instruction are worth it to unroll loops.
COPIES = 100


def on_threads(planner: Planner, nest: Nest) -> Iterator[Sequence[Step]]:
    """Yield schedules of a nest for threads, the best first."""
    if is_small(nest) or any(getattr(insn, "atomicity", ()) for insn in nest.instructions):
        return
    band = [name for name in nest.band if name not in nest.reduced]
    loops = [name for name in band if planner.is_parallel(nest, name)]
    if not loops:
        yield from sum_in_pieces(nest)
        return
    for recipe in (product_in_tiles, transposition_in_tiles):
        yield from recipe(nest, loops)
    spread = spread_out(nest, loops)
    unrolled = unroll_short(nest)
    if unrolled:
        yield (*spread, *unrolled)
    yield spread


def is_small(nest: Nest) -> bool:
    """Tell whether all sizes are known, and too small for threads."""
    is_known = all(nest.trips(name) is not None for name in nest.inames)
    return is_known and len(nest.insn_ids) * nest.expected_trips(nest.inames) < LEAST


# -- loops over threads --------------------------------------------------------------------------


def spread_out(nest: Nest, loops: Sequence[str]) -> tuple[Step, ...]:
    """Spread iterations over threads: of the outermost of parallel loops that is long enough."""
    lane = nest.lane(nest.inames)
    long = [name for name in loops if (nest.trips(name) or FEW) >= FEW]
    outer = [name for name in long if name != lane]
    if outer or long:
        return (in_pieces(nest, (outer or long)[0], lane),)
    several = enumerate(reversed(loops[:3]))
    return tuple(step(tag_inames, f"{name}:g.{axis}") for axis, name in several)


def in_pieces(nest: Nest, iname: str, lane: str | None) -> Step:
    """Let threads run pieces of a loop that are worth it, or single iterations."""
    others = [name for name in nest.inames if name != iname]
    each = len(nest.insn_ids) * nest.expected_trips(others)
    length = piece(each, nest.trips(iname))
    if any(map(nest.is_data, others)):
        length = max(length, GRAIN // FEW)  # threads fetch pieces one by one
    if iname == lane:
        length = max(length, LANES)
    if length == 1:
        return step(tag_inames, f"{iname}:g.0")
    return step(split_iname, iname, length, outer_tag="g.0")


def piece(each: int, trips: int | None) -> int:
    """Return how many iterations of some instructions each are a work-group: a power of two."""
    most = GRAIN // each if trips is None else min(GRAIN // each, trips // FEW)
    return 1 << max(most, 1).bit_length() - 1


def unroll_short(nest: Nest) -> tuple[Step, ...]:
    """Unroll loops of few iterations, from the innermost one outwards, as far as it goes."""
    lane = nest.lane(nest.inames)
    copies, names = 1, []
    for name in reversed(nest.inames):
        trips = nest.trips(name)
        if name != lane and nest.is_free(name) and trips is not None and trips * copies <= COPIES:
            copies *= trips
            names.append(name)
    return (step(tag_inames, ", ".join(f"{name}:unr" for name in names)),) if names else ()


# -- sums ----------------------------------------------------------------------------------------


def sum_in_pieces(nest: Nest) -> Iterator[Sequence[Step]]:
    """Yield the schedule of a sum over all there is: threads add up pieces in several sums."""
    (iname, *others), inner = nest.band, nest.inner
    if iname not in nest.reduced or others or inner or not nest.is_free(iname):
        return
    lanes = step(split_iname, iname, SUMS, inner_tag="ilp.seq")
    groups = step(split_iname, f"{iname}_outer", 512, outer_tag="g.0")
    yield step(set_options, insert_gbarriers=True), lanes, groups


# -- tiles ---------------------------------------------------------------------------------------


def product_in_tiles(nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield the schedule of a matrix product: packed panels in caches, sums in registers."""
    found = nest.find_product(loops)
    if found is None:
        return
    i, j, k, panel = found
    rows = 8 if nest.divides(8, i) or nest.trips(i) is not None else None
    steps = [step(split_iname, i, 256, outer_tag="g.1")]
    inner = f"{i}_inner"
    if rows is not None:
        steps.append(step(split_iname, inner, rows, inner_tag="ilp"))
        inner = f"{inner}_outer"
    yield (
        *steps,
        step(split_iname, j, 32, outer_tag="g.0"),
        step(split_iname, k, 256),
        step(prioritize_loops, f"{k}_outer,{inner},{j}_inner,{k}_inner"),
        step(
            add_prefetch,
            panel,
            [f"{k}_inner", f"{j}_inner"],
            default_tag=None,
            fetch_outer_inames=f"{i}_outer,{j}_outer,{k}_outer",
        ),
    )


def transposition_in_tiles(nest: Nest, loops: Sequence[str]) -> Iterator[Sequence[Step]]:
    """Yield schedules in which what is read along columns comes in tiles, row by row."""
    j = nest.lane(loops)
    if j is None or nest.inner:
        return
    for access in nest.accesses:
        across = [n for n in loops if n != j and nest.is_unit(access, n)]
        is_far = not nest.is_unit(access, j) and not nest.is_uniform(access, j)
        if is_far and across and nest.is_only_read(access.array):
            i = across[0]
            yield (
                step(split_iname, i, 64, outer_tag="g.1"),
                step(split_iname, j, 256, outer_tag="g.0"),
                step(
                    add_prefetch,
                    access.array,
                    [f"{i}_inner", f"{j}_inner"],
                    default_tag=None,
                ),
                step(prioritize_loops, f"{i}_inner,{j}_inner"),
            )
            return
