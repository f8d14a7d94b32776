"""The report of ``explain`` as tables in colour, for terminals, by rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kgen.performance.feedback import (
    ACCESS_HEAD,
    LOOP_HEAD,
    AccessFeedback,
    Explanation,
    LaunchFeedback,
    LoopFeedback,
    access_row,
    grid_of,
    loop_row,
    storage_lines,
)

__all__ = ["show", "tables"]

#: The colours of fast accesses, and of those worth improving; others have none.
_PATTERNS = {
    "coalesced": "green",
    "contiguous": "green",
    "uniform": "green",
    "strided": "yellow",
    "gathered": "yellow",
}
_LEVELS = {"gang": "cyan", "vector": "cyan", "worker": "cyan", "simd": "green", "host": "magenta"}


def show(found: Explanation, file: IO[str] | None = None) -> None:
    """Print tables to a terminal, and the plain text elsewhere."""
    console = Console(file=file, highlight=False)
    if console.is_terminal:
        console.print(tables(found))
    else:
        print(found, file=console.file)


def tables(found: Explanation) -> Group:
    """Return everything that is printed."""
    return Group(*_parts(found))


def _parts(found: Explanation) -> Iterator[RenderableType]:
    yield f"[bold]{escape(found.kernel_name)}[/], {escape(found.target)}"
    for launch in found.launches:
        yield from _launch(launch)
    if found.advice:
        yield Text("to try", style="bold")
        yield from (Text(f"- {advice}", style="yellow") for advice in found.advice)


def _launch(launch: LaunchFeedback) -> Iterator[RenderableType]:
    if launch.after:
        yield Text(f"global barrier: {', '.join(launch.after)}", style="magenta")
    yield f"[bold]{escape(launch.name)}[/]: {escape(grid_of(launch))}"
    if launch.loops:
        styles = map(_style_of_loop, launch.loops)
        yield _table(LOOP_HEAD, map(loop_row, launch.loops), styles)
    if launch.accesses:
        styles = map(_style_of_access, launch.accesses)
        yield _table(ACCESS_HEAD, map(access_row, launch.accesses), styles)
    yield from (Text(f"barrier {barrier}", style="magenta") for barrier in launch.barriers)
    yield from map(Text, storage_lines(launch))


def _table(head: Iterable[str], rows: Iterable[tuple[str, ...]], styles: Iterable[str]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    lines = list(rows)
    used = [k for k, column in enumerate(zip(*lines, strict=True)) if any(column)]
    for title in (title for k, title in enumerate(head) if k in used):
        table.add_column(title)
    for line, style in zip(lines, styles, strict=True):
        table.add_row(*(Text(line[k]) for k in used), style=style)
    return table


def _style_of_loop(loop: LoopFeedback) -> str:
    return "yellow" if loop.because else _LEVELS.get(loop.level.partition("(")[0], "")


def _style_of_access(access: AccessFeedback) -> str:
    return _PATTERNS.get(access.pattern, "")
