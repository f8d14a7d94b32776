"""Calls of public functions one argument of which, any of the signature's, is an odd value."""

from __future__ import annotations

import inspect
import random
import warnings
from functools import cache
from typing import Any

import kgen as lp
from kgen.ir.unit import TranslationUnit
from tests.malformed.corpus import calls, sources
from tests.malformed.mutants import ODD_VALUES, fitted_call
from tests.malformed.programs import Outcome, leading_arguments


@cache
def _units() -> tuple[TranslationUnit, ...]:
    """Return kernels of the suite whose arrays have types, so that code can be made of them."""
    found = []
    for source in sources()[::7]:
        try:
            unit = lp.make_kernel(source.domains, source.instructions, **dict(source.options))
            arrays = [arg for kernel in unit.kernels() for arg in kernel.args if not arg.dtype]
            types = {arg.name: "float32" for arg in arrays if isinstance(arg, lp.GlobalArg)}
            found.append(lp.add_dtypes(unit, types))
        except lp.KgenError:
            continue
    return tuple(found)


def run_argument(seed: int) -> Outcome:
    """Call a public function on a kernel with one odd argument, and make code of the result."""
    rng, outcome = random.Random(seed), Outcome(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unit = rng.choice(_units())
        call = fitted_call(rng, unit, rng.choice(calls()))
        function = getattr(lp, call.name)
        signature = inspect.signature(function)
        leading = leading_arguments(call.name, unit)
        try:
            bound = signature.bind(*leading, *call.args, **dict(call.kwargs))
        except TypeError:
            return outcome
        value, parameter = rng.choice(ODD_VALUES), rng.choice([*signature.parameters.values()])
        given: Any = value
        if parameter.kind is parameter.VAR_POSITIONAL:
            given = (value,)
        elif parameter.kind is parameter.VAR_KEYWORD:
            given = {"no_such": value}
        bound.arguments[parameter.name] = given
        text = f"lp.{call.name}(**{ {n: bound.arguments[n] for n in bound.arguments} })"
        result = outcome.try_step(text, lambda: function(*bound.args, **bound.kwargs))
        if isinstance(result, TranslationUnit):
            outcome.try_step("generate", lambda: lp.generate_code_v2(result).device_code())
    return outcome
