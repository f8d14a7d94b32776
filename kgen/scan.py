"""Scans (prefix sums) of arrays given by C expressions, with the API of pyopencl and pycuda."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.errors import InvocationError
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.ready import schedules
from kgen.ready.again import Repeated, weakly
from kgen.ready.arguments import check_devices, context_first
from kgen.ready.c_functions import from_leaves
from kgen.ready.c_text import CArgument
from kgen.ready.indices import Indices
from kgen.ready.libraries import like, native
from kgen.ready.passed import read_call
from kgen.ready.places import (
    Place,
    axes_around,
    copy_to,
    find_place,
    flat,
    live_stream,
    new_array,
    output_axes,
)
from kgen.ready.scan_bodies import ScanBody, TiledScanBody, races
from kgen.ready.scan_snippets import ScanSnippets
from kgen.ready.shortcut import shortcut_for
from kgen.ready.snippet import allocator_of, call_options, plain_arrays
from kgen.ready.tiles import Tiling, looks_back, tiling_for
from kgen.ready.tuned import Tunable, defaults_of

__all__ = [
    "ExclusiveScanKernel",
    "GenericDebugScanKernel",
    "GenericScanKernel",
    "InclusiveScanKernel",
]


#: The maximum number of elements of calls on CUDA that are kept with memory for all results.
_MOST_IN_PLACE: Final = 2**20


class GenericScanKernel(Tunable):
    """Scans the values of an expression of array elements, and runs a statement on each result.

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

    _in_one_group = False

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
        snippets = ScanSnippets(
            self.name, self.dtype, arguments, texts, neutral, input_fetch_exprs or (), preamble
        )
        self._snippets, self.signature = snippets, snippets.signature
        self._plain = plain_arrays(self.signature, snippets.read_all)
        operation = (str(self.dtype), neutral, preamble, *sorted(snippets.texts.items()))
        self._begin(wisdom, self.signature.arguments, *operation, snippets.fetched)

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
        stores_results = self._snippets.stores_results if stores_results is None else stores_results
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
        body = ScanBody(self._snippets, step, source, stores_results=stores_results)
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
            preambles=self.signature.preambles(target, self.dtype),
            silenced_warnings=body.silenced,
        )
        if along is not None:
            return schedules.scan_along(knl, step.inames, along, is_gpu=is_gpu, **settings)
        return schedules.scan(knl, swept, in_one_group=in_one_group, **settings)

    def _in_tiles(
        self, target: TargetBase, tiling: Tiling, index_dtype: Any, *, stores_results: bool
    ) -> TranslationUnit:
        """Return the kernel for a GPU."""
        body = TiledScanBody(self._snippets, tiling, stores_results=stores_results)
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
            preambles=self.signature.preambles(target, self.dtype),
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
        snippets = self._snippets
        values = {
            name: from_leaves(
                self.dtype,
                [p.Variable(f"kgen_{own}")[place] for own in snippets.names_of(stored)],
            )
            for name, stored, place in (
                ("item", "item", at),
                ("prev_item", "prev_item", at),
                ("last_item", "item", last),
            )
        }
        scope = self.signature.scope(indices)
        program = snippets.output(scope.with_numbers(values), ("i",))
        dtypes = itertools.cycle(snippets.combination.dtypes)
        results = [
            GlobalArg(name, dtype, shape=indices.sizes, is_input=True)
            for name, dtype in zip(snippets.stored(), dtypes, strict=False)
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
            preambles=self.signature.preambles(target, self.dtype),
            silenced_warnings=races(program, indices),
        )
        return schedules.elementwise(knl, indices.inames, is_gpu=is_gpu, **schedule)

    # -- calls ----------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Scan; return the event of OpenCL, ``None`` on the host and on CUDA.

        :arg args: the arguments in their order: arrays of numpy, pyopencl, pycuda and other
            libraries, and numbers
        :arg size: the number of elements; that of the first array if left out
        :arg axis: the axis of arrays of one shape along which each row is scanned
        :arg queue, wait_for, allocator, stream: of OpenCL, of CUDA
        """
        done = self._like_before(args, options)
        if done is None and not options and self._makes_in_place(args, None):
            return None
        return self._call(args, **options) if done is None else done[0]

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

    def _makes_in_place(self, args: tuple[Any, ...], stream: Any) -> bool:
        """Make a scan on CUDA that two kernels run, to be repeated; tell whether that is done."""
        arrays = [value for value in args if hasattr(value, "gpudata")]
        is_shared = len({id(array) for array in arrays}) < len(arrays)
        if not (self._snippets.stores_results or is_shared) or self.wisdom.records:
            return False
        if not self._again.takes(args):
            return False
        if any(array.size > _MOST_IN_PLACE for array in arrays):
            return False
        where = None if stream is None else live_stream(stream)
        if stream is not None and where is None:
            return False
        self._again.is_used = True
        self._again.make(args, Repeated(weakly(self._packed, where)), where)
        return True

    def _packed(self, where: tuple[int, int] | None, args: tuple[Any, ...], _new: list[Any]) -> Any:
        """Return a function that makes the launches of a call on CUDA."""
        replays: list[Any] = []

        def launch(
            place: Place,
            options: Mapping[str, Any],
            arguments: dict[str, Any],
            more: Mapping[str, Any],
            method: str = "build",
        ) -> tuple[None, tuple[Any, ...]]:
            executor = self._tuned(place, method, options, arguments)
            replay, outputs = executor.packed(**place.options, **arguments, **more)
            replays.append(replay)
            return None, tuple(outputs.values())

        given, place, _ = read_call(self.signature, args, None, None)
        more = call_options(allocator=allocator_of(given.values()), stream=where and where[0])
        self._run(place, given, None, None, more, launch)
        return type(replays[0]).of_all(replays, self.name)

    def _run(
        self,
        place: Place,
        given: dict[str, Any],
        size: int | None,
        axis: int | None,
        more: dict[str, Any],
        launch: Callable[..., tuple[Any, Any]] | None = None,
    ) -> tuple[Any, Any]:
        """Return the event of a call, and the arrays that were written.

        :arg launch: runs kernels instead of the method ``_launch``
        """
        launch = launch or self._launch
        names = [one.name for one in self.signature.arrays if one.name in given]
        first = given[names[0]]
        is_shared = len({id(given[name]) for name in names}) < len(names)
        if axis is not None:
            axes_around(tuple(first.shape), axis, self.name)
            if len(first.shape) > 1:
                return self._run_along(place, given, axis, more)
        self._check_orders({name: given[name] for name in names})
        is_plain = size is None and all(given[name].shape == first.shape for name in names)
        is_plain = is_plain and len(first.shape) == 1
        if size is None:
            size = first.shape[0] if len(first.shape) == 1 else int(np.prod(first.shape))
        for name in names:
            given[name] = self._fitted(name, given[name], size)
        if any(name not in self._plain for name in names):
            given[self.signature.size] = size
        layout = {"index_dtype": self.index_dtype or place.index_dtype(size)}
        stores_results = self._snippets.stores_results or is_shared
        tiling: dict[str, int] = {}
        if place.is_gpu:
            is_one = looks_back(place.target, self.dtype, self.schedule)
            tiling = tiling_for(size, self.dtype, is_one_tile=is_one, **self.schedule)
        options = {
            **tiling,
            "in_one_group": self._in_one_group or size <= place.few,
            "stores_results": stores_results,
            **layout,
        }
        event, outputs = launch(place, options, given, more)
        if not stores_results:
            if is_plain and "turns" not in tiling and not self.wisdom.records:
                self._shortcut = shortcut_for(
                    place,
                    self._executor(place, "build", options),
                    self.signature,
                    given,
                    place.sizes_like(size, place.few),
                    allocates=True,
                    again=self._again,
                    outputs=partial(self._new_outputs, place, tuple(given)),
                )
            return event, outputs
        results = dict(zip(self._snippets.stored(), outputs, strict=True))
        of_output = {"restrict": not is_shared, **layout}
        return launch(place, of_output, {**given, **results}, more, "build_output")

    def _new_outputs(self, place: Place, given: Sequence[str], like: Any) -> dict[str, Any]:
        """Return the arrays that a call allocates, of the kind of its first argument."""
        return {
            one.name: new_array(place, like, like.shape, one.dtype)
            for one in self.signature.arrays
            if one.name not in given
        }

    def _check_orders(self, arrays: Mapping[str, Any]) -> None:
        """Check that arrays of several axes have their elements in one order in memory."""
        by_rows = [name for name, array in arrays.items() if not array.flags.f_contiguous]
        by_columns = [name for name, array in arrays.items() if not array.flags.c_contiguous]
        if by_rows and by_columns and by_rows != by_columns:
            raise InvocationError(
                f"arguments '{by_rows[0]}' and '{by_columns[0]}' have their axes in different "
                "orders in memory",
                kernel=self.name,
                hint="pass arrays in C order, or the axis to scan along: axis=0",
            )

    def _fitted(self, name: str, array: Any, size: int) -> Any:
        """Return an array with one axis, cut to *size* elements if accesses are elementwise."""
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
                f"argument '{name}' has {found.shape[0]} elements, but {size} are scanned",
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
        if not self._plain.issuperset(names) or self._snippets.stores_results:
            raise InvocationError(
                "a scan along an axis uses elements other than x[i], or overwrites its input",
                kernel=self.name,
                hint="scan rows one by one, or pass another array for the output",
            )
        if any(tuple(given[name].shape) != shape for name in names):
            raise InvocationError("arrays have different shapes", kernel=self.name)
        axes = axes_around(shape, axis, self.name)
        views = {name: output_axes(place, given[name], axes) for name in names}
        options = {
            "along": "rows" if axes[2] == 1 else "columns",
            "index_dtype": self.index_dtype or place.index_dtype(int(np.prod(shape))),
        }
        arguments = {**given, **{name: view for name, (view, _) in views.items()}}
        event, outputs = self._launch(place, options, arguments, more)
        for name in self._snippets.written.intersection(names):
            event = views[name][1](event)
        return event, outputs

    def _defaults(self, place: Place, options: Mapping[str, Any]) -> dict[str, int]:
        if "along" in options:
            by_rows = options["along"] == "rows"
            on_gpu = ("group_size", "items" if by_rows else "rows")
            on_host = ("rows" if by_rows else "lanes",)
            return defaults_of(schedules.scan_along, *(on_gpu if place.is_gpu else on_host))
        if "in_one_group" not in options:  # of the output
            return {}
        if place.is_gpu:
            group_size = options.get("group_size", Tiling.group_size)
            return {"group_size": group_size, "items": options["items"]}
        return defaults_of(schedules.scan, *([] if options["in_one_group"] else ["chunk"]))


class GenericDebugScanKernel(GenericScanKernel):
    """A :class:`GenericScanKernel` that one work-group runs, to find errors of expressions.

    On the host, this is a loop over the elements in their order.

    >>> import numpy as np
    >>> knl = GenericDebugScanKernel(np.int32, "int *x, int *out", "x[i]", "a+b", "0",
    ...                              "out[i] = prev_item")
    >>> out = np.zeros(4, np.int32)
    >>> knl(np.arange(4, dtype=np.int32), out)
    >>> out
    array([0, 0, 1, 3], dtype=int32)
    """

    _in_one_group = True


#: Packages whose scans store the result in the input if no output is passed.
_IN_PLACE: Final = frozenset({"pyopencl", "pycuda"})


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
        """Scan an array, all of it or along an axis, and return the result.

        :arg output_ary: the array for the result, which may be the input. If it is left out, the
            result is stored in the input if that is an array of pyopencl or pycuda, as their
            classes do, and in a new array otherwise
        :arg axis: the axis along which each row is scanned
        :arg queue, wait_for, allocator, stream: of OpenCL, of CUDA
        """
        if output_ary is None and type(input_ary).__module__.partition(".")[0] in _IN_PLACE:
            output_ary = input_ary
        if axis is allocator is queue is wait_for is None:
            args = (input_ary,) if output_ary is None else (input_ary, output_ary)
            done = self._like_before(args, {} if stream is None else {"stream": stream})
            if done is not None:
                return done[1][0] if output_ary is None else output_ary
            if self._makes_in_place(args, stream):
                return output_ary
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
        """Return the scan of an array, stored in the output array if one was passed."""
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
