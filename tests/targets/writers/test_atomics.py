"""What atomic instructions become, on each target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.errors import CodegenError, MissingBarrierError
from tests.targets.support import body_of


def unit(instructions: Any, dtype: Any, target: Any, **options: Any) -> Any:
    return lp.make_kernel(
        "{ [i]: 0 <= i < 100 }",
        instructions,
        [
            lp.GlobalArg("x", dtype, shape=(7,), for_atomic=True),
            lp.GlobalArg("a", dtype, shape=(100,)),
            ...,
        ],
        target=target,
        **options,
    )


def lines(instructions: Any, dtype: Any, target: Any) -> list[str]:
    """Return the statements of the loop's body, without what surrounds them."""
    knl = lp.tag_inames(unit(instructions, dtype, target), "i:g.0")
    return [line.strip() for line in body_of(lp.generate_code_v2(knl).device_code())]


CUDA, OPENCL, C = lp.CudaTarget(), lp.OpenCLTarget(), lp.CTarget()


@pytest.mark.parametrize(
    ("expr", "dtype", "target", "text"),
    [
        ("x[i % 7] + a[i]", "float64", CUDA, "atomicAdd(&x[gid(x) % 7], a[gid(x)]);"),
        ("x[i % 7] - a[i]", "uint32", CUDA, "atomicAdd(&x[gid(x) % 7], -(a[gid(x)]));"),
        (
            "x[i % 7] | a[i]",
            "int64",
            CUDA,
            "atomicOr((unsigned long long *) &x[gid(x) % 7], a[gid(x)]);",
        ),
        ("max(x[i % 7], 3)", "int32", CUDA, "atomicMax(&x[gid(x) % 7], 3);"),
        ("x[i % 7] + a[i] + 1", "int32", OPENCL, "atomic_add(&x[gid(0) % 7], a[gid(0)] + 1);"),
        ("x[i % 7] - i", "int64", OPENCL, "atom_sub(&x[gid(0) % 7], (long) gid(0));"),
        ("a[i] + x[i % 7]", "uint32", OPENCL, "atomic_add(&x[gid(0) % 7], a[gid(0)]);"),
    ],
)
def test_native_updates(expr: str, dtype: str, target: Any, text: str) -> None:
    assert lines(f"x[i % 7] = {expr} {{atomic}}", dtype, target) == [text]


def test_other_functions_of_the_old_value_are_exchanged() -> None:
    assert lines("x[i % 7] = a[i]/x[i % 7] {atomic}", "float32", CUDA) == [
        "{",
        "float *const x_at = &x[gid(x) % 7];",
        "float x_old = *(volatile float *) x_at;",
        "while (!kgen_exchange_float32(x_at, &x_old, a[gid(x)] / x_old))",
        ";",
        "}",
    ]


def test_what_is_cut_to_the_type_is_computed_before_it_is_cut() -> None:
    found = lines("x[i % 7] = x[i % 7] + 0.5*a[i] {atomic}", "int32", OPENCL)
    assert "&x_old, x_old + 0.5f * a[gid(0)])" in found[3]


def test_init_is_a_store() -> None:
    for option in ("atomic=init", "atomic"):
        (line,) = lines(f"x[i % 7] = a[i] {{{option}}}", "float32", OPENCL)
        assert line == "*(volatile __global float *) &x[gid(0) % 7] = a[gid(0)];"


@pytest.mark.parametrize(
    ("ordering", "before", "behind"),
    [("RELAXED", 0, 0), ("ACQUIRE", 0, 1), ("RELEASE", 1, 0), ("ACQ_REL", 1, 1), ("SEQ_CST", 1, 1)],
)
def test_orders_are_fences(ordering: str, before: int, behind: int) -> None:
    atomicity = (lp.AtomicUpdate("x", getattr(lp.MemoryOrdering, ordering)),)
    insn = lp.Assignment("x[0]", "x[0] + a[i]", atomicity=atomicity, within_inames=frozenset("i"))
    found = lines([insn], "int32", CUDA)
    fence = ["__threadfence();"]
    assert found == [*before * fence, "atomicAdd(&x[0], a[gid(x)]);", *behind * fence]


