"""Constant folding, and factoring of increments."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any, Final

import pymbolic.primitives as p

from kgen.analysis.typing import ExpressionTyper
from kgen.errors import TransformError, TypeInferenceFailure
from kgen.ir.assignee import assignee_name, index_of
from kgen.ir.construction.dependencies import ancestors
from kgen.ir.data import TemporaryVariable
from kgen.ir.expr import (
    Expr,
    IdentityMapper,
    TypeCast,
    TypedLiteral,
    flatten,
    flatten_product,
    flatten_sum,
    is_constant,
    is_negation,
    is_zero,
    substitute,
    to_text,
    variable_names,
    walk,
)
from kgen.ir.instruction import Assignment, CInstruction, InstructionBase
from kgen.ir.kernel import LoopKernel
from kgen.ir.promotion import Literal, Operand, arithmetic, literal_type
from kgen.ir.types import FLOAT64, INT32, NumpyType
from kgen.ir.updates import update_of
from kgen.transforms.select import NoSuchNameError, split_names, transform

__all__ = ["collect_common_factors_on_increment", "fold_constants"]


# -- constants ------------------------------------------------------------------------------------


@transform
def fold_constants(kernel: LoopKernel, fast_math: bool = False) -> LoopKernel:
    """Evaluate constant subexpressions in instructions and substitution rules.

    The leading numbers of a sum or product are combined, and so are those inside parentheses, if
    the results stay the same bit by bit: ``1 + 2 + a[i]`` is ``3 + a[i]``. ``0.1*3*a[i]`` is left,
    which may round differently in the type of ``a``, and so is ``a[i] + 0``, which is 0.0 for -0.0,
    unless the sum is an integer. So is ``1/2``, which is a float64 where 0.5 is a float32.

    With *fast_math*, all numbers are combined, wherever they stand, which changes rounding; in
    subscripts they always are. Numbers with a type are left, and so is what would have another
    type, or wrap in another one: ``(1/2)*i``, ``0.1*5*i``, and sums of integers of several types of
    which one is unsigned.

    ::

        a[i] = 2*3*b[i + 2 - 1] + (1 + 2)   =>   a[i] = 6*b[i + 1] + 3

    >>> from kgen.frontend import make_kernel
    >>> knl = make_kernel("{ [i]: 0<=i<n }", "a[i] = 2*b[i]*3 + (1 + 2)")
    >>> print(fold_constants(knl).default_entrypoint.instructions[0])
    a[i] = 2*b[i]*3 + 3  {id=insn}
    >>> print(fold_constants(knl, fast_math=True).default_entrypoint.instructions[0])
    a[i] = 6*b[i] + 3  {id=insn}
    """
    precision = _least_precision(kernel)
    mapper = _ConstantFolder(fast_math, precision, ExpressionTyper(kernel))
    in_rules = _ConstantFolder(fast_math, precision, None)
    return kernel.map_instructions(
        lambda insn: insn.with_transformed_expressions(mapper),
        substitutions={
            name: rule.copy(expression=in_rules(rule.expression))
            for name, rule in kernel.substitutions.items()
        },
    )


def _least_precision(kernel: LoopKernel) -> int | None:
    """Return how many bits the mantissas of all real types in *kernel* have at least.

    ``None`` if there are only integers. Arrays without a type may have any.
    """
    declared = [variable.dtype for variable in kernel.array_vars.values()]
    declared += [arg.dtype for arg in kernel.args]
    exprs = [expr for insn in kernel.instructions for expr in insn.expressions()]
    exprs += [rule.expression for rule in kernel.substitutions.values()]
    nodes = list(walk(*exprs))
    declared += [node.type for node in nodes if isinstance(node, TypeCast | TypedLiteral)]
    if not all(isinstance(dtype, NumpyType) for dtype in declared):
        return _MANTISSAS[2]
    sizes = [t.itemsize // (1 + t.is_complex()) for t in declared if not t.is_integral()]
    if any(isinstance(node, float | complex | p.Quotient | p.Call) for node in nodes):
        sizes.append(8)
    return min((_MANTISSAS.get(size, _MANTISSAS[2]) for size in sizes), default=None)


#: The size of the narrowest integers that C computes with.
_WIDTH_OF_INT: Final = 4
#: The bits of mantissas, by the size of a real type; those of bfloat16 for 2 bytes.
_MANTISSAS: Final = {2: 8, 4: 24, 8: 53}


class _ConstantFolder(IdentityMapper):
    """Computes the constant parts of expressions; reorders those if *is_free*.

    Otherwise only numbers are combined whose result is the same in every real type of at least
    *precision* bits. *typer* finds out which sums are integers.
    """

    def __init__(self, is_free: bool, precision: int | None, typer: ExpressionTyper | None) -> None:
        super().__init__()
        self.is_free, self.precision, self.typer = is_free, precision, typer

    def map_subscript(self, expr: p.Subscript) -> Expr:
        around = self.is_free, self.typer
        self.is_free, self.typer = True, None  # indices are integers of any size
        result = super().map_subscript(expr)
        self.is_free, self.typer = around
        return result

    def map_sum(self, expr: p.Sum) -> Expr:
        children = tuple(map(self.rec, expr.children))
        if self._is_ordered(expr):
            kept = self._without_zeros(expr, children)
            folded = self._with_first_numbers(p.Sum, kept, operator.add)
        else:
            folded = self._sum([term for child in children for term in _terms(child)])
        return folded if self._has_type_of(folded, expr) else p.Sum(children)

    def _sum(self, terms: list[Expr]) -> Expr:
        """Return a sum whose numbers are added, and stand last."""
        numbers, others = _split_constants(terms)
        total = self._of_all(operator.add, numbers)
        if total is None:
            return p.Sum(tuple(terms))
        if total == 0 and not isinstance(total, float) and others:
            return others[0] if len(others) == 1 else p.Sum(tuple(others))
        if not others:
            return total
        return p.Sum((*others, total)) if len(numbers) > 1 else p.Sum(tuple(terms))

    def _of_all(self, compute: Callable[[Any, Any], Any], numbers: Sequence[Expr]) -> Any:
        """Return the sum or product of numbers, ``None`` if there is none of the same type."""
        total, *rest = numbers or (None,)
        for number in rest:
            total = None if total is None else self._computed(compute, total, number)
        return total

    def _is_ordered(self, expr: p.Sum | p.Product) -> bool:
        """Tell whether the order of operands matters.

        It does for real numbers, and if partial results wrap in types of their own: ``u + 1 + x``.
        """
        if not self.is_free:
            return True
        parts = (expr, *flatten(type(expr), expr))
        wrapping = [
            dtype for dtype in map(self._type, parts) if dtype is not None and _wraps(dtype)
        ]
        return any(dtype != self._type(expr) for dtype in wrapping)

    def _type(self, expr: Expr) -> Operand | None:
        """Return the type of an operand; ``None`` if it is not known."""
        if self.typer is None:
            return None
        try:
            return self.typer.operand(expr)
        except TypeInferenceFailure:
            return None

    def _has_type_of(self, folded: Expr, expr: Expr) -> bool:
        """Tell whether *folded* has the type of *expr*, as far as it is known."""
        new, old = self._type(folded), self._type(expr)
        return new is None or old is None or _is_same_type(new, old)

    def _without_zeros(self, expr: p.Sum, children: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return terms without integers 0 that do not matter: ``x + 0`` is 0.0 for -0.0."""
        if not any(type(child) is int and not child for child in children):
            return children
        is_whole = self._is_integer(expr)
        kept = [
            child
            for number, (child, old) in enumerate(zip(children, expr.children, strict=True))
            if type(child) is not int or child or not (is_whole or (number and _is_minus(old)))
        ]
        return tuple(kept) or (0,)

    def _is_integer(self, expr: p.Sum) -> bool:
        """Tell whether a sum certainly is an integer."""
        result = self._type(expr)
        return result is not None and result.kind in "iu"

    def map_product(self, expr: p.Product) -> Expr:
        children = tuple(map(self.rec, expr.children))
        if self._is_ordered(expr):
            return self._with_first_numbers(p.Product, children, operator.mul)
        parts = flatten_product(p.Product(children))
        numbers, others = _split_constants(parts)
        total = self._of_all(operator.mul, numbers)
        if total is None or (others and len(numbers) < 2):
            return p.Product(parts)
        return p.Product((total, *others)) if others else total

    def _with_first_numbers(
        self, kind: type[Any], children: tuple[Expr, ...], combine: Callable[[Any, Any], Any]
    ) -> Expr:
        """Combine the numbers that a sum or product begins with."""
        total, *rest = children
        while rest and (combined := self._computed(combine, total, rest[0])) is not None:
            total = combined
            rest.pop(0)
        return kind((total, *rest)) if rest or is_negation(total) else total

    def map_quotient(self, expr: p.Quotient) -> Expr:
        return self._divided(expr, operator.truediv)

    def map_floor_div(self, expr: p.FloorDiv) -> Expr:
        return self._divided(expr, operator.floordiv)

    def map_remainder(self, expr: p.Remainder) -> Expr:
        return self._divided(expr, operator.mod)

    def _divided(self, expr: Any, compute: Callable[[Any, Any], Any]) -> Expr:
        top, bottom = self.rec(expr.numerator), self.rec(expr.denominator)
        number = self._computed(compute, top, bottom)
        return type(expr)(top, bottom) if number is None else number

    def map_power(self, expr: p.Power) -> Expr:
        base, exponent = self.rec(expr.base), self.rec(expr.exponent)
        if isinstance(base, int | float) and isinstance(exponent, int) and 0 <= exponent < 64:
            number = self._computed(operator.pow, base, exponent)
            if number is not None:
                return number
        return p.Power(base, exponent)

    def _computed(self, compute: Callable[[Any, Any], Any], first: Expr, second: Expr) -> Any:
        """Return the result of an operation on two numbers, ``None`` if it is to be left."""
        if not (is_constant(first) and is_constant(second)):
            return None
        try:
            result = compute(first, second)
            if not _is_same_type(literal_type(result), _type_of(compute, first, second)):
                return None
            if self.is_free or self.precision is None:
                return result
            exact = compute(Fraction(first), Fraction(second))
            is_same = all(_has_bits(number, self.precision) for number in (first, second)) and (
                exact == Fraction(result) or (self.precision == 53 and compute is not operator.pow)
            )
        except (ArithmeticError, TypeError, ValueError, TypeInferenceFailure):
            return None  # too large, complex, or infinite
        return result if is_same else None


