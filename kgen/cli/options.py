"""Options that several commands have, and the program that they choose."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import click

from kgen.cli.arrays import file_type
from kgen.cli.programs import Program, load_program
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.runtime.schedules import DeviceSchedules
from kgen.targets.c import CTarget, ExecutableCTarget
from kgen.targets.cuda import CudaTarget, PyCudaTarget
from kgen.targets.ispc.target import ISPCTarget
from kgen.targets.opencl import OpenCLTarget, PyOpenCLTarget
from kgen.transforms.storage.declarations import add_dtypes

__all__ = [
    "Chosen",
    "Selection",
    "arrays_option",
    "ascending_option",
    "device_option",
    "json_option",
    "params_option",
    "precision_option",
    "program_options",
    "set_all_option",
    "set_option",
    "trips_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])

#: By family: the target that generates code, and the one that runs it.
_TARGETS: dict[str, tuple[TargetBase, TargetBase | None]] = {
    "c": (CTarget(), ExecutableCTarget()),
    "opencl": (OpenCLTarget(), PyOpenCLTarget()),
    "cuda": (CudaTarget(), PyCudaTarget()),
    "ispc": (ISPCTarget(), None),
}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A program, and its leading positional arguments in calls: a queue for OpenCL."""

    program: TranslationUnit
    leading: tuple[Any, ...] = ()

    @property
    def queue(self) -> Any:
        """The queue of OpenCL, ``None`` on other targets."""
        return self.leading[0] if self.leading else None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The values of the options of :func:`program_options`."""

    target: str | None
    device_type: str | None
    entry: str | None
    dtypes: Mapping[str, str]

    def program(self, name: str) -> TranslationUnit:
        """Return the program that a command shows, for any device."""
        program = load_program(name)
        if isinstance(program, DeviceSchedules) and self.device_type is None:
            return self._chosen(program, None).program  # which schedule is for the device to say
        target = _target_of(program)
        if self.target is not None:
            target = target if target.family == self.target else _TARGETS[self.target][0]
        return self._finished(_with_target(program, target))

    def entry_point(self, name: str) -> TranslationUnit:
        """Return a program with one entry point, for any device."""
        return _with_one_entry(self.program(name))

    def on_device(self, name: str, device: str | None) -> Chosen:
        """Return a program with one entry point, for an available device."""
        chosen = self._chosen(load_program(name), device)
        return replace(chosen, program=_with_one_entry(chosen.program))

    def target_of_built(self) -> TargetBase | None:
        """Return the target for the programs that a function builds; ``None`` for their own."""
        if self.entry is not None or self.device_type is not None:
            raise click.UsageError("--entry and --device-type choose from programs, not functions")
        generating, running = _TARGETS.get(self.target or "", (None, None))
        return running or generating

    def _chosen(self, program: Program, device: str | None) -> Chosen:
        target = _target_of(program)
        wanted = self.target or target.family
        _, running = _TARGETS.get(wanted, (None, None))
        can_run = target.family == wanted and target.runtime_module is not None
        if running is not None and not can_run:
            target = running
        leading = target.load_runtime().open_device(device)
        return Chosen(
            program=self._finished(_with_target(program, target), leading), leading=leading
        )

    def _finished(self, program: Program, leading: tuple[Any, ...] = ()) -> TranslationUnit:
        """Choose a schedule and an entry point, and give types to arguments."""
        if isinstance(program, DeviceSchedules):
            chosen = self.device_type
            program = program.for_call(*leading) if chosen is None else program[chosen]
        elif self.device_type is not None:
            raise click.UsageError("--device-type chooses from a table of schedules (per_device)")
        if self.entry is not None:
            program = program.with_entrypoints(self.entry)
        return add_dtypes(program, self.dtypes) if self.dtypes else program


def _with_one_entry(program: TranslationUnit) -> TranslationUnit:
    if len(program.entrypoints) > 1:
        names = ", ".join(sorted(program.entrypoints))
        raise click.UsageError(f"choose one of several entry points by --entry: {names}")
    return program


def _target_of(program: Program) -> TargetBase:
    return program.program.target if isinstance(program, DeviceSchedules) else program.target


def _with_target(program: Program, target: TargetBase) -> Program:
    if target == _target_of(program):
        return program
    if isinstance(program, DeviceSchedules):
        return replace(program, program=program.program.copy(target=target))
    return program.copy(target=target)


# -- options ----------------------------------------------------------------------------------


def _number(text: str) -> int | float | complex:
    value = ast.literal_eval(text)
    if not isinstance(value, int | float | complex):
        raise ValueError(text)
    return value


def _literal(text: str) -> Any:
    """Return the value of a Python literal; other text is returned unchanged."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _listed(value_of: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return a parser of values that are separated by commas."""
    return lambda text: [value_of(part.strip()) for part in text.split(",")]


