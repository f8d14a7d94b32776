"""The commands ``export``, which writes a library, and ``check``, which compares one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from kgen.cli.commands import ExampleCommand, Failure
from kgen.cli.output import working
from kgen.cli.programs import load_variants
from kgen.errors import KgenError
from kgen.exporters.export import export as write_library
from kgen.exporters.export import library_files
from kgen.exporters.folder import differences
from kgen.exporters.kernels import TARGETS
from kgen.exporters.manifest import Manifest, manifests_in
from kgen.host.variants import Variant

__all__ = ["check", "export"]


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen export heat.py:step -o build/heat --namespace heat",
        "kgen export heat.py:step heat.py:norm -o build/heat --target c --target opencl",
    ),
)
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the library; it is created if necessary.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=click.Choice(TARGETS),
    help="What to write functions for; by default all. Repeatable.",
)
@click.option(
    "--namespace",
    default="kernels",
    metavar="NAME",
    show_default=True,
    help="The prefix of the names of functions and files.",
)
@click.option("--fortran", is_flag=True, help="Write a module with interfaces for Fortran, too.")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Also replace files that no export wrote, or that were changed since.",
)
def export(
    kernels: Sequence[str],
    output: Path,
    targets: Sequence[str],
    namespace: str,
    fortran: bool,
    overwrite: bool,
) -> None:
    """Write kernels as a C library, for programs that need no Python.

    Its functions check their arguments and launch the kernels. The library has a header, sources
    and a manifest. Either all files are written or none; those of an earlier export are replaced or
    removed, others stay. Kernels must declare their types.
    """
    with working("generating code"):
        write_library(
            _programs(kernels),
            output,
            targets=targets or TARGETS,
            namespace=namespace,
            sources=kernels,
            fortran=fortran,
            overwrite=overwrite,
        )
    click.echo(f"wrote {output}")


@click.command(cls=ExampleCommand, examples=("kgen check build/heat",))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
def check(folder: Path) -> None:
    """Check whether a library is what its sources generate now.

    If not, the differing files are listed, and the exit code is 1. Paths of sources are relative to
    the library's folder; modules are imported from the current one.
    """
    manifest = _manifest_of(folder)
    with working("generating code"):
        made = library_files(
            _programs([_seen_from_here(folder, source) for source in manifest.sources]),
            targets=manifest.targets,
            namespace=manifest.namespace,
            sources=manifest.sources,
            fortran=f"include/{manifest.namespace}.f90" in manifest.files,
        )
    found = differences(folder, made)
    if found:
        wrong = "".join(f"\n  {name} {what}" for name, what in found.items())
        raise Failure(f"{folder} differs from what its sources generate now:{wrong}")
    click.echo(f"{folder} is what its sources generate now")


def _programs(names: Sequence[str]) -> dict[str, tuple[Variant, ...]]:
    """Return the variants of each function that the names refer to."""
    found: dict[str, tuple[Variant, ...]] = {}
    for name in names:
        for function, variants in load_variants(name).items():
            if function in found:
                raise KgenError(
                    f"two of the programs would become the function '{function}'",
                    hint="make one of them with another name=..., or name a list of variants",
                )
            found[function] = variants
    return found


def _manifest_of(folder: Path) -> Manifest:
    """Return the manifest of the library in a folder."""
    found = manifests_in(folder)
    if len(found) != 1:
        names = ", ".join(f"'{manifest.name}'" for manifest in found)
        raise KgenError(
            f"there are several exported libraries in {folder}: {names}"
            if found
            else f"there is no exported library in {folder}",
            hint="write one with 'kgen export KERNEL... -o FOLDER'",
        )
    (manifest,) = found
    if not manifest.sources:
        raise KgenError(
            f"{folder / manifest.name} does not record the sources of the library",
            hint="export it by 'kgen export', or with sources=['FILE.py:NAME']",
        )
    return manifest


def _seen_from_here(folder: Path, source: str) -> str:
    """Return the name of a program, with the path of its file relative to a folder."""
    place, colon, name = source.rpartition(":")
    return f"{os.path.normpath(folder / place)}{colon}{name}" if place.endswith(".py") else source
