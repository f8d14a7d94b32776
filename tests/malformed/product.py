"""What tests call public functions with, each argument once with each odd value.

Random calls seldom get far enough for an odd argument to matter. Those of tests do::

    python -m pytest -p tests.malformed.product -n 0 tests/transforms

remembers them, tries each again with one argument after the other changed, and ends with what no
user should see. ``KGEN_PRODUCT_MINUTES`` says for how long, 10 by default.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kgen as lp
from kgen.ir.unit import TranslationUnit
from tests.malformed.corpus import LEFT_OUT
from tests.malformed.mutants import ODD_VALUES
from tests.malformed.programs import Outcome

_MINUTES = float(os.environ.get("KGEN_PRODUCT_MINUTES", "10"))
#: Functions that start processes, or measure.
_LEFT_OUT = LEFT_OUT | {"bench", "tune", "verify_equivalent"}
_VALUES: tuple[Any, ...] = (
    *ODD_VALUES,
    *("i,j,k", "i,i", "*", "z = 2*i", "{ [i] -> [j] }", "[n] -> { [i] -> [z] : 2 z = i }"),
    *(["i", "i"], [("i", "j")], [None, 1], (("i",),), (0, 0), [0], {"i": {}}, {"n": -1}),
)
#: How many calls of one form are tried.
_OF_EACH = 2

_functions: dict[str, Callable[..., Any]] = {}
_calls: dict[tuple[Any, ...], list[inspect.BoundArguments]] = {}
#: What runs now: calls of kgen within kgen are not a user's.
_running: list[str] = []


def _remembering(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _running.append(name)
        try:
            result = function(*args, **kwargs)
        finally:
            _running.pop()
        found = _calls.setdefault((name, len(args), *sorted(kwargs)), [])
        if not _running and len(found) < _OF_EACH:
            found.append(signature.bind(*args, **kwargs))
        return result

    return call


def pytest_configure() -> None:
    """Remember calls from now on."""
    for name in sorted(set(lp.__all__) - _LEFT_OUT):
        function = getattr(lp, name)
        if inspect.isfunction(function):
            _functions[name] = function
            setattr(lp, name, _remembering(name, function))


def _changed(call: inspect.BoundArguments) -> Iterator[inspect.BoundArguments]:
    for parameter in call.signature.parameters.values():
        for value in _VALUES:
            arguments = dict(call.arguments)
            match parameter.kind:
                case parameter.VAR_POSITIONAL:
                    arguments[parameter.name] = (value,)
                case parameter.VAR_KEYWORD:
                    arguments[parameter.name] = {"no_such": value}
                case _:
                    arguments[parameter.name] = value
            yield inspect.BoundArguments(call.signature, arguments)


def _outcome(name: str, call: inspect.BoundArguments) -> Outcome:
    outcome, function = Outcome(0), _functions[name]
    text = f"lp.{name}(**{dict(call.arguments)})"
    result = outcome.try_step(text, lambda: function(*call.args, **call.kwargs))
    if isinstance(result, TranslationUnit):
        outcome.try_step("generate", lambda: lp.generate_code_v2(result).device_code())
    return outcome


def _place(error: BaseException | None) -> str:
    """Return the last function of kgen on the way to an error."""
    steps = traceback.extract_tb(error.__traceback__ if error else None)
    return next((f"{s.filename}:{s.name}" for s in reversed(steps) if "/kgen/" in s.filename), "")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Try the calls again, in random order, and print each fault once."""
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    for name, function in _functions.items():
        setattr(lp, name, function)
    tries = [(key[0], call) for key, found in _calls.items() for call in found]
    random.Random(0).shuffle(tries)
    end, seen, count = time.monotonic() + 60 * _MINUTES, Counter[tuple[str, ...]](), 0
    for done, (name, call) in enumerate(tries):
        if time.monotonic() > end:
            print(f"\n{len(tries) - done} of {len(tries)} calls are left")
            break
        for changed in _changed(call):
            start, outcome = time.monotonic(), _outcome(name, changed)
            count += 1
            key = (name, str(outcome.fault), _place(outcome.error))
            seen[key] += outcome.fault is not None
            if seen[key] == 1 or time.monotonic() - start > 20:
                print(f"\nafter {time.monotonic() - start:.1f} s:\n{outcome}")
    print(f"\n{count} calls, {sum(seen.values())} faults")
    if any(seen.values()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
