"""Persistent groups: what belongs to two groups at a time, and when they do not overlap."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ast.nodes import Persistent, print_tree
from kgen.lowering import lower
from tests.cuda_host import HostCuda
from tests.random.device import Device
from tests.targets.support import compile_cuda
from tests.transforms.reductions.test_look_back import integers, on_cuda
from tests.transforms.reductions.test_scan import F64, items, lanes, scanned

GLOBAL, LOCAL = lp.AddressSpace.GLOBAL, lp.AddressSpace.LOCAL


def with_tile(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return a scan whose operands have been fetched."""
    tile: Any = {"temporary_address_space": LOCAL, "default_tag": "l.auto"}
    return lp.add_prefetch(scanned(knl), "a", "j_0, j_1", fetch_outer_inames="i_outer", **tile)


def tree_of(knl: lp.TranslationUnit) -> str:
    (function,) = lower(knl.default_entrypoint).functions
    assert isinstance(function.body, Persistent)
    return print_tree(function.body)


def test_a_group_publishes_before_the_last_one_ends() -> None:
    tree = tree_of(scanned(lanes(on_cuda())))
    begin, end = tree[tree.index("\nbegin") :].split("\nend\n")
    assert "insn_j_publish(" in begin
    assert "look_back" in end
    assert "look_back" not in begin


def test_two_halves_of_local_arrays() -> None:
    code = lp.generate_code_v2(with_tile(items(on_cuda()))).device_code()
    (size,) = re.findall(r"__shared__ double a_fetch\[(\d+)\]", code)
    half = int(size) // 2
    assert f"a_fetch[{half} * kgen_half" in code
    assert re.search(rf"a_fetch\[[^\]]*- {half} \* kgen_half", code)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"kgen_half = kgen_turn % 2", "kgen_half = 0"),  # the other half is read
        (r"(kgen_kept_\w+) = \w+;", r"\1 = 0;"),  # nothing is kept
        (r"kgen_last = kgen_next;", ""),  # the end of another group
        (r"(kgen_seen_\w+) = kgen_own;", r"\1 = 0;"),  # totals are added again
    ],
)
def test_other_code_is_wrong(old: str, new: str, tmp_path: Path) -> None:
    a = integers(300)
    results = []
    for change in (str, lambda code: re.sub(old, new, code)):
        out = np.zeros(300)
        run = HostCuda(with_tile(items(on_cuda())), tmp_path, change)
        run({"a": a, "out": out, "n": 300}, order="first", resident=2, most_groups=2)
        results.append(np.array_equal(out, np.cumsum(a)))
    assert results == [True, False]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_interpreter_runs_both_parts(reverse: bool) -> None:
    lowered = lower(with_tile(items(on_cuda())).default_entrypoint)
    a = integers(30)
    memory: dict[str, Any] = {"a": dict(np.ndenumerate(a)), "out": {}}
    device = Device(lowered.kernel, {"n": 30}, reverse=reverse)
    device.run(lowered.host, lowered.functions, memory)
    assert memory["out"] == dict(np.ndenumerate(np.cumsum(a)))


def test_without_local_memory_for_two_groups_one_ends_first(tmp_path: Path) -> None:
    knl = on_cuda()
    knl = lp.split_iname(knl, "i", 64 * 301, outer_tag="g.0")
    knl = with_tile(lp.split_iname(knl, "i_inner", 301, outer_tag="l.0"))
    assert "\nend" not in tree_of(knl)
    n = 64 * 301 * 4 + 5
    a, out = integers(n), np.zeros(n)
    assert HostCuda(knl, tmp_path)({"a": a, "out": out, "n": n}, order="any", most_groups=2)
    np.testing.assert_array_equal(out, np.cumsum(a))


def test_work_items_that_come_later_are_rejected() -> None:
    knl = on_cuda(
        ["out[i] = sum(j, a[j])", "more[k] = 1"],
        ["{ [i, j]: 0 <= j <= i < n }", "{ [k]: 0 <= k < n }"],
    )
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = scanned(knl)
    knl = lp.split_iname(knl, "k", 128, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lp.KgenError, match="64 work-items look back together"):
        lp.generate_code_v2(knl)


def scan_twice() -> lp.TranslationUnit:
    """Return a scan of the reversed result of a scan, each a launch."""
    text = """
    b[i] = sum(j, a[j])            {id=first, inames=i}
    ... gbarrier                   {id=all, dep=first}
    out[k] = sum(m, b[n - 1 - m])  {dep=all, inames=k}
    """
    domains = ["{ [i, j]: 0 <= j <= i < n }", "{ [k, m]: 0 <= m <= k < n }"]
    data: list[Any] = [lp.TemporaryVariable("b", F64, shape="n", address_space=GLOBAL)]
    data += [lp.GlobalArg("a, out", F64, shape="n"), ...]
    knl = lp.make_kernel(domains, text, data, target=lp.CudaTarget(), assumptions="n >= 1")
    for iname in "ik":
        knl = lp.split_iname(knl, iname, 64, outer_tag="g.0", inner_tag="l.0")
    return scanned(knl)


def test_groups_of_two_launches(tmp_path: Path) -> None:
    a, out = integers(500), np.zeros(500)
    run = HostCuda(scan_twice(), tmp_path)
    assert run({"a": a, "out": out, "n": 500}, most_groups=3)
    np.testing.assert_array_equal(out, np.cumsum(np.cumsum(a)[::-1]))


def test_two_scans_in_a_cooperative_launch(nvcc: str, tmp_path: Path) -> None:
    code = lp.generate_code_v2(lp.set_options(scan_twice(), cooperative=True)).device_code()
    assert (code.count("__global__"), code.count("kgen_turn = 0")) == (1, 2)
    compile_cuda(code, tmp_path, nvcc)
