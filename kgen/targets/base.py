"""The common base of all C-family targets: a target is data plus a few overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from kgen.ast.nodes import DeviceFunction, Node
from kgen.errors import CodegenError
from kgen.ir.data import TemporaryVariable
from kgen.ir.tags import AxisTag, GroupInameTag
from kgen.ir.target import TargetBase
from kgen.ir.types import KgenType, Memory, NumpyType, OpaqueType, to_kgen_type
from kgen.ir.vector_values import numbers_of, vector_type
from kgen.targets.atomic_functions import AtomicFunctions, CAtomics
from kgen.targets.conversions import Conversions
from kgen.targets.functions import FunctionNames
from kgen.targets.images import ImageFunctions
from kgen.targets.limits import DeviceLimits
from kgen.targets.preamble import Need
from kgen.targets.records import record_name, record_need
from kgen.targets.vector_types import CVectors, Vectors, VectorType

__all__ = [
    "CFamilyLanguage",
    "ComplexStyle",
    "Dtype",
    "DtypeNames",
    "Target",
    "TargetBase",
    "dtypes_by_name",
]

Dtype = np.dtype[Any]


def dtypes_by_name(names: Mapping[str, str]) -> dict[Dtype, str]:
    """Key a table by numpy types instead of their names.

    >>> dtypes_by_name({"float32": "float"})
    {dtype('float32'): 'float'}
    """
    return {np.dtype(name): text for name, text in names.items()}


class ComplexStyle(Enum):
    """How a language computes with complex numbers."""

    #: Operators take any mixture of numbers: C.
    BUILTIN = 1
    #: Operators take numbers of one precision: C++.
    CLASS = 2
    #: There are functions only: OpenCL.
    FUNCTIONS = 3


@dataclass(frozen=True)
class Target(TargetBase):
    """A target for which code is generated."""

    def limits(self) -> DeviceLimits | None:
        """Return the limits of the device; ``None`` if they are not known."""
        return None

    @property
    def local_memory_share(self) -> int | None:
        """The percentage of a multiprocessor's memory that launches ask for as local memory."""
        return None

    @property
    def argument_limit(self) -> int | None:
        """The maximum bytes of the arguments of one function; ``None`` for no limit."""
        return None


@dataclass(frozen=True)
class DtypeNames:
    """The names of element types in the language of a target."""

    target: CFamilyLanguage

    def dtype_to_ctype(self, dtype: Any) -> str:
        """Return the name of a type: :meth:`CFamilyLanguage.dtype_to_typename`."""
        return self.target.dtype_to_typename(dtype)


