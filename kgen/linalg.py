"""Products, sums and permutations of axes of arrays: transpose, matmul, einsum."""

from __future__ import annotations

import functools
import math
import os
import string
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from kgen.autoscheduler import AutoSpace, auto_space, autoschedule
from kgen.errors import InvocationError, KgenError, counted
from kgen.frontend import make_kernel
from kgen.ir.data import GlobalArg
from kgen.ir.expr import Expr, Reduction, TypeCast
from kgen.ir.instruction import Assignment
from kgen.ir.reductions import parse_reduction_op
from kgen.ir.types import NumpyType, read_type
from kgen.ir.unit import TranslationUnit
from kgen.library.einsum import make_einsum
from kgen.ready.indices import assumptions
from kgen.ready.libraries import like, native
from kgen.ready.places import (
    Place,
    as_axes,
    capability_of,
    check_output,
    copy_to,
    find_place,
    may_overlap,
    output_axes,
)
from kgen.ready.products import Tiled, in_tiles
from kgen.ready.single import Launch, SingleLaunches, layouts_on_cuda
from kgen.ready.snippet import allocator_of, call_options
from kgen.ready.tuned import device_of
from kgen.runtime.cache import content_key
from kgen.transforms.programs.params import fix_parameters
from kgen.transforms.storage.declarations import add_dtypes
from kgen.tuning.records import Record
from kgen.tuning.result import TuneResult
from kgen.tuning.tune import tune as tune_kernel
from kgen.tuning.wisdom import Wisdom, load_wisdom, sizes_of_call

__all__ = ["build", "einsum", "matmul", "transpose", "tune"]


_Lengths: TypeAlias = tuple[tuple[str, int], ...]


