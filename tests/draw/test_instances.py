"""Instances and their order: those of the generated code, interpreted by the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

import kgen as lp
from kgen.draw.instances import Instances
from kgen.lowering import lower
from tests.draw.kernels import product, stencil, transpose, wave
from tests.oracle import BARRIERS, Oracle


def tiled_product() -> lp.TranslationUnit:
    knl = lp.split_iname(product(), "i", 2, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(lp.split_iname(knl, "j", 3), "k", 2)


def triangle() -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= j <= i < n }",
        "a[i, j] = b[j] {id=first}\nc[i, j] = 2*a[i, j] {id=second, dep=first}",
        [lp.GlobalArg("b", "float32"), ...],
        target=lp.CTarget(),
    )
    return lp.split_iname(knl, "i", 3)


@pytest.mark.parametrize(
    ("unit", "sizes"),
    [
        (wave(), {"m": 4, "n": 6}),
        (triangle(), {"n": 7}),
        (stencil(), {"n": 12}),
        (transpose(size=16), {}),
        (tiled_product(), {"n": 5}),
    ],
    ids=["wave", "triangle", "stencil", "transpose", "product"],
)
def test_instances_are_those_of_the_code(
    unit: lp.TranslationUnit, sizes: Mapping[str, int]
) -> None:
    lowered = lower(unit.default_entrypoint)
    oracle = Oracle(lowered.kernel, sizes)
    found: dict[object, list[object]] = {}
    for one in Instances(unit, sizes).in_order:
        point = tuple(one.point[name] for name in oracle.inames[one.insn_id])
        found.setdefault((one.group, one.item), []).append((one.insn_id, point))
    (function,) = lowered.functions
    items = list(itertools.product(*(range(size) for size in function.locals)))
    traces = oracle.traces(function)
    for number, (group, trace) in enumerate(traces):
        ran = [instance for instance in trace if instance[0] not in BARRIERS.values()]
        assert found.pop((group, items[number % len(items)]), []) == ran
    assert not found


def test_what_has_no_type_is_drawn() -> None:
    text = "out[i] = c*a[index[i]]"
    knl = lp.make_kernel("{ [i]: 0 <= i < 4 }", text, [lp.GlobalArg("a", shape=4), ...])
    assert len(lp.draw.iterations(knl).points) == 4
