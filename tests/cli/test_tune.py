"""The command ``tune``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgen.autoscheduler.space import AutoSpace
from kgen.cli.programs import load_tunable
from kgen.errors import KgenError
from kgen.tuning import STRATEGIES, Evaluation, Recording, replay, write_recording
from tests.cli.typed import typed

RECORDING = Recording(
    evaluations=[
        Evaluation(configuration={"x": x, "y": y}, value=1.0 + abs(x - 3) + y)
        for x in range(9)
        for y in range(5)
    ],
    unit="ms",
)


@pytest.mark.parametrize("form", ["cache", "t4"])
def test_it_prints_what_a_replay_finds(form: str) -> None:
    write_recording(RECORDING, "r.json.gz", form)
    words = ("--replay", "r.json.gz", "--strategy=local", "--evaluations=20", "--seed=3")
    expected = replay(RECORDING, "local", 20, 3)
    assert expected.best is not None
    first, *others = typed("tune", *words).stdout.splitlines()
    assert first == str(expected)
    assert f"{expected.fraction:.4f} of the optimum (1 ms)" in first
    assert others == [f"  {name} = {value}" for name, value in expected.best.items()]
    shown = json.loads(typed("tune", *words, "--json").stdout)
    assert (shown["fraction"], shown["rows"]) == (expected.fraction, expected.rows)


def test_all_strategies_have_names() -> None:
    write_recording(RECORDING, "r.json")
    for name in STRATEGIES:
        assert typed("tune", "--replay=r.json", f"--strategy={name}").stdout.startswith(
            f"{name}: best time 1 ms"
        )
    assert (
        "'nothing' is not one of"
        in typed("tune", "--replay=r.json", "--strategy=nothing", status=2).stderr
    )


def test_a_file_that_is_none() -> None:
    assert "is not valid JSON" in typed("tune", "--replay=heat.py", status=1).stderr


BUILDS = """
from heat import lp, scaled

tune_params = {"block": [8, 64, 512], "order": ["up"]}
restrictions = "block < 512"
sizes = {"n": 500, "s": 2.5}
types = {"u": "float32", "s": "float32"}

def build(block, order):
    return lp.split_iname(scaled, "i", block)

def half(size):
    return lp.split_iname(scaled, "i", size)

half.tune_params = {"size": [2]}
half.restrictions = []

def anything(block=64):
    return scaled

def unknown(width):
    return scaled

def space():
    return lp.auto_space(lp.add_dtypes(scaled, types))
"""


@pytest.fixture
def builds(programs: Path) -> None:
    (programs / "builds.py").write_text(BUILDS)


@pytest.mark.usefixtures("builds")
def test_a_build_function_with_what_its_file_has() -> None:
    words = ("tune", "builds.py:build", "--records=r.jsonl", "--seed=1")
    device, best, counts, _, *rows = typed(*words, "--report=r.html").stdout.splitlines()
    assert device
    assert best.startswith("n=500, s=2.5, u: float32, s: float32: ")
    assert counts.startswith("  2 of 2 configurations; none failed")
    assert [row.split()[1] in ("8", "64") for row in rows[:2]] == [True, True]
    assert rows[2:] in ([f"  block = {block}", "  order = 'up'"] for block in (8, 64))
    assert Path("r.html").read_text().startswith("<!DOCTYPE html>")
    assert {line["event"] for line in lines_of("r.jsonl")} == {"start", "result"}


def lines_of(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


@pytest.mark.usefixtures("builds")
def test_options_change_what_the_file_has() -> None:
    words = ("--param=block=16", "--param=order=up,down", "--set=n=40,50", "--no-check")
    limits = ("--restriction=order != 'up'", "--seconds=50", "--table=0", "--target=c")
    printed = typed("tune", "builds.py:build", *words, *limits).stdout.splitlines()
    assert [line.split(",")[0] for line in printed if line.startswith("n=")] == ["n=40", "n=50"]
    assert printed[-2:] == ["  block = 16", "  order = 'down'"]


@pytest.mark.usefixtures("builds")
def test_any_kernel_in_the_space_that_is_found() -> None:
    kernel = ("heat.py:scaled", "--type=u=float32", "--type=s=float32")
    words = (*kernel, "--set=n=100", "--set=s=2.5", "--param=i_block=64", "--json")
    shown = json.loads(typed("tune", *words).stdout)
    found = {"i_block": 64, "autoschedule": False}
    assert [record["configuration"] for record in shown["records"]] == [found]
    assert shown["best"]["time"] > 0
    assert isinstance(load_tunable("builds.py:space", ())[0], AutoSpace)


@pytest.mark.usefixtures("builds")
def test_what_a_name_of_a_file_stands_for() -> None:
    build, given = load_tunable("builds.py:half", ())
    assert build.__name__ == "half"
    assert (given["tune_params"], given["restrictions"]) == ({"size": [2]}, [])
    assert load_tunable("builds.py:anything", ())[0].__name__ == "anything"
    assert load_tunable("builds.py:unknown", ["width"])[0].__name__ == "unknown"
    with pytest.raises(KgenError, match=r"parameters of 'unknown' in builds.py have no values"):
        load_tunable("builds.py:unknown", ())
    with pytest.raises(KgenError, match=r"there is no 'biuld' in builds.py\n.*'build'"):
        load_tunable("builds.py:biuld", ())


def test_what_cannot_be_tuned() -> None:
    assert "a KERNEL to tune, or pass --replay FILE" in typed("tune", status=2).stderr
    replay_with_sizes = typed("tune", "--replay=heat.py", "--set=n=3", status=2).stderr
    assert "--replay cannot be combined with --set" in replay_with_sizes
    chosen = typed("tune", "heat.py:divides", "--param=x=1,2", "--entry=a", status=2).stderr
    assert "--entry and --device-type choose" in chosen
    early = typed("tune", "heat.py:scaled", "--report=none/r.html", status=2).stderr
    assert "there is no folder 'none'" in early
    stated = typed("tune", "heat.py:divides", "--param=x=1,2", "--trips=k=3", status=2).stderr
    assert "pass them to auto_space" in stated
    types = ("--type=u=float32", "--type=s=float32")
    missing = typed("tune", "heat.py:scaled", *types, "--ascending=starts", status=1).stderr
    assert "'starts'" in missing
    other = typed("tune", "heat.py:scaled", *types, "--precision=half", status=1).stderr
    assert "there is no precision 'half'" in other
    error = typed("tune", "heat.py:scaled", *types, status=1).stderr
    assert "on the command line: --set n=1024" in error
