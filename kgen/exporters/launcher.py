"""The common parts of C functions that check a call and launch a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any, ClassVar, Final

import cgen
import numpy as np
import pymbolic.primitives as p

from kgen.errors import CodegenError, naming_kernel
from kgen.exporters.integers import IntegerWriter, Range
from kgen.exporters.kernels import ExportedKernel, c_type
from kgen.host.program import HostProgram, has_no_gaps, n_bytes_of, variable_extents
from kgen.ir.expr import Expr, is_constant, to_text
from kgen.targets.definitions import constant
from kgen.targets.module import ArgumentInfo, HostIf, HostLoop, Launch, Step

__all__ = [
    "SUPPORT",
    "LauncherWriter",
    "bytes_name",
    "c_string",
    "first_bytes",
    "name_of",
    "program_files",
    "support_file",
    "writers_by_kernel",
]

#: The prefix of functions in ``support/kgen_support.h``.
SUPPORT: Final = "kgen_"
#: The prefix of names in a launcher, which no argument has.
_OWN: Final = "kg_"


class LauncherWriter:
    """Writes the functions of one kernel for one target; each target overrides what differs.

    They are generated from the host program; sizes are arguments, and everything else is checked. A
    failed check returns a status before anything is launched or written.
    """

    #: The target, which is in the names of functions; empty for C.
    suffix: ClassVar[str] = ""
    #: The alignment of temporary arrays in the workspace, in bytes.
    piece: ClassVar[str] = "KGEN_ALIGNMENT"
    #: The null pointer.
    null: ClassVar[str] = "NULL"

    def __init__(self, namespace: str, kernel: ExportedKernel, target: str) -> None:
        self.namespace = namespace
        self.kernel = kernel
        self.target = target
        self.code = kernel.codes[target]
        self.host: HostProgram = self.code.host
        self.name = "_".join(filter(None, (namespace, kernel.name, self.suffix)))
        #: the variants that a call chooses from, with their writers; empty without variants
        self.variants = tuple(
            (choice, type(self)(namespace, choice.kernel, target))
            for choice in kernel.choices.get(target, ())
        )
        self.integers = IntegerWriter(SUPPORT, dict(self._ranges()))

    def reject_guards(self, because: str) -> None:
        """Raise an error if subscripts are guarded."""
        if self.host.faults is not None:
            raise CodegenError(
                "the subscripts that guard_accesses finds are not reported here",
                kernel=self.kernel.name,
                because=because,
                hint="set_options(knl, guard_accesses=False), or export for C alone",
            )

    def limits(self, arg: ArgumentInfo) -> Range | None:
        """Return the least and the greatest value of an integer: no extent is negative."""
        limits = self.host.range_of(arg)
        if limits is None or p.Variable(arg.name) not in self.extents():
            return limits
        return max(0, limits[0]), limits[1]

    def _ranges(self) -> Iterator[tuple[str, Range]]:
        """Yield the ranges of numbers once they are checked."""
        for arg in self.host.values:
            limits = self.limits(arg)
            if limits is not None:
                yield arg.name, limits
        for name, dtype in self.host.host_variables.items():
            info = np.iinfo(dtype)
            yield name, (int(info.min), int(info.max))

    # -- signatures -------------------------------------------------------------------------

    def status(self, name: str) -> str:
        """Return the name of a status in C."""
        return f"{self.namespace}_{name}"

    def declare(self, arg: ArgumentInfo) -> cgen.Declarator:
        """Declare an argument of the exported function."""
        text = c_type(self.namespace, arg.dtype)
        if not arg.is_array:
            return cgen.Value(text, arg.name)
        return cgen.Pointer(cgen.Value(text if arg.is_output else f"{text} const", arg.name))

    def parameters_of(self, arg: ArgumentInfo) -> list[cgen.Declarator]:
        """Declare the parameters for an argument of the kernel."""
        return [self.declare(arg)]

    def leading(self) -> list[cgen.Declarator]:
        """Declare the parameters before those of the kernel, such as a queue."""
        return []

    def trailing(self) -> list[cgen.Declarator]:
        """Declare the parameters after those of the kernel, such as events."""
        return []

    def workspace_parameter(self) -> cgen.Declarator:
        """Declare the memory for temporary arrays that the caller may give."""
        return cgen.Pointer(cgen.Value("void", "workspace"))

    def parameters(self) -> list[cgen.Declarator]:
        """Declare all parameters of the function that runs the kernel."""
        parameters = self.leading()
        for arg in self.kernel.arguments:
            parameters += self.parameters_of(arg)
        if self.host.buffers:
            parameters.append(self.workspace_parameter())
        return [*parameters, *self.trailing()]

    def prototype(self) -> cgen.FunctionDeclaration:
        """Declare the function that runs the kernel."""
        return self._declared(self.name, self.parameters())

    def workspace_prototype(self) -> cgen.FunctionDeclaration:
        """Declare the function that returns the size of the workspace."""
        numbers = [self.declare(arg) for arg in self.host.values]
        result = cgen.Pointer(cgen.Value("size_t", "n_bytes"))
        return self._declared(f"{self.name}_workspace", [*numbers, result])

    def _declared(
        self, name: str, parameters: Sequence[cgen.Declarator]
    ) -> cgen.FunctionDeclaration:
        declared = parameters or [cgen.Value("void", "")]
        return cgen.FunctionDeclaration(cgen.Value(f"{self.namespace}_status", name), declared)

    def used_names(self) -> frozenset[str]:
        """Return the names in the launching function other than the kernel's own."""
        declared = map(name_of, (*self.leading(), *self.trailing()))
        return frozenset([*declared, *(["workspace", "n_bytes"] if self.host.buffers else [])])

    def function_names(self) -> tuple[str, ...]:
        """Return the names of all functions of the kernel for this target."""
        return (self.name, f"{self.name}_workspace") if self.host.buffers else (self.name,)

    def prototypes(self) -> list[cgen.FunctionDeclaration]:
        """Declare all functions of the kernel for this target."""
        found = [self.prototype()]
        return [*found, self.workspace_prototype()] if self.host.buffers else found

    @classmethod
    def general_functions(cls, namespace: str) -> list[str]:
        """Return the lines of the header that declare functions of the target for all kernels."""
        return []

    def notes(self) -> list[str]:
        """Return the target-specific comments of the function in the header."""
        return []

    # -- checks -----------------------------------------------------------------------------

    def fail_if(self, condition: str, status: str, text: str) -> cgen.If:
        """``if (condition) return fail(status, "text");``."""
        message = c_string(f"{self.kernel.title}: {text}")
        call = f"{self.namespace}_fail({self.status(status)}, {message})"
        return cgen.If(cgen.Line(condition), cgen.Statement(f"return {call}"))

    def extents(self) -> tuple[Expr, ...]:
        """Return the extents of arrays that may be negative."""
        every = (e for arg in self.host.arrays for e in arg.shape or () if not is_constant(e))
        return tuple(dict.fromkeys(every))

    def check_numbers(self) -> list[cgen.Generable]:
        """Check ranges, then extents and assumptions."""
        checks: list[cgen.Generable] = []
        for arg in self.host.values:
            limits = self.limits(arg)
            if limits is None or arg.dtype.kind == "b":
                continue
            test = _outside(arg.name, limits, arg.dtype)
            if test is not None:
                text = f"argument '{arg.name}' is outside of [{limits[0]}, {limits[1]}]"
                checks.append(self.fail_if(test, "invalid_size", text))
        for extent in self.extents():
            if self.integers.range_of(extent)[0] < 0:
                text = f"the extent {to_text(extent)} is negative"
                test = f"{self.integers.text(extent)} < 0"
                checks.append(self.fail_if(test, "invalid_size", text))
        for condition in self.host.conditions:
            text = f"the sizes break the assumption {to_text(condition)}"
            test = f"!({self.integers.text(condition)})"
            checks.append(self.fail_if(test, "broken_assumption", text))
        return checks

    def find_bytes(self, args: Iterable[ArgumentInfo]) -> list[cgen.Generable]:
        """Declare and check the number of bytes of arrays with known extents."""
        body: list[cgen.Generable] = []
        for arg in args:
            expr = n_bytes_of(arg)
            name = bytes_name(arg)
            body.append(constant("int64_t", name, self.integers.text(expr)))
            if self.integers.range_of(expr)[1] > _MAX_BYTES:
                text = f"array '{arg.name}' would have more than 2**62 bytes"
                body.append(self.fail_if(f"{name} > KGEN_MAX_BYTES", "invalid_size", text))
        return body

    def address(self, pointer: str) -> str:
        """Return the address that a pointer holds, as an integer."""
        return f"(uintptr_t) {pointer}"

    def check_arrays(self) -> list[cgen.Generable]:
        """Check arrays that are pointers: null, alignment, overlap."""
        sized = [arg for arg in self.host.arrays if arg.shape is not None]
        return [*self.find_bytes(sized), *self._pointer_checks()]

    def _pointer_checks(self) -> Iterator[cgen.Generable]:
        for arg in self.host.arrays:
            missing = f"{arg.name} == {self.null}"
            if arg.shape is not None:
                missing += f" && {bytes_name(arg)} > 0"
            yield self.fail_if(missing, "null_pointer", f"array '{arg.name}' is a null pointer")
            alignment = max(arg.alignment, arg.dtype.alignment)
            if alignment > 1:
                wrong = f"{self.address(arg.name)} % {alignment} != 0"
                text = f"array '{arg.name}' does not begin at a multiple of {alignment} bytes"
                yield self.fail_if(wrong, "misaligned", text)
            yield from self.check_memory(arg)
        for written, other in self.host.restricted_pairs:
            text = f"array '{written.name}', which is written, overlaps with array '{other.name}'"
            overlap = self.overlap(written, other.name, first_bytes(other))
            yield self.fail_if(overlap, "overlap", text)

    def overlap(self, arg: ArgumentInfo, pointer: str, n_bytes: str) -> str:
        """Return the test that an array and other memory, at *pointer*, have a byte in common."""
        mine = f"{self.address(arg.name)}, {first_bytes(arg)}"
        return f"{SUPPORT}overlap({mine}, {self.address(pointer)}, {n_bytes})"

    def check_memory(self, arg: ArgumentInfo) -> Iterable[cgen.Generable]:
        """Check further properties of the memory of an array."""
        return ()

    # -- memory of temporaries ----------------------------------------------------------------

    def find_pieces(self) -> list[cgen.Generable]:
        """Declare the aligned size of each buffer in the workspace, and the sum."""
        body: list[cgen.Generable] = []
        names: list[str] = []
        for number, buffer in enumerate(self.host.buffers):
            name = f"{_OWN}piece{number}"
            text = self.integers.text(buffer.n_bytes)
            body.append(constant("int64_t", name, text))
            if self.integers.range_of(buffer.n_bytes)[1] > _MAX_BYTES // len(self.host.buffers):
                array = buffer.temporaries[0].name
                wrong = f"{name} > KGEN_MAX_BYTES / {len(self.host.buffers)}"
                text = f"temporary array '{array}' would have too many bytes"
                body.append(self.fail_if(wrong, "invalid_size", text))
            names.append(self.pieces(number))
        total = cgen.Const(cgen.Value("int64_t", f"{_OWN}total"))
        return [*body, cgen.Initializer(total, " + ".join(names))]

    def pieces(self, number: int) -> str:
        """Return the number of bytes of a buffer in the workspace."""
        return f"{SUPPORT}pieces({_OWN}piece{number}, {self.piece})"

    def workspace_function(self) -> cgen.FunctionBody:
        """Write the function that returns the size of the workspace."""
        body = [
            *self.check_numbers(),
            *self.find_pieces(),
            self.fail_if("n_bytes == NULL", "null_pointer", "'n_bytes' is a null pointer"),
            cgen.Assign("*n_bytes", f"(size_t) {_OWN}total"),
            cgen.Statement(f"return {self.status('success')}"),
        ]
        return cgen.FunctionBody(self.workspace_prototype(), cgen.Block(body))

    # -- launches -----------------------------------------------------------------------------

    def take_steps(self, steps: Iterable[Step]) -> list[cgen.Generable]:
        """Write all launches, in the loops and conditions of the host."""
        body: list[cgen.Generable] = []
        for step in steps:
            match step:
                case Launch():
                    body += self.launch(step)
                case HostLoop():
                    body.append(self._loop(step))
                case HostIf():
                    inside = cgen.Block(self.take_steps(step.steps))
                    body.append(cgen.If(cgen.Line(self.integers.text(step.condition)), inside))
        return body

    def _loop(self, loop: HostLoop) -> cgen.For:
        first, stop = map(self.integers.text, (loop.first, loop.stop))
        return cgen.For(
            cgen.Line(f"int64_t {loop.name} = {first}"),
            cgen.Line(f"{loop.name} < {stop}"),
            cgen.Line(f"{loop.name} += {loop.step}"),
            cgen.Block(self.take_steps(loop.steps)),
        )

    def launch(self, launch: Launch) -> list[cgen.Generable]:
        """Write one launch."""
        raise NotImplementedError

    def converted(self, parameter: str) -> tuple[str, str] | None:
        """Return the type and the value of a parameter that is not an argument of the kernel."""
        dtype = self.host.parameter_dtype(parameter)
        if dtype is None or parameter in self.host.by_name:
            return None
        type_name = c_type(self.namespace, dtype)
        if parameter in self.host.host_variables:
            return type_name, f"({type_name}) {parameter}"
        return type_name, self.offset(parameter)

    def offset(self, parameter: str) -> str:
        """Return the value of the offset of an array: pointers hold it."""
        return "0"

    def if_launched(self, launch: Launch, body: cgen.Block) -> cgen.Generable:
        """Run *body* under the condition that the grid is not empty, if it may be."""
        tests = [
            f"{self.integers.text(size)} > 0"
            for size in variable_extents(launch)
            if self.integers.range_of(size)[0] <= 0
        ]
        return cgen.If(cgen.Line(" && ".join(tests)), body) if tests else body

    # -- the functions ------------------------------------------------------------------------

    def body(self) -> list[cgen.Generable]:
        """Write the statements of the function that runs the kernel."""
        raise NotImplementedError

    def includes(self) -> list[cgen.Generable]:
        """Return the headers of the source other than the library's own."""
        return []

    def code_parts(self) -> list[cgen.Generable]:
        """Return the parts of the source before its functions: the code of the kernel."""
        raise NotImplementedError

    def files(self) -> dict[str, str]:
        """Return the text of each source of the kernel for this target, by its path."""
        parts = [
            cgen.Include(f"{self.namespace}_internal.h", system=False),
            *self.includes(),
            cgen.Line(),
        ]
        for part in (*self.code_parts(), *self.functions()):
            parts += [part, cgen.Line()]
        return {f"src/{self.name}.c": str(cgen.Module(parts)).rstrip() + "\n"}

    @classmethod
    def general_files(cls, namespace: str, writers: Sequence[LauncherWriter]) -> dict[str, str]:
        """Return the sources that all kernels for this target share."""
        return {}

    def functions(self) -> list[cgen.Generable]:
        """Write all functions of the kernel for this target."""
        with naming_kernel(self.kernel.name):
            function = cgen.FunctionBody(self.prototype(), cgen.Block(self.body()))
            return [function, self.workspace_function()] if self.host.buffers else [function]


