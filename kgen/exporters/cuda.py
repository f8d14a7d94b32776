"""Launchers of kernels for CUDA, through its driver API: checks, streams, loaded fatbins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import cgen

from kgen.exporters.kernels import ExportedKernel
from kgen.exporters.launcher import (
    LauncherWriter,
    bytes_name,
    c_string,
    program_files,
)
from kgen.host.program import n_bytes_of
from kgen.ir.expr import Expr, variable_names
from kgen.targets.definitions import constant
from kgen.targets.module import ArgumentInfo, Launch

__all__ = ["CudaLauncherWriter"]

_CALL: Final = "kg_call"
#: The maximum number of groups along each axis on every device.
_MOST_GROUPS: Final = (2**31 - 1, 2**16 - 1, 2**16 - 1)
_SUPPORT_FILES: Final = ("kgen_mutex.h", "kgen_cuda.h", "kgen_cuda_modules.h", "kgen_embed.cmake")


class CudaLauncherWriter(LauncherWriter):
    """Writes functions that launch the kernel on memory of the device.

    The build compiles the kernel to a fatbin, and makes an array of its bytes.
    """

    suffix: ClassVar[str] = "cuda"
    null: ClassVar[str] = "0"
    piece: ClassVar[str] = "KGEN_CUDA_PIECE"

    def __init__(self, namespace: str, kernel: ExportedKernel, target: str) -> None:
        super().__init__(namespace, kernel, target)
        self.reject_guards("guard_accesses is for the host and for OpenCL")
        #: the functions of the fatbin, each once
        self.device_functions = list(dict.fromkeys(each.function for each in self.host.launches))

    # -- signatures -------------------------------------------------------------------------

    def leading(self) -> list[cgen.Declarator]:
        return [cgen.Pointer(cgen.Value("struct CUstream_st", "stream"))]

    def declare(self, arg: ArgumentInfo) -> cgen.Declarator:
        return _pointer(arg.name) if arg.is_array else super().declare(arg)

    def workspace_parameter(self) -> cgen.Declarator:
        return _pointer("workspace")

    @classmethod
    def general_functions(cls, namespace: str) -> list[str]:
        return [
            "struct CUctx_st;",
            "struct CUstream_st;",
            "",
            "/* Functions for CUDA launch a kernel in a stream of the current context: a CUstream",
            " * or cudaStream_t, a null pointer for the default stream. Arrays are CUdeviceptr, or",
            " * pointers converted to unsigned long long; a workspace of 0 is none. Kernels are",
            " * loaded by the first call in a context.",
            " */",
            "",
            "/* Unload all kernels from a context, in which no call is running; a null pointer",
            " * stands for the current context.",
            " */",
            f"{namespace}_status {namespace}_cuda_release(struct CUctx_st *context);",
            "",
        ]

    # -- checks -----------------------------------------------------------------------------

    def body(self) -> list[cgen.Generable]:
        given = f"{{.code = &{self.code_name}, .stream = stream}}"
        ended = f"return {self.namespace}_cuda_end(&{_CALL})"
        return [
            *self.check_numbers(),
            *self.check_arrays(),
            *self._check_grids(),
            *self._check_workspace(),
            cgen.Initializer(cgen.Value("kgen_cuda_call", _CALL), given),
            cgen.If(cgen.Line(f"!{self.namespace}_cuda_begin(&{_CALL})"), cgen.Statement(ended)),
            *self._take_workspace(),
            *self.take_steps(self.host.steps),
            cgen.Statement(ended),
        ]

    def address(self, pointer: str) -> str:
        return pointer

    def check_memory(self, arg: ArgumentInfo) -> Iterator[cgen.Generable]:
        needed = bytes_name(arg) if arg.shape is not None else str(arg.dtype.itemsize)
        text = f"the memory of array '{arg.name}' has fewer bytes than the array"
        yield self.fail_if(f"kgen_cuda_is_short({arg.name}, {needed})", "invalid_size", text)

    def _check_grids(self) -> Iterator[cgen.Generable]:
        """Check the grids that are known before the first launch."""
        checked: set[tuple[int, Expr]] = set()
        for launch in self.host.launches:
            for axis, size in enumerate(launch.groups):
                is_large = self.integers.range_of(size)[1] > _MOST_GROUPS[axis]
                in_loop = not self.host.host_variables.keys().isdisjoint(variable_names(size))
                if is_large and not in_loop and (axis, size) not in checked:
                    checked.add((axis, size))
                    wrong = f"{self.integers.text(size)} > {_MOST_GROUPS[axis]}"
                    text = f"more than {_MOST_GROUPS[axis]} groups along axis {axis}"
                    yield self.fail_if(wrong, "invalid_size", text)

    def _check_workspace(self) -> Iterator[cgen.Generable]:
        if not self.host.buffers:
            return
        yield from self.find_pieces()
        text = "the workspace does not begin at a multiple of 256 bytes"
        yield self.fail_if(f"workspace % {self.piece} != 0", "misaligned", text)
        short = "workspace != 0 && kgen_cuda_is_short(workspace, kg_total)"
        text = "the workspace has fewer bytes than the temporary arrays"
        yield self.fail_if(short, "invalid_size", text)
        for arg in self.host.arrays:
            text = f"the workspace overlaps with array '{arg.name}'"
            test = f"workspace != 0 && {self.overlap(arg, 'workspace', 'kg_total')}"
            yield self.fail_if(test, "overlap", text)

    # -- memory -----------------------------------------------------------------------------

    def _take_workspace(self) -> Iterator[cgen.Generable]:
        """Cut the workspace into the temporaries; allocate it if there is none."""
        if not self.host.buffers:
            return
        taken = f"{self.namespace}_cuda_take(&{_CALL}, kg_total)"
        yield cgen.If(cgen.Line("workspace == 0"), cgen.Assign("workspace", taken))
        first = "workspace"
        for number, buffer in enumerate(self.host.buffers):
            for arg in buffer.temporaries:
                pointer = cgen.Value("CUdeviceptr", arg.name)
                yield cgen.Initializer(cgen.Const(pointer), first)
            first += f" + (CUdeviceptr) {self.pieces(number)}"

    # -- launches ---------------------------------------------------------------------------

    def launch(self, launch: Launch) -> list[cgen.Generable]:
        groups: tuple[Expr, ...] = (*launch.groups, 1, 1, 1)[:3]
        threads = (*launch.locals, 1, 1, 1)[:3]
        body: list[cgen.Generable] = [
            _array("int64_t", "kg_groups", list(map(self.integers.text, groups))),
            _array("unsigned int", "kg_threads", list(map(str, threads))),
        ]
        passed: list[str] = []
        for position, parameter in enumerate(launch.parameters):
            name = parameter
            text = self.converted(parameter)
            if text is not None:
                name = f"kg_{position}"
                body.append(constant(text[0], name, text[1]))
            passed.append(f"(void *) &{name}")
        parameters = "NULL"
        if passed:
            parameters = "kg_passed"
            array = cgen.Pointer(cgen.Value("void", f"kg_passed[{len(passed)}]"))
            body.append(cgen.Initializer(array, f"{{{', '.join(passed)}}}"))
        for zeroed in launch.zeroed:
            n_bytes = self.integers.text(n_bytes_of(self.host.by_name[zeroed]))
            body.append(cgen.Statement(f"kgen_cuda_zero(&{_CALL}, {zeroed}, {n_bytes})"))
        function = self.device_functions.index(launch.function)
        waits = "true" if launch.is_cooperative else "false"
        share = launch.local_memory_share
        memory = f"{launch.local_memory}, {-1 if share is None else share}"
        given = f"{function}, kg_groups, kg_threads, {memory}, {parameters}, {waits}"
        body.append(cgen.Statement(f"kgen_cuda_launch(&{_CALL}, {given})"))
        return [self.if_launched(launch, cgen.Block(body))]

    def function_names(self) -> tuple[str, ...]:
        return (*super().function_names(), self.code_name, self.fatbin_name)

    # -- files ------------------------------------------------------------------------------

    @property
    def code_name(self) -> str:
        """The name of what the library knows of the kernel."""
        return f"{self.name}_code"

    @property
    def fatbin_name(self) -> str:
        """The name of the array that the build makes of the kernel."""
        return f"{self.namespace}_{self.kernel.name}_fatbin"

    def includes(self) -> list[cgen.Generable]:
        return [cgen.Include("kgen_cuda.h", system=False)]

    def code_parts(self) -> list[cgen.Generable]:
        functions = ", ".join([*map(c_string, self.device_functions), "NULL"])
        lines = [
            f"extern unsigned char const {self.fatbin_name}[];",
            "",
            f"static char const *const kg_functions[] = {{{functions}}};",
            "",
            f"kgen_cuda_code {self.code_name} = {{",
            f"  .name = {c_string(self.kernel.title)},",
            f"  .fatbin = {self.fatbin_name},",
            f"  .n_functions = {len(self.device_functions)},",
            "  .functions = kg_functions,",
            "  .mutex = KGEN_MUTEX",
            "};",
        ]
        return [cgen.Collection([*map(cgen.Line, lines)])]

    def files(self) -> dict[str, str]:
        source = self.code.module.device_source.rstrip() + "\n"
        return {f"src/{self.namespace}_{self.kernel.name}.cu": source, **super().files()}

    @classmethod
    def general_files(cls, namespace: str, writers: Sequence[LauncherWriter]) -> dict[str, str]:
        names = (f"{writer.name}_code" for writer in writers)
        return program_files(namespace, "cuda", names, "kgen_cuda_modules.h", _SUPPORT_FILES)


def _pointer(name: str) -> cgen.Value:
    return cgen.Value("unsigned long long", name)


def _array(element: str, name: str, values: list[str]) -> cgen.Initializer:
    declared = cgen.Const(cgen.Value(element, f"{name}[{len(values)}]"))
    return cgen.Initializer(declared, f"{{{', '.join(values)}}}")
