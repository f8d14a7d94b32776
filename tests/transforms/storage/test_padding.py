"""Padding: strides of arguments and tiles, and what callers see of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.transforms.helpers import kernel_of, run


def filled(dtype: Any = np.float32, shape: str = "n, 15", **layout: Any) -> Any:
    data = [lp.GlobalArg("a", dtype, shape=shape, **layout), ...]
    return lp.make_kernel("{ [i,j]: 0<=i<n and 0<=j<15 }", "a[i,j] = 16*i + j", data)


def transposition() -> Any:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        "out[j,i] = a[i,j]",
        [lp.GlobalArg("a,out", np.float32, shape="n,n"), ...],
        assumptions="n>=1",
    )
    knl = lp.split_iname(knl, "i", 16, inner_tag="l.1", outer_tag="g.1")
    knl = lp.split_iname(knl, "j", 16, inner_tag="l.0", outer_tag="g.0")
    return lp.add_prefetch(knl, "a", "i_inner, j_inner", default_tag="l.auto")


def strides(program: Any, name: str) -> Any:
    return kernel_of(program).array_vars[name].fixed_strides


def test_rows_start_at_multiples() -> None:
    assert strides(lp.add_padding(filled(), "a", 0, 32), "a") == (16, 1)
    assert strides(lp.add_padding(filled(np.float64), "a", 0, 64), "a") == (16, 1)
    assert strides(lp.add_padding(filled(order="F", shape="15, n"), "a", 1, 32), "a") == (1, 16)


def test_nothing_changes_where_rows_are_aligned() -> None:
    knl = filled(shape="n, 16")
    assert lp.add_padding(knl, "a", 0, 64) is knl


def test_axes_outside_grow_with_it() -> None:
    knl = lp.make_kernel(
        "{ [i,j,k]: 0<=i<n and 0<=j<4 and 0<=k<3 }",
        "a[i,j,k] = 1",
        [lp.GlobalArg("a", np.float32, shape="n, 4, 3"), ...],
    )
    assert strides(lp.add_padding(knl, "a", 1, 16), "a") == (16, 4, 1)
    padded = lp.add_padding(lp.add_padding(knl, "a", 1, 16), "a", 0, 20 * 4)
    assert strides(padded, "a") == (20, 4, 1)


def test_callers_get_padded_arrays() -> None:
    a = run(lp.add_padding(filled(), "a", 0, 32), n=4)["a"]
    assert (a.shape, a.strides) == ((4, 15), (64, 4))
    np.testing.assert_array_equal(a, 16 * np.arange(4)[:, None] + np.arange(15))


def test_rows_of_a_tile_in_other_banks(device: Any) -> None:
    knl = lp.add_padding(transposition(), "a_fetch", 0, 17 * 4)
    code = lp.generate_code_v2(knl).device_code()
    assert "__local float a_fetch[271];" in code
    assert "a_fetch[17 * lid(1) + lid(0)]" in code
    a = np.random.default_rng(1).random((40, 40)).astype(np.float32)
    _, (out,) = device(knl, a=a)
    np.testing.assert_array_equal(out, a.T)


def test_tiles_of_cuda() -> None:
    knl = lp.add_padding(transposition().copy(target=lp.CudaTarget()), "a_fetch", 0, 17 * 4)
    assert "__shared__ float a_fetch[271];" in lp.generate_code_v2(knl).device_code()


def test_how_many_rows_to_pad_together() -> None:
    knl = filled(shape="n, 3")
    assert lp.find_padding_multiple(knl, "a", 0, 16) == 4
    assert lp.find_padding_multiple(knl, "a", 0, 16, allowed_waste=0.35) == 1
    assert lp.find_padding_multiple(filled(shape="n, 16"), "a", 0, 64) == 1


def test_what_cannot_be_padded() -> None:
    with pytest.raises(lp.TransformError, match="6 bytes are not a multiple"):
        lp.add_padding(filled(), "a", 0, 6)
    with pytest.raises(lp.TransformError, match="the stride of axis 0 is m"):
        lp.add_padding(filled(shape="n, m"), "a", 0, 16)
    with pytest.raises(lp.TransformError, match="it has 2 axes and no axis 2"):
        lp.add_padding(filled(), "a", 2, 16)
    untyped = lp.make_kernel("{ [i]: 0<=i<4 }", "b[i] = a[i]")
    with pytest.raises(lp.TransformError, match="its type is not known"):
        lp.add_padding(untyped, "a", 0, 16)
    with pytest.raises(lp.TransformError, match="there is no array 'x'"):
        lp.find_padding_multiple(filled(), "x", 0, 16)
