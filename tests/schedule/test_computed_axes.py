"""Loops whose extent the kernel computes on hardware axes, and loops of barriers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp


def kernel(domain: str, tags: str, target: Any = None) -> Any:
    knl = lp.make_kernel(
        f"{{[i]: {domain}}}",
        """
        <> e = count[0] {id=e}
        y[i] = 2*a[i] {id=y, dep=e}
        """,
        [lp.GlobalArg("y,a", np.float32, shape="n"), lp.GlobalArg("count", np.int32, shape=1), ...],
        target=target or lp.OpenCLTarget(),
        assumptions="n >= 1",
    )
    return lp.tag_inames(knl, tags)


@pytest.mark.parametrize("tag", ["g.0", "l.0"])
def test_a_hardware_axis_as_long_as_data_say_is_refused(tag: str) -> None:
    with pytest.raises(lp.StaticValueFindingError, match="iname 'i'") as caught:
        lp.generate_code_v2(kernel("0 <= i < e", f"i:{tag}"))
    text = str(caught.value)
    assert "instruction 'y', in 'i'" in text
    assert "bound 'i' by" in text


@pytest.mark.parametrize(
    ("domain", "tag"), [("0 <= i < e and i < n", "g.0"), ("0 <= i < e and i < 64", "l.0")]
)
def test_an_axis_with_another_bound_is_guarded(domain: str, tag: str, device: Any) -> None:
    knl = kernel(domain, f"i:{tag}", lp.PyOpenCLTarget())
    a = np.arange(64, dtype=np.float32)
    for count in (0, 1, 40, 64):
        y = np.full(64, -1, np.float32)
        device(knl, a=a, y=y, count=np.array([count], np.int32))
        assert np.array_equal(y, np.where(np.arange(64) < count, 2 * a, -1))


def test_loops_of_barriers_alone_go_round() -> None:
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i
            ... lbarrier {id=b}
        end
        y[j] = 1 {dep=b}
        """,
        [lp.GlobalArg("y", np.float32, shape="n"), ...],
        target=lp.OpenCLTarget(),
    )
    code = lp.generate_code_v2(knl).device_code()
    assert "for (int i = 0; i < n; ++i)\n    barrier(CLK_LOCAL_MEM_FENCE);" in code


def test_a_loop_with_a_bound_for_each_copy_is_refused() -> None:
    knl = lp.make_kernel(
        ["{[b]: 0 <= b < 4}", "{[i]: 0 <= i < e}"],
        """
        <> e = count[b] {id=e}
        y[b] = y[b] + a[i] {id=y, dep=e}
        """,
        [
            lp.GlobalArg("a", np.float32, shape=None),
            lp.GlobalArg("y", np.float32, shape=4),
            lp.GlobalArg("count", np.int32, shape=4),
        ],
        target=lp.CTarget(),
    )
    with pytest.raises(lp.TransformError, match=r"'b', tagged 'ilp\.unr', cannot share loop 'i'"):
        lp.generate_code_v2(lp.tag_inames(knl, "b:ilp"))
    assert "for (int i" in lp.generate_code_v2(lp.tag_inames(knl, "b:unr")).device_code()
