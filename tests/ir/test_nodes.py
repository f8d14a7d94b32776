"""kgen's own nodes: what they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytools.tag import Tag

import kgen as lp
from kgen.ir.nodes import to_text
from kgen.ir.tags import VectorizeTag
from kgen.ir.types import OpaqueType
from kgen.ir.vector_values import vector_type
from kgen.symbolic import parse

RECORD = np.dtype([("low", np.uint32), ("high", np.int32)])
VECTOR = vector_type(np.dtype(np.float32), 4)


@pytest.mark.parametrize("kind", [RECORD, "S3", "M8[s]", OpaqueType("Mat"), None, lp.auto])
def test_casts_are_to_numbers(kind: Any) -> None:
    with pytest.raises(
        lp.KgenError, match=r"(a\[i\].*not a type of numbers|data type is required)(.|\n)*hint"
    ):
        lp.TypeCast(kind, parse("a[i]"))


@pytest.mark.parametrize("kind", ["bool", "float16", np.complex64, VECTOR])
def test_casts_to_numbers_and_vectors(kind: Any) -> None:
    assert lp.TypeCast(kind, 1).type == lp.to_kgen_type(kind)


def test_inames_of_a_reduction_are_ordered_or_a_set() -> None:
    names: Any = "k, j"
    total = lp.Reduction(lp.parse_reduction_op("sum"), names, parse("a"))
    assert total.inames == ("k", "j")
    assert total.inames_set == {"j", "k"}


def test_a_tagged_variable_has_tags_of_types() -> None:
    west = parse("a$west")
    assert west.tags_of_type(Tag) == west.tags
    assert west.without_tags(west.tags).copy(name="b").name == "b"
    assert len(west.tagged(VectorizeTag()).tags_not_of_type(VectorizeTag)) == 1


@pytest.mark.parametrize(
    "text", ["(-x) / y", "(-(x + 1)) / y", "(-x) % y", "(-x) // 3", "(x*y) / z"]
)
def test_operands_of_quotients_have_one_pair_of_parentheses(text: str) -> None:
    assert to_text(parse(text)) == text
