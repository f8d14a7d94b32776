"""The commands ``cache size`` and ``cache clear``: the compiled code on disk."""

from __future__ import annotations

from dataclasses import asdict

import click

from kgen.cli.commands import CommandGroup
from kgen.cli.options import json_option
from kgen.cli.output import in_mib, print_json, print_table
from kgen.errors import counted
from kgen.runtime.cache import process_caches

__all__ = ["cache"]


@click.group(cls=CommandGroup, examples=("kgen cache size", "kgen cache clear"))
def cache() -> None:
    """Show or remove the compiled code on disk."""


@cache.command(examples=("kgen cache size", "kgen cache size --json"))
@json_option
def size(as_json: bool) -> None:
    """Show the folder of compiled code, and its size.

    KGEN_CACHE_DIR chooses another folder; KGEN_CACHE_SIZE is its maximum size in MiB.
    """
    found = process_caches.disk.usage()
    if as_json:
        print_json(asdict(found))
        return
    rows = [
        ("folder", found.folder),
        ("entries", str(found.entries)),
        ("size", in_mib(found.bytes)),
        ("at most", in_mib(found.limit)),
    ]
    print_table(("", ""), rows)


@cache.command(examples=("kgen cache clear",))
@json_option
def clear(as_json: bool) -> None:
    """Remove all compiled code.

    Measured limits of devices are removed as well. Everything is created again when it is needed.
    The caches of OpenCL and CUDA drivers stay.
    """
    before = process_caches.disk.clear()
    if as_json:
        print_json({"folder": before.folder, "entries": before.entries, "bytes": before.bytes})
        return
    removed = counted(before.entries, "entry", "entries")
    click.echo(f"removed {removed} ({in_mib(before.bytes)}) from {before.folder}")
