"""Scans (prefix sums) of arrays from expressions in C, called like pyopencl's and pycuda's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.errors import InvocationError, KernelError
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg, TemporaryVariable
from kgen.ir.expr import Expr, Reduction
from kgen.ir.instruction import (
    Assignment,
    BarrierInstruction,
    CallInstruction,
    InstructionBase,
)
from kgen.ir.reductions import ReductionOperation
from kgen.ir.target import TargetBase
from kgen.ir.types import AddressSpace
from kgen.ir.unit import TranslationUnit
from kgen.ready import schedules
from kgen.ready.arguments import check_devices, context_first, read_arguments
from kgen.ready.c_functions import Value
from kgen.ready.c_text import CArgument, parse_functions, with_macros
from kgen.ready.expressions import Scope, to_condition, to_value
from kgen.ready.indices import Indices
from kgen.ready.libraries import like, native
from kgen.ready.operations import FlaggedOperation, operation_of, read_combination
from kgen.ready.passed import read_call
from kgen.ready.places import Place, as_axes, copy_to, find_place, flat, new_array
from kgen.ready.shortcut import shortcut_for
from kgen.ready.snippet import Signature, allocator_of, call_options, plain_arrays
from kgen.ready.statements import Program, read_statements
from kgen.ready.tiles import TiledScan, Tiling, looks_back, tiling_for
from kgen.ready.tuned import Tunable, defaults_of

__all__ = ["ExclusiveScanKernel", "GenericScanKernel", "InclusiveScanKernel"]

_BOOL: Final = np.dtype(np.bool_)


_RESULTS: Final = frozenset(["item", "prev_item", "last_item"])


class GenericScanKernel(Tunable):
    """Scans the values of an expression of elements, and runs a statement on each result.

    :arg context: optional, a pyopencl context; the arrays of a call determine where it runs
    :arg dtype: the type in which values are combined
    :arg arguments: an argument list in C
    :arg input_expr: the value for index ``i``, an expression in C
    :arg scan_expr: the combination of two values, an expression in C of ``a`` and the following
        ``b``. It must be associative. ``across_seg_boundary`` tells whether a segment starts in
        ``b``: ``"across_seg_boundary ? b : a+b"``
    :arg neutral: the neutral element in C; it is the value before the first element
    :arg output_statement: statements in C that store the result: ``item``, with ``prev_item``, the
        preceding result, and ``last_item``, the last result
    :arg is_segment_start_expr: a condition in C: a segment starts at ``i``, whose value is ``a``
    :arg input_fetch_exprs: triples ``(NAME, ARRAY, OFFSET)``: *NAME* is ``ARRAY[i+OFFSET]`` in the
        expressions above. The offset is 0 or -1
    :arg index_dtype: the type of indices; by default a sufficient one
    :arg name_prefix: the name of the kernel
    :arg devices: devices of *context*
    :arg options, preamble, schedule, wisdom: as for :class:`kgen.elementwise.ElementwiseKernel`

    >>> import numpy as np
    >>> knl = GenericScanKernel(
    ...     np.int32, arguments="int *x, int *starts, int *out", input_expr="x[i]",
    ...     scan_expr="across_seg_boundary ? b : a+b", neutral="0",
    ...     is_segment_start_expr="starts[i]", output_statement="out[i] = item;")
    >>> x, starts, out = np.ones(6, np.int32), np.zeros(6, np.int32), np.zeros(6, np.int32)
    >>> starts[3] = 1
    >>> knl(x, starts, out)
    >>> out
    array([1, 2, 3, 1, 2, 3], dtype=int32)

    On CUDA, a scan is one launch, in which each work-group looks back at the totals of preceding
    groups. Elsewhere, each work-group combines its elements, and a second launch scans them. If a
    statement writes an array that *input_expr* reads,
    the results are first stored in separate memory.
    """

    @context_first
    def __init__(
        self,
        context: Any,
        dtype: Any,
        arguments: Any,
        input_expr: str,
        scan_expr: str,
        neutral: str | None,
        output_statement: str,
        is_segment_start_expr: str | None = None,
        input_fetch_exprs: Sequence[tuple[str, str, int]] | None = None,
        index_dtype: Any = None,
        name_prefix: str = "scan",
        options: Any = None,
        preamble: str = "",
        devices: Any = None,
        *,
        schedule: Mapping[str, Any] | None = None,
        wisdom: Any = None,
    ) -> None:
        check_devices(name_prefix, context, devices)
        self.context = context
        self.name = name_prefix
        self.options = options
        self.dtype = np.dtype(dtype)
        self.index_dtype = index_dtype
        self.schedule = dict(schedule or {})
        texts = {
            "input_expr": input_expr,
            "scan_expr": scan_expr,
            "output_statement": output_statement,
            "is_segment_start_expr": is_segment_start_expr,
        }
        expanded = {
            what: with_macros(preamble, text) for what, text in texts.items() if text is not None
        }
        functions = parse_functions(expanded["scan_expr"][0])
        self._texts = {what: text for what, (_, text) in expanded.items()}
        self.signature = Signature(self.name, read_arguments(arguments), functions)
        self._fetched = _read_fetches(self.signature, input_fetch_exprs or ())
        self.combination = read_combination(
            self._texts["scan_expr"], "scan_expr", self.dtype, neutral, functions
        )
        self._check()
        self._plain = plain_arrays(self.signature, self._read_all)
        operation = (str(self.dtype), neutral, preamble, *sorted(self._texts.items()))
        self._begin(wisdom, self.signature.arguments, *operation, self._fetched)

    def _check(self) -> None:
        """Find what the output statement uses, and reject what does not exist."""
        scope = self._with_results(self.signature.scope(Indices(self.signature.size)))
        program = read_statements(self._texts["output_statement"], "output_statement", scope, ["i"])
        self._uses = frozenset(_RESULTS.intersection(program.read))
        if "prev_item" in self._uses and self.combination.neutral is None:
            raise KernelError(
                "'prev_item' of the first element is not known without a neutral element",
                kernel=self.name,
                hint='pass neutral, such as "0"',
            )
        if "last_item" in self._uses and self.is_segmented:
            raise KernelError("a segmented scan has no 'last_item'", kernel=self.name)
        read = self._names_read(scope)
        self._stores_results = "last_item" in self._uses or not read.isdisjoint(program.written)

    @property
    def neutral(self) -> Expr:
        """The value before the first element."""
        return self.combination.neutral

    @property
    def is_segmented(self) -> bool:
        """Tell whether the scan restarts at some elements."""
        return "is_segment_start_expr" in self._texts

    # -- snippets -------------------------------------------------------------------------

    def _input(self, scope: Scope) -> tuple[Expr, ...]:
        """Return the operands of the scan for an index: the value, and its flag if there is one."""
        scope = self._with_fetched(scope)
        value = to_value(self._texts["input_expr"], "input_expr", scope, self.dtype)
        if self.is_segmented:
            inside = scope.with_numbers({"a": Value(value, self.dtype)})
            text = self._texts["is_segment_start_expr"]
            return value, to_condition(text, "is_segment_start_expr", inside)
        return (value,) if self.combination.neutral is not None else (value, True)

    def _with_fetched(self, scope: Scope) -> Scope:
        numbers: dict[str, Value] = {}
        at = scope.numbers["i"].expr
        for name, array, offset in self._fetched:
            dtype = scope.arrays[array]
            element = scope.element(array, p.Sum((at, np.int64(offset))) if offset else at)
            if offset:
                condition = p.Comparison(at, ">=", np.int64(-offset))
                element = p.If(condition, element, dtype.type(0))
            numbers[name] = Value(element, dtype)
        return scope.with_numbers(numbers)

    def _with_results(self, scope: Scope) -> Scope:
        return scope.with_numbers(
            {name: Value(p.Variable(name), self.dtype) for name in sorted(_RESULTS)}
        )

    def _read_all(self, scope: Scope) -> None:
        self._input(scope)
        self._output(self._with_results(scope), ("i",))

    def _output(self, scope: Scope, inames: Sequence[str]) -> Program:
        text = self._texts["output_statement"]
        taken = {*inames, *_RESULTS, *(one.name for one in self.signature.arguments)}
        return read_statements(text, "output_statement", scope, inames, taken)

    def _names_read(self, scope: Scope) -> frozenset[str]:
        """Return the arrays that the input reads."""
        return Assignment(
            "kgen_input",
            p.Sum(
                tuple(p.If(part, 1, 0) if k else part for k, part in enumerate(self._input(scope)))
            ),
        ).read_dependency_names()

    # -- the kernel -----------------------------------------------------------------------

    def build(
        self,
        target: TargetBase,
        *,
        along: str | None = None,
        in_one_group: bool = False,
        stores_results: bool | None = None,
        index_dtype: Any = np.int32,
        is_gpu: bool = True,
        **schedule: Any,
    ) -> TranslationUnit:
        """Return the kernel with its schedule.

        :arg along: with arrays of three axes, scan along the middle one; its elements are
            contiguous (``"rows"``), or those of the last axis are (``"columns"``)
        :arg in_one_group: for few elements: one launch of one work-group
        :arg stores_results: store the results in arrays ``kgen_item`` and ``kgen_prev_item``, on
            which the kernel of :meth:`build_output` runs the output statement. This is needed if
            the statement overwrites the input of the scan
        :arg schedule: ``group_size`` work-items of a GPU with ``items`` elements each, in each of
            ``turns``; a thread of a host has ``chunk`` elements. Without ``turns``, the groups on
            CUDA look back at preceding groups, in one launch; otherwise there are two
        """
        stores_results = self._stores_results if stores_results is None else stores_results
        settings = {**self.schedule, **schedule}
        if is_gpu and along is None:
            is_one = not in_one_group and looks_back(target, self.dtype, settings)
            parameters = tiling_for(0, self.dtype, is_one_tile=is_one, **settings)
            tiling = Tiling(**parameters, alone=in_one_group, looks_back=is_one)
            return self._in_tiles(target, tiling, index_dtype, stores_results=stores_results)
        axes = 3 if along is not None else 1
        step = Indices(self.signature.size, axes)
        names = (*step.inames[: axes // 2], "j", *step.inames[axes // 2 + 1 :])
        source = Indices(self.signature.size, axes, names=names)
        swept = step.inames[axes // 2]
        body = _Body(self, step, source, stores_results=stores_results)
        knl = make_kernel(
            [
                step.domain,
                f"{{ [j]: 0 <= j {'<' if body.is_exclusive else '<='} {swept} }}",
                *body.domains,
            ],
            body.instructions,
            [*self.signature.declare(step, self._plain, index_dtype), *body.results],
            temporary_variables=body.temporaries,
            seq_dependencies=True,
            name=self.name,
            target=target,
            index_dtype=index_dtype,
            assumptions=step.assume(index_dtype),
            options={"build_options": self.options or ()},
            silenced_warnings=body.silenced,
        )
        if along is not None:
            return schedules.scan_along(knl, step.inames, along, is_gpu=is_gpu, **settings)
        return schedules.scan(knl, swept, in_one_group=in_one_group, **settings)

    def _in_tiles(
        self, target: TargetBase, tiling: Tiling, index_dtype: Any, *, stores_results: bool
    ) -> TranslationUnit:
        """Return the kernel for a GPU."""
        body = _TiledBody(self, tiling, stores_results=stores_results)
        whole, scan = Indices(self.signature.size), body.scan
        knl = make_kernel(
            [*scan.domains, *body.domains],
            body.instructions,
            [*self.signature.declare(whole, self._plain, index_dtype), *body.results],
            temporary_variables={**scan.temporaries, **body.temporaries},
            seq_dependencies=True,
            name=self.name,
            target=target,
            index_dtype=index_dtype,
            assumptions=whole.assume(index_dtype) + scan.assumption,
            options={"build_options": self.options or ()},
            silenced_warnings=body.silenced,
        )
        return schedules.scan_in_tiles(knl, scan.step, scan.items)

    def build_output(
        self,
        target: TargetBase,
        *,
        restrict: bool = True,
        index_dtype: Any = np.int32,
        is_gpu: bool = True,
        **schedule: Any,
    ) -> TranslationUnit:
        """Return the kernel that runs the output statement on results in memory."""
        indices = Indices(self.signature.size)
        at = p.Variable("i")
        last = p.Sum((p.Variable(self.signature.size), -1))
        elements = {
            "item": p.Variable("kgen_item")[at],
            "prev_item": p.Variable("kgen_prev_item")[at],
            "last_item": p.Variable("kgen_item")[last],
        }
        values = {name: Value(expr, self.dtype) for name, expr in elements.items()}
        program = self._output(self.signature.scope(indices).with_numbers(values), ("i",))
        results = [
            GlobalArg(name, self.dtype, shape=indices.sizes, is_input=True)
            for name in self._stored()
        ]
        knl = make_kernel(
            [indices.domain, *program.domains],
            program.instructions,
            [*self.signature.declare(indices, self._plain, index_dtype), *results],
            temporary_variables=program.temporaries,
            seq_dependencies=True,
            name=f"{self.name}_output",
            target=target,
            index_dtype=index_dtype,
            assumptions=indices.assume(index_dtype),
            options={"restrict": restrict, "build_options": self.options or ()},
            silenced_warnings=_races(program, indices),
        )
        return schedules.elementwise(knl, indices.inames, is_gpu=is_gpu, **schedule)

    def _stored(self) -> tuple[str, ...]:
        """Return the results that have memory of their own."""
        names = []
        if self._uses & {"item", "last_item"} or not self._uses:
            names.append("kgen_item")
        if "prev_item" in self._uses:
            names.append("kgen_prev_item")
        return tuple(names)

    # -- calls ----------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Scan; return the event of OpenCL, ``None`` on the host and on CUDA.

        :arg args: the arguments in their order: arrays of numpy, pyopencl, pycuda and other
            libraries, and numbers
        :arg size: the number of elements; that of the first array if left out
        :arg axis: the axis of arrays of one shape along which each row is scanned
        :arg queue, wait_for, allocator, stream: of OpenCL, of CUDA
        """
        done = None if options else self._like_before(args)
        return self._call(args, **options) if done is None else done[0]

    def _like_before(self, args: tuple[Any, ...]) -> Any:
        """Make a call that is like the one before; return ``None`` if it is not."""
        try:
            return None if self._shortcut is None else self._shortcut(args)
        except InvocationError:  # other arrays are not like those of the call before
            return None

    def _call(
        self,
        args: tuple[Any, ...],
        *,
        queue: Any = None,
        allocator: Any = None,
        size: int | None = None,
        wait_for: Any = None,
        axis: int | None = None,
        stream: Any = None,
    ) -> Any:
        given, place, _ = read_call(self.signature, args, queue, stream)
        allocator = allocator or allocator_of(given.values())
        more = call_options(wait_for=wait_for, allocator=allocator, stream=stream)
        event, _ = self._run(place, given, size, axis, more)
        return event

    def _run(
        self,
        place: Place,
        given: dict[str, Any],
        size: int | None,
        axis: int | None,
        more: dict[str, Any],
    ) -> tuple[Any, Any]:
        """Return the event of a call, and the arrays that were written."""
        names = [one.name for one in self.signature.arrays if one.name in given]
        first = given[names[0]]
        is_shared = len({id(given[name]) for name in names}) < len(names)
        if axis is not None and len(first.shape) > 1:
            return self._run_along(place, given, axis, more)
        is_plain = size is None and all(given[name].shape == first.shape for name in names)
        is_plain = is_plain and len(first.shape) == 1
        if size is None:
            size = first.shape[0] if len(first.shape) == 1 else int(np.prod(first.shape))
        for name in names:
            given[name] = self._fitted(name, given[name], size)
        if any(name not in self._plain for name in names):
            given[self.signature.size] = size
        layout = {"index_dtype": self.index_dtype or place.index_dtype(size)}
        stores_results = self._stores_results or is_shared
        tiling: dict[str, int] = {}
        if place.is_gpu:
            is_one = looks_back(place.target, self.dtype, self.schedule)
            tiling = tiling_for(size, self.dtype, is_one_tile=is_one, **self.schedule)
        options = {
            **tiling,
            "in_one_group": place.is_small(size),
            "stores_results": stores_results,
            **layout,
        }
        event, outputs = self._launch(place, options, given, more)
        if not stores_results:
            if is_plain and "turns" not in tiling and not self.wisdom.records:
                self._shortcut = shortcut_for(
                    place,
                    self._executor(place, "build", options),
                    self.signature,
                    given,
                    place.sizes_like(size),
                    allocates=True,
                    again=self._again,
                    outputs=partial(self._new_outputs, place, tuple(given)),
                )
            return event, outputs
        results = dict(zip(self._stored(), outputs, strict=True))
        of_output = {"restrict": not is_shared, **layout}
        result: tuple[Any, Any] = self._launch(
            place, of_output, {**given, **results}, more, "build_output"
        )
        return result

    def _new_outputs(self, place: Place, given: Sequence[str], like: Any) -> dict[str, Any]:
        """Return the arrays that a call makes, like its first one."""
        return {
            one.name: new_array(place, like, like.shape, one.dtype)
            for one in self.signature.arrays
            if one.name not in given
        }

    def _fitted(self, name: str, array: Any, size: int) -> Any:
        """Return an array with one axis; of an array of which each element is used, its first."""
        found = flat(array)
        if found is None:
            raise InvocationError(
                f"argument '{name}' has {len(array.shape)} axes with gaps",
                kernel=self.name,
                hint=f"pass {name}.copy(), or the axis to scan along: axis=0",
            )
        if name not in self._plain or found.shape[0] == size:
            return found
        if found.shape[0] < size:
            raise InvocationError(
                f"argument '{name}' has {found.shape[0]} elements, and {size} are scanned",
                kernel=self.name,
                point=f"{name}[{found.shape[0]}] at i = {found.shape[0]}",
                hint="pass a longer array, or size=...",
            )
        return found[:size]

    def _run_along(
        self, place: Place, given: dict[str, Any], axis: int, more: dict[str, Any]
    ) -> tuple[Any, Any]:
        names = [one.name for one in self.signature.arrays if one.name in given]
        shape = tuple(given[names[0]].shape)
        if not self._plain.issuperset(names) or self._stores_results:
            raise InvocationError(
                "a scan along an axis uses elements other than x[i], or overwrites its input",
                kernel=self.name,
                hint="scan rows one by one, or pass another array for the output",
            )
        if any(tuple(given[name].shape) != shape for name in names):
            raise InvocationError("arrays have different shapes", kernel=self.name)
        if not -len(shape) <= axis < len(shape):
            raise InvocationError(
                f"there is no axis {axis} in arrays of {len(shape)} axes", kernel=self.name
            )
        axis %= len(shape)
        axes = (int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :])))
        views = {name: as_axes(place, given[name], axes) for name in names}
        options = {
            "along": "rows" if axes[2] == 1 else "columns",
            "index_dtype": self.index_dtype or place.index_dtype(int(np.prod(shape))),
        }
        result: tuple[Any, Any] = self._launch(place, options, {**given, **views}, more)
        return result

    def _defaults(self, place: Place, options: Mapping[str, Any]) -> dict[str, int]:
        if "along" in options:
            by_rows = options["along"] == "rows"
            on_gpu = ("group_size", "items" if by_rows else "rows")
            on_host = ("rows" if by_rows else "lanes",)
            return defaults_of(schedules.scan_along, *(on_gpu if place.is_gpu else on_host))
        if "in_one_group" not in options:  # of the output
            return {}
        if place.is_gpu:
            return {"group_size": Tiling.group_size, "items": options["items"]}
        return defaults_of(schedules.scan, *([] if options["in_one_group"] else ["chunk"]))


