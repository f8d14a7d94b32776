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
