"""Sets with an order: conditions in the order of their evaluation."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import kgen as lp
from kgen.ir.codec import decode, encode
from kgen.ir.ordered_set import OrderedSet
from tests.transforms.helpers import run


@pytest.mark.parametrize(
    "through",
    [
        copy.deepcopy,
        lambda given: pickle.loads(pickle.dumps(given)),  # noqa: S301
        lambda given: decode(encode(given)),
    ],
)
def test_the_order_stays(through: object) -> None:
    given = OrderedSet(["b", "a", "c"])
    assert callable(through)
    assert list(through(given)) == ["b", "a", "c"]
    assert encode(given) != encode(OrderedSet(["a", "b", "c"]))


def test_operations_of_sets() -> None:
    given = OrderedSet("ba")
    assert list(given | {"d", "a", "c"}) == ["b", "a", "c", "d"]
    assert list(given.union("cb")) == ["b", "a", "c"]
    assert list(given - {"b"}) == list(given & {"a"}) == ["a"]
    assert given == {"a", "b"}
    assert given != OrderedSet("ab")
    assert hash(given) == hash(frozenset("ab"))


def nested(outer: str, inner: str) -> lp.TranslationUnit:
    text = f"for i\nif {outer}\nif {inner}\nout[i] = 1\nelse\nout[i] = 2\nend\nend\nend"
    arrays = [lp.GlobalArg("a", np.float64, shape="m"), lp.GlobalArg("index", np.int32, shape="n")]
    data = [*arrays, lp.GlobalArg("out", np.float64, shape="n"), ...]
    return lp.make_kernel("{ [i]: 0<=i<n }", text, data, target=lp.CTarget())


@pytest.mark.parametrize(
    "changed",
    [
        lambda knl: knl,
        lambda knl: lp.split_iname(knl, "i", 2, inner_tag="unr"),
        lambda knl: lp.split_iname(knl, "i", 2, inner_tag="ilp"),
        lambda knl: lp.rename_argument(knl, "index", "a_index"),
    ],
)
def test_inner_conditions_are_evaluated_if_outer_ones_hold(changed: object) -> None:
    assert callable(changed)
    knl = nested("index[i] >= 0", "a[index[i]] > 0")
    index = next(iter(changed(knl).default_entrypoint.arg_dict.keys() & {"index", "a_index"}))
    for line in lp.generate_body(lp.fix_parameters(changed(knl), n=4)).splitlines():
        if "a[" in line and "if" in line:
            assert ">= 0 &&" in line or line.lstrip().startswith("if (a[")
    far = np.array([0, -(2**28), 1, -1], np.int32)
    given = {"a": np.array([1.0, -1.0]), index: far, "out": np.zeros(4)}
    results = run(lp.fix_parameters(changed(knl), n=4), **given)
    assert results["out"].tolist() == [1, 0, 2, 0]


def test_kernels_with_other_orders_differ() -> None:
    one, two = nested("a[0] > 0", "index[i] > 1"), nested("index[i] > 1", "a[0] > 0")
    assert one != two
    assert one.digest() != two.digest()


def test_a_shared_condition_that_may_fail_stays_behind_those_before_it() -> None:
    text = """
        for i
            if index[i] >= 0
                if a[index[i]] > 0
                    out[i] = 1 {id=one}
                end
            end
            if index[i] < -3
                if a[-index[i]] > 0
                    out[i] = 2 {id=two, nosync=one}
                end
                if a[index[i]] > 0
                    out[i] = 3 {id=three, nosync=one:two}
                end
            end
        end
        """
    data = [lp.GlobalArg("a, out", np.float64, shape="n"), lp.GlobalArg("index", np.int32), ...]
    knl = lp.make_kernel("{ [i]: 0<=i<n }", text, data, target=lp.CTarget())
    assert "if (index[i] >= 0 && a[index[i]] > 0.0)" in lp.generate_body(knl)


def test_conditions_of_a_branch_hold_where_inner_ones_read_arrays() -> None:
    knl = lp.set_options(nested("index[i] >= 0", "a[index[i]] > 0"), guard_accesses=True)
    knl = knl.copy(target=lp.ExecutableCTarget())
    index = np.array([0, -5, 1], np.int32)
    _, (out,) = knl(a=np.array([1.0, -1.0]), index=index, out=np.zeros(3))
    assert out.tolist() == [1, 0, 2]
    with pytest.raises(lp.KgenError, match="outside of array 'a'"):
        knl(a=np.array([1.0, -1.0]), index=index + 2, out=np.zeros(3))


def test_a_condition_inside_of_one_with_a_sum_is_evaluated_if_that_holds() -> None:
    text = """
        for i
            if sum(j, a[i, j]) > 0
                if b[index[i]] > 0
                    out[i] = sum(k, a[i, k]*b[index[i]])
                end
            end
        end
        """
    data = [
        lp.GlobalArg("a", np.float64, shape="n, 3"),
        lp.GlobalArg("b", np.float64, shape="m"),
        lp.GlobalArg("index", np.int32, shape="n"),
        lp.GlobalArg("out", np.float64, shape="n"),
        ...,
    ]
    knl = lp.make_kernel("{ [i, j, k]: 0<=i<n and 0<=j,k<3 }", text, data, target=lp.CTarget())
    lines = [line.strip() for line in lp.generate_body(knl).splitlines() if "b[" in line]
    assert all("acc_j > 0.0 && b[index[i]] > 0.0" in line for line in lines if "if" in line)
    given = {"a": np.array([[1.0, 1, 1], [-1, 0, 0], [1, 0, 0]]), "b": np.array([2.0, -1])}
    index = np.array([0, -(2**28), 1], np.int32)
    assert run(knl, **given, index=index, out=np.zeros(3))["out"].tolist() == [6, 0, 0]