class _Body:
    """The instructions of a scan in the loops *step*; *source* is the index of its operands."""

    def __init__(
        self, kernel: GenericScanKernel, step: Indices, source: Indices, *, stores_results: bool
    ) -> None:
        self.kernel = kernel
        self.stores_results = stores_results
        self.step = step
        self.inames = frozenset(step.inames)
        self.temporaries: dict[str, TemporaryVariable] = {}
        self.results: list[GlobalArg] = []
        self.silenced: list[str] = []
        self.domains: list[str] = []
        self.is_exclusive = "prev_item" in kernel._uses
        self.scope = kernel.signature.scope(step)
        self.operands = kernel._input(kernel.signature.scope(source))
        steps = [*self._scan(), *self._items(), *self._outputs()]
        self.instructions = [self._inside(insn) for insn in steps]

    def _inside(self, insn: InstructionBase) -> InstructionBase:
        if insn.within_inames_is_final:
            return insn
        return insn.copy(within_inames=self.inames, within_inames_is_final=True)

    def _temporary(self, name: str, dtype: Any) -> p.Variable:
        self.temporaries[name] = TemporaryVariable(
            name, dtype, shape=(), address_space=AddressSpace.PRIVATE
        )
        return p.Variable(name)

    def _scan(self) -> Iterator[InstructionBase]:
        """Yield what scans: all before an element, or with it."""
        combination = self.kernel.combination
        result = self._temporary("kgen_before" if self.is_exclusive else "item", self.kernel.dtype)
        if len(self.operands) == 1:
            operation: ReductionOperation = operation_of(combination)
            yield Assignment(result, Reduction(operation, ("j",), self.operands[0]), id="scan")
        else:
            flag = self._temporary("kgen_flag", _BOOL)
            reduction = Reduction(FlaggedOperation(combination), ("j",), self.operands)
            yield CallInstruction((result, flag), reduction, id="scan")

    def _items(self) -> Iterator[InstructionBase]:
        """Yield what finds the results of an element and of the one before it."""
        if not self.is_exclusive:
            return
        kernel = self.kernel
        before: Expr = p.Variable("kgen_before")
        value, *flags = kernel._input(self.scope)
        starts: Expr = False
        if kernel.is_segmented:
            starts = self._temporary("kgen_starts", _BOOL)
            yield Assignment(starts, flags[0], id="starts")
        if "item" in kernel._uses:
            item = self._temporary("item", kernel.dtype)
            yield Assignment(item, kernel.combination.of(before, value, starts), id="item")
        if kernel.is_segmented:
            before = p.If(starts, kernel.neutral, before)
        yield Assignment(self._temporary("prev_item", kernel.dtype), before, id="prev_item")

    def _outputs(self) -> Iterator[InstructionBase]:
        """Yield what stores the results, in memory of their own or where the snippet says."""
        kernel = self.kernel
        if self.stores_results:
            for name in kernel._stored():
                self.results.append(GlobalArg(name, kernel.dtype, shape=self.step.sizes))
                place = p.Variable(name)[tuple(map(p.Variable, self.step.inames))]
                yield Assignment(place, p.Variable(name.removeprefix("kgen_")), id=f"store_{name}")
            return
        program = kernel._output(kernel._with_results(self.scope), self.step.inames)
        self.temporaries |= program.temporaries
        self.domains = program.domains
        self.silenced = _races(program, self.step)
        yield from program.instructions


