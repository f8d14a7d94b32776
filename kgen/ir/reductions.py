"""Reduction operations: their names, neutral elements, types and combining functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p
from constantdict import constantdict

from kgen.errors import KgenError, TypeInferenceFailure, near_names
from kgen.ir.checked import checked
from kgen.ir.target import TargetBase
from kgen.ir.types import BOOL8, FLOAT32, INT32, KgenType
from kgen.ir.vector_values import numbers_of

__all__ = [
    "REDUCTIONS",
    "KnownOperation",
    "ReductionOperation",
    "ScalarReductionOperation",
    "find_reduction_op",
    "parse_reduction_op",
    "register_reduction_parser",
]

#: A pymbolic expression or a scalar constant.
Expr = Any
_Types: TypeAlias = Sequence[KgenType]
_NO_CALLABLES: Final[Mapping[str, Any]] = constantdict()


class ReductionOperation(ABC):
    """An associative operation on ``arg_count`` operands, with a neutral element.

    To define an operation, derive a class and register a parser that finds it by its name,
    see :func:`register_reduction_parser`. ``str(operation)`` is that name. Operations are
    equal if their types and names are.

    Operands are expressions if ``arg_count`` is 1, else tuples of expressions. Functions
    in the results are found by their names, so the *callables_table* is returned unchanged.

    >>> argmin = parse_reduction_op("argmin")
    >>> isinstance(argmin, ReductionOperation), argmin.arg_count
    (True, 2)
    """

    #: Whether steps may be reordered. A scan always preserves the order.
    is_commutative: bool = True

    #: The initial value of accumulators, if it is the same for all types: those of accumulators
    #: can then be inferred after the reduction was replaced by a loop.
    untyped_start: Expr | None = None

    @property
    @abstractmethod
    def arg_count(self) -> int:
        """The number of operands of one step, and of results."""

    def update_persistent_hash(self, key_hash: Any, key_builder: Any) -> None:
        """Hash this for pytools' persistent dictionaries."""
        key_builder.rec(key_hash, (type(self).__module__, type(self).__qualname__, str(self)))

    @abstractmethod
    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the types of the results, for operands of the types *dtypes*."""

    @abstractmethod
    def neutral_element(self, *dtypes: KgenType, callables_table: Any, target: Any) -> Any:
        """Return ``(the start value, callables_table)`` for results of the types *dtypes*."""

    @abstractmethod
    def __call__(
        self, dtypes: _Types, operand1: Expr, operand2: Expr, callables_table: Any, target: Any
    ) -> Any:
        """Return ``(operand1 combined with operand2, callables_table)``."""

    def __str__(self) -> str:
        return type(self).__name__

    @property
    def name(self) -> str:
        """The name that expressions use."""
        return str(self)

    def __repr__(self) -> str:
        return f"{str(self)!r}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReductionOperation) or type(other) is not type(self):
            return False
        return str(other) == str(self) and self.content() == other.content()

    def __hash__(self) -> int:
        return hash((ReductionOperation, str(self)))

    def content(self) -> Any:
        """Return what distinguishes operations of one class and name: their attributes."""
        return vars(self)

    # -- the same, always with tuples ---------------------------------------------------

    def result(self, dtypes: _Types) -> tuple[KgenType, ...]:
        """Return the types of the results."""
        return tuple(self.result_dtypes(*dtypes))

    def accumulators(self, dtypes: _Types) -> tuple[KgenType, ...]:
        """Return the types in which results of the types *dtypes* are accumulated: the same."""
        return tuple(dtypes)

    def neutral(self, dtypes: _Types) -> tuple[Expr, ...]:
        """Return the initial values of accumulators of the types *dtypes*."""
        found, _ = self.neutral_element(*dtypes, callables_table=_NO_CALLABLES, target=TargetBase())
        return _parts(found)

    def combine(
        self, a: Sequence[Expr], b: Sequence[Expr], dtypes: _Types = ()
    ) -> tuple[Expr, ...]:
        """Return one step: *a* combined with the following value *b*."""
        one, other = (tuple(a), tuple(b)) if self.arg_count > 1 else (a[0], b[0])
        found, _ = self(dtypes, one, other, _NO_CALLABLES, TargetBase())
        return _parts(found)


def _parts(found: Any) -> tuple[Expr, ...]:
    return found if isinstance(found, tuple) else (found,)


class ScalarReductionOperation(ReductionOperation):
    """An operation on one operand, whose result has a given type or that of the operand.

    :arg forced_result_type: the type of the result, whatever the type of the operand

    >>> class Norm1(ScalarReductionOperation):
    ...     def neutral_element(self, *dtypes, callables_table, target):
    ...         return 0, callables_table
    ...     def __call__(self, dtypes, operand1, operand2, callables_table, target):
    ...         return operand1 + p.Variable("abs")(operand2), callables_table
    >>> print(*Norm1().combine([p.Variable("a")], [p.Variable("b")]))
    a + abs(b)
    """

    def __init__(self, forced_result_type: Any = None) -> None:
        self.forced_result_type = forced_result_type

    @property
    def arg_count(self) -> int:
        """The number of operands: one."""
        return 1

    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the forced result type, or the type of the operand."""
        if self.forced_result_type is not None:
            return (self.forced_result_type,)
        return tuple(dtypes)


