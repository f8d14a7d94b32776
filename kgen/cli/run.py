"""The command ``run``: run a kernel on the arrays of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from kgen.cli.arrays import file_type, read_arrays
from kgen.cli.commands import ExampleCommand
from kgen.cli.options import Selection, device_option, program_options, set_option
from kgen.cli.output import print_table
from kgen.transforms.storage.declarations import set_options

__all__ = ["run"]


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen run heat.py:step in.npz -o out.npz",
        "kgen run heat.py:step in.npz --set n=100 --target opencl --device pocl",
    ),
)
@click.argument("kernel")
@click.argument("arrays", required=False, type=file_type, metavar="[IN.npz]")
@set_option
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write results: a .npz."
)
@program_options
@device_option
def run(
    kernel: str,
    arrays: Path | None,
    values: Mapping[str, Any],
    output: Path | None,
    selection: Selection,
    device: str | None,
) -> None:
    """Run a kernel on the arrays of a file of numpy (IN.npz).

    The arrays have the names of the kernel's arguments; numbers are in the file or given by --set.
    Sizes that follow from shapes, and arrays that are only written, may be left out. The results
    are printed in short form, and written to a file by --output.
    """
    chosen = selection.on_device(kernel, device)
    program = set_options(chosen.program, return_dict=True)
    arguments = {**read_arrays(arrays), **values}
    if program.target.has_work_items:
        arguments["out_host"] = True
    _, results = program(*chosen.leading, **arguments)
    found: dict[str, Any] = {name: np.asarray(value) for name, value in results.items()}
    if output is not None:
        with open(output, "wb") as file:
            np.savez(file, **found)
    print_table(
        ("result", "type", "shape", "values"),
        [(name, str(a.dtype), str(a.shape), _in_short(a)) for name, a in found.items()],
    )


def _in_short(array: np.ndarray[Any, Any]) -> str:
    """Return the first and the last numbers of an array, in one line."""
    return np.array2string(
        array.ravel(), threshold=5, edgeitems=2, max_line_width=1000, precision=5
    )
