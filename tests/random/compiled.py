"""Many generated kernels in one shared library, called on arrays with guards around them."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pymbolic.mapper.evaluator import evaluate

from kgen.errors import CompilationError
from kgen.runtime.c import LIBRARIES
from kgen.runtime.toolchain import find_c_compiler
from kgen.targets.module import ArgumentInfo, Module

__all__ = ["Arrays", "allocate", "call", "compile_modules", "keep_on_one_thread"]

Arrays = dict[str, np.ndarray[Any, Any]]

_FLAGS = ("-std=gnu11", "-O1", "-fopenmp-simd", "-w", "-fPIC", "-shared", "-pipe")
_HELPER = re.compile(r"\bkgen_(\w+)")
_GUARD = 64
_GUARD_BYTE = 0xA5


def compile_modules(
    modules: Sequence[Module], folder: Path, flags: Sequence[str] = ()
) -> ctypes.CDLL:
    """Compile the C code of all modules in one call of the compiler.

    Their helper functions get names of their own. Raises :class:`CompilationError`.
    """
    path, library = folder / "kernels.c", folder / "kernels.so"
    sources = (module.device_source + "\n" + module.host_source for module in modules)
    renamed = (_HELPER.sub(rf"h{k}_\1", source) for k, source in enumerate(sources))
    path.write_text("\n".join(renamed))
    command = [*find_c_compiler(), *_FLAGS, *flags, str(path), "-o", str(library), *LIBRARIES]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CompilationError(result.stderr)
    return ctypes.CDLL(str(library))


def keep_on_one_thread(library: ctypes.CDLL) -> None:
    """Let kernels run on one thread from now on, where OpenMP has others."""
    limit = getattr(library, "omp_set_max_active_levels", None)
    if limit is not None:
        limit(0)


def allocate(
    module: Module, parameters: Mapping[str, int], values: Mapping[str, range], seed: int
) -> Arrays:
    """Make all arrays of a kernel, filled with small integers; outputs, too."""
    random = np.random.default_rng(seed)
    arrays: Arrays = {}
    for argument in module.arguments:
        if argument.is_array and not argument.is_temporary:
            shape = _shape(argument, parameters)
            chosen = values.get(argument.name, range(-4, 5))
            numbers = random.integers(chosen.start, chosen.stop, shape)
            arrays[argument.name] = numbers.astype(argument.dtype)
    return arrays


class _Guarded:
    """A copy of an array in memory with guards on both sides."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.memory = np.full(2 * _GUARD + array.nbytes, _GUARD_BYTE, np.uint8)
        inside = self.memory[_GUARD : _GUARD + array.nbytes]
        self.array = inside.view(array.dtype).reshape(array.shape)
        self.array[...] = array

    def check(self, name: str) -> None:
        guards = np.concatenate((self.memory[:_GUARD], self.memory[-_GUARD:]))
        assert (guards == _GUARD_BYTE).all(), f"{name} was written outside of its bounds"


def call(
    library: ctypes.CDLL, module: Module, parameters: Mapping[str, int], arrays: Arrays
) -> Arrays:
    """Run a kernel on copies of *arrays*, and return those."""
    of_name = {argument.name: argument for argument in module.arguments}
    copies = {name: _Guarded(array) for name, array in arrays.items()}
    for name, argument in of_name.items():
        if argument.is_temporary:
            copies[name] = _Guarded(allocate_temporary(argument, parameters))
    for launch in module.launches:
        function = getattr(library, launch.function)
        function.restype = None
        passed: list[Any] = []
        for name in launch.parameters:
            if name in copies:
                passed.append(ctypes.c_void_p(copies[name].array.ctypes.data))
            else:
                passed.append(np.ctypeslib.as_ctypes_type(of_name[name].dtype)(parameters[name]))
        function(*passed)
    for name, copy in copies.items():
        copy.check(name)
    return {name: copies[name].array for name in arrays}


def allocate_temporary(
    argument: ArgumentInfo, parameters: Mapping[str, int]
) -> np.ndarray[Any, Any]:
    """Make the memory of a global temporary."""
    return np.zeros(_shape(argument, parameters), argument.dtype)


def _shape(argument: ArgumentInfo, parameters: Mapping[str, int]) -> tuple[int, ...]:
    assert argument.shape is not None
    return tuple(max(0, int(evaluate(size, dict(parameters)))) for size in argument.shape)
