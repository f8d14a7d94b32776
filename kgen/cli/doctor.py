"""The command ``doctor``: which compilers, devices and packages this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import click

from kgen.cli.commands import ExampleCommand
from kgen.cli.options import json_option
from kgen.cli.output import in_mib, print_json, print_table, print_title, working
from kgen.runtime.devices import RunningOn
from kgen.runtime.installation import Compiler, Installation, find_installation

__all__ = ["doctor"]


@click.command(cls=ExampleCommand, examples=("kgen doctor", "kgen doctor --json"))
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Look for compilers, devices and packages; report missing ones.

    For each missing one, a command that installs it is printed. Exit code 1 means that kernels
    cannot run on the host; devices are optional.
    """
    with working("looking for compilers and devices"):
        found = find_installation()
    if as_json:
        print_json({**asdict(found), "runs_on_host": found.runs_on_host})
    else:
        _print(found)
    ctx.exit(0 if found.runs_on_host else 1)


def _print(found: Installation) -> None:
    print_title(f"kgen {found.kgen}")
    cache = found.cache
    rows = [
        ("Python", f"{found.python} on {found.machine}"),
        *_of_compiler("C compiler", found.c_compiler),
        ("OpenMP", "yes" if found.c_compiler and found.c_compiler.openmp else "no"),
        *_of_devices("OpenCL", found.opencl_devices),
        *_of_compiler("CUDA compiler", found.cuda_compiler),
        *_of_devices("CUDA", found.cuda_devices),
        ("cache", cache.folder),
        ("", f"{cache.entries} entries, {in_mib(cache.bytes)} of at most {in_mib(cache.limit)}"),
    ]
    print_table(("", ""), rows)
    if found.packages:
        print_title("\npackages")
        print_table(
            ("package", "version", "needed", "for"),
            [(p.name, p.version or "-", p.needs, p.extra or "kgen") for p in found.packages],
        )
    if found.missing:
        print_title("\nmissing")
        print_table(
            ("what", "for", "command"),
            [(item.what, item.purpose, item.command) for item in found.missing],
        )


def _of_compiler(title: str, compiler: Compiler | None) -> Iterator[tuple[str, str]]:
    if compiler is None:
        yield title, "none"
    else:
        works = "" if compiler.works else ", which does not compile"
        yield title, f"{compiler.command}: {compiler.version}{works}"


def _of_devices(title: str, devices: tuple[RunningOn, ...]) -> Iterator[tuple[str, str]]:
    for number, device in enumerate(devices):
        yield f"{title} device {number}", str(device)
    if not devices:
        yield f"{title} devices", "none"
