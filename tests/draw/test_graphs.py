"""Schedules as trees, and instructions as graphs."""

from __future__ import annotations

import sys

import pytest

import kgen as lp
from kgen.draw.graphs import TreeNode
from tests.draw.kernels import stencil


def kinds(node: TreeNode) -> object:
    return (node.kind, *map(kinds, node.children)) if node.children else node.kind


def test_tree_of_a_schedule() -> None:
    (root,) = lp.draw.schedule(stencil()).roots
    fetch = ("bind", ("for", ("for", "run")))
    assert kinds(root) == ("launch", ("bind", fetch, "barrier", ("bind", "run")))


def test_loops_on_the_host_are_in_the_tree() -> None:
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < m and 0 <= i, j < 8 }",
        """
        for t
            for i
                a[i] = b[i] + 1 {id=one, dep=*}
            end
            ... gbarrier {id=wait, dep=one}
            for j
                b[j] = a[7 - j] {dep=wait}
            end
        end
        """,
        [lp.GlobalArg("a, b", "float32", shape=8), ...],
        target=lp.OpenCLTarget(),
    )
    tree = lp.draw.schedule(lp.tag_inames(knl, "i:g.0, j:g.0"))
    (loop,) = tree.roots
    assert (loop.kind, loop.label) == ("host", "for t")
    assert [child.kind for child in loop.children] == ["launch", "launch"]
    assert [depth for depth, _, node in tree.rows() if node.kind == "launch"] == [1, 1]


def test_graph_leaves_out_what_follows() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 8 }",
        "<> x = a[i] {id=x}\n<> y = x + 1 {id=y}\nb[i] = x*y {id=z}",
        [lp.GlobalArg("a", "float32", shape=8), ...],
    )
    nodes = {node.insn_id: node for node in lp.draw.dependences(knl).nodes}
    assert [node.layer for node in nodes.values()] == [0, 1, 2]
    assert nodes["z"].depends_on == ("y",)
    assert nodes["z"].inames == ("i",)


def test_without_matplotlib_notebooks_show_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    picture = lp.draw.schedule(stencil())
    assert picture._repr_html_().startswith("<pre>launch kgen_kernel\n└─ bind i_outer")
    assert "└─ for i" in lp.report(lp.make_kernel("{ [i]: 0 <= i < 4 }", "a[i] = i")).html


def test_roofline() -> None:
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", [lp.GlobalArg("a", "float32"), ...],
        target=lp.CTarget(),
    )  # fmt: skip
    host = lp.Device(name="host", bandwidth=1e10, cache_bandwidth=1e11, flops={"float32": 1e11})
    found = lp.roofline(unit, {"n": 1000}, host)
    (point,) = lp.draw.roofline(found).points
    assert (point.intensity, point.is_measured) == (0.125, False)
    assert point.rate == 1000 / found.predicted_s
    assert str(lp.draw.roofline([found])) == str(found)