class KnownOperation(ReductionOperation):
    """One of kgen's own operations, defined by functions on tuples of types and expressions."""

    def __init__(
        self,
        name: str,
        arg_count: int,
        neutral: Callable[[_Types], tuple[Expr, ...]],
        combine: Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, ...]],
        result: Callable[[_Types], tuple[KgenType, ...]],
        *,
        is_commutative: bool = True,
        inner: ReductionOperation | None = None,
        untyped_start: Expr | None = None,
    ) -> None:
        self._name = name
        self._arg_count = arg_count
        self._neutral = neutral
        self._combine = combine
        self._result = result
        self.is_commutative = is_commutative
        self.inner = inner
        self.untyped_start = untyped_start

    @property
    def arg_count(self) -> int:
        """The number of operands of one step, and of results."""
        return self._arg_count

    def __str__(self) -> str:
        return self._name

    def content(self) -> Any:
        """Return the operation that this one derives from, if any."""
        return self.inner

    def result_dtypes(self, *dtypes: KgenType) -> tuple[KgenType, ...]:
        """Return the types of the results, for operands of the types *dtypes*."""
        return self._result(dtypes)

    def neutral_element(self, *dtypes: KgenType, callables_table: Any, target: Any) -> Any:
        """Return the start values for results of the types *dtypes*."""
        return self._neutral(dtypes), callables_table

    def __call__(
        self, dtypes: _Types, operand1: Expr, operand2: Expr, callables_table: Any, target: Any
    ) -> Any:
        """Return *operand1* combined with *operand2*."""
        return self._combine(_parts(operand1), _parts(operand2)), callables_table

    def accumulators(self, dtypes: _Types) -> tuple[KgenType, ...]:
        """Return the types of accumulators: 16-bit sums and products are computed in 32 bits."""
        if self._result is not _widened:
            return tuple(dtypes)
        return tuple(FLOAT32 if dtype.is_half else dtype for dtype in dtypes)

    def __reduce__(self) -> tuple[Callable[[str], ReductionOperation], tuple[str]]:
        return parse_reduction_op, (self._name,)


def _numpy(dtype: KgenType) -> np.dtype[Any]:
    return dtype.numpy_dtype


def _largest(dtype: KgenType) -> Expr:
    if dtype.kind == "f":
        return _number(dtype, np.inf)
    return _number(dtype, 1 if dtype.kind == "b" else np.iinfo(_numpy(dtype)).max)


def _last_index(dtype: KgenType) -> Expr:
    largest = _largest(dtype)
    return largest if dtype.kind == "f" else int(largest)


def _smallest(dtype: KgenType) -> Expr:
    if dtype.kind == "f":
        return _number(dtype, -np.inf)
    return _number(dtype, 0 if dtype.kind == "b" else np.iinfo(_numpy(dtype)).min)


def _check_kinds(dtypes: _Types, kinds: str, what: str) -> None:
    """Reject operands whose numpy kinds are not among *kinds*, described by *what*."""
    for dtype in dtypes:
        if dtype.kind not in kinds:
            name = "a vector" if dtype.kind == "V" else _numpy(dtype).name
            raise TypeInferenceFailure(f"an operand is {name}, but must be {what}")


def _ordered(dtypes: _Types) -> tuple[KgenType, ...]:
    _check_kinds(dtypes, "biuf", "a real number")
    return tuple(dtypes)


def _value_and_index(dtypes: _Types) -> tuple[KgenType, ...]:
    _check_kinds(dtypes[:1], "biuf", "a real number")
    _check_kinds(dtypes[1:], "iuf", "a real number, the index")
    return tuple(dtypes)


def _widened(dtypes: _Types) -> tuple[KgenType, ...]:
    """Keep the operand's type, but sum booleans as int32.

    Vectors are left to the target, whose operators may support them.
    """
    if numbers_of(_numpy(dtypes[0])) is None:
        _check_kinds(dtypes, "biufc", "a number")
    return (INT32,) if dtypes[0].kind == "b" else (dtypes[0],)


def _bool(dtypes: _Types) -> tuple[KgenType, ...]:
    _check_kinds(dtypes, "biufc", "a condition")
    return (BOOL8,)


