"""The optimization report of a kernel: loops, barriers, accesses, memory, advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import IO, Any

from kgen import html
from kgen.ir.expr import Expr, to_text
from kgen.ir.optional import load
from kgen.statistics.trips import TripCount

__all__ = [
    "AccessFeedback",
    "BarrierFeedback",
    "Explanation",
    "LaunchFeedback",
    "LoopFeedback",
    "StorageFeedback",
]


@dataclass(frozen=True, kw_only=True)
class LoopFeedback:
    """The implementation of a loop.

    ``level`` is ``gang``, ``worker`` or ``vector``, ``seq``, ``unrolled``, ``simd`` (lanes of
    vectors) or ``host``; ``hardware`` the index of the target that is its variable. ``depth`` is
    the number of enclosing loops in the code. ``because``: why a loop that is tagged ``vec``, or is
    over work-items on the host, is ``seq``.
    """

    iname: str
    level: str
    hardware: str | None
    trips: TripCount
    depth: int = 0
    because: str | None = None


@dataclass(frozen=True, kw_only=True)
class BarrierFeedback:
    """A barrier: the loops around it, the memory that it orders, and its reason.

    ``memory`` is ``local``, ``global`` or both; of a barrier of a warp it is ``warp``.
    """

    memory: str
    reason: str
    inside: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f", for each {', '.join(self.inside)}" if self.inside else ""
        return f"{self.memory}{where}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class AccessFeedback:
    """The pattern of an access, from one work-item or iteration to the next.

    ``along`` is the loop on lane 0; without lanes, the innermost enclosing loop. ``stride`` is in
    elements; ``None`` if it is not constant. ``pattern`` is ``coalesced`` (adjacent elements;
    without lanes ``contiguous``), ``uniform`` (the same element), ``strided``, ``gathered``
    (data-dependent or not affine), or ``single`` (in no loop over lanes; without lanes, in no
    loop). ``length``: the number of adjacent elements that are moved at once, as a vector.
    ``streaming`` tells whether stores that should bypass the cache on the host do, and if not, why.
    """

    array: str
    text: str
    direction: str
    memory: str
    along: str | None
    stride: Expr | None
    pattern: str
    insn_ids: tuple[str, ...]
    length: int = 1
    streaming: str | None = None

    def __str__(self) -> str:
        vectors = None if self.length == 1 else f"in vectors of {self.length}"
        return ", ".join(part for part in (self._steps(), vectors, self.streaming) if part)

    def _steps(self) -> str:
        if self.pattern == "single":
            return "single"
        if self.pattern == "strided" and self.stride is not None:
            return f"strided by {to_text(self.stride)} along {self.along}"
        return f"{self.pattern} along {self.along}"


@dataclass(frozen=True, kw_only=True)
class StorageFeedback:
    """A temporary: ``shared`` by a group, or ``private`` to each work-item, and its bytes.

    ``nbytes`` is ``None`` if its extents are not numbers.
    """

    name: str
    memory: str
    nbytes: int | None

    def __str__(self) -> str:
        return f"{self.name} {'?' if self.nbytes is None else self.nbytes}"


@dataclass(frozen=True, kw_only=True)
class LaunchFeedback:
    """One device function."""

    name: str
    groups: tuple[Expr, ...]
    locals: tuple[int, ...]
    loops: tuple[LoopFeedback, ...]
    barriers: tuple[BarrierFeedback, ...]
    accesses: tuple[AccessFeedback, ...]
    storage: tuple[StorageFeedback, ...]
    #: the global barriers between this launch and the one before
    after: tuple[str, ...] = ()
    #: how the host runs work-groups, if it does
    threads: str | None = None

    def loop(self, iname: str) -> LoopFeedback:
        """Return the feedback on one loop."""
        return next(loop for loop in self.loops if loop.iname == iname)

    def nbytes(self, memory: str) -> int:
        """Return the known bytes of ``shared`` or ``private`` temporaries."""
        return sum(item.nbytes or 0 for item in self.storage if item.memory == memory)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A report of how a kernel is implemented on its target; ``str()`` formats it.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.CTarget())
    >>> found = lp.explain(unit, {"a": "float32"})
    >>> [launch.name for launch in found.launches]
    ['kgen_kernel']
    """

    kernel_name: str
    target: str
    launches: tuple[LaunchFeedback, ...]
    #: what an expert would try next
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(_report(self))

    def show(self, file: IO[str] | None = None) -> None:
        """Print the report to stdout, or to *file*: as coloured tables if that is a terminal.

        Fast accesses are green, those worth improving yellow. ``rich.print(explanation)`` prints
        the same tables.
        """
        load("kgen.performance.coloured", "rich").show(self, file)

    def __rich__(self) -> Any:
        """Return the tables that rich prints."""
        return load("kgen.performance.coloured", "rich").tables(self)

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        return "\n".join(_page(self))


