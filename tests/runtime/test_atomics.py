"""Updates in one step by many work-items: every type, every operator, every target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp
from tests.targets.support import compile_cuda, merge_sources

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REALS = ("float32", "float64")
N, SLOTS = 1000, 20

ARITHMETIC = {
    "add": "add[i % 20] + a[i]",
    "sub": "sub[i % 20] - a[i]",
    "mul": "mul[i % 20] * s[i]",
    "low": "min(low[i % 20], a[i])",
    "top": "max(a[i], top[i % 20])",
    "late": "if(a[i] > late[i % 20], a[i], late[i % 20])",
}
BITS = {"band": "band[i % 20] & a[i]", "bor": "bor[i % 20] | a[i]", "flip": "a[i] ^ flip[i % 20]"}


def updates(dtype: str, target: Any) -> Any:
    """Return a kernel whose work-items share the elements of many arrays."""
    exprs = ARITHMETIC | (BITS if dtype in INTEGERS else {})
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        [f"{name}[i % 20] = {expr} {{atomic}}" for name, expr in exprs.items()],
        [
            *(lp.GlobalArg(name, dtype, shape=(SLOTS,), for_atomic=True) for name in exprs),
            lp.GlobalArg("a, s", dtype, shape="n"),
            "...",
        ],
        name=f"update_{dtype}",
        target=target,
    )
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def numbers(dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    a = rng.integers(0, 100, N).astype(dtype)
    s = np.ones(N, dtype)
    s[::7] = 2 if dtype in INTEGERS else -1
    names = [*ARITHMETIC, *(BITS if dtype in INTEGERS else ())]
    start = {name: np.full(SLOTS, 3, dtype) for name in names}
    return {"a": a, "s": s, **start}


def expected(name: str, given: dict[str, Any]) -> Any:
    functions = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "low": np.minimum,
        "top": np.maximum,
        "late": np.maximum,
        "band": np.bitwise_and,
        "bor": np.bitwise_or,
        "flip": np.bitwise_xor,
    }
    result = given[name].copy()
    functions[name].at(result, np.arange(N) % SLOTS, given["s" if name == "mul" else "a"])
    return result


def check(knl: Any, dtype: str, *queue: Any) -> None:
    given = numbers(dtype)
    arrays = {name: value.copy() for name, value in given.items()}
    knl(*queue, **arrays)
    for name in given:
        if name not in ("a", "s"):
            np.testing.assert_array_equal(arrays[name], expected(name, given), err_msg=name)


@pytest.mark.parametrize("dtype", INTEGERS + REALS)
def test_host(dtype: str) -> None:
    check(updates(dtype, lp.ExecutableCTarget()), dtype)


@pytest.mark.parametrize("dtype", INTEGERS + REALS)
def test_opencl(dtype: str, opencl_queue: Any) -> None:
    check(updates(dtype, lp.PyOpenCLTarget()), dtype, opencl_queue)


@pytest.mark.parametrize("dtype", INTEGERS + REALS)
@pytest.mark.usefixtures("cuda_context")
def test_cuda(dtype: str) -> None:
    check(updates(dtype, lp.PyCudaTarget()), dtype)


def test_cuda_compiles(nvcc: str, tmp_path: Path) -> None:
    sources = []
    for dtype in INTEGERS + REALS:
        knl = updates(dtype, lp.CudaTarget())
        sources.append(lp.generate_code_v2(knl).device_code())
    compile_cuda(merge_sources(sources), tmp_path, nvcc)


def histogram(dtype: str, target: Any, declare: str = "") -> Any:
    """Count in local memory, one table for a group, then add the tables up."""
    knl = lp.make_kernel(
        "{ [g, l, k, b, c]: 0 <= g < 8 and 0 <= l < 64 and 0 <= k < 16 "
        "and 0 <= b < nbins and 0 <= c < nbins }",
        """
        table[b] = 0 {id=clear, inames=g:b, atomic=init}
        table[bin[g, k, l]] += weight[g, k, l] {id=count, dep=clear, atomic}
        out[c] += table[c] {dep=count, inames=g:c, atomic}
        """,
        [
            lp.GlobalArg("bin", "int32", shape=(8, 16, 64)),
            lp.GlobalArg("weight", dtype, shape=(8, 16, 64)),
            lp.GlobalArg("out", dtype, shape=(32,), for_atomic=True),
            lp.TemporaryVariable(
                "table", dtype, shape=(32,), address_space=lp.AddressSpace.LOCAL, for_atomic=True
            ),
            "...",
        ],
        target=target,
    )
    knl = lp.fix_parameters(knl, nbins=32)
    knl = lp.split_iname(knl, "b", 64, inner_tag="l.0")
    knl = lp.split_iname(knl, "c", 64, inner_tag="l.0")
    return lp.tag_inames(knl, "g:g.0,l:l.0")


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_histogram_in_local_memory(dtype: str, device: Any) -> None:
    knl = histogram(dtype, lp.PyOpenCLTarget())
    rng = np.random.default_rng(3)
    bins = rng.integers(0, 32, (8, 16, 64)).astype(np.int32)
    weight = rng.integers(0, 9, bins.shape).astype(dtype)
    out = np.zeros(32, dtype)
    device(knl, bin=bins, weight=weight, out=out)
    wanted = np.bincount(bins.ravel(), weight.ravel(), minlength=32)
    np.testing.assert_array_equal(out, wanted.astype(dtype))


def test_local_updates_wait_for_each_other_only_around(opencl_queue: Any) -> None:
    code = lp.generate_code_v2(histogram("int32", lp.PyOpenCLTarget())).device_code()
    assert code.count("barrier(") == 2  # clear | count | read
    assert "atomic_add(&table[bin[" in code


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_the_example_of_the_tutorial(dtype: str, device: Any) -> None:
    knl = lp.make_kernel(
        "{ [i]: 0<=i<n }",
        "out[i%20] = out[i%20] + 2*a[i] {atomic}",
        [
            lp.GlobalArg("out", dtype, shape=lp.auto, for_atomic=True),
            lp.GlobalArg("a", dtype, shape=lp.auto),
            "...",
        ],
        assumptions="n>0",
    )
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    a, out = np.arange(1000).astype(dtype), np.zeros(20, dtype)
    device(knl, a=a, out=out)
    np.testing.assert_array_equal(out, 2 * a.reshape(50, 20).sum(axis=0))
