"""Selecting and sorting elements of arrays, called like pyopencl's algorithms."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kgen.elementwise import ElementwiseKernel
from kgen.errors import InvocationError, KernelError
from kgen.ir.data import GlobalArg, ValueArg
from kgen.ir.expr import Expr
from kgen.ir.target import TargetBase
from kgen.ir.unit import TranslationUnit
from kgen.ready.again import MOST_ELEMENTS, Repeated, weakly
from kgen.ready.arguments import context_first, read_arguments, reject_given
from kgen.ready.c_functions import Value, converted
from kgen.ready.c_text import CArgument
from kgen.ready.expressions import to_value
from kgen.ready.indices import Indices
from kgen.ready.libraries import like, native, viewed
from kgen.ready.onesweep import MOST_BITS, OneSweepPass, group_alone
from kgen.ready.passed import read_call
from kgen.ready.places import HOST, Place, find_place, flat, live_stream, maker_like, new_array
from kgen.ready.radix import RadixPass
from kgen.ready.snippet import Signature, allocator_of, call_options
from kgen.ready.tuned import Tunable
from kgen.scan import GenericScanKernel
from kgen.transforms.storage.declarations import set_options

__all__ = ["KeyValueSorter", "RadixSort", "copy_if", "partition", "remove_if", "unique"]

_IS_LAST: Final = "if (i+1 == N) count[0] = item;"
#: The default number of bits by which a pass sorts.
_BITS: Final = 8
_MOST_BITS_AT_A_TIME: Final = 16
_Extra = Sequence[tuple[str, Any]]
#: The ``key_bits`` of a sort, and what identifies its stream on CUDA.
_Facts = tuple[int | None, tuple[int, int] | None]


def copy_if(
    ary: Any,
    predicate: str,
    extra_args: _Extra | None = None,
    preamble: str = "",
    queue: Any = None,
    wait_for: Any = None,
) -> tuple[Any, Any, Any]:
    """Copy the elements for which a condition is true to the front of a new array, in order.

    :arg ary: an array with one axis, of numpy, pyopencl, pycuda or another library
    :arg predicate: an expression in C of ``ary[i]``
    :arg extra_args: pairs of names and values, arrays or numbers, which *predicate* uses
    :arg preamble: functions and macros in C that *predicate* uses
    :arg queue, wait_for: an OpenCL queue, and events to wait for

    Returns ``(out, count, event)``: an array of the length of *ary*, which starts with these
    elements; an array of shape ``()`` with their number; and the OpenCL event.

    >>> import numpy as np
    >>> out, count, event = copy_if(np.array([5, 1, 7, 2]), "ary[i] > limit", [("limit", 3)])
    >>> out[:int(count)]
    array([5, 7])
    """
    return _select(ary, f"({predicate}) ? 1 : 0", extra_args, preamble, queue, wait_for)


def remove_if(
    ary: Any,
    predicate: str,
    extra_args: _Extra | None = None,
    preamble: str = "",
    queue: Any = None,
    wait_for: Any = None,
) -> tuple[Any, Any, Any]:
    """Copy the elements for which a condition is false, with the arguments of :func:`copy_if`.

    >>> import numpy as np
    >>> out, count, event = remove_if(np.array([5, 1, 7, 2]), "ary[i] > 3")
    >>> out[:int(count)]
    array([1, 2])
    """
    return _select(ary, f"({predicate}) ? 0 : 1", extra_args, preamble, queue, wait_for)


def unique(
    ary: Any,
    is_equal_expr: str = "a == b",
    extra_args: _Extra | None = None,
    preamble: str = "",
    queue: Any = None,
    wait_for: Any = None,
) -> tuple[Any, Any, Any]:
    """Copy elements that differ from the preceding one; the arguments are as in :func:`copy_if`.

    :arg is_equal_expr: whether ``a`` and the preceding element ``b`` are equal, in C

    >>> import numpy as np
    >>> out, count, event = unique(np.array([1, 1, 2, 2, 2, 1]))
    >>> out[:int(count)]
    array([1, 2, 1])
    """
    is_first = f"(i == 0 || !({is_equal_expr})) ? 1 : 0"
    return _select(ary, is_first, extra_args, preamble, queue, wait_for, compares=True)


def partition(
    ary: Any,
    predicate: str,
    extra_args: _Extra | None = None,
    preamble: str = "",
    queue: Any = None,
    wait_for: Any = None,
) -> tuple[Any, Any, Any, Any]:
    """Copy each element to one of two arrays; the arguments are as in :func:`copy_if`.

    Returns ``(out_true, out_false, count, event)``; *count* is the number of elements for which
    the condition is true.

    >>> import numpy as np
    >>> large, small, count, event = partition(np.array([5, 1, 7, 2]), "ary[i] > 3")
    >>> large[:int(count)], small[:4 - int(count)]
    (array([5, 7]), array([1, 2]))
    """
    statement = "if (prev_item != item) out_true[item-1] = ary[i]; else out_false[i-item] = ary[i];"
    (large, small), count, event = _run(
        ("out_true", "out_false"),
        f"({predicate}) ? 1 : 0",
        statement,
        ary,
        extra_args or (),
        preamble,
        queue,
        wait_for,
    )
    return large, small, count, event


def _select(
    ary: Any,
    selects: str,
    extra_args: _Extra | None,
    preamble: str,
    queue: Any,
    wait_for: Any,
    *,
    compares: bool = False,
) -> tuple[Any, Any, Any]:
    """Copy the elements for which an expression in C is 1."""
    (out,), count, event = _run(
        ("out",),
        selects,
        "if (prev_item != item) out[item-1] = ary[i];",
        ary,
        extra_args or (),
        preamble,
        queue,
        wait_for,
        compares=compares,
    )
    return out, count, event


def _run(
    outputs: tuple[str, ...],
    selects: str,
    statement: str,
    ary: Any,
    extra_args: _Extra,
    preamble: str,
    queue: Any,
    wait_for: Any,
    *,
    compares: bool = False,
) -> tuple[tuple[Any, ...], Any, Any]:
    """Scan the numbers of selected elements, and run a statement for each element."""
    passed = ary
    ary = flat(native("select", {"ary": ary}, ["ary"])["ary"])
    if ary is None:
        raise InvocationError("'ary' has several axes with gaps", hint="pass ary.copy()")
    place = find_place("select", [ary], queue)
    more = {name: viewed("select", name, value) for name, value in extra_args}
    values = [value if more[name] is None else more[name] for name, value in extra_args]
    extra = tuple(
        (name, _dtype_of(value), more[name] is not None)
        for (name, _), value in zip(extra_args, values, strict=True)
    )
    size = int(ary.shape[0])
    count_dtype = np.dtype(place.index_dtype(size))
    knl = _selecting(outputs, selects, statement, compares, ary.dtype, count_dtype, extra, preamble)
    made = [new_array(place, ary, (size,), ary.dtype) for _ in outputs]
    count = new_array(place, ary, (1,), count_dtype)
    if size == 0:
        count.fill(0)
    event = knl(ary, *made, count, *values, **call_options(queue=queue, wait_for=wait_for))
    results = [like("select", passed, one) for one in (*made, count.reshape(()))]
    return tuple(results[:-1]), results[-1], event


def _dtype_of(value: Any) -> np.dtype[Any]:
    dtype = getattr(value, "dtype", None)
    return np.dtype(dtype) if dtype is not None else np.asarray(value).dtype


@functools.lru_cache(maxsize=256)
def _selecting(
    outputs: tuple[str, ...],
    selects: str,
    statement: str,
    compares: bool,
    dtype: np.dtype[Any],
    count_dtype: np.dtype[Any],
    extra: tuple[tuple[str, np.dtype[Any], bool], ...],
    preamble: str,
) -> GenericScanKernel:
    """Return the scan that numbers elements."""
    arguments = [
        *(CArgument(name, dtype, is_array=True) for name in ("ary", *outputs)),
        CArgument("count", count_dtype, is_array=True),
        *(CArgument(*one) for one in extra),
    ]
    return GenericScanKernel(
        None,
        count_dtype,
        arguments,
        input_expr=selects,
        scan_expr="a+b",
        neutral="0",
        output_statement=f"{statement} {_IS_LAST}",
        input_fetch_exprs=[("a", "ary", 0), ("b", "ary", -1)] if compares else (),
        name_prefix="select",
        preamble=preamble,
    )


@dataclass(frozen=True)
class _Call:
    """The arguments of a sort: arrays of *size* elements, by the key bits before *last*.

    *alone* is the number of work-items of the group that sorts them alone, if one does.
    """

    place: Place
    given: dict[str, Any]
    arrays: list[Any]
    size: int
    last: int
    bits: int
    in_one_sweep: bool
    alone: int | None
    numbers: dict[str, Any]

    @property
    def shifts(self) -> range:
        """The first bit of each pass."""
        return range(0, self.last, self.last if self.alone else self.bits)


class RadixSort(Tunable):
    """Sorts arrays by integer keys; the sort is stable.

    :arg context: optional, a pyopencl context; the arrays of a call determine where it runs
    :arg arguments: an argument list in C
    :arg key_expr: the key of element ``i``, an expression in C whose value is an integer
    :arg sort_arg_names: the arguments whose elements are sorted
    :arg bits_at_a_time: the bits of keys by which one pass sorts; by default the number that suits
        the device
    :arg index_dtype: the type of indices; by default a sufficient one
    :arg key_dtype: the type of keys; negative ones come first
    :arg scan_kernel: an argument of pyopencl that must be omitted: a sort has its own scan
    :arg options: flags for the compiler
    :arg schedule, wisdom: as for :class:`kgen.elementwise.ElementwiseKernel`; a tune measures one
        pass

    >>> import numpy as np
    >>> sort = RadixSort("int *x, char *name", key_expr="x[i]", sort_arg_names=["x", "name"],
    ...                  key_dtype=np.int32)
    >>> (x, name), event = sort(np.array([3, -7, 5], np.int32), np.array([1, 2, 3], np.int8))
    >>> x, name
    (array([-7,  3,  5], dtype=int32), array([2, 1, 3], dtype=int8))
    """

    @context_first
    def __init__(
        self,
        context: Any,
        arguments: Any,
        key_expr: str,
        sort_arg_names: Sequence[str],
        bits_at_a_time: int | None = None,
        index_dtype: Any = None,
        key_dtype: Any = np.uint32,
        scan_kernel: Any = None,
        options: Any = None,
        *,
        schedule: Mapping[str, Any] | None = None,
        wisdom: Any = None,
    ) -> None:
        self.context = context
        self.name = "radix_sort"
        reject_given(self.name, "a sort uses its own scan", scan_kernel=scan_kernel)
        self.options = options
        self.signature = Signature(self.name, read_arguments(arguments))
        self.sort_arg_names = tuple(sort_arg_names)
        asked = _BITS if bits_at_a_time is None else bits_at_a_time
        self.bits_at_a_time = self._bits("bits_at_a_time", asked, 1, _MOST_BITS_AT_A_TIME)
        self.index_dtype = index_dtype
        self.schedule = dict(schedule or {})
        self.key_dtype = np.dtype(key_dtype)
        if self.key_dtype.kind not in "iub":
            raise KernelError(
                f"keys are of the type {self.key_dtype}, which is not an integer type",
                kernel=self.name,
                hint="sort x.view(np.uint32) by (x[i] >> 31) ? ~x[i] : (x[i] | 0x80000000)",
            )
        names = {one.name: one for one in self.signature.arrays}
        for name in self.sort_arg_names:
            if name not in names:
                raise KernelError(
                    f"'{name}', which is to be sorted, is not an array among the arguments",
                    kernel=self.name,
                )
        self._moved = tuple(names[name] for name in self.sort_arg_names)
        self._key = self._read_key(key_expr)
        operation = (key_expr, str(self.key_dtype), self.sort_arg_names)
        self._begin(wisdom, self.signature.arguments, *operation)

    def _read_key(self, key_expr: str) -> Expr:
        """Return the key as an unsigned number of 32 or 64 bits."""
        scope = self.signature.scope(Indices(self.signature.size))
        key = Value(to_value(key_expr, "key_expr", scope, self.key_dtype), self.key_dtype)
        if self.key_dtype.kind == "i" and self.key_dtype.itemsize < self._unsigned.itemsize:
            key = converted(key, np.dtype(f"uint{8 * self.key_dtype.itemsize}"))
        return converted(key, self._unsigned).expr

    @property
    def _unsigned(self) -> np.dtype[Any]:
        return np.dtype(np.uint64 if self.key_dtype.itemsize == 8 else np.uint32)

    def __call__(
        self,
        *args: Any,
        key_bits: int | None = None,
        queue: Any = None,
        allocator: Any = None,
        wait_for: Any = None,
        stream: Any = None,
    ) -> tuple[tuple[Any, ...], Any]:
        """Return sorted copies of the arrays to be sorted, and the event of OpenCL.

        :arg args: the arguments in their order: arrays of numpy, pyopencl, pycuda and other
            libraries, and numbers
        :arg key_bits: the number of bits of the keys, from the lowest, which are not negative then;
            at most the bits of the type of keys
        :arg queue, allocator, wait_for, stream: of OpenCL, of CUDA
        """
        facts = None
        if queue is allocator is wait_for is None:
            facts = self._facts(key_bits, stream)
        found: Any = self._again(args, facts) if facts and self._again.calls else None
        if found is not None:
            return tuple(found), None
        first, call = self._read(args, key_bits, queue, stream)
        if facts is not None and call.place.options:
            found = self._repeat(args, call, facts)
        self._again.is_used |= bool(call.place.options)
        if found is not None:
            return tuple(like(self.name, first, one) for one in found), None
        allocator = allocator or allocator_of(call.arrays)
        more = call_options(allocator=allocator, wait_for=wait_for, stream=stream)
        event: Any = None

        def run(executor: Any, arguments: dict[str, Any]) -> Any:
            nonlocal event
            event, outputs = executor(*call.place.leading, **arguments)
            return outputs

        results = self._run(call, self._targets(call), more, run)
        return tuple(like(self.name, first, one) for one in results), event

    def _facts(self, key_bits: int | None, stream: Any) -> _Facts | None:
        """Return on what a sort depends besides its arrays; ``None`` if it is not to be repeated.

        The first call is not, if it is in a stream, nor is one in a stream that is captured.
        """
        if key_bits is not None and type(key_bits) is not int:
            return None
        if stream is None:
            return key_bits, None
        where = live_stream(stream) if self._again.is_used else None
        return None if where is None else (key_bits, where)

    def _repeat(self, args: tuple[Any, ...], call: _Call, facts: _Facts) -> Any:
        """Repeat a sort on CUDA, or make it to be repeated; ``None`` if that is not possible."""
        given = tuple(call.given.values())
        if not 0 < call.size <= MOST_ELEMENTS or not self._again.takes(given):
            return None
        if any(map(operator.is_not, args, given)):  # views of another library's arrays
            results = self._again(given, facts)
            if results is not None:
                return results
        n_moved, n_made = len(self._moved), len(call.shifts[:2])
        at = [self.signature.arguments.index(one) for one in self._moved]
        new = [one for targets in self._targets(call) for one in targets.values()]
        makers = [(at[k % n_moved], maker_like(call.place, one)) for k, one in enumerate(new)]
        first = n_moved * ((len(call.shifts) - 1) % n_made)
        repeated = Repeated(weakly(self._packed, facts), makers, slice(first, first + n_moved))
        del new  # whose memory the call takes
        return self._again.make(given, repeated, facts)

    def _read(
        self, args: tuple[Any, ...], key_bits: int | None, queue: Any, stream: Any
    ) -> tuple[Any, _Call]:
        """Return the first array as passed, and the arguments of the sort; reject invalid ones."""
        given, place, first = read_call(self.signature, args, queue, stream)
        names = [one.name for one in self.signature.arrays]
        arrays = [given[name] for name in names]
        size = int(given[self._moved[0].name].shape[0])
        for name, array in zip(names, arrays, strict=True):
            self._check(name, array, size)
        width = 8 * self.key_dtype.itemsize
        is_signed = self.key_dtype.kind == "i" and key_bits is None
        last = width if key_bits is None else self._bits("key_bits", key_bits, 0, width)
        last = max(last, 1)  # keys without bits are equal, and copied
        numbers: dict[str, Any] = {"flipped": 1 << (width - 1) if is_signed else 0, **place.options}
        bits = self.bits_at_a_time
        in_one_sweep = place.is_gpu and place.target.looks_back
        alone = None
        if in_one_sweep:
            bits = min(bits, MOST_BITS)
            numbers["valid"] = (1 << last) - 1
            if size and not self.schedule:
                alone = group_alone(size, self._unsigned.itemsize, place.limits.local_memory)
        if alone:
            numbers["turns"] = -(-last // bits)
        return first, _Call(place, given, arrays, size, last, bits, in_one_sweep, alone, numbers)

    def _run(
        self,
        call: _Call,
        made: Sequence[Mapping[str, Any]],
        more: dict[str, Any],
        run: Callable[[Any, dict[str, Any]], Any],
    ) -> tuple[Any, ...]:
        """Run all passes, which alternate between the arrays *made*; return the results."""
        place, given, numbers = call.place, dict(call.given), dict(call.numbers)
        options = {
            "bits": call.bits,
            "index_dtype": self.index_dtype or place.index_dtype(call.size),
        }
        if call.alone:
            (targets,) = made
            arguments = {**given, **targets, **numbers}
            options |= {"in_one_group": True, "group_size": call.alone}
            run(self._tuned(place, "build", options, arguments), {**arguments, **more})
            return tuple(targets[f"{name}_out"] for name in self.sort_arg_names)
        if call.in_one_sweep:
            count = self._executor(place, "build_counts", options)
            (numbers["starts"],) = run(count, {**given, **numbers, **more})
        executor = None
        for turn, shift in enumerate(call.shifts):
            targets = made[turn % 2]
            arguments = {**given, **targets, **numbers, "shift": shift}
            if executor is None or not call.in_one_sweep:
                if not call.in_one_sweep:
                    options["bits"] = min(call.bits, call.last - shift)
                executor = self._tuned(place, "build", options, arguments)
            run(executor, {**arguments, **more})
            given |= {one.name: targets[f"{one.name}_out"] for one in self._moved}
            more.pop("wait_for", None)
        return tuple(given[name] for name in self.sort_arg_names)

    def _packed(
        self, facts: _Facts, args: tuple[Any, ...], new: Sequence[Any]
    ) -> Callable[[], None]:
        """Return a function that makes the launches of a call, which moves elements to *new*."""
        key_bits, stream = facts
        _, call = self._read(args, key_bits, None, None)
        names = [f"{one.name}_out" for one in self._moved]
        parts = [new[first : first + len(names)] for first in range(0, len(new), len(names))]
        made = [dict(zip(names, part, strict=True)) for part in parts]
        more = call_options(allocator=allocator_of(call.arrays), stream=stream and stream[0])
        replays: list[Any] = []

        def run(executor: Any, arguments: dict[str, Any]) -> Any:
            replay, outputs = executor.packed(**arguments)
            replays.append(replay)
            return outputs.values()

        self._run(call, made, more, run)
        replay: Callable[[], None] = type(replays[0]).of_all(replays, self.name)
        return replay

    def _bits(self, name: str, number: Any, least: int, most: int) -> int:
        """Return a number of bits, or reject an invalid one."""
        if not isinstance(number, int | np.integer) or not least <= number <= most:
            raise KernelError(
                f"{name} is {number!r}, which is not a valid number of bits",
                kernel=self.name,
                hint=f"pass {name}=8, or another number from {least} to {most}",
            )
        return int(number)

    def _targets(self, call: _Call) -> list[dict[str, Any]]:
        """Return arrays to which the elements are moved: those of two passes."""
        place, given, shape = call.place, call.given, (call.size,)
        return [
            {
                f"{one.name}_out": new_array(place, given[one.name], shape, one.dtype)
                for one in self._moved
            }
            for _ in call.shifts[:2]
        ]

    def _check(self, name: str, array: Any, size: int) -> None:
        if tuple(array.shape) != (size,):
            raise InvocationError(
                f"argument '{name}' has the shape {tuple(array.shape)}, not ({size},)",
                kernel=self.name,
                hint="pass arrays of one axis and one length",
            )

    def _defaults(self, place: Place, options: Mapping[str, Any]) -> dict[str, int]:
        if options.get("in_one_group"):
            return {}
        return self._pass_for(place.target).schedule(is_gpu=place.is_gpu)

    def _tuned_with(self, place: Place, options: Mapping[str, Any]) -> Mapping[str, Any]:
        # That no two elements are moved to one place follows from counts, not from subscripts.
        reference = self._pass_for(place.target).build(HOST.target, is_gpu=False, **options)
        return {"reference": reference, "verify": False}

    def build(
        self,
        target: TargetBase,
        *,
        is_gpu: bool = True,
        bits: int = _BITS,
        in_one_group: bool = False,
        **options: Any,
    ) -> TranslationUnit:
        """Return the kernel of one pass with its schedule.

        :arg bits: the bits of keys by which it sorts
        :arg in_one_group: the kernel sorts a few elements by all bits, in one work-group; on CUDA
        :arg is_gpu: for a GPU, with ``group_size`` work-items that each have ``items`` elements;
            else for a host, whose threads have ``chunk`` elements
        :arg options: these parameters, and ``index_dtype``

        >>> import kgen as lp
        >>> sort = RadixSort("unsigned *x", "x[i]", ["x"])
        >>> knl = sort.build(lp.CTarget(), is_gpu=False, bits=4, chunk=1000)
        >>> knl.default_entrypoint.name
        'radix_sort'
        """
        settings = {"index_dtype": np.int32, **self.schedule, **options}
        if in_one_group:
            return self._flagged(
                self._one_sweep(target).build_in_one_group(target, bits=bits, **settings)
            )
        return self._flagged(
            self._pass_for(target).build(target, is_gpu=is_gpu, bits=bits, **settings)
        )

    def build_counts(self, target: TargetBase, *, is_gpu: bool, **options: Any) -> TranslationUnit:
        """Return the kernel that counts all digits of keys, for single-launch passes on a GPU."""
        return self._flagged(self._one_sweep(target).build_counts(target, **options))

    def _one_sweep(self, target: TargetBase) -> OneSweepPass:
        found = self._pass_for(target)
        assert isinstance(found, OneSweepPass)
        return found

    def _flagged(self, unit: TranslationUnit) -> TranslationUnit:
        """Return a kernel whose code is compiled with the flags that the user gave."""
        return set_options(unit, build_options=self.options) if self.options else unit

    def _pass_for(self, target: TargetBase) -> RadixPass:
        declared = tuple(
            GlobalArg(one.name, one.dtype, shape="n")
            if one.is_array
            else ValueArg(one.name, one.dtype)
            for one in self.signature.arguments
        )
        kind = OneSweepPass if target.looks_back else RadixPass
        return kind(self.name, self._key, self._unsigned, self._moved, declared)


class KeyValueSorter:
    """Groups values by keys, which are the numbers of the groups.

    :arg context: optional, a pyopencl context; the arrays of a call determine where it runs

    >>> import numpy as np
    >>> keys, values = np.array([2, 0, 2, 3]), np.array([10, 20, 30, 40])
    >>> starts, lists, event = KeyValueSorter()(None, keys, values, 5, np.int32)
    >>> starts, lists
    (array([0, 1, 1, 3, 4, 4], dtype=int32), array([20, 10, 30, 40]))
    """

    def __init__(self, context: Any = None) -> None:
        self.context = context

    def __call__(
        self,
        queue: Any,
        keys: Any,
        values: Any,
        nkeys: int,
        starts_dtype: Any,
        allocator: Any = None,
        wait_for: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Return ``(starts, lists, event)``: group k is ``lists[starts[k]:starts[k+1]]``.

        :arg queue: an OpenCL queue, or ``None`` for that of the arrays
        :arg keys, values: arrays with one axis and of one length. Keys are integers from 0 to
            *nkeys* - 1; their order in a group is kept
        :arg nkeys: the number of groups
        :arg starts_dtype: the type of *starts*, which has *nkeys* + 1 elements
        :arg allocator, wait_for: of OpenCL
        """
        passed = values
        given = native("key_value_sort", {"keys": keys, "values": values}, ["keys", "values"])
        keys, values = given["keys"], given["values"]
        place = find_place("key_value_sort", [keys, values], queue)
        sort, find = _grouping(keys.dtype, values.dtype, np.dtype(starts_dtype))
        bits = max(1, (int(nkeys) - 1).bit_length())
        options = {"key_bits": bits, "queue": queue, "allocator": allocator, "wait_for": wait_for}
        (lists, ordered), event = sort(values, keys, **options)
        starts = new_array(place, values, (int(nkeys) + 1,), starts_dtype)
        more = call_options(queue=queue, wait_for=None if event is None else [event])
        event = find(starts, ordered, ordered.shape[0], **more)
        made = [like("key_value_sort", passed, one) for one in (starts, lists)]
        return made[0], made[1], event


@functools.lru_cache(maxsize=64)
def _grouping(
    keys: np.dtype[Any], values: np.dtype[Any], starts: np.dtype[Any]
) -> tuple[RadixSort, ElementwiseKernel]:
    """Return the sort of values by keys, and the kernel that finds where groups start."""
    arrays = [CArgument("values", values, is_array=True), CArgument("keys", keys, is_array=True)]
    sort = RadixSort(None, arrays, "keys[i]", ["values", "keys"], key_dtype=keys)
    found = CArgument("starts", starts, is_array=True)
    count = CArgument("n_keys", np.dtype(np.int64), is_array=False)
    # The first of the sorted keys that is not less than i, by bisection.
    operation = """
        long low = 0, high = n_keys;
        for (int step = 0; step < 64; ++step)
            if (low < high) {
                long middle = (low + high) >> 1;
                if (keys[middle] < i) low = middle + 1; else high = middle;
            }
        starts[i] = low;
    """
    return sort, ElementwiseKernel(None, [found, arrays[1], count], operation, "find_starts")
