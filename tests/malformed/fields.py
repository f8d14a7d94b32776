"""Instructions and declarations made as objects, one field of which has an odd value."""

from __future__ import annotations

import inspect
import random
import warnings
from typing import Any

import numpy as np

import kgen as lp
from tests.malformed.mutants import ODD_VALUES
from tests.malformed.programs import Outcome

#: Classes of what a kernel is made of: the fields that each needs, and what uses it.
_CLASSES: tuple[tuple[type[Any], dict[str, Any], tuple[Any, ...]], ...] = (
    (lp.GlobalArg, {"name": "a", "dtype": "float32"}, ("out[i] = a[i]",)),
    (lp.ConstantArg, {"name": "a", "dtype": "float32", "shape": "n"}, ("out[i] = a[i]",)),
    (lp.ImageArg, {"name": "a", "dtype": "float32", "shape": "n"}, ("out[i] = a[i]",)),
    (lp.ValueArg, {"name": "n"}, ("out[i] = n",)),
    (
        lp.TemporaryVariable,
        {"name": "t", "dtype": "float32", "shape": "16"},
        ("t[i % 16] = 1 {id=w}", "out[i] = t[i % 16] {dep=w}"),
    ),
    (
        lp.TemporaryVariable,
        {"name": "t", "initializer": np.arange(16.0), "read_only": True},
        ("out[i] = t[i % 16]",),
    ),
    (lp.SubstitutionRule, {"name": "f", "arguments": "x", "expression": "x"}, ("out[i] = f(i)",)),
    (lp.Assignment, {"assignee": "out[i]", "expression": "1"}, ()),
    (lp.CallInstruction, {"assignees": "out[i]", "expression": "sin(1.0*i)"}, ()),
    (lp.CInstruction, {"iname_exprs": "i", "code": ";", "assignees": "out[i]"}, ()),
    (lp.BarrierInstruction, {"id": "wait"}, ("out[i] = 1",)),
    (lp.NoOpInstruction, {"id": "wait"}, ("out[i] = 1",)),
    (lp.Options, {}, ("out[i] = 1",)),
)
_OF_INSTRUCTIONS = tuple(inspect.signature(lp.NoOpInstruction).parameters)
_OF_ASSIGNMENTS = ("atomicity", "temp_var_type", "temp_var_types")


def run_field(seed: int) -> Outcome:
    """Make a kernel of which one instruction, declaration or option has an odd field."""
    rng, outcome = random.Random(seed), Outcome(seed)
    kind, fields, text = rng.choice(_CLASSES)
    names = [*inspect.signature(kind).parameters]
    if "options" in names:
        names = [*names[:-1], *_OF_INSTRUCTIONS, *_OF_ASSIGNMENTS]
    field, value = rng.choice(names), rng.choice(ODD_VALUES)

    def make() -> object:
        made = kind(**{**fields, field: value})
        options = made if isinstance(made, lp.Options) else None
        is_declared = isinstance(made, lp.KernelArgument | lp.TemporaryVariable)
        instructions = [*text] if is_declared or options is not None else [made, *text]
        data = [made, ...] if is_declared else [lp.GlobalArg("out", "float32", "n"), ...]
        unit = lp.make_kernel("{ [i]: 0 <= i < n }", instructions, data, options=options)
        return lp.generate_code_v2(unit).device_code()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome.try_step(f"{kind.__name__}(**{ {**fields, field: value} })", make)
    return outcome
