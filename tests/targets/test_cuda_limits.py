"""What a launch on CUDA may ask for: local memory beyond that of declarations, registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import kgen as lp
from tests.cuda_host import HostCuda, LaunchMemoryTarget
from tests.targets.support import compile_cuda


def tiles(size: int, target: Any) -> lp.TranslationUnit:
    """Return a kernel that reverses rows of *size* numbers by way of local memory."""
    tile = lp.TemporaryVariable("t", np.float32, shape=(size,), address_space=lp.AddressSpace.LOCAL)
    knl = lp.make_kernel(
        [f"{{ [g, i]: 0 <= g < n and 0 <= i < {size} }}", f"{{ [j]: 0 <= j < {size} }}"],
        f"t[i] = a[g, i] {{id=w}}\nout[g, j] = t[{size - 1} - j] {{dep=w}}",
        [lp.GlobalArg("a", np.float32, shape=f"n, {size}"), tile, ...],
        target=target,
    )
    for name in "ij":
        knl = lp.split_iname(knl, name, 256, inner_tag="l.0")
    return lp.tag_inames(knl, "g:g.0")


@pytest.mark.parametrize("size", [12288, 12289, 58000])
def test_local_memory_is_declared_or_asked_for(size: int, nvcc: str, tmp_path: Path) -> None:
    (module,) = lp.generate_code_v2(tiles(size, lp.CudaTarget())).modules
    is_large = 4 * size > 48 * 1024
    (launch,) = module.launches
    assert (launch.local_memory >= 4 * size) == is_large
    assert ("float *const t = (float *) &kgen_shared[0];" in module.device_source) == is_large
    compile_cuda(module.device_source, tmp_path, nvcc)


def test_arrays_are_behind_each_other_and_storages_shared(nvcc: str, tmp_path: Path) -> None:
    local: Any = {"address_space": lp.AddressSpace.LOCAL}
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 128 }",
        """
        t[i] = a[i] {id=t}
        v[i] = t[127 - i] {id=v, dep=t}
        out[i] = v[127 - i] {id=out, dep=v}
        w[i] = t[i] {id=w, dep=out}
        more[i] = w[127 - i] {dep=w}
        """,
        [
            lp.GlobalArg("a", np.float32, shape="128"),
            lp.TemporaryVariable("t", np.float32, shape=(12289,), **local),
            lp.TemporaryVariable("v", np.float32, shape=(128,), base_storage="both", **local),
            lp.TemporaryVariable("w", np.float64, shape=(128,), base_storage="both", **local),
            ...,
        ],
        target=lp.CudaTarget(),
    )
    text = lp.generate_code_v2(lp.tag_inames(knl, "i:l.0")).device_code()
    assert "float *const t = (float *) &kgen_shared[0];" in text
    assert "both_kind &both = *(both_kind *) &kgen_shared[49168];" in text
    compile_cuda(text, tmp_path, nvcc)


def test_more_than_any_device_has_is_refused() -> None:
    with pytest.raises(lp.CodegenError, match="bytes of local memory"):
        lp.generate_code_v2(tiles(60000, lp.CudaTarget()))


def test_launch_bounds_and_registers() -> None:
    target = lp.CudaTarget(min_groups=2, max_registers=64)
    (module,) = lp.generate_code_v2(tiles(256, target)).modules
    assert "__launch_bounds__(256, 2)" in module.device_source
    assert module.build_options == ("-maxrregcount=64",)


@pytest.mark.parametrize("name", ["min_groups", "max_registers"])
def test_numbers_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(lp.KgenError, match=f"{name} of a CUDA target"):
        lp.CudaTarget(**cast("Any", {name: 0}))


@pytest.mark.parametrize("share", [-1, 101, 0.5, True])
def test_shares_are_percentages(share: Any) -> None:
    with pytest.raises(lp.KgenError, match="local_memory_share of a CUDA target is a percentage"):
        lp.CudaTarget(local_memory_share=share)


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("share", [0, 60, 100])
def test_shares_on_cuda(share: int) -> None:
    a = np.random.default_rng(0).random((7, 256)).astype(np.float32)
    knl = lp.set_launch_bounds(tiles(256, lp.PyCudaTarget()), local_memory_share=share)
    _, (out,) = knl(a=a)
    np.testing.assert_array_equal(out, a[:, ::-1])


@pytest.mark.usefixtures("cuda_context")
@pytest.mark.parametrize("size", [12288, 16384, 50000])
def test_large_tiles_on_cuda(size: int) -> None:
    a = np.random.default_rng(0).random((7, size)).astype(np.float32)
    knl = tiles(size, lp.PyCudaTarget(min_groups=1, max_registers=64))
    _, (out,) = knl(a=a)
    np.testing.assert_array_equal(out, a[:, ::-1])


@pytest.mark.parametrize("axes", ["stride:17,stride:1", "sep,N0"])
def test_arrays_with_gaps_do_not_overlap(axes: str, tmp_path: Path) -> None:
    tile: Any = {"shape": (16, 16), "address_space": lp.AddressSpace.LOCAL}
    knl = lp.make_kernel(
        "{ [i, j]: 0 <= i, j < 16 }",
        "t[i, j] = a[i, j] {id=t}\nv[i, j] = t[i, 15 - j] {id=v, dep=t}\n"
        "out[i, j] = v[i, j] + t[i, j] {dep=v}",
        [
            lp.GlobalArg("a", np.float32, shape="16, 16"),
            lp.TemporaryVariable("t", np.float32, dim_tags=axes, **tile),
            lp.TemporaryVariable("v", np.float32, strides=(20, 1), **tile),
            lp.GlobalArg("out", np.float32, shape="16, 16"),
        ],
        target=LaunchMemoryTarget(),
    )
    knl = lp.tag_inames(knl, "i:unr, j:l.0")
    a, out = np.arange(256, dtype=np.float32).reshape(16, 16), np.zeros((16, 16), np.float32)
    assert HostCuda(knl, tmp_path)({"a": a, "out": out})
    np.testing.assert_array_equal(out, a + a[:, ::-1])


def test_capability_is_a_pair_of_numbers() -> None:
    with pytest.raises(lp.KgenError, match="capability of a CUDA target"):
        lp.CudaTarget(capability="9.0")  # type: ignore[arg-type]
