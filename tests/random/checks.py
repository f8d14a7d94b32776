"""What a random program is checked for: that what was made of it computes what it means.

Each check takes the program, and may be given a kernel in place of what the program's
transformations make of it: a mutant.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kgen as lp
from kgen.errors import CodegenError, ScheduleError, StaticValueFindingError, TransformError
from kgen.ir.kernel import LoopKernel
from kgen.lowering import generate_module, lower
from kgen.targets.c import OPENMP, CCompiler
from kgen.targets.module import Module
from tests.backends import NarrowBarriers
from tests.cuda_host import HostCuda, LaunchMemoryTarget
from tests.oracle import Oracle
from tests.random.compiled import Arrays, allocate, call, compile_modules
from tests.random.device import Device
from tests.random.large import OVERFLOW_FLAGS, overflows
from tests.random.program import Program
from tests.reference import InexactError, Memory, Reference, to_array, to_memory

__all__ = [
    "REFUSALS",
    "Check",
    "CompiledCheck",
    "LeftOut",
    "check_alone",
    "check_emulated",
    "check_instances",
    "check_lanes",
    "check_large",
    "check_large_alone",
    "check_large_threads",
    "check_on_cuda",
    "check_on_opencl",
    "check_results",
    "check_threads",
    "check_work_items",
    "fails",
    "is_refusal",
    "meaning",
    "value_ranges",
]

#: PoCL copies the code behind each barrier that is under a condition; so many take minutes.
MANY_BARRIERS = 8

#: Compilers, and the interpreter of code trees, take minutes for a text of so many characters.
LONG_TEXT = 1_000_000
#: gcc takes a minute to make vectors of one of so many.
LONG_TEXT_OF_LANES = 100_000

#: A kernel for which there is no schedule, no grid, or no room for what a step needs.
REFUSALS = (ScheduleError, StaticValueFindingError, TransformError)


def is_refusal(error: Exception) -> bool:
    """Tell whether an error says that there is no code: no schedule, no room, or no time for it."""
    is_slow = isinstance(error, CodegenError) and "takes isl too long" in str(error)
    return is_slow or isinstance(error, REFUSALS)


Check = Callable[[Program], None]
CompiledCheck = Callable[[Program, Module, Any], None]


class LeftOut(Exception):
    """Why there is nothing to compare for a program."""


def fails(check: Check, kind: type[Exception], program: Program) -> bool:
    """Tell whether a check ends with an error of that type."""
    try:
        check(program)
    except Exception as error:
        return type(error) is kind
    return False


# -- what arrays hold ---------------------------------------------------------------------------


def value_ranges(program: Program) -> dict[str, range]:
    """Return what the elements of each array may be before a run."""
    return {array.name: array.values for array in program.arrays}


def meaning(
    unit: lp.TranslationUnit,
    parameters: dict[str, int],
    arrays: Arrays,
    *,
    reverse: bool = False,
) -> dict[str, Memory] | None:
    """Return what arrays hold in the end; ``None`` where a number is too large for a float."""
    memory = {name: to_memory(array) for name, array in arrays.items()}
    reference = Reference(unit.default_entrypoint, parameters, memory)
    try:
        return reference.run(reverse=reverse)
    except InexactError:
        return None


def _compare(want: dict[str, Memory], got: Arrays, parameters: dict[str, int]) -> None:
    for name, array in got.items():
        expected = to_array(want[name], array)
        assert np.array_equal(expected, array), f"{name} is wrong for {parameters}"


def _require(compared: int) -> None:
    if not compared:
        raise LeftOut("its numbers are too large for floats, or its arrays are empty")


def _generate(unit: lp.TranslationUnit | LoopKernel) -> Module:
    module = generate_module(unit)
    if len(module.device_source) > LONG_TEXT:
        raise LeftOut("its text is so long that compilers take minutes")
    return module


# -- compiled C ---------------------------------------------------------------------------------


def check_results(program: Program, module: Module, library: Any) -> None:
    """Run the compiled kernel for some sizes, against the kernel's meaning."""
    unit, compared = program.meant(), 0
    for seed, parameters in enumerate(program.parameter_sets(unit)):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is not None:
            _compare(want, call(library, module, parameters, arrays), parameters)
            compared += 1
    _require(compared)


