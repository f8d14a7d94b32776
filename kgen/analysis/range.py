"""How large indices can get: 32 bits where they provably suffice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeAlias

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from kgen.analysis.footprints import Footprints
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.data import ArrayArg, ArrayBase, TemporaryVariable, ValueArg
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LocalHardwareAxisIndex,
    TaggedVariable,
    TruncQuotient,
    TruncRemainder,
    TypeCast,
    is_zero,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag, SeparateArrayArrayDimTag
from kgen.ir.sets.domain import Set, constant_bounds, from_named, isl_int, param_names
from kgen.ir.sets.quasi_affine import set_from_condition
from kgen.ir.tags import AxisTag, GroupInameTag, LocalInameTag
from kgen.ir.types import INT32, INT64, NumpyType, auto

__all__ = ["PARAM_LIMIT", "Ranges", "Sizes", "index_type", "is_int32", "loop_type"]

#: The largest value that a caller may pass for an int32 size. What lies above, 2**20 - 1
#: values, is room for ``128*group + item`` and ``n + 15``; a call with more is refused.
PARAM_LIMIT: Final = 2**31 - 2**20

_INT32_MAX: Final = 2**31 - 1
_SET = isl.dim_type.set
_PARAM = isl.dim_type.param

Interval: TypeAlias = tuple[int, int]
#: Bounds of an expression, and whether a step on the way to it is too large for 32 bits.
Survey: TypeAlias = tuple[Interval | None, bool]
_UNKNOWN: Final[Survey] = (None, False)


def index_type(kernel: LoopKernel, array_name: str) -> NumpyType:
    """Return int32 if every linear index into an array provably fits, else int64.

    For an array of a declared shape these are all indices within it; for one of unknown
    extent, those of its accesses, which must be affine.
    """
    return Ranges.of(kernel).index_type(array_name)


def loop_type(kernel: LoopKernel, iname: str) -> NumpyType:
    """Return int32 if all values of a loop variable, and the one after, fit, else int64."""
    return Ranges.of(kernel).loop_type(iname)


class Ranges:
    """The bounds of a kernel's parameters, loop variables and array indices, as numbers.

    They follow from the kernel's assumptions and the types of its arguments;
    ``Ranges.of(kernel)`` keeps them as long as these stay the same.
    """

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        if _context not in kernel.memo:  # it is the same for sizes
            kernel.memo[_context] = _context(kernel)
        self._context: Set = kernel.memo[_context]
        self._params: dict[str, Interval] = {}
        self._loops: dict[str, NumpyType] = {}
        self._intervals: dict[str, Interval | None] = {}
        self._axes: dict[tuple[type[Any], int], Interval | None] = {}
        self._arrays: dict[str, NumpyType] = {}

    @classmethod
    def of(cls, kernel: LoopKernel) -> Ranges:
        """Return the ranges of *kernel*, which keeps them."""
        found: Ranges | None = kernel.memo.get(cls)
        if found is None:
            found = kernel.memo[cls] = cls(kernel)
        return found

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

    def param(self, name: str) -> Interval:
        """Return the least and the largest value of a parameter; int64's where unknown."""
        found = self._params.get(name)
        if found is None:
            low, high = _INT64_RANGE
            lifted = self._lifted
            if lifted.find_dim_by_name(_SET, name) >= 0:
                known_low, known_high = constant_bounds(lifted, name)
                low = low if known_low is None else known_low
                high = high if known_high is None else known_high
            found = self._params[name] = (low, high)
        return found

    def fits(self, expr: Expr) -> bool:
        """Tell whether all values of an integer expression provably are int32."""
        found = self.interval(expr)
        return found is not None and is_int32(found)

    def interval(self, expr: Expr) -> Interval | None:
        """Return bounds of an integer expression; ``None`` if none are known.

        It is one of parameters, loop variables and hardware axes. The bounds hold for each part
        on its own: ``n - n`` is as wide as two different variables.
        """
        return self.survey(expr)[0]

    def survey(self, expr: Expr) -> Survey:
        """Return bounds of *expr*, and whether the known ones of a step to it are beyond 32 bits.

        As in ``(n + m) // 2 - n``, where ``n`` and ``m`` are large. Steps are the results of
        operations, sums added up from left to right. What data decides is as said.
        """
        if isinstance(expr, int):
            return (expr, expr), False
        method = _METHODS.get(type(expr))
        return _UNKNOWN if method is None else method(self, expr)

    def _sum(self, expr: p.Sum) -> Survey:
        low = high = 0
        is_known, is_large = True, False
        for at, child in enumerate(expr.children):
            bounds, has_large = self.survey(child)
            is_large = is_large or has_large
            if bounds is None:
                is_known = False
            elif is_known:
                low, high = low + bounds[0], high + bounds[1]
                is_large = is_large or (at > 0 and not is_int32((low, high)))
        return (low, high) if is_known else None, is_large

    def _product(self, expr: p.Product) -> Survey:
        result: Interval | None = (1, 1)
        is_large = False
        for child in expr.children:
            bounds, has_large = self.survey(child)
            is_large = is_large or has_large
            result = None if result is None or bounds is None else _times(result, bounds)
        return result, is_large or (result is not None and not is_int32(result))

    def _minimum(self, expr: p.Min) -> Survey:
        return self._extremum(expr, min)

    def _maximum(self, expr: p.Max) -> Survey:
        return self._extremum(expr, max)

    def _extremum(self, expr: p.Min | p.Max, best: Callable[..., int]) -> Survey:
        surveys = [self.survey(child) for child in expr.children]
        found = [bounds for bounds, _ in surveys if bounds is not None]
        is_large = any(has_large for _, has_large in surveys)
        if len(found) < len(surveys):
            return None, is_large
        lows, highs = zip(*found, strict=True)
        return (best(lows), best(highs)), is_large

    def _remainder(self, expr: p.Remainder | TruncRemainder) -> Survey:
        _, is_large = self.survey(expr.numerator)
        divisor = expr.denominator
        if not isinstance(divisor, int) or divisor <= 0:
            return None, is_large
        return (0 if type(expr) is p.Remainder else 1 - divisor, divisor - 1), is_large

    def _quotient(self, expr: p.FloorDiv | TruncQuotient) -> Survey:
        found, is_large = self.survey(expr.numerator)
        divisor = expr.denominator
        if found is None or not isinstance(divisor, int) or divisor <= 0:
            return None, is_large
        low, high = found
        return (low // divisor, -(-high // divisor) if high < 0 else high // divisor), is_large

    def _either(self, expr: p.If) -> Survey:
        (then, is_large), (other, has_large) = self.survey(expr.then), self.survey(expr.else_)
        return _hull(then, other), is_large or has_large

    def _cast(self, expr: TypeCast) -> Survey:
        return self.interval(expr.child) if expr.type.is_integral() else None, False

    def _name(self, expr: p.Variable) -> Survey:
        is_loop = expr.name in self.kernel.inames
        return self._loop(expr.name) if is_loop else self._variable(expr.name), False

    def _hardware_axis(self, expr: GroupHardwareAxisIndex | LocalHardwareAxisIndex) -> Survey:
        """Return bounds of the index along a hardware axis, in any launch."""
        key = type(expr), expr.axis
        if key not in self._axes:
            is_group = isinstance(expr, GroupHardwareAxisIndex)
            self._axes[key] = self._find_axis(
                (GroupInameTag if is_group else LocalInameTag)(expr.axis)
            )
        return self._axes[key], False

    def _variable(self, name: str) -> Interval | None:
        return self.param(name)

    def _find_axis(self, tag: AxisTag) -> Interval | None:
        highest = 0
        for axis in self.kernel.axes.values():
            if axis.tag == tag:
                count = self.interval(axis.length)
                if count is None:
                    return None
                highest = max(highest, count[1] - 1)
        return 0, highest

    def _loop(self, iname: str) -> Interval | None:
        if iname not in self._intervals:
            values = self.kernel.domain_of((iname,)).intersect_params(self._context)
            low, high = constant_bounds(values, iname)
            self._intervals[iname] = None if low is None or high is None else (low, high)
        return self._intervals[iname]

    @cached_property
    def _lifted(self) -> Set:
        return from_named(self._context, param_names(self._context))

    def _find_loop_type(self, iname: str) -> NumpyType:
        if self.kernel.index_dtype.itemsize > 4:
            return self.kernel.index_dtype
        values = self.kernel.domain_of((iname,)).intersect_params(self._context)
        # -2**31, which data may be, is a value like any other: nothing is negated in a loop
        return INT32 if _fits(values, 1, 1) else INT64

    def _find_index_type(self, array: ArrayBase) -> NumpyType:
        if self.kernel.index_dtype.itemsize > 4:
            return self.kernel.index_dtype
        if isinstance(array.shape, tuple):
            fits = self._shape_fits(array, array.shape)
        else:
            fits = self._accesses_fit(array)
        return INT32 if fits else INT64

    def _shape_fits(self, array: ArrayBase, shape: tuple[Expr, ...]) -> bool:
        if array.offset is auto or auto in shape:
            return False
        offset = self.interval(array.offset)
        if offset is None or offset[0] < 0:
            return False
        total = offset[1]
        for tag, extent in zip(array.dim_tags, shape, strict=True):
            if isinstance(tag, SeparateArrayArrayDimTag):
                continue  # no part of the index
            stride = None if tag.stride is auto else self.interval(tag.stride)
            count = self.interval(extent)
            if stride is None or count is None:
                return False
            # an access implies that no extent is 0
            total += max(abs(stride[0]), abs(stride[1])) * max(count[1] - 1, 0)
        return total <= _INT32_MAX

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
    least, largest = values.dim_min_val(0), values.dim_max_val(0)
    if largest.is_nan():  # there are none
        return True
    if not (least.is_int() and largest.is_int()):
        return False
    return bool(least.to_python() + low >= -_INT32_MAX and largest.to_python() + high <= _INT32_MAX)


def _hull(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _times(a: Interval, b: Interval) -> Interval:
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners), max(corners)


def is_int32(found: Interval) -> bool:
    """Tell whether all numbers from the first to the second are int32."""
    return found[0] >= -_INT32_MAX and found[1] <= _INT32_MAX


def _context(kernel: LoopKernel) -> Set:
    """Return what is known of the parameters: assumptions, types, and which are sizes."""
    sizes = {
        extent.name
        for arg in kernel.args
        if isinstance(arg, ArrayArg) and isinstance(arg.shape, tuple)
        for extent in arg.shape
        if isinstance(extent, p.Variable)
    }
    values = [arg.name for arg in kernel.args if isinstance(arg, ValueArg)]
    names = dict.fromkeys((*values, *sorted(kernel.all_params()), *sorted(sizes)))
    known = {name: limits for name in names if (limits := _limits(kernel, name)) is not None}
    space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, len(known))
    for at, name in enumerate(known):
        space = space.set_dim_name(_PARAM, at, name)
    context = isl.Set.universe(space)
    for at, (name, (low, high)) in enumerate(known.items()):
        least = isl_int(0 if name in sizes else low)
        largest = isl_int(high)
        context = context.lower_bound_val(_PARAM, at, least).upper_bound_val(_PARAM, at, largest)
    return _with_natural_extents(kernel, context).intersect(kernel.assumptions)


