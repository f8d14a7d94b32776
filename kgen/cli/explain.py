"""The command ``explain``: how loops, accesses and barriers are implemented."""

from __future__ import annotations

import click

from kgen.cli.commands import ExampleCommand
from kgen.cli.options import Selection, program_options
from kgen.performance import explain as explain_program

__all__ = ["explain"]


@click.command(
    cls=ExampleCommand,
    examples=("kgen explain heat.py:step --target cuda --type u=float32",),
)
@click.argument("kernel")
@program_options
def explain(kernel: str, selection: Selection) -> None:
    """Report how a kernel is implemented, like a compiler.

    For each loop: the hardware axis that runs it, and its trip count. For each access: its stride
    between work-items. Also barriers with their reasons, bytes of temporaries, and suggestions. In
    a terminal, the report has coloured tables. Nothing is compiled or run.
    """
    explain_program(selection.entry_point(kernel)).show()
