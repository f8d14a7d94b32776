"""Batching: a kernel that processes several sets of data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.overwrites import warn_of_overwrites
from kgen.errors import TransformError
from kgen.ir.data import ArrayBase, GlobalArg, Iname, TemporaryVariable, ValueArg, with_outer_axis
from kgen.ir.expr import Expr, subscript, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from kgen.ir.sets.dims import BasicSet
from kgen.ir.sets.domain import as_basic_set
from kgen.ir.tags import ForceSequentialTag
from kgen.ir.types import INT32, AddressSpace, auto
from kgen.transforms.array_accesses import ArrayAccessMapper, Index
from kgen.transforms.select import (
    Meaning,
    NoSuchNameError,
    new_names,
    require_new_name,
    split_names,
    transform_of,
)

__all__ = ["to_batched"]


@transform_of(Meaning.CHANGED)
def to_batched(
    kernel: LoopKernel,
    nbatches: int | str,
    batch_varying_args: str | Collection[str],
    batch_iname_prefix: str = "ibatch",
    sequential: bool = False,
) -> LoopKernel:
    """Apply a kernel to several sets of data, in a loop around all instructions.

    :arg nbatches: the number of sets; a name is that of an integer argument, which is added
    :arg batch_varying_args: the arguments that differ between sets. Arrays get
        a new first axis; numbers become arrays.
    :arg batch_iname_prefix: the new loop; its name is made unique
    :arg sequential: run one set after the other, reusing temporaries; otherwise,
        temporaries that are declared as local or global get an axis, too.

    ::

        for i                       for ibatch
          b[i] = c*a[i]       =>      for i
                                        b[ibatch, i] = c*a[ibatch, i]

    Warns if an array that does not vary gets different values from different sets.

    Raises :class:`TransformError` for arguments that loops or shapes depend on, and for
    those that C code uses.

    >>> from kgen.frontend import make_kernel
    >>> knl = to_batched(make_kernel("{ [i]: 0<=i<n }", "b[i] = c*a[i]"), "m", "a, b")
    >>> print(knl.default_entrypoint.instructions[0])
    b[ibatch, i] = c*a[ibatch, i]  {id=insn}
    """
    given = split_names(batch_varying_args)
    variables = {**kernel.arg_dict, **kernel.temporary_variables}
    for name in given:
        if name not in variables:
            raise NoSuchNameError(kernel.name, "argument", name, variables)
    more = [
        name
        for name, variable in kernel.temporary_variables.items()
        if not sequential and _is_shared(variable)
    ]
    varying = dict.fromkeys((*given, *more))
    iname = new_names(kernel)(batch_iname_prefix)
    _check_varying(kernel, varying)
    count: Expr = p.Variable(nbatches) if isinstance(nbatches, str) else int(nbatches)

    def prepend(variable: p.Variable, index: Index) -> Expr:
        return subscript(variable, (p.Variable(iname), *index))

    mapper = ArrayAccessMapper(kernel, dict.fromkeys(varying, prepend))
    arguments = [
        _batched(kernel, arg, count) if arg.name in varying else arg for arg in kernel.args
    ]
    if isinstance(nbatches, str) and nbatches not in kernel.arg_dict:
        require_new_name(kernel, nbatches)
        arguments.insert(0, ValueArg(nbatches, INT32))
    batched = kernel.map_instructions(
        lambda insn: mapper.change(insn, within_inames=insn.within_inames | {iname}),
        domains=(_batches(iname, nbatches), *kernel.domains),
        inames={
            iname: Iname(iname, frozenset({ForceSequentialTag()} if sequential else ())),
            **kernel.inames,
        },
        substitutions={
            name: mapper.change_rule(rule) for name, rule in kernel.substitutions.items()
        },
        args=tuple(arguments),
        temporary_variables={
            name: _batched(kernel, variable, count) if name in varying else variable
            for name, variable in kernel.temporary_variables.items()
        },
    )
    warn_of_overwrites(batched, iname)
    return batched


def _is_shared(variable: TemporaryVariable) -> bool:
    """Tell whether work-items, which may have different sets of data, share *variable*."""
    shared = (AddressSpace.LOCAL, AddressSpace.GLOBAL)
    return not variable.read_only and variable.address_space in shared


def _check_varying(kernel: LoopKernel, varying: Collection[str]) -> None:
    sizes = kernel.all_params().union(
        name
        for array in kernel.array_vars.values()
        if isinstance(array.shape, tuple)
        for extent in array.shape
        for name in variable_names(*({extent} - {None}))
    )
    for name in varying:
        if name in sizes:
            raise TransformError(
                f"'{name}' cannot vary: it is a bound of loops or a size of arrays",
            )


def _batches(iname: str, nbatches: int | str) -> BasicSet:
    params = f"[{nbatches}] -> " if isinstance(nbatches, str) else ""
    return as_basic_set(f"{params}{{ [{iname}]: 0 <= {iname} < {nbatches} }}")


def _batched(kernel: LoopKernel, variable: Any, count: Expr) -> Any:
    """Return a variable with an axis for the batch, outside of all others."""
    if isinstance(variable, ValueArg):
        return GlobalArg(variable.name, variable.dtype, shape=(count,), tags=variable.tags)
    assert isinstance(variable, ArrayBase)
    shape = variable.shape
    if not isinstance(shape, tuple) or None in shape or not isinstance(variable.dim_tags, tuple):
        raise TransformError(
            f"the shape of '{variable.name}' is not known",
            kernel=kernel.name,
            hint=f"declare it: GlobalArg('{variable.name}', shape=...)",
        )
    levels = [
        tag.layout_nesting_level
        for tag in variable.dim_tags
        if isinstance(tag, FixedStrideArrayDimTag | ComputedStrideArrayDimTag)
    ]
    outer: Any
    if None in levels:
        is_open = auto in variable.fixed_strides
        outer = FixedStrideArrayDimTag(auto if is_open else _extent_in_storage(variable))
    else:
        outer = ComputedStrideArrayDimTag(max((n for n in levels if n is not None), default=-1) + 1)
    return with_outer_axis(variable, "batch", count, outer).with_shape((count, *shape))


def _extent_in_storage(array: ArrayBase) -> Expr:
    """Return how many elements lie between the first and the last of *array*, and these."""
    strides = zip(array.fixed_strides, array.shape, strict=True)
    return p.Sum((1, *(p.Product((stride, p.Sum((extent, -1)))) for stride, extent in strides)))
