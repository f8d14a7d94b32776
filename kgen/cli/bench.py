"""The command ``bench``: times of kernels, compared with a copy."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from kgen.cli.arrays import read_arrays
from kgen.cli.commands import ExampleCommand
from kgen.cli.options import (
    Selection,
    arrays_option,
    device_option,
    json_option,
    program_options,
    set_option,
)
from kgen.cli.output import print_json, print_table
from kgen.performance import Timing
from kgen.performance import bench as bench_program
from kgen.performance.timing import in_units

__all__ = ["bench"]


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen bench heat.py:step --set n=1000000 --type u=float32",
        "kgen bench heat.py:step heat.py:tiled --arrays in.npz --target opencl",
    ),
)
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...")
@set_option
@arrays_option
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Times to measure."
)
@program_options
@device_option
@json_option
def bench(
    kernels: Sequence[str],
    values: Mapping[str, Any],
    arrays: Path | None,
    rounds: int,
    selection: Selection,
    device: str | None,
    as_json: bool,
) -> None:
    """Time kernels, and compare each with a copy on the same device.

    The time is that of one call in the median round, with all arrays on the device; the rate counts
    the bytes of the arrays that are read and written; the copy moves the same number. Arrays are
    those of the file --arrays, or generated: then --set must give all numbers.
    """
    given = {**read_arrays(arrays), **values}
    err = Console(file=sys.stderr)
    timings: list[Timing] = []
    # The thread of the progress bar does not run while a kernel is timed.
    with Progress(
        console=err, auto_refresh=False, transient=True, disable=not err.is_terminal
    ) as progress:
        for kernel in progress.track(kernels, description="measuring"):
            chosen = selection.on_device(kernel, device)
            timings.append(bench_program(chosen.program, given, chosen.queue, rounds=rounds))
    if as_json:
        named = zip(kernels, timings, strict=True)
        print_json([{"name": name, **json.loads(timing.to_json())} for name, timing in named])
        return
    click.echo(timings[0].device)
    print_table(
        ("kernel", ">time", ">least", ">MiB", ">GB/s", ">copy", ">of the copy"),
        [_row(kernel, timing) for kernel, timing in zip(kernels, timings, strict=True)],
    )


def _row(kernel: str, timing: Timing) -> tuple[str, ...]:
    return (
        kernel,
        in_units(timing.median_s),
        in_units(min(timing.seconds)),
        f"{timing.bytes / 2**20:.3g}",
        f"{timing.bandwidth / 1e9:.3g}",
        in_units(timing.copy_s),
        f"{100 * timing.of_copy:.0f} %",
    )
