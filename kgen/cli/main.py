"""The group of all commands, in which each command is registered."""

from __future__ import annotations

import click

from kgen.cli.bench import bench
from kgen.cli.cache import cache
from kgen.cli.cmake_dir import cmake_dir
from kgen.cli.commands import CommandGroup
from kgen.cli.doctor import doctor
from kgen.cli.explain import explain
from kgen.cli.export import check, export
from kgen.cli.roofline import roofline
from kgen.cli.run import run
from kgen.cli.show import show
from kgen.cli.tune import tune
from kgen.version import VERSION_TEXT

__all__ = ["main"]


@click.group(
    cls=CommandGroup,
    examples=("kgen show heat.py:step", "kgen show heat.py:step code --target cuda"),
    context_settings={"help_option_names": ["--help", "-h"]},
)
@click.version_option(VERSION_TEXT, prog_name="kgen")
@click.option("--traceback", is_flag=True, help="Show where in Python an error comes from.")
def main(traceback: bool) -> None:  # the group itself reads it
    """Look at loop kernels, run them, and measure them.

    A kernel is named FILE.py:NAME or module:NAME. NAME is a program (what make_kernel returns), a
    function without parameters that returns one, or a table of schedules (per_device). KERNEL in
    the help of a command is such a name.
    """


for command in (
    show,
    run,
    explain,
    roofline,
    bench,
    tune,
    export,
    check,
    cmake_dir,
    doctor,
    cache,
):
    main.add_command(command)
