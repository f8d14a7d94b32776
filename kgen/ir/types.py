"""Data types, address spaces and the ``auto`` marker."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum
from enum import auto as auto_value
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from kgen.errors import KgenError, MissingValueError, near_names
from kgen.ir.checked import checked
from kgen.ir.optional import load


class _Auto(Enum):
    """The type of ``auto``: "infer it from the rest of the kernel".

    >>> import kgen as lp
    >>> unit = lp.make_kernel("{ [i]: 0<=i<n }", [lp.Assignment("t", "i", temp_var_type=lp.auto)])
    >>> unit["kgen_kernel"].temporary_variables["t"].address_space
    auto
    """

    AUTO = "auto"

    def __repr__(self) -> str:
        return "auto"

    __str__ = __repr__


#: The name of a numpy type of ml_dtypes, which need not be installed.
BFLOAT16: Final = "bfloat16"

#: "Infer it from the rest of the kernel": a dtype, a shape, an offset, an address space.
auto: Final = _Auto.AUTO
AutoType: TypeAlias = Literal[_Auto.AUTO]


class _Absent(Enum):
    """The value of an empty :class:`Optional`."""

    ABSENT = "absent"


@dataclass(frozen=True, init=False, repr=False)
class Optional:
    """A value that may be missing, where ``None`` is also a value.

    An example is ``temp_var_type`` of instructions: ``Optional()`` creates no temporary,
    ``Optional(None)`` one whose type is inferred, ``Optional(np.float32)`` one of that type.

    >>> Optional(), Optional(None), Optional(3).value, Optional().has_value
    (Optional(), Optional(None), 3, False)
    """

    content: Any

    def __init__(self, value: Any = _Absent.ABSENT) -> None:
        object.__setattr__(self, "content", value)

    @property
    def has_value(self) -> bool:
        """Whether there is a value."""
        return self.content is not _Absent.ABSENT

    @property
    def value(self) -> Any:
        """The value; an empty one raises :class:`MissingValueError`, an ``AttributeError``."""
        if not self.has_value:
            raise MissingValueError("Optional() has no value\n  hint: check has_value first")
        return self.content

    def __repr__(self) -> str:
        return f"Optional({self.content!r})" if self.has_value else "Optional()"


class AddressSpace(IntEnum):
    """Where an array is stored: private, local or global memory.

    >>> AddressSpace.stringify(AddressSpace.LOCAL)
    'local'
    """

    PRIVATE = 0
    LOCAL = 1
    GLOBAL = 2

    @classmethod
    def stringify(cls, value: AddressSpace | AutoType) -> str:
        """Return ``private``, ``local``, ``global`` or ``auto``."""
        return "auto" if value is auto else AddressSpace(value).name.lower()


class Memory(Flag):
    """The memory that a barrier makes consistent: of a work-group, of the device, or both.

    >>> print(Memory.GLOBAL | Memory.LOCAL, Memory.LOCAL in Memory.GLOBAL | Memory.LOCAL)
    local and global True
    """

    LOCAL = auto_value()
    GLOBAL = auto_value()

    @classmethod
    def of(cls, array: Any) -> Memory:
        """Return the memory of an array that other work-items can access."""
        space = getattr(array, "address_space", None)
        return cls.LOCAL if space == AddressSpace.LOCAL else cls.GLOBAL

    def __str__(self) -> str:
        return " and ".join(str(memory.name).lower() for memory in self)


class Reach(IntEnum):
    """How far apart two work-items are at most that meet at an element, or that a barrier orders.

    >>> Reach.WARP < Reach.GROUP, str(Reach.GROUP)
    (True, 'two work-items of one work-group')
    """

    WARP = 1
    GROUP = 2
    DEVICE = 3

    def __str__(self) -> str:
        return {
            Reach.WARP: "two work-items of one warp",
            Reach.GROUP: "two work-items of one work-group",
            Reach.DEVICE: "two work-groups",
        }[self]


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return the kind of a numpy type; that of ml_dtypes' ``bfloat16`` is ``f``, too.

    >>> kind_of(np.dtype("float16")), kind_of(np.dtype("complex64"))
    ('f', 'c')
    """
    kind = dtype.kind  # numpy builds this anew on each access
    return "f" if kind == "V" and dtype.name == BFLOAT16 else kind


