"""The OpenCL targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import cgen
import cgen.opencl
import numpy as np

from kgen.ast.nodes import DeviceFunction, Node
from kgen.ast.separate import separate_barriers
from kgen.errors import InvalidValueError, InvocationError, KgenError
from kgen.ir.checked import unfit
from kgen.ir.data import ArrayBase, TemporaryVariable
from kgen.ir.fields import OF_THIS_PROCESS, stored_values
from kgen.ir.types import AddressSpace, Memory
from kgen.targets.atomic_functions import AtomicFunctions, OpenCLAtomics
from kgen.targets.base import ComplexStyle, Dtype, dtypes_by_name
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.functions import OPENCL_FUNCTIONS, FunctionNames
from kgen.targets.images import OPENCL_IMAGES, ImageFunctions
from kgen.targets.limits import DeviceLimits
from kgen.targets.module import Module
from kgen.targets.preamble import Need, Rank, include
from kgen.targets.vector_types import OpenCLVectors, OpenCLVectorValues, Vectors
from kgen.targets.words import C_WORDS, MACROS, vector_words

__all__ = [
    "OpenCLCASTBuilder",
    "OpenCLTarget",
    "PyOpenCLTarget",
    "limits_of_device",
    "sub_groups_of_device",
]

#: The extensions of devices whose sub-groups can exchange values.
SHUFFLE_EXTENSIONS: Final = ("cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative")

#: The extension of devices with 16-bit floating-point arithmetic.
HALF_EXTENSION: Final = "cl_khr_fp16"

_FP64 = Need(
    Rank.PRAGMA,
    "fp64",
    "#if __OPENCL_C_VERSION__ < 120\n#pragma OPENCL EXTENSION cl_khr_fp64: enable\n#endif",
)
#: NVIDIA's compiler treats arrays as constant memory; see ``kgen.targets.writers.read_only``.
_HIDE = Need(
    Rank.MACRO,
    "kgen_hide",
    """\
#ifdef __NV_CL_C_VERSION
#define kgen_hide(A) asm volatile("" :: "l"(A))
#else
#define kgen_hide(A) (void) (A)
#endif""",
)
#: NVIDIA's compiler may lose the sign of a negated operand; see ``kgen.targets.writers.negations``.
_SIGNED = Need(
    Rank.HELPER,
    "kgen_signed",
    """\
#ifdef __NV_CL_C_VERSION
// ptxas drops minus signs in minima and maxima of three integers; it does not recognize this one
inline int kgen_signed(int a)
{
  int before;
  asm("not.b32 %0, %1;" : "=r"(before) : "r"((int) (0u - (uint) a)));
  return (int) ((uint) before + 1u);
}
#else
#define kgen_signed(A) (A)
#endif""",
)
_FP16 = Need(Rank.PRAGMA, "fp16", f"#pragma OPENCL EXTENSION {HALF_EXTENSION}: enable")
#: Complex types and functions, which pyopencl puts on the include path of its builds.
_COMPLEX = include("pyopencl-complex.h")
_COMPLEX_DOUBLE = Need(Rank.DEFINE, "complex double", "#define PYOPENCL_DEFINE_CDOUBLE")

_SHUFFLES = Need(
    Rank.PRAGMA,
    "shuffles",
    "\n".join(f"#pragma OPENCL EXTENSION {name}: enable" for name in SHUFFLE_EXTENSIONS),
)
#: The possible sizes of sub-groups.
_SUB_GROUP_SIZES: Final = (8, 16, 32, 64)

_NUMBERS = "char uchar short ushort int uint long ulong half float double"

_WORDS = """
    constant global half kernel local pipe private read_only read_write write_only uniform
    sampler_t event_t queue_t ndrange_t clk_event_t reserve_id_t bool true false
    uchar uint ulong ushort quad cfloat_t cdouble_t cl_mem_fence_flags
    image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image3d_t
    image2d_depth_t image2d_array_depth_t image2d_msaa_t image2d_array_msaa_t
    CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE CLK_IMAGE_MEM_FENCE CLK_FILTER_NEAREST
    CLK_FILTER_LINEAR CLK_NORMALIZED_COORDS_FALSE CLK_NORMALIZED_COORDS_TRUE CLK_ADDRESS_NONE
    CLK_ADDRESS_CLAMP CLK_ADDRESS_CLAMP_TO_EDGE CLK_ADDRESS_REPEAT CLK_ADDRESS_MIRRORED_REPEAT
    memory_order memory_scope atomic_int atomic_uint atomic_long atomic_flag
"""