class _TiledBody(_Body):
    """The instructions of a scan that tiles of elements in local memory hold."""

    def __init__(self, kernel: GenericScanKernel, tiling: Tiling, *, stores_results: bool) -> None:
        self.scan = TiledScan(
            kernel.combination,
            lambda indices: kernel._input(kernel.signature.scope(indices)),
            kernel.signature.size,
            tiling,
        )
        super().__init__(kernel, self.scan.step, self.scan.step, stores_results=stores_results)

    def _inside(self, insn: InstructionBase) -> InstructionBase:
        return insn if isinstance(insn, BarrierInstruction) else super()._inside(insn)

    def _scan(self) -> Iterator[InstructionBase]:
        """Yield what leaves the results in the tile."""
        yield from self.scan.instructions()

    def _items(self) -> Iterator[InstructionBase]:
        return map(self._where_elements_are, self._items_of_tile())

    def _where_elements_are(self, insn: InstructionBase) -> InstructionBase:
        return insn.copy(predicates=insn.predicates | {self.scan.step.condition})

    def _items_of_tile(self) -> Iterator[InstructionBase]:
        kernel, place = self.kernel, self.scan.place
        if self.is_exclusive:
            before: Expr = p.If(
                p.Comparison(place, ">", 0),
                self.scan.item(p.Sum((place, -1))),
                p.Variable("kgen_carry_0"),
            )
            if kernel.is_segmented:
                _, starts = kernel._input(self.scope)
                before = p.If(starts, kernel.neutral, before)
            yield Assignment(self._temporary("prev_item", kernel.dtype), before, id="prev_item")
        if not self.is_exclusive or "item" in kernel._uses:
            item = self._temporary("item", kernel.dtype)
            yield Assignment(item, self.scan.item(place), id="item")

    def _outputs(self) -> Iterator[InstructionBase]:
        yield from map(self._where_elements_are, super()._outputs())
        yield from self.scan.carry_on()