def _page(found: Explanation) -> Iterator[str]:
    yield f"<p><b>{escape(found.kernel_name)}</b>, {escape(found.target)}</p>"
    for launch in found.launches:
        if launch.after:
            yield f"<p>global barrier: {escape(', '.join(launch.after))}</p>"
        yield f"<p>{escape(launch.name)}: {escape(grid_of(launch))}</p>"
        yield html.table(LOOP_HEAD, map(loop_row, launch.loops))
        yield html.table(ACCESS_HEAD, map(access_row, launch.accesses))
        yield from (f"<p>barrier {escape(str(barrier))}</p>" for barrier in launch.barriers)
        yield from (f"<p>{escape(text)}</p>" for text in storage_lines(launch))
    if found.advice:
        advice = "".join(f"<li>{escape(text)}</li>" for text in found.advice)
        yield f"<p>to try</p><ul>{advice}</ul>"


#: The titles of columns.
LOOP_HEAD = ("loop", "is", "index", "trips", "")
ACCESS_HEAD = ("", "access", "pattern")


def _report(found: Explanation) -> Iterator[str]:
    yield f"{found.kernel_name}, {found.target}:"
    for launch in found.launches:
        if launch.after:
            yield f"  global barrier: {', '.join(launch.after)}"
        yield f"  {launch.name}: {grid_of(launch)}"
        rows = (
            (name, level, where, f"trips: {trips}", because)
            for name, level, where, trips, because in map(loop_row, launch.loops)
        )
        yield from _table("    ", rows)
        if launch.accesses:
            yield "    accesses"
            yield from _table("      ", map(access_row, launch.accesses))
        if launch.barriers:
            yield "    barriers"
            yield from (f"      {barrier}" for barrier in launch.barriers)
        yield from (f"    {text}" for text in storage_lines(launch))
    if found.advice:
        yield "  to try"
        yield from (f"    - {advice}" for advice in found.advice)


def storage_lines(launch: LaunchFeedback) -> Iterator[str]:
    """Describe the bytes of each memory that a launch uses."""
    for memory, title in (("shared", "of a group"), ("private", "of a work-item")):
        items = [item for item in launch.storage if item.memory == memory]
        if items:
            names = ", ".join(map(str, items))
            yield f"bytes {title}: {launch.nbytes(memory)} ({names})"


def grid_of(launch: LaunchFeedback) -> str:
    """Describe the numbers of groups and work-items of a launch."""
    if not launch.groups and not launch.locals:
        return "one function, called once"
    counts = [to_text(count) for count in launch.groups]
    if len(counts) > 1:
        counts = [f"({count})" if " " in count else count for count in counts]
    items = " x ".join(map(str, launch.locals))
    groups = f"{' x '.join(counts) or 1} groups"
    if launch.threads is None or items:
        groups = f"{groups} of {items or 1} work-items"
    return groups if launch.threads is None else f"{groups}, {launch.threads}"


def loop_row(loop: LoopFeedback) -> tuple[str, str, str, str, str]:
    """Return the columns of a loop: name, level, index, trip count, reason."""
    where = f"/* {loop.hardware} */" if loop.hardware else ""
    because = f"not in lanes: {loop.because}" if loop.because else ""
    return "  " * loop.depth + loop.iname, loop.level, where, str(loop.trips), because


def access_row(access: AccessFeedback) -> tuple[str, str, str]:
    """Return the columns of an access: direction, text, pattern."""
    return access.direction, access.text, _of_memory(access)


def _of_memory(access: AccessFeedback) -> str:
    return f"{access}" if access.memory == "global" else f"{access} (shared memory)"


def _table(indent: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Align rows in columns; empty columns are omitted."""
    lines = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [f"{cell:{w}}" for cell, w in zip(line, widths, strict=True) if w]
        yield (indent + "  ".join(cells)).rstrip()
