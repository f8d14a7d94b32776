"""The command ``cmake-dir``: where ``find_package(kgen)`` of CMake finds kgen."""

from __future__ import annotations

import click

from kgen.cli.commands import ExampleCommand
from kgen.exporters.cmake import cmake_folder

__all__ = ["cmake_dir"]


@click.command("cmake-dir", cls=ExampleCommand, examples=("kgen cmake-dir",))
def cmake_dir() -> None:
    """Print the folder with kgen's package for CMake.

    `cmake -Dkgen_DIR=$(kgen cmake-dir)` lets find_package(kgen) find it. The package has
    kgen_add_library(), which exports kernels while CMake configures a project.
    """
    click.echo(cmake_folder().as_posix())
