"""Parameters: fixing their values, and assumptions on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kgen.analysis.domains import fix_dims, fix_params
from kgen.analysis.infer import size_names
from kgen.errors import TransformError, assigned
from kgen.ir.checked import checked
from kgen.ir.construction.declare import parameter_names, undeclared_names
from kgen.ir.data import ValueArg
from kgen.ir.expr import Expr, is_constant
from kgen.ir.kernel import LoopKernel
from kgen.ir.sets.dims import Set, involved_params
from kgen.ir.sets.domain import sample_point
from kgen.ir.sets.text import parse_assumptions
from kgen.ir.unit import kernels_of
from kgen.transforms.expressions.variables import substitute_everywhere, substitute_in_instructions
from kgen.transforms.select import Meaning, NoSuchNameError, Program, matcher, transform_of

__all__ = ["assume", "fix_parameters", "fix_used_parameters"]


@checked
def fix_parameters(program: Program, /, *, within: Any = None, **value_dict: Any) -> Program:
    """Replace parameters and value arguments by numbers, and remove the arguments.

    Each kernel of a program uses the values of its own parameters.

    :arg within: replace in the expressions of matching instructions only; domains, shapes
        and the arguments stay

    ::

        for i  {0<=i<n}           fix_parameters(kernel, n=4)        for i  {0<=i<4}
          a[i] = a[i] + n                     =>                       a[i] = a[i] + 4

    Raises :class:`TransformError` for an unknown name, the name of an array or a loop, for a
    domain parameter that is not an integer, and for a value that contradicts the assumptions.

    >>> from kgen.frontend import make_kernel
    >>> knl = fix_parameters(make_kernel("{ [i]: 0<=i<n }", "a[i] = n"), n=4)
    >>> print(knl.default_entrypoint.domains[0], [a.name for a in knl.default_entrypoint.args])
    { [i] : 0 <= i <= 3 } ['a']
    """
    kernels = kernels_of(program)
    known = {name for kernel in kernels for name in _fixable_names(kernel)}
    for name in value_dict:
        if name not in known:
            names = "', '".join(kernel.name for kernel in kernels)
            raise NoSuchNameError(names, "parameter", name, sorted(known))
    return fix_used_parameters(program, value_dict, within)


def _fixable_names(kernel: LoopKernel) -> frozenset[str]:
    sizes = frozenset(size_names(kernel)) - kernel.array_vars.keys()
    values = (arg.name for arg in kernel.args if isinstance(arg, ValueArg))
    return sizes.union(values, undeclared_names(kernel))


@transform_of(Meaning.CHANGED)
def fix_used_parameters(
    kernel: LoopKernel, value_dict: Mapping[str, Any], within: Any = None
) -> LoopKernel:
    """Replace by numbers those parameters and value arguments that the kernel has.

    Names that it has for an array or a loop are rejected; see :func:`fix_parameters`.
    """
    if not value_dict:
        return kernel
    sizes = frozenset(size_names(kernel)) - kernel.array_vars.keys()
    known = _fixable_names(kernel)
    values = {
        name: _read_value(kernel, name, value, is_size=name in sizes)
        for name, value in value_dict.items()
        if name in known
    }
    for name in value_dict:
        if name not in values and name in (*kernel.array_vars, *kernel.inames):
            raise NoSuchNameError(kernel.name, "parameter", name, sorted(known))
    if not values:
        return kernel
    if within is not None:
        return substitute_in_instructions(kernel, values, matcher(kernel, within))
    numbers = {name: int(values[name]) for name in values if name in kernel.all_params()}
    integers = {name: value for name, value in values.items() if isinstance(value, int)}
    assumptions = fix_dims(kernel.assumptions, integers)
    if assumptions.is_empty() and not kernel.assumptions.is_empty():
        raise TransformError(
            f"{assigned(values)} contradicts the assumptions",
            because=f"they are {kernel.assumptions}",
        )
    changed = substitute_everywhere(kernel, values)
    return changed.copy(
        args=tuple(arg for arg in changed.args if arg.name not in values),
        domains=tuple(part for d in kernel.domains for part in fix_params(d, numbers)),
        assumptions=assumptions,
    )


def _read_value(kernel: LoopKernel, name: str, value: Any, *, is_size: bool) -> Expr:
    """Return the number that replaces *name*, with its declared type."""
    declared = kernel.arg_dict.get(name)
    if not is_constant(value):
        raise TransformError(f"the value {value!r} of '{name}' is not a number")
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        value = int(value)
    elif is_size:
        raise TransformError(
            f"parameter '{name}' bounds a loop or an array and cannot be {value!r}",
            because="it is not an integer",
        )
    dtype = None if declared is None else declared.dtype
    if is_size or dtype is None or dtype.is_integral():
        return value
    return dtype.numpy_dtype.type(value)


@checked
def assume(kernel: Program, assumptions: Any) -> Program:
    """Add constraints on parameters: ``assume(kernel, "n >= 1 and n mod 4 = 0")``.

    ::

        if (n >= 1 && i + 1 <= n)  =>  if (i + 1 <= n)

    Raises :class:`TransformError` if it contradicts the existing assumptions, and for a name
    that is not a parameter.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "a[i] = 0")
    >>> assume(knl, "n >= 1").default_entrypoint.assumptions
    Set("[n] -> {  : n > 0 }")
    """
    kernels = kernels_of(kernel)
    given = parse_assumptions(assumptions)
    known = {name for one in kernels for name in parameter_names(one)}
    for name in involved_params(given):
        if name not in known:
            raise NoSuchNameError(kernels[0].name, "parameter", name, sorted(known))
    return _assume(kernel, given, assumptions)


@transform_of(Meaning.CHANGED)
def _assume(kernel: LoopKernel, given: Set, assumptions: Any) -> LoopKernel:
    both = kernel.assumptions.intersect(given)
    if sample_point(both) is None:
        raise TransformError(
            f"'{assumptions}' contradicts the assumptions",
            because=f"they are {kernel.assumptions}",
        )
    return kernel.copy(assumptions=both)
