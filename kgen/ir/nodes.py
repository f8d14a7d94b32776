"""kgen's own pymbolic nodes, and their text in the instruction language."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pymbolic.primitives as p
from pymbolic.mapper.stringifier import (
    PREC_CALL,
    PREC_COMPARISON,
    PREC_LOGICAL_AND,
    PREC_NONE,
    PREC_PRODUCT,
    PREC_SUM,
    PREC_UNARY,
)
from pymbolic.mapper.stringifier import (
    StringifyMapper as _StringifyMapper,
)
from pytools.tag import Tag

from kgen.errors import KgenError
from kgen.ir.checked import unfit
from kgen.ir.reductions import ReductionOperation, parse_reduction_op
from kgen.ir.tags import Taggable, to_tags
from kgen.ir.types import KgenType, OpaqueType, to_kgen_type
from kgen.ir.vector_values import numbers_of

__all__ = [
    "Expr",
    "GroupHardwareAxisIndex",
    "LinearSubscript",
    "LocalHardwareAxisIndex",
    "Reduction",
    "StringifyMapper",
    "SubArrayRef",
    "TaggedVariable",
    "TruncQuotient",
    "TruncRemainder",
    "TypeCast",
    "TypedLiteral",
    "to_text",
]

#: A pymbolic expression or a scalar constant.
Expr: TypeAlias = Any


class _Node(p.ExpressionNode):
    """A node defined by kgen, which ``str`` writes in the instruction language."""

    def make_stringifier(self, originating_stringifier: Any = None) -> Any:
        """Return pymbolic's printer for this node, also inside others."""
        return StringifyMapper()


@p.expr_dataclass()
class TaggedVariable(Taggable, p.Variable):
    """A variable ``name$tag``, whose tag distinguishes its uses.

    Tags may be given as a word, a tag, or several of these.

    >>> from kgen.ir.language.expressions import parse
    >>> parse("a$west").name, parse("a$west") == TaggedVariable("a", "west")
    ('a', True)
    """

    tags: frozenset[Tag]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", to_tags(self.tags))

    def copy(self, **changes: Any) -> Self:
        """Return this with some fields changed."""
        return dataclasses.replace(self, **changes)


@p.expr_dataclass()
class TypeCast(_Node):
    """``cast(type, child)``: *child* converted to *type*, a number or a vector of numbers.

    Raises :class:`KgenError` for other types, such as records, and if the type is missing.

    >>> from kgen.ir.language.expressions import parse
    >>> parse("cast(np.float32, x)").type
    np:dtype('float32')
    """

    type: KgenType
    child: Expr

    def __post_init__(self) -> None:
        dtype = to_kgen_type(self.type, allow_auto=False, allow_none=False)
        object.__setattr__(self, "type", dtype)
        numbers = dtype.numpy_dtype
        if isinstance(dtype, OpaqueType) or (
            dtype.kind not in "biufc" and numbers_of(numbers) is None
        ):
            raise KgenError(
                f"'{to_text(self.child)}' cannot be converted to {dtype}, which is not a type of "
                "numbers\n  hint: convert to a numeric type, such as numpy.float32"
            )


@p.expr_dataclass()
class TypedLiteral(_Node):
    """A constant of a declared type, such as ``2.5f`` or ``7u``."""

    value: Any
    type: KgenType


@p.expr_dataclass()
class Reduction(_Node):
    """``operation(inames, expr)``: *expr* reduced over all values of *inames*.

    *expr* is a tuple for operations on tuples, such as ``argmin``.

    >>> from kgen.ir.language.expressions import parse
    >>> to_text(Reduction("sum", ("j", "k"), parse("a[i, j]*b[j, k]")))
    'reduce(sum, [j, k], a[i, j]*b[j, k])'
    """

    operation: ReductionOperation
    inames: tuple[str, ...]
    expr: Expr
    allow_simultaneous: bool = False

    def __post_init__(self) -> None:
        inames: Any = self.inames
        if isinstance(inames, str):
            inames = tuple(name.strip() for name in inames.split(","))
        elif isinstance(inames, p.Variable):
            inames = (inames,)
        if not isinstance(inames, list | tuple | frozenset | set):
            raise unfit("inames of a reduction", "text, or a list of names", inames)
        object.__setattr__(
            self,
            "inames",
            tuple(n.name if isinstance(n, p.Variable) else n for n in inames),
        )
        operation: Any = self.operation
        if isinstance(operation, str):
            object.__setattr__(self, "operation", parse_reduction_op(operation))

    @property
    def is_tuple_typed(self) -> bool:
        """Tell whether the reduction has several results."""
        return self.operation.arg_count > 1

    @property
    def inames_set(self) -> frozenset[str]:
        """The inames, without their order."""
        return frozenset(self.inames)

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """The operands of one step, always as a tuple."""
        return self.expr if isinstance(self.expr, tuple) else (self.expr,)

    def over(self, inames: tuple[str, ...], exprs: tuple[Expr, ...]) -> Reduction:
        """Return the reduction with other operands, over other inames."""
        expr = exprs if isinstance(self.expr, tuple) else exprs[0]
        return Reduction(self.operation, inames, expr, self.allow_simultaneous)


