"""Exchanges of lanes below conditions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pymbolic.primitives as p
import pytest

import kgen as lp
from kgen.ast.nodes import If, Node
from kgen.ast.verify import verify_lanes
from kgen.ir.tree import map_children
from kgen.lowering import lower
from tests.transforms.helpers import kernel_of


def short_rows() -> lp.TranslationUnit:
    """A sum over four lanes of the seven that another loop has."""
    knl = lp.make_kernel(
        "{ [i, q, r]: 0 <= i < 8 and 0 <= q < 4 and 0 <= r < 7 }",
        "s[i] = sum(q, a[i, q])\nb[i, r] = 2*c[i, r]",
        [
            lp.GlobalArg("a", np.float32, shape="8, 4"),
            lp.GlobalArg("b, c", np.float32, shape="8, 7"),
            lp.GlobalArg("s", np.float32, shape="8"),
            "...",
        ],
        target=lp.CudaTarget(),
    )
    return lp.tag_inames(knl, "i:g.0, q:l.0, r:l.0")


def test_a_row_of_lanes_may_be_what_a_condition_leaves() -> None:
    code = lp.generate_body(short_rows())
    assert "if (lid(x) < 4)" in code
    assert "__shfl_xor_sync(kgen_lanes_of_row_uint32(15, 28), acc_q, 2)" in code
    assert lp.verify(short_rows()).ok


def test_a_condition_within_a_row_is_rejected() -> None:
    def shorter(node: Node) -> Node:
        node = map_children(node, shorter)
        if isinstance(node, If) and "< 4" in str(node.condition):
            assert isinstance(node.condition, p.Comparison)
            node = dataclasses.replace(node, condition=dataclasses.replace(node.condition, right=3))
        return node

    lowered = lower(kernel_of(short_rows()))
    (function,) = lowered.functions
    verify_lanes(lowered.kernel, function)
    changed = dataclasses.replace(function, body=shorter(function.body))
    with pytest.raises(lp.KgenError, match="is not the same"):
        verify_lanes(lowered.kernel, changed)
