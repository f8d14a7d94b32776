"""Loops over lanes: what is joined, and what is known of iterations."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from kgen.schedule.lanes import dependence_in

ARRAYS = [
    lp.GlobalArg("a, b, out", np.float32, shape="3*n + 3"),
    lp.GlobalArg("at", np.int32, shape="n"),
    ...,
]


def lanes(code: str, silenced: Sequence[str] = (), **options: Any) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        textwrap.dedent(code).strip(),
        ARRAYS,
        assumptions="n >= 1",
        target=lp.CTarget(),
        silenced_warnings=["overwritten(*)", *silenced],
        **options,
    )
    return lp.split_iname(knl, "i", 8, inner_tag="vec")


def found(code: str, **options: Any) -> str | None:
    knl = lower(lanes(code, **options).default_entrypoint).kernel
    return dependence_in(knl, "i_inner", tuple(str(insn.id) for insn in knl.instructions))


def test_instructions_in_the_same_lanes_share_a_loop() -> None:
    schedule = lower(lanes("<> t = 2*a[i]\nout[i] = t").default_entrypoint).schedule
    lines = str(schedule).splitlines()
    assert [line.strip() for line in lines[2:]] == ["simd i_inner", "run insn", "run insn_0"]


def test_what_is_in_other_lanes_has_a_loop_of_its_own() -> None:
    code = "b[i + 1] = a[i] {id=b}\nout[i] = b[i] {id=out}"
    schedule = str(lower(lanes(code, seq_dependencies=True).default_entrypoint).schedule)
    assert schedule.count("simd i_inner") == 2


@pytest.mark.parametrize(
    "code",
    [
        "out[i] = out[i] + a[3*i + 1]",
        "out[3*i] = out[3*i + 1] + out[3*i + 2]",
        "out[n - i] = a[at[i]]",
        "out[i] = if(a[i] > 0, a[i], b[i])",
        "<> t = a[i] {if=a[i] > 0}\nout[i] = t",
    ],
)
def test_independent_iterations(code: str) -> None:
    assert found(code) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("out[at[i]] = a[i] {id=s}", "depends on data: 's' writes 'out[at[i_inner + i_outer*8]]'"),
        ("out[i] = out[i + at[i]] {id=s}", "whether iterations meet depends on data"),
        ("out[0] = 3 {id=s,inames=i}", "'s' writes 'out[0]'"),
        ("out[i] = out[i] + 1 {atomic}", "'insn' is atomic"),
    ],
)
def test_iterations_that_may_meet(code: str, reason: str) -> None:
    assert reason in str(found(code))


def test_an_example_of_iterations_that_meet() -> None:
    text = str(found("out[i - i % 2] = 3 {id=s}"))
    assert "an iteration with i_inner = 7 and an iteration with i_inner = 6, at element" in text


def test_a_user_states_that_iterations_do_not_meet() -> None:
    knl = lanes("out[at[i]] = a[i] {id=s}")
    assert "omp simd" not in lp.generate_code_v2(knl).device_code()
    knl = lanes("out[at[i]] = a[i] {id=s}", silenced=["write_race(s)"])
    assert "omp simd" in lp.generate_code_v2(knl).device_code()


def test_arrays_that_may_overlap_are_not_in_lanes() -> None:
    knl = lp.set_options(lanes("out[i] = a[i + 1]"), restrict=False)
    assert "omp simd" not in lp.generate_code_v2(knl).device_code()
