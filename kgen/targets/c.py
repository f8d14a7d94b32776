"""The C targets: plain functions for a host's compiler."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final

import cgen
import numpy as np

from kgen.ast.nodes import DeviceFunction
from kgen.errors import KgenError
from kgen.ir.checked import unfit
from kgen.ir.data import TemporaryVariable
from kgen.ir.tags import AxisTag, GroupInameTag
from kgen.ir.target import Execution
from kgen.ir.types import INT32, INT64, AddressSpace
from kgen.targets.base import Dtype, dtypes_by_name
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.functions import C_FUNCTIONS, GNU_FUNCTIONS, FunctionNames
from kgen.targets.lane_functions import GNU_LANE_FUNCTIONS, lane_function_need
from kgen.targets.limits import bytes_of
from kgen.targets.module import Launch
from kgen.targets.preamble import Need, Rank, include
from kgen.targets.sharing import BEGIN, CHUNK, CHUNK_NEED, END, SHARE, SHARING_NEEDS
from kgen.targets.words import C_WORDS, CPP_WORDS, MACROS

__all__ = [
    "CCompiler",
    "CTarget",
    "CWithGNULibcTarget",
    "OPENMP",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
]

#: The option that enables OpenMP in gcc and clang.
OPENMP: Final = "-fopenmp"
#: The option that enables only its pragmas for vectorization, without its library.
OPENMP_SIMD: Final = "-fopenmp-simd"

#: The option by which gcc and clang round each result of ``_Float16``, instead of computing in
#: float.
ROUNDED_HALVES: Final = "-fexcess-precision=16"

#: If gcc links, the option ``-ffast-math`` changes the arithmetic of the whole process.
_FAST_MATH: Final = Need(
    Rank.PRAGMA,
    "fast-math",
    """\
#ifdef __clang__
#pragma clang fp reassociate(on) reciprocal(on) contract(fast)
#else
#pragma GCC optimize ("fast-math")
#endif""",
)

#: gcc 12 uses the first mask for all vectors of a group of masked loads; since gcc 15 the
#: vectorizer treats such groups differently.
_NO_MASKED_LOADS: Final = Need(
    Rank.PRAGMA,
    "masked-loads",
    """\
#if defined __GNUC__ && __GNUC__ < 15 && !defined __clang__
#pragma GCC optimize ("no-tree-loop-if-convert")
#endif""",
)

#: gcc keeps sums of lanes in memory if it unrolls the loop around the lanes.
_NO_JAM: Final = Need(
    Rank.PRAGMA,
    "lane-sums",
    """\
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize ("no-loop-unroll-and-jam")
#endif""",
)

#: gcc keeps an element in a register from the iteration that stores it to a later one that stores
#: it again. A thread that runs fewer iterations stores elements back that other threads have set.
_NO_COMMONING: Final = Need(
    Rank.PRAGMA,
    "threads",
    """\
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize ("no-predictive-commoning")
#endif""",
)

#: The bytes of a cache line.
CACHE_LINE: Final = 64

#: Larger temporaries are not on the stack.
STACK_BYTES: Final = 1 << 15

#: The values of OpenMP's clause ``schedule``.
_SCHEDULE: Final = re.compile(r"(static|dynamic|guided)(, ?[1-9][0-9]*)?|auto|runtime")

_STDINT = (include("stdint.h"),)

#: Allocates arrays whose size is computed. If it is negative, no loop uses the array.
_ALLOCATE: Final = Need(
    Rank.HELPER,
    "kgen_allocate",
    """\
static inline void *kgen_allocate(size_t bytes)
{
  void *const memory = malloc(bytes > PTRDIFF_MAX ? 1 : bytes + 1);
  if (!memory)
    abort();
  return memory;
}""",
)
_COMPLEX = (include("complex.h"),)


