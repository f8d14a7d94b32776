"""The command ``tune``."""

from __future__ import annotations

import json

import pytest

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
    assert "is no JSON" in typed("tune", "--replay=heat.py", status=1).stderr
