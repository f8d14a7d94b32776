"""The CUDA targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar, Final

import cgen
import cgen.cuda
import numpy as np

from kgen.ast.nodes import DeviceFunction
from kgen.ir.checked import unfit
from kgen.ir.tags import AxisTag, GroupInameTag
from kgen.ir.target import WARP_SIZE
from kgen.ir.types import Memory
from kgen.targets.atomic_functions import AtomicFunctions, CudaAtomics
from kgen.targets.base import ComplexStyle, Dtype, dtypes_by_name
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.conversions import Conversions, CudaConversions
from kgen.targets.functions import CUDA_FUNCTIONS, FunctionNames
from kgen.targets.header import cuda_header
from kgen.targets.limits import DeviceLimits
from kgen.targets.module import Launch, Module
from kgen.targets.preamble import Need, Rank, include
from kgen.targets.vector_types import CudaVectors, CudaVectorValues, Vectors
from kgen.targets.words import C_WORDS, CPP_WORDS, MACROS, vector_words

__all__ = ["LIMITS", "CUDACASTBuilder", "CudaTarget", "PyCudaTarget"]

_COMPLEX = (include("cuda/std/complex"),)
#: The 16-bit types, which are classes.
_HALVES: Final = {"float16": "__half", "bfloat16": "__nv_bfloat16"}

#: The types of numbers that streaming loads support.
_STREAMED: Final = frozenset(
    (*(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), *_HALVES)
) | {"float32", "float64"}

#: ptxas may lose the sign of a negated operand; see ``kgen.targets.writers.negations``.
_SIGNED = Need(
    Rank.HELPER,
    "kgen_signed",
    """\
// ptxas drops minus signs in minima and maxima of three integers; it does not recognize this one
static __device__ inline int kgen_signed(int a)
{
  int before;
  asm("not.b32 %0, %1;" : "=r"(before) : "r"((int) (0u - (unsigned int) a)));
  return (int) ((unsigned int) before + 1u);
}""",
)

#: The code of structures that streaming loads do not support.
_STREAMED_PARTS = Need(
    Rank.HELPER,
    "kgen_streamed",
    """\
template <class Part, class T> static __device__ inline T kgen_streamed(T const *place)
{
  Part parts[sizeof(T) / sizeof(Part)];
  #pragma unroll
  for (int k = 0; k < (int) (sizeof(T) / sizeof(Part)); ++k)
    parts[k] = __ldcs((Part const *) place + k);
  T whole;
  memcpy(&whole, parts, sizeof(T));
  return whole;
}""",
)

#: The bytes of constant memory that a program may have.
_CONSTANT_MEMORY = 2**16

#: The limits of the largest devices.
LIMITS: Final = DeviceLimits(
    name="a CUDA device",
    work_items=1024,
    sizes=(1024, 1024, 64),
    local_memory=227 * 1024,
    groups=(2**31 - 1, 2**16 - 1, 2**16 - 1),
)

_NUMBERS = "char uchar short ushort int uint long ulong longlong ulonglong float double"

_WORDS = "blockIdx blockDim threadIdx gridDim warpSize"


class CUDACASTBuilder(ASTBuilderBase):
    """Makes CUDA C++.

    >>> import kgen as lp
    >>> type(lp.CudaTarget().get_device_ast_builder()).__name__
    'CUDACASTBuilder'
    """

    target: CudaTarget

    def get_function_declaration(
        self, function: DeviceFunction, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare a kernel with the largest number of threads that it is launched with."""
        name = cgen.Value("void", function.name)
        bounds = cgen.cuda.CudaLaunchBounds(prod(function.locals), name, self.target.min_groups)
        kernel = cgen.cuda.CudaGlobal(bounds)
        declared = cgen.Extern("C", kernel) if self.target.extern_c else kernel
        return cgen.FunctionDeclaration(declared, parameters)

    def get_build_options(
        self, launches: Sequence[Launch], *, has_simd_loops: bool, has_halves: bool
    ) -> tuple[str, ...]:
        """Return the option for the maximum registers of a work-item, if the target limits them."""
        most = self.target.max_registers
        return () if most is None else (f"-maxrregcount={most}",)

    def get_header(self, module: Module) -> str:
        """Return a header that declares the kernels to nvcc, and is empty for other compilers."""
        return cuda_header(module, self.target)


