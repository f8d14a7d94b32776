"""Affine loop transformations: reversal, shifting, skewing, interchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import permutations
from typing import Any

from kgen.analysis.dependences import ViolatedDependence
from kgen.analysis.domains import Inverse, equation_set, read_map, solve
from kgen.analysis.points import describe, example
from kgen.analysis.reordering import Reordering
from kgen.errors import (
    ExpressionToAffineConversionError,
    TransformError,
    message,
)
from kgen.ir.expr import Expr, variable_names
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.sets.dims import to_named
from kgen.transforms.loops.rewrite import Replacement, replace_in_domains, replace_inames
from kgen.transforms.select import (
    matcher,
    require_inames,
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
    """Replace loop variables by new ones, related to the old ones by equations.

    :arg equations: texts such as ``"z = 3 - i"``, or pairs of expressions

    ::

        for i  {0<=i<4}    affine_map_inames(kernel, "i", "z", "z = 3 - i")   for z  {0<=z<4}
          a[i] = 0                                  =>                          a[3 - z] = 0

    Raises :class:`TransformError` if the equations are not a one-to-one map between old and new
    points, and if dependent iterations would be reordered, as :func:`map_domain` does.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> knl = affine_map_inames(knl, "i", "z", "z = 3 - i")
    >>> print(knl.default_entrypoint.instructions[0])
    a[-z + 3] = 0  {id=insn}
    """
    old, new = require_inames(kernel, old_inames), split_names(new_inames)
    if not old:
        raise TransformError(
            "old_inames names no inames", hint=f"there are {', '.join(sorted(kernel.inames))}"
        )
    _require_new(kernel, new)
    texts = [equations] if isinstance(equations, str) else equations
    pairs = [_read_equation(equation) for equation in texts]
    used = {name for pair in pairs for name in variable_names(*pair)}
    params = sorted(used - {*old, *new})
    unknown = [name for name in params if name not in kernel.all_params()]
    if unknown:
        raise TransformError(
            f"'{unknown[0]}' is neither one of the inames {', '.join((*old, *new))} nor a parameter"
        )
    try:
        related = equation_set((*old, *new), params, pairs)
    except ExpressionToAffineConversionError as err:
        raise TransformError(str(err)) from None
    return _replaced(kernel, old, new, solve(old, new, related))


def _read_equation(given: str | tuple[Any, Any]) -> tuple[Expr, Expr]:
    if isinstance(given, str):
        left, sign, right = given.partition("=")
        if not sign or "=" in right:
            raise TransformError(f"'{given}' is not an equation", hint="write 'z = 3 - i'")
        return parse(left), parse(right)
    left, right = (parse(side) if isinstance(side, str) else side for side in given)
    return left, right


@transform
def map_domain(kernel: LoopKernel, transform_map: Any) -> LoopKernel:
    """Replace loop variables by others, which an islpy map relates to the old ones.

    :arg transform_map: a map between sets of named inames, such as
        ``islpy.BasicMap("{ [i, j] -> [j_, i_] : i_ = i and j_ = j }")``

    ::

        for i                map_domain(kernel, "{[i] -> [z]: z = i + 2}")       for z
          a[i] = 0                                =>                               a[z - 2] = 0

    The order of dependent iterations is preserved: priorities of the
    new loops determine which must enclose which. If nothing determines the order of the old loops,
    and the map is only valid for another order than that of their declaration, there is a
    warning. Dependences follow from the elements read and written; there is a warning if they
    cannot be determined, as for ``a[b[i]]``.

    ::

        for i, j                        map_domain(kernel,                for w, x
          u[i,j] = u[i-1,j] + u[i,j-1]   "{[i,j] -> [w,x]: w = i + j       u[w-x,x] = ...
                                           and x = j}")              =>

    Raises :class:`TransformError` if the map is not one to one, with an iteration that
    has no image, and if it reverses a dependence, with the two
    iterations.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<4 }", "a[i] = 0")
    >>> print(map_domain(knl, "{[i] -> [z]: z = i + 2}").default_entrypoint.instructions[0])
    a[z - 2] = 0  {id=insn}
    """
    old, new, related = read_map(transform_map)
    require_inames(kernel, old)
    _require_new(kernel, new)
    return _replaced(kernel, old, new, solve(old, new, related))


def _require_new(kernel: LoopKernel, new: tuple[str, ...]) -> None:
    for number, name in enumerate(new):
        require_new_name(kernel, name, new[:number])


def _replaced(
    kernel: LoopKernel, old: tuple[str, ...], new: tuple[str, ...], inverse: Inverse | None
) -> LoopKernel:
    if inverse is None:
        raise TransformError(
            f"the relation between {', '.join(old)} and {', '.join(new)} is not one to one",
            hint="each value of the new inames must give one value of the old, and back",
        )
    _check_reached(kernel, old, inverse)
    change = Replacement(inverse.values, inverse.new)
    new_domains = partial(replace_in_domains, kernel, change, valid=inverse.valid)
    result = replace_inames(kernel, change, matcher(kernel, None), new_domains=new_domains)
    return _in_order(kernel, result, inverse)


def _check_reached(kernel: LoopKernel, old: tuple[str, ...], inverse: Inverse) -> None:
    """Reject an inverse that leaves iterations out."""
    domain = kernel.domain_of(kernel.in_order(old))
    iterations = to_named(domain).intersect_params(kernel.assumptions)
    lost = iterations.subtract(to_named(inverse.reached))
    if not lost.is_empty():
        raise TransformError(
            f"the new loops leave iterations of {', '.join(old)} out",
            because=f"no new iteration corresponds to {describe(example(lost))}",
            hint="map each iteration to a new one; split_iname splits a loop with steps",
        )


def _in_order(before: LoopKernel, after: LoopKernel, inverse: Inverse) -> LoopKernel:
    """Nest the new loops so that loop-carried dependences are preserved."""
    declared, *others = _orders(before, tuple(inverse.values))
    reordering = Reordering(before, inverse, declared)
    nesting = reordering.needed_nesting(inverse.new)
    if nesting is None:
        first = reordering.find_swapped(inverse.new)
        assert first is not None
        for order in others:
            nesting = Reordering(before, inverse, order).needed_nesting(inverse.new)
            if nesting is not None:
                _warn_of_order(before, first, order)
                return _nested(after, inverse.new, nesting.chains)
        raise TransformError(
            f"dependent iterations would be reordered: {first.point}",
            hint="choose a map that keeps their order",
        )
    found = reordering.find_swapped(nesting.order)
    if found is not None:  # whether it is one depends on data
        _warn(
            before,
            found,
            f"dependent iterations may be reordered: {found.point}",
            "choose a map that keeps their order",
        )
    return _nested(after, inverse.new, nesting.chains) if nesting.chains else after


def _nested(
    kernel: LoopKernel, new: tuple[str, ...], chains: tuple[tuple[str, ...], ...]
) -> LoopKernel:
    """Make *chains* the only priorities among the new loops."""
    apart = (
        tuple(n for n in nest if n not in new or n == name)
        for nest in kernel.loop_priority
        for name in ([n for n in new if n in nest] or [""])
    )
    kept = dict.fromkeys(nest for nest in apart if len(nest) > 1)
    return kernel.copy(loop_priority=(*kept, *chains))


def _warn_of_order(kernel: LoopKernel, found: ViolatedDependence, order: tuple[str, ...]) -> None:
    nest = ", ".join(order)
    _warn(
        kernel,
        found,
        "the map keeps the order of dependent iterations only if the loops have the order "
        f"{nest}, which no priority ensures: {found.point}",
        f"call prioritize_loops(kernel, '{nest}') first",
    )


def _warn(kernel: LoopKernel, found: ViolatedDependence, text: str, hint: str) -> None:
    silencer = f"reordered_access({found.then.array})"
    kernel.warn(message(text, kernel=kernel.name, hint=hint), silencer)


def _orders(kernel: LoopKernel, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the orders that loops may have, the declared one first.

    Where priorities say which is around which, or there are many, that is the only one.
    """
    declared = kernel.in_order(names)
    said = any(len(set(chain) & set(names)) > 1 for chain in kernel.loop_priority)
    return [declared] if said or len(names) > 3 else list(permutations(declared))
