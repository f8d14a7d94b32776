"""Reductions of arrays from expressions in C, called like pyopencl's and pycuda's."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.errors import InvocationError, KernelError
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg, TemporaryVariable
from kgen.ir.expr import Expr, Reduction
from kgen.ir.instruction import Assignment, CallInstruction, InstructionBase
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.ready import schedules
from kgen.ready.arguments import context_first, read_arguments, reject_given
from kgen.ready.c_functions import leaves_of, stored_at
from kgen.ready.c_text import CArgument, parse_preamble, with_macros
from kgen.ready.c_types import Dtype
from kgen.ready.expressions import Scope, to_values
from kgen.ready.indices import Indices
from kgen.ready.libraries import like, native
from kgen.ready.operations import operation_of, read_combination
from kgen.ready.passed import read_call
from kgen.ready.places import Place, as_axes, axes_around, check_output, new_array, output_axes
from kgen.ready.shortcut import shortcut_for
from kgen.ready.snippet import Signature, allocator_of, call_options, fit, plain_arrays
from kgen.ready.structures import is_structure, leaf_types
from kgen.ready.tuned import Tunable, defaults_of
from kgen.transforms.loops.tag import tag_inames

__all__ = ["ReductionKernel"]

#: The loop of the work-item that stores a structure.
_ITEM: Final = "kgen_item"
#: How many times a work-item of a single group on a GPU loads elements: for more elements, the
#: launch of a second kernel takes less time than one multiprocessor.
_LOADS: Final = 4


class ReductionKernel(Tunable):
    """Combines the elements of arrays, or the values of an expression of them.

    :arg context: optional, a pyopencl context; the arrays of a call determine where it runs
    :arg dtype_out: the type of accumulators and of the result
    :arg neutral: the neutral element in C: ``"0"``
    :arg reduce_expr: the combination of two values, an expression in C of ``a`` and ``b``. It
        must be associative and commutative, because elements are combined in any order
    :arg map_expr: an expression in C of elements ``x[i]``; by default the elements of the first
        array
    :arg arguments: an argument list in C, ``"float *x, float *y"``
    :arg name, options, preamble, schedule, wisdom, keep: as for
        :class:`kgen.elementwise.ElementwiseKernel`

    >>> import numpy as np
    >>> dot = ReductionKernel(np.float64, neutral="0", reduce_expr="a+b", map_expr="x[i]*y[i]",
    ...                       arguments="double *x, double *y")
    >>> x = np.arange(5.0)
    >>> dot(x, x)
    array(30.)
    >>> largest = ReductionKernel(np.int32, "INT_MIN", "max(a, b)", arguments="int *x")
    >>> largest(np.array([[3, 1], [2, 5]], np.int32), axis=1)
    array([3, 5], dtype=int32)
    """

    @context_first
    def __init__(
        self,
        context: Any,
        dtype_out: Any,
        neutral: str,
        reduce_expr: str,
        map_expr: str | None = None,
        arguments: Any = None,
        name: str = "reduce_kernel",
        options: Any = None,
        preamble: str = "",
        *,
        schedule: Mapping[str, Any] | None = None,
        wisdom: Any = None,
        keep: bool = False,
    ) -> None:
        reject_given(name, "print(generate_code_v2(knl.build(target)).device_code())", keep=keep)
        self.context = context
        self.name = name
        self.options = options
        self.dtype_out = np.dtype(dtype_out)
        self.schedule = dict(schedule or {})
        if arguments is None:
            arguments = [CArgument("in", self.dtype_out, is_array=True)]
        texts = [text for text in (map_expr, reduce_expr, neutral) if isinstance(text, str)]
        header, _ = with_macros(preamble, "")
        known = parse_preamble(header, *texts, str(arguments))
        declared = read_arguments(arguments, known.types)
        if map_expr is None:
            map_expr = f"{declared[0].name}[i]"
        _, map_expr = with_macros(preamble, map_expr)
        _, reduce_expr = with_macros(preamble, reduce_expr)
        if isinstance(neutral, str):
            _, neutral = with_macros(preamble, neutral)
        self.signature = Signature(name, declared, known)
        if any(one.name == "out" for one in declared):
            raise KernelError(
                "an argument is called 'out', which is the name of the result", kernel=name
            )
        self._map = map_expr
        self._combination = read_combination(
            reduce_expr, "reduce_expr", self.dtype_out, neutral, known
        )
        self._operation = operation_of(self._combination)
        self._plain = plain_arrays(self.signature, self._mapped)
        operation = (str(self.dtype_out), neutral, reduce_expr, map_expr)
        self._begin(wisdom, declared, preamble, *operation)

    def _mapped(self, scope: Scope) -> Expr:
        values = to_values(self._map, "map_expr", scope, self.dtype_out)
        return values[0] if len(values) == 1 else values

    # -- the kernel -----------------------------------------------------------------------

    def build(
        self,
        target: TargetBase,
        *,
        rank: int = 1,
        step: int | None = None,
        along: str | None = None,
        in_one_group: bool = False,
        index_dtype: Any = np.int32,
        is_gpu: bool = True,
        **schedule: Any,
    ) -> TranslationUnit:
        """Return the kernel with its schedule.

        :arg rank: the number of axes of the arrays, all of which are reduced
        :arg step: the step of a range of indices from ``start``; ``None`` for all indices
        :arg along: with arrays of three axes, reduce the middle one; its elements are contiguous
            (``"rows"``), or those of the last axis are (``"columns"``)
        :arg in_one_group: for few elements: one launch of one work-group
        :arg schedule: on a GPU ``group_size`` work-items in each of ``groups``; on a host ``lanes``
            values side by side, and ``chunk`` times that for a thread at a time

        >>> import kgen as lp
        >>> total = ReductionKernel(np.int32, "0", "a+b", arguments="int *x")
        >>> knl = total.build(lp.CudaTarget(), group_size=128, groups=512)
        >>> lp.generate_code_v2(knl).device_code().count("__global__")
        2
        """
        settings = {**self.schedule, **schedule}
        if along is not None:
            return self._along_axis(target, along, index_dtype, is_gpu=is_gpu, **settings)
        indices = Indices(self.signature.size, rank, step)
        if is_gpu or rank > 1 or step not in (None, 1):
            knl = self._make(target, [indices], index_dtype, is_gpu=is_gpu)
            if is_gpu:
                if in_one_group:
                    settings["items"] = self._items
                return schedules.reduction_of_all(
                    knl, indices.inames, in_one_group=in_one_group, **settings
                )
            return schedules.reduction_on_host(knl, indices.inames, **settings)
        lanes = settings.pop("lanes", self._lanes)
        main, rest = indices.in_lanes(lanes)
        knl = self._make(target, [main, rest], index_dtype, is_gpu=False)
        return schedules.reduction_in_lanes(knl, main.inames, in_one_group=in_one_group, **settings)

    def _make(
        self, target: TargetBase, parts: list[Indices], index_dtype: Any, *, is_gpu: bool
    ) -> TranslationUnit:
        """Return the kernel that reduces all elements, given as some disjoint parts."""
        whole = parts[0]
        reductions = [
            Reduction(self._operation, part.inames, self._mapped(self.signature.scope(part)))
            for part in parts
        ]
        totals = _Totals(self.dtype_out, in_one_item=is_gpu)
        found = [totals.of(f"total_{k}", one) for k, one in enumerate(reductions[:-1])]
        found.append(totals.last(reductions[-1]))
        total = functools.reduce(self._combination.of, found)
        totals.store(p.Variable("out"), total)
        knl = make_kernel(
            [*(part.domain for part in parts), *totals.domains],
            totals.steps,
            [
                *self.signature.declare(whole, self._plain, index_dtype),
                GlobalArg("out", self.dtype_out, shape=(), is_input=False),
            ],
            temporary_variables=totals.temporaries,
            preambles=self.signature.preambles(target, self.dtype_out),
            seq_dependencies=True,
            name=self.name,
            target=target,
            index_dtype=index_dtype,
            assumptions=whole.assume(index_dtype),
            options={"insert_gbarriers": True, "build_options": self.options or ()},
        )
        return totals.schedule(knl)

    def _along_axis(
        self, target: TargetBase, along: str, index_dtype: Any, *, is_gpu: bool, **schedule: Any
    ) -> TranslationUnit:
        indices = Indices(self.signature.size, rank=3)
        outer, middle, inner = indices.inames
        value = Reduction(self._operation, (middle,), self._mapped(self.signature.scope(indices)))
        totals = _Totals(
            self.dtype_out, frozenset([outer, inner]), in_one_item=is_gpu and along == "rows"
        )
        total = totals.last(value)
        shape = (indices.sizes[0], indices.sizes[2])
        place = p.Variable("out")[p.Variable(outer), p.Variable(inner)]
        domains = [
            f"{{ [{outer}, {inner}]: 0 <= {outer} < {shape[0]} and 0 <= {inner} < {shape[1]} }}",
            f"{{ [{middle}]: 0 <= {middle} < {indices.sizes[1]} }}",
            *totals.domains,
        ]
        totals.store(place, total)
        knl = make_kernel(
            domains,
            totals.steps,
            [
                *self.signature.declare(indices, self._plain, index_dtype),
                GlobalArg("out", self.dtype_out, shape=shape, is_input=False),
            ],
            temporary_variables=totals.temporaries,
            preambles=self.signature.preambles(target, self.dtype_out),
            seq_dependencies=True,
            name=self.name,
            target=target,
            index_dtype=index_dtype,
            assumptions=indices.assume(index_dtype),
            options={"build_options": self.options or ()},
        )
        knl = totals.schedule(knl)
        return schedules.reduction_along(knl, indices.inames, along, is_gpu=is_gpu, **schedule)

    # -- calls ----------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Return the reduction of all elements, or of those of a range, or along an axis.

        :arg args: the arguments in their order: arrays of numpy, pyopencl, pycuda and other
            libraries, and numbers
        :arg out: the array for the result, of one element without *axis*
        :arg range, slice: the indices, as for
            :meth:`kgen.elementwise.ElementwiseKernel.__call__`
        :arg axis: the axis to reduce; the result has the others
        :arg return_event: return a pair of the result and its event
        :arg queue, wait_for, allocator, stream: of OpenCL, of CUDA

        The result is an array where the arguments are: of shape ``()`` without *axis*.
        """
        done = self._like_before(args, options)
        return self._call_with(args, **options) if done is None else done[1][0]

    def _call_with(
        self,
        args: tuple[Any, ...],
        *,
        return_event: bool = False,
        queue: Any = None,
        allocator: Any = None,
        wait_for: Any = None,
        out: Any = None,
        range: builtins.slice | None = None,
        slice: builtins.slice | None = None,
        axis: int | None = None,
        stream: Any = None,
    ) -> Any:
        given, place, first = read_call(self.signature, args, queue, stream)
        allocator = allocator or allocator_of(given.values())
        more = call_options(wait_for=wait_for, allocator=allocator, stream=stream)
        if return_event:
            more |= dict.fromkeys(place.options, False)
        passed = out
        if out is not None:
            out = native(self.name, {"out": out}, ["out"], stream)["out"]
        if axis is not None:
            if range is not None or slice is not None:
                raise InvocationError("an axis and a range are both given", kernel=self.name)
            result, event = self._call_along(place, given, axis, out, more)
        else:
            result, event = self._call(place, given, (range, slice), out, more)
        result = like(self.name, first, result) if passed is None else passed
        return (result, event) if return_event else result

    def _call(
        self, place: Place, given: dict[str, Any], ranges: Any, out: Any, more: dict[str, Any]
    ) -> tuple[Any, Any]:
        elements = fit(self.signature, self._plain, given, *ranges)
        index_dtype = place.index_dtype(elements.size)
        indices = elements.indices
        few = self._few(place)
        in_one_group = elements.is_plain and elements.size <= few
        options = {
            "rank": indices.rank,
            "step": indices.step,
            "in_one_group": in_one_group,
            "index_dtype": index_dtype,
        }
        if in_one_group and place.is_gpu and not self.schedule:
            options["group_size"] = place.largest_group
        if out is not None:
            if math.prod(out.shape) != 1:
                check_output(self.name, out, ())
            more["out"] = as_axes(place, out, ())
        event, (result,) = self._launch(place, options, elements.arguments, more)
        if elements.is_plain and not self.wisdom.records:
            sizes = place.sizes_like(elements.size, few)
            executor = self._executor(place, "build", options)
            self._shortcut = shortcut_for(
                place,
                executor,
                self.signature,
                given,
                sizes,
                allocates=True,
                again=self._again,
                outputs=lambda like: {"out": new_array(place, like, (), self.dtype_out)},
            )
        return (result if out is None else out), event

    def _call_along(
        self, place: Place, given: dict[str, Any], axis: int, out: Any, more: dict[str, Any]
    ) -> tuple[Any, Any]:
        names = [one.name for one in self.signature.arrays]
        shape = tuple(given[names[0]].shape)
        if self._plain != frozenset(names):
            raise InvocationError(
                "a reduction along an axis uses elements other than x[i]", kernel=self.name
            )
        axes = axes_around(shape, axis, self.name)
        kept = tuple(length for k, length in enumerate(shape) if k != axis % len(shape))
        for name in names:
            if tuple(given[name].shape) != shape:
                raise InvocationError(
                    f"arguments '{names[0]}' and '{name}' have the shapes {shape} and "
                    f"{tuple(given[name].shape)}",
                    kernel=self.name,
                    hint="pass arrays of one shape",
                )
            given[name] = as_axes(place, given[name], axes)
        if out is not None:
            check_output(self.name, out, kept)
            more["out"], end = output_axes(place, out, (axes[0], axes[2]))
        options = {
            "along": "rows" if axes[2] == 1 else "columns",
            "index_dtype": place.index_dtype(int(np.prod(axes))),
        }
        event, (result,) = self._launch(place, options, given, more)
        return (result.reshape(kept), event) if out is None else (out, end(event))

    def _defaults(self, place: Place, options: Mapping[str, Any]) -> dict[str, int]:
        if "along" in options:
            by_rows, first = options["along"] == "rows", "group_size" if place.is_gpu else "lanes"
            rows = [] if by_rows == place.is_gpu else ["rows"]
            return defaults_of(schedules.reduction_along, first, *rows)
        chunk = [] if options["in_one_group"] else ["chunk"]
        if place.is_gpu:
            if "group_size" in options:
                return {"group_size": options["group_size"]}
            groups = [] if options["in_one_group"] else ["groups"]
            return defaults_of(schedules.reduction_of_all, "group_size", *groups)
        if options["rank"] > 1 or options["step"] not in (None, 1):
            lanes = ["lanes"] if options["rank"] > 1 else []
            return defaults_of(schedules.reduction_on_host, *lanes, "chunk")
        return {"lanes": self._lanes, **defaults_of(schedules.reduction_in_lanes, *chunk)}

    def _few(self, place: Place) -> int:
        """Return the maximum number of elements that one work-group reduces alone."""
        if not place.is_gpu or self.schedule:
            return place.few
        return max(place.few, _LOADS * self._items * place.largest_group)

    @property
    def _items(self) -> int:
        """How many elements a work-item of a single group loads at a time, on a GPU."""
        return max(1, 64 // int(self.dtype_out.itemsize))

    @property
    def _lanes(self) -> int:
        """How many values are reduced side by side on a host."""
        return max(8, 256 // int(self.dtype_out.itemsize))


@dataclass
class _Totals:
    """The results of reductions in the loops *inames*, in temporaries.

    ``in_one_item``: the first work-item of a group stores a structure.
    """

    dtype: Dtype
    inames: frozenset[str] = frozenset()
    in_one_item: bool = False
    steps: list[InstructionBase] = field(default_factory=list)
    temporaries: dict[str, TemporaryVariable] = field(default_factory=dict)

    @property
    def domains(self) -> list[str]:
        """The loop in which a work-item stores a structure."""
        is_one = self.in_one_item and is_structure(self.dtype)
        return [f"{{ [{_ITEM}]: 0 <= {_ITEM} < 1 }}"] if is_one else []

    def schedule(self, knl: TranslationUnit) -> TranslationUnit:
        """Let one work-item run that loop."""
        return tag_inames(knl, {_ITEM: "l.0"}) if self.domains else knl

    def of(self, name: str, reduction: Expr) -> tuple[Expr, ...]:
        """Add a reduction; return its results."""
        dtypes = leaf_types(self.dtype)
        names = [name, *(f"{name}_{k}" for k in range(1, len(dtypes)))]
        results = tuple(map(self._temporary, names, dtypes))
        if not is_structure(self.dtype):
            self.steps.append(Assignment(results[0], reduction, id=name))
            return results
        call = CallInstruction if len(results) > 1 else Assignment
        given = results if len(results) > 1 else results[0]
        self.steps.append(call(given, reduction, id=name, within_inames=self.inames))
        return results

    def last(self, reduction: Expr) -> tuple[Expr, ...]:
        """Return the results of the last reduction; a number is stored where it is computed."""
        return self.of("total", reduction) if is_structure(self.dtype) else (reduction,)

    def store(self, place: Expr, total: Sequence[Expr]) -> None:
        """Add the instructions that store a result; structures are stored at once."""
        if not is_structure(self.dtype):
            self.steps.append(Assignment(place, total[0], id="store"))
            return
        inames = self.inames | ({_ITEM} if self.in_one_item else frozenset())
        result = self._temporary("kgen_result", self.dtype)
        leaves = leaves_of(stored_at(result, self.dtype))
        pairs = [*((leaf.expr, value) for leaf, value in zip(leaves, total, strict=True))]
        for to, value in [*pairs, (place, result)]:
            self.steps.append(
                Assignment(to, value, within_inames=inames, within_inames_is_final=True)
            )

    def _temporary(self, name: str, dtype: Dtype) -> p.Variable:
        self.temporaries[name] = TemporaryVariable(
            name, dtype, shape=(), address_space=AddressSpace.PRIVATE
        )
        return p.Variable(name)
