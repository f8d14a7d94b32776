"""Ranges of indices: where 32 bits provably suffice."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, Self

import islpy as isl
import pymbolic.primitives as p

from kgen.analysis.footprints import Footprints
from kgen.analysis.intervals import IntervalFinder, assumed_of
from kgen.ir.analyses import Analysis
from kgen.ir.data import ArrayBase, TemporaryVariable, ValueArg
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TypeCast,
    is_zero,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, SeparateArrayArrayDimTag
from kgen.ir.sets.dims import Set, bound_param, from_named, has_dim, param_names, params_space
from kgen.ir.sets.domain import constant_bounds, numeric_bounds
from kgen.ir.sets.interval import ANYTHING, Interval, range_of_type
from kgen.ir.types import INT32, INT64, NumpyType, auto

__all__ = ["PARAM_LIMIT", "Ranges", "Sizes", "index_type", "is_int32", "loop_type"]

#: The largest value that a caller may pass for an int32 size. The remaining 2**20 - 1
#: values leave room for ``128*group + item`` and ``n + 15``; calls with larger sizes are rejected.
PARAM_LIMIT: Final = 2**31 - 2**20

_INT32_MAX: Final = 2**31 - 1


def index_type(kernel: LoopKernel, array_name: str) -> NumpyType:
    """Return int32 if every linear index into an array provably fits, else int64.

    For an array of a declared shape, these are all indices within it; for one of unknown
    extent, those of its accesses, which must be affine.
    """
    return Ranges.of(kernel).index_type(array_name)


def loop_type(kernel: LoopKernel, iname: str) -> NumpyType:
    """Return int32 if all values of a loop variable, and the next one, fit, else int64."""
    return Ranges.of(kernel).loop_type(iname)


class Ranges(IntervalFinder):
    """The constant bounds of a kernel's parameters, loop variables and array indices.

    They follow from the kernel's assumptions and the types of its arguments;
    ``Ranges.of(kernel)`` caches them as long as these stay the same.
    """

    def __init__(self, kernel: LoopKernel) -> None:
        super().__init__(kernel)
        self._loops: dict[str, NumpyType] = {}
        self._arrays: dict[str, NumpyType] = {}

    @classmethod
    def of(cls, kernel: LoopKernel) -> Self:
        """Return the ranges of *kernel*, which caches their results."""
        ranges = cls(kernel)
        tables = kernel.analyses.answer(_RANGES, cls.__name__, ranges._tables)
        ranges.__dict__.update(tables)
        return ranges

    def _tables(self) -> dict[str, dict[Any, Any]]:
        """Return the tables cached by the kernel, without a reference to it."""
        return {name: table for name, table in self.__dict__.items() if isinstance(table, dict)}

    def loop_type(self, iname: str) -> NumpyType:
        """Return the type of a loop variable."""
        found = self._loops.get(iname)
        if found is None:
            found = self._loops[iname] = self._find_loop_type(iname)
        return found

    def index_type(self, array_name: str) -> NumpyType:
        """Return the type of linear indices into an array."""
        found = self._arrays.get(array_name)
        if found is None:
            array = self.kernel.array_vars[array_name]
            found = self._arrays[array_name] = self._find_index_type(array)
        return found

    def is_param(self, name: str) -> bool:
        """Tell whether there are facts about a parameter of this name."""
        return has_dim(self._lifted, name)

    def fits(self, expr: Expr) -> bool:
        """Tell whether all values of an integer expression are proved to be int32."""
        return is_int32(self.interval(expr))

    def survey(self, expr: Expr) -> tuple[Interval, bool]:
        """Return bounds of *expr*, and whether an intermediate result may exceed 32 bits.

        For example ``(n + m) // 2 - n``, with large ``n`` and ``m``. Intermediate results are those
        of operations; sums are added from left to right. Data have their types' ranges.
        """
        if type(expr) in _WITHOUT_STEPS:
            return self.interval(expr), False
        survey = _Survey(self)
        return survey.interval(expr), survey.has_large

    def has_large_steps(self, expr: Expr) -> bool:
        """Tell whether the known bounds of an intermediate result of *expr* exceed 32 bits."""
        return type(expr) not in _WITHOUT_STEPS and self.survey(expr)[1]

    def find(self, name: str) -> Interval:
        """Return the bounds of a loop variable, in its domain, or of a parameter: at most int64."""
        if name in self.kernel.inames:
            return self.in_domain(name, self._context)
        found = range_of_type(INT64.dtype)
        if not self.is_param(name):
            return found
        known = constant_bounds(self._lifted, name)
        low = found.low if known.low is None else known.low
        return Interval(low, found.high if known.high is None else known.high)

    @property
    def _context(self) -> Set:
        return self._known[0]

    @property
    def _lifted(self) -> Set:
        return self._known[1]

    @cached_property
    def _known(self) -> tuple[Set, Set]:
        return self.kernel.analyses.answer(_KNOWN, None, lambda: _find_known(self.kernel))

    def _find_loop_type(self, iname: str) -> NumpyType:
        if self.kernel.index_dtype.itemsize > 4:
            return self.kernel.index_dtype
        found = self.anywhere(iname)
        if found.low is None or found.high is None:
            values = self.kernel.domain_of((iname,)).intersect_params(self._context)
            return INT32 if values.is_empty() else INT64
        # -2**31, which data may be, is a value like any other: nothing is negated in a loop
        return INT32 if is_int32(Interval(found.low + 1, found.high + 1)) else INT64

    def _find_index_type(self, array: ArrayBase) -> NumpyType:
        if self.kernel.index_dtype.itemsize > 4:
            return self.kernel.index_dtype
        if isinstance(array.shape, tuple):
            fits = self._shape_fits(array, array.shape)
        else:
            fits = self._accesses_fit(array)
        return INT32 if fits else INT64

    def _shape_fits(self, array: ArrayBase, shape: tuple[Expr, ...]) -> bool:
        if array.offset is auto or auto in shape or None in shape:
            return False
        total = self.interval(array.offset)
        if not total.is_at_least(0):
            return False
        for tag, extent in zip(array.dim_tags, shape, strict=True):
            if isinstance(tag, SeparateArrayArrayDimTag):
                continue  # no part of the index
            if tag.stride is auto:
                return False
            stride = self.interval(tag.stride)
            # an access implies that no extent is 0
            last = (self.interval(extent) + Interval(-1, -1)).maximum(Interval(0, 0))
            total += stride.maximum(stride.scaled(-1)) * last
        return total.is_at_most(_INT32_MAX)

    def _accesses_fit(self, array: ArrayBase) -> bool:
        footprints = Footprints.of(self.kernel)
        accesses = footprints.accesses.get(array.name, ())
        tags = array.dim_tags if isinstance(array.dim_tags, tuple) else (None,)
        if len(tags) > 1 or not is_zero(array.offset):
            return False
        if isinstance(tags[0], FixedStrideArrayDimTag) and tags[0].stride != 1:
            return False
        if any(access.index is None or len(access.index) != 1 for access in accesses):
            return False
        for span in footprints.spans(accesses, 0):
            if span.values is None:
                return False
            values = span.values.values.intersect_params(self._context)
            if not _fits(values, span.low, span.high):
                return False
        return True


def _fits(values: Set, low: int, high: int) -> bool:
    """Tell whether all *values*, plus any number from *low* to *high*, are int32."""
    found = numeric_bounds(values)
    return found is None or is_int32(found + Interval(low, high))


def is_int32(found: Interval) -> bool:
    """Tell whether all numbers from the first to the second are int32."""
    low, high = found.low, found.high
    return low is not None and high is not None and low >= -_INT32_MAX and high <= _INT32_MAX


_RANGES = Analysis[dict[str, dict[Any, Any]]](LoopKernel)
_KNOWN = Analysis[tuple[Set, Set]](LoopKernel)
#: Expressions of these types have no intermediate results.
_WITHOUT_STEPS: Final = frozenset(
    (int, p.Variable, p.Subscript, GroupHardwareAxisIndex, LocalHardwareAxisIndex)
)


def _find_known(kernel: LoopKernel) -> tuple[Set, Set]:
    """Return the constraints on the parameters, and the same with these as dimensions."""
    context = _context(kernel)
    return context, from_named(context, param_names(context))


def _context(kernel: LoopKernel) -> Set:
    """Return the constraints on the parameters: assumptions, types, and extents of arrays."""
    assumed = assumed_of(kernel, (p.Variable, p.Sum))
    values = [arg.name for arg in kernel.args if isinstance(arg, ValueArg)]
    names = dict.fromkeys((*values, *sorted(kernel.all_params()), *param_names(assumed)))
    context = isl.Set.universe(params_space(names))
    for name in names:
        limits = _limits(kernel, name)
        if limits.low is not None and limits.high is not None:
            context = bound_param(context, name, limits.low, limits.high)
    return context.intersect(assumed)


def _limits(kernel: LoopKernel, name: str) -> Interval:
    """Return the range of the type of an integer variable."""
    variable = kernel.variable(name)
    dtype = kernel.index_dtype if variable is None else variable.dtype or kernel.index_dtype
    if dtype.kind == "b":
        return ANYTHING
    found = range_of_type(dtype.dtype)
    is_size = found.high == _INT32_MAX and not isinstance(variable, TemporaryVariable)
    return Interval(-PARAM_LIMIT, PARAM_LIMIT) if is_size else found


class Sizes(Ranges):
    """The ranges if no parameter is negative; data are unbounded."""

    def find(self, name: str) -> Interval:
        arrays, ranges = self.kernel.array_vars, Ranges.of(self.kernel)
        if name in self.kernel.inames:
            ends = param_names(self.kernel.domain_of((name,)))
            return ranges.anywhere(name) if arrays.keys().isdisjoint(ends) else ANYTHING
        if name in arrays or not ranges.is_param(name):
            return ANYTHING
        found = ranges.anywhere(name)
        return ANYTHING if found.is_at_most(-1) else found.both(Interval(0))


class _Survey(IntervalFinder):
    """Bounds of an expression by *ranges*; notes whether an intermediate value exceeds 32 bits."""

    def __init__(self, ranges: Ranges) -> None:
        self.has_large = False
        self.ranges = ranges  # which know the kernel, and its axes

    def result(self, found: Interval) -> Interval:
        if not self.has_large and not is_int32(found):
            self.has_large = found.count is not None
        return found

    def variable(self, expr: p.Variable) -> Interval:
        return self.ranges.variable(expr)

    def axis(self, expr: GroupHardwareAxisIndex | LocalHardwareAxisIndex) -> Interval:
        return self.ranges.axis(expr)

    def _cast(self, expr: TypeCast) -> Interval:
        return self.ranges.interval(expr)  # the user has chosen the types of steps inside