@dataclass(frozen=True)
class CTarget(CFamilyTarget):
    """C11 functions, to be compiled elsewhere.

    ``function_specifiers`` precede each function: ``"static inline"``, for code that is
    included in a program. Pragmas at its beginning, such as that of ``fast_math``, also hold for
    what follows there. ``threads``: the number of OpenMP threads that run the work-groups of
    loops tagged ``g.N``; ``None`` leaves it to OpenMP, 1 generates plain loops. ``schedule``: the
    OpenMP schedule of the work-groups: ``"static"``, ``"dynamic"``, ``"guided"``, ``"runtime"``, or
    ``"dynamic, 4"`` for four at a time; ``None`` is dynamic, in chunks, if bounds of loops are
    computed, and static otherwise. ``fast_math``: compilers may
    reorder sums, multiply by reciprocals, approximate roots, and assume that no
    number is infinite or ``nan``; without it they may only fuse ``a*b + c`` into one operation.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = i", [lp.GlobalArg("a", "int32"), ...], target=CTarget())
    >>> print(lp.generate_code_v2(unit).device_code())
    void kgen_kernel(int *__restrict__ a, int const n)
    {
      for (int i = 0; i < n; ++i)
        a[i] = i;
    }
    """

    function_specifiers: str = field(default="", kw_only=True, repr=False)
    threads: int | None = field(default=1, kw_only=True, repr=False)
    schedule: str | None = field(default=None, kw_only=True, repr=False)
    fast_math: bool = field(default=False, kw_only=True, repr=False)
    #: distinguish work-items, which is necessary if they wait for each other
    work_items: bool = field(default=False, kw_only=True, repr=False)

    family: ClassVar[str] = "c"
    type_names: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {
            "bool": "bool",
            "int8": "int8_t",
            "int16": "int16_t",
            "int32": "int",
            "int64": "int64_t",
            "uint8": "uint8_t",
            "uint16": "uint16_t",
            "uint32": "uint32_t",
            "uint64": "uint64_t",
            "float16": "_Float16",
            "float32": "float",
            "float64": "double",
            "complex64": "float complex",
            "complex128": "double complex",
        }
    )
    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {
        np.dtype(bool): (include("stdbool.h"),),
        **{
            np.dtype(name): _STDINT
            for name in ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
        },
        np.dtype(np.complex64): _COMPLEX,
        np.dtype(np.complex128): _COMPLEX,
    }
    math_needs: ClassVar[tuple[Need, ...]] = (include("math.h"),)
    masked_load_needs: ClassVar[tuple[Need, ...]] = (_NO_MASKED_LOADS,)
    lane_sum_needs: ClassVar[tuple[Need, ...]] = (_NO_JAM,)
    half_forms: ClassVar[Mapping[str, tuple[str, str]]] = {"float16": ("", "f16")}
    nan: ClassVar[Mapping[str, str]] = {**CFamilyTarget.nan, "float16": "(_Float16) NAN"}
    infinity: ClassVar[Mapping[str, str]] = {
        **CFamilyTarget.infinity,
        "float16": "(_Float16) INFINITY",
    }
    complex_constructors: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {"complex64": "CMPLXF", "complex128": "CMPLX"}
    )
    print_needs: ClassVar[tuple[Need, ...]] = (include("stdio.h"),)
    unroll_count_pragma: ClassVar[str] = "GCC unroll"
    has_simd_loops: ClassVar[bool] = True
    lane_functions: ClassVar[frozenset[str]] = frozenset(GNU_LANE_FUNCTIONS)
    streams_lanes: ClassVar[bool] = True
    aligned_pointer: ClassVar[str | None] = "__builtin_assume_aligned"
    allocates_arrays: ClassVar[bool] = True
    allocate: ClassVar[str] = _ALLOCATE.key
    free: ClassVar[str] = "free"
    allocate_needs: ClassVar[tuple[Need, ...]] = (*_STDINT, include("stdlib.h"), _ALLOCATE)
    functions: ClassVar[FunctionNames] = C_FUNCTIONS
    #: those of C++ too, since headers may declare the functions in C++
    reserved_words: ClassVar[frozenset[str]] = C_WORDS | CPP_WORDS | MACROS
    words_of_headers: ClassVar[Mapping[str, frozenset[str]]] = {
        "complex.h": frozenset({"I", "complex"}),
        "stdbool.h": frozenset({"bool", "false", "true"}),
        "stdlib.h": frozenset({"abort", "free", "malloc"}),
    }
    group_index: ClassVar[tuple[str, ...]] = ("gid0", "gid1", "gid2")
    has_long_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        words: Any = self.function_specifiers
        if not isinstance(words, str) or not all(word.isidentifier() for word in words.split()):
            what = "function_specifiers of a CTarget"
            raise unfit(what, "text of words, such as 'static inline'", words)

        if self.threads is not None and not (type(self.threads) is int and self.threads > 0):
            raise unfit("'threads' of a CTarget", "a positive number, or None", self.threads)
        if self.schedule is not None and not _SCHEDULE.fullmatch(str(self.schedule)):
            raise unfit("'schedule' of a CTarget", "'static', 'dynamic, 4' or such", self.schedule)
        if not isinstance(self.fast_math, bool):
            raise unfit("'fast_math' of a CTarget", "True or False", self.fast_math)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The preamble for fast arithmetic, if *fast_math* asks for it."""
        return (_FAST_MATH,) if self.fast_math else ()

    @property
    def has_hardware_axes(self) -> bool:
        """Work-groups exist if threads run them, or if their work-items are distinguished."""
        return self.threads != 1 or self.work_items

    @property
    def execution(self) -> Execution:
        """One thread, or as many as OpenMP has."""
        return Execution.SERIAL if self.threads == 1 else Execution.THREADS

    @property
    def has_work_items(self) -> bool:
        """Work-items are ordinary loops, or loops between barriers."""
        return self.work_items

    @property
    def loops_over_items(self) -> bool:
        """A thread runs all work-items of a group."""
        return True

    def with_work_items(self) -> CTarget:
        """Return the target that distinguishes work-items."""
        return replace(self, work_items=True)

    def alignment_of(self, temporary: TemporaryVariable) -> int | None:
        """Align tiles to cache lines."""
        is_tile = temporary.address_space == AddressSpace.LOCAL or _is_large(temporary)
        if temporary.shape and is_tile:
            return max(CACHE_LINE, temporary.alignment or 1)
        return temporary.alignment

    def describe_threads(self, function: DeviceFunction) -> str | None:
        """Describe whether threads run the work-groups, and if not, why."""
        if function.is_serial:
            return "one after the other: whether they write the same elements depends on data"
        if self.threads == 1:
            return "one after the other"
        threads = "on all threads" if self.threads is None else f"on {self.threads} threads"
        return f"{threads} ({self.schedule})" if self.schedule else threads

    def describe_axis(self, function: DeviceFunction) -> str:
        """Describe whether threads share the work-groups."""
        is_loop = function.is_serial or self.threads == 1
        return "a loop" if is_loop else "threads"

    def independent_loop_pragma(self) -> str | None:
        """Return the pragma for gcc, which other compilers ignore."""
        return "GCC ivdep"

    def simd_loop_pragma(self, lanes: int | None) -> str | None:
        """Return OpenMP's pragma for vectorization."""
        return "omp simd" if lanes is None else f"omp simd simdlen({lanes})"

    def lane_function(self, function: str) -> Need | None:
        """Return the declaration of a function of GNU's vector library."""
        return lane_function_need(function)

    def axis_name(self, tag: AxisTag) -> str:
        """Return the name of the index of a work-group, or work-item."""
        is_group = isinstance(tag, GroupInameTag)
        return self.group_index[tag.axis] if is_group else f"lid{tag.axis}"

    def exported(self) -> CTarget:
        """Return the target of the same code as static functions, which kgen does not compile."""
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, CTarget)]
        generates = next(kind for kind in kinds if kind.runtime_module is None)
        settings = {one.name: getattr(self, one.name) for one in fields(generates)}
        return generates(**{**settings, "function_specifiers": "static"})

    def get_device_ast_builder(self) -> ASTBuilderBase:
        """Return the builder of the code of functions."""
        return CASTBuilder(self)