def _races(program: Program, indices: Indices) -> list[str]:
    """Return the warnings of stores to elements other than x[i], which C leaves to its writer."""
    return [f"write_race({name})" for name in program.scattered(indices.element)]


def _read_fetches(
    signature: Signature, fetches: Iterable[tuple[str, str, int]]
) -> tuple[tuple[str, str, int], ...]:
    """Return the values that a scan fetches, or reject what is no such value."""
    arrays = {one.name for one in signature.arrays}
    found = []
    for name, array, offset in fetches:
        if array not in arrays or offset not in (0, -1):
            raise KernelError(
                f"input_fetch_exprs has ({name!r}, {array!r}, {offset!r})",
                kernel=signature.kernel,
                hint="write (NAME, ARRAY, OFFSET) with an array of the arguments, and 0 or -1",
            )
        found.append((str(name), str(array), int(offset)))
    return tuple(found)


class _ScanOfArray(GenericScanKernel):
    """A scan of one array to another one."""

    _output_statement: str

    @context_first
    def __init__(
        self,
        context: Any,
        dtype: Any,
        scan_expr: str,
        neutral: str | None = None,
        name_prefix: str = "scan",
        options: Any = None,
        preamble: str = "",
        devices: Any = None,
        *,
        schedule: Mapping[str, Any] | None = None,
        wisdom: Any = None,
    ) -> None:
        dtype = np.dtype(dtype)
        super().__init__(
            context,
            dtype,
            [CArgument(name, dtype, is_array=True) for name in ("input_ary", "output_ary")],
            input_expr="input_ary[i]",
            scan_expr=scan_expr,
            neutral=neutral,
            output_statement=self._output_statement,
            name_prefix=name_prefix,
            options=options,
            preamble=preamble,
            devices=devices,
            schedule=schedule,
            wisdom=wisdom,
        )

    def __call__(
        self,
        input_ary: Any,
        output_ary: Any = None,
        allocator: Any = None,
        queue: Any = None,
        *,
        axis: int | None = None,
        wait_for: Any = None,
        stream: Any = None,
    ) -> Any:
        """Return the scan of an array, all of it or along an axis.

        :arg output_ary: the array for the result, which may be the input; a new one if left out
        :arg axis: the axis along which each row is scanned
        :arg queue, wait_for, allocator, stream: of OpenCL, of CUDA
        """
        if axis is allocator is queue is wait_for is stream is None:
            args = (input_ary,) if output_ary is None else (input_ary, output_ary)
            done = self._like_before(args)
            if done is not None:
                return done[1][0] if output_ary is None else output_ary
        given = {"input_ary": input_ary}
        if output_ary is not None:
            given["output_ary"] = output_ary
        given = native(self.name, given, given, stream)
        place = find_place(self.name, given.values(), queue)
        allocator = allocator or allocator_of(given.values())
        more = call_options(wait_for=wait_for, allocator=allocator, stream=stream)
        result = self._scanned(place, given, axis, more)
        return like(self.name, input_ary, result) if output_ary is None else output_ary

    def _scanned(
        self, place: Place, given: dict[str, Any], axis: int | None, more: dict[str, Any]
    ) -> Any:
        """Return the scan of an array; into the other one, if there is one."""
        source, target = given["input_ary"], given.get("output_ary")
        if target is source and axis is not None:
            del given["output_ary"]
        _, outputs = self._run(place, given, None, axis, more)
        if "output_ary" in given:
            return target
        (result,) = outputs
        if target is not None:
            copy_to(place, result.reshape(target.shape), target)
        if result.shape == source.shape:
            return result
        is_transposed = source.flags.f_contiguous and not source.flags.c_contiguous
        order = "F" if is_transposed and axis is None else "C"
        return result.reshape(source.shape, order=order)


