"""The host runtime: C code as a cached shared library, called through ctypes."""

from __future__ import annotations

import ast
import ctypes
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from kgen.errors import KgenWarning, warn
from kgen.host.program import has_no_gaps, n_bytes_of
from kgen.ir.unit import TranslationUnit
from kgen.runtime.bound import Calls, RecordingBuilder
from kgen.runtime.cache import DiskCache, content_key
from kgen.runtime.devices import RunningOn, position_of
from kgen.runtime.executor import ExecutorBase, remember
from kgen.runtime.faults import no_faults
from kgen.runtime.guarded import Guarded, on_host
from kgen.runtime.overlap import extent_on_host, reject_overlap
from kgen.runtime.pyast import (
    PREFIX,
    all_of,
    any_of,
    assign,
    attribute,
    builtin,
    call,
    compare,
    const,
    do,
    from_expr,
    if_,
    name,
)
from kgen.runtime.refusals import address_of, reject_masked, reject_read_only
from kgen.runtime.strided import empty_aligned, empty_strided, view
from kgen.runtime.system import library_suffix, loadable, n_processors, processor
from kgen.runtime.toolchain import (
    compile_source,
    compiler_version,
    find_c_compiler,
    knows,
    openmp_flags,
    temporary_folder,
)
from kgen.runtime.wrapper import NONE, WrapperBuilder, is_fortran_ordered
from kgen.targets.c import OPENMP, CCompiler
from kgen.targets.module import ArgumentInfo, Faults, Launch, Module
from kgen.targets.sharing import CALLS

__all__ = [
    "CExecutor",
    "device_of",
    "driver_of",
    "executor_for",
    "find_devices",
    "limits_of",
    "load_library",
    "number_of",
    "open_device",
    "processor_name",
    "to_device",
    "to_guarded",
    "to_host",
    "unit_of",
]

FLAGS: Final = ("-std=gnu11", "-fPIC", "-shared")
LIBRARIES: Final = ("-lm",)

#: With fast-math, gcc approximates roots of float vectors on x86, which takes longer than the
#: processors' instructions; quotients stay approximate.
EXACT_ROOTS: Final = "-mrecip=!vec-sqrt"


def executor_for(
    memo: dict[Any, Any], unit: TranslationUnit, entrypoint: str, *args: Any
) -> CExecutor:
    """Return the executor of *entrypoint*; a queue or context is ignored on the host."""
    return remember(memo, entrypoint, lambda: CExecutor(unit, entrypoint))


def device_of(*args: Any) -> RunningOn:
    """Return the device that a call runs on: the host's processor."""
    return RunningOn(api="c", kind="cpu", vendor="", name=platform.machine())


def find_devices() -> tuple[RunningOn, ...]:
    """Return the host."""
    return (device_of(),)


def open_device(wanted: str | None = None) -> tuple[Any, ...]:
    """Return the arguments by position of calls on the host: none."""
    position_of(wanted, find_devices(), "the host")
    return ()


def number_of(*args: Any) -> str:
    """Return the number of the device of a call: there is one host."""
    return "0"


def unit_of(*args: Any) -> str:
    """Return an identifier of the hardware, equal for programs on the same host."""
    return "host"


def limits_of(*args: Any) -> None:
    """Return the limits of the device: none, as work-groups are loops."""
    return


def driver_of(*args: Any) -> str:
    """Return the version of the compiler, which makes the device's code."""
    return compiler_version(find_c_compiler()).partition("\n")[0]


def processor_name() -> str:
    """Return the name of the host's processor, if the system provides it."""
    names = [line for line in processor().split("\n") if line.startswith("model name")]
    name = names[0].partition(":")[2].strip() if names else platform.processor()
    return f"{name or platform.machine()}, {n_processors()} cores"


