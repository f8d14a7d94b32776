"""What comes back from JSON, a pickle or Python is transformed as what was written.

Each transformation of the examples in docstrings, and of random pipelines, is applied to its
program and to what comes back of it: both give the same program, or the same error.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import pickle
import pkgutil
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kgen as lp
import kgen.transforms
from kgen.errors import KgenError
from kgen.ir.codec import CodecError, decode, encode
from kgen.ir.unit import CallableKernel
from tests.random.choices import Draw
from tests.random.steps import device_programs, fetch_programs, programs, scan_programs

MODULES = sorted(
    info.name for info in pkgutil.iter_modules(kgen.transforms.__path__, "kgen.transforms.")
)
Trip = Callable[[Any], Any]


def from_python(program: Any, folder: Path) -> Any:
    """Return what the Python text of a program makes."""
    if isinstance(program, list | tuple):
        return type(program)(from_python(each, folder) for each in program)
    if isinstance(program, lp.LoopKernel):
        table = {program.name: CallableKernel(program)}
        unit = lp.TranslationUnit(
            callables_table=table, entrypoints=frozenset(table), target=program.target
        )
        return from_python(unit, folder)[program.name]
    path = folder / "program.py"
    path.write_text(str(lp.t_unit_to_python(program)))
    return runpy.run_path(str(path))["t_unit"]


def outcome(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    """Return what identifies a result: a program's digest and text, an error's kind and text."""
    try:
        result = function(*args, **kwargs)
    except KgenError as error:
        return type(error), str(error)
    is_program = isinstance(result, (lp.TranslationUnit, lp.LoopKernel))
    return result.digest() if is_program else repr(result), str(result)


def device_code(unit: lp.TranslationUnit) -> str:
    return lp.generate_code_v2(unit).device_code()


def come_back(program: Any, folder: Path) -> list[tuple[str, Any]]:
    """Return what comes back of a program, by each way that it can go."""
    found = []
    ways: dict[str, Trip] = {
        "json": lambda given: decode(encode(given)),
        "pickle": lambda given: pickle.loads(pickle.dumps(given)),  # noqa: S301
        "python": lambda given: from_python(given, folder),
    }
    for name, trip in ways.items():
        try:
            again = trip(program)
        except (CodecError, KgenError, AttributeError, pickle.PicklingError):
            continue  # it holds a function or a class of the example's own
        assert again == program, name
        if not isinstance(program, list | tuple):
            assert str(again) == str(program), name
        found.append((name, again))
    return found


def compared(function: Any, folder: Path, seen: set[str]) -> Any:
    """Return *function*, applied to what comes back of its program as well."""

    @functools.wraps(function)
    def call(program: Any, *args: Any, **kwargs: Any) -> Any:
        is_one = isinstance(program, (lp.TranslationUnit, lp.LoopKernel))
        if is_one or isinstance(program, list | tuple):
            for name, again in come_back(program, folder):
                wanted = outcome(function, program, *args, **kwargs)
                found = outcome(function, again, *args, **kwargs)
                n_compared = 1 if name == "python" else 2  # which keeps no lines for messages
                assert found[:n_compared] == wanted[:n_compared], (function.__name__, name)
                seen.add(function.__name__)
        return function(program, *args, **kwargs)

    return call


def is_transformation(item: Any) -> bool:
    return (
        callable(item) and getattr(item, "__module__", "") in MODULES and not isinstance(item, type)
    )


PUBLIC = {name: item for name, item in vars(lp).items() if is_transformation(item)}


def test_examples_of_transformations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    changed = {name: compared(item, tmp_path, seen) for name, item in PUBLIC.items()}
    for name, item in changed.items():
        monkeypatch.setattr(lp, name, item)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for module in map(importlib.import_module, MODULES):
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            test.globs.update({n: new for n, new in changed.items() if n in test.globs})
            runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
    takes_programs = {n for n in PUBLIC if PUBLIC[n].__code__.co_varnames[:1]}
    assert sorted(takes_programs - seen) == []


@pytest.mark.parametrize("kind", [programs, device_programs, fetch_programs, scan_programs])
def test_random_pipelines(kind: Callable[[Draw], Any], tmp_path: Path) -> None:
    for number in range(8):
        program = kind(Draw(f"round trips {kind.__name__} {number}"))
        unit = program.make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for step in program.steps:
                wanted = outcome(step, unit)
                for name, again in come_back(unit, tmp_path):
                    assert outcome(step, again) == wanted, (name, step)
                unit = step(unit)
            wanted = outcome(device_code, unit)
            for name, again in come_back(unit, tmp_path):
                assert outcome(device_code, again)[0] == wanted[0], name