class OpenCLCASTBuilder(ASTBuilderBase):
    """Makes OpenCL C.

    >>> import kgen as lp
    >>> type(lp.OpenCLTarget().get_device_ast_builder()).__name__
    'OpenCLCASTBuilder'
    """

    target: OpenCLTarget

    def get_function_declaration(
        self, function: DeviceFunction, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare a kernel with the size of its work-groups."""
        name = cgen.Value("void", function.name)
        sized = cgen.opencl.CLRequiredWorkGroupSize(function.locals, name)
        declared = cgen.FunctionDeclaration(cgen.opencl.CLKernel(sized), parameters)
        if self.target.sub_group_size is None:
            return declared
        size = f"__attribute__((intel_reqd_sub_group_size({self.target.sub_group_size})))"
        return cgen.DeclSpecifier(declared, size)

    def get_array_arg_decl(
        self, array: ArrayBase, element: cgen.Declarator, *, is_written: bool, restrict: bool
    ) -> cgen.Declarator:
        """Declare an array; for PoCL, only arrays that are not written are ``restrict``.

        Inlining a kernel that scatters to an array declared ``restrict`` loses the order of these
        and other accesses. An array that is not ``restrict`` overlaps none that is.
        """
        restrict = restrict and not (is_written and self.target.suits_pocl)
        return super().get_array_arg_decl(array, element, is_written=is_written, restrict=restrict)

    def get_header(self, module: Module) -> str:
        """Return declarations in OpenCL C, which host programs cannot include."""
        return module.declarations


@dataclass(frozen=True)
class OpenCLTarget(CFamilyTarget):
    """OpenCL C. Complex numbers use pyopencl's header, ``pyopencl-complex.h``.

    ``atomics_flavor`` selects the functions of atomic updates: ``"cl1"``, those of OpenCL 1.1,
    which every later version has. Raises :class:`KgenError` for another value.

    ``suits_pocl``: generate code that PoCL 3.1 compiles correctly, see ``docs/pocl.md``: add
    barriers at the start and end of branches with barriers, and at the start of and after such
    loops; initialize variables in their declaration; do not declare written arrays ``restrict``;
    do not vectorize loops whose vectors would exceed private arrays; and compute some subscripts
    in 64 bits, which is faster there. Calls on PoCL's devices set this.

    ``sub_group_size``: the number of work-items, a power of two, that exchange values in reductions
    and scans without local memory, by ``cl_khr_subgroup_shuffle``; kernels are compiled for
    sub-groups of that size (``intel_reqd_sub_group_size``), of consecutive work-items. Calls on
    devices without these extensions use local memory. Raises :class:`KgenError` for other numbers.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = i", [lp.GlobalArg("a", "int32"), ...],
    ...     target=OpenCLTarget())
    >>> print(lp.generate_body(lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")))
      if (64 * gid(0) + lid(0) < n)
        a[64 * gid(0) + lid(0)] = 64 * gid(0) + lid(0);
    """

    atomics_flavor: str | None = field(default="cl1", kw_only=True, repr=False)
    suits_pocl: bool = field(default=False, kw_only=True, repr=False)
    sub_group_size: int | None = field(default=None, kw_only=True, repr=False)

    fixed_settings: ClassVar[Mapping[str, tuple[Any, str]]] = {
        **CFamilyTarget.fixed_settings,
        "use_int8_for_bool": (
            True,
            "leave it out: OpenCL has no bool of a known size, for arrays and arguments",
        ),
    }
    family: ClassVar[str] = "opencl"
    language: ClassVar[str] = "OpenCL C"
    transaction: ClassVar[int] = 32
    hidden_pointer: ClassVar[str | None] = "kgen_hide({})"
    hidden_pointer_needs: ClassVar[tuple[Need, ...]] = (_HIDE,)
    hidden_integer: ClassVar[str | None] = "kgen_signed({})"
    hidden_integer_needs: ClassVar[tuple[Need, ...]] = (_SIGNED,)
    mistakes_reversed: ClassVar[bool] = True
    exchanged_kinds: ClassVar[str] = "iuf"
    reinterprets: ClassVar[bool] = True
    type_names: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {
            # a bool has no fixed size, and may not be an argument
            "bool": "char",
            "int8": "char",
            "int16": "short",
            "int32": "int",
            "int64": "long",
            "uint8": "uchar",
            "uint16": "ushort",
            "uint32": "uint",
            "uint64": "ulong",
            "float16": "half",
            "float32": "float",
            "float64": "double",
            "complex64": "cfloat_t",
            "complex128": "cdouble_t",
        }
    )
    half_forms: ClassVar[Mapping[str, tuple[str, str]]] = {"float16": ("", "h")}
    has_half_functions: ClassVar[bool] = True
    nan: ClassVar[Mapping[str, str]] = {**CFamilyTarget.nan, "float16": "(half) NAN"}
    infinity: ClassVar[Mapping[str, str]] = {
        **CFamilyTarget.infinity,
        "float16": "(half) INFINITY",
    }
    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {
        np.dtype(np.float16): (_FP16,),
        np.dtype(np.float64): (_FP64,),
        np.dtype(np.complex64): (_COMPLEX,),
        np.dtype(np.complex128): (_FP64, _COMPLEX_DOUBLE, _COMPLEX),
    }
    local_qualifier: ClassVar[str] = "__local"
    global_qualifier: ClassVar[str] = "__global"
    constant_qualifier: ClassVar[str] = "__constant"
    table_qualifier: ClassVar[str] = "__constant"
    group_index: ClassVar[tuple[str, ...]] = ("gid(0)", "gid(1)", "gid(2)")
    local_index: ClassVar[tuple[str, ...]] = ("lid(0)", "lid(1)", "lid(2)")
    group_needs: ClassVar[tuple[Need, ...]] = (
        Need(Rank.MACRO, "lid gid 1", "#define gid(N) ((int) get_group_id(N))"),
    )
    local_needs: ClassVar[tuple[Need, ...]] = (
        Need(Rank.MACRO, "lid gid 0", "#define lid(N) ((int) get_local_id(N))"),
    )
    unroll_pragma: ClassVar[str | None] = "unroll"
    barriers: ClassVar[Mapping[Memory, str]] = {
        Memory.LOCAL: "barrier(CLK_LOCAL_MEM_FENCE)",
        Memory.GLOBAL: "barrier(CLK_GLOBAL_MEM_FENCE)",
        Memory.LOCAL | Memory.GLOBAL: "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
    }
    functions: ClassVar[FunctionNames] = OPENCL_FUNCTIONS
    atomics: ClassVar[AtomicFunctions] = OpenCLAtomics()
    images: ClassVar[ImageFunctions | None] = OPENCL_IMAGES
    vectors: ClassVar[Vectors | None] = OpenCLVectors()
    has_vector_arithmetic: ClassVar[bool] = True
    vector_values: ClassVar[Vectors] = OpenCLVectorValues()
    complex_style: ClassVar[ComplexStyle] = ComplexStyle.FUNCTIONS
    complex_constructors: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {"complex64": "cfloat_new", "complex128": "cdouble_new"}
    )
    reserved_words: ClassVar[frozenset[str]] = C_WORDS.union(
        MACROS, _WORDS.split(), vector_words(_NUMBERS, (2, 3, 4, 8, 16))
    )

    @property
    def has_hardware_axes(self) -> bool:
        """Work-groups and work-items exist."""
        return True

    @property
    def exchange_width(self) -> int | None:
        """The number of work-items of a sub-group."""
        return self.sub_group_size

    @property
    def needs(self) -> tuple[Need, ...]:
        """The preamble for exchanges of values in sub-groups."""
        return () if self.sub_group_size is None else (_SHUFFLES,)

    def get_device_ast_builder(self) -> ASTBuilderBase:
        """Return the builder of the code of functions."""
        return OpenCLCASTBuilder(self)

    def adapt_tree(self, body: Node) -> Node:
        """Return the code tree of a function, with barriers separated if ``suits_pocl``."""
        return separate_barriers(body) if self.suits_pocl else body

    @property
    def has_long_split_groups(self) -> bool:
        """PoCL's compiler does not find contiguous accesses by 32-bit sums with a group's index."""
        return self.suits_pocl

    def scalar_loop_pragma(self) -> str | None:
        """Return the pragma that keeps PoCL's compiler from vectorizing a loop."""
        return "clang loop vectorize(disable)" if self.suits_pocl else None

    def first_value(self, temporary: TemporaryVariable) -> str | None:
        """Return an initial value for a private variable, if ``suits_pocl``.

        PoCL miscompiles a variable that is set and read under one condition, with barriers between,
        unless it has an initial value. A vector cannot be initialized by a list of one value.
        """
        is_private = temporary.address_space == AddressSpace.PRIVATE
        kind = temporary.dtype.kind
        if not self.suits_pocl or not is_private or kind not in "biufc":
            return None
        return "{0}" if temporary.shape or kind == "c" else "0"

    def __post_init__(self) -> None:
        if self.atomics_flavor is not None and str(self.atomics_flavor) != "cl1":
            raise InvalidValueError(
                f"there is no code for atomics of the flavor {self.atomics_flavor!r}\n"
                "  hint: leave atomics_flavor out, or 'cl1'"
            )
        object.__setattr__(self, "atomics_flavor", "cl1")
        size: Any = self.sub_group_size
        if size is not None and not (type(size) is int and size in _SUB_GROUP_SIZES):
            raise unfit("sub_group_size of a target", "8, 16, 32 or 64, or None", size)


@dataclass(frozen=True)
class PyOpenCLTarget(OpenCLTarget):
    """OpenCL C that this process runs through pyopencl, on *device* or that of a queue.

    ``limit_arg_size_nbytes``: the maximum bytes of the arguments of one function; code that
    exceeds it is rejected.

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=PyOpenCLTarget())
    >>> unit.target.runtime_module  # imported by the first call: event, (out,) = unit(queue, a=a)
    'kgen.runtime.opencl'
    """

    device: Any = field(default=None, compare=False, repr=False, metadata=OF_THIS_PROCESS)
    #: the limits of *device*, which copies in other processes keep
    device_limits: DeviceLimits | None = field(default=None, kw_only=True, repr=False)

    limit_arg_size_nbytes: int | None = field(default=None, kw_only=True, repr=False)

    fixed_settings: ClassVar[Mapping[str, tuple[Any, str]]] = {
        **OpenCLTarget.fixed_settings,
        "pyopencl_module_name": (
            "_lpy_cl",
            "leave it out: the code that calls kernels imports pyopencl itself",
        ),
        "pointer_size_nbytes": (8, "leave it out: devices have addresses of 64 bits"),
    }
    runtime_module: ClassVar[str | None] = "kgen.runtime.opencl"
    runs_in_queue: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        limit: Any = self.limit_arg_size_nbytes
        if limit is not None and not (isinstance(limit, int) and limit > 0):
            raise unfit("limit_arg_size_nbytes of a target", "a number of bytes, or None", limit)
        if self.device is not None:
            object.__setattr__(self, "device_limits", limits_of_device(self.device))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy the target without the device, which belongs to this process."""
        return stored_values(self)

    def structure_name(self, dtype: Dtype) -> str | None:
        """Return pyopencl's name of a structure: ``get_or_register_dtype``.

        Preambles declare these structures.
        """
        if dtype.fields is None:
            return None
        name: str | None = self.load_runtime().name_of_structure(dtype)
        return super().structure_name(dtype) if name is None else name

    @property
    def argument_limit(self) -> int | None:
        """The maximum bytes of the arguments of a function."""
        return self.limit_arg_size_nbytes

    def limits(self) -> DeviceLimits | None:
        """Return the limits of *device*, if it is known already."""
        return self.device_limits

    def find_device(self) -> Any:
        """Return *device*, or the device of calls without a queue, if there is one."""
        if self.device is not None:
            return self.device
        try:
            (queue,) = self.load_runtime().open_device()
        except InvocationError:
            return None
        return queue.device


def limits_of_device(device: Any) -> DeviceLimits:
    """Return the limits of an OpenCL device; reject other objects."""
    try:
        return DeviceLimits(
            name=f"device '{device.name}'",
            work_items=device.max_work_group_size,
            sizes=tuple(device.max_work_item_sizes),
            local_memory=device.local_mem_size,
        )
    except AttributeError:
        raise KgenError(
            f"the device of a target is a pyopencl.Device, not {device!r}\n"
            "  hint: leave it out, or pass queue.device"
        ) from None


def sub_groups_of_device(device: Any) -> tuple[int, ...]:
    """Return the sizes of sub-groups that exchange values on a device."""
    known = device.extensions.split()
    if not {*SHUFFLE_EXTENSIONS, "cl_intel_required_subgroup_size"}.issubset(known):
        return ()
    return tuple(device.sub_group_sizes_intel)
