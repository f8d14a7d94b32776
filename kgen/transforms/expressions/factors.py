"""Factors of sums over loops: moving them out of the sum, and extracting them as a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper
from kgen.errors import TransformError, TypeInferenceFailure
from kgen.ir.data import SubstitutionRule
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    Reduction,
    TypeCast,
    flatten_product,
    to_text,
    walk,
)
from kgen.ir.instruction import InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.mentions import Mentions
from kgen.ir.reductions import parse_reduction_op
from kgen.transforms.select import (
    NothingSelectedError,
    matcher,
    new_names,
    require_inames,
    require_new_name,
    transform,
)

__all__ = [
    "extract_multiplicative_terms_in_sum_reduction_as_subst",
    "hoist_invariant_multiplicative_terms_in_sum_reduction",
]

_SUM = parse_reduction_op("sum")


# -- out of the sum -------------------------------------------------------------------------------


@transform
def hoist_invariant_multiplicative_terms_in_sum_reduction(
    kernel: LoopKernel,
    reduction_inames: str | Iterable[str],
    reduction_filter: Callable[[Reduction], bool] | None = None,
) -> LoopKernel:
    """Move the factors that all terms of a sum share out of the sum.

    :arg reduction_inames: all loops of the sums to change
    :arg reduction_filter: a predicate that selects among these sums; by default all

    ::

        y[i] = sum(j, x[i]*a[i, j])   =>   y[i] = x[i]*sum(j, a[i, j])

    This changes the rounding of floating-point sums. If the types are known, the terms keep their
    type. A term that consists of such factors alone stays in its sum.

    Raises :class:`TransformError` if no such sum has a factor to move.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i, j]: 0<=i,j<4 }", "y[i] = sum(j, x[i]*a[i, j])")
    >>> knl = hoist_invariant_multiplicative_terms_in_sum_reduction(knl, "j")
    >>> print(knl.default_entrypoint.instructions[0])
    y[i] = x[i]*reduce(sum, [j], a[i, j])  {id=insn}
    """
    names = frozenset(require_inames(kernel, reduction_inames))
    hoister = _Hoister(kernel, names, reduction_filter)
    changed = kernel.map_instructions(lambda insn: insn.with_transformed_expressions(hoister.rec))
    if not hoister.count:
        raise NothingSelectedError(
            f"no sum over {', '.join(sorted(names))} has a factor that is the same in all terms",
            hint="name all loops of the sum; expand_subst(kernel) shows factors in rules",
        )
    return changed


class _Hoister(IdentityMapper):
    """Takes factors out of sums over all of *inames*, and counts these sums."""

    def __init__(
        self,
        kernel: LoopKernel,
        inames: frozenset[str],
        is_chosen: Callable[[Reduction], bool] | None,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.inames = inames
        self.is_chosen = is_chosen
        self.typer = ExpressionTyper(kernel)
        self.count = 0

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Expr:
        result = super().map_reduction(expr, *args, **kwargs)
        assert isinstance(result, Reduction)
        is_sum = result.operation == _SUM and self.inames == set(result.inames)
        if not is_sum or not (self.is_chosen is None or self.is_chosen(expr)):
            return result
        terms = flatten_product(result.expr)
        varying, same = _divided(terms, self._varies)
        if not varying or not same:
            return result
        self.count += 1
        added = self._with_type_of(result.expr, _product(varying))
        return p.Product((*same, result.over(result.inames, (added,))))

    def _varies(self, term: Expr) -> bool:
        mentioned = Mentions(rules=self.kernel.substitutions).add(term)
        return not self.inames.isdisjoint(mentioned.variables)

    def _with_type_of(self, whole: Expr, part: Expr) -> Expr:
        """Return a part of a product in the type of the whole, as far as types are known."""
        try:
            dtype, own = self.typer(whole), self.typer(part)
        except TypeInferenceFailure:
            return part
        return part if dtype == own else TypeCast(dtype, part)


def _divided(
    terms: Iterable[Expr], test: Callable[[Expr], bool]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Return the factors that satisfy *test*, and the others."""
    parts: tuple[list[Expr], list[Expr]] = ([], [])
    for term in terms:
        parts[not test(term)].append(term)
    return tuple(parts[0]), tuple(parts[1])


def _product(factors: tuple[Expr, ...]) -> Expr:
    return factors[0] if len(factors) == 1 else p.Product(factors)