@p.expr_dataclass()
class SubArrayRef(_Node):
    """``[i, j]: a[...]``: the part of an array that *swept_inames* cover."""

    swept_inames: tuple[p.Variable, ...]
    subscript: p.Subscript


@p.expr_dataclass()
class LinearSubscript(_Node):
    """``a[[index]]``: the element with linear index *index* in the storage of ``a``.

    >>> from kgen.ir.language.expressions import parse
    >>> node = parse("a[[2*i]]")
    >>> to_text(node.index)
    '2*i'
    """

    aggregate: Expr
    index: Expr


@p.expr_dataclass()
class GroupHardwareAxisIndex(_Node):
    """The index of the work-group along an axis."""

    axis: int


@p.expr_dataclass()
class LocalHardwareAxisIndex(_Node):
    """The index of the work-item in its group along an axis."""

    axis: int


@p.expr_dataclass()
class TruncQuotient(_Node):
    """C's integer ``/``, used where it equals floor division, or where both are valid."""

    numerator: Expr
    denominator: Expr


@p.expr_dataclass()
class TruncRemainder(_Node):
    """C's integer ``%``, used where it equals the modulus, or is compared with 0."""

    numerator: Expr
    denominator: Expr


# -- text --------------------------------------------------------------------------------------

_FRACTIONS: Final = (p.Quotient, p.FloorDiv, p.Remainder)
_MULTIPLICATIVE: Final = (p.Product, *_FRACTIONS)
_SUFFIXES: Final = {"float32": "f", "float64": "d", "uint32": "u", "int64": "l", "uint64": "ul"}


