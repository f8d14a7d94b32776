"""Spaces of schedules: every point is proved right, computes the same, and can be pasted."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.autoscheduler.machine import Machine, machine_of
from kgen.autoscheduler.space import AutoSpace
from kgen.autoscheduler.stated import Stated
from kgen.ir.target import Execution
from kgen.tuning.space import SearchSpace
from tests.autoscheduler.test_threads import KERNELS, make, pasted

PRODUCT = "out[i, j] = sum(k, a[i, k]*b[k, j])"


def product(n: int, target: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b", np.float32, shape=(n, n)), ...]
    domain = f"{{ [i, j, k]: 0 <= i, j, k < {n} }}"
    return lp.make_kernel(domain, PRODUCT, data, target=target)


def points(space: Any, count: int) -> list[dict[str, Any]]:
    found = SearchSpace(space.tune_params, space.restrictions)
    return [found[int(row)] for row in found.sample(count, seed=1)]


@pytest.mark.parametrize("name", ["stencil", "transposition", "rows", "total", "two nests"])
def test_points_compute_the_same(name: str) -> None:
    knl = KERNELS[name]
    space = lp.auto_space(knl)
    arrays = {"a": (100, 100), "v": (300, 300), "b": (5000,), "c": (5000,)}
    names = arrays.keys() & knl.default_entrypoint.arg_dict.keys()
    inputs = {n: np.random.default_rng(0).random(arrays[n]) for n in sorted(names)}
    expected = knl(**inputs)[1]
    for config in points(space, 2):
        built = space.build(**config)
        for found, right in zip(built(**inputs)[1], expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-12)


def test_schedule_can_be_pasted() -> None:
    knl = KERNELS["transposition"]
    space = lp.auto_space(knl)
    (config,) = points(space, 1)
    schedule = space.schedule(**config)
    assert pasted(knl, str(schedule)) == schedule(knl)


def test_product_on_threads_has_tiles_and_packed_panels() -> None:
    space = lp.auto_space(product(256, lp.ExecutableCTarget()))
    best = {"i_tile": 64, "i_each": 8, "j_tile": 64, "k_tile": 128, "fetch_a": False}
    built = space.build(**best, fetch_b=True)
    a, b = np.random.default_rng(0).random((2, 256, 256), dtype=np.float32)
    np.testing.assert_allclose(built(a=a, b=b)[1][0], a @ b, rtol=1e-4)


def test_product_on_a_gpu_has_the_schedule_that_experts_write() -> None:
    space = lp.auto_space(product(4096, lp.CudaTarget()))
    each = {"i_items": 16, "j_items": 8, "i_each": 8, "j_each": 16, "k_tile": 16}
    config = {**each, "lanes": 4, "turn_a": True, "registers": True, "k_unroll": True}
    config |= {"groups": 2, "stages": 2}
    rows = SearchSpace(space.tune_params, space.restrictions)
    assert rows.row(config) is not None
    assert config == space.start
    code = lp.generate_code_v2(space.build(**config)).device_code()
    assert "aligned (16)" in code
    assert code.count("__syncthreads()") == 2
    assert "acc_k_outer_k_inner[127] +=" in code


def test_points_are_proved_right() -> None:
    stencil = KERNELS["stencil"].copy(target=lp.CudaTarget())
    for knl in (product(512, lp.CudaTarget()), lp.add_dtypes(stencil, {"v": "float64"})):
        space = lp.auto_space(knl)
        for config in points(space, 3):
            assert lp.verify(space.build(**config)).ok


def sparse_rows(target: lp.TargetBase) -> lp.TranslationUnit:
    text = """
        <> first = starts[i]
        <> last = starts[i + 1]
        y[i] = sum(k, v[k]*x[c[k]])
        """
    y = lp.GlobalArg("y", np.float32, shape="n")
    data = [y, lp.GlobalArg("v, x", np.float32), lp.GlobalArg("starts, c", np.int32), ...]
    domains = ["{ [i]: 0 <= i < n }", "{ [k]: first <= k < last }"]
    return lp.make_kernel(domains, text, data, target=target, assumptions="n >= 1")


def full_rows(target: lp.TargetBase) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, x", np.float32), ...]
    return lp.make_kernel(
        "{ [i, k]: 0 <= i < n and 0 <= k < m }", "y[i] = sum(k, a[i, k]*x[k])", data, target=target
    )


@pytest.mark.parametrize(
    ("make", "stated"),
    [
        (full_rows, {}),
        (sparse_rows, {"trips": {"k": 5}}),
        (sparse_rows, {"ascending": "starts"}),
    ],
)
def test_rows_on_a_gpu_start_with_the_schedule_of_analysis(make: Any, stated: Any) -> None:
    knl = make(lp.CudaTarget())
    space = lp.auto_space(knl, **stated)
    assert str(space.schedule(**space.start)) == str(lp.find_schedule(knl, **stated))
    assert {2, 32, 256} < {*space.tune_params["k_items"]}
    assert ("k_balanced" in space.tune_params) == ("ascending" in stated)
    assert pickle.loads(pickle.dumps(space)).tune_params == space.tune_params  # noqa: S301


@pytest.mark.parametrize("stated", [Stated(), Stated(frozenset(["starts"]))])
def test_work_items_that_share_rows_compute_the_same(stated: Stated) -> None:
    cl = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    rng = np.random.default_rng(0)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 60, 203))]).astype(np.int32)
    c = rng.integers(0, 203, starts[-1], np.int32)
    v, x = rng.random(starts[-1], np.float32), rng.random(203, np.float32)
    expected = [np.sum((v * x[c])[low:high]) for low, high in itertools.pairwise(starts)]
    space = AutoSpace(sparse_rows(lp.PyOpenCLTarget()), Machine(kind=Execution.ITEMS), stated)
    for config in (space.start, *points(space, 1)):
        _, (y,) = space.build(**config)(queue, v=v, x=x, c=c, starts=starts, n=203)
        np.testing.assert_allclose(y, expected, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("target", [lp.ExecutableCTarget(), lp.CudaTarget()])
def test_the_search_starts_with_the_schedule_of_analysis(name: str, target: Any) -> None:
    knl = KERNELS[name].copy(target=target)
    space = AutoSpace(knl, machine_of(knl, None)[1])
    assert space.schedule(**space.start) == lp.find_schedule(knl)
    if space.tune_params:
        assert SearchSpace(space.tune_params, space.restrictions).row(space.start) is not None


def test_stencils_in_vectors_are_one_more_configuration() -> None:
    data = [lp.GlobalArg("u", np.float32, shape=(514, 520)), ...]
    text = "out[i, j] = u[i, j+4] + u[i+2, j+4] + u[i+1, j+3] + u[i+1, j+5]"
    knl = lp.make_kernel("{ [i, j]: 0 <= i, j < 512 }", text, data, target=lp.CudaTarget())
    space = lp.auto_space(knl)
    assert space.start["autoschedule"]
    assert "float4" in lp.generate_code_v2(space.build(**space.start)).device_code()
    rows = SearchSpace(space.tune_params, space.restrictions)
    assert sum(rows[k]["autoschedule"] for k in range(len(rows))) == 1


def axpy(target: lp.TargetBase) -> lp.TranslationUnit:
    data = [lp.GlobalArg("x, y, out", np.float32, shape=lp.auto), ...]
    return lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*x[i] + y[i]", data, target=target)


def test_vectors_of_elementwise_operations_are_a_parameter() -> None:
    space = lp.auto_space(axpy(lp.CudaTarget()))
    assert space.start == {"i_items": 256, "i_each": 1, "i_lanes": 4}
    for lanes, word in ((4, "float4"), (2, "float2"), (1, "float")):
        built = space.build(i_items=64, i_each=2, i_lanes=lanes)
        assert f"*({word} const *)" in lp.generate_code_v2(built).device_code() or lanes == 1


def test_vectors_of_several_per_work_item_compute_the_same() -> None:
    cl = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    x, y = np.random.default_rng(0).random((2, 5003), np.float32)
    space = AutoSpace(axpy(lp.PyOpenCLTarget()), Machine(kind=Execution.ITEMS))
    for config in ({"i_items": 32, "i_each": 4, "i_lanes": 2}, *points(space, 2)):
        _, (out,) = space.build(**config)(queue, x=x, y=y)
        np.testing.assert_allclose(out, 2 * x + y, rtol=1e-6)


def test_wrong_configurations_are_rejected() -> None:
    space = lp.auto_space(KERNELS["elementwise"])
    with pytest.raises(lp.KernelError, match="parameter 'j_block'"):
        space.build(i_block=16, j_block=2)


def test_space_travels_to_other_processes() -> None:
    space = lp.auto_space(KERNELS["elementwise"])
    assert pickle.loads(pickle.dumps(space)).tune_params == space.tune_params  # noqa: S301


def test_nothing_to_choose_is_an_error() -> None:
    data = [lp.GlobalArg("a", np.float64, shape="n")]
    knl = make("{ [i]: 1 <= i < n }", "a[i] = a[i - 1] + 1", *data)
    with pytest.raises(lp.KernelError, match="no parameters to choose"):
        lp.auto_space(knl)