# -- rules ----------------------------------------------------------------------------------------


@transform
def extract_multiplicative_terms_in_sum_reduction_as_subst(
    kernel: LoopKernel,
    within: Any,
    subst_name: str,
    arguments: Sequence[Any],
    terms_filter: Callable[[Expr], bool],
) -> LoopKernel:
    """Make a rule of some factors of the terms of a sum, and use it in their place.

    Precomputing the rule stores the products of these factors.

    :arg within: matches the instruction that has the sum; it is the only one there
    :arg subst_name: the name of the rule
    :arg arguments: subexpressions of the factors that become arguments, as text or nodes
    :arg terms_filter: a predicate that selects the factors for the rule

    ::

        y[i] = sum(j, a[i, j]*w[j]*x[i])   =>   f(i, j) := a[i, j]*w[j]
                                                y[i] = sum(j, f(i, j)*x[i])

    Raises :class:`TransformError` unless there is exactly one sum, if no factor is
    selected, and if an argument does not occur in the selected factors.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i, j]: 0<=i,j<4 }", "y[i] = sum(j, a[i, j]*w[j]*x[i])")
    >>> knl = extract_multiplicative_terms_in_sum_reduction_as_subst(
    ...     knl, None, "f", ["i", "j"], lambda term: "x" not in str(term)).default_entrypoint
    >>> print(*knl.substitutions.values(), *knl.instructions)
    f(i, j) := a[i, j]*w[j] y[i] = reduce(sum, [j], f(i, j)*x[i])  {id=insn}
    """
    require_new_name(kernel, subst_name)
    test = matcher(kernel, within)
    insn, found = _only_sum(kernel, test)
    terms = flatten_product(found.expr)
    chosen, others = _divided(terms, terms_filter)
    if not chosen:
        raise NothingSelectedError(
            f"terms_filter chooses none of the factors {', '.join(map(to_text, terms))}",
            where=f"instruction '{insn}'",
        )
    rule, given = _rule(kernel, subst_name, arguments, _product(chosen))
    new = found.over(found.inames, (_product((p.Variable(subst_name)(*given), *others)),))
    replaced = _Replacement({found: new})
    changed = kernel.map_instructions(
        lambda one: one.with_transformed_expressions(replaced.rec) if test(one) else one
    )
    return changed.copy(substitutions={**kernel.substitutions, subst_name: rule})


def _only_sum(
    kernel: LoopKernel, test: Callable[[InstructionBase], bool]
) -> tuple[InstructionBase, Reduction]:
    found = [
        (insn, node)
        for insn in kernel.instructions
        if test(insn)
        for node in walk(*insn.expressions())
        if isinstance(node, Reduction) and node.operation == _SUM
    ]
    if len(found) != 1:
        raise TransformError(
            f"there are {len(found)} sums, but exactly one is expected",
            because=", ".join(f"{to_text(node)} in '{insn.id}'" for insn, node in found) or None,
            hint="choose the instruction: within='id:...'; or put each sum into a separate "
            "assignment",
        )
    return found[0]


def _rule(
    kernel: LoopKernel, name: str, arguments: Sequence[Any], body: Expr
) -> tuple[SubstitutionRule, tuple[Expr, ...]]:
    """Return the rule for a product, and the arguments of its use."""
    given = tuple(parse(one) if isinstance(one, str) else one for one in arguments)
    fresh, parameters = new_names(kernel), list[str]()
    for argument in given:
        if not any(node == argument for node in walk(body)):
            raise TransformError(
                f"the argument '{to_text(argument)}' is not in '{to_text(body)}'",
                hint="arguments are parts of the factors that terms_filter chooses",
            )
        is_variable = isinstance(argument, p.Variable)
        parameters.append(argument.name if is_variable else str(fresh("arg")))
    names = map(p.Variable, parameters)
    replaced = _Replacement(dict(zip(given, names, strict=True))).rec(body)
    return SubstitutionRule(name, tuple(parameters), replaced), given


class _Replacement(IdentityMapper):
    """Puts other expressions in the place of some."""

    def __init__(self, given: dict[Expr, Expr]) -> None:
        super().__init__()
        self.given = given

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        found = self.given.get(expr) if isinstance(expr, p.ExpressionNode) else None
        return super().rec(expr, *args, **kwargs) if found is None else found

    __call__ = rec