_MAX_BYTES: Final = 2**62 - 1


def name_of(declared: cgen.Declarator) -> str:
    """Return the name that a declarator declares."""
    words: list[str] = re.findall(r"\w+", str(declared.get_decl_pair()[1]))
    return words[-1]


def c_string(text: str) -> str:
    r"""Return a string literal in C.

    >>> print(c_string('"a" and\nb'))
    "\"a\" and\nb"
    """
    escapes = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", '"': '\\"', "?": "\\?"}
    printable = range(32, 127)
    found = (
        escapes.get(chr(byte)) or (chr(byte) if byte in printable else f"\\{byte:03o}")
        for byte in text.encode()
    )
    return f'"{"".join(found)}"'


def program_files(
    namespace: str, target: str, names: Iterable[str], kept_by: str, support: Iterable[str]
) -> dict[str, str]:
    """Return the source that builds or loads the programs of a device, and what it includes.

    *names* are those of the programs; the support file *kept_by* keeps them for each context.
    """
    declared = list(names)
    parts = [
        cgen.Include(f"{namespace}_internal.h", system=False),
        cgen.Include(f"kgen_{target}.h", system=False),
        cgen.Line(),
        *(cgen.Line(f"extern kgen_{target}_code {name};") for name in declared),
        cgen.Line(),
        cgen.Line(f"static kgen_{target}_code *const kgen_codes[] = {{"),
        *(cgen.Line(f"  &{name},") for name in declared),
        cgen.Line("};"),
        cgen.Line(),
        cgen.Include(kept_by, system=False),
    ]
    found = {f"src/{name}": support_file(name) for name in support}
    return {f"src/{namespace}_{target}.c": str(cgen.Module(parts)) + "\n", **found}


