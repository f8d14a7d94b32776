"""Loops in other coordinates: reversed, shifted, skewed, interchanged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kgen.analysis.domains import Inverse, equation_set, read_map, solve
from kgen.errors import ExpressionToAffineConversionError, TransformError, message
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.parse import parse
from kgen.transforms.rewrite import Replacement, replace_in_domains, replace_inames
from kgen.transforms.select import (
    matcher,
    require_iname,
    require_new_name,
    split_names,
    transform,
)

__all__ = ["affine_map_inames", "map_domain"]


@transform
def affine_map_inames(
    kernel: LoopKernel,
    old_inames: str | Iterable[str],
    new_inames: str | Iterable[str],
    equations: str | Sequence[str | tuple[Any, Any]],
) -> LoopKernel:
    """Describe loops by other variables, which equations relate to the old ones.

    :arg equations: texts such as ``"z = 3 - i"``, or pairs of expressions

    ::

        for i  {0<=i<4}    affine_map_inames(kernel, "i", "z", "z = 3 - i")   for z  {0<=z<4}
          a[i] = 0                                  =>                          a[3 - z] = 0

    Raises :class:`TransformError` when the equations do not give each new point one old
    point and the other way round.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> knl = affine_map_inames(knl, "i", "z", "z = 3 - i")
    >>> print(knl.default_entrypoint.instructions[0])
    a[-z + 3] = 0  {id=insn}
    """
    old, new = split_names(old_inames), split_names(new_inames)
    for name in old:
        require_iname(kernel, name)
    texts = [equations] if isinstance(equations, str) else equations
    pairs = [_read_equation(kernel, equation) for equation in texts]
    used = {name for pair in pairs for name in variable_names(*pair)}
    params = sorted(used - {*old, *new})
    unknown = [name for name in params if name not in kernel.all_params()]
    if unknown:
        raise TransformError(
            message(
                f"'{unknown[0]}' is none of the inames {', '.join((*old, *new))}, and no parameter",
                kernel=kernel.name,
            )
        )
    try:
        related = equation_set((*old, *new), params, pairs)
    except ExpressionToAffineConversionError as err:
        raise TransformError(message(str(err), kernel=kernel.name)) from None
    return _replaced(kernel, old, new, solve(old, new, related))


def _read_equation(kernel: LoopKernel, given: str | tuple[Any, Any]) -> tuple[Expr, Expr]:
    if isinstance(given, str):
        left, sign, right = given.partition("=")
        if not sign or "=" in right:
            raise TransformError(
                message(
                    f"'{given}' is not an equation",
                    kernel=kernel.name,
                    hint="write 'z = 3 - i'",
                )
            )
        return parse(left), parse(right)
    left, right = (parse(side) if isinstance(side, str) else side for side in given)
    return left, right


@transform
def map_domain(kernel: LoopKernel, transform_map: Any) -> LoopKernel:
    """Describe loops by other variables, which an islpy map gives in terms of the old ones.

    :arg transform_map: a map between sets of named inames, such as
        ``islpy.BasicMap("{ [i, j] -> [j_, i_] : i_ = i and j_ = j }")``

    ::

        for i                map_domain(kernel, "{[i] -> [z]: z = i + 2}")       for z
          a[i] = 0                                =>                               a[z - 2] = 0

    Raises :class:`TransformError` when the map is not one to one.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> print(map_domain(knl, "{[i] -> [z]: z = i + 2}").default_entrypoint.instructions[0])
    a[z - 2] = 0  {id=insn}
    """
    old, new, related = read_map(transform_map)
    for name in old:
        require_iname(kernel, name)
    return _replaced(kernel, old, new, solve(old, new, related))


def _replaced(
    kernel: LoopKernel, old: tuple[str, ...], new: tuple[str, ...], inverse: Inverse | None
) -> LoopKernel:
    for name in new:
        require_new_name(kernel, name)
    if inverse is None:
        raise TransformError(
            message(
                f"the relation between {', '.join(old)} and {', '.join(new)} is not one to one",
                kernel=kernel.name,
                hint="each value of the new inames must give one value of the old, and back",
            )
        )
    change = Replacement(inverse.values, inverse.new)
    new_domains = partial(replace_in_domains, kernel, change, valid=inverse.valid)
    return replace_inames(kernel, change, new_domains, matcher(kernel, None))
