"""All checks of a kernel: what is proved, violated (with a counterexample), or unknown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from kgen.analysis.axes import has_axes
from kgen.analysis.bounds import check_access
from kgen.analysis.footprints import Footprints
from kgen.analysis.ordering import find_unordered, unordered_error
from kgen.analysis.written import allocated_outputs, find_unwritten
from kgen.ast.build import build_code
from kgen.ast.definite import find_assigned_by_data
from kgen.ast.nodes import DeviceFunction
from kgen.ast.verify import verify_barriers, verify_lanes
from kgen.errors import (
    CodegenError,
    DependencyCycleFound,
    KgenError,
    KgenIndexError,
    KgenWarning,
    MissingBarrierError,
    ScheduleError,
    StaticValueFindingError,
    WriteRaceError,
    is_silenced,
    rows_of,
)
from kgen.ir.checked import checked
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.effort import STEP, answer
from kgen.ir.stages import DeviceKernel, PreparedKernel
from kgen.ir.unit import TranslationUnit
from kgen.lowering import prepare, schedule_prepared
from kgen.origin import compare_with_origin, origin_error
from kgen.schedule.conflicts import Conflicts
from kgen.schedule.definition import undefined_error, unproved_reads
from kgen.schedule.host import on_device
from kgen.schedule.nesting import LoopNesting
from kgen.schedule.races import find_races, race_text
from kgen.schedule.separation import find_unsynchronized, unsynchronized_error
from kgen.schedule.threads import items_as_loops
from kgen.schedule.tree import Schedule
from kgen.schedule.undefined import find_undefined
from kgen.targets.base import Target
from kgen.targets.limits import find_exceeded_limits
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["Finding", "Report", "Status", "verify"]


class Status(Enum):
    """The status of a check."""

    PROVED = "proved"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check at one place in a kernel.

    ``point`` is an iteration for which the message is true, and ``error`` what
    :meth:`Report.raise_if_violated` raises.
    """

    check: str
    status: Status
    message: str
    instruction: str | None = None
    array: str | None = None
    point: str | None = None
    error: KgenError | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Report:
    """All findings of :func:`verify`, in the order of the checks.

    ``print(report)`` shows a table, and below it the messages of violations.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...])
    >>> lp.verify(unit).ok
    True
    """

    kernel: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Tell whether no check is violated; some may be unknown."""
        return not self.violated

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The violations."""
        return self._with(Status.VIOLATED)

    @property
    def unknown(self) -> tuple[Finding, ...]:
        """The checks that depend on data, or on unchecked assumptions."""
        return self._with(Status.UNKNOWN)

    def _with(self, status: Status) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.status is status)

    def raise_if_violated(self) -> Report:
        """Raise the error of the first violation; return this report if there is none."""
        for finding in self.violated:
            assert finding.error is not None
            raise finding.error
        return self

    def __str__(self) -> str:
        rows = [("check", "status", "instruction", "array", "point")]
        rows += [
            (f.check, f.status.value, f.instruction or "", f.array or "", f.point or "")
            for f in self.findings
        ]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        texts = [finding.message for finding in self.violated]
        return "\n".join([f"kernel '{self.kernel}'", *lines, *(f"\n{text}" for text in texts)])


