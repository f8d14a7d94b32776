"""Subscripts that depend on data are looked at by the code, if the options ask for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

IDX = np.arange(8, dtype=np.int32)


def call(text: str, target: lp.TargetBase, tags: str = "", *args: Any, **arrays: Any) -> Any:
    data = [
        lp.GlobalArg("a, out", "float64", shape="8"),
        lp.GlobalArg("idx, jdx", "int32", shape="8"),
        "...",
    ]
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 8 }", text, data, target=target, options={"guard_accesses": True}
    )
    knl = lp.tag_inames(lp.remove_unused_arguments(knl), tags)
    _, (out,) = knl(*args, **arrays)
    return out


A = np.arange(8.0)


@pytest.mark.parametrize(
    ("text", "bad", "where"),
    [
        ("out[i] = a[idx[i]]", 8, r"subscript 8 of axis 0, which has 8 elements"),
        ("out[i] = a[idx[i]]", -1, r"subscript -1 of axis 0"),
        ("out[idx[i]] = a[i]", 10**9, r"'out\[idx\[i\]\]' is outside(?s:.)*subscript 1000000000"),
        ("out[i] = sum(j, a[idx[j]])", 9, r"a\[idx\[j\]\](?s:.)*subscript 9 "),
        ("out[i] = a[idx[idx[i]]]", 77, r"subscript 77 "),
        ("out[i] = a[i] if idx[i] > 7 else a[idx[i]]", -5, r"subscript -5 "),
        ("<> t = a[i] {if=a[idx[i]] > 0, id=t}\nout[i] = idx[i] {dep=t}", 8, "subscript 8 "),
    ],
)
def test_the_host_reports_a_stray_subscript(text: str, bad: int, where: str) -> None:
    idx = IDX.copy()
    idx[3] = bad
    with pytest.raises(lp.KgenIndexError, match=where):
        call(text, lp.ExecutableCTarget(), idx=idx, a=A.copy())


@pytest.mark.parametrize(
    "text",
    ["out[i] = a[idx[i]]", "out[idx[i]] = a[i]", "out[i] = a[idx[idx[i]]]", "out[i] = a[i]"],
)
def test_what_is_inside_is_computed(text: str) -> None:
    arrays: dict[str, Any] = {"idx": IDX} if "idx" in text else {}
    assert (call(text, lp.ExecutableCTarget(), "", a=A, **arrays) == A).all()


def test_a_guarded_branch_is_not_looked_at() -> None:
    idx = IDX.copy()
    idx[3] = 8
    out = call("out[i] = a[i] if idx[i] > 7 else a[idx[i]]", lp.ExecutableCTarget(), idx=idx, a=A)
    assert (out == A).all()


def test_devices_report_them_as_well(opencl_queue: Any) -> None:
    target, idx = lp.PyOpenCLTarget(), IDX.copy()
    out = call("out[i] = a[idx[i]]", target, "i:l.0", opencl_queue, idx=idx, a=A)
    assert (out == A).all()
    idx[5] = 8
    with pytest.raises(lp.KgenIndexError, match="subscript 8 "):
        call("out[i] = a[idx[i]]", target, "i:l.0", opencl_queue, idx=idx, a=A)


def test_what_is_proved_has_no_guard() -> None:
    options = {"guard_accesses": True}
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", options=options)
    plain = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]")
    both = [lp.add_dtypes(k, {"a": np.float32}) for k in (knl, plain)]
    assert len({lp.generate_code_v2(k).device_code() for k in both}) == 1
