"""Copies that go on while work-items compute, until they wait."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.ir.tags import CopyCommitTag, CopyWaitTag
from kgen.lowering import lower, prepare
from kgen.schedule.place import schedule_kernel
from kgen.schedule.separation import find_unsynchronized
from tests.mutation.machine import all_results
from tests.mutation.mutants import without_barriers
from tests.oracle import Point
from tests.targets.support import compile_cuda
from tests.transforms.helpers import kernel_of
from tests.transforms.storage.test_pipeline import product
from tests.transforms.storage.test_window import flat

CUDA = lp.CudaTarget()


def copied(tile: int = 2, depth: int = 2, stages: int = 1) -> lp.TranslationUnit:
    knl = product(CUDA, tile=tile, depth=depth)
    knl = lp.async_copy(knl, "a_fetch_rule, b_fetch_rule", "cp.async")
    return lp.pipeline(knl, "k_outer", stages)


ONE = """\
    __syncthreads();  // for a_fetch (a_fetch_rule rev-depends on insn_k_outer_k_inner_update)
    __pipeline_memcpy_async(&a_fetch[8 * lid(y) + lid(x)], &a[512 * gid(y) + 64 * lid(y) + \
8 * k_outer + lid(x)], sizeof(float));
    __pipeline_commit();
    __pipeline_memcpy_async(&b_fetch[8 * lid(y) + lid(x)], &b[512 * k_outer + 64 * lid(y) + \
8 * gid(x) + lid(x)], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();  // for b_fetch (insn_k_outer_k_inner_update depends on b_fetch_rule_wait)
"""

THREE = """\
  for (int k_outer = 0; k_outer < 6; ++k_outer)
  {
    __pipeline_wait_prior(1);
    __syncthreads();  // for a_fetch (a_fetch_rule rev-depends on insn_k_outer_k_inner_update)
    __pipeline_memcpy_async(&a_fetch[64 * ((k_outer + 2) % 3) + 8 * lid(y) + lid(x)], \
&a[512 * gid(y) + 64 * lid(y) + 8 * k_outer + lid(x) + 16], sizeof(float));
    __pipeline_memcpy_async(&b_fetch[64 * ((k_outer + 2) % 3) + 8 * lid(y) + lid(x)], \
&b[512 * k_outer + 64 * lid(y) + 8 * gid(x) + lid(x) + 1024], sizeof(float));
    __pipeline_commit();
    for (int k_inner = 0; k_inner < 8; ++k_inner)
"""


@pytest.mark.parametrize(("stages", "text"), [(1, ONE), (3, THREE)])
def test_work_items_wait_before_the_barrier(stages: int, text: str) -> None:
    knl = lp.fix_parameters(copied(8, 8, stages), n=64)
    assert text in lp.generate_body(knl)
    assert "#include <cuda_pipeline_primitives.h>" in lp.generate_code_v2(knl).device_code()


@pytest.mark.parametrize("dtype", [np.float64])
def test_nvcc_compiles_copies(dtype: Any, nvcc: str, tmp_path: Path) -> None:
    knl = lp.async_copy(product(CUDA, dtype), "a_fetch_rule, b_fetch_rule")
    compile_cuda(lp.generate_code_v2(lp.pipeline(knl, "k_outer", 3)).device_code(), tmp_path, nvcc)


def test_lanes_are_copied_at_once() -> None:
    knl = lp.make_kernel(
        "{ [k, l, v]: 0 <= k < 8 and 0 <= l < 16 and 0 <= v < 4 }",
        "t[4*l + v] = a[k, 4*l + v] {id=f}\nb[k, l] = t[l] + t[63 - l] {dep=f}",
        [
            lp.GlobalArg("a", np.float32, shape="8, 64"),
            lp.GlobalArg("b", np.float32, shape="8, 16"),
            lp.TemporaryVariable(
                "t", np.float32, shape=64, address_space=lp.AddressSpace.LOCAL, alignment=16
            ),
            "...",
        ],
        target=CUDA,
    )
    knl = lp.async_copy(lp.tag_inames(knl, "l:l.0, v:vec"), "f")
    knl = lp.pipeline(knl, "k", 3)
    code = lp.generate_body(knl)
    assert "&t[64 * ((k + 2) % 3) + 4 * lid(x)], &a[64 * k + 4 * lid(x) + 128], sizeof(float4)" in (
        code
    )
    assert code.count("__pipeline_commit()") == 3
    assert lp.verify(knl).ok


def test_waits_move_nothing() -> None:
    plain = lp.fix_parameters(product(CUDA, tile=4, depth=4), n=32)
    copies = lp.async_copy(plain, "a_fetch_rule, b_fetch_rule")
    before, after = (lp.get_mem_access_map(knl, subgroup_size=32) for knl in (plain, copies))
    for direction in ("load", "store"):
        counts = [
            found.filter_by(direction=[direction], mtype=["local"]).eval_and_sum({})
            for found in (before, after)
        ]
        assert counts[0] == counts[1] > 0


def test_a_window_may_be_copied() -> None:
    knl = lp.add_prefetch(flat(), "a", "x_inner", window="z")
    knl = lp.async_copy(knl, "a_fetch_rule, a_fetch_rule_prologue")
    assert lp.generate_body(knl).count("__pipeline_wait_prior(0)") == 2
    assert lp.verify(knl).ok


def test_copies_of_a_pipeline_take_no_registers() -> None:
    assert "a_fetch_ahead" not in kernel_of(copied(stages=3)).temporary_variables


def results(kernel: LoopKernel, size: int) -> Iterator[bool]:
    """Run a kernel on the host, work-items in several orders; give whether it is right."""
    lowered = lower(kernel)
    pairs = [(i, j) for i in range(size) for j in range(size)]
    a: dict[Point, Any] = {(i, j): float(7 * i + 3 * j + 1) for i, j in pairs}
    b: dict[Point, Any] = {(i, j): float(i - 2 * j + 5) for i, j in pairs}
    c = {(i, j): sum(a[i, k] * b[k, j] for k in range(size)) for i, j in pairs}
    for _, found in all_results(lowered.kernel, lowered.functions, {"n": size}, {"a": a, "b": b}):
        yield found["c"] == c


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 5])
def test_what_is_copied_is_there(stages: int, size: int) -> None:
    assert all(results(kernel_of(copied(stages=stages)), size))


@pytest.mark.parametrize("stages", [3])
def test_copies_are_proved_to_be_ordered(stages: int) -> None:
    report = lp.verify(copied(stages=stages))
    assert report.ok
    assert {finding.check for finding in report.unknown} == {"origin"}


def without_waits_or_groups(kernel: LoopKernel) -> Iterator[tuple[str, LoopKernel]]:
    """Give the kernel with each wait dropped, or too early by a group, and each group dropped."""
    for number, insn in enumerate(kernel.instructions):
        wait = insn.tags_of_type(CopyWaitTag)
        others: list[Any] = []
        if wait:
            others = [frozenset(), frozenset(CopyWaitTag(tag.pending + 1) for tag in wait)]
        elif insn.tags_of_type(CopyCommitTag):
            others = [frozenset()]
        for tags in others:
            insns = list(kernel.instructions)
            insns[number] = insn.copy(tags=tags)
            yield f"{insn.id} {tags}", kernel.copy(instructions=insns)


def is_right(kernel: LoopKernel) -> bool:
    """Tell whether a kernel has code, and that is right."""
    try:
        return all(right for size in (1, 3) for right in results(kernel, size))
    except lp.KgenError:
        return False


@pytest.mark.parametrize("stages", [1, 3])
def test_dropped_waits_are_found(stages: int) -> None:
    mutants = dict(without_waits_or_groups(kernel_of(copied(stages=stages))))
    assert len(mutants) == {1: 6, 3: 7}[stages]
    wrong = {name for name, mutant in mutants.items() if not is_right(mutant)}
    found = {name for name, mutant in mutants.items() if not lp.verify(mutant).ok}
    assert wrong <= found
    assert found == mutants.keys() or stages == 1


def test_each_barrier_is_needed() -> None:
    kernel = prepare(kernel_of(lp.fix_parameters(copied(4, 4, 3), n=32)))
    mutants = list(without_barriers(schedule_kernel(kernel)))
    assert mutants
    assert all(next(find_unsynchronized(kernel, mutant), None) for _, mutant in mutants)


def test_swapped_buffers_are_found() -> None:
    kernel = kernel_of(copied(stages=3))
    copy = kernel.id_to_insn["a_fetch_rule"]
    assert isinstance(copy, lp.Assignment)
    text = str(copy.assignee).replace("k_outer + 2", "k_outer + 1")
    insns = [
        insn.copy(assignee=lp.symbolic.parse(text)) if insn is copy else insn
        for insn in kernel.instructions
    ]
    assert not lp.verify(kernel.copy(instructions=insns)).ok


@pytest.mark.parametrize("stages", [3])
def test_other_targets_copy_as_usual(opencl_queue: Any, stages: int) -> None:
    knl = copied(4, 4, stages).copy(target=lp.PyOpenCLTarget())
    a, b = np.random.default_rng(1).random((2, 13, 13)).astype(np.float32)
    _, (c,) = knl(opencl_queue, a=a, b=b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("target", "insn", "kind", "because"),
    [
        (lp.OpenCLTarget(), "a_fetch_rule", "cp.async", "OpenCLTarget has no asynchronous"),
        (CUDA, "a_fetch_rule", "tma", "no asynchronous copies 'tma'"),
        (CUDA, "insn", "cp.async", "not assign one element to another"),
        (CUDA, "x", "cp.async", "there is no instruction 'x'"),
    ],
)
def test_what_is_no_copy(target: Any, insn: str, kind: str, because: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(because)):
        lp.async_copy(product(target), insn, kind)


@pytest.mark.parametrize(
    ("text", "dtype", "because"),
    [
        ("t[l] = a[l] {id=f}\nb[l] = t[7 - l] {dep=f}", np.float16, "have 2 bytes"),
        ("t[l] = a[l] {id=f}\na[l] = t[7 - l] {dep=f}", np.float32, "the kernel writes 'a'"),
        ("b[l] = a[l] {id=f}\nt[l] = 1", np.float32, "'b' is not in local memory"),
    ],
)
def test_copies_that_cannot_go_on(text: str, dtype: Any, because: str) -> None:
    local = lp.AddressSpace.LOCAL
    knl = lp.make_kernel(
        "{ [l]: 0 <= l < 8 }",
        text,
        [
            lp.GlobalArg("a, b", dtype, shape=8),
            lp.TemporaryVariable("t", dtype, shape=8, address_space=local),
            "...",
        ],
        target=CUDA,
    )
    with pytest.raises(lp.KgenError, match=re.escape(because)):
        lp.async_copy(lp.tag_inames(knl, "l:l.0"), "f")


def test_copies_wait_in_the_loop_of_a_reduction() -> None:
    knl = lp.make_kernel(
        "{ [l, k]: 0 <= l < 8 and 0 <= k < 4 }",
        "b[l] = sum(k, a[k, l])",
        [lp.GlobalArg("a, b", np.float32, shape=lp.auto), "..."],
        target=CUDA,
    )
    knl = lp.add_prefetch(lp.tag_inames(knl, "l:l.0"), "a", "l", fetch_outer_inames="k")
    knl = lp.async_copy(knl, "a_fetch_rule")
    assert lp.verify(knl).ok
    loop = lp.generate_body(knl).partition("for (int k = 0")[2]
    assert loop.count("__pipeline_wait_prior(0);") == 1


def test_elements_of_two_bytes_are_copied_in_lanes() -> None:
    knl = lp.make_kernel(
        "{ [l, v]: 0 <= l < 8 and 0 <= v < 8 }",
        "t[8*l + v] = a[8*l + v] {id=f}\nb[l] = t[l] {dep=f}",
        [
            lp.GlobalArg("a", np.float16, shape=64),
            lp.GlobalArg("b", np.float16, shape=8),
            lp.TemporaryVariable("t", np.float16, shape=64, address_space=lp.AddressSpace.LOCAL),
            "...",
        ],
        target=CUDA,
    )
    knl = lp.async_copy(lp.tag_inames(knl, "l:l.0, v:vec"), "f")
    code = lp.generate_body(lp.align_temporaries(knl, "t", 16))
    assert "sizeof(kgen_float16x8)" in code
    with pytest.raises(lp.KgenError, match="elements of 2 bytes cannot be copied"):
        lp.generate_body(knl)


def test_code_for_copies_without_a_wait_is_rejected() -> None:
    kernel = kernel_of(copied())
    (wait,) = (insn for insn in kernel.instructions if insn.id == "a_fetch_rule_wait")
    others = [
        insn.copy(depends_on=insn.depends_on - {wait.id})
        for insn in kernel.instructions
        if insn is not wait
    ]
    with pytest.raises(lp.KgenError, match="does not wait for the copies of 'a_fetch_rule'"):
        lp.generate_body(kernel.copy(instructions=others))


def test_other_work_items_cannot_wait() -> None:
    knl = lp.make_kernel(
        "{ [l]: 0 <= l < 8 }",
        "t[l] = a[l] {id=f}\nb[l] = t[7 - l] {dep=f}",
        [
            lp.GlobalArg("a, b", np.float32, shape=8),
            lp.TemporaryVariable("t", np.float32, shape=8, address_space=lp.AddressSpace.LOCAL),
            "...",
        ],
        target=CUDA,
    )
    kernel = kernel_of(lp.async_copy(lp.tag_inames(knl, "l:l.0"), "f"))
    lp.generate_body(kernel)
    turned = lp.symbolic.parse("t[7 - l]")
    others = [
        insn.copy(assignee=turned, expression=turned) if insn.id == "f_wait" else insn
        for insn in kernel.instructions
    ]
    with pytest.raises(lp.KgenError, match=r"waits for copies that .* makes in other work-items"):
        lp.generate_body(kernel.copy(instructions=others))


def test_two_pipelines_of_copies_are_rejected() -> None:
    knl = lp.async_copy(product(CUDA), "a_fetch_rule, b_fetch_rule")
    with pytest.raises(lp.KgenError, match="waits for all copies in the order"):
        lp.pipeline(knl, "k_outer", 2, "a_fetch")


def test_a_loop_that_becomes_no_work_item_copies_to_no_local_memory() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "b[i] = a[i]", target=CUDA)
    knl = lp.split_iname(lp.add_dtypes(knl, {"a": np.float32}), "i", 8)
    knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.auto")
    with pytest.raises(lp.KgenError, match=r"'l.auto' distributes none of its loops"):
        lp.async_copy(knl, "a_fetch_rule")


@pytest.mark.parametrize("space", [lp.AddressSpace.PRIVATE, lp.AddressSpace.GLOBAL])
def test_copies_go_on_to_local_memory_only(space: lp.AddressSpace) -> None:
    knl = lp.set_temporary_address_space(copied(), "a_fetch", space)
    with pytest.raises(lp.KgenError, match=r"'a_fetch' is in .* memory"):
        lp.generate_code_v2(knl)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [("a_dim_0", "'a_fetch_0' is in private memory"), ("", "reads no element of an array")],
)
def test_copies_go_on_from_global_memory_only(sweep: str, message: str) -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < 64 }", "b[i] = a[63 - i]", target=CUDA)
    knl = lp.split_iname(lp.add_dtypes(knl, {"a": np.float32}), "i", 8, inner_tag="l.0")
    knl = lp.add_prefetch(knl, "a", "i_inner", default_tag="l.0")
    knl = lp.async_copy(knl, "a_fetch_rule")
    outer = "i_outer" if sweep else "i_outer, a_dim_0"
    knl = lp.add_prefetch(knl, "a", sweep, default_tag="unr", fetch_outer_inames=outer)
    with pytest.raises(lp.KgenError, match=message):
        lp.generate_code_v2(knl)
