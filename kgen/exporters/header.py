"""The header of an exported library, and the implementation of its general part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import cgen

from kgen.exporters.kernels import ExportedKernel
from kgen.exporters.launcher import LauncherWriter, writers_by_kernel
from kgen.exporters.library import STATUSES
from kgen.host.program import has_no_gaps
from kgen.ir.expr import is_constant, to_text
from kgen.targets.module import ArgumentInfo

__all__ = ["internal_header", "library_source", "public_header"]


def public_header(
    namespace: str, kernels: Sequence[ExportedKernel], writers: Iterable[LauncherWriter]
) -> str:
    """Return the header that programs in C11, C++17 and CUDA include.

    It includes no header of OpenCL or CUDA: their handles are pointers to structures.
    """
    by_kernel = writers_by_kernel(writers)
    parts = [
        *("#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", ""),
        *_complex_types(namespace, kernels),
        *("#ifdef __cplusplus", 'extern "C" {', "#endif", ""),
        *_statuses(namespace),
        *_general(namespace, by_kernel),
        *(line for kernel in kernels for line in _declarations(kernel, by_kernel[kernel.name])),
        *("#ifdef __cplusplus", "}", "#endif"),
    ]
    return _guarded(f"{namespace.upper()}_H", parts)


def _complex_types(namespace: str, kernels: Sequence[ExportedKernel]) -> list[str]:
    """Return the complex types of the kernels, in C and in C++."""
    dtypes = {arg.dtype.name for kernel in kernels for arg in kernel.arguments}
    real = {"complex64": "float", "complex128": "double"}
    found = [name for name in real if name in dtypes]
    if not found:
        return []
    return [
        *("#ifdef __cplusplus", "#include <complex>"),
        *(f"typedef std::complex<{real[name]}> {namespace}_{name};" for name in found),
        "#else",
        *(f"typedef {real[name]} _Complex {namespace}_{name};" for name in found),
        *("#endif", ""),
    ]


def _statuses(namespace: str) -> Iterator[str]:
    yield "/* What each function returns. */"
    yield f"typedef enum {namespace}_status {{"
    for number, status in enumerate(STATUSES):
        comma = "," if number + 1 < len(STATUSES) else ""
        yield f"  {namespace}_{status.name} = {number}{comma} /* {status.text} */"
    yield from (f"}} {namespace}_status;", "")
    yield "/* What a status means. */"
    yield from (f"char const *{namespace}_status_text({namespace}_status status);", "")
    yield "/* What was wrong in the last call of this thread that failed: kernel and argument. */"
    yield from (f"char const *{namespace}_last_message(void);", "")


def _general(namespace: str, by_kernel: Mapping[str, Sequence[LauncherWriter]]) -> Iterator[str]:
    """Write the declarations of targets other than the functions of kernels."""
    targets = dict.fromkeys(type(writer) for writers in by_kernel.values() for writer in writers)
    for target in targets:
        yield from target.general_functions(namespace)


def _declarations(kernel: ExportedKernel, writers: Sequence[LauncherWriter]) -> Iterator[str]:
    yield f"/* {kernel.name}"
    yield " *"
    yield from (f" * {line}" for line in _argument_texts(kernel, writers[0]))
    yield from (f" * {line}" for writer in writers for line in writer.notes())
    for writer in writers:
        if writer.variants:
            yield from (" *", f" * {_choice_text(writer)}")
    if kernel.host.conditions and not kernel.choices:
        yield " *"
        shown = " and ".join(map(to_text, kernel.host.conditions))
        yield f" * It is assumed that {shown}."
    if kernel.host.restricted_pairs:
        yield " *"
        yield " * Arrays that are written must not overlap with others."
    if kernel.host.buffers:
        yield " *"
        yield " * workspace: memory for temporary arrays, of as many bytes as ..._workspace() says,"
        yield " *   on the host from a multiple of 64 bytes on (aligned_alloc); with a null pointer"
        yield " *   each call allocates it, and frees it"
    yield " */"
    for writer in writers:
        for prototype in writer.prototypes():
            yield from (str(prototype), "")


def _choice_text(writer: LauncherWriter) -> str:
    """Describe which variant a call runs."""
    texts = []
    for choice, _ in writer.variants:
        tests = [] if choice.condition is None else [to_text(choice.condition)]
        tests += [] if choice.device is None else [f"the device is of the kind {choice.device}"]
        texts.append(f"if {' and '.join(tests)}" if tests else "for all else")
    return f"{writer.name} has {len(texts)} variants: {'; '.join(texts)}."


def _argument_texts(kernel: ExportedKernel, writer: LauncherWriter) -> Iterator[str]:
    for arg in kernel.arguments:
        if arg.is_array:
            yield f"{arg.name}: {_array_text(arg)}"
            continue
        limits = writer.limits(arg)
        inside = f", in [{limits[0]}, {limits[1]}]" if limits is not None else ""
        yield f"{arg.name}: {arg.dtype.name}{inside}"


def _array_text(arg: ArgumentInfo) -> str:
    uses = {(True, True): "read and written", (False, True): "written", (True, False): "read"}
    use = uses.get((arg.is_input, arg.is_output), "not used")
    if arg.shape is None:
        return f"{arg.dtype.name}, an array of any extent; {use}"
    shape = " x ".join(to_text(e) if str(e).isalnum() else f"({to_text(e)})" for e in arg.shape)
    text = f"{arg.dtype.name}, {shape or 'one'} element{'s' if arg.shape else ''}"
    return f"{text}{_order_text(arg)}; {use}"


def _order_text(arg: ArgumentInfo) -> str:
    """Describe the order of an array's elements in memory, if it has several axes."""
    strides = arg.strides or ()
    if has_no_gaps(arg):
        if len(strides) < 2:
            return ""
        return ", row-major" if is_constant(strides[-1]) else ", column-major"
    return f", strides of ({', '.join(map(to_text, strides))}) elements"


