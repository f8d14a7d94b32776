"""Temporaries that the runtime allocates, and tables that come with the code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

SPACES = [lp.AddressSpace.GLOBAL, lp.AddressSpace.LOCAL, lp.AddressSpace.PRIVATE, lp.auto]


def shifted(target: Any) -> Any:
    """Make a kernel with a temporary in global memory, as large as it is used."""
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }",
        """
        t[i + 1] = 2*a[i]     {id=w}
        ... gbarrier          {id=b, dep=w}
        out[j] = t[n - j]     {dep=b}
        """,
        [
            lp.GlobalArg("a", np.float64, shape="n"),
            lp.TemporaryVariable("t", address_space=lp.AddressSpace.GLOBAL),
            ...,
        ],
        target=target,
    )
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0")


def test_a_global_temporary_on_the_host() -> None:
    _, (out,) = shifted(lp.ExecutableCTarget())(a=np.arange(10.0))
    np.testing.assert_array_equal(out, 2 * np.arange(10.0)[::-1])


def test_a_global_temporary_on_a_device(device: Any) -> None:
    _, (out,) = device(shifted(lp.PyOpenCLTarget()), a=np.arange(10.0))
    np.testing.assert_array_equal(out, 2 * np.arange(10.0)[::-1])


def test_a_global_temporary_is_a_parameter_on_cuda() -> None:
    code = lp.generate_code_v2(shifted(lp.CudaTarget())).device_code()
    assert code.count("double *__restrict__ t)") == 1
    assert code.count("double const *__restrict__ t)") == 1


def table(space: Any, target: Any) -> Any:
    values = np.arange(6.0).reshape(2, 3)
    given = lp.TemporaryVariable("w", initializer=values, read_only=True, address_space=space)
    return lp.make_kernel(
        "{ [i]: 0<=i<6 }",
        "out[i] = w[i // 3, i % 3]*a[i]",
        [lp.GlobalArg("a", np.float64, shape=6), given, ...],
        target=target,
    )


@pytest.mark.parametrize("space", SPACES)
def test_a_table_in_any_address_space(space: Any, device: Any) -> None:
    _, (out,) = table(space, lp.ExecutableCTarget())(a=np.full(6, 2.0))
    np.testing.assert_array_equal(out, 2 * np.arange(6.0))
    knl = lp.tag_inames(table(space, lp.PyOpenCLTarget()), "i:l.0")
    _, (out,) = device(knl, a=np.full(6, 2.0))
    np.testing.assert_array_equal(out, 2 * np.arange(6.0))
    code = lp.generate_code_v2(table(space, lp.CudaTarget())).device_code()
    assert "static __constant__ double const w[6] = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0};" in code


def test_work_items_read_different_entries_of_a_table_in_global_memory() -> None:
    knl = table(lp.AddressSpace.GLOBAL, lp.CudaTarget())
    for tag, words in (("l.0", "static __device__"), ("g.0", "static __constant__")):
        code = lp.generate_code_v2(lp.tag_inames(knl, f"i:{tag}")).device_code()
        assert f"{words} double const w[6]" in code
    at = lp.make_kernel(
        "{ [i]: 0<=i<6 }",
        "<> k = at[i]\nout[i] = w[k % 2, k % 3]",
        [lp.TemporaryVariable("w", initializer=np.ones((2, 3)), read_only=True), ...],
        target=lp.CudaTarget(),
    )
    at = lp.add_dtypes(at, {"at": np.int32})
    assert "static __device__ double const w[6]" in lp.generate_code_v2(at).device_code()


def test_a_table_that_is_written_is_refused() -> None:
    given = lp.TemporaryVariable("w", initializer=np.arange(6.0), read_only=True)
    with pytest.raises(lp.KernelError, match="'w' cannot be assigned to: it is only read"):
        lp.make_kernel("{ [i]: 0<=i<6 }", "w[i] = 1", [given, ...])
