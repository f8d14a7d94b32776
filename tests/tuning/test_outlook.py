"""What is known of configurations before they are compiled."""

from __future__ import annotations

import math

import kgen as lp
from kgen.tuning import SearchSpace, make_strategy
from kgen.tuning.outlook import Outlook, Outlooks
from kgen.tuning.task import Problem, Task

LIMITS = lp.Device(
    name="model",
    bandwidth=1e12,
    cache_bandwidth=4e12,
    local_bandwidth=8e12,
    item_rate=None,
    flops={"float32": 1e13, "float64": 5e12},
    overhead=1e-6,
)
PRODUCT = lp.make_kernel(
    "{ [i, j, k]: 0<=i,j,k<n }",
    "c[i, j] = sum(k, a[i, k]*b[k, j])",
    [lp.GlobalArg("a, b, c", "float32", shape="n, n"), ...],
    target=lp.PyOpenCLTarget(),
    assumptions="n mod 64 = 0 and n >= 1",
    name="product",
)


def build(width: int, height: int, depth: int, fetch: str) -> lp.TranslationUnit:
    knl = lp.split_iname(PRODUCT, "i", height, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", width, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", depth)
    if fetch == "both":
        knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], default_tag="l.auto")
        knl = lp.add_prefetch(knl, "b", ["k_inner", "j_inner"], default_tag="l.auto")
    if fetch == "never":
        raise ValueError(fetch)
    return knl


SPACE = SearchSpace(
    {
        "width": [4, 16, 32],
        "height": [4, 16],
        "depth": [8, 16],
        "fetch": ["none", "both", "never"],
    }
)
OUTLOOKS = Outlooks(Task(build=build, problem=Problem({"n": 1024}), limits=LIMITS), SPACE)


def row(width: int, height: int, fetch: str) -> int:
    found = SPACE.row({"width": width, "height": height, "depth": 16, "fetch": fetch})
    assert found is not None
    return found


def test_parameters_are_grouped_by_what_they_change() -> None:
    assert OUTLOOKS.groups() == [["width", "height"], ["fetch"], ["depth"]]
    groups = make_strategy("orthogonal", SPACE, groups=OUTLOOKS.groups())
    assert groups.ask() is not None


def test_traffic_and_occupancy_decide_what_is_first() -> None:
    first = sorted(range(len(SPACE)), key=OUTLOOKS.priority)
    assert SPACE[first[0]]["width"] >= 16
    assert OUTLOOKS.priority(row(4, 4, "both")) > OUTLOOKS.priority(row(16, 16, "both"))
    assert OUTLOOKS.bound(row(4, 4, "both")) == OUTLOOKS.bound(row(16, 16, "both")) > 0


def test_what_has_no_kernel_is_last_and_not_pruned() -> None:
    assert OUTLOOKS.priority(row(16, 16, "never")) == math.inf
    assert OUTLOOKS.bound(row(16, 16, "never")) == 0
    strategy = make_strategy("heuristic", SPACE, priority=OUTLOOKS.priority)
    assert [SPACE[k]["fetch"] for k in list(iter(strategy.ask, None))[-12:]] == 12 * ["never"]


def test_memory_leaves_fewer_work_groups() -> None:
    assert Outlook(items=(256,), local=200_000).expected_s > Outlook(items=(256,)).expected_s
    assert Outlook(items=(256,), private=800).expected_s > 1
    assert Outlook(items=(1024,), private=4000).expected_s == math.inf
