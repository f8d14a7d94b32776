"""Types of C, OpenCL C and CUDA C++ by name, and C's conversions of operands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from kgen.errors import KgenSyntaxError, near_names
from kgen.ir.vector_values import COUNTS, NUMBER_NAMES, vector_type

__all__ = ["Dtype", "NAMED_TYPES", "arithmetic", "find_type", "promoted", "without_templates"]

Dtype = np.dtype[Any]

_SCALARS: Final = {
    "bool": "bool",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "half": "float16",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "index_type": "int64",
    "cfloat_t": "complex64",
    "cdouble_t": "complex128",
    **{f"{kind}{bits}_t": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (32, 64)},
}
_VECTORS: Final = {
    f"{name}{count}": vector_type(np.dtype(number), count).numpy_dtype
    for name, number in NUMBER_NAMES.items()
    if name != "half"
    for count in COUNTS
}
#: Types that have a name in OpenCL C, CUDA C++, pyopencl or pycuda, in addition to those of C.
NAMED_TYPES: Final[dict[str, Dtype]] = {
    **{name: np.dtype(dtype) for name, dtype in _SCALARS.items()},
    **_VECTORS,
}
#: The types of C, by their sorted words without ``signed`` and ``int``.
_OF_C: Final = {
    ("char",): "int8",
    ("char", "unsigned"): "uint8",
    ("short",): "int16",
    ("short", "unsigned"): "uint16",
    (): "int32",
    ("_Bool",): "bool",
    ("unsigned",): "uint32",
    ("long",): "int64",
    ("long", "unsigned"): "uint64",
    ("long", "long"): "int64",
    ("long", "long", "unsigned"): "uint64",
    ("float",): "float32",
    ("double",): "float64",
    ("_Complex", "float"): "complex64",
    ("_Complex", "double"): "complex128",
}
_WORDS: Final = ("char", "short", "int", "long", "float", "double")
_TEMPLATES: Final = (
    (re.compile(r"\b(?:pycuda|std|thrust|cuda)\s*::\s*complex\s*<\s*float\s*>"), "cfloat_t"),
    (re.compile(r"\b(?:pycuda|std|thrust|cuda)\s*::\s*complex\s*<\s*double\s*>"), "cdouble_t"),
    (re.compile(r"\b(?:pycuda|std|thrust|cuda)\s*::\s*"), ""),
)


def without_templates(text: str) -> str:
    """Return C++ with names of C for the types of complex numbers.

    >>> without_templates("pycuda::complex<float> *z")
    'cfloat_t *z'
    """
    for pattern, name in _TEMPLATES:
        text = pattern.sub(name, text)
    return text


def find_type(words: list[str], where: str, structures: Mapping[str, Dtype] | None = None) -> Dtype:
    """Return the type that *words* name, or raise an error; *structures* are known by name.

    >>> find_type(["unsigned", "long"], "argument 'x'")
    dtype('uint64')
    """
    structures = structures or {}
    for known in (structures, NAMED_TYPES):
        if len(words) == 1 and words[0] in known:
            return known[words[0]]
    rest = tuple(sorted(word for word in words if word not in ("signed", "int")))
    if rest in _OF_C:
        return np.dtype(_OF_C[rest])
    name = " ".join(words)
    raise KgenSyntaxError(
        f"'{name}' is not a known type",
        where=where,
        hint=f"{near_names(name, [*structures, *NAMED_TYPES, *_WORDS])}; name a structure by "
        f"kgen.tools.get_or_register_dtype('{name}', dtype)",
    )


def promoted(dtype: Dtype) -> Dtype:
    """Return the type in which C computes with one operand: int at least.

    >>> promoted(np.dtype(np.uint8)), promoted(np.dtype(np.float32))
    (dtype('int32'), dtype('float32'))
    """
    is_short = dtype.kind in "bui" and dtype.itemsize < np.dtype(np.int32).itemsize
    return np.dtype(np.int32) if is_short else dtype


def arithmetic(one: Dtype, other: Dtype) -> Dtype:
    """Return the type in which C computes with two operands (its usual arithmetic conversions).

    >>> arithmetic(np.dtype(np.int64), np.dtype(np.float32))
    dtype('float32')
    >>> arithmetic(np.dtype(np.int32), np.dtype(np.uint32))
    dtype('uint32')
    """
    one, other = promoted(one), promoted(other)
    if one.kind == "V" or other.kind == "V":
        return one if one.kind == "V" else other
    if "c" in one.kind + other.kind:
        size = max(_real_size(one), _real_size(other), 4)
        return np.dtype(np.complex64 if size == 4 else np.complex128)
    if "f" in one.kind + other.kind:
        return max((d for d in (one, other) if d.kind == "f"), key=lambda d: d.itemsize)
    if one.itemsize != other.itemsize:
        return max(one, other, key=lambda d: d.itemsize)
    return one if one.kind == "u" else other


def _real_size(dtype: Dtype) -> int:
    """Return the bytes of a real part; 0 for integers, which do not widen real numbers."""
    return {"c": dtype.itemsize // 2, "f": dtype.itemsize}.get(dtype.kind, 0)
