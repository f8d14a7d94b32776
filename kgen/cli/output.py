"""The output of commands: tables, code and JSON; in colour if stdout is a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from kgen.runtime.highlight import highlighted

__all__ = [
    "in_mib",
    "print_code",
    "print_json",
    "print_parts",
    "print_table",
    "print_title",
    "working",
]


def _console() -> Console:
    """Return rich's console on stdout, with colours if that is a terminal."""
    return Console(file=sys.stdout, highlight=False)


def print_code(code: str) -> None:
    """Print code in C, OpenCL or CUDA."""
    has_colour = _console().color_system is not None
    click.echo((highlighted(code) if has_colour else code).strip("\n"), color=has_colour)


def print_json(value: Any) -> None:
    """Print data for programs, with sorted keys."""
    click.echo(json.dumps(value, indent=2, sort_keys=True))


def print_parts(parts: Sequence[tuple[str, str]], *, code: Iterable[str] = ()) -> None:
    """Print texts, with titles if there are several; texts with the title *code* as code."""
    shown_as_code = frozenset(code)
    for number, (title, text) in enumerate(parts):
        if len(parts) > 1:
            print_title(("\n" if number else "") + f"== {title}")
        print_code(text) if title in shown_as_code else click.echo(text.strip("\n"))


def print_title(text: str) -> None:
    """Print the heading of a part of the output."""
    click.secho(text, bold=True, color=None if _console().color_system else False)


def in_mib(size: int) -> str:
    """Return a number of bytes as text.

    >>> in_mib(3 << 19)
    '1.5 MiB'
    """
    return f"{size / 2**20:.1f} MiB"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns whose titles begin with ``>`` are aligned to the right."""
    console = _console()
    console.width = 100_000  # nothing is cut: a terminal wraps lines that are copied as one
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for name in columns:
        side: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=side)
    for row in rows:
        table.add_row(*map(escape, row))
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().rstrip().split("\n"):
        click.echo(line.rstrip(), color=console.color_system is not None)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr, if that is a terminal, which step is in progress."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(what, refresh_per_second=0.1):  # what is timed is not disturbed
        yield
