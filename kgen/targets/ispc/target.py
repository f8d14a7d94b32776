"""The ISPC target: gangs of lanes for work-groups, tasks for their grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import cgen

from kgen.ast.nodes import DeviceFunction
from kgen.errors import CodegenError
from kgen.ir.atomicity import MemoryScope
from kgen.ir.data import ArrayBase
from kgen.ir.stages import DeviceKernel
from kgen.ir.target import Execution
from kgen.ir.types import Memory, NumpyType
from kgen.targets.atomic_functions import AtomicFunctions, AtomicSite
from kgen.targets.base import Dtype, dtypes_by_name
from kgen.targets.builder import ASTBuilderBase, CFamilyTarget
from kgen.targets.conversions import Conversions
from kgen.targets.functions import FunctionNames
from kgen.targets.ispc.expressions import ISPCExpressionWriter
from kgen.targets.ispc.functions import ISPC_FUNCTIONS
from kgen.targets.limits import DeviceLimits
from kgen.targets.module import Launch, Module
from kgen.targets.preamble import Need, Preamble, Rank
from kgen.targets.vector_types import VectorType

__all__ = ["ISPCASTBuilder", "ISPCTarget"]

#: The numbers of lanes for which ISPC compiles.
_WIDTHS: Final = (4, 8, 16, 32, 64)

_LIMITS = DeviceLimits(name="ISPC", work_items=64, sizes=(64, 1, 1), local_memory=2**31)

_WORDS = """
    bool break case cdo cfor char cif const continue cwhile default delete do double else enum
    export extern false float float16 for foreach foreach_active foreach_tiled foreach_unique goto
    if in inline int int16 int32 int64 int8 invoke_sycl launch new noinline NULL operator print
    programCount programIndex return signed sizeof size_t soa static struct switch sync task
    taskCount taskCount0 taskCount1 taskCount2 taskIndex taskIndex0 taskIndex1 taskIndex2 template
    threadCount threadIndex true typedef typename uint uint16 uint32 uint64 uint8 uniform union
    unmasked unsigned varying void volatile while assert lane
"""

#: Types from the least to the most general, to which operands are converted.
_GENERALITY: Final = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("float32", "int64", "uint64", "float64"),
)


class ISPCConversions(Conversions):
    """ISPC's conversion of two operands: to the more general type, even one narrower than int.

    >>> from kgen.ir.types import FLOAT32
    >>> from kgen.ir.types import INT64
    >>> ISPCConversions().joined(FLOAT32, INT64)
    np:dtype('int64')
    """

    def joined(self, a: NumpyType, b: NumpyType) -> NumpyType:
        if not {a.dtype.name, b.dtype.name}.issubset(_GENERALITY):
            return super().joined(a, b)
        return max(a, b, key=lambda dtype: _GENERALITY.index(dtype.dtype.name))

    def fit(self, a: NumpyType, b: NumpyType, result: NumpyType) -> bool:
        return self.joined(a, b) == result


class ISPCAtomics(AtomicFunctions):
    """ISPC's functions: for lanes of one gang, and for all gangs."""

    _words: Final = {
        "+": "add",
        "-": "subtract",
        "&": "and",
        "|": "or",
        "^": "xor",
        "min": "min",
        "max": "max",
    }
    widest_scope: ClassVar[int] = MemoryScope.WORK_DEVICE

    def update(self, operator: str, site: AtomicSite, place: str, operand: str) -> str | None:
        word = self._words.get(operator)
        if word is None or site.dtype.itemsize < 4:
            return None
        if not site.is_integer and operator in "&|^":
            return None
        scope = "local" if site.is_local else "global"
        return f"atomic_{word}_{scope}(&{place}, {operand})"

    def exchange(self, site: AtomicSite) -> Need:
        raise CodegenError(
            f"ISPC has no function for this atomic update of {site.dtype}",
            hint="add, subtract, take the minimum or maximum of numbers of 32 or 64 bits; or "
            "make the loops that write to one element sequential, and drop 'atomic'",
        )

    def fence(self, site: AtomicSite) -> str:
        return "memory_barrier()"