class CASTBuilder(ASTBuilderBase):
    """Makes C, with OpenMP where threads run work-groups."""

    target: CTarget
    takes_negative_counts: ClassVar[bool] = True

    def get_function_name(self, function: DeviceFunction) -> str:
        """Return the name of a function, or of the function that computes one work-group."""
        return f"{function.name}_group" if function.groups else function.name

    def has_host_function(self, launches: Sequence[Launch], *, is_single: bool) -> bool:
        """Tell whether a function runs several functions, or the work-groups of one."""
        return not is_single or any(launch.groups for launch in launches)

    def get_build_options(
        self, launches: Sequence[Launch], *, has_simd_loops: bool, has_halves: bool
    ) -> tuple[str, ...]:
        """Return the options for OpenMP, if needed, and for rounding 16-bit results."""
        options = [(OPENMP_SIMD, has_simd_loops), (ROUNDED_HALVES, has_halves)]
        has_groups = any(launch.groups for launch in launches)
        options.insert(0, (OPENMP, has_groups and self._has_threads))
        return tuple(option for option, is_needed in options if is_needed)

    def get_kernel_call(
        self, launch: Launch, groups: Sequence[str], arguments: Sequence[str], *, is_only: bool
    ) -> list[cgen.Generable]:
        """Call a function, or let threads call it for each work-group, if there are several.

        OpenMP creates a team even for one thread, which takes longer than a small kernel.
        """
        if not groups:
            return super().get_kernel_call(launch, groups, arguments, is_only=is_only)
        is_one = all(count == "1" for count in groups)
        indices = ["0" for _ in groups] if is_one else self.target.group_index[: len(groups)]
        called = ", ".join((*arguments, *indices))
        loop: cgen.Generable = cgen.Statement(f"{launch.function}({called})")
        if is_one:
            return [loop]
        for index, count in zip(indices, groups, strict=True):
            start = cgen.Line(f"{self._index_type(launch)} {index} = 0")
            test = cgen.Line(f"{index} < {count}")
            loop = cgen.For(start, test, cgen.Line(f"++{index}"), loop)
        if not self._is_on_threads(launch, groups):
            return [loop]
        pragma = cgen.Pragma(self._pragma(launch, groups))
        on_threads = [cgen.Statement(f"{BEGIN}()"), pragma, loop, cgen.Statement(f"{END}()")]
        if any(count.isdigit() and count != "1" for count in groups):
            return on_threads
        are_several = " || ".join(f"{count} > 1" for count in groups if count != "1")
        return [cgen.If(cgen.Line(are_several), cgen.Block(on_threads), loop)]

    def get_kernel_call_needs(self, launch: Launch, groups: Sequence[str]) -> tuple[Need, ...]:
        """Return what code on threads needs, with what distributes them among concurrent calls."""
        if not self._is_on_threads(launch, groups):
            return ()
        needs = (_NO_COMMONING, *SHARING_NEEDS)
        return (*needs, CHUNK_NEED) if self._is_in_chunks(launch) else needs

    def _is_in_chunks(self, launch: Launch) -> bool:
        return launch.is_uneven and self.target.schedule is None

    def _is_on_threads(self, launch: Launch, groups: Sequence[str]) -> bool:
        has_several = any(count != "1" for count in groups)
        return has_several and self._has_threads and not launch.is_serial

    @property
    def _has_threads(self) -> bool:
        return self.target.threads != 1

    def _index_type(self, groups: DeviceFunction | Launch) -> str:
        return self.target.type_name(INT64 if groups.is_long else INT32)

    def _pragma(self, launch: Launch, groups: Sequence[str]) -> str:
        """Return the pragma that starts threads."""
        clauses = ["omp parallel for"]
        if len(launch.groups) > 1:
            clauses.append(f"collapse({len(launch.groups)})")
        threads = "omp_get_max_threads()" if self.target.threads is None else self.target.threads
        schedule = self.target.schedule
        if self._is_in_chunks(launch):
            count = f"(long long) {'*'.join(f'({one})' for one in groups)}"
            schedule = f"dynamic, {CHUNK}({count}, {threads})"
        if schedule is not None:
            clauses.append(f"schedule({schedule})")
        clauses.append(f"num_threads({SHARE}({threads}))")
        return " ".join(clauses)

    def get_function_declaration(
        self, function: DeviceFunction, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare a function with the specifiers of the target, or the function of a work-group."""
        if not function.groups:
            return self._specified(super().get_function_declaration(function, parameters))
        indices = self.target.group_index[: len(function.groups)]
        own = [cgen.Const(cgen.Value(self._index_type(function), index)) for index in indices]
        name = cgen.Value("static inline void", function.name)
        return cgen.FunctionDeclaration(name, [*parameters, *own])

    def get_host_function_declaration(
        self, name: str, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare the function that makes all launches, with the specifiers of the target."""
        return self._specified(super().get_host_function_declaration(name, parameters))

    def get_temporary_decl(
        self, temporary: TemporaryVariable, declaration: cgen.Declarator
    ) -> cgen.Declarator:
        """Declare a temporary on the stack, or, if it is large, in memory that a thread keeps."""
        if _is_large(temporary):
            return cgen.DeclSpecifier(declaration, "static _Thread_local")
        return super().get_temporary_decl(temporary, declaration)

    def _specified(self, declaration: cgen.NestedDeclarator) -> cgen.NestedDeclarator:
        words = " ".join(self.target.function_specifiers.split())
        return cgen.DeclSpecifier(declaration, words) if words else declaration


def _is_large(temporary: TemporaryVariable) -> bool:
    return bytes_of(temporary) > STACK_BYTES


@dataclass(frozen=True)
class CCompiler:
    """A compiler of the host and its flags, for :class:`ExecutableCTarget`.

    ``cc`` is a command, optionally with arguments; by default ``$CC``, or ``cc``, ``gcc``
    or ``clang``. ``cflags`` replace the optimization flags, ``-O3 -march=native -fno-math-errno
    -fno-trapping-math``; the flags for a C11 shared library are always set. ``defines`` are names,
    or texts ``NAME=VALUE``. Each list may be given as one text.

    Raises :class:`KgenError` for values that are not texts.

    >>> CCompiler("gcc", cflags="-O2 -g", defines=["N=3"], libraries=["m"]).compile_flags
    ('-O2', '-g', '-DN=3')
    """

    cc: str | None = None
    cflags: Sequence[str] | None = None
    ldflags: Sequence[str] = ()
    libraries: Sequence[str] = ()
    include_dirs: Sequence[str] = ()
    library_dirs: Sequence[str] = ()
    defines: Sequence[str] = ()

    def __post_init__(self) -> None:
        command: Any = self.cc
        if command is not None and not (isinstance(command, str) and command.split()):
            raise unfit("'cc' of a CCompiler", "the command of a compiler, or None", command)
        for attribute in fields(self)[1:]:
            given: Any = getattr(self, attribute.name)
            if given is None and attribute.name == "cflags":
                continue
            texts = shlex.split(given) if isinstance(given, str) else given
            if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
                what = f"{attribute.name!r} of a CCompiler"
                raise unfit(what, "text, or a list of texts", given)
            object.__setattr__(self, attribute.name, tuple(texts))

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """The arguments before the source: flags, macros, include folders."""
        flags = _OPTIMIZED if self.cflags is None else self.cflags
        macros = (f"-D{name}" for name in self.defines)
        return (*flags, *macros, *(f"-I{folder}" for folder in self.include_dirs))

    @property
    def link_flags(self) -> tuple[str, ...]:
        """The arguments after the source: linker flags, folders and names of libraries."""
        folders = (f"-L{folder}" for folder in self.library_dirs)
        return (*self.ldflags, *folders, *(f"-l{name}" for name in self.libraries))


#: Without ``errno`` and floating-point exceptions, the compiler can use vector instructions for
#: sqrt and floor, and under conditions. This does not change results.
_OPTIMIZED: Final = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class ExecutableCTarget(CTarget):
    """C functions that the host's compiler builds and this process calls.

    ``compiler``: a :class:`CCompiler`; ``None`` is the default one. ``threads``: the number of
    threads that run the work-groups of loops tagged ``g.N``; ``None``: as many as OpenMP has, 1:
    plain loops. ``fast_math``: see :class:`CTarget`.

    Raises :class:`KgenError` for another kind of compiler, and for fewer than one thread.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<4 }", "out[i] = i*i", target=ExecutableCTarget())
    >>> event, (out,) = unit()
    >>> out
    array([0, 1, 4, 9], dtype=int32)
    """

    compiler: CCompiler | None = field(default=None, repr=False)
    threads: int | None = field(default=None, kw_only=True, repr=False)

    runtime_module: ClassVar[str | None] = "kgen.runtime.c"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function_specifiers:
            raise KgenError(
                f"functions that are '{self.function_specifiers}' cannot be called from Python",
                hint="function_specifiers are for a CTarget, whose code another program compiles",
            )
        if self.compiler is None:
            object.__setattr__(self, "compiler", CCompiler())
        elif not isinstance(self.compiler, CCompiler):
            raise unfit("'compiler' of a target", "a CCompiler, or None", self.compiler)


@dataclass(frozen=True)
class CWithGNULibcTarget(CTarget):
    """C11 with the functions of GNU's library, such as Bessel functions of any order.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = bessel_jn(2, a[i])", [lp.GlobalArg("a", "float64"), ...],
    ...     target=CWithGNULibcTarget())
    >>> print(lp.generate_body(unit))
      for (int i = 0; i < n; ++i)
        a[i] = jn(2, a[i]);
    """

    functions: ClassVar[FunctionNames] = GNU_FUNCTIONS


@dataclass(frozen=True)
class ExecutableCWithGNULibcTarget(CWithGNULibcTarget, ExecutableCTarget):
    """C with GNU's library that the host's compiler builds and this process calls.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<1 }", "out[i] = bessel_jn(1, 1.0)", target=ExecutableCWithGNULibcTarget())
    >>> event, (out,) = unit()
    >>> out
    array([0.44005059])
    """