def check_large(program: Program, module: Module, library: Any) -> None:
    """Run where signed overflow ends a process, and compare."""
    for parameters in program.parameter_sets(program.make()):
        arrays = allocate(module, parameters, value_ranges(program), 0)
        assert not overflows(library, module, parameters, arrays), f"overflow for {parameters}"
    check_results(program, module, library)


def check_alone(
    program: Program,
    mutant: lp.TranslationUnit | None = None,
    check: CompiledCheck = check_results,
    flags: Sequence[str] = (),
) -> None:
    """Compile a program by itself, and check it."""
    module = _generate(program.transformed() if mutant is None else mutant)
    with tempfile.TemporaryDirectory() as folder:
        check(program, module, compile_modules([module], Path(folder), flags))


def check_large_alone(program: Program, mutant: lp.TranslationUnit | None = None) -> None:
    """Compile a program by itself such that signed overflow ends the process, and check it."""
    check_alone(program, mutant, check_large, OVERFLOW_FLAGS)


# -- threads of the host ------------------------------------------------------------------------

#: How many run the work-groups; 1: these are plain loops.
THREADS = (1, 2, 3, 8)


def check_threads(
    program: Program,
    mutant: lp.TranslationUnit | None = None,
    counts: Sequence[int | None] = THREADS,
) -> None:
    """Run on several numbers of threads, with what the runtime passes to the compiler.

    Results are held against the kernel's meaning, and have the same bits on all threads: with one
    as well, where numbers are not rounded.
    """
    modules = [_on_threads(program, mutant, count) for count in counts]
    lengths = [len(module.device_source) for module in modules]
    more = CCompiler().compile_flags if max(lengths) < LONG_TEXT_OF_LANES else ()
    flags = (OPENMP, *more, *(("-O0",) if sum(lengths) > LONG_TEXT else ()))
    unit, compared = program.meant(), 0
    with tempfile.TemporaryDirectory() as folder:
        library = compile_modules(modules, Path(folder), flags)
        for seed, parameters in enumerate(program.parameter_sets(unit)):
            arrays = allocate(modules[0], parameters, value_ranges(program), seed)
            want = meaning(unit, parameters, arrays)
            found = [call(library, module, parameters, arrays) for module in modules]
            if want is not None:
                _compare(want, found[0], parameters)
                compared += 1
            _compare_bits(found[want is None :], parameters)
    _require(compared)


def check_large_threads(program: Program, mutant: lp.TranslationUnit | None = None) -> None:
    """Run on threads where signed overflow ends the process."""
    module = _on_threads(program, mutant, None)
    with tempfile.TemporaryDirectory() as folder:
        library = compile_modules([module], Path(folder), (*OVERFLOW_FLAGS, OPENMP))
        check_large(program, module, library)


def _on_threads(program: Program, mutant: lp.TranslationUnit | None, threads: int | None) -> Module:
    target, name = lp.CTarget(threads=threads), f"k{threads or 0}"
    if mutant is None:
        return _generate(program.transformed(name, target))
    return _generate(mutant.default_entrypoint.copy(name=name, target=target))


def _compare_bits(found: Sequence[Arrays], parameters: dict[str, int]) -> None:
    for other in found[1:]:
        for name, array in found[0].items():
            if array.tobytes() == other[name].tobytes():
                continue
            at = next(zip(*np.nonzero(array != other[name]), strict=True), ())
            raise AssertionError(
                f"{name} depends on the number of threads for {parameters}: "
                f"{array[at]} or {other[name][at]} at {tuple(map(int, at))}"
            )


# -- interpreted code trees -----------------------------------------------------------------------


def check_instances(program: Program) -> None:
    """Interpret the code tree: every instance once, in order."""
    kernel = program.transformed().default_entrypoint
    for target in (lp.CTarget(), NarrowBarriers()):
        lowered = lower(kernel.copy(target=target))
        for parameters in program.parameter_sets(program.make())[:4]:
            Oracle(lowered.kernel, parameters).check(lowered.functions)


