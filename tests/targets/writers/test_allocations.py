"""Private arrays whose size depends on arguments: allocated in C, rejected elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower
from tests.oracle import Oracle

DOMAIN = "{ [g, i, j]: 0 <= g < n and 0 <= i, j < m }"
REVERSED = "<> t[i] = 2*a[g, i] {inames=g:i}\nout[g, j] = t[m - 1 - j]"


def reversed_rows(target: Any, *declared: Any, text: str = REVERSED) -> lp.TranslationUnit:
    data = [*declared, lp.GlobalArg("a", np.float64), ...]
    return lp.make_kernel(DOMAIN, text, data, seq_dependencies=True, target=target)


def test_memory_is_allocated_and_freed() -> None:
    assert (
        lp.generate_body(reversed_rows(lp.CTarget()))
        == """\
  double *const t = (double *) kgen_allocate(m * sizeof(double));

  for (int g = 0; g < n; ++g)
  {
    for (int i = 0; i < m; ++i)
      t[i] = 2.0 * a[(int64_t) m * g + i];
    for (int j = 0; j < m; ++j)
      out[(int64_t) m * g + j] = t[m - j - 1];
  }
  free(t);"""
    )


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("m", [0, 1, 7])
def test_each_thread_has_its_own(threads: int | None, m: int) -> None:
    knl = lp.tag_inames(reversed_rows(lp.ExecutableCTarget(threads=threads)), "g:g.0")
    a = np.random.default_rng(1).random((5, m))
    np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a[:, ::-1])


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ({"shape": "n,m"}, "(int64_t) m * (int64_t) n"),
        ({"shape": "n,m", "order": "F"}, "(int64_t) n * (int64_t) m"),
        (
            {"shape": "n,m", "strides": ("m + 3", 1)},
            "((int64_t) m * (int64_t) n + 3 * (int64_t) n - 3)",
        ),
        ({"shape": "n,m", "address_space": lp.AddressSpace.LOCAL}, "(int64_t) m * (int64_t) n"),
    ],
)
def test_lengths_follow_layouts_and_have_64_bits(settings: Any, length: str) -> None:
    text = "t[g, i] = 2*a[g, i] {inames=g:i}\nout[g, j] = t[g, m - 1 - j] {inames=g:j}"
    knl = reversed_rows(lp.ExecutableCTarget(), lp.TemporaryVariable("t", **settings), text=text)
    assert f"kgen_allocate({length} * sizeof(double))" in lp.generate_body(knl)
    a = np.random.default_rng(2).random((4, 6))
    np.testing.assert_array_equal(knl(a=a)[1][0], 2 * a[:, ::-1])


def test_the_order_of_statements_is_that_of_the_domains() -> None:
    knl = reversed_rows(lp.CTarget())
    lowered = lower(knl.default_entrypoint)
    Oracle(lowered.kernel, {"n": 3, "m": 4}).check(lowered.functions)
    report = lp.verify(lp.split_iname(knl, "j", 4))
    assert report.ok
    assert not report.unknown


def test_what_is_larger_than_the_stack() -> None:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < n }",
        "<> t[i] = a[i]\nout[j] = t[n - 1 - j]",
        seq_dependencies=True,
        target=lp.ExecutableCTarget(),
    )
    a = np.arange(3e6)
    np.testing.assert_array_equal(knl(a=a)[1][0], a[::-1])


def test_others_reject_sizes_that_are_not_constant() -> None:
    aligned = lp.TemporaryVariable("t", shape="m", alignment=64)
    cases = [
        (reversed_rows(lp.OpenCLTarget()), "size of private temporary 't' is not a constant"),
        (reversed_rows(lp.CTarget(), aligned, text=REVERSED[3:]), "size of private temporary 't'"),
    ]
    for knl, match in cases:
        with pytest.raises(lp.CodegenError, match=match):
            lp.generate_body(knl)
