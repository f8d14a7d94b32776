"""The command ``tune``: the fastest configuration of a kernel, measured or replayed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kgen.autoscheduler.space import auto_space
from kgen.cli.arrays import file_type, read_arrays
from kgen.cli.commands import ExampleCommand
from kgen.cli.options import (
    Selection,
    arrays_option,
    ascending_option,
    device_option,
    json_option,
    params_option,
    precision_option,
    program_options,
    set_all_option,
    trips_option,
)
from kgen.cli.output import print_json, working
from kgen.cli.programs import load_tunable
from kgen.ir.unit import TranslationUnit
from kgen.runtime.schedules import DeviceSchedules
from kgen.tuning import STRATEGIES, Stop
from kgen.tuning import replay as replay_file
from kgen.tuning.recording import plain
from kgen.tuning.result import TuneResult
from kgen.tuning.strategies import OPTUNA
from kgen.tuning.tune import HasSpace
from kgen.tuning.tune import tune as tune_kernel

__all__ = ["tune"]

#: The number of configurations that a replay evaluates by default.
_EVALUATIONS = 100
#: The options of a replay.
_OF_REPLAYS = ("file", "strategy", "evaluations", "seconds", "stagnation", "seed", "as_json")
_positive = click.FloatRange(min=0, min_open=True)


@click.command(
    cls=ExampleCommand,
    examples=(
        "kgen tune matmul.py:build --set n=1024 --seconds 60 --records matmul.jsonl",
        "kgen tune heat.py:step --set n=100000 --type u=float32 --target c",
        "kgen tune --replay recorded.json.gz --strategy genetic --evaluations 200 --seed 3",
    ),
)
@click.argument("kernel", required=False)
@click.option(
    "--replay",
    "file",
    type=file_type,
    metavar="FILE",
    help="Search in a recorded space instead, without a device: in a cache file of Kernel Tuner, "
    "or T4; gzipped or not.",
)
@set_all_option
@arrays_option
@params_option
@click.option(
    "--restriction",
    "restrictions",
    multiple=True,
    metavar="EXPRESSION",
    help="What configurations have to satisfy: 'block % tile == 0'. Repeatable.",
)
@click.option(
    "--strategy",
    type=click.Choice([*STRATEGIES, OPTUNA]),
    default="auto",
    show_default=True,
    help="The strategy that chooses the next configuration.",
)
@click.option(
    "--evaluations",
    type=click.IntRange(min=1),
    help="End after so many configurations; those that failed count. By default all, at most 200; "
    f"{_EVALUATIONS} of a replay.",
)
@click.option("--seconds", type=_positive, help="End after so many seconds.")
@click.option(
    "--stagnation", type=click.IntRange(min=1), help="End after so many without a better one."
)
@click.option("--gap", type=_positive, help="End so near to the roofline: 0.1 is 10 % slower.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Repeats a search."
)
@click.option(
    "--records",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Append results to a file of JSON lines, and continue from those in it.",
)
@click.option(
    "--timeout",
    type=_positive,
    default=30.0,
    show_default=True,
    help="Time limit of one configuration, in seconds.",
)
@click.option("--no-check", is_flag=True, help="Do not compare results with the reference.")
@click.option(
    "--table",
    "rows",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Configurations to print, the fastest first.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    metavar="FILE.html",
    help="Write all results as a page.",
)
@ascending_option
@trips_option
@precision_option
@program_options
@device_option
@json_option
@click.pass_context
def tune(ctx: click.Context, /, kernel: str | None, file: Path | None, **options: Any) -> None:
    """Find the fastest configuration of a kernel, by measurement.

    KERNEL names a function that builds a kernel of parameters, build(block, tile), beside which the
    file has their values, tune_params = {"block": [16, 32], "tile": [1, 2]}; or a pair (kernel,
    function(kernel, block, tile)); or what auto_space returns. restrictions, sizes, types,
    arguments and reference in the file are arguments of kgen.tune, too. A kernel without such a
    function is tuned in the space that auto_space finds; --ascending and --trips state what its
    data are like, --precision what suffices.

    Prints a summary, a table and the best configuration. With --replay: the best value that was
    found, its fraction of the optimum (optimal time by time found), and the configuration.
    """
    if (kernel is None) == (file is None):
        raise click.UsageError("name a KERNEL to tune, or pass --replay FILE")
    if file is not None:
        _reject_others(ctx)
        _replay(file, **{name: options[name] for name in _OF_REPLAYS[1:]})
    else:
        assert kernel is not None
        _tune(kernel, **options)


def _reject_others(ctx: click.Context) -> None:
    """Reject the options that have no effect on a replay."""
    for option in ctx.command.params:
        name = option.name or ""
        is_given = ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
        if is_given and name not in _OF_REPLAYS:
            raise click.UsageError(f"--replay cannot be combined with {option.opts[-1]}")


def _replay(
    file: Path,
    strategy: str,
    evaluations: int | None,
    seconds: float | None,
    stagnation: int | None,
    seed: int,
    as_json: bool,
) -> None:
    stop = Stop(seconds=seconds, stagnation=stagnation)
    if evaluations is None and stop == Stop():
        evaluations = _EVALUATIONS
    with working("searching"):
        found = replay_file(file, strategy, evaluations, seed, stop=stop)
    if as_json:
        print_json({**asdict(found), "evaluations": found.evaluations, "fraction": found.fraction})
        return
    click.echo(str(found))
    _print_configuration(found.best or {})


def _tune(
    kernel: str,
    *,
    values: Mapping[str, Sequence[Any]],
    arrays: Path | None,
    params: Mapping[str, Sequence[Any]],
    restrictions: Sequence[str],
    ascending: Sequence[str],
    trips: Mapping[str, int],
    precision: str | None,
    selection: Selection,
    device: str | None,
    no_check: bool,
    rows: int,
    report: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    if report is not None and not Path(report).parent.is_dir():
        raise click.UsageError(f"--report {report}: there is no folder '{Path(report).parent}'")
    build, given = load_tunable(kernel, params)
    if isinstance(build, TranslationUnit | DeviceSchedules):
        chosen = selection.on_device(kernel, device)
        gpu = chosen.queue and chosen.queue.device
        build = auto_space(
            chosen.program, gpu, ascending=ascending, trips=trips, precision=precision
        )
    elif ascending or trips or precision:
        raise click.UsageError(
            "--ascending, --trips and --precision are for kernels that no function schedules; "
            f"'{kernel}' is one: pass them to auto_space there"
        )
    else:
        given["target"] = selection.target_of_built()
        given["types"] = [{**one, **selection.dtypes} for one in _several(given.get("types"))]
    if isinstance(build, HasSpace):
        given = {**given, "tune_params": build.tune_params, "restrictions": ()}
    own = given.get("restrictions", ())
    result = tune_kernel(
        build,
        **{
            **options,
            **given,
            "tune_params": {**given.get("tune_params", {}), **params} or None,
            "restrictions": [*([own] if isinstance(own, str) else own), *restrictions],
            "sizes": list(_problems(_several(given.get("sizes")), values)),
            "arguments": read_arrays(arrays) or given.get("arguments"),
            "device": device,
            "check": not no_check,
        },
    )
    if as_json:
        print_json(json.loads(json.dumps(_data(result), default=plain)))
    else:
        _print_result(result, rows)
    if report is not None:
        result.report(report)


def _several(given: Any) -> list[Mapping[str, Any]]:
    """Return a list of dicts unchanged; put a single dict into a list."""
    return [given or {}] if given is None or isinstance(given, Mapping) else list(given)


def _problems(
    known: Sequence[Mapping[str, Any]], values: Mapping[str, Sequence[Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the sizes of each problem: those of the file, changed by all combinations of values."""
    for sizes in known:
        for chosen in itertools.product(*values.values()):
            yield {**sizes, **dict(zip(values, chosen, strict=True))}


def _data(result: TuneResult) -> dict[str, Any]:
    best = result.best
    return {
        "device": result.device,
        "best": {
            "configuration": best.configuration,
            "time": best.time,
            "interval": best.interval,
            "ties": best.ties,
        },
        "importance": result.importance,
        "stopped": result.stopped,
        "is_interrupted": result.is_interrupted,
        "notes": result.notes,
        "records": [asdict(record) for record in result.records],
    }


def _print_result(result: TuneResult, rows: int) -> None:
    click.echo(result.device)
    click.echo(str(result))
    if rows:
        click.echo(result.table(rows))
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    _print_configuration(result.best.configuration)


def _print_configuration(configuration: Mapping[str, Any]) -> None:
    for name, value in configuration.items():
        click.echo(f"  {name} = {value!r}")
