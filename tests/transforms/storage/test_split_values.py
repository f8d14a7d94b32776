"""Numbers stored as two parts: exact sums, and factors that tensor cores load as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.language.expressions import parse
from tests.cuda_host import HostCuda
from tests.transforms.helpers import instructions, run

F32 = np.dtype(np.float32)
SPECIAL = [0.0, -0.0, 1.0, 1 / 3, -1e-30, 1e-40, 3e38, np.nan, 1 + 2.0**-11, -(2.0**24) - 2]


def kept(text: str = "t[i] = a[i] {id=set}\nb[i] = t[i] {dep=set}", **more: Any) -> Any:
    dtype = more.pop("dtype", F32)
    temporary = lp.TemporaryVariable("t", dtype, shape="10", **more)
    given = [lp.GlobalArg("a", dtype, shape="10"), temporary, "..."]
    return lp.make_kernel("{ [i]: 0 <= i < 10 }", text, given)


def test_reads_get_the_sum_of_both_parts() -> None:
    assert instructions(lp.split_values(kept(), "t"))[-1] == "i: b[i] = t[i, 0] + t[i, 1]"


def test_the_sum_is_the_number() -> None:
    a = np.array(SPECIAL, F32)
    np.testing.assert_array_equal(run(lp.split_values(kept(), "t"), a=a)["b"], a)


def test_infinite_numbers_are_none() -> None:
    a = np.full(10, np.inf, F32)
    assert np.isnan(run(lp.split_values(kept(), "t"), a=a)["b"]).all()


def test_the_first_part_has_ten_fraction_bits() -> None:
    text = "t[i] = a[i] {id=set}\nb[i] = t[i] {dep=set}"
    unit = lp.split_values(kept(text), "t")
    knl = unit["kgen_kernel"]
    first = [
        insn.copy(expression=parse("t[i, 0]")) if insn.id == "insn" else insn
        for insn in knl.instructions
    ]
    a = np.array([1 + 2.0**-11, 1 + 2.0**-10, 1 + 3 * 2.0**-12] + 7 * [0.0], F32)
    found = run(unit.with_kernel(knl.copy(instructions=first, origin=None)), a=a)["b"]
    np.testing.assert_array_equal(found[:3], [1 + 2.0**-10, 1 + 2.0**-10, 1 + 2.0**-10])


def test_updates_read_the_sum() -> None:
    text = "t[i] = a[i] {id=set}\nt[i] = 2*t[i] {id=twice, dep=set}\nb[i] = t[i] {dep=twice}"
    a = np.array(SPECIAL, F32)
    with np.errstate(over="ignore"):
        a[6] = 1e38
    np.testing.assert_array_equal(run(lp.split_values(kept(text), "t"), a=a)["b"], 2 * a)


def test_writes_without_an_order_stay_so() -> None:
    text = """
    t[i] = a[i]            {id=first, if=i < 5}
    t[i] = 2*a[i]          {id=second, if=i >= 5}
    b[i] = t[i]            {dep=first:second}
    """
    a = np.arange(10, dtype=F32) / 3
    found = run(lp.split_values(kept(text), "t"), a=a)["b"]
    np.testing.assert_array_equal(found, np.where(np.arange(10) < 5, a, 2 * a))


def test_tables_are_split_before_the_program_runs() -> None:
    table = np.linspace(0, 1, 10, dtype=F32)
    knl = kept("b[i] = t[i]*a[i]", initializer=table, read_only=True)
    knl = lp.split_values(knl, "t")
    stored = knl["kgen_kernel"].temporary_variables["t"].initializer
    assert stored.shape == (10, 2)
    np.testing.assert_array_equal(run(knl, a=np.ones(10, F32))["b"], table)


def test_padded_rows_stay_padded() -> None:
    knl = lp.split_values(lp.add_padding(kept(), "t", 0, 12), "t")
    assert "t: type" in str(knl)
    tags = knl["kgen_kernel"].temporary_variables["t"].dim_tags
    assert [tag.stride for tag in tags] == [6, 1]


def test_verify_proves_that_it_is_the_same() -> None:
    assert lp.verify(lp.split_values(kept(), "t")).ok


@pytest.mark.parametrize(
    ("insn", "wrong"),
    [
        ("set", "t_whole"),
        ("set", "t_whole - as_float(as_uint(t_whole) + 4096 & 4294959103)"),
        ("set_nearest", "as_float(as_uint(t_whole) + 4095 & 4294959104)"),
    ],
)
def test_verify_finds_other_parts(insn: str, wrong: str) -> None:
    knl = lp.split_values(kept(), "t")["kgen_kernel"]
    changed = [
        one.copy(expression=parse(wrong)) if one.id == insn else one for one in knl.instructions
    ]
    report = lp.verify(knl.copy(instructions=changed))
    assert [finding.check for finding in report.violated] == ["origin"]


@pytest.mark.parametrize(
    ("make", "because"),
    [
        (lambda: kept(dtype=np.dtype(np.float64)), "it is of float64, not float32"),
        (
            lambda: kept("t[i] = t[i] + a[i] {id=set, atomic}\nb[i] = t[i] {dep=set}"),
            "it is not written by a plain assignment",
        ),
        (lambda: kept(base_storage="x"), "it shares its storage"),
    ],
)
def test_other_temporaries_are_refused(make: Any, because: str) -> None:
    what = rf"the numbers of 't' cannot be split[^$]*{because}"
    with pytest.raises(lp.TransformError, match=what):
        lp.split_values(make(), "t")


# -- factors ----------------------------------------------------------------------------------


def product(*, is_split: bool, target: Any = None) -> lp.TranslationUnit:
    """Return a product whose second factor is in local memory."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i < 32 and 0 <= j < 8 and 0 <= k < 16 }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", F32, shape=lp.auto), ...],
        target=target or lp.CudaTarget(),
    )
    tile: Any = {"temporary_address_space": lp.AddressSpace.LOCAL, "default_tag": None}
    knl = lp.add_prefetch(knl, "b", "k, j", "bk, bj", **tile)
    knl = lp.split_iname(lp.join_inames(knl, "bk, bj", "item"), "item", 32, inner_tag="l.0")
    knl = lp.split_values(knl, "b_fetch") if is_split else knl
    knl = lp.split_iname(lp.split_iname(knl, "i", 16, outer_tag="ilp"), "k", 8, outer_tag="unr")
    return lp.tensorize(knl, "insn", "i_inner, j, k_inner", "m16n8k8", precision="3xtf32")


