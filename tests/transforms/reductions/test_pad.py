"""Loops that are lengthened to a multiple of iterations, with terms of zero in sums."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.verification import Status
from tests.cuda_host import HostCuda
from tests.transforms.helpers import kernel_of

PRODUCT = "c[i, j] = sum(k, a[i, k]*b[k, j])"


def program(text: str = PRODUCT, sizes: str = "n, m, p", target: Any = None) -> lp.TranslationUnit:
    i, j, k = sizes.split(", ")
    knl = lp.make_kernel(
        f"{{ [i, j, k]: 0 <= i < {i} and 0 <= j < {j} and 0 <= k < {k} }}",
        text,
        [
            lp.GlobalArg(name, np.float32, shape=shape)
            for name, shape in (("a", f"{i}, {k}"), ("b", f"{k}, {j}"), ("c", f"{i}, {j}"))
        ]
        + ["..."],
        target=target or lp.ExecutableCTarget(),
    )
    return lp.add_dtypes(knl, {name: np.float32 for name in "d" if f"{name}[" in text})


def is_proved(program: lp.TranslationUnit | LoopKernel) -> bool:
    return all(found.status is Status.PROVED for found in lp.verify(program).findings)


CODE = """\
  for (int i = 0; i < 8 * ((n + 7) / 8); ++i)
    for (int j = 0; j < m; ++j)
    {
      float acc_k = 0.0f;
      for (int k = 0; k < 8 * ((p + 7) / 8); ++k)
        acc_k += (i < n && k < p ? a[(int64_t) p * i + k] : 0.0f) * (k < p ? b[(int64_t) m * k + \
j] : 0.0f);
      float const c_sum = acc_k;
      if (i < n)
        c[(int64_t) m * i + j] = c_sum;
    }
"""


def test_factors_are_zero_and_sums_are_not_stored_in_new_iterations() -> None:
    knl = lp.pad_inames(program(), "i, k", 8)
    assert lp.generate_body(lp.prioritize_loops(knl, "i, j")) == CODE.rstrip("\n")
    assert is_proved(knl)


@pytest.mark.parametrize(
    "text",
    [
        PRODUCT,
        "c[i, j] = 2*sum(k, a[i, k]*b[k, j]) + sum(k, a[i, k]) + d[j] {id=insn}",
        "c[i, j] = max(k, a[i, k]*b[k, j])",
        "<> t = i + 0*j {id=t}\nc[i, j] = sum(k, a[t, k]*cast(np.float32, b[k, j])) {dep=t}",
        "c[i, j] = sum(k, 3)*a[i, 0]*b[0, j]",
    ],
)
def test_results_are_the_same(text: str) -> None:
    rng = np.random.default_rng(3)
    given = {"a": rng.random((5, 7), np.float32), "b": rng.random((7, 9), np.float32)}
    if "d[" in text:
        given["d"] = rng.random(9, np.float32)
    loops = "i, j" if "max" in text else "i, j, k"
    plain = program(text, "5, 9, 7")
    knl = lp.pad_inames(plain, loops, 4)
    assert lp.verify(knl).ok
    _, (expected,) = plain(**given)
    _, (c,) = knl(**given)
    np.testing.assert_array_equal(c, expected)


def test_loops_of_such_a_length_are_left_as_they_are() -> None:
    knl = lp.assume(program(sizes="n, 16, 7"), "n mod 8 = 0")
    before, after = (kernel_of(each) for each in (knl, lp.pad_inames(knl, "i, j", 8)))
    assert (after.instructions, after.domains) == (before.instructions, before.domains)


def test_tensor_cores_compute_padded_products(tmp_path: Path) -> None:
    """The factors are stored with their zeros, and the sums of all rows and columns computed."""
    knl = lp.pad_inames(program(sizes="13, 5, 11", target=lp.CudaTarget()), "i", 16)
    knl = lp.pad_inames(knl, "j, k", 8)
    assert [str(rule) for rule in kernel_of(knl).substitutions.values()] == [
        "a_padded_0(i, k) := a[i, k] if k < 11 and i < 13 else 0",
        "b_padded(k, j) := b[k, j] if j < 5 and k < 11 else 0",
    ]
    for name, swept in (("a_padded_0", "i, k"), ("b_padded", "k, j")):
        knl = lp.precompute(knl, name, swept, default_tag="l.auto")
    knl = lp.split_iname(knl, "k", 8, outer_tag="unr")
    knl = lp.tensorize(knl, "insn_sum", "i, j, k_inner", "m16n8k8", precision="3xtf32")
    assert lp.verify(knl).ok
    rng = np.random.default_rng(3)
    a, b = rng.random((13, 11), np.float32), rng.random((11, 5), np.float32)
    c = np.zeros((13, 5), np.float32)
    assert HostCuda(knl, tmp_path)({"a": a, "b": b, "c": c}, resident=1)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-6)


def mutant(kernel: LoopKernel, old: str, new: str, *, of_rule: str | None = None) -> LoopKernel:
    """Return a padded kernel with another condition: of a factor, or of a result."""
    if of_rule is not None:
        rule = kernel.substitutions[of_rule]
        text = f"if({new}, {rule.expression.then}, 0)"
        changed = rule.copy(expression=lp.symbolic.parse(text))
        return kernel.copy(substitutions={**kernel.substitutions, of_rule: changed})
    insn = kernel.id_to_insn["insn"]
    predicates = frozenset({lp.symbolic.parse(new)}) if new else frozenset()
    others = [insn.copy(predicates=predicates) if i is insn else i for i in kernel.instructions]
    return kernel.copy(instructions=others)


@pytest.mark.parametrize(
    ("new", "rule"),
    [
        ("i < 4 and k < 7", "a_padded"),
        ("i < 5 and k < 6", "a_padded"),
        ("i < 5 and k < 8", "a_padded"),
        ("k < 8", "b_padded"),
        ("i < 4", None),
        ("", None),
    ],
)
def test_mutants_are_found(new: str, rule: str | None) -> None:
    kernel = kernel_of(lp.pad_inames(program(sizes="5, 9, 7"), "i, k", 4))
    assert is_proved(kernel)
    assert not is_proved(mutant(kernel, "", new, of_rule=rule))


@pytest.mark.parametrize(
    ("text", "loops", "error"),
    [
        ("c[i, j] = max(k, a[i, k]*b[k, j])", "k", "is a reduction over it that is not a sum"),
        ("c[i, j] = a[i, k]*b[k, j]", "l", "there is no iname 'l'"),
        (f"if sum(k, a[i, k]) > 0\n{PRODUCT}\nend", "k", "it has reductions elsewhere than in the"),
    ],
)
def test_what_cannot_be_padded(text: str, loops: str, error: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(error)):
        lp.pad_inames(program(text), loops, 8)


@pytest.mark.parametrize("bounds", ["1 <= i < n and 0 <= j < n", "0 <= j <= i < n"])
def test_loops_with_other_bounds_are_refused(bounds: str) -> None:
    knl = lp.make_kernel(f"{{ [i, j]: {bounds} }}", "c[i, j] = 1")
    with pytest.raises(lp.KgenError, match="the loop 'i' cannot be padded"):
        lp.pad_inames(knl, "i", 8)