def _assignments(
    value_of: Callable[[str], Any],
) -> Callable[[click.Context, click.Parameter, Sequence[str]], dict[str, Any]]:
    """Return a parser of any number of options ``NAME=VALUE``, as a dict."""

    def read(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for text in texts:
            name, sign, value = (part.strip() for part in text.partition("="))
            if not (sign and name.isidentifier() and value):
                raise click.BadParameter(f"'{text}' is not of the form NAME=VALUE", ctx, param)
            if name in found:
                raise click.BadParameter(f"'{name}' is given twice", ctx, param)
            try:
                found[name] = value_of(value)
            except (ValueError, SyntaxError) as error:
                what = f"'{value}' of '{text}' is not a number"
                raise click.BadParameter(what, ctx, param) from error
        return found

    return read


def program_options(command: Command) -> Command:
    """Add the options that choose a program and its types, as a :class:`Selection`."""

    @wraps(command)
    def with_selection(
        *args: Any,
        target: str | None,
        device_type: str | None,
        entry: str | None,
        dtypes: Mapping[str, str],
        **kwargs: Any,
    ) -> Any:
        selection = Selection(target=target, device_type=device_type, entry=entry, dtypes=dtypes)
        return command(*args, selection=selection, **kwargs)

    result: Any = with_selection
    for option in (
        click.option("--entry", metavar="NAME", help="The entry point, if there are several."),
        click.option(
            "--device-type",
            metavar="TYPE",
            help="The schedule of a table (per_device) by its key, such as nvidia; "
            "by default that for the device.",
        ),
        click.option(
            "-t",
            "--type",
            "dtypes",
            multiple=True,
            metavar="NAME=TYPE",
            callback=_assignments(str),
            help="The type of an argument that the kernel leaves open: a=float32. Repeatable.",
        ),
        click.option(
            "--target",
            type=click.Choice(list(_TARGETS)),
            help="The target, if not the program's own.",
        ),
    ):
        result = option(result)
    return result  # type: ignore[no-any-return]


set_option = click.option(
    "-s",
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_assignments(_number),
    help="A number for the kernel, such as n=100. Repeatable.",
)

set_all_option = click.option(
    "-s",
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE,...",
    callback=_assignments(_listed(_number)),
    help="A number for the kernel, such as n=100; or several, n=100,200, for a problem each. "
    "Repeatable: all combinations.",
)

params_option = click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE,...",
    callback=_assignments(_listed(_literal)),
    help="The values of a parameter to choose from: block=16,32,64. Repeatable.",
)

ascending_option = click.option(
    "--ascending",
    multiple=True,
    metavar="ARRAY",
    help="An array whose elements ascend, such as the starts of rows. Repeatable.",
)

trips_option = click.option(
    "--trips",
    multiple=True,
    metavar="LOOP=NUMBER",
    callback=_assignments(int),
    help="The mean trip count of a loop whose length data decide: k=16. Repeatable.",
)

precision_option = click.option(
    "--precision",
    metavar="NAME",
    help="What suffices for products of float32 on tensor cores: tf32 or 3xtf32.",
)

device_option = click.option(
    "-d",
    "--device",
    metavar="DEVICE",
    help="The device: its number from 0 on, or a part of its name or its driver's, such as "
    "pocl; by default the first one.",
)

arrays_option = click.option(
    "-a",
    "--arrays",
    type=file_type,
    metavar="IN.npz",
    help="Arrays of a file of numpy; those that it lacks are made up.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