def operands() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return rng.random((32, 16), F32) - F32.type(0.5), rng.random((16, 8), F32) - F32.type(0.5)


def emulated(knl: lp.TranslationUnit, folder: Path, change: Any = lambda code: code) -> Any:
    (a, b), c = operands(), np.zeros((32, 8), F32)
    assert HostCuda(knl, folder, change)({"a": a, "b": b, "c": c}, resident=2)
    return c


def test_factors_that_are_stored_split_are_loaded_so() -> None:
    code = lp.generate_body(product(is_split=True))
    assert code.count("unsigned const b_lanes") == code.count("unsigned const b_rest") == 2
    assert "kgen_split_2" not in code
    assert code.count("kgen_split_4(") == 4


def test_they_give_the_same_products(tmp_path: Path) -> None:
    found = [emulated(product(is_split=s), tmp_path) for s in (False, True)]
    np.testing.assert_array_equal(found[0], found[1])


def test_each_part_counts(tmp_path: Path) -> None:
    right = emulated(product(is_split=True), tmp_path)
    lost = lambda code: code.replace("b_rest[2] = {", "b_rest[2] = {0*")  # noqa: E731
    wrong = emulated(product(is_split=True), tmp_path, lost)
    assert not np.array_equal(right, wrong)


def test_sums_of_other_numbers_are_split_in_registers() -> None:
    knl = product(is_split=True)["kgen_kernel"]
    changed = [
        insn.copy(expression=parse("2*b_fetch_whole")) if insn.id == "b_fetch_rule" else insn
        for insn in knl.instructions
    ]
    assert "kgen_split_2(" in lp.generate_body(knl.copy(instructions=changed, origin=None))


def test_other_targets_run_plain_loops() -> None:
    a, b = operands()
    found = run(product(is_split=True, target=lp.ExecutableCTarget()), a=a, b=b)["c"]
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-6)
    assert lp.verify(product(is_split=True)).ok


def test_tensor_cores_compute_the_product(cuda_context: Any) -> None:
    a, b = operands()
    found = [product(is_split=s, target=lp.PyCudaTarget())(a=a, b=b)[1][0] for s in (False, True)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[1], a.astype(float) @ b.astype(float), rtol=0, atol=1e-6)
