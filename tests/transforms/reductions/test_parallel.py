"""Reductions over hardware axes: trees, warps, two stages, accumulators of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.ir.expr import IdentityMapper
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.lowering import lower
from kgen.targets.opencl import sub_groups_of_device
from kgen.transforms.select import transform
from tests.oracle import Oracle
from tests.targets.support import compile_cuda
from tests.transforms.helpers import run

RNG = np.random.default_rng(17)
OUT = lp.GlobalArg("out", None, shape=())


def total(items: int, op: str = "sum") -> lp.TranslationUnit:
    """Return ``out = sum(i, a[i])`` by *items* work-items."""
    knl = lp.make_kernel("{[i]: 0 <= i < n}", f"out = {op}(i, a[i])", [OUT, ...])
    return lp.split_iname(lp.assume(knl, "n >= 1"), "i", items, inner_tag="l.0")


def rows(items: int, tags: str = "r:g.0, i:l.0") -> lp.TranslationUnit:
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", f"{{[i]: 0 <= i < {items}}}"],
        "out[r] = sum(i, a[r, i])",
        assumptions="m >= 1",
    )
    return lp.tag_inames(knl, tags)


def code(knl: lp.TranslationUnit, target: Any = None, **dtypes: Any) -> str:
    knl = lp.add_dtypes(knl.copy(target=target or lp.OpenCLTarget()), dtypes)
    return lp.generate_code_v2(knl).device_code()


def barriers(knl: lp.TranslationUnit, target: Any = None) -> int:
    return len(re.findall(r"barrier\(|__syncthreads", code(knl, target, a=np.float32)))


def check(
    knl: lp.TranslationUnit, device: Any, expected: Any, rtol: float = 1e-5, **arguments: Any
) -> None:
    """Run on OpenCL, and on the host, where the same program has plain loops."""
    _, found = device(knl, **arguments)
    np.testing.assert_allclose(found[0], expected, rtol=rtol)
    plain, *_ = run(knl, **arguments).values()
    np.testing.assert_allclose(plain, expected, rtol=rtol)


# -- trees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [1, 2, 3, 5, 16, 33, 100])
def test_any_number_of_work_items(device: Any, items: int) -> None:
    knl = total(items)
    for n in {1, max(items - 1, 1), items, 3 * items + 1}:
        a = RNG.random(n)
        check(knl, device, a.sum(), a=a)


@pytest.mark.parametrize("items", [2, 7, 16])
def test_code_trees_run_each_instance_once(items: int) -> None:
    lowered = lower(total(items).default_entrypoint, {"a": np.float32})
    Oracle(lowered.kernel, {"n": 2 * items + 1}).check(lowered.functions)


@pytest.mark.parametrize("items", [1, 2, 3, 8, 100, 128, 256])
def test_as_few_barriers_as_levels(items: int) -> None:
    assert barriers(total(items)) == max(math.ceil(math.log2(items)), 1)


def test_a_loop_around_needs_no_further_barrier(device: Any) -> None:
    knl = rows(16, "i:l.0")
    assert barriers(knl) == 4
    a = RNG.random((5, 16))
    check(knl, device, a.sum(1), a=a)


def test_reductions_of_one_instruction_share_barriers(device: Any) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < 16}", "out = sum(i, a[i]) + max(i, a[i])", [OUT, ...])
    knl = lp.tag_inames(knl, "i:l.0")
    assert barriers(knl) == 4
    a = RNG.random(16)
    check(knl, device, a.sum() + a.max(), a=a)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "product": np.prod,
    "min": np.min,
    "max": np.max,
    "any": np.any,
    "all": np.all,
}
DTYPES = ("int8", "int32", "int64", "uint32", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
def test_operations_and_types(device: Any, dtype: str) -> None:
    a = RNG.integers(1, 3, 11).astype(dtype)
    names = [*OPERATIONS] if a.dtype.kind != "c" else ["sum", "product"]
    lines = [f"{op}_out[0] = {op}(i, a[i])" for op in names]
    lines = [
        line.replace("a[i]", "a[i] > 1") if line[:3] in ("any", "all") else line for line in lines
    ]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", lines, assumptions="n >= 1")
    knl = lp.split_iname(knl, "i", 8, inner_tag="l.0")
    _, found = device(lp.set_options(knl, return_dict=True), a=a)
    for op in names:
        operand = a > 1 if op in ("any", "all") else a
        expected = OPERATIONS[op](operand).astype(found[f"{op}_out"].dtype)
        np.testing.assert_allclose(found[f"{op}_out"][0], expected, rtol=1e-5)


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_a_value_and_its_place(device: Any, op: str) -> None:
    places = [lp.GlobalArg("v", None, shape=()), lp.GlobalArg("k", np.int32, shape=())]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", f"v, k = {op}(i, a[i], i)", [*places, ...])
    knl = lp.split_iname(lp.assume(knl, "n >= 1"), "i", 16, inner_tag="l.0")
    a = RNG.integers(0, 9, 77).astype(np.float64)
    _, (value, place) = device(knl, a=a)
    assert (value, place) == (a[getattr(a, op)()], getattr(a, op)())


def test_what_does_not_commute_keeps_its_order(device: Any) -> None:
    text = "v, f = reduce(segmented(sum), i, (a[i], start[i]))"
    places = [lp.GlobalArg("v", None, shape=()), lp.GlobalArg("f", None, shape=())]
    knl = lp.make_kernel("{[i]: 0 <= i < 13}", text, [*places, ...])
    late = lp.split_iname(knl, "i", 4, inner_tag="l.0")
    with pytest.raises(lp.TransformError, match="keeps the order of its operands"):
        code(late, a=np.float32, start=np.int32)
    knl = lp.tag_inames(knl, "i:l.0")
    a, start = RNG.random(13), np.zeros(13, np.int32)
    start[[2, 9]] = 1
    check(knl, device, a[9:].sum(), a=a, start=start)


# -- where the result goes --------------------------------------------------------------------


def test_each_row_of_a_group_on_its_own(device: Any) -> None:
    knl = lp.make_kernel(
        "{[r, i]: 0 <= r < m and 0 <= i < n}", "out[r] = sum(i, a[r, i])", assumptions="n, m >= 1"
    )
    knl = lp.split_iname(knl, "i", 8, inner_tag="l.0")
    knl = lp.split_iname(knl, "r", 4, inner_tag="l.1", outer_tag="g.0")
    a = RNG.random((13, 29))
    check(knl, device, a.sum(1), a=a)


def test_all_work_items_use_the_result(device: Any) -> None:
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i, j]: 0 <= i, j < n}"],
        ["<> s = sum(i, a[r, i]) {id=s, inames=r}", "out[r, j] = a[r, j]/s {dep=s}"],
        assumptions="n, m >= 1",
    )
    knl = lp.split_iname(lp.split_iname(knl, "i", 8, inner_tag="l.0"), "j", 8, inner_tag="l.0")
    knl = lp.tag_inames(knl, "r:g.0")
    assert barriers(knl) == 3
    a = RNG.random((5, 21))
    check(knl, device, a / a.sum(1)[:, None], a=a)


def test_a_result_that_a_loop_on_the_same_axis_shares(device: Any) -> None:
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i, j]: 0 <= i, j < 16}"],
        "out[r, j] = a[r, j] / sum(i, a[r, i])",
        assumptions="m >= 1",
    )
    knl = lp.tag_inames(knl, "r:g.0, i:l.0, j:l.0")
    assert barriers(knl) == 4
    a = RNG.random((5, 16))
    check(knl, device, a / a.sum(1)[:, None], a=a)


def test_axes_that_only_others_use(device: Any) -> None:
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < 6}", "{[j, k]: 0 <= j < 4 and 0 <= k < 6}"],
        ["<> s = sum(i, a[i]) {id=s}", "out[j, k] = s + j {dep=s}"],
    )
    knl = lp.tag_inames(knl, "i:l.0, k:l.0, j:l.1")
    a = RNG.random(6)
    expected = a.sum() + np.arange(4)[:, None] + np.zeros(6)
    check(knl, device, expected, a=a)


def test_several_axes(device: Any) -> None:
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i, j]: 0 <= i < 5 and 0 <= j < 7}"],
        "out[r] = sum((i, j), a[r, i, j])",
        assumptions="m >= 1",
    )
    knl = lp.tag_inames(knl, "r:g.0, i:l.1, j:l.0")
    assert barriers(knl) == 6
    a = RNG.random((3, 5, 7))
    check(knl, device, a.sum((1, 2)), a=a)


def test_conditions_and_nested_reductions(device: Any) -> None:
    a, f = RNG.random((6, 16)), RNG.integers(0, 2, 6).astype(np.int32)
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i]: 0 <= i < 16}"],
        "out[r] = if(f[r] > 0, sum(i, a[r, i]), -1)",
        assumptions="m >= 1",
    )
    expected = np.where(f > 0, a.sum(1), -1)
    check(lp.tag_inames(knl, "r:g.0, i:l.0"), device, expected, a=a, f=f)
    text = "out = sum(r, max(i, a[r, i]))"
    knl = lp.make_kernel("{[r, i]: 0 <= r < m and 0 <= i < 16}", text, [OUT, ...])
    knl = lp.tag_inames(lp.assume(knl, "m >= 1"), "i:l.0")
    check(knl, device, a.max(1).sum(), a=a)


def test_a_reduction_in_a_predicate(opencl_queue: Any) -> None:
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i]: 0 <= i < 16}"],
        "out[r] = 2 {if=any(i, a[r, i] > 0.9)}",
        [lp.GlobalArg("out", np.int32, shape="m"), ...],
        assumptions="m >= 1",
    )
    knl = lp.tag_inames(knl, "r:g.0, i:l.0")
    a = RNG.random((9, 16))
    expected = np.where((a > 0.9).any(1), 2, 1)
    for program, queue in ((knl, (opencl_queue,)), (knl.copy(target=lp.ExecutableCTarget()), ())):
        out = np.ones(9, np.int32)
        program(*queue, a=a, out=out)
        np.testing.assert_array_equal(out, expected)


def test_a_bound_that_has_a_largest_value(device: Any) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out = sum(i, a[i])", [OUT, ...])
    with pytest.raises(lp.StaticValueFindingError, match="instruction 'insn'"):
        code(lp.tag_inames(knl, "i:l.0"), a=np.float32)
    knl = lp.tag_inames(lp.assume(knl, "1 <= n <= 20"), "i:l.0")
    for n in (1, 13, 20):
        a = RNG.random(n)
        check(knl, device, a.sum(), a=a)


# -- groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [None, 8])
@pytest.mark.parametrize("n", [1, 24, 1000])
def test_groups_in_two_stages(device: Any, items: int | None, n: int) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out = sum(i, a[i])", [OUT, ...])
    knl = lp.split_iname(lp.assume(knl, "n >= 1"), "i", 24, outer_tag="g.0")
    if items is not None:
        knl = lp.split_iname(knl, "i_inner", items, inner_tag="l.0")
    a = RNG.random(n)
    check(knl, device, a.sum(), a=a)


def test_each_row_in_two_stages(device: Any) -> None:
    knl = lp.make_kernel(
        "{[r, i]: 0 <= r < m and 0 <= i < n}",
        "v[r], k[r] = argmax(i, a[r, i], i)",
        [lp.GlobalArg("v", None, shape="m"), lp.GlobalArg("k", np.int32, shape="m"), ...],
        assumptions="n, m >= 1",
    )
    knl = lp.split_iname(knl, "i", 12, outer_tag="g.0")
    knl = lp.tag_inames(lp.split_iname(knl, "i_inner", 4, inner_tag="l.0"), "r:g.1")
    a = RNG.random((3, 50))
    _, (value, place) = device(knl, a=a)
    np.testing.assert_array_equal(value, a.max(1))
    np.testing.assert_array_equal(place, a.argmax(1))


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        ("r_inner:l.0", "[64 * gid(0) + 8 * gid(1) + lid(0)]"),
        ("r_inner:l.1, i_inner:l.0", "[64 * gid(0) + 8 * lid(1) + gid(1)]"),
        ("r_outer:ilp, r_inner:l.0", "[8 * gid(1) + lid(0) + 448]"),
    ],
)
def test_adjacent_items_store_their_parts_side_by_side(tags: str, place: str, device: Any) -> None:
    """So do the parts that adjacent work-items of the second launch add up."""
    knl = lp.make_kernel("{[r, i]: 0 <= r, i < 64}", "out[r] = sum(i, a[r, i])")
    knl = lp.split_iname(knl, "r", 8, outer_tag=None if "r_outer" in tags else "g.0")
    knl = lp.tag_inames(lp.split_iname(knl, "i", 8, outer_tag="g.1"), tags)
    assert f"part_i_outer_i_inner{place} = acc" in code(knl, a=np.float32)
    a = RNG.random((64, 64))
    check(knl, device, a.sum(1), a=a)


def test_atomic_updates_need_no_second_stage(device: Any) -> None:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "out[0] = out[0] + sum(i, a[i]) {atomic}",
        [
            lp.GlobalArg("out", np.int32, shape=(1,), for_atomic=True),
            lp.GlobalArg("a", np.int32, shape="n"),
            ...,
        ],
        assumptions="n >= 1",
    )
    knl = lp.split_iname(knl, "i", 24, outer_tag="g.0")
    knl = lp.split_iname(knl, "i_inner", 8, inner_tag="l.0")
    assert code(knl).count("__kernel") == 1
    a, out = RNG.integers(0, 9, 1000).astype(np.int32), np.array([5], np.int32)
    device(knl, a=a, out=out)
    assert out[0] == a.sum() + 5


# -- instances of their own -----------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["unr", "ilp"])
def test_unrolled_and_interleaved(device: Any, tag: str) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "out = sum(i, a[i])", [OUT, ...])
    knl = lp.split_iname(lp.assume(knl, "n >= 1"), "i", 4, inner_tag=tag)
    assert ("double acc_i_outer_i_inner[4];" in code(knl, a=np.float64)) == (tag == "ilp")
    for n in (1, 4, 99):
        a = RNG.random(n)
        check(knl, device, a.sum(), a=a)


# -- CUDA ---------------------------------------------------------------------------------------


def test_one_warp_needs_no_memory_and_no_barrier() -> None:
    text = code(rows(32), lp.CudaTarget(), a=np.float32)
    assert "__shared__" not in text
    assert "__syncthreads" not in text
    assert [int(d) for d in re.findall(r"__shfl_xor_sync\(4294967295u, \w+, (\d+)\)", text)] == [
        16,
        8,
        4,
        2,
        1,
    ]


def test_several_warps_meet_once() -> None:
    text = code(rows(256), lp.CudaTarget(), a=np.float32)
    assert text.count("__syncthreads") == 1
    assert "__shared__ float red_i[8];" in text


def test_sums_over_groups_in_loops_that_never_run_end() -> None:
    knl = lp.make_kernel(
        ["{[j]: 3 <= j < n - 1}", "{[r]: 3 <= r < 8}"], "out[j] = sum(r, r)", assumptions="n >= 1"
    )
    knl = lp.fix_parameters(lp.tag_inames(knl, "r:g.0"), n=4)
    assert "for (int r_part = 3; r_part < 8; ++r_part)" in code(knl, lp.CudaTarget())


@pytest.mark.parametrize(
    ("items", "tags"),
    [(33, "r:g.0, i:l.0"), (9, "i:l.0, r:l.1"), (35, "r:l.0, i:l.1")],
)
def test_no_lanes_where_rows_are_not_in_one_warp(items: int, tags: str) -> None:
    knl = lp.fix_parameters(rows(items, "r:for"), m=4)
    text = code(lp.tag_inames(knl, tags), lp.CudaTarget(), a=np.float32)
    assert "__shfl" not in text
    assert "__syncthreads" in text


@pytest.mark.parametrize(("items", "mask"), [(2, 3), (4, 15), (8, 255), (16, 65535)])
def test_rows_in_a_warp_need_no_barrier(items: int, mask: int) -> None:
    knl = lp.split_iname(rows(items, "i:l.0"), "r", 32, outer_tag="g.0", inner_tag="l.1")
    text = code(knl, lp.CudaTarget(), a=np.float64)
    assert "__shared__" not in text
    assert "__syncthreads" not in text
    assert text.count("__shfl_xor_sync") == items.bit_length() - 1
    assert f"(kgen_lanes_of_row_uint32({mask}, {32 - items}), acc_i, {items // 2})" in text


def test_rows_of_lanes_that_are_not_next_to_each_other() -> None:
    text = code(rows(8, "r:g.0, i:l.1"), lp.CudaTarget(), a=np.float64)
    assert "__shfl_xor_sync(255, acc_i, 4)" in text
    knl = lp.split_iname(rows(8, "i:l.1"), "r", 4, outer_tag="g.0", inner_tag="l.0")
    text = code(knl, lp.CudaTarget(), a=np.float64)
    assert "__shfl_xor_sync(kgen_lanes_of_row_uint32(286331153, 3), acc_i, 16)" in text


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_are_exchanged_in_two_parts(dtype: Any) -> None:
    text = code(rows(32), lp.CudaTarget(), a=dtype)
    assert (
        "(4294967295u, acc_i.real(), 16), __shfl_xor_sync(4294967295u, acc_i.imag(), 16))" in text
    )


@pytest.mark.parametrize(("items", "n_barriers"), [(16, 0), (64, 1)])
def test_sub_groups_exchange_values_where_there_are(items: int, n_barriers: int) -> None:
    text = code(rows(items), lp.OpenCLTarget(sub_group_size=16), a=np.float32)
    assert text.count("barrier(") == n_barriers
    assert "__attribute__((intel_reqd_sub_group_size(16)))" in text
    assert "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle: enable" in text
    assert "= sub_group_shuffle_xor(acc_i, 8)" in text


def test_devices_without_sub_groups_use_local_memory(opencl_queue: Any) -> None:
    if sub_groups_of_device(opencl_queue.device):
        pytest.skip("this device has sub-groups that exchange values")
    knl = rows(16).copy(target=lp.PyOpenCLTarget(sub_group_size=16))
    a = RNG.random((4, 16))
    _, (out,) = knl(opencl_queue, a=a)
    np.testing.assert_allclose(out, a.sum(1))


def test_sizes_of_sub_groups_are_those_of_the_device() -> None:
    names = "cl_khr_subgroup_shuffle cl_khr_subgroup_shuffle_relative"
    device = SimpleNamespace(extensions=names, sub_group_sizes_intel=[8, 16])
    assert sub_groups_of_device(device) == ()
    device.extensions += " cl_intel_required_subgroup_size"
    assert sub_groups_of_device(device) == (8, 16)


class _Mutant(IdentityMapper):
    """Exchanges values at another distance."""

    def map_call(self, expr: p.Call, *args: Any) -> Any:
        if expr.function != p.Variable("exchange_lanes"):
            return super().map_call(expr, *args)
        mask, value, distance = expr.parameters
        return p.Call(expr.function, (mask, value, 1 if distance == 4 else distance))


@pytest.mark.parametrize("change", ["distance", "condition", "step"])
def test_wrong_exchanges_are_found(change: str) -> None:
    """Another distance, lanes that do not take part, and a step less."""

    @transform
    def mutate(kernel: LoopKernel) -> LoopKernel:
        insns = {str(insn.id): insn for insn in kernel.instructions}
        name = next(n for n in insns if n.endswith("lanes"))
        if change == "distance":
            insns = {n: i.with_transformed_expressions(_Mutant()) for n, i in insns.items()}
        elif change == "condition":
            insns[name] = insns[name].copy(predicates=frozenset([parse("lane_0 < 4")]))
        else:
            insns[name] = insns[name].copy(expression=parse("0"))
        return kernel.copy(instructions=list(insns.values()))

    knl = lp.split_iname(rows(8, "i:l.0"), "r", 4, outer_tag="g.0", inner_tag="l.1")
    knl = lp.add_dtypes(knl.copy(target=lp.CudaTarget()), {"a": np.float64})
    knl = lp.realize_reduction(knl)
    assert lp.verify(knl).ok
    found = lp.verify(mutate(knl)).violated
    assert ("divergence" if change == "condition" else "origin") in {f.check for f in found}


def test_no_lanes_under_a_condition_on_data() -> None:
    knl = lp.make_kernel(
        ["{[r]: 0 <= r < m}", "{[i]: 0 <= i < 32}"], "out[r] = sum(i, a[r, i]) {if=f[r] > 0}"
    )
    knl = lp.tag_inames(knl, "r:g.0, i:l.0")
    assert "__shfl" not in code(knl, lp.CudaTarget(), a=np.float32, f=np.int32)


@pytest.mark.parametrize("items", [8, 96, 100])
def test_cuda_compiles(items: int, nvcc: str, tmp_path: Path) -> None:
    lines = [f"{op}_out[r] = {op}(i, a[r, i])" for op in ("sum", "product", "min", "max", "any")]
    lines += ["v[r], k[r] = argmin(i, a[r, i], i)"]
    knl = lp.make_kernel(["{[r]: 0 <= r < m}", f"{{[i]: 0 <= i < {items}}}"], lines)
    knl = lp.split_iname(lp.tag_inames(knl, "i:l.0"), "r", 4, outer_tag="g.0", inner_tag="l.1")
    sources = [code(knl, lp.CudaTarget(), a=t) for t in (np.float32, np.float64, np.int8)]
    for source in sources:
        compile_cuda(source, tmp_path, nvcc)


# -- refusals --------------------------------------------------------------------------------------


def refusal(knl: lp.TranslationUnit, **dtypes: Any) -> str:
    with pytest.raises(lp.TransformError) as caught:
        code(knl, **dtypes)
    return str(caught.value)


def test_two_loops_of_a_reduction_on_one_axis_are_refused() -> None:
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", "out = sum((i, j), a[i, j])")
    with pytest.raises(lp.TransformError, match=r"both on the hardware axis 'l\.0'"):
        lp.tag_inames(knl, "i:l.0, j:l.0")


def test_a_reduction_that_depends_on_its_own_axis_is_refused() -> None:
    text = ["out[j] = sum(i, b[i]) {if=f[j] > 0}"]
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text)
    found = refusal(lp.tag_inames(knl, "i:l.0, j:l.0"), b=np.float32, f=np.int32)
    assert "depends on the loop 'j' around it, which is on the same axis" in found
    assert "instruction 'insn'" in found


def test_divergent_control_flow_is_refused() -> None:
    text = ["<> c = f[j] {id=c}", "out[0] = sum(i, b[i]) {dep=c, if=c > 0}"]
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text)
    found = refusal(lp.tag_inames(knl, "i:l.0, j:l.0"), b=np.float32, f=np.int32)
    assert "under divergent control flow: 'c' differs between the work-items of 'j'" in found


def test_values_of_other_work_items_are_refused() -> None:
    text = ["<> t = f[j] {id=t}", "out[0] = sum(i, b[i]*t) {dep=t}"]
    knl = lp.make_kernel("{[i, j]: 0 <= i, j < 8}", text)
    found = refusal(lp.tag_inames(knl, "i:l.0, j:l.0"), b=np.float32, f=np.float32)
    assert "reads a value of other work-items: 't' differs" in found


def test_rows_of_a_triangle_over_groups(device: Any) -> None:
    """Groups without a part in a row do not count: what they had in the row before would."""
    knl = lp.make_kernel(
        "{[r, i]: 0 <= r <= i < n}",
        "out[r] = sum(i, a[r, i])",
        [lp.GlobalArg("a", np.float64, "n, n"), ...],
    )
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    a = RNG.random((17, 17))
    _, (found,) = device(knl, a=a)
    np.testing.assert_allclose(found, np.triu(a).sum(1))


# -- on a device -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("items", [3, 8, 32, 33, 64, 100, 256, 1024])
def test_results_on_cuda(items: int) -> None:
    for op in ("sum", "max", "product"):
        knl = total(items, op).copy(target=lp.PyCudaTarget())
        for n in (1, items, 5 * items + 3):
            for dtype in (np.float32, np.float64, np.int32, np.int8, np.complex64):
                if op == "max" and dtype is np.complex64:
                    continue
                a = RNG.integers(1, 3, n).astype(dtype)
                expected = OPERATIONS[op](a)
                if np.isfinite(expected):
                    _, (found,) = knl(a=a)
                    np.testing.assert_allclose(found, np.asarray(expected).astype(dtype))


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("tags", ["r:g.0, i:l.0", "r:l.1, i:l.0", "r:l.0, i:l.1", "i:l.0"])
@pytest.mark.parametrize("items", [2, 4, 8, 16, 32, 48, 64])
def test_rows_on_cuda(items: int, tags: str) -> None:
    knl = lp.fix_parameters(rows(items, "r:for"), m=4)
    knl = lp.tag_inames(knl, tags).copy(target=lp.PyCudaTarget())
    a = RNG.random((4, items))
    _, (found,) = knl(a=a)
    np.testing.assert_allclose(found, a.sum(1))


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("items", [32, 96])
def test_places_and_groups_on_cuda(items: int) -> None:
    places = [lp.GlobalArg("v", None, shape=()), lp.GlobalArg("k", np.int32, shape=())]
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "v, k = argmin(i, a[i], i)",
        [*places, ...],
        assumptions="n >= 1",
        target=lp.PyCudaTarget(),
    )
    knl = lp.split_iname(lp.split_iname(knl, "i", items, inner_tag="l.0"), "i_outer", 4)
    knl = lp.tag_inames(knl, "i_outer_inner:g.0")
    a = RNG.random(5000).astype(np.float32)
    _, (value, place) = knl(a=a)
    assert (value, place) == (a.min(), a.argmin())


def test_groups_with_gaps_are_refused_with_the_loops() -> None:
    """Of the first group, some parts of the sum are empty, and others are not."""
    knl = lp.make_kernel(
        "{ [i,q]: 0<=i<n and 1<=q<n - 2 }",
        "out[i] = sum(q, a[q])",
        [lp.GlobalArg("a, out", np.float64, shape="n"), "..."],
        target=lp.OpenCLTarget(),
    )
    knl = lp.split_iname(knl, "q", 4, outer_tag="g.0")
    knl = lp.split_reduction_outward(lp.chunk_iname(knl, "q_inner", 2), "q_inner_inner")
    with pytest.raises(lp.TransformError, match=r"(?s)'q_outer' inside .*'q_inner_inner' have ga"):
        lp.generate_code_v2(knl)


@pytest.mark.parametrize("tags", [("vec", None), ("ilp", "l.0"), ("l.0", "ilp"), ("l.0", None)])
def test_accumulators_of_threads_are_read_where_they_are_set(tags: tuple[str, str | None]) -> None:
    knl = lp.make_kernel(
        "{[r]: 3 <= r < m}", "out = sum(r, a[r])", [OUT, ...], assumptions="m >= 0",
        target=lp.ExecutableCTarget(), options=lp.Options(insert_gbarriers=True),
    )  # fmt: skip
    knl = lp.split_iname(lp.add_dtypes(knl, {"a": np.float64}), "r", 32, inner_tag=tags[0])
    knl = lp.split_iname(knl, "r_outer", 8, inner_tag=tags[1], outer_tag="g.0")
    assert lp.verify(knl).violated == ()


def test_a_sum_of_what_work_items_share() -> None:
    text = "<> t[i] = 2*a[i]\n<> total = sum(j, t[j])\nout[k] = total*a[k]"
    domain, a = "{ [i, j, k]: 0 <= i, j, k < 8 }", lp.GlobalArg("a", np.float64, shape=8)
    knl = lp.make_kernel(domain, text, [a, ...], target=lp.ExecutableCTarget())
    knl = lp.tag_inames(knl, "i:l.0, j:l.0, k:l.0")
    assert "double t[8]" in lp.generate_body(knl)
    assert "__local double t[8]" in lp.generate_body(knl.copy(target=lp.OpenCLTarget()))
    values = np.arange(8.0)
    np.testing.assert_array_equal(knl(a=values)[1][0], 2 * values.sum() * values)
