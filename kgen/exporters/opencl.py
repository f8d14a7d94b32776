"""Launchers of kernels for OpenCL, through its C API: checks, sub-buffers, events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

import cgen

from kgen.exporters.kernels import ExportedKernel
from kgen.exporters.launcher import (
    LauncherWriter,
    bytes_name,
    c_string,
    first_bytes,
    program_files,
)
from kgen.ir.data import ImageArg
from kgen.ir.expr import Expr, to_text
from kgen.targets.definitions import constant
from kgen.targets.module import ArgumentInfo, Launch
from kgen.targets.pocl import pocl_options, with_double_barriers

__all__ = ["OpenCLLauncherWriter"]

_CALL: Final = "kg_call"
#: The names of the extents of images, fastest axis first.
_EXTENTS: Final = ("CL_IMAGE_WIDTH", "CL_IMAGE_HEIGHT", "CL_IMAGE_DEPTH")
_SUPPORT_FILES: Final = ("kgen_mutex.h", "kgen_opencl.h", "kgen_opencl_programs.h")


class OpenCLLauncherWriter(LauncherWriter):
    """Writes functions that enqueue the kernel on buffers."""

    suffix: ClassVar[str] = "opencl"
    piece: ClassVar[str] = "KGEN_OPENCL_PIECE"

    def __init__(self, namespace: str, kernel: ExportedKernel, target: str) -> None:
        super().__init__(namespace, kernel, target)
        self.reject_guards("an exported function for OpenCL does not wait for the kernel")
        args = kernel.unit[kernel.entrypoint].args
        self.images = frozenset(arg.name for arg in args if isinstance(arg, ImageArg))
        #: the functions of the program, each once
        self.device_functions = list(dict.fromkeys(each.function for each in self.host.launches))

    # -- signatures -------------------------------------------------------------------------

    def leading(self) -> list[cgen.Declarator]:
        return [cgen.Pointer(cgen.Value("struct _cl_command_queue", "queue"))]

    def trailing(self) -> list[cgen.Declarator]:
        events = cgen.Pointer(cgen.Const(cgen.Pointer(cgen.Value("struct _cl_event", "wait"))))
        done = cgen.Pointer(cgen.Pointer(cgen.Value("struct _cl_event", "done")))
        return [cgen.Value("uint32_t", "n_wait"), events, done]

    def declare(self, arg: ArgumentInfo) -> cgen.Declarator:
        return cgen.Pointer(_memory(arg.name)) if arg.is_array else super().declare(arg)

    def parameters_of(self, arg: ArgumentInfo) -> list[cgen.Declarator]:
        """Declare an argument, and the offset of an array if its code needs it."""
        declared = super().parameters_of(arg)
        if arg.offset is not None:
            declared.append(cgen.Value("int64_t", arg.offset))
        return declared

    def workspace_parameter(self) -> cgen.Declarator:
        return cgen.Pointer(_memory("workspace"))

    @classmethod
    def general_functions(cls, namespace: str) -> list[str]:
        handles = ("context", "command_queue", "mem", "event")
        return [
            *(f"struct _cl_{handle};" for handle in handles),
            "",
            "/* Functions for OpenCL enqueue a kernel in a queue. It waits for the n_wait events",
            " * wait; done, unless it is a null pointer, becomes an event that the caller owns.",
            " * A call that fails makes no event. The first call in a context builds the program.",
            " */",
            "",
            "/* Let go of all programs in a context, in which no call is running. */",
            f"{namespace}_status {namespace}_opencl_release(struct _cl_context *context);",
            "",
            "/* Copy what the compiler said of the last program that could not be built to text,",
            " * of n_bytes; return how many bytes that has, and 0 if there is none.",
            " */",
            f"size_t {namespace}_opencl_build_log(size_t n_bytes, char *text);",
            "",
        ]

    def notes(self) -> list[str]:
        return [
            f"{arg.offset}: where {arg.name} begins in its buffer, in elements (OpenCL)"
            for arg in self.host.arrays
            if arg.offset is not None
        ]

    # -- checks -----------------------------------------------------------------------------

    def body(self) -> list[cgen.Generable]:
        is_single = self.host.steps == self.host.launches[:1]
        given = ", ".join(
            (
                f".code = &{self.code_name}",
                ".queue = queue",
                ".n_wait = n_wait",
                ".wait = wait",
                f".is_single = {'true' if is_single else 'false'}",
                ".is_waited_for_by_caller = done != NULL",
            )
        )
        call = cgen.Value("kgen_opencl_call", _CALL)
        ended = f"return {self.namespace}_opencl_end(&{_CALL}, "
        body = [
            *self.check_numbers(),
            *self._check_pointers(),
            cgen.Initializer(call, f"{{{given}}}"),
            cgen.Statement(f"kgen_opencl_find_context(&{_CALL})"),
            *self._find_memory(),
            cgen.If(cgen.Line(f"{_CALL}.error != CL_SUCCESS"), cgen.Statement(f"{ended}NULL)")),
            *self._check_memory(),
            cgen.If(
                cgen.Line(f"!{self.namespace}_opencl_begin(&{_CALL})"),
                cgen.Statement(f"{ended}NULL)"),
            ),
            *self._take_workspace(),
            *self.take_steps(self.host.steps),
        ]
        buffers = map(_buffer, range(len(self.host.buffers)))
        body += [cgen.Statement(f"kgen_opencl_give_back({name})") for name in buffers]
        return [*body, cgen.Statement(f"{ended}done)")]

    def _check_pointers(self) -> Iterator[cgen.Generable]:
        yield self.fail_if("queue == NULL", "null_pointer", "the queue is a null pointer")
        text = "the events to wait for are a null pointer"
        yield self.fail_if("n_wait > 0 && wait == NULL", "null_pointer", text)
        yield from self.find_bytes(self._buffers_of_known_extent())
        for arg in self.host.arrays:
            missing = f"{arg.name} == NULL"
            if arg.shape is not None:
                name = bytes_name(arg) if arg.name not in self.images else None
                missing += f" && {name} > 0" if name is not None else ""
            yield self.fail_if(missing, "null_pointer", f"array '{arg.name}' is a null pointer")
            if arg.offset is not None:
                text = f"'{arg.offset}' is negative, or too large"
                wrong = f"{arg.offset} < 0 || {arg.offset} > KGEN_MAX_BYTES / {_item(arg)}"
                yield self.fail_if(wrong, "invalid_size", text)

    def _buffers_of_known_extent(self) -> list[ArgumentInfo]:
        return [arg for arg in self._buffers() if arg.shape is not None]

    def _buffers(self) -> list[ArgumentInfo]:
        return [arg for arg in self.host.arrays if arg.name not in self.images]

    def _find_memory(self) -> Iterator[cgen.Generable]:
        """Query the memory of each buffer, and the extents of images, from OpenCL."""
        for arg in self._buffers():
            yield _found(_place(arg.name), f"kgen_opencl_find(&{_CALL}, {arg.name})")
        if self.host.buffers:
            yield from self.find_pieces()
            yield _found(_place("workspace"), f"kgen_opencl_find(&{_CALL}, workspace)")
        for arg in self.host.arrays:
            if arg.name in self.images:
                yield cgen.Statement(f"kgen_opencl_check_context(&{_CALL}, {arg.name})")
                for axis, name in zip(_EXTENTS, self._extents_of(arg), strict=False):
                    extent = cgen.Const(cgen.Value("int64_t", name[0]))
                    asked = f"kgen_opencl_extent(&{_CALL}, {arg.name}, {axis})"
                    yield cgen.Initializer(extent, asked)

    @staticmethod
    def _extents_of(arg: ArgumentInfo) -> Iterator[tuple[str, Expr]]:
        """Yield the name of each extent of an image, and the required value."""
        for number, extent in enumerate(reversed(arg.shape or ())):
            yield f"kg_extent{number}_{arg.name}", extent

    def _check_memory(self) -> Iterator[cgen.Generable]:
        """Check sizes, alignment and overlap."""
        for arg in self.host.arrays:
            if arg.name in self.images:
                yield from self._check_image(arg)
                continue
            needed = bytes_name(arg) if arg.shape is not None else _item(arg)
            if arg.offset is not None:
                needed = f"kgen_add({needed}, {_first(arg)})"
            wrong = f"{_place(arg.name)}.n_bytes < {needed}"
            text = f"the buffer of array '{arg.name}' has fewer bytes than the array"
            yield self.fail_if(wrong, "invalid_size", text)
            if arg.alignment > 1:
                wrong = f"({_place(arg.name)}.first + {_first(arg)}) % {arg.alignment} != 0"
                text = f"array '{arg.name}' does not begin at a multiple of {arg.alignment} bytes"
                yield self.fail_if(wrong, "misaligned", text)
        for written, other in self.host.restricted_pairs:
            if self.images.isdisjoint((written.name, other.name)):
                text = f"array '{written.name}', which is written, overlaps with '{other.name}'"
                yield self._fail_if_overlap(_piece_of(written), _piece_of(other), text)
        if self.host.buffers:
            given = f"workspace != NULL && {_place('workspace')}.n_bytes < kg_total"
            text = "the workspace has fewer bytes than the temporary arrays"
            yield self.fail_if(given, "invalid_size", text)
            for arg in self._buffers():
                text = f"the workspace overlaps with array '{arg.name}'"
                memory = f"{_place('workspace')}, 0, kg_total"
                yield self._fail_if_overlap(_piece_of(arg), memory, text)

    def _fail_if_overlap(self, one: str, other: str, text: str) -> cgen.Generable:
        return self.fail_if(f"kgen_opencl_overlap({one}, {other})", "overlap", text)

    def _check_image(self, arg: ArgumentInfo) -> Iterator[cgen.Generable]:
        for name, extent in self._extents_of(arg):
            wrong = f"{name} < {self.integers.text(extent)}"
            text = f"image '{arg.name}' has fewer than {to_text(extent)} pixels along an axis"
            yield self.fail_if(wrong, "invalid_size", text)

    # -- memory -----------------------------------------------------------------------------

    def _take_workspace(self) -> Iterator[cgen.Generable]:
        """Cut the workspace into the temporaries, or allocate them."""
        first = "0"
        for number, buffer in enumerate(self.host.buffers):
            taken = cgen.Const(cgen.Value("cl_mem", _buffer(number)))
            size = self.pieces(number)
            call = f"kgen_opencl_take(&{_CALL}, {_place('workspace')}, {first}, {size})"
            yield cgen.Initializer(taken, call)
            for arg in buffer.temporaries:
                yield constant("cl_mem", arg.name, _buffer(number))
            first = size if first == "0" else f"{first} + {size}"

    # -- launches ---------------------------------------------------------------------------

    def launch(self, launch: Launch) -> list[cgen.Generable]:
        kernel = cgen.Const(cgen.Value("cl_kernel", "kg_kernel"))
        function = self.device_functions.index(launch.function)
        asked = f"{self.namespace}_opencl_kernel(&{_CALL}, {function})"
        body: list[cgen.Generable] = [cgen.Initializer(kernel, asked), *self._grid(launch)]
        for position, parameter in enumerate(launch.parameters):
            body += self._pass(position, parameter)
        n_axes = max(len(launch.groups), len(launch.locals), 1)
        passed = f"&{_CALL}, kg_kernel, {n_axes}, kg_global, kg_local"
        body.append(cgen.Statement(f"kgen_opencl_launch({passed})"))
        return [self.if_launched(launch, cgen.Block(body))]

    def offset(self, parameter: str) -> str:
        is_passed = not self.host.by_name[self.host.offsets[parameter]].is_temporary
        return parameter if is_passed else "0"

    def _grid(self, launch: Launch) -> Iterator[cgen.Generable]:
        n_axes = max(len(launch.groups), len(launch.locals), 1)
        locals_ = (*launch.locals, 1, 1, 1)[:n_axes]
        groups: tuple[Expr, ...] = (*launch.groups, 1, 1, 1)[:n_axes]
        sizes = [self.integers.text(g * n) for g, n in zip(groups, locals_, strict=True)]
        for name, texts in (
            ("kg_global", [f"(size_t) ({size})" for size in sizes]),
            ("kg_local", list(map(str, locals_))),
        ):
            array = cgen.Const(cgen.Value("size_t", f"{name}[{n_axes}]"))
            yield cgen.Initializer(array, f"{{{', '.join(texts)}}}")

    def _pass(self, position: int, parameter: str) -> Iterator[cgen.Generable]:
        """Set one parameter: of a variable of the host, its value in the type of the kernel's."""
        name = parameter
        text = self.converted(parameter)
        if text is not None:
            name = f"kg_{position}"
            yield constant(text[0], name, text[1])
        passed = f"&{_CALL}, kg_kernel, {position}, sizeof {name}, &{name}"
        yield cgen.Statement(f"kgen_opencl_set({passed})")

    def function_names(self) -> tuple[str, ...]:
        return (*super().function_names(), self.code_name)

    # -- files ------------------------------------------------------------------------------

    @property
    def code_name(self) -> str:
        """The name of what the library knows of the kernel."""
        return f"{self.name}_code"

    def includes(self) -> list[cgen.Generable]:
        return [cgen.Include("kgen_opencl.h", system=False)]

    def code_parts(self) -> list[cgen.Generable]:
        """Write the sources of the program, and a description of them."""
        module = self.code.module
        texts = {"kg_text": module.device_source}
        options = {"kg_text": self.code.build_options}
        pocl = self.code.for_pocl
        assert pocl is not None
        texts["kg_text_for_pocl"] = with_double_barriers(pocl.device_source)
        options["kg_text_for_pocl"] = (*self.code.build_options, *pocl_options(pocl))
        parts: list[cgen.Generable] = []
        for name, text in texts.items():
            parts.append(_strings(name, _pieces(text)))
        parts.append(_strings("kg_functions", self.device_functions, "NULL"))
        described = [f".name = {c_string(self.kernel.title)},"]
        for field, name in (("text", "kg_text"), ("text_for_pocl", "kg_text_for_pocl")):
            given = (f"sizeof {name} / sizeof {name}[0]", name, c_string(" ".join(options[name])))
            described.append(f".{field} = {{{', '.join(given)}}},")
        described.append(f".n_functions = {len(self.device_functions)},")
        described += [".functions = kg_functions,", ".mutex = KGEN_MUTEX"]
        lines = [f"kgen_opencl_code {self.code_name} = {{", *(f"  {e}" for e in described), "};"]
        return [*parts, cgen.Collection([*map(cgen.Line, lines)])]

    @classmethod
    def general_files(cls, namespace: str, writers: Sequence[LauncherWriter]) -> dict[str, str]:
        names = (f"{writer.name}_code" for writer in writers)
        return program_files(namespace, "opencl", names, "kgen_opencl_programs.h", _SUPPORT_FILES)