@dataclass(frozen=True)
class CudaTarget(CFamilyTarget):
    """CUDA C++. With *extern_c* the names of the functions are not mangled.

    ``min_groups``: how many work-groups a multiprocessor should hold at once, the second number of
    ``__launch_bounds__``; the compiler limits registers accordingly. ``max_registers``:
    the maximum registers of a work-item, ``-maxrregcount``. ``local_memory_share``: the percentage
    of a multiprocessor's memory that should be local memory; the rest is its first cache.
    ``capability``: the compute capability of the device, ``(9, 0)``; if it is given,
    :func:`kgen.autoschedule` and :func:`kgen.auto_space` use tensor cores.
    Raises :class:`KgenError` for numbers that are not positive, and for more than 100 percent.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = i", [lp.GlobalArg("a", "int32"), ...], target=CudaTarget())
    >>> print(lp.generate_body(lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")))
      if (64 * gid(x) + lid(x) < n)
        a[64 * gid(x) + lid(x)] = 64 * gid(x) + lid(x);
    """

    extern_c: bool = True
    min_groups: int | None = field(default=None, kw_only=True, repr=False)
    max_registers: int | None = field(default=None, kw_only=True, repr=False)
    local_memory_share: int | None = field(default=None, kw_only=True, repr=False)
    capability: tuple[int, int] | None = field(default=None, kw_only=True, repr=False)

    family: ClassVar[str] = "cuda"
    language: ClassVar[str] = "CUDA C++"
    transaction: ClassVar[int] = 32
    warp_size: ClassVar[int | None] = WARP_SIZE
    barrier_width: ClassVar[int | None] = WARP_SIZE
    exchanged_kinds: ClassVar[str] = "biufc"
    masks_lanes: ClassVar[bool] = True
    is_compiled_by_nvcc: ClassVar[bool] = True
    hidden_pointer: ClassVar[str | None] = 'asm volatile("" :: "l"({}))'
    hidden_integer: ClassVar[str | None] = "kgen_signed({})"
    hidden_integer_needs: ClassVar[tuple[Need, ...]] = (_SIGNED,)
    mistakes_reversed: ClassVar[bool] = True
    async_copies: ClassVar[frozenset[str]] = frozenset(("cp.async",))
    looks_back: ClassVar[bool] = True
    has_tensor_cores: ClassVar[bool] = True
    registers: ClassVar[int | None] = 65536  # of all devices since compute capability 3.0
    type_names: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {
            "bool": "bool",
            "int8": "signed char",
            "int16": "short",
            "int32": "int",
            "int64": "long long",
            "uint8": "unsigned char",
            "uint16": "unsigned short",
            "uint32": "unsigned int",
            "uint64": "unsigned long long",
            "float16": "__half",
            "float32": "float",
            "float64": "double",
            "complex64": "cuda::std::complex<float>",
            "complex128": "cuda::std::complex<double>",
        }
    )
    other_types: ClassVar[Mapping[str, tuple[str, Need]]] = {
        "bfloat16": ("__nv_bfloat16", include("cuda_bf16.h"))
    }
    half_forms: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: (f"{kind}(", "f)") for name, kind in _HALVES.items()
    }
    half_bits: ClassVar[Mapping[str, str]] = {name: f"{kind}_raw" for name, kind in _HALVES.items()}
    nan: ClassVar[Mapping[str, str]] = {
        **CFamilyTarget.nan,
        **{name: f"({kind}) NAN" for name, kind in _HALVES.items()},
    }
    infinity: ClassVar[Mapping[str, str]] = {
        **CFamilyTarget.infinity,
        **{name: f"({kind}) INFINITY" for name, kind in _HALVES.items()},
    }
    conversions: ClassVar[Conversions] = CudaConversions()
    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {
        np.dtype(np.float16): (include("cuda_fp16.h"),),
        np.dtype(np.complex64): _COMPLEX,
        np.dtype(np.complex128): _COMPLEX,
    }
    local_qualifier: ClassVar[str] = "__shared__"
    static_local_memory: ClassVar[int | None] = 48 * 1024
    local_memory_of_launch: ClassVar[str] = (
        "extern __shared__ __align__(1024) unsigned char kgen_shared[];"
    )
    local_memory_name: ClassVar[str] = "kgen_shared"
    table_qualifier: ClassVar[str] = "static __constant__"
    helper_qualifier: ClassVar[str] = "static __device__ inline"
    group_index: ClassVar[tuple[str, ...]] = ("gid(x)", "gid(y)", "gid(z)")
    local_index: ClassVar[tuple[str, ...]] = ("lid(x)", "lid(y)", "lid(z)")
    group_needs: ClassVar[tuple[Need, ...]] = (
        Need(Rank.MACRO, "lid gid 1", "#define gid(AXIS) ((int) blockIdx.AXIS)"),
    )
    local_needs: ClassVar[tuple[Need, ...]] = (
        Need(Rank.MACRO, "lid gid 0", "#define lid(AXIS) ((int) threadIdx.AXIS)"),
    )
    unroll_pragma: ClassVar[str | None] = "unroll"
    barriers: ClassVar[Mapping[Memory, str]] = {
        Memory.LOCAL: "__syncthreads()",
        Memory.GLOBAL: "__syncthreads()",
        Memory.LOCAL | Memory.GLOBAL: "__syncthreads()",
    }
    warp_barrier: ClassVar[str | None] = "__syncwarp()"
    grid_barrier: ClassVar[str | None] = "cooperative_groups::this_grid().sync()"
    grid_barrier_needs: ClassVar[tuple[Need, ...]] = (include("cooperative_groups.h"),)
    streaming_store: ClassVar[str | None] = "__stcs"
    streaming_load: ClassVar[str | None] = "__ldcs"
    streaming_load_of_parts: ClassVar[Need | None] = _STREAMED_PARTS
    streaming_load_types: ClassVar[frozenset[str]] = _STREAMED
    print_needs: ClassVar[tuple[Need, ...]] = (include("stdio.h"),)
    functions: ClassVar[FunctionNames] = CUDA_FUNCTIONS
    atomics: ClassVar[AtomicFunctions] = CudaAtomics()
    vectors: ClassVar[Vectors | None] = CudaVectors()
    vector_values: ClassVar[Vectors] = CudaVectorValues()
    complex_style: ClassVar[ComplexStyle] = ComplexStyle.CLASS
    complex_constructors: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {
            "complex64": "cuda::std::complex<float>",
            "complex128": "cuda::std::complex<double>",
        }
    )
    reserved_words: ClassVar[frozenset[str]] = C_WORDS.union(
        CPP_WORDS, MACROS, _WORDS.split(), vector_words(_NUMBERS, (1, 2, 3, 4))
    )

    def __post_init__(self) -> None:
        for name in ("min_groups", "max_registers"):
            value: Any = getattr(self, name)
            if value is not None and not (type(value) is int and value > 0):
                raise unfit(f"{name} of a CUDA target", "a positive number, or None", value)
        share: Any = self.local_memory_share
        if share is not None and not (type(share) is int and 0 <= share <= 100):
            raise unfit(
                "local_memory_share of a CUDA target", "a percentage, such as 60, or None", share
            )
        given: Any = self.capability
        is_pair = isinstance(given, tuple) and [type(part) for part in given] == [int, int]
        if given is not None and not is_pair:
            raise unfit(
                "capability of a CUDA target", "two numbers, such as (9, 0), or None", given
            )

    @property
    def has_hardware_axes(self) -> bool:
        """Work-groups and work-items exist."""
        return True

    def limits(self) -> DeviceLimits:
        """Return the limits of the largest devices, compute capability 9.0 and 10.0."""
        return replace(LIMITS, capability=self.capability)

    def axis_name(self, tag: AxisTag) -> str:
        """Return CUDA's name of the index along a hardware axis."""
        return f"{'block' if isinstance(tag, GroupInameTag) else 'thread'}Idx.{'xyz'[tag.axis]}"

    def table_qualifier_for(self, size: int, *, is_uniform: bool) -> str:
        """Return the qualifiers of the declaration of a table.

        Constant memory is small, and serializes work-items of a warp that read different
        entries.
        """
        fits = is_uniform and size <= _CONSTANT_MEMORY
        return self.table_qualifier if fits else "static __device__"

    def exported(self) -> CudaTarget:
        """Return the target of the same code as functions that C can call."""
        return replace(self, extern_c=True)

    def get_device_ast_builder(self) -> ASTBuilderBase:
        """Return the builder of the code of functions."""
        return CUDACASTBuilder(self)


@dataclass(frozen=True)
class PyCudaTarget(CudaTarget):
    """CUDA C++ that this process runs through pycuda.

    >>> PyCudaTarget().runtime_module  # imported by the first call: event, (out,) = unit(a=a)
    'kgen.runtime.cuda'
    """

    runtime_module: ClassVar[str | None] = "kgen.runtime.cuda"
