"""The proof that iterations of lanes are independent, left out: the oracle says so.

Each kernel has a loop tagged `vec` whose iterations depend on each other. It stays a plain loop.
Were it one of lanes, which go on together from statement to statement, results would be others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ast import lanes as marks
from kgen.lowering import generate_module, lower
from kgen.schedule import lanes as joins
from tests.random.device import Device
from tests.reference import Memory, Reference, to_memory

#: Code over lanes ``v`` of tiles ``t``.
CARRIED = {
    "recurrence": "out[8*t + v + 1] = out[8*t + v] + a[8*t + v]",
    "distance of three": "out[8*t + v + 3] = out[8*t + v] + a[8*t + v]",
    "distance of seven": "out[8*t + v + 7] = out[8*t + v] + 1",
    "one element": "out[t] = 2*out[t] + a[8*t + v]",
    "two to an element": "out[8*t + v // 2] = 2*out[8*t + v // 2] + a[8*t + v]",
    "reversed in place": "out[8*t + v] = out[8*t + 7 - v] + 1",
    "under a condition": "out[8*t + v + 1] = out[8*t + v] + 1 {if=a[8*t + v] > 0}",
    "by data": "out[at[v]] = 2*out[at[v]] + a[8*t + v]",
}


def kernel(code: str) -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("a, out", np.int32, shape=40), lp.GlobalArg("at", np.int32, shape=8)]
    silenced = ["overwritten(*)", "write_race_local(*)", "vectorize_failed(*)"]
    domain = "{ [t, v]: 0 <= t < 3 and 0 <= v < 8 }"
    knl = lp.make_kernel(
        domain, code, arrays, target=lp.CTarget(), silenced_warnings=silenced, loop_priority="t,v"
    )
    return lp.tag_inames(knl, "v:vec")


def results(unit: lp.TranslationUnit) -> tuple[bool, dict[str, Memory], dict[str, Memory]]:
    """Return whether there are lanes, what they compute, and what iterations in order do."""
    rng = np.random.default_rng(1)
    arrays = {name: rng.integers(-4, 5, 40).astype(np.int32) for name in ("a", "out")}
    arrays["at"] = rng.integers(0, 4, 8).astype(np.int32)
    memory = {name: to_memory(array) for name, array in arrays.items()}
    expected = Reference(unit.default_entrypoint, {}, dict(memory)).run()
    lowered = lower(unit.default_entrypoint)
    found: dict[str, Memory] = {name: dict(array) for name, array in memory.items()}
    Device(lowered.kernel, {}).run(lowered.host, lowered.functions, found)
    return "omp simd" in generate_module(unit).device_source, found, expected


@pytest.fixture
def no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: Any) -> None:
        return None

    for module in (marks, joins):
        monkeypatch.setattr(module, "dependence_in", none)


@pytest.mark.parametrize("name", CARRIED)
def test_loops_that_carry_dependences_stay_in_order(name: str) -> None:
    has_lanes, found, expected = results(kernel(CARRIED[name]))
    assert not has_lanes
    assert found["out"] == expected["out"]


@pytest.mark.usefixtures("no_proof")
@pytest.mark.parametrize("name", CARRIED)
def test_without_the_proof_the_oracle_finds_other_results(name: str) -> None:
    has_lanes, found, expected = results(kernel(CARRIED[name]))
    assert has_lanes
    assert found["out"] != expected["out"]


def wide(lanes: int) -> lp.TranslationUnit:
    """Return a loop in lanes, of which each needs what the one eight before it computes."""
    arrays = lp.GlobalArg("a, out", np.int32, shape=40)
    code, target = "out[i + 8] = out[i] + a[i]", lp.CTarget()
    knl = lp.make_kernel("{ [i]: 0 <= i < 32 }", code, [arrays], target=target)
    return lp.split_iname(knl, "i", lanes, inner_tag="vec")


@pytest.mark.parametrize("lanes", [4, 8])
def test_lanes_may_be_as_many_as_a_dependence_is_long(lanes: int) -> None:
    has_lanes, found, expected = results(wide(lanes))
    assert has_lanes
    assert found["out"] == expected["out"]


def test_more_lanes_are_not_made() -> None:
    assert not results(wide(16))[0]


@pytest.mark.usefixtures("no_proof")
def test_more_lanes_would_be_wrong() -> None:
    has_lanes, found, expected = results(wide(16))
    assert has_lanes
    assert found["out"] != expected["out"]
