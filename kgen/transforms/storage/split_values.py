"""Storing numbers as two parts, as tensor cores take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pymbolic.primitives as p

from kgen.analysis.infer import infer_types
from kgen.analysis.shapes import infer_temporary_shapes
from kgen.analysis.split_values import PARTS, nearest_tf32, split_table
from kgen.errors import TransformError
from kgen.ir.affine import simplify
from kgen.ir.assignee import index_of
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import Expr, minus, subscript
from kgen.ir.instruction import Assignment, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import FixedStrideArrayDimTag
from kgen.ir.tags import AsyncCopyTag
from kgen.ir.types import NumpyType
from kgen.transforms.array_accesses import (
    ArrayAccessMapper,
    Index,
    reject_bounds,
    reject_elements_by_number,
)
from kgen.transforms.select import new_names, transform
from kgen.transforms.storage.privatize import chosen_temporaries

__all__ = ["split_values"]


@transform
def split_values(kernel: LoopKernel, names: str | Iterable[str]) -> LoopKernel:
    r"""Store the numbers of float32 temporaries as two: the nearest one of TF32, and the rest.

    Temporaries get a last axis of two elements, whose sum is the number. :func:`tensorize` with
    ``precision="3xtf32"`` splits its factors in registers, in each step that uses them; those that
    are stored split are loaded as they are. This pays for factors that many steps read again, and
    takes twice the memory. The sum is exact, except for infinite numbers, which become NaN.

    :arg names: temporaries of float32, written by plain assignments, or tables

    ::

                                             t_whole = a[i]
        t[i] = a[i]                          t[i, 0] = nearest_tf32(t_whole)
                                       =>    t[i, 1] = t_whole - nearest_tf32(t_whole)
        b[i] = 2*t[i]                        b[i] = 2*(t[i, 0] + t[i, 1])

    Raises :class:`TransformError` for temporaries of other types, for those that share storage or
    have a swizzle, and for atomic updates, asynchronous copies and C code that write them.

    >>> import kgen as lp
    >>> knl = lp.make_kernel(
    ...     "{ [i]: 0 <= i < 4 }", ["<> t = a[i]", "b[i] = 2*t"],
    ...     [lp.GlobalArg("a", "float32"), ...])
    >>> print(*split_values(knl, "t").default_entrypoint.instructions, sep="\n")
    t_whole = a[i]  {id=insn_whole}
    t[0] = as_float(as_uint(t_whole) + 4096 & 4294959104)  {id=insn_nearest}
    t[1] = t_whole - as_float(as_uint(t_whole) + 4096 & 4294959104)  {id=insn}
    b[i] = 2*(t[0] + t[1])  {id=insn_0}
    """
    for name in chosen_temporaries(kernel, names):
        kernel = _split(kernel, name)
    return kernel


def _split(kernel: LoopKernel, name: str) -> LoopKernel:
    typed = infer_types(infer_temporary_shapes(kernel), complete=False)
    known = typed.temporary_variables[name]
    _check(known)
    stored = _with_parts(known)
    reject_elements_by_number(kernel, known, stored)
    reject_bounds(kernel, {name})
    names, reads = new_names(kernel), ArrayAccessMapper(kernel, {name: _sum})
    ids = kernel.get_instruction_id_generator()
    insns: list[InstructionBase] = []
    declared: dict[str, TemporaryVariable] = {name: stored}
    for insn in kernel.instructions:
        changed = reads.change_reads(insn)
        if name not in insn.assignee_var_names():
            insns.append(changed)
            continue
        _check_write(kernel, name, changed)
        whole = str(names(f"{name}_whole"))
        declared[whole] = TemporaryVariable(whole, dtype=known.dtype, shape=())
        new_ids = ids(f"{insn.id}_whole"), ids(f"{insn.id}_nearest")
        insns += _stores(changed, p.Variable(whole), *new_ids)
    rules = {n: reads.change_rule(rule) for n, rule in kernel.substitutions.items()}
    return kernel.copy(
        instructions=tuple(insns),
        substitutions=rules,
        temporary_variables=dict(kernel.temporary_variables) | declared,
    )


def _sum(variable: p.Variable, index: Index) -> Expr:
    return p.Sum(tuple(subscript(variable, (*index, part)) for part in range(PARTS)))


def _stores(
    insn: Any, whole: p.Variable, first: str, second: str
) -> tuple[InstructionBase, InstructionBase, InstructionBase]:
    """Return the assignments of a number, and of both parts; the last one keeps the id."""
    nearest = nearest_tf32(whole)
    place = p.Variable(insn.assignee_var_names()[0])
    zero, one = (subscript(place, (*index_of(insn.assignee), part)) for part in range(PARTS))
    after = insn.depends_on | {first}
    return (
        insn.copy(id=first, assignee=whole),
        insn.copy(id=second, assignee=zero, expression=nearest, depends_on=after),
        insn.copy(assignee=one, expression=minus(whole, nearest), depends_on=after | {second}),
    )


def _with_parts(array: TemporaryVariable) -> TemporaryVariable:
    """Return the declaration with an axis of parts, which are neighbours."""
    assert isinstance(array.shape, tuple)
    outer = tuple(
        FixedStrideArrayDimTag(simplify(p.Product((PARTS, tag.stride)))) for tag in array.dim_tags
    )
    table = array.initializer
    return array.copy(
        shape=(*array.shape, PARTS),
        dim_tags=(*outer, FixedStrideArrayDimTag(1)),
        dim_names=None if array.dim_names is None else (*array.dim_names, "part"),
        initializer=None if table is None else split_table(np.asarray(table)),
    )


def _check(array: TemporaryVariable) -> None:
    if array.dtype != NumpyType(np.dtype(np.float32)):
        raise _cannot(array.name, f"it is of {_type_name(array)}, not float32")
    if not isinstance(array.shape, tuple):
        raise _cannot(array.name, "its shape is not known")
    if array.base_storage or array.swizzle or array.distribution or array.offset:
        raise _cannot(
            array.name, "it shares its storage, or has a swizzle, a distribution or an offset"
        )
    if not all(isinstance(tag, FixedStrideArrayDimTag) for tag in array.dim_tags):
        raise _cannot(array.name, "its axes have no fixed strides")


def _type_name(array: TemporaryVariable) -> str:
    return array.dtype.dtype.name if isinstance(array.dtype, NumpyType) else "no known type"


def _check_write(kernel: LoopKernel, name: str, insn: InstructionBase) -> None:
    if not isinstance(insn, Assignment) or insn.atomicity:
        raise _cannot(name, "it is not written by a plain assignment", insn)
    if insn.tags_of_type(AsyncCopyTag):
        raise _cannot(name, "it is copied asynchronously, but parts must be computed", insn)


def _cannot(name: str, because: str, insn: InstructionBase | None = None) -> TransformError:
    return TransformError(
        f"the numbers of '{name}' cannot be split",
        where=None if insn is None else f"instruction '{insn}'",
        because=because,
        hint="omit split_values: tensorize(..., precision='3xtf32') splits factors in registers",
    )
