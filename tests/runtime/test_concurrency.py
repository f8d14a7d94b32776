"""Launches from several threads and processes at once, and from parallel regions of the caller."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgen as lp

A = np.random.default_rng(0).random(1000)

#: Sets ``mine``, and waits until ``other`` is set, or for some seconds.
_MEET = """
__atomic_store_n(&mine[0], 1, __ATOMIC_SEQ_CST);
for (long k = 0; k < 10000000000 && !__atomic_load_n(&other[0], __ATOMIC_SEQ_CST); ++k);
met[i] = __atomic_load_n(&other[0], __ATOMIC_SEQ_CST);
"""


def meeting() -> Any:
    """Return a kernel that waits for another thread, and says whether that came."""
    meet = lp.CInstruction("i", _MEET, read_variables="other", assignees=("mine[0]", "met[i]"))
    names = lp.GlobalArg("mine, other, met", np.int32, shape=1)
    return lp.make_kernel("{ [i]: i = 0 }", [meet], [names], target=lp.ExecutableCTarget())


def waiting(n: int) -> Any:
    """Return a kernel of *n* work-groups that wait for another thread."""
    wait = lp.CInstruction(
        "i",
        "__atomic_store_n(&mine[i], 1, __ATOMIC_SEQ_CST);"
        "while (!__atomic_load_n(&other[0], __ATOMIC_SEQ_CST));",
        read_variables="other",
        assignees="mine[i]",
    )
    names = [lp.GlobalArg("mine", np.int32, shape=n), lp.GlobalArg("other", np.int32, shape=1)]
    knl = lp.make_kernel(f"{{ [i]: 0 <= i < {n} }}", [wait], names, target=lp.ExecutableCTarget())
    return lp.tag_inames(knl, "i:g.0")


def team_of(threads: int) -> Any:
    """Return a kernel that says how many threads run its work-groups."""
    count = "extern int omp_get_num_threads(void); team[i] = omp_get_num_threads();"
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < 9 }",
        [lp.CInstruction("i", count, assignees="team[i]")],
        [lp.GlobalArg("team", np.int32, shape=9)],
        target=lp.ExecutableCTarget(threads=threads),
    )
    return lp.tag_inames(knl, "i:g.0")


def flags() -> tuple[np.ndarray[Any, Any], ...]:
    return tuple(np.zeros(1, np.int32) for _ in range(3))


def blocks(code: str, *args: Any, threads: int | None = None, **more: Any) -> Any:
    """Return a kernel over ``i`` in work-groups of 16 work-items."""
    target = lp.ExecutableCTarget(threads=threads)
    knl = lp.make_kernel("{ [i]: 0 <= i < n }", code, [*args, "..."], target=target, **more)
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_other_threads_run_python_during_a_launch() -> None:
    knl, (mine, other, met) = meeting(), flags()
    with ThreadPoolExecutor(1) as pool:
        launch = pool.submit(knl, mine=mine, other=other, met=met)
        while not mine[0] and not launch.done():
            pass
        other[0] = 1
        launch.result()
    assert met[0] == 1


def test_launches_of_several_threads_run_at_once() -> None:
    knl, (one, other, met) = meeting(), flags()
    missed = np.zeros(1, np.int32)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(knl, mine=one, other=other, met=met)
        pool.submit(knl, mine=other, other=one, met=missed)
    assert (met[0], missed[0]) == (1, 1)


def test_launches_at_once_share_the_threads() -> None:
    team, knl = team_of(4), waiting(3)
    mine, other = np.zeros(3, np.int32), np.zeros(1, np.int32)
    assert (team()[1][0] == 4).all()
    with ThreadPoolExecutor(3) as pool:
        launches = [pool.submit(knl, mine=part, other=other) for part in (mine, mine.copy())]
        while not mine[0] and not launches[0].done():
            pass
        found = [team()[1][0] for _ in range(3)]
        other[0] = 1
    assert all((each <= 2).all() for each in found)
    assert (team()[1][0] == 4).all()


def test_threads_that_call_a_new_kernel_at_once() -> None:
    code = """
    t[i] = a[i] + k          {id=first}
    ... gbarrier             {id=wait, dep=first}
    out[i] = t[n - 1 - i]    {dep=wait}
    """
    data = lp.TemporaryVariable("t", shape="n", address_space=lp.AddressSpace.GLOBAL)
    knl = blocks(code, lp.GlobalArg("a, out", shape="n"), data)
    start = threading.Barrier(6)

    def call(k: int) -> list[Any]:
        start.wait()
        return [knl(a=A, k=float(k + turn))[1][0] for turn in range(20)]

    with ThreadPoolExecutor(6) as pool:
        for k, found in enumerate(pool.map(call, range(6))):
            for turn, out in enumerate(found):
                np.testing.assert_array_equal(out, A[::-1] + (k + turn))


def test_threads_that_end_leave_others_their_own() -> None:
    knl = blocks("out[i] = a[i] + k", threads=3)
    results: dict[int, Any] = {}
    for k in range(20):
        thread = threading.Thread(target=lambda k=k: results.update({k: knl(a=A, k=float(k))}))
        thread.start()
        thread.join()
    for k, (_, (out,)) in results.items():
        np.testing.assert_array_equal(out, A + k)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_process_forked_during_a_launch() -> None:
    knl, (mine, other, met) = meeting(), flags()
    sums = blocks("out[i] = 2*a[i]", threads=2)
    sums(a=A)
    with ThreadPoolExecutor(1) as pool:
        launch = pool.submit(knl, mine=mine, other=other, met=met)
        while not mine[0] and not launch.done():
            pass
        child = os.fork()
        if not child:
            signal.alarm(30)  # where it hangs
            os._exit(0 if (sums(a=A)[1][0] == 2 * A).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
        other[0] = 1
    assert met[0] == 1


_CALLER = """
void call(int const calls, int const n, double const *a, double *out, int *team)
{
  #pragma omp parallel for num_threads(3)
  for (int k = 0; k < calls; ++k)
    nested(n, a, out + k * n, team + k * n);
}
"""


@pytest.mark.parametrize("threads", [None, 4])
def test_calls_in_a_parallel_region_start_no_more_threads(
    threads: int | None, tmp_path: Path
) -> None:
    count = "extern int omp_get_num_threads(void); team[i] = omp_get_num_threads();"
    names = "n", "a", "out", "team"
    data = [lp.ValueArg("n", np.int32), lp.GlobalArg("a, out", np.float64, shape="n")]
    knl = lp.make_kernel(
        "{ [i]: 0 <= i < n }",
        [lp.CInstruction("i", count, assignees="team[i]"), "out[i] = 2*a[i]"],
        [*data, lp.GlobalArg("team", np.int32, shape="n")],
        target=lp.CTarget(threads=threads),
        name="nested",
    )
    code = lp.generate_code_v2(lp.tag_inames(knl, "i:g.0"))
    assert [arg.name for arg in knl.default_entrypoint.args] == list(names)
    source, library = tmp_path / "nested.c", tmp_path / "nested.so"
    source.write_text(f"{code}\n{_CALLER}")
    flags = ["-std=gnu11", "-O2", "-fopenmp", "-fPIC", "-shared"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    a, out, team = A[:50].copy(), np.zeros((9, 50)), np.zeros((9, 50), np.int32)
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (a, out, team)]
    ctypes.CDLL(str(library)).call(9, 50, *addresses)
    np.testing.assert_array_equal(out, np.tile(2 * a, (9, 1)))
    assert (team == 1).all()
