"""Splitting and concatenating array axes, with their declarations and accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.shapes import infer_argument_shapes, infer_temporary_shapes
from kgen.analysis.signs import Signs
from kgen.errors import TransformError, counted
from kgen.ir.affine import linear_form, simplify
from kgen.ir.data import ArrayArg, ArrayBase
from kgen.ir.expr import Expr, subscript
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.types import auto
from kgen.transforms.array_accesses import (
    ArrayAccessMapper,
    Index,
    renamed,
    rewrite_accesses,
)
from kgen.transforms.select import (
    Meaning,
    require_array,
    require_new_name,
    split_names,
    transform_of,
)

__all__ = ["concatenate_arrays", "split_array_axis"]


@transform_of(Meaning.LAYOUT)
def split_array_axis(
    kernel: LoopKernel,
    array_names: str | Sequence[str],
    axis_nr: int,
    count: int,
    order: str = "C",
) -> LoopKernel:
    """Split an axis of arrays into blocks of *count* entries: block number, and entry in it.

    The elements keep their places in memory; the last block may extend beyond the axis.

    :arg axis_nr: the axis, from 0
    :arg order: ``"C"``: the block axis comes first; ``"F"``: the entry axis does

    ::

        a[i]  (shape n)  =>  a[i // 16, i % 16]  (shape (n + 15) // 16, 16)

    Raises :class:`TransformError` for arrays without such an axis, for axes without a stride,
    and if an array is used as a whole.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i,j]: 0<=i<n and 0<=j<4 }", "a[4*i + j] = 0")
    >>> print(split_array_axis(knl, "a", 0, 4).default_entrypoint.instructions[0])
    a[i, j] = 0  {id=insn}
    """
    if order not in ("C", "F"):
        raise TransformError(f"order '{order}' is neither 'C' nor 'F'")
    if count < 1:
        raise TransformError(
            f"count={count} is not a positive number of elements",
            hint=f"split_array_axis(kernel, {array_names!r}, {axis_nr}, 4)",
        )
    names = split_names(array_names)
    arrays = _with_known_shapes(kernel, names)
    changed = {name: _with_split_axis(arrays[name], axis_nr, count, order) for name in names}

    signs = Signs(kernel)

    def split(variable: p.Variable, index: Index) -> Expr:
        group, entry = _divided(signs, index[axis_nr], count)
        both = (group, entry) if order == "C" else (entry, group)
        return subscript(variable, (*index[:axis_nr], *both, *index[axis_nr + 1 :]))

    mapper = ArrayAccessMapper(kernel, dict.fromkeys(names, split), keep_linear=True)
    return rewrite_accesses(kernel, mapper, changed)


def _with_split_axis(array: ArrayBase, axis: int, count: int, order: str) -> ArrayBase:
    _require_axis(array, axis)
    tag = array.dim_tags[axis]
    if not isinstance(tag, FixedStrideArrayDimTag) or tag.stride is auto:
        raise TransformError(
            f"axis {axis} of array '{array.name}' is '{tag}' and cannot be split",
            hint=f"tag_array_axes(kernel, '{array.name}', 'C')",
        )
    extent = array.shape[axis]
    groups = simplify(p.FloorDiv(p.Sum((extent, count - 1)), count))
    if isinstance(extent, int):
        groups = -(-extent // count)
    outer = FixedStrideArrayDimTag(simplify(p.Product((count, tag.stride))))
    inner = FixedStrideArrayDimTag(tag.stride)
    shapes, tags = ((groups, count), (outer, inner))
    if order == "F":
        shapes, tags = shapes[::-1], tags[::-1]
    fixed = tuple(_without_level(other) for other in array.dim_tags)
    dim_names = array.dim_names
    if dim_names is not None:
        parts = (f"{dim_names[axis]}_outer", f"{dim_names[axis]}_inner")
        parts = parts if order == "C" else parts[::-1]
        dim_names = (*dim_names[:axis], *parts, *dim_names[axis + 1 :])
    return array.copy(
        shape=(*array.shape[:axis], *shapes, *array.shape[axis + 1 :]),
        dim_tags=(*fixed[:axis], *tags, *fixed[axis + 1 :]),
        dim_names=dim_names,
    )


def _without_level(tag: Any) -> Any:
    """Fix a stride, so that it does not change with the shape."""
    return FixedStrideArrayDimTag(tag.stride) if isinstance(tag, FixedStrideArrayDimTag) else tag


def _divided(signs: Signs, index: Expr, count: int) -> tuple[Expr, Expr]:
    """Return quotient and remainder of a subscript, simplified where loop bounds allow it."""
    form = linear_form(index)
    multiples = [(c // count, atom) for c, atom in form.terms if c % count == 0]
    rest = [p.Product((c, atom)) for c, atom in form.terms if c % count]
    below = simplify(p.Sum((*rest, form.constant)))
    quotient = (signs.interval(below) // count).only
    if quotient is not None:
        group = p.Sum((*(p.Product(term) for term in multiples), quotient))
        return simplify(group), simplify(p.Sum((below, -count * quotient)))
    return p.FloorDiv(index, count), p.Remainder(index, count)


# -- joining axes --------------------------------------------------------------------------------


@transform_of(Meaning.LAYOUT)
def concatenate_arrays(
    kernel: LoopKernel,
    array_names: str | Sequence[str],
    new_name: str | None = None,
    axis_nr: int = 0,
) -> LoopKernel:
    """Concatenate arrays along an axis.

    The arrays are all temporaries or all arguments, and agree in everything but the extent of
    that axis. The new array determines their offsets and strides.

    :arg new_name: the new array's name, by default generated
    :arg axis_nr: the axis, from 0

    ::

        u[i] = 2*v[i]  (shapes n)  =>  uv[i] = 2*uv[i + n]  (shape 2*n)

    Raises :class:`TransformError` if the arrays do not agree, and if one is used
    as a whole.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<8 }", ["<> u[i] = a[i]", "<> v[i] = 2*u[i]"])
    >>> print(concatenate_arrays(knl, "u,v", "uv").default_entrypoint.instructions[1])
    uv[i + 8] = 2*uv[i]  {id=insn_0}
    """
    names = split_names(array_names)
    if len(set(names)) < 2:
        raise TransformError(
            f"concatenate_arrays takes two arrays or more, not {len(names)}",
            hint="concatenate_arrays(kernel, ['a', 'b'])",
        )
    arrays = _with_known_shapes(kernel, names)
    parts = [arrays[name] for name in names]
    if new_name is None:
        new_name = str(kernel.get_var_name_generator()("concatenated"))
    elif new_name not in names:
        require_new_name(kernel, new_name)
    shifts: dict[str, Expr] = {}
    total: Expr = 0
    for part in parts:
        _require_axis(part, axis_nr)
        _reject_unlike(parts[0], part, axis_nr)
        shifts[part.name] = total
        total = simplify(p.Sum((total, part.shape[axis_nr])))
    first = parts[0]
    shape = (*first.shape[:axis_nr], total, *first.shape[axis_nr + 1 :])
    whole = first.with_shape(shape).copy(name=new_name)
    if isinstance(whole, ArrayArg):
        args = [part for part in parts if isinstance(part, ArrayArg)]
        whole = whole.copy(
            is_input=any(arg.is_input for arg in args), is_output=any(a.is_output for a in args)
        )

    def shift(variable: p.Variable, index: Index) -> Expr:
        moved = simplify(p.Sum((index[axis_nr], shifts[variable.name])))
        index = (*index[:axis_nr], moved, *index[axis_nr + 1 :])
        return subscript(renamed(variable, new_name), index)

    mapper = ArrayAccessMapper(kernel, dict.fromkeys(names, shift))
    changed = rewrite_accesses(kernel, mapper, {names[0]: whole})
    gone = set(names) - {names[0]}
    temporaries = changed.temporary_variables.items()
    return changed.copy(
        args=tuple(arg for arg in changed.args if arg.name not in gone),
        temporary_variables={var.name: var for name, var in temporaries if name not in gone},
    )


def _reject_unlike(one: ArrayBase, other: ArrayBase, axis: int) -> None:
    def traits(array: ArrayBase) -> dict[str, Any]:
        return {
            "kinds": type(array).__name__,
            "types": array.dtype,
            "address spaces": getattr(array, "address_space", None),
            "shapes": (*array.shape[:axis], *array.shape[axis + 1 :]),
            "offsets": array.offset,
            "initial values": None if getattr(array, "initializer", None) is None else object(),
            "base storages": getattr(array, "base_storage", None),
        }

    theirs = traits(other)
    for what, mine in traits(one).items():
        if mine != theirs[what]:
            raise TransformError(
                f"arrays '{one.name}' and '{other.name}' cannot be concatenated along axis {axis}",
                because=f"their {what} differ: {mine}; {theirs[what]}",
            )


# -- shared --------------------------------------------------------------------------------------


def _with_known_shapes(kernel: LoopKernel, names: Sequence[str]) -> dict[str, ArrayBase]:
    """Return the declarations of some arrays, with inferred shapes where these are left open."""
    found = {name: require_array(kernel, name) for name in names}
    if any(_is_open(array) for array in found.values()):
        inferred = infer_temporary_shapes(infer_argument_shapes(kernel))
        found = {name: inferred.array_vars[name] for name in names}
    for name, array in found.items():
        if _is_open(array):
            raise TransformError(
                f"the shape of array '{name}' is not known",
                because=f"it is declared with shape={array.shape}",
                hint=f"declare it: {type(array).__name__}('{name}', shape=...)",
            )
    return found


def _is_open(array: ArrayBase) -> bool:
    return not isinstance(array.shape, tuple) or auto in array.shape or None in array.shape


def _require_axis(array: ArrayBase, axis: int) -> None:
    naxes = array.num_user_axes()
    if not 0 <= axis < naxes:
        raise TransformError(
            f"array '{array.name}' has {counted(naxes, 'axis', 'axes')}, and no axis {axis}"
        )