def to_device(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array in memory that calls use without a copy: the array itself."""
    return array


def to_guarded(array: np.ndarray[Any, Any]) -> Guarded:
    """Copy an array, with guard zones that detect writes out of bounds."""
    return on_host(array)


def to_host(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array unchanged."""
    return array


class CExecutor(ExecutorBase):
    """Runs a kernel on the host: ``evt, (out,) = knl(a=x)``; *evt* is ``None``."""

    def mark(self, *leading: Any) -> float:
        return time.perf_counter()

    def seconds_since(self, mark: float, event: None) -> float:
        return time.perf_counter() - mark

    def seconds_of(self, event: None) -> None:
        return None

    def compile(self, module: Module, source: str) -> ctypes.CDLL:
        flags = (*module.build_options, *self.kernel.options.build_options)
        target = self.kernel.target
        chosen: CCompiler | None = target.compiler
        compiler = find_c_compiler(chosen.cc if chosen else None)
        openmp = openmp_flags(compiler) if OPENMP in flags else ()
        flags = tuple(flag for flag in flags if flag != OPENMP)
        if openmp is None:
            warn(
                f"kernel '{self.entrypoint}' runs on one thread: the C compiler does not support "
                "OpenMP\n  hint: install one that does support it (gcc, or clang with libomp), "
                "and set CC to its command; or ExecutableCTarget(threads=1)",
                KgenWarning,
                silencer="openmp",
                silenced=self.kernel.silenced_warnings,
            )
        flags = (*(openmp or ()), *flags)
        if target.fast_math and knows(compiler, (EXACT_ROOTS,)):
            flags = (EXACT_ROOTS, *flags)
        library = load_library(self.caches.disk, source, flags, self.entrypoint, chosen)
        if openmp:
            _keep_children_on_one_thread(library)
            _share_threads(library)
        return library

    @property
    def builders(self) -> tuple[type[WrapperBuilder], type[RecordingBuilder]]:
        return CWrapperBuilder, _RecordingBuilder

    def launcher(self, calls: Calls, *args: Any) -> Callable[..., Any]:
        def launch() -> None:
            for function, arguments in calls:
                function(*arguments)

        return launch


#: A library that uses OpenMP, through which forked processes find the loaded runtime.
_threaded: list[ctypes.CDLL] = []


def _keep_children_on_one_thread(library: ctypes.CDLL) -> None:
    """Make kernels in forked processes run on one thread: the parent's threads do not exist there.

    GNU's library would wait for them forever.
    """
    if not _threaded and hasattr(os, "register_at_fork"):
        _threaded.append(library)
        os.register_at_fork(after_in_child=lambda: library.omp_set_max_active_levels(0))


#: The number of calls of this process that run on threads.
_calls: Final = ctypes.c_int()


def _share_threads(library: ctypes.CDLL) -> None:
    """Count the calls of a library together with those of others, if they use threads."""
    if hasattr(library, CALLS):
        ctypes.c_void_p.in_dll(library, CALLS).value = ctypes.addressof(_calls)


# -- compiling --------------------------------------------------------------------------------


def load_library(
    disk: DiskCache,
    source: str,
    extra_flags: tuple[str, ...],
    kernel: str,
    chosen: CCompiler | None = None,
) -> ctypes.CDLL:
    """Return the compiled *source*, from *disk* if cached there; reject code with errors."""
    chosen = chosen or CCompiler()
    compiler = find_c_compiler(chosen.cc)
    command = (*compiler, *FLAGS, *chosen.compile_flags, *extra_flags)
    libraries = (*chosen.link_flags, *LIBRARIES)
    key = content_key(
        "c", source, compiler_version(compiler), processor(), *command, "", *libraries
    )
    path = disk.find(key)
    if path is not None:
        try:
            return ctypes.CDLL(loadable(path))
        except OSError:  # removed since, or a file system that allows no execution
            pass
    with temporary_folder(kernel) as folder:
        library = folder / f"kernel{library_suffix()}"
        code = folder / "kernel.c"
        compile_source(command, source, code, library, libraries=libraries, kernel=kernel)
        path = disk.store(key, library.read_bytes())
        try:
            return ctypes.CDLL(loadable(path or library))
        except OSError:
            return ctypes.CDLL(loadable(library))


# -- calling ----------------------------------------------------------------------------------


class _Complex64(ctypes.Structure):
    """A ``float complex``: the calling conventions treat both alike."""

    _fields_: ClassVar = [("real", ctypes.c_float), ("imag", ctypes.c_float)]


class _Complex128(ctypes.Structure):
    """A ``double complex``."""

    _fields_: ClassVar = [("real", ctypes.c_double), ("imag", ctypes.c_double)]


def in_float(number: Any) -> float:
    """Return the ``float`` whose lower half has the bits of a ``_Float16``.

    Calling conventions pass both in the same register, and callees read only the part that they
    need.
    """
    bits = np.uint32(np.float16(number).view(np.uint16))
    return float(bits.view(np.float32))


_COMPLEX: Final = {np.dtype(np.complex64): _Complex64, np.dtype(np.complex128): _Complex128}

#: The exceptions of the fast path to an address.
_VIEW_REFUSALS: Final = (TypeError, ValueError, BufferError)

#: Pairs of arrays that a wrapper compares one by one; of more, all addresses are sorted.
_MAX_PAIRS: Final = 100


class CWrapperBuilder(WrapperBuilder):
    """Builds wrappers that pass addresses to functions of a shared library."""

    def __init__(self, library: ctypes.CDLL, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.library = library

    def run(self) -> list[ast.stmt]:
        body = self.make_outputs()
        body += self.allocate_temporaries()
        body += self.find_addresses()
        body += [*self.take_steps(self.host.steps), *self.check_faults()]
        return [*body, self.make_result(NONE)]

    def check_faults(self) -> list[ast.stmt]:
        """Raise an error for the subscripts that guards found to be stray."""
        faults = self.host.faults
        return [] if faults is None else [self.reject_faults(faults, name(faults.name))]

    def launch(self, number: int, launch: Launch) -> list[ast.stmt]:
        called = self.own(f"function{number}", lambda builder: builder.function(launch))
        return [do(call(called, *map(self.pass_parameter, launch.parameters)))]

    def function(self, launch: Launch) -> Any:
        """Return the function that ctypes calls for a launch."""
        function = self.library[launch.function]
        function.restype = None
        function.argtypes = [self.c_type(text) for text in launch.parameters]
        return function

    def c_type(self, parameter: str) -> Any:
        """Return the ctypes type of a parameter."""
        dtype = self.host.parameter_dtype(parameter)
        if dtype is None:
            return ctypes.c_void_p
        if dtype == np.float16:
            return ctypes.c_float
        return _COMPLEX.get(dtype) or np.ctypeslib.as_ctypes_type(dtype)

    def allocate_faults(self, faults: Faults) -> ast.expr:
        return call(self.known("no_faults", partial(no_faults, len(faults.guards))))

    def allocate_bytes(self, size: ast.expr) -> ast.expr:
        return call(self.aligned, size, self.dtype(np.dtype(np.uint8)), size)

    def allocate(self, arg: ArgumentInfo) -> ast.expr:
        layout = (self.shape_of(arg), self.dtype(arg.dtype))
        if arg.is_filled or not has_no_gaps(arg):
            function, strides = self.known("empty_strided", empty_strided), self.strides_of(arg)
            return call(function, *layout, strides, self.fill_value(arg))
        order = [const("F")] if is_fortran_ordered(arg.strides) else []
        return call(self.aligned, *layout, from_expr(n_bytes_of(arg)), *order)

    @property
    def aligned(self) -> ast.expr:
        """The function that allocates arrays aligned to cache lines."""
        return self.known("empty_aligned", empty_aligned)

    def find_addresses(self) -> list[ast.stmt]:
        """Find all addresses by the fast path, or by the slow one if an array is not plain."""
        arrays = [*self.host.arrays, *self.host.temporaries]
        if not arrays:
            return []
        address_of, viewed_by = self.known("addressof", ctypes.addressof), self.known("view", view)
        slow = self.own("address", lambda builder: partial(find_address, builder.checker.reject))
        fast_path: list[ast.stmt] = []
        slow_path: list[ast.stmt] = []
        for arg in arrays:
            array = name(arg.name)
            viewed = attribute(array, "T") if is_fortran_ordered(arg.strides) else array
            fast_path.append(assign(_address(arg), call(address_of, call(viewed_by, viewed))))
            found = call(slow, array, const(arg.name), const(arg.is_output))
            slow_path.append(assign(_address(arg), found))
        refusals = self.known("refusals", _VIEW_REFUSALS)
        handler = ast.ExceptHandler(refusals, None, slow_path)
        body: list[ast.stmt] = [ast.Try(fast_path, [handler], [], [])]
        if not self.options.skip_arg_checks:
            body += [
                *self.check_masks(),
                *self.check_alignment(arrays),
                *self.check_overlap(),
            ]
        return body

    def misfit(self, arg: ArgumentInfo) -> ast.expr | None:
        """Return the condition that an array has a wrong shape, layout or alignment."""
        found = super().misfit(arg)
        if arg.alignment == 1 or self.options.skip_arg_checks:
            return found
        address = call(self.known("address_of", address_of), name(arg.name))
        rest = ast.BinOp(address, ast.Mod(), const(arg.alignment))
        return rest if found is None else any_of([found, rest])

    def check_masks(self) -> list[ast.stmt]:
        """Reject masked arrays; the fast test is that an array has numpy's own class."""
        plain = self.known("ndarray", np.ndarray)
        arrays = [name(arg.name) for arg in self.host.arrays]
        tests = [compare(call(builtin("type"), array), "is not", plain) for array in arrays]
        return [if_(any_of(tests), [self.check_arrays("masks", reject_masked)])] if tests else []

    def check_overlap(self) -> list[ast.stmt]:
        """Reject arrays that overlap with one that is written, if the code relies on that.

        Bounds are a quick test for arrays without gaps, as long as there are few pairs of them.
        """
        tests: list[ast.expr] = []
        for pair in self.host.restricted_pairs:
            if len(tests) == _MAX_PAIRS or not all(map(has_no_gaps, pair)):
                tests = [const(True)]
                break
            one, other = ((name(_address(arg)), _end(arg)) for arg in pair)
            tests.append(all_of([compare(one[0], "<", other[1]), compare(other[0], "<", one[1])]))
        closer = self.check_arrays("overlap", reject_overlap, self.host, extent_on_host)
        return [if_(any_of(tests), [closer])] if tests else []

    def check_alignment(self, arrays: list[ArgumentInfo]) -> list[ast.stmt]:
        """Reject arrays whose elements are not aligned as the compiler expects."""
        masks: dict[int, list[ast.expr]] = {}
        for arg in arrays:
            if arg.dtype.alignment > 1:
                masks.setdefault(arg.dtype.alignment - 1, []).append(name(_address(arg)))
        tests: list[ast.expr] = []
        for mask, addresses in masks.items():
            joined = addresses[0]
            for address in addresses[1:]:
                joined = ast.BinOp(joined, ast.BitOr(), address)
            tests.append(ast.BinOp(joined, ast.BitAnd(), const(mask)))
        closer = self.check_arrays("alignment", _reject_unaligned)
        return [if_(any_of(tests), [closer])] if tests else []

    def pass_parameter(self, text: str) -> ast.expr:
        dtype = self.host.parameter_dtype(text)
        if dtype is not None and dtype.kind == "c":
            pair = self.known(f"pair_{dtype.name}", _COMPLEX[dtype])
            number = name(text)
            return call(pair, attribute(number, "real"), attribute(number, "imag"))
        if dtype == np.float16:
            return call(self.known("in_float", in_float), name(text))
        return super().pass_parameter(text)

    def pass_array(self, arg: ArgumentInfo) -> ast.expr:
        return name(_address(arg))


class _RecordingBuilder(RecordingBuilder, CWrapperBuilder):
    """Records calls of functions with their arguments."""

    def function(self, launch: Launch) -> Any:
        function = super().function(launch)
        return lambda *arguments: self.calls.append((function, arguments))


def _address(arg: ArgumentInfo) -> str:
    return f"{PREFIX}at_{arg.name}"


def _end(arg: ArgumentInfo) -> ast.expr:
    """Return the expression of the end address of an array without gaps."""
    return ast.BinOp(name(_address(arg)), ast.Add(), from_expr(n_bytes_of(arg)))


def find_address(reject: Callable[..., Any], array: Any, argument: str, is_written: bool) -> int:
    """Return the address of the first element of *array*; rejects objects that are not arrays."""
    if not isinstance(array, np.ndarray):
        reject(
            f"argument '{argument}' is a {type(array).__module__}.{type(array).__name__}",
            because="the kernel runs on the host",
            hint=f"pass a numpy array, such as {argument}.get()",
        )
    if is_written and not array.flags.writeable:
        reject_read_only(reject, argument)
    address: int = array.__array_interface__["data"][0]
    return address


def _reject_unaligned(reject: Callable[..., Any], /, **arrays: np.ndarray[Any, Any]) -> None:
    for argument, array in arrays.items():
        if not array.flags.aligned:
            reject(
                f"the elements of argument '{argument}' are not aligned",
                because="it is a view of other memory, at an odd address",
                hint=f"pass {argument}.copy()",
            )
