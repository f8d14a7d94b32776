"""loopy.symbolic: expressions: nodes, mappers, text, and isl's functions and sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import islpy as isl
import pymbolic.primitives as p
from pymbolic.mapper import CachedMapper
from pymbolic.mapper.coefficient import CoefficientCollector as _CoefficientCollector
from pymbolic.mapper.distributor import distribute
from pymbolic.mapper.flattener import FlattenMapper as _FlattenMapper

from kgen.compat.mappers import (
    CallbackMapper,
    ReductionCallbackMapper,
    SubstitutionRuleExpander,
    UnidirectionalUnifier,
)
from kgen.compat.renamed import refuser
from kgen.compat.rule_mappers import (
    ExpansionState,
    RuleAwareIdentityMapper,
    RuleAwareSubstitutionMapper,
    SubstitutionRuleMappingContext,
)
from kgen.errors import ExpressionToAffineConversionError
from kgen.ir.checked import unfit
from kgen.ir.expr import (
    CombineMapper as UncachedCombineMapper,
)
from kgen.ir.expr import (
    Expr,
    GroupHardwareAxisIndex,
    LinearSubscript,
    LocalHardwareAxisIndex,
    Reduction,
    StringifyMapper,
    SubArrayRef,
    TaggedVariable,
    TypeCast,
    is_zero,
    minus,
    substitute,
    to_text,
    walk,
)
from kgen.ir.expr import (
    SubstitutionMapper as UncachedSubstitutionMapper,
)
from kgen.ir.expr import (
    WalkMapper as UncachedWalkMapper,
)
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.mappers import DependencyMapper
from kgen.ir.mappers import IdentityMapper as UncachedIdentityMapper
from kgen.ir.mentions import get_dependencies
from kgen.ir.sets.dims import with_params
from kgen.ir.sets.quasi_affine import (
    aff_to_expr,
    as_pw_aff,
    conditions_of,
    map_from_exprs,
    pw_aff_from_expr,
    qpolynomial_to_expr,
    set_from_condition,
)

__all__ = [
    "CallbackMapper",
    "CoefficientCollector",
    "CombineMapper",
    "DependencyMapper",
    "ExpansionState",
    "FlattenMapper",
    "GroupHardwareAxisIndex",
    "HardwareAxisIndex",
    "IdentityMapper",
    "LinearSubscript",
    "LocalHardwareAxisIndex",
    "Reduction",
    "ReductionCallbackMapper",
    "ResolvedFunction",
    "RuleAwareIdentityMapper",
    "RuleAwareSubstitutionMapper",
    "StringifyMapper",
    "SubArrayRef",
    "SubstitutionMapper",
    "SubstitutionRuleExpander",
    "SubstitutionRuleMappingContext",
    "TaggedVariable",
    "TypeCast",
    "UncachedCombineMapper",
    "UncachedIdentityMapper",
    "UncachedSubstitutionMapper",
    "UncachedWalkMapper",
    "UnidirectionalUnifier",
    "WalkMapper",
    "aff_from_expr",
    "aff_to_expr",
    "condition_to_set",
    "flatten",
    "get_access_map",
    "get_dependencies",
    "get_reduction_inames",
    "get_start_subscript_from_sar",
    "get_sub_array_ref_swept_inames",
    "guarded_aff_from_expr",
    "guarded_pwaff_from_expr",
    "is_expression_equal",
    "is_tuple_of_expressions_equal",
    "isl_set_from_expr",
    "parse",
    "pw_aff_to_expr",
    "pwaff_from_expr",
    "qpolynomial_to_expr",
    "set_to_cond_expr",
    "simplify_using_aff",
    "simplify_via_aff",
    "with_aff_conversion_guard",
]

P = ParamSpec("P")
T = TypeVar("T")

#: Indices of work-groups and of work-items, for ``isinstance``.
HardwareAxisIndex: TypeAlias = GroupHardwareAxisIndex | LocalHardwareAxisIndex


__getattr__ = refuser(
    "kgen has no such node, mapper or function",
    {
        "ArrayLiteral": 'TemporaryVariable("t", initializer=array) declares a table of constants',
        "Literal": "numbers are numpy scalars, or text such as '2.5f'; a CInstruction is text of C",
        "RuleArgument": "a substitution rule uses its arguments by name: rule.arguments",
        "TypedCSE": "use pymbolic's CommonSubexpression(TypeCast(dtype, child), prefix)",
    },
)


# -- nodes --------------------------------------------------------------------------------------


@p.expr_dataclass(init=False)
class ResolvedFunction(p.Variable):
    """The function of a call, for expressions that are built with one; kgen makes none.

    It is a variable of the function's name, as the functions of kgen's own calls are. The
    program's ``callables_table`` says what they call.

    >>> from pymbolic import var
    >>> sine = ResolvedFunction(var("sin"))
    >>> sine.name, sine.function, to_text(sine(var("x")) + 1)
    ('sin', Variable('sin'), 'sin(x) + 1')
    """

    def __init__(self, function: p.Variable | str) -> None:
        if not isinstance(function, p.Variable | str):
            raise unfit("function of a ResolvedFunction", "a variable, or its name", function)
        super().__init__(function if isinstance(function, str) else function.name)

    @property
    def function(self) -> p.Variable:
        """The function as a plain variable."""
        return p.Variable(self.name)


# -- coefficients -------------------------------------------------------------------------------


class CoefficientCollector(_CoefficientCollector):
    """Return the coefficients of an affine expression by variable, and the rest under 1.

    ``target_names`` are the variables to find; others are part of the coefficients.

    >>> for term, factor in CoefficientCollector(["i", "j"])(parse("3*i + n*j + 4")).items():
    ...     print(term, factor)
    i 3
    j n
    1 4

    Raises :class:`ExpressionToAffineConversionError` for subscripts.
    """

    def map_subscript(self, expr: p.Subscript) -> Any:
        """Reject data, of which no coefficient is known."""
        raise ExpressionToAffineConversionError(
            f"'{to_text(expr)}' is data: an expression that reads it has no coefficients"
        )


# -- sums and products --------------------------------------------------------------------------


class FlattenMapper(_FlattenMapper, UncachedIdentityMapper):
    """Write sums of sums as one sum, products of products as one product; drop 0 and 1 in them."""


def flatten(expr: Expr) -> Expr:
    """Write sums of sums as one sum, products of products as one product; drop 0 and 1 in them.

    >>> from pymbolic import var
    >>> nested = p.Sum((p.Sum((var("i"), 2)), p.Product((1, var("n"), p.Product((3, var("k")))))))
    >>> flatten(nested) == p.Sum((var("i"), 2, p.Product((var("n"), 3, var("k")))))
    True
    """
    return FlattenMapper()(expr)


# -- mappers that visit equal expressions once --------------------------------------------------


class IdentityMapper(CachedMapper, UncachedIdentityMapper):  # type: ignore[type-arg]
    """Copy an expression, equal parts of it once; a subclass changes what it defines.

    >>> from pymbolic import var
    >>> class Renamer(IdentityMapper):
    ...     def map_variable(self, expr):
    ...         return var(expr.name + "_new")
    >>> print(Renamer()(parse("a[i] + a[i]")))
    a_new[i_new] + a_new[i_new]
    """


class CombineMapper(CachedMapper, UncachedCombineMapper):  # type: ignore[type-arg]
    """Join the results of the parts of an expression; equal parts are visited once.

    >>> class Names(CombineMapper):
    ...     def combine(self, values):
    ...         return set().union(*values)
    ...     def map_constant(self, expr):
    ...         return set()
    ...     def map_variable(self, expr):
    ...         return {expr.name}
    >>> sorted(Names()(parse("2*a[i] + a[i]")))
    ['a', 'i']
    """


class WalkMapper(CachedMapper, UncachedWalkMapper):  # type: ignore[type-arg]
    """Visit the parts of an expression, equal ones once.

    >>> class Printer(WalkMapper):
    ...     def map_variable(self, expr):
    ...         print(expr)
    >>> Printer()(parse("a[i] + a[i]"))
    a
    i
    """


class SubstitutionMapper(CachedMapper, UncachedSubstitutionMapper):  # type: ignore[type-arg]
    """Put other expressions in the place of variables; equal parts are visited once.

    >>> from pymbolic import var
    >>> print(SubstitutionMapper({"i": var("k") + 1})(parse("a[i]*i")))
    a[k + 1]*(k + 1)
    """

    def __init__(self, subst_func: Any) -> None:
        super().__init__(subst_func)


# -- isl ----------------------------------------------------------------------------------------


def pwaff_from_expr(
    space: isl.Space, expr: Expr, vars_to_zero: Collection[str] | None = None
) -> isl.PwAff:
    """Convert an expression over the dimensions and parameters of *space* to isl's function.

    Variables in *vars_to_zero* count as 0. Raises :class:`ExpressionToAffineConversionError` for
    what is not quasi-affine.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"], params=["n"])
    >>> print(pwaff_from_expr(space, parse("2*i + n // 4 + offset"), {"offset"}))
    [n] -> { [i] -> [(2i + floor((n)/4))] }
    """
    return pw_aff_from_expr(space, substitute(expr, dict.fromkeys(vars_to_zero or (), 0)))


def aff_from_expr(
    space: isl.Space, expr: Expr, vars_to_zero: Collection[str] | None = None
) -> isl.Aff:
    """Convert as :func:`pwaff_from_expr` does an expression that is one function everywhere.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"], params=["n"])
    >>> aff_from_expr(space, parse("min(i, n)"))
    Traceback (most recent call last):
        ...
    kgen.errors.ExpressionToAffineConversionError: 'min(i, n)' is not one affine function...
    """
    pieces = pwaff_from_expr(space, expr, vars_to_zero).coalesce().get_pieces()
    if len(pieces) != 1:
        raise ExpressionToAffineConversionError(
            f"'{to_text(expr)}' is not one affine function, but one of {len(pieces)} pieces"
        )
    ((_, aff),) = pieces
    return aff


def get_access_map(
    domain: isl.Set | isl.BasicSet,
    subscript: Sequence[Expr],
    assumptions: isl.Set | isl.BasicSet | None = None,
) -> isl.Map:
    """Return the map from the points of *domain* to the element ``array[subscript]``.

    *assumptions* are a set of the parameters. Raises :class:`ExpressionToAffineConversionError`
    for subscripts that are not quasi-affine.

    >>> domain = isl.Set("[n] -> { [i]: 0 <= i < n }")
    >>> print(get_access_map(domain, (parse("2*i + 1"), 3)))
    [n] -> { [i] -> [1 + 2i, 3] : 0 <= i < n }
    """
    points = domain.to_set() if isinstance(domain, isl.BasicSet) else domain
    if assumptions is not None:
        points = points.intersect_params(assumptions.params())
    return map_from_exprs(points.space, subscript).intersect_domain(points)


def with_aff_conversion_guard(
    f: Callable[Concatenate[isl.Space, Expr, P], T],
    space: isl.Space,
    expr: Expr,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call *f*; what isl refuses is an :class:`ExpressionToAffineConversionError`."""
    try:
        return f(space, expr, *args, **kwargs)
    except isl.Error as err:
        raise ExpressionToAffineConversionError(f"'{to_text(expr)}': {err}") from err


