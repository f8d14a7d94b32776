"""Scans across work-groups in one launch, on threads of the host that begin groups in any order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.kernel import LoopKernel
from kgen.ir.language.expressions import parse
from kgen.ir.sets.text import parse_domain
from kgen.ir.tags import LookBackTag, PublishTag
from tests.cuda_host import HostCuda
from tests.targets.support import compile_cuda
from tests.transforms.reductions.test_scan import (
    F64,
    TRIANGLE,
    items,
    kernel,
    lanes,
    lone,
    scanned,
    turns,
    two_axes,
)

CUDA = lp.CudaTarget()
ORDERS = [("last first", 1), ("any", 3), ("first", 2)]


def on_cuda(text: Any = "out[i] = sum(j, a[j])", domains: Any = TRIANGLE) -> lp.TranslationUnit:
    return kernel(text, domains, target=CUDA)


def launches(knl: lp.TranslationUnit) -> int:
    return lp.generate_code_v2(knl).device_code().count("__global__")


def integers(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).integers(0, 10, n).astype(F64)


# -- which scans look back ----------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [lanes, turns, items, lone])
def test_groups_look_back_in_one_launch(schedule: Any) -> None:
    knl = scanned(schedule(on_cuda()))
    assert launches(knl) == 1
    assert lp.verify(knl).ok


def test_work_items_wait_for_groups_of_their_own() -> None:
    code = lp.generate_code_v2(scanned(lanes(on_cuda()))).device_code()
    waiting = code[code.index("  for (; kgen_first") : code.index("  int const kgen_lanes")]
    waiting = waiting.replace("2LL * (kgen_own - kgen_other)", "WORDS")
    assert (
        "\n".join(line.strip() for line in waiting.splitlines()).strip()
        == """for (; kgen_first < kgen_own; kgen_first += 8)
{
int const kgen_other = kgen_first + lid(x);
double other_j_2 = before_j;
double kgen_later_0 = before_j;
if (kgen_other < kgen_own)
while ((kgen_published(&part_j[2 * kgen_group_x + 2], WORDS, &other_j_2)) == 0)
;"""
    )


def test_groups_on_two_axes_have_launches() -> None:
    assert launches(scanned(two_axes(on_cuda()))) == 3


def test_rows_of_work_items_have_launches() -> None:
    knl = on_cuda("out[b, i] = sum(j, a[b, j])", "{[b, i, j]: 0 <= b < 5 and 0 <= j <= i < n}")
    assert launches(scanned(lanes(lp.tag_inames(knl, {"b": "l.1"})))) == 3


def test_groups_that_do_not_follow_each_other_have_launches() -> None:
    domain = "{[b, i, j]: 0 <= b < 5 and 16*b <= i < n and 0 <= j <= i}"
    knl = on_cuda("out[b, i] = sum(j, a[b, j])", domain)
    assert launches(scanned(lanes(lp.tag_inames(knl, {"b": "g.1"})))) == 3


# -- what they compute, in whatever order groups begin --------------------------------------------


def test_sums(tmp_path: Path) -> None:
    run = HostCuda(scanned(items(on_cuda())), tmp_path)
    for n in (0, 1, 24, 25, 1000):
        for order, resident in ORDERS:
            a, out = integers(n), np.zeros(n)
            assert run({"a": a, "out": out, "n": n}, order=order, resident=resident)
            np.testing.assert_array_equal(out, np.cumsum(a))


@pytest.mark.parametrize("schedule", [lanes, turns, items])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_group_runs_several_groups_of_the_kernel(
    schedule: Any, groups: int, tmp_path: Path
) -> None:
    run = HostCuda(scanned(schedule(on_cuda())), tmp_path)
    a, out = integers(1000), np.zeros(1000)
    assert run({"a": a, "out": out, "n": 1000}, order="any", resident=2, most_groups=groups)
    np.testing.assert_array_equal(out, np.cumsum(a))


def test_all_warps_of_a_group_look_back(tmp_path: Path) -> None:
    knl = lp.split_iname(on_cuda(), "i", 96, outer_tag="g.0", inner_tag="l.0")
    run = HostCuda(scanned(knl), tmp_path)
    n = 96 * 230  # the third group of the launch begins with a window of 96 groups and more
    a, out = integers(n), np.zeros(n)
    assert run({"a": a, "out": out, "n": n}, order="first", resident=3, most_groups=3)
    np.testing.assert_array_equal(out, np.cumsum(a))


def test_operations_keep_their_order(tmp_path: Path) -> None:
    knl = on_cuda("scale[i], out[i] = reduce(affine_maps, j, (f[j], a[j]))")
    run = HostCuda(scanned(turns(lp.add_and_infer_dtypes(knl, {"f": F64}))), tmp_path)
    a, f, out, scale = integers(900), integers(900) / 10, np.zeros(900), np.zeros(900)
    expected = np.zeros(900)
    for i in range(900):
        expected[i] = f[i] * expected[i - 1] + a[i]
    assert run({"a": a, "f": f, "out": out, "scale": scale, "n": 900}, order="any")
    np.testing.assert_allclose(out, expected)


def test_operations_keep_their_order_in_windows(tmp_path: Path) -> None:
    def without_memory(code: str) -> str:
        return re.sub(r"if \(kgen_seen_\w+ >= 0\)", "if (false)", code)

    knl = on_cuda("scale[i], out[i] = reduce(affine_maps, j, (f[j], a[j]))")
    knl = scanned(lanes(lp.add_and_infer_dtypes(knl, {"f": F64})))
    n = 200  # 25 groups, of which 8 are a window
    a, f = integers(n), integers(n) / 10
    expected = np.zeros(n)
    for i in range(n):
        expected[i] = f[i] * expected[i - 1] + a[i]
    for change in (without_memory, str):
        run, out, scale = HostCuda(knl, tmp_path, change), np.zeros(n), np.zeros(n)
        given = {"a": a, "f": f, "out": out, "scale": scale, "n": n}
        assert run(given, order="any", most_groups=2)
        np.testing.assert_allclose(out, expected)


def test_each_work_item_looks_back_on_its_own(tmp_path: Path) -> None:
    text = "scale[d, i], out[d, i] = reduce(affine_maps, j, (f[d, j], a[d, j]))"
    knl = on_cuda(text, "{[d, i, j]: 0 <= d < 24 and 0 <= j <= i < n}")
    knl = lp.tag_inames(lp.add_and_infer_dtypes(knl, {"f": F64}), {"d": "l.0", "i": "g.0"})
    knl = scanned(knl)
    run = HostCuda(knl, tmp_path)
    a, f = integers(24 * 40).reshape(24, 40), integers(24 * 40).reshape(24, 40) / 10
    out, scale, expected = np.zeros((24, 40)), np.zeros((24, 40)), np.zeros((24, 40))
    for i in range(40):
        expected[:, i] = f[:, i] * expected[:, i - 1] + a[:, i]
    for order, resident in (("any", 1), ("last first", 2)):
        assert run(
            {"a": a, "f": f, "out": out, "scale": scale, "n": 40}, order=order, resident=resident
        )
        np.testing.assert_allclose(out, expected)
    assert len(run.module.launches) == 1
    assert lp.verify(lp.fix_parameters(knl, n=5)).ok


def test_several_scans_of_rows(tmp_path: Path) -> None:
    text = ["for b, i", "<> s = sum(j, a[b, j])", "out[b, i] = s * max(j, a[b, j])", "end"]
    knl = on_cuda([*text], "{[b, i, j]: 0 <= b < 3 and 0 <= j <= i < n}")
    run = HostCuda(scanned(lanes(lp.tag_inames(knl, {"b": "g.1"}))), tmp_path)
    a = integers(600).reshape(3, 200)
    expected = np.cumsum(a, axis=1) * np.maximum.accumulate(a, axis=1)
    for groups in (1, 3, 75):
        out = np.zeros((3, 200))
        assert run({"a": a, "out": out, "n": 200}, order="any", most_groups=groups)
        np.testing.assert_array_equal(out, expected)


def test_work_items_look_back_together_and_on_their_own(tmp_path: Path) -> None:
    """Scans of which one is along all work-items, the other separate for each of them."""
    text = ["out[i] = sum(j, a[j]) {inames=i}", "odd[i] = sum(r, a[r]) {inames=i}"]
    domains = ["{ [i, j, r]: 0 <= j, r <= i < n and r mod 2 = 0 }"]
    knl = lp.split_iname(on_cuda(text, domains), "i", 4, outer_tag="g.0")
    run = HostCuda(scanned(lp.split_iname(knl, "i_inner", 2, inner_tag="l.0")), tmp_path)
    assert {"kgen_left", "kgen_turn"} <= set(re.findall(r"\w+", run.module.device_source))
    a = integers(50)
    given = {"a": a, "out": np.zeros(50), "odd": np.zeros(50), "n": 50}
    assert run(given, order="any", most_groups=3)
    np.testing.assert_array_equal(given["out"], np.cumsum(a))
    np.testing.assert_array_equal(given["odd"], np.cumsum(np.where(np.arange(50) % 2, 0, a)))


def test_groups_that_are_not_numbered_as_they_begin_wait_for_ever(tmp_path: Path) -> None:
    def fixed(code: str) -> str:
        return code.replace("atomicAdd((unsigned int *) part_j, 1u)", "blockIdx.x")

    run = HostCuda(scanned(lanes(on_cuda())), tmp_path, fixed)
    a, out = integers(100), np.zeros(100)
    assert run({"a": a, "out": out, "n": 100}, order="first", resident=1)
    assert not run({"a": a, "out": out, "n": 100}, order="last first", resident=1)


# -- what is rejected ---------------------------------------------------------------------------


def changed(change: Any, *kinds: type[Any]) -> lp.TranslationUnit:
    """Return a scan with its instructions that have tags of some kinds changed."""
    unit = scanned(lanes(on_cuda()))

    def apply(knl: LoopKernel) -> LoopKernel:
        insns = [
            change(knl, insn) if insn.tags_of_type(kinds) else insn for insn in knl.instructions
        ]
        return knl.copy(instructions=insns)

    return unit.map_kernels(apply)


def test_other_targets_cannot_wait() -> None:
    knl = scanned(lanes(on_cuda())).copy(target=lp.OpenCLTarget())
    with pytest.raises(lp.KgenError, match="groups cannot wait for each other"):
        lp.generate_code_v2(knl)


def test_a_loop_that_looks_back_is_not_split_into_pieces() -> None:
    knl = scanned(lanes(on_cuda()))
    (before,) = [name for name in knl.default_entrypoint.inames if name.endswith("_before")]
    with pytest.raises(lp.KgenError, match="before realize_reduction"):
        lp.split_domain(knl, f"{{ [{before}]: {before} >= 1 }}")


def test_reading_without_waiting_is_a_race() -> None:
    knl = changed(lambda _, insn: insn.copy(tags=frozenset()), LookBackTag)
    with pytest.raises(lp.KgenError, match="requires synchronization by a global barrier"):
        lp.generate_code_v2(knl)


def test_waiting_for_what_nobody_publishes() -> None:
    knl = changed(lambda _, insn: insn.copy(tags=frozenset()), PublishTag)
    with pytest.raises(lp.KgenError, match="does not publish it"):
        lp.generate_code_v2(knl)


def test_waiting_for_later_groups() -> None:
    def late(knl: LoopKernel) -> LoopKernel:
        *domains, last = knl.domains
        text = str(last).replace("i_outer_before < i_outer", "i_outer_before <= i_outer")
        return knl.copy(domains=(*domains, parse_domain(text)))

    with pytest.raises(lp.KgenError, match="begins later"):
        lp.generate_code_v2(scanned(lanes(on_cuda())).map_kernels(late))


def test_publishing_after_waiting() -> None:
    def swapped(knl: LoopKernel, insn: Any) -> Any:
        publish, *_ = [i.id for i in knl.instructions if i.tags_of_type(PublishTag)]
        *_, last = [i.id for i in knl.instructions if i.tags_of_type(LookBackTag)]
        if insn.id == publish:
            return insn.copy(depends_on=insn.depends_on | {last})
        before = knl.id_to_insn[publish].depends_on
        return insn.copy(depends_on=insn.depends_on - {publish} | before)

    with pytest.raises(lp.KgenError, match="only later"):
        lp.generate_code_v2(changed(swapped, PublishTag, LookBackTag))


def test_publishing_under_a_condition() -> None:
    def guarded(_: LoopKernel, insn: Any) -> Any:
        return insn.copy(predicates=frozenset([parse("n > 7")]))

    with pytest.raises(lp.KgenError, match="under a condition"):
        lp.generate_code_v2(changed(guarded, PublishTag))


def test_other_operations_are_found_by_verify() -> None:
    def doubled(_: LoopKernel, insn: Any) -> Any:
        is_read = "part_j" in str(insn.expression)
        return insn.copy(expression=2 * insn.expression) if is_read else insn

    small = changed(doubled, LookBackTag)
    assert not lp.verify(lp.fix_parameters(small, n=40)).ok


def test_the_code_compiles(nvcc: str, tmp_path: Path) -> None:
    knl = on_cuda("out[i], flag[i] = reduce(segmented(sum), j, (a[j], start[j]))")
    knl = lp.add_and_infer_dtypes(knl, {"start": np.int8})
    compile_cuda(lp.generate_code_v2(scanned(turns(knl))).device_code(), tmp_path, nvcc)


def test_loops_inside_of_a_launch_would_publish_again() -> None:
    knl = scanned(lanes(on_cuda(domains=["{[t]: 0 <= t < 3}", TRIANGLE])))
    knl = lp.add_inames_to_insn(knl, "t", "id:*")
    ends = lp.BarrierInstruction(
        "end", within_inames=frozenset("t"), depends_on=frozenset(["insn"])
    )
    knl = knl.map_kernels(lambda k: k.copy(instructions=[*k.instructions, ends]))
    assert launches(knl) == 1
    with pytest.raises(lp.KgenError, match="earlier iteration"):
        lp.generate_code_v2(lp.set_options(knl, cooperative=True))


# -- on a device ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("again", ["bind", "capture"])
def test_words_are_zero_again_in_each_launch(again: str) -> None:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    knl = scanned(items(kernel(target=lp.PyCudaTarget())))
    a = integers(100000)
    there, out = gpuarray.to_gpu(a), gpuarray.zeros(a.size, F64)
    launch = getattr(knl.executor(), again)(a=there, out=out)
    for _ in range(3):
        out.fill(0)
        launch()
        np.testing.assert_array_equal(out.get(), np.cumsum(a))