def _memory(name: str) -> cgen.Value:
    return cgen.Value("struct _cl_mem", name)


def _found(name: str, text: str) -> cgen.Initializer:
    return constant("kgen_opencl_memory", name, text)


def _place(name: str) -> str:
    """Return the name of the variable for the memory of a buffer."""
    return f"kg_at_{name}"


def _buffer(number: int) -> str:
    return f"kg_buffer{number}"


def _item(arg: ArgumentInfo) -> str:
    return str(arg.dtype.itemsize)


def _first(arg: ArgumentInfo) -> str:
    """Return the offset of an array in its buffer, in bytes."""
    return "0" if arg.offset is None else f"{_item(arg)} * {arg.offset}"


def _piece_of(arg: ArgumentInfo) -> str:
    return f"{_place(arg.name)}, {_first(arg)}, {first_bytes(arg)}"


def _pieces(text: str) -> Iterator[str]:
    """Yield the lines of a source, long ones in parts: C99 guarantees 4095 characters."""
    for line in text.split("\n"):
        for start in range(0, len(line) + 1, _PIECE):
            yield f"{line}\n"[start : start + _PIECE]


#: a character has up to four bytes
_PIECE: Final = 1000


def _strings(name: str, values: Iterable[str], *more: str) -> cgen.Collection:
    """Declare an array of strings: one would have more characters than compilers accept."""
    lines = [f"static char const *const {name}[] = {{"]
    lines += [f"  {text}," for text in (*map(c_string, values), *more)]
    return cgen.Collection([*map(cgen.Line, [*lines, "};"])])
