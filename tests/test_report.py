"""What a kernel's report says."""

from __future__ import annotations

import numpy as np

import kgen as lp


def report(subscript: str) -> lp.Report:
    arguments = [lp.GlobalArg("a", np.float32, shape="n"), lp.GlobalArg("p", np.int32, shape="n")]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", f"b[i] = a[{subscript}]", [*arguments, ...])
    return lp.verify(knl)


def test_what_is_proved() -> None:
    assert report("i").ok
    assert report("i").findings


def test_what_is_violated() -> None:
    found = report("i + 1")
    assert not found.ok
    assert [finding.check for finding in found.violated] == ["bounds"]


def test_what_depends_on_data() -> None:
    found = report("p[i]")
    assert found.ok
    assert [(finding.check, finding.array) for finding in found.unknown] == [("bounds", "a")]


def test_the_report_is_of_the_kernel_that_code_is_generated_for() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 16 }",
        "t[i] = a[i] {id=w}\nout[j] = t[15 - j] {dep=w}",
        [
            lp.GlobalArg("a", np.float32, shape="16"),
            lp.TemporaryVariable("t", shape="16", address_space=lp.AddressSpace.GLOBAL),
            ...,
        ],
    )
    knl = lp.tag_inames(knl, "i:g.0, j:g.0")
    assert [finding.check for finding in lp.verify(knl).violated] == ["barriers"]
    knl = lp.set_options(knl, insert_gbarriers=True)
    assert lp.verify(knl).ok
    assert lp.get_synchronization_map(knl).filter_by(kind=["kernel_launch"]).eval_and_sum({}) == 2


def test_calls_are_looked_into() -> None:
    shift = lp.make_function("{ [i]: 0 <= i < 8 }", "y[i] = x[i + 1]", name="shift")
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }",
        "[i]: out[i] = shift([j]: a[j])",
        [lp.GlobalArg("a", np.float32, shape="8"), lp.GlobalArg("out", shape="8"), ...],
        name="caller",
    )
    violated = lp.verify(lp.merge([knl, shift])).violated
    assert [(finding.check, finding.array) for finding in violated] == [("bounds", "a")]