@dataclass(frozen=True)
class CFamilyLanguage(Target):
    """The data of a language of the C family: class variables describe how languages differ."""

    #: The language, for messages.
    language: ClassVar[str] = "C"
    #: The name of each numpy type.
    type_names: ClassVar[Mapping[Dtype, str]] = {}
    #: Why the language lacks a type, by numpy's name of the type.
    reasons: ClassVar[Mapping[str, str]] = {"bfloat16": "only CUDA has arithmetic for it"}
    #: The names of types of other packages, and their preambles, by numpy's names of the types.
    other_types: ClassVar[Mapping[str, tuple[str, Need]]] = {}
    #: The preamble of code that uses a type.
    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {}
    #: The preamble of code that calls a function of the language's library.
    math_needs: ClassVar[tuple[Need, ...]] = ()
    #: The preamble of code whose masked loads a compiler vectorizes incorrectly.
    masked_load_needs: ClassVar[tuple[Need, ...]] = ()
    #: The preamble of code for which a compiler keeps sums of lanes in memory.
    lane_sum_needs: ClassVar[tuple[Need, ...]] = ()
    #: The function that prints, and the format of all values, if they have a common one.
    print_function: ClassVar[str] = "printf"
    print_format: ClassVar[str | None] = None
    #: The preamble of code that prints.
    print_needs: ClassVar[tuple[Need, ...]] = ()
    #: The maximum bytes of declared local memory; a launch that needs more requests it.
    static_local_memory: ClassVar[int | None] = None
    #: The qualifiers of the declaration of such memory, and its name.
    local_memory_of_launch: ClassVar[str] = ""
    local_memory_name: ClassVar[str] = ""
    #: The function that allocates the memory of an array whose size is computed, the function that
    #: frees it, and the preamble of both.
    allocate: ClassVar[str] = ""
    free: ClassVar[str] = ""
    allocate_needs: ClassVar[tuple[Need, ...]] = ()
    #: The qualifiers of arrays, of tables of constants, and of helper functions.
    local_qualifier: ClassVar[str] = ""
    global_qualifier: ClassVar[str] = ""
    constant_qualifier: ClassVar[str] = ""
    table_qualifier: ClassVar[str] = "static"
    helper_qualifier: ClassVar[str] = "static inline"
    #: The qualifiers of the types of a helper, for each version of it.
    helper_variants: ClassVar[tuple[str, ...]] = ("",)
    #: The indices of the work-group and of the work-item along each axis, as ``int``. With
    #: ``has_long_groups``, loops run the work-groups, and their indices may have 64 bits.
    group_index: ClassVar[tuple[str, ...]] = ()
    local_index: ClassVar[tuple[str, ...]] = ()
    has_long_groups: ClassVar[bool] = False
    #: The preambles of code that uses these indices.
    group_needs: ClassVar[tuple[Need, ...]] = ()
    local_needs: ClassVar[tuple[Need, ...]] = ()
    #: The statement that makes the work-items of a group wait, by the memory made consistent.
    barriers: ClassVar[Mapping[Memory, str]] = {}
    #: The statement that makes the work-items of a warp wait, if there is one.
    warp_barrier: ClassVar[str | None] = None
    #: The statement that makes the work-items of all groups wait, if there is one.
    grid_barrier: ClassVar[str | None] = None
    grid_barrier_needs: ClassVar[tuple[Need, ...]] = ()
    #: The pragma that asks the compiler to unroll a loop completely.
    unroll_pragma: ClassVar[str | None] = None
    #: The pragma that asks the compiler to unroll a loop by a factor, which follows it.
    unroll_count_pragma: ClassVar[str] = "unroll"
    #: The function of streaming stores.
    streaming_store: ClassVar[str | None] = None
    #: The function of streaming loads, the types of numbers that it supports, and the function for
    #: structures of several numbers, which loads them as other vectors.
    streaming_load: ClassVar[str | None] = None
    streaming_load_of_parts: ClassVar[Need | None] = None
    streaming_load_types: ClassVar[frozenset[str]] = frozenset()
    #: The function that returns a pointer and tells the compiler its alignment.
    aligned_pointer: ClassVar[str | None] = None
    #: The pattern of a pointer that the compiler must not assume to be constant memory, if it
    #: might.
    hidden_pointer: ClassVar[str | None] = None
    hidden_pointer_needs: ClassVar[tuple[Need, ...]] = ()
    #: The pattern of a 32-bit integer that the compiler must not recognize as a negation, if it
    #: might lose the sign; see ``kgen.targets.writers.negations``.
    hidden_integer: ClassVar[str | None] = None
    hidden_integer_needs: ClassVar[tuple[Need, ...]] = ()
    #: The compiler takes elements with negative multiples in 32-bit subscripts for other elements.
    mistakes_reversed: ClassVar[bool] = False
    #: The functions that expressions may call.
    functions: ClassVar[FunctionNames] = FunctionNames()
    #: Functions such as ``as_int`` reinterpret the bits of one type as another.
    reinterprets: ClassVar[bool] = False
    #: The atomic operations.
    atomics: ClassVar[AtomicFunctions] = CAtomics()
    #: The functions that read images.
    images: ClassVar[ImageFunctions | None] = None
    #: The types for vector loads and stores.
    vectors: ClassVar[Vectors | None] = None
    #: The types of vector values, such as ``uint4``.
    vector_values: ClassVar[Vectors] = CVectors()
    #: The suffixes of literals of type float64, and of integers of 64 bits.
    double_suffix: ClassVar[str] = ""
    long_suffix: ClassVar[str] = ""
    #: The language has structures; code that needs one defines it.
    has_records: ClassVar[bool] = True
    #: The prefix and the suffix of literals of the types of 16 bits.
    half_forms: ClassVar[Mapping[str, tuple[str, str]]] = {}
    #: The class with the bits of such a number, for compilers that reject its literals in tables.
    half_bits: ClassVar[Mapping[str, str]] = {}
    #: Functions take such numbers; otherwise they compute in float32.
    has_half_functions: ClassVar[bool] = False
    #: The literals of NaN and infinity, by type name.
    nan: ClassVar[Mapping[str, str]] = {"float32": "NAN", "float64": "(double) NAN"}
    infinity: ClassVar[Mapping[str, str]] = {"float32": "INFINITY", "float64": "HUGE_VAL"}
    #: The implicit conversions of operands.
    conversions: ClassVar[Conversions] = Conversions()
    complex_style: ClassVar[ComplexStyle] = ComplexStyle.BUILTIN
    #: The function that returns a complex number, given its two parts, by type.
    complex_constructors: ClassVar[Mapping[Dtype, str]] = {}
    #: Words that cannot be names of variables.
    reserved_words: ClassVar[frozenset[str]] = frozenset()
    #: More such words, if the code includes a header.
    words_of_headers: ClassVar[Mapping[str, frozenset[str]]] = {}

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return the preamble of all code."""
        return ()

    def adapt_tree(self, body: Node) -> Node:
        """Return the code tree of a function as the compilers of this language need it."""
        return body

    def scalar_loop_pragma(self) -> str | None:
        """Return the pragma that prevents vectorization of a loop, if the compiler needs one.

        It does if vectors would exceed private arrays.
        """
        return None

    @property
    def has_long_split_groups(self) -> bool:
        """Tell whether ``3200*gid(0) + 100*i + j`` is computed in 64 bits, regardless of its range.

        Some compilers do not find contiguous accesses otherwise.
        """
        return False

    def independent_loop_pragma(self) -> str | None:
        """Return the pragma that declares iterations of a loop independent, if there is one.

        It is used if compilers can hardly prove the independence.
        """
        return None

    def simd_loop_pragma(self, lanes: int | None) -> str | None:
        """Return the pragma that asks the compiler to vectorize a loop, with so many *lanes*.

        The iterations are independent.
        """
        return None

    def lane_function(self, function: str) -> Need | None:
        """Return the preamble of code that calls a function in lanes of vectors, if any."""
        return None

    def first_value(self, temporary: TemporaryVariable) -> str | None:
        """Return the value that initializes a temporary without an initializer, if any."""
        return None

    def alignment_of(self, temporary: TemporaryVariable) -> int | None:
        """Return the alignment of a temporary in bytes; ``None``: that of its type."""
        return temporary.alignment

    def describe_threads(self, function: DeviceFunction) -> str | None:
        """Describe how the threads of the host run the work-groups of a function, if they do."""
        return None

    def describe_axis(self, function: DeviceFunction) -> str:
        """Describe the loop over the work-groups of a function, if the host runs them."""
        return "a loop"

    def axis_name(self, tag: AxisTag) -> str:
        """Return the language's name of the index along a hardware axis."""
        return f"get_{'group' if isinstance(tag, GroupInameTag) else 'local'}_id({tag.axis})"

    def type_name(
        self, dtype: KgenType, *, kernel: str | None = None, where: str | None = None
    ) -> str:
        """Return the language's name of an element type, or raise an error at *where*.

        >>> from kgen.targets.opencl import OpenCLTarget
        >>> from kgen.ir.types import INT64
        >>> OpenCLTarget().type_name(INT64)
        'long'
        """
        if isinstance(dtype, OpaqueType):
            return dtype.name
        name = self._name_of_number(dtype.numpy_dtype)
        if name is None:
            vector = self.vector_of(dtype.numpy_dtype)
            if vector is not None:
                return vector.name
            structure = self.structure_name(dtype.numpy_dtype)
            if structure is not None:
                return structure
            raise CodegenError(
                f"{self.language} has no element type for {dtype.numpy_dtype}",
                kernel=kernel,
                where=where,
                because=self.reasons.get(dtype.numpy_dtype.name),
                hint="convert to one of "
                + ", ".join(sorted(str(known) for known in self.type_names)),
            )
        return name

    def dtype_to_typename(self, dtype: Any) -> str:
        """Return the language's name of an element type, given as for arguments.

        >>> import kgen as lp
        >>> lp.OpenCLTarget().dtype_to_typename("int64"), lp.CTarget().dtype_to_typename("float32")
        ('long', 'float')
        """
        return self.type_name(to_kgen_type(dtype))

    def get_dtype_registry(self) -> DtypeNames:
        """Return the names of element types, as functions that write preambles ask for them.

        >>> import kgen as lp
        >>> lp.OpenCLTarget().get_dtype_registry().dtype_to_ctype("int64")
        'long'
        """
        return DtypeNames(self)

    def is_vector_dtype(self, dtype: Any) -> bool:
        """Tell whether a type is a vector of numbers, such as ``float4``."""
        return numbers_of(to_kgen_type(dtype).numpy_dtype) is not None

    def vector_dtype(self, base: Any, count: int) -> NumpyType:
        """Return the type of a vector of *count* numbers of the type *base*.

        >>> import kgen as lp
        >>> target = lp.OpenCLTarget()
        >>> target.dtype_to_typename(target.vector_dtype("float32", 4))
        'float4'
        """
        dtype = vector_type(to_kgen_type(base).numpy_dtype, count)
        if self.vector_of(dtype.numpy_dtype) is None:
            raise CodegenError(
                f"{self.language} has no vector of {count} numbers of {to_kgen_type(base)}",
                hint="vectors have 2, 3, 4, 8 or 16 numbers",
            )
        return dtype

    def _name_of_number(self, dtype: Dtype) -> str | None:
        name = self.type_names.get(dtype)
        if name is None and dtype.name in self.other_types:
            return self.other_types[dtype.name][0]
        return name

    def structure_name(self, dtype: Dtype) -> str | None:
        """Return the name of a structure: one that a preamble declares, or else a generated one."""
        if dtype.fields is None or not self.has_records or numbers_of(dtype) is not None:
            return None
        return record_name(dtype)

    def needs_of(self, dtype: Dtype) -> tuple[Need, ...]:
        """Return the preamble of code that uses a type."""
        numbers = None if dtype.fields is None else numbers_of(dtype)
        if numbers is None and dtype.fields is not None:
            return self._needs_of_record(dtype)
        if numbers is None:
            if dtype in self.type_names:
                return self.type_needs.get(dtype, ())
            other = self.other_types.get(dtype.name)
            return () if other is None else other[1:]
        vector = self.vector_of(dtype)
        if vector is None:  # there is no name for the type
            return ()
        return (*self.needs_of(numbers[0]), *vector.needs)

    def _needs_of_record(self, dtype: Dtype) -> tuple[Need, ...]:
        """Return the definition of a structure, after the preambles of its fields."""
        if self.structure_name(dtype) != record_name(dtype):
            return ()
        assert dtype.fields is not None
        inner = [need for kind, *_ in dtype.fields.values() for need in self.needs_of(kind)]
        defined = record_need(dtype, self._field_type, self.reserved_words, self.language)
        return (*inner, defined)

    def _field_type(self, dtype: Dtype) -> str:
        return self.type_name(NumpyType(dtype))

    def vector_of(self, dtype: Dtype) -> VectorType | None:
        """Return the type of vector values that are a *dtype* in memory."""
        numbers = numbers_of(dtype)
        name = None if numbers is None else self._name_of_number(numbers[0])
        if numbers is None or name is None:
            return None
        return self.vector_values.type_of(numbers[0], name, numbers[1])

    def has_streaming_load(self, dtype: Dtype) -> bool:
        """Tell whether there are streaming loads of numbers or vectors that are a *dtype*."""
        numbers, vector = numbers_of(dtype), self.vector_of(dtype)
        if numbers is None or vector is None:
            return dtype.name in self.streaming_load_types
        return numbers[0].name in self.streaming_load_types and numbers[1] != 3

    def table_qualifier_for(self, size: int, *, is_uniform: bool) -> str:
        """Return the qualifiers of a table of *size* bytes.

        ``is_uniform``: all work-items of a group read the same entry at a time.
        """
        return self.table_qualifier