def support_file(name: str) -> str:
    """Return a file that is copied unchanged to libraries."""
    return files("kgen.exporters").joinpath("support", name).read_text("utf-8")


def bytes_name(arg: ArgumentInfo) -> str:
    """Return the name of the number of bytes of an array."""
    return f"{_OWN}bytes_{arg.name}"


def first_bytes(arg: ArgumentInfo) -> str:
    """Return the number of contiguous bytes at the start of an array: all, if it has no gaps."""
    if has_no_gaps(arg):
        return bytes_name(arg)
    item = str(arg.dtype.itemsize)
    return item if arg.shape is None else f"({bytes_name(arg)} > 0 ? {item} : 0)"


def _outside(name: str, limits: Range, dtype: np.dtype[Any]) -> str | None:
    """Return the test that a number is outside of its limits, if its type has such values."""
    info = np.iinfo(dtype)
    tests = []
    if limits[0] > info.min:
        tests.append(f"{name} < {limits[0]}")
    if limits[1] < info.max:
        tests.append(f"{name} > {limits[1]}")
    return " || ".join(tests) or None


def writers_by_kernel(writers: Iterable[LauncherWriter]) -> dict[str, list[LauncherWriter]]:
    """Return the writers of each kernel, one for each target."""
    found: dict[str, list[LauncherWriter]] = {}
    for writer in writers:
        found.setdefault(writer.kernel.name, []).append(writer)
    return found
