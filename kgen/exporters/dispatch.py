"""Functions that choose a variant of a kernel: by the sizes of a call, and by its device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import cgen
import numpy as np

from kgen.exporters.integers import IntegerWriter
from kgen.exporters.kernels import Choice
from kgen.exporters.launcher import SUPPORT, LauncherWriter, name_of, support_file
from kgen.targets.module import ArgumentInfo

__all__ = ["code_writers", "files_of", "hidden_writers"]


def code_writers(writers: Iterable[LauncherWriter]) -> list[LauncherWriter]:
    """Return the writers of launching functions; for a kernel with variants, the variants'."""
    return [
        found
        for writer in writers
        for found in ([variant for _, variant in writer.variants] or [writer])
    ]


def hidden_writers(writers: Iterable[LauncherWriter]) -> list[LauncherWriter]:
    """Return the writers of variants, whose functions only the library calls."""
    return [variant for writer in writers for _, variant in writer.variants]


def files_of(writer: LauncherWriter) -> dict[str, str]:
    """Return the sources of a kernel for one target, with those of its variants."""
    if not writer.variants:
        return writer.files()
    made = {f"src/{writer.name}.c": _source(writer)}
    for _, variant in writer.variants:
        made |= variant.files()
    if any(choice.device for choice, _ in writer.variants):
        made[f"src/{_DEVICES}"] = support_file(_DEVICES)
    return made


_DEVICES = "kgen_opencl_devices.h"


def _source(writer: LauncherWriter) -> str:
    parts: list[Any] = [cgen.Include(f"{writer.namespace}_internal.h", system=False)]
    if any(choice.device for choice, _ in writer.variants):
        parts.append(cgen.Include(_DEVICES, system=False))
    parts += [
        cgen.Line(),
        cgen.FunctionBody(writer.prototype(), cgen.Block(list(_run(writer)))),
    ]
    if writer.host.buffers:
        body = cgen.Block(list(_find_workspace(writer)))
        parts += [cgen.Line(), cgen.FunctionBody(writer.workspace_prototype(), body)]
    return str(cgen.Module(parts)).rstrip() + "\n"


def _run(writer: LauncherWriter) -> Iterator[cgen.Generable]:
    for choice, variant in writer.variants:
        passed = ", ".join(map(name_of, variant.parameters()))
        call = cgen.Statement(f"return {variant.name}({passed})")
        yield _if([*_size_tests(writer, choice), *_device_tests(choice)], call)


def _find_workspace(writer: LauncherWriter) -> Iterator[cgen.Generable]:
    """Write the function that finds the largest workspace of the variants that may run."""
    failed = "'n_bytes' is a null pointer"
    yield cgen.Initializer(cgen.Value("size_t", "kg_most"), "0")
    yield writer.fail_if("n_bytes == NULL", "null_pointer", failed)
    for choice, variant in writer.variants:
        body: list[cgen.Generable] = []
        if variant.host.buffers:
            numbers = [arg.name for arg in variant.host.values]
            call = f"{variant.name}_workspace({', '.join([*numbers, '&kg_bytes'])})"
            status = cgen.Const(cgen.Value(f"{writer.namespace}_status", "kg_status"))
            body += [
                cgen.Initializer(cgen.Value("size_t", "kg_bytes"), "0"),
                cgen.Initializer(status, call),
                _if(
                    [f"kg_status != {writer.status('success')}"], cgen.Statement("return kg_status")
                ),
                _if(["kg_bytes > kg_most"], cgen.Assign("kg_most", "kg_bytes")),
            ]
        if choice.device is None:
            body += [
                cgen.Assign("*n_bytes", "kg_most"),
                cgen.Statement(f"return {writer.status('success')}"),
            ]
        if body:
            yield _if(_size_tests(writer, choice), cgen.Block(body))


def _if(tests: list[str], then: cgen.Generable) -> cgen.Generable:
    if not tests:
        return then
    inside = tests if len(tests) == 1 else [f"({test})" for test in tests]
    return cgen.If(cgen.Line(" && ".join(inside)), then)


def _size_tests(writer: LauncherWriter, choice: Choice) -> list[str]:
    if choice.condition is None:
        return []
    integers = IntegerWriter(SUPPORT, dict(_ranges(writer.host.values)))
    return [integers.text(choice.condition)]


def _ranges(numbers: Iterable[ArgumentInfo]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the ranges of unchecked integers."""
    for arg in numbers:
        if arg.dtype.kind in "iu":
            info = np.iinfo(arg.dtype)
            yield arg.name, (int(info.min), int(info.max))


def _device_tests(choice: Choice) -> list[str]:
    return [] if choice.device is None else [f'kgen_opencl_is_a(queue, "{choice.device}")']
