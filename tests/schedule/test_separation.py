"""Accesses that no barrier separates: the iterations of host loops are launches of their own."""

from __future__ import annotations

import numpy as np
import pytest

import kgen as lp
from kgen.ir.fields import replace
from kgen.ir.types import Reach
from kgen.lowering import lower
from kgen.schedule.separation import find_unsynchronized
from kgen.schedule.tree import HostLoop, Launch, Schedule, sequence


def to_and_fro() -> lp.TranslationUnit:
    """Return steps between two rows: every work-group reads what others wrote."""
    text = """
        for t
            <> old = u[t % 2, n - 1 - i] {id=pull, dep=*}
            u[(t + 1) % 2, i] = old + 1 {id=push}
        end
        """
    data = [lp.GlobalArg("u", np.float64, shape="2, n"), lp.ValueArg("n, steps", np.int32)]
    knl = lp.make_kernel(
        ["{ [t]: 0 <= t < steps }", "{ [i]: 0 <= i < n }"], text, data, target=lp.CudaTarget()
    )
    return lp.set_options(lp.tag_inames(knl, "i:g.0"), insert_gbarriers=True)


def test_iterations_of_host_loops_do_not_conflict() -> None:
    knl = to_and_fro()
    report = lp.verify(knl)
    assert report.ok
    assert not report.unknown
    u = np.arange(8.0).reshape(2, 4)
    _, (found,) = knl.copy(target=lp.ExecutableCTarget())(u=u.copy(), steps=2)
    np.testing.assert_array_equal(found, [u[0] + 2, u[0, ::-1] + 1])


def test_instructions_of_one_launch_in_a_host_loop_do() -> None:
    text = """
        for t
            u[i] = v[i] + t {id=one, dep=*}
            v[n - 1 - j] = u[j] {id=two, dep=one}
        end
        """
    data = [lp.GlobalArg("u, v", np.float64, shape="n"), lp.ValueArg("n, steps", np.int32)]
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < steps and 0 <= i, j < n }", text, data, target=lp.CudaTarget()
    )
    knl = lp.set_options(lp.tag_inames(knl, "i:g.0, j:g.0"), insert_gbarriers=True)
    lowered = lower(knl.default_entrypoint)
    assert not list(find_unsynchronized(lowered.whole, lowered.schedule))
    (loop,) = lowered.schedule.steps
    assert isinstance(loop, HostLoop)
    bodies = tuple(step.body for step in loop.steps if isinstance(step, Launch))
    joined = replace(loop.steps[0], body=sequence(bodies))
    merged = Schedule((HostLoop(loop.iname, (joined,)),))
    (found, *_) = find_unsynchronized(lowered.whole, merged)
    assert found.conflict.reach is Reach.DEVICE


@pytest.mark.parametrize("factor", ["b[k]", "b[k]*b[j]"])
def test_inserted_barriers_come_before_the_initial_values_of_sums(factor: str) -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        f"""
        b[i] = 2*a[i] {{id=b}}
        out[j] = sum(k, {factor}*c[j, k]) {{id=out}}
        """,
        [
            lp.GlobalArg("a, c", np.float64, shape=lp.auto),
            lp.GlobalArg("b, out", np.float64, shape=lp.auto, is_input=False),
            ...,
        ],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lp.MissingBarrierError, match=r"gbarrier \{dep=b\}' before 'out'"):
        lp.generate_code_v2(knl)
    knl = lp.set_options(knl, insert_gbarriers=True)
    first, second = lp.generate_code_v2(knl).device_code().split("__kernel")[1:]
    assert "acc" not in first
    assert "acc_k = 0.0;" in second
    assert lp.verify(knl).ok
    a, c = np.arange(40.0), np.ones((40, 40))
    _, (b, out) = knl.copy(target=lp.ExecutableCTarget(threads=2))(a=a, c=c)
    np.testing.assert_allclose(out, b.sum() if factor == "b[k]" else b.sum() * b)
