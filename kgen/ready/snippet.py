"""The common parts of C snippets in a ready kernel: arguments, preamble functions, names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.errors import InvocationError, KernelError, counted
from kgen.ir.data import GlobalArg, ValueArg
from kgen.ir.expr import Expr
from kgen.ir.target import TargetBase
from kgen.ready.c_functions import stored_at
from kgen.ready.c_text import CArgument, Preamble
from kgen.ready.expressions import Scope
from kgen.ready.indices import Indices
from kgen.ready.places import flat
from kgen.ready.structures import check_structure, declarations, is_structure

__all__ = ["Elements", "Signature", "allocator_of", "call_options", "fit", "plain_arrays"]

_RESERVED = ("i", "start", "n_indices")


@dataclass(frozen=True)
class Signature:
    """The arguments of a ready kernel, and the functions and types that its snippets can use."""

    kernel: str
    arguments: tuple[CArgument, ...]
    preamble: Preamble = field(default_factory=Preamble)

    def __post_init__(self) -> None:
        for one in self.arguments:
            if one.name in _RESERVED:
                raise KernelError(
                    f"an argument is called '{one.name}', a name that the kernel uses itself",
                    kernel=self.kernel,
                    hint="rename it",
                )
            check_structure(one.dtype, f"argument '{one.name}'")
            if is_structure(one.dtype) and not one.is_array:
                raise KernelError(
                    f"argument '{one.name}' is a structure, which a call cannot pass by value",
                    kernel=self.kernel,
                    hint=f"declare it as a pointer, pass an array, and write {one.name}[0]",
                )
        if not self.arrays:
            raise KernelError(
                "there is no array among the arguments",
                kernel=self.kernel,
                hint="declare arrays as pointers: float *x",
            )

    @cached_property
    def arrays(self) -> tuple[CArgument, ...]:
        """The arguments that are arrays."""
        return tuple(one for one in self.arguments if one.is_array)

    @cached_property
    def size(self) -> str:
        """The name of the number of elements: ``n`` if no argument has that name."""
        taken = {one.name for one in self.arguments}
        return next(name for name in ("n", "N", "n_elements") if name not in taken)

    def scope(self, indices: Indices, access: Callable[[str, Expr], Expr] | None = None) -> Scope:
        """Return the meaning of names in snippets inside loops over elements."""
        count = indices.count
        numbers = {"n": count, "N": count}
        numbers |= {
            one.name: stored_at(p.Variable(one.name), one.dtype)
            for one in self.arguments
            if not one.is_array
        }
        numbers["i"] = indices.index
        arrays = {one.name: one.dtype for one in self.arrays}
        constants = frozenset(one.name for one in self.arrays if one.is_const)
        functions, types = self.preamble.functions, self.preamble.types
        return Scope(numbers, arrays, functions, access or indices.access, constants, types)

    def preambles(self, target: TargetBase, *more: Any) -> list[tuple[str, str]]:
        """Return the declarations of structures, of the arguments and *more* types."""
        types = [*self.preamble.types.values(), *(one.dtype for one in self.arguments), *more]
        return declarations(target, types)

    def declare(self, indices: Indices, plain: frozenset[str], index_dtype: Any) -> Iterator[Any]:
        """Yield all declarations; *plain* arrays have an element for each index."""
        for one in self.arguments:
            if not one.is_array:
                yield ValueArg(one.name, one.dtype)
            elif one.name in plain and indices.step is None:
                yield GlobalArg(one.name, one.dtype, shape=indices.sizes)
            else:  # the start of a range is unknown
                shape = (None,) if indices.step is None else None
                yield GlobalArg(one.name, one.dtype, shape=shape)
        yield from (ValueArg(name, index_dtype) for name in indices.parameters)


def plain_arrays(signature: Signature, read: Callable[[Scope], Any]) -> frozenset[str]:
    """Return the arrays that snippets access only as ``x[i]``.

    *read* translates the snippets in a scope.
    """
    found = {one.name for one in signature.arrays}

    def note(array: str, at: Expr) -> Expr:
        if at != p.Variable("i"):
            found.discard(array)
        return p.Variable(array)[at]

    read(signature.scope(Indices(signature.size), note))
    return frozenset(found)


@dataclass(frozen=True)
class Elements:
    """The arguments of a call, in the layout that code is generated for."""

    indices: Indices
    arguments: dict[str, Any]
    size: int
    restrict: bool
    #: Whether arrays are as passed, with one axis, and all indices are used.
    is_plain: bool = False


def fit(
    signature: Signature,
    plain: frozenset[str],
    given: dict[str, Any],
    range_: slice | None,
    slice_: slice | None,
) -> Elements:
    """Return the arguments of a call for loops over all elements, or over a range of them.

    Arrays without gaps get one axis. Others keep theirs if all have the same shape.
    """
    names = [one.name for one in signature.arrays]
    arrays = [given[name] for name in names]
    restrict = len({id(array) for array in arrays}) == len(arrays)
    first = arrays[0]
    if range_ is not None or slice_ is not None:
        given = {**given, **{name: _flat(signature, name, given[name]) for name in names}}
        size = int(np.prod(first.shape))
        chosen = _range(signature, size, range_, slice_)
        _check_range(signature, {name: given[name].shape[0] for name in sorted(plain)}, chosen)
        given |= {"start": chosen.start, "n_indices": len(chosen), signature.size: size}
        indices = Indices(signature.size, step=chosen.step)
        return Elements(indices, given, len(chosen) + abs(chosen.start), restrict)
    shape = first.shape
    if len(shape) == 1:
        if all(array.shape == shape for array in arrays):
            if plain != frozenset(names):
                given[signature.size] = shape[0]
            return Elements(Indices(signature.size), given, shape[0], restrict, is_plain=True)
        return _of_lengths(signature, plain, given, restrict)
    flattened = [flat(array) for array in arrays]
    is_same = all(array.shape == shape for array in arrays)
    orders = {(a.flags.c_contiguous, a.flags.f_contiguous) for a in arrays}
    has_gaps = any(array is None for array in flattened)
    if not has_gaps and (len(orders) == 1 or not is_same):
        given = {**given, **dict(zip(names, flattened, strict=True))}
        return _of_lengths(signature, plain, given, restrict)
    if not is_same or plain != frozenset(names):
        raise InvocationError(
            "arrays of several axes have gaps, and not all of one shape are used as x[i]",
            kernel=signature.kernel,
            hint="pass copies without gaps: x.copy()",
        )
    size = int(np.prod(shape))
    return Elements(Indices(signature.size, rank=len(shape)), given, size, restrict)


def _flat(signature: Signature, name: str, array: Any) -> Any:
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise InvocationError(
            f"argument '{name}' has gaps between its elements, which a range does not support",
            kernel=signature.kernel,
            hint=f"pass {name}.copy()",
        )
    return flat(array)


def _range(signature: Signature, size: int, range_: slice | None, slice_: slice | None) -> range:
    """Return the indices of a range, or of a slice of an array of *size* elements."""
    if range_ is not None and slice_ is not None:
        raise InvocationError("range and slice are both given", kernel=signature.kernel)
    name, given = ("slice", slice_) if range_ is None else ("range", range_)
    try:
        assert isinstance(given, slice)
        if name == "slice":
            return range(*given.indices(size))
        return range(given.start or 0, given.stop, 1 if given.step is None else given.step)
    except (AssertionError, TypeError, ValueError) as error:
        raise InvocationError(
            f"{name}={given!r} does not select indices",
            kernel=signature.kernel,
            hint=f"{name}=slice(first, end, step), of integers; the step is not 0",
        ) from error


def _check_range(signature: Signature, lengths: Mapping[str, int], chosen: range) -> None:
    """Check that arrays that are accessed as ``x[i]`` have an element for each index."""
    for name, length in lengths.items():
        for index in (chosen[0], chosen[-1]) if chosen else ():
            if not 0 <= index < length:
                raise InvocationError(
                    f"argument '{name}' has {counted(length, 'element')}, and the range "
                    f"contains index {index}",
                    kernel=signature.kernel,
                    point=f"{name}[{index}] at i = {index}",
                    hint="pass larger arrays, or another range=slice(first, end, step)",
                )


def _of_lengths(
    signature: Signature, plain: frozenset[str], given: dict[str, Any], restrict: bool
) -> Elements:
    """Return the arguments with one-dimensional arrays; the first one gives the length."""
    names = [one.name for one in signature.arrays]
    size = given[names[0]].shape[0]
    given = dict(given)
    for name in plain:
        length = given[name].shape[0]
        if length < size:
            raise InvocationError(
                f"argument '{name}' has {length} elements, and '{names[0]}', the first array, "
                f"has {size}",
                kernel=signature.kernel,
                point=f"{name}[{length}] at i = {length}",
                hint="pass arrays of one length, or range=slice(...)",
            )
        if length > size:
            given[name] = given[name][:size]
    if plain != frozenset(names):
        given[signature.size] = size
    return Elements(Indices(signature.size), given, size, restrict)


def allocator_of(arrays: Iterable[Any]) -> Any:
    """Return the allocator of the first device array's memory, or ``None``."""
    return next((array.allocator for array in arrays if hasattr(array, "allocator")), None)


def call_options(**options: Any) -> dict[str, Any]:
    """Return the given options of a call, apart from the arguments of its kernel.

    >>> call_options(wait_for=None, stream=3)
    {'stream': 3}
    """
    return {name: value for name, value in options.items() if value is not None}
