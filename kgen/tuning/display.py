"""The progress of a tune in a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from kgen.ir.optional import load
from kgen.performance.timing import in_units
from kgen.tuning.stop import Progress, Stop

__all__ = ["Display"]


class Display:
    """A progress bar with the time left, the best time so far and its fraction of the roofline.

    It is silent if standard error is not a terminal.
    """

    def __init__(self, title: str, total: int | None, *, is_wanted: bool) -> None:
        self._bar: Any = None
        if is_wanted and sys.stderr.isatty():
            rich, console = load("rich.progress", "tune"), load("rich.console", "tune")
            self._bar = rich.Progress(
                *rich.Progress.get_default_columns(),
                rich.TextColumn("{task.fields[best]}"),
                console=console.Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(title, total=total, best="")

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, progress: Progress, stop: Stop) -> None:
        """Show the progress of a search."""
        if self._bar is not None:
            self._bar.update(
                self._task, completed=progress.evaluations, best=best_text(progress, stop)
            )


def best_text(progress: Progress, stop: Stop) -> str:
    """Return the time of the best configuration as text.

    >>> best_text(Progress(best_s=2e-3), Stop(roofline_s=1e-3))
    'best 2 ms, 50 % of the roofline'
    >>> best_text(Progress(), Stop())
    ''
    """
    if progress.best_s == float("inf"):
        return ""
    text = f"best {in_units(progress.best_s)}"
    if stop.roofline_s is None:
        return text
    return f"{text}, {stop.roofline_s / progress.best_s:.0%} of the roofline".replace("%", " %")
