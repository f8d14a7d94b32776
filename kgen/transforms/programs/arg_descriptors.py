"""The shapes and strides of arrays in called kernels, inferred from their callers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from kgen.analysis.parts import extents_and_strides, strides_of
from kgen.ir.checked import checked
from kgen.ir.data import ArrayArg
from kgen.ir.expr import Expr, substitute, variable_names
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.layout import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from kgen.ir.types import auto
from kgen.ir.unit import TranslationUnit
from kgen.transforms.programs.inline import calls_of, order_of_calls, passed_by

__all__ = ["infer_arg_descr"]


@checked
def infer_arg_descr(t_unit: TranslationUnit) -> TranslationUnit:
    """Set shapes and strides of called kernels' array arguments to those of the calls.

    An open shape is filled in, and so are strides that are only the default of a contiguous array,
    if all calls pass the same ones, expressed in what the called kernel knows:
    numbers, and its own scalar arguments. Callers are processed before their callees.
    Entry points stay as they are, because their callers are unknown.

    ::

        for i                                   f(x):  x has stride 1
          [k]: b[i,k] = f([j]: a[j,i])    =>    f(x):  x has stride 16

    Raises :class:`TransformError` for calls whose arguments do not match the callee.

    >>> from kgen.frontend import make_function, make_kernel
    >>> from kgen.ir.data import GlobalArg
    >>> from kgen.transforms.programs.callables import merge
    >>> double = make_function("{ [i]: 0<=i<4 }", "y[i] = 2*x[i]", name="double")
    >>> knl = make_kernel(
    ...     "{ [i,j,k]: 0<=i<16 and 0<=j,k<4 }",
    ...     "[k]: b[i,k] = double([j]: a[j,i])",
    ...     [GlobalArg("a", shape=(4, 16)), GlobalArg("b", shape=(16, 4))])
    >>> found = infer_arg_descr(merge([knl, double]))["double"].arg_dict
    >>> found["x"].shape, found["x"].fixed_strides, found["y"].fixed_strides
    ((4,), (16,), (1,))
    """
    unit = t_unit
    for name in reversed(order_of_calls(unit)):
        if name in unit.entrypoints:
            continue
        found: dict[str, list[_Descriptor]] = {}
        for kernel in unit.kernels():
            for insn, called in calls_of(kernel):
                if called == name:
                    for array, descriptor in _descriptors(kernel, insn, unit[name]):
                        found.setdefault(array, []).append(descriptor)
        changed = _described(unit[name], found)
        if changed is not unit[name]:
            unit = unit.with_kernel(changed)
    return unit


@dataclass(frozen=True)
class _Descriptor:
    """Extents and strides that a call passes; ``None`` where the callee cannot know them."""

    shape: tuple[Expr | None, ...]
    strides: tuple[Expr | None, ...]


def _descriptors(
    kernel: LoopKernel, insn: InstructionBase, callee: LoopKernel
) -> Iterator[tuple[str, _Descriptor]]:
    """Yield what a call passes for each array of *callee*, in terms of its own arguments."""
    passed = passed_by(kernel, insn, callee)
    sizes = kernel.all_params() - kernel.inames.keys()
    inner = {
        value.name: p.Variable(name)
        for name, value in passed.values.items()
        if isinstance(value, p.Variable) and value.name in sizes
    }

    def known(expr: Expr | None) -> Expr | None:
        if expr is None or not inner.keys() >= set(variable_names(expr)):
            return None
        return substitute(expr, inner)

    for array, place in passed.places.items():
        shape, strides = extents_and_strides(kernel, place)
        yield array, _Descriptor(tuple(map(known, shape)), tuple(map(known, strides)))


def _described(callee: LoopKernel, found: Mapping[str, Sequence[_Descriptor]]) -> LoopKernel:
    """Return the kernel with open descriptors replaced by those on which all calls agree."""
    args = tuple(
        _filled(arg, found[arg.name]) if arg.name in found and isinstance(arg, ArrayArg) else arg
        for arg in callee.args
    )
    return callee if args == callee.args else callee.copy(args=args)


def _filled(arg: ArrayArg, descriptors: Sequence[_Descriptor]) -> ArrayArg:
    shape = _agreed([descriptor.shape for descriptor in descriptors])
    strides = _agreed([descriptor.strides for descriptor in descriptors])
    if (arg.shape is auto or auto in (arg.shape or ())) and shape is not None:
        arg = arg.with_shape(shape)
    if strides is None or not isinstance(arg.shape, tuple) or len(strides) != len(arg.shape):
        return arg
    tags = arg.dim_tags
    follows_from_shape = not isinstance(tags, tuple) or all(
        isinstance(tag, ComputedStrideArrayDimTag)
        or (isinstance(tag, FixedStrideArrayDimTag) and tag.layout_nesting_level is not None)
        for tag in tags
    )
    if not follows_from_shape or (isinstance(tags, tuple) and strides_of(arg) == strides):
        return arg
    return arg.copy(dim_tags=tuple(FixedStrideArrayDimTag(stride) for stride in strides))


def _agreed(given: Sequence[tuple[Expr | None, ...]]) -> tuple[Expr, ...] | None:
    """Return the descriptor entries on which all calls agree."""
    first = tuple(part for part in given[0] if part is not None)
    return first if all(other == first for other in given) else None
