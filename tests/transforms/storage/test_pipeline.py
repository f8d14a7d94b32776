"""Tiles that loops fetch iterations ahead of their use."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import lower, prepare
from kgen.schedule.place import schedule_kernel
from kgen.schedule.separation import find_unsynchronized
from tests.mutation.mutants import without_barriers
from tests.oracle import Oracle
from tests.transforms.helpers import assert_same_results, instructions, kernel_of

DEVICE = lp.OpenCLTarget()


def product(
    target: Any = DEVICE, dtype: Any = np.float32, tile: int = 8, depth: int = 4
) -> lp.TranslationUnit:
    """The standard matrix product, with tiles of two shapes."""
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j, k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", dtype, shape="n, n"), "..."],
        target=target,
        name="product",
    )
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", depth)
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return lp.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def rows(text: str = "b[k, i] = a[k, 7 - i]", domain: str = "0 <= k < n") -> lp.TranslationUnit:
    """A row that is fetched in each iteration, without work-items."""
    knl = lp.make_kernel(
        f"{{ [k, i]: {domain} and 0 <= i < 8 }}",
        text,
        [lp.GlobalArg("a, b", np.float64, shape="n, 8"), "..."],
        assumptions="n >= 1",
    )
    return lp.add_prefetch(knl, "a", "i", ["row", "x"], default_tag=None)


STEADY = """\
  for (int k_outer = 0; k_outer < 6; ++k_outer)
  {
    barrier(CLK_LOCAL_MEM_FENCE);  // for a_fetch (a_fetch_rule rev-depends on \
insn_k_outer_k_inner_update)
    a_fetch[16 * ((k_outer + 1) % 2) + 4 * lid(1) + lid(0)] = a_fetch_ahead;
    b_fetch[16 * ((k_outer + 1) % 2) + 4 * lid(1) + lid(0)] = b_fetch_ahead;
    a_fetch_ahead = a[128 * gid(1) + 32 * lid(1) + 4 * k_outer + lid(0) + 8];
    b_fetch_ahead = b[128 * k_outer + 32 * lid(1) + 4 * gid(0) + lid(0) + 256];
    for (int k_inner = 0; k_inner < 4; ++k_inner)
      acc_k_outer_k_inner += a_fetch[16 * (k_outer % 2) + 4 * lid(1) + k_inner] * \
b_fetch[16 * (k_outer % 2) + 4 * k_inner + lid(0)];
  }
