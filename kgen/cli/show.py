"""The command ``show``: a kernel, its schedule, its code, its dependency graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from kgen.cli.commands import ExampleCommand
from kgen.cli.options import Selection, program_options
from kgen.cli.output import print_parts
from kgen.codegen import generate_code_v2, generate_header
from kgen.ir.graph import get_dot_dependency_graph, get_text_dependency_graph
from kgen.ir.unit import TranslationUnit
from kgen.lowering import lower
from kgen.transforms.programs.inline import inlined_kernel

__all__ = ["show"]


def _for_each_entry(function: Callable[[TranslationUnit, str], str], unit: TranslationUnit) -> str:
    return "\n\n".join(function(unit, name) for name in sorted(unit.entrypoints))


def _schedule(unit: TranslationUnit) -> str:
    return _for_each_entry(lambda unit, k: str(lower(inlined_kernel(unit, k)).schedule), unit)


def _graph(unit: TranslationUnit) -> str:
    return _for_each_entry(lambda unit, name: get_text_dependency_graph(unit[name]), unit)


def _dot(unit: TranslationUnit) -> str:
    return _for_each_entry(lambda unit, name: get_dot_dependency_graph(unit[name]), unit)


_PARTS: dict[str, Callable[[TranslationUnit], str]] = {
    "kernel": str,
    "schedule": _schedule,
    "code": lambda unit: generate_code_v2(unit).all_code(),
    "header": lambda unit: "\n\n".join(generate_header(unit)),
    "graph": _graph,
    "dot": _dot,
}


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen show heat.py:step",
        "kgen show heat.py:step schedule code --target opencl --type u=float32",
        "kgen show heat.py:step dot | dot -Tsvg > step.svg",
    ),
)
@click.argument("kernel")
@click.argument("parts", nargs=-1, type=click.Choice(list(_PARTS)), metavar="[PART]...")
@program_options
def show(kernel: str, parts: Sequence[str], selection: Selection) -> None:
    """Show a kernel, its schedule or its code.

    A PART is one of kernel (arguments, loops, instructions), schedule (the order of loops, barriers
    and launches), code (for the target), header (its declarations, for C and C++), graph (the
    dependencies of each instruction) and dot (the graph for graphviz). The default is kernel.

    Schedules, code and headers need the types of all arguments.
    """
    unit = selection.program(kernel)
    shown = [(part, _PARTS[part](unit)) for part in parts or ("kernel",)]
    print_parts(shown, code={"code", "header"})
