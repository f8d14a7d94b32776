"""What is kept of kernels: copies share it unless a field changes that it follows from."""

from __future__ import annotations

import dataclasses

import pytest

import kgen as lp
from kgen.analysis.access import collect_accesses
from kgen.analysis.footprints import Footprints
from kgen.ir.analyses import Analysis, Derived

FIELDS = {field.name for field in dataclasses.fields(lp.LoopKernel)}


def kernel() -> lp.LoopKernel:
    return lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]").default_entrypoint


def test_answers_follow_from_fields_that_there_are() -> None:
    derived = [known for known in vars(lp.LoopKernel).values() if isinstance(known, Derived)]
    fields = [known.fields for known in derived]
    fields += [analysis.fields for analysis in Analysis.of_type[lp.LoopKernel]]
    assert derived
    assert FIELDS.issuperset(name for names in fields for name in names)


@pytest.mark.parametrize("is_first", [True, False])
def test_copies_share_footprints_whichever_is_asked_first(is_first: bool) -> None:
    one = kernel()
    found = Footprints.of(one) if is_first else None
    other = one.copy(name="other")
    assert Footprints.of(other) is Footprints.of(one)
    assert found in (None, Footprints.of(one))


def test_other_instructions_have_other_footprints() -> None:
    one = kernel()
    assert Footprints.of(one.copy(instructions=one.instructions[:])) is Footprints.of(one)
    changed = [insn.copy(priority=1) for insn in one.instructions]
    assert Footprints.of(one.copy(instructions=changed)) is not Footprints.of(one)


def test_an_instruction_keeps_its_accesses_where_its_order_changes() -> None:
    one = kernel()
    found = collect_accesses(one)
    later = one.copy(instructions=[insn.copy(priority=1) for insn in one.instructions])
    moved = one.copy(instructions=[insn.copy(id="moved") for insn in one.instructions])
    assert collect_accesses(later)[0] is found[0]
    assert {access.insn_id for access in collect_accesses(moved)} == {"moved"}
