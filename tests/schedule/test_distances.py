"""Distances of loop-carried conflicts: any barrier of an iteration in between is enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kgen as lp
from kgen.lowering import Lowered, generate_module, lower
from kgen.schedule.separation import find_unsynchronized
from tests.mutation.mutants import without_barriers
from tests.random.compiled import allocate
from tests.random.device import Device
from tests.reference import to_array, to_memory

N = 8


def buffered(write: str, read: str, loop: str = "0 <= k < n", condition: str = "") -> Any:
    """Return a kernel that fills parts of a tile in a loop, and reads it in another order."""
    knl = lp.make_kernel(
        f"{{[k, l, m]: 0 <= l, m < {N} and {loop}}}",
        f"""
        t[{write}, l] = a[k, l] {{id=write{condition}}}
        out[k, m] = t[{read}, {N - 1} - m] {{id=read, dep=write{condition}}}
        """,
        [
            lp.GlobalArg("a,out", np.float32, shape=f"n, {N}"),
            lp.TemporaryVariable(
                "t", np.float32, shape=(4, N), address_space=lp.AddressSpace.LOCAL
            ),
            ...,
        ],
        target=lp.CudaTarget(),
        assumptions="n >= 1",
    )
    return lp.tag_inames(knl, "l:l.0, m:l.0").default_entrypoint


def check(lowered: Lowered, n: int) -> None:
    """Run with work-items in both orders."""
    module = generate_module(lowered.kernel)
    arrays = allocate(module, {"n": n}, {}, n)
    for reverse in (False, True):
        memory = {name: to_memory(array) for name, array in arrays.items()}
        Device(lowered.kernel, {"n": n}, reverse=reverse).run(
            lowered.host, lowered.functions, memory
        )
        out, a = (to_array(memory[name], arrays[name]) for name in ("out", "a"))
        touched = np.any(out != arrays["out"], axis=1)
        assert np.array_equal(out[touched], a[touched, ::-1])


@pytest.mark.parametrize(
    ("part", "loop", "condition", "count"),
    [
        ("0", "0 <= k < n", "", 2),
        ("k % 2", "0 <= k < n", "", 1),
        ("k % 3", "0 <= k < n", "", 1),
        ("k // 2 % 2", "0 <= k < n", "", 2),
        ("k % 2", "0 <= k < n and k mod 2 = 0", "", 2),
        ("k % 4", "0 <= k < n and k mod 2 = 0", "", 1),
        ("k % 2", "0 <= k < n", ", if=k % 2 == 0", 2),
        ("k % 2", "0 <= k < n", ", if=k > 2", 1),
        ("(k + 1) % 2", "0 <= k < n", "", 1),
    ],
)
def test_the_next_use_of_a_buffer_decides(part: str, loop: str, condition: str, count: int) -> None:
    lowered = lower(buffered(part, part, loop, condition))
    assert str(lowered.schedule).count("barrier warp") == count
    for n in (1, 2, 5, 8):
        check(lowered, n)
    assert not list(find_unsynchronized(lowered.kernel, lowered.schedule))
    for reason, schedule in without_barriers(lowered.schedule):
        assert list(find_unsynchronized(lowered.kernel, schedule)), reason


@pytest.mark.parametrize(("part", "count"), [("0", 2), ("k % 2", 2), ("(k + j) % 2", 2)])
def test_a_loop_around_has_a_barrier_of_its_own(part: str, count: int) -> None:
    knl = lp.make_kernel(
        f"{{[j, k, l, m]: 0 <= l, m < {N} and 0 <= j, k < n}}",
        f"""
        t[{part}, l] = a[j, k, l] {{id=write}}
        out[j, k, m] = t[{part}, {N - 1} - m] {{dep=write}}
        """,
        [
            lp.GlobalArg("a,out", np.float32, shape=f"n, n, {N}"),
            lp.TemporaryVariable(
                "t", np.float32, shape=(2, N), address_space=lp.AddressSpace.LOCAL
            ),
            ...,
        ],
        target=lp.CudaTarget(),
        assumptions="n >= 1",
    )
    knl = lp.prioritize_loops(lp.tag_inames(knl, "l:l.0, m:l.0"), "j,k")
    lowered = lower(knl.default_entrypoint)
    assert str(lowered.schedule).count("barrier warp") == count
    for reason, schedule in without_barriers(lowered.schedule):
        assert list(find_unsynchronized(lowered.kernel, schedule)), reason
