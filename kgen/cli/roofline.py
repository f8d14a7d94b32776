"""The command ``roofline``: the work of a kernel, compared with the limits of its device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kgen.cli.arrays import file_type, read_arrays
from kgen.cli.commands import ExampleCommand
from kgen.cli.options import (
    Selection,
    arrays_option,
    device_option,
    json_option,
    program_options,
    set_option,
)
from kgen.cli.output import print_json, working
from kgen.performance import Device
from kgen.performance import roofline as roofline_of
from kgen.performance.bench import place_arguments

__all__ = ["roofline"]


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen roofline heat.py:step --set n=1000000 --type u=float32",
        "kgen roofline heat.py:step --set n=1000000 --type u=float32 --time",
        "kgen roofline heat.py:tiled --set n=1000000 --type u=float32 --limits h200.json",
    ),
)
@click.argument("kernel")
@set_option
@click.option("--time", is_flag=True, help="Time the kernel as well.")
@arrays_option
@click.option(
    "--limits",
    type=file_type,
    metavar="FILE.json",
    help="Limits of a device that need not be here, as Device.to_json writes them; nothing runs.",
)
@program_options
@device_option
@json_option
def roofline(
    kernel: str,
    values: Mapping[str, Any],
    time: bool,
    arrays: Path | None,
    limits: Path | None,
    selection: Selection,
    device: str | None,
    as_json: bool,
) -> None:
    """Compare the work of a kernel with the limits of its device.

    Prints the operations and bytes of one call, and the least time in which the device can do them.
    The limits of the device are measured when they are first needed, which takes some seconds.
    --set gives all sizes.
    """
    if limits is not None:
        if time or arrays or device:
            raise click.UsageError(
                "--limits describes a device; --time needs a device of this machine"
            )
        found = roofline_of(
            selection.entry_point(kernel), values, Device.from_json(limits.read_text())
        )
    else:
        chosen = selection.on_device(kernel, device)
        with working("measuring"):
            arguments = None
            if time or arrays is not None:
                given = {**read_arrays(arrays), **values}
                arguments = place_arguments(chosen.program, given, chosen.queue)
            found = roofline_of(chosen.program, values, chosen.queue, arguments)
    if as_json:
        print_json(json.loads(found.to_json()))
    else:
        click.echo(str(found))