"""


def test_the_steady_state_has_one_barrier_and_no_condition() -> None:
    knl = lp.pipeline(product(tile=4), "k_outer", stages=2, fetches="a_fetch,b_fetch")
    code = lp.generate_body(lp.fix_parameters(knl, n=32))
    assert STEADY in code
    prologue, steady, epilogue = re.split(r"for \(int k_outer =", code)
    assert [part.count("barrier(") for part in (prologue, steady, epilogue)] == [0, 1, 1]
    assert "a[" in prologue
    assert "a[" not in epilogue


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 7, 8, 33])
def test_products_are_right_on_the_host(stages: int, size: int) -> None:
    a, b = np.random.default_rng(1).random((2, size, size))
    plain = product(lp.ExecutableCTarget(), np.float64)
    ahead = lp.pipeline(plain, "k_outer", stages=stages, fetches="a_fetch,b_fetch")
    assert_same_results(plain, ahead, {"a": a, "b": b})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [3, 20])
def test_products_are_right_on_opencl(opencl_queue: Any, dtype: Any, depth: int) -> None:
    knl = lp.pipeline(product(lp.PyOpenCLTarget(), dtype, depth=depth), "k_outer", 3)
    for size in (1, 8, 33):
        a, b = np.random.default_rng(1).random((2, size, size)).astype(dtype)
        _, (c,) = knl(opencl_queue, a=a, b=b)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)


@pytest.mark.parametrize("stages", [2, 3])
def test_each_load_and_store_runs_once_and_in_order(stages: int) -> None:
    knl = kernel_of(lp.pipeline(product(tile=2, depth=2), "k_outer", stages))
    for size in (1, 2, 5):
        lowered = lower(knl)
        Oracle(lowered.kernel, {"n": size}).check(lowered.functions)


def test_a_pipeline_is_proved_to_compute_the_same() -> None:
    report = lp.verify(lp.pipeline(product(), "k_outer", stages=3))
    assert report.ok
    assert not report.unknown, report


def test_each_barrier_of_a_pipeline_is_needed() -> None:
    knl = lp.fix_parameters(lp.pipeline(product(tile=4), "k_outer", stages=2), n=32)
    kernel = prepare(kernel_of(knl))
    mutants = list(without_barriers(schedule_kernel(kernel)))
    assert mutants
    assert all(next(find_unsynchronized(kernel, mutant), None) for _, mutant in mutants)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("(k + 1) % 2", "k % 2"), ("a[k + 1,", "a[k,"), ("(k + 1) % 2, x] = a[k + 1", "0, x] = a[k")],
)
def test_a_faulty_pipeline_is_found(wrong: str, right: str) -> None:
    kernel = kernel_of(lp.pipeline(rows(), "k", 2))
    fill = kernel.id_to_insn["a_fetch_rule"]
    place, value = (
        p.strip() for p in str(fill).partition("  {")[0].replace(wrong, right).split("=")
    )
    changed = fill.copy(assignee=lp.symbolic.parse(place), expression=lp.symbolic.parse(value))
    others = [changed if insn is fill else insn for insn in kernel.instructions]
    assert not lp.verify(kernel.copy(instructions=others)).ok


def test_without_work_items_nothing_is_staged() -> None:
    assert instructions(lp.pipeline(rows(), "k", 3, "a_fetch_rule")) == [
        "k_prologue,x_prologue: a_fetch[k_prologue % 3, x_prologue] = a[k_prologue, x_prologue]",
        "k,x: a_fetch[(k + 2) % 3, x] = a[k + 2, x]",
        "i,k: b[k, i] = a_fetch[k % 3, 7 - i]",
    ]


@pytest.mark.parametrize("domain", ["0 <= k < n", "1 <= k < n - 1", "2 <= k and m <= k < n"])
@pytest.mark.parametrize("stages", [2, 4])
def test_loops_start_and_end_anywhere(domain: str, stages: int) -> None:
    knl = rows(domain=domain)
    for size in range(1, 7):
        data = {"a": np.random.default_rng(size).random((size, 8)), "b": np.zeros((size, 8))}
        more = {"m": 3} if "m" in domain else {}
        assert_same_results(knl, lp.pipeline(knl, "k", stages), {**data, **more})


@pytest.mark.parametrize("size", [2, 4, 6])
def test_loops_of_fixed_length_may_be_shorter_than_the_pipeline(size: int) -> None:
    plain = lp.fix_parameters(product(lp.ExecutableCTarget(), np.float64, tile=2, depth=2), n=size)
    a, b = np.random.default_rng(1).random((2, size, size))
    assert_same_results(plain, lp.pipeline(plain, "k_outer", 4), {"a": a, "b": b})
    assert lp.verify(lp.pipeline(plain.copy(target=DEVICE), "k_outer", 4)).ok


def test_one_stage_changes_nothing() -> None:
    knl = rows()
    assert lp.pipeline(knl, "k", stages=1) == knl


def test_strides_of_work_items_are_registers() -> None:
    knl = kernel_of(lp.pipeline(product(tile=4, depth=8), "k_outer", 2))
    assert knl.temporary_variables["a_fetch_ahead"].shape == (2,)
    assert str(knl.temporary_variables["a_fetch"].dim_tags[0]) == "N2:stride:32"
    assert lp.verify(knl).ok


def test_buffers_are_aligned() -> None:
    knl = lp.add_padding(product(tile=4), "a_fetch", 0, 20)
    knl = lp.align_temporaries(lp.add_dtypes(knl, {"a_fetch": np.float32}), "a_fetch", 32)
    tags = kernel_of(lp.pipeline(knl, "k_outer", 2)).temporary_variables["a_fetch"].dim_tags
    assert [tag.stride for tag in tags] == [24, 5, 1]


def test_triangles_start_where_their_rows_do(opencl_queue: Any) -> None:
    knl = lp.make_kernel(
        "{ [i, j, k]: 0 <= i, j < n and i <= k < n }",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float64, shape="n, n"), "..."],
        assumptions="n >= 1",
        target=lp.PyOpenCLTarget(),
    )
    for name, axis in (("i", 1), ("j", 0)):
        knl = lp.split_iname(knl, name, 4, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    knl = lp.add_prefetch(lp.split_iname(knl, "k", 4), "a", ["i_inner", "k_inner"])
    knl = lp.pipeline(knl, "k_outer", 2)
    a, b = np.random.default_rng(1).random((2, 21, 21))
    _, (c,) = knl(opencl_queue, a=a, b=b)
    np.testing.assert_allclose(c, np.triu(a) @ b)


def test_work_items_have_loops_of_different_lengths() -> None:
    knl = lp.make_kernel(
        ["{ [i]: 0 <= i < 8 }", "{ [k]: 0 <= k < n - i }", "{ [x]: 0 <= x < 4 }"],
        "<> t[x] = a[i + k, x] {id=f, inames=i:k:x}\nb[i, k] = t[0] + t[3] {dep=f, inames=i:k}",
        [lp.GlobalArg("a", np.float64, shape="n, 4"), lp.GlobalArg("b", np.float64), "..."],
        assumptions="n >= 8",
        target=DEVICE,
    )
    knl = lp.pipeline(lp.tag_inames(knl, "i:l.0"), "k", 3)
    assert not lp.verify(knl).violated
    for size in (8, 9):
        lowered = lower(kernel_of(knl))
        Oracle(lowered.kernel, {"n": size}).check(lowered.functions)


# -- what is rejected ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loop", "stages", "fetches", "text"),
    [
        ("k_outr", 2, None, "no iname 'k_outr'"),
        ("i_outer", 2, None, "tagged 'g.1'"),
        ("k_outer", 0, None, "from one to 1024 stages, not 0"),
        ("k_outer", 10**30, None, "from one to 1024 stages"),
        ("k_outer", 2, "c_fetch", "no fetch 'c_fetch'"),
        ("k_outer", 2, (), "'fetches' names nothing"),
        ("k_outer", 2, ",", "'fetches' names nothing"),
        ("k_outer", 2, {}, "'fetches' names nothing"),
        ("k_inner", 2, "a_fetch", "'a_fetch_rule' fills it outside the loop"),
        ("k_inner", 2, None, "nothing is fetched in loop 'k_inner'"),
    ],
)
def test_what_cannot_be_meant(loop: str, stages: int, fetches: Any, text: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(text)):
        lp.pipeline(product(), loop, stages, fetches)


def in_rows(text: str, domain: str = "0 <= k < n") -> lp.TranslationUnit:
    return lp.make_kernel(
        f"{{ [k, i, j]: {domain} and 0 <= i, j < 8 }}",
        text,
        [
            lp.GlobalArg("a, b", np.float64, shape="n + 1, 8"),
            lp.GlobalArg("p", np.int32, shape="n"),
            "...",
        ],
    )


@pytest.mark.filterwarnings("ignore:.*overwrite each other")
@pytest.mark.parametrize(
    ("text", "because"),
    [
        (
            "<> t[j] = a[k, j] {id=f, dep=*}\na[k + 1, i] = t[i] {id=w, dep=f}",
            "writes 'a[k + 1, i]' at k = 0, and 'f' reads 'a[k, j]' at k = 1",
        ),
        ("<> t[i] = a[k, i] {id=f}\nb[k, i] = t[i] {dep=f}", "which may be inside 'k'"),
        (
            "<> t[j] = a[k, j] {id=f}\nb[0, 0] = t[0] {dep=f, inames=}",
            "reads it outside the loop",
        ),
        (
            "<> t[j] = a[k, j] {id=f, if=j < 7}\nb[k, i] = t[i] {dep=f}",
            "is not filled in the same iteration",
        ),
        ("<int> m = p[k]\n<> t[j] = a[m, j] {id=f}\nb[k, i] = t[i] {dep=f}", "through 'm'"),
        (
            "for k\n<> t[j] = a[k, j]\nb[k, i] = t[i] {id=w}\n... gbarrier {dep=w}\nend",
            "ends the launch",
        ),
    ],
)
def test_fetches_that_cannot_run_ahead(text: str, because: str) -> None:
    with pytest.raises(lp.KgenError, match=re.escape(because)):
        lp.pipeline(in_rows(text), "k", 2, "t")


def test_a_loop_with_gaps_is_rejected() -> None:
    knl = in_rows("<> t[j] = a[k, j] {id=f}\nb[k, i] = t[i] {dep=f}", "0 <= k < n and k mod 2 = 0")
    with pytest.raises(lp.KgenError, match="the loop skips 1"):
        lp.pipeline(knl, "k", 2)


def test_a_write_behind_the_fetch_may_stay() -> None:
    knl = in_rows("<> t[j] = a[k, j] {id=f, dep=*}\na[k, i] = 2*t[7 - i] {id=w, dep=f}")
    report = lp.verify(lp.pipeline(knl, "k", 3, "t"))
    assert report.ok
    assert not [finding for finding in report.unknown if finding.check == "origin"]


def test_work_items_store_what_they_have_loaded() -> None:
    knl = lp.make_kernel(
        "{ [k, l]: 0 <= k < n and 0 <= l < 8 and 3 - k <= l }",
        "t[l] = a[k, l] {id=f}\nb[k, l] = t[l] {dep=f}",
        [
            lp.GlobalArg("a, b", np.float64, shape="n, 8"),
            lp.TemporaryVariable("t", np.float64, shape=8, address_space=lp.AddressSpace.LOCAL),
            "...",
        ],
        target=DEVICE,
    )
    with pytest.raises(lp.KgenError, match="starts at 0 or 2, depending on the tile"):
        lp.pipeline(lp.tag_inames(knl, "l:l.0"), "k", 2)


def test_tiles_of_tiles_keep_the_condition_on_sizes_that_both_have() -> None:
    knl = lp.make_kernel(
        "{ [i, k]: 0 <= i < m - 1 and 0 <= k < 8 }",
        "out[k, i] = a[k % 3]",
        [lp.GlobalArg("a", "int32", shape="3"), lp.GlobalArg("out", "int32", shape="8, m"), "..."],
        target=lp.ExecutableCTarget(),
        loop_priority="k, i",
        assumptions="m >= 0",
    )
    knl = lp.split_iname(knl, "k", 4)
    settings: Any = {"default_tag": None, "fetch_bounding_box": True}
    knl = lp.add_prefetch(knl, "a", "k_inner", fetch_outer_inames="k_outer", **settings)
    knl = lp.add_prefetch(knl, "a", "a_dim_0", fetch_outer_inames=(), **settings)
    knl = lp.pipeline(knl, "k_outer", 2, "a_fetch")
    for m in (0, 1, 4):
        (out,) = knl(a=np.array([5, 6, 7], np.int32), m=m, out=np.zeros((8, m), np.int32))[1]
        assert all((out[k, : m - 1] == 5 + k % 3).all() for k in range(8) if m)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_fewer_tiles_ahead_than_buffers(n: int) -> None:
    knl = lp.pipeline(rows(), "k", 4, ahead=1)
    assert "a_fetch[(k + 1) % 4, x] = a[k + 1, x]" in str(kernel_of(knl).instructions[1])
    a = np.random.default_rng(1).random((n, 8))
    assert_same_results(rows(), knl, {"a": a})


@pytest.mark.parametrize("ahead", [0, 4])
def test_tiles_ahead_that_have_no_buffer(ahead: int) -> None:
    error = f"with 4 stages, tiles can be fetched 1 to 3 iterations ahead, not {ahead}"
    with pytest.raises(lp.KgenError, match=error):
        lp.pipeline(rows(), "k", 4, ahead=ahead)


# -- windows --------------------------------------------------------------------------------------


def sliding(target: Any = DEVICE, domain: str = "0 <= z < n") -> lp.TranslationUnit:
    """Differences along two axes, of planes that stay in local memory as a loop moves on."""
    knl = lp.make_kernel(
        f"{{ [z, x]: {domain} and 0 <= x < 8 }}",
        "b[z, x] = a[z + 2, x] - a[z, x + 1] + 2*a[z, x]",
        [lp.GlobalArg("a, b", np.float32, shape="n + 2, 9"), "..."],
        assumptions="1 <= n <= 1000",
        target=target,
    )
    knl = lp.tag_inames(knl, "x:l.0")
    space = lp.AddressSpace.LOCAL
    return lp.add_prefetch(knl, "a", "x", "p, q", window="z", temporary_address_space=space)


AHEAD = """\
  for (int z = 0; z < 13; ++z)
  {
    barrier(CLK_LOCAL_MEM_FENCE);  // for a_fetch (a_fetch_rule rev-depends on insn)
    a_fetch[9 * ((z + 4) % 5) + lid(0)] = a_fetch_ahead[0];
"""


def test_a_window_gets_more_planes() -> None:
    knl = lp.pipeline(sliding(), "z", stages=3)
    assert kernel_of(knl).temporary_variables["a_fetch"].shape == (5, 9)
    code = lp.generate_body(lp.fix_parameters(knl, n=16))
    assert AHEAD in code


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("domain", ["0 <= z < n", "z mod 1 = 0 and 0 <= z < n", "3 <= z < n"])
def test_windows_ahead_are_right_on_the_host(stages: int, domain: str) -> None:
    plain = sliding(lp.ExecutableCTarget(), domain)
    knl = lp.pipeline(plain, "z", stages, "a_fetch")
    for n in (1, 2, 4, 9):
        a = np.random.default_rng(n).random((n + 2, 9), np.float32)
        (b,), (expected,) = knl(a=a)[1], plain(a=a)[1]
        np.testing.assert_array_equal(b, expected)
    assert lp.verify(knl).raise_if_violated().ok


@pytest.mark.parametrize(
    ("read", "because"),
    [
        ("t[(k + 1) % 2, 7 - i]", "may read an element .* that is not filled by then"),
        ("t[(2*k) % 2, i]", "do not move through it at the same rate"),
        ("t[(k - s[k]) % 2, i]", "do not move through it at the same rate"),
        ("t[(k - n) % 2, i]", "is not bounded"),
    ],
)
def test_a_circular_buffer_that_is_read_otherwise(read: str, because: str) -> None:
    knl = lp.make_kernel(
        "{ [k, i, j]: 0 <= k < n and 0 <= i, j < 8 }",
        f"t[k % 2, j] = a[k, j] {{id=fill}}\nb[k, i] = {read} {{dep=fill}}",
        [
            lp.TemporaryVariable("t", np.float64, shape=(2, 8)),
            lp.GlobalArg("a, b", np.float64, shape="n, 8"),
            lp.GlobalArg("s", np.int32, shape="n"),
            "...",
        ],
        assumptions="n >= 1",
    )
    with pytest.raises(lp.TransformError, match=because):
        lp.pipeline(knl, "k", 2, "t")