#: These raise nothing but ExpressionToAffineConversionError as they are.
guarded_aff_from_expr: Final = aff_from_expr
guarded_pwaff_from_expr: Final = pwaff_from_expr


def pw_aff_to_expr(pw_aff: isl.PwAff | isl.Aff, int_ok: bool = False) -> Expr:
    """Convert isl's function back, to a choice between its pieces where it has several.

    *int_ok* makes no difference: a constant is an ``int``.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"])
    >>> to_text(pw_aff_to_expr(pwaff_from_expr(space, parse("max(i, 4)"))))
    '4 if i < 4 else i'
    """
    *first, (_, last) = as_pw_aff(pw_aff).coalesce().get_pieces()
    expr = aff_to_expr(last)
    for domain, aff in reversed(first):
        expr = p.If(set_to_cond_expr(domain), aff_to_expr(aff), expr)
    return expr


def condition_to_set(space: isl.Space, expr: Expr) -> isl.Set | None:
    """Return where a condition holds, in *space*; ``None`` for one that isl cannot express.

    >>> space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=["i"])
    >>> print(condition_to_set(space, parse("i < 4")), condition_to_set(space, parse("i*i < 4")))
    { [i] : i <= 3 } None
    """
    try:
        return set_from_condition(space, expr)
    except ExpressionToAffineConversionError:
        return None


