"""Temporaries in global memory that share their storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp

cl = pytest.importorskip("pyopencl")

N = 6
GLOBAL = lp.AddressSpace.GLOBAL


def temporary(name: str, dtype: Any = np.int32, shape: Any = "n") -> lp.TemporaryVariable:
    return lp.TemporaryVariable(name, dtype, shape=shape, address_space=GLOBAL, base_storage="pool")


TEXT = """
    p[i] = 7*i
    ... gbarrier
    w[j] = 2*p[n - 1 - j]
    ... gbarrier
    r[k] = w[k] + 1
    ... gbarrier
    v[l] = r[n - 1 - l]
"""


def program(dtype: Any = np.int32, shape: Any = "n", text: str = TEXT) -> lp.TranslationUnit:
    args = [
        temporary("p", shape=shape),
        temporary("r", dtype, shape=shape),
        lp.GlobalArg("w", np.int32, shape="n", is_input=False),
    ]
    return lp.make_kernel(
        "{ [i, j, k, l]: 0 <= i, j, k, l < n }",
        text,
        [*args, ...],
        seq_dependencies=True,
        assumptions=f"1 <= n <= {N}",
    )


def whole(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return knl


def apart(knl: lp.TranslationUnit) -> lp.TranslationUnit:
    return lp.allocate_temporaries_for_base_storage(knl, aliased=False)


@pytest.mark.parametrize("shape", ["n", N])
@pytest.mark.parametrize("tags", ["", "i:g.0, j:g.0, k:g.0, l:g.0"])
@pytest.mark.parametrize("change", [whole, lp.allocate_temporaries_for_base_storage, apart])
def test_results_on_a_device(shape: Any, tags: str, change: Any, opencl_queue: Any) -> None:
    knl = change(lp.tag_inames(program(np.float64, shape), tags))
    _, out = lp.set_options(knl, return_dict=True)(opencl_queue, n=N, out_host=True)
    np.testing.assert_array_equal(out["v"], 14 * np.arange(N) + 1.0)


@pytest.mark.parametrize("change", [whole, lp.allocate_temporaries_for_base_storage, apart])
def test_results_on_the_host(change: Any) -> None:
    knl = change(program()).copy(target=lp.ExecutableCTarget())
    _, out = lp.set_options(knl, return_dict=True)(n=N)
    np.testing.assert_array_equal(out["v"], 14 * np.arange(N) + 1)


@pytest.mark.parametrize(("change", "sizes"), [(whole, [48]), (apart, [24, 48])])
def test_a_storage_is_allocated_once(change: Any, sizes: list[int], opencl_queue: Any) -> None:
    asked: list[int] = []

    def allocate(size: int) -> Any:
        asked.append(size)
        return cl.Buffer(opencl_queue.context, cl.mem_flags.READ_WRITE, size)

    change(program(np.float64))(opencl_queue, n=N, allocator=allocate)
    assert asked == [24, 48, *sizes]  # w, v, and the storage


def test_values_that_are_lost_across_launches_are_noticed() -> None:
    text = "p[i] = 7*i\n... gbarrier\nr[j] = 1\n... gbarrier\nv[k] = p[k]"
    with pytest.raises(lp.VariableAccessNotOrdered, match="both are in storage 'pool'"):
        lp.generate_code_v2(program(text=text))


def test_types_that_a_compiler_sees_together_are_rejected() -> None:
    text = "p[i] = 7*i {id=p}\nw[i] = p[i]\nr[i] = 2.5\nv[i] = r[i]"
    for knl in (program(np.float64, text=text), program(np.float64).copy(target=lp.CTarget())):
        with pytest.raises(lp.ScheduleError, match="have elements of np:dtype"):
            lp.generate_code_v2(lp.add_dtypes(knl, {}))
    assert lp.generate_code_v2(program(text=text)).device_code()
