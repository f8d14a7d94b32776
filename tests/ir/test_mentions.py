"""What expressions and instructions mention, found in one walk."""

from __future__ import annotations

import pymbolic.primitives as p
import pytest

from kgen.ir.instruction import Assignment
from kgen.ir.language.expressions import parse
from kgen.ir.mentions import mentions_of


def test_nodes_are_those_that_compute_no_sum_or_product() -> None:
    found = mentions_of(parse("2*sum(k, a[b[i],k]) + f(c[i]) + (3 if i > 2 else j)"))
    kinds = [type(node).__name__ for node in reversed(found.nodes)]
    assert sorted(kinds) == ["Comparison", "If", "Reduction", *["Subscript"] * 3]
    assert found.has(p.If)
    assert not found.has(p.Slice)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("sum(k, a[i,k])", {"a", "i", "k", "j"}),
        ("f(t) + g", {"t", "g", "j"}),
        ("1", {"j"}),
    ],
)
def test_an_instruction_reads_operands_and_subscripts_but_no_functions(
    text: str, reads: set[str]
) -> None:
    insn = Assignment("out[j]", text)
    assert insn.read_dependency_names() == reads
    assert insn.mentioned >= {"out"} | (reads - {"k"})


def test_bookkeeping_keeps_what_is_read_and_other_expressions_do_not() -> None:
    insn = Assignment("out[i]", "a[i]")
    read = insn.reads
    assert insn.copy(within_inames=frozenset("i")).reads is read
    assert insn.copy(expression=parse("b[i]")).read_dependency_names() == {"b", "i"}