def internal_header(namespace: str, hidden: Iterable[LauncherWriter] = ()) -> str:
    """Return the header that the sources of the library share, with functions for it alone."""
    parts = [
        *("/* for functions of the library that C11 lacks */", "#ifndef _DEFAULT_SOURCE"),
        *("#define _DEFAULT_SOURCE", "#endif", ""),
        f'#include "{namespace}.h"',
        '#include "kgen_support.h"',
        "",
        "/* A name of this library. */",
        f"#define KGEN_NAME(NAME) {namespace}_##NAME",
        "",
        "/* Note the message for the caller; return the status. */",
        f"{namespace}_status {namespace}_fail({namespace}_status status, char const *message);",
    ]
    functions = [prototype for writer in hidden for prototype in writer.prototypes()]
    if functions:
        parts += ["", "/* Variants of kernels, one of which each call runs. */"]
        parts += map(str, functions)
    return _guarded(f"{namespace.upper()}_INTERNAL_H", parts)


def library_source(namespace: str) -> str:
    """Return the source of the functions that belong to no kernel."""
    message = f"{namespace}_message"
    status = cgen.Value(f"{namespace}_status", "status")
    text = cgen.Pointer(cgen.Value("char const", f"{namespace}_status_text"))
    cases = [
        cgen.Line(f'case {namespace}_{status.name}: return "{status.text}";') for status in STATUSES
    ]
    switch = cgen.Collection([cgen.Line("switch (status)"), cgen.Block(cases)])
    unknown = cgen.Statement('return "not a status"')
    noted = cgen.Pointer(cgen.Value("char const", "message"))
    fail = cgen.Value(f"{namespace}_status", f"{namespace}_fail")
    parts = [
        cgen.Include(f"{namespace}_internal.h", system=False),
        cgen.Line(),
        cgen.Line(f'static KGEN_THREAD_LOCAL char const *{message} = "";'),
        cgen.Line(),
        cgen.FunctionBody(cgen.FunctionDeclaration(text, [status]), cgen.Block([switch, unknown])),
        cgen.Line(),
        cgen.FunctionBody(
            cgen.FunctionDeclaration(fail, [status, noted]),
            cgen.Block([cgen.Assign(message, "message"), cgen.Statement("return status")]),
        ),
        cgen.Line(),
        cgen.Line(f"char const *{namespace}_last_message(void)"),
        cgen.Block([cgen.Statement(f"return {message}")]),
    ]
    return str(cgen.Module(parts)) + "\n"


def _guarded(guard: str, lines: Iterable[str]) -> str:
    return "\n".join([f"#ifndef {guard}", f"#define {guard}", "", *lines, "", "#endif", ""])