def _with_natural_extents(kernel: LoopKernel, context: Set) -> Set:
    """Add that no array has a negative extent: shape ``n + 2`` says ``n >= -2``."""
    extents = {
        extent: None
        for arg in kernel.args
        if isinstance(arg, ArrayArg) and isinstance(arg.shape, tuple)
        for extent in arg.shape
        if isinstance(extent, p.Sum)
    }
    space = context.get_space().set_from_params()
    for extent in extents:
        try:
            natural = set_from_condition(space, p.Comparison(extent, ">=", 0))
        except ExpressionToAffineConversionError:
            continue
        context = context.intersect(natural.params())
    return context


def _limits(kernel: LoopKernel, name: str) -> Interval | None:
    """Return the range of the type of a variable; ``None`` if it is no integer."""
    variable = kernel.temporary_variables.get(name) or kernel.arg_dict.get(name)
    dtype = kernel.index_dtype if variable is None else variable.dtype or kernel.index_dtype
    if not dtype.is_integral() or dtype.dtype.kind == "b":
        return None
    low, high = _range_of_type(dtype)
    if isinstance(variable, TemporaryVariable):
        return low, high
    return (-PARAM_LIMIT, PARAM_LIMIT) if high == _INT32_MAX else (low, high)


def _range_of_type(dtype: NumpyType) -> Interval:
    info = np.iinfo(dtype.dtype)
    return int(info.min), int(info.max)