class StringifyMapper(_StringifyMapper[[]]):
    """Print an expression in the instruction language."""

    def map_foreign(self, expr: Any, *args: Any, **kwargs: Any) -> str:
        """Write a non-expression as Python does, so that messages show it."""
        try:
            return str(super().map_foreign(expr, *args, **kwargs))
        except ValueError:
            return repr(expr)

    def map_variable(self, expr: p.Variable, enclosing_prec: int) -> str:
        return expr.name

    def map_tagged_variable(self, expr: TaggedVariable, enclosing_prec: int) -> str:
        return "$".join([expr.name, *sorted(str(tag) for tag in expr.tags)])

    def map_constant(self, expr: Any, enclosing_prec: int) -> str:
        if isinstance(expr, np.generic):
            expr = expr.item()
        return str(super().map_constant(expr, enclosing_prec))

    def map_typed_literal(self, expr: TypedLiteral, enclosing_prec: int) -> str:
        suffix = _SUFFIXES.get(expr.type.numpy_dtype.name)
        if suffix is None or not np.isfinite(expr.value):
            return f"cast({expr.type}, {expr.value!r})"
        text = f"{expr.value!r}{suffix}"
        return f"({text})" if text.startswith("-") and enclosing_prec > PREC_SUM else text

    # -- arithmetic ---------------------------------------------------------------------

    def map_sum(self, expr: p.Sum, enclosing_prec: int) -> str:
        text = ""
        for k, term in enumerate(expr.children):
            opposite = _opposite(term) if k else None
            sign = "" if not k else " + " if opposite is None else " - "
            shown = term if opposite is None else opposite
            text += sign + str(self.rec(shown, PREC_PRODUCT if k else PREC_SUM))
        return self.parenthesize_if_needed(text, enclosing_prec, PREC_SUM)

    def map_product(self, expr: p.Product, enclosing_prec: int) -> str:
        if not expr.children:
            return "Product(())"
        first, *rest = expr.children
        is_negative = bool(rest) and _is_negative(first)
        if is_negative and first == -1 and len(rest) == 1:
            text = "-" + str(self.rec(rest[0], PREC_UNARY))
        else:
            operand = self.rec_with_parens_around_types
            head = f"{first}" if is_negative else operand(first, PREC_PRODUCT, _FRACTIONS)
            tail = (operand(factor, PREC_PRODUCT, _MULTIPLICATIVE) for factor in rest)
            text = "*".join([head, *tail])
        return self.parenthesize_if_needed(
            text, enclosing_prec, PREC_SUM if is_negative else PREC_PRODUCT
        )

    def rec_with_parens_around_types(
        self, expr: Any, enclosing_prec: int, parens_around: tuple[type[Any], ...]
    ) -> str:
        """Write an operand, in one pair of parentheses if it is of one of the types."""
        if isinstance(expr, parens_around):
            return f"({self.rec(expr, PREC_NONE)})"
        return str(self.rec(expr, enclosing_prec))

    def map_trunc_quotient(self, expr: TruncQuotient, enclosing_prec: int) -> str:
        return str(self.rec(p.FloorDiv(expr.numerator, expr.denominator), enclosing_prec))

    def map_trunc_remainder(self, expr: TruncRemainder, enclosing_prec: int) -> str:
        return str(self.rec(p.Remainder(expr.numerator, expr.denominator), enclosing_prec))

    def map_comparison(self, expr: p.Comparison, enclosing_prec: int) -> str:
        left, right = (self.rec(side, PREC_COMPARISON + 1) for side in (expr.left, expr.right))
        text = f"{left} {expr.operator} {right}"
        return self.parenthesize_if_needed(text, enclosing_prec, PREC_COMPARISON)

    def map_logical_not(self, expr: p.LogicalNot, enclosing_prec: int) -> str:
        text = f"not {self.rec(expr.child, PREC_UNARY)}"
        return self.parenthesize_if_needed(text, enclosing_prec, PREC_LOGICAL_AND)

    # -- kgen's nodes -------------------------------------------------------------------

    def map_group_hardware_axis_index(
        self, expr: GroupHardwareAxisIndex, enclosing_prec: int
    ) -> str:
        return f"gid({expr.axis})"

    def map_local_hardware_axis_index(
        self, expr: LocalHardwareAxisIndex, enclosing_prec: int
    ) -> str:
        return f"lid({expr.axis})"

    def map_type_cast(self, expr: TypeCast, enclosing_prec: int) -> str:
        return f"cast({expr.type}, {self.rec(expr.child, PREC_NONE)})"

    def map_reduction(self, expr: Reduction, enclosing_prec: int) -> str:
        word = "simul_reduce" if expr.allow_simultaneous else "reduce"
        parts = ", ".join(self.rec(part, PREC_NONE) for part in expr.exprs)
        return f"{word}({expr.operation}, [{', '.join(expr.inames)}], {parts})"

    def map_sub_array_ref(self, expr: SubArrayRef, enclosing_prec: int) -> str:
        swept = ", ".join(self.rec(v, PREC_NONE) for v in expr.swept_inames)
        return f"[{swept}]: {self.rec(expr.subscript, PREC_NONE)}"

    def map_linear_subscript(self, expr: LinearSubscript, enclosing_prec: int) -> str:
        index = self.rec(expr.index, PREC_NONE)
        return f"{self.rec(expr.aggregate, PREC_CALL)}[[{index}]]"


def _is_negative(expr: Any) -> bool:
    return isinstance(expr, int | float) and expr < 0


def _opposite(expr: Any) -> Any:
    """Return the negation of a negative number or product, ``None`` for others."""
    if _is_negative(expr):
        return -expr
    if isinstance(expr, p.Product) and len(expr.children) > 1 and _is_negative(expr.children[0]):
        first, *rest = expr.children
        if first != -1:
            return p.Product((-first, *rest))
        return rest[0] if len(rest) == 1 else p.Product(tuple(rest))
    return None


_TEXT: Final = StringifyMapper()


def to_text(expr: Any) -> str:
    """Print *expr* in the instruction language."""
    return str(_TEXT(expr, PREC_NONE))
