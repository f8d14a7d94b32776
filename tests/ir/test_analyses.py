"""What is kept of kernels: copies share it unless a field changes that it follows from."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import kgen as lp
from kgen.analysis.access import collect_accesses
from kgen.analysis.footprints import Footprints
from kgen.ir.analyses import Analysis, Derived

ROOT = Path(__file__).parents[2]
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
    found = Footprints.of(one).accesses if is_first else None
    other = one.copy(name="other")
    assert Footprints.of(other).accesses is Footprints.of(one).accesses
    assert found is None or found is Footprints.of(one).accesses


def test_other_instructions_have_other_footprints() -> None:
    one = kernel()
    found = Footprints.of(one).accesses
    assert Footprints.of(one.copy(instructions=one.instructions[:])).accesses is found
    changed = [insn.copy(priority=1) for insn in one.instructions]
    assert Footprints.of(one.copy(instructions=changed)).accesses is not found


def test_an_instruction_keeps_its_accesses_where_its_order_changes() -> None:
    one = kernel()
    found = collect_accesses(one)
    later = one.copy(instructions=[insn.copy(priority=1) for insn in one.instructions])
    moved = one.copy(instructions=[insn.copy(id="moved") for insn in one.instructions])
    assert collect_accesses(later)[0] is found[0]
    assert {access.insn_id for access in collect_accesses(moved)} == {"moved"}


def summed() -> lp.TranslationUnit:
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < n }", "out[i] = sum(j, sqrt(a[i, j]) // 2)")
    knl = lp.add_dtypes(knl, {"a": "float32"})
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


#: In a process of its own, since caches drop what other tests have put there.
_GENERATED_TWICE = """
import gc
import kgen as lp
from tests.ir.test_analyses import summed
for target in (lp.CTarget, lp.OpenCLTarget, lp.CudaTarget, lp.ISPCTarget):
    lp.generate_code_v2(summed().copy(target=target()))
    gc.collect()
    gc.disable()
    lp.generate_code_v2(summed().copy(target=target()))
    print(target.__name__, gc.collect())
    gc.enable()
"""


def test_generation_leaves_nothing_to_the_collector() -> None:
    run = [sys.executable, "-c", _GENERATED_TWICE]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split("\n")[:-1] == [
        "CTarget 0",
        "OpenCLTarget 0",
        "CudaTarget 0",
        "ISPCTarget 0",
    ]