class InclusiveScanKernel(_ScanOfArray):
    """A scan that includes each element: ``out[i]`` combines ``x[0]``...``x[i]``.

    :arg context: optional, a pyopencl context; the arrays of a call determine where it runs
    :arg dtype: the type of elements
    :arg scan_expr: the combination of two values, an expression in C of ``a`` and ``b``
    :arg neutral: the neutral element in C, if there is one
    :arg name_prefix, options, preamble, devices, schedule, wisdom: as for
        :class:`GenericScanKernel`

    >>> import numpy as np
    >>> InclusiveScanKernel(np.int32, "a+b")(np.arange(5, dtype=np.int32))
    array([ 0,  1,  3,  6, 10], dtype=int32)
    """

    _output_statement = "output_ary[i] = item;"


class ExclusiveScanKernel(_ScanOfArray):
    """A scan that excludes each element: ``out[i]`` combines ``x[0]``...``x[i-1]``.

    The arguments are those of :class:`InclusiveScanKernel`; *neutral* is the first result.

    >>> import numpy as np
    >>> ExclusiveScanKernel(np.int32, "a+b", "0")(np.arange(5, dtype=np.int32))
    array([0, 0, 1, 3, 6], dtype=int32)
    """

    _output_statement = "output_ary[i] = prev_item;"