class _Call:
    """The arrays of a call as those of numpy, pyopencl or pycuda, and where they are."""

    def __init__(
        self, name: str, given: Mapping[str, Any], out: Any, queue: Any, wisdom: Any, dtype: Any
    ) -> None:
        self.name = name
        self.first, self.passed = next(iter(given.values()), None), out
        self.operands = list(native(name, given, given).values())
        self.place = find_place(name, self.operands, queue)
        self.out = None if out is None else native(name, {"out": out}, ["out"])["out"]
        self.wisdom = wisdom if isinstance(wisdom, Wisdom | _Tuning) else _read(wisdom)
        self.dtype = None if dtype is None else _dtype_of(dtype)
        self.launches: list[Launch] = []
        self.overlapping: Any = None
        if any(may_overlap(operand, self.out) for operand in self.operands):
            self.overlapping, self.out = self.out, None
            self.dtype = self.dtype or np.dtype(self.overlapping.dtype)

    def compute(self, what: str, function: Callable[[], Any]) -> Any:
        """Return the result of *function*, the call described by *what*.

        If an earlier call with arrays of the same layouts took a single launch on CUDA, launch the
        same without calling *function*.
        """
        key = self._key(what)
        known = None if key is None else _SINGLE.find(key, self.operands)
        if known is not None:
            return self._launch(*known, self.out)
        found = function()
        if key is not None and len(self.launches) == 1:
            _SINGLE.keep(key, self.launches[0], self.operands, self.out, found)
        return found

    def _key(self, what: str) -> Hashable:
        """Return what the choice of kernels depends on; ``None`` for calls that are not kept."""
        outputs = [] if self.out is None else [self.out]
        layouts = layouts_on_cuda([*self.operands, *outputs])
        if layouts is None or self.wisdom is not _NOTHING:
            return None
        # a tune may have found a better schedule since
        return (what, self.dtype, len(outputs), len(_FOUND), capability_of(self.place), layouts)

    def _launch(self, run: Callable[..., Any], operands: Sequence[Any], out: Any) -> Any:
        given = {f"arg{k}": operand for k, operand in enumerate(operands)}
        more = call_options(out=out, allocator=allocator_of(operands))
        _, (found,) = run(*self.place.leading, **self.place.options, **given, **more)
        self.launches.append(Launch(run, operands, out, found))
        return found

    def result(self, found: Any) -> Any:
        """Return the passed result array, or else a new one like the first array."""
        if self.overlapping is not None:
            check_output(self.name, self.overlapping, tuple(found.shape))
            copy_to(self.place, found, self.overlapping)
        return like(self.name, self.first, found) if self.passed is None else self.passed

    def run(self, spec: str, operands: Sequence[Any], out: Any, dtype: Any = None) -> Any:
        """Return an Einstein summation of one or two arrays, of some type."""
        types = tuple(np.dtype(operand.dtype) for operand in operands)
        if dtype is None and out is not None:
            dtype = out.dtype
        result = _result_type(types, dtype)
        if self.place.is_gpu:
            factor = types[0] if len(set(types)) == 1 else _computed(result)
            found = in_tiles(self.place, spec, operands, factor)
            if found is not None and found.plan.parts > 1:
                return self._in_parts(found, out, result)
            if found is not None:
                return self._in_tiles(found, out, result)
        spec = _with_first_letters(spec)
        lengths = () if self.place.is_gpu else _constants(spec, operands)
        return self._by_kernel(self.place, spec, operands, out, result, lengths=lengths)

    def _in_parts(self, tiled: Tiled, out: Any, result: np.dtype[Any]) -> Any:
        """Return the total of several sums, each over a part of the terms."""
        spec, operands = tiled.in_parts()
        sums = self.run(spec, operands, None, _computed(result))
        names = spec.partition("->")[2]
        return self.run(f"{names}->{names[1:]}", [sums], out, result)

    def _in_tiles(self, tiled: Tiled, out: Any, result: np.dtype[Any]) -> Any:
        """Return a product whose tiles are whole: of copies with zeros, where they are not."""
        plan, given = tiled.plan, tiled.packed()
        direct = out if tiled.takes(out, result) else None
        found = self._by_kernel(
            tiled.place, plan.spec, given, direct, result, multiples=plan.multiples
        )
        return found if direct is not None else tiled.unpacked(found, out)

    def _by_kernel(
        self,
        place: Place,
        spec: str,
        operands: Sequence[Any],
        out: Any,
        result: np.dtype[Any],
        lengths: _Lengths = (),
        multiples: _Lengths = (),
    ) -> Any:
        """Return the result of one kernel."""
        arrays = [*operands, *([] if out is None else [out])]
        size = max(int(np.prod(array.shape)) for array in arrays)
        index_dtype = np.dtype(place.index_dtype(size))
        types = tuple(np.dtype(operand.dtype) for operand in operands)
        kernel = _summation(place, spec, types, result, index_dtype, lengths, multiples)
        given = {f"arg{k}": operand for k, operand in enumerate(operands)}
        if isinstance(self.wisdom, _Tuning):
            self.wisdom.measure(kernel, given)
        return self._launch(kernel.executor(self.wisdom, given), operands, out)


_SINGLE: Final = SingleLaunches()


