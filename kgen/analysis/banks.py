"""Banks of local memory: the number of passes over the banks that a warp makes in one access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice, product
from math import gcd
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.evaluator import evaluate

from kgen.analysis.access import Access, collect_accesses
from kgen.analysis.steps import strided_loops
from kgen.ir.affine import LinearForm, linear_form, simplify
from kgen.ir.data import ArrayBase, TemporaryVariable
from kgen.ir.digits import join_digits
from kgen.ir.expr import is_zero, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import Swizzle
from kgen.ir.tags import LocalInameTag, VectorizeTag

__all__ = ["BANKS", "BANK_BYTES", "all_bank_passes", "bank_passes", "passes_of", "words_by_bank"]

BANKS: Final = 32
BANK_BYTES: Final = 4
#: The number of work-items that run an instruction in lockstep.
_WARP: Final = 32
#: The maximum number of values of loops for which passes are determined one by one.
_MOST_VALUES: Final = 64


def all_bank_passes(kernel: LoopKernel, array: ArrayBase) -> dict[Access, int | None]:
    """Return the passes of the accesses to an array, if it were declared as *array* is."""
    changed = kernel.with_declarations({array.name: array})
    accesses = dict.fromkeys(a for a in collect_accesses(changed) if a.array == array.name)
    return {access: bank_passes(changed, access, {}, _WARP) for access in accesses}


def bank_passes(
    kernel: LoopKernel,
    access: Access,
    params: Mapping[str, int],
    subgroup_size: int,
    length: int = 1,
) -> int | None:
    """Return the maximum number of passes of a full warp, for any start.

    A warp needs one pass, and another one for each additional word that its work-items access in
    the same of the 32 banks of four bytes. ``None`` if the strides of work-items are unknown.
    Each work-item accesses *length* contiguous elements at once.
    """
    if access.index is None:
        return None
    most = 1
    for form in _forms(kernel, access, params):
        passes = _passes_at(kernel, access, form, subgroup_size, length)
        if passes is None:
            return None
        most = max(most, passes)
    return most


def _passes_at(
    kernel: LoopKernel, access: Access, form: LinearForm, subgroup_size: int, length: int
) -> int | None:
    """Return the maximum number of passes of an access to the element of number *form*."""
    found = _places(kernel, access, form, subgroup_size, is_vector=length > 1)
    if found is None:
        return None
    lanes, start, step = found
    array = kernel.array_vars[access.array]
    itemsize = array.dtype.itemsize
    wanted = itemsize * length
    swizzle = array.swizzle if isinstance(array, TemporaryVariable) else None
    starts = [0] if swizzle is None else _starts(swizzle, start, step)
    return max(
        passes_of((_stored(swizzle, lanes + start) * itemsize).tolist(), wanted) for start in starts
    )


def _stored(swizzle: Swizzle | None, elements: Any) -> Any:
    return elements if swizzle is None else swizzle.stored(elements)


def _starts(swizzle: Swizzle, start: int, step: int) -> list[int]:
    """Return the possible starts of accesses, up to equivalence."""
    length = gcd(step, swizzle.period) or swizzle.period
    return [(start + length * k) % swizzle.period for k in range(swizzle.period // length)]


def _places(
    kernel: LoopKernel,
    access: Access,
    form: LinearForm,
    subgroup_size: int,
    *,
    is_vector: bool,
) -> tuple[Any, int, int] | None:
    """Return the elements of a warp's work-items, ``lanes + start + step*anything``.

    For a vector, this is the first one.
    """
    axes = _axes(kernel, access)
    points = _points(kernel, subgroup_size)
    values = {name: points[:, axis] for name, axis in axes.items()}
    starts = strided_loops(kernel)
    strided = {loop: values[start] for loop, start in starts.items() if start in values}
    lanes = np.zeros(len(points), np.int64)
    steps: list[int] = []
    for factor, atom in form.terms:
        names = set(variable_names(atom))
        is_mixed = names & axes.keys() and names - axes.keys()
        is_plain = isinstance(atom, p.Variable)
        if is_mixed or (names & strided.keys() and not is_plain):
            return None
        if is_plain and atom.name in strided:
            steps.append(int(factor))
            lanes += int(factor) * strided[atom.name]
        elif names <= axes.keys():
            if any(not is_zero(kernel.axes[name].first) for name in names):
                steps.append(int(factor))
            lanes += int(factor) * evaluate(atom, dict(values))
        elif not (is_vector and is_plain and kernel.has_tag(atom.name, VectorizeTag)):
            steps.append(int(factor))
    return lanes, form.constant, reduce(gcd, steps, 0)


def _axes(kernel: LoopKernel, access: Access) -> dict[str, int]:
    """Return the local axes of the loops over work-items around an access."""
    return {
        name: tag.axis
        for name in access.place.inames
        for tag in kernel.iname_tags_of_type(name, LocalInameTag)
    }


def _forms(kernel: LoopKernel, access: Access, params: Mapping[str, int]) -> Iterator[LinearForm]:
    """Yield the number of the accessed element, for all values of loops that need to be known.

    These share quotients with work-items. If they have many values, these stay unknown.
    """
    form, axes = _form(kernel, access, params), _axes(kernel, access)
    mixed: set[str] = set()
    for _, atom in form.terms:
        names = set(variable_names(atom))
        if names & axes.keys():
            mixed |= names - axes.keys()
    ranges: dict[str, range] = {}
    points = 1
    for name in kernel.in_order(mixed & set(access.place.inames)):
        found = kernel.get_iname_bounds(name).interval
        if found.low is not None and found.count is not None:
            ranges[name] = range(found.low, found.low + found.count)
            points *= found.count
    if not ranges or points > _MOST_VALUES:
        yield form
        return
    for values in product(*ranges.values()):
        yield _form(kernel, access, {**params, **dict(zip(ranges, values, strict=True))})


def _form(kernel: LoopKernel, access: Access, params: Mapping[str, int]) -> LinearForm:
    """Return the number of the accessed element as a linear form."""
    strides = kernel.array_vars[access.array].fixed_strides
    terms = [p.Product((s, i)) for s, i in zip(strides, access.index or (), strict=True)]
    return linear_form(join_digits(simplify(p.Sum((0, *terms)), dict(params))))


def _points(kernel: LoopKernel, subgroup_size: int) -> Any:
    """Return the indices of a warp's work-items along the local axes, a row for each."""
    sizes = kernel.grid.locals
    every = (point[::-1] for point in product(*(range(size) for size in reversed(sizes))))
    points = list(islice(every, subgroup_size))
    return np.array(points, np.int64).reshape(len(points), len(sizes))


def passes_of(offsets: Sequence[int], itemsize: int) -> int:
    """Return the number of passes for elements at these byte offsets, one for each lane.

    >>> passes_of([4 * lane for lane in range(32)], 4), passes_of([8 * k for k in range(32)], 4)
    (1, 2)
    """
    return sum(
        max((len(words) for words in banks.values()), default=1)
        for banks in words_by_bank(offsets, itemsize)
    )


def words_by_bank(offsets: Sequence[int], itemsize: int) -> list[dict[int, set[int]]]:
    """Return the words accessed in each bank, for the lanes that are served at once.

    Wider elements are served for half a warp, or a quarter, at a time.
    """
    at_once = max(1, len(offsets) * BANK_BYTES // max(itemsize, BANK_BYTES))
    found: list[dict[int, set[int]]] = []
    for start in range(0, len(offsets), at_once):
        words: dict[int, set[int]] = {}
        for offset in offsets[start : start + at_once]:
            for word in range(offset // BANK_BYTES, -(-(offset + itemsize) // BANK_BYTES)):
                words.setdefault(word % BANKS, set()).add(word)
        found.append(words)
    return found
