"""Kernels from short specifications: Einstein summation, and copies between layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kgen.errors import InvalidValueError, counted
from kgen.frontend import make_kernel
from kgen.ir.checked import checked
from kgen.ir.data import GlobalArg
from kgen.ir.layout import SeparateArrayArrayDimTag, parse_array_dim_tags
from kgen.ir.unit import TranslationUnit
from kgen.transforms.loops.tag import tag_inames
from kgen.transforms.storage.declarations import tag_array_axes

__all__ = ["make_copy_kernel", "make_einsum"]


@checked
def make_einsum(spec: str, arg_names: Sequence[str], **knl_creation_kwargs: Any) -> TranslationUnit:
    """Make the kernel of an Einstein summation, specified as for ``numpy.einsum``.

    :arg spec: the axes of the factors and of the result: ``"ij,jk->ik"``. Without an arrow the
        result has the axes that occur once, in alphabetical order.
    :arg arg_names: the names of the factors; the result is ``out``
    :arg knl_creation_kwargs: further arguments of :func:`make_kernel`

    The loop over axis ``i`` is called ``i``, its length ``Ni``; axes of one array with the same
    position have the length of the first one. The kernel is called ``einsum3to2_kernel`` if three
    axes become two.

    >>> knl = make_einsum("mij,j->mi", ["mat", "vec"])
    >>> print(knl.default_entrypoint.instructions[0])
    out[m, i] = reduce(sum, [j], mat[m, i, j]*vec[j])  {id=insn}

    Raises :class:`InvalidValueError`, a ``ValueError``, for a specification that does not match the
    names, or repeats an axis of the result.
    """
    left, arrow, right = spec.replace(" ", "").partition("->")
    factors = left.split(",")
    letters = "".join(factors)
    if not all(axis.isalpha() and axis.isascii() for axis in letters + right):
        raise InvalidValueError(
            f"'{spec}' is not a specification of an einsum\n  hint: axes are letters: ij,jk->ik"
        )
    counts = Counter(letters)
    if not arrow:
        right = "".join(sorted(axis for axis, count in counts.items() if count == 1))
    if len(factors) != len(arg_names):
        raise InvalidValueError(
            f"'{spec}' has {counted(len(factors), 'factor')}, and arg_names has "
            f"{counted(len(arg_names), 'item')}"
        )
    if len(set(right)) < len(right) or not set(right) <= set(letters):
        raise InvalidValueError(
            f"each axis of the result '{right}' of '{spec}' must be an axis of a factor, and "
            "occur once"
        )
    axes = tuple(dict.fromkeys(right + letters))
    summed = [axis for axis in axes if axis not in right]
    product = "*".join(
        name + _subscript(factor) for name, factor in zip(arg_names, factors, strict=True)
    )
    value = f"reduce(sum, [{', '.join(summed)}], {product})" if summed else product
    lengths = _lengths(axes, factors, arg_names)
    bounds = " and ".join(f"0 <= {axis} < {lengths[axis]}" for axis in axes)
    args = [
        GlobalArg(name, shape=tuple(lengths[axis] for axis in factor))
        for name, factor in dict(zip(arg_names, factors, strict=True)).items()
    ]
    knl_creation_kwargs.setdefault("name", f"einsum{len(axes)}to{len(right)}_kernel")
    result = GlobalArg("out", shape=tuple(lengths[axis] for axis in right), is_input=False)
    return make_kernel(
        f"{{ [{', '.join(axes)}]: {bounds} }}" if axes else "{ : }",
        f"out{_subscript(right)} = {value}",
        [*args, result, ...],
        **knl_creation_kwargs,
    )


def _lengths(axes: Sequence[str], factors: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the length of each axis: one name for axes of one array in one place."""
    same = {axis: axis for axis in axes}
    first: dict[str, str] = {}
    for name, factor in zip(names, factors, strict=True):
        known = first.setdefault(name, factor)
        if len(known) != len(factor):
            raise InvalidValueError(
                f"'{name}' has {counted(len(known), 'axis', 'axes')} in '{known}', and different "
                f"ones in '{factor}'"
            )
        for one, other in zip(known, factor, strict=True):
            kept, gone = sorted((same[one], same[other]), key=axes.index)
            same = {axis: kept if root == gone else root for axis, root in same.items()}
    return {axis: f"N{root}" for axis, root in same.items()}


def _subscript(axes: str) -> str:
    return f"[{', '.join(axes)}]" if axes else ""


@checked
def make_copy_kernel(
    new_dim_tags: str | Sequence[Any], old_dim_tags: str | Sequence[Any] | None = None
) -> TranslationUnit:
    """Make a kernel that copies ``input`` to ``output``, an array with another layout.

    :arg new_dim_tags: the layout of the output, as in :func:`tag_array_axes`
    :arg old_dim_tags: the layout of the input; row-major by default

    The loop over axis 0 is called ``i0``, its length ``n0``, and so on. Loops over separate
    arrays (``sep``) are unrolled; fix their lengths with :func:`fix_parameters`. Vector axes
    (``vec``) are rejected, because their lengths must be fixed before :func:`tag_array_axes`.

    >>> knl = make_copy_kernel("N0,N1")
    >>> print(*knl.default_entrypoint.arg_dict["output"].dim_tags)
    N0:stride:1 N1:stride:n0
    >>> print(knl.default_entrypoint.instructions[0])
    output[i0, i1] = input[i0, i1]  {id=insn}
    """
    new = new_dim_tags.split(",") if isinstance(new_dim_tags, str) else new_dim_tags
    rank = len(new)
    axes = [f"i{k}" for k in range(rank)]
    bounds = " and ".join(f"0 <= {axis} < n{k}" for k, axis in enumerate(axes))
    shape = tuple(f"n{k}" for k in range(rank))
    place = _subscript_of(axes)
    knl = make_kernel(
        f"{{ [{', '.join(axes)}]: {bounds} }}",
        f"output{place} = input{place}",
        [GlobalArg("input", shape=shape), GlobalArg("output", shape=shape, is_input=False), ...],
    )
    unrolled: dict[str, str] = {}
    for array, tags in (("input", old_dim_tags), ("output", new_dim_tags)):
        if tags is None:
            continue
        knl = tag_array_axes(knl, array, tags)
        for axis, tag in zip(axes, parse_array_dim_tags(tags, rank), strict=True):
            if isinstance(tag, SeparateArrayArrayDimTag):
                unrolled[axis] = "unr"
    return tag_inames(knl, unrolled) if unrolled else knl


def _subscript_of(axes: Sequence[str]) -> str:
    return f"[{', '.join(axes)}]"
