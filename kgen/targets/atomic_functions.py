"""Atomic memory operations of each target: native functions, compare-and-swap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import cgen
import numpy as np

from kgen.ir.atomicity import MemoryOrdering, MemoryScope
from kgen.ir.types import NumpyType
from kgen.targets.definitions import constant, helper_function
from kgen.targets.preamble import Need, Rank

__all__ = ["AtomicFunctions", "AtomicSite", "CAtomics", "CudaAtomics", "OpenCLAtomics"]

Dtype = np.dtype[Any]

#: The names of functions that update integers, by operator.
_WORDS: Final = {
    "+": "add",
    "-": "sub",
    "&": "and",
    "|": "or",
    "^": "xor",
    "min": "min",
    "max": "max",
}
_BASE: Final = ("+", "-")


@dataclass(frozen=True)
class AtomicSite:
    """An atomic access: the element's type, its memory, order and scope.

    ``type_name`` is the language's name of the type. ``is_local``: the element is in the local
    memory of a work-group.
    """

    dtype: Dtype
    type_name: str
    is_local: bool
    ordering: int
    scope: int

    @property
    def is_integer(self) -> bool:
        """Whether arithmetic on the element wraps around."""
        return self.dtype.kind in "iu"

    @property
    def is_half(self) -> bool:
        """Whether the element is a real number of 16 bits."""
        return NumpyType(self.dtype).is_half


class AtomicFunctions:
    """The atomic operations of one language, all relaxed; fences give them an order."""

    #: The widest scope of an atomic access.
    widest_scope: ClassVar[int] = MemoryScope.ALL_SVM_DEVICES

    def update(self, operator: str, site: AtomicSite, place: str, operand: str) -> str | None:
        """Write ``place = place operator operand``; ``None`` if no function does that."""
        raise NotImplementedError

    def needs(self, site: AtomicSite) -> tuple[Need, ...]:
        """Return the preamble of code that calls such a function."""
        return ()

    def pointer(self, site: AtomicSite) -> str:
        """Return the type of a pointer to such an element."""
        return f"{site.type_name} *"

    def exchange(self, site: AtomicSite) -> Need:
        """Return the definition of a compare-and-swap function, whose name is the key.

        ``f(place, seen, value)`` stores *value* at *place* and returns true if the bits there equal
        those at *seen*; otherwise it copies the bits at *place* to *seen*. Bits are compared, not
        numbers: a NaN equals itself, and -0.0 is not 0.0.
        """
        raise NotImplementedError

    def fence(self, site: AtomicSite) -> str:
        """Write the fence that orders the accesses before and after it, as the site requires."""
        raise NotImplementedError


# -- C ---------------------------------------------------------------------------------------


_ORDERS: Final = {
    MemoryOrdering.ACQUIRE: "__ATOMIC_ACQUIRE",
    MemoryOrdering.RELEASE: "__ATOMIC_RELEASE",
    MemoryOrdering.ACQ_REL: "__ATOMIC_ACQ_REL",
    MemoryOrdering.SEQ_CST: "__ATOMIC_SEQ_CST",
}


class CAtomics(AtomicFunctions):
    """The builtins of gcc and clang that implement C11's atomics, for variables of plain types."""

    def update(self, operator: str, site: AtomicSite, place: str, operand: str) -> str | None:
        if not site.is_integer or operator not in _WORDS or operator in ("min", "max"):
            return None
        return f"__atomic_fetch_{_WORDS[operator]}(&{place}, {operand}, __ATOMIC_RELAXED)"

    def exchange(self, site: AtomicSite) -> Need:
        parameters = [
            cgen.Pointer(cgen.Value(site.type_name, "place")),
            cgen.Pointer(cgen.Value(site.type_name, "seen")),
            cgen.Value(site.type_name, "value"),
        ]
        call = "__atomic_compare_exchange(place, seen, &value, 0, %s, %s)"
        body = [cgen.Statement("return " + call % (("__ATOMIC_RELAXED",) * 2))]
        return helper_function(
            "static inline int", f"kgen_exchange_{site.dtype.name}", parameters, body
        )

    def fence(self, site: AtomicSite) -> str:
        return f"__atomic_thread_fence({_ORDERS[site.ordering]})"


# -- devices ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Word:
    """The word of 32 or 64 bits that a device exchanges.

    ``call`` is the function that does it; ``to_bits`` and ``from_bits`` are patterns for an element
    as a word of this type, and back.
    """

    type_name: str
    call: str
    to_bits: str
    from_bits: str


def _exchange(
    called: str, declared: str, site: AtomicSite, word: _Word, qualifiers: str = ""
) -> Need:
    """Write the function that exchanges an element at an address with these *qualifiers*."""
    pointer = f"{qualifiers}{word.type_name} *"
    size = site.dtype.itemsize
    body = _exchange_word(word, pointer) if size >= 4 else _exchange_part(word, pointer, 8 * size)
    parameters = [
        cgen.Pointer(cgen.Value(qualifiers + site.type_name, "place")),
        cgen.Pointer(cgen.Value(site.type_name, "seen")),
        cgen.Value(site.type_name, "value"),
    ]
    return helper_function(declared, called, parameters, body)