def _dtype_of(given: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = read_type(given, "dtype=").numpy_dtype
    except KgenError as error:
        raise InvocationError(f"dtype={given!r} is not a type of numpy") from error
    return found


def transpose(
    a: Any,
    axes: Sequence[int] | None = None,
    *,
    out: Any = None,
    queue: Any = None,
    wisdom: Any = None,
) -> Any:
    """Return an array with its axes permuted, in C order.

    :arg a: an array of numpy, pyopencl, pycuda or another library, of any layout
    :arg axes: the axis of *a* for each axis of the result; by default in reverse order
    :arg out: the array for the result
    :arg queue: an OpenCL queue, instead of that of the array
    :arg wisdom: records of :func:`tune`, or their file, from which the call chooses its schedule

    >>> import numpy as np
    >>> transpose(np.arange(6).reshape(2, 3))
    array([[0, 3],
           [1, 4],
           [2, 5]])
    """
    rank = len(native("transpose", {"a": a}, ["a"])["a"].shape)
    order = tuple(range(rank))[::-1] if axes is None else tuple(axis % rank for axis in axes)
    if sorted(order) != list(range(rank)):
        raise InvocationError(
            f"the axes {tuple(axes or ())} are not those of an array of "
            f"{counted(rank, 'axis', 'axes')}",
            hint="name each axis once",
        )
    letters = string.ascii_letters[:rank]
    result = "".join(letters[axis] for axis in order)
    return einsum(f"{letters}->{result}", a, out=out, queue=queue, wisdom=wisdom)


def matmul(
    a: Any, b: Any, *, out: Any = None, dtype: Any = None, queue: Any = None, wisdom: Any = None
) -> Any:
    """Return the product of two matrices, or of batches of matrices, as :func:`numpy.matmul` does.

    :arg a, b: arrays of numpy, pyopencl, pycuda or another library, of any layout. The last two
        axes are those of matrices; an array with one axis is a vector. Preceding axes are
        batches, which have the same length in both arrays, or length 1 in one of them
    :arg dtype: the type of the result; by default that of *out*, else numpy's for the types of
        *a* and *b*. Products are accumulated in it, those of 16 bits in 32 bits
    :arg out, queue, wisdom: as for :func:`transpose`

    >>> import numpy as np
    >>> matmul(np.arange(6).reshape(2, 3), np.ones(3, int))
    array([ 3, 12])
    >>> bytes = np.full((2, 2), 100, np.int8)
    >>> matmul(bytes, bytes, dtype=np.int32)
    array([[20000, 20000],
           [20000, 20000]], dtype=int32)
    """
    call = _Call("matmul", {"a": a, "b": b}, out, queue, wisdom, dtype)
    return call.result(call.compute("matmul", lambda: _product(call, *call.operands)))


def _product(call: _Call, a: Any, b: Any) -> Any:
    """Return the product of two arrays, as :func:`matmul` does."""
    place, out = call.place, call.out
    if not a.shape or not b.shape:
        raise InvocationError("a number is not a matrix", hint="multiply by it: a * x")
    rows, columns = "i" * (len(a.shape) > 1), "k" * (len(b.shape) > 1)
    letters = string.ascii_uppercase[: max(len(array.shape[:-2]) for array in (a, b))]
    factors = []
    for array, own in ((a, rows + "j"), (b, "j" + columns)):
        view, names = _broadcast(place, array, letters, len(own))
        factors.append((view, names + own))
    kept = "".join(name for name in letters if any(name in names for _, names in factors))
    lengths = {name: view.shape[names.index(name)] for view, names in factors for name in names}
    spec = f"{factors[0][1]},{factors[1][1]}->{kept}{rows}{columns}"
    shape = (*(lengths.get(name, 1) for name in letters), *(lengths[n] for n in rows + columns))
    views = [view for view, _ in factors]
    if out is None:
        return as_axes(place, call.run(spec, views, None, call.dtype), shape)
    check_output("matmul", out, shape)
    axes = tuple(lengths[name] for name in kept + rows + columns)
    view, end = output_axes(place, out, axes)
    call.run(spec, views, view, call.dtype)
    end(None)
    return out


def _broadcast(place: Place, array: Any, letters: str, own: int) -> tuple[Any, str]:
    """Return an array without the batch axes of length 1, and the names of those that it has."""
    batch = tuple(array.shape[: len(array.shape) - own])
    names = letters[len(letters) - len(batch) :]
    kept = [k for k, length in enumerate(batch) if length != 1]
    shape = (*(batch[k] for k in kept), *array.shape[len(batch) :])
    return as_axes(place, array, shape), "".join(names[k] for k in kept)


def einsum(
    spec: str,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    queue: Any = None,
    wisdom: Any = None,
) -> Any:
    """Return an Einstein summation, as :func:`numpy.einsum` does.

    :arg spec: the axes of each operand, and of the result: ``"bij,bjk->bik"``
    :arg operands: arrays of numpy, pyopencl, pycuda or another library, of any layout; more than
        two are multiplied pairwise, in an order that keeps the results small
    :arg dtype: as for :func:`matmul`
    :arg out, queue, wisdom: as for :func:`transpose`

    >>> import numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> einsum("ij,ij->i", a, a)
    array([ 5., 50.])
    """
    given = {f"arg{k}": one for k, one in enumerate(operands)}
    call = _Call("einsum", given, out, queue, wisdom, dtype)
    return call.result(call.compute(spec, lambda: _sum(call, spec)))


def _sum(call: _Call, spec: str) -> Any:
    """Return an Einstein summation of any number of arrays, two by two."""
    inputs, result = _read_spec(spec, call.operands)
    factors = _without_repeated_axes(call.place, inputs, call.operands)
    inner = call.dtype
    if inner is None and len(factors) > 2:
        inner = _computed(_result_type([array.dtype for _, array in factors], None))
    while len(factors) > 2:
        one, other = _cheapest([names for names, _ in factors], result, factors)
        (names, a), (other_names, b) = (factors.pop(k) for k in sorted((one, other), reverse=True))
        needed = set(result).union(*(left for left, _ in factors))
        kept = "".join(n for n in dict.fromkeys(names + other_names) if n in needed)
        factors.append((kept, call.run(f"{names},{other_names}->{kept}", [a, b], None, inner)))
    left = ",".join(names for names, _ in factors)
    types = [array.dtype for array in call.operands]
    dtype = call.dtype
    if dtype is None and call.out is None:
        dtype = _result_type(types, None)
    return call.run(f"{left}->{result}", [array for _, array in factors], call.out, dtype)


def _without_repeated_axes(
    place: Place, inputs: Sequence[str], operands: Sequence[Any]
) -> list[tuple[str, Any]]:
    """Return operands with their axes, without those of length 1 that are longer in another."""
    pairs = list(zip(inputs, operands, strict=True))
    lengths = {
        name: length
        for names, array in pairs
        for name, length in zip(names, array.shape, strict=True)
        if length != 1
    }
    found = []
    for names, array in pairs:
        own = set(zip(names, array.shape, strict=True))
        repeated = {n for n in names if n in lengths and {k for m, k in own if m == n} == {1}}
        shape = (k for n, k in zip(names, array.shape, strict=True) if n not in repeated)
        left = "".join(n for n in names if n not in repeated)
        found.append((left, as_axes(place, array, tuple(shape))))
    return found


def _read_spec(spec: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    """Return the axes of each operand and of the result, with letters for ``...``."""
    left, arrow, result = spec.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise InvocationError(
            f"'{spec}' has {counted(len(inputs), 'operand')}, and {len(operands)} are passed"
        )
    free = [letter for letter in string.ascii_letters if letter not in spec]
    hidden = ""
    for k, (names, operand) in enumerate(zip(inputs, operands, strict=True)):
        count = len(operand.shape) - len(names.replace("...", ""))
        if count < 0 or (count > 0 and "..." not in names):
            raise InvocationError(
                f"operand {k} has {counted(len(operand.shape), 'axis', 'axes')}, and '{names}' in "
                f"'{spec}'",
                hint="name each axis by a letter, or several by ...",
            )
        own = "".join(reversed(free[:count]))  # the last axes of ... have the same names
        hidden = max(hidden, own, key=len)
        inputs[k] = names.replace("...", own)
    if not arrow:
        letters = "".join(inputs)
        result = hidden + "".join(
            sorted(name for name in set(letters) - set(hidden) if letters.count(name) == 1)
        )
    return inputs, result.replace("...", hidden)


def _cheapest(
    inputs: Sequence[str], result: str, factors: Sequence[tuple[str, Any]]
) -> tuple[int, int]:
    """Return the two factors that numpy multiplies first."""
    zero = np.zeros(())
    shapes = [np.broadcast_to(zero, tuple(array.shape)) for _, array in factors]
    path, _ = np.einsum_path(f"{','.join(inputs)}->{result}", *shapes, optimize="greedy")
    pair = next((step for step in path[1:] if len(step) == 2), (0, 1))
    return pair[0], pair[1]


# -- kernels ---------------------------------------------------------------------------------------


def _with_first_letters(spec: str) -> str:
    """Return a specification with other names of axes: the letters in their order.

    >>> _with_first_letters("ij,jk->ik")
    'ab,bc->ac'
    """
    names = dict.fromkeys(name for name in spec if name.isalpha())
    return "".join(
        string.ascii_letters[list(names).index(name)] if name in names else name for name in spec
    )


def _result_type(types: Sequence[Any], wanted: Any) -> np.dtype[Any]:
    """Return the type of a result: numpy's for those of the operands, or another one."""
    try:
        found: np.dtype[Any] = np.result_type(*types) if wanted is None else np.dtype(wanted)
        for dtype in types if wanted is not None else ():
            if not np.can_cast(dtype, found, "same_kind"):
                raise TypeError(f"{dtype} is not converted to {found}")
    except TypeError as error:
        listed = ", ".join(dict.fromkeys(map(str, types)))
        raise InvocationError(
            f"numpy has no product of {listed} of the type {wanted or 'of both'}",
            because=str(error),
            hint="convert the arrays first: a.astype(...), or pass another dtype=...",
        ) from error
    return found


def _computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which a sum is computed: numbers of 16 bits in 32 bits."""
    return np.dtype(np.float32) if NumpyType(dtype).is_half else dtype


@functools.lru_cache(maxsize=256)
def _summation(*options: Any) -> _Summation:
    return _Summation(*options)


@dataclass(frozen=True, eq=False)
class _Summation:
    """The kernel of an Einstein summation of arrays of some types, where they are."""

    place: Place
    spec: str
    types: tuple[np.dtype[Any], ...]
    result: np.dtype[Any]
    index_dtype: np.dtype[Any]
    lengths: tuple[tuple[str, int], ...]
    multiples: tuple[tuple[str, int], ...] = ()
    executors: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def program(self) -> TranslationUnit:
        """The kernel without a schedule; records know it by its name."""
        known = repr((self.lengths, self.multiples))
        described = (self.spec, *map(str, self.types), str(self.result), known)
        knl = build(
            self.spec,
            self.types,
            self.place.target,
            index_dtype=self.index_dtype,
            dtype=self.result,
            name=f"einsum_{content_key(*described, self.index_dtype.name)[:8]}",
            multiples=dict(self.multiples),
        )
        # the tile of a factor is stored in another layout than it is read in
        knl = knl.map_kernels(lambda one: one.copy(silenced_warnings=_SILENCED))
        return fix_parameters(knl, **{f"N{name}": length for name, length in self.lengths})

    @property
    def _device(self) -> Any:
        return self.place.leading[0].device if self.place.leading else None

    @cached_property
    def space(self) -> AutoSpace:
        """The schedules that are worth measuring."""
        return auto_space(self.program, self._device)

    def executor(self, wisdom: Wisdom | _Tuning, given: Mapping[str, Any]) -> Any:
        """Return the executor of the kernel, with the schedule that wisdom has for the arrays."""
        for configuration in self._known(wisdom, given):
            try:
                return self._executor(**configuration)
            except (KgenError, TypeError):  # of another version, or another space
                continue
        return self._executor()

    def _known(self, wisdom: Wisdom | _Tuning, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        records = [r for r in (*wisdom.records, *_FOUND) if r.kernel == self.name]
        if not records:
            return []
        sizes = sizes_of_call(self.program, given)
        found = Wisdom(tuple(records)).candidates(self.name, device_of(self.place), sizes)
        return [record.configuration for record, _ in found]

    @cached_property
    def name(self) -> str:
        """The name of the kernel."""
        return self.program.default_entrypoint.name

    def _executor(self, **configuration: Any) -> Any:
        key = tuple(configuration.items())
        if key not in self.executors:
            knl = (
                self.space.build(**configuration)
                if configuration
                else autoschedule(self.program, self._device)
            )
            self.executors[key] = knl.executor(*self.place.leading)
        return self.executors[key]


#: The maximum length of axes that are constants in the code, and the minimum length of others.
_FEW: Final = 16
_MANY: Final = 512


def _constants(spec: str, operands: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    """Return the short axes of many small products, whose loops are unrolled for their lengths.

    >>> _constants("aij,ajk->aik", [np.zeros((999, 3, 4)), np.zeros((999, 4, 300))])
    (('i', 3), ('j', 4))
    >>> _constants("ij,jk->ik", [np.zeros((3, 4)), np.zeros((4, 300))])
    ()
    """
    inputs = spec.partition("->")[0].split(",")
    lengths = {
        name: int(length)
        for names, operand in zip(inputs, operands, strict=True)
        for name, length in zip(names, operand.shape, strict=True)
    }
    short = {name: length for name, length in lengths.items() if 0 < length <= _FEW}
    others = math.prod(length for name, length in lengths.items() if name not in short)
    return tuple(short.items()) if short and others >= _MANY else ()


_SILENCED: Final = ("vectorize_failed",)


def build(
    spec: str,
    dtypes: Sequence[Any],
    target: Any,
    *,
    index_dtype: Any = np.int32,
    dtype: Any = None,
    name: str = "einsum",
    multiples: Mapping[str, int] | None = None,
) -> TranslationUnit:
    """Return the kernel of an Einstein summation of one or two operands, without a schedule.

    :arg spec: the axes of the operands and of the result, all of them named
    :arg dtypes: the types of the operands, which are called ``arg0`` and ``arg1``
    :arg dtype: the type of the result, as for :func:`matmul`
    :arg name: the name of the kernel
    :arg multiples: for a product of two operands, known divisors of the lengths of axes: with
        ``{"i": 128}``, axis ``i`` has ``128*Ni`` elements, so tiles of schedules are full

    The functions of this module run it with the schedule of :func:`kgen.autoschedule`;
    :func:`kgen.auto_space` has other schedules to measure.

    >>> import kgen as lp
    >>> knl = build("ij,jk->ik", [np.float32, np.float32], lp.CTarget())
    >>> print(knl.default_entrypoint.instructions[0])
    out[i, k] = reduce(sum, [j], arg0[i, j]*arg1[j, k])  {id=insn}
    """
    names = [f"arg{k}" for k in range(len(dtypes))]
    letters = dict.fromkeys(name for name in spec if name.isalpha())
    if multiples:
        lengths = {name: f"{multiples.get(name, 1)}*N{name}" for name in letters}
        knl = _make_tiled(spec, lengths, name=name, target=target, index_dtype=index_dtype)
    else:
        knl = make_einsum(
            spec,
            names,
            name=name,
            target=target,
            index_dtype=index_dtype,
            assumptions=assumptions([f"N{name}" for name in letters], index_dtype) or None,
        )
    types = dict(zip(names, map(_dtype_of, dtypes), strict=True))
    result = _result_type([*types.values()], None if dtype is None else _dtype_of(dtype))
    knl = _of_truth(knl) if result == np.bool_ else _converted(knl, types, result)
    return add_dtypes(knl, {**types, "out": result})


def _make_tiled(
    spec: str, lengths: Mapping[str, str], *, index_dtype: Any, **options: Any
) -> TranslationUnit:
    """Return an Einstein summation of two arrays whose axes have lengths that are expressions."""
    left, _, result = spec.partition("->")
    arrays = dict(zip(("arg0", "arg1", "out"), (*left.split(","), result), strict=True))
    bounds = " and ".join(f"0 <= {axis} < {length}" for axis, length in lengths.items())
    known = [*(f"N{axis} >= 1" for axis in lengths), assumptions([*lengths.values()], index_dtype)]
    one, other, out = (f"{name}[{', '.join(axes)}]" for name, axes in arrays.items())
    summed = [axis for axis in lengths if axis not in result]
    return make_kernel(
        f"{{ [{', '.join([*result, *summed])}]: {bounds} }}",
        f"{out} = reduce(sum, [{', '.join(summed)}], {one}*{other})",
        [
            *(
                GlobalArg(name, shape=tuple(map(lengths.get, axes)), is_input=name != "out")
                for name, axes in arrays.items()
            ),
            ...,
        ],
        index_dtype=index_dtype,
        assumptions=" and ".join(known),
        **options,
    )


def _converted(
    knl: TranslationUnit, types: Mapping[str, np.dtype[Any]], result: np.dtype[Any]
) -> TranslationUnit:
    """Return a sum of products whose factors are converted to the type in which it is computed."""
    kernel = knl.default_entrypoint
    (insn,) = kernel.instructions
    assert isinstance(insn, Assignment)
    found = insn.expression
    is_sum = isinstance(found, Reduction)
    computed = _computed(result) if is_sum else result
    value = _factors_in(found.expr if is_sum else found, types, computed)
    if is_sum:
        value = Reduction(found.operation, found.inames, value)
    return knl.with_kernel(kernel.copy(instructions=[insn.copy(expression=value)]))


def _factors_in(value: Expr, types: Mapping[str, np.dtype[Any]], dtype: np.dtype[Any]) -> Expr:
    """Return a product of elements in some type; real factors of complex numbers stay real."""
    if isinstance(value, p.Product):
        return p.Product(tuple(_factors_in(one, types, dtype) for one in value.children))
    array = value.aggregate if isinstance(value, p.Subscript) else value
    assert isinstance(array, p.Variable)
    own = types[array.name]
    if dtype.kind == "c" and own.kind != "c" and len(types) > 1:
        dtype = np.empty(0, dtype).real.dtype
    return value if own == dtype else TypeCast(NumpyType(dtype), value)


def _of_truth(knl: TranslationUnit) -> TranslationUnit:
    """Return a sum of products as what numpy computes of truth values: whether any is all true."""
    kernel = knl.default_entrypoint
    (insn,) = kernel.instructions
    assert isinstance(insn, Assignment)
    found = insn.expression
    factors = found.expr if isinstance(found, Reduction) else found
    both = p.LogicalAnd(factors.children) if isinstance(factors, p.Product) else factors
    if isinstance(found, Reduction):
        both = Reduction(parse_reduction_op("any"), found.inames, both)
    return knl.with_kernel(kernel.copy(instructions=[insn.copy(expression=both)]))


# -- tunes -----------------------------------------------------------------------------------------

#: The results of tunes in this process.
_FOUND: Final[list[Record]] = []


def tune(function: Callable[..., Any], *args: Any, **options: Any) -> list[TuneResult]:
    """Find the fastest schedules for a call of a function of this module, for later calls.

    :arg function: :func:`transpose`, :func:`matmul` or :func:`einsum`
    :arg args: the arguments of a call; the arrays are not changed
    :arg options: of the call (``axes``, ``dtype``, ``queue``), and of :func:`kgen.tune`:
        ``records="file.jsonl"``, ``evaluations=20``, ``seconds=10``...

    Returns the result for each kernel that the call runs: one, or several for an einsum of more
    than two arrays. It measures the schedules of :func:`kgen.auto_space`. Later
    calls use the best one for the nearest sizes on their device. Records in a file are
    for other programs: ``matmul(a, b, wisdom="file.jsonl")``.

    ::

        [result] = tune(matmul, a, b, records="products.jsonl", seconds=60)
        result.best.configuration
    """
    if not any(function is one for one in (transpose, matmul, einsum)):
        raise InvocationError(
            f"{function!r} is not a function of kgen.linalg",
            hint="tune(matmul, a, b), tune(einsum, spec, a, b), or tune(transpose, a)",
        )
    of_call = {name: options.pop(name) for name in _OF_CALLS & options.keys()}
    tuning = _Tuning(options)
    function(*args, **of_call, wisdom=tuning)
    return tuning.results


#: Options of calls; all others are those of a tune.
_OF_CALLS: Final = frozenset({"axes", "dtype", "queue"})


@dataclass(frozen=True)
class _Tuning:
    """Tunes the kernels of a call, with options of :func:`kgen.tune`."""

    options: Mapping[str, Any]
    results: list[TuneResult] = field(default_factory=list)
    records: tuple[Record, ...] = ()

    def measure(self, kernel: _Summation, given: Mapping[str, Any]) -> None:
        """Measure schedules for some arrays."""
        leading = kernel.place.leading
        to_host = kernel.place.target.load_runtime().to_host
        result = tune_kernel(
            kernel.space,
            sizes=sizes_of_call(kernel.program, given),
            arguments={name: to_host(value, *leading) for name, value in given.items()},
            reference=_Reference(kernel.spec, kernel.result),
            **{"device": leading[0] if leading else None, **self.options},
        )
        _FOUND.extend(result.records)
        self.results.append(result)


@dataclass(frozen=True)
class _Reference:
    """The results of numpy, for one or two arrays of the host."""

    spec: str
    result: np.dtype[Any]

    def __call__(self, arg0: Any, arg1: Any = None) -> Any:
        """Return the sum of products."""
        dtype = _computed(self.result)
        operands = [one.astype(dtype) for one in (arg0, arg1) if one is not None]
        return np.einsum(self.spec, *operands, optimize=True)


def _read(file: str | os.PathLike[str] | None) -> Wisdom:
    """Return the records of a file, which is read again when it has changed."""
    if file is None:
        return _NOTHING
    if not isinstance(file, str | os.PathLike):
        raise InvocationError(
            f"wisdom={file!r} is not a file of records",
            hint='pass wisdom="file.jsonl", or what kgen.load_wisdom returns',
        )
    is_there = os.path.exists(file)
    return _read_once(os.fspath(file), os.stat(file).st_mtime_ns if is_there else 0)


_NOTHING: Final = Wisdom(())


@functools.lru_cache(maxsize=16)
def _read_once(file: str, _changed_ns: int) -> Wisdom:
    return load_wisdom(file)
