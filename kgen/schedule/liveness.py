"""Liveness of private and local values across launches: uses and definitions of each launch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.access import Access, Place
from kgen.analysis.footprints import Footprints
from kgen.analysis.instances import axis_name, bound, element_name, elements_of
from kgen.errors import ExpressionToAffineConversionError, MissingDefinitionError
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, minus, variable_names
from kgen.ir.sets.dims import (
    BasicSet,
    Set,
    from_named,
    param_names,
    project_out_params,
    to_named,
    with_params,
)
from kgen.ir.sets.quasi_affine import conditions_of
from kgen.ir.stages import PreparedKernel
from kgen.ir.tags import AxisTag, GroupInameTag
from kgen.ir.types import AddressSpace
from kgen.schedule.tree import HostLoop, Launch, Schedule, Step, insn_ids
from kgen.schedule.visits import Visit, visits_of

__all__ = [
    "Flow",
    "Liveness",
    "box_over",
    "conditions_in",
    "launch_axes",
    "check_launch_values_defined",
]


@dataclass(frozen=True)
class Flow:
    """The accesses of one launch to a temporary: named sets over work-items and elements.

    ``needed`` is read before the launch writes it, ``written`` may be written, ``certain``
    is always written.
    """

    needed: Set
    written: Set
    certain: Set


class Liveness:
    """The private and local values that must survive the end of a launch.

    ``flows[k][name]`` describes the accesses of launch *k* to a temporary, ``live[k][name]`` the
    elements whose values at the end of launch *k* later launches need.
    """

    def __init__(self, kernel: PreparedKernel, schedule: Schedule) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.footprints = Footprints.of(kernel)
        self.flows = tuple(self._flows(launch) for launch in schedule.launches)
        self.host_inames = sorted(schedule.host_inames)

    @cached_property
    def live(self) -> tuple[Mapping[str, Set], ...]:
        """The elements that later launches need, per launch and temporary.

        In a host loop, these include what any next iteration needs.
        """
        result = [dict[str, Set]() for _ in self.flows]
        self._needed_before(self.schedule.steps, 0, {}, result)
        return tuple(result)

    def _needed_before(
        self, steps: tuple[Step, ...], first: int, live: dict[str, Set], found: list[dict[str, Set]]
    ) -> dict[str, Set]:
        """Return what *steps*, from launch *first* on, and *live* after them need.

        Stores in *found* what is live after each of the launches.
        """
        counts = [len(Schedule((step,)).launches) for step in steps]
        for at in reversed(range(len(steps))):
            step, number = steps[at], first + sum(counts[:at])
            if isinstance(step, HostLoop):
                # a second pass adds nothing: the needs of an iteration do not change
                for _ in range(2):
                    inside = self._needed_before(step.steps, number, dict(live), found)
                    for name, needed in inside.items():
                        again = project_out_params(needed, (step.iname,))
                        live[name] = live.get(name, _NOTHING).union(again).coalesce()
                continue
            found[number] = dict(live)
            for name, flow in self.flows[number].items():
                kept = live[name].subtract(flow.certain) if name in live else _NOTHING
                live[name] = flow.needed.union(kept)
        return live

    def written_before(self, name: str, launch: int) -> Set:
        """Return the elements of a temporary that launches before number *launch* may write."""
        result = _NOTHING
        for flows in self.flows[: self.schedule.runs_before[launch]]:
            if name in flows:
                result = result.union(flows[name].written)
        return project_out_params(result, self.host_inames)

    def _flows(self, launch: Launch) -> dict[str, Flow]:
        """Compute the accesses of a launch to each temporary that ends with it."""
        visits = list(visits_of((launch,)))
        accesses: dict[str, list[tuple[Visit, Access]]] = {}
        by_insn: dict[str, list[Access]] = {}
        for name, temporary in sorted(self.kernel.temporary_variables.items()):
            if _ends_with_launch(temporary):
                for access in self.footprints.accesses.get(name, ()):
                    by_insn.setdefault(access.insn_id, []).append(access)
        writes: dict[str, list[int]] = {}
        for visit in visits:
            for access in by_insn.get(visit.insn_id, ()):
                accesses.setdefault(access.array, []).append((visit, access))
            for name in self.kernel.id_to_insn[visit.insn_id].assignee_var_names():
                writes.setdefault(name, []).append(visit.position)
        ids = insn_ids(launch.body)
        flows = {name: self._flow(found, writes) for name, found in sorted(accesses.items())}
        return {n: replace(f, needed=self._in_grid(f.needed, ids)) for n, f in flows.items()}

    def _in_grid(self, needed: Set, insns: tuple[str, ...]) -> Set:
        """Restrict elements to work-items that exist: reads outside of loops on axes name none."""
        grid = self.kernel.grid_of_launch(insns)
        for tag in launch_axes(self.kernel, insns):
            sizes = grid.groups if isinstance(tag, GroupInameTag) else grid.locals
            if axis_name(tag) in param_names(needed) and tag.axis < len(sizes):
                with contextlib.suppress(ExpressionToAffineConversionError):
                    needed = _between(needed, axis_name(tag), sizes[tag.axis])
        return needed

    def _flow(self, accesses: list[tuple[Visit, Access]], writes: Mapping[str, list[int]]) -> Flow:
        needed = written = certain = _NOTHING
        earlier: list[tuple[Visit, Access]] = []
        for visit, access in accesses:
            if access.is_write:
                earlier.append((visit, access))
                written = written.union(self._accessed(access, ())[0])
                touched, is_exact = self._accessed(access, ())
                if is_exact:
                    certain = certain.union(touched)
            else:
                needed = needed.union(self.uncovered(visit, access, earlier, writes))
        return Flow(needed.coalesce(), written.coalesce(), certain.coalesce())

    def uncovered(
        self,
        visit: Visit,
        read: Access,
        earlier: list[tuple[Visit, Access]],
        writes: Mapping[str, list[int]],
    ) -> Set:
        """Return the elements of *read* that no earlier write of the launch always writes.

        For a loop around both, only the same iteration counts.
        """
        loops = tuple(name for _, name in visit.loops)
        left = self._accessed(read, loops)[0]
        for writer, write in reversed(earlier):
            if left.is_empty():
                break
            shared = visit.shared_loops(writer)
            fixed = frozenset(shared).union(self.kernel.axes)
            changed = {
                name
                for name, positions in writes.items()
                if any(writer.position <= at < visit.position for at in positions)
            }
            conditions = tuple(
                condition
                for condition in write.place.conditions
                if condition not in read.place.conditions
                or not self._is_fixed(condition, fixed, changed)
            )
            place = Place(write.place.inames, conditions)
            given = Access(write.insn_id, write.array, write.index, True, place)
            touched, is_exact = self._accessed(given, shared)
            if is_exact:
                left = left.subtract(touched)
        return project_out_params(left, loops)

    def _is_fixed(self, condition: Expr, fixed: frozenset[str], changed: set[str]) -> bool:
        """Tell whether a condition has the same value for both of two instructions."""
        return all(
            name not in changed and (name in fixed or name not in self.kernel.inames)
            for name in variable_names(condition)
        )

    def _accessed(self, access: Access, keep: tuple[str, ...]) -> tuple[Set, bool]:
        """Return the named set of elements that *access* accesses, and whether it is exact.

        It is over the work-item axes, elements, and the loops *keep*.
        """
        kernel = self.kernel
        temporary = kernel.temporary_variables[access.array]
        named, is_exact = elements_of(kernel, self.footprints, access)
        for axis, extent in enumerate(temporary.shape):
            named = _between(named, element_name(axis), extent)
        shared = temporary.address_space == AddressSpace.LOCAL
        for iname in access.place.inames:
            axis_of = kernel.axes.get(iname)
            if axis_of is not None and not (shared and not isinstance(axis_of.tag, GroupInameTag)):
                index = minus(p.Variable(iname), axis_of.first)
                named = bound(
                    self.footprints.with_params(named, index), axis_name(axis_of.tag), index
                )
        gone = [iname for iname in access.place.inames if iname not in keep]
        gone += [name for name in param_names(named) if name in kernel.array_vars]
        return project_out_params(named, gone), is_exact


_NOTHING = isl.Set("{ [] : false }")


def _ends_with_launch(temporary: TemporaryVariable) -> bool:
    return temporary.address_space != AddressSpace.GLOBAL and temporary.initializer is None


def _between(named: Set, name: str, extent: Expr) -> Set:
    """Intersect with ``0 <= name < extent``."""
    named = with_params(named, (name, *variable_names(extent)))
    return bound(bound(named, name, 0, "ge_set"), name, extent, "lt_set")


def box_over(extents: Mapping[str, Expr]) -> BasicSet:
    """Return the domain of loops that count from 0."""
    box = isl.Set("{ [] }")
    for name, extent in extents.items():
        box = _between(box, name, extent)
    (domain,) = from_named(box, list(extents)).coalesce().get_basic_sets()
    return domain


def conditions_in(region: Set, box: Mapping[str, Expr], assumptions: Set) -> tuple[Expr, ...]:
    """Return the constraints of a region beyond those of its box, by the names in these sets."""
    around = to_named(box_over(box)).intersect_params(assumptions)
    return conditions_of(region.intersect(around).gist(around).params())


def check_launch_values_defined(kernel: PreparedKernel, schedule: Schedule) -> None:
    """Reject private and local values that would have to survive the end of a launch.

    *kernel* is as on the device: the variables of host loops are arguments.

    Raises :class:`MissingDefinitionError`.
    """
    if not any(schedule.runs_before):
        return
    liveness = Liveness(kernel, schedule)
    for number, launch in enumerate(schedule.launches):
        for name, flow in liveness.flows[number].items():
            lost = flow.needed.intersect(liveness.written_before(name, number))
            if lost.is_empty():
                continue
            raise MissingDefinitionError(
                f"temporary variable '{name}' gets used in subkernel '{launch.name}' without "
                "a definition (maybe you forgot to call save_and_reload_temporaries?)\n"
                f"  where: kernel '{kernel.name}', instruction "
                f"'{_first_reader(kernel, launch, name)}'\n"
                "  because: it does not outlive the launch that wrote it\n"
                "  hint: save_and_reload_temporaries(kernel), or "
                f"set_temporary_address_space(kernel, '{name}', 'global')"
            )


def _first_reader(kernel: PreparedKernel, launch: Launch, name: str) -> str:
    accesses = Footprints.of(kernel).accesses[name]
    readers = {access.insn_id for access in accesses if not access.is_write}
    return next(v.insn_id for v in visits_of((launch,)) if v.insn_id in readers)


def launch_axes(kernel: PreparedKernel, insn_ids: Iterable[str]) -> tuple[AxisTag, ...]:
    """Return the hardware axes of some instructions, groups first."""
    tags = {axis.tag for axis in kernel.axes_around(insn_ids).values()}
    return tuple(sorted(tags, key=lambda tag: (not isinstance(tag, GroupInameTag), tag.axis)))
