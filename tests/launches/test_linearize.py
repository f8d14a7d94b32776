"""The order of a kernel: how it is shown, when it is dropped, what can be asked of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

TEXT = """
    b[i] = a[i]            {id=one}
    ... gbarrier           {id=bar1, dep=one}
    for k
      c[i, k] = b[11 - i]  {id=two, dep=bar1}
    end
    ... gbarrier           {id=bar2, dep=two}
    d[i] = c[11 - i, 0]    {id=three, dep=bar2}
    e[i] = 0               {id=free}
"""


def three_launches() -> Any:
    data = [lp.GlobalArg("a", np.float32), lp.GlobalArg("b,d,e", shape=12), ...]
    knl = lp.make_kernel("{ [i, k]: 0<=i<12 and 0<=k<3 }", TEXT, data, name="steps")
    return lp.tag_inames(knl, "i:g.0")


def linearized() -> Any:
    knl = three_launches()
    return lp.get_one_linearized_kernel(knl["steps"], knl.callables_table)


def test_order_is_printed() -> None:
    lines = str(linearized()).splitlines()
    at = lines.index("LINEARIZATION:")
    assert lines[at + 1 : -1] == [
        "   0: CALL KERNEL steps",
        "   1:     b[i] = a[i]  {id=one}",
        "   2: RETURN FROM KERNEL steps",
        "   3: ... gbarrier",
        "   4: CALL KERNEL steps_0",
        "   5:     for k",
        "   6:       c[i, k] = b[11 - i]  {id=two}",
        "   7:     end k",
        "   8: RETURN FROM KERNEL steps_0",
        "   9: ... gbarrier",
        "  10: CALL KERNEL steps_1",
        "  11:     d[i] = c[11 - i, 0]  {id=three}",
        "  12:     e[i] = 0  {id=free}",
        "  13: RETURN FROM KERNEL steps_1",
    ]


def test_barriers_are_printed_with_their_reason() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0<=i,j<8 }",
        "<> t[i] = a[i] {id=w}\nb[j] = t[7 - j]",
        [lp.GlobalArg("a", np.float32), ...],
    )
    knl = lp.linearize(lp.tag_inames(knl, "i:l.0, j:l.0"))
    assert "   2:     ... lbarrier  # for t (insn depends on w)" in str(knl).splitlines()


def test_a_changed_kernel_has_no_order() -> None:
    knl = linearized()
    assert knl.linearization is not None
    assert lp.tag_inames(knl, "k:unr").linearization is None
    with pytest.raises(lp.KernelError, match="the kernel has no order yet"):
        lp.get_subkernels(three_launches()["steps"])


def test_code_is_the_same_with_an_order() -> None:
    text = lp.generate_code_v2(three_launches()).device_code()
    assert lp.generate_code_v2(lp.linearize(three_launches())).device_code() == text


def test_launches_and_their_instructions() -> None:
    assert lp.get_subkernels(linearized()) == ("steps", "steps_0", "steps_1")
    assert lp.get_subkernel_to_insn_id_map(linearized()) == {
        "steps": {"one"},
        "steps_0": {"two"},
        "steps_1": {"three", "free"},
    }


def test_order_of_global_barriers() -> None:
    knl = three_launches()["steps"]
    assert lp.get_global_barrier_order(knl) == ("bar1", "bar2")
    recent = [lp.find_most_recent_global_barrier(knl, n) for n in ("one", "two", "three", "free")]
    assert recent == [None, "bar1", "bar2", None]


def test_barriers_without_an_order_are_refused() -> None:
    text = "... gbarrier {id=one}\n... gbarrier {id=two}\na[i] = 0"
    knl = lp.make_kernel("{ [i]: 0<=i<12 }", text).default_entrypoint
    with pytest.raises(lp.ScheduleError, match="'one' and 'two' have no order"):
        lp.get_global_barrier_order(knl)


def test_the_earlier_name() -> None:
    knl = three_launches().default_entrypoint
    assert (
        lp.get_one_scheduled_kernel(knl).linearization
        == lp.get_one_linearized_kernel(knl).linearization
    )


def test_functions_whose_callers_determine_their_types_have_no_order() -> None:
    double = lp.make_function("{ [i]: 0 <= i < 8 }", "y[i] = 2*x[i]", name="double")
    caller = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }",
        "[i]: b[i] = double([i]: a[i])",
        [lp.GlobalArg("a, b", np.float64, shape=8)],
        name="caller",
    )
    unit = lp.linearize(lp.preprocess_kernel(lp.merge([caller, double])))
    assert unit["double"].linearization is None
    assert "b[i_0] = 2*a[i_0]" in unit["caller"].stringify("LINEARIZATION")
    typed = lp.linearize(lp.add_dtypes(double, {"x": np.float64}))
    assert typed["double"].linearization is not None