def _type_of(compute: Callable[[Any, Any], Any], first: Any, second: Any) -> Operand:
    """Return the type of an operation on two numbers: beside integers, 1/2 is a float64."""
    if type(first) is type(second) is int:
        return Literal("f", FLOAT64) if compute is operator.truediv else Literal("i", INT32)
    return arithmetic(literal_type(first), literal_type(second))


def _wraps(dtype: Operand | None) -> bool:
    """Tell whether a type is one of integers that wrap: unsigned ones, and narrow ones."""
    if not isinstance(dtype, NumpyType):
        return False
    return dtype.kind == "u" or (dtype.kind == "i" and dtype.itemsize < _WIDTH_OF_INT)


def _is_same_type(one: Operand, other: Operand) -> bool:
    """Tell whether two types are the same, and adapt in the same way; values do not matter."""
    if isinstance(one, Literal) and isinstance(other, Literal):
        return one.kind == other.kind and (one.kind == "i" or one.alone == other.alone)
    return one == other


def _terms(expr: Expr) -> tuple[Expr, ...]:
    """Return the terms of a sum; a negation that is added, ``x + (-u)``, stays one."""
    is_added = isinstance(expr, p.Sum) and len(expr.children) == 1
    return (expr,) if is_added else flatten_sum(expr)