@lru_cache(maxsize=64)
def largest_real(dtype: np.dtype[Any]) -> float:
    """Return the largest real number of a type.

    >>> largest_real(np.dtype("float16"))
    65504.0
    """
    is_bfloat16 = dtype.kind == "V" and dtype.name == BFLOAT16
    return (2 - 2.0**-7) * 2.0**127 if is_bfloat16 else float(np.finfo(dtype).max)


class KgenType:
    """The base class of element types.

    >>> import numpy as np
    >>> isinstance(to_kgen_type(np.complex64), KgenType), to_kgen_type(np.complex64).itemsize
    (True, 8)
    """

    def is_integral(self) -> bool:
        """Tell whether this is an integer or boolean type."""
        raise NotImplementedError

    def is_complex(self) -> bool:
        """Tell whether this is a complex type."""
        raise NotImplementedError

    def is_composite(self) -> bool:
        """Tell whether this is a structure, of named fields."""
        return False

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The numpy type of one element."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind of number, as numpy has it: ``b i u f c``, or ``V`` for structures."""
        return kind_of(self.numpy_dtype)

    @property
    def is_half(self) -> bool:
        """Whether this is a real number of 16 bits: float16 or bfloat16."""
        return self.kind == "f" and self.itemsize == 2

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.numpy_dtype.itemsize


