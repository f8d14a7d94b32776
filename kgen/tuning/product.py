"""The combinations of values that satisfy conditions, joined parameter by parameter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgen.errors import KgenError
from kgen.tuning.columns import Column, Table, column_of
from kgen.tuning.restrictions import Condition

__all__ = ["LIMIT", "restricted_product"]

Positions: TypeAlias = NDArray[np.int32]

#: The maximum number of combinations.
LIMIT = 2**26
#: The number of combinations that are tested together, which fit in the processor's cache.
_BLOCK = 2**15


def restricted_product(
    tune_params: Mapping[str, Sequence[Any]], conditions: Sequence[Condition]
) -> Positions:
    """Return the positions of values of all combinations that satisfy all conditions, in order.

    Parameters are joined in the order in which conditions become decidable: what a condition
    rejects is rejected before other parameters multiply it. The order of the result is that of
    ``itertools.product``.

    :raises KgenError: a condition cannot be evaluated, or rejects all that remain, or too many
        combinations are left
    """
    values = {name: column_of(listed) for name, listed in tune_params.items()}
    found = _Partial(values, (), np.zeros((0, 1), np.int32))
    left = list(conditions)
    while left:
        chosen = min(left, key=lambda condition: found.growth(condition.needed))
        found = found.join(chosen.needed, chosen)
        left.remove(chosen)
    return found.join(frozenset(values)).in_order()


@dataclass(frozen=True)
class _Partial:
    """Combinations of some parameters: ``places[parameter, number]`` in the lists of values."""

    values: Mapping[str, Column]
    names: tuple[str, ...]
    places: Positions

    def growth(self, names: frozenset[str]) -> int:
        """Return the factor by which joining parameters multiplies the combinations."""
        return math.prod(self._size(name) for name in names - {*self.names})

    def join(self, names: frozenset[str], condition: Condition | None = None) -> _Partial:
        """Return the combinations extended by more parameters for which a condition holds."""
        new = tuple(name for name in self.values if name in names and name not in self.names)
        if len(new) > 1 and self.growth(frozenset(new)) > _BLOCK:
            return self.join(frozenset(new[:1])).join(names, condition)
        if condition is None:
            _check_count(self.places.shape[1] * self.growth(frozenset(new)))
        blocks, count = [], 0
        for block in self._blocks(new, condition):
            blocks.append(block)
            count += block.shape[1]
            _check_count(count)
        if condition is not None and not count:
            raise self._none_left(new, condition)
        return _Partial(self.values, self.names + new, np.concatenate(blocks, axis=1))

    def in_order(self) -> Positions:
        """Return a row for each combination, sorted, with a column for each parameter."""
        columns = [self.places[self.names.index(name)] for name in self.values]
        rows = np.stack(columns, axis=1)
        return rows if self.names == tuple(self.values) else rows[np.lexsort(columns[::-1])]

    def _size(self, name: str) -> int:
        return len(self.values[name].values)

    def _blocks(self, new: tuple[str, ...], condition: Condition | None) -> Iterator[Positions]:
        """Yield combinations extended by more parameters, in blocks of the old ones."""
        sizes = [self._size(name) for name in new]
        factor, total = math.prod(sizes), self.places.shape[1]
        added = np.indices(sizes, np.int32).reshape(len(new), factor)
        step = max(1, _BLOCK // factor)
        needed = frozenset[str]() if condition is None else condition.needed
        tiled = _columns(self.values, new, np.tile(added, step), needed)
        for start in range(0, total, step):
            old = self.places[:, start : start + step]
            count = old.shape[1] * factor
            kept = np.arange(count)
            if condition is not None:
                columns = {name: column.take(slice(count)) for name, column in tiled.items()}
                columns |= _columns(self.values, self.names, np.repeat(old, factor, axis=1), needed)
                kept = np.flatnonzero(condition.mask(Table(columns, count)))
            number, place = np.divmod(kept, factor)
            yield np.concatenate([old[:, number], added[:, place]])

    def _none_left(self, new: tuple[str, ...], condition: Condition) -> KgenError:
        first = np.concatenate([self.places[:, :1], np.zeros((len(new), 1), np.int32)])
        columns = _columns(self.values, self.names + new, first, condition.needed)
        return KgenError(
            f"no configuration satisfies restriction {condition.text}",
            point=Table(columns, 1).first_row(),
            because="it is false here, and wherever the other restrictions hold",
        )


def _check_count(count: int) -> None:
    if count > LIMIT:
        raise KgenError(
            f"the search space has more than {LIMIT} configurations",
            hint="shorten lists of values, or add restrictions",
        )


def _columns(
    values: Mapping[str, Column], names: Sequence[str], places: Positions, needed: frozenset[str]
) -> dict[str, Column]:
    """Return columns of the values of parameters that are *needed*."""
    pairs = zip(names, places, strict=True)
    return {name: values[name].take(places) for name, places in pairs if name in needed}
