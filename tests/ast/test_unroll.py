"""Conditions of unrolled copies."""

from __future__ import annotations

import pytest

from kgen.ast.nodes import If, Run, print_tree
from kgen.ast.unroll import bind
from kgen.ir.language.expressions import parse


@pytest.mark.parametrize(
    ("condition", "value", "copy"),
    [
        ("i == 0 or n > 56*i + m", 0, "s(i=0)"),
        ("j == 0 or n > 56*i + m", 0, "if j == 0 or m < n\n  s(i=0)"),
        ("j == 0 and i == 1 or n > 56*i", 0, "if n >= 1\n  s(i=0)"),
        ("j == 0 and (i == 1 or n > 5*i + 2)", 2, "if j == 0 and n >= 13\n  s(i=2)"),
    ],
)
def test_conditions_are_simplified(condition: str, value: int, copy: str) -> None:
    tree = If(parse(condition), Run("s", {}))
    assert print_tree(bind(tree, "i", value)) == copy
