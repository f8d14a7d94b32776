"""The text between the braces, alone."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp


def test_body_of_a_kernel_with_a_helper() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "a[i] = 1", [lp.GlobalArg("a", np.int8), ...])
    knl = lp.split_iname(knl.copy(target=lp.CTarget()), "i", 8)
    assert lp.generate_body(knl).startswith("  for (int i_outer = 0;")


def test_body_of_several_launches_is_refused() -> None:
    text = "a[i] = 1 {id=first}\n... gbarrier {id=wait, dep=first}\nb[i] = a[n-1-i] {dep=wait}"
    arrays = [lp.GlobalArg("a,b", np.int8), ...]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, arrays, seq_dependencies=True)
    with pytest.raises(lp.KgenError, match="2 device functions"):
        lp.generate_body(lp.tag_inames(knl, "i:g.0"))


@pytest.mark.parametrize("target", [lp.CTarget(), lp.OpenCLTarget(), lp.CudaTarget()])
def test_body_without_instructions_is_empty(target: lp.TargetBase) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", [], [lp.ValueArg("n", np.int32)], target=target)
    assert lp.generate_body(knl) == lp.generate_body(lp.fix_parameters(knl, n=3)) == ""


def test_host_code_of_several_entry_points_is_asked_for_by_name() -> None:
    one, two = (lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = 1", name=name) for name in "pq")
    code = lp.generate_code_v2(lp.merge([one, two]))
    assert sorted(code.host_programs) == ["p", "q"]
    with pytest.raises(lp.CodegenError, match="the program has 2 entry points: p, q"):
        _ = code.host_program
