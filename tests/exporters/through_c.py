"""Calls of exported functions in C from this process, by what the manifest says of them."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pymbolic.mapper.evaluator import evaluate

from kgen.ir.language.expressions import parse

__all__ = [
    "STRICT",
    "Numbers",
    "compile_library",
    "compile_objects",
    "numbers_of",
    "run",
    "shape_of",
    "value_of",
]

#: Of C11 and nothing else, and without a warning.
STRICT = ("-std=c11", "-fopenmp", "-pedantic", "-Wall", "-Wextra", "-Werror")
#: The numbers of a call by name.
Numbers = Mapping[str, Any]


def compile_library(
    files: Sequence[Path], flags: Sequence[str], libraries: Sequence[str] = ("-lm",)
) -> ctypes.CDLL:
    """Compile the sources of an export, each by itself, and load them as one library."""
    objects = compile_objects(files, flags)
    library = objects[0].with_name("library.so")
    command = ["cc", "-shared", "-fopenmp", *map(str, objects), "-o", str(library), *libraries]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def compile_objects(files: Sequence[Path], flags: Sequence[str]) -> list[Path]:
    """Compile the sources in C of an export, and others, each by itself."""
    root = next(path.parent for path in files if path.suffix == ".json")
    command = ["cc", *flags, f"-I{root / 'include'}", "-fPIC"]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        sources = (path for path in files if path.suffix == ".c")
        return list(pool.map(partial(_compile, command), sources))


def _compile(command: Sequence[str], source: Path) -> Path:
    result = source.with_suffix(".o")
    subprocess.run([*command, "-c", str(source), "-o", str(result)], check=True, timeout=120)
    return result


def value_of(text: str, numbers: Numbers) -> int:
    return int(evaluate(parse(text), dict(numbers)))


def shape_of(argument: Mapping[str, Any], numbers: Numbers) -> tuple[int, ...]:
    """Return the shape that an array has for some numbers."""
    return tuple(max(0, value_of(extent, numbers)) for extent in argument["shape"])


def numbers_of(kernel: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return all numbers of a call: those that are missing follow from shapes."""
    known = {n: v for n, v in arguments.items() if not isinstance(v, np.ndarray) or v.ndim == 0}
    for size in kernel["sizes"]:
        for equation in size["equations"]:
            array = arguments.get(equation["array"])
            if size["name"] not in known and array is not None:
                found = getattr(array, equation["attribute"])[equation["axis"]]
                if equation["attribute"] == "strides":
                    found //= array.itemsize
                factor, rest = (value_of(equation[part], known) for part in ("factor", "rest"))
                if factor:
                    known[size["name"]] = (found - rest) // factor
    return known


def run(
    library: Any, kernel: Mapping[str, Any], arguments: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Call the function of a kernel with copies of arrays, and return those."""
    numbers = numbers_of(kernel, arguments)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    passed: list[Any] = []
    for argument in kernel["arguments"]:
        name, dtype = argument["name"], np.dtype(argument["type"])
        if argument["kind"] == "array":
            given = arguments.get(name)
            if given is None:
                given = np.zeros(shape_of(argument, numbers), dtype)
            arrays[name] = np.array(given, dtype, order="C")
            passed.append(ctypes.c_void_p(arrays[name].ctypes.data))
        else:
            passed.append(np.ctypeslib.as_ctypes_type(dtype)(numbers[name]))
    function = kernel["targets"]["c"]
    workspace = [None] if function["workspace"] else []
    status = getattr(library, function["function"])(*passed, *workspace)
    assert status == 0, (function["function"], status)
    return arrays
