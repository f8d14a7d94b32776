"""What `explain` says of loops on the host: threads, lanes, stores past the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.performance.feedback import LaunchFeedback


def explained(
    code: str, domain: str = "{ [i]: 0 <= i < n }", shape: str = "n", tag: str = "l.0", **more: Any
) -> LaunchFeedback:
    arrays = lp.GlobalArg("a, out", np.float32, shape=shape)
    target = lp.ExecutableCTarget(**more)
    knl = lp.make_kernel(domain, code, [arrays, ...], target=target)
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag=tag)
    return lp.explain(knl).launches[0]


@pytest.mark.parametrize(("threads", "axis"), [(None, "gid0: threads"), (2, "gid0: threads")])
def test_work_groups_on_threads(threads: int | None, axis: str) -> None:
    assert explained("out[i] = a[i]", threads=threads).loop("i_outer").hardware == axis


def test_work_groups_of_one_thread() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "out[k[i]] = i",
        [lp.GlobalArg("out", np.float64, shape="n"), lp.GlobalArg("k", np.int32), ...],
        target=lp.ExecutableCTarget(),
    )
    knl = lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    with pytest.warns(lp.WriteRaceConditionWarning):
        (found,) = lp.explain(knl).launches
    assert found.loop("i_outer").hardware == "gid0: a loop"
    assert "depends on data" in str(found.threads)


@pytest.mark.parametrize(
    ("code", "domain", "why"),
    [
        ("out[2*i] = a[2*i]", "{ [i]: 0 <= 2*i < n - 1 }", "do not assign to adjacent"),
        ("out[i] = sum(j, a[j])", "{ [i, j]: 0 <= i, j < n }", "'j' is inside it"),
    ],
)
def test_why_work_items_are_plain_loops(code: str, domain: str, why: str) -> None:
    loop = explained(code, domain).loop("i_inner")
    assert loop.level == "seq"
    assert why in str(loop.because)


def test_work_items_in_lanes_need_no_reason() -> None:
    loop = explained("out[i] = 2*a[i]").loop("i_inner")
    assert (loop.level, loop.because) == ("simd", None)


def stores(code: str, **more: Any) -> str | None:
    launch = explained(code, **more)
    return next(each.streaming for each in launch.accesses if each.direction == "store")


def test_stores_past_the_cache() -> None:
    assert stores("out[i] = a[i]") is None
    for tag in ("vec", "l.0"):
        assert stores("out[i] = a[i] {tags=!streaming_store}", tag=tag) == "past the cache"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("out[n - 1 - i] = a[i] {tags=!streaming_store}", "'i_inner' do not write adjacent"),
        ("out[i] = a[i] {tags=!streaming_store, if=a[i] > 0}", "it is under a condition"),
        ("out[i] = 2*out[i] + a[i] {tags=!streaming_store}", "'out' has other uses in the loop"),
    ],
)
def test_why_stores_go_through_the_cache(code: str, why: str) -> None:
    assert str(stores(code, tag="vec")).startswith("through the cache: ")
    assert why in str(stores(code, tag="vec"))


def test_loops_between_barriers() -> None:
    tile = lp.TemporaryVariable("t", np.float32, shape=16, address_space="local")
    arrays = lp.GlobalArg("a, out", np.float32, shape="n, 16")
    knl = lp.make_kernel(
        "{ [g, i]: 0 <= g < n and 0 <= i < 16 }",
        "t[i] = a[g, i] {id=t}\nout[g, i] = t[15 - i] {dep=t}",
        [arrays, tile, ...],
        target=lp.ExecutableCTarget(),
    )
    loop = lp.explain(lp.tag_inames(knl, "g:g.0, i:l.0")).launches[0].loop("i")
    assert loop.hardware == "lid0: loops between barriers, 2 of 2 in lanes"
