"""Help: each command teaches by examples, which are commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kgen.cli import main
from kgen.cli.commands import CommandGroup, ExampleCommand
from kgen.version import VERSION_TEXT
from tests.cli.typed import typed


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield names, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


COMMANDS = dict(commands(main))


def parse(words: list[str]) -> None:
    """Parse a command line, and run nothing."""
    command: click.Command = main
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    command.make_context("kgen", words, resilient_parsing=False)


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_has_examples_that_parse(names: tuple[str, ...]) -> None:
    for file in ("in.npz", "h200.json", "recorded.json.gz"):
        Path(file).touch()
    command = COMMANDS[names]
    assert isinstance(command, ExampleCommand | CommandGroup)
    assert command.examples
    shown = typed(*names, "--help").stdout
    for example in command.examples:
        assert f"\n  {example}\n" in shown
        line, _, _ = example.partition(" | ")
        words = shlex.split(line)
        assert words[: 1 + len(names)] == ["kgen", *names]
        parse(words[1:])


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_option_is_described(names: tuple[str, ...]) -> None:
    options = [param for param in COMMANDS[names].params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_wrong_usage_ends_with_2() -> None:
    assert "No such command 'shwo'" in typed("shwo", status=2).stderr
    assert "No such option" in typed("show", "heat.py:step", "--coed", status=2).stderr


def test_version() -> None:
    assert VERSION_TEXT in typed("--version").stdout
