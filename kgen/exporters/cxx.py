"""The header for C++17: overloads that take views of arrays, and infer sizes from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cgen

from kgen.errors import CodegenError
from kgen.exporters.cxx_sizes import SizeWriter, rank_of
from kgen.exporters.kernels import ExportedKernel
from kgen.exporters.launcher import LauncherWriter, writers_by_kernel
from kgen.targets.module import ArgumentInfo
from kgen.targets.words import C_WORDS, CPP_WORDS, MACROS, is_implementation_name

__all__ = ["cxx_header"]

#: Keywords and macros, and the names in the namespace other than the functions of kernels. Two
#: keywords of C are valid names of functions in C++.
_TAKEN: Final = (C_WORDS - {"main", "restrict"}).union(
    CPP_WORDS,
    MACROS,
    ("view", "buffer_view", "device_view", "opencl_events"),
    ("error", "detail", "returning", "throwing", "kg_finish", "kg_result"),
)


def cxx_header(
    namespace: str, kernels: Sequence[ExportedKernel], writers: Iterable[LauncherWriter]
) -> str:
    """Return the header for C++17 programs, with inline functions only."""
    by_kernel = writers_by_kernel(writers)
    overloads = [_Overloads(namespace, kernel, by_kernel[kernel.name]) for kernel in kernels]
    macro = namespace.upper()
    parts: list[Any] = [
        *(f"#ifndef {macro}_HPP", f"#define {macro}_HPP", "", *_introduction(namespace)),
        *(f"#define KGEN_NAMESPACE {namespace}", f'#include "{namespace}_view.hpp"'),
        *("#undef KGEN_NAMESPACE", "", *_errors(namespace)),
        *(f"namespace {namespace} {{", "namespace detail {", ""),
        *(part for found in overloads for check in found.sizes.functions() for part in (check, "")),
        *("} // namespace detail", "", f"#ifdef {macro}_NO_EXCEPTIONS"),
        *("inline namespace returning {", "#else", "inline namespace throwing {", "#endif", ""),
        *(part for found in overloads for part in found.functions()),
        *("} // inline namespace", f"}} // namespace {namespace}", "", "#endif", ""),
    ]
    return "\n".join(map(str, parts))


def _introduction(namespace: str) -> Iterator[str]:
    macro = namespace.upper()
    yield "/* Kernels for C++17: functions of views, over those in C."
    yield " *"
    yield f" * What fails throws {namespace}::error. With {macro}_NO_EXCEPTIONS defined, or"
    yield f" * exceptions switched off, functions return a {namespace}_status instead."
    yield " *"
    yield " * Numbers that follow from the shapes and strides of arrays may be left out."
    yield f" * {namespace}.h describes each kernel."
    yield " */"
    yield f'#include "{namespace}.h"'
    yield ""
    yield "#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)"
    yield f'#error "{namespace}.hpp is for C++17 or newer"'
    yield from ("#endif", "")
    yield f"#if !defined({macro}_NO_EXCEPTIONS) && !defined(__cpp_exceptions)"
    yield f"#define {macro}_NO_EXCEPTIONS"
    yield "#endif"
    yield f"#ifndef {macro}_NO_EXCEPTIONS"
    yield from ("#include <stdexcept>", "#endif", "")


def _errors(namespace: str) -> Iterator[str]:
    """Yield the code that turns a status into an error."""
    macro, status = namespace.upper(), f"::{namespace}_status"
    yield "/* Of the library: note the message for the caller; return the status. */"
    yield f'extern "C" {namespace}_status {namespace}_fail({namespace}_status, char const *);'
    yield from ("", f"namespace {namespace} {{", "namespace detail {", "")
    yield "/* The status of a check in this header that has noted why it failed. */"
    yield f"inline {status} fail({status} kg_status) noexcept"
    yield f"{{\n  return ::{namespace}_fail(kg_status, message());\n}}"
    yield from ("", "} // namespace detail", "")
    yield f"#ifdef {macro}_NO_EXCEPTIONS"
    yield from ("inline namespace returning {", "")
    yield f"using kg_result = {status};"
    yield f"[[nodiscard]] inline kg_result kg_finish({status} kg_status) noexcept"
    yield from ("{\n  return kg_status;\n}", "", "#else", "inline namespace throwing {", "")
    yield "/* A call that failed: its text names kernel and argument. */"
    yield from ("class error : public std::runtime_error {", "public:")
    yield f"  explicit error({status} status)"
    yield f"      : std::runtime_error(::{namespace}_last_message()), status_(status)"
    yield "  {\n  }"
    yield f"  {status} status() const noexcept {{ return status_; }}"
    yield from ("", "private:", f"  {status} status_;", "};", "")
    yield from ("using kg_result = void;", f"inline void kg_finish({status} kg_status)", "{")
    yield f"  if (kg_status != ::{namespace}_success)"
    yield from ("    throw error(kg_status);", "}", "", "#endif", "} // inline namespace")
    yield f"}} // namespace {namespace}"
    yield ""


@dataclass(frozen=True, kw_only=True)
class _Api:
    """The differences between the functions of targets: how arrays and others are passed."""

    view: str
    #: what a view passes to the function in C
    passed: str
    #: what the queue or stream points to
    queue: str | None = None
    #: what the workspace points to
    workspace: str = "void"
    #: what the function in C gets for it
    memory: str = "kg_workspace"
    #: arrays begin at an element of a buffer, which the function in C gets as well
    has_offsets: bool = False
    #: the members of the last parameter that the function in C gets
    events: tuple[str, ...] = ()


#: By the suffix of the functions in C.
_APIS: Final[Mapping[str, _Api]] = {
    "": _Api(view="view", passed="data"),
    "opencl": _Api(
        view="buffer_view",
        passed="handle",
        queue="::_cl_command_queue",
        workspace="::_cl_mem",
        has_offsets=True,
        events=("n_wait", "wait", "done"),
    ),
    "cuda": _Api(
        view="device_view",
        passed="handle",
        queue="::CUstream_st",
        memory="reinterpret_cast<::std::uintptr_t>(kg_workspace)",
    ),
}


class _Overloads:
    """Writes the functions of one kernel in C++: in the order of its arguments.

    In the second overload of each, numbers that follow from arrays are left out.
    """

    def __init__(
        self, namespace: str, kernel: ExportedKernel, writers: Sequence[LauncherWriter]
    ) -> None:
        self.namespace = namespace
        self.kernel = kernel
        self.writers = writers
        self.sizes = SizeWriter(namespace, kernel)
        if kernel.title in _TAKEN or is_implementation_name(kernel.title):
            raise CodegenError(
                f"a C++ function of namespace '{namespace}' cannot have the name '{kernel.title}'",
                kernel=kernel.name,
                because="it is a keyword or a macro, or a name of the header",
                hint="make the kernel with another name=...",
            )

    def functions(self) -> Iterator[Any]:
        """Write the functions that a caller sees."""
        for writer in self.writers:
            api = _APIS[writer.suffix]
            yield from (self.call(writer, api), "")
            if self.sizes.derived:
                yield from (self.call_with_found(writer, api), "")
            if writer.host.buffers:
                yield from (self.workspace(writer), "")

    # -- parameters -------------------------------------------------------------------------

    def declare(self, api: _Api, arg: ArgumentInfo) -> cgen.Declarator:
        """Declare an array or a number."""
        if not arg.is_array:
            return self.sizes.number(arg)
        element = self.sizes.type_of(arg.dtype) + ("" if arg.is_output else " const")
        return cgen.Value(f"{self.sizes.scoped(api.view)}<{element}, {rank_of(arg)}>", arg.name)

    def parameters(
        self, writer: LauncherWriter, api: _Api, arguments: Iterable[ArgumentInfo]
    ) -> list[cgen.Declarator]:
        """Declare the queue, *arguments* of the kernel, and optional parameters."""
        found: list[cgen.Declarator] = [self.declare(api, arg) for arg in arguments]
        if api.queue is not None:
            found.insert(0, cgen.Pointer(cgen.Value(api.queue, "kg_queue")))
        if writer.host.buffers:
            found.append(cgen.Pointer(cgen.Value(api.workspace, "kg_workspace = nullptr")))
        if api.events:
            kind = f"{self.sizes.scoped('opencl_events')} const"
            found.append(cgen.Reference(cgen.Value(kind, "kg_events = {}")))
        return found

    # -- functions --------------------------------------------------------------------------

    def call(self, writer: LauncherWriter, api: _Api) -> cgen.FunctionBody:
        """Write the function that takes all arguments: checks, then the function in C."""
        arguments = self.kernel.arguments
        passed = [text for arg in arguments for text in self._passed(api, arg)]
        if api.queue is not None:
            passed.insert(0, "kg_queue")
        if writer.host.buffers:
            passed.append(api.memory)
        passed += [f"kg_events.{name}" for name in api.events]
        call = f"::{writer.name}({', '.join(passed)})"
        body: list[cgen.Generable] = [self._noted(call)]
        if self.sizes.arrays:
            names = ", ".join(arg.name for arg in (*self.sizes.arrays, *self.sizes.numbers))
            test = cgen.Line(f"kg_status == {self.sizes.status('success')}")
            body = [
                self._noted(f"{self.sizes.detail('check_')}{self.kernel.name}({names})"),
                *(check for arg in self.sizes.arrays for check in self._check_first(api, arg)),
                cgen.If(test, cgen.Assign("kg_status", call)),
            ]
        body.append(cgen.Statement(f"return {self._finished()}"))
        return self._function(self.kernel.title, self.parameters(writer, api, arguments), body)

    @staticmethod
    def _passed(api: _Api, arg: ArgumentInfo) -> Iterator[str]:
        """Yield the arguments of the C function for an argument of the kernel."""
        yield f"{arg.name}.{api.passed}()" if arg.is_array else arg.name
        if api.has_offsets and arg.offset is not None:
            yield f"{arg.name}.first()"

    def _check_first(self, api: _Api, arg: ArgumentInfo) -> Iterator[cgen.Generable]:
        """Reject an offset that the function in C has no parameter for."""
        if api.has_offsets and arg.offset is None:
            check = self.sizes.detail("begins_with_buffer")
            call = f'{check}({arg.name}.first(), "{self.kernel.name}", "{arg.name}")'
            fail = f"{self.sizes.detail('fail')}({self.sizes.status('invalid_layout')})"
            test = cgen.Line(f"kg_status == {self.sizes.status('success')} && !{call}")
            yield cgen.If(test, cgen.Assign("kg_status", fail))

    def call_with_found(self, writer: LauncherWriter, api: _Api) -> cgen.FunctionBody:
        """Write the function that finds numbers in the layouts of arrays."""
        names = [arg.name for arg in self.kernel.arguments]
        if api.queue is not None:
            names.insert(0, "kg_queue")
        if writer.host.buffers:
            names.append("kg_workspace")
        if api.events:
            names.append("kg_events")
        kept = [arg for arg in self.kernel.arguments if arg not in self.sizes.derived]
        call = f"{self.sizes.scoped(self.kernel.title)}({', '.join(names)})"
        body = [*self._find(), cgen.Statement(f"return {call}")]
        return self._function(self.kernel.title, self.parameters(writer, api, kept), body)

    def workspace(self, writer: LauncherWriter) -> cgen.FunctionBody:
        """Write the function that returns the size of the workspace."""
        numbers = self.sizes.numbers
        n_bytes = cgen.Reference(cgen.Value("::std::size_t", "kg_n_bytes"))
        names = ", ".join([*(arg.name for arg in numbers), "&kg_n_bytes"])
        name = f"{writer.name}_workspace"
        body = [self._noted(f"::{name}({names})"), cgen.Statement(f"return {self._finished()}")]
        parameters = [*map(self.sizes.number, numbers), n_bytes]
        return self._function(name.removeprefix(f"{self.namespace}_"), parameters, body)

    def _noted(self, call: str) -> cgen.Generable:
        return cgen.Initializer(cgen.Value(self.sizes.status("status"), "kg_status"), call)

    def _finished(self) -> str:
        return f"{self.sizes.scoped('kg_finish')}(kg_status)"

    def _find(self) -> Iterator[cgen.Generable]:
        """Find the omitted numbers, or fail."""
        for arg in self.sizes.derived:
            yield cgen.Initializer(self.sizes.number(arg), "0")
        names = ", ".join(
            arg.name for arg in (*self.sizes.arrays, *self.sizes.passed, *self.sizes.derived)
        )
        yield self._noted(f"{self.sizes.detail('find_')}{self.kernel.name}({names})")
        test = cgen.Line(f"kg_status != {self.sizes.status('success')}")
        yield cgen.If(test, cgen.Statement(f"return {self._finished()}"))

    def _function(
        self, name: str, parameters: Sequence[cgen.Declarator], body: Sequence[cgen.Generable]
    ) -> cgen.FunctionBody:
        """Write a function that throws an error, or returns a status."""
        declared = cgen.Value(f"inline {self.sizes.scoped('kg_result')}", name)
        return cgen.FunctionBody(
            cgen.FunctionDeclaration(declared, list(parameters)), cgen.Block(list(body))
        )
