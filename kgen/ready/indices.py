"""Loops over the elements of arrays, and the meaning of the index ``i`` of a snippet in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.ir.expr import Expr, TypeCast
from kgen.ir.types import INT64
from kgen.ready.c_functions import Value
from kgen.ready.expressions import to_index

__all__ = ["MAX_NARROW", "Indices", "assumptions", "wide"]

_LONG: Final = np.dtype(np.int64)


def wide(name: str) -> Expr:
    """Return a variable in 64 bits, as snippets of C compute with indices and sizes."""
    return TypeCast(INT64, p.Variable(name))


#: Sizes up to this are indexed with 32 bits, which leaves room for rounding up in schedules.
MAX_NARROW: Final = 2**31 - 2**24


def assumptions(sizes: Sequence[str], index_dtype: Any) -> str:
    """Return the assumptions on sizes that are indexed by integers of a type."""
    parts = [f"{size} >= 0" for size in sizes]
    if np.dtype(index_dtype).itemsize < _LONG.itemsize:
        parts += [f"{size} <= {MAX_NARROW}" for size in sizes]
    return " and ".join(parts)


@dataclass(frozen=True)
class Indices:
    """Loops over all elements of arrays with *rank* axes, or over a range of flat indices.

    ``size`` is the name of the number of elements of arrays with one axis. A range begins at
    ``start``; it has ``n_indices`` indices that are *step* apart.

    >>> Indices("n", rank=2).domain
    '{ [i_0, i_1]: 0 <= i_0 < n_0 and 0 <= i_1 < n_1 }'
    >>> Indices("n", step=2).index.dtype
    dtype('int64')
    """

    size: str
    rank: int = 1
    step: int | None = None
    names: tuple[str, ...] | None = None

    @cached_property
    def inames(self) -> tuple[str, ...]:
        """The loop variables, outermost first; *names* if they are given."""
        if self.names is not None:
            return self.names
        if self.rank == 1:
            return ("i",) if self.step is None else ("i_in_range",)
        return tuple(f"i_{axis}" for axis in range(self.rank))

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The number of values of each loop."""
        if self.rank == 1:
            return (self.size,) if self.step is None else ("n_indices",)
        return tuple(f"n_{axis}" for axis in range(self.rank))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The numbers that a call passes for the loops."""
        return self.sizes if self.step is None else (*self.sizes, "start", self.size)

    @property
    def domain(self) -> str:
        """The loops as a set."""
        bounds = (
            f"0 <= {iname} < {size}" for iname, size in zip(self.inames, self.sizes, strict=True)
        )
        return f"{{ [{', '.join(self.inames)}]: {' and '.join(bounds)} }}"

    def assume(self, index_dtype: Any) -> str:
        """Return the assumptions on sizes; with narrow indices, they fit after rounding up.

        >>> Indices("n").assume(np.int64)
        'n >= 0'
        >>> Indices("n").assume(np.int32)
        'n >= 0 and n <= 2130706432'
        """
        return assumptions(self.sizes, index_dtype)

    @cached_property
    def index(self) -> Value:
        """The value of ``i``."""
        if self.step is not None:
            steps = wide(self.inames[0])
            if self.step != 1:
                steps = p.Product((np.int64(self.step), steps))
            return Value(p.Sum((wide("start"), steps)), _LONG)
        flat: Expr = wide(self.inames[0])
        for iname, size in zip(self.inames[1:], self.sizes[1:], strict=True):
            flat = p.Sum((p.Product((flat, wide(size))), wide(iname)))
        return Value(flat, _LONG)

    def in_lanes(self, lanes: int) -> tuple[Indices, Indices]:
        """Return the loops over blocks of *lanes* adjacent elements, and over the remainder.

        >>> main, rest = Indices("n").in_lanes(8)
        >>> print(main.domain)
        { [i_block, i_lane]: 0 <= i_block < floor(n/8) and 0 <= i_lane < 8 }
        >>> print(rest.domain)
        { [i_rest]: 8*floor(n/8) <= i_rest < n }
        """
        parts = (self.size, self.rank, self.step, self.names, lanes)
        return _Blocks(*parts), _Rest(*parts)

    @property
    def count(self) -> Value:
        """The value of ``n``: the number of elements of the arrays."""
        factors = (self.size,) if self.rank == 1 else self.sizes
        parts = tuple(map(wide, factors))
        return Value(parts[0] if len(parts) == 1 else p.Product(parts), _LONG)

    @cached_property
    def _flat(self) -> Expr:
        return to_index(self.index.expr)

    def element(self, array: str) -> Expr:
        """Return the access to element ``i``."""
        return self.access(array, self._flat)

    def access(self, array: str, at: Expr) -> Expr:
        """Return the access to an element at a flat index."""
        if self.rank > 1 and at == self._flat:
            return p.Variable(array)[tuple(map(p.Variable, self.inames))]
        return p.Variable(array)[at]


@dataclass(frozen=True)
class _InLanes(Indices):
    """A part of a range of indices that is cut into blocks of *lanes*."""

    lanes: int = 1

    def _at(self, offset: Expr) -> Value:
        if self.step is not None:
            offset = p.Sum((wide("start"), offset))
        return Value(offset, _LONG)


class _Blocks(_InLanes):
    """All full blocks."""

    @cached_property
    def inames(self) -> tuple[str, ...]:
        return ("i_block", "i_lane")

    @property
    def domain(self) -> str:
        block, lane = self.inames
        (size,) = self.sizes
        blocks = f"floor({size}/{self.lanes})"
        return f"{{ [{block}, {lane}]: 0 <= {block} < {blocks} and 0 <= {lane} < {self.lanes} }}"

    @cached_property
    def index(self) -> Value:
        block, lane = map(wide, self.inames)
        return self._at(p.Sum((p.Product((np.int64(self.lanes), block)), lane)))


class _Rest(_InLanes):
    """The remainder after the last full block."""

    @cached_property
    def inames(self) -> tuple[str, ...]:
        return ("i_rest",)

    @property
    def domain(self) -> str:
        (iname,), (size,) = self.inames, self.sizes
        return f"{{ [{iname}]: {self.lanes}*floor({size}/{self.lanes}) <= {iname} < {size} }}"

    @cached_property
    def index(self) -> Value:
        return self._at(wide(self.inames[0]))
