"""Products, sums and permutations of axes of arrays: transpose, matmul, einsum."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from kgen.autoscheduler import autoschedule
from kgen.errors import InvocationError, counted
from kgen.ir.expr import Reduction
from kgen.ir.instruction import Assignment
from kgen.ir.reductions import parse_reduction_op
from kgen.ir.unit import TranslationUnit
from kgen.library.einsum import make_einsum
from kgen.ready.indices import assumptions
from kgen.ready.libraries import like, native
from kgen.ready.places import Place, as_axes, find_place
from kgen.ready.snippet import allocator_of, call_options
from kgen.transforms.programs.params import fix_parameters
from kgen.transforms.storage.declarations import add_dtypes

__all__ = ["build", "einsum", "matmul", "transpose"]


class _Call:
    """The arrays of a call as those of numpy, pyopencl or pycuda, and where they are."""

    def __init__(self, name: str, given: Mapping[str, Any], out: Any, queue: Any) -> None:
        self.name = name
        self.first, self.passed = next(iter(given.values()), None), out
        self.operands = list(native(name, given, given).values())
        self.place = find_place(name, self.operands, queue)
        self.out = None if out is None else native(name, {"out": out}, ["out"])["out"]

    def result(self, found: Any) -> Any:
        """Return what was passed for the result, else an array like the first."""
        return like(self.name, self.first, found) if self.passed is None else self.passed


def transpose(
    a: Any, axes: Sequence[int] | None = None, *, out: Any = None, queue: Any = None
) -> Any:
    """Return an array with its axes permuted, its rows one after the other in memory.

    :arg a: an array of numpy, pyopencl, pycuda or another library, of any layout
    :arg axes: the axis of *a* for each axis of the result; in reverse order if left out
    :arg out: the array for the result
    :arg queue: of OpenCL, other than that of the array

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
    return einsum(f"{letters}->{result}", a, out=out, queue=queue)


def matmul(a: Any, b: Any, *, out: Any = None, queue: Any = None) -> Any:
    """Return the product of two matrices, or of batches of matrices, as :func:`numpy.matmul` does.

    :arg a, b: arrays of numpy, pyopencl, pycuda or another library, of any layout. The last two
        axes are those of matrices; an array with one axis is a vector. Axes in front of them are
        batches, which are of one length in both arrays, or of length 1 in one of them
    :arg out, queue: as for :func:`transpose`

    >>> import numpy as np
    >>> matmul(np.arange(6).reshape(2, 3), np.ones(3, int))
    array([ 3, 12])
    """
    call = _Call("matmul", {"a": a, "b": b}, out, queue)
    left, right = call.operands
    return call.result(_product(call.place, left, right, call.out))


def _product(place: Place, a: Any, b: Any, out: Any) -> Any:
    """Return the product of two arrays, as :func:`matmul` does."""
    if not a.shape or not b.shape:
        raise InvocationError("a number is no matrix", hint="multiply by it: a * x")
    rows, columns = "i" * (len(a.shape) > 1), "k" * (len(b.shape) > 1)
    batches = [tuple(array.shape[:-2]) for array in (a, b)]
    rank = max(map(len, batches))
    letters = string.ascii_uppercase[:rank]
    factors = []
    for array, other, own in ((a, batches[1], rows + "j"), (b, batches[0], "j" + columns)):
        view, names = _broadcast(place, array, other, letters, len(own))
        factors.append((view, names + own))
    kept = "".join(name for name in letters if any(name in names for _, names in factors))
    lengths = {name: view.shape[names.index(name)] for view, names in factors for name in names}
    spec = f"{factors[0][1]},{factors[1][1]}->{kept}{rows}{columns}"
    shape = (*(lengths.get(name, 1) for name in letters), *(lengths[n] for n in rows + columns))
    if out is not None:
        out = as_axes(place, out, tuple(lengths[name] for name in kept + rows + columns))
    result = _run(place, spec, [view for view, _ in factors], out)
    return result.reshape(shape) if out is None else result


def _broadcast(
    place: Place, array: Any, other: tuple[int, ...], letters: str, own: int
) -> tuple[Any, str]:
    """Return an array without the batch axes of length 1, and the names of those that it has."""
    batch = tuple(array.shape[: len(array.shape) - own])
    names = letters[len(letters) - len(batch) :]
    kept = [k for k, length in enumerate(batch) if length != 1]
    shape = (*(batch[k] for k in kept), *array.shape[len(batch) :])
    return as_axes(place, array, shape), "".join(names[k] for k in kept)


