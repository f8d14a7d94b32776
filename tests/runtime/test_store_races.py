"""Threads store what their work-groups store, and nothing else, whatever the compiler merges."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import pytest

import kgen as lp

PAGE = mmap.PAGESIZE
NO_ACCESS = 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_elements_between_those_of_two_threads_are_left_alone() -> None:
    # gcc stored out[2] back: had there been a third iteration, it would have set it
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 2 }",
        ["out[i, 0] = 3", "out[i + 3, 0] = 3"],
        [lp.GlobalArg("out", np.int32, shape=(5, PAGE // 4))],
        target=lp.ExecutableCTarget(threads=2),
    )
    knl = lp.tag_inames(knl, "i:g.0")
    memory = mmap.mmap(-1, 5 * PAGE)
    out = np.frombuffer(memory, np.int32).reshape(5, -1)
    knl(out=out)
    assert out[:, 0].tolist() == [3, 3, 0, 3, 3]
    child = os.fork()
    if not child:
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(out[2].ctypes.data), PAGE, NO_ACCESS)
        knl(out=out)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_groups_whose_stores_interleave() -> None:
    knl = lp.make_kernel(
        "{ [i, u]: 0 <= i < 3 and 0 <= u < 4 }",
        ["out[i, u] = 3", "out[i + 3, u] = 3"],
        [lp.GlobalArg("out", np.int32, shape=(6, 5))],
        target=lp.ExecutableCTarget(threads=3),
    )
    launch = lp.tag_inames(knl, "i:g.0").executor()
    for _ in range(3000):
        _, (out,) = launch(out=np.zeros((6, 5), np.int32))
        assert (out[:, :4] == 3).all()
