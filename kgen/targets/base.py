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

__all__ = ["CFamilyLanguage", "ComplexStyle", "Dtype", "Target", "TargetBase", "dtypes_by_name"]

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
        """Return what the device has room for; ``None`` where that is not known."""
        return None

    @property
    def argument_limit(self) -> int | None:
        """The bytes that the arguments of one function may take; ``None`` for no limit."""
        return None


@dataclass(frozen=True)
class CFamilyLanguage(Target):
    """The data of a language of the C family: class variables are what the languages differ in."""

    #: The language, for messages.
    language: ClassVar[str] = "C"
    #: How each numpy type is called.
    type_names: ClassVar[Mapping[Dtype, str]] = {}
    #: Why there is no name for a type, by numpy's name of it.
    reasons: ClassVar[Mapping[str, str]] = {"bfloat16": "only CUDA has arithmetic for it"}
    #: The names of types of other packages, and what must stand before, by numpy's names of them.
    other_types: ClassVar[Mapping[str, tuple[str, Need]]] = {}
    #: What must stand before the code that mentions a type.
    type_needs: ClassVar[Mapping[Dtype, tuple[Need, ...]]] = {}
    #: What must stand before the code that calls a function of the language's library.
    math_needs: ClassVar[tuple[Need, ...]] = ()
    #: The preamble of code for which a compiler's vectors of masked loads are wrong.
    masked_load_needs: ClassVar[tuple[Need, ...]] = ()
    #: The preamble of code for which a compiler keeps sums of lanes in memory.
    lane_sum_needs: ClassVar[tuple[Need, ...]] = ()
    #: What the target calls to print, and the format of a value where it needs no other.
    print_function: ClassVar[str] = "printf"
    print_format: ClassVar[str | None] = None
    #: What must stand before the code that prints.
    print_needs: ClassVar[tuple[Need, ...]] = ()
    #: The bytes of local memory that declarations may take; of more, a launch is told the number.
    static_local_memory: ClassVar[int | None] = None
    #: What declares that, and its name.
    local_memory_of_launch: ClassVar[str] = ""
    local_memory_name: ClassVar[str] = ""
    #: The words before the declaration of an array, and of a table of constants.
    local_qualifier: ClassVar[str] = ""
    global_qualifier: ClassVar[str] = ""
    constant_qualifier: ClassVar[str] = ""
    table_qualifier: ClassVar[str] = "static"
    helper_qualifier: ClassVar[str] = "static inline"
    #: The words before the types of a helper, for each version of it.
    helper_variants: ClassVar[tuple[str, ...]] = ("",)
    #: The indices of the work-group and of the work-item along each axis, as ``int``; of the
    #: work-group in 64 bits, too, where the language has loops for them.
    group_index: ClassVar[tuple[str, ...]] = ()
    local_index: ClassVar[tuple[str, ...]] = ()
    has_long_groups: ClassVar[bool] = False
    #: What must stand before the code that uses those.
    group_needs: ClassVar[tuple[Need, ...]] = ()
    local_needs: ClassVar[tuple[Need, ...]] = ()
    #: The statement that makes the work-items of a group wait, by the memory made consistent.
    barriers: ClassVar[Mapping[Memory, str]] = {}
    #: The statement that makes the work-items of all groups wait, if there is one.
    grid_barrier: ClassVar[str | None] = None
    grid_barrier_needs: ClassVar[tuple[Need, ...]] = ()
    #: What asks the compiler to make a loop of few trips straight code.
    unroll_pragma: ClassVar[str | None] = None
    #: What asks the compiler to unroll a loop N times over: this and N.
    unroll_count_pragma: ClassVar[str] = "unroll"
    #: The function that stores past the cache.
    streaming_store: ClassVar[str | None] = None
    #: The function that returns a pointer, and says how it is aligned.
    aligned_pointer: ClassVar[str | None] = None
    #: What keeps the compiler from taking an array for constant, where it may be wrong in that.
    hidden_pointer: ClassVar[str | None] = None
    hidden_pointer_needs: ClassVar[tuple[Need, ...]] = ()
    #: The functions that expressions may call.
    functions: ClassVar[FunctionNames] = FunctionNames()
    #: Functions ``as_int`` and its kin take the bits of one type for another.
    reinterprets: ClassVar[bool] = False
    #: How memory that work-items share is updated in one step.
    atomics: ClassVar[AtomicFunctions] = CAtomics()
    #: How images are read.
    images: ClassVar[ImageFunctions | None] = None
    #: Types for several numbers, where memory is accessed in them.
    vectors: ClassVar[Vectors | None] = None
    #: Types for values of several numbers, such as ``uint4``.
    vector_values: ClassVar[Vectors] = CVectors()
    #: What stands behind a number of type float64, and behind an integer of 64 bits.
    double_suffix: ClassVar[str] = ""
    long_suffix: ClassVar[str] = ""
    #: Structures are defined where code needs them.
    has_records: ClassVar[bool] = True
    #: What stands before and behind a number of a type of 16 bits.
    half_forms: ClassVar[Mapping[str, tuple[str, str]]] = {}
    #: The class that holds the bits of such a number, where the compiler makes none in tables.
    half_bits: ClassVar[Mapping[str, str]] = {}
    #: Functions take such numbers; elsewhere they compute in float32.
    has_half_functions: ClassVar[bool] = False
    #: The numbers that have no digits, by type name: none, and the largest.
    nan: ClassVar[Mapping[str, str]] = {"float32": "NAN", "float64": "(double) NAN"}
    infinity: ClassVar[Mapping[str, str]] = {"float32": "INFINITY", "float64": "HUGE_VAL"}
    #: What becomes of the operands of an operator.
    conversions: ClassVar[Conversions] = Conversions()
    complex_style: ClassVar[ComplexStyle] = ComplexStyle.BUILTIN
    #: What makes a complex number of two real ones, by type.
    complex_constructors: ClassVar[Mapping[Dtype, str]] = {}
    #: Words that no variable of a kernel may have as its name.
    reserved_words: ClassVar[frozenset[str]] = frozenset()
    #: More such words, where the code includes a header.
    words_of_headers: ClassVar[Mapping[str, frozenset[str]]] = {}

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return what must stand before all code."""
        return ()

    def adapt_tree(self, body: Node) -> Node:
        """Return the code tree of a function as the compilers of this language need it."""
        return body

    def scalar_loop_pragma(self) -> str | None:
        """Return what asks the compiler not to vectorize a loop, if it must be asked at times.

        That is where vector code would access more than there is of a private array.
        """
        return None

    @property
    def has_long_split_groups(self) -> bool:
        """Tell whether ``3200*gid(0) + 100*i + j`` is computed in 64 bits, whatever its range.

        As it is for compilers that take arrays to be read here and there otherwise.
        """
        return False

    def independent_loop_pragma(self) -> str | None:
        """Return what tells the compiler that iterations of a loop are independent, if anything.

        It is asked for where a compiler could hardly find that out.
        """
        return None

    def simd_loop_pragma(self, lanes: int | None) -> str | None:
        """Return what asks the compiler to run iterations of a loop in lanes of vectors.

        These are independent. *lanes* are how many a vector is to have.
        """
        return None

    def lane_function(self, function: str) -> Need | None:
        """Return what must stand before the code for a function in lanes of vectors, if any."""
        return None

    def first_value(self, temporary: TemporaryVariable) -> str | None:
        """Return the value with which a temporary is declared that has none of its own, if any."""
        return None

    def alignment_of(self, temporary: TemporaryVariable) -> int | None:
        """Return the bytes by which a temporary is aligned; ``None``: as its type asks for."""
        return temporary.alignment

    def describe_threads(self, function: DeviceFunction) -> str | None:
        """Say how the threads of the host run the work-groups of a function, where they do."""
        return None

    def describe_axis(self, function: DeviceFunction) -> str:
        """Say what the loop over the work-groups of a function is, where the host runs them."""
        return "a loop"

    def axis_name(self, tag: AxisTag) -> str:
        """Return what the language's manual calls the index along a hardware axis."""
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
        """Return the name of a structure: one that a preamble declares, else one of its own."""
        if dtype.fields is None or not self.has_records or numbers_of(dtype) is not None:
            return None
        return record_name(dtype)

    def needs_of(self, dtype: Dtype) -> tuple[Need, ...]:
        """Return what must stand before the code that mentions a type."""
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
        """Return the definition of a structure, behind what its fields need."""
        if self.structure_name(dtype) != record_name(dtype):
            return ()
        assert dtype.fields is not None
        inner = [need for kind, *_ in dtype.fields.values() for need in self.needs_of(kind)]
        defined = record_need(dtype, self._field_type, self.reserved_words, self.language)
        return (*inner, defined)

    def _field_type(self, dtype: Dtype) -> str:
        return self.type_name(NumpyType(dtype))

    def vector_of(self, dtype: Dtype) -> VectorType | None:
        """Return the type of values of several numbers that are a *dtype* in memory."""
        numbers = numbers_of(dtype)
        name = None if numbers is None else self._name_of_number(numbers[0])
        if numbers is None or name is None:
            return None
        return self.vector_values.type_of(numbers[0], name, numbers[1])

    def table_qualifier_for(self, size: int, *, is_uniform: bool) -> str:
        """Return the words before the declaration of a table of *size* bytes.

        ``is_uniform``: all work-items of a group read the same entry at a time.
        """
        return self.table_qualifier
