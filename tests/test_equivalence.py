"""Two kernels are compared by where their results come from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kgen as lp
from kgen.verification import Status


def matmul() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", "float32", shape="n, n"), "..."],
        target=lp.OpenCLTarget(),
        assumptions="n >= 1",
    )


def tiled(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "k", 16)


def fetched(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    knl = tiled(knl)
    knl = lp.add_prefetch(knl, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def status(ref: lp.TranslationUnit, knl: lp.TranslationUnit) -> Status:
    report = lp.verify_equivalent(ref, knl)
    return report.findings[0].status


@pytest.mark.parametrize(
    "transform",
    [
        lambda knl: knl,
        tiled,
        fetched,
        lambda knl: lp.rename_iname(knl, "i", "row"),
        lambda knl: lp.affine_map_inames(knl, "i", "m", "m = -i + 5"),
        lambda knl: lp.prioritize_loops(knl, "k, j, i"),
        lambda knl: lp.assume(knl, "n mod 16 = 0"),
        lambda knl: lp.split_reduction_inward(lp.split_iname(knl, "k", 4), "k_inner"),
    ],
)
def test_transformed_kernels_are_equivalent(
    transform: Callable[[lp.TranslationUnit], lp.TranslationUnit],
) -> None:
    knl = transform(matmul())
    report = lp.verify_equivalent(matmul(), knl)
    assert [finding.status for finding in report.findings] == [Status.PROVED], report


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("c[i, j] = sum(k, a[i, k]*b[j, k])", "0 <= i, j, k < n"),
        ("c[i, j] = sum(k, a[i, k]*b[k, j])", "0 <= i, j < n and 0 <= k < n - 1"),
        ("c[i, j] = sum(k, a[i, k]*b[k, j])", "0 <= i, j, k < n and i < 20"),
        ("c[j, i] = sum(k, a[i, k]*b[k, j])", "0 <= i, j, k < n"),
    ],
)
def test_a_difference_is_shown_with_an_element(text: str, domain: str) -> None:
    ref = matmul()
    data = [lp.GlobalArg("a, b, c", "float32", shape="n, n"), "..."]
    knl = lp.make_kernel(f"{{ [i, j, k]: {domain} }}", text, data, target=lp.OpenCLTarget())
    report = lp.verify_equivalent(ref, knl)
    assert report.findings[0].status is Status.VIOLATED
    assert report.findings[0].array == "c"
    with pytest.raises(lp.KernelError, match="differs from that of"):
        report.raise_if_violated()


def simple(text: str) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, out", "float32", shape="n"), lp.GlobalArg("index", "int32", shape="n")]
    return lp.make_kernel("{ [i, j]: 0 <= i, j < n }", text, [*data, "..."])


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("out[i] = 2*a[i]", "out[i] = 3*a[i]", Status.VIOLATED),
        ("out[i] = (a[i] + 1)*a[i]", "out[i] = a[i]*a[i] + a[i]", Status.UNKNOWN),
        ("out[i] = a[index[i]]", "out[i] = a[index[i]]", Status.PROVED),
        ("out[i] = sum(j, a[i])", "out[i] = sum(j, a[i])", Status.PROVED),
        ("out[i] = sum(j, a[i])", "out[i] = sum(j, a[j])", Status.VIOLATED),
        ("a[i] = a[i] + 1", "a[i] = a[i] + 1", Status.PROVED),
        ("out[i] = a[i] {id=f}\nout[i] = 1 {dep=f}", "out[i] = 1", Status.PROVED),
        ("out[i] = 1 {id=f}\nout[i] = a[i] {dep=f}", "out[i] = 1", Status.VIOLATED),
        ("<> t = a[i] + 1\nout[i] = sum(j, t)", "out[i] = a[i] + 1", Status.VIOLATED),
    ],
)
def test_kernels_that_were_written_in_two_ways(one: str, other: str, found: Status) -> None:
    assert status(simple(one), simple(other)) is found


def test_temporaries_are_what_was_assigned_to_them() -> None:
    knl = simple("<> t = 2*a[i]\n<> u = t + i\nout[i] = u*t")
    assert status(simple("out[i] = (2*a[i] + i)*(2*a[i])"), knl) is Status.PROVED
