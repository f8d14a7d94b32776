"""All programs of ``tests/programs`` and all examples, exported as one library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import kgen as lp
from kgen.exporters.export import export
from kgen.ir.tags import LookBackTag
from tests.exporters.calls import Call, calls_of_programs, examples
from tests.exporters.through_c import STRICT, compile_library, numbers_of, run, shape_of

#: Operations one by one, so that the compiler's choices cannot differ.
FLAGS = ("-O1", "-ffp-contract=off")


def results_from_python(call: Call, kernel: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Call a program as users of Python do, with outputs that hold zeros before."""
    numbers = numbers_of(kernel, call.arguments)
    outputs = {
        argument["name"]: np.zeros(shape_of(argument, numbers), argument["type"])
        for argument in kernel["arguments"]
        if argument["kind"] == "array" and argument["name"] not in call.arguments
    }
    given = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in {**call.arguments, **outputs}.items()
    }
    compiler = lp.CCompiler(cflags=" ".join(FLAGS))
    call.program.copy(target=lp.ExecutableCTarget(compiler))(**given)
    return given


def test_results_are_those_of_calls_from_python(tmp_path: Path) -> None:
    calls = [call for call in calls_of_programs() if not call.is_for_device]
    names = {call.program.digest(): f"program_{k}" for k, call in enumerate(calls)}
    programs = {names[call.program.digest()]: call.program for call in calls}
    programs |= {name: unit for name, unit in examples().items() if name.endswith("_c")}
    files = export(programs, tmp_path, targets="c", namespace="all")
    manifest = json.loads((tmp_path / "all.json").read_text())
    kernels = {kernel["name"]: kernel for kernel in manifest["kernels"]}
    assert kernels.keys() == programs.keys()
    library = compile_library(files, (*STRICT, *FLAGS))
    compared = 0
    for call in calls:
        kernel = kernels[names[call.program.digest()]]
        found = run(library, kernel, call.arguments)
        wanted = results_from_python(call, kernel)
        for argument in kernel["arguments"]:
            if argument.get("is_written"):
                name = argument["name"]
                want = np.ascontiguousarray(wanted[name])
                assert found[name].tobytes() == want.tobytes(), (name, call.program)
                compared += want.size > 0
    assert compared >= len(calls) > 40


def looks_back(unit: lp.TranslationUnit) -> bool:
    """Tell whether work-groups wait for each other, as they do on CUDA only."""
    insns = unit.default_entrypoint.instructions
    return any(insn.tags_of_type(LookBackTag) for insn in insns)


def test_programs_for_devices_are_exported(tmp_path: Path, opencl_headers: tuple[str, ...]) -> None:
    calls = [call for call in calls_of_programs() if call.is_for_device]
    programs = {f"p{call.program.digest()[:12]}": call.program for call in calls}
    assert len(programs) > 30
    anywhere = {name: unit for name, unit in programs.items() if not looks_back(unit)}
    assert len(programs) - 3 <= len(anywhere)
    named = {"opencl": anywhere, "cuda": dict(programs)}
    for name, unit in examples().items():
        is_cuda = name.endswith("_cuda") or looks_back(unit)
        named["cuda" if is_cuda else "opencl"][name] = unit
    for target, units in named.items():
        files = export(units, tmp_path / target, targets=target, namespace="all")
        if target == "opencl":
            compile_library(files, (*STRICT, "-O0"), opencl_headers)