def test_scopes() -> None:
    def update(scope: int, target: Any) -> str:
        atomicity = (lp.AtomicUpdate("x", scope=scope),)
        insn = lp.Assignment("x[0]", "x[0] + 1", atomicity=atomicity, within_inames=frozenset("i"))
        return lines([insn], "int32", target)[0]

    assert update(lp.MemoryScope.WORK_GROUP, CUDA) == "atomicAdd_block(&x[0], 1);"
    assert update(lp.MemoryScope.WORK_DEVICE, CUDA) == "atomicAdd(&x[0], 1);"
    assert update(lp.MemoryScope.ALL_SVM_DEVICES, CUDA) == "atomicAdd_system(&x[0], 1);"
    with pytest.raises(CodegenError, match="atomic among all devices"):
        update(lp.MemoryScope.ALL_SVM_DEVICES, OPENCL)


def test_complex_numbers_are_added_part_by_part() -> None:
    found = lines("x[i % 7] = x[i % 7] + a[i] {atomic}", "complex64", CUDA)
    assert found[2:-1] == [
        f"atomicAdd(&((float *) &x[gid(x) % 7])[{part}], cuda::std::{name}(x_by));"
        for part, name in enumerate(("real", "imag"))
    ]
    with pytest.raises(CodegenError, match="complex numbers atomically"):
        lines("x[i % 7] = x[i % 7] * a[i] {atomic}", "complex64", CUDA)


def test_complex_sums(opencl_queue: Any) -> None:
    a = np.arange(100) * (1 - 2j)
    for dtype in ("complex64", "complex128"):
        for target, queue in ((lp.ExecutableCTarget(), ()), (lp.PyOpenCLTarget(), (opencl_queue,))):
            x = np.zeros(7, dtype)
            knl = unit("x[i % 7] = x[i % 7] - a[i] {atomic}", dtype, target)
            lp.tag_inames(knl, "i:g.0")(*queue, x=x, a=a.astype(dtype))
            assert x.sum() == -a.sum()


def test_bits_are_compared_not_numbers(device: Any) -> None:
    a = np.zeros(100, np.float32)
    x = np.array([np.nan, -0.0, 1, 1, 1, 1, 1], np.float32)
    knl = unit("x[i % 7] = 1/x[i % 7] {atomic}", "float32", lp.PyOpenCLTarget())
    device(lp.tag_inames(knl, "i:g.0"), x=x, a=a)  # comparing numbers, this would not end
    assert np.isnan(x[0])
    assert np.signbit(x[1])


def test_updates_race_with_everything_but_updates() -> None:
    def make(*instructions: str) -> str:
        knl = lp.tag_inames(unit(list(instructions), "int32", OPENCL), "i:g.0")
        return lp.generate_code_v2(knl).device_code()

    update = "x[i % 7] = x[i % 7] + 1 {id=first, atomic}"
    assert make(update, "x[i % 5] = x[i % 5] + 2 {dep=first, atomic}").count("atomic_add") == 2
    for other in ("x[i % 5] = 2 {dep=first, atomic=init}", "a[i] = x[0] {dep=first}"):
        with pytest.raises(MissingBarrierError, match="for variable 'x'"):
            make(update, other)
    with pytest.raises(MissingBarrierError, match="for variable 'x'"):
        make(update, "x[0] = x[0] + x[i % 5] {dep=first, atomic}")


def test_private_memory_needs_no_atomics() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 100 }",
        ["<float32> t = 0 {id=t}", "t = t + 1 {id=u, dep=t, atomic}", "out[i] = t {dep=u}"],
        target=CUDA,
    )
    assert "atomic" not in lp.generate_code_v2(lp.tag_inames(knl, "i:g.0")).device_code()