def check_work_items(
    program: Program, mutant: lp.TranslationUnit | None = None, target: Any = None
) -> None:
    """Interpret launches on data, work-items in both orders, against the kernel's meaning."""
    unit = program.transformed() if mutant is None else mutant
    kernel = unit.default_entrypoint.copy(target=target or NarrowBarriers())
    _check_launches(program, kernel)


def _check_launches(program: Program, kernel: LoopKernel) -> None:
    module, lowered = _generate(kernel), lower(kernel)
    unit, compared = program.meant(), 0
    for seed, parameters in enumerate(program.parameter_sets(unit)[:3]):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(unit, parameters, arrays)
        if want is None:
            continue
        for reverse in (False, True):
            memory = {name: to_memory(array) for name, array in arrays.items()}
            device = Device(lowered.kernel, parameters, reverse=reverse)
            device.run(lowered.host, lowered.functions, memory)
            for name in arrays:
                assert memory[name] == want[name], f"{name} is wrong for {parameters}"
        compared += 1
    _require(compared)


def check_lanes(program: Program, mutant: lp.TranslationUnit | None = None) -> None:
    """Interpret lanes that go on together, and run what the compiler makes of them.

    Both against the kernel's meaning; with the instructions of this processor, and without. A
    mutant only runs: where data are subscripts, arrays may be too short for it.
    """
    unit = program.transformed(target=lp.CTarget()) if mutant is None else mutant
    if mutant is None:
        _check_launches(program, unit.default_entrypoint)
    check_alone(program, mutant)
    if len(_generate(unit).device_source) < LONG_TEXT_OF_LANES:
        check_alone(program, mutant, flags=CCompiler().compile_flags)


# -- devices --------------------------------------------------------------------------------------


def check_on_opencl(queue: Any, program: Program, mutant: lp.TranslationUnit | None = None) -> None:
    """Run on a device, arrays in place, against the kernel's meaning."""
    unit = program.transformed(target=lp.PyOpenCLTarget()) if mutant is None else mutant
    module = _generate(unit)
    if module.has_fragile_barriers and module.device_source.count("barrier(") > MANY_BARRIERS:
        raise LeftOut("barriers under conditions, which take PoCL minutes")
    to_device = partial(importlib.import_module("pyopencl.array").to_device, queue)
    _check_on_device(program, module, to_device, partial(unit, queue))


def check_on_cuda(program: Program, mutant: lp.TranslationUnit | None = None) -> None:
    """Run on a GPU, arrays in place, against the kernel's meaning."""
    unit = program.transformed(target=lp.PyCudaTarget()) if mutant is None else mutant
    to_gpu = importlib.import_module("pycuda.gpuarray").to_gpu
    _check_on_device(program, _generate(unit), to_gpu, unit)


def check_emulated(program: Program, mutant: lp.TranslationUnit | None = None) -> None:
    """Run the CUDA code on the host, arrays in place, against the kernel's meaning."""
    target = LaunchMemoryTarget()
    unit = program.transformed(target=target) if mutant is None else mutant.copy(target=target)
    plain, module, compared = program.meant(), _generate(unit), 0
    with tempfile.TemporaryDirectory() as folder:
        emulated = HostCuda(unit, Path(folder))
        for seed, parameters in enumerate(program.parameter_sets(plain)):
            arrays = allocate(module, parameters, value_ranges(program), seed)
            want = meaning(plain, parameters, arrays)
            if want is None:
                continue
            few = seed % 3 + 1  # persistent groups run several groups of the kernel
            ends = emulated({**arrays, **parameters}, order="any", most_groups=few)
            assert ends, "the groups do not end"
            _compare(want, arrays, parameters)
            compared += 1
    _require(compared)


def _check_on_device(
    program: Program, module: Module, to_device: Callable[..., Any], run: Callable[..., Any]
) -> None:
    plain, compared = program.meant(), 0
    for seed, parameters in enumerate(program.parameter_sets(plain)):
        arrays = allocate(module, parameters, value_ranges(program), seed)
        want = meaning(plain, parameters, arrays)
        if want is None or not all(array.size for array in arrays.values()):
            continue
        there = {name: to_device(array) for name, array in arrays.items()}
        run(**there, **{a.name: parameters[a.name] for a in module.arguments if not a.is_array})
        _compare(want, {name: array.get() for name, array in there.items()}, parameters)
        compared += 1
    _require(compared)
