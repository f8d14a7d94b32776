"""Files of results in the T4 format, version 1.0.0, of the autotuning community."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kgen.errors import KgenError
from kgen.tuning.recording import Evaluation, Recording, measured, plain

__all__ = ["is_t4", "parse_t4", "t4_text"]

VERSION = "1.0.0"


def is_t4(data: Any) -> bool:
    """Tell whether parsed JSON is a T4 file."""
    return isinstance(data, dict) and isinstance(data.get("results"), list)


def parse_t4(data: Mapping[str, Any]) -> Recording:
    """Return the recording in a T4 file.

    A result that is not ``"correct"``, or has no number for the objective, has failed.

    >>> recording = parse_t4({"schema_version": "1.0.0", "results": [
    ...     {"configuration": {"block": 16}, "objectives": ["time"], "invalidity": "correct",
    ...      "measurements": [{"name": "time", "value": 2.5, "unit": "ms"}]},
    ...     {"configuration": {"block": 32}, "invalidity": "timeout", "measurements": []}]})
    >>> [evaluation.value for evaluation in recording.evaluations]
    [2.5, None]
    """
    results = data["results"]
    for result in results:
        _check(result)
    objectives = (name for result in results for name in result.get("objectives") or ())
    objective = next(objectives, "time")
    units = (
        measurement.get("unit")
        for result in results
        for measurement in result.get("measurements") or ()
        if measurement["name"] == objective
    )
    return Recording(
        evaluations=tuple(_evaluation(result, objective) for result in results),
        objective=objective,
        unit=next(filter(None, units), "ms" if objective == "time" else ""),
        about=dict(data.get("metadata") or {}),
    )


def _check(result: Any) -> None:
    """Reject a result without a configuration, or whose measurements have no names."""
    shown = json.dumps(result)[:80]
    if not isinstance(result, dict) or not isinstance(result.get("configuration"), dict):
        raise KgenError(f"a result of the T4 file has no configuration: {shown}")
    listed = result.get("measurements") or ()
    if not isinstance(listed, list | tuple) or not all(
        isinstance(one, dict) and "name" in one for one in listed
    ):
        raise KgenError(f"'measurements' of a result of the T4 file have no names: {shown}")


def _evaluation(result: Mapping[str, Any], objective: str) -> Evaluation:
    values = {m["name"]: m.get("value") for m in result.get("measurements") or ()}
    runtimes = tuple(t for t in (result.get("times") or {}).get("runtimes") or () if measured(t))
    invalidity = result.get("invalidity", "correct")
    value = measured(values.pop(objective, _mean(runtimes) if objective == "time" else None))
    if invalidity != "correct":
        value = None
    return Evaluation(
        configuration=result["configuration"],
        value=value,
        invalidity="runtime" if value is None and invalidity == "correct" else invalidity,
        runtimes=runtimes,
        measurements=values,
    )


def _mean(numbers: Sequence[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def t4_text(recording: Recording) -> str:
    """Return a recording as a T4 file.

    >>> found = json.loads(t4_text(Recording(
    ...     evaluations=[Evaluation(configuration={"block": 16}, value=2.5)])))
    >>> found["schema_version"], found["results"][0]["measurements"]
    ('1.0.0', [{'name': 'time', 'value': 2.5, 'unit': 'ms'}])
    """
    results = [_result(evaluation, recording) for evaluation in recording.evaluations]
    content = {"schema_version": VERSION, "metadata": dict(recording.about), "results": results}
    return json.dumps(content, indent=1, default=plain)


def _result(evaluation: Evaluation, recording: Recording) -> dict[str, Any]:
    objective = recording.objective
    units = {"time": "ms", objective: recording.unit or ("ms" if objective == "time" else "")}
    value = {} if evaluation.value is None else {objective: evaluation.value}
    named = {**value, **evaluation.measurements}
    return {
        "configuration": evaluation.configuration,
        "objectives": [objective],
        "times": {"runtimes": list(evaluation.runtimes)},
        "invalidity": evaluation.invalidity,
        "correctness": int(evaluation.invalidity != "correctness"),
        "measurements": [
            {"name": name, "value": value, "unit": units.get(name, "")}
            for name, value in named.items()
        ],
    }
