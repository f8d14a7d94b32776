"""The command ``tune``: strategies, replayed over recorded search spaces."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from kgen.cli.arrays import file_type
from kgen.cli.commands import ExampleCommand
from kgen.cli.options import json_option
from kgen.cli.output import print_json, working
from kgen.tuning import STRATEGIES
from kgen.tuning import replay as replay_file

__all__ = ["tune"]


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen tune --replay recorded.json.gz --evaluations 100",
        "kgen tune --replay recorded.json.gz --strategy genetic --evaluations 200 --seed 3 --json",
    ),
)
@click.option(
    "--replay",
    "file",
    type=file_type,
    required=True,
    metavar="FILE",
    help="A recorded search space: a cache file of Kernel Tuner, or T4; gzipped or not.",
)
@click.option(
    "--strategy",
    type=click.Choice(list(STRATEGIES)),
    default="auto",
    show_default=True,
    help="What chooses the next configuration.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Configurations to evaluate; those that failed count.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Repeats a search."
)
@json_option
def tune(file: Path, strategy: str, evaluations: int, seed: int, as_json: bool) -> None:
    """Replay a search over recorded times, without a device.

    Prints the best value that was found, its fraction of the optimum (optimal time by time found),
    and the configuration.
    """
    with working("searching"):
        found = replay_file(file, strategy, evaluations, seed)
    if as_json:
        print_json({**asdict(found), "evaluations": found.evaluations, "fraction": found.fraction})
        return
    click.echo(str(found))
    for name, value in (found.best or {}).items():
        click.echo(f"  {name} = {value!r}")
