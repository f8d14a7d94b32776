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
