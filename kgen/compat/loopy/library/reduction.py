"""loopy.library.reduction: operations of reductions, by name and as classes."""

from __future__ import annotations

from abc import ABCMeta

from kgen.compat.renamed import refuser
from kgen.errors import KgenError
from kgen.ir import reductions as operations
from kgen.ir.reductions import (
    ReductionOperation,
    ScalarReductionOperation,
    find_reduction_op,
    register_reduction_parser,
)

__all__ = [
    "AllReductionOperation",
    "AnyReductionOperation",
    "ArgMaxReductionOperation",
    "ArgMinReductionOperation",
    "MaxReductionOperation",
    "MinReductionOperation",
    "ProductReductionOperation",
    "ReductionOperation",
    "ScalarReductionOperation",
    "SegmentedProductReductionOperation",
    "SegmentedSumReductionOperation",
    "SumReductionOperation",
    "parse_reduction_op",
    "register_reduction_parser",
]

__getattr__ = refuser(
    "kgen has no functions for the steps of a reduction: operation(dtypes, a, b, callables_table, "
    "target) returns the expression of one"
)


def parse_reduction_op(name: str) -> ReductionOperation | None:
    """Return the operation called *name*, or ``None``: :func:`kgen.parse_reduction_op` rejects it.

    >>> parse_reduction_op("segmented(sum)"), parse_reduction_op("median")
    ('segmented(sum)', None)
    """
    return find_reduction_op(name)


class _ByName(ABCMeta):
    """Make classes whose only instance is one of kgen's operations."""

    _name: str

    def __call__(cls) -> ReductionOperation:
        return operations.parse_reduction_op(cls._name)

    def __instancecheck__(cls, instance: object) -> bool:
        return instance == find_reduction_op(cls._name)


class _Named(metaclass=_ByName):
    """The operation of a name.

    >>> SumReductionOperation(), isinstance(parse_reduction_op("sum"), SumReductionOperation)
    ('sum', True)
    """

    def __init_subclass__(cls, *, name: str | None = None) -> None:
        if name is None:
            raise KgenError(
                f"class '{cls.__name__}' cannot be derived from an operation of kgen",
                hint="derive it from ReductionOperation or ScalarReductionOperation",
            )
        cls._name = name
        ReductionOperation.register(cls)


class SumReductionOperation(_Named, name="sum"):
    """``sum``: the sum of numbers."""


class ProductReductionOperation(_Named, name="product"):
    """``product``: the product of numbers."""


class MaxReductionOperation(_Named, name="max"):
    """``max``: the largest value."""


class MinReductionOperation(_Named, name="min"):
    """``min``: the smallest value."""


class AnyReductionOperation(_Named, name="any"):
    """``any``: whether any condition holds."""


class AllReductionOperation(_Named, name="all"):
    """``all``: whether all conditions hold."""


class ArgMaxReductionOperation(_Named, name="argmax"):
    """``argmax``: the largest value with its index."""


class ArgMinReductionOperation(_Named, name="argmin"):
    """``argmin``: the smallest value with its index."""


class SegmentedSumReductionOperation(_Named, name="segmented(sum)"):
    """``segmented(sum)``: sums that begin at each flag that is set."""


class SegmentedProductReductionOperation(_Named, name="segmented(product)"):
    """``segmented(product)``: products that begin at each flag that is set."""