class _UniformPointer(cgen.Pointer):
    """A pointer that all lanes share."""

    def get_decl_pair(self) -> tuple[list[str], str | None]:
        type_name, name = self.subdecl.get_decl_pair()
        return type_name, f"*uniform {name}"


class ISPCASTBuilder(ASTBuilderBase):
    """Makes ISPC: a task for each launch, and an exported function that makes all launches.

    >>> import kgen as lp
    >>> type(lp.ISPCTarget().get_device_ast_builder()).__name__
    'ISPCASTBuilder'
    """

    def get_expression_to_code_mapper(
        self, kernel: DeviceKernel, preamble: Preamble
    ) -> ISPCExpressionWriter:
        """Return the writer of the expressions of *kernel*."""
        return ISPCExpressionWriter(kernel, self.target, preamble)

    def has_host_function(self, launches: Sequence[Launch], *, is_single: bool) -> bool:
        """Tell that a host function launches the tasks."""
        return True

    def get_function_name(self, function: DeviceFunction) -> str:
        """Return the name of the task of a launch."""
        return f"{function.name}_inner"

    def get_function_declaration(
        self, function: DeviceFunction, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare a task, whose work-groups have as many work-items as a gang has lanes."""
        width = math.prod(function.locals)
        if width > 1 and width not in _WIDTHS:
            raise CodegenError(
                f"a work-group has {width} work-items, but there is no gang of {width} lanes",
                kernel=function.name,
                because=f"ISPC compiles for gangs of {', '.join(map(str, _WIDTHS))} lanes",
                hint='split_iname(knl, ..., 8, inner_tag="l.0")',
            )
        return cgen.FunctionDeclaration(cgen.Value("task void", function.name), parameters)

    def get_host_function_declaration(
        self, name: str, parameters: Sequence[cgen.Declarator]
    ) -> cgen.NestedDeclarator:
        """Declare a function that C and C++ can call."""
        return cgen.FunctionDeclaration(cgen.Value("export void", name), parameters)

    def get_header(self, module: Module) -> str:
        """Return declarations in ISPC; its compiler writes headers for C and C++."""
        return module.declarations

    def get_host_function_start(self, launches: Sequence[Launch]) -> list[cgen.Generable]:
        """Check that gangs have the number of lanes that the code was generated for."""
        widths = {launch.function: math.prod(launch.locals) for launch in launches}
        widths = {name: width for name, width in widths.items() if width > 1}
        if len(set(widths.values())) > 1:
            raise CodegenError(
                "the launches have work-groups of different sizes, but all gangs have the same "
                "size",
                kernel=launches[0].function,
                because=", ".join(f"{name}: {width}" for name, width in widths.items()),
                hint="split the loops tagged 'l.0' by the same number",
            )
        return [cgen.Statement(f"assert(programCount == {n})") for n in set(widths.values())]

    def get_kernel_call(
        self, launch: Launch, groups: Sequence[str], arguments: Sequence[str], *, is_only: bool
    ) -> list[cgen.Generable]:
        """Launch a task for each work-group, and wait for them if others follow."""
        counts = f"[{', '.join(groups)}]" if groups else ""
        called = cgen.Statement(f"launch{counts} {launch.function}({', '.join(arguments)})")
        return [called] if is_only else [called, cgen.Statement("sync")]

    def get_array_arg_decl(
        self, array: ArrayBase, element: cgen.Declarator, *, is_written: bool, restrict: bool
    ) -> cgen.Declarator:
        """Declare a parameter for an array, which all lanes share."""
        pointer = _UniformPointer(element)
        return pointer if is_written else cgen.Const(pointer)

    def emit_barrier(self, text: str, reason: str) -> cgen.Generable:
        """Write a comment: lanes see what other lanes have written in earlier statements."""
        return cgen.LineComment(f"{text} {reason}".rstrip())


@dataclass(frozen=True)
class ISPCTarget(CFamilyTarget):
    """ISPC: the loop tagged ``l.0`` runs in the lanes of a gang, those tagged ``g.N`` as tasks.

    Compile the code for gangs of as many lanes as the loop ``l.0`` has iterations: 4, 8,
    16, 32 or 64. The exported function, which has the kernel's name, checks this.

    >>> import kgen as lp
    >>> unit = lp.make_kernel(
    ...     "{ [i]: 0<=i<n }", "a[i] = i", [lp.GlobalArg("a", "int32", shape="n"), ...],
    ...     name="count", target=ISPCTarget())
    >>> unit = lp.split_iname(unit, "i", 8, outer_tag="g.0", inner_tag="l.0")
    >>> code = lp.generate_code_v2(unit)
    >>> print(code.device_code())
    #define lid(N) programIndex
    #define gid(N) ((uniform int32) taskIndex##N)
    <BLANKLINE>
    task void count_inner(uniform int32 *uniform a, uniform int32 const n)
    {
      if (8 * gid(0) + lid(0) < n)
        a[8 * gid(0) + lid(0)] = 8 * gid(0) + lid(0);
    }
    >>> print(code.host_code())
    export void count(uniform int32 *uniform a, uniform int32 const n)
    {
      assert(programCount == 8);
      launch[(n + 7) / 8] count_inner(a, n);
    }
    """

    family: ClassVar[str] = "ispc"
    language: ClassVar[str] = "ISPC"
    has_records: ClassVar[bool] = False
    type_names: ClassVar[Mapping[Dtype, str]] = dtypes_by_name(
        {
            # a bool has no fixed size, and true is not always 1
            "bool": "int8",
            "int8": "int8",
            "int16": "int16",
            "int32": "int32",
            "int64": "int64",
            "uint8": "unsigned int8",
            "uint16": "unsigned int16",
            "uint32": "unsigned int32",
            "uint64": "unsigned int64",
            "float32": "float",
            "float64": "double",
        }
    )
    table_qualifier: ClassVar[str] = "static uniform"
    helper_qualifier: ClassVar[str] = "static inline"
    helper_variants: ClassVar[tuple[str, ...]] = ("uniform ", "varying ")
    group_index: ClassVar[tuple[str, ...]] = ("gid(0)", "gid(1)", "gid(2)")
    local_index: ClassVar[tuple[str, ...]] = ("lid(0)",)
    group_needs: ClassVar[tuple[Need, ...]] = (
        Need(Rank.MACRO, "lid gid 1", "#define gid(N) ((uniform int32) taskIndex##N)"),
    )
    local_needs: ClassVar[tuple[Need, ...]] = (
        Need(Rank.MACRO, "lid gid 0", "#define lid(N) programIndex"),
    )
    barriers: ClassVar[Mapping[Memory, str]] = {
        Memory.LOCAL: "lanes converge here,",
        Memory.GLOBAL: "lanes converge here,",
        Memory.LOCAL | Memory.GLOBAL: "lanes converge here,",
    }
    streaming_store: ClassVar[str | None] = "streaming_store"
    print_function: ClassVar[str] = "print"
    print_format: ClassVar[str | None] = "%"
    double_suffix: ClassVar[str] = "d"
    long_suffix: ClassVar[str] = "ll"
    nan: ClassVar[Mapping[str, str]] = {
        "float32": "floatbits(0x7fc00000u)",
        "float64": "doublebits(0x7ff8000000000000ull)",
    }
    infinity: ClassVar[Mapping[str, str]] = {
        "float32": "floatbits(0x7f800000u)",
        "float64": "doublebits(0x7ff0000000000000ull)",
    }
    conversions: ClassVar[Conversions] = ISPCConversions()
    functions: ClassVar[FunctionNames] = ISPC_FUNCTIONS
    atomics: ClassVar[AtomicFunctions] = ISPCAtomics()
    reserved_words: ClassVar[frozenset[str]] = frozenset(_WORDS.split())

    def vector_of(self, dtype: Dtype) -> VectorType | None:
        """Return ``None``: ISPC's arrays cannot contain vectors."""
        return None

    @property
    def has_hardware_axes(self) -> bool:
        """Work-groups and work-items exist."""
        return True

    @property
    def execution(self) -> Execution:
        """Tell that ISPC, not the schedule, exchanges values between lanes."""
        return Execution.SERIAL

    def limits(self) -> DeviceLimits:
        """Return the limits of a gang: its lanes."""
        return _LIMITS

    def get_device_ast_builder(self) -> ASTBuilderBase:
        """Return the builder of the code of functions."""
        return ISPCASTBuilder(self)
