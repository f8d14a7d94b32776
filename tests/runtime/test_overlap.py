"""Arguments that share memory with one that is written are refused, where 'restrict' was said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import kgen as lp
from kgen.runtime.overlap import reject_shared_elements

cl = pytest.importorskip("pyopencl")
cla = pytest.importorskip("pyopencl.array")


def doubled(target: lp.TargetBase, **options: Any) -> lp.TranslationUnit:
    data = [lp.GlobalArg("a, b, out", "float64", shape="n", offset=lp.auto), "..."]
    text = "out[i] = 2*a[i] + b[i]"
    return lp.make_kernel("{ [i]: 0 <= i < n }", text, data, target=target, options=options)


def test_the_host_refuses_overlapping_arrays() -> None:
    knl, x = doubled(lp.ExecutableCTarget()), np.ones(200)
    for out in (x[:100], x[50:150], x[99:199]):
        with pytest.raises(lp.InvocationError, match=r"'out' and 'a' overlap.*(?s:.)*a\.copy"):
            knl(a=x[:100], b=np.ones(100), out=out)


def test_neighbours_and_two_inputs_in_one_place_are_fine() -> None:
    knl, x = doubled(lp.ExecutableCTarget()), np.ones(200)
    _, (out,) = knl(a=x[:100], b=x[:100], out=x[100:])
    assert (out == 3).all()


def test_views_that_alternate_are_fine() -> None:
    data = [lp.GlobalArg("a, out", "float64", shape="n", strides=(2,)), "..."]
    text = "out[i] = 2*a[i]"
    target = lp.ExecutableCTarget()
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, data, target=target)
    x = np.ones(10)
    knl(a=x[::2], out=x[1::2], n=5)
    assert x.tolist() == [1, 2] * 5
    with pytest.raises(lp.InvocationError, match="overlap"):
        knl(a=x[::2], out=x[::2], n=5)


def test_without_restrict_they_are_the_callers_affair() -> None:
    knl, x = doubled(lp.ExecutableCTarget(), restrict=False), np.ones(9)
    knl(a=x, b=x, out=x)
    assert (x == 3).all()


def test_devices_refuse_them_as_well() -> None:
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    knl = doubled(lp.PyOpenCLTarget())
    x = cla.zeros(queue, 400, np.float64)
    first = context.devices[0].mem_base_addr_align // 8
    part = cla.Array(queue, 100, np.float64, data=x.base_data.get_sub_region(first, 800))
    for out in (x[:100], x[50:150], part):
        with pytest.raises(lp.InvocationError, match="'out' and 'a' overlap"):
            knl(queue, a=x[:100], b=x[300:], out=out)
    knl(queue, a=x[:100], b=x[:100], out=x[300:])


@pytest.mark.parametrize("count", [3, 40])
def test_many_arrays_are_told_apart(count: int) -> None:
    outs = [f"out{k}" for k in range(count)]
    data = [lp.GlobalArg(",".join(["a", *outs]), "float64", shape="n"), "..."]
    text = [f"{out}[i] = {k}*a[i]" for k, out in enumerate(outs)]
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", text, data, target=lp.ExecutableCTarget())
    x = np.ones((count + 1, 5))
    knl(a=x[count], **dict(zip(outs, x, strict=False)))
    assert x[:, 4].tolist() == [*range(count), 1]
    last = {outs[-1]: x.reshape(-1)[9:14]}
    with pytest.raises(lp.InvocationError, match=f"'out1' and '{outs[-1]}' overlap"):
        knl(a=x[count], **(dict(zip(outs, x, strict=False)) | last))


def test_other_arrays_than_those_of_the_last_call_are_looked_at(opencl_queue: Any) -> None:
    array = pytest.importorskip("pyopencl.array")
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        "y[i] = a*x[i]",
        [
            lp.ValueArg("a", np.float32),
            lp.GlobalArg("x, y", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        target=lp.PyOpenCLTarget(),
    )
    x = array.to_device(opencl_queue, np.ones(8, np.float32))
    y = array.empty_like(x)
    for _ in range(3):
        knl(opencl_queue, a=2, x=x, y=y)
    with pytest.raises(lp.KgenError, match="overlap"):
        knl(opencl_queue, a=2, x=x, y=x)
    with pytest.raises(lp.KgenError, match="overlap"):
        knl(opencl_queue, a=2, x=x[:4], y=x[2:6])


@pytest.mark.parametrize("target", [lp.ExecutableCTarget(), lp.PyOpenCLTarget()])
def test_numpy_arrays_overlap_on_all_targets(target: lp.TargetBase, opencl_queue: Any) -> None:
    queue = [opencl_queue] if isinstance(target, lp.PyOpenCLTarget) else []
    knl, x = doubled(target), np.ones(200)
    for out in (x[:100], x[50:150]):
        with pytest.raises(lp.InvocationError, match="'out' and 'a' overlap"):
            knl(*queue, a=x[:100], b=np.ones(100), out=out)
    knl(*queue, a=x[:100], b=x[:100], out=x[100:])
    lp.set_options(knl, restrict=False)(*queue, a=x[:100], b=x[:100], out=x[:100])
    assert (x == 3).all()


@pytest.mark.parametrize("target", [lp.ExecutableCTarget(), lp.PyOpenCLTarget()])
@pytest.mark.parametrize("strides", [None, "s, t"])
@pytest.mark.parametrize("wrong", [(0, 4), (4, 4), (8, 4), (4, 0)])
def test_written_elements_do_not_overlap(
    target: lp.TargetBase, strides: str | None, wrong: tuple[int, int], opencl_queue: Any
) -> None:
    queue = [opencl_queue] if isinstance(target, lp.PyOpenCLTarget) else []
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i < 3 and 0 <= j < 4 }",
        "out[i, j] = 2*a[i, j]",
        [lp.GlobalArg("a, out", np.float32, shape=(3, 4), strides=strides), "..."],
        target=target,
    )
    x = as_strided(np.arange(12, dtype=np.float32), (3, 4), wrong)
    for _ in range(2):
        with pytest.raises(lp.InvocationError, match=r"elements of argument 'out' overlap"):
            knl(*queue, a=np.ones((3, 4), np.float32), out=x)
    _, (out,) = knl(*queue, a=x, out=np.zeros((4, 3), np.float32).T)  # inputs may
    assert (out == 2 * x).all()


@pytest.mark.parametrize("seed", range(20))
def test_overlap_of_elements_is_decided_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        shape = tuple(map(int, rng.integers(0, 5, rng.integers(1, 4))))
        strides = tuple(map(int, 4 * rng.integers(-9, 10, len(shape))))
        places = sum(s * k for s, k in zip(strides, np.indices(shape), strict=True))
        refused: list[str] = []
        memory = np.ndarray(shape, np.float32, bytes(1000), 500, strides)
        reject_shared_elements(lambda what, refused=refused, **_: refused.append(what), x=memory)
        assert bool(refused) == (np.unique(places).size < np.prod(shape)), (shape, strides)


def test_padding_of_a_declared_layout_may_overlap() -> None:
    data = [lp.GlobalArg("out", np.float64, shape=(3, 4), strides=(2, 1)), "..."]
    text = "out[i, j] = 10*i + j"
    domain = "{ [i, j]: 0 <= i < 3 and 0 <= j < 2 }"
    knl = lp.make_kernel(domain, text, data, target=lp.ExecutableCTarget())
    _, (out,) = knl()
    assert out[:, :2].tolist() == [[0, 1], [10, 11], [20, 21]]