def einsum(spec: str, *operands: Any, out: Any = None, queue: Any = None) -> Any:
    """Return an Einstein summation, as :func:`numpy.einsum` does.

    :arg spec: the axes of each operand, and of the result: ``"bij,bjk->bik"``
    :arg operands: arrays of numpy, pyopencl, pycuda or another library, of any layout; more than
        two are multiplied two by two, in an order that keeps the results small
    :arg out, queue: as for :func:`transpose`

    >>> import numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> einsum("ij,ij->i", a, a)
    array([ 5., 50.])
    """
    call = _Call("einsum", {f"arg{k}": one for k, one in enumerate(operands)}, out, queue)
    return call.result(_sum(call.place, spec, call.operands, call.out))


def _sum(place: Place, spec: str, operands: Sequence[Any], out: Any) -> Any:
    """Return an Einstein summation of any number of arrays, two by two."""
    inputs, result = _read_spec(spec, operands)
    factors = list(zip(inputs, operands, strict=True))
    while len(factors) > 2:
        one, other = _cheapest([names for names, _ in factors], result, factors)
        (names, a), (other_names, b) = (factors.pop(k) for k in sorted((one, other), reverse=True))
        needed = set(result).union(*(left for left, _ in factors))
        kept = "".join(n for n in dict.fromkeys(names + other_names) if n in needed)
        factors.append((kept, _run(place, f"{names},{other_names}->{kept}", [a, b], None)))
    left = ",".join(names for names, _ in factors)
    return _run(place, f"{left}->{result}", [array for _, array in factors], out)


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
        own = "".join(free[:count])
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


def _run(place: Place, spec: str, operands: Sequence[Any], out: Any) -> Any:
    dtypes = tuple(np.dtype(operand.dtype) for operand in operands)
    size = max(int(np.prod(array.shape)) for array in (*operands, *([] if out is None else [out])))
    lengths = () if place.is_gpu else _constants(spec, operands)
    knl = _executor(place, spec, dtypes, np.dtype(place.index_dtype(size)), lengths)
    given = {f"arg{k}": operand for k, operand in enumerate(operands)}
    more = call_options(out=out, allocator=allocator_of(operands))
    _, (result,) = knl(*place.leading, **given, **more)
    return result


@functools.lru_cache(maxsize=256)
def _executor(
    place: Place,
    spec: str,
    dtypes: tuple[np.dtype[Any], ...],
    index_dtype: Any,
    lengths: tuple[tuple[str, int], ...],
) -> Any:
    device = place.leading[0].device if place.leading else None
    knl = build(spec, dtypes, place.target, index_dtype=index_dtype)
    knl = fix_parameters(knl, **{f"N{name}": length for name, length in lengths})
    return autoschedule(knl, device).executor(*place.leading)


#: Axes of so few elements have lengths that are constants in the code, where others have so many.
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


def build(
    spec: str, dtypes: Sequence[Any], target: Any, *, index_dtype: Any = np.int32
) -> TranslationUnit:
    """Return the kernel of an Einstein summation of one or two operands, without a schedule.

    :arg spec: the axes of the operands and of the result, all of them named
    :arg dtypes: the types of the operands, which are called ``arg0`` and ``arg1``

    :func:`kgen.autoschedule` finds the schedule with which the functions of this module run it;
    :func:`kgen.auto_space` has others to measure.

    >>> import kgen as lp
    >>> knl = build("ij,jk->ik", [np.float32, np.float32], lp.CTarget())
    >>> print(knl.default_entrypoint.instructions[0])
    out[i, k] = reduce(sum, [j], arg0[i, j]*arg1[j, k])  {id=insn}
    """
    names = [f"arg{k}" for k in range(len(dtypes))]
    letters = dict.fromkeys(name for name in spec if name.isalpha())
    knl = make_einsum(
        spec,
        names,
        name="einsum",
        target=target,
        index_dtype=index_dtype,
        assumptions=assumptions([f"N{name}" for name in letters], index_dtype) or None,
    )
    if all(np.dtype(dtype) == np.bool_ for dtype in dtypes):
        knl = _of_truth(knl)
    return add_dtypes(knl, dict(zip(names, dtypes, strict=True)))


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