def _exchange_word(word: _Word, pointer: str) -> list[cgen.Generable]:
    expected = word.to_bits.format("*seen")
    wanted = word.to_bits.format("value")
    return [
        constant(word.type_name, "expected", expected),
        constant(word.type_name, "found", f"{word.call}(({pointer}) place, expected, {wanted})"),
        cgen.Assign("*seen", word.from_bits.format("found")),
        cgen.Statement("return found == expected"),
    ]


def _exchange_part(word: _Word, pointer: str, bits: int) -> list[cgen.Generable]:
    """Exchange an element smaller than a word by exchanging the word that it is in.

    It also fails if only the rest of the word has changed.
    """
    kind = word.type_name

    def put(value: str) -> str:
        return f"rest | ({kind}) {word.to_bits.format(value)} << shift"

    return [
        constant(kind, "shift", f"8 * ({kind}) ((size_t) place & 3)"),
        cgen.Initializer(cgen.Value(pointer, "word"), f"({pointer}) ((size_t) place & ~3)"),
        constant(kind, "rest", f"*word & ~(({kind}) {2**bits - 1:#x} << shift)"),
        constant(kind, "expected", put("*seen")),
        constant(kind, "found", f"{word.call}(word, expected, {put('value')})"),
        cgen.Assign("*seen", word.from_bits.format("(found >> shift)")),
        cgen.Statement("return found == expected"),
    ]


class OpenCLAtomics(AtomicFunctions):
    """OpenCL 1.1's functions; those on 64 bits are extensions."""

    widest_scope: ClassVar[int] = MemoryScope.WORK_DEVICE

    def update(self, operator: str, site: AtomicSite, place: str, operand: str) -> str | None:
        if not site.is_integer or site.dtype.itemsize < 4:
            return None
        prefix = "atomic" if site.dtype.itemsize == 4 else "atom"
        return f"{prefix}_{_WORDS[operator]}(&{place}, {operand})" if operator in _WORDS else None

    def needs(self, site: AtomicSite) -> tuple[Need, ...]:
        if site.dtype.itemsize < 8:
            return ()
        return tuple(
            Need(Rank.PRAGMA, name, f"#pragma OPENCL EXTENSION {name}: enable")
            for name in ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
        )

    def pointer(self, site: AtomicSite) -> str:
        return f"{_space(site)} {site.type_name} *"

    def exchange(self, site: AtomicSite) -> Need:
        size, name = site.dtype.itemsize, site.type_name
        if size == 8:
            word = _Word("long", "atom_cmpxchg", "as_long({})", f"as_{name}({{}})")
        elif size == 4:
            word = _Word("int", "atomic_cmpxchg", "as_int({})", f"as_{name}({{}})")
        else:
            part = "uchar" if size == 1 else "ushort"
            back = f"as_{name}(({part}) {{}})"
            word = _Word("uint", "atomic_cmpxchg", f"as_{part}({{}})", back)
        called = f"kgen_exchange_{'local' if site.is_local else 'global'}_{site.dtype.name}"
        return _exchange(called, "static inline int", site, word, f"volatile {_space(site)} ")

    def fence(self, site: AtomicSite) -> str:
        return "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"


def _space(site: AtomicSite) -> str:
    return "__local" if site.is_local else "__global"


class CudaAtomics(AtomicFunctions):
    """CUDA's functions, for one work-group, the device or the system."""

    _suffixes: Final = {MemoryScope.WORK_GROUP: "_block", MemoryScope.ALL_SVM_DEVICES: "_system"}

    def update(self, operator: str, site: AtomicSite, place: str, operand: str) -> str | None:
        is_sum = operator in _BASE
        if operator not in _WORDS or (site.dtype.itemsize < 4 and not (is_sum and site.is_half)):
            return None
        if not (site.is_integer or is_sum):
            return None
        if operator == "-":
            operand = f"-({operand})"
        word = "Add" if is_sum else _WORDS[operator].title()
        address = f"&{place}"
        if site.dtype == np.int64 and operator not in ("min", "max"):
            address = f"(unsigned long long *) {address}"  # as good, and all that there is
        return f"atomic{word}{self._suffix(site)}({address}, {operand})"

    def _suffix(self, site: AtomicSite) -> str:
        return "" if site.is_local else self._suffixes.get(site.scope, "")

    def exchange(self, site: AtomicSite) -> Need:
        size, name = site.dtype.itemsize, site.type_name
        suffix = self._suffix(site)
        kind = "unsigned long long" if size == 8 else "unsigned int"
        to_bits, from_bits = f"({kind}) {{}}", f"({name}) {{}}"
        if site.dtype.kind == "f":
            whole = "longlong" if size == 8 else "int"
            to_bits, from_bits = f"__{name}_as_{whole}({{}})", f"__{whole}_as_{name}({{}})"
        if size < 4:
            part = "unsigned char" if size == 1 else "unsigned short"
            to_bits, from_bits = f"({part}) {{}}", f"({name}) ({part}) {{}}"
        if site.is_half:
            stem = "half" if site.dtype == np.float16 else "bfloat16"
            to_bits, from_bits = f"__{stem}_as_ushort({{}})", f"__ushort_as_{stem}({{}})"
        word = _Word(kind, f"atomicCAS{suffix}", to_bits, from_bits)
        called = f"kgen_exchange{suffix}_{site.dtype.name}"
        return _exchange(called, "static __device__ inline int", site, word)

    def fence(self, site: AtomicSite) -> str:
        return f"__threadfence{self._suffix(site)}()"
