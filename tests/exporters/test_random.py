"""Random programs, exported to C as one library and held against their own meaning.

``KGEN_RANDOM_EXPORTS`` is the number of programs, ``KGEN_RANDOM_SEED`` chooses others.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kgen as lp
from kgen.errors import KgenWarning
from kgen.exporters.export import export
from kgen.lowering import generate_module
from tests.exporters.through_c import compile_library, run, value_of
from tests.random.checks import is_refusal, meaning, value_ranges
from tests.random.choices import Draw
from tests.random.compiled import allocate
from tests.random.program import Program
from tests.random.steps import host_programs, programs
from tests.reference import to_array

COUNT = int(os.environ.get("KGEN_RANDOM_EXPORTS", "100"))
SEED = int(os.environ.get("KGEN_RANDOM_SEED", "1"))
KINDS = (programs, programs, programs, host_programs)


def drawn(number: int) -> Program:
    kind = KINDS[number % len(KINDS)]
    return kind(Draw(f"exported {SEED} {kind.__name__} {number}"))


def exported(units: Mapping[str, lp.TranslationUnit], folder: Path) -> Sequence[Path]:
    """Export all programs but those for which there is no code."""
    try:
        return export(units, folder, targets="c", namespace="random")
    except lp.KgenError as error:
        if not (is_refusal(error) and error.kernel in units):
            raise
        kept = {name: unit for name, unit in units.items() if name != error.kernel}
        return exported(kept, folder)


def test_functions_compute_what_programs_mean(tmp_path: Path, record_property: Any) -> None:
    made = {f"k{number}": drawn(number) for number in range(COUNT)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KgenWarning)
        files = exported({name: one.transformed(name) for name, one in made.items()}, tmp_path)
        library = compile_library(files, ("-std=c11", "-O0", "-w"))
        kernels = json.loads((tmp_path / "random.json").read_text())["kernels"]
        compared = sum(compared_calls(made[k["name"]], k, library) for k in kernels)
    record_property("exported", f"{len(kernels)} of {COUNT} programs, {compared} calls compared")
    assert len(kernels) >= 0.9 * COUNT
    assert compared >= COUNT


def has_negative_extent(kernel: Mapping[str, Any], numbers: Mapping[str, int]) -> bool:
    """Tell whether an inferred shape is none that an array can have: calls are rejected."""
    arrays = (argument for argument in kernel["arguments"] if argument["kind"] == "array")
    return any(value_of(extent, numbers) < 0 for array in arrays for extent in array["shape"])


def compared_calls(program: Program, kernel: Mapping[str, Any], library: Any) -> int:
    """Call a function for some sizes; return how often there was something to compare."""
    unit, compared = program.meant(), 0
    module = generate_module(program.make())
    passed = {argument["name"] for argument in kernel["arguments"]}
    for seed, parameters in enumerate(program.parameter_sets(unit)[-2:]):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is None or has_negative_extent(kernel, parameters):
            continue
        numbers = {name: value for name, value in parameters.items() if name in passed}
        for name, array in run(library, kernel, {**arrays, **numbers}).items():
            expected = to_array(want[name], array)
            assert np.array_equal(expected, array), f"{name} for {parameters} in\n{program}"
        compared += 1
    return compared
