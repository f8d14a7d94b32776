"""Kernel Tuner's cache files: all configurations that a search has measured, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kgen.errors import KgenError
from kgen.tuning.recording import Evaluation, Recording, measured, plain
from kgen.tuning.space import Configuration

__all__ = ["cachefile_text", "is_cachefile", "parse_cachefile"]

#: Errors in place of a time, and what T4 calls them.
_ERRORS = {
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
}
_ERROR_OF = {
    **{invalidity: error for error, invalidity in _ERRORS.items()},
    "timeout": "RuntimeFailedConfig",
    "correctness": "RuntimeFailedConfig",
}
_HEADER = ("cache", "objective", "tune_params", "tune_params_keys")


def is_cachefile(data: Any) -> bool:
    """Tell whether parsed JSON is a cache file."""
    return isinstance(data, dict) and isinstance(data.get("cache"), dict)


def parse_cachefile(data: Mapping[str, Any]) -> Recording:
    """Return the recording in a cache file.

    An entry without a number for the objective has failed, be it an error's name, an object that
    describes one, or nothing.

    >>> recording = parse_cachefile({
    ...     "tune_params": {"block": [16, 32]},
    ...     "cache": {"16": {"block": 16, "time": 2.5},
    ...               "32": {"block": 32, "time": "InvalidConfig"}}})
    >>> [evaluation.invalidity for evaluation in recording.evaluations]
    ['correct', 'constraints']
    """
    params = data.get("tune_params") or {}
    if not isinstance(params, dict):
        raise KgenError(f"'tune_params' of the cache file is no object: {json.dumps(params)[:80]}")
    names = list(data.get("tune_params_keys") or params)
    objective = data.get("objective") or "time"
    entries = data["cache"].items()
    return Recording(
        evaluations=tuple(
            _evaluation(_configuration(key, entry, names, params), entry, objective)
            for key, entry in entries
        ),
        tune_params={name: params[name] for name in names if name in params},
        objective=objective,
        unit="ms" if objective == "time" else "",
        about={key: value for key, value in data.items() if key not in _HEADER},
    )


def _configuration(
    key: str, entry: Mapping[str, Any], names: Sequence[str], params: Mapping[str, Any]
) -> Configuration:
    """Return the values of parameters, some of which may occur only in the key of an entry."""
    if not isinstance(entry, dict):
        raise KgenError(f"entry '{key}' of the cache file is no object: {json.dumps(entry)[:80]}")
    texts = key.split(",")
    if names and all(name in entry for name in names):
        return {name: entry[name] for name in names}
    if not names or len(texts) != len(names):
        raise KgenError(
            f"entry '{key}' of the cache file does not have values of all parameters",
            because=f"the parameters are {', '.join(names) or 'not named'}",
        )
    known = {name: {str(value): value for value in params.get(name, ())} for name in names}
    return {
        name: entry.get(name, known[name].get(text, text))
        for name, text in zip(names, texts, strict=True)
    }


def _evaluation(
    configuration: Configuration, entry: Mapping[str, Any], objective: str
) -> Evaluation:
    runtimes = tuple(time for time in entry.get("times") or () if measured(time) is not None)
    value = measured(entry.get(objective))
    if value is None and objective == "time" and objective not in entry and runtimes:
        value = sum(runtimes) / len(runtimes)
    kept = {k: v for k, v in entry.items() if k not in configuration and k != "times"}
    return Evaluation(
        configuration=configuration,
        value=value,
        invalidity="correct" if value is not None else _invalidity(entry.get(objective)),
        runtimes=runtimes,
        measurements={k: v for k, v in kept.items() if k != objective},
    )


def _invalidity(error: Any) -> str:
    """Return T4's word for an error: a name, or an object that has it somewhere."""
    text = json.dumps(error)
    return next((word for name, word in _ERRORS.items() if name in text), "runtime")


def cachefile_text(recording: Recording) -> str:
    """Return a recording as a cache file: a line for each configuration.

    >>> evaluation = Evaluation(configuration={"block": 16}, value=None, invalidity="compile")
    >>> print(cachefile_text(Recording(evaluations=[evaluation])))
    {
    "tune_params_keys": ["block"],
    "tune_params": {"block": [16]},
    "objective": "time",
    "cache": {
    "16": {"block": 16, "time": "CompilationFailedConfig"}}
    }
    """
    space = recording.space
    params = {name: list(values) for name, values in space.tune_params.items()}
    header = {**recording.about, "tune_params_keys": list(params), "tune_params": params}
    header["objective"] = recording.objective
    pairs = ((json.dumps(key), json.dumps(value, default=plain)) for key, value in header.items())
    lines = [f"{key}: {value}," for key, value in pairs]
    entries = ",\n".join(_line(e, space.names, recording.objective) for e in recording.evaluations)
    return "\n".join(["{", *lines, '"cache": {', entries + "}", "}"])


def _line(evaluation: Evaluation, names: Sequence[str], objective: str) -> str:
    config = evaluation.configuration
    failed = _ERROR_OF.get(evaluation.invalidity, "RuntimeFailedConfig")
    entry = {**config, objective: failed if evaluation.value is None else evaluation.value}
    if evaluation.runtimes:
        entry["times"] = list(evaluation.runtimes)
    key = ",".join(str(config[name]) for name in names)
    return f"{json.dumps(key)}: {json.dumps(entry | dict(evaluation.measurements), default=plain)}"