def isl_set_from_expr(space: isl.Space, expr: Expr) -> isl.Set:
    """Return where a condition holds, in *space*, or refuse it."""
    return set_from_condition(space, expr)


def set_to_cond_expr(isl_set: isl.Set) -> Expr:
    """Write a set as the condition that holds in it.

    >>> to_text(set_to_cond_expr(isl.Set("{ [i]: 2 <= i < 9 }")))
    'i < 9 and i >= 2'
    """
    conditions = conditions_of(isl_set)
    if not conditions:
        return True
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(conditions)


def simplify_via_aff(expr: Expr) -> Expr:
    """Write a quasi-affine expression as the sum that isl makes of it.

    >>> to_text(simplify_via_aff(parse("4*i + n - 3*i + (8*n + 3) // 8")))
    'i + 2*n'
    """
    names = sorted(get_dependencies(expr))
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names)
    return pw_aff_to_expr(pwaff_from_expr(space, expr))


def simplify_using_aff(kernel: LoopKernel, expr: Expr) -> Expr:
    """Simplify as :func:`simplify_via_aff` does, with what the loops of a kernel say of its inames.

    What is not quasi-affine comes back as it is.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<8 }", "a[i] = 1").default_entrypoint
    >>> to_text(simplify_using_aff(knl, parse("i % 8 + (i + 8) // 8 + n - 1")))
    'i + n'
    """
    names = get_dependencies(expr)
    domain = kernel.get_inames_domain(names & kernel.all_inames())
    space = with_params(domain.get_space(), sorted(names - kernel.all_inames()))
    try:
        return pw_aff_to_expr(pwaff_from_expr(space, expr).gist(domain))
    except ExpressionToAffineConversionError:
        return expr


