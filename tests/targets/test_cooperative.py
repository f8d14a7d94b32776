"""Cooperative launches: kernels with global barriers as one launch of CUDA."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import generate_module
from tests.cuda_host import HostCuda

COOPERATIVE = {"cooperative": True}
STEP = """
for t
  ... gbarrier {id=begin}
  v[i] = u[i] + u[(i + 1) % n]  {id=add, dep=*begin}
  ... gbarrier {id=middle, dep=add}
  u[j] = 0.5*v[n - 1 - j] + t   {id=turn, dep=*middle}
end
... gbarrier {id=end, dep=turn}
first = u[0] + v[0]             {dep=*end, inames=}
"""


def unsplit(options: Any = COOPERATIVE) -> lp.TranslationUnit:
    """Return a loop of two parts, and a part without a loop."""
    args = [lp.GlobalArg("u, v", "float64", shape="n"), lp.GlobalArg("first", "float64", shape=())]
    return lp.make_kernel(
        "{ [t, i, j]: 0 <= t < m and 0 <= i, j < n }",
        STEP,
        [*args, ...],
        assumptions="n >= 1",
        target=lp.PyCudaTarget(),
        options=options,
        name="steps",
    )


def steps(groups: int = 8, options: Any = COOPERATIVE) -> lp.TranslationUnit:
    """Return the kernel with groups of 8 for the first part, and of *groups* for the second."""
    knl = lp.split_iname(unsplit(options), "i", 8, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", groups, outer_tag="g.0", inner_tag="l.0")


def expected(u: Any, m: int) -> tuple[Any, Any, Any]:
    v = np.zeros_like(u)
    for t in range(m):
        v = u + np.roll(u, -1)
        u = 0.5 * v[::-1] + t
    return u, v, u[0] + v[0]


def test_the_kernel_stays_one_function() -> None:
    module = generate_module(steps())
    (launch,) = module.launches
    assert module.steps == (launch,)
    assert launch.is_cooperative
    source = module.device_source
    assert "#include <cooperative_groups.h>" in source
    assert source.count("__global__") == 1
    assert source.count("cooperative_groups::this_grid().sync();") == 2
    assert "for (int t = 0; t < m; ++t)" in source
    assert "if (gid(x) < 1 && lid(x) < 1)" in source


def test_without_the_option_and_elsewhere_barriers_end_launches() -> None:
    assert len(generate_module(steps(options={})).launches) == 3
    for target in (lp.PyOpenCLTarget(), lp.OpenCLTarget()):
        assert len(generate_module(steps().copy(target=target)).launches) == 3
    knl = steps().copy(target=lp.ExecutableCTarget())
    u, v = np.arange(5.0), np.zeros(5)
    _, (*_, first) = knl(u=u, v=v, m=2)
    assert first == expected(np.arange(5.0), 2)[2]


def test_kernels_without_global_barriers_are_launched_as_always() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "a[i] = i", target=lp.CudaTarget())
    knl = lp.set_options(lp.tag_inames(knl, "i:g.0"), cooperative=True)
    module = generate_module(lp.add_dtypes(knl, {"a": np.float32}))
    assert not module.launches[0].is_cooperative
    assert "cooperative" not in module.device_source


def test_numbers_of_groups_that_change_in_a_loop_are_rejected() -> None:
    knl = lp.make_kernel(
        "{ [t, i]: 0 <= t < n and t <= i < n }",
        "for t\n ... gbarrier {id=b}\n a[i] = a[i] + t {dep=b}\nend",
        [lp.GlobalArg("a", "float64", shape="n"), ...],
        target=lp.CudaTarget(),
        options=COOPERATIVE,
    )
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lp.KgenError, match=r"depends on loop 't'(?s:.*)cooperative=False"):
        generate_module(knl)


def test_parts_with_barriers_have_groups_of_one_size() -> None:
    tile = lp.TemporaryVariable("w", "float64", shape=4, address_space=lp.AddressSpace.LOCAL)
    knl = lp.make_kernel(
        "{ [i, g, l, k]: 0 <= i < n and 0 <= g < m and 0 <= l, k < 4 }",
        "v[i] = u[i] {id=a, dep=*}\n ... gbarrier {id=b, dep=a}\n"
        "w[l] = v[4*g + l] {id=c, dep=*b}\n"
        "u[4*g + k] = w[3 - k] {dep=*c}",
        [lp.GlobalArg("u, v", "float64", shape="n"), tile, ...],
        target=lp.CudaTarget(),
        options=COOPERATIVE,
        assumptions="n = 4*m and m >= 1",
    )
    knl = lp.tag_inames(knl, "g:g.0, l:l.0, k:l.0")
    same = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert generate_module(same).device_source.count("__global__") == 1
    other = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(lp.KgenError, match=r"groups of one size.* \(4,\) and \(8,\) work-items"):
        generate_module(other)


def test_one_launch_is_counted() -> None:
    counts = lp.get_synchronization_map(steps())
    assert counts.filter_by(kind=["kernel_launch"]).eval_and_sum({"n": 20, "m": 5}) == 1
    split = lp.get_synchronization_map(steps(options={}))
    assert split.filter_by(kind=["kernel_launch"]).eval_and_sum({"n": 20, "m": 5}) == 11


def persistent(groups: int) -> lp.TranslationUnit:
    """Return the kernel with a number of groups that take one block after the other."""
    knl = unsplit()
    for iname in ("i", "j"):
        knl = lp.split_iname(knl, iname, 4, outer_iname=f"block_{iname}", inner_tag="l.0")
        knl = lp.split_iname(knl, f"block_{iname}", groups, inner_tag="g.0")
    return knl


@pytest.mark.parametrize(("knl", "n_groups"), [(steps(4), 4), (persistent(2), 2)])
def test_groups_wait_for_each_other_on_the_host(knl: Any, n_groups: int, tmp_path: Path) -> None:
    run = HostCuda(knl, tmp_path)
    n, m = 13, 5
    u, v, first = np.arange(n) / 3.0, np.zeros(n), np.zeros(())
    right = expected(u.copy(), m)
    given = {"u": u, "v": v, "first": first, "n": n, "m": m}
    assert run(given, order="any", resident=n_groups)
    for found, wanted in zip((u, v, first), right, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_nvcc_compiles_it(nvcc: str, tmp_path: Path) -> None:
    (tmp_path / "code.cu").write_text(generate_module(steps()).device_source)
    command = [nvcc, "-arch=sm_90", "-ptx", "-o", "code.ptx", "code.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("groups", [8, 4])
def test_on_the_device(groups: int) -> None:
    array = pytest.importorskip("pycuda.gpuarray")
    knl, n, m = steps(groups), 1000, 7
    u, v = array.to_gpu(np.arange(n) / 3.0), array.to_gpu(np.zeros(n))
    _, (*_, first) = knl(u=u, v=v, m=m)
    right = expected(np.arange(n) / 3.0, m)
    for found, wanted in zip((u, v, first), right, strict=True):
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-14)
    u.set(np.arange(n) / 3.0)
    graph = knl.executor().capture(u=u, v=v, m=m, first=first)
    graph(event=True).synchronize()
    np.testing.assert_allclose(u.get(), right[0], rtol=1e-14)


@pytest.mark.usefixtures("cuda_context")
def test_more_groups_than_fit_are_refused_on_the_device() -> None:
    array = pytest.importorskip("pycuda.gpuarray")
    few = array.to_gpu(np.zeros(8))
    executor = steps().executor()
    (fitting,) = executor.fitting_groups(u=few, v=few.copy(), m=1).values()
    assert fitting >= 16
    for n, fits in ((8 * fitting, True), (8 * fitting + 1, False)):
        u = array.to_gpu(np.zeros(n))
        if fits:
            executor(u=u, v=u.copy(), m=2)
            continue
        message = f"has {fitting + 1} work-groups, but only {fitting} of them run at once"
        for call in (executor, executor.bind, executor.capture):
            with pytest.raises(lp.InvocationError, match=message):
                call(u=u, v=u.copy(), m=2)


def test_persistent_groups_take_one_block_after_the_other() -> None:
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", "out[i] = 2*a[i]", target=lp.CudaTarget())
    knl = lp.add_dtypes(knl, {"a": np.float32, "out": np.float32})
    knl = lp.split_iname(knl, "i", 64, inner_tag="l.0", outer_iname="block")
    knl = lp.split_iname(knl, "block", 12, inner_tag="g.0")
    module = generate_module(knl)
    assert module.launches[0].groups == (12,)
    assert "for (int block_outer = 0;" in module.device_source
