"""Optimization advice, from the report of a kernel's loops and accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.banks import bank_passes
from kgen.analysis.steps import offsets_strided_loop
from kgen.ir.expr import is_zero
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import param_names
from kgen.ir.tags import LocalInameTag
from kgen.ir.target import WARP_SIZE
from kgen.performance.feedback import AccessFeedback, LaunchFeedback
from kgen.statistics.sectors import BANK_PASS
from kgen.statistics.stepping import stride_along
from kgen.targets.base import Target

__all__ = ["advise"]


def advise(kernel: LoopKernel, launches: Sequence[LaunchFeedback]) -> tuple[str, ...]:
    """Return suggestions, each once, the most important ones first."""
    rules = _ON_DEVICES if _has_axes(kernel) else _ON_HOSTS
    found = [text for rule in rules for launch in launches for text in rule(kernel, launch)]
    return tuple(dict.fromkeys(found))


# -- parallelism ------------------------------------------------------------------------------


def _parallelize(kernel: LoopKernel, launch: LaunchFeedback) -> Iterator[str]:
    """Find launches that leave most of the device idle."""
    gangs = [loop for loop in launch.loops if loop.level == "gang"]
    outer = [loop for loop in launch.loops if loop.level == "seq" and loop.depth == 0]
    if not gangs and not any(launch.locals) and outer:
        name = outer[0].iname
        yield (
            f"one work-item does everything: where its iterations are independent, "
            f"parallelize(kernel, {{'{name}': 'gang vector'}})"
        )
    elif not gangs:
        yield (
            "one work-group does everything: give an outer loop the level 'gang' (g.0), so that "
            "all multiprocessors have work"
        )


def _fill_warps(kernel: LoopKernel, launch: LaunchFeedback) -> Iterator[str]:
    """Find work-groups that do not fill warps, or have too few of them."""
    size = prod(launch.locals)
    gangs = [loop for loop in launch.loops if loop.level == "gang"]
    if gangs and size % WARP_SIZE:
        yield (
            f"groups of {size} work-items leave {-size % WARP_SIZE} lanes of a warp of "
            f"{WARP_SIZE} idle: choose a multiple of that"
        )
    elif gangs and size == WARP_SIZE:
        yield (
            f"groups of {size} work-items are one warp each, and a multiprocessor holds few "
            "groups: a loop with the level 'worker' (l.1), of 4 or so, fills them"
        )


def _fit_lengths(kernel: LoopKernel, launch: LaunchFeedback) -> Iterator[str]:
    """Find loops over lanes with data-dependent trip counts."""
    lanes = [loop.iname for loop in launch.loops if loop.level.startswith("vector")]
    for loop in launch.loops:
        if loop.level == "seq" and loop.trips.data and _is_split_with(kernel, loop.iname, lanes):
            data = " and ".join(loop.trips.data)
            yield (
                f"the trip count of '{loop.iname}' follows from {data}: where that is less than "
                f"the {launch.locals[0]} lanes take at once, some are idle; compare shorter "
                "vectors; if the starts of rows ascend, balance the rows"
            )


def _is_split_with(kernel: LoopKernel, iname: str, lanes: Iterable[str]) -> bool:
    """Tell whether a loop and one of the *lanes* cyclically distribute the same range."""
    home = kernel.home_domain
    params = param_names(kernel.domain_of((iname,)))
    return any(home[lane] == home[iname] or lane in params for lane in lanes)


# -- memory -------------------------------------------------------------------------------------


def _step_through_neighbours(kernel: LoopKernel, launch: LaunchFeedback) -> Iterator[str]:
    """Find strided accesses to global memory that are contiguous along another loop."""
    for found in launch.accesses:
        if found.memory != "global" or found.pattern not in ("strided", "gathered"):
            continue
        better = _loop_of_neighbours(kernel, found) if found.length == 1 else None
        if found.pattern == "strided" or better is not None:
            place = "the lanes (l.0)" if _has_axes(kernel) else "the innermost one"
            text = f"{found.direction} of {found.text} is {found}"
            if better is not None:
                text = (
                    f"{text}, but accesses adjacent elements along '{better}': make that loop "
                    f"{place}"
                )
            if found.pattern == "strided":
                text = f"{text}; or choose another layout of {found.array} (tag_array_axes)"
            yield text


def _has_axes(kernel: LoopKernel) -> bool:
    """Tell whether the target of a kernel has work-groups and work-items."""
    target = kernel.target
    is_device = target.has_work_items and not target.loops_over_items
    return isinstance(target, Target) and is_device


def _same(kernel: LoopKernel, found: AccessFeedback) -> Access:
    """Return the access that a feedback describes."""
    insns = [kernel.id_to_insn[insn_id] for insn_id in found.insn_ids]
    is_write = found.direction == "store"
    return next(
        access
        for access in collect_accesses(kernel, insns)
        if access.is_write == is_write and str(access) == found.text
    )


def _loop_of_neighbours(kernel: LoopKernel, found: AccessFeedback) -> str | None:
    access = _same(kernel, found)
    for name in access.place.inames:
        if name != found.along and stride_along(kernel, access, name) == 1:
            return name
    return None


def _share_loads(kernel: LoopKernel, launch: LaunchFeedback) -> Iterator[str]:
    """Find elements that many work-items of a group load in each iteration of a loop."""
    turns = {loop.iname for loop in launch.loops if loop.level == "seq"}
    for found in launch.accesses:
        if found.memory != "global" or found.direction != "load":
            continue
        access = _same(kernel, found)
        steps = {name: stride_along(kernel, access, name) for name in access.place.inames}
        still = {name for name, step in steps.items() if step is not None and is_zero(step)}
        again = [
            name
            for name in access.place.inames
            for tag in kernel.iname_tags_of_type(name, LocalInameTag)
            if name in still
            and launch.locals[tag.axis] > 1
            and not offsets_strided_loop(kernel, name)
        ]
        if again and not turns.intersection(steps) <= still:
            yield (
                f"all work-items along {' and '.join(again)} load the same {found.text}: "
                f"add_prefetch(kernel, '{found.array}', ...) loads it once into shared memory"
            )


def _avoid_bank_conflicts(kernel: LoopKernel, launch: LaunchFeedback) -> Iterator[str]:
    """Find accesses to shared memory with bank conflicts."""
    for found in launch.accesses:
        if found.memory != "shared":
            continue
        access = _same(kernel, found)
        moved = kernel.array_vars[found.array].dtype.itemsize * found.length
        passes = bank_passes(kernel, access, {}, WARP_SIZE, found.length)
        least = max(1, min(prod(launch.locals), WARP_SIZE) * moved // BANK_PASS)
        if passes is not None and passes > least:
            yield (
                f"{found.direction} of {found.text} in shared memory takes {passes} passes over "
                f"the banks instead of {least}: "
                f"add_padding_to_avoid_bank_conflicts(kernel, '{found.array}')"
            )


_Rule = Callable[[LoopKernel, LaunchFeedback], Iterator[str]]
_ON_DEVICES: tuple[_Rule, ...] = (
    _parallelize,
    _step_through_neighbours,
    _share_loads,
    _avoid_bank_conflicts,
    _fill_warps,
    _fit_lengths,
)
_ON_HOSTS: tuple[_Rule, ...] = (_step_through_neighbours,)