@checked
def verify(
    program: TranslationUnit | LoopKernel,
    entrypoint: str | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Report:
    """Run all checks of a kernel, without stopping at the first violation, and report.

    Code generation runs the quick ones of these checks, and raises at the first violation::

        kernel      types, shapes, tags, finite loops: the basis of all other checks
        bounds      subscripts are inside their arrays
        order       two accesses to one element have an order, which does not depend on loop
                    priorities
        races       no instruction writes one element from several work-items
        schedule    loops nest, dependencies have no cycle, all hardware axes are used;
                    work-groups that look back wait only for earlier ones
        barriers    a barrier separates accesses of two work-items to one element
        definition  temporaries are written before they are read
        assignment  the code assigns every variable before it reads it, also in guards and bounds
        divergence  all work-items of a group reach the same barriers
        outputs     every element of an output is written; a call that allocates it fills others
        device      the device has room for the work-groups and their memory
        origin      each result is the same as in the kernel that the user wrote, before
                    transformations: proved for all sizes by tracing values backwards, or
                    else tested for a few sizes by evaluation

    >>> import kgen as lp
    >>> knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a", "float32", shape="n"), "..."])
    >>> lp.verify(knl).ok
    True
    """
    kernel = inlined_kernel(program, entrypoint)
    return Report(kernel.name, tuple(_Verifier(kernel, dtypes).run()))


class _Verifier:
    def __init__(self, kernel: LoopKernel, dtypes: Mapping[str, Any] | None) -> None:
        self.given = kernel
        self.dtypes = dtypes
        target = kernel.target
        self.target = target if isinstance(target, Target) else None
        self.has_axes = False
        self.kernel: PreparedKernel
        self.schedule: Schedule | None = None
        self.unproved: frozenset[tuple[str, str]] = frozenset()
        #: those of which nothing uses the values
        self.unused: frozenset[tuple[str, str]] = frozenset()

    def run(self) -> Iterator[Finding]:
        found = list(self._or_proved("kernel", self._prepare()))
        yield from found
        if any(finding.status is Status.VIOLATED for finding in found):
            return
        checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
            ("bounds", self._bounds),
            ("order", self._order),
            ("races", self._races),
            ("schedule", self._schedule),
        ]
        for check, run in checks:
            yield from self._or_proved(check, self._in_time(check, run))
        if self.schedule is None:
            return
        for check, run in (
            ("barriers", self._barriers),
            ("definition", self._definition),
            ("assignment", self._assignment),
            ("divergence", self._divergence),
            ("outputs", self._outputs),
            ("origin", self._origin),
        ):
            yield from self._or_proved(check, self._in_time(check, run))

    def _in_time(self, check: str, run: Callable[[], Iterator[Finding]]) -> list[Finding]:
        found = answer(lambda: list(run()), STEP)
        if found is None:
            text = f"{check}: isl needs too long to find out"
            return [Finding(check=check, status=Status.UNKNOWN, message=text)]
        return found

    def _or_proved(self, check: str, found: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings of a check, or that it is proved if there are none."""
        nothing = True
        for finding in found:
            nothing = False
            yield finding
        if nothing:
            yield Finding(check=check, status=Status.PROVED, message=f"{check}: all is well")

    def _prepare(self) -> Iterator[Finding]:
        options = self.given.options.copy(enforce_array_accesses_within_bounds="no_check")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self.kernel = prepare(self.given.copy(options=options), self.dtypes)
                self.has_axes = has_axes(self.kernel)
            except KgenError as err:
                yield _violation("kernel", err)
        for warning in caught:
            if issubclass(warning.category, KgenWarning):
                yield Finding(check="kernel", status=Status.UNKNOWN, message=str(warning.message))

    def _bounds(self) -> Iterator[Finding]:
        footprints = Footprints.of(self.kernel)
        for name, accesses in footprints.accesses.items():
            for access in accesses:
                try:
                    unknown = check_access(self.kernel, footprints, access)
                except KgenIndexError as err:
                    yield _violation("bounds", err, access.insn_id, name)
                    continue
                if unknown is not None:
                    yield Finding(
                        check="bounds",
                        status=Status.UNKNOWN,
                        message=f"'{access}': {unknown}",
                        instruction=access.insn_id,
                        array=name,
                    )

    def _order(self) -> Iterator[Finding]:
        for found in find_unordered(self.kernel):
            error = unordered_error(self.kernel, found)
            yield _violation("order", error, found.write.insn_id, found.write.array)
        if not self.kernel.loop_priority:
            return
        nesting = LoopNesting(self.kernel, sequential_axes=not self.has_axes)
        try:
            reordered = list(nesting.reordered_by_priority())
        except ScheduleError:  # which the check of the schedule reports
            return
        for loops, point in reordered:
            yield Finding(
                check="order",
                status=Status.UNKNOWN,
                message="results depend on the order of loops that priorities define, "
                f"{', '.join(loops)}: {point}",
                point=point,
            )

    def _races(self) -> Iterator[Finding]:
        if not self.has_axes:
            return
        try:
            conflicts = Conflicts(items_as_loops(self.kernel))
            races = list(find_races(conflicts, self.kernel.id_to_insn))
        except StaticValueFindingError as err:
            yield _violation("races", err)
            return
        for race in races:
            text = race_text(self.kernel, race)
            insn_id, array = race.access.insn_id, race.access.array
            if race.kind.is_certain and not self._is_silenced(insn_id):
                yield _violation("races", WriteRaceError(text), insn_id, array)
                continue
            yield Finding(
                check="races",
                status=Status.UNKNOWN,
                message=text,
                instruction=insn_id,
                array=array,
                point=race.point,
            )

    def _is_silenced(self, insn_id: str) -> bool:
        return is_silenced(f"write_race({insn_id})", self.kernel.silenced_warnings)

    def _schedule(self) -> Iterator[Finding]:
        silenced = [f"write_race({insn_id})" for insn_id in self.kernel.id_to_insn]
        silenced = [*self.kernel.silenced_warnings, *silenced]
        kernel = PreparedKernel(self.kernel.copy(silenced_warnings=silenced))
        try:
            kernel, self.schedule = schedule_prepared(kernel, has_axes=self.has_axes)
            self.kernel = items_as_loops(kernel) if self.has_axes else kernel
        except MissingBarrierError as err:
            yield _violation("barriers", err)
        except (DependencyCycleFound, ScheduleError, StaticValueFindingError) as err:
            yield _violation("schedule", err)

    def _barriers(self) -> Iterator[Finding]:
        assert self.schedule is not None
        if not self.has_axes:
            return
        for found in find_unsynchronized(self.kernel, self.schedule):
            error = unsynchronized_error(self.kernel, found)
            yield _violation("barriers", error, found.conflict.second.insn_id)
        for insn in self.kernel.instructions:
            if insn.no_sync_with:
                others = ", ".join(sorted(name for name, _ in insn.no_sync_with))
                yield Finding(
                    check="barriers",
                    status=Status.UNKNOWN,
                    message=f"'{insn.id}' is declared to need no synchronization with {others}",
                    instruction=str(insn.id),
                )

    def _definition(self) -> Iterator[Finding]:
        assert self.schedule is not None
        every = tuple(find_undefined(self.kernel, self.schedule, has_axes=self.has_axes))
        self.unproved = unproved_reads(self.kernel, every)
        self.unused = unproved_reads(self.kernel, (one for one in every if one.is_unused))
        for found in (one for one in every if not one.is_unused):
            if found.point is not None:
                error = undefined_error(self.kernel, found)
                yield _violation("definition", error, found.read.insn_id, found.read.array)
                continue
            yield Finding(
                check="definition",
                status=Status.UNKNOWN,
                message=f"whether '{found.read}' was written before depends on data",
                instruction=found.read.insn_id,
                array=found.read.array,
            )

    def _outputs(self) -> Iterator[Finding]:
        for array in allocated_outputs(self.kernel):
            found = find_unwritten(self.kernel, array)
            if found is not None:
                yield Finding(
                    check="outputs",
                    status=Status.UNKNOWN,
                    message=f"whether all of '{array.name}' is written is not known"
                    if found.point is None
                    else f"'{found.point}' is not written",
                    array=array.name,
                    point=found.point,
                )

    def _origin(self) -> Iterator[Finding]:
        assert self.schedule is not None
        origin = self.given.origin
        if origin is None:
            return
        found = compare_with_origin(
            origin, self.kernel, self.schedule, self.dtypes, has_axes=self.has_axes
        )
        if found.difference is not None:
            array, insn = found.difference.array, found.difference.now
            yield _violation(
                "origin", origin_error(self.kernel, found.difference), insn and insn.insn_id, array
            )
        elif found.reason is not None:
            yield Finding(check="origin", status=Status.UNKNOWN, message=found.reason)

    @cached_property
    def _code(self) -> tuple[DeviceKernel, tuple[DeviceFunction, ...]]:
        """The code tree, and its kernel."""
        assert self.schedule is not None
        kernel = on_device(self.kernel, self.schedule.host_inames)
        return kernel, build_code(kernel, self.schedule)

    def _assignment(self) -> Iterator[Finding]:
        try:
            kernel, functions = self._code
        except KgenError:
            return  # which the next check says
        for function in functions:
            try:
                vouched = find_assigned_by_data(kernel, function, self.unproved)
            except CodegenError as err:
                yield _violation("assignment", err)
                continue
            for insn_id, name in (one for one in vouched if one not in self.unused):
                yield Finding(
                    check="assignment",
                    status=Status.UNKNOWN,
                    message=f"whether the code has set '{name}' where '{insn_id}', or a loop "
                    "around it, reads it depends on data",
                    instruction=insn_id,
                    array=name,
                )

    def _divergence(self) -> Iterator[Finding]:
        try:
            kernel, functions = self._code
        except KgenError as err:
            yield _violation("divergence", err)
            return
        for function in functions:
            try:
                verify_lanes(kernel, verify_barriers(function))
            except CodegenError as err:
                yield _violation("divergence", err)
        limits = self.target.limits() if self.target is not None else None
        if limits is not None:
            errors = find_exceeded_limits(kernel, functions, limits)
            yield from self._or_proved("device", (_violation("device", err) for err in errors))


def _violation(
    check: str, error: KgenError, instruction: str | None = None, array: str | None = None
) -> Finding:
    return Finding(
        check=check,
        status=Status.VIOLATED,
        message=str(error),
        instruction=instruction,
        array=array,
        point=rows_of(str(error)).get("at"),
        error=error,
    )
