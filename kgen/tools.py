"""Names of structures for ready kernels, and declared arguments, as in ``pyopencl.tools``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgen.errors import KernelError
from kgen.lazy import more_names
from kgen.ready.c_types import NAMED_TYPES, Dtype, find_type
from kgen.ready.structures import (
    NAMES,
    as_in_c,
    check_structure,
    fields_of,
    is_structure,
    type_text,
)

__all__ = [
    "ScalarArg",
    "VectorArg",
    "dtype_to_ctype",
    "get_or_register_dtype",
    "match_dtype_to_c_struct",
    "register_dtype",
]

if not TYPE_CHECKING:  # programs written for loopy use its names, too
    __getattr__ = more_names(__name__, "kgen.compat.loopy.tools")


@dataclass(frozen=True)
class VectorArg:
    """An argument of a ready kernel that is an array of elements of a type.

    >>> VectorArg(np.float32, "x").name
    'x'
    """

    dtype: Any
    name: str


@dataclass(frozen=True)
class ScalarArg:
    """An argument of a ready kernel that is a number."""

    dtype: Any
    name: str


def get_or_register_dtype(names: str | Sequence[str], dtype: Any = None) -> Dtype:
    """Return the type of a name; register a structure by its names first, if *dtype* is given.

    >>> get_or_register_dtype("pair_t", np.dtype([("lo", "f4"), ("n", "i4")]))
    dtype([('lo', '<f4'), ('n', '<i4')])
    >>> from kgen.elementwise import ElementwiseKernel
    >>> pairs = np.zeros(3, get_or_register_dtype("pair_t"))
    >>> ElementwiseKernel("pair_t *x", "x[i].n = 2*i")(pairs)
    >>> pairs["n"]
    array([0, 2, 4], dtype=int32)

    Raises :class:`kgen.errors.KgenError` for an unknown name, for a name of another type, and for
    a structure with a field that is an array.
    """
    known = [names] if isinstance(names, str) else list(names)
    if dtype is None:
        (name, *_) = known
        return find_type(name.split(), "get_or_register_dtype", NAMES)
    found: Dtype = np.dtype(dtype)
    for name in known:
        register_dtype(found, name)
    return found


def register_dtype(dtype: Any, name: str) -> None:
    """Register a structure by a name, which snippets of ready kernels can use.

    >>> register_dtype(np.dtype([("re", "f8"), ("im", "f8")]), "value_t")
    >>> dtype_to_ctype(np.dtype([("re", "f8"), ("im", "f8")]))
    'value_t'
    """
    dtype = np.dtype(dtype)
    other = NAMED_TYPES.get(name, NAMES.get(name, dtype))
    if other != dtype or not name.isidentifier() or not name.isascii():
        raise KernelError(
            f"'{name}' cannot be the name of a {type_text(dtype)}"
            + (f": it is that of a {type_text(other)}" if other != dtype else ""),
            hint="choose another name",
        )
    if name not in NAMED_TYPES:
        NAMES[name] = check_structure(dtype, f"the structure '{name}'")


def dtype_to_ctype(dtype: Any) -> str:
    """Return the name of a type in C: one that is registered, or that of a number.

    >>> dtype_to_ctype(np.int32), dtype_to_ctype(np.complex64)
    ('int', 'cfloat_t')
    """
    dtype = np.dtype(dtype)
    names = _NUMBERS | {known: name for name, known in (NAMED_TYPES | NAMES).items()}
    name = _NUMBERS.get(dtype, names.get(dtype))
    if name is None:
        raise KernelError(
            f"there is no name for {type_text(dtype)}",
            hint="get_or_register_dtype('NAME', dtype)",
        )
    return name


_NUMBERS = {
    np.dtype(number): name
    for name, number in {
        "char": np.int8,
        "short": np.int16,
        "int": np.int32,
        "long": np.int64,
        "uint": np.uint32,
        "float": np.float32,
        "double": np.float64,
    }.items()
}


def match_dtype_to_c_struct(
    device: Any, name: str, dtype: Any, context: Any = None
) -> tuple[Dtype, str]:
    """Return a structure as C lays it out, and its declaration for a preamble.

    *device* and *context* are arguments of pyopencl that may be ``None``.

    >>> dtype, declaration = match_dtype_to_c_struct(None, "pair_t", np.dtype("i1,f4"))
    >>> print(declaration)
    typedef struct {
      char f0;
      float f1;
    } pair_t;
    >>> dtype.fields["f1"]
    (dtype('float32'), 4)
    """
    dtype = np.dtype(dtype)
    if not is_structure(dtype):
        raise KernelError(f"{dtype} is not a structure", hint='np.dtype([("x", np.float32)])')
    check_structure(dtype, f"the structure '{name}'")
    lines = [f"  {dtype_to_ctype(kind)} {field};" for field, kind in fields_of(dtype).items()]
    return as_in_c(dtype), "\n".join(["typedef struct {", *lines, f"}} {name};"])