@dataclass(frozen=True)
class NumpyType(KgenType):
    """An element type given by a numpy dtype.

    >>> import numpy as np
    >>> NumpyType(np.float32), NumpyType(np.float32).is_integral()
    (np:dtype('float32'), False)
    """

    dtype: np.dtype[Any]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __post_init__(self) -> None:
        dtype = _to_numpy(self.dtype)
        if dtype.hasobject:
            raise KgenError(f"'{dtype}' holds Python objects and cannot be an element type")
        if _has_empty_record(dtype):
            raise KgenError(f"the dtype {dtype} has a structure without fields")
        # newbyteorder drops the titles of fields, which are names too
        native = dtype if dtype.isnative else dtype.newbyteorder("=")
        object.__setattr__(self, "dtype", native)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The numpy type of one element."""
        return self.dtype

    @cached_property
    def kind(self) -> str:
        """Return the kind of number; see :attr:`KgenType.kind`."""
        return kind_of(self.dtype)

    def is_integral(self) -> bool:
        """Tell whether this is an integer or boolean type."""
        return self.kind in "iub"

    def is_complex(self) -> bool:
        """Tell whether this is a complex type."""
        return self.kind == "c"

    def involves_complex(self) -> bool:
        """Tell whether this is a complex type."""
        return self.is_complex()

    def is_composite(self) -> bool:
        """Tell whether this is a structure, of named fields."""
        return self.dtype.names is not None

    def __str__(self) -> str:
        return f"np:{self.dtype!r}"

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class AtomicType(NumpyType):
    """An element type whose updates may be atomic."""

    def __str__(self) -> str:
        return f"atomic:{self.dtype!r}"


class AtomicNumpyType(AtomicType):
    """The documented name of :class:`AtomicType`."""


@dataclass(frozen=True, repr=False)
class OpaqueType(NumpyType):
    """A type of the target's language that is known only by its name, such as a library's handle.

    A :class:`ValueArg` can have it, and calls of user-defined functions pass it on. There are
    no arrays and no arithmetic of such values, and only compiled code can pass them to a kernel.

    ::

        ValueArg("mat", OpaqueType("Mat"))  =>  void insert(Mat const mat, ...)

    >>> OpaqueType("Mat"), OpaqueType("Mat") == OpaqueType("Vec")
    (OpaqueType('Mat'), False)
    """

    dtype: np.dtype[Any] = field(default=np.dtype(np.void), init=False, compare=False)
    name: str

    def __post_init__(self) -> None:
        if not str(self.name).isidentifier():
            raise KgenError(
                f"{self.name!r} is not a valid name of a type\n  hint: OpaqueType('Mat')"
            )

    def __repr__(self) -> str:
        return f"OpaqueType({self.name!r})"

    __str__ = __repr__


@lru_cache(maxsize=256)
def _from_numpy(dtype: np.dtype[Any], for_atomic: bool) -> NumpyType:
    return AtomicNumpyType(dtype) if for_atomic else NumpyType(dtype)


@checked
def to_kgen_type(
    dtype: Any,
    allow_auto: bool = True,
    allow_none: bool = True,
    for_atomic: bool = False,
) -> Any:
    """Convert anything that names a numpy dtype to a :class:`KgenType`.

    ``None`` and :data:`auto` mean "to be inferred" and both give ``None``; with *allow_none* or
    *allow_auto* ``False`` they raise :class:`KgenError`. Names are numpy's: ``float`` is float64
    and ``int`` is int64, as in Python, not as in C.

    >>> to_kgen_type("float32")
    np:dtype('float32')
    """
    if dtype is None or dtype is auto:
        if not (allow_none if dtype is None else allow_auto):
            raise KgenError(f"a data type is required, not {dtype!r}\n  hint: name it")
        return None
    if isinstance(dtype, NumpyType):
        if for_atomic and not isinstance(dtype, AtomicType):
            return _from_numpy(dtype.dtype, True)
        return dtype
    if isinstance(dtype, KgenType):
        return dtype
    if isinstance(dtype, str):
        dtype = dtype.strip().removeprefix("np:")
    return _from_numpy(_to_numpy(dtype), bool(for_atomic))


#: Complex numbers that ml_dtypes has.
_HALF_COMPLEX: Final = ("complex32", "bcomplex32")

_TYPE_NAMES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", BFLOAT16, "float32", "float64", "complex64", "complex128"),
)


def _has_empty_record(dtype: np.dtype[Any]) -> bool:
    if dtype.fields is None:
        return False
    return not dtype.fields or any(_has_empty_record(field[0]) for field in dtype.fields.values())


def _to_numpy(dtype: Any) -> np.dtype[Any]:
    try:
        if isinstance(dtype, str) and dtype == BFLOAT16:
            dtype = load("ml_dtypes", BFLOAT16).bfloat16
        converted: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError, AttributeError, LookupError):
        near = near_names(dtype, _TYPE_NAMES) if isinstance(dtype, str) and dtype.strip() else ""
        shown = reprlib.repr(dtype) if isinstance(dtype, str) else f"dtype={reprlib.repr(dtype)}"
        raise KgenError(
            f"{shown} does not name a data type\n  hint: {near or 'numpy.float32, or its name'}"
        ) from None
    if converted.kind not in "biufc" and converted.name in _HALF_COMPLEX:
        raise KgenError(
            f"'{converted.name}' has 16-bit parts, for which no target has arithmetic\n  hint: "
            "complex64, or an array for each part"
        )
    return converted


def read_type(dtype: Any, what: str, *, for_atomic: bool = False, is_stored: bool = True) -> Any:
    """Convert a caller's type of *what*, which errors name.

    If *is_stored*, opaque types are rejected.

    >>> read_type("flaot32", "array 'a'")
    Traceback (most recent call last):
        ...
    kgen.errors.KgenError: in the type of array 'a': 'flaot32' does not name a data type
      hint: did you mean 'float32'?
    """
    try:
        if is_stored and isinstance(dtype, OpaqueType):
            raise KgenError(f"{dtype} has no storage\n  hint: it is the type of a ValueArg")
        return to_kgen_type(dtype, for_atomic=for_atomic)
    except KgenError as err:
        err.args = (f"in the type of {what}: {err}",)
        raise


INT32: Final = NumpyType(np.dtype(np.int32))
INT64: Final = NumpyType(np.dtype(np.int64))
UINT32: Final = NumpyType(np.dtype(np.uint32))
UINT64: Final = NumpyType(np.dtype(np.uint64))
#: A truth value: the type of comparisons, stored in one byte.
BOOL8: Final = NumpyType(np.dtype(np.bool_))
FLOAT16: Final = NumpyType(np.dtype(np.float16))
FLOAT32: Final = NumpyType(np.dtype(np.float32))
FLOAT64: Final = NumpyType(np.dtype(np.float64))
