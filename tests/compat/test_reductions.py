"""Operations of reductions as the classes that loopy has for them."""

from __future__ import annotations

from typing import Any

import pytest
from pymbolic import var

import kgen.compat.loopy as lp
from kgen.compat.loopy.library import reduction

CLASSES = {
    "sum": "SumReductionOperation",
    "product": "ProductReductionOperation",
    "max": "MaxReductionOperation",
    "min": "MinReductionOperation",
    "any": "AnyReductionOperation",
    "all": "AllReductionOperation",
    "argmax": "ArgMaxReductionOperation",
    "argmin": "ArgMinReductionOperation",
    "segmented(sum)": "SegmentedSumReductionOperation",
    "segmented(product)": "SegmentedProductReductionOperation",
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_stands_for_the_operation_of_one_name(name: str) -> None:
    kind: Any = getattr(reduction, CLASSES[name])
    assert kind() == reduction.parse_reduction_op(name)
    matching = [other for other in CLASSES if isinstance(reduction.parse_reduction_op(other), kind)]
    assert matching == [name]
    assert issubclass(kind, reduction.ReductionOperation)
    assert not isinstance(name, kind)


def test_there_may_be_no_operation_of_a_name() -> None:
    assert reduction.parse_reduction_op("median") is None


def test_a_reduction_of_an_operation_is_that_of_its_name() -> None:
    operation: Any = reduction.SumReductionOperation()
    built = lp.Reduction(operation, ("j",), var("a")[var("i"), var("j")])
    assert built == lp.symbolic.parse("sum(j, a[i, j])")
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 4 }", [lp.Assignment("out[i]", built)])
    insn: Any = knl.default_entrypoint.id_to_insn["insn"]
    assert isinstance(insn.expression.operation, reduction.SumReductionOperation)


def test_own_operations_are_not_derived_from_those_of_kgen() -> None:
    with pytest.raises(lp.LoopyError, match=r"'Mine' cannot be derived.*\n.*ScalarReductionOpera"):
        type("Mine", (reduction.SumReductionOperation,), {})