def _has_bits(number: Any, precision: int) -> bool:
    """Tell whether a mantissa of *precision* bits holds *number*."""
    above = Fraction(number).numerator
    return abs(above // (above & -above or 1)).bit_length() <= precision


def _is_minus(expr: Expr) -> bool:
    """Tell whether a term of a sum is subtracted."""
    first = expr.children[0] if isinstance(expr, p.Product) else expr
    return isinstance(first, int | float) and first < 0


def _split_constants(parts: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    numbers, others = list[Expr](), list[Expr]()
    for part in parts:
        (numbers if is_constant(part) else others).append(part)
    return numbers, others


# -- common factors -------------------------------------------------------------------------------


@transform
def collect_common_factors_on_increment(
    kernel: LoopKernel, var_name: str, vary_by_axes: Sequence[int] | int | str = ()
) -> LoopKernel:
    """Move common factors of all increments of a temporary to the instructions that read it.

    A factor consists of numbers and of variables that no instruction writes. It is the same for the
    whole temporary; along *vary_by_axes* it may vary with the subscript, and a temporary
    without axes may have a different factor in each iteration of loops that reset it to 0.

    ::

        t = 0                                    t = 0
        t = t + c*a[j]*x[j]                      t = t + a[j]*x[j]
        t = t + c*b[j]                  =>       t = t + b[j]
        out = t                                  out = c*t

    This changes the rounding of the sums. Raises :class:`TransformError` if an instruction that
    writes the temporary neither adds to it nor sets it to 0.

    >>> from kgen.frontend import make_kernel
    >>> text = ["<> t = 0 {id=z}", "t = t + c*a[j] {id=u, dep=z}", "out = t {dep=u}"]
    >>> knl = make_kernel("{ [j]: 0<=j<n }", text)
    >>> knl = collect_common_factors_on_increment(knl, "t").default_entrypoint
    >>> print(knl.instructions[1], knl.instructions[2], sep="; ")
    t = t + a[j]  {id=u}; out = c*t  {id=insn}
    """
    variable = kernel.temporary_variables.get(var_name)
    if variable is None:
        raise NoSuchNameError(kernel.name, "temporary", var_name, kernel.temporary_variables)
    increments = _find_increments(kernel, var_name)
    if not increments:
        return kernel
    axes = _read_axes(kernel, variable, vary_by_axes)
    collector = _Collector(kernel, axes, _loops_of_one_life(kernel, variable, increments))
    factors = collector.common_factors(increments)
    if not factors:
        return kernel
    reader = _Reader(var_name, axes, factors)
    changed: list[InstructionBase] = []
    for insn in kernel.instructions:
        if insn.id in increments:
            changed.append(_without_factors(insn, increments[insn.id], factors, axes))
        elif insn.id not in kernel.writers[var_name]:
            changed.append(insn.with_transformed_expressions(reader))
        else:
            changed.append(insn)
    return kernel.copy(instructions=tuple(changed))


def _read_axes(
    kernel: LoopKernel, variable: TemporaryVariable, given: Sequence[int] | int | str
) -> tuple[int, ...]:
    items: Iterable[Any] = given if isinstance(given, list | tuple) else [given]
    if isinstance(given, str):
        items = split_names(given)
    axes: list[int] = []
    writers = [kernel.id_to_insn[name] for name in kernel.writers.get(variable.name, ())]
    places = [lhs for insn in writers for lhs in insn.assignees]
    count = min(len(index_of(lhs)) for lhs in places if assignee_name(lhs) == variable.name)
    for item in items:
        names = variable.dim_names or ()
        axis = names.index(item) if item in names else int(item) if str(item).isdigit() else -1
        if not 0 <= axis < count:
            raise TransformError(
                f"'{variable.name}' has no axis {item!r}",
                hint=f"it has {count}; they count from 0"
                + (f", and are called {', '.join(names)}" if names else ""),
            )
        axes.append(axis)
    return tuple(axes)


def _find_increments(kernel: LoopKernel, name: str) -> dict[str | None, tuple[Expr, ...]]:
    """Return the terms that each instruction adds to *name*; rejects other assignments."""
    found: dict[str | None, tuple[Expr, ...]] = {}
    for insn in kernel.instructions:
        if isinstance(insn, CInstruction) and name in insn.read_variables:
            raise _unfit(name, insn, "reads it in C code")
        if name not in insn.assignee_var_names():
            continue
        if not isinstance(insn, Assignment):
            raise _unfit(name, insn, "writes it together with others")
        update = update_of(insn)
        added = update.operands if update is not None and update.operation is p.Sum else ()
        elsewhere = (*added, *index_of(insn.assignee), *insn.predicates)
        if added and name not in variable_names(*elsewhere):
            found[insn.id] = added
        elif not is_zero(insn.expression):
            raise _unfit(name, insn, "neither adds to it nor sets it to 0")
    return found


def _loops_of_one_life(
    kernel: LoopKernel, variable: TemporaryVariable, increments: Collection[str | None]
) -> frozenset[str]:
    """Return the loops of which no iteration sees what another one has put into *variable*.

    They are around all accesses, and all of these wait for an instruction that sets it to 0.
    """
    name = variable.name
    uses = [insn for insn in kernel.instructions if name in insn.dependency_names()]
    starts = {
        insn.id
        for insn in uses
        if name in insn.assignee_var_names() and insn.id not in increments and not insn.predicates
    }
    if variable.shape or not all(
        insn.id in starts or starts & ancestors(kernel, insn) for insn in uses
    ):
        return frozenset()
    return frozenset[str].intersection(*(insn.within_inames for insn in uses))


def _unfit(name: str, insn: InstructionBase, does: str) -> TransformError:
    return TransformError(
        f"the factors of '{name}' cannot be collected: instruction '{insn.id}' {does}",
        where=str(insn),
    )


class _Collector:
    """Finds the factors that all terms have in common."""

    def __init__(self, kernel: LoopKernel, axes: tuple[int, ...], loops: frozenset[str]) -> None:
        self.kernel, self.axes = kernel, axes
        self.unfit = {*kernel.inames, *kernel.writers, *kernel.substitutions} - loops

    def common_factors(self, increments: dict[str | None, tuple[Expr, ...]]) -> list[Expr]:
        """Return common factors, with ``_axis0``, ... for subscripts of the temporary."""
        common: Counter[str] | None = None
        factors: dict[str, Expr] = {}
        for insn_id, terms in increments.items():
            insn = self.kernel.id_to_insn[str(insn_id)]
            names = _axis_names(insn, self.axes)
            for term in terms:
                fit = [substitute(f, names) for f in flatten_product(term) if self._fits(f, names)]
                factors.update({to_text(factor): factor for factor in fit})
                mine = Counter(map(to_text, fit))
                common = mine if common is None else common & mine
        return [factors[text] for text in (common or Counter()).elements()]

    def _fits(self, factor: Expr, names: dict[str, Expr]) -> bool:
        return all(name in names or name not in self.unfit for name in variable_names(factor))


def _axis_names(insn: InstructionBase, axes: tuple[int, ...]) -> dict[str, Expr]:
    """Return the replacements of the loop variables in the subscripts that *insn* writes to."""
    (assignee,) = insn.assignees
    index = index_of(assignee)
    return {
        index[axis].name: p.Variable(f"_axis{axis}")
        for axis in axes
        if isinstance(index[axis], p.Variable)
    }


def _without_factors(
    insn: InstructionBase, terms: tuple[Expr, ...], factors: Sequence[Expr], axes: tuple[int, ...]
) -> InstructionBase:
    """Return an increment whose terms lack *factors*."""
    assert isinstance(insn, Assignment)
    names = _axis_names(insn, axes)
    left: list[Expr] = [insn.assignee]
    for term in terms:
        gone = Counter(map(to_text, factors))
        rest: list[Expr] = []
        for factor in flatten_product(term):
            text = to_text(substitute(factor, names))
            if gone[text]:
                gone[text] -= 1
            else:
                rest.append(factor)
        left.append(rest[0] if len(rest) == 1 else p.Product(tuple(rest)) if rest else 1)
    return insn.copy(expression=p.Sum(tuple(left)))


class _Reader(IdentityMapper):
    """Multiplies each use of a temporary by the factors that it lacks."""

    def __init__(self, name: str, axes: tuple[int, ...], factors: Sequence[Expr]) -> None:
        super().__init__()
        self.name, self.axes, self.factors = name, axes, factors

    def map_variable(self, expr: p.Variable) -> Expr:
        return p.Product((*self.factors, expr)) if expr.name == self.name else expr

    map_tagged_variable = map_variable

    def map_subscript(self, expr: p.Subscript) -> Expr:
        index = tuple(map(self.rec, expr.index_tuple))
        whole = p.Subscript(expr.aggregate, index if len(index) > 1 else index[0])
        if assignee_name(expr) != self.name:
            return whole
        values = {f"_axis{axis}": index[axis] for axis in self.axes}
        return p.Product((*(substitute(factor, values) for factor in self.factors), whole))

    def map_linear_subscript(self, expr: Any) -> Expr:
        return self._reject(expr)

    def map_sub_array_ref(self, expr: Any) -> Expr:
        return self._reject(expr)

    def _reject(self, expr: Any) -> Expr:
        if self.name in variable_names(expr):
            raise TransformError(
                f"'{to_text(expr)}' uses all of '{self.name}', which would lack its factors\n  "
                "hint: copy it to another temporary first"
            )
        return expr
