"""Calls that other tests make, to be repeated through exported functions."""

from __future__ import annotations

import importlib
import itertools
import runpy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import kgen as lp

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, eq=False)
class Call:
    """A program, what it is called with, and whether that is for a device."""

    program: lp.TranslationUnit
    arguments: Mapping[str, Any]
    is_for_device: bool


@cache
def calls_of_programs() -> tuple[Call, ...]:
    """Return the calls in ``tests/programs``: its tests run, but what would call is a recorder."""
    found: list[Call] = []

    def record(unit: Any, arguments: Any, expected: Any, device: Any = None) -> None:
        found.append(Call(_typed(unit, arguments), arguments, is_for_device=device is not None))

    for path in sorted((ROOT / "tests" / "programs").glob("test_*.py")):
        module = importlib.import_module(f"tests.programs.{path.stem}")
        real = module.assert_computes
        module.assert_computes = record  # type: ignore[attr-defined]
        try:
            for function, options in _calling_tests(module):
                function(**options)
        finally:
            module.assert_computes = real  # type: ignore[attr-defined]
    return tuple(found)


def _calling_tests(module: ModuleType) -> Iterator[tuple[Callable[..., Any], dict[str, Any]]]:
    """Yield the tests of a module that call kernels, with each of their parameters."""
    for name, function in vars(module).items():
        if name.startswith("test_") and "assert_computes" in function.__code__.co_names:
            needs = function.__code__.co_varnames[: function.__code__.co_argcount]
            devices = {name: f"a {name}" for name in ("device", "opencl_queue") if name in needs}
            for options in _parameters(function):
                yield function, {**options, **devices}


def _parameters(function: Any) -> Iterator[dict[str, Any]]:
    axes: list[list[dict[str, Any]]] = []
    for mark in getattr(function, "pytestmark", ()):
        names, values = mark.args
        names = [names] if isinstance(names, str) else names
        rows = [[value] if len(names) == 1 else value for value in values]
        axes.append([dict(zip(names, row, strict=True)) for row in rows])
    for chosen in itertools.product(*axes):
        yield {name: value for row in chosen for name, value in row.items()}


def _typed(unit: lp.TranslationUnit, arguments: Mapping[str, Any]) -> lp.TranslationUnit:
    """Give the arguments without a type that of the values they are called with."""
    known = unit.default_entrypoint.arg_dict
    types = {
        name: np.asarray(value).dtype
        for name, value in arguments.items()
        if name in known and known[name].dtype is None
    }
    return lp.add_dtypes(unit, types) if types else unit


@cache
def examples() -> dict[str, lp.TranslationUnit]:
    """Return the kernels that ``examples/`` offer, by name: that of the file, and the device."""
    found: dict[str, lp.TranslationUnit] = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        kernels = runpy.run_path(str(path)).get("kernels", dict)
        for device, unit in kernels().items():
            for entry in sorted(unit.entrypoints):
                name = f"{entry}_{device}" if len(unit.entrypoints) > 1 else device
                found[f"{path.stem}_{name}"] = unit.with_entrypoints(entry)
    return found
