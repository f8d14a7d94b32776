"""A module for Fortran 2003 with the interfaces of an exported library's functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

import cgen

from kgen.errors import CodegenError
from kgen.exporters.kernels import ExportedKernel
from kgen.exporters.launcher import LauncherWriter
from kgen.exporters.library import STATUSES
from kgen.ir.expr import is_constant, to_text
from kgen.targets.module import ArgumentInfo

__all__ = ["fortran_module"]

#: The declaration of each type of numbers.
_TYPES: Final[Mapping[str, str]] = {
    "bool": "logical(c_bool)",
    **{f"{sign}int{n}": f"integer(c_int{n}_t)" for sign in ("", "u") for n in (8, 16, 32, 64)},
    "float32": "real(c_float)",
    "float64": "real(c_double)",
    "complex64": "complex(c_float_complex)",
    "complex128": "complex(c_double_complex)",
}
_POINTER: Final = "type(c_ptr)"
#: The types of Fortran, by those of C.
_C_KINDS: Final[Mapping[str, str]] = {
    "unsigned long long": "integer(c_int64_t)",
    "bool": "logical(c_bool)",
    **{f"{sign}int{n}_t": f"integer(c_int{n}_t)" for sign in ("", "u") for n in (8, 16, 32, 64)},
    "float": "real(c_float)",
    "double": "real(c_double)",
}
#: The name of the results of functions, and the maximum length of names.
_RESULT: Final = "status"
_MAX_NAME: Final = 63


@dataclass(frozen=True)
class _Dummy:
    """A dummy argument: its name in C, its type and attributes, and its extents."""

    name: str
    kind: str
    extents: str = ""


def fortran_module(namespace: str, writers: Iterable[LauncherWriter]) -> str:
    """Return the module *namespace*, in which host arrays are Fortran arrays.

    Axes are in the opposite order: the last one of a row-major array is Fortran's first.
    """
    lines = [
        f"! Interfaces of the library {namespace} for Fortran 2003: kgen made this file.",
        "!",
        "! The axes of arrays are in the opposite order: of a row-major array the last one is",
        "! Fortran's first. Integers without a sign are those with one, of the same size.",
        f"module {namespace}",
        "  use, intrinsic :: iso_c_binding",
        "  implicit none",
        "",
        "  ! what each function returns",
        *(
            line
            for number, status in enumerate(STATUSES)
            for line in (
                f"  integer(c_int), parameter :: {namespace}_{status.name} = {number}",
                f"  !   {status.text}",
            )
        ),
        "",
        "  interface",
    ]
    for writer in writers:
        lines += [f"    {line}".rstrip() for line in _Interfaces(writer).functions()]
    lines += ["  end interface", "", "contains", "", *_message(namespace)]
    return "\n".join([*lines, f"end module {namespace}", ""])


def _message(namespace: str) -> Iterator[str]:
    """Return the function with the message of the last call that failed."""
    yield "  ! What was wrong in the last call of this thread that failed: kernel and argument."
    yield f"  function {namespace}_last_message() result(message)"
    yield "    character(:), allocatable :: message"
    yield "    character(kind=c_char), pointer :: text(:)"
    yield "    type(c_ptr) :: first"
    yield "    integer :: k"
    yield "    interface"
    yield f'      function last_message() bind(c, name="{namespace}_last_message")'
    yield "        import :: c_ptr"
    yield "        type(c_ptr) :: last_message"
    yield "      end function"
    yield '      function strlen(text) bind(c, name="strlen")'
    yield "        import :: c_ptr, c_size_t"
    yield "        type(c_ptr), value :: text"
    yield "        integer(c_size_t) :: strlen"
    yield "      end function"
    yield "    end interface"
    yield "    first = last_message()"
    yield "    call c_f_pointer(first, text, [strlen(first)])"
    yield "    allocate (character(size(text)) :: message)"
    yield "    do k = 1, size(text)"
    yield "      message(k:k) = text(k)"
    yield "    end do"
    yield "  end function"
    yield ""


class _Interfaces:
    """Writes the interfaces of the functions of one kernel for one target."""

    def __init__(self, writer: LauncherWriter) -> None:
        self.writer = writer
        names = [writer.name]
        if writer.host.buffers:
            names.append(f"{writer.name}_workspace")
        for name in names:
            if len(name) > _MAX_NAME:
                raise CodegenError(
                    f"'{name}' has more than the {_MAX_NAME} characters of names in Fortran",
                    kernel=writer.kernel.name,
                    hint="choose a shorter namespace or name, or export without fortran=True",
                )

    def functions(self) -> Iterator[str]:
        """Write the interfaces."""
        arguments = self.writer.kernel.arguments
        passed: list[_Dummy] = []
        for arg in arguments:
            declared, *more = self.writer.parameters_of(arg)
            is_elsewhere = arg.is_array and self.writer.target != "c"
            passed.append(_handle(declared) if is_elsewhere else self.argument(arg))
            passed += map(_handle, more)
        leading = list(map(_handle, self.writer.leading()))
        trailing = list(map(_handle, self.writer.trailing()))
        if self.writer.host.buffers:
            trailing.insert(0, _handle(self.writer.workspace_parameter()))
        yield from _shapes(self.writer.kernel)
        yield from _function(self.writer.name, [*leading, *passed, *trailing])
        if self.writer.host.buffers:
            numbers = list(map(self.argument, self.writer.host.values))
            size = _Dummy("n_bytes", "integer(c_size_t), intent(out)")
            yield from _function(f"{self.writer.name}_workspace", [*numbers, size])

    @staticmethod
    def argument(arg: ArgumentInfo) -> _Dummy:
        """Declare an argument of a function for the host."""
        kind = _TYPES.get(arg.dtype.name)
        if kind is None:
            return _Dummy(arg.name, f"{_POINTER}, value")
        if not arg.is_array:
            return _Dummy(arg.name, f"{kind}, value")
        intent = "inout" if arg.is_output else "in"
        return _Dummy(arg.name, f"{kind}, intent({intent})", "" if arg.shape == () else "(*)")


def _function(name: str, dummies: Sequence[_Dummy]) -> Iterator[str]:
    """Write the interface of one function, with a line for each argument."""
    names = _distinct([dummy.name for dummy in dummies], {name.lower(), _RESULT})
    head = f'function {name}({", ".join(names)}) bind(c, name="{name}") result({_RESULT})'
    *wrapped, last = wrap(head, 100, subsequent_indent="    ")
    yield from (f"{line} &" for line in wrapped)
    yield last
    yield "  import"
    for dummy, shown in zip(dummies, names, strict=True):
        yield f"  {dummy.kind} :: {shown}{dummy.extents}"
    yield f"  integer(c_int) :: {_RESULT}"
    yield from ("end function", "")


def _distinct(names: Sequence[str], taken: set[str]) -> list[str]:
    """Return unique names for Fortran, which ignores case and forbids a leading '_'."""
    found: list[str] = []
    for name in names:
        first = name if name[0].isalpha() and not name.lower().startswith("c_") else f"arg{name}"
        shown, count = first[: _MAX_NAME - 4], 1
        while shown.lower() in taken:
            count += 1
            shown = f"{first[: _MAX_NAME - 4]}_{count}"
        taken.add(shown.lower())
        found.append(shown)
    return found


def _handle(declared: cgen.Declarator) -> _Dummy:
    """Declare a parameter that is not an argument of the kernel, or an array in device memory."""
    text = declared.inline(with_semicolon=False)
    name = re.split(r"\W+", text)[-1]
    if "*" in text:
        return _Dummy(name, f"{_POINTER}, value")
    kind = text.removesuffix(name).strip()
    return _Dummy(name, f"{_C_KINDS[kind]}, value")


def _shapes(kernel: ExportedKernel) -> Iterator[str]:
    """Describe the extents of the Fortran arrays."""
    for arg in kernel.arguments:
        if arg.is_array and arg.shape and arg.strides is not None:
            extents = list(map(to_text, arg.shape))
            if is_constant(arg.strides[-1]):
                extents.reverse()
            yield f"! {arg.name}({', '.join(extents)})"
