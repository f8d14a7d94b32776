"""Temporaries that work-items hold together in registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.ir.fragments import TENSOR_SHAPES, Fragment
from kgen.ir.tags import LocalInameTag
from tests.cuda_host import HostCuda
from tests.transforms.helpers import kernel_of

CUDA = lp.CudaTarget()
#: Two products, of which the second takes what the first made, and a maximum of each row.
CHAIN = """
for i
    s[i, j] = sum(d, cast(np.float32, a[i, d])*cast(np.float32, b[j, d]))  {id=first}
    <float32> top = max(l, s[i, l])  {id=top, dep=first}
    w[i, j] = s[i, j] - top  {id=between, dep=top}
    out[i, e] = sum(jj, cast(np.float32, w[i, jj])*cast(np.float32, c[jj, e])) \
{id=second, dep=between}
end
"""


def pairs(read: str, more: str = "", target: Any = CUDA) -> lp.TranslationUnit:
    """Return a kernel whose work-items keep pairs of numbers, and read them again."""
    knl = lp.make_kernel(
        ["{ [i, j, lane]: 0 <= i < 4 and 0 <= j < 2 and 0 <= lane < 4 }", "{ [x]: 0 <= x < 2 }"],
        f"""
        t[8*i + 2*lane + j] = a[8*i + 2*lane + j]  {{id=write}}
        out[8*i + 2*lane + j] = {read}  {{id=read, dep=write}}
        {more}
        """,
        [
            lp.GlobalArg("a", np.float32, shape=32),
            lp.GlobalArg("out", np.float32, shape=32),
            lp.TemporaryVariable("t", np.float32, shape=32),
            "...",
        ],
        target=target,
    )
    knl = knl if more else lp.remove_unused_inames(knl)
    return lp.tag_inames(
        knl, {"i": "unr", "j": "unr", "lane": "l.0"} | ({"x": "l.1"} if more else {})
    )


def chain(target: Any = CUDA, text: str = CHAIN, *, is_held: bool = True) -> lp.TranslationUnit:
    """Return two products, one behind the other, of a warp whose lanes are on two axes."""
    knl = lp.make_kernel(
        "{ [i, j, l, jj, d, e]: 0 <= i, j, l, jj, d < 16 and 0 <= e < 8 }",
        text,
        [
            lp.GlobalArg("a, b, c", np.float16, shape=lp.auto),
            lp.GlobalArg("out", np.float32, shape=lp.auto),
            lp.TemporaryVariable("s", np.float32, shape=(16, 16)),
            lp.TemporaryVariable("w", np.float16, shape=(16, 16)),
            "...",
        ],
        target=target,
    )
    knl = lp.split_iname(knl, "j", 8, inner_iname="j_mma", outer_tag="ilp")
    knl = lp.split_iname(
        lp.split_iname(knl, "l", 8, outer_tag="unr"), "l_inner", 2, inner_tag="unr"
    )
    knl = lp.tag_inames(knl, "l_inner_outer: l.0")
    knl = lp.tensorize(knl, "first", "i, j_mma, d", lane="group, pair")
    knl = lp.tensorize(knl, "second", "i, e, jj")
    return lp.distribute_temporaries(knl, "s, w") if is_held else knl


def operands() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {"a": (16, 16), "b": (16, 16), "c": (16, 8)}
    return {name: rng.integers(-2, 3, shape).astype(np.float16) for name, shape in shapes.items()}


def expected(given: dict[str, Any]) -> Any:
    a, b, c = (given[name].astype(np.float32) for name in "abc")
    scores = a @ b.T
    return (scores - scores.max(axis=1, keepdims=True)) @ c


def test_elements_are_in_registers() -> None:
    knl = lp.distribute_temporaries(pairs("2*t[8*i + 2*lane + j]"), "t")
    temporary = kernel_of(knl).temporary_variables["t"]
    assert temporary.shape == (4, 4, 2)
    assert temporary.distribution == (None, 0, None)
    code = lp.generate_body(knl)
    assert "  float t[8];" in code
    assert "shared" not in code
    assert lp.verify(knl).ok


@pytest.mark.parametrize(
    ("read", "because"),
    [
        ("t[8*i + 2*(3 - lane) + j]", "is held by the work-item '3 - lane' along l.0"),
        ("t[8*i + j]", "is held by the work-item '0' along l.0"),
        ("t[j]", "is held by the work-item '0' along l.0"),
    ],
)
def test_elements_of_others_are_rejected(read: str, because: str) -> None:
    with pytest.raises(lp.TransformError, match=because.replace("(", r"\(")):
        lp.distribute_temporaries(pairs(read), "t")


@pytest.mark.parametrize("index", ["3 - lane", "lane // 2", "b[lane]"])
def test_elements_of_work_items_in_no_order_are_rejected(index: str) -> None:
    knl = lp.make_kernel(
        "{ [lane]: 0 <= lane < 4 }",
        [f"t[{index}] = a[lane]", f"out[lane] = t[{index}]"],
        [lp.GlobalArg("b", np.int32), lp.TemporaryVariable("t", np.float32, shape=4), ...],
        target=CUDA,
    )
    with pytest.raises(lp.TransformError, match="cannot hold 't' in registers"):
        lp.distribute_temporaries(lp.tag_inames(knl, "lane: l.0"), "t")


def test_work_items_that_share_elements_are_rejected() -> None:
    """Only some work-items along l.1 may write what all of them read."""
    knl = pairs("t[8*i + 2*lane + j]", "c[x] = 1")
    with pytest.raises(lp.TransformError, match=r"all work-items along l\.1 would hold"):
        lp.distribute_temporaries(knl, "t")


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"address_space": lp.AddressSpace.GLOBAL}, "global memory"),
        ({"base_storage": "other"}, "shares its storage"),
    ],
)
def test_other_storage_is_rejected(change: dict[str, Any], because: str) -> None:
    kernel = kernel_of(pairs("t[8*i + 2*lane + j]"))
    changed = kernel.with_declarations({"t": kernel.temporary_variables["t"].copy(**change)})
    with pytest.raises(lp.TransformError, match=because):
        lp.distribute_temporaries(changed, "t")


def test_no_loop_over_work_items() -> None:
    knl = lp.untag_inames(pairs("t[8*i + 2*lane + j]"), "lane", LocalInameTag)
    with pytest.raises(lp.TransformError, match=r"uses a loop tagged l\.N"):
        lp.distribute_temporaries(knl, "t")


def test_loops_that_change_later_are_found() -> None:
    """What work-items hold is looked at again before code is written."""
    knl = lp.distribute_temporaries(pairs("t[8*i + 2*lane + j]"), "t")
    with pytest.raises(lp.ScheduleError, match="cannot hold 't' in registers"):
        lp.generate_body(lp.split_iname(lp.untag_inames(knl, "lane", LocalInameTag), "lane", 2))


# -- products ------------------------------------------------------------------------------------


def test_a_product_feeds_the_next_one_in_registers(tmp_path: Path) -> None:
    knl, given = chain(), operands()
    code = lp.generate_body(knl)
    assert "{kgen_pair(w[0], w[1]), kgen_pair(w[4], w[5])," in code
    assert code.count("__shfl_xor_sync") == 4  # of two rows
    assert "__syncthreads" not in code
    out = np.full((16, 8), np.nan, np.float32)
    assert HostCuda(knl, tmp_path)({**given, "out": out}, resident=2)
    np.testing.assert_array_equal(out, expected(given))


def test_no_finding_of_verify_is_violated() -> None:
    report = lp.verify(chain())
    assert not report.violated
    assert {finding.check for finding in report.unknown} == {"origin"}


def test_it_may_stay_in_local_memory() -> None:
    code = lp.generate_body(chain(is_held=False))
    assert "__syncwarp();  // for w (second_jj_update depends on between)" in code
    assert "__shared__ __half w[256]" in code


def test_other_targets_have_it_in_memory() -> None:
    given = operands()
    _, (out,) = chain(lp.ExecutableCTarget())(**given)
    np.testing.assert_array_equal(out, expected(given))
    code = lp.generate_body(chain(lp.OpenCLTarget()))
    assert "__local float s[256];" in code
    assert "barrier(" in code


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("lane // 4 + 8*(e // 2 % 2)", "lane % 4 + 4*(e % 2) + 8*(e // 4)"),
        ("lane % 8 + 8*(e // 2 % 2)", "2*(lane // 8) + e % 2 + 8*(e // 4)"),
    ],
)
def test_factors_in_another_layout_are_rejected(
    row: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = TENSOR_SHAPES["m16n8k16", "float16"]
    wrong = replace(shape, a=Fragment(row, column, 8))
    monkeypatch.setitem(TENSOR_SHAPES, (shape.name, shape.operands), wrong)
    with pytest.raises(lp.ScheduleError, match=r"'w\[.*\]' is held by the work-item"):
        lp.generate_body(chain())


def test_the_second_factor_has_another_layout() -> None:
    """Lanes hold neighbouring columns of sums, and neighbouring rows of a second factor."""
    text = CHAIN.replace("w[i, jj]", "c[i, jj]").replace("c[jj, e]", "w[jj, e]")
    knl = chain(text=text, is_held=False)
    with pytest.raises(lp.ScheduleError, match=r"'w\[.*\]' is held by the work-item"):
        lp.generate_body(lp.distribute_temporaries(knl, "w"))
