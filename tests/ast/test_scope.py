"""Code reads the variables of loops only inside of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import kgen as lp
from kgen.ast.nodes import DeviceFunction, For, Node
from kgen.ast.scope import check_loops_around
from kgen.ir.tree import map_children
from kgen.lowering import Lowered, lower
from tests.transforms.helpers import kernel_of


def two_launches() -> Lowered:
    """Two launches over i: the first is in a host loop t, with a loop j inside."""
    knl = lp.make_kernel(
        "{ [t, i, j]: 0 <= t < m and 0 <= i < n and 0 <= j < 4 }",
        """
        a[i, j] = a[i, j] + t           {id=one, inames=t:i:j}
        ... gbarrier                    {id=g, inames=t, dep=one}
        b[i] = i                        {id=two, inames=i, dep=g}
        """,
        [lp.GlobalArg("a", "float32", shape="n, 4"), lp.GlobalArg("b", "float32"), ...],
        target=lp.OpenCLTarget(),
    )
    return lower(kernel_of(lp.tag_inames(knl, "i:g.0")))


def without_loop(node: Node) -> Node:
    return node.body if isinstance(node, For) else map_children(node, without_loop)


CHANGES: dict[str, Callable[[DeviceFunction, DeviceFunction], list[DeviceFunction]]] = {
    "'j'": lambda one, two: [replace(one, body=without_loop(one.body)), two],
    "'t'": lambda one, two: [one, replace(two, arguments=(*two.arguments, "t"))],
}


@pytest.mark.parametrize("loop", CHANGES)
def test_a_variable_that_is_read_outside_of_its_loop_is_found(loop: str) -> None:
    found = two_launches()
    check_loops_around(found.whole, found.kernel, found.schedule, found.functions)
    changed = CHANGES[loop](*found.functions)
    with pytest.raises(lp.CodegenError, match=f"reads loop variable {loop} outside of its loop"):
        check_loops_around(found.whole, found.kernel, found.schedule, changed)