def _extremum(name: str, better: str, start: Callable[[KgenType], Expr]) -> KnownOperation:
    """Make ``argmin``/``argmax``: a value with its index.

    The index may be any real number. Of equal values, the smaller index wins, as in
    numpy.
    """

    def combine(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
        (value, index), (new_value, new_index) = a, b
        take = p.LogicalOr(
            (
                p.Comparison(new_value, better, value),
                p.LogicalAnd(
                    (p.Comparison(new_value, "==", value), p.Comparison(new_index, "<", index))
                ),
            )
        )
        return p.If(take, new_value, value), p.If(take, new_index, index)

    return KnownOperation(
        name,
        2,
        lambda dtypes: (start(dtypes[0]), _last_index(dtypes[1])),
        combine,
        _value_and_index,
    )


REDUCTIONS: dict[str, KnownOperation] = {
    op.name: op
    for op in (
        KnownOperation(
            "sum",
            1,
            lambda d: (_zero(d[0]),),
            lambda a, b: (a[0] + b[0],),
            _widened,
            untyped_start=0,
        ),
        KnownOperation(
            "product",
            1,
            lambda d: (_one(d[0]),),
            lambda a, b: (a[0] * b[0],),
            _widened,
            untyped_start=1,
        ),
        KnownOperation(
            "max",
            1,
            lambda d: (_smallest(d[0]),),
            lambda a, b: (p.Variable("max")(a[0], b[0]),),
            _ordered,
        ),
        KnownOperation(
            "min",
            1,
            lambda d: (_largest(d[0]),),
            lambda a, b: (p.Variable("min")(a[0], b[0]),),
            _ordered,
        ),
        KnownOperation(
            "any",
            1,
            lambda d: (0,),
            lambda a, b: (p.LogicalOr((a[0], b[0])),),
            _bool,
            untyped_start=False,
        ),
        KnownOperation(
            "all",
            1,
            lambda d: (1,),
            lambda a, b: (p.LogicalAnd((a[0], b[0])),),
            _bool,
            untyped_start=True,
        ),
        _extremum("argmin", "<", _largest),
        _extremum("argmax", ">", _smallest),
    )
}


def _zero(dtype: KgenType) -> Expr:
    return _number(dtype, 0)


def _one(dtype: KgenType) -> Expr:
    return _number(dtype, 1)


def _number(dtype: KgenType, value: float) -> Expr:
    """Return a number of a type; for vectors a plain number, as the value of all components.

    The same applies to types of other packages, whose numbers are not numpy's.
    """
    return value if _numpy(dtype).kind == "V" else _numpy(dtype).type(value)


def _segmented(operation: ReductionOperation) -> KnownOperation:
    """Make the operation that restarts where the last operand, a flag, is set.

    Values are combined starting from the last flagged one.
    """

    def neutral(dtypes: _Types) -> tuple[Expr, ...]:
        return (*operation.neutral(dtypes[:-1]), _zero(dtypes[-1]))

    def combine(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
        is_start = p.Comparison(b[-1], "!=", 0)
        joined = operation.combine(a[:-1], b[:-1])
        values = (p.If(is_start, new, both) for new, both in zip(b, joined, strict=False))
        return (*values, p.If(is_start, b[-1], a[-1]))

    def result(dtypes: _Types) -> tuple[KgenType, ...]:
        return (*operation.result(dtypes[:-1]), dtypes[-1])

    return KnownOperation(
        f"segmented({operation})",
        operation.arg_count + 1,
        neutral,
        combine,
        result,
        is_commutative=False,
        inner=operation,
    )


# -- by name ------------------------------------------------------------------------------

#: Parsers for names that kgen does not know; the last one registered is tried first.
_parsers: list[Callable[[str], ReductionOperation | None]] = []


@checked
def register_reduction_parser(parser: Callable[[str], ReductionOperation | None]) -> None:
    """Register reduction operations by name, for all kernels made from now on.

    :arg parser: a function that takes a name and returns a :class:`ReductionOperation`, or
        ``None`` for an unknown name; the parser registered last is tried first

    ::

        reduce(sumsq, i, a[i])     or     sumsq(i, a[i])

    >>> class SumOfSquares(ScalarReductionOperation):
    ...     def neutral_element(self, *dtypes, callables_table, target):
    ...         return 0, callables_table
    ...     def __call__(self, dtypes, operand1, operand2, callables_table, target):
    ...         return operand1 + operand2 * operand2, callables_table
    ...     def __str__(self):
    ...         return "sumsq"
    >>> register_reduction_parser(lambda name: SumOfSquares() if name == "sumsq" else None)
    >>> parse_reduction_op("sumsq")
    'sumsq'
    """
    if parser not in _parsers:
        _parsers.insert(0, parser)


def find_reduction_op(name: str) -> ReductionOperation | None:
    """Return the operation called *name*, or ``None``."""
    known = REDUCTIONS.get(name)
    if known is not None:
        return known
    for parser in _parsers:
        found = parser(name)
        if found is not None:
            return found
    inner = name.strip()
    if inner.startswith("segmented(") and inner.endswith(")"):
        operation = find_reduction_op(inner[len("segmented(") : -1].strip())
        return None if operation is None else _segmented(operation)
    return None


@checked
def parse_reduction_op(name: str) -> ReductionOperation:
    """Return the operation called *name*, or raise an error with similar names.

    >>> parse_reduction_op("sum").arg_count
    1
    >>> parse_reduction_op("segmented(max)").arg_count
    2
    """
    op = find_reduction_op(name)
    if op is None:
        hint = f"{near_names(name, REDUCTIONS)} (register_reduction_parser adds others)"
        raise KgenError(f"'{name}' is not a reduction operation\n  hint: {hint}")
    return op