_INT64_RANGE: Final = _range_of_type(INT64)

_METHODS: Final[dict[type[Any], Callable[[Ranges, Any], Survey]]] = {
    p.Variable: Ranges._name,
    TaggedVariable: Ranges._name,
    GroupHardwareAxisIndex: Ranges._hardware_axis,
    LocalHardwareAxisIndex: Ranges._hardware_axis,
    p.Sum: Ranges._sum,
    p.Product: Ranges._product,
    p.Min: Ranges._minimum,
    p.Max: Ranges._maximum,
    p.Remainder: Ranges._remainder,
    TruncRemainder: Ranges._remainder,
    p.FloorDiv: Ranges._quotient,
    TruncQuotient: Ranges._quotient,
    p.If: Ranges._either,
    TypeCast: Ranges._cast,
}


class Sizes(Ranges):
    """The ranges where no parameter is negative; of data none is known."""

    def _variable(self, name: str) -> Interval | None:
        if name in self.kernel.array_vars or self._lifted.find_dim_by_name(_SET, name) < 0:
            return None
        low, high = self.param(name)
        return (max(low, 0), high) if high >= 0 else None

    def _loop(self, iname: str) -> Interval | None:
        ends = param_names(self.kernel.domain_of((iname,)))
        return None if set(ends) & self.kernel.array_vars.keys() else super()._loop(iname)
