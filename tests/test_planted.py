"""Thirty faulty kernels: a race, or an access out of bounds, in each; none goes unnoticed."""

from __future__ import annotations

import warnings

import pytest

import kgen as lp

RACES = {
    # an element is written by several work-items
    "sum without a reduction": "out[0, 0] = out[0, 0] + a[g, l]",
    "one element for all": "out[0, 0] = a[g, l]",
    "one element for each group": "out[g, 0] = a[g, l]",
    "one element for each work-item of a group": "out[0, l] = a[g, l]",
    "halved subscript": "out[g, l // 2] = a[g, l]",
    "wrapped subscript": "out[g, l % 4] = a[g, l]",
    "diagonal": "out[0, g + l] = a[g, l] {if=g + l < 8}",
    "local, one element": "t[0] = a[g, l] {id=w}\nout[g, l] = t[0] {dep=w}",
    "local, halved": "t[l // 2] = a[g, l] {id=w}\nout[g, l] = t[l // 2] {dep=w}",
    "update through local memory": "t[l] = 0 {id=z}\nt[0] = t[0] + a[g, l] {dep=z}",
    "scatter": "out[g, idx[l]] = a[g, l]",
    "scatter in local memory": "t[idx[l]] = a[g, l] {id=w}\nout[g, l] = t[l] {dep=w}",
    # two instructions meet, and nothing orders them
    "no dependency": "t[l] = a[g, l] {id=w}\nt[l] = 1 {id=v}\nout[g, l] = t[7 - l] {dep=w:v}",
    "read of the wrong version": "t[l] = a[g, l] {id=w}\nt[l] = 2 {id=v, dep=w}\n"
    "out[g, l] = t[l] {dep=w}",
    "output written twice": "out[g, l] = a[g, l]\nout[g, 7 - l] = 1",
    # two work-groups meet in one launch
    "neighbour of the next group": "b[g, l] = a[g, l] {id=w}\nout[g, l] = b[1 - g, l] {dep=w}",
    "rotation in place": "<> v = a[g, l] {id=r}\na[g, (l + 1) % 8] = v {id=w}\n"
    "a[1 - g, l] = 2*v {dep=w}",
    "sum of all groups": "b[g, l] = a[g, l] {id=w}\nout[g, l] = b[0, l] + b[1, l] {dep=w}",
}
OUTSIDE = {
    "one beyond": "out[g, l] = a[g, l + 1]",
    "one before": "out[g, l] = a[g, l - 1]",
    "write beyond": "out[g, l + 1] = a[g, l]",
    "wrong axis": "out[g, l] = a[l, g]",
    "stencil without a guard": "out[g, l] = a[g, l - 1] + a[g, l] + a[g, l + 1]",
    "guard off by one": "out[g, l] = a[g, l + 1] {if=l <= 7}",
    "scaled": "out[g, l] = a[g, 2*l]",
    "reversed": "out[g, l] = a[g, 8 - l]",
    "local beyond": "t[l + 1] = a[g, l] {id=w}\nout[g, l] = t[l + 1] {dep=w}",
    "branch": "out[g, l] = a[g, l - 1] if l >= 0 else 0",
    "remainder": "out[g, l] = a[g, (l + 1) % 9]",
    "data": "out[g, l] = a[g, idx[l]]",
}


def build(text: str) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [g, l]: 0 <= g < 2 and 0 <= l < 8 }",
        text,
        [
            lp.GlobalArg("a, out", "float64", shape="2, 8"),
            lp.GlobalArg("idx", "int32", shape="8"),
            lp.TemporaryVariable("t", "float64", shape="8", address_space=lp.AddressSpace.LOCAL),
            lp.GlobalArg("b", "float64", shape="2, 8"),
        ],
        target=lp.OpenCLTarget(),
    )
    return lp.tag_inames(knl, "g:g.0, l:l.0")


def test_there_are_thirty() -> None:
    assert len(RACES) + len(OUTSIDE) == 30


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_reported_with_both_work_items(name: str) -> None:
    report = lp.verify(build(RACES[name]))
    found = [
        finding
        for finding in report.findings
        if finding.check in ("races", "order", "barriers") and finding.status.value != "proved"
    ]
    assert any("work-item" in (finding.point or "") for finding in found), report


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_stray_access_is_reported_with_its_iteration(name: str) -> None:
    report = lp.verify(build(OUTSIDE[name]))
    found = [f for f in report.findings if f.check == "bounds" and f.status.value != "proved"]
    assert found, report
    assert name == "data" or any("l = " in (finding.point or "") for finding in found), report


@pytest.mark.parametrize("name", [*RACES, *(name for name in OUTSIDE if name != "data")])
def test_code_generation_is_not_silent_either(name: str) -> None:
    knl = build({**RACES, **OUTSIDE}[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", lp.KgenWarning)
        with pytest.raises((lp.KgenError, lp.KgenWarning)):
            lp.generate_code_v2(knl)