# -- comparison ---------------------------------------------------------------------------------


def is_expression_equal(a: Expr, b: Expr) -> bool:
    """Tell whether two expressions are the same, or their difference is 0 when it is expanded.

    >>> is_expression_equal(parse("2*(i + n)"), parse("n*2 + 2*i"))
    True
    >>> is_expression_equal(parse("i"), parse("n"))
    False
    """
    if a == b:
        return True
    if a is None or b is None or isinstance(a, tuple) or isinstance(b, tuple):
        return False
    difference = minus(a, b)
    try:
        return is_zero(simplify_via_aff(difference))
    except ExpressionToAffineConversionError:
        return is_zero(distribute(difference))


def is_tuple_of_expressions_equal(a: Any, b: Any) -> bool:
    """Tell whether two tuples, such as shapes, have equal expressions; ``None`` equals itself.

    >>> is_tuple_of_expressions_equal((parse("n + n"), 3), (parse("2*n"), 3))
    True
    """
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(map(is_expression_equal, a, b))


def get_sub_array_ref_swept_inames(expr: Expr) -> frozenset[str]:
    """Return the loop variables that the parts of arrays in an expression sweep.

    >>> sorted(get_sub_array_ref_swept_inames(parse("f([i]: a[i, j]) + g([k, l]: b[k, l])")))
    ['i', 'k', 'l']
    """
    parts = (node for node in walk(expr) if isinstance(node, SubArrayRef))
    return frozenset(var.name for part in parts for var in part.swept_inames)


def get_start_subscript_from_sar(sar: SubArrayRef, kernel: LoopKernel) -> p.Subscript:
    """Return the first element of a part of an array: loop variables that it sweeps are at least.

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i, j]: 0<=i, j<8 }", "out[i, j] = a[i, j]").default_entrypoint
    >>> print(get_start_subscript_from_sar(parse("[i]: a[i + 1, j]"), knl))
    a[1, j]
    """
    first = {
        var.name: pw_aff_to_expr(kernel.get_iname_bounds(var.name).lower_bound_pw_aff)
        for var in sar.swept_inames
    }
    index = tuple(simplify_via_aff(substitute(one, first)) for one in sar.subscript.index_tuple)
    return p.Subscript(sar.subscript.aggregate, index)


def get_reduction_inames(expr: Expr) -> frozenset[str]:
    """Return the loop variables that the reductions in an expression run over.

    >>> sorted(get_reduction_inames(parse("sum(k, a[i, k]) + max((l, m), b[l, m])")))
    ['k', 'l', 'm']
    """
    reductions = (node for node in walk(expr) if isinstance(node, Reduction))
    return frozenset(name for node in reductions for name in node.inames)
